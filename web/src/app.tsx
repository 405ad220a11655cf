import { useEffect, useRef } from 'preact/hooks'
import { Diff, DiffBar } from './diffview'
import { Dialogs } from './dialogs'
import {
  S, broughtBack, canBringBack, canTakeBack, choose, chosen, count, exportState, find, graph, isTurn, keyOf, label, loadSessions, nameOf, openFile, pickFile, pickedText,
  picksOf, previewBringBack, previewGoBack, previewPicks, previewTurn, search, select, set, show, showLeftOut, shown, takeBack, turnList,
} from './store'
import { ago, exactly } from './time'
import type { FileChange, Moment, OpenTurn, SessionRow } from './types'
import { inLine, visible } from './visible'
import { Virtual } from './virtual'

export function App() {
  switch (S.phase) {
    case 'loading': return <Notice title="Loading…" text="Reading the turns." />
    case 'token': return <Notice title="This address has no token, or an old one"
      text="Open the whole address that 'snapctl timeline' has printed: it ends with # and a token, which is new each time that it is started." />
    case 'error': return <Notice title="The turns cannot be read" text={S.error!.message} hint={S.error!.hint} />
  }
  return (
    <>
      <Bar />
      {!S.isUp && <div class="banner" role="alert">
        <b>The engine is gone.</b> What is shown is as it was. Start <code>snapctl timeline</code> again
        {' '}and open its new address; if only the connection is cut, it goes on by itself.
      </div>}
      <main class={`panes at-${S.pane}`}>
        <Turns />
        <TurnHead />
        <Files />
        <section class="pane diff" aria-label="Changes">
          <DiffBar />
          <Diff />
        </section>
      </main>
      <Picked />
      <Dialogs />
      <Toasts />
      <div class="said" role="status" aria-live="polite">{inLine(S.said)}</div>
    </>
  )
}

function Notice(p: { title: string; text: string; hint?: string }) {
  return <main class="notice"><h1>{p.title}</h1><p>{p.text}</p>{p.hint && <p>{p.hint}</p>}</main>
}

const firstLine = (text: string | undefined) => inLine((text ?? '').trim().split('\n', 1)[0])

// many counts things. What a browser needs for the first number of a locale takes it 12 ms: small ones go without.
export const many = (n: number, what: string) => `${n < 1000 ? n : n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`

const sessionText = (s: SessionRow) =>
  [firstLine(s.title).slice(0, 60) || s.session, inLine(s.agent ?? ''), s.open ? 'in a turn' : ago(s.last)].filter(Boolean).join(' · ')

function Bar() {
  const readOnly = S.page!.readOnly
  return (
    <header class="bar">
      <h1 title={inLine(S.sessionRoot)}>{inLine(S.sessionRoot.split(/[\\/]/).pop() || 'Timeline')}</h1>
      {S.page!.all && <select aria-label="Project" value={S.root} onChange={e => loadSessions(e.currentTarget.value)}>
        {S.page!.projects.map(p => <option value={p.root} title={p.root}>{p.name}</option>)}
      </select>}
      {S.sessions.length > 0 && <select aria-label="Session" value={`${S.session}\0${S.sessionRoot}`} onChange={e => {
        const [session, root] = e.currentTarget.value.split('\0')
        choose(session, root)
      }}>
        {S.sessions.map(s => <option value={`${s.session}\0${s.root}`}>{sessionText(s)}</option>)}
      </select>}
      <span class="grow" />
      <span class="field"><input id="search" type="search" placeholder="Search prompts and contents" aria-label="Search prompts, and with Enter contents" value={S.query}
        onInput={e => search(e.currentTarget.value)} />{!S.query && <kbd aria-hidden="true">/</kbd>}</span>
      <span class="grow" />
      {readOnly ? <span class="tag">read only</span> : <span class="group">
        <button disabled={!S.undoSeq} onClick={() => takeBack('undo')} title="Take back the newest restore (u)">Undo</button>
        <button disabled={!S.redoSeq} onClick={() => takeBack('redo')} title="Do again what was undone (U)">Redo</button>
        <button onClick={() => set({ dialog: 'restores' })}>Restores</button>
      </span>}
      {readOnly && <button onClick={() => set({ dialog: 'restores' })}>Restores</button>}
      {!readOnly && <button onClick={() => set({ dialog: 'label' })} disabled={!S.session} title="Record the files as they are now, under a name">Label</button>}
      <button class="round" onClick={() => set({ dialog: 'help' })} aria-label="Keys and help" title="Keys (?)">?</button>
    </header>
  )
}

