package near

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// keyOf returns the key of a pack, the bytes of which packOf returns.
func keyOf(i int) string { return fmt.Sprintf("data/00000000/%032x/%02x%062x", 1, i%256, i) }

const packSize = 1000

func packOf(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, packSize) }

// opened is a Cache that a test opens, with what it tells.
type opened struct {
	*Cache
	mu   sync.Mutex // guards told
	told []string
}

func open(t *testing.T, dir string, limit int64) *opened {
	t.Helper()
	x := new(opened)
	c, err := Open(dir, limit, func(err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.told = append(x.told, err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	x.Cache = c
	return x
}

// get gets a pack, and reports whether it was here.
func (x *opened) get(t *testing.T, i int) bool {
	t.Helper()
	b, isNear, err := x.Get(t.Context(), keyOf(i), packSize, func() ([]byte, error) { return packOf(i), nil })
	if err != nil || !bytes.Equal(b, packOf(i)) {
		t.Errorf("pack %d: %d bytes, %v", i, len(b), err)
	}
	return isNear
}

// bytesIn returns how many bytes a directory has.
func bytesIn(t *testing.T, dir string) (total int64) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if st, err := os.Lstat(name); err == nil {
			total += st.Size()
		}
	}
	return total
}

// TestBound has a directory have no more bytes than it may, also if several write into it, and lose what was read
// longest ago.
func TestBound(t *testing.T) {
	const limit = 20 * packSize
	dir := filepath.Join(t.TempDir(), "near")
	a, b := open(t, dir, limit), open(t, dir, limit)
	for i := range 15 {
		a.get(t, i)
		old := time.Now().Add(-time.Duration(100-i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, nameOf(keyOf(i))), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if !b.get(t, 3) { // it is read now, so it stays
		t.Error("pack 3 is not here")
	}
	for i := 15; i < 60; i++ {
		if x := []*opened{a, b}[i%2]; x.get(t, i) {
			t.Errorf("pack %d was here", i)
		}
		if n := bytesIn(t, dir); n > limit*5/4 { // each of two may put an eighth before it looks again
			t.Errorf("%d bytes are there behind pack %d, of %d", n, i, limit)
		}
		if i == 20 && (!a.get(t, 3) || a.get(t, 0)) {
			t.Error("pack 0 is here, or pack 3 is not, which was read later")
		}
	}
	c := open(t, dir, packSize/2)
	for range 2 {
		if c.get(t, 100) {
			t.Error("a pack is here that is larger than all may be")
		}
	}
}

// TestLeft has what a writer has left who was killed be removed after an hour.
func TestLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	open(t, dir, 0).get(t, 1)
	left := filepath.Join(filepath.Dir(filepath.Join(dir, nameOf(keyOf(1)))), tmpPrefix+"1")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, 0).get(t, 2)
	if _, err := os.Lstat(left); err != nil {
		t.Error(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	open(t, dir, 0).get(t, 3)
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
}

// TestLocked has somebody hold the lock of a pack for ever: others wait once, and not for long.
func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	a, b := open(t, dir, 0), open(t, dir, 0)
	unlock := a.lock(t.Context(), keyOf(1))
	defer unlock()
	b.patience = 50 * time.Millisecond
	for i := range 2 {
		b.get(t, 1+256*i)
	}
	if !b.isSlow {
		t.Error("it has not waited: nothing is locked")
	}
}

// TestLink has a name in the directory be a link to what is elsewhere: that is neither read nor changed.
func TestLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	x := open(t, dir, 0)
	x.get(t, 1)
	name := filepath.Join(dir, nameOf(keyOf(1)))
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, packOf(2), 0o600), os.Remove(name),
		os.Symlink(outside, name)); err != nil {
		t.Skip("SKIPPED: no links here:", err)
	}
	if b := x.Read(keyOf(1), 0, packSize); b != nil {
		t.Error("a link out of the directory was followed")
	}
	if x.get(t, 1) || !x.get(t, 1) {
		t.Error("the link was not replaced")
	}
	if b, err := os.ReadFile(outside); err != nil || !bytes.Equal(b, packOf(2)) {
		t.Errorf("what is outside was changed: %v", err)
	}
}

// TestTold has what goes wrong be told once, and be no error.
func TestTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	x := open(t, dir, 0)
	for i := range 3 { // files are where directories should be
		if err := os.WriteFile(filepath.Join(dir, filepath.Dir(nameOf(keyOf(i)))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if x.get(t, i) {
			t.Errorf("pack %d is here", i)
		}
	}
	if len(x.told) != 1 || !strings.Contains(x.told[0], "what belongs there is not kept") {
		t.Errorf("told: %q", x.told)
	}
	if x.get(t, 7) || !x.get(t, 7) {
		t.Error("pack 7 is not kept, the directory of which can be used")
	}
	want := errors.New("the remote says no")
	_, _, err := x.Get(t.Context(), keyOf(9), packSize, func() ([]byte, error) { return nil, want })
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// TestForeign has the directory be one that has other files, all of them older than any pack: none is removed, and they
// do not count.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	pack := nameOf(keyOf(1))
	names := []string{"notes", "docs/notes", "ab/notes", "ab/c", "docs/.tmp-1", "docs/" + filepath.Base(pack),
		"ff/" + filepath.Base(pack), pack[:2] + "/" + strings.Repeat("z", 64)}
	old := time.Now().Add(-1000 * time.Hour)
	for _, name := range names {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
			os.WriteFile(name, make([]byte, 10*packSize), 0o600), os.Chtimes(name, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(dir, "docs", "empty")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.Chtimes(empty, old, old)); err != nil {
		t.Fatal(err)
	}
	x := open(t, dir, 5*packSize)
	for i := range 20 {
		x.get(t, i)
	}
	if !x.get(t, 19) {
		t.Error("the newest pack is not here")
	}
	for _, name := range append(names, "docs/empty") {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
}

// TestLockedLink has the directory of a pack be a link to one elsewhere, a store for one: that is not locked.
func TestLockedLink(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "near"), t.TempDir()
	x := open(t, dir, 0)
	if err := os.Symlink(outside, filepath.Join(dir, filepath.Dir(nameOf(keyOf(1))))); err != nil {
		t.Skip("SKIPPED: no links here:", err)
	}
	defer x.lock(t.Context(), keyOf(1))()
	d, err := vfs.OpenDir(outside)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if ok, err := d.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Errorf("what a link leads to was locked: %v", err)
	}
}
