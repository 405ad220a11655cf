//go:build unix

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

var benchFiles = flag.Int("bench.files", 8000,
	"how many files the directory has that the benchmarks capture and export")

// A benchTree is a directory of text files, 20 in each directory.
type benchTree struct {
	root  string
	dirs  []string // of the files, relative to the root
	files int
	round int
}

// lines returns n bytes of text.
func lines(seed, n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "\tif value%d := table[%d]; value%d != nil { // line %d\n", i*seed%97, i*seed%1009, i%7, i)
	}
	return b.Bytes()[:n]
}

func makeBenchTree(b *testing.B) *benchTree {
	b.Helper()
	t := &benchTree{root: b.TempDir(), files: *benchFiles}
	for i := range t.files {
		if i%20 == 0 {
			t.dirs = append(t.dirs, fmt.Sprintf("d%02d/d%05d", i/20%40, i/20))
		}
		write(b, t.file(i), string(lines(i+1, 200+i*7919%8000)))
	}
	settle()
	return t
}

func (t *benchTree) file(i int) string {
	return filepath.Join(t.root, t.dirs[i/20], fmt.Sprintf("file%d.go", i))
}

// change writes 10 files in 10 directories.
func (t *benchTree) change(b *testing.B) {
	b.Helper()
	for i := range 10 {
		t.round++
		write(b, t.file((i*7901+t.round)%t.files), string(lines(t.round, 3000))+fmt.Sprint(t.round))
	}
}

