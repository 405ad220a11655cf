package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
)

func (b *bench) edit(m *FileSnapshotManager, req *EditRequest) *EditResult {
	b.Helper()
	r, err := m.ApplyEdits(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) undoEdit(m *FileSnapshotManager, id string, opts *UndoEditOptions) *EditResult {
	b.Helper()
	r, err := m.UndoEdit(b.Context(), id, opts)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func parsePatch(t *testing.T, format patch.Format, input string) *patch.Patch {
	t.Helper()
	p, err := patch.Parse(format, []byte(input), "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An edit, its undo, and the undo of that.
func TestApplyEdits(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\ntwo\nthree\n")
	if err := os.Chmod(filepath.Join(b.dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := b.open("s")
	r := b.edit(m, &EditRequest{Path: "a", Old: []byte("two\n"), New: []byte("2\n")})
	b.expectFiles(files{"a": "one\n2\nthree\n"})
	st, err := os.Stat(filepath.Join(b.dir, "a"))
	if err != nil || vfstest.KeepsPerm(0o755) && st.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	f := r.Files[0]
	if f.Mode != patch.IsExact || f.Stage != patch.Exact || f.Replacements != 1 || f.Similarity != 1 ||
		f.BeforeHash == "" || f.AfterHash == f.BeforeHash || len(f.AfterSHA256) != 64 || !f.Unread {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.Diff, "-two\n+2\n") {
		t.Errorf("diff %q", f.Diff)
	}
	undo := b.undoEdit(m, r.UndoID, nil)
	b.expectFiles(files{"a": "one\ntwo\nthree\n"})
	b.undoEdit(m, undo.UndoID, nil)
	b.expectFiles(files{"a": "one\n2\nthree\n"})
	var list []string
	for e, err := range m.Edits(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Undoes)
		if e.Files[0].Diff != "" || e.Files[0].BeforeHash == "" {
			t.Errorf("on record: %+v", e.Files[0])
		}
	}
	if d := cmp.Diff([]string{undo.UndoID, r.UndoID, ""}, list); d != "" {
		t.Errorf("undoes (-want +got):\n%s", d)
	}
	if _, err := m.UndoEdit(t.Context(), "nothing", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("undo of nothing: %v", err)
	}
	if s, err := m.Sessions(t.Context(), true); err != nil || len(s) > 0 {
		t.Errorf("sessions %v, %v", s, err)
	}
	preview := b.edit(m, &EditRequest{Path: "a", Old: []byte("one"), New: []byte("1"), Preview: true})
	if b.expectFiles(files{"a": "one\n2\nthree\n"}); preview.UndoID != "" || preview.Files[0].Diff == "" {
		t.Errorf("preview: %+v", preview)
	}
	id, err := store.ParseID(preview.Files[0].AfterHash)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := m.store.Has(id); there || err != nil {
		t.Errorf("a preview left its text in the store: %v, %v", there, err)
	}
}

// What is only similar is taken where that is asked for, from 0.92 on. The new
// text then has the file's indentation, and is merged with what is there, unless
// one says no.
func TestApplyEditsFuzzy(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	const content = "\tthe quick brown fox jumps over the lazy dog\n\tand runs away\n"
	const old = "the quick brown fox jumps over the lazy dig\nand runs away\n"
	const own, both = "the quick brown fox jumps over the lazy dig\nand sleeps\n", "x\nand sleeps\n"
	for _, c := range []struct {
		req    EditRequest
		new    string
		want   string // "": refused
		reason string
		fits   bool // with Fuzzy
	}{
		{EditRequest{}, own, "", "none", true},
		{EditRequest{}, both, "", "none", false},
		{EditRequest{Fuzzy: true}, own, "\tthe quick brown fox jumps over the lazy dog\n\tand sleeps\n", "", false},
		{EditRequest{Fuzzy: true}, both, "", "both_changed", false},
		{EditRequest{Fuzzy: true, Options: patch.Options{Reindent: patch.ReindentOff}}, own,
			"\tthe quick brown fox jumps over the lazy dog\nand sleeps\n", "", false},
		{EditRequest{Fuzzy: true, NoMerge: true}, both, "\tx\n\tand sleeps\n", "", false},
		{EditRequest{Fuzzy: true, NoMerge: true, Options: patch.Options{Reindent: patch.ReindentOff}},
			both, both, "", false},
		{EditRequest{Fuzzy: true, Options: patch.Options{MinSimilarity: 0.99}}, own, "", "none", false},
	} {
		b.write("a", content)
		req := c.req
		req.Path, req.Old, req.New = "a", []byte(old), []byte(c.new)
		r, err := m.ApplyEdits(t.Context(), &req)
		if c.want == "" {
			var refused *EditError
			if !errors.As(err, &refused) || refused.Refused[0].Match.Reason != c.reason || refused.Fuzzy != c.fits {
				t.Errorf("%+v: %v", c, err)
			}
			b.expectFiles(files{"a": content})
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		b.expectFiles(files{"a": c.want})
		if f := r.Files[0]; f.Mode != patch.IsFuzzy || f.Stage != patch.Levenshtein || f.Similarity < 0.92 {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// A file that somebody has changed is not edited, and not undone, unasked.
func TestStaleEdit(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	hash, err := m.NoteRead(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	req := &EditRequest{Path: "a", Old: []byte("2\n"), New: []byte("two\n")}
	if _, err := m.ApplyEdits(t.Context(), req); !errors.Is(err, ErrStale) {
		t.Errorf("stale: %v", err)
	}
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a", Old: req.Old, New: req.New,
		Expected: map[string]string{"a": hash}}); !errors.Is(err, ErrStale) {
		t.Errorf("not as expected: %v", err)
	}
	if hash, err = m.NoteRead(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r := b.edit(m, &EditRequest{Path: "a", Old: req.Old, New: req.New, Expected: map[string]string{"a": hash}})
	if r.Files[0].Unread {
		t.Error("it was read")
	}
	b.edit(m, &EditRequest{Path: "a", Old: []byte("1\n"), New: []byte("one\n")}) // what it left is known
	b.write("a", "zero\n1\ntwo\n3\n4\n5\n6\n7\n8\nnine\n")
	if _, err := m.UndoEdit(t.Context(), r.UndoID, nil); !errors.Is(err, ErrStale) {
		t.Errorf("undo: %v", err)
	}
	b.undoEdit(m, r.UndoID, &UndoEditOptions{Reverse: true})
	b.expectFiles(files{"a": "zero\n1\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
	b.undoEdit(m, r.UndoID, &UndoEditOptions{Force: true})
	b.expectFiles(files{"a": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
	if _, err := m.UndoEdit(t.Context(), r.UndoID, &UndoEditOptions{Reverse: true}); err == nil {
		t.Error("what was taken back is taken back again")
	}
}

const severalFiles = `*** Begin Patch
*** Update File: a
@@
-1
+one
*** Update File: dir/b
*** Move to: other/c
@@
-2
+two
*** Delete File: gone
*** Add File: deep/new/file
+made
*** End Patch
`

// Several files change together, and back.
func TestEditSeveralFiles(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n")
	b.write("dir/b", "2\n")
	b.write("gone", "3\n")
	before := b.files()
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.V4A, severalFiles)})
	after := files{"a": "one\n", "other/c": "two\n", "deep/new/file": "made\n"}
	b.expectFiles(after)
	undo := b.undoEdit(m, r.UndoID, nil)
	b.expectFiles(before)
	if _, err := os.Lstat(filepath.Join(b.dir, "deep")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory is left: %v", err)
	}
	b.undoEdit(m, undo.UndoID, nil)
	b.expectFiles(after)
	// One that cannot be put keeps all from being put.
	b.undoEdit(m, r.UndoID, &UndoEditOptions{Force: true})
	b.write("dir/b", "changed\n")
	now := b.files()
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A, severalFiles)}); err == nil {
		t.Error("a piece that is not there was put")
	}
	b.expectFiles(now)
}

// Without a limit of a file's size any may be edited.
func TestEditUnlimited(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.Limits.FileSize = -1 })
	b.write("a", "x")
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a", Old: []byte("x"), New: []byte("y")}); err != nil {
		t.Error(err)
	}
}

// A file may be edited that captures take: the limits of single paths go before that of all.
func TestEditSizes(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) {
		o.Limits.FileSize, o.Limits.FileSizes = 100, "*.log=50 big/*=-1"
	})
	large := "old" + strings.Repeat("x", 97) // and one more
	for _, name := range []string{"a", "a.log", "big/a", "big/a.log"} {
		b.write(name, large[:60])
	}
	b.write("big/large", large+"x")
	b.write("large", large+"x")
	for name, isIn := range map[string]bool{"a": true, "a.log": false, "big/a": true, "big/a.log": true,
		"big/large": true, "large": false} {
		_, err := m.ApplyEdits(t.Context(), &EditRequest{Path: name, Old: []byte("old"), New: []byte("new")})
		if (err == nil) != isIn {
			t.Errorf("%s: %v, want it done: %v", name, err, isIn)
		}
	}
}

// What is no text file of the directory is refused, and nothing changes.
func TestEditRefused(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	m := b.open("s", func(o *Options) { o.Limits.FileSize = 100 })
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	p := func(name string) string { return filepath.Join(b.dir, name) }
	b.write("dir/x", "x")
	b.write("binary", "x\x00")
	b.write("readonly", "x")
	b.write("big", strings.Repeat("x", 200))
	b.write(".git/config", "x")
	b.write("real", "x")
	wants := map[string]error{"../x": ErrOutside, "/etc/passwd": ErrOutside, ".git/config": ErrOutside,
		".GIT/config": ErrOutside, "dir/.Git/new": ErrOutside, "dir/../../x": ErrOutside, "dir": ErrNotText,
		"binary": ErrNotText, "big": ErrNotText, "readonly": ErrReadOnly, "absent": fs.ErrNotExist, "": ErrOutside}
	do(os.Chmod(p("readonly"), 0o444), os.WriteFile(filepath.Join(outside, "f"), []byte("x"), 0o644))
	if vfstest.HasLinks() {
		do(os.Symlink(outside, p("out")), os.Symlink(filepath.Join(outside, "f"), p("link")),
			os.Symlink("real", p("inside")), os.Symlink("nowhere", p("dangling")))
		maps.Copy(wants, map[string]error{"out/f": ErrOutside, "link": ErrOutside, "dangling": ErrNotText})
	}
	before := readWorld(t, b.dir)
	if runtime.GOOS != "windows" { // which has no devices in directories
		socket, err := net.Listen("unix", p("device"))
		do(err)
		defer socket.Close()
		wants["device"] = nil
	}
	for path, want := range wants {
		_, err := m.ApplyEdits(t.Context(), &EditRequest{Path: path, Old: []byte("x"), New: []byte("y")})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
	if runtime.GOOS != "windows" {
		b.remove("device")
	}
	if d := cmp.Diff(before, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(got) != "x" {
		t.Errorf("outside: %q, %v", got, err)
	}
	vfstest.NeedLinks(t)
	b.edit(m, &EditRequest{Path: "inside", Old: []byte("x"), New: []byte("y")}) // the file that it leads to
	if got, err := os.ReadFile(p("real")); err != nil || string(got) != "y" {
		t.Errorf("through a link: %q, %v", got, err)
	}
	if target, err := os.Readlink(p("inside")); err != nil || target != "real" {
		t.Errorf("the link: %q, %v", target, err)
	}
}

// An edit within a turn is the turn's own, whoever else is at work.
func TestEditIsClaimed(t *testing.T) {
	b := newBench(t)
	b.write("a", "1")
	b.write("b", "1")
	m, other := b.open("s"), b.open("t")
	b.initialize(m)
	b.initialize(other)
	b.start(m)
	b.start(other)
	r := b.edit(m, &EditRequest{Path: "a", Old: []byte("1"), New: []byte("2")})
	b.write("b", "2")
	if r.Turn == nil || *r.Turn != 0 {
		t.Errorf("turn %v", r.Turn)
	}
	b.end(m)
	if d := cmp.Diff(map[string]string{"a": "modified claimed", "b": "modified contested"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	b.end(other)
	if d := cmp.Diff(map[string]string{"b": "modified contested"}, brief(b.modified(other, nil))); d != "" {
		t.Errorf("the other session's (-want +got):\n%s", d)
	}
}

// An edit that dies at any operation is whole or is taken back.
func TestEditFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for at := int64(0); ; at++ {
		if at%stride(3) != 0 {
			continue
		}
		b := newBench(t)
		b.write("a", "1\n")
		b.write("dir/b", "2\n")
		b.write("gone", "3\n")
		before := b.files()
		disk := vfstest.NewMem()
		m, err := openOn(t, b.dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		fault := &vfstest.Fault{At: at, Sticky: true, Err: syscall.EIO}
		if m, err = openOn(t, b.dir, vfstest.WithFault(disk, fault)); err == nil {
			m.openDir = func(path string) (vfs.Dir, error) {
				d, err := vfs.OpenDir(path)
				if err != nil {
					return nil, err
				}
				return vfstest.WithFaultDir(d, fault), nil
			}
			_, err = m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A, severalFiles)})
			m.Close()
		}
		if !fault.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if m, err = openOn(t, b.dir, disk); err != nil {
			t.Fatal(err)
		}
		if err := m.withTurns(t.Context(), func(*history.Turns) error {
			r, err := m.newestEdit(t.Context())
			if err != nil {
				return err
			}
			return m.recoverEdit(t.Context(), r)
		}); err != nil {
			t.Fatal(err)
		}
		after := files{"a": "one\n", "other/c": "two\n", "deep/new/file": "made\n"}
		if got := b.files(); !cmp.Equal(got, before) && !cmp.Equal(got, after) {
			t.Fatalf("cut off at %d (%v): %q", at, err, got)
		}
		m.Close()
	}
}

// An edit of which one file cannot be written is taken back at once, not only by
// the next who looks.
func TestEditTakenBackAtOnce(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n")
	b.write("dir/b", "2\n")
	b.write("gone", "3\n")
	before := b.files()
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		fault := &vfstest.Fault{At: -1, Err: syscall.EPERM}
		fired := false
		fault.Trace = func(op, name string) {
			if !fired && op == "Rename" && strings.HasSuffix(name, "-> a") {
				fault.At, fired = fault.Count(), true
			}
		}
		return vfstest.WithFaultDir(d, fault), err
	}
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A, severalFiles)}); err == nil {
		t.Error("no error")
	}
	b.expectFiles(before)
	m.openDir = vfs.OpenDir
	if _, edit, err := inside.Of(m).CutOff(t.Context()); edit || err != nil {
		t.Errorf("an edit is cut off: %v, %v", edit, err)
	}
}

