package manager

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
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
	var was, is any
	if err := errors.Join(json.Unmarshal(kept, &was), json.Unmarshal(b, &is)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was, is); d != "" {
		t.Errorf("%s is written otherwise (-want +got):\n%s", name, d)
	}
	return kept
}

// checkFull requires that a sample leaves no key out.
func checkFull(t *testing.T, v reflect.Value, but ...string) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			checkFull(t, v.Field(i), but...)
		} else if v.Field(i).IsZero() && !slices.Contains(but, f.Name) {
			t.Errorf("the sample says nothing of %s.%s", v.Type().Name(), f.Name)
		}
	}
}

func TestFormatRecord(t *testing.T) {
	turn, from, to := 12, "leaf1", "leaf2"
	want := history.Facts{Version: 1, After: 99, Windows: []string{"s", "?"},
		LineFacts: history.LineFacts{Prev: 98, Jump: 90, Depth: 4, Start: 80, Begin: 81},
		TurnFacts: history.TurnFacts{Turn: 3, RuntimeTurn: &turn,
			Parts:   []history.Part{{From: 0, To: 1}, {From: 1, To: 2, Contested: true}},
			Claims:  [][]byte{[]byte("a\xff")},
			Foreign: [][]byte{[]byte("b")}, Interrupted: true, Partial: true, Counts: [3]int{1, 2, 3}, Unknown: "why"},
		LogFacts: history.LogFacts{Told: true, Own: true, Untold: 97, Pins: []uint64{95, 96}},
		Restored: 94, Pos: 93, RestoreFacts: history.RestoreFacts{ID: "0123456789abcdef",
			Moves: []history.Move{{From: []byte("from"), To: []byte("to"), Inode: 7}}, From: 92, Undoes: 89,
			JointFacts: history.JointFacts{Left: [][]byte{[]byte("left")}, LeftFrom: 88}, OldLeaf: &from, NewLeaf: &to,
			Undo: 87, Redo: 86, Below: 85, Tops: "undo"}}
	since2 := []string{"Next", "Step", "Fork", "Within", "Took", "TookFrom", "Apart", "With", "Without", "UndoPast",
		"RedoPast", "First", "Since", "GoesOn", "Known", "Agent", "Model", "Reverts", "Marked", "Marks", "Cuts"}
	checkFull(t, reflect.ValueOf(want), since2...)
	b := sample(t, "record.json", struct {
		history.Facts
		At uint64 `json:"at"` // no more: where the log stood
	}{want, 91})
	for _, kind := range []string{history.KindStart, history.KindBase, history.KindTool, history.KindStep,
		history.KindPin, history.KindIntent, history.KindRestore} {
		r, err := history.Read(&store.Snapshot{Seq: 100, Kind: kind, Data: b, Also: make([]store.State, 1)})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if d := cmp.Diff(want, r.Facts); d != "" {
			t.Errorf("%s (-want +got):\n%s", kind, d)
		}
		if d := cmp.Diff([]rollback.Move{{From: "from", To: "to", Inode: 7}}, r.Moves()); d != "" {
			t.Errorf("%s: moves (-want +got):\n%s", kind, d)
		}
	}
}

// What came with version 2 of a record's data.
func TestFormatRecord2(t *testing.T) {
	want := history.Facts{Version: 2, After: 99,
		LineFacts: history.LineFacts{Prev: 98, Depth: 4, Start: 80, Begin: 81, Step: 82, Next: 7, Fork: 79, Within: 78},
		TurnFacts: history.TurnFacts{Turn: 3},
		RestoreFacts: history.RestoreFacts{From: 92, Tops: "undo", JointFacts: history.JointFacts{
			Left: [][]byte{[]byte("left\xff")}, LeftFrom: 88, Took: [][]byte{[]byte("took\xff")}, TookFrom: 77,
			Apart: []history.Apart{{Paths: [][]byte{[]byte("apart\xff")}, From: 73, With: []uint64{72},
				Without: []uint64{71}, Known: true}},
			With: []uint64{76, 75}, Without: []uint64{74}}}}
	b := sample(t, "../v2/record.json", want)
	for _, kind := range []string{history.KindStart, history.KindEmpty, history.KindTool, history.KindRestore} {
		r, err := history.Read(&store.Snapshot{Seq: 100, Kind: kind, Data: b})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if d := cmp.Diff(want, r.Facts); d != "" {
			t.Errorf("%s (-want +got):\n%s", kind, d)
		}
	}
}

// Which restore has left markers before one, which who does not know it does without.
func TestFormatRecordMarks(t *testing.T) {
	want := history.Facts{Version: 1, LineFacts: history.LineFacts{Prev: 98, Start: 80, Begin: 81}, Restored: 97,
		RestoreFacts: history.RestoreFacts{From: 96, Tops: "undo", Marks: 95}}
	b := sample(t, "../v2/record-marks.json", want)
	r, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindRestore, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.Facts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := history.Read(&store.Snapshot{Seq: 95, Kind: history.KindRestore, Data: b}); !errors.Is(err,
		store.ErrCorrupt) {
		t.Errorf("it names one after it: %v", err)
	}
}

