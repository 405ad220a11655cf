// Package cas is the content-addressable store: it keeps immutable objects under the
// hash of their content, and an append-only record of snapshots. It knows bytes: what a tree looks like
// is the business of package tree.
//
// [Open] a directory, [Store.Begin] a [Writer], put objects into it, and
// [Writer.Commit] a [store.Snapshot] that names the root of them. [Store.Get] and
// [Store.CopyBlob] read objects back, [Store.Snapshots] lists what was
// committed, [Store.Check] looks for damage.
//
// # Durability
//
// When Commit returns nil, the snapshot and every object put before it
// survive a power cut. Objects that no commit has followed may be gone with
// the process. An error of Commit means that the snapshot was not
// acknowledged; whether it is there is not known.
//
// Every object is decompressed and compared before it is written, and
// verified against its ID when it is read. Damage is reported with file and
// offset, as a [*store.CorruptError]; it costs the objects that it hits and no
// others. A failed write ends every Writer of the process with [ErrLost],
// since any of them may count on what was lost with it: begin again.
//
// # Concurrency
//
// Many processes may have a store open, for reading and for writing, and many
// goroutines may use one Store. Writers wait for each other for the length of a
// sync or two. Locks are the kernel's and go with the process that held them.
//
// # Format
//
// docs/reference/format.md §2-§5 has the bytes, docs/reference/concurrency.md the order of writes.
package cas