// Processes that edit one file at once: each edit lands, or is refused.
func TestEditTogether(t *testing.T) {
	b := newBench(t)
	const workers, rounds = 4, 12
	var lines strings.Builder
	for i := range workers {
		fmt.Fprintf(&lines, "worker %d: 0\n", i)
	}
	b.write("a", lines.String())
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			m, err := Open(context.Background(), b.dir, &Options{StoreRoot: b.stores, Session: fmt.Sprint("s", i)})
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			for n := 0; n < rounds; {
				// An editor that reads, thinks and writes.
				hash, err := m.NoteRead(context.Background(), "a")
				if err != nil && strings.Contains(err.Error(), "it changes while it is read") {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				_, err = m.ApplyEdits(context.Background(),
					&EditRequest{Path: "a", Old: fmt.Appendf(nil, "worker %d: %d\n", i, n),
						New: fmt.Appendf(nil, "worker %d: %d\n", i, n+1), Expected: map[string]string{"a": hash}})
				switch {
				case err == nil:
					n++
				case !errors.Is(err, ErrStale):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	want := strings.ReplaceAll(lines.String(), ": 0", fmt.Sprint(": ", rounds))
	b.expectFiles(files{"a": want})
}

// Edits and then their undos, in turn, leave the file as it was, whatever is in
// it. The text that an edit was similar to is what comes back, not the one that
// was given.
func TestEditUndoIsIdentity(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	rng := rand.New(rand.NewPCG(5, 5))
	pieces := []string{"one", "  two", "\t", "\u201cquoted\u201d", "\xff\xfe", "caf\u00e9", "x := 1", "\r", ""}
	for range 60 {
		var content strings.Builder
		for range rng.IntN(12) {
			content.WriteString(pieces[rng.IntN(len(pieces))] + pieces[rng.IntN(len(pieces))] + []string{"\n", "\r\n",
				"\n\n"}[rng.IntN(3)])
		}
		before := content.String()
		b.write("f", before)
		var ids []string
		for range 4 {
			now, err := os.ReadFile(filepath.Join(b.dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(now), "\n")
			old := lines[rng.IntN(len(lines))]
			if rng.IntN(2) == 0 {
				old = " " + strings.TrimSpace(old) + " "
			}
			r, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "f", Old: []byte(old),
				New: fmt.Appendf(nil, "line %d\n", rng.IntN(100)), Fuzzy: true})
			var refused *EditError
			if errors.As(err, &refused) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.UndoID)
		}
		for _, id := range slices.Backward(ids) {
			if id != "" {
				b.undoEdit(m, id, nil)
			}
		}
		b.expectFiles(files{"f": before})
	}
}

// An undo of a move leaves alone what somebody has put in the old place.
func TestUndoMoveLeavesUsersFile(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n")
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.V4A,
		"*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch\n")})
	b.write("a", "user's")
	for _, force := range []bool{false, true} {
		if _, err := m.UndoEdit(t.Context(), r.UndoID, &UndoEditOptions{Force: force}); !errors.Is(err, ErrStale) {
			t.Errorf("undo, force %v: %v", force, err)
		}
	}
	b.expectFiles(files{"a": "user's", "b": "1\n"})
}

