package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/retain"
)

// Each error of the table ends the command with its exit code, and says what to do.
func TestFailures(t *testing.T) {
	for _, k := range explain.Kinds {
		for _, err := range k.Errs {
			f := failureOf(fmt.Errorf("restore: %w", err))
			if f.code != k.Exit || f.hint != k.Hint {
				t.Errorf("%v: exit code %d, %q, want %d, %q", err, f.code, f.hint, k.Exit, k.Hint)
			}
		}
	}
}

// Hints have the user's paths, as a shell takes them, and what to do again.
func TestHintsOfOne(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{
		{&places.KeptError{From: "/my old/it's", Err: places.ErrHasHistory}, `snapctl --root '/my old/it'\''s' log`},
		{&places.KeptError{From: "/old", Err: places.ErrStillThere}, "'snapctl --root /old log'"},
		{&retain.ForgetError{Left: 1, All: 2, Err: syscall.ENOSPC}, "free some space on that disk, and run the same"},
		{&retain.ForgetError{All: 2, Err: errors.New("broken")}, "run the same command again"},
	} {
		f := failureOf(fmt.Errorf("x: %w", c.err))
		if !strings.Contains(f.hint, c.hint) || f.code != explain.Of(c.err).Exit {
			t.Errorf("%v: exit code %d, %q, want %q", c.err, f.code, f.hint, c.hint)
		}
	}
}
