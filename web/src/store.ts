// What the page knows and does. There is one state; whoever changes it has all drawn again.
import { Failure, archive, askAhead, content, follow, get, hasToken, post } from './api'
import { fromUnified, layOut, splitLines, type Piece, type Row } from './diff'
import { rails, type Rail } from './graph'
import type { BlameOwner, BlameRange, FileChange, Found, Hunk, Moment, OpenTurn, Page, Restored, ServerEvent, SessionList, SessionRow } from './types'

export interface FilesOf { key: string; list: FileChange[]; error?: Failure; loading: boolean; took?: number }

export interface DiffOf {
  key: string; path: string; loading: boolean; error?: Failure
  changes: FileChange[]; pieces: Piece[]; hunks: Hunk[]; images?: (string | null)[]; note?: string
  moved?: Row[] // of a file that was moved: what of it has changed, as the engine says
}

// Blame is whose the lines of a file are, as the turn has left it.
export interface Blame { key: string; of: BlameOwner[]; lines: number[]; error?: string } // of each line: a number in of

// Picks are what is marked of a turn: all of it, files, or hunks.
// A file that was moved is picked with where it was.
export interface Picks { turn: string; all: boolean; files: Set<string>; from: Map<string, string>; hunks: Map<string, string> }

export interface Ask { verb: 'revert' | 'restore' | 'undo' | 'redo'; args: Record<string, unknown>; what: string }

export interface Preview { ask: Ask; answer?: Restored; error?: Failure; busy: boolean; waits?: boolean; changed?: boolean; onConflict: string; ends?: OpenTurn }

// Versions are what has changed a file, the oldest first, and what it was called at each.
export interface Versions { path: string; rows: Moment[]; paths: Map<string, string>; loading: boolean }

export interface Toast { text: string; lines: string[]; back?: 'undo' | 'redo'; isBad?: boolean; n: number }

export interface State {
  phase: 'loading' | 'ready' | 'token' | 'error'
  error?: Failure
  isUp: boolean
  page?: Page
  root: string
  sessions: SessionRow[]
  session: string
  sessionRoot: string
  open: OpenTurn[]
  undoSeq: number
  redoSeq: number
  rows: Moment[]
  cursor?: string
  isAll: boolean
  query: string
  found?: { text: string; list: Found[]; loading: boolean; notAll?: string; error?: Failure }
  foundAt: number
  at: string // key of the row that is chosen
  files: FilesOf
  path: string
  folded: Set<string> // directories of the tree
  diff: DiffOf
  hunk: number
  isSplit: boolean
  isBlamed: boolean
  blame?: Blame
  unfolded: Set<string>
  picks: Map<string, Picks>
  reviewed: Set<string>
  counts: Map<string, { files: number; added: number; deleted: number; contested: number; more: boolean; isOld?: true } | null> // null: not known
  left: Map<string, number> // of a coverage: how many paths were left out
  versions?: Versions
  preview?: Preview
  dialog: '' | 'help' | 'restores' | 'label' | 'name' | 'left'
  leftOut?: { path: string; reason: string }[]
  toast?: Toast
  said: string // for the live region
  pane: 'turns' | 'files' | 'diff' // of a narrow page
}

const nothing: DiffOf = { key: '', path: '', loading: false, changes: [], pieces: [], hunks: [] }

export const S: State = {
  phase: 'loading', isUp: true, root: '', sessions: [], session: '', sessionRoot: '', open: [], undoSeq: 0, redoSeq: 0,
  rows: [], isAll: false, query: '', at: '', files: { key: '', list: [], loading: false }, path: '', folded: new Set(),
  diff: nothing, hunk: -1, isSplit: innerWidth > 1700, isBlamed: false, foundAt: 0, unfolded: new Set(), picks: new Map(), reviewed: new Set(),
  counts: new Map(), left: new Map(), dialog: '', said: '', pane: 'turns',
}

let draw = () => {}
let isDrawn = true
export const onChange = (fn: () => void) => { draw = fn }
export function set(change: Partial<State>) {
  Object.assign(S, change)
  if (!isDrawn) return
  isDrawn = false
  queueMicrotask(() => { isDrawn = true; draw() })
}

const failureOf = (e: unknown) => e instanceof Failure ? e : new Failure('internal', String(e))
const of = () => ({ cwd: S.sessionRoot, sessionId: S.session, ownLog: true })
const verb = <T>(name: string, args: Record<string, unknown> = {}) => post<T>(`/v1/verbs/${name}`, { ...of(), ...args })

// keyOf names a row for as long as the page is there.
export const keyOf = (m: Moment) => `${m.snapshotSeq ?? 0}:${m.rev ?? m.treeHash}`

// turnOf is what the verbs call what a row did.
export const turnOf = (m: Moment) => m.turnIndex >= 0 && !m.goesOn && !m.forkedFrom ? `turn:${m.turnIndex}` : m.rev ?? ''

export const isTurn = (m: Moment) => m.turnIndex >= 0
export const canTakeBack = (m: Moment) => m.kind === 'step' && !m.pruned && !(m.takenBackSeq && !m.but?.length)

export const chosen = () => S.rows.find(m => keyOf(m) === S.at)

let shownOf: [Moment[], string, Moment[]] | undefined
// shown are the rows that the search leaves.
export function shown(): Moment[] {
  if (shownOf && shownOf[0] === S.rows && shownOf[1] === S.query) return shownOf[2]
  const q = S.query.trim().toLowerCase()
  const list = !q ? S.rows : S.rows.filter(m =>
    `${m.title ?? ''}\n${m.label ?? ''}\n${m.agent ?? ''}\n${m.model ?? ''}\nturn ${m.turnIndex}`.toLowerCase().includes(q))
  shownOf = [S.rows, S.query, list]
  return list
}

