package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/manager"
)

// A runtime is one of tests: a chat, whose agent works in a worktree.
type runtime struct {
	testing.TB
	*DB
	db      *sql.DB
	name    *database
	dir     string // of the worktree
	stores  string
	backend *backend
	events  []string // the chats of which Restored was called

	chat, session, worktree string
}

type backend struct {
	err    error
	resets []string
}

func (b *backend) Reset(_ context.Context, chat string) (bool, error) {
	b.resets = append(b.resets, chat)
	return true, b.err
}

func (rt *runtime) restored(_ context.Context, _, chat string, _ *Result) {
	rt.events = append(rt.events, chat)
}

func newRuntime(t testing.TB, name *database) *runtime {
	t.Helper()
	rt := &runtime{TB: t, db: name.open(t), name: name, dir: t.TempDir(), stores: t.TempDir(), backend: new(backend),
		chat: newID(), session: newID(), worktree: newID()}
	rt.reopen(rt.db)
	rt.exec(`INSERT INTO chats (id, title) VALUES (?, 'a chat')`, rt.chat)
	rt.exec(`INSERT INTO worktrees (id, session_id, path) VALUES (?, ?, ?)`, rt.worktree, rt.session, rt.dir)
	rt.exec(`INSERT INTO agent_sessions (id, chat_id, agent, status) VALUES (?, ?, 'claude', 'idle')`, newID(), rt.chat)
	return rt
}

// reopen opens the checkpoints anew, as a process does that comes after.
func (rt *runtime) reopen(db *sql.DB) {
	rt.Helper()
	d, err := Open(rt.Context(), db, rt.name.dialect,
		&Options{Manager: rt.manager, Reset: rt.backend.Reset, Restored: rt.restored, Runtime: true,
			Logger: slog.New(slog.NewTextHandler(rt.Output(), nil))})
	if err != nil {
		rt.Fatal(err)
	}
	rt.DB = d
}

func (rt *runtime) manager(ctx context.Context, path, chat string) (*manager.FileSnapshotManager, func() error, error) {
	m, err := manager.Open(ctx, path, &manager.Options{StoreRoot: rt.stores, Session: chat})
	if err != nil {
		return nil, nil, err
	}
	return m, m.Close, nil
}

func (rt *runtime) exec(query string, args ...any) {
	rt.Helper()
	if _, err := rt.DB.exec(rt.Context(), rt.db, query, args...); err != nil {
		rt.Fatalf("%s: %v", query, err)
	}
}

// message adds a message with a part.
func (rt *runtime) message(role string) (id string) {
	rt.Helper()
	id = newID()
	rt.exec(`INSERT INTO messages (id, chat_id, role) VALUES (?, ?, ?)`, id, rt.chat, role)
	rt.exec(`INSERT INTO message_parts (id, message_id, type, content) VALUES (?, ?, 'text', ?)`, newID(), id, "what the "+role+" says")
	return id
}

// turn runs a turn: the user asks, the agent does.
func (rt *runtime) turn(agent func()) *Checkpoint {
	rt.Helper()
	rt.message("user")
	m, release, err := rt.manager(rt.Context(), rt.dir, rt.chat)
	if err != nil {
		rt.Fatal(err)
	}
	defer release()
	c, _, err := rt.BeforeTurn(rt.Context(), m, nil,
		&Anchor{ChatID: rt.chat, SessionID: rt.session, WorktreeID: rt.worktree, MessageID: rt.message("assistant")})
	if err != nil {
		rt.Fatal(err)
	}
	agent()
	if _, err := m.OnTurnEnd(rt.Context(), nil); err != nil {
		rt.Fatal(err)
	}
	return c
}

func (rt *runtime) write(name, content string) {
	rt.Helper()
	path := filepath.Join(rt.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		rt.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		rt.Fatal(err)
	}
}

func (rt *runtime) remove(name string) {
	rt.Helper()
	if err := os.Remove(filepath.Join(rt.dir, name)); err != nil {
		rt.Fatal(err)
	}
}

// threeTurns is a conversation: what each turn has to say is in the files.
func (rt *runtime) threeTurns() (list []*Checkpoint) {
	rt.Helper()
	rt.write("kept", "by nobody")
	rt.write("edited", "0")
	for i := range 3 {
		list = append(list, rt.turn(func() {
			rt.write("edited", fmt.Sprint(i+1))
			rt.write(fmt.Sprintf("new/%d", i+1), "made")
			if i == 1 {
				rt.remove("new/1")
			}
		}))
	}
	return list
}

