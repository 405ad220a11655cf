package checkpoint

import (
	"fmt"
	"testing"

	"github.com/boocode/filestore/manager"
)

// BenchmarkTurn has what a checkpoint adds to the start of a turn, and
// BenchmarkRestore a restore of 100 messages and its undo, with one file.
func BenchmarkTurn(b *testing.B) {
	benchOnBoth(b, func(b *testing.B, rt *runtime) {
		m, release, err := rt.manager(b.Context(), rt.dir, rt.chat)
		if err != nil {
			b.Fatal(err)
		}
		defer release()
		id := rt.message("assistant")
		at := &Anchor{ChatID: rt.chat, SessionID: rt.session, WorktreeID: rt.worktree, MessageID: id}
		b.Run("checkpoint", func(b *testing.B) {
			for b.Loop() {
				if c, _, err := rt.BeforeTurn(b.Context(), m, nil, at); err != nil || c == nil {
					b.Fatal(c, err)
				}
				endTurn(b, m)
			}
		})
		b.Run("floor", func(b *testing.B) {
			for b.Loop() {
				if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				endTurn(b, m)
			}
		})
	})
}

func endTurn(b *testing.B, m *manager.FileSnapshotManager) {
	if _, err := m.OnTurnEnd(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRestore(b *testing.B) {
	benchOnBoth(b, func(b *testing.B, rt *runtime) {
		rt.write("edited", "before")
		c := rt.turn(func() { rt.write("edited", "after") })
		for range 99 {
			rt.message("user")
		}
		b.Run("and undo", func(b *testing.B) {
			for b.Loop() {
				r, err := rt.Restore(b.Context(), rt.session, c.ID, nil)
				if err == nil {
					_, err = rt.Undo(b.Context(), rt.session, r.RestoreID, nil)
				}
				if err != nil || r.MessagesDeleted != 100 {
					b.Fatal(r, err)
				}
			}
		})
		m, release, err := rt.manager(b.Context(), rt.dir, rt.chat)
		if err != nil {
			b.Fatal(err)
		}
		defer release()
		b.Run("floor: the files alone", func(b *testing.B) {
			for b.Loop() {
				_, err := m.RestoreFiles(b.Context(), &manager.RestoreOptions{Target: "start"})
				if err == nil {
					_, err = m.Undo(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func benchOnBoth(b *testing.B, fn func(b *testing.B, rt *runtime)) {
	for _, open := range []func(testing.TB) *database{newSQLite, newPostgreSQL} {
		name := open(b)
		b.Run(fmt.Sprint(name.dialect), func(b *testing.B) { fn(b, newRuntime(b, name)) })
	}
}
