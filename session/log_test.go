package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/google/go-cmp/cmp"
)

// step returns a step-snapshot entry.
func step(id, parent string) Entry {
	return Entry{ID: id, ParentID: parent, Type: "custom", CustomType: StepSnapshot, Timestamp: at(35), Data: json.RawMessage(`{"turnIndex":0}`)}
}

func openLog(t testing.TB, fsys vfs.FS, name string) *Log {
	t.Helper()
	l, err := OpenLog(t.Context(), fsys, name, &Header{ID: "s", Timestamp: at(35), CWD: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t testing.TB, l *Log, entries ...Entry) {
	t.Helper()
	if err := l.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
}

func readMem(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLogBytes fixes what is written, byte by byte.
func TestLogBytes(t *testing.T) {
	fsys := vfs.NewMem()
	l := openLog(t, fsys, "s.jsonl")
	entries := []Entry{
		step("a", ""),
		{ID: "b", ParentID: "a", Type: "custom", CustomType: "other", Timestamp: at(36)},
		{ID: "c", ParentID: "a", Type: "branch_summary", FromID: "b", Timestamp: at(37), Summary: "a <b> & \u2028\n\"c\""},
		{ID: "d", ParentID: "c", Type: "branch_summary", FromID: "root", Timestamp: at(38), SkipFiles: true, Details: json.RawMessage(`[1]`)},
		{ID: "e", ParentID: "d", Type: "custom", CustomType: UnrevertPoint, Timestamp: at(39), Data: json.RawMessage(`null`)},
	}
	mustAppend(t, l, entries...)
	spaced := step("f", "e")
	spaced.Data = json.RawMessage("{\n \"a\": [ 1 ] }")
	mustAppend(t, l, spaced)
	want := `{"type":"session","version":3,"id":"s","timestamp":"2026-11-21T06:15:35.000Z","cwd":"/p"}
{"type":"custom","customType":"step-snapshot","data":{"turnIndex":0},"id":"a","parentId":null,"timestamp":"2026-11-21T06:15:35.000Z"}
{"type":"custom","customType":"other","id":"b","parentId":"a","timestamp":"2026-11-21T06:15:36.000Z"}
{"type":"branch_summary","id":"c","parentId":"a","timestamp":"2026-11-21T06:15:37.000Z","fromId":"b","summary":"a <b> & \u2028\n\"c\""}
{"type":"branch_summary","id":"d","parentId":"c","timestamp":"2026-11-21T06:15:38.000Z","fromId":"root","summary":"","skipFiles":true,"details":[1]}
{"type":"custom","customType":"unrevert-point","data":null,"id":"e","parentId":"d","timestamp":"2026-11-21T06:15:39.000Z"}
{"type":"custom","customType":"step-snapshot","data":{"a":[1]},"id":"f","parentId":"e","timestamp":"2026-11-21T06:15:35.000Z"}
`
	if diff := cmp.Diff(want, readMem(t, fsys, "s.jsonl")); diff != "" {
		t.Errorf("log -want +got\n%s", diff)
	}
	spaced.Data = json.RawMessage(`{"a":[1]}`)
	got := dumpTree(l.Tree())
	if diff := cmp.Diff(append(entries, spaced), got.Entries); diff != "" || got.Leaf != "f" || got.Total != 0 {
		t.Errorf("Tree, leaf %q, %d problems, -want +got\n%s", got.Leaf, got.Total, diff)
	}
	again := openLog(t, fsys, "s.jsonl")
	if diff := cmp.Diff(got, dumpTree(again.Tree())); diff != "" {
		t.Errorf("opened again -want +got\n%s", diff)
	}
	if got := again.Tree().Header(); got.ID != "s" || got.CWD != "/p" || !got.Timestamp.Equal(at(35)) {
		t.Errorf("Header = %+v", got)
	}
}

func TestLogRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	l := openLog(t, fsys, "s")
	mustAppend(t, l, step("a", ""))
	before := readMem(t, fsys, "s")
	bad := step("x", "a")
	bad.Data = json.RawMessage(`{`)
	for _, c := range []struct {
		entries []Entry
		err     error
		text    string
	}{
		{[]Entry{step("a", "")}, ErrEntryExists, `session file "s": entry "a": entry exists already`},
		{[]Entry{step("b", "a"), step("b", "a")}, ErrEntryExists, `session file "s": entry "b": entry exists already`},
		{[]Entry{step("b", "a"), step("c", "d")}, ErrUnknownEntry, `session file "s": parent of entry "c": entry "d": no such entry`},
		{[]Entry{step("b", "b")}, ErrUnknownEntry, `session file "s": parent of entry "b": entry "b": no such entry`},
		{[]Entry{step("b", "c"), step("c", "a")}, ErrUnknownEntry, `session file "s": parent of entry "b": entry "c": no such entry`},
		{[]Entry{step("", "a")}, nil, `session file "s": entry "": no id`},
		{[]Entry{step("\xff", "a")}, nil, `session file "s": entry "\xff": its IDs cannot be written`},
		{[]Entry{msg("b", "a", "user")}, nil, `session file "s": entry "b": entries of type "message" are not ours to write`},
		{[]Entry{bad}, nil, `session file "s": entry "x": json: `},
	} {
		err := l.Append(t.Context(), c.entries...)
		if err == nil || !strings.HasPrefix(err.Error(), c.text) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("Append(%+v)\n got %v\nwant %s", c.entries, err, c.text)
		}
	}
	if got := readMem(t, fsys, "s"); got != before {
		t.Errorf("something was written: %q", got)
	}
	if err := l.Append(t.Context()); err != nil {
		t.Errorf("Append of nothing = %v", err)
	}
	mustAppend(t, l, step("b", "a"), step("c", "b")) // none of that was for good
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), step("d", "c")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append after Close = %v", err)
	}
	if _, err := OpenLog(t.Context(), fsys, "nope", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenLog without a header = %v", err)
	}
	for _, id := range []string{"", "\xff"} {
		if _, err := OpenLog(t.Context(), fsys, "nope", &Header{ID: id}); err == nil {
			t.Errorf("OpenLog with the session ID %q succeeds", id)
		}
	}
	writeMem(t, fsys, "text", "hello\n")
	if _, err := OpenLog(t.Context(), fsys, "text", &Header{ID: "s"}); !errors.Is(err, ErrFormat) || readMem(t, fsys, "text") != "hello\n" {
		t.Errorf("OpenLog of a text file = %v", err)
	}
	names, err := fsys.ReadDir(".")
	if want := []string{"s", "s.lock", "text"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("files %v, %v; want %v", names, err, want)
	}
}

