package session

import "errors"

// Errors to match with errors.Is.
var (
	// ErrUnknownEntry: the session has no such entry.
	ErrUnknownEntry = errors.New("no such entry")
	// ErrEntryExists: the session has an entry with this ID already.
	ErrEntryExists = errors.New("entry exists already")
	// ErrCycle: an entry is its own ancestor.
	ErrCycle = errors.New("parents form a cycle")
)
