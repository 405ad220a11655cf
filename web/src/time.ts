// How long ago something was.
const steps: [size: number, unit: string][] = [[60, 's'], [60, 'min'], [24, 'h'], [31, 'd']]

export function ago(time: string | undefined, now = Date.now()): string {
  if (!time) return ''
  let n = Math.max(0, (now - Date.parse(time)) / 1000)
  if (n < 5) return 'now'
  for (const [size, unit] of steps) {
    if (n < size) return `${Math.floor(n)} ${unit} ago`
    n /= size
  }
  return time.slice(0, 10)
}

const two = (n: number) => String(n).padStart(2, '0')

// exactly is when something was, where the page is read.
export function exactly(time: string | undefined): string {
  if (!time) return ''
  const t = new Date(time)
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`
}