// Files change places, and a mode comes back with its file.
func TestEditSwap(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n")
	b.write("b", "2\n")
	b.write("sh", "run\n")
	if err := os.Chmod(filepath.Join(b.dir, "sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := readWorld(t, b.dir)
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.V4A,
		"*** Begin Patch\n*** Delete File: sh\n*** Update File: a\n*** Move to: b\n*** Update File: b\n"+
			"*** Move to: a\n*** End Patch\n")})
	b.expectFiles(files{"a": "2\n", "b": "1\n"})
	b.undoEdit(m, r.UndoID, nil)
	if d := cmp.Diff(before, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// A piece that is gone is not put back beside something that only looks alike.
func TestReverseElsewhere(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("f", "func a() {\n\tlock()\n\twork()\n\tunlock()\n\tdone()\n}\n")
	r := b.edit(m, &EditRequest{Path: "f", Old: []byte("\tunlock()\n"), New: nil})
	now := "func a() { rewritten() }\n\nfunc other() {\n\twork()\n\tdone()\n}\n"
	b.write("f", now)
	var refused *EditError
	if _, err := m.UndoEdit(t.Context(), r.UndoID, &UndoEditOptions{Reverse: true}); !errors.As(err, &refused) {
		t.Errorf("reverse: %v", err)
	}
	b.expectFiles(files{"f": now})
}

// What a patch says for itself narrows what was asked for, and what was expected
// of a file is looked at under any name.
func TestEditAsksForLess(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "the quick brown fox jumps over the lazy dog\n")
	before := b.files()
	list := parsePatch(t, patch.EditList, `[{"path":"a","old":"the quick brown fox jumps over the lazy dig\\n","new":"x","fuzzy":true}]`)
	var refused *EditError
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: list}); !errors.As(err, &refused) {
		t.Errorf("fuzzy unasked: %v", err)
	}
	for name, want := range map[string]error{"./a": ErrStale, "other": nil} {
		_, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a", Old: []byte("fox"), New: []byte("cat"),
			Expected: map[string]string{name: "00"}})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("expected of %q: %v", name, err)
		}
	}
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a", Old: []byte("fox"),
		New: []byte("a\x00b")}); !errors.Is(err, ErrNotText) {
		t.Errorf("NUL: %v", err)
	}
	b.expectFiles(before)
}

