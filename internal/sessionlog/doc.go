// Package sessionlog knows the log of a conversation as a file: it reads pi's
// session.jsonl (version 3), and writes our own log in the same format. It knows
// nothing of snapshots and stores.
//
// [OpenFile] reads the log of a running agent and follows it; what it has read is a
// [session.Tree]. [AppendLog] writes the text of a log of ours.
//
// # What is read
//
// One JSON value per line, lines ending in LF. The first is the header. Each
// other has an id, a type and the id of its parent. Unknown types and fields
// are accepted. What is no entry is skipped and listed by [File.Problems], as
// pi skips it. A last line without LF is being written, or was torn: it does
// not count.
//
// Of an entry only what places it in the tree is kept, and the data of the
// entries that are ours. The text of a conversation is not.
//
// # Concurrency
//
// A [File] may be used from several goroutines at once. Any number of processes may
// read a log while its agent appends to it.
//
// Never append to the log of a running agent: it would not see it, and the
// rule that the last entry is the leaf would move its position.
package sessionlog
