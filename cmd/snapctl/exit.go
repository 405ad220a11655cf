package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	livechange "github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// Exit codes.
const (
	exitDone        = explain.Done
	exitRefused     = explain.Refused
	exitUsage       = explain.Usage
	exitPart        = explain.Part
	exitDamage      = explain.Damage
	exitBudget      = explain.Budget
	exitEnvironment = explain.Environment
	exitInterrupted = explain.Interrupted
)

var (
	hintEditCutOff = explain.Of(manager.ErrEditCutOff).Hint
	hintCutOff     = explain.Of(manager.ErrCutOff).Hint
	hintCheck      = explain.Of(store.ErrCorrupt).Hint
)

const hintRepair = "'snapctl repair' looks for other copies"

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
	damaged := a.warner != nil && a.warner.end() && !a.warner.lists
	f := new(failure)
	if err != nil {
		f = failureOf(err)
	}
	if f.err != nil {
		text := f.err.Error() // it may have a line of a file, or what a server has said
		if isTerminal(a.stderr) {
			text = words.Plain(string(visible([]byte(text))))
		}
		fmt.Fprintf(a.stderr, "snapctl: %s\n", text)
	}
	if f.hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", a.typed(f.hint))
	}
	if damaged && !strings.Contains(f.hint, "'snapctl check'") && !strings.Contains(f.hint, "'snapctl repair'") {
		fmt.Fprintf(a.stderr, "hint: %s\n", a.typed(hintCheck))
	}
	return f.code
}

// failureOf finds the exit code and a hint for any error: those of package explain,
// or more exact ones.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		if f.err == nil {
			return f
		}
		return &failure{f.code, err, f.hint}
	}
	if over, ok := errors.AsType[*capture.BudgetError](err); ok {
		return overBudget(over)
	}
	if refused, ok := errors.AsType[*manager.EditError](err); ok && !errors.Is(err, manager.ErrOutside) {
		hint := "nothing was written"
		if refused.Fuzzy {
			hint += "; with --fuzzy it can be done (-n shows what)"
		}
		return &failure{exitRefused, refused, hint}
	}
	if f := failureOfPlaces(err); f != nil {
		return f
	}
	if owner, ok := errors.AsType[*cas.OwnerError](err); ok {
		return &failure{exitEnvironment, err, ownerHint(owner)}
	}
	if _, ok := errors.AsType[*cas.CreateError](err); ok && !cas.IsNoSpace(err) {
		return &failure{exitEnvironment, err,
			"stores are kept in ~/.boo/file-store: --store DIR, or $BOO_STORE, names a directory that is yours"}
	}
	if _, ok := errors.AsType[*vfs.ForeignError](err); ok {
		return &failure{exitEnvironment, err,
			"others can write there: remove the file, or keep stores in a directory of your own with --store DIR"}
	}
	if _, ok := errors.AsType[*retain.ForgetError](err); ok && !errors.Is(err, context.Canceled) {
		k := explain.Of(err)
		hint := "run the same command again"
		if cas.IsNoSpace(err) {
			hint = "free some space on that disk, and " + hint
		}
		return &failure{k.Exit, err, hint}
	}
	if hung, ok := errors.AsType[*wire.HungError](err); ok {
		return &failure{exitEnvironment, err, hintHung(hung)}
	}
	if corrupt, ok := errors.AsType[*object.CorruptError](err); ok && corrupt.Path == "FORMAT" {
		return &failure{exitDamage, err, "'snapctl repair' writes it again"}
	}
	switch {
	case isToldAgain(err):
		hint := ""
		if cas.IsNoSpace(err) {
			hint = "'snapctl prune' frees some space"
		}
		return &failure{exitEnvironment, err, hint}
	case errors.Is(err, manager.ErrOutside):
		return &failure{code: exitUsage, err: err}
	case errors.Is(err, context.Canceled):
		return interrupted("", err)
	}
	k := explain.Of(err)
	return &failure{k.Exit, err, k.Hint}
}

