package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
)

// A hooked bench has a session of which each event comes from a process of its own, and
// whose tools may ask the manager for something.
type hooked struct {
	*bench
	tools    int // that have run
	openTurn bool
}

func (h *hooked) opened(inTurn bool) *FileSnapshotManager {
	return h.open("s", func(o *Options) { o.ToolWindows, o.Detached, o.InTurn = true, true, inTurn })
}

// tool runs fn as a tool of the turn that is open, with the manager that works for it.
func (h *hooked) tool(fn func(m *FileSnapshotManager)) {
	h.Helper()
	h.tools++
	name := fmt.Sprint("tool", h.tools)
	if _, err := h.opened(false).OnToolStart(h.Context(), name); err != nil {
		h.Fatal(err)
	}
	fn(h.opened(true))
	if _, err := h.opened(false).OnToolEnd(h.Context(), name); err != nil {
		h.Fatal(err)
	}
}

// do runs steps of a story: "{" and "}" begin and end a turn, "+a" writes the file a by
// a tool, "snapshot", "restore REV", "preview REV", "undo" and "redo" are asked for by a
// tool within a turn, else by the user, "force REV" by the user in any case; "user+a" is a
// file of the user. "@snap" stands for the entry of the newest snapshot, "@look" for what
// "look" saw.
func (h *hooked) do(steps string) {
	h.Helper()
	open := h.openTurn
	defer func() { h.openTurn = open }()
	var snap, look string
	for _, step := range strings.Split(steps, "; ") {
		verb, rev, _ := strings.Cut(strings.NewReplacer("@snap", snap, "@look", look).Replace(step), " ")
		ask := func(fn func(m *FileSnapshotManager) error) {
			h.Helper()
			did := func(m *FileSnapshotManager) {
				h.Helper()
				if err := fn(m); err != nil {
					h.Fatalf("%s: %v", step, err)
				}
			}
			if open {
				h.tool(did)
			} else {
				did(h.open("s"))
			}
		}
		switch {
		case step == "{":
			h.start(h.opened(false))
			open = true
		case step == "}":
			h.end(h.opened(false))
			open = false
		case strings.HasPrefix(step, "user+"):
			h.write(step[5:], "user")
		case strings.HasPrefix(step, "+"):
			h.tool(func(*FileSnapshotManager) { h.write(step[1:], "agent") })
		case step == "look":
			head, err := h.open("s").records.Newest("s")
			if err != nil {
				h.Fatal(err)
			}
			look = head.Tree.String()
		case verb == "snapshot":
			ask(func(m *FileSnapshotManager) error {
				r, err := m.Snapshot(h.Context(), nil)
				if err == nil {
					snap = r.EntryID
				}
				return err
			})
		case verb == "undo":
			ask(func(m *FileSnapshotManager) error { _, err := m.Undo(h.Context(), nil); return err })
		case verb == "redo":
			ask(func(m *FileSnapshotManager) error { _, err := m.Redo(h.Context(), nil); return err })
		case verb == "force":
			if _, err := h.open("s").RestoreFiles(h.Context(), &RestoreOptions{Target: rev, Force: true}); err != nil {
				h.Fatalf("%s: %v", step, err)
			}
		case verb == "restore":
			ask(func(m *FileSnapshotManager) error {
				would, err := m.RestoreFiles(h.Context(), &RestoreOptions{Target: rev, Preview: true})
				if err != nil {
					return err
				}
				did, err := m.RestoreFiles(h.Context(), &RestoreOptions{Target: rev})
				if err == nil && !cmp.Equal(would.Items, did.Items) {
					h.Errorf("%s: a preview says %v, and %v was done", step, would.Items, did.Items)
				}
				return err
			})
		default:
			h.Fatalf("no step %q", step)
		}
	}
}

