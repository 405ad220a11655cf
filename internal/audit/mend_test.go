//go:build unix

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A mending is what came of one repair.
type mending struct {
	done, lost, unread int
	err                error
}

// mend does to a store what the command does, with faults in working trees, too.
func mend(ctx context.Context, fsys vfs.FS, dirs *vfstest.Fault) (r mending) {
	s, err := cas.OpenFS(ctx, fsys, &cas.Options{})
	if err != nil {
		return mending{err: err}
	}
	defer func() { r.err = errors.Join(r.err, s.Close()) }()
	plan, err := s.PlanRepair(ctx)
	if err != nil {
		return mending{err: err}
	}
	m := NewMender(s, plan)
	m.open = func(name string) (vfs.Dir, error) {
		dir, err := vfs.OpenDir(name)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(dir, dirs), nil
	}
	defer func() { r.unread, r.err = len(m.Unread()), errors.Join(r.err, m.Close()) }()
	mends, err := m.Plan(ctx)
	if err != nil {
		return mending{err: err}
	}
	if err := s.Repair(ctx, plan); err != nil {
		return mending{err: err}
	}
	done, err := m.Restore(ctx, mends)
	r.done = len(done)
	if err != nil {
		r.err = err
		return r
	}
	for h, err := range Hurts(ctx, s) {
		if err != nil {
			r.err = err
			return r
		}
		r.lost += len(h.Problems)
	}
	return r
}

// noFault never fails.
var noFault = &vfstest.Fault{At: -1}

// TestMendFaults: each operation on the store, or on the working tree, fails in
// turn while lost objects are put back, from the working tree or from what lies
// in quarantine. What is said to be mended is, also after a power cut; nothing
// is said to be lost unless something could not be read and that is said, too;
// and the next repair does the rest.
func TestMendFaults(t *testing.T) {
	testseed.Sequential(t)
	for _, c := range []struct {
		from, where string
		sticky      bool
	}{
		{"worktree", "store", false}, {"worktree", "store", true}, {"worktree", "worktree", false}, {"worktree",
			"worktree", true},
		{"quarantine", "store", false}, {"quarantine", "store", true},
	} {
		t.Run(fmt.Sprintf("from %s/fault in %s/sticky=%v", c.from, c.where, c.sticky), func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			small, large, target := noise(300), noise(1<<20), strings.ReplaceAll(noise(100), "/", "_")
			write(t, filepath.Join(root, "a/kept"), "kept")
			write(t, filepath.Join(root, "a/b/small"), small)
			write(t, filepath.Join(root, "large"), large)
			if err := os.Symlink(target, filepath.Join(root, "link")); err != nil {
				t.Fatal(err)
			}
			// Small, kept and target are in one group.
			hurt := vfstest.NewMem()
			s := reopenStore(t, hurt)
			want := snapshot(t, s, root)
			before := contents(t, s, want)
			closeStore(t, s)
			damagePacks(t, hurt, c.from == "quarantine", small, large[1000:2000], target)
			if c.from == "quarantine" {
				if err := os.RemoveAll(root); err != nil {
					t.Fatal(err)
				}
			}

			for at := testseed.Rand(t).Int64N(stride(37, 47)); ; at += stride(37, 47) {
				disk := hurt.AfterCrash(nil) // a copy
				fault := &vfstest.Fault{At: at, Sticky: c.sticky, Err: syscall.EIO}
				var r mending
				if c.where == "store" {
					r = mend(t.Context(), vfstest.WithFault(disk, fault), noFault)
				} else {
					r = mend(t.Context(), disk, fault)
				}
				if r.err == nil && r.lost > 0 && r.unread == 0 {
					t.Fatalf("fault %d: %d paths are said to be lost", at, r.lost)
				}
				if !fault.Fired() && (r.err != nil || r.done != 4 || r.unread > 0) {
					t.Fatalf("without a fault: %+v", r)
				}
				for i, d := range []*vfstest.Mem{disk.AfterCrash(nil),
					disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), 1))), disk} {
					if r.err != nil || r.lost > 0 {
						if next := mend(t.Context(), d, noFault); next.err != nil || next.lost > 0 {
							t.Fatalf("fault %d, disk %d: after %+v the next repair: %+v", at, i, r, next)
						}
					}
					s := reopenStore(t, d)
					if got := contents(t, s, want); !maps.Equal(got, before) {
						t.Fatalf("fault %d, disk %d: after %+v the tree is %q", at, i, r, got)
					}
					closeStore(t, s)
				}
				if !fault.Fired() {
					if at < 10 {
						t.Errorf("only %d operations: the faults do not reach what they should", at)
					}
					return
				}
			}
		})
	}
}

