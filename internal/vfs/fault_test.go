package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// replaceFile replaces the content of a file as a store does.
func replaceFile(fsys vfs.FS, content string) error {
	f, err := fsys.OpenFile("tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(content), 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename("tmp", "file"); err != nil {
		return err
	}
	return fsys.SyncDir(".")
}

// TestFaultLoop fails every operation of a replacement in turn: what was asked
// for is there if it was acknowledged, and else the one or the other.
func TestFaultLoop(t *testing.T) {
	const ops = 6 // OpenFile WriteAt Sync Close Rename SyncDir
	for _, sticky := range []bool{false, true} {
		for at := int64(0); ; at++ {
			m := vfstest.NewMem()
			if err := replaceFile(m, "old"); err != nil {
				t.Fatal(err)
			}
			fault := &vfstest.Fault{At: at, Sticky: sticky}
			err := replaceFile(vfstest.WithFault(m, fault), "new")
			if fault.Fired() != errors.Is(err, vfstest.ErrInjected) {
				t.Errorf("fault at %d (sticky=%v): %v", at, sticky, err)
			}
			want := "old"
			if err == nil {
				want = "new"
			}
			if got := get(t, m.AfterCrash(nil), "file"); got != want {
				t.Errorf("fault at %d (sticky=%v): content %q, want %q", at, sticky, got, want)
			}
			if !fault.Fired() {
				if at != ops || fault.Count() != ops {
					t.Errorf("%d operations, Count() = %d, want %d", at, fault.Count(), ops)
				}
				break
			}
		}
	}
}

func TestFaultTrace(t *testing.T) {
	var got []string
	f := &vfstest.Fault{At: -1, Trace: func(op, name string) { got = append(got, op+" "+name) }}
	if err := replaceFile(vfstest.WithFault(vfstest.NewMem(), f), "new"); err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := vfstest.WithFaultDir(mustOpen(t, vfs.OpenDir, path), f)
	a, err := d.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := a.OpenDir("b")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := errors.Join(b.Lstat("../c", new(vfs.Stat)), b.Sync(), d.Sync()); err == nil {
		t.Error("Lstat of a path succeeded")
	}
	want := []string{
		"OpenFile tmp", "WriteAt tmp", "Sync tmp", "Close tmp", "Rename tmp -> file", "SyncDir .",
		"OpenDir a", "OpenDir a/b", "Lstat a/b/../c", "Sync a/b", "Sync .",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Trace (-want +got):\n%s", diff)
	}
	if f.Fired() {
		t.Error("a fault at -1 fired")
	}
}

func TestFaultErr(t *testing.T) {
	for _, test := range []struct {
		fault *vfstest.Fault
		want  []bool // which of the operations fail
	}{
		{&vfstest.Fault{At: -1}, []bool{false, false, false, false}},
		{&vfstest.Fault{At: -1, Sticky: true}, []bool{false, false, false, false}},
		{&vfstest.Fault{}, []bool{true, false, false, false}},
		{&vfstest.Fault{At: 2}, []bool{false, false, true, false}},
		{&vfstest.Fault{At: 2, Sticky: true}, []bool{false, false, true, true}},
		{&vfstest.Fault{At: 1, Err: syscall.ENOSPC}, []bool{false, true, false, false}},
	} {
		fsys := vfstest.WithFault(vfstest.NewMem(), test.fault)
		for i, want := range test.want {
			_, err := fsys.Stat(".")
			if errors.Is(err, vfstest.ErrInjected) != want || (err != nil) != want {
				t.Errorf("At %d, operation %d: %v, want failure %v", test.fault.At, i, err, want)
			}
			if want && test.fault.Err != nil && !errors.Is(err, test.fault.Err) {
				t.Errorf("At %d, operation %d: %v does not match %v", test.fault.At, i, err, test.fault.Err)
			}
		}
	}
}

// TestFaultFileEffects checks what a failing operation of a File does.
func TestFaultFileEffects(t *testing.T) {
	m := vfstest.NewMem()
	fault := &vfstest.Fault{At: -1}
	fsys := vfstest.WithFault(m, fault)
	f := mustOpenFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	fail := func() { fault.At = fault.Count() } // the next operation

	fail()
	if n, err := f.WriteAt([]byte("hello!"), 0); n != 3 || !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	if got := get(t, m, "file"); got != "hel" {
		t.Errorf("content after a torn write = %q", got)
	}
	fail()
	if err := f.Sync(); !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("Sync: %v", err)
	}
	if got := get(t, m.AfterCrash(nil), "file"); got != "" {
		t.Errorf("a failed Sync made %q durable", got)
	}
	fail()
	p := []byte("xxx")
	if n, err := f.ReadAt(p, 0); n != 0 || !errors.Is(err, vfstest.ErrInjected) || string(p) != "xxx" {
		t.Errorf("ReadAt = %d, %v, %q", n, err, p)
	}
	fail()
	if err := f.Truncate(0); !errors.Is(err, vfstest.ErrInjected) || get(t, m, "file") != "hel" {
		t.Errorf("Truncate: %v, leaves %q", err, get(t, m, "file"))
	}
	fail()
	if ok, err := f.TryLock(vfs.Exclusive); ok || !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("TryLock = %v, %v", ok, err)
	}
	if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Errorf("TryLock = %v, %v", ok, err)
	}
	fail()
	if err := f.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if ok, err := f.TryLock(vfs.Exclusive); ok || !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("TryLock = %v, %v: Unlock counts", ok, err)
	}
	if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Errorf("TryLock = %v, %v", ok, err)
	}
	fail()
	if err := f.Close(); !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("Close: %v", err)
	}
	g := mustOpenFile(t, m, "file", os.O_RDWR)
	if ok, err := g.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Errorf("TryLock after a failed Close = %v, %v", ok, err)
	}
}

