import { render } from 'preact'
import { App } from './app'
import { pressed } from './keys'
import { S, onChange, set, start } from './store'

const root = document.getElementById('app')!
onChange(() => render(<App />, root))
set({})
addEventListener('keydown', pressed)
setInterval(() => S.phase === 'ready' && !document.hidden && set({}), 30_000) // how long ago things were
start()
