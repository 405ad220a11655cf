import { useEffect, useRef } from 'preact/hooks'
import { Diff, DiffBar } from './diffview'
import { Dialogs } from './dialogs'
import {
  S, canBringBack, canTakeBack, choose, chosen, count, find, isTurn, keyOf, label, loadSessions, nameOf, openFile, pickFile, pickedText,
  picksOf, preview, previewBringBack, previewGoBack, previewPicks, search, select, set, show, showLeftOut, shown, takeBack, turnOf,
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

const many = (n: number, what: string) => `${n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`

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
      <input id="search" type="search" placeholder="Search  /" aria-label="Search prompts, and with Enter contents" value={S.query}
        onInput={e => search(e.currentTarget.value)} />
      <span class="grow" />
      {readOnly ? <span class="tag">read only</span> : <>
        <button disabled={!S.undoSeq} onClick={() => takeBack('undo')} title="Take back the newest restore (u)">Undo</button>
        <button disabled={!S.redoSeq} onClick={() => takeBack('redo')} title="Do again what was undone (U)">Redo</button>
      </>}
      <button onClick={() => set({ dialog: 'restores' })}>Restores</button>
      {!readOnly && <button onClick={() => set({ dialog: 'label' })} disabled={!S.session}>Label</button>}
      <button onClick={() => set({ dialog: 'help' })} aria-label="Keys and help" title="Keys (?)">?</button>
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
        <button class="link" aria-pressed={!S.found} onClick={() => set({ found: undefined })}>{many(rows.length, 'prompt')}</button>
        <button class="link" aria-pressed={!!S.found} onClick={() => find(S.query)}>{S.found ? `${many(S.found.list.length, 'change')}${S.found.loading ? '…' : ''}` : 'Find in contents  ⏎'}</button>
      </p>}
      {S.found ? <FoundList /> : rows.length === 0
        ? <Empty />
        : <Virtual count={rows.length} height={58} show={at} showKey={S.at} row={i => <TurnRow m={rows[i]} i={i} all={rows.length} />}
          attrs={{ id: 'turns', role: 'listbox', tabIndex: 0, 'aria-label': 'Turns, newest first', 'aria-activedescendant': at >= 0 ? `turn-${at}` : undefined }} />}
      {!S.query && <p class="count">{rows.length.toLocaleString()}{S.isAll ? '' : '+'} moments</p>}
    </section>
  )
}

function Empty() {
  if (S.query) return <div class="empty"><p>Nothing has “{S.query}” in its prompt, label or agent.</p><button onClick={() => search('')}>Show all</button></div>
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
      <Virtual count={list.length} height={58} row={i => {
        const f = list[i]
        return (
          <div key={i} role="option" aria-selected={false} aria-setsize={list.length} aria-posinset={i + 1} class="turn found" onClick={() => show(f)}>
            <div class="title"><span class={f.after > f.before ? 'add' : 'del'}>{f.after > f.before ? '+' : '−'}</span> <code>{inLine(f.text.trim())}</code></div>
            <div class="meta"><b>{f.turn >= 0 ? `turn ${f.turn}` : f.kind === 'base' ? 'you' : f.kind}</b><span>{inLine(f.path)}:{f.line}</span><span title={exactly(f.time)}>{ago(f.time)}</span></div>
            <div class="state">{firstLine(f.title)}</div>
          </div>
        )
      }} attrs={{ id: 'found', role: 'listbox', tabIndex: 0, 'aria-label': 'Changes by which the text came or went' }} />
      {notAll && <p class="count warn">! Not all could be searched: {inLine(notAll)}</p>}
    </>
  )
}

function Live({ turn: t }: { turn: OpenTurn }) {
  return (
    <div class="live" role="status">
      <span class="dot" aria-hidden="true" /> <b>turn {t.turn}</b> {firstLine(t.title) || 'is under way'}
      <small>{[inLine(t.agent ?? ''), inLine(t.model ?? ''), t.began && `began ${ago(t.began)}`, t.tools?.length ? 'a tool runs' : ''].filter(Boolean).join(' · ')}</small>
    </div>
  )
}

const standing = (m: Moment): string => [
  m.takenBackSeq ? m.but?.length ? `taken back but for ${m.but.length} files` : 'taken back' : '',
  m.without?.length ? `in part: without ${inLine(m.without.slice(0, 2).join(', '))}${m.without.length > 2 ? ' and more' : ''}` : '',
  m.elsewhere ? 'on another branch' : '', m.forkedFrom ? `from session ${m.forkedFrom}` : '',
  m.tookBack?.length ? `took back ${turnList(m.tookBack)}` : m.reverts?.length ? `took back a part of ${turnList(m.reverts)}` : '',
  m.putBack?.length ? `put back ${turnList(m.putBack)}` : '',
  m.interrupted ? 'interrupted' : '', m.pruned ? 'pruned' : '', m.partial ? 'captured in part' : '', m.goesOn ? 'a part of the turn' : '',
  m.unknown ? 'changes not known' : '',
].filter(Boolean).join(' · ')

