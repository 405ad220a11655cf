// How the page asks its server. The token comes in the fragment of the address, and leaves it as soon as
// the first request is under way.
import type { ServerEvent } from './types'

let token = location.hash.slice(1)

// A page that is loaded again has no fragment any more: the tab keeps the token, and nothing else.
try {
  token ||= sessionStorage.getItem('token') ?? ''
} catch { /* it may not store: then each load needs the whole address */ }

// keepToken takes the token out of the address. It takes some milliseconds, so it comes behind the first request.
export function keepToken() {
  if (location.hash) history.replaceState(null, '', location.pathname)
  try {
    if (token) sessionStorage.setItem('token', token)
  } catch { /* as above */ }
}

export const hasToken = () => token !== ''

// forget is for a token of a server that has ended.
function forget() {
  token = ''
  try { sessionStorage.removeItem('token') } catch { /* there is none */ }
}

export class Failure extends Error {
  constructor(readonly code: string, message: string, readonly hint = '', readonly data: unknown = null) { super(message) }
}

const gone = () => new Failure('gone', 'snapctl timeline does not answer: it was ended, or the connection is cut')

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let r: Response
  try {
    r = await fetch(path, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } })
  } catch (e) {
    if (e instanceof DOMException && e.name === 'AbortError') throw e
    throw gone()
  }
  if (r.ok) return r
  if (r.status === 401) forget()
  const error = (await r.json().catch(() => null))?.error
  throw new Failure(error?.code ?? 'internal', error?.message ?? `the server answers with ${r.status}`, error?.hint, error?.data)
}

let answers: Promise<Map<string, unknown>> | undefined
const keyOf = (path: string, args: unknown) => path + JSON.stringify(args)

// askAhead has the server answer at once what a page asks first. What it has answered is taken from there, once,
// as long as the page begins.
export function askAhead(begins: Promise<void>) {
  answers = request('/v1/ahead').then(r => r.json()).then(
    (a: { answers: { path: string; args: unknown; answer: unknown }[] }) => new Map(a.answers.map(x => [keyOf(x.path, x.args), x.answer])),
    () => new Map()) // who asks again is told what is wrong
  begins.then(() => { answers = undefined })
}

async function ahead<T>(path: string, args: unknown): Promise<T | undefined> {
  const known = await answers
  const key = keyOf(path, args)
  const answer = known?.get(key)
  known?.delete(key)
  return answer as T | undefined
}

export const get = async <T>(path: string, args: Record<string, string> = {}): Promise<T> =>
  await ahead<T>(path, args) ?? (await request(`${path}?${new URLSearchParams(args)}`)).json()

export const post = async <T>(path: string, body: unknown): Promise<T> =>
  await ahead<T>(path, body) ?? (await request(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json()

export const content = async (cwd: string, id: string): Promise<Uint8Array<ArrayBuffer>> => {
  const text = await ahead<string>('/v1/content', { cwd, id })
  return text !== undefined ? new TextEncoder().encode(text)
    : new Uint8Array(await (await request(`/v1/content?${new URLSearchParams({ cwd, id })}`)).arrayBuffer())
}

// archive returns the files as they were at a revision, as tar has them.
export const archive = async (cwd: string, session: string, rev: string): Promise<Blob> =>
  (await request(`/v1/archive?${new URLSearchParams({ cwd, session, rev })}`)).blob()

// seen waits until somebody can see the page.
const seen = () => new Promise<void>(done => {
  const look = () => {
    if (document.hidden) return
    document.removeEventListener('visibilitychange', look)
    done()
  }
  document.addEventListener('visibilitychange', look)
  look()
})

// follow reads the stream of events for ever, and goes on where it was cut off. An event is given
// to each; up says whether the server answers. A page that nobody sees reads none: a browser has six
// connections to a server, and with one for each of six tabs the seventh would never be loaded.
export async function follow(each: (e: ServerEvent) => void, up: (is: boolean, e?: Failure) => void) {
  let run = '', n = 0
  for (let wait = 250; ; wait = Math.min(wait * 2, 4000)) {
    await seen()
    const stop = new AbortController()
    const hide = () => document.hidden && stop.abort()
    document.addEventListener('visibilitychange', hide)
    try {
      const r = await request(`/v1/events?run=${run}&since=${n}`, { signal: stop.signal })
      up(true)
      wait = 250
      const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        // The server says something each 10 s: a connection that is silent for longer is dead.
        const timer = setTimeout(() => stop.abort(), 30_000)
        const { value, done } = await reader.read()
        clearTimeout(timer)
        if (done) break
        const lines = (rest + value).split('\n')
        rest = lines.pop()!
        for (const line of lines) {
          if (!line) continue
          const e: ServerEvent = JSON.parse(line)
          if (e.type === 'hello') run = e.run!
          n = e.n
          each(e)
        }
      }
    } catch (e) {
      if (e instanceof Failure && e.code === 'unauthorized') return up(false, e)
    } finally { document.removeEventListener('visibilitychange', hide) }
    if (document.hidden) continue
    up(false)
    await new Promise(done => setTimeout(done, wait))
  }
}
