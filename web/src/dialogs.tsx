import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { LabelForm, many, standing } from './app'
import { fromUnified, type Row } from './diff'
import { Rows } from './diffview'
import { S, apply, by, exportLog, files, nameOf, preview, select, set, keyOf, takeBack, whenIdle } from './store'
import { ago } from './time'
import type { PlannedFile } from './types'
import { inLine } from './visible'

export function Dialogs() {
  return (
    <>
      {S.preview && <PreviewDialog />}
      {S.dialog === 'help' && <Dialog title="Keys" close={() => set({ dialog: '' })}><Help /></Dialog>}
      {S.dialog === 'restores' && <Dialog title="Restores" close={() => set({ dialog: '' })}><Restores /></Dialog>}
      {S.dialog === 'label' && <Dialog title="Label the files as they are" first="input" close={() => set({ dialog: '' })}><LabelForm /></Dialog>}
      {S.dialog === 'name' && <Dialog title="Name this turn" first="input" close={() => set({ dialog: '' })}><LabelForm isTurn /></Dialog>}
      {S.dialog === 'left' && <Dialog title="Not captured" close={() => set({ dialog: '' })}>
        <p>These paths are not in the snapshot: nothing brings them back.</p>
        <ul class="items">{S.leftOut?.map(o => <li><code>{inLine(o.path)}</code> {o.reason}</li>)}</ul>
      </Dialog>}
    </>
  )
}

function Dialog(p: { title: string; close: () => void; children: ComponentChildren; wide?: boolean; first?: string }) {
  const box = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null
    box.current?.showModal()
    // And no button: it would be pressed by who types on.
    box.current?.querySelector<HTMLElement>(p.first ?? '#dialog-title')?.focus()
    return () => { box.current?.close(); before?.focus?.() }
  }, [])
  return (
    <dialog ref={box} class={p.wide ? 'wide' : ''} aria-labelledby="dialog-title" onCancel={e => { e.preventDefault(); p.close() }}>
      <h2 id="dialog-title" tabIndex={-1}>{p.title}</h2>
      {p.children}
      {!p.wide && <button class="close round" aria-label="Close" onClick={p.close}>×</button>}
    </dialog>
  )
}

let parsed: [PlannedFile, Row[]] | undefined
function rowsOf(f: PlannedFile): Row[] {
  if (parsed?.[0] !== f) parsed = [f, fromUnified(f.unifiedDiff)]
  return parsed[1]
}

let shownFile = 0
const maxListed = 300 // files of a preview

function PreviewDialog() {
  const p = S.preview!
  const go = useRef<HTMLButtonElement>(null)
  const since = useRef(0) // when what is shown came
  const r = p.answer
  const does = r && r.restored.length + r.deleted.length > 0
  useLayoutEffect(() => {
    since.current = performance.now()
    if (does && !p.busy) go.current?.focus()
  }, [r, does, p.busy, p.error])
  // A key that is held down since it asked for the preview does not agree to it.
  const agree = () => { if (performance.now() - since.current > 250) apply() }
  const close = () => set({ preview: undefined })
  const conflicts = new Set(r?.conflicts?.map(c => c.path))
  const reasons = new Map(r?.items.map(i => [i.path, (i.reason ?? '').replace(/^conflict: /, '')]))
  const others = r ? r.items.filter(i => i.action !== 'restored' && i.action !== 'deleted' && !conflicts.has(i.path)) : []
  const diffs = r?.diffs ?? []
  const file = diffs[Math.min(shownFile, diffs.length - 1)]
  return (
    <Dialog title={p.ask.what} close={close} wide>
      {p.changed && <p class="warn" role="alert">Files have changed since: nothing was done yet, and this is what would be done now.</p>}
      {(p.error || S.open.length > 0 && r && !p.waits && !p.ends && !p.busy) && <Trouble />}
      {p.ends && <p class="warn" role="status">Turn {p.ends.turn} ends first: its agent is taken to have stopped.</p>}
      {p.waits && <p role="status">Waiting for the end of the open turn. It is done then, if it is still what is shown here.</p>}
      {p.busy && !r && <p role="status">Finding out what would be done…</p>}
      {r && <>
        <p class="summary" role="status">
          {does ? <>This changes <b>{files(r, 'restored')}</b> file{files(r, 'restored') === 1 ? '' : 's'}{r.deleted.length > 0 && <> and deletes <b>{files(r, 'deleted')}</b></>}.</>
            : <b>Nothing would be done.</b>} {r.headChanged && <span class="warn">! Another commit is checked out than at the time.</span>}
        </p>
        {(r.conflicts ?? []).length > 0 && <div class="conflicts" role="group" aria-label="Conflicts">
          <p class="warn"><b>! {r.conflicts!.length} file{r.conflicts!.length === 1 ? '' : 's'} in conflict:</b> changed since, at the same lines.{' '}
            {p.ask.verb !== 'undo' && p.ask.verb !== 'redo' && <label>These lines <select value={p.onConflict} onChange={e => preview(p.ask, { onConflict: e.currentTarget.value })}>
              <option value="keep">stay as they are</option><option value="theirs">are taken back all the same</option><option value="markers">get markers, both ways</option>
            </select></label>}</p>
          <ul class="items">{r.conflicts!.slice(0, 50).map(c => <li><code>{inLine(c.path)}</code> {reasons.get(c.path) || c.why}{!reasons.get(c.path) && c.blockedBy?.length ? ` (${c.blockedBy.map(by).join(', ')})` : ''}</li>)}</ul>
        </div>}
        {others.length > 0 && <ul class="items">{others.slice(0, 50).map(i => <li><code>{inLine(i.path)}</code> {i.action}: {i.reason}</li>)}</ul>}
        {diffs.length > 1 && <label class="which">File <select value={file ? diffs.indexOf(file) : 0} onChange={e => { shownFile = +e.currentTarget.value; set({}) }}>
          {diffs.slice(0, maxListed).map((d, i) => <option value={i}>{d.action === 'deleted' ? 'D ' : ''}{inLine(d.path)} +{d.added} −{d.deleted}</option>)}
        </select>{diffs.length > maxListed && ` and ${diffs.length - maxListed} more`}</label>}
        {file && <div class="result" style={{ height: `${Math.min(34 + 4 + 20 * Math.max(3, rowsOf(file).length + 1), innerHeight * .46)}px` }}>
          <h3>{inLine(file.path)} <span>{file.action === 'deleted' ? 'is deleted' : 'as it would be'}</span> <span class="grow" /><span class="add">+{file.added}</span> <span class="del">−{file.deleted}</span></h3>
          {file.binary ? <p>It is no text.</p> : file.tooLong ? <p>The difference is too long to be shown.</p>
            : <Rows rows={rowsOf(file)} isSplit={false} path={file.path} />}
        </div>}
      </>}
      <p class="buttons">
        <button onClick={close}>Cancel  <kbd>Esc</kbd></button>
        {r && p.error?.code === 'turn_open'
          ? <button class="go" onClick={whenIdle}>Wait for the end of the turn, then do it</button>
          : <button ref={go} class="go" disabled={!does || p.busy || p.waits || !!p.error} onClick={agree}>{p.busy && r ? 'Working…' : p.ask.what}  <kbd>Enter</kbd></button>}
      </p>
    </Dialog>
  )
}

