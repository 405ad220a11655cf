package change

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// files are the contents of a directory, by path.
type files map[string]string

var (
	before = files{"a": "1", "dir/b": "2", "gone/deep/c": "3"}
	after  = files{"a": "one", "dir/b": "2", "made/too/d": "4"}
)

// A bench is a directory and a store, and the records of a change.
type bench struct {
	*testing.T
	dir  string
	root *livedir.Root
	s    *cas.Store
	w    *cas.Writer

	records        []string
	now            store.State // that the record of the end has
	meanwhile      files       // what the user writes behind the record of the intent
	refuses, fails string      // the step that fails, the path that Refuse refuses
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), vfstest.NewMem(), &cas.Options{Root: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, dir: t.TempDir(), s: s, w: w}
	b.write(before)
	if b.root, err = livedir.OpenRoot(b.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.root.Close(), w.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) write(w files) {
	b.Helper()
	for p, content := range w {
		p = filepath.Join(b.dir, p)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if err = errors.Join(err, os.WriteFile(p, []byte(content), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
}

// expect requires that the directory holds these files and the records are so.
func (b *bench) expect(want files, records ...string) {
	b.Helper()
	got := make(files)
	err := filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var content []byte
			content, err = os.ReadFile(p)
			got[strings.TrimPrefix(filepath.ToSlash(p), filepath.ToSlash(b.dir)+"/")] = string(content)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff(records, b.records); d != "" {
		b.Errorf("records (-want +got):\n%s", d)
	}
}

// state stores files as a state.
func (b *bench) state(w files) store.State {
	b.Helper()
	var edits []trees.Edit
	for p, content := range w {
		id, err := b.w.Put(object.Blob, []byte(content))
		if err != nil {
			b.Fatal(err)
		}
		edits = append(edits, trees.Edit{Path: p, New: &tree.Entry{Name: filepath.Base(p), Mode: tree.ModeFile | 0o644,
			Size: int64(len(content)), ID: id}})
	}
	id, err := trees.Patch(b.Context(), b.s, b.w, store.ID{}, edits)
	if err != nil {
		b.Fatal(err)
	}
	return store.State{Tree: id}
}

// change returns one from before to after.
func (b *bench) change() *Change {
	b.Helper()
	c := &Change{Root: b.root, Blobs: b.s, Pages: b.s, Writer: b.w, Records: b, ID: "testtest",
		Log: slog.New(slog.DiscardHandler)}
	c.Refuse = func(it rollback.Item) error {
		if it.Path == b.refuses {
			return errors.New(it.Path + " stays")
		}
		return nil
	}
	wants, err := Between(b.Context(), b.s, b.state(before).Tree, b.state(after).Tree)
	if err == nil {
		c.Plan, err = livedir.NewPlan(b.Context(), b.root, wants, &livedir.Options{})
	}
	if err != nil {
		b.Fatal(err)
	}
	c.Base = b.state(before)
	return c
}

func (b *bench) record(step string) error {
	if b.fails == step {
		return errors.New(step + " failed")
	}
	b.records = append(b.records, step)
	return nil
}

func (b *bench) Intend(_ context.Context, c *Change) error {
	if c.Before != b.state(before) || c.After != b.state(after) {
		b.Errorf("states %v, %v", c.Before, c.After)
	}
	b.write(b.meanwhile)
	return b.record("intent")
}

func (b *bench) Done(_ context.Context, c *Change) error {
	b.now = c.After
	return b.record("done")
}

func (b *bench) Ended(_ context.Context, to Direction, now store.State, _ *livedir.Plan) error {
	b.now = now
	if to == Forward {
		return b.record("forward")
	}
	return b.record("back")
}

func TestDo(t *testing.T) {
	kept := files{"a": "one", "dir/b": "2", "gone/deep/c": "the user's", "made/too/d": "4"}
	for _, tt := range []struct {
		name           string
		fails, refuses string
		ifCut          Direction
		edited         string // what the user makes of gone/deep/c before; "": nothing
		want           files
		records        []string
		err            string
	}{
		{name: "all", want: after, records: []string{"intent", "done"}},
		{name: "no intent", fails: "intent", want: before, err: "intent failed"},
		{name: "no record of an edit", fails: "done", want: before, records: []string{"intent", "back"},
			err: "done failed; nothing was changed"},
		{name: "no record of a restore", fails: "done", ifCut: Forward, want: after, records: []string{"intent"},
			err: "done failed"},
		{name: "part", edited: "the user's", want: kept},
		{name: "refused", edited: "the user's", refuses: "gone/deep/c",
			want: files{"a": "1", "dir/b": "2", "gone/deep/c": "the user's"},
			err:  "gone/deep/c stays: nothing was written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.fails, b.refuses = tt.fails, tt.refuses
			if tt.edited != "" {
				b.write(files{"gone/deep/c": tt.edited})
			}
			c := b.change()
			c.IfCut = tt.ifCut
			if tt.name == "part" { // what is not done is in neither state
				c.Records = anyRecords{}
			}
			changed, err := c.Do(t.Context())
			if err == nil && (tt.err != "" || !changed) || err != nil && err.Error() != tt.err {
				t.Errorf("changed %v, error %v, want error %q", changed, err, tt.err)
			}
			b.expect(tt.want, tt.records...)
		})
	}
}

// What the user has changed between the record of the intent and the write of it stays, and
// the record of the end says so.
func TestDoLeaves(t *testing.T) {
	for p, now := range map[string]files{
		"a":           {"a": "1", "dir/b": "2", "made/too/d": "4"},
		"gone/deep/c": {"a": "one", "dir/b": "2", "gone/deep/c": "3", "made/too/d": "4"},
		"made/too/d":  {"a": "one", "dir/b": "2"},
	} {
		b := newBench(t)
		c := b.change()
		b.meanwhile = files{p: "the user's"}
		if changed, err := c.Do(t.Context()); !changed || err != nil {
			t.Errorf("%s is left: changed %v, error %v", p, changed, err)
		}
		want := maps.Clone(now)
		want[p] = "the user's"
		b.expect(want, "intent", "done")
		if b.now != b.state(now) {
			t.Errorf("%s is left, and it is on record as done", p)
		}
	}
}

// What is as the change wants it already, since the user has made it so, is on record as that.
func TestDoFindsDone(t *testing.T) {
	b := newBench(t)
	b.write(files{"a": "one"})
	if err := os.RemoveAll(filepath.Join(b.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	c := b.change()
	c.Records = anyRecords{}
	if changed, err := c.Do(t.Context()); !changed || err != nil {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	b.expect(after)
	if c.Before != b.state(files{"a": "one", "dir/b": "2"}) || c.After != b.state(after) {
		t.Error("it is on record as it was")
	}
}

// anyRecords takes all records.
type anyRecords struct{}

func (anyRecords) Intend(context.Context, *Change) error                              { return nil }
func (anyRecords) Done(context.Context, *Change) error                                { return nil }
func (anyRecords) Ended(context.Context, Direction, store.State, *livedir.Plan) error { return nil }

// A change that was cut off, with files of both states, goes either way. What the user
// has changed meanwhile stays, and the state that is left says so.
func TestEnd(t *testing.T) {
	for _, to := range []Direction{Forward, Back} {
		for _, edited := range []bool{false, true} {
			b := newBench(t)
			half := files{"a": "one", "dir/b": "2", "gone/deep/c": "3", "made/too/d": "4"}
			b.write(half)
			want := after
			if to == Back {
				want = before
			}
			now := want
			if edited {
				b.write(files{"a": "the user's"})
				want, now = maps.Clone(want), maps.Clone(want)
				want["a"] = "the user's"
				now["a"] = map[Direction]files{Forward: before, Back: after}[to]["a"] // as if it had not been done
			}
			c := b.change()
			c.Before, c.After = b.state(before), b.state(after)
			if _, err := c.End(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			b.expect(want, map[Direction]string{Forward: "forward", Back: "back"}[to])
			if b.now != b.state(now) {
				t.Errorf("to %v, edited %v: another state", to, edited)
			}
		}
	}
}

// Whenever a change is interrupted, the directory is as it was, and the error says so, or
// the change is done.
func TestInterrupted(t *testing.T) {
	stopped, taken := 0, 0
	for at := int64(0); ; at++ {
		b := newBench(t)
		c := b.change()
		ctx, cancel := context.WithCancel(t.Context())
		var ops atomic.Int64
		dir, err := vfs.OpenDir(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		c.Root = livedir.NewRoot(vfstest.WithFaultDir(dir, &vfstest.Fault{At: -1, Trace: func(string, string) {
			if ops.Add(1) == at+1 {
				cancel()
			}
		}}))
		_, err = c.Do(ctx)
		cancel()
		if cerr := c.Root.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if err == nil {
			b.expect(after, "intent", "done")
			if ops.Load() <= at {
				break
			}
			continue // it was done but for looking at it
		}
		stopped++
		var records []string
		if cut, ok := errors.AsType[*TakenBackError](err); ok {
			taken++
			records = []string{"intent", "back"}
			if cut.State != "nothing was changed" {
				t.Errorf("at operation %d: %q", at, cut.State)
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("at operation %d: error %v", at, err)
		}
		b.expect(before, records...)
	}
	if stopped == taken || taken == 0 {
		t.Errorf("%d stopped, %d of them taken back", stopped, taken)
	}
}

// TestEndForgedMoves: the record of a change that was cut off may be made up, and name moves that no plan makes. What
// does not go along with a directory that the change moves stays where it is, and nothing comes into a repository.
func TestEndForgedMoves(t *testing.T) {
	moved := map[string]string{"from": "to"}
	theirs := files{".git/config": "x", "secret": "s", "from/ignored": "i", "from/repo/.git/HEAD": "h",
		"other/evil": "e", "hooks/pre-commit": "e"}
	for _, c := range []struct {
		from, to string
		goes     bool
	}{
		{"from/ignored", "to/ignored", true},
		{"from/repo", "to/repo", false},          // in both states, and other than they are nobody wants it
		{"from/repo/.git", "to/repo/.git", true}, // as it is in a directory that is captured, and no repository
		{"from/repo/.git/HEAD", "to/repo/.git/HEAD", false},
		{"from/ignored", "to/other", false},
		{"from/ignored", "elsewhere/ignored", false},
		{"from/ignored", ".git/ignored", false},
		{".git", "to/.git", false},
		{".git/config", "to/config", false},
		{"hooks/pre-commit", ".git/hooks/pre-commit", false},
		{"other/evil", "../evil", false},
		{"from/../secret", "to/../secret", false},
		{"secret", "to/secret", false},
		{"secret", "secret/secret", false},
		{"secret", "", false},
		{"", "to", false},
		{"/secret", "/evil", false},
		{"from/", "to/", false},
	} {
		b := newBench(t)
		one, other := files{"a": "1"}, files{"a": "1"}
		for from, to := range moved {
			one[from+"/b"], one[from+"/repo/c"] = "2", "3"
			other[to+"/b"], other[to+"/repo/c"] = "2", "3"
		}
		for path := range before {
			if err := os.RemoveAll(filepath.Join(b.dir, path)); err != nil {
				t.Fatal(err)
			}
		}
		b.write(one)
		b.write(theirs)
		ch := b.change()
		ch.Before, ch.After = b.state(one), b.state(other)
		ch.Moves = []rollback.Move{{From: c.from, To: c.to}}
		if _, err := ch.End(t.Context(), Forward); err != nil {
			t.Errorf("%q to %q: %v", c.from, c.to, err)
		}
		want := maps.Clone(other)
		for path, text := range theirs {
			if rest, ok := trees.Below(path, c.from); ok && c.goes {
				path = c.to + rest
			}
			want[path] = text
		}
		b.records = nil
		b.expect(want)
	}
}