// What came with reverts: which turns they name, and what markers they have left, which who
// does not know it does without; and with version 3, what they have cut out of turns.
func TestFormatRecord3(t *testing.T) {
	want := history.Facts{Version: 3, After: 99,
		LineFacts: history.LineFacts{Prev: 98, Depth: 4, Start: 80, Begin: 81, Step: 82},
		RestoreFacts: history.RestoreFacts{From: 98, Tops: "undo", Reverts: []int{3, 4},
			Marked: []history.Marked{{Paths: [][]byte{[]byte("marked\xff")}, Signs: 7}},
			JointFacts: history.JointFacts{Cuts: []history.Cut{
				{Path: []byte("cut\xff"), Turn: 78, Window: 2,
					Spans: []history.Span{{1, 2, 1, 3}, {4, 4, 5, 6}}, Mode: true},
				{Path: []byte("cut\xff"), Turn: 77, Whole: true}}}}}
	b := sample(t, "../v2/record-cuts.json", want)
	r, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindRestore, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.Facts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if r.Write(); r.Facts.Version != 3 || r.Position() != 100 {
		t.Errorf("it is of version %d, and the files stand at %d then", r.Facts.Version, r.Position())
	}
	if _, err := history.Read(&store.Snapshot{Seq: 78, Kind: history.KindRestore, Data: b}); !errors.Is(err,
		store.ErrCorrupt) {
		t.Errorf("a cut of a turn that comes after it: %v", err)
	}
	for _, spans := range []string{"[[2,1,0,0]]", "[[0,1,3,2]]", "[[-1,1,0,0]]", "[[1,2,0,0],[1,3,0,0]]",
		"[[1,2,3,4],[2,3,3,4]]"} {
		b := []byte(`{"v":3,"cuts":[{"path":"cA==","turn":1,"spans":` + spans + `}]}`)
		if _, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindRestore, Data: b}); !errors.Is(err,
			store.ErrCorrupt) {
			t.Errorf("spans %s: %v", spans, err)
		}
	}
}

