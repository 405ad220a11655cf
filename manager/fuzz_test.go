package manager

import (
	"context"
	"testing"

	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// FuzzRecord checks that data of a record is refused or can be used.
func FuzzRecord(f *testing.F) {
	good := &record{Snapshot: &store.Snapshot{Kind: kindStep, Base: store.State{Tree: store.ID{1}}, Also: make([]store.State, 2)}}
	good.setParts([]stretch{{store.State{Tree: store.ID{1}}, store.State{Tree: store.ID{2}}, false},
		{store.State{Tree: store.ID{3}}, store.State{Tree: store.ID{4}}, true}}, store.State{Tree: store.ID{4}})
	good.data.Untold, good.data.Pins = 2, []uint64{3}
	good.write()
	f.Add(good.Data, uint8(2), kindStep)
	for _, data := range []string{`{"v":1,"parts":[{"from":0,"to":4}]}`, `{"v":1,"parts":[{"from":-1,"to":0}]}`, `{"v":1,"parts":[{"from":3,"to":3}]}`,
		`{"v":2}`, `{"v":1}`, ``, `null`, `[]`, `{"v":1,"windows":[null],"claims":[null,""]}`, `{"v":1,"parts":[null]}`, `{"v":1,"turn":1e99}`,
		`{"v":1,"prev":6,"jump":6,"after":6,"start":6,"untold":6}`, `{"v":1,"prev":7}`, `{"v":1,"jump":7}`, `{"v":1,"untold":7}`} {
		f.Add([]byte(data), uint8(2), kindStep)
	}
	f.Add([]byte(`{"v":1}`), uint8(0), "of the future")
	f.Fuzz(func(t *testing.T, data []byte, also uint8, kind string) {
		s := &store.Snapshot{Seq: 7, Kind: kind, Also: make([]store.State, also), Data: data}
		r, err := readRecord(s)
		if err != nil {
			return
		}
		r.stretches()
		r.step()
		r.start()
		(&FileSnapshotManager{}).dataOf(r, nil)
		r.write()
		if _, err := readRecord(r.Snapshot); err != nil {
			t.Errorf("what was read and written is refused: %v", err)
		}
	})
}

// FuzzStepData checks that data in a runtime's log is left alone or can be
// used.
func FuzzStepData(f *testing.F) {
	id := store.ID{1}
	d := &StepSnapshotData{BaselineTreeHash: &id, SnapshotTreeHash: id, Diff: NewDiff(), TurnIndex: 3, SnapshotSeq: 1 << 60, AboveEntryID: "x"}
	f.Add(encode(d))
	f.Add([]byte(`{"snapshotTreeHash":"e5f6a7b8"}`))
	f.Add([]byte(`{"snapshotTreeHash":null,"turnIndex":-1}`))
	f.Add([]byte(`{"diff":{"added":null,"pathBytes":{"added":{"-1":"AA=="}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newManager(newEngine(&EngineOptions{}), newWorktree(nil, "", nil), &Options{Session: "s"})
		e := &session.Entry{ID: "e", Type: "custom", CustomType: session.StepSnapshot, Data: data}
		got := parseStep(e)
		if got == nil {
			return
		}
		if got.SnapshotTreeHash.IsZero() || got.TurnIndex < 0 {
			t.Errorf("taken for ours: %s", data)
		}
		if got.SnapshotSeq != 0 {
			return // a record is looked up
		}
		r, err := (&line{m: m}).stepOf(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.changes(context.Background(), r); err != nil {
			t.Error(err)
		}
	})
}
