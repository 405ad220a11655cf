package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A bench is a directory that is watched.
type bench struct {
	*testing.T
	dir string
	w   *Watcher
}

func newBench(t *testing.T, dirs ...string) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir()}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(b.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.w, err = New(b.dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.w.Close() })
	for _, d := range append([]string{""}, dirs...) {
		if err := b.add(d); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) add(dir string) error {
	f, err := os.Open(filepath.Join(b.dir, dir))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	return b.w.Add(dir, int(f.Fd()))
}

// expect takes the changes, which must be some: names that are touched, with a
// slash where all below is.
func (b *bench) expect(what string, want ...string) {
	b.Helper()
	got := make(map[string]bool)
	var walk func(path string, c *Changes)
	walk = func(path string, c *Changes) {
		switch {
		case c == nil:
			return
		case c.Whole:
			got[path+"/"] = true
		case c.Touched:
			got[path] = true
		}
		for name, below := range c.Names {
			walk(strings.TrimPrefix(path+"/"+name, "/"), below)
		}
	}
	walk("", b.w.Take())
	b.w.Looked()
	for _, w := range want {
		if !got[w] {
			b.Errorf("%s: %q is not told of: %v", what, w, got)
		}
		delete(got, w)
	}
	if len(got) > 0 {
		b.Errorf("%s: told of %v, too", what, got)
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func TestEvents(t *testing.T) {
	b := newBench(t, "d", "d/sub", "e")
	p := func(name string) string { return filepath.Join(b.dir, name) }
	b.expect("nothing")
	b.must(os.WriteFile(p("d/f"), []byte("x"), 0o644))
	b.expect("a file", "d/f")
	b.must(os.Chmod(p("d/f"), 0o600))
	b.expect("its mode", "d/f")
	b.must(os.Chmod(p("d/sub"), 0o700))
	b.expect("a directory's mode", "d/sub")
	b.must(os.Rename(p("d/f"), p("e/g")))
	b.expect("a file moves", "d/f", "e/g")
	b.must(os.Mkdir(p("new"), 0o755))
	b.expect("a directory", "new/")
	b.must(os.WriteFile(p("new/f"), nil, 0o644)) // not watched yet
	b.expect("what nobody watches")
	b.must(os.Rename(p("d"), p("moved")))
	b.expect("a directory moves", "d/", "moved/")
	if n := b.w.Stats().Directories; n != 2 {
		t.Errorf("%d directories are watched after two of them moved, want 2", n)
	}
	b.must(b.add("moved"))
	b.must(b.add("moved/sub"))
	b.must(os.WriteFile(p("moved/sub/f"), nil, 0o644))
	b.expect("a file in what was moved", "moved/sub/f")
	b.must(os.RemoveAll(p("moved")))
	b.expect("what goes", "moved/")
	if n := b.w.Stats().Directories; n != 2 {
		t.Errorf("%d directories are watched after two went, want 2", n)
	}
}

// A directory that is moved while it is looked at is found at its new place.
func TestMovedMeanwhile(t *testing.T) {
	b := newBench(t, "d")
	p := func(name string) string { return filepath.Join(b.dir, name) }
	b.must(os.Rename(p("d"), p("moved")))
	b.must(b.add("moved")) // by whoever walks, before the event was read
	b.expect("the move", "d/", "moved/")
	b.must(b.add("moved"))
	b.must(os.WriteFile(p("moved/f"), nil, 0o644))
	b.expect("a file", "moved/f")
}

func TestReturn(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.dir, "a"), nil, 0o644))
	c := b.w.Take()
	b.must(os.WriteFile(filepath.Join(b.dir, "b"), nil, 0o644))
	b.w.Return(c)
	b.expect("both", "a", "b")
	b.w.Doubt()
	b.expect("doubt", "/")
}

// TestOverflow: the system loses events when nobody reads them.
func TestOverflow(t *testing.T) {
	b := newBench(t)
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	b.must(err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	b.must(err)
	if limit > 100_000 {
		t.Skip("too many to lose")
	}
	b.w.mu.Lock() // keeps the reader from reading
	for i := range limit + 10 {
		if err := os.WriteFile(filepath.Join(b.dir, fmt.Sprint(i%100, "-", i%2)), nil, 0o644); err != nil {
			b.w.mu.Unlock()
			t.Fatal(err)
		}
	}
	b.w.mu.Unlock()
	b.expect("too much", "/")
	if n := b.w.Stats().Lost; n == 0 {
		t.Error("nothing counts as lost")
	}
	b.must(os.WriteFile(filepath.Join(b.dir, "after"), nil, 0o644))
	b.expect("after it", "after")
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	w, err := New(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b := &bench{T: t, dir: dir, w: w}
	b.must(os.Mkdir(filepath.Join(dir, "d"), 0o755))
	b.must(b.add(""))
	if err := b.add("d"); err == nil || w.Stats().Refused != 1 {
		t.Errorf("a second watch: %v, %+v", err, w.Stats())
	}
	b.must(b.add("")) // the same again
}

func TestNews(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.dir, "a"), nil, 0o644))
	select {
	case <-b.w.News():
	case <-time.After(10 * time.Second):
		t.Error("no news")
	}
	b.expect("a file", "a")
}
