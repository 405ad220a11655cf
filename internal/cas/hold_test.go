package cas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// Who has a store open keeps others from moving or removing it, be it to read or
// to write.
func TestHold(t *testing.T) {
	t.Parallel() // it waits for those who do not go
	base := t.TempDir()
	dir := filepath.Join(base, "a")
	for _, readOnly := range []bool{false, true} {
		s, err := Open(t.Context(), dir, &Options{ReadOnly: readOnly, Root: "/p"})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Hold(t.Context(), vfs.OS(base), "a"); !errors.Is(err, ErrBusy) {
			t.Fatalf("Hold while it is open (to read: %v): %v, %v; want ErrBusy", readOnly, h, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Hold(t.Context(), vfs.OS(base), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open while it is held: %v, want to wait", err)
	}
	if err := os.Mkdir(filepath.Join(base, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.Rename("taken"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Rename to a name that is taken: %v", err)
	}
	if err := h.Rename("b"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// Whoever waited finds it gone, and not another in its place.
	if _, err := use(t.Context(), vfs.OS(dir), true); err != nil {
		t.Errorf("share of a store that is gone: %v", err)
	}
	s, err := Open(t.Context(), filepath.Join(base, "b"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	d, err := Describe(vfs.OS(filepath.Join(base, "b")))
	if err != nil || d.Root != "/p" || !d.Moved {
		t.Errorf("Describe: %+v, %v", d, err)
	}
	if _, err := Hold(t.Context(), vfs.OS(base), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Hold of nothing: %v", err)
	}
}

// A lock that was taken on a store that has gone from its path meanwhile is none.
func TestUseOfMoved(t *testing.T) {
	base := t.TempDir()
	s, err := Open(t.Context(), filepath.Join(base, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS(filepath.Join(base, "a")).OpenFile(layout.UseLock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := isThere(vfs.OS(filepath.Join(base, "a")), f); err != nil {
		t.Errorf("before the move: %v", err)
	}
	h, err := Hold(t.Context(), vfs.OS(base), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Rename("b"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := isThere(vfs.OS(filepath.Join(base, "a")), f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the move: %v", err)
	}
	if s, err = Open(t.Context(), filepath.Join(base, "a"), nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := isThere(vfs.OS(filepath.Join(base, "a")), f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with another in its place: %v", err)
	}
}

// TestGone: who has a store open finds out that its directory was removed, and writes
// nothing into the one that has taken its place.
func TestGone(t *testing.T) {
	if os.Getenv("UNDER_WINE") != "" {
		t.Skip("under Wine a directory with files that somebody has open cannot be removed")
	}
	for _, again := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "a")
		s, err := Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, err := w.Put(object.Blob, []byte("content"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if again {
			other, err := Open(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				r, err := other.Check(t.Context(), false)
				if err != nil || len(r.Damage) > 0 {
					t.Errorf("Check of the store in its place: %+v, %v", r, err)
				}
				other.Close()
			}()
		}
		if err := w.Commit(t.Context(), &store.Snapshot{Tree: id}, 0); !errors.Is(err, layout.ErrGone) {
			t.Errorf("Commit, another in its place: %v: %v, want ErrGone", again, err)
		}
		if _, err := s.Begin(t.Context()); !errors.Is(err, layout.ErrGone) {
			t.Errorf("Begin, another in its place: %v: %v, want ErrGone", again, err)
		}
		if _, err := s.Newest(t.Context(), "", ""); !errors.Is(err, layout.ErrGone) {
			t.Errorf("Newest, another in its place: %v: %v, want ErrGone", again, err)
		}
		s.Seal()
	}
}

// A store is removed whole, or what is left of it has a name that is no store's.
func TestRemoveFaults(t *testing.T) {
	for at := int64(0); ; at++ {
		base := t.TempDir()
		s, err := Open(t.Context(), filepath.Join(base, "a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		fault := &vfstest.Fault{At: at, Sticky: true}
		stores := vfstest.WithFault(vfs.OS(base), fault)
		h, err := Hold(t.Context(), stores, "a")
		if err == nil {
			err = errors.Join(h.Remove(), h.Close())
		}
		if fault.Fired() != errors.Is(err, vfstest.ErrInjected) {
			t.Fatalf("fault at operation %d: %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(base, "a")); err == nil {
			s, err := Open(t.Context(), filepath.Join(base, "a"), nil)
			if err != nil {
				t.Fatalf("fault at operation %d: %v", at, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		} else if err := Sweep(vfs.OS(base)); err != nil {
			t.Fatal(err)
		} else if names, err := os.ReadDir(base); err != nil || len(names) > 0 {
			t.Fatalf("fault at operation %d: left %v, %v", at, names, err)
		}
		if !fault.Fired() {
			break
		}
	}
}

// keptNames is a disk on which a directory stays as long as a file in it is open, as on Windows.
type keptNames struct {
	vfs.FS
	open int
}

func (k *keptNames) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := k.FS.OpenFile(name, flag, perm)
	if err == nil {
		k.open++
		f = &keptFile{f, k}
	}
	return f, err
}

func (k *keptNames) Remove(name string) error {
	if k.open > 0 && path.Base(name) == "locks" {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	return k.FS.Remove(name)
}

type keptFile struct {
	vfs.File
	of *keptNames
}

func (f *keptFile) Close() error {
	f.of.open--
	return f.File.Close()
}

// Who removes a store gives its lock back where the store cannot go before.
func TestRemoveWhereNamesStay(t *testing.T) {
	base := t.TempDir()
	s, err := Open(t.Context(), filepath.Join(base, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := Hold(t.Context(), &keptNames{FS: vfs.OS(base)}, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(base); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
}

// What a program must know is refused for that purpose only.
func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Mark(s.FS(), FeatureMoved), s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change              func(*format)
		read, write, prunes bool
	}{
		{func(*format) {}, true, true, true},
		{func(f *format) { f.Features.Prune = append(f.Features.Prune, "x") }, true, true, false},
		{func(f *format) { f.Features.Write = append(f.Features.Write, "x") }, true, false, false},
		{func(f *format) { f.Features.Read = append(f.Features.Read, "x") }, false, false, false},
	} {
		if err := change(t.Context(), vfs.OS(dir), func(f *format) bool { test.change(f); return true }); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{true, false} {
			want := test.write
			if readOnly {
				want = test.read
			}
			s, err := Open(t.Context(), dir, &Options{ReadOnly: readOnly})
			if (err == nil) != want || err != nil && (!errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), `"x"`) || strings.Contains(err.Error(), FeatureMoved)) {
				t.Errorf("open, to read %v: %v, want success %v", readOnly, err, want)
			}
			if err != nil {
				continue
			}
			if !readOnly {
				if _, err := s.PlanPrune(t.Context(),
					&PruneOptions{Mark: func(context.Context, *Live,
						*store.Snapshot) error {
						return nil
					}}); (err == nil) != test.prunes {
					t.Errorf("prune: %v, want success %v", err, test.prunes)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
