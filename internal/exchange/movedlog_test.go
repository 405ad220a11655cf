package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/manager"
)

// TestMovedLog: the entries of a log that has come along with a clone have the numbers of records
// that are here, and all else is as it was.
func TestMovedLog(t *testing.T) {
	a, b := newMachine(t), remotetest.NewMem()
	a.turn("other", "takes numbers", func() { a.write("f", "zero") })
	a.log = filepath.Join(a.root, "pi.jsonl")
	log := `{"type":"session","version":3,"id":"s1","timestamp":"2026-11-26T00:00:00Z","cwd":"/p"}` + "\n"
	write := func(line string) {
		t.Helper()
		log += line + "\n"
		if err := os.WriteFile(a.log, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const said = `{"type":"message","id":"u0000001","parentId":null,"timestamp":"2026-11-26T00:00:01Z",` +
		`"message":{"role":"user","content":"say \"snapshotSeq\" <b>"}}`
	write(said)
	x := a.open("s1")
	_, err := x.OnTurnStart(t.Context(), &manager.Turn{Title: "one"})
	a.write("f", "one")
	r, err2 := x.OnTurnEnd(t.Context(), nil)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r.Data)
	if err != nil {
		t.Fatal(err)
	}
	const entry = `{"type":"custom","customType":"step-snapshot","id":%q,"parentId":"u0000001",` +
		`"timestamp":"2026-11-26T00:00:02Z","data":%s}`
	write(fmt.Sprintf(entry, "e0000001", data))
	write(fmt.Sprintf(entry, "nowhere1", data))
	if err := errors.Join(x.Told(t.Context(), r.Data.SnapshotSeq, "e0000001"), x.Close()); err != nil {
		t.Fatal(err)
	}
	a.mustPush(b)
	c, session := newMachine(t), "s1"
	c.mustClone(b, &session)
	err = c.withStore(func(s *cas.Store, loc *places.Location) error {
		moved, err := history.MovedLog(t.Context(), s, loc.Project.Worktree, "/there", []byte(log))
		if err != nil {
			return err
		}
		newest, err := s.Newest(t.Context(), loc.Project.Worktree, "s1")
		if err != nil {
			return err
		}
		if newest.Seq == r.Data.SnapshotSeq {
			t.Errorf("both stores call the turn %d", newest.Seq)
		}
		list := strings.Split(string(moved), "\n")
		if len(list) != 5 || list[1] != said || !strings.Contains(list[0], `"cwd":"/there"`) {
			t.Fatalf("the log is now\n%s", moved)
		}
		for i, want := range []uint64{newest.Seq, 0} {
			var e struct{ Data manager.StepSnapshotData }
			if err := json.Unmarshal([]byte(list[2+i]), &e); err != nil {
				return err
			}
			d := *r.Data
			d.SnapshotSeq = want
			if diff := cmp.Diff(d, e.Data); diff != "" {
				t.Errorf("entry %d (-want +got):\n%s", i, diff)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