// state says which files are there, and what happened, newest first.
func (h *hooked) state() string {
	h.Helper()
	names, err := filepath.Glob(filepath.Join(h.dir, "*"))
	if err != nil {
		h.Fatal(err)
	}
	var files, log []string
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			h.Fatal(err)
		}
		if name = filepath.Base(name); string(b) != "agent" {
			name += "=" + string(b)
		}
		files = append(files, name)
	}
	for mo, err := range h.open("s").Timeline(h.Context()) {
		if err != nil {
			h.Fatal(err)
		}
		line := mo.Kind
		if mo.TurnIndex >= 0 {
			own, contested, err := mo.Changes(h.Context())
			if err != nil {
				h.Fatal(err)
			}
			line = strings.TrimSpace(fmt.Sprint("turn ", mo.TurnIndex, " ", strings.Join(own.Added, " ")))
			if n := len(contested.Added) + len(own.Modified) + len(own.Deleted); n > 0 {
				line += fmt.Sprintf(" and %d", n)
			}
			if mo.TakenBack != nil {
				line += " back"
			}
		}
		log = append(log, line)
	}
	return strings.Join(files, " ") + ": " + strings.Join(log, ", ")
}

// TestDividedTurns: a tool of a turn that restores files divides the turn.
func TestDividedTurns(t *testing.T) {
	testseed.Sequential(t)
	for _, test := range []struct{ steps, want string }{
		{"{; +a; restore start; +b; }", "b: turn 0 b, restore, turn 0 a back, start"},
		{"{; +a; restore start; +b; }; restore @~1", ": restore, turn 0 b back, restore, turn 0 a back, start"},
		{"{; +a; restore start; +b; }; restore @~1; undo", "b: undo, restore, turn 0 b, restore, turn 0 a back, start"},
		{"{; +a; restore start; +b; }; undo", "a b: undo, turn 0 b, restore, turn 0 a, start"},
		// what came back is the turn's again, and goes with it
		{"{; +a; restore start; +b; }; undo; restore @~1",
			": restore, undo, turn 0 b back, restore, turn 0 a back, start"},
		{"{; +a; restore start; undo; +b; }; restore @~1",
			": restore, turn 0 b back, undo, restore, turn 0 a back, start"},
		{"{; +b; }; restore start; {; +a; undo; }; restore @~1",
			"b: restore, undo, turn 1 a back, restore, turn 0 b, start"},
		{"{; +b; }; restore start; {; +a; undo; +c; }; restore @~1",
			"b: restore, turn 1 c back, undo, turn 1 a back, restore, turn 0 b, start"},
		{"{; +a; restore start; undo; redo; +b; }", "b: turn 0 b, redo, undo, restore, turn 0 a back, start"},
		// the newest turn is the one before, as long as the turn has changed nothing
		{"{; +a; }; {; restore @~1; +b; }", "b: turn 1 b, restore, turn 0 a back, start"},
		{"{; +a; }; {; restore @~1; +b; }; restore @~1", ": restore, turn 1 b back, restore, turn 0 a back, start"},
		{"{; +a; }; {; +b; restore @~1; +c; }", "a c: turn 1 c, restore, turn 1 b back, turn 0 a, start"},
		{"{; +a; }; {; +b; restore @~1; }; restore @~2",
			": restore, turn 1 back, restore, turn 1 b back, turn 0 a back, start"},
		// a snapshot divides the turn, which is one for who takes it back
		{"{; +a; snapshot; +b; restore @snap; +c; }", "a c: turn 0 c, restore, turn 0 b back, turn 0 a, start"},
		{"{; +a; snapshot; +b; }; restore @~1", ": restore, turn 0 b back, turn 0 a back, start"},
		{"{; +a; look; +b; snapshot; +c; restore @look; +d; }",
			"a d: turn 0 d, restore, turn 0 c back, turn 0 a b, start"},
		{"{; snapshot; +a; snapshot; snapshot; }", "a: turn 0 a, start"},
		// the user's files stay, whenever they came
		{"{; +a; user+u; restore start; user+v; +b; }; restore start",
			"u=user v=user: restore, turn 0 b back, base, restore, turn 0 a back, base, start"},
		{"{; +a; user+a; restore start; +b; }", "a=user b: turn 0 b, turn 0 a, base, start"},
		// the user restores in the middle of a turn, which is not divided
		{"{; +a; }; {; +b; force start; +c; }", "b c: turn 1 b c, restore, turn 0 a back, start"},
	} {
		h := &hooked{bench: newBench(t)}
		h.initialize(h.opened(false))
		h.do(test.steps)
		if got := h.state(); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.steps, got, test.want)
		}
	}
}