// A file takes the place of one that goes in the same edit, and both come back.
func TestEditReplacesDeleted(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1\n")
	b.write("b", "2\n")
	before := b.files()
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.V4A,
		"*** Begin Patch\n*** Delete File: b\n*** Update File: a\n*** Move to: b\n*** End Patch\n")})
	after := files{"b": "1\n"}
	b.expectFiles(after)
	undo := b.undoEdit(m, r.UndoID, nil)
	b.expectFiles(before)
	b.undoEdit(m, undo.UndoID, nil)
	b.expectFiles(after)
}

// What an edit replaced by another file has its own mode again, and so has the
// directory that has gone with it.
func TestUndoEditModes(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	for name, mode := range map[string]os.FileMode{"a": 0o755, "b": 0o600, "d/f": 0o640} {
		b.write(name, name+"\n")
		if err := os.Chmod(filepath.Join(b.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(b.dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := readWorld(t, b.dir)
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.V4A,
		"*** Begin Patch\n*** Delete File: b\n*** Delete File: d/f\n*** Update File: a\n*** Move to: b\n*** End Patch\n")})
	b.remove("d")
	b.undoEdit(m, r.UndoID, nil)
	if d := cmp.Diff(before, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// A link is not deleted for what it leads to, by whatever name.
func TestEditDeletesNoLink(t *testing.T) {
	vfstest.NeedLinks(t)
	b := newBench(t)
	m := b.open("s")
	b.write("other", "1\n")
	if err := os.Symlink("other", filepath.Join(b.dir, "l")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"l", filepath.Join(b.dir, "l")} {
		if _, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A,
			"*** Begin Patch\n*** Delete File: "+name+"\n*** End Patch\n")}); !errors.Is(err, ErrNotText) {
			t.Errorf("delete %q: %v", name, err)
		}
	}
}

