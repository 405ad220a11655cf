// Package session knows a conversation: it reads pi's session.jsonl (version
// 3), writes our own log in the same format, and finds paths and leaves. It
// knows nothing of snapshots and stores.
//
// A session is a [Tree] of entries with a leaf, the entry at the tip of the
// current branch. [OpenFile] reads the log of a running agent and follows it,
// [OpenLog] opens a log of ours, to which [Log.Append] adds entries, and
// [NewTree] takes entries from a runtime that has them in memory.
//
// # What is read
//
// One JSON value per line, lines ending in LF. The first is the header. Each
// other has an id, a type and the id of its parent. Unknown types and fields
// are accepted. What is no entry is skipped and listed by [Tree.Problems], as
// pi skips it. A last line without LF is being written, or was torn: it does
// not count.
//
// Of an entry only what places it in the tree is kept, and the data of the
// entries that are ours. The text of a conversation is not.
//
// # Concurrency and durability
//
// All types may be used from several goroutines at once. Any number of
// processes may read a log and append to one of ours at the same time: appends
// exclude each other by a lock. Reading takes no lock, and may see an append
// that is not durable yet.
//
// What [Log.Append] has acknowledged survives a power cut. Of an append that
// was under way then, all lines may be there, some or none.
//
// Never append to the log of a running agent: it would not see it, and the
// rule that the last entry is the leaf would move its position.
package session
