package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// refuses fails unless a restore is refused with an error, and nothing changes.
func (rt *runtime) refuses(what, session, checkpoint string, want error) {
	rt.Helper()
	before := rt.all()
	if _, err := rt.Restore(rt.Context(), session, checkpoint, nil); !errors.Is(err, want) {
		rt.Errorf("%s: got %v, want %v", what, err, want)
	}
	rt.expect(what, before, rt.all())
}

func TestRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		c := list[1]
		rt.refuses("another session", newID(), c.ID, ErrNotFound)
		rt.refuses("no such checkpoint", rt.session, newID(), ErrNotFound)
		rt.refuses("an ID that is none", rt.session, "../x'; --", ErrNotFound)
		rt.refuses("a session that is none", "x", c.ID, ErrNotFound)

		rt.exec(`UPDATE agent_sessions SET status = 'running'`)
		rt.refuses("an agent that runs", rt.session, c.ID, ErrRunning)
		rt.exec(`UPDATE agent_sessions SET status = 'idle'`)

		m, release, err := rt.manager(t.Context(), rt.dir, newID())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		rt.refuses("a turn of another chat in the worktree", rt.session, c.ID, ErrRunning)
		release()

		rt.write("edited", "by the user")
		rt.refuses("a file that the user has edited", rt.session, c.ID, ErrDirty)
		_, err = rt.Restore(t.Context(), rt.session, c.ID, nil)
		if ferr, ok := errors.AsType[*FilesError](err); !ok || len(ferr.Files.Dirty) != 1 ||
			ferr.Files.Dirty[0] != "edited" {
			t.Errorf("dirty: %v", err)
		}
		preview, err := rt.Restore(t.Context(), rt.session, c.ID, &RestoreOptions{Preview: true})
		if err != nil || !preview.Files.Aborted || len(preview.Files.Dirty) != 1 || preview.MessagesDeleted != 3 {
			t.Errorf("preview: %+v, %v", preview, err)
		}
		if id, err := rt.LastRestore(t.Context(), rt.session, rt.chat); !errors.Is(err, ErrNotFound) {
			t.Errorf("last restore: %q, %v", id, err)
		}
		result, err := rt.Restore(t.Context(), rt.session, c.ID, &RestoreOptions{OnDirty: rollback.Skip})
		if err != nil || len(result.Files.Skipped) != 1 || result.MessagesDeleted != 3 {
			t.Errorf("with skip: %+v, %v", result, err)
		}
		if id, err := rt.LastRestore(t.Context(), rt.session, rt.chat); err != nil || id != result.RestoreID {
			t.Errorf("last restore: %q, %v, want %q", id, err, result.RestoreID)
		}
		rt.expect("with skip", []string{"file edited: by the user", "file kept: by nobody", "file new/1: made"},
			rt.files())

		first := list[0]
		moved := rt.dir + ".moved"
		if err := os.Rename(rt.dir, moved); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Restore(t.Context(), rt.session, first.ID, nil); !errors.Is(err, ErrNoWorktree) {
			t.Errorf("a directory that is gone: %v", err)
		}
		if err := os.Rename(moved, rt.dir); err != nil {
			t.Fatal(err)
		}
		rt.exec(`UPDATE checkpoints SET worktree_id = NULL`)
		rt.refuses("a worktree that is gone", rt.session, first.ID, ErrNoWorktree)
	})
}

// Asked to, a restore takes back what turns did to files that the user has edited, and its
// undo gives back every byte.
func TestRestoreMerges(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		rt.write("edited", "1\n2\n3\n")
		c := rt.turn(func() { rt.write("edited", "one\n2\n3\n") })
		rt.write("edited", "one\n2\nmine\n")
		rt.refuses("a file that the user has edited", rt.session, c.ID, ErrDirty)
		result, err := rt.Restore(t.Context(), rt.session, c.ID, &RestoreOptions{OnDirty: rollback.Merge})
		if err != nil || len(result.Files.Merged) != 1 {
			t.Fatalf("with merge: %+v, %v", result, err)
		}
		rt.expect("with merge", []string{"file edited: 1\n2\nmine\n"}, rt.files())
		if _, err := rt.Undo(t.Context(), rt.session, result.RestoreID, nil); err != nil {
			t.Fatal(err)
		}
		rt.expect("undone", []string{"file edited: one\n2\nmine\n"}, rt.files())
	})
}

func TestCreateRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		m, release, err := rt.manager(t.Context(), rt.dir, rt.chat)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		other, releaseOther, err := rt.manager(t.Context(), t.TempDir(), rt.chat)
		if err != nil {
			t.Fatal(err)
		}
		defer releaseOther()
		// A native turn, in the user's own directory.
		c, started, err := rt.BeforeTurn(t.Context(), m, nil,
			&Anchor{ChatID: rt.chat, SessionID: rt.session, MessageID: rt.message("assistant")})
		if c != nil || err != nil {
			t.Errorf("without a worktree: %v, %v", c, err)
		}
		good := Anchor{ChatID: rt.chat, SessionID: rt.session, WorktreeID: rt.worktree,
			MessageID: rt.message("assistant"), Tree: started.Tree}
		for _, test := range []struct {
			what   string
			m      *manager.FileSnapshotManager
			change func(a *Anchor)
			want   error
		}{
			{"no worktree", m, func(a *Anchor) { a.WorktreeID = "" }, ErrNoWorktree},
			{"no such worktree", m, func(a *Anchor) { a.WorktreeID = newID() }, ErrNoWorktree},
			{"a worktree that is no ID", m, func(a *Anchor) { a.WorktreeID = "x" }, ErrNoWorktree},
			{"no such message", m, func(a *Anchor) { a.MessageID = newID() }, ErrAnchor},
			{"a message of another chat", m, func(a *Anchor) {
				rt.exec(`INSERT INTO chats (id) VALUES (?)`, a.SessionID)
				a.MessageID = rt.messageOf(a.SessionID)
			}, ErrAnchor},
			{"no such tree", m, func(a *Anchor) { a.Tree[0]++ }, manager.ErrUnknown},
			{"another chat's manager", m, func(a *Anchor) { a.ChatID = newID() }, nil},
			{"a manager in another directory", other, func(a *Anchor) {}, nil},
		} {
			at := good
			test.change(&at)
			if _, err := rt.Create(t.Context(), test.m, &at); err == nil ||
				test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", test.what, err, test.want)
			}
		}
		if n := rt.count(`SELECT count(*) FROM checkpoints`); n != 0 {
			t.Errorf("%d checkpoints were made", n)
		}
		if _, err := rt.Create(t.Context(), m, &good); err != nil {
			t.Error(err)
		}
		// The database is gone: the turn goes on.
		rt.exec(`DELETE FROM checkpoints`)
		rt.db.Close()
		if c, result, err := rt.BeforeTurn(t.Context(), m, nil, &good); c != nil || result == nil || err != nil {
			t.Errorf("without a database: %v, %v, %v", c, result, err)
		}
	})
}

func (rt *runtime) messageOf(chat string) string {
	rt.Helper()
	id := newID()
	rt.exec(`INSERT INTO messages (id, chat_id, role) VALUES (?, ?, 'assistant')`, id, chat)
	return id
}

// TestClocks has messages of the same microsecond, and a clock that goes back.
func TestClocks(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		rt.exec(`UPDATE messages SET created_at = '2026-01-01T00:00:00.000001Z'`)
		rt.exec(`UPDATE messages SET created_at = '2020-01-01T00:00:00Z' WHERE id = ?`, list[2].MessageID)
		rt.exec(`UPDATE checkpoints SET created_at = '2026-01-01T00:00:00.000001Z'`)
		if r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err != nil || r.MessagesDeleted != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if n := rt.count(`SELECT count(*) FROM checkpoints`); n != 2 {
			t.Errorf("%d checkpoints are left, want 2", n)
		}
	})
}

// TestAnchorGone restores to a place whose message is not there any more: because
// it was deleted, and because a restore to the same place went before.
func TestAnchorGone(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		rt.exec(`DELETE FROM message_parts WHERE message_id = ?`, list[1].MessageID)
		rt.exec(`DELETE FROM messages WHERE id = ?`, list[1].MessageID)
		want := []string{"file edited: 1", "file kept: by nobody", "file new/1: made"}
		if r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err != nil || r.MessagesDeleted != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		rt.expect("files", want, rt.files())
		rt.turn(func() { rt.write("edited", "again") })
		if r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err != nil || r.MessagesDeleted != 2 {
			t.Errorf("the second time: %+v, %v", r, err)
		}
		rt.expect("files the second time", want, rt.files())
		// A checkpoint that does not say where it was.
		rt.exec(`UPDATE checkpoints SET anchor_order = NULL, message_id = NULL`)
		rt.refuses("no anchor", rt.session, list[1].ID, ErrAnchor)
	})
}

