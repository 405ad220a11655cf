// What keys do, wherever the focus is, but in a field or a dialog.
import { S, canTakeBack, chosen, diffRows, exportState, find, keyOf, openFile, pickFile, pickHunk, pickTurn, previewGoBack, previewPicks, review, search, select, set, show, shown, showVersions, takeBack, toggleBlame } from './store'

const next = <T>(list: T[], is: (x: T) => boolean, by: number): T | undefined => {
  const at = list.findIndex(is)
  return at < 0 ? list[0] : list[Math.min(list.length - 1, Math.max(0, at + by))]
}

function turn(by: number) {
  if (S.found) { // what was found is what there is to go through
    const foundAt = Math.min(S.found.list.length - 1, Math.max(0, S.foundAt + by))
    const f = S.found.list[foundAt]
    return f && set({ foundAt, said: `${foundAt + 1} of ${S.found.list.length}: ${f.path}, line ${f.line}` })
  }
  const list = S.versions ? S.versions.rows.slice().reverse() : shown()
  const m = next(list, x => keyOf(x) === S.at, by)
  if (m) select(keyOf(m))
}

function file(by: number) {
  const paths = [...new Set(S.files.list.map(f => f.path))]
  const path = next(paths, x => x === S.path, by)
  if (path && path !== S.path) openFile(path)
}

function hunk(by: number) {
  const to = S.hunk + by
  if (to >= 0 && to < S.diff.hunks.length) {
    const h = S.diff.hunks[to]
    set({ hunk: to, pane: 'diff', said: `hunk ${to + 1} of ${S.diff.hunks.length}, ${h.state}` })
  } else if (S.diff.hunks.length > 0 && by !== 0) file(by)
}

export function pressed(e: KeyboardEvent) {
  if (e.ctrlKey || e.metaKey || e.altKey) return
  const on = e.target as HTMLElement
  const isField = /^(SELECT|TEXTAREA)$/.test(on.tagName) || on.tagName === 'INPUT' && !/^(checkbox|range)$/.test((on as HTMLInputElement).type)
  if (document.querySelector('dialog[open]')) return
  if (isField) {
    if (e.key === 'Escape' || e.key === 'Enter') on.blur()
    if (e.key === 'Enter' && on.id === 'search') find(S.query)
    return
  }
  const isButton = on.tagName === 'BUTTON' || on.tagName === 'INPUT'
  const m = chosen()
  const h = S.diff.hunks[S.hunk]
  const does: Record<string, () => void> = {
    j: () => turn(1), k: () => turn(-1), J: () => file(1), K: () => file(-1), n: () => hunk(1), p: () => hunk(-1),
    v: () => { if (h) { review(h); hunk(1) } },
    x: () => { if (m && S.path && !S.page?.readOnly) pickFile(m, S.path) },
    t: () => { if (m && !S.page?.readOnly) pickTurn(m) },
    u: () => takeBack('undo'), U: () => takeBack('redo'),
    b: () => { if (m && m.turnIndex >= 0 && !m.elsewhere && !S.page?.readOnly) previewGoBack(m) },
    m: () => { if (m && m.turnIndex >= 0 && !m.label && !S.page?.readOnly) set({ dialog: 'name' }) },
    s: () => set({ isSplit: !S.isSplit }),
    e: () => set({ unfolded: new Set([...S.unfolded, ...diffRows().flatMap(r => r.type === 'fold' ? [r.key] : [])]) }),
    h: () => S.versions ? set({ versions: undefined }) : S.path && showVersions(S.path),
    a: toggleBlame,
    E: () => { if (m?.rev && !m.pruned) exportState(m) },
    '/': () => document.getElementById('search')?.focus(),
    '?': () => set({ dialog: 'help' }),
    Escape: () => S.versions ? set({ versions: undefined }) : S.query ? search('') : set({ picks: new Map(), toast: undefined }),
  }
  if (!isButton) Object.assign(does, {
    ' ': () => { if (m && !S.page?.readOnly) h && canTakeBack(m) ? pickHunk(m, h) : pickTurn(m) },
    Enter: () => {
      const f = S.found?.list[S.foundAt]
      if (f && S.picks.size === 0) show(f)
      else if (!S.page?.readOnly) previewPicks()
    },
    ArrowDown: () => on.id === 'files' ? file(1) : turn(1),
    ArrowUp: () => on.id === 'files' ? file(-1) : turn(-1),
  })
  if (S.versions && !isButton) Object.assign(does, { ArrowLeft: () => turn(1), ArrowRight: () => turn(-1) })
  if (!isButton && (e.key === 'ArrowDown' || e.key === 'ArrowUp') && !/^(files|turns|found)$/.test(on.id)) return
  const fn = does[e.key]
  if (!fn) return
  e.preventDefault()
  fn()
}
