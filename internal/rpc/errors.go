package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/explain"
)

// A Code says what kind an error is, for programs.
type Code string

// Codes of what is wrong with a request. Errors of the packages below have those of
// package explain.
const (
	BadRequest  Code = "bad_request"  // no JSON, or a field is of the wrong kind or missing
	BadCommand  Code = "bad_command"  // there is no such command
	DuplicateID Code = "duplicate_id" // a request under this ID is being answered
	TooMany     Code = "too_many"     // requests at once
	TooLong     Code = "too_long"     // a line
	NoSession   Code = "no_session"   // the connection has not initialized the session
	Cancelled   Code = "cancelled"    // by cancel, or because the connection ended
	TimedOut    Code = "timed_out"    // by the request's own limit
	Stalled     Code = "stalled"      // no progress for too long
	Internal    Code = "internal"     // any other
)

// Causes of a context that ends.
var (
	errCancelled = fmt.Errorf("by request: %w", context.Canceled)
	errGone      = fmt.Errorf("the connection has ended: %w", context.Canceled)
	errStalled   = errors.New("no progress for too long")
)

// CodeOf returns the code of an error, Internal if it has none.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, errStalled):
		return Stalled
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return cmp.Or(Code(explain.Code(err)), Internal)
}

// An Error is what a request was answered with. It matches by errors.Is what the
// packages below return for the same.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Is reports whether target is an error that has this code.
func (e *Error) Is(target error) bool {
	return explain.HasCode(string(e.Code), target) ||
		e.Code == Cancelled && target == context.Canceled || e.Code == TimedOut && target == context.DeadlineExceeded
}

func badRequest(text string) error { return &Error{BadRequest, text} }
