package main

import (
	"fmt"
	"testing"

	"github.com/boocode/filestore/internal/explain"
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
