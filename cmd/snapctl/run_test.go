package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
)

// saying is a writer whose writes come out of it.
type saying chan string

func (s saying) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

// A turn of a run that cannot begin, as while a checkpoint is being restored, begins later.
func TestRunTurnBeginsLater(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	said := make(saying, 100)
	getenv := func(name string) string { return map[string]string{"BOO_STORE": stores, "HOME": stores}[name] }
	a := &app{args: []string{"run"}, cwd: dir, out: bufio.NewWriter(io.Discard), stdout: io.Discard, stderr: said,
		getenv: getenv}
	a.prepare(new(cobra.Command))
	a.flags.root, a.flags.session = dir, "s"
	r, err := a.beginRun(t.Context(), new(runFlags), []string{"program"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	unlock, err := other.TryLock(manager.NoTurns)
	if err != nil {
		t.Fatal(err)
	}
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(t.Context(), 100*time.Millisecond, done)
	}()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("program"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	if got := <-said; !strings.Contains(got, "until a turn can begin") {
		t.Errorf("said %q", got)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	for open := []string(nil); len(open) == 0; time.Sleep(10 * time.Millisecond) {
		if open, err = other.OpenTurns(); err != nil {
			t.Fatal(err)
		}
	}
	write("other")
	close(done)
	r.end(t.Context(), watched)
	owners := make(map[string]int)
	for mo, err := range other.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		own, _, err := mo.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range own.Added {
			owners[p] = mo.TurnIndex
		}
	}
	if owners["first"] != 0 || owners["other"] != 1 || len(owners) != 2 {
		t.Errorf("turns of files: %v, want first 0, other 1", owners)
	}
	if len(said) > 0 {
		t.Errorf("said %q, too", <-said)
	}
}
