package history

import "errors"

// Errors to match with errors.Is. Package manager has them under the same names.
var (
	// ErrNoSession: the session has no snapshot yet.
	ErrNoSession = errors.New("no snapshots yet")
	// ErrUnknown: there is no such entry, turn or snapshot, or what is known
	// of it does not say what the files were.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous: an abbreviation fits several.
	ErrAmbiguous = errors.New("ambiguous")
)

// ErrUnfinished: a restore was cut off, and the store has lost what is needed to finish it, or to take it back.
var ErrUnfinished = errors.New("what that needs is lost")

// ErrNoWindows: a turn that was opened without tool windows has no tools. It is a mistake of the
// caller's, and package manager has no name for it.
var ErrNoWindows = errors.New("the turn was opened without toolWindows")

// ErrToolRuns and ErrNoTool: a tool is said to start, or to end, that runs already, or does not run. That is such
// a mistake, too.
var (
	ErrToolRuns = errors.New("it runs already")
	ErrNoTool   = errors.New("it does not run")
)
