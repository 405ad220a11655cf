package sessionlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/session"
)

const headerV3 = `{"type":"session","version":3,"id":"0198f6f0-7a3b-7cc0-9d2e-1f0a5b6c7d8e","timestamp":"2026-11-21T06:15:35.123Z","cwd":"/home/u/proj","parentSession":"/x/y.jsonl"}` + "\n"

// piLog is what pi 0.73 and 1.5 write, and what gets between.
const piLog = headerV3 +
	`{"type":"model_change","id":"00000001","parentId":null,"timestamp":"2026-11-21T06:15:36.000Z","provider":"p","modelId":"m"}` + "\n" +
	`{"type":"message","id":"00000002","parentId":"00000001","timestamp":"2026-11-21T06:15:37.000Z","message":{"role":"user","content":"a\u2028b` + "\u2028" + `c"}}` + "\r\n" +
	`{"type":"message","id":"00000003","parentId":"00000002","timestamp":"2026-11-21T06:15:38.000Z","message":{"role":"assistant","content":[{"type":"toolCall"}]}}` + "\n" +
	"\n" +
	`{"type":"mess` + "\n" +
	`{"type":"custom","customType":"step-snapshot","data":{"turnIndex":0},"id":"00000004","parentId":"00000003","timestamp":"2026-11-21T06:15:39.000Z"}` + "\n" +
	`{"type":"custom","customType":"theirs","data":{"x":0},"id":"00000005","parentId":"00000004","timestamp":"2026-11-21T06:15:40.000Z"}` + "\n" +
	`[1]` + "\n" +
	`{"type":"usage","kind":"x","id":"0198f6f0-7a3b-7cc0-9d2e-1f0a5b6c7d8f","parentId":"00000005","timestamp":"when"}` + "\n" +
	`{"type":"label","parentId":"00000005"}` + "\n" +
	`{"type":"branch_summary","id":"not hex","parentId":"00000002","timestamp":"2026-11-21T06:15:41.000Z","fromId":"00000005","summary":"s"}` + "\n" +
	`{"type":"message","id":"00000006","parentId":"cut","message":{"role":"user"}}` + "\n" +
	`{"type":"message","id":"00000006","parentId":"not hex","message":{"role":"toolResult"}}` + "\n"

var piHeader = Header{
	Version: 3, ID: "0198f6f0-7a3b-7cc0-9d2e-1f0a5b6c7d8e", Timestamp: at(35).Add(123 * time.Millisecond),
	CWD: "/home/u/proj", ParentSession: "/x/y.jsonl",
}

func at(sec int) time.Time { return time.Date(2026, 11, 21, 6, 15, sec, 0, time.UTC) }

func writeMem(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendMem(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), st.Size); err != nil {
		t.Fatal(err)
	}
}

// dump is all that a tree says.
type dump struct {
	Header   Header
	Entries  []session.Entry
	Leaf     string
	Problems []Problem
	Total    int
}

func dumpFile(f *File) dump {
	d := dump{Header: f.Header(), Leaf: f.Tree().Leaf()}
	for e := range f.Tree().Entries() {
		d.Entries = append(d.Entries, *e)
	}
	d.Problems, d.Total = f.Problems()
	return d
}

func length(t *session.Tree) int { return len(slices.Collect(t.Entries())) }

