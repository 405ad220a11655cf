package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/wire"
)

// A request is told four times a second how far it is, phase by phase, if it asks for that.
func TestProgressEvents(t *testing.T) {
	b := newBench(t)
	s, err := verbs.Open(t.Context(), b.server.Engine, &client.Initialize{CWD: b.dir, SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, asked := range []bool{true, false} {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			c := &conn{out: &wire.LineWriter{W: &out}}
			q := &request{ID: json.RawMessage("7"), Progress: asked}
			_, err := c.watched(t.Context(), &served{Session: s}, q, func(ctx context.Context) (any, error) {
				p := progress.Of(ctx)
				p.Begin(progress.Phase{Name: "reading", Unit: "file"})
				p.Count(3, 0)
				p.CountRead(10)
				time.Sleep(300 * time.Millisecond) // of which 250 are one event
				p.Begin(progress.Phase{Name: "writing", Unit: "file", Items: 5, Bytes: 50})
				p.Count(1, 20)
				time.Sleep(time.Minute) // in which nothing happens
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		want := `{"id":7,"type":"progress","phase":"reading","files":3,"readFiles":1,"readBytes":10}` + "\n" +
			`{"id":7,"type":"progress","phase":"writing","files":1,"readFiles":0,"readBytes":20,` +
			`"totalFiles":5,"totalBytes":50}` + "\n"
		if !asked {
			want = ""
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("events, asked for: %v (-want +got):\n%s", asked, d)
		}
	}
}