let railsOf: [Moment[], { rails: Rail[]; width: number }] | undefined
// graph is what stands beside all rows.
export function graph() {
  if (railsOf?.[0] !== S.rows) railsOf = [S.rows, rails(S.rows)]
  return railsOf[1]
}

// search sets what is searched for in prompts; what was found in contents goes.
export const search = (query: string) => set({ query, found: undefined })

// find looks for a text in all contents, by which turns it came and went, and shows the newest change of these.
export async function find(text: string) {
  if (!text.trim() || !S.session) return
  const list: Found[] = []
  const isStill = () => S.found?.text === text && S.query === text
  set({ found: { text, list, loading: true }, foundAt: 0 })
  try {
    for (let cursor: string | undefined = ''; cursor !== undefined && list.length < 1000;) {
      const a: { found: Found[]; nextCursor?: string; notAll?: string } = await verb('find', { text, ignoreCase: text === text.toLowerCase(), limit: 200, cursor })
      if (!isStill()) return
      if (list.length === 0 && a.found.length > 0) show(a.found[0])
      list.push(...a.found)
      cursor = a.nextCursor
      set({ found: { text, list, loading: cursor !== undefined, notAll: a.notAll }, said: `${list.length} changes found` })
    }
    if (isStill()) set({ found: { ...S.found!, loading: false } })
  } catch (e) {
    if (isStill()) set({ found: { text, list, loading: false, error: failureOf(e) } })
  }
}

// show goes to what was found.
export async function show(f: Found) {
  if (f.session !== S.session) await choose(f.session, S.sessionRoot)
  for (let i = 0; i < 100; i++) { // the rest of the rows comes page by page
    const m = S.rows.find(m => m.rev === f.rev && f.rev || m.entryId === f.entryId && f.entryId)
    if (m) {
      set({ path: f.path, pane: 'diff' })
      goTo = { at: keyOf(m), path: f.path, line: f.line }
      if (keyOf(m) === S.at) loadDiff()
      else select(keyOf(m))
      return
    }
    if (S.isAll) break
    await new Promise(done => setTimeout(done, 50))
  }
  toast('It is on another branch of the conversation, or was found by a session that is not listed', [], true)
}

// start begins with the page.
export async function start() {
  if (!hasToken()) return set({ phase: 'token' })
  askAhead(first)
  load()
  await first // the stream would be in its way
  follow(told, (isUp, e) => {
    if (e) return set({ phase: 'token' })
    if (isUp !== S.isUp) set({ isUp, said: isUp ? 'connected again' : 'the engine is gone' })
  })
}

let loading: Promise<void> | undefined
// load reads projects and sessions, and what is chosen.
const load = () => loading ??= loadAll().finally(() => { loading = undefined })

async function loadAll() {
  try {
    const page = await get<Page>('/v1/projects')
    const root = page.projects.some(p => p.root === S.root) ? S.root : page.projects[0]?.root ?? ''
    set({ page, root })
    if (root) await loadSessions(root)
    set({ phase: 'ready' })
    if (!S.files.loading && !S.path) seenFirst() // there is none
  } catch (e) {
    const error = failureOf(e)
    if (error.code !== 'gone') set({ phase: error.code === 'unauthorized' ? 'token' : 'error', error })
  }
}

let heard = 0 // how often the stream has said which turns are open

export async function loadSessions(root: string) {
  const was = heard
  const list = await get<SessionList>('/v1/sessions', { cwd: root })
  const sessions = list.sessions
  const same = sessions.find(s => s.session === S.session && s.root === S.sessionRoot)
  const first = same ?? sessions.find(s => s.root === root) ?? sessions[0]
  set({ root, sessions, ...(was === heard ? { open: list.open } : {}) })
  if (first) await choose(first.session, first.root)
  else set({ session: '', sessionRoot: root, rows: [], isAll: true, at: '' })
}

// choose shows a session.
export async function choose(session: string, root: string) {
  const isOther = session !== S.session || root !== S.sessionRoot
  if (isOther) set({ session, sessionRoot: root, rows: [], isAll: false, at: '', picks: new Map(), counts: new Map(), files: { key: '', list: [], loading: false }, path: '', diff: nothing, versions: undefined, blame: undefined })
  await Promise.all([refresh(), loadLists()])
  if (isOther) first.then(loadReviewed)
}

let listed = 0
async function loadLists() {
  const number = ++listed, was = heard
  const list = await get<SessionList>('/v1/sessions', { cwd: S.sessionRoot, session: S.session })
  if (number !== listed) return // a later answer knows more
  set({ undoSeq: list.undoSeq ?? 0, redoSeq: list.redoSeq ?? 0, sessions: S.page?.all ? S.sessions : list.sessions, ...(was === heard ? { open: list.open } : {}) })
}

const pageSize = 200
// pageAfter is how many rows are asked for at once when some are there: as many again. The engine walks
// from the newest to each page, so with pages of one size the work would grow with the square.
const pageAfter = (rows: Moment[]) => Math.min(Math.max(pageSize, rows.length), 2000)
let asked = 0

// refresh reads the newest rows, and keeps those that were read before: they may have been taken
// back since.
async function refresh() {
  const number = ++asked
  const list = await verb<{ snapshots: Moment[]; nextCursor?: string }>('get_snapshots', { newestFirst: true, branches: true, limit: pageSize })
  if (number !== asked) return
  const rows = list.snapshots
  const wasAtTop = S.at === '' || S.rows.length === 0
  const wasPruned = chosen()?.pruned
  const old = rows.length > 0 && S.rows.length > rows.length ? tail(rows) : []
  set({ rows: [...rows, ...old], isAll: !list.nextCursor || old.length > 0 && S.isAll, cursor: String(rows.length + old.length) })
  if (wasAtTop && rows.length > 0) {
    select(keyOf(rows.find(canTakeBack) ?? rows[0]))
    // To draw all at once takes less than rows first, and the diff behind them.
    if (S.phase === 'loading') await Promise.race([isRead, new Promise(done => setTimeout(done, 100))])
  }
  else if (S.at && chosen()) chosen()!.pruned === wasPruned ? loadDiff() : loadFiles()
  if (!S.isAll) more()
}