func TestFollowed(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		start := rt.all()
		restore := func(c *Checkpoint) string {
			t.Helper()
			r, err := rt.Restore(t.Context(), rt.session, c.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r.RestoreID
		}
		second := restore(list[2])
		between := rt.all()
		first := restore(list[0])
		undo := func(id string, want error) {
			t.Helper()
			if _, err := rt.Undo(t.Context(), rt.session, id, nil); !errors.Is(err, want) {
				t.Errorf("undo: got %v, want %v", err, want)
			}
		}
		undo(second, ErrFollowed)
		undo(first, nil)
		rt.expect("after the first undo", between, rt.all())
		if _, err := rt.Undo(t.Context(), newID(), second, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("undo from another session: %v", err)
		}
		undo(second, nil)
		rt.expect("after the second undo", start, rt.all())

		first = restore(list[0])
		id := rt.messageOf(rt.chat)
		undo(first, ErrFollowed)
		rt.exec(`DELETE FROM messages WHERE id = ?`, id)
		undo(first, nil)
		rt.expect("at last", start, rt.all())

		first = restore(list[0])
		m, release, err := rt.manager(t.Context(), rt.dir, rt.chat)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := m.Undo(t.Context(), nil); err != nil { // by the command, say
			t.Fatal(err)
		}
		undo(first, ErrFollowed)
	})
}

// TestMessageMeanwhile has a message that comes while the chat is restored.
func TestMessageMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		for _, undo := range []bool{false, true} {
			s.goTo(undo)
			var id string
			s.step = func(step string) error {
				if step == "rows" {
					id = s.message("user")
				}
				return nil
			}
			if err := s.run(s.DB, undo); !errors.Is(err, ErrChanged) {
				t.Errorf("undo %v: got %v, want ErrChanged", undo, err)
			}
			s.step = func(string) error { return nil }
			s.exec(`DELETE FROM message_parts WHERE message_id = ?`, id)
			s.exec(`DELETE FROM messages WHERE id = ?`, id)
			if s.isNew("a message meanwhile") != undo {
				t.Error("it was done")
			}
		}
	})
}

func TestAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		for range 5 {
			s.goTo(false)
			var group sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				group.Go(func() { errs[i] = s.run(s.DB, false) })
			}
			group.Wait()
			done := 0
			for _, err := range errs {
				if err == nil {
					done++
				} else if !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
			if done == 0 || !s.isNew("restores at once") {
				t.Errorf("%d were done: %v", done, errs)
			}
			s.goTo(true)
			for s.newestIsNoop() {
				s.restored = s.newestRestore()
				s.undo()
			}
		}
		// A turn does not begin in the middle of one.
		s.goTo(false)
		s.step = func(step string) error {
			if step != "rows" {
				return nil
			}
			m, release, err := s.manager(t.Context(), s.dir, s.chat)
			if err != nil {
				return err
			}
			defer release()
			if _, _, err := s.BeforeTurn(t.Context(), m, nil,
				&Anchor{ChatID: s.chat, SessionID: s.session, WorktreeID: s.worktree}); !errors.Is(err, ErrBusy) {
				t.Errorf("a turn in the middle of a restore: %v", err)
			}
			return nil
		}
		if err := s.run(s.DB, false); err != nil {
			t.Error(err)
		}
	})
}

// newestIsNoop reports whether the restore that was done last has changed no file.
func (s *seesaw) newestIsNoop() bool {
	return s.count(`SELECT count(*) FROM checkpoint_restores WHERE id = ? AND files`, s.newestRestore()) == 0
}