// TestFaultFSEffects checks that a failing operation of an FS does nothing.
func TestFaultFSEffects(t *testing.T) {
	m := vfstest.NewMem()
	put(t, m, "file", "hello")
	fsys := vfstest.WithFault(m, &vfstest.Fault{Sticky: true})
	calls := make(map[string]error)
	_, calls["OpenFile"] = fsys.OpenFile("new", os.O_RDWR|os.O_CREATE, 0o600)
	_, calls["ReadDir"] = fsys.ReadDir(".")
	_, calls["Stat"] = fsys.Stat("file")
	calls["Mkdir"] = fsys.Mkdir("dir", 0o700)
	calls["Rename"] = fsys.Rename("file", "other")
	calls["Exchange"] = fsys.Exchange("file", "other")
	calls["Remove"] = fsys.Remove("file")
	calls["SyncDir"] = fsys.SyncDir(".")
	for call, err := range calls {
		if !errors.Is(err, vfstest.ErrInjected) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got, want := files(t, m), `file="hello"`; got != want {
		t.Errorf("left %s, want %s", got, want)
	}
	if got := files(t, m.AfterCrash(nil)); got != "" {
		t.Errorf("a failed SyncDir made %s durable", got)
	}
}

// useDir calls every method of a Dir and of what it opens, and stops at the
// first error. It closes what it opened.
func useDir(d vfs.Dir) (err error) {
	closing := func(c io.Closer) { err = errors.Join(err, c.Close()) }
	var st vfs.Stat
	if err := d.Stat(&st); err != nil {
		return err
	}
	if err := d.Mkdir("sub", 0o700); err != nil {
		return err
	}
	sub, err := d.OpenDir("sub")
	if err != nil {
		return err
	}
	defer closing(sub)
	w, err := sub.Create("file", 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "hello!")
	if err == nil {
		err = w.Chmod(0o644)
	}
	if err == nil {
		err = w.Sync()
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := sub.Symlink("file", "link"); err != nil {
		return err
	}
	if _, err := sub.Readlink("link"); err != nil {
		return err
	}
	if err := sub.Lstat("file", &st); err != nil {
		return err
	}
	r, err := sub.Open("file", nil)
	if err != nil {
		return err
	}
	defer closing(r)
	if err := r.Stat(&st); err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 10)); err != nil {
		return err
	}
	if err := sub.ReadNames(func([]byte, vfs.Kind) {}); err != nil {
		return err
	}
	if err := sub.Chmod(0o755); err != nil {
		return err
	}
	return sub.Sync()
}

// TestFaultDirLoop fails every operation on a tree in turn, and checks that no
// fault goes unreported and no method uncounted.
func TestFaultDirLoop(t *testing.T) {
	const ops = 19
	for _, sticky := range []bool{false, true} {
		for at := int64(0); ; at++ {
			fault := &vfstest.Fault{At: at, Sticky: sticky}
			d := vfstest.WithFaultDir(mustOpen(t, vfs.OpenDir, t.TempDir()), fault)
			err := useDir(d)
			if runtime.GOOS == "windows" && errors.Is(err, errors.ErrUnsupported) && !fault.Fired() {
				t.Skipf("who may not make links has none: %v", err)
			}
			if fault.Fired() != errors.Is(err, vfstest.ErrInjected) {
				t.Errorf("fault at %d (sticky=%v): %v", at, sticky, err)
			}
			if !fault.Fired() {
				if at != ops || err != nil {
					t.Errorf("%d operations, want %d (%v)", at, ops, err)
				}
				break
			}
		}
	}
}

// TestFaultDirEffects checks what a failing operation on a tree does.
func TestFaultDirEffects(t *testing.T) {
	path := t.TempDir()
	fault := &vfstest.Fault{At: -1}
	below := mustOpen(t, vfs.OpenDir, path)
	d := vfstest.WithFaultDir(below, fault)
	w, err := d.Create("file", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "other", "")
	fail := func() { fault.At = fault.Count() } // the next operation

	fail()
	if n, err := w.Write([]byte("hello!")); n != 3 || !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if got := readAll(t, below, "file"); got != "hel" {
		t.Errorf("content after a torn write = %q", got)
	}
	fail()
	if err := w.Close(); !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("Close: %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("the failed Close did not close")
	}
	fail()
	seen := 0
	if err := d.ReadNames(func([]byte, vfs.Kind) { seen++ }); seen != 1 || !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("ReadNames gave %d names, %v", seen, err)
	}

	fault.At, fault.Sticky = fault.Count(), true
	before := fmt.Sprint(listing(t, below))
	for call, err := range namedCalls(d, "new") {
		if !errors.Is(err, vfstest.ErrInjected) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := fmt.Sprint(listing(t, below)); got != before {
		t.Errorf("left %s, want %s", got, before)
	}
	if err := d.Lstat("new", new(vfs.Stat)); strings.Count(err.Error(), "new") != 1 {
		t.Errorf("error %q does not name the path once", err)
	}
}
