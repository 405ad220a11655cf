//go:build unix

package capture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/tree"
)

// A linkStory is what somebody does below the root, between two looks.
type linkStory struct {
	name string
	do   func(p *linkPlay)
}

// A linkPlay is where a story happens. Paths are below the root, but those that
// begin with a slash, which are in a directory that nobody watches.
type linkPlay struct {
	t             testing.TB
	root, outside string
	rest          time.Duration // after each deed
	look          func()        // captures
}

func (p *linkPlay) path(name string) string {
	if name[0] == '/' {
		return filepath.Join(p.outside, name)
	}
	return filepath.Join(p.root, name)
}

// must ends a deed.
func (p *linkPlay) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(p.rest)
}

func (p *linkPlay) ln(old, new string) { p.t.Helper(); p.must(os.Link(p.path(old), p.path(new))) }
func (p *linkPlay) mv(old, new string) { p.t.Helper(); p.must(os.Rename(p.path(old), p.path(new))) }
func (p *linkPlay) rm(name string)     { p.t.Helper(); p.must(os.Remove(p.path(name))) }
func (p *linkPlay) file(name string) {
	p.t.Helper()
	write(p.t, p.path(name), "another file")
	p.must(nil)
}
func (p *linkPlay) swap(old, new string) {
	p.t.Helper()
	p.must(swap(p.path(old), p.path(new)))
}

// swap lets two files change places.
func swap(a, b string) error {
	from, err := vfs.OpenDir(filepath.Dir(a))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := vfs.OpenDir(filepath.Dir(b))
	if err != nil {
		return err
	}
	defer to.Close()
	return from.Rename(filepath.Base(a), to, filepath.Base(b), vfs.Exchange)
}

// open opens a file that is there, to write to its end.
func (p *linkPlay) open(name string) *os.File {
	p.t.Helper()
	f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
	p.must(err)
	return f
}

// add writes to the end of a file that is there.
func (p *linkPlay) add(name string) {
	p.t.Helper()
	p.addTo(p.open(name))
}

func (p *linkPlay) addTo(f *os.File) {
	p.t.Helper()
	_, err := f.WriteString("more\n")
	p.must(err)
	p.must(f.Close())
}

