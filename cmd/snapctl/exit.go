package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Exit codes (docs/cli.md).
const (
	exitDone        = 0
	exitRefused     = 1   // or differences found, with --exit-code
	exitUsage       = 2   // the command line makes no sense
	exitPart        = 3   // something was skipped, and is listed
	exitDamage      = 4   // the store is not what was written
	exitBudget      = 5   // over budget, or too broad a root
	exitEnvironment = 6   // I/O, locks, a newer format
	exitInterrupted = 130 // as a shell has it for SIGINT
)

const hintEditCutOff = "the next edit or snapshot takes it back"

const hintCutOff = "'snapctl restore --continue' brings it to its end, --abort takes it back"

const hintCheck = "'snapctl check' lists all that is damaged"

// A failure is an error together with what the user is to make of it.
type failure struct {
	code int
	err  error  // nil: what there is to say was said
	hint string // what to do about it, if anything
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// refuse returns the error of a command that did nothing.
func refuse(hint, format string, args ...any) error {
	return &failure{exitRefused, fmt.Errorf(format, args...), hint}
}

// usageError returns the error of a command line that makes no sense.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), fmt.Sprintf("see '%s --help'", cmd.CommandPath())}
}

// report says what went wrong and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitDone
	}
	f := explain(err)
	if f.err != nil {
		fmt.Fprintf(a.stderr, "snapctl: %v\n", f.err)
	}
	if f.hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", f.hint)
	}
	return f.code
}

// explain finds the exit code and a hint for any error.
func explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		if f.err == nil {
			return f
		}
		return &failure{f.code, err, f.hint}
	}
	if over, ok := errors.AsType[*tree.BudgetError](err); ok {
		return overBudget(over)
	}
	if refused, ok := errors.AsType[*manager.EditError](err); ok && !errors.Is(err, manager.ErrOutside) {
		return &failure{exitRefused, refused, "nothing was changed"}
	}
	switch {
	case errors.Is(err, store.ErrBusy):
		return &failure{exitRefused, err, hintBusy}
	case errors.Is(err, manager.ErrNoSpace):
		return &failure{exitEnvironment, err, "free some, or 'snapctl prune'; restores may take what is left"}
	case errors.Is(err, manager.ErrDamaged):
		return &failure{exitDamage, err, "run 'snapctl repair'; --despite-damage goes on without what is lost"}
	case errors.Is(err, store.ErrForgotten):
		return &failure{exitRefused, err, "'snapctl forget' removed it from all snapshots, for good"}
	case errors.Is(err, store.ErrPruned):
		return &failure{exitRefused, err, "'snapctl log' says which are kept"}
	case errors.Is(err, manager.ErrTooBroad):
		return &failure{exitBudget, err, "name a project with --root DIR, or insist with --allow-broad"}
	case errors.Is(err, manager.ErrNoSession):
		return &failure{exitRefused, err, "'snapctl sessions --all' lists sessions"}
	case isUnknown(err):
		return &failure{exitRefused, err, "'snapctl log' lists snapshots, 'snapctl help revs' says how to name them"}
	case errors.Is(err, manager.ErrAmbiguous) || errors.Is(err, session.ErrAmbiguous):
		return &failure{exitRefused, err, "give more of it"}
	case errors.Is(err, manager.ErrTurnOpen):
		return &failure{exitRefused, err, "wait for the turn to end, or name another session with --session ID"}
	case errors.Is(err, manager.ErrHeadChanged):
		return &failure{exitRefused, err, "'snapctl restore -n' shows what would be done, -y does it all the same"}
	case errors.Is(err, manager.ErrEditCutOff):
		return &failure{exitRefused, err, hintEditCutOff}
	case errors.Is(err, manager.ErrCutOff):
		return &failure{exitRefused, err, hintCutOff}
	case errors.Is(err, manager.ErrOutside):
		return &failure{code: exitUsage, err: err}
	case errors.Is(err, manager.ErrStale):
		return &failure{exitRefused, err, "read it again; 'snapctl patch undo' has --reverse and --force"}
	case errors.Is(err, manager.ErrNotText) || errors.Is(err, manager.ErrReadOnly):
		return &failure{code: exitRefused, err: err}
	case errors.Is(err, manager.ErrNothing):
		return &failure{exitRefused, err, "'snapctl restore @~1' takes back the newest turn"}
	case errors.Is(err, manager.ErrOtherSession):
		return &failure{exitRefused, err, "name that session with --session ID"}
	case errors.Is(err, session.ErrFormat) || errors.Is(err, session.ErrCycle) || errors.Is(err, session.ErrUnknownEntry):
		return &failure{code: exitRefused, err: err}
	case errors.Is(err, context.Canceled):
		return &failure{code: exitInterrupted, err: errors.New("interrupted")}
	case tree.IsLoss(err):
		return &failure{exitDamage, err, hintCheck}
	case errors.Is(err, store.ErrFormat):
		return &failure{exitEnvironment, err, "it was made by a newer snapctl, or is no store: nothing was changed"}
	case errors.Is(err, store.ErrOwner):
		return &failure{exitEnvironment, err, "run it as that user, or keep stores of your own with --store DIR"}
	case errors.Is(err, store.ErrNoLocks) || errors.Is(err, store.ErrNoRename):
		return &failure{exitEnvironment, err, "put the store on a local disk with --store DIR"}
	}
	return &failure{code: exitEnvironment, err: err}
}