let rereads = 0

// reread reads all rows again: what is on record of older ones is another. Newer ones that came in
// between stay, and are read once more at its end.
async function reread() {
  const number = ++rereads
  const session = `${S.session}\0${S.sessionRoot}`
  const isOld = () => number !== rereads || session !== `${S.session}\0${S.sessionRoot}`
  const rows: Moment[] = []
  let cursor: string | undefined = ''
  while (cursor !== undefined && (rows.length < S.rows.length || !rows.length)) {
    const list: { snapshots: Moment[]; nextCursor?: string } =
      await verb('get_snapshots', { newestFirst: true, branches: true, limit: pageAfter(rows), cursor })
    if (isOld()) return
    rows.push(...list.snapshots)
    cursor = list.nextCursor
  }
  const wasPruned = chosen()?.pruned
  const newer = rows.length > 0 ? S.rows.findIndex(m => keyOf(m) === keyOf(rows[0])) : 0
  if (newer > 0) rows.unshift(...S.rows.slice(0, newer))
  set({ rows, cursor: String(rows.length), isAll: cursor === undefined })
  for (const [key, c] of S.counts) { // what was counted is shown until it is counted again
    if (c) c.isOld = true
    else S.counts.delete(key)
  }
  if (chosen()?.pruned !== wasPruned) loadFiles()
  await refresh()
}

// tail returns rows that were read before and that are older than some.
function tail(rows: Moment[]): Moment[] {
  const last = keyOf(rows[rows.length - 1])
  const i = S.rows.findIndex(m => keyOf(m) === last)
  return i < 0 ? [] : S.rows.slice(i + 1)
}

let readFirst = () => {}
// isRead ends when there is a diff to be drawn, or none comes.
const isRead = new Promise<void>(done => { readFirst = done })

let isFirstSeen = false
let seenFirst = () => {}
// first ends when a diff is seen for the first time, or a second after the start: what is not seen yet
// is read behind it.
const first = new Promise<void>(done => { seenFirst = () => { isFirstSeen = true; done(); set({}) } })
setTimeout(() => isFirstSeen || seenFirst(), 1000)

// diffSeen is called with the frame that shows a diff.
export function diffSeen() {
  performance.mark('diff') // 'make web-bench' reads it
  if (!isFirstSeen) requestAnimationFrame(() => setTimeout(seenFirst, 50)) // the frame is still to be painted
}

// more reads the rest, page by page, when there is nothing else to do.
async function more() {
  const number = asked
  await first
  while (!S.isAll && number === asked) {
    await new Promise(done => 'requestIdleCallback' in window ? requestIdleCallback(done, { timeout: 300 }) : setTimeout(done, 50))
    if (number !== asked) return
    const list = await verb<{ snapshots: Moment[]; nextCursor?: string }>('get_snapshots', { newestFirst: true, branches: true, limit: pageAfter(S.rows), cursor: S.cursor })
    if (number !== asked) return
    const seen = new Set(S.rows.map(keyOf))
    set({ rows: [...S.rows, ...list.snapshots.filter(m => !seen.has(keyOf(m)))], cursor: list.nextCursor, isAll: !list.nextCursor })
  }
}

// select chooses a row.
export function select(key: string) {
  if (key === S.at) return
  set({ at: key, unfolded: new Set(), hunk: -1, ...(S.versions?.paths.has(key) ? { path: S.versions.paths.get(key)! } : {}) })
  clearTimeout(timer)
  if (!S.files.key) { loadFiles(); return }
  timer = setTimeout(() => loadFiles(), 30) as unknown as number // who holds a key down waits for none
}
let timer = 0

const isNoDir = (f: FileChange) => !(f.oldMode ?? '').startsWith('4') && !(f.newMode ?? '').startsWith('4')

async function loadFiles() {
  const m = chosen()
  if (!m) return
  const began = performance.now()
  const key = keyOf(m)
  if (m.kind === 'empty' || m.kind === 'start' || m.pruned) {
    readFirst()
    return set({ files: { key, list: [], loading: false }, path: '', diff: nothing, said: 'no files' })
  }
  set({ files: { key, list: S.files.key === key ? S.files.list : [], loading: true } })
  try {
    const list: FileChange[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const d: { files: FileChange[]; nextCursor?: string } =
        await verb('get_turn_diff', { rev: m.rev, detail: 'names', renames: true, limit: 10_000, cursor })
      list.push(...d.files.filter(isNoDir))
      cursor = d.nextCursor
    }
    if (S.at !== key) return
    const path = list.some(f => f.path === S.path) ? S.path : list[0]?.path ?? ''
    set({ files: { key, list, loading: false }, path, said: `${list.length} files` })
    requestAnimationFrame(() => performance.measure('files', { start: began })) // as above
    loadDiff().finally(() => { readFirst(); first.then(() => loadCounts(m, list)) })
  } catch (e) {
    readFirst()
    if (S.at === key) set({ files: { key, list: [], loading: false, error: failureOf(e) }, diff: nothing })
  }
}

// loadCounts counts the lines of a turn's files, some hundred at a time.
async function loadCounts(m: Moment, list: FileChange[]) {
  const key = keyOf(m)
  let cursor: string | undefined = ''
  for (let at = 0; cursor !== undefined && S.at === key && at < 2000;) {
    const d: { files: FileChange[]; nextCursor?: string } =
      await verb('get_turn_diff', { rev: m.rev, detail: 'counts', renames: true, limit: 200, cursor }).catch(() => ({ files: [] })) as never
    const known = new Map(list.map(f => [f.path + '\0' + f.piece, f]))
    for (const f of d.files) Object.assign(known.get(f.path + '\0' + f.piece) ?? {}, { added: f.added, deleted: f.deleted, binary: f.binary })
    cursor = d.nextCursor
    at += 200
    if (S.at === key) set({ files: { ...S.files } })
  }
}

