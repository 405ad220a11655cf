package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

// blame returns whose the lines of a file are, a word each.
func (b *bench) blame(m *FileSnapshotManager, path, rev string) string {
	b.Helper()
	a, err := m.Blame(b.Context(), &BlameOptions{Path: path, Rev: rev})
	if err != nil {
		b.Fatal(err)
	}
	var words []string
	for _, r := range a.Ranges {
		who := r.Owner.Kind
		if r.Owner.Turn >= 0 {
			who = fmt.Sprintf("%s/%d", r.Owner.Session, r.Owner.Turn)
		}
		if r.Owner.Certainty == "claim" {
			who += "!"
		}
		words = append(words, fmt.Sprintf("%d-%d:%s", r.Start, r.End, who))
	}
	return strings.Join(words, " ")
}

func (b *bench) wantBlame(m *FileSnapshotManager, path, rev, want string) {
	b.Helper()
	if got := b.blame(m, path, rev); got != want {
		b.Errorf("blame %s %s: %s, want %s", rev, path, got, want)
	}
}

func TestBlame(t *testing.T) {
	b := newBench(t)
	b.write("a", "1\n2\n3\n")
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	entry := b.turn(one, func() {
		b.write("a", "1\none\n3\n")
		b.must(one.Claim(t.Context(), "a"))
	})
	b.write("a", "1\none\n3\nuser\n")
	b.start(one)
	b.start(two)
	b.write("a", "1\none\n3\nuser\nboth\n")
	b.wantBlame(one, "a", "disk", "1-1:before 2-2:one/0! 3-3:before 4-4:user 5-5:contested")
	b.end(two)
	b.end(one)
	b.wantBlame(two, "a", "", "1-1:before 2-2:one/0! 3-3:before 4-4:user 5-5:contested")
	b.write("a", "1\none\nnow\nuser\nboth\n")
	b.wantBlame(two, "a", "", "1-1:before 2-2:one/0! 3-3:user 4-4:user 5-5:contested")
	b.wantBlame(one, "a", entry, "1-1:before 2-2:one/0! 3-3:before")
	b.turn(one, func() {
		b.remove("a")
		b.write("dir/a", "1\none\nnow\nuser\nboth\nmoved\n")
	})
	b.wantBlame(one, "dir/a", "", "1-1:before 2-2:one/0! 3-3:user 4-4:user 5-5:contested 6-6:one/2")
	b.turn(one, func() { b.write("dir/a", "1\none\nnow\n") })
	b.restore(one, &RestoreOptions{Target: "@~1", OnDirty: rollback.Merge})
	b.wantBlame(one, "dir/a", "", "1-1:before 2-2:one/0! 3-3:user 4-4:user 5-5:contested 6-6:one/2")
	b.turn(one, func() { b.write("dir/a", "1\n  one\nnow\n") })
	b.wantBlame(one, "dir/a", "", "1-1:before 2-2:one/4 3-3:user")
	a, err := one.Blame(t.Context(), &BlameOptions{Path: "dir/a", Start: 2, End: 2, IgnoreSpace: true})
	if err != nil || len(a.Ranges) != 1 || a.Lines != 3 || a.Ranges[0].Start != 2 || a.Ranges[0].Owner.Turn != 0 ||
		a.Ranges[0].Owner.Entry != entry {
		t.Errorf("with -w: %+v, %v", a, err)
	}
	for path, want := range map[string]error{"none": ErrUnknown, "dir": ErrNotText, "../x": ErrOutside} {
		if _, err := one.Blame(t.Context(), &BlameOptions{Path: path}); !errors.Is(err, want) {
			t.Errorf("blame %s: %v", path, err)
		}
	}
	for _, lines := range [][2]int{{4, 0}, {3, 2}, {-1, 0}} {
		if _, err := one.Blame(t.Context(), &BlameOptions{Path: "dir/a", Start: lines[0], End: lines[1]}); err == nil {
			t.Errorf("lines %v are told", lines)
		}
	}
}

// What nobody knows is not guessed: of what was pruned, forgotten, or not captured.
func TestBlameWhatIsNotKnown(t *testing.T) {
	vfstest.NeedGone(t)
	b := newBench(t)
	b.git("")
	b.write("a", "1\n")
	b.write("b", "1\n")
	m := b.open("s")
	b.initialize(m)
	for i := range 4 {
		b.turn(m, func() {
			b.write("a", strings.Repeat("x\n", i)+fmt.Sprintf("turn %d\n", i))
			b.write("b", strings.Repeat("y\n", i)+fmt.Sprintf("turn %d\n", i))
		})
	}
	b.wantBlame(m, "a", "", "1-1:s/1 2-2:s/2 3-4:s/3")
	b.git("b\n")
	b.write("b", "y\ny\ny\nturn 3\nnot seen\n")
	b.turn(m, func() {})
	b.wantBlame(m, "b", "", "1-1:s/1 2-2:s/2 3-4:s/3 5-5:unknown")
	b.git("")
	b.turn(m, func() {})
	b.wantBlame(m, "b", "", "1-1:s/1 2-2:s/2 3-4:s/3 5-5:unknown")
	p, err := m.Resolve(t.Context(), "turn:2")
	b.must(err)
	e, err := m.entryAt(t, p.State, "a")
	b.must(err)
	plan, err := retain.PlanForget(t.Context(), m.store, &retain.ForgetOptions{Blobs: []store.ID{e.ID}})
	b.must(err)
	_, err = plan.Do(t.Context())
	b.must(err)
	b.wantBlame(m, "a", "", "1-1:s/1 2-4:unknown")
	b.prune(m.store, &retain.Retention{KeepLast: 4})
	b.wantBlame(m, "a", "", "1-1:pruned 2-4:unknown")
}