// Trouble says what is in the way, or will be: an open turn, under which nothing is taken back.
function Trouble() {
  const p = S.preview!
  const e = p.error
  const mine = S.open.find(t => t.session === S.session)
  const isOpen = e?.code === 'turn_open'
  return (
    <div class={isOpen || !e ? 'trouble open' : 'trouble'} role={e ? 'alert' : 'group'} aria-label={e ? undefined : 'An open turn'}>
      <p><b>{e ? inLine(e.message) : `${mine ? `Turn ${mine.turn}` : 'A turn of another session'} is open: nothing is taken back under it.`}</b></p>
      {isOpen || !e ? mine && !mine.held && <p class="buttons">
        <button onClick={() => preview(p.ask, { onConflict: p.onConflict, ends: mine })}>The agent was stopped: end its turn</button>
      </p> : e.hint && <p>{e.hint}</p>}
    </div>
  )
}

function Restores() {
  const rows = S.rows.filter(m => ['restore', 'undo', 'redo'].includes(m.kind))
  const readOnly = S.page!.readOnly
  return (
    <>
      {rows.length === 0 && <p class="dim">Nothing was taken back in this session. What is taken back is listed here, and undo brings it back.</p>}
      <ul class="items">{rows.slice(0, 200).map(m => (
        <li>
          <button class="link" onClick={() => { select(keyOf(m)); set({ dialog: '' }) }}>{nameOf(m)} {ago(m.time)}</button>
          {' '}{[standing(m), many(m.added + m.modified + m.deleted, 'file')].filter(Boolean).join(', ')}
          {m.snapshotSeq === S.undoSeq && <b> · undo takes this back next</b>}
          {m.snapshotSeq === S.redoSeq && <b> · redo does this again next</b>}
        </li>
      ))}</ul>
      {!readOnly && <p class="buttons">
        <button disabled={!S.undoSeq} onClick={() => { set({ dialog: '' }); takeBack('undo') }}>Undo</button>
        <button disabled={!S.redoSeq} onClick={() => { set({ dialog: '' }); takeBack('redo') }}>Redo</button>
        <button disabled={!S.session} onClick={() => { set({ dialog: '' }); exportLog() }}>Export the session's log</button>
      </p>}
    </>
  )
}

const keys: [string, string][] = [
  ['j k', 'next and previous turn'], ['J K', 'next and previous file'], ['n p', 'next and previous hunk'],
  ['space', 'pick the hunk; the turn, if no hunk is shown'], ['x', 'pick the file'], ['t', 'pick the turn'], ['v', 'the hunk is reviewed'],
  ['enter', 'preview what is picked, or the turn; then do it'], ['esc', 'back'], ['u U', 'undo, redo'], ['b', 'go back to the end of the turn'], ['m', 'name the turn'],
  ['s', 'side by side, or unified'], ['a', 'whose each line is'], ['e', 'unfold all'], ['E', 'save all files as they were at its end'], ['h', 'history of the file; ← and → go through it'], ['/', 'search prompts; with enter, contents: j k and enter go through what was found'], ['?', 'these keys'],
]

function Help() {
  return (
    <>
      <table class="keys"><tbody>{keys.map(([k, what]) => <tr><th scope="row">{k.split(' ').map(c => <kbd>{c}</kbd>)}</th><td>{what}</td></tr>)}</tbody></table>
      <p>Hunks: <b>can go</b> is taken back as it is, <b>! conflict</b> was changed since, <b>✓ taken back</b> is gone already.
        Files: A added, M modified, D deleted, R renamed, T another kind.</p>
      <p><small>snapctl {S.page?.version}</small></p>
    </>
  )
}