const counting = new Set<string>()
// count finds out how many lines a row changed, once; in the list that is said when it is known.
export function count(m: Moment) {
  const key = keyOf(m)
  if (!isFirstSeen || S.counts.has(key) && !S.counts.get(key)?.isOld || counting.has(key) || counting.size > 3 || !m.rev || m.pruned || m.kind !== 'step' && m.kind !== 'base') return
  counting.add(key)
  verb<{ files: FileChange[]; nextCursor?: string }>('get_turn_diff', { rev: m.rev, detail: 'counts', renames: true, limit: 300 }).then(d => {
    let added = 0, deleted = 0, contested = 0
    for (const f of d.files) { added += f.added; deleted += f.deleted; contested += f.owner === 'contested' ? 1 : 0 }
    const files = d.nextCursor ? 0 : new Set(d.files.filter(isNoDir).map(f => f.path)).size // 0: not known
    S.counts.set(key, { files, added, deleted, contested, more: !!d.nextCursor })
  }, () => S.counts.set(key, null)).finally(() => { counting.delete(key); set({}) })
  if (m.coverageHash && !S.left.has(m.coverageHash)) {
    S.left.set(m.coverageHash, 0)
    verb<{ omissions: { reason: string }[]; nextCursor?: string }>('get_coverage', { coverageHash: m.coverageHash, limit: 200, reasons: ['too-large', 'unreadable', 'unstable', 'budget'] })
      .then(c => { S.left.set(m.coverageHash!, c.omissions.length); set({}) }, () => {})
  }
}

export async function showLeftOut(m: Moment) {
  const c = await verb<{ omissions: { path: string; reason: string }[] }>('get_coverage', { coverageHash: m.coverageHash, limit: 200, reasons: ['too-large', 'unreadable', 'unstable', 'budget'] })
  set({ leftOut: c.omissions, dialog: 'left' })
}

export function openFile(path: string) {
  if (path === S.path && S.diff.path === path) return set({ pane: 'diff' })
  set({ path, unfolded: new Set(), hunk: -1, pane: 'diff' })
  loadDiff()
}

