import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { differing, maxShown, type Row, type Side } from './diff'
import {
  S, by, canTakeBack, chosen, diffRows, diffSeen, goToOwner, isPicked, keyOf, pickHunk, picksOf, review, select, set, showVersions, toggleBlame, turnOf, whose, type Blame,
} from './store'
import { tokens } from './syntax'
import { exactly } from './time'
import type { Hunk } from './types'
import { inLine, visible } from './visible'
import { Virtual } from './virtual'

export function DiffBar() {
  const { diff } = S
  if (!S.path) return null
  const c = diff.changes[0]
  const last = diff.changes[diff.changes.length - 1]
  const mode = c && last && c.oldMode && last.newMode && c.oldMode !== last.newMode ? `mode ${c.oldMode} → ${last.newMode}` : ''
  const slash = S.path.lastIndexOf('/') + 1
  const reviewed = diff.hunks.filter(h => S.reviewed.has(h.id)).length
  return (
    <div class="head">
      <div class="row">
        <button class="up" onClick={() => set({ pane: 'files' })}>‹ Files</button>
        <h2 title={inLine(S.path)}><span class="dir">{inLine(S.path.slice(0, slash))}</span>{inLine(S.path.slice(slash))}</h2>
        <span class="grow" />
        <span class="group">
          <button aria-pressed={!!S.versions} title="All that has changed the file (h)" onClick={() => S.versions ? set({ versions: undefined }) : showVersions(S.path)}>History</button>
          <button aria-pressed={S.isBlamed} title="Whose each line is (a)" onClick={toggleBlame}>Blame</button>
          <button aria-pressed={S.isSplit} title="Side by side (s)" onClick={() => set({ isSplit: !S.isSplit })}>Split</button>
        </span>
      </div>
      <p class="meta">
        {diff.hunks.length > 0 && <span>{S.hunk + 1} of {diff.hunks.length} hunk{diff.hunks.length === 1 ? '' : 's'}</span>}
        {reviewed > 0 && <span>{reviewed} reviewed</span>}
        {c?.renamedFrom && <span>moved from <code>{inLine(c.renamedFrom)}</code>, {c.similarity} % the same</span>}
        {mode && <span>{mode}</span>}
        {diff.note && <span>{diff.note}</span>}
        {S.isBlamed && S.blame?.error && <span class="warn">{inLine(S.blame.error)}</span>}
      </p>
      {S.versions && <Scrubber />}
    </div>
  )
}

// Scrubber goes through all that has changed the file.
function Scrubber() {
  const { rows, loading } = S.versions!
  if (loading) return <p class="scrubber" role="status">Reading the history of the file…</p>
  const at = rows.findIndex(m => keyOf(m) === S.at)
  const m = rows[at]
  return (
    <p class="scrubber">
      <input type="range" min={0} max={Math.max(0, rows.length - 1)} value={at < 0 ? rows.length - 1 : at} aria-label="Version of the file"
        aria-valuetext={m ? `${m.turnIndex >= 0 ? `turn ${m.turnIndex}` : m.kind}, ${exactly(m.time)}` : 'none'}
        onInput={e => { const row = rows[+e.currentTarget.value]; if (row) select(keyOf(row)) }} />
      <span>{at < 0 ? `${rows.length} changes` : `change ${at + 1} of ${rows.length}`}{m ? `: ${m.turnIndex >= 0 ? `turn ${m.turnIndex}` : m.kind === 'base' ? 'you' : m.kind}, ${exactly(m.time)}` : ''}</span>
    </p>
  )
}

export function Diff() {
  const { diff } = S
  const read = diff.loading || diff.error ? '' : diff.key
  useLayoutEffect(() => { if (read) requestAnimationFrame(diffSeen) }, [read])
  if (diff.error) return <div class="empty" role="alert"><p>{diff.error.message}</p>{diff.error.hint && <p>{diff.error.hint}</p>}</div>
  if (diff.loading) return <div class="empty">Reading…</div>
  if (!S.path) return <div class="empty">{S.rows.length > 0 && 'Choose a turn and a file to see what changed.'}</div>
  const rows = diffRows()
  const at = rows.findIndex(r => r.type === 'hunk' && r.index === S.hunk)
  const end = at < 0 ? -1 : rows.findIndex((r, i) => i > at && !(r.type === 'line' && r.hunk === S.hunk))
  return (
    <>
      {diff.images?.some(Boolean) && <div class="images">
        {diff.images.map((url, i) => url && <figure><figcaption>{i ? 'after' : 'before'}</figcaption><img src={url} alt={i ? 'the image after the turn' : 'the image before the turn'} /></figure>)}
      </div>}
      <Rows rows={rows} isSplit={S.isSplit} path={S.path} show={at} until={end < 0 ? rows.length : end} showKey={S.hunk + S.diff.key}
        blame={S.isBlamed && S.blame?.key === S.diff.key ? S.blame : undefined} />
    </>
  )
}