func TestList(t *testing.T) {
	onAll(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		var want []string
		for range 7 {
			want = append(want, rt.turn(func() {}).ID)
		}
		var got []string
		opts := &ListOptions{Limit: 3, ChatID: rt.chat}
		for pages := 1; ; pages++ {
			l, next, err := rt.List(t.Context(), rt.session, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range l {
				got = append(got, c.ID)
				if time.Since(c.CreatedAt).Abs() > time.Hour || len(c.CommitSHA) != 64 {
					t.Errorf("%+v", c)
				}
			}
			if opts.Cursor = next; opts.Cursor == "" {
				if pages != 3 {
					t.Errorf("%d pages", pages)
				}
				break
			}
		}
		rt.expect("list", want, got)
		for _, session := range []string{newID(), "none"} {
			if l, _, err := rt.List(t.Context(), session, nil); err != nil || len(l) != 0 {
				t.Errorf("session %s: %v, %v", session, l, err)
			}
		}
		if _, _, err := rt.List(t.Context(), rt.session, &ListOptions{Cursor: "x"}); err == nil {
			t.Error("a cursor that is none is taken")
		}
		if name.dialect == PostgreSQL { // SQLite does so where the runtime asks for it
			rt.exec(`DELETE FROM chats`)
			if n := rt.count(`SELECT count(*) FROM checkpoints`); n != 0 {
				t.Errorf("%d checkpoints are left of a chat that is gone", n)
			}
		}
	})
}

// TestOwnTables has a runtime whose tables have other names, no references, and
// columns of all kinds, and get one more.
func TestOwnTables(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := &runtime{TB: t, db: name.open(t), name: name, dir: t.TempDir(), stores: t.TempDir(),
			backend: new(backend), chat: "c1", session: "s1", worktree: "w1"}
		rt.DB = &DB{db: rt.db, dialect: name.dialect}
		kinds := `extra BYTEA, n NUMERIC, at TIMESTAMPTZ, j JSON, jb JSONB, list TEXT[], f DOUBLE PRECISION`
		order := "BIGINT GENERATED ALWAYS AS IDENTITY"
		if name.dialect == SQLite {
			kinds, order = `extra BLOB, n, at TEXT, j, jb, list, f REAL, g TEXT GENERATED ALWAYS AS (lower(id)) VIRTUAL`, "INTEGER PRIMARY KEY AUTOINCREMENT"
		}
		rt.exec(`CREATE TABLE lines (number ` + order + `, id TEXT UNIQUE, talk TEXT, ` + kinds + `)`)
		rt.exec(`CREATE TABLE pieces (line TEXT, body TEXT)`)
		rt.exec(`CREATE TABLE marks (message_id TEXT, mark TEXT)`)
		rt.exec(`CREATE TABLE places (id TEXT PRIMARY KEY, dir TEXT)`)
		opts := &Options{Manager: rt.manager, Schema: Schema{Chats: None, AgentSessions: None, IDType: "TEXT",
			Messages: "lines", MessageChat: "talk", MessageOrder: "number", Worktrees: "places", WorktreePath: "dir",
			Parts: []Part{{"pieces", "line"}, {Table: "marks"}}}}
		d, err := Open(t.Context(), rt.db, name.dialect, opts)
		if err != nil {
			t.Fatal(err)
		}
		rt.DB = d
		rt.exec(`INSERT INTO places (id, dir) VALUES (?, ?)`, rt.worktree, rt.dir)
		m, release, err := rt.manager(t.Context(), rt.dir, rt.chat)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		turn := func(id string) *Checkpoint {
			t.Helper()
			values := `'\x00ff80', 123456789012345678901234567890.10, '2026-11-22 10:00:00.123456+00', '{"b": 1,  "a": 1.0}', '{"b":1}', '{x,NULL}', 0.1`
			if name.dialect == SQLite {
				values = `x'00ff80', 9007199254740993, 1.0, '2', x'32', NULL, 1`
			}
			rt.exec(`INSERT INTO lines (id, talk, extra, n, at, j, jb, list, f) VALUES (?, ?, `+values+`)`, id, rt.chat)
			rt.exec(`INSERT INTO pieces VALUES (?, 'one'), (?, 'two')`, id, id)
			rt.exec(`INSERT INTO marks VALUES (?, 'star')`, id)
			c, _, err := rt.BeforeTurn(t.Context(), m, nil,
				&Anchor{ChatID: rt.chat, SessionID: rt.session, WorktreeID: rt.worktree, MessageID: id})
			if err != nil || c == nil {
				t.Fatal(c, err)
			}
			rt.write(id, "made")
			if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			return c
		}
		all := func() (list []string) {
			for _, table := range []string{"lines", "pieces", "marks", "checkpoints"} {
				list = append(list, rt.table(table)...)
			}
			return append(list, rt.files()...)
		}
		list := []*Checkpoint{turn("a"), turn("b"), turn("c")}
		for round := range 2 {
			before := all()
			r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.MessagesDeleted != int64(2+round) || r.BackendReset {
				t.Errorf("%+v", r)
			}
			if n := rt.count(`SELECT count(*) FROM pieces`) + rt.count(`SELECT count(*) FROM marks`); n != 3 {
				t.Errorf("%d parts are left, want 3", n)
			}
			if _, err := rt.Undo(t.Context(), rt.session, r.RestoreID, nil); err != nil {
				t.Fatal(err)
			}
			rt.expect(fmt.Sprintf("after undo %d", round), before, all())
			if round == 0 { // the runtime goes on, and changes its table
				turn("d")
				rt.exec(`ALTER TABLE lines ADD COLUMN another TEXT`)
				rt.exec(`UPDATE lines SET another = id`)
				rt.exec(`ALTER TABLE lines DROP COLUMN list`)
				rt.db = name.open(t) // that knows nothing of the table as it was
			}
		}
		// A reference that nobody has named.
		ref := `CREATE TABLE likes (line TEXT REFERENCES lines(id) ON DELETE CASCADE)`
		rt.exec(ref)
		if _, err := Open(t.Context(), rt.db, name.dialect, opts); err == nil ||
			!strings.Contains(err.Error(), "likes") {
			t.Errorf("a table that would lose rows: %v", err)
		}
	})
}

