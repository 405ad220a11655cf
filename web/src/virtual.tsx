// A list of which only what is seen is in the page.
import type { ComponentChildren, HTMLAttributes } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

interface Props {
  count: number
  height: number | ((i: number) => number) // of a row, in pixels
  row: (i: number) => ComponentChildren
  show?: number // row that is to be seen
  until?: number // row before which what is to be seen ends, as far as there is room; show + 1 if it is not said
  showKey?: unknown // when this is another, show is brought into view
  onEnd?: () => void // the last row comes into view
  class?: string
  wide?: true | number // rows may be wider than the list; of two columns so many characters each, which move together
  attrs?: HTMLAttributes<HTMLDivElement>
}

const beyond = 6 // rows above and below what is seen, as soon as the list was moved

export function Virtual(p: Props) {
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [left, setLeft] = useState(0)
  const [size, setSize] = useState(innerHeight) // most of what it ever had: it is drawn once, and not anew when that is known
  const offsets = useOffsets(p.count, p.height)
  const total = offsets(p.count)

  useLayoutEffect(() => {
    const el = box.current!
    const watch = new ResizeObserver(() => setSize(size => Math.max(size, el.clientHeight)))
    watch.observe(el)
    return () => watch.disconnect()
  }, [])

  useLayoutEffect(() => {
    const el = box.current!
    if (p.show === undefined || p.show < 0 || p.show >= p.count) return
    const from = offsets(p.show), row = offsets(p.show + 1) - from
    const to = Math.min(offsets(p.until ?? p.show + 1), from + Math.max(row, el.clientHeight - 2 * row))
    if (from < el.scrollTop) el.scrollTop = Math.max(0, from - row)
    else if (to > el.scrollTop + el.clientHeight) el.scrollTop = to - el.clientHeight + row
    setTop(el.scrollTop)
  }, [p.show, p.showKey, p.count === 0])

  const first = Math.max(0, at(offsets, p.count, top) - beyond)
  const last = Math.min(p.count, at(offsets, p.count, top + size) + 1 + (top > 0 ? beyond : 0))
  useLayoutEffect(() => { if (last >= p.count && p.count > 0) p.onEnd?.() }, [last >= p.count, p.count])

  const columns = typeof p.wide === 'number' ? p.wide : 0
  const rows: ComponentChildren[] = []
  for (let i = first; i < last; i++) rows.push(p.row(i))
  return (
    <div {...p.attrs} ref={box} class={`virtual ${p.class ?? ''}`} onScroll={e => { setTop(e.currentTarget.scrollTop); if (columns) setLeft(e.currentTarget.scrollLeft) }}>
      <div role="presentation" class="space" style={{ height: `${total}px`, width: columns ? `calc(100% + max(0px, ${columns}ch + 7em - 50%))` : '' }}>
        <div role="presentation" class={p.wide === true ? 'window wide' : 'window'} style={{ transform: `translateY(${offsets(first)}px)`, '--left': `${-left}px` }}>{rows}</div>
      </div>
    </div>
  )
}

function useOffsets(count: number, height: Props['height']): (i: number) => number {
  const kept = useRef<{ height: Props['height']; count: number; sums: Float64Array }>(undefined)
  if (typeof height === 'number') return i => i * height
  if (kept.current?.height !== height || kept.current.count !== count) {
    const sums = new Float64Array(count + 1)
    for (let i = 0; i < count; i++) sums[i + 1] = sums[i] + height(i)
    kept.current = { height, count, sums }
  }
  const { sums } = kept.current
  return i => sums[i]
}

// at returns the row at a height.
function at(offsets: (i: number) => number, count: number, y: number): number {
  let low = 0, high = count
  while (low < high) {
    const mid = (low + high) >> 1
    if (offsets(mid + 1) <= y) low = mid + 1
    else high = mid
  }
  return Math.min(low, count)
}
