// Package store has the words of a store that whoever embeds the engine meets: an
// [ID] names an object by its content, a [State] is a tree and what a capture left
// out of it, a [Snapshot] records that a state existed, and errors such as
// [ErrPruned] or [ErrNoSpace] say what a program can act on. They match by
// errors.Is whatever packages manager, checkpoint and client return.
//
// The machine behind them, which keeps objects and snapshots on a disk, is
// internal/cas; docs/reference/format.md §2-§5 has its bytes.
package store
