package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/boocode/filestore/manager"
)

// Errors to match with errors.Is. After each the state is the old one, but for
// ErrUndecided.
var (
	// ErrNotFound: the session has no such checkpoint or restore.
	ErrNotFound = errors.New("not found")
	// ErrNoWorktree: the turn has no worktree, or it is gone.
	ErrNoWorktree = errors.New("no worktree")
	// ErrAnchor: nobody knows where in the transcript the checkpoint is.
	ErrAnchor = errors.New("the message of the checkpoint is not known")
	// ErrBusy: another restore runs in the worktree.
	ErrBusy = errors.New("another restore is running")
	// ErrRunning: an agent is at work in the chat or in the worktree.
	ErrRunning = errors.New("an agent is at work")
	// ErrDirty: somebody else has changed files. The error is a *FilesError.
	ErrDirty = errors.New("files were changed by others")
	// ErrFiles: some files cannot be restored. The error is a *FilesError.
	ErrFiles = errors.New("files cannot be restored")
	// ErrChanged: the chat has changed while it was restored, or its tables were
	// in use all the time.
	ErrChanged = errors.New("the chat has changed meanwhile")
	// ErrFollowed: a restore cannot be undone any more, because something has
	// followed it.
	ErrFollowed = errors.New("something has followed the restore")
	// ErrUndecided: whether the old state or the new one holds is not known
	// before the database answers, or the files can be written. The error is an
	// *UndecidedError, and Outcome tells then.
	ErrUndecided = errors.New("it is not decided whether the restore was done")
)

// An UndecidedError is about a restore, or an undo, that may have been done. It
// matches [ErrUndecided].
type UndecidedError struct {
	RestoreID string // for Outcome
	Err       error
}

func (e *UndecidedError) Error() string { return ErrUndecided.Error() + ": " + e.Err.Error() }

func (e *UndecidedError) Unwrap() []error { return []error{ErrUndecided, e.Err} }

// A FilesError says which files stand against a restore. It matches [ErrDirty]
// or [ErrFiles].
type FilesError struct {
	Err   error
	Files *manager.RestoreResult // of what would have been done; see Dirty, Failed
}

func (e *FilesError) Error() string {
	list := e.Files.Dirty
	if errors.Is(e.Err, ErrFiles) {
		list = e.Files.Failed
	}
	const most = 3
	more := ""
	if len(list) > most {
		more = fmt.Sprintf(" and %d more", len(list)-most)
		list = list[:most]
	}
	quoted := make([]string, len(list))
	for i, f := range list {
		quoted[i] = strconv.Quote(f)
	}
	return fmt.Sprintf("%v: %s%s", e.Err, strings.Join(quoted, ", "), more)
}

func (e *FilesError) Unwrap() error { return e.Err }