// linkStories are ways of writing to the file "a" in a directory through another
// name; b is another file. Each happens in two directories, one after the other:
// what the first has taught the cache must not hide the second.
func linkStories(d, b string) []linkStory {
	a := d + "/a"
	return []linkStory{
		{"ln -f", func(p *linkPlay) { p.ln(a, "tmp"); p.mv("tmp", b); p.add(b) }},
		{"rm and ln", func(p *linkPlay) { p.rm(b); p.ln(a, b); p.add(b) }},
		{"written before it gets the name", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.mv("t", b) }},
		{"comes and goes", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.rm("t") }},
		{"a mode", func(p *linkPlay) { p.ln(a, "t"); p.must(os.Chmod(p.path("t"), 0o600)); p.rm("t") }},
		{"by two names", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.mv("t", "e/u"); p.rm("e/u") }},
		{"written under the second", func(p *linkPlay) { p.ln(a, "t"); p.mv("t", "e/u"); p.add("e/u"); p.rm("e/u") }},
		{"replaced", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.file("u"); p.mv("u", "t") }},
		{"replaced by what was there", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.mv(b, "t") }},
		{"gone, and another made", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.rm("t"); p.file("t") }},
		{"a known name, for a moment", func(p *linkPlay) { p.rm(b); p.ln(a, b); p.add(b); p.rm(b); p.file(b) }},
		{"over it and away", func(p *linkPlay) { p.ln(a, "t"); p.mv("t", b); p.add(b); p.file("u"); p.mv("u", b) }},
		{"out of the tree", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.mv("t", "/"+d) }},
		{"out, and in again", func(p *linkPlay) {
			p.ln(a, "t")
			p.mv("t", "/"+d)
			p.add("/" + d)
			p.mv("/"+d, "t")
			p.add("t")
			p.rm("t")
		}},
		{"open when its name goes", func(p *linkPlay) { p.ln(a, "t"); f := p.open("t"); p.rm("t"); p.addTo(f) }},
		{"open when another gets its name", func(p *linkPlay) {
			p.ln(a, "t")
			f := p.open("t")
			p.rm("t")
			p.file("t")
			p.addTo(f)
		}},
		{"open when it is replaced", func(p *linkPlay) { p.ln(a, "t"); f := p.open("t"); p.mv(b, "t"); p.addTo(f) }},
		{"ignored", func(p *linkPlay) { p.ln(a, d+".log"); p.add(d + ".log") }},
		{"ignored, over one", func(p *linkPlay) { p.ln(a, "tmp"); p.mv("tmp", "old.log"); p.add("old.log") }},
		{"ignored, in a new directory", func(p *linkPlay) {
			p.must(os.Mkdir(p.path("new"+d), 0o755))
			p.ln(a, "new"+d+"/t.log")
			p.add("new" + d + "/t.log")
		}},
		{"ignored, comes and goes", func(p *linkPlay) { p.ln(a, d+".log"); p.add(d + ".log"); p.rm(d + ".log") }},
		{"in a directory that is ignored now", func(p *linkPlay) {
			p.ln(a, "e/x/t")
			p.add("e/x/t")
			write(p.t, p.path("e/.booignore"), "x/\n")
		}},
		{"written late", func(p *linkPlay) {
			p.ln("b3", "pair"+d) // the directory is in doubt
			p.mv(b, "t")
			f := p.open("t")
			p.ln("t", "e/u")
			p.rm("t")
			p.look()
			p.addTo(f)
		}},
		{"in a directory that moves", func(p *linkPlay) {
			p.ln(a, "e/t")
			p.add("e/t")
			p.mv("e",
				"e2")
			p.rm("e2/t")
		}},
		{"in a directory that moves, written there", func(p *linkPlay) {
			p.ln(a, "e/t")
			p.mv("e", "e2")
			p.add("e2/t")
			p.rm("e2/t")
		}},
		{"in a directory that leaves", func(p *linkPlay) { p.ln(a, "e/t"); p.add("e/t"); p.mv("e", "/e"+d) }},
		{"in a directory that goes", func(p *linkPlay) {
			p.ln(a,
				"e/t")
			p.add("e/t")
			p.must(os.RemoveAll(p.path("e")))
		}},
		{"changes places", func(p *linkPlay) { p.ln(a, "t"); p.swap("t", b); p.add(b) }},
		{"changes places, and goes", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.swap("t", b); p.rm(b) }},
		{"changes places, is written, and goes", func(p *linkPlay) { p.ln(a, "t"); p.swap("t", b); p.add(b); p.rm(b) }},
		{"there and back", func(p *linkPlay) { p.ln(a, "t"); p.add("t"); p.mv("t", "u"); p.mv("u", "t"); p.rm("t") }},
		{"written late, and the name is another's", func(p *linkPlay) {
			f := p.open(a)
			p.ln(a, "e/u")
			p.mv(b, a)
			p.look()
			p.addTo(f)
		}},
		{"written late, where another pair is", func(p *linkPlay) {
			p.ln(d+"/z", d+"/pair")
			f := p.open(a)
			p.ln(a, "e/u")
			p.mv(b, a)
			p.look()
			p.addTo(f)
		}},
		{"grows too large", func(p *linkPlay) { p.ln(a, "t"); p.must(os.Truncate(p.path("t"), 1<<20)) }},
	}
}

