package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Code says what kind an error is, for programs.
type Code string

// Codes of what is wrong with a request.
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
	Refused     Code = "refused"      // pieces of a patch were refused; data lists them
	Internal    Code = "internal"     // any other
)

// codes are those of errors of the packages below. The first that matches
// counts.
var codes = []struct {
	Code Code
	Err  error
}{
	{"too_broad", manager.ErrTooBroad},
	{"moved", manager.ErrMovedAway},
	{"other_user", store.ErrOwner},
	{"busy", store.ErrBusy},
	{"no_snapshots", manager.ErrNoSession},
	{"edit_cut_off", manager.ErrEditCutOff},
	{"cut_off", manager.ErrCutOff},
	{"unknown", manager.ErrUnknown},
	{"ambiguous", manager.ErrAmbiguous},
	{"ambiguous", session.ErrAmbiguous},
	{"other_session", manager.ErrOtherSession},
	{"turn_open", manager.ErrTurnOpen},
	{"locked", manager.ErrLocked},
	{"no_turn", manager.ErrNoTurn},
	{"outside", manager.ErrOutside},
	{"head_changed", manager.ErrHeadChanged},
	{"nothing", manager.ErrNothing},
	{"changed_nothing", manager.ErrChangedNothing},
	{"stale", manager.ErrStale},
	{"not_text", manager.ErrNotText},
	{"read_only", manager.ErrReadOnly},
	{"entry_exists", session.ErrEntryExists},
	{"unknown_entry", session.ErrUnknownEntry},
	{"bad_log", session.ErrFormat},
	{"bad_log", session.ErrCycle},
	{"forgotten", store.ErrForgotten},
	{"corrupt", store.ErrCorrupt},
	{"not_found", store.ErrNotFound},
	{"format", store.ErrFormat},
	{"no_locks", store.ErrNoLocks},
	{"no_space", store.ErrNoSpace},
	{"no_space", syscall.ENOSPC},
	{"no_space", syscall.EDQUOT},
	{"not_exist", fs.ErrNotExist},
	{"exists", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"closed", fs.ErrClosed},
}

// Causes of a context that ends.
var (
	errCancelled = fmt.Errorf("by request: %w", context.Canceled)
	errGone      = fmt.Errorf("the connection has ended: %w", context.Canceled)
	errStalled   = errors.New("no progress for too long")
)

// CodeOf returns the code of an error, Internal if it has none.
func CodeOf(err error) Code {
	var e *Error
	var budget *tree.BudgetError
	var refused *manager.EditError
	var parse *patch.ParseError
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, errStalled):
		return Stalled
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.As(err, &budget):
		return "budget"
	case errors.As(err, &parse):
		return "bad_patch"
	case errors.As(err, &refused):
		return Refused
	}
	for _, c := range codes {
		if errors.Is(err, c.Err) {
			return c.Code
		}
	}
	return Internal
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
	for _, c := range codes {
		if c.Code == e.Code && c.Err == target {
			return true
		}
	}
	return e.Code == Cancelled && target == context.Canceled || e.Code == TimedOut && target == context.DeadlineExceeded
}

func badRequest(text string) error { return &Error{BadRequest, text} }