function Turns() {
  const rows = shown()
  const live = S.open.filter(t => t.session === S.session)
  const at = rows.findIndex(m => keyOf(m) === S.at)
  return (
    <section class="pane turns" aria-label="Turns">
      {live.map(t => <Live turn={t} />)}
      {S.query && <p class="searching">
        <button class="tab" aria-pressed={!S.found} onClick={() => set({ found: undefined })}>{many(rows.length, 'prompt')}</button>
        <button class="tab" aria-pressed={!!S.found} onClick={() => find(S.query)}>{S.found ? `${many(S.found.list.length, 'change')}${S.found.loading ? '…' : ''}` : <>Find in contents <kbd>⏎</kbd></>}</button>
      </p>}
      {S.found ? <FoundList /> : rows.length === 0
        ? <Empty />
        : <Virtual count={rows.length} height={52} show={at} showKey={S.at} row={i => <TurnRow m={rows[i]} i={i} all={rows.length} />}
          attrs={{ id: 'turns', role: 'listbox', tabIndex: 0, 'aria-label': 'Turns, newest first', 'aria-activedescendant': at >= 0 ? `turn-${at}` : undefined }} />}
      {!S.query && <p class="count">{many(rows.length, 'moment').replace(' ', S.isAll ? ' ' : '+ ')}</p>}
    </section>
  )
}

function Empty() {
  if (S.query) return <div class="empty"><p>Nothing has “{S.query}” in its prompt, label or agent.</p><p><button onClick={() => search('')}>Show all</button></p></div>
  return (
    <div class="empty">
      <p><b>No turn was recorded here yet.</b></p>
      <p>Set an agent up with <code>snapctl setup</code>, or run one as <code>snapctl run -- COMMAND</code>.
        A turn appears here as soon as it begins.</p>
    </div>
  )
}

function FoundList() {
  const { list, loading, error, notAll, text } = S.found!
  if (error) return <div class="empty" role="alert"><p>{inLine(error.message)}</p>{error.hint && <p>{error.hint}</p>}</div>
  if (list.length === 0) return <div class="empty">{loading ? 'Searching…' : <p>No change brought “{inLine(text)}”, or took it away.{notAll && ` Not all could be searched: ${notAll}.`}</p>}</div>
  return (
    <>
      <Virtual count={list.length} height={64} show={S.foundAt} showKey={S.foundAt} row={i => {
        const f = list[i]
        const isIn = f.after > f.before
        return (
          <div key={i} id={`found-${i}`} role="option" aria-selected={i === S.foundAt} aria-setsize={list.length} aria-posinset={i + 1} class={`turn found ${i === S.foundAt ? 'at' : ''}`}
            onClick={() => { set({ foundAt: i }); show(f) }}>
            <div class="title"><b class={isIn ? 'add' : 'del'} title={isIn ? 'it came' : 'it went'}>{isIn ? '+' : '−'}</b> <code>{inLine(f.text.trim())}</code></div>
            <div class="meta"><b>{f.turn >= 0 ? `turn ${f.turn}` : f.kind === 'base' ? 'you' : f.kind}</b><span>{inLine(f.path)}:{f.line}</span><time class="who" title={exactly(f.time)}>{ago(f.time)}</time></div>
            <div class="meta"><span class="text">{firstLine(f.title)}</span></div>
          </div>
        )
      }} attrs={{ id: 'found', role: 'listbox', tabIndex: 0, 'aria-label': 'Changes by which the text came or went', 'aria-activedescendant': `found-${S.foundAt}` }} />
      {notAll ? <p class="count warn">! Not all could be searched: {inLine(notAll)}</p>
        : <p class="count"><kbd>j</kbd> <kbd>k</kbd> <kbd>⏎</kbd> next, previous, show</p>}
    </>
  )
}

