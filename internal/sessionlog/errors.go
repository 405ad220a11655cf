package sessionlog

import (
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/vfs"
)

// Errors to match with errors.Is, beside those of package session.
var (
	// ErrFormat: the file is no session log, or one of another version.
	ErrFormat = errors.New("not a pi session log of version 3")
	// ErrNotBegun: the file is empty, or has no whole first line: whoever
	// writes it may be about to. It is an ErrFormat, too.
	ErrNotBegun = errors.New("no session header yet")
	// ErrRewritten: what was read before is no longer in the file, or it is
	// another file now.
	ErrRewritten = errors.New("rewritten since it was last read")
	// ErrNotFile: what is there is a directory, say.
	ErrNotFile = fmt.Errorf("%w", vfs.ErrNotRegular)
)

// A formatError says in its own words what matches ErrFormat.
type formatError string

func (e formatError) Error() string { return string(e) }

// Is reports that the error is ErrFormat.
func (e formatError) Is(target error) bool { return target == ErrFormat }

// A notBegunError says in its own words what matches ErrNotBegun.
type notBegunError struct{ formatError }

// Is reports that the error is ErrNotBegun, and ErrFormat.
func (e notBegunError) Is(target error) bool {
	return target == ErrNotBegun || e.formatError.Is(target)
}