// TestWithoutCascade has parts that nothing deletes with their message.
func TestWithoutCascade(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		db := name.open(t)
		if _, err := db.Exec(`CREATE TABLE message_parts (id TEXT, message_id TEXT, type TEXT, content TEXT)`); err != nil {
			t.Fatal(err)
		}
		if name.dialect == PostgreSQL {
			if _, err := db.Exec(`ALTER TABLE message_parts ALTER message_id TYPE UUID USING NULL`); err != nil {
				t.Fatal(err)
			}
		}
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		before := rt.all()
		r, err := rt.Restore(t.Context(), rt.session, list[0].ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := rt.count(`SELECT count(*) FROM message_parts`); n != 1 {
			t.Errorf("%d parts are left, want 1", n)
		}
		if _, err := rt.Undo(t.Context(), rt.session, r.RestoreID, nil); err != nil {
			t.Fatal(err)
		}
		rt.expect("after the undo", before, rt.all())
	})
}

// TestSeedSchema migrates a database that has the tables of before, with data.
func TestSeedSchema(t *testing.T) {
	name := newPostgreSQL(t)
	db := name.open(t)
	for _, st := range []string{
		`CREATE TABLE chats (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), title TEXT)`,
		`CREATE TABLE worktrees (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), session_id UUID, path TEXT NOT NULL)`,
		`CREATE TABLE messages (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), chat_id UUID NOT NULL REFERENCES chats(id), role TEXT, created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())`,
		`CREATE TABLE checkpoints (
			id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
			chat_id UUID NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
			session_id UUID,
			worktree_id UUID REFERENCES worktrees(id) ON DELETE SET NULL,
			message_id UUID,
			commit_sha TEXT NOT NULL,
			label TEXT,
			created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())`,
		`INSERT INTO chats VALUES ('11111111-1111-1111-1111-111111111111')`,
		`INSERT INTO messages (chat_id, role, created_at) SELECT '11111111-1111-1111-1111-111111111111', 'm' || n, '2026-01-02'::timestamptz - n * interval '1 hour' FROM generate_series(1, 5) n`,
		`INSERT INTO checkpoints (chat_id, message_id, commit_sha) SELECT chat_id, id, 'abc' FROM messages`,
	} {
		if _, err := db.Exec(st); err != nil {
			t.Fatalf("%s: %v", st, err)
		}
	}
	for range 2 { // the second time there is nothing to do
		rt := newRuntime(t, name)
		var roles string
		if err := rt.db.QueryRow(`SELECT string_agg(role, ' ' ORDER BY seq) FROM messages WHERE role LIKE 'm_'`).Scan(&roles); err != nil || roles != "m5 m4 m3 m2 m1" {
			t.Errorf("order: %q, %v", roles, err)
		}
		list := rt.threeTurns()
		if r, err := rt.Restore(t.Context(), rt.session, list[0].ID, nil); err != nil || r.MessagesDeleted != 5 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestOpenRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		db := name.open(t)
		nothing := func(context.Context, string, string) (*manager.FileSnapshotManager, func() error, error) {
			return nil, nil, errors.New("not asked")
		}
		for what, opts := range map[string]*Options{
			"no manager":          {Runtime: true},
			"no tables":           {Manager: nothing},
			"a name that is none": {Manager: nothing, Runtime: true, Schema: Schema{Messages: `messages"; DROP TABLE x; --`}},
			"a type that is none": {Manager: nothing, Runtime: true, Schema: Schema{IDType: "TEXT; DROP TABLE x"}},
		} {
			if _, err := Open(t.Context(), db, name.dialect, opts); err == nil {
				t.Errorf("%s: no error", what)
			}
		}
		if _, err := Open(t.Context(), db, "mysql", &Options{Manager: nothing}); err == nil {
			t.Error("another dialect: no error")
		}
	})
}