func TestLogTorn(t *testing.T) {
	fsys := vfs.NewMem()
	l := openLog(t, fsys, "s")
	mustAppend(t, l, step("a", ""))
	whole := readMem(t, fsys, "s")
	for i, torn := range []string{`{"type":"cus`, "\x00\x00", `{"type":"custom","id":"b"}`} {
		appendMem(t, fsys, "s", torn)
		reader := openLog(t, fsys, "s")
		id := fmt.Sprint("t", i)
		mustAppend(t, reader, step(id, "a"))
		line, err := (&Entry{ID: id, ParentID: "a", Type: "custom", CustomType: StepSnapshot, Timestamp: at(35), Data: json.RawMessage(`{"turnIndex":0}`)}).line()
		if err != nil {
			t.Fatal(err)
		}
		whole += string(line)
		if diff := cmp.Diff(whole, readMem(t, fsys, "s")); diff != "" {
			t.Errorf("log after the torn line %q -want +got\n%s", torn, diff)
		}
		if got := readMem(t, fsys, fmt.Sprintf("s.torn-%d", i+1)); got != torn {
			t.Errorf("kept %q of the torn line %q", got, torn)
		}
	}
	if err := l.Refresh(t.Context()); err != nil || l.Tree().Leaf() != "t2" {
		t.Errorf("Refresh of the first = %v, leaf %q", err, l.Tree().Leaf())
	}
	if _, total := l.Tree().Problems(); total != 0 {
		t.Errorf("%d problems", total)
	}
}

