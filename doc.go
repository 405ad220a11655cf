// Package filestore is the root of a snapshot store engine for coding agents.
// It holds no code; this is a tour of the packages in reading order.
//
// An agent changes a user's files turn by turn. The engine records what the
// whole directory was after each turn, shows what changed, and gives any
// state back, byte for byte. It starts no process and writes nothing inside
// any .git.
//
//   - [github.com/boocode/filestore/store] has the words of a store: IDs, states,
//     snapshots, errors. Behind it, internal/cas keeps immutable objects under
//     the BLAKE3 hash of their content, in packs (cas/pack), and a journal of
//     snapshots (cas/journal); cas/layout names every file and lock. Start at
//     Store.Begin and Writer.Commit: the order of writes in there is what
//     everything else stands on.
//   - [github.com/boocode/filestore/tree] has the words for directories. Behind
//     it, internal/capture turns a directory on disk into objects
//     (Workspace.Capture), internal/trees is their format, reads them, writes
//     them out (Export) and says where two of them differ (Diff), and
//     internal/audit says whether all that snapshots need is there.
//   - [github.com/boocode/filestore/rollback] has the words of a restore. Behind
//     it, internal/livedir knows the difference between what is wanted of a live
//     directory and what is there (NewPlan and Apply), and internal/change is
//     what restores and edits have in common: save, intent, apply, record.
//   - internal/history knows what the records of a store say; internal/places
//     which directory is which; internal/retain what stays; internal/health how
//     a store is.
//   - [github.com/boocode/filestore/patch] knows text: it finds the lines in
//     which two contents differ and writes diffs that apply.
//   - [github.com/boocode/filestore/session] knows a conversation as a tree of
//     entries; internal/sessionlog reads the logs of pi, and writes ours.
//   - [github.com/boocode/filestore/manager] knows sessions and time: which
//     turn did what, and what differs between any two moments. It is the door
//     for runtimes; start at FileSnapshotManager.
//   - [github.com/boocode/filestore/checkpoint] knows a runtime's database: a
//     chat goes back with its files and its transcript, or not at all;
//     checkpoint/httpapi serves that.
//   - cmd/snapctl knows people: flags, output, exit codes. Its
//     internal/verbs is the table of what can be asked; internal/rpc,
//     internal/mcp and internal/agents know the runtimes, models and agents
//     that it serves. Package client is the other end of rpc. integrations has
//     what runs inside of agents.
//
// Below them:
//
//   - internal/vfs is the file system as the others use it; vfstest beside it
//     has one in memory that loses its power on request, for tests.
//   - internal/similar says which removed and added files are one file that moved.
//   - internal/ignore says what git would ignore; internal/gitrepo reads what
//     a git repository says about itself, and never writes.
//
// bench measures all this beside git and beside what the machine can do at
// best. docs/design.md says why things are as they are, docs/reference/format.md what
// is on the disk, docs/reference/concurrency.md which step may count on which.
package filestore
