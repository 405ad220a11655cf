package store

import "errors"

// Errors to match with errors.Is, here and in the packages above.
var (
	// ErrNotFound: there is no such object or snapshot.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: bytes in the store are not what was written. The error says in
	// which file, and where in it.
	ErrCorrupt = errors.New("corrupt")
	// ErrFormat: the directory is not a store, or one of a format that
	// this version does not know.
	ErrFormat = errors.New("unknown store format")
	// ErrPruned: what is asked for belonged to a snapshot that was not kept.
	ErrPruned = errors.New("was pruned")
	// ErrForgotten: what is asked for was taken out of all snapshots on purpose.
	ErrForgotten = errors.New("was forgotten")
	// ErrNoSpace: the disk of the store is nearly full, and what is left is for
	// others.
	ErrNoSpace = errors.New("the disk is nearly full")
)
