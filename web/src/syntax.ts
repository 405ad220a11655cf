// Colours for one line of a program: strings, comments, numbers and keywords, by rough rules that
// need no other line.

export interface Token { text: string; kind: '' | 's' | 'c' | 'n' | 'k' }

const words = (text: string) => new Set(text.split(' '))

const common = 'if else for while do return break continue switch case default try catch finally throw new import from as class enum const static true false null in is'
const keywords: Record<string, Set<string>> = {
  go: words(common + ' func package type struct interface map chan go defer select range var nil iota fallthrough goto'),
  js: words(common + ' function let var export async await yield of typeof instanceof this super extends implements interface type undefined void delete'),
  py: words('def class if elif else for while return import from as with try except finally raise lambda pass break continue in is not and or None True False yield async await global nonlocal del assert'),
  rs: words(common + ' fn let mut pub use mod impl trait struct match loop where self Self crate dyn move ref async await unsafe'),
  c: words(common + ' int char void long short unsigned signed float double struct union typedef sizeof extern inline bool auto namespace template public private protected virtual using this nullptr def final void package'),
  sh: words('if then else elif fi for in do done while case esac function return local export set echo exit'),
}

const families = new Map<string, [family: string, comment: string]>()
for (const [list, family, comment] of [
  ['go', 'go', '//'], ['ts tsx js jsx mjs cjs json vue svelte', 'js', '//'], ['rs', 'rs', '//'], ['py toml yml yaml', 'py', '#'],
  ['c h cc cpp hpp java kt cs swift scala php dart css scss', 'c', '//'], ['sh bash zsh rb pl', 'sh', '#'], ['sql lua', 'sh', '--'],
] as const) for (const ext of list.split(' ')) families.set(ext, [family, comment])

export function tokens(line: string, path: string): Token[] {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const family = families.get(name.slice(name.lastIndexOf('.') + 1).toLowerCase())
  if (!family || line.length > 500) return [{ text: line, kind: '' }]
  const [of, comment] = family
  const out: Token[] = []
  const put = (text: string, kind: Token['kind']) => {
    const last = out[out.length - 1]
    if (last && last.kind === kind) last.text += text
    else if (text) out.push({ text, kind })
  }
  if (/^\s*(\/?\*)/.test(line) && comment === '//') return [{ text: line, kind: 'c' }]
  for (let i = 0; i < line.length;) {
    const c = line[i]
    if (line.startsWith(comment, i) && (comment !== '#' || i === 0 || /\s/.test(line[i - 1]))) { put(line.slice(i), 'c'); break }
    if (line.startsWith('/*', i) && comment === '//') {
      const end = line.indexOf('*/', i + 2)
      const to = end < 0 ? line.length : end + 2
      put(line.slice(i, to), 'c')
      i = to
    } else if (c === '"' || c === "'" || c === '`') {
      let j = i + 1
      while (j < line.length && line[j] !== c) j += line[j] === '\\' ? 2 : 1
      if (j >= line.length && c === "'") { put(c, ''); i++; continue } // an apostrophe
      put(line.slice(i, j + 1), 's')
      i = j + 1
    } else if (/[\p{L}_$]/u.test(c)) {
      const word = /^[\p{L}\p{N}_$]+/u.exec(line.slice(i))![0]
      put(word, keywords[of].has(word) ? 'k' : '')
      i += word.length
    } else if (/\d/.test(c)) {
      const number = /^[\d._xa-fA-F]+/.exec(line.slice(i))![0]
      put(number, 'n')
      i += number.length
    } else { put(c, ''); i++ }
  }
  return out
}
