package sessionlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/session"
)

// step returns a step-snapshot entry.
func step(id, parent string) session.Entry {
	return session.Entry{ID: id, ParentID: parent, Type: "custom", CustomType: StepSnapshot, Timestamp: at(35), Data: json.RawMessage(`{"turnIndex":0}`)}
}

// readLog reads a log that AppendLog has written.
func readLog(t *testing.T, log []byte) *File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(name, log, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLogBytes fixes what is written, byte by byte.
func TestLogBytes(t *testing.T) {
	h := &Header{ID: "s", Timestamp: at(35), CWD: "/p"}
	entries := []session.Entry{
		step("a", ""),
		{ID: "b", ParentID: "a", Type: "custom", CustomType: "other", Timestamp: at(36)},
		{ID: "c", ParentID: "a", Type: "branch_summary", FromID: "b", Timestamp: at(37),
			Summary: "a <b> & \u2028\n\"c\""},
		{ID: "d", ParentID: "c", Type: "branch_summary", FromID: "root", Timestamp: at(38), SkipFiles: true, Details: json.RawMessage(`[1]`)},
		{ID: "e", ParentID: "d", Type: "custom", CustomType: UnrevertPoint, Timestamp: at(39), Data: json.RawMessage(`null`)},
	}
	log, err := AppendLog(nil, h, entries...)
	if err != nil {
		t.Fatal(err)
	}
	spaced := step("f", "e")
	spaced.Data = json.RawMessage("{\n \"a\": [ 1 ] }")
	if log, err = AppendLog(append(log, `{"type":"cus`...), h, spaced); err != nil { // a torn line goes
		t.Fatal(err)
	}
	want := `{"type":"session","version":3,"id":"s","timestamp":"2026-11-21T06:15:35.000Z","cwd":"/p"}
{"type":"custom","customType":"step-snapshot","data":{"turnIndex":0},"id":"a","parentId":null,"timestamp":"2026-11-21T06:15:35.000Z"}
{"type":"custom","customType":"other","id":"b","parentId":"a","timestamp":"2026-11-21T06:15:36.000Z"}
{"type":"branch_summary","id":"c","parentId":"a","timestamp":"2026-11-21T06:15:37.000Z","fromId":"b","summary":"a <b> & \u2028\n\"c\""}
{"type":"branch_summary","id":"d","parentId":"c","timestamp":"2026-11-21T06:15:38.000Z","fromId":"root","summary":"","skipFiles":true,"details":[1]}
{"type":"custom","customType":"unrevert-point","data":null,"id":"e","parentId":"d","timestamp":"2026-11-21T06:15:39.000Z"}
{"type":"custom","customType":"step-snapshot","data":{"a":[1]},"id":"f","parentId":"e","timestamp":"2026-11-21T06:15:35.000Z"}
`
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("log -want +got\n%s", diff)
	}
	spaced.Data = json.RawMessage(`{"a":[1]}`)
	got := dumpFile(readLog(t, log))
	if diff := cmp.Diff(append(entries, spaced), got.Entries); diff != "" || got.Leaf != "f" || got.Total != 0 {
		t.Errorf("Tree, leaf %q, %d problems, -want +got\n%s", got.Leaf, got.Total, diff)
	}
}

func TestLogRefuses(t *testing.T) {
	bad := step("x", "a")
	bad.Data = json.RawMessage(`{`)
	for _, c := range []struct {
		id    string
		entry session.Entry
		text  string
	}{
		{"s", step("", "a"), `entry "": no id`},
		{"s", step("\xff", "a"), `entry "\xff": its IDs cannot be written`},
		{"s", message("b", "a", "user"), `entry "b": entries of type "message" are not ours to write`},
		{"s", bad, `entry "x": json: `},
		{"", step("a", ""), `session ID "": cannot be written`},
		{"\xff", step("a", ""), `session ID "\xff": cannot be written`},
	} {
		log, err := AppendLog(nil, &Header{ID: c.id}, c.entry)
		if err == nil || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("AppendLog(%q, %+v)\n got %q, %v\nwant %s", c.id, c.entry, log, err, c.text)
		}
	}
}

// What version 1 wrote as the log of a session without a runtime must be read for
// ever, and is what this version writes.
func TestFormatLog(t *testing.T) {
	kept, err := os.ReadFile("../../testdata/format/v1/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	h := &Header{Version: 3, ID: "s", Timestamp: at(0), CWD: "/home/u/proj", ParentSession: "/x/y.jsonl"}
	entries := []session.Entry{
		{ID: "00000001", Type: "custom", CustomType: StepSnapshot, Data: json.RawMessage(`{"snapshotSeq":2}`), Timestamp: at(1)},
		{ID: "00000002", ParentID: "00000001", Type: "branch_summary", FromID: "root", Summary: "s\u2028<&>",
			SkipFiles: true, Details: json.RawMessage(`{"a":1}`), Timestamp: at(2)},
	}
	log, err := AppendLog(nil, h, entries...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(kept), string(log)); d != "" {
		t.Errorf("it is written otherwise (-want +got):\n%s", d)
	}
	read := readLog(t, kept)
	if d := cmp.Diff(describe(*h, session.NewTree(entries...)), describe(read.Header(), read.Tree())); d != "" {
		t.Errorf("it is read otherwise (-want +got):\n%s", d)
	}
}
