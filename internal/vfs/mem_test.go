package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// A script is what a crash test does to a disk.
type script struct {
	t    *testing.T
	fsys vfs.FS
}

func (s script) mkdir(name string)        { s.check(s.fsys.Mkdir(name, 0o700)) }
func (s script) put(name, content string) { put(s.t, s.fsys, name, content) }
func (s script) rename(from, to string)   { s.check(s.fsys.Rename(from, to)) }
func (s script) remove(name string)       { s.check(s.fsys.Remove(name)) }
func (s script) syncDir(name string)      { s.check(s.fsys.SyncDir(name)) }

func (s script) sync(name string) {
	s.t.Helper()
	f, err := s.fsys.OpenFile(name, os.O_RDONLY, 0)
	s.check(err)
	s.check(errors.Join(f.Sync(), f.Close()))
}

// durable writes a file that a crash does not touch, and its directory.
func (s script) durable(dir, name, content string) {
	s.put(dir+"/"+name, content)
	s.sync(dir + "/" + name)
	s.syncDir(dir)
}

func (s script) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// crashTests say which trees a crash may leave. Each begins with the durable,
// empty directories a and b.
var crashTests = []struct {
	name   string
	run    func(s script)
	strict string   // what is left when nothing unsynced survives
	chance []string // what else may be left
}{
	{
		"nothing synced",
		func(s script) { s.put("a/f", "new") },
		"", []string{`a/f=""`, `a/f="n"`, `a/f="ne"`, `a/f="new"`, `a/f="\x00"`, `a/f="\x00\x00"`, `a/f="\x00\x00\x00"`},
	},
	{
		"name not synced",
		func(s script) { s.put("a/f", "new"); s.sync("a/f") },
		"", []string{`a/f="new"`},
	},
	{
		"name synced in another directory",
		func(s script) { s.put("a/f", "new"); s.sync("a/f"); s.syncDir("b"); s.syncDir(".") },
		"", []string{`a/f="new"`},
	},
	{
		"content not synced",
		func(s script) { s.put("a/f", "x"); s.syncDir("a") },
		`a/f=""`, []string{`a/f="x"`, `a/f="\x00"`},
	},
	{
		"both synced",
		func(s script) { s.durable("a", "f", "new") },
		`a/f="new"`, nil,
	},
	{
		"overwritten",
		func(s script) {
			s.durable("a", "f", "o")
			f, err := s.fsys.OpenFile("a/f", os.O_RDWR, 0)
			s.check(err)
			_, err = f.WriteAt([]byte("n"), 0)
			s.check(errors.Join(err, f.Close()))
		},
		`a/f="o"`, []string{`a/f="n"`},
	},
	{
		"truncated and rewritten",
		func(s script) { s.durable("a", "f", "o"); s.put("a/f", "n") },
		`a/f="o"`, []string{`a/f="n"`},
	},
	{
		"truncated",
		func(s script) { s.durable("a", "f", "o"); s.put("a/f", "") },
		`a/f="o"`, []string{`a/f=""`},
	},
	{
		"removed",
		func(s script) { s.durable("a", "f", "x"); s.remove("a/f") },
		`a/f="x"`, []string{""},
	},
	{
		"removed and synced",
		func(s script) { s.durable("a", "f", "x"); s.remove("a/f"); s.syncDir("a") },
		"", nil,
	},
	{
		"removed and created",
		func(s script) { s.durable("a", "f", "o"); s.remove("a/f"); s.put("a/f", "n"); s.sync("a/f") },
		`a/f="o"`, []string{`a/f="n"`},
	},
	{
		"renamed",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "a/g") },
		`a/f="x"`, []string{`a/g="x"`},
	},
	{
		"renamed and synced",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "a/g"); s.syncDir("a") },
		`a/g="x"`, nil,
	},
	{
		"renamed over another",
		func(s script) {
			s.durable("a", "f", "old")
			s.durable("a", "tmp", "new")
			s.rename("a/tmp", "a/f")
		},
		`a/f="old" a/tmp="new"`, []string{`a/f="new"`},
	},
	{
		"renamed over another, content not synced",
		func(s script) {
			s.durable("a", "f", "old")
			s.put("a/tmp", "n")
			s.rename("a/tmp", "a/f")
			s.syncDir("a")
		},
		`a/f=""`, []string{`a/f="n"`, `a/f="\x00"`},
	},
	{
		"moved",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "b/f") },
		`a/f="x"`, []string{`b/f="x"`},
	},
	{
		"moved, new directory synced",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "b/f"); s.syncDir("b") },
		`a/f="x" b/f="x"`, []string{`b/f="x"`},
	},
	{
		"moved, old directory synced",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "b/f"); s.syncDir("a") },
		"", []string{`b/f="x"`},
	},
	{
		"moved, both synced",
		func(s script) { s.durable("a", "f", "x"); s.rename("a/f", "b/f"); s.syncDir("b"); s.syncDir("a") },
		`b/f="x"`, nil,
	},
	{
		"in a new directory",
		func(s script) { s.mkdir("a/sub"); s.durable("a/sub", "f", "x") },
		"", []string{`a/sub/f="x"`},
	},
	{
		"in a new directory, both synced",
		func(s script) { s.mkdir("a/sub"); s.durable("a/sub", "f", "x"); s.syncDir("a") },
		`a/sub/f="x"`, nil,
	},
}