// undecided is a step function: the rows are not moved, and nobody can settle it.
func undecided(step string) error {
	if step == "rows" || step == "settle" {
		return errInjected
	}
	return nil
}

// TestEditedAfterCrash has a user who edits a file after a crash: it is kept.
func TestEditedAfterCrash(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		s.step = undecided
		if err := s.run(s.DB, false); !errors.Is(err, ErrUndecided) {
			t.Fatal(err)
		}
		m, release, err := s.manager(t.Context(), s.dir, s.chat)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, _, err := s.BeforeTurn(t.Context(), m, nil,
			&Anchor{ChatID: s.chat, SessionID: s.session, WorktreeID: s.worktree}); !errors.Is(err, ErrUndecided) {
			t.Errorf("a turn on files that may be of either state: %v", err)
		}
		s.step = func(string) error { return nil }
		s.write("edited", "by the user")
		if err := os.WriteFile(filepath.Join(s.dir, "mine"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := s.Recover(t.Context())
		if err != nil || len(list) != 1 || list[0].Done {
			t.Errorf("%+v, %v", list, err)
		}
		s.expect("files", []string{"file edited: by the user", "file kept: by nobody", "file mine: ",
			"file new/2: made", "file new/3: made"}, s.files())
	})
}

func TestForget(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		s.goTo(true)
		kept := func() int { return s.count(`SELECT count(*) FROM ` + archiveOf("messages")) }
		if n, err := s.Forget(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil || kept() != 3 {
			t.Errorf("of an hour ago: %d, %v, %d messages in the archive", n, err, kept())
		}
		if n, err := s.Forget(t.Context(), time.Now().Add(time.Hour)); n != 3 || err != nil || kept() != 0 {
			t.Errorf("of now: %d, %v, %d messages in the archive", n, err, kept())
		}
		if err := s.run(s.DB, true); !errors.Is(err, ErrNotFound) {
			t.Errorf("undo of what is forgotten: %v", err)
		}
		s.turn(func() {})
		s.goneChat()
	})
}

// goneChat has a chat that is deleted after a restore.
func (s *seesaw) goneChat() {
	s.Helper()
	if _, err := s.Restore(s.Context(), s.session, s.checkpoint, nil); err != nil {
		s.Fatal(err)
	}
	for _, st := range []string{`DELETE FROM message_parts`, `DELETE FROM messages`, `DELETE FROM checkpoints`, `DELETE FROM agent_sessions`, `DELETE FROM chats`} {
		s.exec(st)
	}
	n, err := s.Forget(s.Context(), time.Time{})
	if left := s.count(`SELECT count(*) FROM ` + archiveOf("messages")); n != 1 || err != nil || left != 0 {
		s.Errorf("of a chat that is gone: %d, %v, %d messages in the archive", n, err, left)
	}
}

// TestLaterParent has a message that would take an earlier one along.
func TestLaterParent(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		before := rt.all()
		kind := map[Dialect]string{SQLite: "TEXT", PostgreSQL: "UUID"}[name.dialect]
		rt.exec(`ALTER TABLE messages ADD COLUMN parent ` + kind + ` REFERENCES messages(id) ON DELETE CASCADE`)
		rt.exec(`UPDATE messages SET parent = ? WHERE id = ?`, list[2].MessageID, list[0].MessageID)
		if name.dialect == SQLite {
			rt.exec(`PRAGMA foreign_keys = ON`) // for the connection that comes next
			rt.db.SetMaxOpenConns(1)
		}
		if _, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err == nil ||
			!strings.Contains(err.Error(), "that stay refer to") {
			t.Errorf("a message before the checkpoint goes: %v", err)
		}
		if files := rt.files(); len(files) != 4 {
			t.Errorf("files: %v, before %v", files, before)
		}
	})
}
