package manager

import (
	"errors"
	"strings"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/patch"
)

// Errors of edits, to match with errors.Is.
var (
	// ErrStale: a file is not what it was when it was read, or when it was
	// edited.
	ErrStale = filediff.ErrStale
	// ErrNotText: a file cannot be edited as text.
	ErrNotText = errors.New("not a text file")
	// ErrEditCutOff: an edit was cut off in the directory, and a preview does
	// not take it back, as the next edit does.
	ErrEditCutOff = errors.New("an edit was cut off")
	// ErrReadOnly: a file's mode says that it is not to be written.
	ErrReadOnly = errors.New("read-only file")
)

// Errors to match with errors.Is.
var (
	// ErrNoSession: the session has no snapshot yet.
	ErrNoSession = history.ErrNoSession
	// ErrUnknown: there is no such entry, turn or snapshot, or what is known
	// of it does not say what the files were.
	ErrUnknown = history.ErrUnknown
	// ErrAmbiguous: an abbreviation fits several.
	ErrAmbiguous = history.ErrAmbiguous
	// ErrOtherSession: the entry is another session's, or another worktree's.
	ErrOtherSession = errors.New("of another session")
	// ErrTurnOpen: a turn is open that the manager may not end, or not beside.
	ErrTurnOpen = errors.New("a turn is open")
	// ErrNoTurn: no turn of the session is open.
	ErrNoTurn = errors.New("no turn is open")
	// ErrTooBroad: the directory is too broad to be captured unasked.
	ErrTooBroad = errors.New("too broad a directory")
	// ErrOutside: a path leads out of the session's directory.
	ErrOutside = errors.New("outside of the session's directory")
)

// ErrMovedAway: the directory has the history of one that is gone, and nobody has said yet
// that it is to go on: see [Options].
var ErrMovedAway = places.ErrMovedAway

// Errors of restores, to match with errors.Is.
var (
	// ErrHeadChanged: the user's repository has another commit checked out
	// than at the target.
	ErrHeadChanged = errors.New("another commit is checked out since")
	// ErrCutOff: a restore was cut off in the directory, and a preview does not
	// bring it to its end.
	ErrCutOff = errors.New("a restore was cut off")
	// ErrNothing: there is nothing to undo, or to redo. Where that is so because
	// [UndoOptions.Past] passes over all there is, the error has a method PassedOver,
	// which returns that as a []TakenBack.
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

// errNothingAgain is [ErrNothing] of a redo.
var errNothingAgain error = nothingAgain{}

type nothingAgain struct{}

func (nothingAgain) Error() string        { return "nothing to do again" }
func (nothingAgain) Is(target error) bool { return target == ErrNothing }

// A passedError says that an undo or a redo would pass over all that is on its list.
// It matches [ErrNothing].
type passedError []TakenBack

func (e passedError) Error() string {
	if len(e) == 1 {
		return ErrNothing.Error() + " but a restore that was left"
	}
	return ErrNothing.Error() + " but restores that were left"
}

func (e passedError) Is(target error) bool { return target == ErrNothing }

// PassedOver returns what was passed over.
func (e passedError) PassedOver() []TakenBack { return e }
