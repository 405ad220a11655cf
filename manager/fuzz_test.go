package manager

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// FuzzRecord checks that data of a record is refused or can be used.
func FuzzRecord(f *testing.F) {
	good := &record{Snapshot: &store.Snapshot{Kind: history.KindStep, Base: store.State{Tree: store.ID{1}},
		Also: make([]store.State, 2)}}
	good.SetParts([]history.Stretch{{From: store.State{Tree: store.ID{1}}, To: store.State{Tree: store.ID{2}}},
		{From: store.State{Tree: store.ID{3}}, To: store.State{Tree: store.ID{4}}, Contested: true}},
		store.State{Tree: store.ID{4}})
	good.Facts.Untold, good.Facts.Pins = 2, []uint64{3}
	good.Write()
	for _, b := range nearmiss.Of(good.Data) {
		f.Add(b, uint8(2), history.KindStep)
	}
	for _, data := range []string{`{"v":1,"parts":[{"from":0,"to":4}]}`, `{"v":1,"parts":[{"from":-1,"to":0}]}`, `{"v":1,"parts":[{"from":3,"to":3}]}`,
		`{"v":2}`, `{"v":1}`, ``, `null`, `[]`, `{"v":1,"windows":[null],"claims":[null,""]}`, `{"v":1,"parts":[null]}`, `{"v":1,"turn":1e99}`,
		`{"v":1,"prev":6,"jump":6,"after":6,"start":6,"untold":6}`, `{"v":1,"prev":7}`, `{"v":1,"jump":7}`, `{"v":1,"untold":7}`} {
		f.Add([]byte(data), uint8(2), history.KindStep)
	}
	f.Add([]byte(`{"v":1}`), uint8(0), "of the future")
	f.Fuzz(func(t *testing.T, data []byte, also uint8, kind string) {
		s := &store.Snapshot{Seq: 7, Kind: kind, Also: make([]store.State, also), Data: data}
		r, err := history.Read(s)
		if err != nil {
			return
		}
		r.Stretches()
		r.Step()
		r.Start()
		(&FileSnapshotManager{}).dataOf(r, nil, "")
		r.Write()
		if _, err := history.Read(r.Snapshot); err != nil {
			t.Errorf("what was read and written is refused: %v", err)
		}
	})
}

