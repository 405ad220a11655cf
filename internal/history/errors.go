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