// glob has a path stand for itself where globs are taken.
export const glob = (path: string) => path.replace(/[\\*?[]/g, '\\$&')

async function allHunks(args: Record<string, unknown>): Promise<Hunk[]> {
  const list: Hunk[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const l: { hunks: Hunk[]; nextCursor?: string } = await verb('hunks', { ...args, cursor })
    list.push(...l.hunks)
    cursor = l.nextCursor
  }
  return list
}

const isImage = (b: Uint8Array): string =>
  b[0] === 0x89 && b[1] === 0x50 ? 'image/png' : b[0] === 0xff && b[1] === 0xd8 ? 'image/jpeg' :
  b[0] === 0x47 && b[1] === 0x49 && b[2] === 0x46 ? 'image/gif' :
  b[0] === 0x52 && b[1] === 0x49 && b[8] === 0x57 && b[9] === 0x45 ? 'image/webp' : ''

const maxText = 10 << 20 // bytes of a file of which the engine tells lines apart
const sizeOf = (id: string | null, size = 0) => id ? `${size.toLocaleString()} bytes` : 'no file'

let diffsAsked = 0, diffShown = 0 // numbers of questions: an answer does not take the place of a newer one
let goTo: { at: string; path: string; line: number } | undefined // line at which a file is to be shown, from 1

async function loadDiff() {
  const m = chosen()
  const path = S.path
  if (!m || !path) return set({ diff: nothing, hunk: -1 })
  if (S.files.key !== keyOf(m) || S.files.loading) return // it is asked for again when the files are known
  const changes = S.files.list.filter(f => f.path === path)
  const key = JSON.stringify([keyOf(m), path, changes.map(c => [c.oldHash, c.newHash])])
  const number = ++diffsAsked
  const isLate = () => S.diff.key !== key || number < diffShown
  const isSame = S.diff.key === key
  if (!isSame) {
    for (const url of S.diff.images ?? []) if (url) URL.revokeObjectURL(url)
    set({ diff: { ...nothing, key, path, loading: true, changes } })
  }
  try {
    const isTooLong = changes.some(c => Math.max(c.oldSize ?? 0, c.newSize ?? 0) > maxText)
    const read = (id: string | null) => id && !isTooLong ? content(S.sessionRoot, id) : Promise.resolve(null)
    const from = changes[0]?.renamedFrom
    if (from) return await loadMoved(m, key, changes[0], number)
    const [hunks, ...sides] = await Promise.all([
      allHunks({ turns: [turnOf(m)], paths: [glob(path)] }),
      ...(isSame && !S.diff.loading ? [] : changes.flatMap(c => [read(c.oldHash), read(c.newHash)])),
    ])
    if (isLate()) return
    diffShown = number
    const mine = hunks.filter(h => h.path === path)
    if (isSame && S.diff.pieces.length > 0) {
      const pieces = S.diff.pieces.map((p, i) => ({ ...p, hunks: mine.filter(h => !h.window || h.window === i + 1) }))
      return set({ diff: { ...S.diff, pieces, hunks: mine, loading: false }, ...(isGoal(m, path) ? { hunk: hunkAt(m, path, mine) } : {}) })
    }
    const diff: DiffOf = { ...nothing, key, path, changes, hunks: mine }
    const isBinary = sides.some(s => s && s.subarray(0, 8000).includes(0))
    if (isTooLong) {
      diff.pieces = [{ before: [], after: [], hunks: mine.map(h => ({ ...h, text: '' })) }]
      diff.note = `too long to be shown: ${changes.flatMap(c => [`before: ${sizeOf(c.oldHash, c.oldSize)}`, `after: ${sizeOf(c.newHash, c.newSize)}`]).join(', ')}`
    } else if (isBinary) {
      diff.images = sides.slice(0, 2).map(s => s && isImage(s) ? URL.createObjectURL(new Blob([s], { type: isImage(s) })) : null)
      diff.pieces = [{ before: [], after: [], hunks: mine.map(h => ({ ...h, text: '' })) }]
      diff.note = sides.map((s, i) => `${i % 2 ? 'after' : 'before'}: ${sizeOf(s && 'there', s?.length)}`).join(', ')
    } else {
      const text = new TextDecoder('utf-8', { ignoreBOM: true })
      diff.pieces = changes.map((c, i) => {
        const [before, after] = [sides[2 * i], sides[2 * i + 1]].map(s => s ? splitLines(text.decode(s)) : [])
        return {
          before, after, hunks: mine.filter(h => !h.window || h.window === c.piece),
          title: changes.length > 1 ? `part ${c.piece} of ${c.pieces}: somebody else has changed the file in between` : undefined,
        }
      })
    }
    mustAgree(diff.pieces)
    set({ diff, hunk: hunkAt(m, path, mine), said: `${path}: ${mine.length} hunks` })
    loadBlame()
  } catch (e) {
    if (!isLate()) set({ diff: { ...nothing, key, path, changes, error: failureOf(e) } })
  }
}

// loadMoved shows a file that was moved: it goes back as a whole, under both names.
async function loadMoved(m: Moment, key: string, c: FileChange, number: number) {
  const from = c.renamedFrom!
  const [hunks, d] = await Promise.all([
    allHunks({ turns: [turnOf(m)], paths: [glob(c.path), glob(from)] }),
    verb<{ files: FileChange[] }>('get_turn_diff', { rev: m.rev, renames: true, paths: [c.path] }),
  ])
  if (S.diff.key !== key || number < diffShown) return
  diffShown = number
  const both = hunks.filter(h => h.path === c.path || h.path === from)
  const states = new Set(both.map(h => h.state))
  const came = both.find(h => h.path === c.path) ?? both[0]
  const now = d.files.find(f => f.path === c.path)
  const blockedBy = [...new Set(both.flatMap(h => h.blockedBy ?? []))]
  const of: Hunk[] = came ? [{ ...came, blockedBy, state: states.has('conflict') ? 'conflict' : states.size === 1 ? came.state : 'clean' }] : []
  const note = !now || now.tooLong ? 'what has changed of it is too long to be shown' : now.binary ? 'it is no text' : ''
  set({
    diff: { ...nothing, key, path: c.path, changes: [c], hunks: of, note, moved: now ? bare(fromUnified(now.unifiedDiff ?? '')) : [] },
    hunk: of.length - 1, said: `${c.path}: moved from ${from}`,
  })
  loadBlame()
}

// bare leaves out what the head says already.
function bare(rows: Row[]): Row[] {
  const list = rows.filter(r => r.type !== 'note' || !r.text.startsWith('rename '))
  return list[0]?.type === 'part' ? list.slice(1) : list
}

// loadBlame finds out whose the lines of the file are that is shown, if that is wanted.
async function loadBlame() {
  const m = chosen()
  const last = S.diff.changes[S.diff.changes.length - 1]
  if (!S.isBlamed || !m?.rev || !last?.newHash || S.blame?.key === S.diff.key || S.diff.loading) return
  const key = S.diff.key
  set({ blame: { key, of: [], lines: [] } })
  try {
    const b = await verb<{ lines: number; ranges: BlameRange[] }>('blame', { path: S.diff.path, rev: m.rev })
    if (S.diff.key !== key) return
    const lines = new Array<number>(b.lines)
    b.ranges.forEach((r, i) => lines.fill(i, r.start - 1, r.end))
    set({ blame: { key, of: b.ranges.map(r => r.owner), lines }, said: 'whose the lines are is shown' })
  } catch (e) { if (S.diff.key === key) set({ blame: { key, of: [], lines: [], error: failureOf(e).message } }) }
}

export function toggleBlame() {
  set({ isBlamed: !S.isBlamed })
  loadBlame()
}

// whose returns what a line's owner is called.
export const whose = (o: BlameOwner): string =>
  o.kind === 'turn' ? `${o.session === S.session ? '' : `${o.session} `}turn ${o.turn}` : o.kind === 'user' ? 'you'
  : o.kind === 'contested' ? '! contested' : o.kind

// goToOwner chooses the turn of a line, and stays with the file.
export function goToOwner(o: BlameOwner) {
  const m = S.rows.find(m => o.entry && (m.rev === o.entry || m.entryId === o.entry))
  if (m) select(keyOf(m))
  else toast(o.session && o.session !== S.session ? `It is of session ${o.session}` : 'It is not in the list of this session', [], true)
}

// isGoal reports whether a line of a turn's file is to be shown; that of another may come before.
const isGoal = (m: Moment, path: string) => goTo?.at === keyOf(m) && goTo.path === path

// hunkAt returns the number of the hunk that is to be shown; -1: there is none.
function hunkAt(m: Moment, path: string, hunks: Hunk[]): number {
  if (!isGoal(m, path)) return hunks.length === 0 ? -1 : 0
  const line = goTo!.line - 1
  goTo = undefined
  const at = hunks.findIndex(h => h.after[0] <= line && line < h.after[1])
  return at >= 0 || hunks.length === 0 ? at : 0
}

// mustAgree checks that the lines that hunks have are those that are shown: nothing wrong is shown
// whatever goes wrong.
function mustAgree(pieces: Piece[]) {
  for (const p of pieces) for (const h of p.hunks) {
    if (h.kind !== 'lines' || h.text.includes('\ufffd')) continue
    const shown = [...p.before.slice(...h.before).map(l => '-' + l), ...p.after.slice(...h.after).map(l => '+' + l)]
    const said = splitLines(h.text).filter(l => l[0] === '-' || l[0] === '+')
    if (shown.length !== said.length || shown.some((l, i) => l !== said[i])) {
      throw new Failure('internal', `the lines of hunk ${h.id} are not those of the file`, 'load the page again')
    }
  }
}

let movedOf: [DiffOf, Row[]] | undefined
let laidOut: [DiffOf, boolean, Set<string>, Row[]] | undefined
// diffRows are the rows of the file that is shown.
export function diffRows(): Row[] {
  if (S.diff.moved) {
    if (movedOf?.[0] !== S.diff) {
      movedOf = [S.diff, [...S.diff.hunks.map((hunk, index): Row => ({ type: 'hunk', hunk, index })), ...S.diff.moved]]
    }
    return movedOf[1]
  }
  if (laidOut && laidOut[0] === S.diff && laidOut[1] === S.isSplit && laidOut[2] === S.unfolded) return laidOut[3]
  const rows = layOut(S.diff.pieces, S.isSplit, S.unfolded)
  laidOut = [S.diff, S.isSplit, S.unfolded, rows]
  return rows
}

// picksOf returns what is marked of a row.
export const picksOf = (m: Moment | undefined): Picks | undefined => m && S.picks.get(turnOf(m))

function change(m: Moment, fn: (p: Picks) => void) {
  const picks = new Map(S.picks)
  const old = picks.get(turnOf(m))
  const p: Picks = { turn: turnOf(m), all: old?.all ?? false, files: new Set(old?.files), from: new Map(old?.from), hunks: new Map(old?.hunks) }
  fn(p)
  if (p.all || p.files.size + p.hunks.size > 0) picks.set(p.turn, p)
  else picks.delete(p.turn)
  set({ picks, said: pickedText(picks) || 'nothing picked' })
}

export function pickTurn(m: Moment) {
  if (canTakeBack(m)) change(m, p => { p.all = !p.all; p.files.clear(); p.from.clear(); p.hunks.clear() })
}

// addFile and dropFile are about a file, and where it was before, if it was moved.
function addFile(p: Picks, path: string) {
  p.files.add(path)
  const from = S.files.list.find(f => f.path === path)?.renamedFrom
  if (from) p.from.set(from, path)
}

function dropFile(p: Picks, path: string): boolean {
  for (const [from, to] of p.from) if (to === path) p.from.delete(from)
  return p.files.delete(path)
}

function inFiles(p: Picks) {
  if (!p.all) return
  p.all = false
  for (const f of S.files.list) addFile(p, f.path)
}

export function pickFile(m: Moment, path: string) {
  if (!canTakeBack(m)) return
  change(m, p => {
    inFiles(p)
    if (!dropFile(p, path)) addFile(p, path)
    for (const [id, of] of p.hunks) if (of === path) p.hunks.delete(id)
  })
}

export function pickHunk(m: Moment, h: Hunk) {
  if (!canTakeBack(m) || h.state === 'done') return
  if (S.diff.moved) return pickFile(m, S.diff.path)
  change(m, p => {
    inFiles(p)
    if (dropFile(p, h.path)) for (const other of S.diff.hunks) if (other.state !== 'done') p.hunks.set(other.id, h.path)
    if (!p.hunks.delete(h.id)) p.hunks.set(h.id, h.path)
  })
}

export const isPicked = (p: Picks | undefined, h: Hunk) => !!p && (p.all || p.files.has(h.path) || p.from.has(h.path) || p.hunks.has(h.id))

const n = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

export function pickedText(picks = S.picks): string {
  let turns = 0, files = 0, hunks = 0
  for (const p of picks.values()) { turns += p.all ? 1 : 0; files += p.files.size; hunks += p.hunks.size }
  return [turns && n(turns, 'turn'), files && n(files, 'file'), hunks && n(hunks, 'hunk')].filter(Boolean).join(', ')
}

// previewTurn shows what would be done if a turn was taken back.
export const previewTurn = (m: Moment) => preview({ verb: 'revert', args: { turns: [turnOf(m)] }, what: `Take back ${nameOf(m)}` })

// previewPicks shows what would be done if what is picked was taken back: what is chosen, if
// nothing is picked.
export async function previewPicks() {
  const m = chosen()
  const picks = S.picks
  if (picks.size === 0) {
    return m && canTakeBack(m) ? previewTurn(m) : undefined
  }
  const list = [...picks.values()]
  const turns = list.map(p => p.turn)
  const args: Record<string, unknown> = { turns }
  try {
    if (list.length === 1 && list[0].files.size > 0 && list[0].hunks.size === 0) args.paths = [...list[0].files, ...list[0].from.keys()].map(glob)
    else if (list.some(p => !p.all)) args.hunks = await hunksPicked(list, turns)
  } catch (e) { return toast(failureOf(e).message, [], true) }
  return preview({ verb: 'revert', args, what: `Take back ${pickedText(picks)}` })
}

// hunksPicked returns the IDs of what is picked, as they are in a list of all these turns: there,
// other IDs tell apart what several turns have changed alike.
async function hunksPicked(list: Picks[], turns: string[]): Promise<string[]> {
  if (list.length === 1 && list[0].files.size === 0) return [...list[0].hunks.keys()]
  const key = (h: Hunk) => JSON.stringify([h.by, h.kind, h.window, h.before, h.after, h.path])
  const wanted = new Set<string>()
  for (const p of list) for (const h of await allHunks({ turns: [p.turn] })) if (isPicked(p, h) && h.state !== 'done') wanted.add(key(h))
  return (await allHunks({ turns })).filter(h => wanted.has(key(h))).map(h => h.id)
}

// previewGoBack is about the moment at the end of a turn: what came after it goes, and a turn that
// was taken back since comes back.
export const previewGoBack = (m: Moment) => preview({ verb: 'restore', args: { target: turnOf(m), acrossHead: true }, what: `Go back to the end of ${nameOf(m)}` })

// canBringBack reports whether a turn comes back by itself: undo would do that next.
export const canBringBack = (m: Moment) => !!m.takenBackSeq && m.takenBackSeq === S.undoSeq
// broughtBack are the turns that come back with it: the restore may have taken back others, too.
export const broughtBack = (m: Moment) => S.rows.find(r => r.snapshotSeq === m.takenBackSeq)?.tookBack ?? [m.turnIndex]
export const previewBringBack = (m: Moment) => preview({ verb: 'undo', args: {}, what: `Bring back ${turnList(broughtBack(m))}` })

export const turnList = (turns: number[]) => `turn${turns.length === 1 ? '' : 's'} ${turns.slice(0, 5).join(', ')}${turns.length > 5 ? ', …' : ''}`

// by is who is meant by what the engine calls somebody.
export const by = (who: string) => who === 'user' ? 'you' : who === 'contested' ? '! contested' : who.replace(':', ' ')

export const nameOf = (m: Moment): string =>
  isTurn(m) ? `turn ${m.turnIndex}` : m.kind === 'base' ? 'changes of yours' : m.kind

export async function preview(ask: Ask, change: Partial<Preview> = {}) {
  const p: Preview = { ask, busy: true, onConflict: 'keep', ...change }
  set({ preview: p })
  try {
    const args = { ...argsOf(p), diffs: true }
    const answer = ask.verb === 'undo' || ask.verb === 'redo'
      ? await verb<Restored>(ask.verb, { ...args, preview: true }) : await verb<Restored>(`${ask.verb}_preview`, args)
    if (S.preview?.ask === ask) set({ preview: { ...p, answer, busy: false } })
  } catch (e) {
    if (S.preview?.ask === ask) set({ preview: { ...p, error: failureOf(e), busy: false } })
  }
}

const argsOf = (p: Preview) =>
  ({ ...p.ask.args, ...(p.onConflict !== 'keep' ? { onConflict: p.onConflict } : {}), ...(p.ends ? { endTurn: true } : {}) })

// apply does what the preview shows, and nothing else. Another preview may be open by the time of the
// answer, or none.
export async function apply() {
  const p = S.preview
  if (!p?.answer || p.busy) return
  const isShown = () => S.preview?.ask === p.ask
  set({ preview: { ...p, busy: true } })
  try {
    const of = p.ends ? '?' + new URLSearchParams({ turn: String(p.ends.turn), began: p.ends.began ?? '' }) : '' // that ends, and no other
    const r = await verb<Restored>(p.ask.verb + of, { ...argsOf(p), plan: p.answer.plan })
    set({ ...(isShown() ? { preview: undefined } : {}), picks: new Map() })
    done(p.ask, r)
  } catch (e) {
    const error = failureOf(e)
    if (!isShown()) return toast(`${p.ask.what}: ${error.message}`, error.hint ? [error.hint] : [], true)
    if (error.code === 'other_plan') return preview(p.ask, { changed: true, onConflict: p.onConflict, ends: p.ends })
    if (error.code === 'turn_ended') return preview(p.ask, { changed: true, onConflict: p.onConflict })
    set({ preview: { ...p, busy: false, error } })
  }
}

// whenIdle has what the preview shows done once no turn is open in the directory, if it is still
// that: else the new preview is shown.
export function whenIdle() {
  if (!S.preview) return
  set({ preview: { ...S.preview, waits: true, error: undefined } })
  if (S.open.length === 0) idle()
}

function idle() {
  if (!S.preview?.waits) return
  set({ preview: { ...S.preview, waits: false } })
  apply()
}

// files counts the files, and not the directories, to which something is done.
export const files = (r: Restored, action: string) => r.items.filter(i => i.action === action && !i.dir).length

export function done(ask: Ask, r: Restored) {
  const [restored, deleted] = [files(r, 'restored'), files(r, 'deleted')]
  const text = `${ask.what}: ${[restored && n(restored, 'file') + ' restored', deleted && n(deleted, 'file') + ' deleted'].filter(Boolean).join(', ') || 'nothing to do'}`
  toast(text, (r.conflicts ?? []).map(c => `${c.path} stays in part: ${c.why}`), false, r.snapshotSeq ? ask.verb === 'undo' ? 'redo' : 'undo' : undefined)
  after()
}

export async function takeBack(which: 'undo' | 'redo') {
  if (S.page?.readOnly) return
  try {
    const r = await verb<Restored>(which)
    done({ verb: which, args: {}, what: which === 'undo' ? 'Undo' : 'Redo' }, r)
  } catch (e) {
    const error = failureOf(e)
    if (error.code === 'turn_open') preview({ verb: which, args: {}, what: which === 'undo' ? 'Undo' : 'Redo' })
    else toast(error.message, error.hint ? [error.hint] : [], true)
  }
}

// after reads what is another after something was done.
async function after() {
  await Promise.all([refresh(), loadLists(), readVersions()]).catch(() => {})
}

let toasts = 0
export function toast(text: string, lines: string[] = [], isBad = false, back?: Toast['back']) {
  const number = ++toasts
  set({ toast: { text, lines, isBad, back, n: number } })
  if (!isBad) setTimeout(() => S.toast?.n === number && set({ toast: undefined }), 20_000)
}

// label names the turn that is chosen, or the files as they are now.
export async function label(text: string, m?: Moment) {
  try {
    await post('/v1/label', { cwd: S.sessionRoot, sessionId: S.session, label: text, rev: m ? turnOf(m) : '' })
    set({ dialog: '' })
    toast(m ? `${nameOf(m)} is “${text}”` : `Labelled “${text}”`)
    reread().catch(() => {})
  } catch (e) { toast(failureOf(e).message, [failureOf(e).hint].filter(Boolean), true) }
}

// exportState saves the files as they were at a row.
export async function exportState(m: Moment) {
  const name = `${S.sessionRoot.split(/[\\/]/).pop() || 'files'}-${isTurn(m) ? `turn-${m.turnIndex}` : m.snapshotSeq ?? m.kind}.tar`
  toast(`Exporting ${name}…`)
  try {
    const url = URL.createObjectURL(await archive(S.sessionRoot, S.session, m.rev ?? ''))
    const a = document.createElement('a')
    a.href = url
    a.download = name
    a.click()
    setTimeout(() => URL.revokeObjectURL(url), 60_000)
    toast(`${name} is in your downloads`, ['It has the files as they were at the end of it, and nothing else was changed.'])
  } catch (e) { toast(failureOf(e).message, [failureOf(e).hint].filter(Boolean), true) }
}

export async function exportLog() {
  try {
    const { file } = await post<{ file: string }>('/v1/export', { cwd: S.sessionRoot, sessionId: S.session })
    toast('The session was exported', [file])
  } catch (e) { toast(failureOf(e).message, [failureOf(e).hint].filter(Boolean), true) }
}

async function loadReviewed() {
  const r = await get<{ ids: string[] }>('/v1/reviewed', { cwd: S.sessionRoot }).catch(() => ({ ids: [] }))
  set({ reviewed: new Set(r.ids) })
}

// review marks a hunk as reviewed, or not.
export function review(h: Hunk) {
  const reviewed = new Set(S.reviewed)
  const is = !reviewed.delete(h.id)
  if (is) reviewed.add(h.id)
  set({ reviewed, said: is ? 'reviewed' : 'not reviewed' })
  if (!S.page?.readOnly) post('/v1/reviewed', { cwd: S.sessionRoot, ids: [h.id], is }).catch(e => toast(failureOf(e).message, [], true))
}

// showVersions shows the history of a file, back over the names that it had.
export async function showVersions(path: string) {
  set({ versions: { path, rows: [], paths: new Map(), loading: true } })
  await readVersions()
}

let versionsAsked = 0, versionsShown = 0

// readVersions reads the history that is shown once more.
async function readVersions() {
  if (!S.versions) return
  const { path } = S.versions
  const number = ++versionsAsked
  const isLate = () => S.versions?.path !== path || number < versionsShown
  const rows: Moment[] = []
  const versions = { path, rows, paths: new Map<string, string>(), loading: false }
  try {
    for (let name = path, before = Infinity; name;) {
      for (let cursor: string | undefined = ''; cursor !== undefined;) {
        const l: { snapshots: Moment[]; nextCursor?: string } = await verb('get_snapshots', { newestFirst: true, limit: 2000, cursor, paths: [name] })
        for (const m of l.snapshots) {
          if ((m.snapshotSeq ?? 0) >= before) continue
          rows.push(m)
          versions.paths.set(keyOf(m), name)
        }
        cursor = l.nextCursor
      }
      const first = rows[rows.length - 1]
      if (!first?.rev || (first.snapshotSeq ?? 0) >= before) break
      before = first.snapshotSeq ?? 0
      const d: { files: FileChange[] } = await verb('get_turn_diff', { rev: first.rev, renames: true, detail: 'names', paths: [name] })
      name = d.files[0]?.renamedFrom ?? ''
    }
    if (isLate()) return
    versionsShown = number
    rows.reverse()
    set({ versions })
  } catch (e) {
    if (isLate()) return
    set({ versions: undefined })
    toast(failureOf(e).message, [], true)
  }
}

let isFollowed = false
// readAgain reads what may have changed between the start and the first answer of the stream.
function readAgain() {
  if (document.hidden) return // the stream begins anew when somebody sees the page
  isFollowed = true
  load()
}

// told hears what happens.
function told(e: ServerEvent) {
  switch (e.type) {
    case 'hello':
      if (isFollowed) { if (e.reset || S.phase !== 'ready') load() } else Promise.all([loading, first]).then(readAgain)
      break
    case 'projects':
      load()
      break
    case 'turns':
      if (e.root !== S.sessionRoot) {
        if (e.root === S.root && !S.session) load()
        break
      }
      heardOf(e.open ?? [])
      break
    case 'prune':
      if (e.root === S.root || e.root === S.sessionRoot) soonAgain()
      break
    case 'label': // or nothing that is listed: of a long list the newest are read again
      if (e.root === S.root || e.root === S.sessionRoot) S.session && S.rows.length <= 1000 ? soonAgain() : soon()
      break
    case 'record':
      if (e.root === S.sessionRoot && !S.session || e.session === S.session && e.root === S.sessionRoot) soon()
      else if (e.root === S.root && !S.sessions.some(s => s.session === e.session)) soonSessions()
      break
  }
}

function heardOf(open: OpenTurn[]) {
  heard++
  const mine = open.find(t => t.session === S.session)
  const was = S.open.find(t => t.session === S.session)
  set({ open, said: mine && !was ? `turn ${mine.turn} began` : !mine && was ? 'the turn has ended' : S.said })
  if (open.length > 0) return
  const p = S.preview
  if (p?.error?.code === 'turn_open') preview(p.ask, { onConflict: p.onConflict }) // nothing is in the way any more
  idle()
}

let isSoon = false
async function soon() {
  if (isSoon) return
  isSoon = true
  await new Promise(done => setTimeout(done, 10)) // several records come together
  isSoon = false
  if (!S.session) return load()
  await after()
}

let isAgain = false
// soonAgain reads all rows again, but not for each of many records.
function soonAgain() {
  if (isAgain) return
  isAgain = true
  setTimeout(() => { isAgain = false; reread().then(loadLists).catch(() => {}) }, 300)
}

let isListing = false
async function soonSessions() {
  if (isListing) return
  isListing = true
  setTimeout(() => { isListing = false; get<SessionList>('/v1/sessions', { cwd: S.root }).then(l => set({ sessions: l.sessions }), () => {}) }, 200)
}
