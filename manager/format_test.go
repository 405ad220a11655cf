package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

// What version 1 wrote as JSON must be read for ever: each sample has every key
// once.

func sample(t *testing.T, name string, v any) []byte {
	t.Helper()
	path := filepath.Join("../testdata/format/v1", name)
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, append(b, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(kept), string(b)+"\n"); d != "" {
		t.Errorf("%s is written otherwise (-want +got):\n%s", name, d)
	}
	return kept
}

// checkFull requires that a sample leaves no key out.
func checkFull(t *testing.T, v reflect.Value, but ...string) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() && !slices.Contains(but, f.Name) {
			t.Errorf("the sample says nothing of %s.%s", v.Type().Name(), f.Name)
		}
	}
}

func TestFormatRecord(t *testing.T) {
	turn, from, to := 12, "leaf1", "leaf2"
	want := recordData{Version: 1, After: 99, Windows: []string{"s", "?"}, Prev: 98, Jump: 90, Depth: 4, Start: 80, Begin: 81,
		Turn: 3, RuntimeTurn: &turn, Parts: []part{{From: 0, To: 1}, {From: 1, To: 2, Contested: true}}, Claims: [][]byte{[]byte("a\xff")},
		Foreign: [][]byte{[]byte("b")}, Interrupted: true, Partial: true, Counts: [3]int{1, 2, 3}, Unknown: "why", Told: true, Own: true, Untold: 97, Pins: []uint64{95, 96},
		Restored: 94, Pos: 93, ID: "0123456789abcdef", Moves: []move{{[]byte("from"), []byte("to"), 7}}, From: 92, At: 91, Undoes: 89,
		Left: [][]byte{[]byte("left")}, LeftFrom: 88, OldLeaf: &from, NewLeaf: &to, Undo: 87, Redo: 86, Below: 85, Tops: "undo"}
	checkFull(t, reflect.ValueOf(want))
	b := sample(t, "record.json", want)
	for _, kind := range []string{kindStart, kindBase, kindTool, kindStep, kindPin, kindIntent, kindRestore} {
		r, err := readRecord(&store.Snapshot{Seq: 100, Kind: kind, Data: b, Also: make([]store.State, 1)})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if d := cmp.Diff(want, r.data); d != "" {
			t.Errorf("%s (-want +got):\n%s", kind, d)
		}
		if d := cmp.Diff([]rollback.Move{{From: "from", To: "to", Inode: 7}}, r.moves()); d != "" {
			t.Errorf("%s: moves (-want +got):\n%s", kind, d)
		}
	}
}

func TestFormatEdit(t *testing.T) {
	turn := 3
	file := EditedFile{Path: "a\xff", To: "b", Op: patch.Update, Unread: true, BeforeHash: "01", AfterHash: "02", BeforeSHA256: "03", AfterSHA256: "04",
		Mode: patch.IsFuzzy, Stage: patch.Whitespace, Similarity: 0.5, Replacements: 2, Warnings: []patch.Warning{patch.WordsDiffer}}
	want := editData{Version: 1, Aborted: true, EditResult: EditResult{UndoID: "0123456789abcdef", Undoes: "fedcba9876543210", Session: "s", Turn: &turn,
		Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Files: []EditedFile{file}}, Raw: [][2][]byte{{[]byte("a\xff"), []byte("b")}}}
	checkFull(t, reflect.ValueOf(want))
	checkFull(t, reflect.ValueOf(want.EditResult), "Preview")
	checkFull(t, reflect.ValueOf(file), "Diff")
	b := sample(t, "edit.json", want)
	r, err := readEditRecord(&store.Snapshot{Seq: 100, Kind: kindEdit, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.data); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestFormatTurns(t *testing.T) {
	turn := 12
	open := &openTurn{Session: "s", Turn: 3, RuntimeTurn: &turn, After: 99, Base: store.State{Tree: store.ID{1}, Coverage: store.ID{2}}, Prev: 98,
		Leaf: "leaf1", LeafAt: "leaf2", ToolWindows: true, Tools: []string{"call_1"}, Claims: [][]byte{[]byte("a\xff")}, Foreign: [][]byte{[]byte("b")},
		Held: true, Boot: "boot", Seen: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), End: 97}
	want := &turns{Version: 1, Last: 99, Open: []*openTurn{open}}
	checkFull(t, reflect.ValueOf(*want))
	checkFull(t, reflect.ValueOf(*open))
	b := sample(t, "turns.json", want)
	m := newBench(t).open("s")
	if err := m.withTurns(t.Context(), func(*turns) error { return nil }); err != nil { // makes the directory
		t.Fatal(err)
	}
	if err := m.writeTurns(b, false); err != nil {
		t.Fatal(err)
	}
	got, _, err := m.readTurns()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