// files returns what is in the worktree, a line each.
func (rt *runtime) files() (list []string) {
	rt.Helper()
	err := filepath.WalkDir(rt.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(rt.dir, path)
		list = append(list, fmt.Sprintf("file %s: %s", rel, b))
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
	return list
}

// rows returns what is in the tables that a restore changes, a line each.
func (rt *runtime) rows() (list []string) {
	rt.Helper()
	for _, table := range []string{"messages", "message_parts", "checkpoints"} {
		list = append(list, rt.table(table)...)
	}
	return list
}

// table returns what is in a table, a line for each row.
func (rt *runtime) table(table string) (list []string) {
	rt.Helper()
	rows, err := rt.db.Query(`SELECT * FROM ` + table)
	if err != nil {
		rt.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		rt.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			rt.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %v", table, values))
	}
	if err := rows.Err(); err != nil {
		rt.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func (rt *runtime) all() []string { rt.Helper(); return append(rt.rows(), rt.files()...) }

func (rt *runtime) expect(what string, want, got []string) {
	rt.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Errorf("%s: (-want +got)\n%s", what, diff)
	}
}

func (rt *runtime) count(query string, args ...any) (n int) {
	rt.Helper()
	if err := rt.DB.queryRow(rt.Context(), rt.db, query, args...).Scan(&n); err != nil {
		rt.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestRestoreAndUndo(t *testing.T) {
	onAll(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		before := rt.all()

		preview, err := rt.Restore(t.Context(), rt.session, list[1].ID, &RestoreOptions{Preview: true})
		if err != nil {
			t.Fatal(err)
		}
		if preview.MessagesDeleted != 3 || len(preview.Files.Restored) != 2 || len(preview.Files.Deleted) != 2 {
			t.Errorf("preview: %+v %+v", preview, preview.Files)
		}
		rt.expect("after a preview", before, rt.all())

		result, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if result.MessagesDeleted != 3 || !result.WorktreeReset || !result.BackendReset ||
			result.CheckpointID != list[1].ID {
			t.Errorf("result: %+v", result)
		}
		rt.expect("files", []string{"file edited: 1", "file kept: by nobody", "file new/1: made"}, rt.files())
		if m, p, c := rt.count(`SELECT count(*) FROM messages`), rt.count(`SELECT count(*) FROM message_parts`), rt.count(`SELECT count(*) FROM checkpoints`); m != 3 || p != 3 || c != 2 {
			t.Errorf("%d messages, %d parts and %d checkpoints are left, want 3, 3 and 2", m, p, c)
		}
		if n := rt.count(`SELECT count(*) FROM agent_sessions WHERE status = 'crashed'`); n != 1 {
			t.Errorf("the agent's session is not crashed")
		}
		if len(rt.events) != 1 || rt.events[0] != rt.chat || len(rt.backend.resets) != 1 {
			t.Errorf("events %v, resets %v", rt.events, rt.backend.resets)
		}

		undone, err := rt.Undo(t.Context(), rt.session, result.RestoreID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if undone.MessagesRestored != 3 || undone.MessagesDeleted != 0 || !undone.WorktreeReset ||
			undone.Undoes != result.RestoreID {
			t.Errorf("undo: %+v", undone)
		}
		rt.expect("after the undo", before, rt.all())
		for _, table := range append(partTables(&rt.schema), rt.schema.Messages, ownTable) {
			if n := rt.count(`SELECT count(*) FROM ` + archiveOf(table)); n != 0 {
				t.Errorf("%d rows are left in the archive of %s", n, table)
			}
		}
		if _, err := rt.Undo(t.Context(), rt.session, result.RestoreID, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("undo again: %v, want ErrNotFound", err)
		}
		// Once more, from another process.
		rt.reopen(name.open(t))
		if _, err := rt.Restore(t.Context(), rt.session, list[0].ID, nil); err != nil {
			t.Fatal(err)
		}
		rt.expect("files at the start", []string{"file edited: 0", "file kept: by nobody"}, rt.files())
	})
}
