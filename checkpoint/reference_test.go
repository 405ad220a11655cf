package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/places"
)

// words gives SQL for both databases the types of each.
func (rt *runtime) words(sql string) string {
	id := map[Dialect]string{SQLite: "TEXT", PostgreSQL: "UUID"}[rt.name.dialect]
	return strings.ReplaceAll(sql, "$id", id)
}

// withReferences has SQLite keep references.
func withReferences(name *database) *database {
	if name.dialect == SQLite {
		name.dsn += "&_pragma=foreign_keys(1)"
	}
	return name
}

func (rt *runtime) openWith(s Schema) error {
	rt.Helper()
	d, err := Open(rt.Context(), rt.db, rt.name.dialect,
		&Options{Manager: rt.manager, Reset: rt.backend.Reset, Runtime: true, Schema: s})
	if err == nil {
		rt.DB = d
	}
	return err
}

// TestTablesRefused has tables whose rows no undo would bring back.
func TestTablesRefused(t *testing.T) {
	for _, test := range []struct {
		what    string
		dialect Dialect // "": both
		sql     []string
		schema  Schema
		want    string
	}{
		{"rows that go with a message", "", []string{`CREATE TABLE likes (m $id REFERENCES messages(id) ON DELETE CASCADE)`}, Schema{}, "likes"},
		{"rows that change with a part", "", []string{`CREATE TABLE likes (p $id REFERENCES message_parts(id) ON DELETE SET NULL)`}, Schema{}, "likes"},
		{"rows that go with a checkpoint", "", []string{`CREATE TABLE notes (c $id REFERENCES checkpoints(id) ON DELETE CASCADE)`}, Schema{}, "notes"},
		{"a circle", "", []string{`ALTER TABLE messages ADD COLUMN last $id REFERENCES message_parts(id)`}, Schema{}, "circle"},
		{"a column that archives need", "", []string{`ALTER TABLE messages ADD COLUMN checkpoint_restore_id TEXT`}, Schema{}, "archives"},
		{"one table twice", "", nil, Schema{Parts: []Part{{Table: "messages"}}}, "twice"},
		{"a view", "", []string{`CREATE VIEW live AS SELECT * FROM messages`}, Schema{Messages: "live"}, "no table"},
		{"a namesake", PostgreSQL, []string{`CREATE SCHEMA audit`, `CREATE TABLE audit.message_parts (m UUID REFERENCES messages(id) ON DELETE CASCADE)`}, Schema{}, "audit.message_parts"},
		{"heirs", PostgreSQL, []string{`CREATE TABLE tools (tool TEXT) INHERITS (message_parts)`}, Schema{}, "inherit"},
		{"a trigger", SQLite, []string{`CREATE TRIGGER gone AFTER DELETE ON messages BEGIN DELETE FROM chats; END`}, Schema{}, "gone"},
		{"a trigger", PostgreSQL, []string{`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
			`CREATE TRIGGER made AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION f()`}, Schema{}, "made"},
		{"a trigger that is named", SQLite, []string{`CREATE TRIGGER gone AFTER DELETE ON messages BEGIN DELETE FROM chats WHERE 0; END`}, Schema{Triggers: []string{"gone"}}, ""},
		{"a trigger for something else", SQLite, []string{`CREATE TRIGGER touched AFTER UPDATE ON messages BEGIN DELETE FROM chats WHERE 0; END`}, Schema{}, ""},
		{"a reference without action", "", []string{`CREATE TABLE likes (m $id REFERENCES messages(id))`}, Schema{}, ""},
		{"numbers that come again", SQLite, []string{`CREATE TABLE lines (seq INTEGER PRIMARY KEY, id TEXT, chat_id TEXT)`}, Schema{Messages: "lines", Parts: []Part{}}, "AUTOINCREMENT"},
		{"partitions", PostgreSQL, []string{`CREATE TABLE pp (m UUID REFERENCES messages(id) ON DELETE CASCADE) PARTITION BY HASH (m)`,
			`CREATE TABLE pp1 PARTITION OF pp FOR VALUES WITH (MODULUS 1, REMAINDER 0)`}, Schema{Parts: []Part{{Table: "message_parts"}, {"pp", "m"}}}, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, name *database) {
				if test.dialect != "" && test.dialect != name.dialect {
					return
				}
				rt := newRuntime(t, name)
				for _, st := range test.sql {
					rt.exec(rt.words(st))
				}
				err := rt.openWith(test.schema)
				if test.want == "" && err != nil ||
					test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%v, want an error with %q", err, test.want)
				}
			})
		})
	}
}

// TestStaying has rows that stay, and would change with those that go.
func TestStaying(t *testing.T) {
	for what, st := range map[string][]string{
		"an earlier message": {`ALTER TABLE messages ADD COLUMN up $id REFERENCES messages(id) ON DELETE CASCADE`,
			`UPDATE messages SET up = '$third' WHERE id = '$first'`},
		"a message that forgets": {`ALTER TABLE messages ADD COLUMN next $id REFERENCES messages(id) ON DELETE SET NULL`,
			`UPDATE messages SET next = '$third' WHERE id = '$first'`},
		"a message of another chat": {`ALTER TABLE messages ADD COLUMN up $id REFERENCES messages(id) ON DELETE CASCADE`,
			`INSERT INTO chats (id) VALUES ('$first')`, `INSERT INTO messages (id, chat_id, role, up) VALUES ('$first', '$first', 'user', '$third')`},
		"a part that cites": {`ALTER TABLE message_parts ADD COLUMN cited $id REFERENCES messages(id) ON DELETE CASCADE`,
			`UPDATE message_parts SET cited = '$third' WHERE message_id = '$first'`},
	} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, name *database) {
				rt := newRuntime(t, withReferences(name))
				list := rt.threeTurns()
				rt.exec(rt.words(st[0]))
				first := list[0].MessageID
				if len(st) > 2 {
					first = newID()
				}
				for _, s := range st[1:] {
					rt.exec(strings.NewReplacer("$first", first, "$third", list[2].MessageID).Replace(s))
				}
				rt.db = name.open(t)
				rt.reopen(rt.db)
				before := rt.all()
				if _, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err == nil ||
					!strings.Contains(err.Error(), "that stay refer to") {
					t.Errorf("%v", err)
				}
				rt.expect("nothing is done", before, rt.all())
			})
		})
	}
}

// TestNestedParts has rows that go with rows that go, named in either order.
func TestNestedParts(t *testing.T) {
	for _, parts := range [][]Part{{{Table: "message_parts"}, {Table: "blobs"}},
		{{Table: "blobs"}, {Table: "message_parts"}}} {
		onBoth(t, func(t *testing.T, name *database) {
			rt := newRuntime(t, withReferences(name))
			rt.exec(rt.words(`CREATE TABLE blobs (part_id $id REFERENCES message_parts(id) ON DELETE CASCADE, message_id $id REFERENCES messages(id) ON DELETE CASCADE)`))
			if err := rt.openWith(Schema{Parts: parts}); err != nil {
				t.Fatal(err)
			}
			list := rt.threeTurns()
			rt.exec(`INSERT INTO blobs SELECT id, message_id FROM message_parts`)
			before := append(rt.table("blobs"), rt.all()...)
			r, err := rt.Restore(t.Context(), rt.session, list[0].ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(rt.table("blobs")); n != 1 {
				t.Errorf("%d blobs are left, want 1", n)
			}
			if _, err := rt.Undo(t.Context(), rt.session, r.RestoreID, nil); err != nil {
				t.Fatal(err)
			}
			rt.expect("after the undo", before, append(rt.table("blobs"), rt.all()...))
		})
	}
}

// TestTablesChange has a runtime that changes its tables between a restore and
// its undo, and deletes a worktree.
func TestTablesChange(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, withReferences(name))
		list := rt.threeTurns()
		other := *rt
		other.worktree, other.dir = newID(), t.TempDir()
		rt.exec(`INSERT INTO worktrees (id, session_id, path) VALUES (?, ?, ?)`, other.worktree, other.session, other.dir)
		other.turn(func() { other.write("x", "y") })
		if name.dialect == PostgreSQL {
			rt.exec(`ALTER TABLE message_parts ADD COLUMN cost NUMERIC(10,2), ADD COLUMN v VARCHAR(4)`)
		}
		restore := func() string {
			t.Helper()
			r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r.RestoreID
		}
		undo := func(id string) {
			t.Helper()
			if _, err := rt.Undo(t.Context(), rt.session, id, nil); err != nil {
				t.Fatal(err)
			}
		}
		id := restore()
		rt.exec(`ALTER TABLE messages ADD COLUMN pinned INTEGER NOT NULL DEFAULT 7`)
		rt.exec(`DELETE FROM worktrees WHERE id = ?`, other.worktree)
		undo(id)
		if n := rt.count(`SELECT count(*) FROM messages WHERE pinned = 7`); n != 8 {
			t.Errorf("%d messages with the default, want 8", n)
		}
		if n := rt.count(`SELECT count(*) FROM checkpoints WHERE worktree_id IS NULL`); n != 1 {
			t.Errorf("%d checkpoints without a worktree, want 1", n)
		}
		if name.dialect == PostgreSQL {
			rt.exec(`ALTER TABLE message_parts ALTER cost TYPE NUMERIC(20,6), ALTER v TYPE TEXT`)
			rt.exec(`UPDATE message_parts SET cost = 0.001234, v = 'much longer'`)
		}
		rt.db = name.open(t)
		rt.reopen(rt.db)
		before := rt.all()
		undo(restore())
		rt.expect("after the second undo", before, rt.all())
	})
}

// TestLongNames has tables whose names differ where PostgreSQL does not look.
func TestLongNames(t *testing.T) {
	a, b := strings.Repeat("a", 50)+"_texts", strings.Repeat("a", 44)
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		for _, table := range []string{a, b} {
			rt.exec(rt.words(`CREATE TABLE ` + table + ` (message_id $id REFERENCES messages(id) ON DELETE CASCADE, body TEXT)`))
		}
		if err := rt.openWith(Schema{Parts: []Part{{Table: "message_parts"}, {Table: a}, {Table: b}}}); err != nil {
			t.Fatal(err)
		}
		list := rt.threeTurns()
		rt.exec(`INSERT INTO `+a+` VALUES (?, 'text')`, list[2].MessageID)
		rt.exec(`INSERT INTO `+b+` VALUES (?, 'file')`, list[2].MessageID)
		before := append(rt.table(a), rt.table(b)...)
		r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil)
		if err == nil {
			_, err = rt.Undo(t.Context(), rt.session, r.RestoreID, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		rt.expect("after the undo", before, append(rt.table(a), rt.table(b)...))
	})
}

// TestOpenTransaction has a message that another transaction has inserted, and
// commits only when the restore waits.
func TestOpenTransaction(t *testing.T) {
	s := newSeesaw(t, newPostgreSQL(t))
	for _, undo := range []bool{false, true} {
		s.goTo(undo)
		tx, err := s.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		id := newID()
		s.step = func(step string) error {
			if step == "rows" {
				if _, err := tx.Exec(`INSERT INTO messages (id, chat_id, role) VALUES ($1, $2, 'user')`, id, s.chat); err != nil {
					t.Error(err)
				}
				time.AfterFunc(700*time.Millisecond, func() { tx.Commit() })
			}
			return nil
		}
		if err := s.run(s.DB, undo); !errors.Is(err, ErrChanged) {
			t.Errorf("undo %v: %v, want ErrChanged", undo, err)
		}
		s.step = func(string) error { return nil }
		s.exec(`DELETE FROM messages WHERE id = ?`, id)
	}
}

// TestFirstAtOnce has the first restores of a database at once: both make archives.
func TestFirstAtOnce(t *testing.T) {
	for range 3 {
		name := newPostgreSQL(t)
		a, b := newRuntime(t, name), newRuntime(t, name)
		ca, cb := a.threeTurns(), b.threeTurns()
		errs := make(chan error)
		go func() { _, err := a.Restore(t.Context(), a.session, ca[1].ID, nil); errs <- err }()
		go func() { _, err := b.Restore(t.Context(), b.session, cb[1].ID, nil); errs <- err }()
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Error(err)
		}
	}
}

// TestCancelled cancels transactions at any moment: none stays open on the
// connection that the runtime uses next.
func TestCancelled(t *testing.T) {
	onAll(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		rt.db.SetMaxOpenConns(1)
		other := name.open(t)
		end := time.Now().Add(2 * time.Second)
		for i := 0; time.Now().Before(end); i++ {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for range i % 300 * 30 {
					ctx.Err()
				}
				cancel()
			}()
			rt.tx(ctx, rt.reading(), func(querier) error { return nil })
			cancel()
			if i%20 > 0 {
				continue
			}
			id := newID()
			rt.exec(`INSERT INTO messages (id, chat_id, role) VALUES (?, ?, 'user')`, id, rt.chat)
			n := 0
			if err := rt.DB.queryRow(t.Context(), other, `SELECT count(*) FROM messages WHERE id = ?`, id).Scan(&n); err != nil || n != 1 {
				t.Fatalf("round %d: what was inserted is not there: %d, %v", i, n, err)
			}
		}
	})
}

func TestBackendPanics(t *testing.T) {
	s := newSeesaw(t, newSQLite(t))
	d, err := Open(t.Context(), s.db, SQLite, &Options{Manager: s.manager,
		Reset: func(context.Context, string) (bool, error) { panic("no") }})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is swallowed")
			}
		}()
		s.run(d, false)
	}()
	if s.isNew("after the panic") {
		t.Error("the new state holds")
	}
	s.goTo(true)
}

// TestMoved moves a worktree after a crash: nobody says that it is settled.
func TestMoved(t *testing.T) {
	s := newSeesaw(t, newSQLite(t))
	s.step = undecided
	if err := s.run(s.DB, false); !errors.Is(err, ErrUndecided) {
		t.Fatal(err)
	}
	s.step = func(string) error { return nil }
	was := s.dir
	s.dir += ".moved"
	if err := os.Rename(was, s.dir); err != nil {
		t.Fatal(err)
	}
	s.exec(`UPDATE worktrees SET path = ?`, s.dir)
	if list, err := s.Recover(t.Context()); err == nil || len(list) > 0 {
		t.Errorf("recovered %+v, %v", list, err)
	}
	if err := os.Rename(s.dir, was); err != nil {
		t.Fatal(err)
	}
	s.dir = was
	s.exec(`UPDATE worktrees SET path = ?`, was)
	s.settled("moved back", false, nil, true)

	// Somebody restores by hand before it is settled.
	s.step = undecided
	if err := s.run(s.DB, false); !errors.Is(err, ErrUndecided) {
		t.Fatal(err)
	}
	s.step = func(string) error { return nil }
	m, release, err := s.manager(t.Context(), s.dir, s.chat)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := m.Undo(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Recover(t.Context()); err != nil || len(list) != 1 || list[0].Done || !list[0].FilesStay {
		t.Errorf("recovered %+v, %v, want files that stay", list, err)
	}
}

// TestStayingWithoutMessage has a part that belongs to no message, and would go.
func TestStayingWithoutMessage(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, withReferences(name))
		rt.exec(rt.words(`CREATE TABLE notes (message_id $id REFERENCES messages(id), up $id REFERENCES messages(id) ON DELETE CASCADE)`))
		if err := rt.openWith(Schema{Parts: []Part{{Table: "message_parts"}, {Table: "notes"}}}); err != nil {
			t.Fatal(err)
		}
		list := rt.threeTurns()
		rt.exec(`INSERT INTO notes VALUES (NULL, ?)`, list[2].MessageID)
		if _, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil); err == nil ||
			!strings.Contains(err.Error(), "that stay refer to") {
			t.Errorf("%v", err)
		}
	})
}

// TestRenamedColumn has a column that gets another name between a restore and its undo.
func TestRenamedColumn(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		rt := newRuntime(t, name)
		list := rt.threeTurns()
		r, err := rt.Restore(t.Context(), rt.session, list[1].ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		rt.exec(`ALTER TABLE messages RENAME COLUMN role TO speaker`)
		if _, err := rt.Undo(t.Context(), rt.session, r.RestoreID, nil); err == nil {
			t.Error("the column's content is dropped without a word")
		}
		rt.exec(`ALTER TABLE messages RENAME COLUMN speaker TO role`)
		if _, err := rt.Undo(t.Context(), rt.session, r.RestoreID, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutAgents makes no table for what a runtime does not have.
func TestWithoutAgents(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		d, err := Open(t.Context(), name.open(t), name.dialect,
			&Options{Runtime: true, Manager: (&runtime{}).manager, Schema: Schema{Chats: None, AgentSessions: None}})
		if err != nil {
			t.Fatal(err)
		}
		if columns, err := d.columns(t.Context(), d.db, None); err != nil || len(columns) > 0 {
			t.Errorf("table -: %v, %v", columns, err)
		}
	})
}

// TestAdopted moves a worktree after a crash, and has its history go on there: what
// was cut off is settled there, and the runtime's row follows with the next turn.
func TestAdopted(t *testing.T) {
	for _, knows := range []bool{true, false} { // whether the runtime has noted the new path
		t.Run(fmt.Sprint("knows=", knows), func(t *testing.T) {
			s := newSeesaw(t, newSQLite(t))
			s.step = undecided
			if err := s.run(s.DB, false); !errors.Is(err, ErrUndecided) {
				t.Fatal(err)
			}
			s.step = func(string) error { return nil }
			was := s.dir
			s.dir += ".moved"
			if err := os.Rename(was, s.dir); err != nil {
				t.Fatal(err)
			}
			opts := &places.AdoptOptions{StoreRoot: s.stores, From: was}
			mv, err := places.PlanAdopt(t.Context(), s.dir, opts)
			if err == nil {
				err = places.Adopt(t.Context(), mv, opts)
			}
			if err != nil {
				t.Fatal(err)
			}
			if knows {
				s.exec(`UPDATE worktrees SET path = ?`, s.dir)
				s.settled("adopted", false, nil, true)
			} else if list, err := s.Recover(t.Context()); err == nil || len(list) > 0 {
				t.Errorf("recovered %+v, %v, where nobody knows where", list, err)
			}
			c := s.turn(func() { s.write("edited", "there") })
			if c == nil {
				t.Fatal("no checkpoint of a turn that has changed a file")
			}
			if s.count(`SELECT count(*) FROM worktrees WHERE path = ?`, s.dir) != 1 {
				t.Errorf("the worktree is at %q", s.table("worktrees"))
			}
			if list, err := s.Recover(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("left to recover: %+v, %v", list, err)
			}
			if _, err := s.Restore(t.Context(), s.session, c.ID, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWorktreeGone has a worktree that is deleted, row and directory, after a crash:
// there is nothing to take back.
func TestWorktreeGone(t *testing.T) {
	s := newSeesaw(t, newSQLite(t))
	s.step = undecided
	err := s.run(s.DB, false)
	uerr, ok := errors.AsType[*UndecidedError](err)
	if !ok {
		t.Fatal(err)
	}
	if _, err := s.Outcome(t.Context(), s.session, uerr.RestoreID); !errors.Is(err, ErrUndecided) {
		t.Errorf("outcome while it cannot be settled: %v", err)
	}
	s.step = func(string) error { return nil }
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.exec(`DELETE FROM worktrees`)
	if list, err := s.Recover(t.Context()); err != nil || len(list) != 1 || list[0].Done {
		t.Errorf("recovered %+v, %v", list, err)
	}
}