const height = (rows: Row[]) => (i: number) => rows[i].type === 'hunk' ? 36 : rows[i].type === 'line' ? 20 : 28

let heights: [Row[], (i: number) => number] | undefined
function heightOf(rows: Row[]) {
  if (heights?.[0] !== rows) heights = [rows, height(rows)]
  return heights[1]
}

// longest returns how many characters the longest line has, as far as lines are shown.
let longestOf: [Row[], number] | undefined
function longest(rows: Row[]): number {
  if (longestOf?.[0] === rows) return longestOf[1]
  let most = 0
  for (const r of rows) if (r.type === 'line') most = Math.max(most, r.left?.text.length ?? 0, r.right?.text.length ?? 0)
  longestOf = [rows, Math.min(most, maxShown)]
  return longestOf[1]
}

export function Rows(p: { rows: Row[]; isSplit: boolean; path: string; show?: number; until?: number; showKey?: unknown; blame?: Blame }) {
  return (
    <Virtual class={`code ${p.isSplit ? 'split' : ''} ${p.blame ? 'blamed' : ''}`} wide={p.isSplit ? longest(p.rows) : true}
      count={p.rows.length} height={heightOf(p.rows)} show={p.show} until={p.until} showKey={p.showKey}
      row={i => <RowView key={i} rows={p.rows} i={i} isSplit={p.isSplit} path={p.path} blame={p.blame} />}
      attrs={{ tabIndex: 0, role: 'region', 'aria-label': `Changes in ${inLine(p.path)}` }} />
  )
}

function RowView(p: { rows: Row[]; i: number; isSplit: boolean; path: string; blame?: Blame }) {
  const r = p.rows[p.i]
  switch (r.type) {
    case 'part': return <div class="part">{r.text}</div>
    case 'note': return <div class="part">{r.text}</div>
    case 'fold': return <button class="fold" onClick={() => set({ unfolded: new Set(S.unfolded).add(r.key) })}><span aria-hidden="true">⋯</span> {r.count} lines that are the same</button>
    case 'hunk': return <HunkBar h={r.hunk} i={r.index} />
  }
  const isAt = r.hunk !== undefined && r.hunk === S.hunk ? ' at' : ''
  const gutter = p.blame && <Owner blame={p.blame} line={r.right?.no} above={lineOf(p.rows[p.i - 1])} />
  if (p.isSplit) {
    const marks = r.left && r.right && r.left.kind === '-' ? differing(r.left.text, r.right.text) : null
    return (
      <div class={`line${isAt}`}>
        {gutter}
        <Code side={r.left} path={p.path} mark={marks && [marks[0], marks[1]]} />
        <Code side={r.right} path={p.path} mark={marks && [marks[0], marks[2]]} />
      </div>
    )
  }
  return (
    <div class={`line${isAt}`}>
      {gutter}
      <Code side={r.left && r.left.kind !== ' ' ? r.left : r.right} numbers={[r.left?.no, r.right?.no]} path={p.path} mark={partner(p.rows, p.i)} />
    </div>
  )
}

const lineOf = (r: Row | undefined) => r?.type === 'line' ? r.right?.no : undefined

// Owner says whose a line is, where that is another than of the line above.
function Owner({ blame, line, above }: { blame: Blame; line?: number; above?: number }) {
  const at = line === undefined ? undefined : blame.lines[line - 1]
  if (at === undefined) return <span class="owner" />
  const o = blame.of[at]
  const isSame = above !== undefined && blame.lines[above - 1] === at
  const hue = o.kind === 'turn' ? ` hue${o.turn % 6}` : ''
  if (isSame) return <span class={`owner${hue}`} />
  const text = [whose(o), o.title, o.agent, o.time && exactly(o.time), o.certainty === 'window' && 'the only turn at work then', ...(o.by ?? [])].filter(Boolean).join(', ')
  return (
    <span class={`owner${hue}`}>
      <button class="link" tabIndex={-1} title={inLine(text)} aria-label={`line ${line}: ${inLine(text)}`} onClick={() => goToOwner(o)}>{inLine(whose(o))}</button>
    </span>
  )
}

