package manager

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
)

// Errors of [Adopt] to match with errors.Is.
var (
	// ErrNotMoved: no store knows the directory under a path that is gone.
	ErrNotMoved = errors.New("is not known as one that was moved")
	// ErrStillThere: the directory whose history is to go on elsewhere is there.
	ErrStillThere = errors.New("is still there")
	// ErrHasHistory: the directory has a history of its own.
	ErrHasHistory = errors.New("has a history of its own, which goes on")
)

// ErrNoSpace: the disk of the store is nearly full, and nothing is captured.
var ErrNoSpace = store.ErrNoSpace

// Errors of edits, to match with errors.Is.
var (
	// ErrStale: a file is not what it was when it was read, or when it was
	// edited.
	ErrStale = errors.New("changed since")
	// ErrNotText: a file cannot be edited as text.
	ErrNotText = errors.New("not a text file")
	// ErrEditCutOff: an edit was cut off in the directory, and a preview does
	// not take it back, as the next edit does.
	ErrEditCutOff = errors.New("an edit was cut off")
	// ErrReadOnly: a file's mode says that it is not to be written.
	ErrReadOnly = errors.New("read-only file")
)

// ErrNothingToForget: a content is empty.
var ErrNothingToForget = errors.New("it is empty: there is nothing to forget")

// ErrMovedAway: the directory has the history of one that is gone, and nobody has
// said yet that it is to go on. The error is a [*MovedError].
var ErrMovedAway = errors.New("its history is that of a path that is gone")

// ErrOtherProject: in the place of the project's store is one that says that it is
// another's. The error is an [*OtherProjectError].
var ErrOtherProject = errors.New("the store is another project's")

// Errors to match with errors.Is.
var (
	// ErrNoSession: the session has no snapshot yet.
	ErrNoSession = errors.New("no snapshots yet")
	// ErrUnknown: there is no such entry, turn or snapshot, or what is known
	// of it does not say what the files were.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous: an abbreviation fits several.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrOtherSession: the entry is another session's, or another worktree's.
	ErrOtherSession = errors.New("of another session")
	// ErrTurnOpen: a turn of the session is open in another process.
	ErrTurnOpen = errors.New("turn is open elsewhere")
	// ErrNoTurn: no turn of the session is open.
	ErrNoTurn = errors.New("no turn is open")
	// ErrTooBroad: the directory is too broad to be captured unasked.
	ErrTooBroad = errors.New("too broad a directory")
	// ErrOutside: a path leads out of the session's directory.
	ErrOutside = errors.New("outside of the session's directory")
)

// ErrDamaged: the store is damaged, so that it is not known what is needed.
var ErrDamaged = errors.New("the store is damaged: repair it first")

// Errors of restores, to match with errors.Is.
var (
	// ErrHeadChanged: the user's repository has another commit checked out
	// than at the target.
	ErrHeadChanged = errors.New("another commit is checked out since")
	// ErrCutOff: a restore was cut off in the directory, and a preview does not
	// bring it to its end.
	ErrCutOff = errors.New("a restore was cut off")
	// ErrNothing: there is nothing to undo, or to redo.
	ErrNothing = errors.New("nothing to take back")
	// ErrChangedNothing: the turns that @~N is to take back have changed no file.
	// The error names the newest that has.
	ErrChangedNothing = errors.New("changed nothing")
)

// ErrLocked: another process, or another manager, holds the lock.
var ErrLocked = errors.New("locked by another")

// An EditError says why an edit was refused: all pieces that could not be put.
// Nothing was written.
type EditError struct {
	Refused []*patch.HunkError

	// Fuzzy says that all pieces could be put with EditRequest.Fuzzy, which was
	// not set.
	Fuzzy bool
}

func (e *EditError) Error() string {
	list := make([]string, 0, len(e.Refused))
	for _, r := range e.Refused {
		list = append(list, r.Error())
	}
	return strings.Join(list, "\n")
}

func (e *EditError) Unwrap() (errs []error) {
	for _, r := range e.Refused {
		errs = append(errs, r)
	}
	return errs
}

// A NotRecordedError says again that nothing is recorded in a directory, in one
// line: the first error in a row was told in full.
type NotRecordedError struct {
	Since time.Time // of the first
	Err   error     // of this one, in full
}

func (e *NotRecordedError) Error() string {
	return fmt.Sprintf("nothing is recorded since %s: %v", e.Since.Local().Format(time.DateTime), trouble(e.Err))
}

func (e *NotRecordedError) Unwrap() error { return e.Err }

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
	return fmt.Sprintf("store %s: %v: it is of %q, and has the place of that of %q", e.Store, ErrOtherProject, e.Root, e.Main)
}

// Is reports that the error is ErrOtherProject.
func (e *OtherProjectError) Is(target error) bool { return target == ErrOtherProject }

// A PassedError says that an undo or a redo would pass over all that is on its list.
// It matches [ErrNothing].
type PassedError struct {
	Passed []TakenBack
}

func (e *PassedError) Error() string {
	return fmt.Sprintf("%v but %s", ErrNothing, map[bool]string{true: "a restore that was left", false: "restores that were left"}[len(e.Passed) == 1])
}

// Is reports whether the target is [ErrNothing].
func (e *PassedError) Is(target error) bool { return target == ErrNothing }
