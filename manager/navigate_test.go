package manager

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
)

// appendTo appends to the runtime's log as pi does.
func (b *bench) appendTo(_ context.Context, e *session.Entry) (string, error) {
	e.ID, e.ParentID = newID(), b.log.Leaf()
	b.log.Add(*e)
	return e.ID, nil
}

func (b *bench) navigate(m *FileSnapshotManager, target string, opts *NavigateOptions) *NavigateResult {
	b.Helper()
	if opts == nil {
		opts = new(NavigateOptions)
	}
	opts.Append = b.appendTo
	r, err := m.NavigateTree(b.Context(), target, opts)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// say has a turn of a conversation: the user's message, the agent's, and what
// it does. It returns the message of the user and that of the agent.
func (b *bench) say(m *FileSnapshotManager, fn func()) (user, agent string) {
	b.Helper()
	user = b.message("user")
	b.start(m)
	agent = b.message("assistant")
	fn()
	b.end(m)
	return user, agent
}

func newConversation(t *testing.T) (*bench, *FileSnapshotManager) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	return b, m
}

// last returns the newest entry of a type.
func (b *bench) last(kind string) (last *session.Entry) {
	for e := range b.log.Entries() {
		if e.Type == kind || e.CustomType == kind {
			last = e
		}
	}
	return last
}

// TestNavigateTree is the table of the seed's design, §8.5.
func TestNavigateTree(t *testing.T) {
	setup := func(t *testing.T) (b *bench, m *FileSnapshotManager, user string) {
		b, m = newConversation(t)
		b.say(m, func() { b.write("a", "1") })
		user, _ = b.say(m, func() { b.write("a", "2"); b.write("b", "2") })
		return b, m, user
	}
	t.Run("skipFiles=false restores files and moves leaf", func(t *testing.T) {
		b, m, user := setup(t)
		entry, _ := b.log.Entry(user)
		leaf, err := sessionlog.Target(b.log, entry)
		if err != nil {
			t.Fatal(err)
		}
		r := b.navigate(m, user, nil)
		b.expectFiles(files{"a": "1"})
		if e := b.last(sessionlog.UnrevertPoint); *r.NewLeafID != leaf || e == nil || e.ParentID != leaf {
			t.Errorf("%+v, unrevert-point %+v, want the leaf %s", r, e, leaf)
		}
		// Undo takes the conversation along.
		if _, err := m.Undo(t.Context(), &UndoOptions{Append: b.appendTo}); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": "2", "b": "2"})
		if e := b.last(sessionlog.UnrevertPoint); e.ParentID != *r.OldLeafID {
			t.Errorf("after undo the leaf is %s, want %s", e.ParentID, *r.OldLeafID)
		}
	})
	t.Run("skipFiles=true moves leaf without restoring files", func(t *testing.T) {
		b, m, user := setup(t)
		r := b.navigate(m, user, &NavigateOptions{SkipFiles: true})
		b.expectFiles(files{"a": "2", "b": "2"})
		if b.log.Leaf() != *r.NewLeafID || r.Restore != nil {
			t.Errorf("leaf %s, %+v", b.log.Leaf(), r)
		}
	})
	t.Run("skipFiles=true with summarize stores flag on BranchSummaryEntry", func(t *testing.T) {
		b, m, user := setup(t)
		r := b.navigate(m, user, &NavigateOptions{SkipFiles: true, Summarize: true, Summary: "left"})
		e := b.last("branch_summary")
		if e == nil || !e.SkipFiles || e.ID != r.SummaryID || e.FromID != *r.OldLeafID || e.Summary != "left" ||
			!cmp.Equal(e.Details, json.RawMessage(`{"skipFiles":true}`)) {
			t.Errorf("entry %+v", e)
		}
	})
	t.Run("skipFiles=true without summarize does not persist flag", func(t *testing.T) {
		b, m, user := setup(t)
		n := b.log.Changes()
		b.navigate(m, user, &NavigateOptions{SkipFiles: true})
		if b.log.Changes() != n {
			t.Errorf("%d entries were appended", b.log.Changes()-n)
		}
	})
	t.Run("summarize with skipFiles=false does not set flag", func(t *testing.T) {
		b, m, user := setup(t)
		b.navigate(m, user, &NavigateOptions{Summarize: true})
		if e := b.last("branch_summary"); e == nil || e.SkipFiles || e.Details != nil {
			t.Errorf("entry %+v", e)
		}
	})
	t.Run("preview", func(t *testing.T) {
		b, m, user := setup(t)
		n, leaf := b.log.Changes(), b.log.Leaf()
		preview := b.navigate(m, user, &NavigateOptions{Preview: true})
		b.expectFiles(files{"a": "2", "b": "2"})
		if b.log.Changes() != n || b.log.Leaf() != leaf {
			t.Error("the preview moved the conversation")
		}
		real := b.navigate(m, user, nil)
		if d := cmp.Diff(preview.Restore.Items, real.Restore.Items); d != "" {
			t.Errorf("(-preview +real):\n%s", d)
		}
	})
	t.Run("dirty files cancel", func(t *testing.T) {
		b, m, user := setup(t)
		b.write("a", "user")
		leaf := b.log.Leaf()
		r := b.navigate(m, user, &NavigateOptions{OnDirty: rollback.Abort})
		b.expectFiles(files{"a": "user", "b": "2"})
		if !r.Cancelled || b.log.Leaf() != leaf {
			t.Errorf("%+v, leaf %s", r, b.log.Leaf())
		}
	})
	t.Run("by records", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		first := b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() { b.write("b", "1") })
		if _, err := m.NavigateTree(t.Context(), first, &NavigateOptions{SkipFiles: true}); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": "1", "b": "1"})
		b.turn(b.open("s"), func() { b.write("c", "1") })
		if d := cmp.Diff(map[string]string{"a": "added turn", "b": "added turn", "c": "added turn"},
			brief(b.modified(m, nil))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, err := m.NavigateTree(t.Context(), first, &NavigateOptions{Summarize: true, Summary: "x"}); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": "1"}) // what stayed when the conversation went back alone goes with it now
	})
}