function Live({ turn: t }: { turn: OpenTurn }) {
  return (
    <div class="live" role="status">
      <p class="title"><span class="dot" aria-hidden="true" /> <b>turn {t.turn}</b> {firstLine(t.title) || 'is under way'}</p>
      <p class="meta">{[inLine(t.agent ?? ''), inLine(t.model ?? ''), t.began && `began ${ago(t.began)}`, t.tools?.length ? 'a tool runs' : ''].filter(Boolean).join(' · ')}</p>
    </div>
  )
}

// wholeAndPart names turns, of which some were taken back, or put back, only in part.
function wholeAndPart(turns: number[], partOf: number[] = []): string {
  const [whole, part] = [turns.filter(t => !partOf.includes(t)), turns.filter(t => partOf.includes(t))]
  return [whole.length ? turnList(whole) : '', part.length ? `a part of ${turnList(part)}` : ''].filter(Boolean).join(' and ')
}

export const standing = (m: Moment): string => [
  m.takenBackSeq ? m.but?.length ? `taken back but for ${m.but.length} files` : 'taken back' : '',
  m.without?.length ? `in part: without ${m.without.slice(0, 2).map(f => (m.inPart?.includes(f) ? 'a part of ' : '') + inLine(f)).join(', ')}${m.without.length > 2 ? ' and more' : ''}` : '',
  m.elsewhere ? 'on another branch' : '', m.forkedFrom ? `from session ${m.forkedFrom}` : '',
  m.tookBack?.length ? `took back ${wholeAndPart(m.tookBack, m.partOf)}` : m.reverts?.length ? `took back a part of ${turnList(m.reverts)}` : '',
  m.putBack?.length ? `put back ${wholeAndPart(m.putBack, m.partOf)}` : '',
  m.aborted ? 'aborted: these files were changed back' : '', m.interrupted ? 'interrupted' : '', m.pruned ? 'pruned' : '', m.partial ? 'captured in part' : '', m.goesOn ? 'a part of the turn' : '',
  m.unknown ? 'changes not known' : '',
].filter(Boolean).join(' · ')

const titleOf = (m: Moment) => firstLine(m.title) || (m.label ? '' : m.kind === 'base' ? 'You changed files' : m.kind === 'start' ? 'The session began'
  : isTurn(m) ? '(no prompt)' : nameOf(m))

const maxLanes = 6
const laneX = (i: number) => `${10 + 12 * Math.min(i, maxLanes - 1)}px`

// RailOf draws what stands beside a row: a line for each branch, and a sign for the row.
function RailOf({ m, i }: { m: Moment; i: number }) {
  const g = graph()
  const r = g.rails[i]
  if (!r) return null
  const sign = m.kind === 'base' ? 'base' : ['restore', 'undo', 'redo'].includes(m.kind) ? 'restore' : m.takenBackSeq || m.notIn || m.elsewhere ? 'off' : m.kind === 'start' || m.kind === 'fork' ? 'start' : 'in'
  return (
    <span class="rail" aria-hidden="true" style={{ width: `${18 + 12 * (Math.min(g.width, maxLanes) - 1)}px` }}>
      {r.above.filter(i => !r.joins.includes(i)).map(i => <i class={`from lane${i % 4}`} style={{ left: laneX(i) }} />)}
      {r.below.map(i => <i class={`to lane${i % 4}`} style={{ left: laneX(i) }} />)}
      {r.joins.map(i => <i class={`join lane${i % 4}`} style={{ left: laneX(r.at), width: `${12 * (Math.min(i, maxLanes - 1) - Math.min(r.at, maxLanes - 1))}px` }} />)}
      <i class={`sign ${sign} lane${r.at % 4}`} style={{ left: laneX(r.at) }} />
    </span>
  )
}

