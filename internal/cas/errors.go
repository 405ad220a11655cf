package cas

import (
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// ErrNoRename: the file system under the store does not replace a file that another is
// renamed to.
var ErrNoRename = errors.New("renaming over a file does not work here")

// ErrOwner: the store is another user's. The error is an [*OwnerError].
var ErrOwner = errors.New("the store is another user's")

// ErrBusy: others did not come to their end in time, and had to.
var ErrBusy = errors.New("busy")

// An OwnerError says whose a store is that this user may not open. It matches [store.ErrOwner].
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

// Is reports that the error is store.ErrOwner.
func (e *OwnerError) Is(target error) bool { return target == ErrOwner }

// A CreateError says why the directory of a store could not be made.
type CreateError struct{ Err error }

func (e *CreateError) Error() string { return fmt.Sprintf("create store: %v", e.Err) }

func (e *CreateError) Unwrap() error { return e.Err }

// A SpaceError says that a writer has stopped before the disk is full. It
// matches [store.ErrNoSpace].
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
	return fmt.Sprintf("%v: %s are free %s, and %s are kept for restores and for others",
		store.ErrNoSpace, words.Size(e.Free), where, words.Size(e.Keep))
}

// Is reports that the error is store.ErrNoSpace.
func (e *SpaceError) Is(target error) bool { return target == store.ErrNoSpace }
