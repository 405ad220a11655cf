package manager

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// objectsOf returns what a snapshot keeps, by walking all of it; directories in
// the test are a page each.
func objectsOf(t *testing.T, st *cas.Store, s *store.Snapshot) map[store.ID]object.Kind {
	t.Helper()
	all := make(map[store.ID]object.Kind)
	for _, state := range append(s.Also, s.State(), s.Base) {
		if state.Tree.IsZero() {
			continue
		}
		all[state.Tree] = object.Tree
		if !state.Coverage.IsZero() {
			all[state.Coverage] = object.Coverage
		}
		for e, err := range trees.Walk(t.Context(), st, state.Tree) {
			if err != nil {
				t.Fatal(err)
			}
			all[e.ID] = object.Blob
			if e.Mode.IsDir() {
				all[e.ID] = object.Tree
			}
		}
	}
	return all
}

func sumOf(t *testing.T, st *cas.Store, all map[store.ID]object.Kind) (a audit.Amount) {
	t.Helper()
	for id, kind := range all {
		o, err := st.Stored(kind, id)
		if err != nil {
			t.Fatal(err)
		}
		a.Add(audit.Amount{Objects: 1, Stored: o.Bytes, Bytes: o.Size})
		for _, chunk := range o.Chunks {
			if _, ok := all[chunk]; ok {
				t.Fatal("the test does not look for chunks that are files")
			}
			a.Add(sumOf(t, st, map[store.ID]object.Kind{chunk: object.Blob}))
		}
	}
	return a
}

// keep records a snapshot of a file of one content, which keeps one of another.
func (b *bench) keep(st *cas.Store, worktree, session, content string) {
	b.Helper()
	w, err := st.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	var roots [2]store.ID
	for i := range roots {
		id, err := w.Put(object.Blob, []byte(content))
		if err == nil {
			roots[i], err = trees.Put(w, []tree.Entry{{Name: "kept", Mode: tree.ModeFile | 0o644,
				Size: int64(len(content)), ID: id}})
		}
		if err != nil {
			b.Fatal(err)
		}
		content += "!"
	}
	snap := &store.Snapshot{Worktree: worktree, Session: session, Tree: roots[0], Also: []store.State{{Tree: roots[1]}}}
	if err := w.Commit(b.Context(), snap, 0); err != nil {
		b.Fatal(err)
	}
}

// TestUsage: two sessions that share content, one that edits, one in another
// worktree, and objects that nothing names, against what walking all snapshots says, and the disk.
func TestUsage(t *testing.T) {
	b := newBench(t)
	b.git("ignored\n")
	b.write("ignored", "")
	b.write("shared/a", strings.Repeat("shared\n", 1000))
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.turn(one, func() {
		b.write("mine", "one's\n")
		large := make([]byte, 2<<20)
		rand.NewChaCha8([32]byte{}).Read(large)
		b.write("large", string(large))
	})
	b.initialize(two)
	b.turn(two, func() {
		b.write("theirs", "two's\n")
		b.remove("large")
	})
	b.edit(one, &EditRequest{Path: "mine", Old: []byte("one's\n"), New: []byte("edited\n")})
	b.turn(one, func() { b.write("mine", "again\n") })
	st := one.store
	w, err := st.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	unnamed, err := w.Put(object.Blob, []byte("nobody's"))
	if err != nil {
		t.Fatal(err)
	}
	b.turn(one, func() { b.write("mine", "again and again\n") }) // its pack is synced with it
	b.keep(st, "elsewhere", "one", "between")

	needs := make(map[[2]string]map[store.ID]object.Kind) // by worktree and session
	snapshots := make(map[[2]string]int)
	var all []*store.Snapshot // newest first
	for s, err := range st.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		key := [2]string{s.Worktree, s.Session}
		if needs[key] == nil {
			needs[key] = make(map[store.ID]object.Kind)
		}
		snapshots[key]++
		maps.Copy(needs[key], objectsOf(t, st, s))
		all = append(all, s)
	}
	having := func(id store.ID) (n int) {
		for _, in := range needs {
			if _, ok := in[id]; ok {
				n++
			}
		}
		return n
	}
	u, err := retain.BySession(t.Context(), one.store)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Sessions) != 4 || len(u.Problems) > 0 {
		t.Errorf("Usage has %d sessions, want one, two, edits and that elsewhere; problems %v", len(u.Sessions),
			u.Problems)
	}
	shared := make(map[store.ID]object.Kind)
	total := u.Shared.Stored + u.Unnamed.Stored
	for i, s := range u.Sessions {
		key := [2]string{s.Worktree, s.Session}
		alone := make(map[store.ID]object.Kind)
		for id, kind := range needs[key] {
			if having(id) == 1 {
				alone[id] = kind
			} else {
				shared[id] = kind
			}
		}
		got := []any{s.Needs, s.Alone, s.Snapshots}
		want := []any{sumOf(t, st, needs[key]), sumOf(t, st, alone), snapshots[key]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("session %s: %s", s.Session, diff)
		}
		newest := all[slices.IndexFunc(all, func(r *store.Snapshot) bool {
			return r.Session == s.Session && r.Worktree == s.Worktree
		})]
		if !s.Last.Equal(newest.Time) || s.Root != newest.Root {
			t.Errorf("session %s: last %v in %q, want %v in %q", s.Session, s.Last, s.Root, newest.Time, newest.Root)
		}
		if i > 0 && u.Sessions[i-1].Alone.Stored < s.Alone.Stored {
			t.Errorf("session %s is out of order", s.Session)
		}
		total += s.Alone.Stored
	}
	if want := sumOf(t, st, shared); u.Shared != want {
		t.Errorf("Shared = %v, want %v", u.Shared, want)
	}
	nobodys := sumOf(t, st, map[store.ID]object.Kind{unnamed: object.Blob})
	if u.Unnamed.Objects != 1 || u.Unnamed.Stored != nobodys.Stored {
		t.Errorf("Unnamed = %v, want %v", u.Unnamed, nobodys)
	}
	total += u.Files.Total() - u.Files.ObjectBytes
	var disk int64
	if err := filepath.WalkDir(one.StoreDir(), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			info, err = e.Info()
			disk += info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if total != disk {
		t.Errorf("the sum is %d, the disk has %d", total, disk)
	}

	turns, problems, err := retain.ByTurn(t.Context(), one.store, "")
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var sum audit.Amount
	for _, turn := range turns {
		sum.Add(turn.Added)
	}
	named := make(map[store.ID]object.Kind)
	for _, in := range needs {
		maps.Copy(named, in)
	}
	if want := sumOf(t, st, named); sum != want {
		t.Errorf("turns added %v, want %v", sum, want)
	}
	paths, problems, err := retain.ByPath(t.Context(), one.store, 0)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	versions := make(map[string]int)
	for _, p := range paths {
		versions[p.Path] = p.Versions
	}
	if diff := cmp.Diff(map[string]int{".gitignore": 1, "shared/a": 1, "mine": 4, "large": 1, "theirs": 1, "kept": 2},
		versions); diff != "" || paths[0].Path != "large" {
		t.Errorf("PathUsage has %q first: %s", paths[0].Path, diff)
	}
}