func TestMemAfterCrash(t *testing.T) {
	for _, test := range crashTests {
		t.Run(test.name, func(t *testing.T) {
			m := vfstest.NewMem()
			s := script{t, m}
			s.mkdir("a")
			s.mkdir("b")
			s.syncDir(".")
			test.run(s)
			before := files(t, m)

			crashed := m.AfterCrash(nil)
			if got := files(t, crashed); got != test.strict {
				t.Errorf("nothing unsynced: %s, want %s", got, test.strict)
			}
			// What a boot finds is durable.
			if got := files(t, crashed.AfterCrash(nil)); got != test.strict {
				t.Errorf("after a second crash: %s, want %s", got, test.strict)
			}

			want := map[string]bool{test.strict: true}
			for _, c := range test.chance {
				want[c] = true
			}
			got := make(map[string]bool)
			for seed := range uint64(300) {
				left := m.AfterCrash(rand.New(rand.NewPCG(seed, 0)))
				again := m.AfterCrash(rand.New(rand.NewPCG(seed, 0)))
				if a, b := files(t, left), files(t, again); a != b {
					t.Fatalf("seed %d: %s, then %s", seed, a, b)
				}
				got[files(t, left)] = true
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("by chance (-want +got):\n%s", diff)
			}
			if got := files(t, m); got != before {
				t.Errorf("the crash changed its receiver: %s, want %s", got, before)
			}
		})
	}
}

// files returns all files of fsys with their content.
func files(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	var all []string
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range names(t, fsys, dir) {
			path := strings.TrimPrefix(dir+"/"+name, "./")
			if st, err := fsys.Stat(path); err != nil {
				t.Fatal(err)
			} else if st.Kind == vfs.Directory {
				walk(path)
			} else {
				all = append(all, fmt.Sprintf("%s=%q", path, get(t, fsys, path)))
			}
		}
	}
	walk(".")
	return strings.Join(all, " ")
}

