package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/rpc"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
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

const hintRepair = "'snapctl repair' looks for other copies"

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
		text := []byte(f.err.Error()) // it may have a line of a file
		if isTerminal(a.stderr) {
			text = visible(text)
		}
		fmt.Fprintf(a.stderr, "snapctl: %s\n", text)
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
		hint := "nothing was written"
		if refused.Fuzzy {
			hint += "; with --fuzzy it can be done (-n shows what)"
		}
		return &failure{exitRefused, refused, hint}
	}
	if away, ok := errors.AsType[*manager.MovedError](err); ok {
		return &failure{exitRefused, err, "'snapctl adopt' has its history go on here; 'snapctl --root " + patch.Quote(away.From) + " log' reads it as it is; 'snapctl adopt --fresh' begins a new one"}
	}
	if other, ok := errors.AsType[*manager.OtherProjectError](err); ok {
		return &failure{exitRefused, err, fmt.Sprintf("nothing was changed; move the directory to where it belongs: %s", patch.Quote(filepath.Join(filepath.Dir(other.Store), tree.PathHash(other.Root))))}
	}
	if owner, ok := errors.AsType[*store.OwnerError](err); ok {
		return &failure{exitEnvironment, err, ownerHint(owner)}
	}
	if _, ok := errors.AsType[*vfs.ForeignError](err); ok {
		return &failure{exitEnvironment, err, "others can write there: remove the file, or keep stores in a directory of your own with --store DIR"}
	}
	if corrupt, ok := errors.AsType[*store.CorruptError](err); ok && corrupt.Path == manager.PlacesName {
		return &failure{exitDamage, err, "it only says which directory is which: remove the file, and name the path that this one had first, 'snapctl adopt OLDPATH'"}
	}
	if hung, ok := errors.AsType[*rpc.HungError](err); ok {
		return &failure{exitEnvironment, err, hintHung(hung)}
	}
	if corrupt, ok := errors.AsType[*store.CorruptError](err); ok && corrupt.Path == "FORMAT" {
		return &failure{exitDamage, err, "'snapctl repair' writes it again"}
	}
	switch {
	case errors.Is(err, manager.ErrStillThere), errors.Is(err, manager.ErrHasHistory):
		return &failure{exitRefused, err, "'snapctl --root DIR' reads the one that is not used; histories are not merged"}
	case errors.Is(err, manager.ErrNotMoved):
		return &failure{exitRefused, err, "'snapctl stores' lists what was where; name the old path: 'snapctl adopt OLDPATH'"}
	case errors.Is(err, store.ErrBusy):
		return &failure{exitRefused, err, hintBusy}
	case errors.Is(err, store.ErrPlanStale):
		return &failure{exitRefused, err, "another prune or repair was faster: run it again"}
	case isToldAgain(err):
		if store.IsNoSpace(err) {
			err = fmt.Errorf("%w; 'snapctl prune' frees some", err)
		}
		return &failure{code: exitEnvironment, err: err}
	case store.IsNoSpace(err) && !errors.Is(err, store.ErrNoSpace): // of the store, or of the directory
		return &failure{exitEnvironment, err, "free some there; if that is the disk of the store, 'snapctl prune' frees what no snapshot needs"}
	case store.IsNoSpace(err):
		return &failure{exitEnvironment, err, "'snapctl prune' frees what no snapshot needs, --keep-last N more; restores may take what is left"}
	case errors.Is(err, manager.ErrDamaged):
		return &failure{exitDamage, err, "run 'snapctl repair'; --despite-damage goes on without what is lost"}
	case errors.Is(err, store.ErrForgotten):
		return &failure{exitRefused, err, "'snapctl forget' removed it from all snapshots, for good"}
	case errors.Is(err, store.ErrPruned):
		return &failure{exitRefused, err, "'snapctl log' says which are kept"}
	case errors.Is(err, manager.ErrTooBroad):
		return &failure{exitBudget, err, "name a project with --root DIR, or insist with --allow-broad"}
	case errors.Is(err, manager.ErrChangedNothing):
		return &failure{exitRefused, err, ""}
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
	case errors.Is(err, store.ErrNoLocks) || errors.Is(err, store.ErrNoRename):
		return &failure{exitEnvironment, err, "put the store on a local disk with --store DIR"}
	}
	return &failure{code: exitEnvironment, err: err}
}

// isToldAgain reports whether an error was told in full before.
func isToldAgain(err error) bool {
	_, ok := errors.AsType[*manager.NotRecordedError](err)
	return ok
}

// ownerHint names the owner of a store, and says what this user can do.
func ownerHint(e *store.OwnerError) string {
	name, as := fmt.Sprintf("user %d", e.Owner), fmt.Sprintf("sudo -u '#%d'", e.Owner)
	if u, err := user.LookupId(strconv.Itoa(e.Owner)); err == nil {
		name, as = u.Username, "sudo -u "+u.Username
	}
	return fmt.Sprintf("it is %s's: '%s snapctl …' runs as its owner, 'snapctl --store DIR …' keeps stores of your own", name, as)
}