// TestTurnUsage: a turn has what was found while it ran; what the user did, and
// an edit, are lines of their own if they added something.
func TestTurnUsage(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	turn := func(tools ...func()) {
		t.Helper()
		b.start(m)
		for i, fn := range tools {
			if _, err := m.OnToolStart(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			fn()
			if _, err := m.OnToolEnd(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		b.end(m)
	}
	turn(func() { b.write("tool", "one") }, func() { b.write("tool", "two") })
	b.write("user", "user")
	turn(func() { b.write("turn", "turn") })
	b.edit(m, &EditRequest{Path: "turn", Old: []byte("turn"), New: []byte("edit")})
	turn(func() { b.remove("user") })
	turn(func() { b.write("user", "user") })
	other := b.open("other")
	b.initialize(other)
	b.turn(other, func() { b.write("other", "other") })

	list := func(session string) (rows []string) {
		turns, problems, err := retain.ByTurn(t.Context(), m.store, session)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		for _, u := range turns {
			rows = append(rows, fmt.Sprint(u.Session, " ", u.Kind, " ", u.TurnIndex, " ", u.Added.Objects))
			if u.Added.Stored == 0 != (u.Added.Objects == 0) || u.Time.IsZero() || u.Seq == 0 {
				t.Errorf("%+v", u)
			}
		}
		return rows
	}
	s := []string{
		"s step 3 0",      // all was there before
		"s step 2 1",      // a root
		"s base -1 1",     // the directory with the edit, found by the next turn
		"edits edit -1 3", // the content, a root of the old and one of the new
		"s step 1 2",
		"s base -1 2", // the user
		"s step 0 4",  // two contents, two roots
		"s start -1 1",
	}
	if diff := cmp.Diff(append([]string{"other step 0 2"}, s...), list("")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(slices.DeleteFunc(s, func(row string) bool { return row[0] == 'e' }), list("s")); diff != "" {
		t.Error(diff)
	}
}

// TestUsageDamage: what is missing is listed, and the rest counted.
func TestUsageDamage(t *testing.T) {
	b := newBench(t)
	b.write("a", "a")
	text := strings.Repeat("b", 150<<10) // in a record of its own
	b.write("dir/b", text)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(m.StoreDir(), "packs", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	content, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	id := object.Hash(object.Blob, []byte(text))
	content[strings.Index(string(content), string(id[:]))] ^= 1
	if err := os.WriteFile(packs[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	u, err := retain.BySession(t.Context(), m.store)
	if err != nil || len(u.Problems) != 1 || u.Problems[0].Path != "dir/b" || len(u.Sessions) != 1 ||
		u.Sessions[0].Needs.Objects != 4 {
		t.Errorf("Usage = %+v, %v", u, err)
	}
	if _, problems, err := retain.ByTurn(t.Context(), m.store, ""); err != nil || len(problems) != 1 {
		t.Errorf("TurnUsage: problems %v, %v", problems, err)
	}
	if _, problems, err := retain.ByPath(t.Context(), m.store, 0); err != nil || len(problems) != 1 {
		t.Errorf("PathUsage: problems %v, %v", problems, err)
	}
}