const turnList = (turns: number[]) => `turn${turns.length === 1 ? '' : 's'} ${turns.slice(0, 5).join(', ')}${turns.length > 5 ? ', …' : ''}`

function TurnRow({ m, i, all }: { m: Moment; i: number; all: number }) {
  useEffect(() => { const t = setTimeout(() => count(m), 80); return () => clearTimeout(t) })
  const key = keyOf(m)
  const lines = S.counts.get(key)
  const picks = picksOf(m)
  const files = m.added + m.modified + m.deleted
  const left = m.coverageHash ? S.left.get(m.coverageHash) ?? 0 : 0
  const title = firstLine(m.title) || (m.label ? '' : m.kind === 'base' ? 'You changed files' : isTurn(m) ? '(no prompt)' : nameOf(m))
  const state = standing(m)
  return (
    <div key={key} id={`turn-${i}`} role="option" aria-selected={key === S.at} aria-setsize={S.isAll ? all : -1} aria-posinset={i + 1}
      class={`turn kind-${m.kind} ${key === S.at ? 'at' : ''} ${m.takenBackSeq || m.elsewhere ? 'back' : ''}`}
      onClick={() => { select(key); set({ pane: 'files' }) }}>
      <div class="title" title={visible(m.title ?? '')}>
        {picks && <span class="mark" aria-label="picked">{picks.all ? '☑' : '◩'}</span>}
        {m.label && <span class="label">{inLine(m.label)}</span>}{title}
      </div>
      <div class="meta">
        <b>{nameOf(m)}</b>
        {files > 0 && <span>{files} file{files === 1 ? '' : 's'}</span>}
        {lines && <><span class="add">+{lines.added}{lines.more ? '…' : ''}</span><span class="del">−{lines.deleted}{lines.more ? '…' : ''}</span></>}
        {m.agent && <span>{inLine(`${m.agent} ${m.model ?? ''}`)}</span>}
        <span title={exactly(m.time)}>{ago(m.time)}</span>
        {!!lines?.contested && <span class="warn" title="Another session, or you, may have changed these, too">! {lines.contested} contested</span>}
        {left > 0 && <span class="warn">! {left} not captured</span>}
      </div>
      {state && <div class="state">{state}</div>}
    </div>
  )
}

type Node = { dir: string; depth: number; count: number; name: string } | { file: FileChange; depth: number; name: string }

const letters: Record<string, string> = { added: 'A', modified: 'M', deleted: 'D', retyped: 'T', captured: 'C', uncaptured: 'U' }

let treeOf: [FileChange[], Set<string>, Node[]] | undefined
// tree returns the files of the turn below their directories; directories with one way down are one.
function tree(): Node[] {
  if (treeOf && treeOf[0] === S.files.list && treeOf[1] === S.folded) return treeOf[2]
  const counts = new Map<string, number>(), subs = new Map<string, Set<string>>()
  const files = S.files.list.filter((f, i, all) => i === 0 || all[i - 1].path !== f.path)
  for (const f of files) {
    const parts = f.path.split('/')
    for (let i = parts.length - 1, dir; i >= 0; i--) {
      dir = parts.slice(0, i).join('/')
      counts.set(dir, (counts.get(dir) ?? 0) + 1)
      if (!subs.has(dir)) subs.set(dir, new Set())
      subs.get(dir)!.add(parts[i] + (i < parts.length - 1 ? '/' : ''))
    }
  }
  const nodes: Node[] = []
  const shown = new Map<string, number>([['', 0]]) // directories that have a row, or none of their own, and the depth below
  const hidden = (dir: string): boolean => dir !== '' && (S.folded.has(dir) || hidden(dir.slice(0, Math.max(0, dir.lastIndexOf('/')))))
  for (const f of files) {
    const parts = f.path.split('/')
    let depth = 0, begin = 0
    for (let i = 1; i < parts.length; i++) {
      const dir = parts.slice(0, i).join('/')
      const known = shown.get(dir)
      if (known !== undefined) { depth = known; begin = i; continue }
      const only = subs.get(dir)!
      if (only.size === 1 && [...only][0].endsWith('/')) continue // it is one with what is in it
      const up = parts.slice(0, begin).join('/')
      if (!hidden(up)) nodes.push({ dir, depth, count: counts.get(dir)!, name: parts.slice(begin, i).join('/') })
      shown.set(dir, ++depth)
      begin = i
    }
    if (!hidden(parts.slice(0, -1).join('/'))) nodes.push({ file: f, depth, name: parts.slice(begin).join('/') })
  }
  treeOf = [S.files.list, S.folded, nodes]
  return nodes
}