function TurnRow({ m, i, all }: { m: Moment; i: number; all: number }) {
  useEffect(() => { const t = setTimeout(() => count(m), 80); return () => clearTimeout(t) })
  const key = keyOf(m)
  const lines = m.pruned ? null : S.counts.get(key)
  const picks = picksOf(m)
  const files = lines?.files || m.added + m.modified + m.deleted // a file that was moved is one
  const left = m.coverageHash ? S.left.get(m.coverageHash) ?? 0 : 0
  const state = standing(m)
  return (
    <div key={key} id={`turn-${i}`} role="option" aria-selected={key === S.at} aria-setsize={S.isAll ? all : -1} aria-posinset={i + 1}
      class={`turn kind-${m.kind} ${key === S.at ? 'at' : ''} ${m.takenBackSeq || m.elsewhere ? 'back' : ''}`}
      onClick={() => { select(key); set({ pane: 'files' }) }}>
      {!S.query && <RailOf m={m} i={i} />}
      <div class="title" title={visible(m.title ?? '')}>
        {picks && <span class="mark" aria-label="picked">{picks.all ? '☑' : '◩'}</span>}
        {m.label && <span class="label">{inLine(m.label)}</span>}<span class="text">{titleOf(m)}</span>
        <time title={exactly(m.time)}>{ago(m.time)}</time>
      </div>
      <div class="meta">
        {isTurn(m) ? <b>{nameOf(m)}</b> : titleOf(m) !== nameOf(m) && m.kind !== 'base' && m.kind !== 'start' && <b>{nameOf(m)}</b>}
        {files > 0 && <span>{files} file{files === 1 ? '' : 's'}</span>}
        {isTurn(m) && m.kind === 'empty' && <span>no change</span>}
        {lines && lines.added + lines.deleted > 0 && <span><span class="add">+{lines.added}</span> <span class="del">−{lines.deleted}{lines.more ? '…' : ''}</span></span>}
        {!!lines?.contested && <span class="warn" title="Another session, or you, may have changed these, too">! {lines.contested} contested</span>}
        {left > 0 && <span class="warn">! {left} not captured</span>}
        {state && <span class="state" title={state}>{state}</span>}
        {m.agent && <span class="who">{inLine(m.agent)}</span>}
      </div>
    </div>
  )
}

// TurnHead says what the row was that is chosen, and what can be done about it.
function TurnHead() {
  const m = chosen()
  if (!m) return <section class="turnhead" aria-label="The turn" />
  const files = new Set(S.files.list.map(f => f.path)).size
  const left = m.coverageHash ? S.left.get(m.coverageHash) ?? 0 : 0
  const state = standing(m)
  return (
    <section class="turnhead" aria-label="The turn">
      <button class="up" onClick={() => set({ pane: 'turns' })}>‹ Turns</button>
      <div class="what">
        <p class="prompt" tabIndex={0}>{m.label && <span class="label">{inLine(m.label)}</span>}{visible(m.title?.trim() || '') || titleOf(m)}</p>
        <p class="meta">{titleOf(m) !== nameOf(m) && <b>{nameOf(m)}</b>}
          {m.agent && <span>{inLine(`${m.agent} ${m.model ?? ''}`)}</span>}
          {m.time && <span>{exactly(m.time)}</span>}
          {S.files.key === keyOf(m) && !S.files.loading && !S.files.error && <span>{many(files, 'file')}</span>}
          {state && <span class="state">{state}</span>}
          {left > 0 && <button class="link warn" onClick={() => showLeftOut(m)}>! {left} not captured</button>}
        </p>
      </div>
      <Actions m={m} />
    </section>
  )
}

type Node = { dir: string; depth: number; count: number; name: string } | { file: FileChange; depth: number; name: string }

const letters: Record<string, string> = { renamed: 'R', added: 'A', modified: 'M', deleted: 'D', retyped: 'T', captured: 'C', uncaptured: 'U' }

const dirOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('/')))