func lineOffset(log string, line int) int64 {
	return int64(len(strings.Join(strings.SplitAfter(log, "\n")[:line-1], "")))
}

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "s.jsonl")
	if err := os.WriteFile(name, []byte(piLog), 0o600); err != nil {
		t.Fatal(err)
	}
	want := dump{
		Header: piHeader,
		Entries: []session.Entry{
			{ID: "00000001", Type: "model_change", Timestamp: at(36)},
			{ID: "00000002", ParentID: "00000001", Type: "message", Role: "user", Timestamp: at(37)},
			{ID: "00000003", ParentID: "00000002", Type: "message", Role: "assistant", Timestamp: at(38)},
			{ID: "00000004", ParentID: "00000003", Type: "custom", CustomType: StepSnapshot, Data: json.RawMessage(`{"turnIndex":0}`), Timestamp: at(39)},
			{ID: "00000005", ParentID: "00000004", Type: "custom", CustomType: "theirs", Timestamp: at(40)},
			{ID: "0198f6f0-7a3b-7cc0-9d2e-1f0a5b6c7d8f", ParentID: "00000005", Type: "usage"},
			{ID: "not hex", ParentID: "00000002", Type: "branch_summary", FromID: "00000005", Summary: "s",
				Timestamp: at(41)},
			{ID: "00000006", ParentID: "not hex", Type: "message", Role: "toolResult"},
		},
		Leaf: "00000006",
		Problems: []Problem{
			{6, lineOffset(piLog, 6), "not a JSON object"},
			{9, lineOffset(piLog, 9), "not a JSON object"},
			{11, lineOffset(piLog, 11), "no id"},
			{14, lineOffset(piLog, 14), `entry "00000006" is there twice; the later one counts`},
		},
		Total: 4,
	}
	f, err := OpenFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dumpFile(f)); diff != "" {
		t.Errorf("tree -want +got\n%s", diff)
	}
}

// TestBlocks reads the same log in blocks of all sizes.
func TestBlocks(t *testing.T) {
	fsys := vfstest.NewMem()
	writeMem(t, fsys, "s", piLog)
	want := readAll(t, piLog)
	defer func(n int64) { blockSize = n }(blockSize)
	for blockSize = int64(len(headerV3)); blockSize < int64(len(piLog))+2; blockSize++ {
		f, err := OpenFS(t.Context(), fsys, "s")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, dumpFile(f)); diff != "" {
			t.Fatalf("blocks of %d: -want +got\n%s", blockSize, diff)
		}
	}
}

// readAll is a plain reader of a log without an incomplete line.
func readAll(t *testing.T, log string) dump {
	t.Helper()
	lines := strings.SplitAfter(log, "\n")
	h, err := parseHeader([]byte(lines[0]))
	if err != nil {
		t.Fatal(err)
	}
	f := &File{r: reader{header: h, tree: session.NewTree(), line: 1, off: int64(len(lines[0]))}}
	for _, line := range lines[1 : len(lines)-1] {
		f.r.line++
		if e, reason := parseTwin([]byte(line)); reason == "" {
			f.r.add(e)
		} else if strings.TrimSpace(line) != "" {
			f.r.note(f.r.line, f.r.off, reason)
		}
		f.r.off += int64(len(line))
	}
	return dumpFile(f)
}

// TestTail appends a log byte by byte and reads after each.
func TestTail(t *testing.T) {
	fsys := vfstest.NewMem()
	writeMem(t, fsys, "s", headerV3)
	f, err := OpenFS(t.Context(), fsys, "s")
	if err != nil {
		t.Fatal(err)
	}
	tree := f.Tree()
	for i := len(headerV3); i < len(piLog); i++ {
		appendMem(t, fsys, "s", piLog[i:i+1])
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatalf("after byte %d: %v", i, err)
		}
		if piLog[i] == '\n' {
			if diff := cmp.Diff(readAll(t, piLog[:i+1]), dumpFile(f)); diff != "" {
				t.Fatalf("after byte %d: -want +got\n%s", i, diff)
			}
		}
	}
	if f.Tree() != tree {
		t.Error("Refresh began a new Tree")
	}
}