// TestMendUnreadSpare: a copy that can never be read does not keep others from
// being put back, nor the same content from being found elsewhere.
func TestMendUnreadSpare(t *testing.T) {
	root := t.TempDir()
	small, other := noise(300), noise(400)
	write(t, filepath.Join(root, "small"), small)
	write(t, filepath.Join(root, "other"), other)
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	snapshot(t, s, root)
	closeStore(t, s)
	damagePacks(t, disk, true, small, other)
	if err := os.Remove(filepath.Join(root, "other")); err != nil {
		t.Fatal(err)
	}
	r := mend(t.Context(), unreadable{disk, "quarantine/"}, noFault)
	if r.err != nil || r.done != 1 || r.lost != 1 || r.unread != 1 {
		t.Errorf("with quarantine out of reach: %+v, want one mended, one lost, one file not read", r)
	}
	if r = mend(t.Context(), disk, noFault); r.err != nil || r.done != 1 || r.lost > 0 || r.unread > 0 {
		t.Errorf("within reach again: %+v, want the other mended", r)
	}
	closeStore(t, reopenStore(t, disk))
}

// TestMendFromMovedPack: the only copy is in the pack that the repair moves away,
// behind what a record vouches for, as a process leaves it that was killed.
func TestMendFromMovedPack(t *testing.T) {
	root, small := t.TempDir(), noise(300)
	write(t, filepath.Join(root, "small"), small)
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	snapshot(t, s, root)
	closeStore(t, s)
	names, err := disk.ReadDir("packs")
	if err != nil || len(names) != 1 {
		t.Fatalf("packs %q, %v", names, err)
	}
	b, err := vfs.ReadFile(disk, "packs/"+names[0])
	if err != nil {
		t.Fatal(err)
	}
	writeDurable(t, disk, "packs/"+names[0], append(b, b...))
	damagePacks(t, disk, false, small)
	if err := os.Remove(filepath.Join(root, "small")); err != nil {
		t.Fatal(err)
	}
	if r := mend(t.Context(), disk, noFault); r.err != nil || r.done != 1 || r.lost > 0 || r.unread > 0 {
		t.Errorf("%+v, want it mended", r)
	}
	closeStore(t, reopenStore(t, disk))
}

// unreadable is a file system with files that cannot be opened.
type unreadable struct {
	vfs.FS
	prefix string
}

func (u unreadable) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if strings.HasPrefix(name, u.prefix) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return u.FS.OpenFile(name, flag, perm)
}

// TestMendTwins: of two directories that were the same, the one that still is as
// it was is found, whichever that is.
func TestMendTwins(t *testing.T) {
	for _, edited := range []string{"a", "b"} {
		root, small := t.TempDir(), noise(300)
		write(t, filepath.Join(root, "a/f"), small)
		write(t, filepath.Join(root, "b/f"), small)
		disk := vfstest.NewMem()
		s := reopenStore(t, disk)
		snapshot(t, s, root)
		closeStore(t, s)
		damagePacks(t, disk, false, small)
		write(t, filepath.Join(root, edited, "f"), "edited")
		if r := mend(t.Context(), disk, noFault); r.err != nil || r.done != 1 || r.lost > 0 {
			t.Errorf("%s edited: %+v, want the content of the other", edited, r)
		}
	}
}

// contents returns the contents of the files and links of a tree, by path.
func contents(t *testing.T, s *cas.Store, root store.ID) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range trees.Walk(t.Context(), s, root) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Mode.IsDir() {
			continue
		}
		b, err := s.Get(t.Context(), object.Blob, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		all[e.Path] = string(b)
	}
	return all
}

// noise is content that does not compress, without a zero byte.
func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + rand.IntN(255))
	}
	return string(b)
}

// damagePacks damages one place in the packs of a store for each of some texts
// that are in no other, and makes that durable. Before it may leave copies of the
// packs in quarantine.
func damagePacks(t *testing.T, disk *vfstest.Mem, spare bool, texts ...string) {
	t.Helper()
	names, err := disk.ReadDir("packs")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".pack") {
			continue
		}
		b, err := vfs.ReadFile(disk, "packs/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if spare {
			writeDurable(t, disk, "quarantine/"+name, b)
		}
		b = bytes.Clone(b)
		for _, text := range texts {
			if at := bytes.Index(b, []byte(text)); at >= 0 {
				b[at+7] ^= 1
				found++
			}
		}
		writeDurable(t, disk, "packs/"+name, b)
	}
	if found != len(texts) {
		t.Fatalf("%d of %d texts are in the packs", found, len(texts))
	}
	if err := disk.SyncDir("quarantine"); err != nil {
		t.Fatal(err)
	}
}

func writeDurable(t *testing.T, disk *vfstest.Mem, name string, b []byte) {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}
