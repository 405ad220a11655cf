// Package filestore is the root of a snapshot store engine for coding agents.
// It holds no code; this is a tour of the packages in reading order.
//
// An agent changes a user's files turn by turn. The engine records what the
// whole directory was after each turn, shows what changed, and gives any
// state back, byte for byte. It starts no process and writes nothing inside
// any .git.
//
//   - [github.com/boocode/filestore/store] knows bytes: immutable objects
//     under the BLAKE3 hash of their content, in packs, and a journal of
//     snapshots. Start at Store.Begin and Writer.Commit: the order of writes
//     in there is what everything else stands on.
//   - [github.com/boocode/filestore/tree] knows directories: it turns a
//     directory on disk into objects (Workspace.Capture) and back (Export),
//     and says where two of them differ (Diff).
//   - [github.com/boocode/filestore/rollback] knows the difference between what
//     is wanted of a live directory and what is there: NewPlan and Apply.
//   - [github.com/boocode/filestore/patch] knows text: it finds the lines in
//     which two contents differ and writes diffs that apply.
//   - [github.com/boocode/filestore/session] knows a conversation: it reads
//     the logs of pi, writes our own in the same format, and finds paths in
//     the tree of entries.
//   - [github.com/boocode/filestore/manager] knows sessions and time: which
//     turn did what, and what differs between any two moments. It is the door
//     for runtimes; start at FileSnapshotManager.
//   - [github.com/boocode/filestore/checkpoint] knows a runtime's database: a
//     chat goes back with its files and its transcript, or not at all;
//     checkpoint/httpapi serves that.
//   - cmd/snapctl knows people: flags, output, exit codes; internal/rpc,
//     its internal/mcp and internal/claude know the runtimes, models and agents
//     that it serves. integrations has what runs inside of agents.
//
// Below them:
//
//   - internal/vfs is the file system as the others use it, with an
//     implementation in memory that loses its power on request.
//   - internal/similar says which removed and added files are one file that moved.
//   - internal/ignore says what git would ignore; internal/gitrepo reads what
//     a git repository says about itself, and never writes.
//
// bench measures all this beside git and beside what the machine can do at
// best. docs/design.md says why things are as they are, docs/format.md what
// is on the disk, docs/concurrency.md which step may count on which.
package filestore
