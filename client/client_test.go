package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/rpc"
	"github.com/boocode/filestore/manager"
)

// connect returns a client of an engine of the test's own, and a directory with
// one file.
func connect(t testing.TB) (*Client, string) {
	t.Helper()
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := &rpc.Server{Engine: e}
		s.Serve(context.Background(), theirs, theirs)
	}()
	c := New(ours)
	t.Cleanup(func() {
		c.Close()
		<-done
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	dir := t.TempDir()
	write(t, dir, "a", "one\n")
	return c, dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSession does what a runtime does, with every method.
func TestSession(t *testing.T) {
	c, dir := connect(t)
	ctx := t.Context()
	s, init, err := c.Open(ctx, &Initialize{CWD: dir, SessionID: "s", ToolWindows: true})
	if err != nil || init.Files != 1 {
		t.Fatalf("open: %+v, %v", init, err)
	}
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if _, err := s.OnToolStart(ctx, "bash"); !errors.Is(err, manager.ErrNoTurn) {
		t.Errorf("tool without a turn: %v", err)
	}
	n := 3
	_, err = s.OnTurnStart(ctx, &manager.Turn{RuntimeIndex: &n})
	check("turn start", err)
	_, err = s.OnToolStart(ctx, "bash")
	check("tool start", err)
	check("claim", s.Claim(ctx, "b"))
	write(t, dir, "a", "two\n")
	write(t, dir, "b", "new\n")
	_, err = s.OnToolEnd(ctx, "bash")
	check("tool end", err)
	end, err := s.OnTurnEnd(ctx, func(_ context.Context, d *manager.StepSnapshotData) (string, error) {
		return fmt.Sprint("entry", d.TurnIndex), nil
	})
	check("turn end", err)
	if end.EntryID != "entry0" || *end.Data.RuntimeTurnIndex != 3 {
		t.Errorf("turn end: %+v", end)
	}
	files, err := s.ModifiedFiles(ctx, nil)
	check("modified", err)
	if len(files.Files) != 2 || files.Files[1].Owner != manager.Claimed {
		t.Errorf("modified: %+v", files)
	}
	if d, err := s.TurnDiff(ctx, nil); err != nil || len(d.Files) != len(files.Files) || d.TurnIndex != 0 {
		t.Errorf("TurnDiff: %+v, %v", d, err)
	}
	d, err := s.FileDiff(ctx, &FileRange{Path: "a"})
	check("diff", err)
	if *d.OldContent != "one\n" {
		t.Errorf("diff: %+v", d)
	}
	if d, err := s.FileDiff(ctx, &FileRange{Path: "none"}); d != nil || err != nil {
		t.Errorf("diff of no file: %+v, %v", d, err)
	}
	list, err := s.Snapshots(ctx, nil)
	check("snapshots", err)
	if len(list.Snapshots) != 2 {
		t.Errorf("snapshots: %+v", list)
	}
	_, err = s.Coverage(ctx, "", nil)
	check("coverage", err)
	p, err := s.PreviewRestore(ctx, &Restore{Target: "start"})
	check("preview", err)
	if !p.Preview || len(p.Items) != 2 || p.Items[0].Path != "a" || p.Items[0].Do != "restored" {
		t.Errorf("preview: %+v", p)
	}
	write(t, dir, "b", "by hand\n")
	r, err := s.RestoreFiles(ctx, &Restore{Target: "start"})
	check("restore", err)
	if r.Complete || len(r.Dirty) != 1 || !r.Items[1].Dirty {
		t.Errorf("restore: %+v", r)
	}
	check("told", s.Told(ctx, r.SnapshotSeq, "u1"))
	_, err = s.Undo(ctx, nil)
	check("undo", err)
	_, err = s.Redo(ctx, nil)
	check("redo", err)
	if _, err := s.Redo(ctx, nil); !errors.Is(err, manager.ErrNothing) {
		t.Errorf("redo: %v", err)
	}
	_, err = s.NavigateTree(ctx, &Navigate{Target: "entry0"})
	check("navigate", err)
	hash, err := s.NoteRead(ctx, "a")
	check("note read", err)
	if len(hash) != 64 {
		t.Errorf("hash %q", hash)
	}
	edit, err := s.ApplyEdits(ctx, &ApplyPatch{Path: "a", Old: "two", New: "2"})
	check("edit", err)
	_, err = s.UndoEdit(ctx, &UndoPatch{UndoID: edit.UndoID})
	check("undo edit", err)
	refused, err := s.ApplyEdits(ctx, &ApplyPatch{Path: "a", Old: "nowhere", New: "2"})
	if err == nil || len(refused.Refusals) != 1 {
		t.Errorf("refused: %+v, %v", refused, err)
	}
	st, err := c.Stats(ctx)
	check("stats", err)
	if len(st.Watches) != 1 {
		t.Errorf("stats: %+v", st)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.EndTurn(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c.Close()
	if _, err := s.EndTurn(ctx); err == nil {
		t.Error("an answer after the end")
	}
}

// TestCancel: whatever a call returns is what happened.
func TestCancel(t *testing.T) {
	c, dir := connect(t)
	s, _, err := c.Open(t.Context(), &Initialize{CWD: dir, SessionID: "s", OwnLog: true})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for i := range 40 {
		write(t, dir, "a", fmt.Sprint(i))
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		switch _, err := s.EndTurn(ctx); {
		case err == nil:
			steps++
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
		cancel()
	}
	list, err := s.Snapshots(t.Context(), &Page{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.Snapshots) - 1; n != steps {
		t.Errorf("%d turns are on record, %d calls returned no error", n, steps)
	}
}