// A reversed edit leaves what the user has made of the lines around it, and its
// pieces may be near one another.
func TestReverseLeavesContext(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "func a() {\nx := 1\nold line here\ny := 2\nz := 3\nanother old line\n}\n")
	r := b.edit(m, &EditRequest{Patch: parsePatch(t, patch.EditList, `{"path":"a","edits":[{"old":"old line here","new":"new line here"},{"old":"another old line","new":"another new line"}]}`)})
	b.write("a", "func a() {\n\tx := 1\n\tnew line here\n\ty := 2\n\tz := 3\n\tanother new line\n}\n")
	b.undoEdit(m, r.UndoID, &UndoEditOptions{Reverse: true})
	b.expectFiles(files{"a": "func a() {\n\tx := 1\nold line here\n\ty := 2\n\tz := 3\nanother old line\n}\n"})
}

// Nothing is made or deleted where the directory's mode says so, and without
// being asked nothing by similarity.
func TestEditRefuses(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("ro/f", "1\n")
	b.write("a", "some text that\nis far from that\nin the patch\n")
	if err := os.Chmod(filepath.Join(b.dir, "ro"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(b.dir, "ro"), 0o755) })
	for _, p := range []string{"*** Add File: ro/new\n+x\n", "*** Delete File: ro/f\n"} {
		if !vfstest.KeepsPerm(0o755) { // of directories neither
			break
		}
		if _, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A,
			"*** Begin Patch\n"+p+"*** End Patch\n")}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%q: %v", p, err)
		}
	}
	similar := "*** Begin Patch\n*** Update File: a\n@@\n some text that\n-is far fron that\n+x\n in the patch\n" +
		"*** End Patch\n"
	if r, err := m.ApplyEdits(t.Context(), &EditRequest{Patch: parsePatch(t, patch.V4A, similar),
		Options: patch.Options{Stages: stages}}); err == nil {
		t.Errorf("by similarity unasked: %+v", r)
	}
	if _, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a/", Old: []byte("text"),
		New: []byte("x")}); !errors.Is(err, ErrNotText) {
		t.Errorf("a/: %v", err)
	}
}

// TestTreePath: a path may be absolute, also through a link to the directory.
func TestTreePath(t *testing.T) {
	vfstest.NeedLinks(t)
	b := newBench(t)
	m := b.open("s")
	link := filepath.Join(t.TempDir(), "link")
	for _, err := range []error{os.Symlink(b.dir, link), os.Symlink(".", filepath.Join(b.dir, "self"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{".": ".", "a/./b/": "a/b", b.dir: ".", link: ".",
		filepath.Join(b.dir, "a"): "a", filepath.Join(link, "d", "a"): "d/a",
		filepath.Join(b.dir, "self"): "self", "a/../../x": "", filepath.Dir(b.dir): "",
		filepath.Join(link, "..", "x"): ""} {
		if got, err := inside.Of(m).TreePath(p); got != want || want == "" && !errors.Is(err, ErrOutside) {
			t.Errorf("TreePath(%q) = %q, %v; want %q", p, got, err, want)
		}
	}
}
