package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A repair makes the turns again that the journal has lost, from the session's log:
// ours, or the runtime's. What they were can be restored, and the session goes on.
func TestRebuild(t *testing.T) {
	for _, name := range []string{"our log", "our log, behind a record that is mended", "another", "the runtime's"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			opts := &Options{StoreRoot: b.stores, Session: "s"}
			turn := func(m *FileSnapshotManager, fn func()) string { return b.turn(m, fn) }
			if name == "the runtime's" { // which records of the store name
				opts.SessionFile = filepath.Join(t.TempDir(), "log.jsonl")
				header := sessionlog.Header{ID: "of-the-runtime", CWD: b.dir}
				log, text := session.NewTree(), []byte(nil)
				turn = func(m *FileSnapshotManager, fn func()) string {
					b.start(m)
					fn()
					r, err := m.OnTurnEnd(t.Context(),
						func(ctx context.Context, data *StepSnapshotData) (string, error) {
							e := data.Entry(newID(), log.Leaf())
							log.Add(e)
							var err error
							if text, err = sessionlog.AppendLog(text, &header, e); err != nil {
								return "", err
							}
							return e.ID, os.WriteFile(opts.SessionFile, text, 0o600)
						})
					if err != nil {
						t.Fatal(err)
					}
					return r.EntryID
				}
			}
			open := func() *FileSnapshotManager {
				t.Helper()
				m, err := Open(t.Context(), b.dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				b.initialize(m)
				return m
			}
			m := open()
			segment := filepath.Join(m.StoreDir(), "journal", "00000001.log")
			var lengths []int64
			var entries []string
			for _, text := range []string{"one", "two", "three", "four"} {
				st, err := os.Stat(segment)
				if err != nil {
					t.Fatal(err)
				}
				lengths = append(lengths, st.Size())
				entries = append(entries, turn(m, func() { b.write("f", text); b.write("g "+text, text) }))
			}
			if name != "the runtime's" {
				if _, err := inside.Of(m).ExportLog(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(segment, lengths[2]); err != nil {
				t.Fatal(err)
			}
			lost := 2
			if strings.HasSuffix(name, "mended") {
				flipByte(t, segment, lengths[1]+40)
				lost = 3
			}
			var logs []string
			if name == "another" {
				logs = []string{filepath.Join(t.TempDir(), "log.jsonl")}
				if err := os.Rename(filepath.Join(m.StoreDir(), m.place().Sessions(), "s.jsonl"), logs[0]); err != nil {
					t.Fatal(err)
				}
			}
			s, err := cas.Open(t.Context(), m.StoreDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := s.PlanRepair(t.Context())
			if err == nil {
				err = history.Rebuild(t.Context(), s, plan, logs)
			}
			if err != nil || len(plan.Records) != lost {
				t.Fatalf("records %+v, %v", plan.Records, err)
			}
			if err := s.Repair(t.Context(), plan.OnlyJournal()); err != nil {
				t.Fatal(err)
			}
			if plan, err = s.PlanRepair(t.Context()); err != nil {
				t.Fatal(err)
			}
			mender := audit.NewMender(s, plan)
			mends, err := mender.Plan(t.Context())
			if err == nil {
				err = s.Repair(t.Context(), plan)
			}
			if err == nil {
				_, err = mender.Restore(t.Context(), mends)
			}
			if err := errors.Join(err, mender.Close()); err != nil {
				t.Fatal(err)
			}
			if damage, err := history.JournalDamage(t.Context(), s); err != nil || len(damage) > 0 {
				t.Errorf("JournalDamage = %v, %v", damage, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			m = open()
			defer m.Close()
			turn(m, func() { b.write("f", "five") })
			steps := 0
			for mo, err := range m.Timeline(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if mo.Kind == history.KindStep {
					if want := 4 - steps; mo.TurnIndex != want {
						t.Errorf("turn %d, want %d", mo.TurnIndex, want)
					}
					steps++
				}
			}
			if steps != 5 {
				t.Errorf("%d steps, want 5", steps)
			}
			for i, text := range []string{"one", "two", "three", "four"} {
				b.restore(m, &RestoreOptions{Target: entries[i], Exact: true})
				b.holds("f", text)
				b.holds("g "+text, text)
			}
		})
	}
}

// TestTurnsBeforeAMadeStart goes back from a turn to one of which a repair made a start, since what came
// before it is lost, in the log, too: that is no way to the start of the session.
func TestTurnsBeforeAMadeStart(t *testing.T) {
	b := newBench(t)
	open := func() *FileSnapshotManager {
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	b.initialize(m)
	segment := filepath.Join(m.StoreDir(), "journal", "00000001.log")
	var ends []int64
	var entries []string
	var want store.ID
	for i := range 4 {
		st, err := os.Stat(segment)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, st.Size())
		entries = append(entries, b.turn(m, func() { b.write("f", fmt.Sprint(i)) }))
		if p, err := m.Resolve(t.Context(), "@"); err != nil {
			t.Fatal(err)
		} else if i == 2 {
			want = p.State.Tree
		}
	}
	if _, err := inside.Of(m).ExportLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.must(m.Close())
	for _, at := range ends[1:3] { // two bytes of a record do not come back
		flipByte(t, segment, at+40)
		flipByte(t, segment, at+41)
	}
	name := filepath.Join(m.StoreDir(), m.place().Sessions(), "s.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	flipByte(t, name, int64(bytes.Index(text, []byte(entries[1])))-1) // the line is none
	s, err := cas.Open(t.Context(), m.StoreDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.PlanRepair(t.Context())
	if err == nil {
		err = history.Rebuild(t.Context(), s, plan, nil)
	}
	if err != nil || len(plan.Records) != 1 {
		t.Fatalf("records %+v, %v", plan.Records, err)
	}
	b.must(errors.Join(s.Repair(t.Context(), plan.OnlyJournal()), s.Close()))
	m = open()
	defer m.Close()
	p, err := m.Resolve(t.Context(), "turn:3~1")
	if err != nil {
		t.Fatal(err)
	}
	if p.State.Tree != want {
		t.Errorf("turn:3~1 is tree %s; want what turn 2 left, %s", p.State.Tree.Short(), want.Short())
	}
	if p, err := m.Resolve(t.Context(), "turn:3~2"); !errors.Is(err, ErrUnknown) {
		t.Errorf("turn:3~2 is %+v, %v", p, err)
	}
}

func flipByte(t *testing.T, name string, at int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		b[at] ^= 1
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