// TestRollbackCases are the ten cases of the fork's document, with the outcome
// that pi's rule of the target gives.
func TestRollbackCases(t *testing.T) {
	t.Run("1 to the first message: the start of the session", func(t *testing.T) {
		b, m := newConversation(t)
		b.write("user", "x")
		b.initialize(m)
		u1, _ := b.say(m, func() { b.write("a", "1") })
		b.say(m, func() { b.write("b", "1") })
		r := b.navigate(m, u1, nil)
		b.expectFiles(files{"user": "x"})
		if r.NewLeafID != nil {
			t.Errorf("the leaf is %s", *r.NewLeafID)
		}
	})
	t.Run("2 messages only", func(t *testing.T) {
		b, m := newConversation(t)
		b.say(m, func() { b.write("a", "1") })
		_, a2 := b.say(m, func() { b.write("b", "1") })
		b.say(m, func() { b.write("a", "2") })
		b.navigate(m, a2, &NavigateOptions{SkipFiles: true, Summarize: true})
		b.expectFiles(files{"a": "2", "b": "1"})
		if e := b.last("branch_summary"); !e.SkipFiles {
			t.Errorf("summary %+v", e)
		}
	})
	compaction := func(b *bench) {
		b.log.Add(session.Entry{ID: newID(), ParentID: b.log.Leaf(), Type: "compaction"})
	}
	for _, skip := range []bool{true, false} {
		name := "4 and 10 after a compaction and foreign entries, with files"
		if skip {
			name = "3 and 6 after a compaction and foreign entries, messages only"
		}
		t.Run(name, func(t *testing.T) {
			b, m := newConversation(t)
			b.say(m, func() { b.write("a", "1") })
			u2, _ := b.say(m, func() { b.write("b", "1") })
			b.say(m, func() { b.write("c", "1") })
			for _, custom := range []string{"deletion", "segment_summary"} {
				b.log.Add(session.Entry{ID: newID(), ParentID: b.log.Leaf(), Type: "custom", CustomType: custom})
			}
			compaction(b)
			b.navigate(m, u2, &NavigateOptions{SkipFiles: skip})
			if skip {
				b.expectFiles(files{"a": "1", "b": "1", "c": "1"})
			} else {
				b.expectFiles(files{"a": "1"})
			}
		})
	}
	t.Run("5 foreign entries between: the end of turn 2", func(t *testing.T) {
		b, m := newConversation(t)
		b.say(m, func() { b.write("a", "1") })
		b.say(m, func() { b.write("b", "1") })
		b.log.Add(session.Entry{ID: newID(), ParentID: b.log.Leaf(), Type: "custom", CustomType: "segment_summary"})
		u3, _ := b.say(m, func() { b.write("c", "1") })
		b.say(m, func() { b.write("d", "1") })
		b.navigate(m, u3, nil)
		b.expectFiles(files{"a": "1", "b": "1"})
	})
	t.Run("7 forks are isolated, and a fork of a fork", func(t *testing.T) {
		b, m := newConversation(t)
		u1, _ := b.say(m, func() { b.write("a", "1") })
		b.say(m, func() { b.write("a", "2") })
		original := b.log
		fork := func(id string) *FileSnapshotManager {
			path, err := b.log.Path(b.log.Leaf())
			if err != nil {
				t.Fatal(err)
			}
			b.log = session.NewTree()
			for _, e := range path {
				b.log.Add(*e)
			}
			before := b.files()
			f := b.reopen(id)
			b.initialize(f)
			b.expectFiles(before) // the act alone changes nothing
			return f
		}
		f := fork("f")
		ub, _ := b.say(f, func() { b.write("b", "1") })
		firstFork := b.log
		g := fork("g")
		b.say(g, func() { b.write("c", "1") })
		b.navigate(g, ub, nil) // what the first fork did, seen from the second
		b.expectFiles(files{"a": "2"})
		if _, err := g.Undo(t.Context(), &UndoOptions{Append: b.appendTo}); err != nil {
			t.Fatal(err)
		}
		b.log = firstFork
		b.navigate(f, ub, nil)
		b.expectFiles(files{"a": "2", "c": "1"}) // c is the other fork's
		b.log = original
		if got := len(b.modified(m, nil)); got != 1 {
			t.Errorf("the original has %d files", got)
		}
		b.navigate(m, u1, nil)
		b.expectFiles(files{"c": "1"})
	})
	t.Run("8 two compactions", func(t *testing.T) {
		b, m := newConversation(t)
		b.say(m, func() { b.write("a", "1") })
		u2, _ := b.say(m, func() { b.write("b", "1") })
		compaction(b)
		b.say(m, func() { b.write("c", "1") })
		compaction(b)
		b.say(m, func() { b.write("d", "1") })
		b.navigate(m, u2, nil)
		b.expectFiles(files{"a": "1"})
	})
	t.Run("9 rollback, go on, rollback again", func(t *testing.T) {
		b, m := newConversation(t)
		b.say(m, func() { b.write("a", "1") })
		u2, _ := b.say(m, func() { b.write("b", "1") })
		b.navigate(m, u2, &NavigateOptions{Summarize: true})
		summary := b.last("branch_summary").ID
		b.say(m, func() { b.write("c", "1") })
		b.navigate(m, summary, nil)
		b.expectFiles(files{"a": "1"})
		if _, ok := b.log.Entry(u2); !ok {
			t.Error("the branch that was left is gone")
		}
	})
}