// renamedFrom says where an added file was before, if one that went has held the same.
function renamedFrom(f: FileChange): string {
  return f.status === 'added' ? S.files.list.find(o => o.status === 'deleted' && o.oldHash === f.newHash)?.path ?? '' : ''
}

function Files() {
  const m = chosen()
  const nodes = tree()
  const at = nodes.findIndex(x => 'file' in x && x.file.path === S.path)
  const { files } = S
  return (
    <section class="pane files" aria-label="Files">
      <div class="head">
        <button class="up" onClick={() => set({ pane: 'turns' })}>‹ Turns</button>
        {m && <p class="prompt" tabIndex={0}>{visible(m.title || m.label || nameOf(m))}</p>}
        {m && <Actions m={m} />}
      </div>
      {files.error ? <div class="empty" role="alert"><p>{files.error.message}</p>{files.error.hint && <p>{files.error.hint}</p>}</div>
        : files.loading && nodes.length === 0 ? <div class="empty">Reading…</div>
        : nodes.length === 0 ? <div class="empty">{!m ? '' : m.pruned ? 'What it changed was dropped from the store by prune, or by retention.' : m.kind === 'start' ? 'Here the session began: what was there then is not a change.' : 'It changed no file.'}</div>
        : <Virtual count={nodes.length} height={26} show={at} showKey={S.path} row={i => <FileRow m={m!} node={nodes[i]} i={i} />}
          attrs={{ id: 'files', role: 'tree', tabIndex: 0, 'aria-label': 'Files of the turn', 'aria-activedescendant': at >= 0 ? `file-${at}` : undefined }} />}
      <p class="count">{nodes.length > 0 && many(new Set(files.list.map(f => f.path)).size, 'file')}
        {m?.coverageHash && !!S.left.get(m.coverageHash) && <button class="link" onClick={() => showLeftOut(m)}>{S.left.get(m.coverageHash)} not captured</button>}
      </p>
    </section>
  )
}

function Actions({ m }: { m: Moment }) {
  if (S.page!.readOnly || !isTurn(m) || m.pruned) return null
  return (
    <p class="actions">
      {canTakeBack(m)
        ? <button onClick={() => preview({ verb: 'revert', args: { turns: [turnOf(m)] }, what: `Take back ${nameOf(m)}` })}>Take back this turn…</button>
        : canBringBack(m) && <button onClick={() => previewBringBack(m)}>Bring it back…</button>}
      {!m.elsewhere && !m.goesOn && !m.forkedFrom && <button onClick={() => previewGoBack(m)}>{m.takenBackSeq ? 'Go back to its end…' : 'Take back all since…'}</button>}
      {!m.label && !m.forkedFrom && <button onClick={() => set({ dialog: 'name' })}>Name…</button>}
    </p>
  )
}

function FileRow({ m, node, i }: { m: Moment; node: Node; i: number }) {
  const pad = { paddingLeft: `${8 + node.depth * 14}px` }
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
  const from = renamedFrom(f)
  const owner = f.owner === 'contested' ? '!' : ''
  return (
    <div key={f.path} id={`file-${i}`} role="treeitem" aria-level={node.depth + 1} aria-selected={f.path === S.path} title={inLine(from ? `${from} → ${f.path}` : f.path)}
      class={`file ${f.path === S.path ? 'at' : ''} ${m.takenBackSeq ? 'back' : ''}`} style={pad} onClick={() => openFile(f.path)}>
      {canTakeBack(m) && !S.page!.readOnly && <span class="mark" aria-label={isAll ? 'picked' : isPart ? 'picked in part' : 'pick this file'}
        onClick={e => { e.stopPropagation(); pickFile(m, f.path) }}>{isAll ? '☑' : isPart ? '◩' : '☐'}</span>}
      <span class={`letter ${f.status}`} aria-label={from ? 'renamed' : f.status}>{from ? 'R' : letters[f.status] ?? '?'}</span>
      <span class="name">{inLine(node.name)}</span>
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
      {t.canUndo && <button class="go" onClick={() => takeBack('undo')}>Undo</button>}
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