// partner finds, in a unified diff, the line that a line stands for, and what of it differs.
function partner(rows: Row[], i: number): [number, number] | null {
  const r = rows[i]
  if (r.type !== 'line' || r.left && r.right) return null
  const sideAt = (j: number, which: 'left' | 'right') => {
    const o = rows[j]
    return o?.type === 'line' && !(o.left && o.right) && o.hunk === r.hunk ? o[which] : undefined
  }
  const which = r.left ? 'left' : 'right'
  let first = i
  while (sideAt(first - 1, which)) first--
  if (i - first > 200) return null
  let other = first
  if (which === 'left') while (sideAt(other, 'left')) other++
  else while (sideAt(other - 1, 'left')) other--
  if (Math.abs(other - i) > 400) return null
  const j = other + (i - first)
  const to = which === 'left' ? sideAt(j, 'right') : j < first ? sideAt(j, 'left') : undefined
  if (!to) return null
  const d = which === 'left' ? differing(r.left!.text, to.text) : differing(to.text, r.right!.text)
  return d && [d[0], which === 'left' ? d[1] : d[2]]
}

function Code(p: { side?: Side; numbers?: [number | undefined, number | undefined]; path: string; mark?: [number, number] | null }) {
  const s = p.side
  if (!s) return <div class="side none" />
  const text = s.text.length > maxShown ? s.text.slice(0, maxShown) : s.text
  const kind = s.kind === '+' ? 'plus' : s.kind === '-' ? 'minus' : ''
  return (
    <div class={`side ${kind}`}>
      {(p.numbers ?? [s.no]).map(no => <span class="no" aria-hidden="true">{no}</span>)}
      <span class="sign">{s.kind}</span>
      <code>{pieces(text, p.path, p.mark)}</code>
      {s.text.length > maxShown && <span class="more">… {(s.text.length - maxShown).toLocaleString()} more characters</span>}
    </div>
  )
}

// pieces are always text nodes: whatever a file holds is shown, and never read.
function pieces(text: string, path: string, mark: [number, number] | null | undefined) {
  const out = []
  let at = 0
  for (const t of tokens(text, path)) {
    let from = at
    at += t.text.length
    for (const [to, isMarked] of mark ? [[mark[0], false], [mark[1], true], [at, false]] as const : [[at, false]] as const) {
      const end = Math.min(Math.max(to, from), at)
      if (end > from) {
        const kind = (t.kind ? `t-${t.kind}` : '') + (isMarked ? ' differs' : '')
        const piece = visible(text.slice(from, end))
        out.push(kind ? <span class={kind}>{piece}</span> : piece)
        from = end
      }
    }
  }
  return out
}

const states = { clean: 'can go', conflict: 'conflict', done: 'taken back' }

function HunkBar({ h, i }: { h: Hunk; i: number }) {
  const m = chosen()
  const [isBusy, setBusy] = useState(false)
  useEffect(() => setBusy(false), [h])
  if (!m) return null
  const isIn = isPicked(picksOf(m), h)
  const lines = S.diff.moved ? 'the file, under both names' : h.kind === 'lines' || h.kind === 'whole' && h.after[1] > h.after[0]
    ? `line${h.after[1] - h.after[0] === 1 ? '' : 's'} ${h.after[0] + 1}${h.after[1] - h.after[0] > 1 ? `–${h.after[1]}` : ''}`
    : h.kind === 'mode' ? 'mode' : 'the whole file'
  const isReviewed = S.reviewed.has(h.id)
  const can = canTakeBack(m) && h.state !== 'done' && !S.page!.readOnly
  const what = `hunk ${i + 1}, ${lines}, ${states[h.state]}`
  return (
    <div class={`hunk ${h.state} ${i === S.hunk ? 'at' : ''}`} onClick={() => set({ hunk: i })}>
      {can && <input type="checkbox" checked={isIn} aria-label={`Pick ${what}`} onClick={e => e.stopPropagation()} onChange={() => { set({ hunk: i }); pickHunk(m, h) }} />}
      <b>{lines}</b>
      <span class={`chip ${h.state}`}>{h.state === 'conflict' ? '! ' : h.state === 'done' ? '✓ ' : ''}{states[h.state]}</span>
      {h.by && h.by !== turnOf(m) && <span class="by">{by(h.by)}</span>}
      {!!h.blockedBy?.length && <span class="warn">changed since by {h.blockedBy.map(by).join(', ')}</span>}
      <span class="grow" />
      <button class="tick" disabled={isBusy} aria-pressed={isReviewed} aria-label={`${isReviewed ? 'Reviewed' : 'Review'}: ${what}`} title="Mark as reviewed (v)" onClick={e => { e.stopPropagation(); review(h) }}><span aria-hidden="true">{isReviewed ? '✓' : '○'}</span> {isReviewed ? 'Reviewed' : 'Review'}</button>
    </div>
  )
}
