// Texts of others, so that nothing in them is not seen, and nothing turns around what is beside it.

const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

// visible shows controls of a line, or of lines.
export const visible = (s: string) =>
  s.replace(controls, c => c === '\r' ? '␍' : `⟨${c.charCodeAt(0).toString(16).padStart(2, '0')}⟩`)

// inLine shows a text as one line.
export const inLine = (s: string) => visible(s).replace(/\n/g, '␊')
