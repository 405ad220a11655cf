// Which turn builds on which, in lanes beside the list: the first is the line of the turns that are
// in, others are of those that were taken back, or are on other branches of the conversation.
import type { Moment } from './types'

// Rail is what stands beside one row.
export interface Rail {
  at: number // lane of the row
  above: number[] // lanes that go on above it
  below: number[]
  joins: number[] // lanes that end in its own
}

const isNode = (m: Moment) => m.turnIndex >= 0 || m.kind === 'start' || m.kind === 'fork'

// rails returns what stands beside rows, the newest of them first.
export function rails(rows: Moment[]): { rails: Rail[]; width: number } {
  const lanes: number[] = [] // the turn or start that each goes on with; 0: it is free
  const list: Rail[] = []
  let began = false, width = 1
  const used = () => lanes.flatMap((seq, i) => seq || i === 0 && !began ? [i] : [])
  for (const m of rows) {
    const seq = m.snapshotSeq ?? 0
    if (!isNode(m) || !seq) {
      list.push({ at: 0, above: list.length ? used() : used().filter(i => i), below: used(), joins: [] })
      if (!lanes.length) lanes.push(0)
      continue
    }
    let at = lanes.indexOf(seq)
    if (!m.takenBackSeq && !m.notIn && !began) at = 0
    if (at < 0) for (at = 1; lanes[at]; at++) ; // nothing above builds on it: a lane of its own
    while (lanes.length <= at) lanes.push(0)
    const above = used().filter(i => i !== at || lanes[at] === seq || at === 0 && !began && list.length > 0)
    const joins: number[] = []
    for (let i = at + 1; i < lanes.length; i++) if (lanes[i] === seq) { joins.push(i); lanes[i] = 0 }
    began ||= at === 0
    lanes[at] = m.prevSeq ?? 0
    width = Math.max(width, lanes.length)
    while (lanes.length > 1 && !lanes[lanes.length - 1]) lanes.pop()
    list.push({ at, above, below: used(), joins })
  }
  return { rails: list, width }
}