// each calls fn for every directory of files, on all processors.
func (t *benchTree) each(fn func(i int, dir vfs.Dir) error) error {
	var group errgroup.Group
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(t.dirs) {
					return nil
				}
				dir, err := vfs.OpenDir(filepath.Join(t.root, t.dirs[i]))
				if err != nil {
					return err
				}
				if err := errors.Join(fn(i, dir), dir.Close()); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// walk is a bare walk: getdents and fstatat. It is told the directories.
func (t *benchTree) walk() error {
	return t.each(func(_ int, dir vfs.Dir) error {
		var st vfs.Stat
		var serr error
		err := dir.ReadNames(func(name []byte, _ vfs.Kind) {
			serr = errors.Join(serr, dir.Lstat(string(name), &st))
		})
		return errors.Join(err, serr)
	})
}

// read reads all files.
func (t *benchTree) read(fn func(content []byte) error) error {
	return t.each(func(_ int, dir vfs.Dir) error {
		var names []string
		if err := dir.ReadNames(func(name []byte, _ vfs.Kind) { names = append(names, string(name)) }); err != nil {
			return err
		}
		buf := make([]byte, 16<<10)
		for _, name := range names {
			f, err := dir.Open(name, nil)
			if err != nil {
				return err
			}
			n, err := io.ReadFull(f, buf)
			if err == io.ErrUnexpectedEOF {
				err = fn(buf[:n])
			}
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// loop runs a sub-benchmark. before is not timed.
func loop(b *testing.B, name string, before func(b *testing.B), fn func() error) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			if before != nil {
				b.StopTimer()
				before(b)
				b.StartTimer()
			}
			if err := fn(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// diskStore opens a store on the disk.
func diskStore(b *testing.B, dir string) *cas.Store {
	b.Helper()
	s, err := cas.Open(b.Context(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkCapture captures a directory as a new process does: what it knows of
// it is read from the stat cache. The floors do bare what cannot be done
// without.
func BenchmarkCapture(b *testing.B) {
	t := makeBenchTree(b)
	ctx := b.Context()
	s := diskStore(b, b.TempDir())
	b.Cleanup(func() { s.Close() })

	loop(b, "names only", nil, func() error {
		ws := openWorkspace(b, s, t.root)
		ws.store = nil
		_, err := ws.Capture(ctx, trees.NewOverlay(nil), nil)
		return err
	})
	loop(b, "names only/floor=read+hash", nil, func() error {
		return t.read(func(content []byte) error {
			object.Hash(object.Blob, content)
			return nil
		})
	})

	var fresh *cas.Store
	dir := b.TempDir()
	empty := func(b *testing.B) {
		if fresh != nil {
			fresh.Close()
		}
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		fresh = diskStore(b, dir)
	}
	loop(b, "from scratch", empty, func() error {
		_, err := trySnapshot(ctx, fresh, openWorkspace(b, fresh, t.root), nil)
		return err
	})
	loop(b, "from scratch/floor=read+put", empty, func() error {
		w, err := fresh.Begin(ctx)
		if err != nil {
			return err
		}
		err = t.read(func(content []byte) error {
			_, err := w.Put(object.Blob, content)
			return err
		})
		return errors.Join(err, w.Close())
	})
	if fresh != nil { // or they were left out
		fresh.Close()
	}

	for range 2 { // once to store it, and once since when no file was new
		snapshot(b, s, openWorkspace(b, s, t.root), nil)
		settle()
	}
	loop(b, "unchanged", nil, func() error {
		w, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		r, err := openWorkspace(b, s, t.root).Capture(ctx, w, nil)
		if err == nil && r.ReadFiles > 0 {
			err = fmt.Errorf("%d files read", r.ReadFiles)
		}
		return errors.Join(err, w.Close())
	})
	loop(b, "unchanged/floor=getdents+fstatat", nil, t.walk)

	loop(b, "10 changed", t.change, func() error {
		_, err := trySnapshot(ctx, s, openWorkspace(b, s, t.root), nil)
		return err
	})
	syncs := twoSyncs(b)
	loop(b, "10 changed/floor=walk+two syncs", nil, func() error { return errors.Join(t.walk(), syncs()) })

	ws := openResident(b, s, t.root, 0)
	snapshot(b, s, ws, nil)
	loop(b, "resident unchanged", nil, func() error {
		w, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = ws.Capture(ctx, w, nil)
		return errors.Join(err, w.Close())
	})
	loop(b, "resident 10 changed", t.change, func() error {
		_, err := trySnapshot(ctx, s, ws, nil)
		return err
	})
	loop(b, "resident 10 changed/floor=two syncs", nil, syncs)
}

// twoSyncs returns a function that appends 16 KiB to one file and 300 bytes to
// another, and syncs each.
func twoSyncs(b *testing.B) func() error {
	b.Helper()
	fsys := vfs.OS(b.TempDir())
	var files [2]vfs.File
	for i, name := range []string{"pack", "journal"} {
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		files[i] = f
	}
	var ends [2]int64
	return func() error {
		for i, n := range []int{16 << 10, 300} {
			if _, err := files[i].WriteAt(make([]byte, n), ends[i]); err != nil {
				return err
			}
			ends[i] += int64(n)
			if err := files[i].Sync(); err != nil {
				return err
			}
		}
		return nil
	}
}

// BenchmarkStatCache reads and writes a whole cache. The floors are one read and
// one write of as much.
func BenchmarkStatCache(b *testing.B) {
	t := makeBenchTree(b)
	s := diskStore(b, b.TempDir())
	b.Cleanup(func() { s.Close() })
	ws := openWorkspace(b, s, t.root)
	snapshot(b, s, ws, nil)
	worktree := ws.Worktree
	c := ws.loadCache()
	if c.size == 0 {
		b.Fatal("the cache is empty")
	}
	name := c.dir.Cache()
	loop(b, "load", nil, func() error {
		c = loadStatCache(s.FS(), c.batch.store, worktree)
		if len(c.blocks) < len(t.dirs) {
			return fmt.Errorf("%d directories", len(c.blocks))
		}
		return nil
	})
	loop(b, "load/floor=read", nil, func() error {
		_, err := vfs.ReadFile(s.FS(), name)
		return err
	})
	loop(b, "save", nil, func() error {
		_, err := c.replace()
		return err
	})
	content, err := vfs.ReadFile(s.FS(), name)
	if err != nil {
		b.Fatal(err)
	}
	dir := vfs.OS(t.root)
	loop(b, "save/floor=write+exchange", nil, func() error {
		err := os.WriteFile(filepath.Join(t.root, "new"), content, 0o600)
		return errors.Join(err, vfs.ReplaceFile(dir, "new", "cache"), dir.Remove("new"))
	})
}

// BenchmarkExport writes a tree into an empty directory. The floor creates the
// same files, whose content it has in memory.
func BenchmarkExport(b *testing.B) {
	t := makeBenchTree(b)
	s := diskStore(b, b.TempDir())
	b.Cleanup(func() { s.Close() })
	root := snapshot(b, s, openWorkspace(b, s, t.root), nil).Tree
	to := filepath.Join(b.TempDir(), "to")
	gone := func(b *testing.B) {
		if err := os.RemoveAll(to); err != nil {
			b.Fatal(err)
		}
		unix.Sync() // or it waits for what the one before wrote
	}
	loop(b, fmt.Sprintf("files=%d", t.files), gone, func() error {
		_, err := trees.Export(b.Context(), s, root, to)
		return err
	})
	loop(b, "floor=create", gone, func() error {
		for _, dir := range t.dirs {
			if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
				return err
			}
		}
		content := lines(1, 8200)
		return t.each(func(d int, _ vfs.Dir) error {
			dir, err := vfs.OpenDir(filepath.Join(to, t.dirs[d]))
			if err != nil {
				return err
			}
			defer dir.Close()
			for i := d * 20; i < min((d+1)*20, t.files); i++ {
				f, err := dir.Create(fmt.Sprintf("file%d.go", i), 0o600)
				if err != nil {
					return err
				}
				_, err = f.Write(content[:200+i*7919%8000])
				if err := errors.Join(err, f.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

var benchTracked = flag.Int("bench.tracked", 500_000, "how many paths git's index has in BenchmarkIndex")

// writeIndex writes an index of the files of a bench tree and of others that are
// not there, taken out or, without skip, just not there. round makes it another.
func (t *benchTree) writeIndex(b *testing.B, skip bool, round int) {
	b.Helper()
	var paths []string
	for i := range t.files {
		paths = append(paths, fmt.Sprintf("%s/file%d.go", t.dirs[i/20], i))
	}
	for i := len(paths); i < *benchTracked; i++ {
		paths = append(paths, fmt.Sprintf("project%02d/net/vendor%05d/source_file_%06d.c", i%50, i/40, i))
	}
	slices.Sort(paths)
	data := []byte("DIRC\x00\x00\x00\x02")
	if skip {
		data[7] = 3
	}
	data = binary.BigEndian.AppendUint32(data, uint32(len(paths)))
	for _, p := range paths {
		begin := len(data)
		data = append(data, make([]byte, 60)...)
		data[begin+25], data[begin+26], data[begin+27] = 0, 0x81, 0xa4
		if flags := uint16(len(p)); skip && p[0] == 'p' {
			data = binary.BigEndian.AppendUint16(data, flags|0x4000)
			data = append(data, 0x40, 0)
		} else {
			data = binary.BigEndian.AppendUint16(data, flags)
		}
		data = append(data, p...)
		data = append(data, make([]byte, 8-(len(data)-begin)%8)...)
	}
	data = append(data, make([]byte, 20)...)
	data[len(data)-1] = byte(round)
	if err := os.WriteFile(filepath.Join(t.root, ".git/index"), data, 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIndex captures a directory whose index has many paths more than there
// are: ten files have changed since, and in rounds called "index" git has written
// the index anew, as "git status" does.
func BenchmarkIndex(b *testing.B) {
	for _, skip := range []bool{false, true} {
		for _, resident := range []bool{false, true} {
			for _, moves := range []bool{false, true} {
				b.Run(fmt.Sprintf("sparse=%v/resident=%v/index=%v", skip, resident, moves), func(b *testing.B) {
					t := makeBenchTree(b)
					for _, name := range []string{".git/objects", ".git/refs"} {
						if err := os.MkdirAll(filepath.Join(t.root, name), 0o755); err != nil {
							b.Fatal(err)
						}
					}
					write(b, filepath.Join(t.root, ".git/HEAD"), "ref: refs/heads/main\n")
					t.writeIndex(b, skip, 0)
					s := openStore(b, vfstest.NewMem())
					stays := openWorkspace(b, s, t.root)
					if resident {
						stays = openResident(b, s, t.root, 0)
					}
					snapshot(b, s, stays, nil)
					settle()
					snapshot(b, s, stays, nil)
					name, round := filepath.Join(t.root, ".git/index"), 0
					b.ReportAllocs()
					for b.Loop() {
						b.StopTimer()
						t.change(b)
						if round++; moves {
							f, err := os.OpenFile(name, os.O_RDWR, 0)
							if err != nil {
								b.Fatal(err)
							}
							st, _ := f.Stat()
							f.WriteAt([]byte{byte(round)}, st.Size()-1)
							f.Close()
						}
						ws := stays
						if !resident {
							ws = openWorkspace(b, s, t.root)
						}
						b.StartTimer()
						snapshot(b, s, ws, nil)
					}
				})
			}
		}
	}
}