// failureOfPlaces is failureOf for errors about whose store a directory has, nil for others.
func failureOfPlaces(err error) *failure {
	if away, ok := errors.AsType[*places.MovedError](err); ok {
		return &failure{exitRefused, err, "'snapctl adopt' continues its history here; 'snapctl --root " +
			words.ShellQuote(away.From) + " log' reads it as it is; 'snapctl adopt --fresh' begins a new one"}
	}
	if kept, ok := errors.AsType[*places.KeptError](err); ok {
		return &failure{exitRefused, err, "both histories are kept, and are not merged; 'snapctl --root " +
			words.ShellQuote(kept.From) + " log' shows the other one"}
	}
	if other, ok := errors.AsType[*places.OtherProjectError](err); ok {
		return &failure{exitRefused, err, fmt.Sprintf("nothing was changed; move the directory to where it belongs: %s",
			words.Quote(filepath.Join(filepath.Dir(other.Store), capture.PathHash(other.Root))))}
	}
	if corrupt, ok := errors.AsType[*object.CorruptError](err); ok && corrupt.Path == places.FileName {
		return &failure{exitDamage, err,
			"the file only says which directory is which: remove it, and name the first path of this directory: " +
				"'snapctl adopt OLDPATH'"}
	}
	return nil
}

// whenInterrupted is what there is to know of a command that was interrupted.
var whenInterrupted = map[string]struct{ state, hint string }{
	"snapshot": {"nothing was recorded", ""},
	"restore":  {"nothing was changed", ""},
	"undo":     {"nothing was changed", ""},
	"redo":     {"nothing was changed", ""},
	"revert":   {"nothing was changed", ""},
	"navigate": {"nothing was changed", ""},
	"export":   {"nothing was written", ""},
	"find":     {"not all was searched", ""},
	"check":    {"the store is as it was", "'snapctl check' can be run again"},
	"repair":   {"the store is no worse than it was", "'snapctl repair' continues"},
	"prune":    {"the store is whole", "'snapctl prune', with the same flags, continues"},
	"compact":  {"the store is whole, and what was written anew stays", "'snapctl compact' goes on where it was"},
	"forget":   {"the store is whole, and may still hold the content", "run the same command again"},
	"adopt":    {"the history is whole", "'snapctl adopt' can be run again"},
	"clone":    {"no file was written", "run the same command again"},

	"patch undo": {"nothing was changed", ""},

	"remote init":   {"it was made whole, or not", "run the same command again: it says if there is one"},
	"remote push":   {"what was put there stays", "'snapctl remote push' puts the rest there"},
	"remote wait":   {"what was put there stays", "'snapctl remote status' says what is not there yet"},
	"remote pull":   {"what came is whole", "'snapctl remote pull' brings the rest"},
	"remote fetch":  {"what came stays", "'snapctl remote fetch' brings the rest"},
	"remote evict":  {"nothing is gone that is not there", "'snapctl remote evict' can be run again"},
	"remote check":  {"the remote is as it was", "'snapctl remote check' can be run again"},
	"remote repair": {"neither is worse than it was", "'snapctl remote repair' continues"},
	"remote prune":  {"the remote is whole", "'snapctl remote prune', with the same flags, continues"},
	"remote rotate": {"the new key is there, or not", "run the same command again"},

	"remote key add":  {"it was done, or not", "'snapctl remote key list' says who can read it"},
	"remote key drop": {"it was done, or not", "'snapctl remote key list' says who can read it"},
}

// interrupted returns the failure of a command that was interrupted; "" for the name: it is
// not known which.
func interrupted(name string, err error) *failure {
	when := whenInterrupted[name]
	if cut, ok := errors.AsType[*livechange.TakenBackError](err); ok {
		when.state, when.hint = cut.State, ""
		if cut.Err != nil {
			when.hint = hintCutOff
		}
	}
	text := "interrupted"
	if when.state != "" {
		text = name + ": interrupted, " + when.state
	}
	return &failure{exitInterrupted, errors.New(text), when.hint}
}

// isToldAgain reports whether an error was told in full before.
func isToldAgain(err error) bool {
	_, ok := errors.AsType[*health.NotRecordedError](err)
	return ok
}

// ownerHint names the owner of a store, and says what this user can do.
func ownerHint(e *cas.OwnerError) string {
	name, as := fmt.Sprintf("user %d", e.Owner), fmt.Sprintf("sudo -u '#%d'", e.Owner)
	if u, err := user.LookupId(strconv.Itoa(e.Owner)); err == nil {
		name, as = u.Username, "sudo -u "+u.Username
	}
	instead := fmt.Sprintf("'%s snapctl …' runs as its owner", as)
	if u, err := user.LookupId(strconv.Itoa(e.Self)); err == nil && e.Owner == 0 && isBelow(e.Path, u.HomeDir) {
		instead = fmt.Sprintf("'sudo chown -R %s %s' makes it yours", u.Username, words.ShellQuote(e.Path))
	}
	return fmt.Sprintf("it is %s's: %s, 'snapctl --store DIR …' keeps stores of your own", name, instead)
}