// TestMemTornBlocks checks that blocks of 512 bytes survive on their own.
func TestMemTornBlocks(t *testing.T) {
	const blocks = 4
	m := vfstest.NewMem()
	f := mustOpenFile(t, m, "f", os.O_RDWR|os.O_CREATE)
	write := func(b string, n int) {
		if _, err := f.WriteAt([]byte(strings.Repeat(b, n*512)), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("o", blocks/2)
	if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	write("n", blocks)

	seen := make(map[string]bool)
	for seed := range uint64(2000) {
		data := get(t, m.AfterCrash(rand.New(rand.NewPCG(seed, 0))), "f")
		shape := ""
		for b := range slices.Chunk([]byte(data), 512) {
			if strings.Trim(string(b), string(b[:1])) != "" {
				t.Fatalf("seed %d: a torn block %q", seed, b)
			}
			shape += map[byte]string{'o': "o", 'n': "n", 0: "0"}[b[0]]
		}
		seen[shape] = true
	}
	for _, old := range []string{"oo", "on", "no", "nn"} {
		for _, grown := range []string{"", "0", "n", "00", "0n", "n0", "nn"} {
			if !seen[old+grown] {
				t.Errorf("no crash left %s", old+grown)
			}
			delete(seen, old+grown)
		}
	}
	for shape := range seen {
		t.Errorf("a crash left %s", shape)
	}
}

func TestMemCrashFreesLocks(t *testing.T) {
	m := vfstest.NewMem()
	f := mustOpenFile(t, m, "lock", os.O_RDWR|os.O_CREATE)
	if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	g := mustOpenFile(t, m.AfterCrash(nil), "lock", os.O_RDWR)
	if ok, err := g.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Errorf("TryLock after the crash = %v, %v", ok, err)
	}
	g = mustOpenFile(t, m, "lock", os.O_RDWR)
	if ok, err := g.TryLock(vfs.Exclusive); ok || err != nil {
		t.Errorf("TryLock in the receiver = %v, %v", ok, err)
	}
}

// TestMemTwoNames checks the file that half a rename leaves twice.
func TestMemTwoNames(t *testing.T) {
	m := vfstest.NewMem()
	s := script{t, m}
	s.mkdir("a")
	s.mkdir("b")
	s.syncDir(".")
	s.durable("a", "f", "x")
	s.rename("a/f", "b/f")
	s.syncDir("b")
	m = m.AfterCrash(nil)
	s = script{t, m}
	s.rename("a/f", "b/f") // does nothing, as POSIX has it
	if got, want := files(t, m), `a/f="x" b/f="x"`; got != want {
		t.Errorf("after the rename: %s, want %s", got, want)
	}
	s.remove("a/f")
	if got, want := files(t, m), `b/f="x"`; got != want {
		t.Errorf("after the removal: %s, want %s", got, want)
	}
}

func TestMemTimes(t *testing.T) {
	m := vfstest.NewMem()
	f := mustOpenFile(t, m, "f", os.O_RDWR|os.O_CREATE)
	var last vfs.Stat
	for i, change := range []func() error{
		func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		func() error { return f.Truncate(5) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if st.Mtime <= last.Mtime || st.Ctime <= last.Ctime {
			t.Errorf("change %d: %+v, before %+v", i, st, last)
		}
		last = st
	}
	if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	st, err := m.AfterCrash(nil).Stat("f")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(last, st); diff != "" {
		t.Errorf("after a crash (-before +after):\n%s", diff)
	}
}

func TestMemRenameDirectory(t *testing.T) {
	m := vfstest.NewMem()
	script{t, m}.mkdir("a")
	if err := m.Rename("a", "b"); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("Rename of a directory: %v", err)
	}
	if err := m.Remove("."); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Remove of the root: %v", err)
	}
}

// A disk of a size takes what fits of a write, block by block, and gets room back.
func TestMemSize(t *testing.T) {
	m := vfstest.NewMem()
	if _, _, err := m.Space(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Space without a size: %v", err)
	}
	m.SetSize(3 * vfstest.MemBlock)
	open := func(name string) vfs.File {
		t.Helper()
		f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	free := func(want int64) {
		t.Helper()
		if free, total, err := m.Space(); free != want || total != 3*vfstest.MemBlock || err != nil {
			t.Errorf("Space = %d, %d, %v; want %d", free, total, err, want)
		}
	}
	a, b := open("a"), open("b")
	if _, err := a.WriteAt(make([]byte, vfstest.MemBlock+1), 0); err != nil {
		t.Fatal(err)
	}
	free(vfstest.MemBlock)
	if n, err := b.WriteAt(make([]byte, 2*vfstest.MemBlock), 0); n != vfstest.MemBlock ||
		!errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt = %d, %v; want one block and ENOSPC", n, err)
	}
	free(0)
	if _, err := a.WriteAt(make([]byte, vfstest.MemBlock), vfstest.MemBlock); err != nil {
		t.Errorf("write into the rest of a block, and over what is there: %v", err)
	}
	if err := a.Truncate(2*vfstest.MemBlock + 1); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Truncate: %v", err)
	}
	if err := m.Remove("b"); err != nil {
		t.Fatal(err)
	}
	free(vfstest.MemBlock)
}
