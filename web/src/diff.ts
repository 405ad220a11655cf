// How a change is laid out in rows. What has changed the engine says, by hunks; nothing is compared
// here but the two sides of one line, to mark what differs in it.
import type { Hunk } from './types'

export const maxShown = 2000 // characters of a line

export interface Side { no: number; text: string; kind: ' ' | '+' | '-' }

export type Row =
  | { type: 'part'; text: string }
  | { type: 'fold'; key: string; count: number }
  | { type: 'hunk'; hunk: Hunk; index: number }
  | { type: 'note'; text: string }
  | { type: 'line'; left?: Side; right?: Side; hunk?: number }

// Piece is one change of a file: what it held before and after, in lines.
export interface Piece { before: string[]; after: string[]; hunks: Hunk[]; title?: string }

// splitLines divides a text as the engine does: a line ends with LF, the last one may not.
export function splitLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines[lines.length - 1] === '') lines.pop()
  return lines
}

const around = 3 // lines that are shown beside a hunk

// layOut returns the rows of pieces. Folds whose keys are open are shown whole.
export function layOut(pieces: Piece[], isSplit: boolean, open: Set<string>): Row[] {
  const rows: Row[] = []
  let index = 0
  pieces.forEach((p, number) => {
    if (p.title) rows.push({ type: 'part', text: p.title })
    let before = 0, after = 0
    const same = (to: number, isLast: boolean) => {
      const count = to - after
      const head = after === 0 && before === 0 ? 0 : around
      const tail = isLast ? 0 : around
      const key = `${number}:${after}`
      const isFolded = count > head + tail + 4 && !open.has(key)
      for (let i = 0; i < count; i++) {
        if (isFolded && i === head) {
          rows.push({ type: 'fold', key, count: count - head - tail })
          i = count - tail
          if (i >= count) break
        }
        const text = p.after[after + i]
        rows.push({ type: 'line', left: { no: before + i + 1, text, kind: ' ' }, right: { no: after + i + 1, text, kind: ' ' } })
      }
      before += count
      after += count
    }
    for (const h of p.hunks) {
      if (h.kind === 'lines') same(h.after[0], false)
      const at = index++
      rows.push({ type: 'hunk', hunk: h, index: at })
      if (h.kind === 'mode') { rows.push({ type: 'note', text: h.text.trim().replace('\n', ', ') }); continue }
      if (h.kind === 'whole' && h.text === '' ) { before = after = -1; continue }
      const left: Side[] = [], right: Side[] = []
      for (let i = h.before[0]; i < h.before[1]; i++) left.push({ no: i + 1, text: p.before[i] ?? '', kind: '-' })
      for (let i = h.after[0]; i < h.after[1]; i++) right.push({ no: i + 1, text: p.after[i] ?? '', kind: '+' })
      if (isSplit) {
        for (let i = 0; i < Math.max(left.length, right.length); i++) rows.push({ type: 'line', left: left[i], right: right[i], hunk: at })
      } else {
        for (const l of left) rows.push({ type: 'line', left: l, hunk: at })
        for (const r of right) rows.push({ type: 'line', right: r, hunk: at })
      }
      before = h.before[1]
      after = h.after[1]
    }
    if (p.hunks.length > 0 && after >= 0) same(p.after.length, true)
  })
  return rows
}

// fromUnified returns the rows of a diff that the engine wrote.
export function fromUnified(text: string): Row[] {
  const rows: Row[] = []
  let before = 0, after = 0
  for (const line of splitLines(text)) {
    const at = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line)
    if (at) {
      before = +at[1]
      after = +at[2]
      if (rows.length > 0) rows.push({ type: 'part', text: '⋯' })
    } else if (before === 0 && after === 0) {
      if (/^(old mode|new mode|Binary|new file|deleted file|rename)/.test(line)) rows.push({ type: 'note', text: line })
    } else if (line[0] === '-') rows.push({ type: 'line', left: { no: before++, text: line.slice(1), kind: '-' } })
    else if (line[0] === '+') rows.push({ type: 'line', right: { no: after++, text: line.slice(1), kind: '+' } })
    else if (line[0] === '\\') rows.push({ type: 'note', text: line.slice(2) })
    else rows.push({ type: 'line', left: { no: before++, text: line.slice(1), kind: ' ' }, right: { no: after++, text: line.slice(1), kind: ' ' } })
  }
  return rows
}

// differing returns where two lines differ: from what they begin with alike up to what they end
// with alike, at the borders of words; null: they have next to nothing in common.
export function differing(a: string, b: string): [from: number, toA: number, toB: number] | null {
  const isWord = (s: string, i: number) => /[\p{L}\p{N}_]/u.test(s[i] ?? '')
  const least = Math.min(a.length, b.length)
  let from = 0, tail = 0
  while (from < least && a[from] === b[from]) from++
  while (tail < least - from && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  while (from > 0 && isWord(a, from - 1) && (isWord(a, from) || isWord(b, from))) from--
  while (tail > 0 && isWord(a, a.length - tail) && (isWord(a, a.length - tail - 1) || isWord(b, b.length - tail - 1))) tail--
  if ((from + tail) * 4 < least && a.trim() !== '' && b.trim() !== '') return null
  return [from, a.length - tail, b.length - tail]
}