// TestLogConcurrent has two handles on a real directory, with many goroutines
// each that append chains of two, and one that reads all along.
func TestLogConcurrent(t *testing.T) {
	fsys := vfs.OS(t.TempDir())
	const workers, rounds = 4, 10
	var opening sync.WaitGroup
	var logs [2]*Log
	for i := range logs {
		opening.Go(func() { logs[i] = openLog(t, fsys, "s") }) // both create it
	}
	opening.Wait()
	stop := make(chan bool)
	var reading, writing sync.WaitGroup
	reading.Go(func() {
		f, err := OpenFS(context.Background(), fsys, "s")
		if err != nil {
			t.Error(err)
			return
		}
		for done := false; !done; {
			select {
			case <-stop:
				done = true // once more
			default:
			}
			if err := f.Refresh(context.Background()); err != nil {
				t.Error(err)
			}
			if _, total := f.Tree().Problems(); total != 0 {
				t.Errorf("a reader saw %d problems", total)
			}
		}
		if got := f.Tree().Len(); got != 2*len(logs)*workers*rounds {
			t.Errorf("the reader has %d entries", got)
		}
	})
	for i, l := range logs {
		for w := range workers {
			writing.Go(func() {
				last := ""
				for r := range rounds {
					a, b := fmt.Sprintf("%d-%d-%da", i, w, r), fmt.Sprintf("%d-%d-%db", i, w, r)
					if err := l.Append(context.Background(), step(a, last), step(b, a)); err != nil {
						t.Error(err)
						return
					}
					if path, err := l.Tree().Path(b); err != nil || len(path) != 2*(r+1) {
						t.Errorf("Path(%s) has %d entries, %v", b, len(path), err)
					}
					last = b
				}
			})
		}
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	tree := openLog(t, fsys, "s").Tree()
	if _, total := tree.Problems(); total != 0 || tree.Len() != 2*len(logs)*workers*rounds {
		t.Errorf("%d entries and %d problems", tree.Len(), total)
	}
}

func TestLogLocked(t *testing.T) {
	fsys := vfs.NewMem()
	l := openLog(t, fsys, "s")
	f, err := fsys.OpenFile("s.lock", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if err := l.Append(ctx, step("a", "")); !errors.Is(err, reason) {
		t.Errorf("Append while another has the lock = %v", err)
	}
	f.Close()
	mustAppend(t, l, step("a", ""))
}

// TestLogFaults fails each operation of opening a log and appending to it,
// with and without a torn line before, then cuts the power.
func TestLogFaults(t *testing.T) {
	created := vfs.NewMem()
	openLog(t, created, "s")
	if got := readMem(t, created.AfterCrash(nil), "s"); got != readMem(t, created, "s") {
		t.Errorf("after creation and a crash the log is %q", got)
	}
	for _, sticky := range []bool{false, true} {
		for _, torn := range []bool{false, true} {
			for at := int64(0); ; at++ {
				disk, fault := vfs.NewMem(), &vfs.Fault{At: at, Sticky: sticky}
				where := fmt.Sprintf("fault at operation %d (sticky=%v, torn=%v)", at, sticky, torn)
				acked := runFaulty(t, disk, fault, torn, where)
				for try := range 8 {
					var rng *rand.Rand
					if try > 0 {
						rng = rand.New(rand.NewPCG(uint64(at), uint64(try)))
					}
					checkCrashed(t, disk.AfterCrash(rng), torn, acked, where)
				}
				checkCrashed(t, disk, torn, acked, where+" without a crash")
				if !fault.Fired() {
					break
				}
			}
		}
	}
}

// tornLine looks like the start of the first entry that runFaulty appends: what
// mixes the two reads as an entry. Both are longer than a block of the disk.
var tornLine = `{"type":"custom","customType":"step-snapshot","data":"` + strings.Repeat("y", 600)

// runFaulty opens a log and appends to it until something fails, and returns
// the IDs that were acknowledged.
func runFaulty(t *testing.T, disk *vfs.Mem, fault *vfs.Fault, torn bool, where string) (acked []string) {
	if torn {
		h := Header{ID: "s"}
		line, err := h.line()
		if err != nil {
			t.Fatal(err)
		}
		writeMem(t, disk, "s", string(line)+tornLine)
		f, err := disk.OpenFile("s", 0, 0)
		if err := errors.Join(err, f.Sync(), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenLog(t.Context(), vfs.WithFault(disk, fault), "s", &Header{ID: "s"})
	if err != nil {
		if !errors.Is(err, vfs.ErrInjected) {
			t.Errorf("%s: OpenLog = %v", where, err)
		}
		return nil
	}
	parent := ""
	var first error
	for i := range 3 {
		a, b := step(fmt.Sprintf("%da", i), parent), step(fmt.Sprintf("%db", i), fmt.Sprintf("%da", i))
		a.Data = json.RawMessage(`"` + strings.Repeat("x", 700) + `"`)
		fired := fault.Fired()
		err := l.Append(t.Context(), a, b)
		switch {
		case err == nil:
			acked = append(acked, a.ID, b.ID)
			parent = b.ID
		case fired && first == nil && !fault.Sticky, !errors.Is(err, vfs.ErrInjected):
			t.Errorf("%s: Append %d = %v", where, i, err)
		case first == nil:
			first = err
		}
		if l.err != nil && err == nil {
			t.Errorf("%s: Append %d succeeds after %v", where, i, l.err)
		}
	}
	return acked
}

// checkCrashed opens the log again.
func checkCrashed(t *testing.T, disk vfs.FS, torn bool, acked []string, where string) {
	t.Helper()
	var all strings.Builder
	names, err := disk.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all.WriteString(readMem(t, disk, name))
	}
	if torn && !strings.Contains(all.String(), tornLine) {
		t.Errorf("%s: the torn line is gone", where)
	}
	l, err := OpenLog(t.Context(), disk, "s", &Header{ID: "s"})
	if err != nil {
		t.Errorf("%s: reopen: %v", where, err)
		return
	}
	for e := range l.Tree().Entries() {
		if strings.Contains(string(e.Data), "y") {
			t.Errorf("%s: an entry that nobody wrote: %s", where, e.Data)
		}
	}
	for _, id := range acked {
		if _, ok := l.Tree().Entry(id); !ok {
			t.Errorf("%s: entry %s was acknowledged and is gone", where, id)
		}
	}
	last := ""
	if len(acked) > 0 {
		last = acked[len(acked)-1]
	}
	path, err := l.Tree().Path(last)
	if ids(path) != strings.Join(acked, " ") || err != nil {
		t.Errorf("%s: path %q, %v; want %v", where, ids(path), err, acked)
	}
	id := NewID(l.Tree())
	if err := l.Append(t.Context(), step(id, last)); err != nil {
		t.Errorf("%s: next Append = %v", where, err)
	}
	again, err := OpenLog(t.Context(), disk, "s", nil)
	if err != nil || again.Tree().Leaf() != id {
		t.Errorf("%s: the next Append was lost, %v", where, err)
	}
}

// TestLogFailsEverAfter fails each write and sync of an Append.
func TestLogFailsEverAfter(t *testing.T) {
	for _, op := range []string{"WriteAt", "Sync", "SyncDir"} {
		disk := vfs.NewMem()
		openLog(t, disk, "s")
		fault := &vfs.Fault{At: -1}
		l := openLog(t, vfs.WithFault(disk, fault), "s")
		fault.Trace = func(got, name string) {
			if got == op && !fault.Fired() {
				fault.At = fault.Count()
			}
		}
		first := l.Append(t.Context(), step("a", ""))
		if !errors.Is(first, vfs.ErrInjected) {
			t.Errorf("%s: Append = %v", op, first)
		}
		if err := l.Append(t.Context(), step("b", "")); err == nil || err.Error() != first.Error() {
			t.Errorf("%s: next Append = %v, want %v", op, err, first)
		}
		mustAppend(t, openLog(t, disk, "s"), step("b", ""))
	}
}

// BenchmarkAppend is one entry to a log with 10,000. The floor is one write
// and one sync.
func BenchmarkAppend(b *testing.B) {
	fsys := vfs.OS(b.TempDir())
	b.Run("append", func(b *testing.B) {
		l := openLog(b, fsys, "s")
		if l.Tree().Len() == 0 {
			var entries []Entry
			for i := range 10_000 {
				entries = append(entries, step(fmt.Sprintf("n%d", i), ""))
			}
			mustAppend(b, l, entries...)
		}
		for b.Loop() {
			mustAppend(b, l, step(NewID(l.Tree()), l.Tree().Leaf()))
		}
	})
	b.Run("floor", func(b *testing.B) {
		writeMem(b, fsys, "floor", "")
		f, err := fsys.OpenFile("floor", 2, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		off, line := int64(0), make([]byte, 140)
		for b.Loop() {
			if _, err := f.WriteAt(line, off); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			off += int64(len(line))
		}
	})
}

// What version 1 wrote as the log of a session without a runtime must be read for
// ever, and is what this version writes.
func TestFormatLog(t *testing.T) {
	kept, err := os.ReadFile("../testdata/format/v1/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	h := &Header{Version: 3, ID: "s", Timestamp: at(0), CWD: "/home/u/proj", ParentSession: "/x/y.jsonl"}
	entries := []Entry{
		{ID: "00000001", Type: "custom", CustomType: StepSnapshot, Data: json.RawMessage(`{"snapshotSeq":2}`), Timestamp: at(1)},
		{ID: "00000002", ParentID: "00000001", Type: "branch_summary", FromID: "root", Summary: "s\u2028<&>", SkipFiles: true, Details: json.RawMessage(`{"a":1}`), Timestamp: at(2)},
	}
	disk := vfs.NewMem()
	l, err := OpenLog(t.Context(), disk, "log", h)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(disk, "log")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(kept), string(b)); d != "" {
		t.Errorf("it is written otherwise (-want +got):\n%s", d)
	}
	writeMem(t, disk, "old", string(kept))
	old, err := OpenLog(t.Context(), disk, "old", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := NewTree(*h, entries...)
	if d := cmp.Diff(describe(want), describe(old.Tree())); d != "" {
		t.Errorf("it is read otherwise (-want +got):\n%s", d)
	}
}
