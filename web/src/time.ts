// How long ago something was, in words.
const steps: [number, string][] = [[60, 'second'], [60, 'minute'], [24, 'hour'], [7, 'day'], [5, 'week'], [1e9, '']]

export function ago(time: string | undefined, now = Date.now()): string {
  if (!time) return ''
  let n = Math.max(0, (now - Date.parse(time)) / 1000)
  if (n < 5) return 'now'
  if (n > 30 * 86400) return time.slice(0, 10)
  for (const [size, name] of steps) {
    if (n < size) return `${Math.floor(n)} ${name}${Math.floor(n) === 1 ? '' : 's'} ago`
    n /= size
  }
  return ''
}

export const exactly = (time: string | undefined) => time ? new Date(time).toLocaleString() : ''
