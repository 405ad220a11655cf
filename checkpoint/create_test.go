package checkpoint

import (
	"errors"
	"os"
	"testing"
)

// TestCreateAlone: who has no manager makes a checkpoint of a turn that another has
// begun, and it is as one that BeforeTurn makes.
func TestCreateAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		rt.write("file", "before")
		m, release, err := rt.manager(t.Context(), rt.dir, rt.chat)
		if err != nil {
			t.Fatal(err)
		}
		start, err := m.OnTurnStart(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := &Anchor{ChatID: rt.chat, SessionID: rt.session, WorktreeID: rt.worktree,
			MessageID: rt.message("assistant"), Tree: start.Tree}
		c, err := rt.Create(t.Context(), nil, at)
		if err != nil {
			t.Fatal(err)
		}
		rt.write("file", "after")
		if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		release()
		if _, err := rt.Restore(t.Context(), rt.session, c.ID, nil); err != nil {
			t.Fatal(err)
		}
		rt.expect("files", []string{"file file: before"}, rt.files())

		refused := func(change func(at *Anchor), want error) {
			t.Helper()
			at := *at
			at.MessageID = rt.message("assistant")
			change(&at)
			if c, err := rt.Create(t.Context(), nil, &at); !errors.Is(err, want) {
				t.Errorf("Create(%+v) = %v, %v; want %v", at, c, err, want)
			}
		}
		refused(func(at *Anchor) { at.WorktreeID = "" }, ErrNoWorktree)
		refused(func(at *Anchor) { at.WorktreeID = newID() }, ErrNoWorktree)
		refused(func(at *Anchor) { at.WorktreeID = "no-uuid" }, ErrNoWorktree)
		refused(func(at *Anchor) { at.MessageID = newID() }, ErrAnchor)
		refused(func(at *Anchor) { at.MessageID = "no-uuid" }, ErrAnchor)
		if name.dialect == PostgreSQL {
			refused(func(at *Anchor) { at.SessionID = "no-uuid" }, ErrNotFound)
		}
		if err := os.RemoveAll(rt.dir); err != nil {
			t.Fatal(err)
		}
		refused(func(at *Anchor) {}, ErrNoWorktree)
	})
}