// A turn that is ended for a restore is told to the runtime's log later, as any other.
func TestEndTurnLogged(t *testing.T) {
	b, m := newConversation(t)
	b.say(m, func() { b.write("a", "1") })
	user := b.message("user")
	b.start(m)
	b.message("assistant")
	b.write("a", "2")
	target := &RestoreOptions{Target: "@~1", EndTurn: true, Preview: true, Append: b.appendTo}
	for range 2 { // the second time there is nothing to divide
		if r, err := m.RestoreFiles(t.Context(), target); err != nil || len(r.Restored) != 1 {
			t.Fatalf("preview: %+v, %v", r, err)
		}
	}
	b.expectFiles(files{"a": "2"})
	target.Preview = false
	if _, err := m.RestoreFiles(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	b.expectFiles(files{"a": "1"})
	if turn, err := inside.Of(m).OpenTurn(); turn != nil || err != nil {
		t.Errorf("open turn %+v, %v", turn, err)
	}
	b.message("user")
	b.start(m)
	b.message("assistant")
	_, steps, err := m.EndTurn(t.Context())
	if err != nil || len(steps) != 1 || steps[0].TurnIndex != 1 {
		t.Errorf("steps %+v, %v, want that of turn 1", steps, err)
	}
	// A navigation ends the turn, too, and the conversation stood at its end.
	b.start(m)
	b.write("a", "3")
	r := b.navigate(m, user, &NavigateOptions{EndTurn: true})
	if b.expectFiles(files{"a": "1"}); r.Restore == nil || !slices.Contains(r.Restore.TurnsTakenBack, 3) {
		t.Errorf("%+v", r.Restore)
	}
}
