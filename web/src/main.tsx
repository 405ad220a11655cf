import { render } from 'preact'
import { App } from './app'
import { keepToken } from './api'
import { pressed } from './keys'
import { S, onChange, set, start } from './store'

const root = document.getElementById('app')!
// Nothing is drawn of what is replaced at once.
const soon = 250
onChange(() => (S.phase !== 'loading' || performance.now() > soon) && render(<App />, root))
setTimeout(() => set({}), soon + 10)
addEventListener('keydown', pressed)
setInterval(() => S.phase === 'ready' && !document.hidden && set({}), 30_000) // how long ago things were
start()
keepToken()