// TestRefreshCost counts bytes: what was read is not read again.
func TestRefreshCost(t *testing.T) {
	fsys := vfstest.NewMem()
	writeMem(t, fsys, "s", headerV3+string(messageLine("a", "", 100_000)))
	counted := &countFS{FS: fsys}
	f, err := OpenFS(t.Context(), counted, "s")
	if err != nil {
		t.Fatal(err)
	}
	line := string(messageLine("b", "a", 100))
	appendMem(t, fsys, "s", line)
	counted.read = 0
	if err := f.Refresh(t.Context()); err != nil || f.Tree().Leaf() != "b" {
		t.Fatalf("Refresh = %v, leaf %q", err, f.Tree().Leaf())
	}
	if most := len(line) + 64; counted.read > most {
		t.Errorf("Refresh read %d bytes, want at most %d", counted.read, most)
	}
}

type countFS struct {
	vfs.FS
	read int
}

func (c *countFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	return &countFile{f, c}, err
}

type countFile struct {
	vfs.File
	c *countFS
}

func (f *countFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.read += n
	return n, err
}

func TestLongLine(t *testing.T) {
	defer func(block, line int64) { blockSize, maxLine = block, line }(blockSize, maxLine)
	long := strings.Repeat("x", 5000)
	for _, c := range []string{"", "\n", `{"type":"message","id":"b","parentId":"a"}` + "\n" + `{"type":"message","id":"c","parentId":"b"}` + "\n"} {
		for blockSize = 256; blockSize < 600; blockSize++ {
			maxLine = 2 * blockSize
			fsys := vfstest.NewMem()
			writeMem(t, fsys, "s", headerV3+`{"type":"message","id":"a"}`+"\n"+long)
			f, err := OpenFS(t.Context(), fsys, "s")
			if err != nil {
				t.Fatal(err)
			}
			// It may still be growing.
			if got := length(f.Tree()); got != 1 {
				t.Fatalf("blocks of %d: %d entries before the line ends", blockSize, got)
			}
			appendMem(t, fsys, "s", long+"\n"+c)
			for range 2 { // the second time finds what it remembers
				if err := f.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			want := []Problem{{3, int64(len(headerV3)) + 28, fmt.Sprintf("longer than %d bytes", maxLine)}}
			list, _ := f.Problems()
			if diff := cmp.Diff(want, list); diff != "" {
				t.Fatalf("blocks of %d: -want +got\n%s", blockSize, diff)
			}
			if got, want := length(f.Tree()), 1+strings.Count(c, "{"); got != want {
				t.Fatalf("blocks of %d: %d entries, want %d", blockSize, got, want)
			}
		}
	}
}

// A line of any length is read in little memory if it is its strings that are long:
// nothing is wanted of those.
func TestLongStrings(t *testing.T) {
	defer func(block, line int64, str int) {
		blockSize, maxLine, longString = block, line, str
	}(blockSize, maxLine, longString)
	r := rand.New(rand.NewPCG(1, 1))
	text := func(n int) string { // with escapes and letters of all lengths, of which any may be at the end of a block
		var b strings.Builder
		for b.Len() < n {
			b.WriteString([]string{"x", "plain text ", `\"`, `\\`, `\n`, `\u00e4`, `\ud83d\ude00`, "ä", "日", "\U0001f600", "{", "]"}[r.IntN(12)])
		}
		return b.String()
	}
	for round := range 300 {
		blockSize = int64(200 + r.IntN(300))
		longString = int(blockSize) + r.IntN(200)
		maxLine = 8 * int64(longString)
		log := headerV3
		for i := range 4 {
			parent := fmt.Sprintf(`"%d"`, i)
			if i == 0 {
				parent = "null"
			}
			log += fmt.Sprintf(`{"type":"message","id":"%d","message":{"content":[{"text":"%s"},"%s",{"a":"%s"}],"role":"user","more":"%s"},"parentId":%s}`+"\n",
				i+1, text(r.IntN(20000)), text(r.IntN(100)), text(r.IntN(5000)), text(r.IntN(600)), parent)
		}
		fsys := vfstest.NewMem()
		half := len(headerV3) + r.IntN(len(log)-len(headerV3))
		writeMem(t, fsys, "s", log[:half])
		f, err := OpenFS(t.Context(), fsys, "s")
		if err != nil {
			t.Fatal(err)
		}
		appendMem(t, fsys, "s", log[half:])
		for range 2 { // the second time finds what it remembers
			if err := f.Refresh(t.Context()); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		appendMem(t, fsys, "s", `{"type":"message","id":"5","parentId":"4"}`+"\n")
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		tree := f.Tree()
		if list, _ := f.Problems(); len(list) > 0 || length(tree) != 5 {
			t.Fatalf("round %d: %d entries, %v", round, length(tree), list)
		}
		for i := range 4 {
			e, ok := tree.Entry(fmt.Sprint(i + 1))
			if !ok || i > 0 && e.ParentID != fmt.Sprint(i) || e.Role != "user" {
				t.Fatalf("round %d: entry %d is %+v", round, i+1, e)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"", `session file "s": empty, without a session header`},
		{headerV3[:50], `session file "s": line 1: session header is incomplete`},
		{"\n" + headerV3, `session file "s": line 1: not a pi session header`},
		{"hello\n", `session file "s": line 1: not a pi session header`},
		{strings.Repeat("x", 3<<20), `session file "s": line 1: not a pi session header`},
		{`{"type":"message","id":"a"}` + "\n", `session file "s": line 1: not a pi session header`},
		{`{"type":"session","version":3}` + "\n", `session file "s": line 1: not a pi session header`},
		{`{"type":"session","version":3,"id":5}` + "\n", `session file "s": line 1: not a pi session header`},
		{`{"type":"session","id":"a"}` + "\n", `session file "s": line 1: session of version 1: open it once in pi, which rewrites it as version 3`},
		{`{"type":"session","version":2,"id":"a"}` + "\n", `session file "s": line 1: session of version 2: open it once in pi, which rewrites it as version 3`},
		{`{"type":"session","version":4,"id":"a"}` + "\n", `session file "s": line 1: session of version 4: only version 3 is known`},
	} {
		fsys := vfstest.NewMem()
		writeMem(t, fsys, "s", c.content)
		_, err := OpenFS(t.Context(), fsys, "s")
		if err == nil || err.Error() != c.want || !errors.Is(err, ErrFormat) ||
			errors.Is(err, ErrNotBegun) != (len(c.content) < len(headerV3) && !strings.Contains(c.content, "\n")) {
			t.Errorf("OpenFS(%.40q) = %v, want %s", c.content, err, c.want)
		}
	}
}

// TestRewritten is about files that are not what was read any more.
func TestRewritten(t *testing.T) {
	other := strings.Replace(piLog, "not hex", "new hex", -1)
	for _, c := range []struct {
		name  string
		spoil func(fsys vfs.FS)
	}{
		{"shorter", func(fsys vfs.FS) { writeMem(t, fsys, "s", headerV3) }},
		{"empty", func(fsys vfs.FS) { writeMem(t, fsys, "s", "") }},
		{"one byte less", func(fsys vfs.FS) { writeMem(t, fsys, "s", piLog[:len(piLog)-1]) }},
		{"as long", func(fsys vfs.FS) { writeMem(t, fsys, "s", other) }},
		{"longer", func(fsys vfs.FS) { writeMem(t, fsys, "s", other+other[len(headerV3):]) }},
		{"another file with the same bytes", func(fsys vfs.FS) {
			writeMem(t, fsys, "new", piLog)
			if err := fsys.Rename("new", "s"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfstest.NewMem()
			writeMem(t, fsys, "s", piLog)
			f, err := OpenFS(t.Context(), fsys, "s")
			if err != nil {
				t.Fatal(err)
			}
			before := dumpFile(f)
			tree := f.Tree()
			c.spoil(fsys)
			err = f.Refresh(t.Context())
			if want := `session file "s": rewritten since it was last read`; !errors.Is(err, ErrRewritten) || err.Error() != want {
				t.Fatalf("Refresh = %v, want %s", err, want)
			}
			if got := length(f.Tree()); got != 0 {
				t.Errorf("%d entries left", got)
			}
			if got := slices.Collect(tree.Entries()); len(got) != len(before.Entries) || tree.Leaf() != before.Leaf {
				t.Errorf("the old tree changed: %d entries, leaf %s", len(got), tree.Leaf())
			}
			if c.name == "empty" {
				if err := f.Refresh(t.Context()); !errors.Is(err, ErrFormat) {
					t.Errorf("second Refresh = %v", err)
				}
				writeMem(t, fsys, "s", piLog)
			}
			for range 2 {
				if err := f.Refresh(t.Context()); err != nil {
					t.Fatalf("Refresh after that: %v", err)
				}
			}
			b, err := vfs.ReadFile(fsys, "s")
			if err != nil {
				t.Fatal(err)
			}
			whole := string(b[:bytes.LastIndexByte(b, '\n')+1])
			if diff := cmp.Diff(readAll(t, whole), dumpFile(f)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestVanished(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(name, []byte(piLog), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	want := dumpFile(f)
	if err := os.Rename(name, name+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := f.Refresh(t.Context())
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), fmt.Sprintf("session file %q: ", name)) {
			t.Errorf("Refresh = %v", err)
		}
		if diff := cmp.Diff(want, dumpFile(f)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	if err := os.Rename(name+".away", name); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); err != nil {
		t.Errorf("Refresh of the file come back: %v", err)
	}
}

func TestSymlink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(piLog), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", link); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); !errors.Is(err, ErrRewritten) {
		t.Errorf("Refresh after the link has moved = %v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("link", link); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); err == nil {
		t.Error("Refresh of a link to itself succeeds")
	}
}

func TestNotRegular(t *testing.T) {
	names := []string{t.TempDir(), os.DevNull}
	if runtime.GOOS == "windows" {
		names = names[:1]
	}
	for _, name := range names {
		if _, err := OpenFile(t.Context(), name); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("OpenFile(%q) = %v", name, err)
		}
	}
	if _, err := OpenFile(t.Context(), filepath.Join(t.TempDir(), "nope")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenFile of nothing = %v", err)
	}
}

// TestInterrupted stops reading at every operation; the next Refresh goes on.
func TestInterrupted(t *testing.T) {
	defer func(n int64) { blockSize = n }(blockSize)
	blockSize = int64(len(headerV3)) + 20
	want := readAll(t, piLog)
	for at := int64(0); ; at++ {
		disk, fault := vfstest.NewMem(), &vfstest.Fault{At: -1}
		writeMem(t, disk, "s", headerV3)
		f, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), "s")
		if err != nil {
			t.Fatal(err)
		}
		appendMem(t, disk, "s", piLog[len(headerV3):])
		fault.At = fault.Count() + at
		err = f.Refresh(t.Context())
		if !fault.Fired() {
			break
		}
		// Closing a file that was only read may fail unseen.
		if err != nil && !errors.Is(err, vfstest.ErrInjected) {
			t.Fatalf("fault at operation %d: Refresh = %v", at, err)
		}
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatalf("fault at operation %d: next Refresh = %v", at, err)
		}
		if diff := cmp.Diff(want, dumpFile(f)); diff != "" {
			t.Fatalf("fault at operation %d: -want +got\n%s", at, diff)
		}
	}

	fsys := vfstest.NewMem()
	writeMem(t, fsys, "s", piLog)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if _, err := OpenFS(ctx, fsys, "s"); !errors.Is(err, reason) {
		t.Errorf("OpenFS after the end of ctx = %v", err)
	}
}

// BenchmarkFile reads a log of 200 MB, and one line that was added to it. The
// floor is reading the bytes.
func BenchmarkFile(b *testing.B) {
	const size = 200e6
	name := filepath.Join(b.TempDir(), "s.jsonl")
	log := []byte(headerV3)
	parent := ""
	for i := 0; len(log) < size; i++ {
		id := fmt.Sprintf("%08x", i)
		log = append(log, messageLine(id, parent, []int{200, 1000, 8000, 50, 60_000}[i%5])...)
		parent = id
	}
	if err := os.WriteFile(name, log, 0o600); err != nil {
		b.Fatal(err)
	}
	lines := bytes.Count(log, []byte("\n"))
	log = nil
	b.Run("open", func(b *testing.B) {
		b.SetBytes(size)
		var before, after runtime.MemStats
		var kept []*File
		runtime.GC()
		runtime.ReadMemStats(&before)
		for b.Loop() {
			f, err := OpenFile(b.Context(), name)
			if err != nil {
				b.Fatal(err)
			}
			kept = append(kept[:0], f)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-kept")
		b.ReportMetric(float64(lines), "lines")
		runtime.KeepAlive(kept)
	})
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(size)
		block := make([]byte, blockSize)
		for b.Loop() {
			f, err := os.Open(name)
			if err != nil {
				b.Fatal(err)
			}
			for n := 1; n > 0; {
				n, _ = f.Read(block)
			}
			f.Close()
		}
	})
	b.Run("refresh", func(b *testing.B) {
		f, err := OpenFile(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		w, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		for i := 0; b.Loop(); i++ {
			if _, err := w.Write(messageLine(fmt.Sprintf("x%d", i), parent, 1000)); err != nil {
				b.Fatal(err)
			}
			if err := f.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzLog reads any bytes as a log, at once and in two parts, and adds an entry.
func FuzzLog(f *testing.F) {
	for at := range len(piLog) {
		if at%7 == 0 || piLog[at] == '\n' {
			f.Add([]byte(piLog), uint(at))
			f.Add([]byte(piLog[:at]), uint(at/2))
		}
	}
	for _, b := range nearmiss.Of([]byte(headerV3[:len(headerV3)-len(`,"parentSession":"/x/y.jsonl"}`)-1] + "}\n")) {
		f.Add(b, uint(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint) {
		disk := vfstest.NewMem()
		writeMem(t, disk, "log", string(b))
		whole, err := OpenFS(t.Context(), disk, "log")
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("OpenFS: %v", err)
			}
			return
		}
		parts := vfstest.NewMem()
		writeMem(t, parts, "log", string(b[:min(cut, uint(len(b)))]))
		if growing, err := OpenFS(t.Context(), parts, "log"); err == nil {
			appendMem(t, parts, "log", string(b[min(cut, uint(len(b))):]))
			if err := growing.Refresh(t.Context()); err != nil {
				t.Fatalf("Refresh: %v", err)
			}
			if d := cmp.Diff(describe(whole.Header(), whole.Tree()),
				describe(growing.Header(), growing.Tree())); d != "" {
				t.Errorf("read at once (-) and in two parts (+):\n%s", d)
			}
		}
		before := describe(whole.Header(), whole.Tree())
		e := session.Entry{ID: "no log has this", Type: "custom", CustomType: StepSnapshot, Data: json.RawMessage(`{}`), Timestamp: at(0)}
		longer, err := AppendLog(b, nil, e)
		if err != nil {
			t.Fatalf("AppendLog: %v", err)
		}
		writeMem(t, disk, "log", string(longer))
		again, err := OpenFS(t.Context(), disk, "log")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := again.Tree().Entry(e.ID); !ok || again.Tree().Leaf() != e.ID {
			t.Errorf("the entry that was added is not the leaf")
		}
		if d := cmp.Diff(before, describe(again.Header(), again.Tree())[:len(before)]); d != "" {
			t.Errorf("before (-) and after (+) an entry was added:\n%s", d)
		}
	})
}

// describe lists what a log says, but for its leaf.
func describe(h Header, tree *session.Tree) []string {
	list := []string{fmt.Sprintf("%+v", h)}
	for e := range tree.Entries() {
		list = append(list, fmt.Sprintf("%+v", *e))
	}
	return list
}