// A file that a restore has brought back has no line of the restore's, if what it was before was
// pruned; and one of which the store has forgotten the content is on the disk.
func TestBlameBehindRestores(t *testing.T) {
	vfstest.NeedGone(t)
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1\n2\n") })
	b.turn(m, func() { b.remove("a") })
	_, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"turn:1"}})
	b.must(err)
	for i := range 3 {
		b.turn(m, func() { b.write("other", fmt.Sprint(i)) })
	}
	b.wantBlame(m, "a", "", "1-2:s/0")
	p, err := m.Resolve(t.Context(), "@")
	b.must(err)
	e, err := m.entryAt(t, p.State, "a")
	b.must(err)
	b.prune(m.store, &retain.Retention{KeepLast: 4})
	b.wantBlame(m, "a", "", "1-2:pruned")
	plan, err := retain.PlanForget(t.Context(), m.store, &retain.ForgetOptions{Blobs: []store.ID{e.ID}})
	b.must(err)
	_, err = plan.Do(t.Context())
	b.must(err)
	b.wantBlame(m, "a", "", "1-2:pruned")
}

// A line that a restore has taken along to where a file was before is whose it was, however little
// else of that file it has left.
func TestBlameBehindMovingRestore(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", numbered(nil))
	b.initialize(m)
	turns := make(map[int]string)
	for i := range 9 {
		turns[i] = fmt.Sprint("turn ", i)
	}
	b.turn(m, func() { b.remove("a"); b.write("b", numbered(nil)) })
	b.turn(m, func() { b.write("b", numbered(turns)) })
	b.write("b", numbered(turns)+"user\n")
	b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	b.expectFiles(files{"a": numbered(nil) + "user\n"})
	b.wantBlame(m, "a", "", "1-10:before 11-11:user")
}

// A line that a restore has taken along is nobody's that is known, and not the restore's, once
// the content of the file from which it came is forgotten.
func TestBlameBehindForgottenMove(t *testing.T) {
	vfstest.NeedGone(t)
	b := newBench(t)
	m := b.open("s")
	b.write("a", numbered(nil))
	b.initialize(m)
	b.turn(m, func() { b.remove("a"); b.write("b", numbered(map[int]string{1: "turn"})) })
	b.write("b", numbered(map[int]string{1: "turn", 5: "user"}))
	b.initialize(m) // a look sees it
	b.revert(m, "0")
	b.expectFiles(files{"a": numbered(map[int]string{5: "user"})})
	b.wantBlame(m, "a", "", "1-5:before 6-6:user 7-10:before")
	id := object.Hash(object.Blob, []byte(numbered(map[int]string{1: "turn", 5: "user"})))
	plan, err := retain.PlanForget(t.Context(), m.store, &retain.ForgetOptions{Blobs: []store.ID{id}})
	b.must(err)
	_, err = plan.Do(t.Context())
	b.must(err)
	b.wantBlame(m, "a", "", "1-5:before 6-6:unknown 7-10:before")
}

// A manager that only looks, as that of the command, keeps lines, too.
func TestBlameKeptByReaders(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "0\n")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "0\n1\n") })
	r := b.open("s", func(o *Options) { o.ReadOnly = true })
	want := b.blame(r, "a", "")
	kept := blame.Read(r.store.FS(), r.place(), "a")
	if kept == nil || len(kept.Versions) != 2 {
		t.Fatalf("kept: %+v", kept)
	}
	if diff := cmp.Diff(want, b.blame(m, "a", "")); diff != "" {
		t.Errorf("of what was kept (-want +got):\n%s", diff)
	}
}

// Whatever is in the place of what was kept, the answer is the same.
func TestBlameKept(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "0\n")
	b.initialize(m)
	for i := range 30 {
		b.turn(m, func() { b.write("a", strings.Repeat("x\n", i%7)+fmt.Sprint(i, "\n")+strings.Repeat("y\n", i%5)) })
	}
	want := b.blame(m, "a", "")
	names, err := filepath.Glob(filepath.Join(b.stores, "*", string(m.place().Blame()), "*"))
	b.must(err)
	kept := ""
	for _, name := range names {
		if filepath.Base(name) != "lock" {
			kept = name
		}
	}
	good, err := os.ReadFile(kept)
	b.must(err)
	other := newBench(t)
	o := other.open("s")
	other.write("a", "0\n")
	other.initialize(o)
	other.turn(o, func() { other.write("a", "elsewhere\n") })
	other.blame(o, "a", "")
	names, err = filepath.Glob(filepath.Join(other.stores, "*", string(o.place().Blame()), filepath.Base(kept)))
	b.must(err)
	foreign, err := os.ReadFile(names[0])
	b.must(err)
	bad := map[string][]byte{"empty": {}, "of another store": foreign, "whole": good}
	for at := 0; at < len(good); at += 1 + len(good)/50 {
		flipped := append([]byte(nil), good...)
		flipped[at] ^= 4
		bad[fmt.Sprint("cut at ", at)], bad[fmt.Sprint("flipped at ", at)] = good[:at], flipped
	}
	check := func(name string) {
		t.Helper()
		if diff := cmp.Diff(want, b.blame(m, "a", "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, content := range bad {
		b.must(os.WriteFile(kept, content, 0o600))
		check(name)
	}
	b.must(os.Remove(kept))
	b.must(os.Mkdir(kept, 0o700))
	check("a directory")
	b.must(os.RemoveAll(filepath.Dir(kept)))
	b.must(os.WriteFile(filepath.Dir(kept), nil, 0o600))
	check("a file in the place of the directory")
}