// What is written to a file through a name that it was given since the last look
// is captured, also if the name is another file's, or does not stay.
func TestResidentLinks(t *testing.T) {
	opts := &Options{Limits: tree.Limits{FileSize: 1 << 16}}
	for i := range linkStories("", "") {
		t.Run(linkStories("", "")[i].name, func(t *testing.T) {
			t.Parallel()
			// The watcher has not yet read of the link when more happens, or has.
			for _, rest := range []time.Duration{0, 5 * time.Millisecond} {
				p := &linkPlay{t: t, root: t.TempDir(), outside: t.TempDir()}
				for _, name := range []string{"d/a", "d/z", "d2/a", "d2/z", "b", "b2", "b3", "e/x/c", "old.log"} {
					p.file(name)
				}
				write(t, p.path(".booignore"), "*.log\n")
				s := openStore(t, vfstest.NewMem())
				ws := openResident(t, s, p.root, 0)
				bare := openWorkspace(t, s, p.root)
				bare.store = nil
				p.look = func() { snapshot(t, s, ws, opts) }
				p.look()
				for n, d := range []string{"d", "d2"} {
					settle() // what was captured need not be read again
					p.look()
					if n > 0 {
						for _, name := range []string{"e", "e2", "t"} {
							p.must(os.RemoveAll(p.path(name)))
						}
						p.file("e/x/c")
						write(t, p.path("b2"), "there")
						write(t, p.path(".booignore"), "*.log\n")
						p.look()
						settle()
						p.look()
					}
					story := linkStories(d, []string{"b", "b2"}[n])[i]
					p.rest = rest
					story.do(p)
					p.rest = 0
					got := snapshot(t, s, ws, opts)
					g := trees.NewOverlay(s)
					want, err := bare.Capture(t.Context(), g, opts)
					if err != nil {
						t.Fatal(err)
					}
					sameResult(t, fmt.Sprintf("%s, rest %v", d, rest), g, got, want)
				}
			}
		})
	}
}

// What files without other names go through makes nobody look at all files.
func TestResidentNoLinks(t *testing.T) {
	for _, c := range []linkStory{
		{"made", func(p *linkPlay) { p.file("new") }},
		{"written", func(p *linkPlay) { p.add("b") }},
		{"replaced", func(p *linkPlay) { p.file("tmp"); p.mv("tmp", "b") }},
		{"replaced twice", func(p *linkPlay) { p.file("tmp"); p.mv("tmp", "b"); p.file("tmp"); p.mv("tmp", "b") }},
		{"moved", func(p *linkPlay) { p.mv("b", "e/b"); p.add("e/b"); p.mv("e/b", "b") }},
		{"written and gone", func(p *linkPlay) { p.add("b"); p.rm("b"); p.file("b") }},
		{"a file for a moment", func(p *linkPlay) { p.file("tmp"); p.add("tmp"); p.rm("tmp") }},
		{"a lock", func(p *linkPlay) { p.file("tmp"); p.ln("tmp", "lock"); p.rm("tmp"); p.rm("lock") }},
		{"as a restore does it", func(p *linkPlay) { p.file("tmp"); p.swap("tmp", "b"); p.rm("tmp") }},
		{"a directory for a moment", func(p *linkPlay) { p.file("new/f"); p.rm("new/f"); p.rm("new") }},
		{"ignored", func(p *linkPlay) { p.file("t.log"); p.add("t.log"); p.mv("t.log", "old.log"); p.rm("old.log") }},
		{"a link", func(p *linkPlay) { p.must(os.Symlink("b", p.path("s"))); p.add("s"); p.rm("s") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &linkPlay{t: t, root: t.TempDir(), outside: t.TempDir(), rest: 20 * time.Millisecond}
			for _, name := range []string{"d/a", "b", "e/c", "old.log"} {
				p.file(name)
			}
			write(t, p.path(".booignore"), "*.log\n")
			s := openStore(t, vfstest.NewMem())
			ws := openResident(t, s, p.root, 0)
			snapshot(t, s, ws, nil)
			full := int64(0)
			const rounds = 5
			for range rounds {
				before := ws.WatchStats().Full
				c.do(p)
				got := snapshot(t, s, ws, nil)
				want, g := scratch(t, s, p.root)
				sameResult(t, c.name, g, got, want)
				full += ws.WatchStats().Full - before
				write(t, p.path("b"), "there")
				os.Remove(p.path("new"))
				snapshot(t, s, ws, nil)
			}
			if full > 1 { // the watcher may not run in time, once
				t.Errorf("%d of %d captures looked at all files", full, rounds)
			}
		})
	}
}

