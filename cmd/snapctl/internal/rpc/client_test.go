package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/manager"
)

// dial returns a client of the bench's server.
func (b *bench) dial() *client.Client {
	b.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.server.Serve(context.Background(), theirs, theirs)
	}()
	c := client.New(ours)
	b.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// TestToolWithoutWindows: a session without tool windows that tells of a tool is in the wrong.
func TestToolWithoutWindows(t *testing.T) {
	b := newBench(t)
	s, _, err := b.dial().Open(t.Context(), &client.Initialize{CWD: b.dir, SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.OnTurnStart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"tool_start", "tool_end"} {
		err := s.Call(t.Context(), verb, map[string]any{"tool": "bash"}, nil)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Code != "bad_request" || !strings.Contains(err.Error(), "toolWindows") {
			t.Errorf("%s: %v, want a bad_request that names toolWindows", verb, err)
		}
	}
}

// TestClient does what a runtime does that is written in Go.
func TestClient(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	c := b.dial()
	ctx := t.Context()
	s, init, err := c.Open(ctx, &client.Initialize{CWD: b.dir, SessionID: "s", ToolWindows: true})
	if err != nil || init.Files != 1 {
		t.Fatalf("open: %+v, %v", init, err)
	}
	ask := func(verb string, args, answer any) {
		t.Helper()
		if err := s.Call(ctx, verb, args, answer); err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
	}
	tool := map[string]any{"tool": "bash"}
	if err := s.Call(ctx, "tool_start", tool, nil); !errors.Is(err, manager.ErrNoTurn) {
		t.Errorf("tool without a turn: %v", err)
	}
	n := 3
	if _, err = s.OnTurnStart(ctx, &manager.Turn{RuntimeIndex: &n}); err != nil {
		t.Fatal(err)
	}
	wrong := func(verb, says string) {
		t.Helper()
		err := s.Call(ctx, verb, tool, nil)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Code != "bad_request" || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v, want a bad_request: %s", verb, err, says)
		}
	}
	wrong("tool_end", "it does not run")
	ask("tool_start", tool, nil)
	wrong("tool_start", "it runs already")
	if err := s.Claim(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	b.write("a", "two\n")
	b.write("b", "new\n")
	ask("tool_end", tool, nil)
	end, err := s.OnTurnEnd(ctx, func(_ context.Context, d *manager.StepSnapshotData) (string, error) {
		return fmt.Sprint("entry", d.TurnIndex), nil
	})
	if err != nil || end.EntryID != "entry0" || *end.Data.RuntimeTurnIndex != 3 {
		t.Errorf("turn end: %+v, %v", end, err)
	}
	var files manager.ModifiedFiles
	if ask("get_modified_files", nil, &files); len(files.Files) != 2 || files.Files[1].Owner != manager.Claimed {
		t.Errorf("modified: %+v", files)
	}
	var preview, done manager.RestoreResult
	ask("restore_preview", &manager.RestoreOptions{Target: "start"}, &preview)
	if !preview.Preview || len(preview.Items) != 2 || preview.Items[0].Path != "a" ||
		preview.Items[0].Do != "restored" {
		t.Errorf("preview: %+v", preview)
	}
	b.write("b", "by hand\n")
	ask("restore", &manager.RestoreOptions{Target: "start"}, &done)
	if len(done.Dirty) != 1 || !done.Items[1].Dirty {
		t.Errorf("restore: %+v", done)
	}
	ask("undo", nil, nil)
	ask("redo", &manager.UndoOptions{OnDirty: "overwrite"}, nil)
	if err := s.Call(ctx, "redo", nil, nil); !errors.Is(err, manager.ErrNothing) {
		t.Errorf("redo: %v", err)
	}
	var refused verbs.Edited
	edit := &verbs.ApplyPatch{Path: "a", Old: "nowhere", New: "2"}
	if err := s.Call(ctx, "apply_patch", edit, &refused); err == nil || len(refused.Refusals) != 1 {
		t.Errorf("refused: %+v, %v", refused, err)
	}
	var st Stats
	if err := c.Call(ctx, "stats", nil, &st); err != nil || len(st.Watches) != 1 {
		t.Errorf("stats: %+v, %v", st, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.OnTurnEnd(cancelled, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c.Close()
	if _, err := s.OnTurnEnd(ctx, nil); err == nil {
		t.Error("an answer after the end")
	}
}

// TestResume: where the engine dies and not the runtime, the turn goes on in the next engine,
// with the tool that runs; otherwise it was cut off, and whose its changes are nobody knows.
func TestResume(t *testing.T) {
	for _, resume := range []bool{true, false} {
		b := newBench(t)
		ctx := t.Context()
		of := client.Initialize{CWD: b.dir, SessionID: "s", OwnLog: true, ToolWindows: true}
		c := b.dial()
		s, _, err := c.Open(ctx, &of)
		if err == nil {
			_, err = s.OnTurnStart(ctx, &manager.Turn{Title: "both"})
		}
		tool := map[string]any{"tool": "bash"}
		for _, verb := range []string{"tool_start", "tool_end", "tool_start"} {
			if err == nil {
				err = s.Call(ctx, verb, tool, nil)
			}
			b.write("a", verb)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		b.write("b", "written while there was no engine\n")
		of.Resume = resume
		c = b.dial()
		for s, _, err = c.Open(ctx, &of); errors.Is(err, manager.ErrTurnOpen); { // the first has not ended yet
			s, _, err = c.Open(ctx, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		for err = manager.ErrTurnOpen; errors.Is(err, manager.ErrTurnOpen); { // nor yet, maybe
			err = s.Call(ctx, "tool_end", tool, nil)
		}
		if !resume {
			if !errors.Is(err, manager.ErrNoTurn) {
				t.Errorf("tool_end in a turn that was cut off: %v", err)
			}
			continue
		}
		end, eerr := s.OnTurnEnd(ctx, nil)
		if err := errors.Join(err, eerr); err != nil {
			t.Fatal(err)
		}
		d := end.Data
		if d == nil || d.Interrupted || d.TurnIndex != 0 || d.Contested != nil || fmt.Sprint(d.Diff.Added) != "[a b]" {
			t.Errorf("turn: %+v", d)
		}
	}
}

// TestStream: events come in order, before the answer; who does not want more of
// them leaves, and other calls go on.
func TestStream(t *testing.T) {
	b := newBench(t)
	b.server.Extra = map[string]Extra{
		"count": func(_ context.Context, q json.RawMessage, emit func(any) error) (any, error) {
			var p struct{ ID int }
			if err := json.Unmarshal(q, &p); err != nil {
				return nil, err
			}
			for i := range 3 {
				if err := emit(map[string]any{"id": p.ID, "type": "counted", "n": i}); err != nil {
					return nil, err
				}
			}
			return map[string]int{"n": 3}, nil
		}}
	c := b.dial()
	var got []string
	var answer struct{ N int }
	count := func(line []byte) error {
		var e struct{ N int }
		err := json.Unmarshal(line, &e)
		got = append(got, fmt.Sprint(e.N))
		return err
	}
	if err := c.Stream(t.Context(), "count", nil, &answer, count); err != nil ||
		fmt.Sprint(got) != "[0 1 2]" || answer.N != 3 {
		t.Errorf("events %v, answer %+v, %v", got, answer, err)
	}
	enough := errors.New("enough")
	if err := c.Stream(t.Context(), "count", nil, nil, func([]byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("who leaves gets %v", err)
	}
	if err := c.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

// TestCancelCall: whatever a call returns is what happened.
func TestCancelCall(t *testing.T) {
	b := newBench(t)
	c := b.dial()
	s, _, err := c.Open(t.Context(), &client.Initialize{CWD: b.dir, SessionID: "s", OwnLog: true})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for i := range 40 {
		b.write("a", fmt.Sprint(i))
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		switch _, err := s.OnTurnEnd(ctx, nil); {
		case err == nil:
			steps++
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
		cancel()
	}
	var list verbs.Snapshots
	if err := s.Call(t.Context(), "get_snapshots", &verbs.Page{Limit: 200}, &list); err != nil {
		t.Fatal(err)
	}
	if n := len(list.Snapshots) - 1; n != steps {
		t.Errorf("%d turns are on record, %d calls returned no error", n, steps)
	}
}