let treeOf: [FileChange[], Set<string>, Node[]] | undefined
// tree returns the files of the turn below their directories; directories with one way down are one.
function tree(): Node[] {
  if (treeOf && treeOf[0] === S.files.list && treeOf[1] === S.folded) return treeOf[2]
  const files = S.files.list.filter((f, i, all) => i === 0 || all[i - 1].path !== f.path)
  // Of thousands of files most are in the directory of the one before: only what is in a directory itself is counted by file.
  const own = new Map<string, number>(), counts = new Map<string, number>(), subs = new Map<string, Set<string>>()
  for (const f of files) {
    const dir = dirOf(f.path)
    own.set(dir, (own.get(dir) ?? 0) + 1)
  }
  for (const [inner, n] of own) {
    for (let dir = inner; ; dir = dirOf(dir)) {
      counts.set(dir, (counts.get(dir) ?? 0) + n)
      if (dir === '') break
      const up = dirOf(dir)
      if (!subs.has(up)) subs.set(up, new Set())
      subs.get(up)!.add(dir)
    }
  }
  const nodes: Node[] = []
  const shown = new Map<string, number>([['', 0]]) // directories that have a row, or none of their own, and the depth below
  const hidden = (dir: string): boolean => dir !== '' && (S.folded.has(dir) || hidden(dirOf(dir)))
  let before: string | undefined, depth = 0, isHidden = false
  for (const f of files) {
    const inner = dirOf(f.path)
    if (inner !== before) {
      before = inner
      isHidden = hidden(inner)
      depth = 0
      let last = '' // of the directories around it that have a row
      for (let end = inner.indexOf('/'); inner !== ''; end = inner.indexOf('/', end + 1)) {
        const dir = end < 0 ? inner : inner.slice(0, end)
        const known = shown.get(dir)
        if (known !== undefined) {
          depth = known
          last = dir
        } else if (own.has(dir) || subs.get(dir)!.size > 1) { // else it is one with what is in it
          if (!hidden(last)) nodes.push({ dir, depth, count: counts.get(dir)!, name: last ? dir.slice(last.length + 1) : dir })
          shown.set(dir, ++depth)
          last = dir
        }
        if (end < 0) break
      }
    }
    if (!isHidden) nodes.push({ file: f, depth, name: f.path.slice(f.path.lastIndexOf('/') + 1) })
  }
  treeOf = [S.files.list, S.folded, nodes]
  return nodes
}

function Files() {
  const m = chosen()
  const nodes = tree()
  const at = nodes.findIndex(x => 'file' in x && x.file.path === S.path)
  const { files } = S
  return (
    <section class="pane files" aria-label="Files">
      {files.error ? <div class="empty" role="alert"><p>{files.error.message}</p>{files.error.hint && <p>{files.error.hint}</p>}</div>
        : files.loading && nodes.length === 0 ? <div class="empty">Reading…</div>
        : nodes.length === 0 ? <div class="empty">{!m ? '' : m.pruned ? 'What it changed was dropped from the store by prune, or by retention.' : m.kind === 'start' ? 'Here the session began: what was there then is not a change.' : 'It changed no file.'}</div>
        : <Virtual count={nodes.length} height={28} show={at} showKey={S.path} row={i => <FileRow m={m!} node={nodes[i]} i={i} />}
          attrs={{ id: 'files', role: 'tree', tabIndex: 0, 'aria-label': 'Files of the turn', 'aria-activedescendant': at >= 0 ? `file-${at}` : undefined }} />}
    </section>
  )
}

function Actions({ m }: { m: Moment }) {
  const can = !S.page!.readOnly && isTurn(m) && !m.pruned
  return (
    <p class="actions">
      {can && (canTakeBack(m)
        ? <button class="go" title="Take back this turn, and keep what came after it (enter)" onClick={() => previewTurn(m)}>Take back…</button>
        : canBringBack(m) && <button class="go" onClick={() => previewBringBack(m)}>{broughtBack(m).length > 1 ? `Bring ${broughtBack(m).length} turns back…` : 'Bring it back…'}</button>)}
      {can && !m.elsewhere && !m.goesOn && !m.forkedFrom && <button title="Make the files what they were at the end of this turn (b)" onClick={() => previewGoBack(m)}>Go back to here…</button>}
      {can && !m.label && !m.forkedFrom && <button title="Give the turn a name (m)" onClick={() => set({ dialog: 'name' })}>Name…</button>}
      {m.rev && !m.pruned && <button title="Save all files as they were at its end, as a .tar (E)" onClick={() => exportState(m)}>Export</button>}
    </p>
  )
}