// Up to where the windows of a turn that was cut off are known came later: who does not know it
// holds what it has changed for anybody's where its record does not tell.
func TestFormatRecordCutOff(t *testing.T) {
	want := history.Facts{Version: 1, After: 99,
		LineFacts: history.LineFacts{Prev: 98, Start: 80, Begin: 81, Since: 83},
		TurnFacts: history.TurnFacts{Turn: 3, Interrupted: true, Known: 97}}
	b := sample(t, "../v2/record-cutoff.json", want)
	r, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindStep, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.Facts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	turns := &history.Turns{Version: 1, Open: []*history.OpenTurn{{Session: "s", Known: 97, End: 98}}}
	got, _, err := history.DecodeTurns(cas.AppendSum(sample(t, "../v2/turns-cutoff.json", turns)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(turns, got); d != "" {
		t.Errorf("turns (-want +got):\n%s", d)
	}
}

// Restores that an undo has passed over came later, and need no newer version: who
// does not know them does not take them back.
func TestFormatRecordPast(t *testing.T) {
	want := history.Facts{Version: 1, After: 99, LineFacts: history.LineFacts{Prev: 98, Start: 80, Begin: 81},
		RestoreFacts: history.RestoreFacts{From: 92, Undoes: 73, Undo: 72, UndoPast: []uint64{75, 74},
			Redo: 71, RedoPast: []uint64{70}, Below: 71, Tops: "redo"}}
	b := sample(t, "../v2/record-past.json", want)
	r, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindRestore, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.Facts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := history.Read(&store.Snapshot{Seq: 75, Kind: history.KindRestore, Data: b}); !errors.Is(err,
		store.ErrCorrupt) {
		t.Errorf("a record that names one after it: %v", err)
	}
}

// What a turn is for came later, too, and that it goes on: who does not know it does without.
func TestFormatRecordTitle(t *testing.T) {
	want := history.Facts{Version: 1, After: 99,
		LineFacts: history.LineFacts{Prev: 98, Start: 80, Begin: 81, First: 82, Since: 83},
		TurnFacts: history.TurnFacts{Turn: 3, GoesOn: true, Agent: "claude", Model: "m-1"}}
	b := sample(t, "../v2/record-title.json", want)
	r, err := history.Read(&store.Snapshot{Seq: 100, Kind: history.KindStep, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.Facts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	turns := &history.Turns{Version: 1, Open: []*history.OpenTurn{{Session: "s", Title: "do\nit",
		Agent: "claude", Model: "m-1",
		Began: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Tools: []string{"call_1"},
		ToolBegan: time.Date(2026, 11, 24, 12, 1, 0, 0, time.UTC)}}}
	got, _, err := history.DecodeTurns(cas.AppendSum(sample(t, "../v2/turns-title.json", turns)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(turns, got); d != "" {
		t.Errorf("turns (-want +got):\n%s", d)
	}
	var note titleNote
	if err := json.Unmarshal(sample(t, "../v2/title.json", titleNote{"do\nit"}), &note); err != nil ||
		note.Title != "do\nit" {
		t.Errorf("note %+v, %v", note, err)
	}
}

func TestFormatEdit(t *testing.T) {
	turn := 3
	file := fileData{Path: "a\xff", To: "b", Op: patch.Update, Unread: true, BeforeHash: "01", AfterHash: "02",
		BeforeSHA256: "03", AfterSHA256: "04",
		Mode: patch.IsFuzzy, Stage: patch.Whitespace, Similarity: 0.5, Replacements: 2,
		Warnings: []string{"words_differ"}}
	want := editData{Version: 1, Aborted: true, UndoID: "0123456789abcdef", Undoes: "fedcba9876543210",
		Session: "s", Turn: &turn,
		Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Files: []fileData{file},
		Raw: [][2][]byte{{[]byte("a\xff"), []byte("b")}}}
	checkFull(t, reflect.ValueOf(want))
	checkFull(t, reflect.ValueOf(file), "Diff")
	result := want.result()
	checkFull(t, reflect.ValueOf(*result), "Preview")
	checkFull(t, reflect.ValueOf(result.Files[0]), "Diff")
	if d := cmp.Diff(want, newEditData(result), cmpopts.IgnoreFields(editData{}, "Aborted")); d != "" {
		t.Errorf("the record of its result (-want +got):\n%s", d)
	}
	b := sample(t, "edit.json", want)
	r, err := readEditRecord(&store.Snapshot{Seq: 100, Kind: history.KindEdit, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r.data); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestFormatTurns(t *testing.T) {
	turn := 12
	open := &history.OpenTurn{Session: "s", Turn: 3, RuntimeTurn: &turn, After: 99,
		Base: store.State{Tree: store.ID{1}, Coverage: store.ID{2}}, Prev: 98,
		Leaf: "leaf1", LeafAt: "leaf2", ToolWindows: true, Tools: []string{"call_1"}, Claims: [][]byte{[]byte("a\xff")},
		Foreign: [][]byte{[]byte("b")},
		Held:    true, Boot: "boot", Seen: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), End: 97}
	want := &history.Turns{Version: 1, Last: 99, Lost: []uint64{98}, Open: []*history.OpenTurn{open}}
	checkFull(t, reflect.ValueOf(*want))
	checkFull(t, reflect.ValueOf(*open), "Title", "Agent", "Model", "Began", "ToolBegan", "Past", "Known")
	b := sample(t, "turns.json", want)
	m := newBench(t).open("s")
	if err := m.withTurns(t.Context(), func(*history.Turns) error { return nil }); err != nil { // makes the directory
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
	if lost, err := history.LostRecords(t.Context(), m.store); err != nil || len(lost) != 2 || lost[0].Seq != 99 ||
		lost[1].Seq != 98 {
		t.Errorf("LostRecords = %v, %v, want 99 and 98", lost, err)
	}
	if err := m.writeTurns([]byte("{}"), false); err != nil { // which no record of this store is
		t.Fatal(err)
	}
	if err := m.store.FS().Remove(m.place().Dir() + "/turns.new"); err != nil &&
		!errors.Is(err, fs.ErrNotExist) { // there is none where two files cannot change places
		t.Fatal(err)
	}
}

func TestFormatPlaces(t *testing.T) {
	main := places.Place{Root: []byte("/home/u/p\xff"),
		Dir: vfs.Identity{Dev: 65024, Ino: 1 << 60, Born: 1795431160513558586}, View: "0123456789abcdef"}
	linked := main
	linked.ID, linked.Root = "f70778628d8584b19346a97ed6d6bc10", []byte("/home/u/linked")
	linked.Git = &places.PlaceGit{Path: []byte("/home/u/p/.git/worktrees/linked"), Name: "linked",
		Dir: vfs.Identity{Dev: 65024, Ino: 3, Born: 4}}
	want := &places.File{Version: 1, Main: &main, Worktrees: []places.Place{linked}}
	checkFull(t, reflect.ValueOf(*want))
	checkFull(t, reflect.ValueOf(linked))
	checkFull(t, reflect.ValueOf(*linked.Git))
	b := sample(t, "../v2/places.json", want)
	fsys := vfstest.NewMem()
	f, err := fsys.OpenFile(places.FileName, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteAt(cas.AppendSum(b), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := places.ReadFile(fsys, true)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Damage is damage where something was moved, else nothing is lost.
	if f, err = fsys.OpenFile(places.FileName, os.O_RDWR, 0); err == nil {
		_, err = f.WriteAt([]byte("7"), int64(strings.Index(string(b), "65024"))) // it is JSON still
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := places.ReadFile(fsys, true); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("damaged: %v, want ErrCorrupt", err)
	}
	if got, err := places.ReadFile(fsys, false); err != nil || len(got.Worktrees) > 0 {
		t.Errorf("damaged, and nothing was moved: %+v, %v", got, err)
	}
}
