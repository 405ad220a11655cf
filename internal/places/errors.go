package places

import (
	"errors"
	"fmt"
)

// Errors of [Adopt] to match with errors.Is.
var (
	// ErrNotMoved: no store knows the directory under a path that is gone.
	ErrNotMoved = errors.New("is not known as one that was moved")
	// ErrStillThere: the directory whose history is to go on elsewhere is there.
	ErrStillThere = errors.New("is still there")
	// ErrHasHistory: the directory has a history of its own.
	ErrHasHistory = errors.New("has a history of its own already")
)

// A KeptError is why a history does not go on elsewhere: it is kept where it is.
type KeptError struct {
	From string // the path under which it is known
	Err  error
}

func (e *KeptError) Error() string { return e.Err.Error() }

func (e *KeptError) Unwrap() error { return e.Err }

// ErrMovedAway: the directory has the history of one that is gone, and nobody has
// said yet that it is to go on. The error is a [*MovedError].
var ErrMovedAway = errors.New("its history is that of a path that is gone")

// ErrOtherProject: in the place of the project's store is one that says that it is
// another's. The error is an [*OtherProjectError].
var ErrOtherProject = errors.New("the store is another project's")

// A MovedError says whose history a directory has.
type MovedError struct{ Moved }

func (e *MovedError) Error() string {
	was := "it was"
	if !e.Sure {
		was = "it may have been"
	}
	return fmt.Sprintf("%q: %v: %s %q", e.To, ErrMovedAway, was, e.From)
}

// Is reports that the error is ErrMovedAway.
func (e *MovedError) Is(target error) bool { return target == ErrMovedAway }

// An OtherProjectError says whose store is in the place of the project's.
type OtherProjectError struct {
	Store string // its directory
	Root  string // path of the project that it says it is of
	Main  string // path of the one whose place it has
}

func (e *OtherProjectError) Error() string {
	return fmt.Sprintf("store %s: %v: it is of %q, and has the place of that of %q",
		e.Store, ErrOtherProject, e.Root, e.Main)
}

// Is reports that the error is ErrOtherProject.
func (e *OtherProjectError) Is(target error) bool { return target == ErrOtherProject }