function FileRow({ m, node, i }: { m: Moment; node: Node; i: number }) {
  const pad = { paddingLeft: `${10 + node.depth * 16}px` }
  if ('dir' in node) {
    const isFolded = S.folded.has(node.dir)
    return (
      <div key={node.dir + '/'} id={`file-${i}`} role="treeitem" aria-level={node.depth + 1} aria-expanded={!isFolded} aria-selected={false} class="file dir" style={pad}
        onClick={() => {
          const folded = new Set(S.folded)
          if (!folded.delete(node.dir)) folded.add(node.dir)
          set({ folded })
        }}>
        <span class="arrow" aria-hidden="true">{isFolded ? '▸' : '▾'}</span><span class="name">{inLine(node.name)}/</span><span class="many">{node.count}</span>
      </div>
    )
  }
  const f = node.file
  const picks = picksOf(m)
  const isAll = picks && (picks.all || picks.files.has(f.path))
  const isPart = picks && [...picks.hunks.values()].includes(f.path)
  const from = f.renamedFrom ?? ''
  const owner = f.owner === 'contested' ? '!' : ''
  return (
    <div key={f.path} id={`file-${i}`} role="treeitem" aria-level={node.depth + 1} aria-selected={f.path === S.path} title={inLine(from ? `${from} → ${f.path}, ${f.similarity} % the same` : f.path)}
      class={`file ${f.path === S.path ? 'at' : ''} ${m.takenBackSeq ? 'back' : ''}`} style={pad} onClick={() => openFile(f.path)}>
      {canTakeBack(m) && !S.page!.readOnly && <span class="mark" aria-label={isAll ? 'picked' : isPart ? 'picked in part' : 'pick this file'}
        onClick={e => { e.stopPropagation(); pickFile(m, f.path) }}>{isAll ? '☑' : isPart ? '◩' : '☐'}</span>}
      <span class={`letter ${f.status}`} aria-label={f.status} title={f.status}>{letters[f.status] ?? '?'}</span>
      <span class="name">{inLine(node.name)}{from && <span class="was"> ← {inLine(from)}</span>}</span>
      {owner && <span class="warn" title="Another session, or you, may have changed it, too">! contested</span>}
      {f.binary ? <span class="many">binary</span> : f.added + f.deleted > 0 && <span class="many"><span class="add">+{f.added}</span> <span class="del">−{f.deleted}</span></span>}
    </div>
  )
}

function Picked() {
  const text = pickedText()
  if (!text) return null
  return (
    <div class="picked" role="region" aria-label="What is picked">
      <b>{text} picked</b>
      <span class="grow" />
      <button onClick={() => set({ picks: new Map(), said: 'nothing picked' })}>Clear</button>
      <button class="go" onClick={() => previewPicks()}>Preview…  <kbd>Enter</kbd></button>
    </div>
  )
}

function Toasts() {
  const t = S.toast
  if (!t) return null
  return (
    <div key={t.n} class={`toast ${t.isBad ? 'bad' : ''}`} role={t.isBad ? 'alert' : 'status'}>
      <div><b>{inLine(t.text)}</b>{t.lines.map(l => <p>{inLine(l)}</p>)}</div>
      {t.back && <button class="go" onClick={() => takeBack(t.back!)}>{t.back === 'undo' ? 'Undo' : 'Redo'}</button>}
      <button onClick={() => set({ toast: undefined })} aria-label="Close this message">×</button>
    </div>
  )
}

export function LabelForm(p: { isTurn?: boolean }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <form onSubmit={e => { e.preventDefault(); if (input.current!.value.trim()) label(input.current!.value.trim(), p.isTurn ? chosen() : undefined) }}>
      <p>{p.isTurn ? 'The name stands for the turn in every command, and keeps it.' : 'The files are recorded as they are now, under this name.'}</p>
      <label>Name <input ref={input} maxLength={200} /></label>
      <p class="buttons"><button type="button" onClick={() => set({ dialog: '' })}>Cancel</button><button class="go">{p.isTurn ? 'Name' : 'Label'}</button></p>
    </form>
  )
}
