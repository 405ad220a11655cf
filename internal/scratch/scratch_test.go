package scratch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A memory is a store in memory.
type memory map[store.ID][]byte

func (m memory) Put(kind object.Kind, content []byte) (store.ID, error) {
	id := object.Hash(kind, content)
	m[id] = slices.Clone(content)
	return id, nil
}

func (m memory) Get(_ context.Context, _ object.Kind, id store.ID) ([]byte, error) {
	content, ok := m[id]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", id.Short(), store.ErrNotFound)
	}
	return content, nil
}

func (m memory) CopyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error) {
	content, err := m.Get(ctx, object.Blob, id)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(content)
	return int64(n), err
}

// A bench is a store and a scratch directory.
type bench struct {
	*testing.T
	memory
	path string // of the scratch directory
	*Dir
}

func newBench(t *testing.T) *bench {
	if runtime.GOOS == "windows" {
		t.Skip("permission bits and links are others on Windows")
	}
	b := &bench{T: t, memory: make(memory), path: filepath.Join(t.TempDir(), "scratch")}
	t.Cleanup(func() {
		if err := Remove(b.path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(b.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the scratch directory is there still: %v", err)
		}
	})
	b.open(store.ID{})
	return b
}

func (b *bench) open(at store.ID) {
	b.Helper()
	var err error
	if b.Dir, err = Open(b.Context(), b.path, b.memory, at); err != nil {
		b.Fatal(err)
	}
}

// A world is a directory: by path "file 644 content", "dir 755" or "link target". What is
// above a path and is not named has mode 755.
type world map[string]string

// put stores a world.
func (b *bench) put(w world) store.ID { return b.putDir(w, "") }

func (b *bench) putDir(w world, dir string) store.ID {
	b.Helper()
	entries := make(map[string]tree.Entry)
	for path, text := range w {
		rest := path
		if dir != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(path, dir+"/"); !ok {
				continue
			}
		}
		name, _, isBelow := strings.Cut(rest, "/")
		full := trees.Join(dir, name)
		if _, done := entries[name]; done {
			continue
		}
		if isBelow {
			if text = w[full]; text == "" {
				text = "dir 755"
			}
		}
		entries[name] = b.entry(w, full, name, text)
	}
	id, err := trees.Put(b.memory, slices.SortedFunc(maps.Values(entries), func(x, y tree.Entry) int {
		return strings.Compare(x.Name, y.Name)
	}))
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func (b *bench) entry(w world, path, name, text string) tree.Entry {
	b.Helper()
	kind, rest, _ := strings.Cut(text, " ")
	var perm tree.Mode
	switch kind {
	case "dir":
		fmt.Sscanf(rest, "%o", &perm)
		return tree.Entry{Name: name, Mode: tree.ModeDir | perm, ID: b.putDir(w, path)}
	case "link":
		perm, kind = 0o777, rest
	default:
		text, content, _ := strings.Cut(rest, " ")
		fmt.Sscanf(text, "%o", &perm)
		kind = content
	}
	id, err := b.Put(object.Blob, []byte(kind))
	if err != nil {
		b.Fatal(err)
	}
	mode := tree.ModeFile
	if strings.HasPrefix(text, "link ") {
		mode = tree.ModeSymlink
	}
	return tree.Entry{Name: name, Mode: mode | perm, Size: int64(len(kind)), ID: id}
}

// read reads a directory.
func read(t testing.TB, dir string) world {
	t.Helper()
	w := make(world)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, content := strings.TrimPrefix(p, dir+"/"), []byte(nil)
		switch {
		case fi.IsDir():
			w[rel] = fmt.Sprintf("dir %o", fi.Mode().Perm())
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			w[rel] = "link " + target
			return err
		default:
			if content, err = os.ReadFile(p); err == nil {
				w[rel] = fmt.Sprintf("file %o %s", fi.Mode().Perm(), content)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// become makes the directory a world, and checks that it is all there.
func (b *bench) become(w world, opts *Options) *Change {
	b.Helper()
	c, err := b.Become(b.Context(), b.memory, b.put(w), opts)
	if err != nil {
		b.Fatal(err)
	}
	got := read(b, b.Tree())
	for path, want := range w {
		if got[path] != want {
			b.Errorf("%q is %q, want %q", path, got[path], want)
		}
	}
	return c
}

func (b *bench) join(path string) string { return filepath.Join(b.Tree(), path) }

func (b *bench) writeFile(path, content string) {
	b.Helper()
	if err := os.WriteFile(b.join(path), []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

// TestSteps: only what differs is written, what was changed is put back, what a command
// has made stays.
func TestSteps(t *testing.T) {
	b := newBench(t)
	one := world{"a": "file 644 one", "d/b": "file 755 two", "d/l": "link b", "e": "dir 755", "gone/x": "file 644 x"}
	if c := b.become(one, nil); c.Files != 4 || c.Bytes != 7 || c.PutBack != 0 {
		t.Errorf("first state: %+v", c)
	}
	if c := b.become(one, nil); c.Files != 0 || c.Removed != 0 {
		t.Errorf("the same again: %+v", c)
	}
	before, err := os.Stat(b.join("d/b"))
	if err != nil {
		t.Fatal(err)
	}
	b.writeFile("d/b.o", "made")
	b.writeFile("a", "two")
	two := world{"a": "file 644 one", "d/b": "file 755 two", "d/l": "link a", "e": "file 644 e"}
	if c := b.become(two, nil); c.Files != 3 || c.Bytes != 4 || c.PutBack != 1 {
		t.Errorf("second state: %+v", c)
	}
	after, err := os.Stat(b.join("d/b"))
	if err != nil || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
		t.Errorf("a file that stayed has another time (%v)", err)
	}
	got := read(t, b.Tree())
	if got["d/b.o"] != "file 644 made" {
		t.Error("what a command has made is gone")
	}
	if _, there := got["gone"]; there {
		t.Error("a directory stays of which nothing is left")
	}
	if err := errors.Join(os.Chmod(b.join("d/b"), 0o700), os.Chmod(b.join("d"), 0o711)); err != nil {
		t.Fatal(err)
	}
	two["d"] = "dir 755"
	if c := b.become(two, nil); c.Files != 1 || c.PutBack != 1 {
		t.Errorf("other permission bits: %+v", c)
	}
	if c := b.become(two, &Options{Clean: true}); c.Removed != 1 || read(t, b.Tree())["d/b.o"] != "" {
		t.Errorf("clean: %+v", c)
	}
}

// TestLater: what is written has a later time than what a command made before.
func TestLater(t *testing.T) {
	b := newBench(t)
	b.become(world{"a": "file 644 0"}, nil)
	for i := range 20 {
		b.writeFile("product", "made")
		b.become(world{"a": fmt.Sprintf("file 644 %d", i+1)}, nil)
		source, err := os.Stat(b.join("a"))
		if err != nil {
			t.Fatal(err)
		}
		product, err := os.Stat(b.join("product"))
		if err != nil {
			t.Fatal(err)
		}
		if !source.ModTime().After(product.ModTime()) {
			t.Fatalf("%d: the source has the time %v, the product %v", i, source.ModTime(), product.ModTime())
		}
	}
}

// TestSameTime: a change of the same size in the same instant is put back. Newer kernels tell
// two such changes apart, so that what is trusted is looked at, too.
func TestSameTime(t *testing.T) {
	b := newBench(t)
	w := world{"a": "file 644 one"}
	for range 20 {
		b.become(w, nil)
		clock, err := os.Lstat(filepath.Join(b.path, clockName))
		if err != nil {
			t.Fatal(err)
		}
		if trusted := b.root.names["a"].stat; trusted.Ctime >= clock.ModTime().UnixNano() {
			t.Fatal("a file is trusted that may change again at the time that it has")
		}
		f, err := os.OpenFile(b.join("a"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("two")
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if c := b.become(w, nil); c.PutBack != 1 {
			t.Fatalf("not put back: %+v", c)
		}
	}
}

// TestOutside: whatever a command puts in the place of what was there, nothing outside is
// written or removed.
func TestOutside(t *testing.T) {
	b := newBench(t)
	user := t.TempDir()
	theirs := world{"f": "file 644 theirs", "d/f": "file 644 theirs", "d/x": "file 644 x"}
	for path, text := range theirs {
		os.MkdirAll(filepath.Dir(filepath.Join(user, path)), 0o755)
		if err := os.WriteFile(filepath.Join(user, path), []byte(text[len("file 644 "):]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := read(t, user)
	states := []world{
		{"f": "file 644 one", "d/f": "file 644 one", "d/x": "file 644 1", "s/d/f": "file 644 one"},
		{"f": "file 644 two", "d/f": "file 644 two", "s/d/f": "file 644 two"},
		{"d": "file 644 three"},
		{},
	}
	swap := func(name, target string) {
		if err := errors.Join(os.RemoveAll(b.join(name)), os.Symlink(target, b.join(name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range states {
		for _, to := range states {
			for _, clean := range []bool{false, true} {
				b.become(from, nil)
				swap("d", filepath.Join(user, "d"))
				swap("f", filepath.Join(user, "f"))
				swap("s", user)
				swap("other", user)
				b.become(to, &Options{Clean: clean})
				if _, err := os.Lstat(b.join("s")); isAbove(from, "s") && !isAbove(to, "s") && err == nil {
					t.Fatalf("from %v to %v: the link that a command made of a directory stays", from, to)
				}
				if diff := cmp.Diff(before, read(t, user)); diff != "" {
					t.Fatalf("from %v to %v: the user's directory has changed:\n%s", from, to, diff)
				}
			}
		}
	}
	// A file that the command has linked from outside is another after it was put back.
	b.become(states[0], nil)
	os.Remove(b.join("f"))
	if err := os.Link(filepath.Join(user, "f"), b.join("f")); err != nil {
		t.Fatal(err)
	}
	b.become(states[1], nil)
	if diff := cmp.Diff(before, read(t, user)); diff != "" {
		t.Fatalf("hard link: %s", diff)
	}
}

func TestLinks(t *testing.T) {
	b := newBench(t)
	user := t.TempDir()
	links := &Options{Clean: true, Links: map[string]string{"web/node_modules": user}}
	for _, w := range []world{{"a": "file 644 a"}, {"web/b": "file 644 b"}, {"a": "file 644 a"}} {
		b.become(w, links)
		if got, err := os.Readlink(b.join("web/node_modules")); got != user || err != nil {
			t.Fatalf("link: %q, %v", got, err)
		}
	}
	_, err := b.Become(t.Context(), b.memory, b.put(world{"web/node_modules/x": "file 644 x"}), links)
	if !errors.Is(err, ErrCaptured) {
		t.Fatalf("a link in the place of what was captured: %v", err)
	}
	if names, err := os.ReadDir(user); len(names) != 0 || err != nil {
		t.Fatalf("the directory that is linked to holds %v (%v)", names, err)
	}
}

// TestMissing: what the store does not have is said, and a later state is whole.
func TestMissing(t *testing.T) {
	b := newBench(t)
	lost := object.Hash(object.Blob, []byte("lost"))
	file, err := b.Put(object.Blob, []byte("there"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := trees.Put(b.memory, []tree.Entry{{Name: "lost", Mode: tree.ModeFile | 0o644, Size: 4, ID: lost},
		{Name: "other", Mode: tree.ModeFile | 0o644, Size: 5, ID: file},
		{Name: "sub", Mode: tree.ModeDir | 0o755, ID: object.Hash(object.Tree, []byte("lost"))}})
	if err != nil {
		t.Fatal(err)
	}
	b.become(world{"lost": "file 644 was", "sub/x": "file 644 x"}, nil)
	for range 2 {
		c, err := b.Become(t.Context(), b.memory, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Missing) != 2 || c.Missing[0].Path != "lost" || c.Missing[1].Path != "sub" {
			t.Fatalf("missing: %+v", c.Missing)
		}
	}
	if got := read(t, b.Tree()); got["lost"] != "" || got["other"] != "file 644 there" {
		t.Errorf("with something lost it holds %q", got)
	}
	b.become(world{"lost": "file 644 was", "sub/x": "file 644 y"}, nil)
}

// TestReopened: another process goes on, by the contents alone.
func TestReopened(t *testing.T) {
	b := newBench(t)
	w := world{"a": "file 644 one", "b": "file 644 two", "d/c": "file 600 three"}
	b.become(w, nil)
	b.writeFile("b", "xxx")
	b.open(b.put(w))
	if c := b.become(w, nil); c.Files != 1 || c.PutBack != 1 {
		t.Errorf("it was written again: %+v", c)
	}
	b.open(b.put(w))
	b.become(world{"b": "file 644 two"}, nil)
	if diff := cmp.Diff(world{"b": "file 644 two"}, read(t, b.Tree())); diff != "" {
		t.Error(diff)
	}
}

// TestRandom meddles with the directory at random between states, beside a model: what is
// captured is as the state has it, what is not stays unless it is in the way, and files that
// are the same in both states and that nobody has touched keep their inode and time.
func TestRandom(t *testing.T) {
	b, rnd := newBench(t), testseed.Rand(t)
	was := world{}
	for i := range 200 {
		w := randomWorld(rnd)
		stamps := stamps(b.Tree())
		extra := b.meddle(rnd)
		for path := range extra.touched {
			delete(stamps, path)
		}
		clean := rnd.IntN(4) == 0
		b.become(w, &Options{Clean: clean})
		got := read(t, b.Tree())
		for path := range got {
			if _, ok := w[path]; !ok && clean && !isAbove(w, path) {
				t.Fatalf("%d: %q stays", i, path)
			}
		}
		for path, text := range extra.made {
			if !clean && !inTheWay(w, was, path) && got[path] != text {
				t.Fatalf("%d: %q, which a command made, is %q, want %q", i, path, got[path], text)
			}
		}
		for path, fi := range stamps {
			if was[path] != w[path] || !strings.HasPrefix(w[path], "file ") {
				continue
			}
			now, err := os.Lstat(b.join(path))
			if err != nil || !os.SameFile(now, fi) || !now.ModTime().Equal(fi.ModTime()) {
				t.Fatalf("%d: %q was written again (%v)", i, path, err)
			}
		}
		if t.Failed() {
			t.Fatalf("state %d", i)
		}
		was = w
	}
}

func isAbove(w world, dir string) bool {
	for path := range w {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// inTheWay reports whether a state needs the place of a path, or the one before had it.
func inTheWay(w, was world, path string) bool {
	for p := path; p != "."; p = filepath.Dir(p) {
		for _, w := range []world{w, was} {
			if text, ok := w[p]; ok && (p == path || !strings.HasPrefix(text, "dir ")) {
				return true
			}
		}
	}
	return isAbove(w, path) || isAbove(was, path)
}

func randomPath(rnd *rand.Rand) string {
	names := []string{"a", "b", "c"}
	path := names[rnd.IntN(3)]
	for rnd.IntN(2) == 0 && len(path) < 7 {
		path += "/" + names[rnd.IntN(3)]
	}
	return path
}

func randomWorld(rnd *rand.Rand) world {
	w := make(world)
	for range rnd.IntN(12) {
		path := randomPath(rnd)
		if isAbove(w, path) || inTheWay(w, nil, path) {
			continue
		}
		switch rnd.IntN(8) {
		case 0:
			w[path] = "link " + []string{"a", "../b", "/"}[rnd.IntN(3)]
		case 1:
			w[path] = fmt.Sprintf("dir %o", []int{0o755, 0o700, 0o555}[rnd.IntN(3)])
		default:
			w[path] = fmt.Sprintf("file %o %d", []int{0o644, 0o755, 0o444}[rnd.IntN(3)], rnd.IntN(3))
		}
	}
	return w
}

func stamps(dir string) map[string]fs.FileInfo {
	list := make(map[string]fs.FileInfo)
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list[strings.TrimPrefix(p, dir+"/")], err = d.Info()
		}
		return err
	})
	return list
}

// meddled is what was done to a directory.
type meddled struct {
	touched map[string]bool
	made    world // names that are no paths of any state
}

// meddle does what commands do.
func (b *bench) meddle(rnd *rand.Rand) *meddled {
	m := &meddled{make(map[string]bool), make(world)}
	touch := func(path string) {
		for p := range stamps(b.Tree()) {
			if p == path || strings.HasPrefix(p, path+"/") {
				m.touched[p] = true
			}
		}
		for p := range m.made {
			if strings.HasPrefix(p, path+"/") {
				delete(m.made, p)
			}
		}
		m.touched[path] = true
	}
	for range rnd.IntN(6) {
		path := randomPath(rnd)
		full := b.join(path)
		if !hasRealParents(b.Tree(), path) {
			continue
		}
		fi, err := os.Lstat(full)
		isFile := err == nil && fi.Mode().IsRegular()
		switch rnd.IntN(7) {
		case 0:
			touch(path)
			os.RemoveAll(full)
		case 1:
			if isFile {
				touch(path)
				os.WriteFile(full, []byte("9"), 0o644)
			}
		case 2: // the same size and the same time
			if isFile {
				touch(path)
				os.WriteFile(full, []byte("8"), 0o644)
				os.Chtimes(full, time.Time{}, fi.ModTime())
			}
		case 3:
			if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
				touch(path)
				os.Chmod(full, 0o711)
			}
		case 4:
			touch(path)
			os.RemoveAll(full)
			os.MkdirAll(filepath.Join(full, "inside"), 0o755)
		case 5:
			touch(path)
			os.RemoveAll(full)
			os.Symlink("/", full)
		case 6:
			made := "made-" + fmt.Sprint(rnd.IntN(3))
			if p := filepath.Dir(path); p != "." {
				made = p + "/" + made
			}
			if os.WriteFile(b.join(made), []byte("made"), 0o644) == nil {
				m.made[made] = "file 644 made"
			}
		}
	}
	return m
}

// hasRealParents reports whether all above a path are directories, and no links.
func hasRealParents(dir, path string) bool {
	for p := filepath.Dir(path); p != "."; p = filepath.Dir(p) {
		if fi, err := os.Lstat(filepath.Join(dir, p)); err != nil || !fi.IsDir() {
			return false
		}
	}
	return true
}
