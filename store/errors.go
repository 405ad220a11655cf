package store

import (
	"errors"
	"fmt"
)

// Errors to match with errors.Is, here and in the packages above.
var (
	// ErrNotFound: there is no such object or snapshot.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: bytes in the store are not what was written. The error
	// is a [*CorruptError], which says where.
	ErrCorrupt = errors.New("corrupt")
	// ErrFormat: the directory is not a store, or one of a format that
	// this version does not know.
	ErrFormat = errors.New("unknown store format")
	// ErrNoLocks: the file system under the store has no working locks.
	ErrNoLocks = errors.New("file locks do not work here")
	// ErrNoRename: the file system under the store does not replace a file
	// that another is renamed to.
	ErrNoRename = errors.New("renaming over a file does not work here")
	// ErrOwner: the store is another user's.
	ErrOwner = errors.New("the store is another user's")
	// ErrClosed: the store or the writer is closed.
	ErrClosed = errors.New("closed")
	// ErrBusy: others did not come to their end in time, and had to.
	ErrBusy = errors.New("busy")
	// ErrPruned: what is asked for belonged to a snapshot that was not kept.
	ErrPruned = errors.New("was pruned")
	// ErrForgotten: what is asked for was taken out of all snapshots on purpose.
	ErrForgotten = errors.New("was forgotten")
)

// A CorruptError locates damage in a file of the store.
type CorruptError struct {
	Path string // file, relative to the store
	Off  int64  // offset of the damaged structure in the file
	Err  error  // what is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at offset %d: %v", e.Path, e.Off, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Is reports that the error is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// An OwnerError says whose a store is that this user may not open.
type OwnerError struct {
	Path        string // a directory: of the store, or above it
	What        string // what there is the owner's: the directory, or FORMAT
	Owner, Self int    // numbers of users
	Err         error  // what the system said; nil: nothing was tried
}

func (e *OwnerError) Error() string {
	text := fmt.Sprintf("%v: %s belongs to user %d, this is user %d", ErrOwner, e.What, e.Owner, e.Self)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

func (e *OwnerError) Unwrap() error { return e.Err }

// Is reports that the error is ErrOwner.
func (e *OwnerError) Is(target error) bool { return target == ErrOwner }

// ErrNoSpace: the disk of the store is nearly full, and what is left is for others.
// The error is a [*SpaceError].
var ErrNoSpace = errors.New("the disk is nearly full")

// A SpaceError says that a writer has stopped before the disk is full.
type SpaceError struct {
	Dir  string // where the store is; "": not known
	Free int64  // bytes that are free there
	Keep int64  // bytes that are to stay free
}

func (e *SpaceError) Error() string {
	where := "where the store is"
	if e.Dir != "" {
		where = "where " + e.Dir + " is"
	}
	return fmt.Sprintf("%v: %d bytes are free %s, and %d are kept for restores and for others",
		ErrNoSpace, e.Free, where, e.Keep)
}

// Is reports that the error is ErrNoSpace.
func (e *SpaceError) Is(target error) bool { return target == ErrNoSpace }
