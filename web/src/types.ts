// What the server answers: docs/reference/rpc.md has the verbs, package timeline the rest.

export interface Project { root: string; name: string }

export interface Page { version: string; readOnly: boolean; all: boolean; projects: Project[] }

export interface SessionRow {
  session: string; root: string; began?: string; last: string; turns: number; steps: number
  open?: boolean; title?: string; agent?: string; model?: string
}

export interface OpenTurn {
  session: string; turn: number; began?: string; title?: string; agent?: string; model?: string
  tools?: string[]; held?: boolean
}

export interface SessionList { sessions: SessionRow[]; open: OpenTurn[]; undoSeq?: number; redoSeq?: number }

export interface Moment {
  entryId?: string; rev?: string; turnIndex: number; kind: string; treeHash: string
  coverageHash?: string; snapshotSeq?: number; pruned?: boolean; time?: string; label?: string
  title?: string; agent?: string; model?: string; added: number; modified: number; deleted: number
  unknown?: string; interrupted?: boolean; goesOn?: boolean; partial?: boolean; takenBackSeq?: number
  but?: string[]; without?: string[]; inPart?: string[]; elsewhere?: boolean; notIn?: boolean; prevSeq?: number; forkedFrom?: string
  tookBack?: number[]; reverts?: number[]; putBack?: number[]; partOf?: number[]; aborted?: boolean
}

export interface FileChange {
  path: string; pathBytes?: string; status: string; owner?: string; piece: number; pieces: number
  renamedFrom?: string; similarity?: number; unifiedDiff?: string; tooLong?: boolean
  oldHash: string | null; newHash: string | null; oldMode?: string; newMode?: string
  oldSize?: number; newSize?: number; added: number; deleted: number; binary?: boolean
}

export interface Hunk {
  id: string; path: string; kind: 'lines' | 'mode' | 'whole'; window?: number
  before: [number, number]; after: [number, number]; now: [number, number] | null
  state: 'clean' | 'conflict' | 'done'; by?: string; blockedBy?: string[]; text: string
}

export interface Found {
  entryId?: string; turn: number; session: string; path: string; before: number; after: number
  line: number; text: string; kind: string; rev?: string; time: string; title?: string; agent?: string
}

export interface BlameOwner {
  kind: string; session?: string; turn: number; entry?: string; certainty?: string
  title?: string; model?: string; agent?: string; time?: string; by?: string[]
}

export interface BlameRange { start: number; end: number; owner: BlameOwner }

export interface PlannedFile {
  path: string; action: string; added: number; deleted: number; binary?: boolean
  unifiedDiff: string; tooLong?: boolean
}

export interface Conflict { path: string; why: string; blockedBy?: string[] }

export interface Item { path: string; dir?: boolean; action: string; reason?: string; merged?: boolean; inPart?: boolean }

export interface Restored {
  restored: string[]; deleted: string[]; skipped: string[]; items: Item[]; conflicts?: Conflict[]
  complete: boolean; plan?: string; diffs?: PlannedFile[]; snapshotSeq?: number; preview?: boolean
  turnsTakenBack?: number[]; turnsPutBack?: number[]; headChanged?: boolean; aborted?: boolean
  notCaptured?: string[]
}

export interface ServerEvent {
  n: number; type: string; run?: string; reset?: boolean; root?: string; open?: OpenTurn[]
  session?: string; kind?: string; seq?: number; time?: string
}
