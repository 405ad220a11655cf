package manager

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// readStates reads what was on the disk at entries of a recorded session:
// testdata/sessions/README.md.
func readStates(t *testing.T, name string) (order []string, states map[string]world) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	states = make(map[string]world)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct {
			Entry string
			Files []struct {
				Path, Mode string
				Content    []byte
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		w := make(world)
		for _, file := range line.Files {
			mode, err := strconv.ParseUint(file.Mode, 8, 16)
			if err != nil {
				t.Fatal(err)
			}
			if tree.Mode(mode) == tree.ModeDir {
				mode |= 0o755
			}
			if tree.Mode(mode).Kind() == tree.ModeSymlink {
				mode |= 0o777
			}
			w[file.Path] = node{tree.Mode(mode), string(file.Content)}
			for dir := path.Dir(file.Path); dir != "."; dir = path.Dir(dir) {
				w[dir] = node{mode: tree.ModeDir | 0o755}
			}
		}
		order = append(order, line.Entry)
		states[line.Entry] = w
	}
	return order, states
}

// put makes the directory what w says, and stores it.
func (b *bench) put(m *FileSnapshotManager, w world) store.ID {
	b.Helper()
	names, err := os.ReadDir(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range names {
		b.remove(d.Name())
	}
	for _, p := range slices.Sorted(maps.Keys(w)) {
		n := w[p]
		if n.mode.IsDir() {
			if err := os.MkdirAll(filepath.Join(b.dir, p), fs.FileMode(n.mode&0o777)); err != nil {
				b.Fatal(err)
			}
			continue
		}
		place(b.T, b.dir, p, &n)
	}
	r, err := m.Snapshot(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return r.Tree
}

// Sessions that real pi has written are read as pi reads them, and every entry
// stands for what was on the disk then.
func TestPiSessions(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	vfstest.NeedLinks(t) // the hashes in the logs are of trees with a link and a program
	vfstest.NeedPerm(t, 0o755)
	for _, name := range []string{"pi-0.73.1/main", "pi-0.73.1/clone", "pi-0.73.1/label-clone", "pi-1.5.2/main",
		"pi-1.5.2/clone"} {
		t.Run(name, func(t *testing.T) { testPiSession(t, filepath.Join("../testdata/sessions", name)) })
	}
}

func testPiSession(t *testing.T, name string) {
	b := newBench(t)
	maker := b.open("maker")
	order, states := readStates(t, name+".states.jsonl")
	// A clone has those of its parent, too, but for the entries it has not.
	mainOrder, mainStates := readStates(t, filepath.Join(filepath.Dir(name), "main.states.jsonl"))
	worlds := make(map[store.ID]world)
	trees := make(map[string]store.ID)
	for _, id := range order {
		trees[id] = b.put(maker, states[id])
		worlds[trees[id]] = states[id]
	}
	worlds[b.put(maker, mainStates["start"])] = mainStates["start"]
	m := b.open("", func(o *Options) { o.SessionFile, o.ReadOnly = name+".jsonl", true })
	log := m.file.Tree()
	if err := inside.Of(m).UseSession(inside.Of(m).LogSession()); err != nil {
		t.Fatal(err)
	}
	steps := make(map[string]*StepSnapshotData)
	for e := range log.Entries() {
		if e.CustomType != sessionlog.StepSnapshot {
			continue
		}
		d := new(StepSnapshotData)
		if err := json.Unmarshal(e.Data, d); err != nil {
			t.Fatal(err)
		}
		steps[e.ID] = d
		if trees[e.ID] != d.SnapshotTreeHash {
			t.Fatalf("entry %s: the state has tree %s, pi was told %s", e.ID, trees[e.ID], d.SnapshotTreeHash)
		}
		if _, ok := worlds[*d.BaselineTreeHash]; ok {
			continue
		}
		// Nothing names what the files were between two processes: as before,
		// and a file that was written meanwhile.
		w := make(world)
		if i := slices.Index(mainOrder, e.ID); i > 0 {
			w = maps.Clone(mainStates[mainOrder[i-1]])
		}
		w["between.txt"] = states[e.ID]["between.txt"]
		if got := b.put(maker, w); got != *d.BaselineTreeHash {
			t.Fatalf("entry %s: baseline %s is not known", e.ID, d.BaselineTreeHash)
		}
		worlds[*d.BaselineTreeHash] = w
	}
	if len(steps) == 0 {
		t.Fatal("no steps")
	}

	// The state at each entry.
	type point struct {
		id    string
		state world
		path  []string // steps
	}
	var points []point
	for e := range log.Entries() {
		at := e
		if e.Role == "assistant" || e.Role == "toolResult" {
			at = stepOfTurn(log, e, steps)
		}
		path, err := log.Path(at.ID)
		if err != nil {
			t.Fatal(err)
		}
		p := point{id: e.ID}
		for _, e := range path {
			if steps[e.ID] != nil {
				p.path, p.state = append(p.path, e.ID), states[e.ID]
			}
		}
		if e.Role == "user" { // the begin of its turn
			if first := firstStep(log, e, steps); first != nil {
				p.state = worlds[*steps[first.ID].BaselineTreeHash]
			}
		}
		if p.state == nil {
			// Before all steps: where the first one below began.
			for c := range log.Entries() {
				if up, err := log.Path(c.ID); err == nil && steps[c.ID] != nil && slices.Contains(up, e) {
					p.state = worlds[*steps[c.ID].BaselineTreeHash]
					break
				}
			}
		}
		got, err := m.Resolve(t.Context(), e.ID)
		if p.state == nil {
			continue // nothing says
		}
		if err != nil {
			t.Fatalf("Resolve(%s): %v", e.ID, err)
		}
		if d := cmp.Diff(p.state, worlds[got.State.Tree], cmp.AllowUnexported(node{})); d != "" {
			t.Fatalf("entry %s (-disk +resolved):\n%s", e.ID, d)
		}
		if at != e || steps[e.ID] != nil {
			if w, ok := states[at.ID]; ok && cmp.Diff(w, p.state, cmp.AllowUnexported(node{})) != "" {
				t.Fatalf("entry %s: the test is wrong", e.ID)
			}
		}
		points = append(points, p)
	}

	// What changed between any two, or two of a few.
	for i := 0; i < len(points); i += int(stride(7)) {
		for j := 0; j < len(points); j += int(stride(5)) {
			from, to := points[i], points[j]
			common := 0
			for common < min(len(from.path), len(to.path)) && from.path[common] == to.path[common] {
				common++
			}
			want := make(map[string]string)
			for _, id := range slices.Concat(from.path[common:], to.path[common:]) {
				before, after := worlds[*steps[id].BaselineTreeHash], states[id]
				for _, p := range paths(before, after) {
					if netChange(before, after, p) == "none" {
						continue
					}
					if status := netChange(from.state, to.state, p); status != "none" {
						want[p] = status
					}
				}
			}
			got := make(map[string]string)
			for _, row := range b.modified(m, &Range{From: from.id, To: to.id}) {
				got[row.Path] = row.NetStatus
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("ModifiedFiles(%s, %s) (-want +got):\n%s", from.id, to.id, d)
			}
			for p := range want {
				diff, err := m.FileDiff(t.Context(), &FileRange{Path: p, From: from.id, To: to.id, Bytes: true})
				if err != nil {
					t.Fatal(err)
				}
				a, z := fileNode(from.state, p), fileNode(to.state, p)
				if diff == nil {
					if a != nil || z != nil {
						t.Errorf("FileDiff(%s, %s, %s) = nil", p, from.id, to.id)
					}
					continue
				}
				if (a == nil) != (diff.OldHash == nil) ||
					a != nil && *diff.OldHash != object.Hash(object.Blob, []byte(a.content)) ||
					(z == nil) != (diff.NewHash == nil) ||
					z != nil && *diff.NewHash != object.Hash(object.Blob, []byte(z.content)) {
					t.Errorf("FileDiff(%s, %s, %s) = %+v", p, from.id, to.id, diff)
				}
			}
		}
	}
	if _, err := m.Resolve(t.Context(), "no-such-entry"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown entry: %v", err)
	}
}

// firstStep returns the first step below a message of the user, before the next
// one, nil if there is none.
func firstStep(log *session.Tree, e *session.Entry, steps map[string]*StepSnapshotData) *session.Entry {
	for c := range log.Entries() {
		path, err := log.Path(c.ID)
		if steps[c.ID] == nil || err != nil {
			continue
		}
		if i := slices.Index(path, e); i >= 0 &&
			!slices.ContainsFunc(path[i+1:], func(e *session.Entry) bool { return e.Role == "user" }) {
			return c
		}
	}
	return nil
}

// stepOfTurn returns the step that a message of the agent or a result of a
// tool belongs to, itself if there is none: the steps of a turn come before
// the next message on any branch.
func stepOfTurn(log *session.Tree, e *session.Entry, steps map[string]*StepSnapshotData) *session.Entry {
	for c := range log.Entries() {
		if steps[c.ID] == nil {
			continue
		}
		path, err := log.Path(c.ID)
		if err != nil {
			continue
		}
		i := slices.Index(path, e)
		if i < 0 {
			continue
		}
		turn := true
		for _, between := range path[i+1:] {
			turn = turn && between.Role != "assistant" && between.Role != "user" &&
				(steps[between.ID] == nil || between == c)
		}
		if turn {
			return c
		}
	}
	return e
}