// FuzzStepData checks that data in a runtime's log is left alone or can be
// used.
func FuzzStepData(f *testing.F) {
	id := store.ID{1}
	d := &StepSnapshotData{BaselineTreeHash: &id, SnapshotTreeHash: id, Diff: newDiff(), TurnIndex: 3,
		SnapshotSeq: 1 << 60, AboveEntryID: "x"}
	for _, b := range nearmiss.Of(encode(d)) {
		f.Add(b)
	}
	f.Add([]byte(`{"snapshotTreeHash":"e5f6a7b8"}`))
	f.Add([]byte(`{"snapshotTreeHash":null,"turnIndex":-1}`))
	f.Add([]byte(`{"diff":{"added":null,"pathBytes":{"added":{"-1":"AA=="}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newManager(newEngine(&EngineOptions{}), newWorktree(new(capture.Project), "", nil), &Options{Session: "s"})
		e := &session.Entry{ID: "e", Type: "custom", CustomType: sessionlog.StepSnapshot, Data: data}
		got := history.ParseStep(e)
		if got == nil {
			return
		}
		if got.Tree.IsZero() || got.Turn < 0 {
			t.Errorf("taken for ours: %s", data)
		}
		if got.Seq != 0 {
			return // a record is looked up
		}
		r, err := m.byRecords().stepOf(context.Background(), e)
		if errors.Is(err, ErrUnknown) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loggedChanges(r); err != nil {
			t.Error(err)
		}
	})
}

// FuzzTurns checks that the file of open turns is refused as of a later version,
// or can be used: what is not understood makes all that changed until now
// contested, which is what somebody of nobody's name says.
func FuzzTurns(f *testing.F) {
	turn := 3
	good := encode(&history.Turns{Version: history.TurnsVersion, Last: 9, Open: []*history.OpenTurn{
		{Session: "s", Turn: 1, After: 7, Base: store.State{Tree: store.ID{1}}, Held: true, Boot: "b",
			Seen: time.Unix(0, 0).UTC()},
		{Session: "t", RuntimeTurn: &turn, ToolWindows: true, Tools: []string{"x"},
			Claims: [][]byte{[]byte("a")}, End: 8}}})
	for _, b := range nearmiss.Of(good[:len(good)/2]) {
		f.Add(slices.Concat(b, good[len(good)/2:]))
	}
	for _, text := range []string{``, `null`, `{}`, `{"v":0}`, `{"v":2,"open":7}`, `{"v":1,"open":[null]}`, `{"v":1,"open":[{}]}`, `{"v":1e0}`, `{"v":1,"open":{}}`,
		`{"v":1,"open":[{"session":"s"},{"session":"s"},{"session":"?"}]}`, `{"v":1,"open":[{"session":"\ud800","seen":"0000-01-01T00:00:00+23:59"}]}`,
		`{"v":1,"open":[{"session":"../../x","held":true}]} `, `{"V":1,"v":3}`, `{"v":1,"last":-1}`, `{"v":1}{"v":1}`} {
		f.Add([]byte(text))
	}
	project, err := capture.FindProject(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	disk := vfstest.NewMem()
	s, err := cas.OpenFS(f.Context(), disk, &cas.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	m := newManager(newEngine(&EngineOptions{}), newWorktree(project, "", s), &Options{Session: "s"})
	if err := m.withTurns(f.Context(), func(*history.Turns) error { return nil }); err != nil { // makes the directories
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := m.writeTurns(b, false); err != nil {
			t.Fatal(err)
		}
		got, _, err := m.readTurns()
		if err != nil {
			if !errors.Is(err, store.ErrFormat) {
				t.Errorf("readTurns: %v", err)
			}
			return
		}
		if got.Version != history.TurnsVersion || slices.Contains(got.Open, nil) {
			t.Errorf("readTurns = %+v", got)
		}
		var after []byte
		if err := m.withTurns(t.Context(), func(open *history.Turns) error {
			open.Windows()
			open.Of("s")
			err := m.bury(open, 5)
			if slices.ContainsFunc(open.Windows(), func(s string) bool { return s == history.Nobody }) {
				t.Errorf("nobody's turn outlives the burial")
			}
			after = encode(open)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		again, _, err := m.readTurns()
		if err != nil || !bytes.Equal(encode(again), after) {
			t.Errorf("written and read again: %s, %v, was %s", encode(again), err, after)
		}
	})
}

// FuzzEditRecord checks that data of an edit is refused or says the same when it is
// written again.
func FuzzEditRecord(f *testing.F) {
	good := editData{Version: editVersion, UndoID: "0123456789abcdef", Session: "s", Time: time.Unix(0, 0).UTC(),
		Files: []fileData{{Path: "a\xff", To: "b", Op: patch.Update, BeforeHash: "00"}},
		Raw:   [][2][]byte{{[]byte("a\xff"), []byte("b")}}}
	for _, b := range nearmiss.Of(encode(&good)) {
		f.Add(b)
	}
	for _, text := range []string{``, `null`, `{"v":1}`, `{"v":1,"files":[{}]}`, `{"v":1,"files":[{}],"raw":[[]]}`, `{"v":1,"files":[{}],"raw":[null]}`,
		`{"v":1,"raw":[["YQ==","Yg==","Yw=="]],"files":[null]}`, `{"v":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readEditRecord(&store.Snapshot{Seq: 7, Kind: history.KindEdit, Data: data})
		if err != nil {
			return
		}
		again, err := readEditRecord(&store.Snapshot{Seq: 7, Kind: history.KindEdit, Data: encode(&r.data)})
		if err != nil || !cmp.Equal(again.data, r.data, cmpopts.EquateEmpty()) {
			t.Errorf("read, written, read: %+v, %v, was %+v", again, err, r.data)
		}
	})
}
