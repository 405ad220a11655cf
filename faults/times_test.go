//go:build linux

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// rewrite gives a file another content of the same size.
func (w *world) rewrite(name string, i int) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.project, name), os.O_WRONLY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "%06d", i); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// TestTimesSetBack: a file that is rewritten, with the same size and the time
// stamp it had, is captured anew.
func TestTimesSetBack(t *testing.T) {
	w := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
	w.write("f", "000000")
	then := time.Now().Add(-time.Hour)
	for i := range 10 {
		w.rewrite("f", i)
		if err := os.Chtimes(filepath.Join(w.project, "f"), then, then); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			time.Sleep(50 * time.Millisecond) // the stat cache trusts what is older
		}
		if err := w.snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	w.verify(w.acks)
}

// TestCoarseTimes: on a file system whose time stamps have steps of two
// seconds, a file that is rewritten at once has the stamps it had, and its
// snapshots differ all the same.
func TestCoarseTimes(t *testing.T) {
	h := fuse(t, "pass", scratch(t))
	h.set("times 2s")
	w := newWorld(t, t.TempDir(), filepath.Join(h.dir, "p"))
	w.write("f", "000000")
	same := 0
	var before os.FileInfo
	for i := range 100 {
		w.rewrite("f", i)
		st, err := os.Stat(filepath.Join(w.project, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && st.ModTime().Equal(before.ModTime()) {
			same++
		}
		before = st
		if err := w.snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	w.verify(w.acks)
	if same == 0 {
		t.Error("no two rewrites had the same time stamp")
	}
	t.Logf("%d of 100 rewrites left all time stamps as they were", same)
}