// TestResidentLinksWild plays with names of a few files at random, also while they
// are captured, and requires that each quiet capture is as one from scratch.
func TestResidentLinksWild(t *testing.T) {
	r := testseed.Rand(t)
	p := &linkPlay{t: t, root: t.TempDir(), outside: t.TempDir()}
	dirs := []string{"", "d/", "d/e/", "f/"}
	for i := range 8 {
		for _, d := range dirs {
			p.file(fmt.Sprint(d, i))
		}
	}
	write(t, p.path(".booignore"), "*5\n")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, p.root, 0)
	snapshot(t, s, ws, nil)
	skipped := int64(0)
	for until, round := time.Now().Add(*wildTime), 0; time.Now().Before(until); round++ {
		var done sync.WaitGroup
		for range 2 {
			seed := r.Uint64()
			done.Go(func() {
				mine := rand.New(rand.NewPCG(seed, seed))
				for range mine.IntN(7) {
					playLinks(mine, p.root, dirs)
				}
			})
		}
		for range r.IntN(3) {
			if _, err := trySnapshot(t.Context(), s, ws, nil); err != nil {
				t.Fatal(err)
			}
		}
		done.Wait()
		got := allSnapshot(t, s, ws)
		want, g := scratch(t, s, p.root)
		sameResult(t, fmt.Sprint("round ", round), g, got, want)
		st := ws.WatchStats()
		skipped = st.Captures - st.Full
	}
	t.Logf("%+v", ws.WatchStats())
	if skipped == 0 {
		t.Error("no capture skipped anything")
	}
}

// playLinks does something with names of files in dirs, which end with a slash.
// Others may do so, too.
func playLinks(r *rand.Rand, root string, dirs []string) {
	name := func() string {
		return filepath.Join(root, dirs[r.IntN(len(dirs))]+fmt.Sprint(r.IntN(10)))
	}
	a, b := name(), name()
	switch r.IntN(12) {
	case 0, 1:
		os.WriteFile(a, []byte(fmt.Sprint(r.Uint64())), 0o644)
	case 2: // ln
		os.Link(a, b)
	case 3: // ln -f
		tmp := name() + "tmp"
		os.Link(a, tmp)
		os.Rename(tmp, b)
	case 4: // a name that comes and goes
		tmp := name() + "tmp"
		if os.Link(a, tmp) == nil {
			if r.IntN(2) == 0 {
				os.Chmod(tmp, []os.FileMode{0o600, 0o755}[r.IntN(2)])
			} else {
				os.WriteFile(tmp, []byte(fmt.Sprint(r.Uint64())), 0o644)
			}
			if r.IntN(2) == 0 {
				os.Rename(tmp, b)
			}
			os.Remove(tmp)
		}
	case 5: // under a name that is gone
		tmp := name() + "tmp"
		if os.Link(a, tmp) == nil {
			f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_APPEND, 0)
			os.Remove(tmp)
			if err == nil {
				f.WriteString("late\n")
				f.Close()
			}
		}
	case 6, 7:
		os.Rename(a, b)
	case 8:
		os.Remove(a)
	case 9: // as an editor saves
		tmp := name() + "tmp"
		os.WriteFile(tmp, []byte(fmt.Sprint(r.Uint64())), 0o644)
		os.Rename(tmp, b)
	case 10:
		swap(a, b)
	case 11:
		f, err := os.OpenFile(a, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			os.Rename(a, b)
			f.WriteString("more\n")
			f.Close()
		}
	}
}
