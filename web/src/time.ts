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

export const exactly = (time: string | undefined) => time ? new Date(time).toLocaleString() : ''
