// Package manager knows sessions and time: which turn of which conversation
// did what to the files of a directory. It is what runtimes embed.
//
// [Open] returns the [FileSnapshotManager] of a session. Call Initialize when
// the session begins or goes on, OnTurnStart and OnTurnEnd around each turn,
// and, if the runtime can, OnToolStart and OnToolEnd around each tool and
// Claim for each file that a tool is about to write. OnTurnEnd hands the data of a
// step-snapshot entry to the runtime, which appends it to its own log of the
// session and may say what ID it got. RebuildIndex gives such a log back.
// A runtime without a log of its own passes no callback: then the session has
// one of ours, in the same format.
//
// ModifiedFiles and FileDiff tell what changed between any two moments,
// Timeline and Sessions list what there is, Resolve finds a moment by name.
// RestoreFiles goes back to a moment, Revert takes back turns and keeps what came
// after them, Undo takes back what either has done.
//
// # Whose change it is
//
// A window is open while a turn runs, or, where the runtime tells of tools,
// while one of its tools does. The directory is looked at whenever a window
// opens or closes, so each change falls between two looks. If one session's
// window was open then, the change is that session's. If none was, it is
// nobody's turn: the user's, "offline". If several were, it is "contested",
// unless one of them has claimed the file and no other has. Where the runtime
// tells of tools a claim holds until none of the session's runs. A turn whose
// process died is closed as interrupted when its session goes on: what it has
// not claimed is contested, but for what had changed when one of its tools began or
// ended last.
//
// Two looks see no more than what is there: a file that the agent and the user
// both wrote between them is one change.
//
// # Durability
//
// What a look finds changed is recorded in the store before the call returns:
// so what the user had before a turn is kept when the turn overwrites it. After
// an error what was found may be on record, and the turn is as open as it was:
// make the call again. An error of the runtime's callback leaves the step
// recorded and the turn ended: the step is offered again at the end of the next.
//
// # Concurrency
//
// A manager is for one session of one directory, and may be used from several
// goroutines. Sessions of one directory may run in as many processes; their
// looks wait for each other.
//
// # Format
//
// docs/reference/format.md §5.6 has the records, §9 the file of open turns.
package manager
