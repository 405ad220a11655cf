package manager

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
)

// A runtime that takes a session up again is told of the turn that was cut off, and of
// what a restore leaves since nobody knows who has changed it.
func TestCutOffIsTold(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1") })
	b.start(m)
	b.write("b", "1")
	m.release() // as its death does
	m = b.open("s")
	r := b.initialize(m)
	if r.Data == nil || !r.Data.Interrupted || !slices.Equal(r.Data.Contested.Added, []string{"b"}) {
		t.Fatalf("Initialize says of the turn that was cut off: %+v", r.Data)
	}
	back, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"})
	if err != nil || len(back.Items) != 2 || !strings.Contains(back.Items[1].Why, "turn 1 was cut off") {
		t.Errorf("RestoreFiles = %+v, %v", back, err)
	}
	if again := b.initialize(m); again.Data != nil {
		t.Errorf("Initialize says it again: %+v", again.Data)
	}
}

// What tools have done that had ended is the turn's, when it is cut off: as if it had ended
// right behind them. What has changed while another one ran is anybody's.
func TestCutOffBehindTool(t *testing.T) {
	b := newBench(t)
	byTools := func(o *Options) { o.ToolWindows = true }
	m := b.open("s", byTools)
	b.initialize(m)
	b.start(m)
	b.tool(m, "1", func() { b.write("a", "1") })
	b.write("mine", "1")
	look := func(_ *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	look(m.OnToolStart(t.Context(), "2"))
	b.write("b", "1")
	look(m.OnToolStart(t.Context(), "3")) // the turn goes on
	b.write("c", "1")
	m.release() // as its death does
	d := b.initialize(b.open("s", byTools)).Data
	if d == nil || d.Diff == nil || d.Contested == nil ||
		!slices.Equal(d.Diff.Added, []string{"a", "b"}) ||
		!slices.Equal(d.Contested.Added, []string{"c"}) {
		t.Errorf("Initialize says of the turn that was cut off: %+v", d)
	}
}

// A restore that was cut off, and of which the store has lost what it needs, can be left: until then
// nothing is recorded, and from then on turns are, of the files as they are.
func TestLeaveRestore(t *testing.T) {
	b := &bench{T: t, dir: t.TempDir(), stores: t.TempDir()} // it has damage in the end
	open := func() *FileSnapshotManager {
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := open()
	all := func(content string) {
		for i := range 20 {
			b.write(fmt.Sprintf("d%d/f", i), content)
		}
	}
	all("one")
	b.initialize(m)
	b.turn(m, func() { all("two") })
	if err := inside.Of(m).LeaveRestore(t.Context()); !errors.Is(err, ErrNothing) {
		t.Errorf("LeaveRestore of none: %v", err)
	}
	m.Close()
	for at := int64(120); !b.crash(at); at += 7 {
	}
	packs, err := filepath.Glob(filepath.Join(m.StoreDir(), "packs", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, name := range packs {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}

	was := readWorld(t, b.dir)
	m = open()
	if _, err := m.OnTurnStart(t.Context(), nil); !errors.Is(err, history.ErrUnfinished) {
		t.Errorf("OnTurnStart: %v", err)
	}
	for _, abort := range []bool{false, true} {
		if _, err := m.FinishRestore(t.Context(), abort); !errors.Is(err, history.ErrUnfinished) {
			t.Errorf("FinishRestore, abort %v: %v", abort, err)
		}
	}
	if err := inside.Of(m).LeaveRestore(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := readWorld(t, b.dir)
	if maps.Equal(was, now) {
		t.Error("the restore had left nothing of its own, and that was to go")
	}
	maps.DeleteFunc(was, func(name string, _ node) bool { return strings.HasPrefix(name, ".boo-") })
	if !maps.Equal(was, now) {
		t.Errorf("files were changed: %v, were %v", now, was)
	}
	if _, _, cutOff, err := inside.Of(m).Restores(t.Context()); cutOff != nil || err != nil {
		t.Errorf("cut off is %v, %v", cutOff, err)
	}
	b.turn(m, func() { b.write("d0/f", "three") })
	later := readWorld(t, b.dir)
	b.turn(m, func() { b.write("d0/f", "four"); b.write("new", "four") })
	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1"}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(later, readWorld(t, b.dir)) {
		t.Error("what came later was not taken back")
	}
}
