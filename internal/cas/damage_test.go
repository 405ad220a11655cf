package cas_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A sample is a store of a few snapshots of a small directory, which is as the
// last of them has it, and what each snapshot gives back.
type sample struct {
	disk   *vfstest.Mem
	root   string
	want   map[uint64]map[string]string // by Seq and path
	pruned map[uint64]bool              // by Seq
}

// newSample makes a store with sealed packs, an unsealed one, segments that
// others have followed, and a blob of several chunks.
func newSample(t *testing.T) *sample {
	t.Helper()
	cas.SetLimits(t, 1<<40, 900, 250)
	sm := &sample{disk: vfstest.NewMem(), root: t.TempDir(), want: make(map[uint64]map[string]string)}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(sm.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	capture := func(s *cas.Store) {
		t.Helper()
		p, err := capture.FindProject(sm.root)
		if err != nil {
			t.Fatal(err)
		}
		ws, err := p.Open(&capture.WorkspaceOptions{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r, err := ws.Capture(t.Context(), w, &capture.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var newest uint64
		if head, err := s.Newest(t.Context(), ws.Worktree, ""); err == nil {
			newest = head.Seq
		}
		snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Worktree: ws.Worktree, Root: ws.Root,
			Parent: newest, Time: time.Unix(1, 0), Entry: fmt.Sprint("entry ", newest)}
		if err := w.Commit(t.Context(), snap, newest); err != nil {
			t.Fatal(err)
		}
		sm.want[snap.Seq], err = contents(t.Context(), s, snap.Tree, make(map[store.ID]string))
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func() *cas.Store {
		t.Helper()
		s, err := cas.OpenFS(t.Context(), sm.disk, &cas.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	write("kept", "this file is never changed")
	cas.CutSmall(t) // much is done with each
	const zeros = 64 << 10
	write("sub/large", strings.Repeat("\x00", zeros+zeros/5)+cas.CutMark()+strings.Repeat("\x00", zeros)+"and its end")
	write("sub/old", "it will go")
	if err := os.Symlink("kept", filepath.Join(sm.root, "link")); err != nil {
		t.Fatal(err)
	}
	capture(s)
	cas.WaitForSeals(s)
	write("changed", "one")
	capture(s)
	if err := errors.Join(os.Remove(filepath.Join(sm.root, "sub", "old")), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open()
	write("changed", "two, which is longer")
	capture(s)
	write("new", "the last")
	capture(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return sm
}

// prune drops the first two snapshots.
func (sm *sample) prune(t *testing.T) {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), sm.disk, &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sm.pruned = make(map[uint64]bool)
	plan, err := s.PlanPrune(t.Context(), &cas.PruneOptions{Thorough: true, Mark: audit.NewMarker(s).MarkSnapshot,
		Drop: func(snap *store.Snapshot) bool {
			sm.pruned[snap.Seq] = snap.Seq <= 2
			return snap.Seq <= 2
		}})
	if err == nil {
		_, err = s.Prune(t.Context(), plan)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// compact compacts all packs.
func (sm *sample) compact(t *testing.T) {
	t.Helper()
	cas.CompactFew(t)
	s, err := cas.OpenFS(t.Context(), sm.disk, &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.PlanCompact(t.Context(), &cas.CompactOptions{Mark: audit.NewMarker(s).MarkSnapshot, Unsealed: true})
	if err == nil && plan.Empty() {
		err = errors.New("nothing to compact")
	}
	if err == nil {
		_, err = s.Compact(t.Context(), plan)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// contents reads all files and links of a tree, but for those in seen.
func contents(ctx context.Context, s *cas.Store, root store.ID, seen map[store.ID]string) (map[string]string, error) {
	out := make(map[string]string)
	for e, err := range trees.Walk(ctx, s, root) {
		if err != nil {
			return nil, err
		}
		if !e.Mode.IsDir() && seen[e.ID] == "" {
			var b bytes.Buffer
			if _, err := s.CopyBlob(ctx, &b, e.ID); err != nil {
				return nil, err
			}
			seen[e.ID] = object.Hash(object.Blob, b.Bytes()).String()
		}
		out[e.Path] = e.Mode.String() + " " + seen[e.ID]
	}
	return out, nil
}

// copyDisk returns a disk with the same files.
func copyDisk(t *testing.T, from vfs.FS) *vfstest.Mem {
	t.Helper()
	to := vfstest.NewMem()
	for name, b := range filesOf(t, from) {
		put(t, to, name, b)
	}
	for _, dir := range []string{"packs", "journal", "worktrees", "locks", "trash", "quarantine", "tmp"} {
		if err := to.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	return to
}

func put(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	for i, c := range name {
		if c == '/' {
			_ = fsys.Mkdir(name[:i], 0o700)
		}
	}
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

// filesOf returns all files, but for locks.
func filesOf(t *testing.T, fsys vfs.FS) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name = path.Join(dir, name)
			st, err := fsys.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if st.Kind == vfs.Directory {
				if name != "locks" {
					walk(name)
				}
				continue
			}
			if files[name], err = vfs.ReadFile(fsys, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	walk(".")
	return files
}

// Each byte of each file of a store is flipped, each file cut at each length,
// and each deleted. Nothing wrong is ever read, check names what is damaged, and
// repair brings back all that the directory still has.
func TestDamageAnywhere(t *testing.T) {
	sm := newSample(t)
	sm.damageAnywhere(t)
}

// The same of a store that was pruned.
func TestDamageAnywherePruned(t *testing.T) {
	sm := newSample(t)
	sm.prune(t)
	sm.damageAnywhere(t)
}

// The same of a store that was compacted.
func TestDamageAnywhereCompact(t *testing.T) {
	sm := newSample(t)
	sm.compact(t)
	sm.damageAnywhere(t)
}

func (sm *sample) damageAnywhere(t *testing.T) {
	t.Helper()
	step := *damageStep
	if testing.Short() {
		step = 211
	}
	for name, b := range filesOf(t, sm.disk) {
		t.Run(path.Dir(name)+path.Ext(name), func(t *testing.T) {
			t.Parallel()
			n := 0
			for at := 0; at < len(b); at += step {
				hurt := bytes.Clone(b)
				hurt[at] ^= 1 << (at % 8)
				sm.try(t, fmt.Sprintf("%s, byte %d", name, at), name, hurt)
				n++
			}
			for length := 0; length < len(b); length += step {
				sm.try(t, fmt.Sprintf("%s, cut at %d", name, length), name, b[:length])
				n++
			}
			sm.try(t, name+" deleted", name, nil)
			t.Logf("%d damages of %d bytes", n+1, len(b))
		})
	}
}

// isOtherVersion reports whether FORMAT says that it is of a version that is not ours, which
// nobody can tell from one that is.
func isOtherVersion(text []byte) bool {
	var f struct{ Format int }
	return json.Unmarshal(text, &f) == nil && f.Format > cas.FormatVersion
}

// TestFlippedFormat flips each bit of FORMAT: a store is not taken for one of a newer program.
func TestFlippedFormat(t *testing.T) {
	sm := newSample(t)
	sm.compact(t)
	b := filesOf(t, sm.disk)["FORMAT"]
	opened, other := 0, 0
	for at := range 8 * len(b) {
		disk, hurt := copyDisk(t, sm.disk), bytes.Clone(b)
		hurt[at/8] ^= 1 << (at % 8)
		put(t, disk, "FORMAT", hurt)
		s, err := cas.OpenFS(t.Context(), disk, &cas.Options{ReadOnly: true})
		switch {
		case err == nil:
			s.Close()
			opened++
		case isOtherVersion(hurt) && errors.Is(err, store.ErrFormat):
			other++
		default:
			t.Errorf("bit %d of byte %d: %v", at%8, at/8, err)
		}
	}
	if opened < 8*len(b)-4 {
		t.Errorf("%d of %d bits: the store is opened; %d: it is of another version", opened, 8*len(b), other)
	}
}

var damageStep = flag.Int("damage.step", 113, "bytes between the places that TestDamageAnywhere damages")

// What the directory has no more comes back from quarantine, and a file that
// holds something else by now is not taken for what was there.
func TestRepairFromSpares(t *testing.T) {
	sm := newSample(t)
	if err := os.WriteFile(filepath.Join(sm.root, "kept"), []byte("this file was changed now.."), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(sm.root, "sub", "large")); err != nil {
		t.Fatal(err)
	}
	var packs []string
	files := filesOf(t, sm.disk)
	for name := range files {
		if path.Ext(name) == ".pack" {
			packs = append(packs, name)
		}
	}
	for _, spare := range []bool{false, true} {
		disk := copyDisk(t, sm.disk)
		for i, name := range packs {
			if err := disk.Remove(name); err != nil {
				t.Fatal(err)
			}
			if spare {
				put(t, disk, fmt.Sprint([]string{"quarantine/", "trash/1/"}[i%2], "any"), files[name])
			}
		}
		s, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
		if err != nil {
			t.Fatal(err)
		}
		left, hurt := sm.repair(t, s)
		if spare == (left != "") {
			t.Errorf("with spares %v: left is %q", spare, left)
		}
		if broken := sm.read(t, s, hurt); spare && broken > 0 {
			t.Errorf("%d snapshots cannot be read", broken)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// try damages a file and looks at all that follows. No content: it is deleted.
func (sm *sample) try(t *testing.T, label, name string, hurt []byte) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s: panic: %v", label, r)
		}
		if t.Failed() {
			t.Fatal(label)
		}
	}()
	disk := copyDisk(t, sm.disk)
	if hurt == nil {
		if err := disk.Remove(name); err != nil {
			t.Fatal(err)
		}
	} else {
		put(t, disk, name, hurt)
	}
	s, err := cas.OpenFS(t.Context(), disk, &cas.Options{Mend: true})
	if name == "FORMAT" && isOtherVersion(hurt) && errors.Is(err, store.ErrFormat) {
		return
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	broken := sm.read(t, s, nil)
	report, err := s.Check(t.Context(), true)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	gone := sm.gone(t, s)
	if len(gone) > 0 && len(report.Damage) == 0 {
		t.Errorf("check finds nothing, though snapshots %v are gone", gone)
	}
	problems := 0
	c := audit.NewChecker(s)
	for snap, err := range s.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Snapshot(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		problems += len(list)
	}
	if broken > 0 && len(report.Damage)+problems == 0 {
		t.Error("check finds nothing, though something cannot be read")
	}

	left, named := sm.repair(t, s)
	sm.read(t, s, named)
	cas.WaitForSeals(s)
	files := filesOf(t, disk)
	if name == "FORMAT" && sm.isDamaged(t, disk) {
		t.Error("FORMAT is still damaged")
	}
	if hurt != nil && !strings.HasPrefix(name, "journal") && !strings.HasPrefix(name, "worktrees") {
		if is, ok := files[name]; ok && bytes.Equal(is, hurt) && broken > 0 {
			t.Errorf("%s is as it was, and damaged", name)
		}
	}
	before := len(files)
	if again, _ := sm.repair(t, s); again != left {
		t.Errorf("second repair leaves %q, first %q", again, left)
	}
	cas.WaitForSeals(s)
	if after := len(filesOf(t, disk)); after != before {
		t.Errorf("second repair has changed the number of files from %d to %d", before, after)
	}
	report, err = s.Check(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Damage) > 0 && left == "" {
		t.Errorf("after the repair check finds %v", report.Damage)
	}
	if gone := sm.gone(t, s); len(gone) > 0 && len(report.Damage) == 0 {
		t.Errorf("after the repair check finds nothing, though snapshots %v are gone", gone)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sm.read(t, again, named)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// isDamaged reports whether a store is one that is opened only to be mended.
func (sm *sample) isDamaged(t *testing.T, disk vfs.FS) bool {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
	if err != nil {
		return true
	}
	if id := sm.id(t); s.ID() != id {
		t.Errorf("store id %s, want %s", s.ID(), id)
	}
	return s.Close() != nil
}

func (sm *sample) id(t *testing.T) string {
	t.Helper()
	d, err := cas.Describe(sm.disk)
	if err != nil {
		t.Fatal(err)
	}
	return d.ID
}

// gone returns the snapshots that are not on record any more, but for the newest:
// nothing in the store tells that from a commit that was cut off. Who uses it does
// (package manager).
func (sm *sample) gone(t *testing.T, s *cas.Store) (list []uint64) {
	t.Helper()
	var newest uint64
	for seq := range sm.want {
		newest = max(newest, seq)
	}
	there := make(map[uint64]bool)
	for snap, err := range s.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		there[snap.Seq] = true
	}
	for seq := range sm.want {
		if !there[seq] && seq != newest {
			list = append(list, seq)
		}
	}
	return list
}

// repair does what the command does, and returns what stays damaged and the
// snapshots that are hurt.
func (sm *sample) repair(t *testing.T, s *cas.Store) (left string, hurt map[uint64]bool) {
	t.Helper()
	ctx := t.Context()
	plan, err := s.PlanRepair(ctx)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	m := audit.NewMender(s, plan)
	defer m.Close()
	mends, err := m.Plan(ctx)
	if err != nil {
		t.Fatalf("plan to mend: %v", err)
	}
	expect := make(map[uint64]bool)
	for h, err := range m.Hurt(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		expect[h.Snapshot.Seq] = true
	}
	if err := s.Repair(ctx, plan); err != nil {
		t.Fatalf("repair: %v", err)
	}
	if done, err := m.Restore(ctx, mends); err != nil || len(done) != len(mends) {
		t.Fatalf("restore: %d of %d, %v", len(done), len(mends), err)
	}
	hurt = make(map[uint64]bool)
	for h, err := range audit.Hurts(ctx, s) {
		if err != nil {
			t.Fatal(err)
		}
		hurt[h.Snapshot.Seq] = true
		if !expect[h.Snapshot.Seq] {
			t.Errorf("snapshot %d is hurt, and the plan did not say so", h.Snapshot.Seq)
		}
		left += fmt.Sprint(h.Snapshot.Seq, h.Problems[0].Path, " ")
	}
	if len(expect) != len(hurt) {
		t.Errorf("hurt are %v, the plan said %v", hurt, expect)
	}
	for _, d := range plan.Stays {
		left += d.Error() + " "
	}
	return left, hurt
}

// read reads all snapshots, and returns how many cannot be. What is read must
// be right, and with hurt, those that it does not name must be readable.
func (sm *sample) read(t *testing.T, s *cas.Store, hurt map[uint64]bool) (broken int) {
	t.Helper()
	seen := make(map[store.ID]string)
	for snap, err := range s.Snapshots(t.Context()) {
		if err != nil {
			t.Fatalf("snapshots: %v", err)
		}
		if snap.Pruned {
			if !sm.pruned[snap.Seq] {
				t.Errorf("snapshot %d says that it was pruned", snap.Seq)
			}
			continue
		}
		want := sm.want[snap.Seq]
		got, err := contents(t.Context(), s, snap.Tree, seen)
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound):
			t.Errorf("snapshot %d: %v", snap.Seq, err)
		case err != nil:
			broken++
			if hurt != nil && !hurt[snap.Seq] {
				t.Errorf("snapshot %d is not named, and cannot be read: %v", snap.Seq, err)
			}
		case len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want):
			t.Errorf("snapshot %d is %v, want %v", snap.Seq, got, want)
		}
	}
	return broken
}
