// Package checkpoint takes the files, the transcript and the agents of a runtime
// back together, where the runtime keeps its conversations in a database.
//
// A checkpoint stands before a turn: it names the message that the turn is going
// to write, its anchor, and the state of the files. Restore goes there: it
// restores the files, resets the backend of the chat, and deletes the messages
// from the anchor on and the later checkpoints. Undo brings back all that a
// restore has taken.
//
// Open migrates the database and returns a [DB]. The runtime calls BeforeTurn
// instead of the manager's OnTurnStart, or Create after it, then List, Restore
// and Undo when the user asks. [Options] has what drops
// what agents remember, and what tells the clients. Package httpapi serves it all.
//
// # All or nothing
//
// A restore says what it is about to do in the table checkpoint_restores, changes
// the files, resets the backend, and does all the rest in one transaction, which
// says that it is done. Whatever fails before that transaction has committed, the
// files are taken back to what they were; if the process dies, or the database
// does not answer, Recover does so, which Restore, Undo and BeforeTurn call
// first. So the state is the old one or the new one, and the error says which:
// it matches [ErrUndecided] as long as nobody can know. A backend may have been
// reset in vain: it begins anew from the transcript, whichever that is.
//
// Files go as with [manager.FileSnapshotManager.RestoreFiles]: those that the
// turns of the chat have changed, and only if nobody else has changed them since.
//
// # Database
//
// SQLite and PostgreSQL, through database/sql: the caller opens the database,
// with the driver that it likes, and closes it. SQLite needs a busy timeout
// where others write. [Schema] names the runtime's own tables; Options.Runtime
// makes those that it has none of. What a restore deletes is moved to tables
// named checkpoint_archive_… with the same columns, without leaving the database.
//
// # Concurrency
//
// A DB may be used from several goroutines, and by several processes on the
// machine that has the worktrees. One restore runs in a worktree at a time;
// another is refused with [ErrBusy], and so is a turn that would begin meanwhile.
// In PostgreSQL the transaction keeps others from writing messages, parts,
// checkpoints and agents' sessions, of all chats, as long as it takes.
package checkpoint
