package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
)

// msg returns a message entry.
func msg(id, parent, role string) Entry {
	return Entry{ID: id, ParentID: parent, Type: "message", Role: role}
}

func ids(entries []*Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, e.ID)
	}
	return strings.Join(list, " ")
}

// branched is a session that went back to before u2 and on from there, and has
// a second root.
//
//	u1 - a1 - u2 - a2 - s2
//	       \- u3 - a3
//	r
func branched() *Tree {
	return NewTree(Header{ID: "s"},
		msg("u1", "", "user"), msg("a1", "u1", "assistant"),
		msg("u2", "a1", "user"), msg("a2", "u2", "assistant"),
		Entry{ID: "s2", ParentID: "a2", Type: "custom", CustomType: StepSnapshot},
		msg("u3", "a1", "user"), msg("a3", "u3", "assistant"),
		Entry{ID: "r", Type: "custom_message", CustomType: "note"},
		Entry{ID: "m", ParentID: "r", Type: "custom_message", CustomType: "note"},
	)
}

func TestPath(t *testing.T) {
	tree := branched()
	tree.Add(msg("o", "gone", "user"))
	tree.Add(msg("c1", "c2", "user"))
	tree.Add(msg("c2", "c1", "user"))
	tree.Add(msg("self", "self", "user"))
	tree.Add(msg("d", "c1", "user"))
	for _, c := range []struct {
		id, want string
		err      error
	}{
		{"s2", "u1 a1 u2 a2 s2", nil},
		{"a3", "u1 a1 u3 a3", nil},
		{"u1", "u1", nil},
		{"r", "r", nil},
		{"o", "o", nil},
		{"", "", nil},
		{"gone", "", ErrUnknownEntry},
		{"c1", "", ErrCycle},
		{"d", "", ErrCycle},
		{"self", "", ErrCycle},
	} {
		path, err := tree.Path(c.id)
		if got := ids(path); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Path(%q) = %q, %v; want %q, %v", c.id, got, err, c.want, c.err)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", c.id)) {
			t.Errorf("Path(%q): error %q does not name the entry", c.id, err)
		}
	}
}

func TestCommonAncestor(t *testing.T) {
	tree := branched()
	for _, c := range []struct {
		a, b, want string
		err        error
	}{
		{"s2", "a3", "a1", nil},
		{"a3", "s2", "a1", nil},
		{"u2", "s2", "u2", nil},
		{"u1", "u1", "u1", nil},
		{"r", "u1", "", nil},
		{"", "u1", "", nil},
		{"u1", "nope", "", ErrUnknownEntry},
		{"nope", "u1", "", ErrUnknownEntry},
	} {
		got, err := tree.CommonAncestor(c.a, c.b)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("CommonAncestor(%q, %q) = %q, %v; want %q, %v", c.a, c.b, got, err, c.want, c.err)
		}
	}
}

func TestTarget(t *testing.T) {
	tree := branched()
	tree.Add(msg("o", "gone", "user"))
	tree.Add(msg("p", "gone", "assistant"))
	for _, c := range []struct {
		id, want string
		err      error
	}{
		{"u1", "", nil},
		{"u3", "a1", nil},
		{"a3", "a3", nil},
		{"s2", "s2", nil},
		{"r", "", nil},
		{"m", "r", nil},
		{"p", "p", nil},
		{"o", "", ErrUnknownEntry},
		{"nope", "", ErrUnknownEntry},
		{"", "", ErrUnknownEntry},
	} {
		got, err := tree.Target(c.id)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Target(%q) = %q, %v; want %q, %v", c.id, got, err, c.want, c.err)
		}
	}
}

func TestFind(t *testing.T) {
	var entries []Entry
	for i := range 12 {
		entries = append(entries, msg(fmt.Sprintf("ab%02d", i), "", "user"))
	}
	tree := NewTree(Header{}, append(entries, msg("abc", "", "user"), msg("abcd", "", "user"))...)
	for _, c := range []struct {
		id, want string
		err      error
		text     string
	}{
		{"ab03", "ab03", nil, ""},
		{"abc", "abc", nil, ""}, // whole IDs come first
		{"abcd", "abcd", nil, ""},
		{"", "", ErrUnknownEntry, `entry "": no such entry`},
		{"x", "", ErrUnknownEntry, `entry "x": no such entry`},
		{"ab1", "", ErrAmbiguous, `entry "ab1": ambiguous entry ID: ab10, ab11`},
		{"ab", "", ErrAmbiguous, `entry "ab": ambiguous entry ID: ab00, ab01, ab02, ab03, ab04, ab05, ab06, ab07, ab08, ab09 and 4 more`},
	} {
		e, err := tree.Find(c.id)
		got := ""
		if e != nil {
			got = e.ID
		}
		if got != c.want || !errors.Is(err, c.err) || err != nil && err.Error() != c.text {
			t.Errorf("Find(%q) = %q, %v; want %q, %v", c.id, got, err, c.want, c.text)
		}
	}
}

func TestLeaf(t *testing.T) {
	tree := NewTree(Header{})
	if got := tree.Leaf(); got != "" {
		t.Errorf("Leaf of an empty tree = %q", got)
	}
	tree.Add(msg("u", "", "user"))
	tree.Add(Entry{ID: "l", ParentID: "u", Type: "label"})
	if got := tree.Leaf(); got != "l" {
		t.Errorf("Leaf = %q, want that of any type", got)
	}
	if err := tree.SetLeaf("nope"); !errors.Is(err, ErrUnknownEntry) || tree.Leaf() != "l" {
		t.Errorf("SetLeaf(nope) = %v, leaf %q", err, tree.Leaf())
	}
	for _, id := range []string{"u", ""} {
		if err := tree.SetLeaf(id); err != nil || tree.Leaf() != id {
			t.Errorf("SetLeaf(%q) = %v, leaf %q", id, err, tree.Leaf())
		}
	}
	tree.Add(msg("v", "", "user"))
	if got := tree.Leaf(); got != "v" {
		t.Errorf("Leaf after Add = %q", got)
	}
}

// TestReplaced is about an ID that comes twice.
func TestReplaced(t *testing.T) {
	tree := branched()
	tree.Add(msg("u3", "r", "user"))
	if got := tree.Len(); got != 9 {
		t.Errorf("Len = %d, want 9", got)
	}
	path, err := tree.Path("a3")
	if got := ids(path); got != "r u3 a3" || err != nil {
		t.Errorf("Path(a3) = %q, %v", got, err)
	}
	if got := ids(tree.Children("a1")); got != "u2" {
		t.Errorf("Children(a1) = %q", got)
	}
	if got := ids(tree.Children("r")); got != "m u3" {
		t.Errorf("Children(r) = %q", got)
	}
	if got := ids(slices.Collect(tree.Entries())); got != "u1 a1 u2 a2 s2 a3 r m u3" {
		t.Errorf("Entries = %q", got)
	}
	list, total := tree.Problems()
	want := []Problem{{Reason: `entry "u3" is there twice; the later one counts`}}
	if diff := cmp.Diff(want, list); diff != "" || total != 1 {
		t.Errorf("Problems, %d in all, -want +got\n%s", total, diff)
	}
}

func TestProblems(t *testing.T) {
	tree := NewTree(Header{}, msg("late", "p", "user"), msg("o", "gone", "user"), Entry{Type: "message"}, Entry{ID: "x"})
	want := []Problem{
		{Reason: "entry without ID or type"},
		{Reason: "entry without ID or type"},
		{Reason: `entry "late": its parent "p" is missing`},
		{Reason: `entry "o": its parent "gone" is missing`},
	}
	list, total := tree.Problems()
	if diff := cmp.Diff(want, list); diff != "" || total != 4 {
		t.Errorf("Problems, %d in all, -want +got\n%s", total, diff)
	}
	if got := ids(tree.Children("")); got != "late o" {
		t.Errorf("roots = %q", got)
	}
	tree.Add(msg("p", "", "user"))
	list, total = tree.Problems()
	if diff := cmp.Diff(append(want[:2:2], want[3]), list); diff != "" || total != 3 {
		t.Errorf("Problems after the parent came, %d in all, -want +got\n%s", total, diff)
	}
	if got := ids(tree.Children("")); got != "o p" {
		t.Errorf("roots = %q", got)
	}
	if got := ids(tree.Children("gone")); got != "" {
		t.Errorf("Children(gone) = %q", got)
	}

	tree = NewTree(Header{})
	for i := range 300 {
		tree.Add(Entry{})
		tree.Add(msg(fmt.Sprint(i), "gone", "user"))
	}
	if list, total := tree.Problems(); len(list) != maxProblems || len(tree.problems) != maxProblems || total != 600 {
		t.Errorf("Problems: %d of %d, want %d of 600", len(list), total, maxProblems)
	}
}

// A model is a session as a list of entries, every answer a search.
type model []Entry

func (m model) last(id string) int {
	for i, e := range slices.Backward(m) {
		if e.ID == id {
			return i
		}
	}
	return -1
}

func (m model) path(id string, seen []string) ([]string, error) {
	i := m.last(id)
	switch {
	case i < 0 && len(seen) == 0 && id != "":
		return nil, ErrUnknownEntry
	case i < 0:
		return nil, nil
	case slices.Contains(seen, id):
		return nil, ErrCycle
	}
	up, err := m.path(m[i].ParentID, append(seen, id))
	if err != nil {
		return nil, err
	}
	return append(up, id), nil
}

func (m model) children(id string) []string {
	var list []string
	for i, e := range m {
		known := m.last(id) >= 0 && e.ParentID == id
		root := id == "" && m.last(e.ParentID) < 0
		if m.last(e.ID) == i && (known || root) {
			list = append(list, e.ID)
		}
	}
	return list
}

func (m model) common(a, b string) (string, error) {
	pathA, errA := m.path(a, nil)
	pathB, errB := m.path(b, nil)
	if errA != nil {
		return "", errA
	}
	if errB != nil {
		return "", errB
	}
	for _, id := range slices.Backward(pathA) {
		if slices.Contains(pathB, id) {
			return id, nil
		}
	}
	return "", nil
}

// checkModel compares all answers for a few IDs.
func checkModel(t *testing.T, tree *Tree, m model, all []string) {
	t.Helper()
	for _, id := range all {
		want, wantErr := m.path(id, nil)
		path, err := tree.Path(id)
		if ids(path) != strings.Join(want, " ") || !errors.Is(err, wantErr) {
			t.Fatalf("Path(%q) = %q, %v; want %q, %v\n%v", id, ids(path), err, want, wantErr, m)
		}
		if got, want := ids(tree.Children(id)), strings.Join(m.children(id), " "); got != want {
			t.Fatalf("Children(%q) = %q, want %q\n%v", id, got, want, m)
		}
		for _, other := range all {
			want, wantErr := m.common(id, other)
			got, err := tree.CommonAncestor(id, other)
			if got != want || !errors.Is(err, wantErr) {
				t.Fatalf("CommonAncestor(%q, %q) = %q, %v; want %q, %v\n%v", id, other, got, err, want, wantErr, m)
			}
		}
		tree.Target(id)
		tree.Find(id)
	}
	if len(m) > 0 && tree.Leaf() != m[len(m)-1].ID {
		t.Fatalf("Leaf = %q, want %q", tree.Leaf(), m[len(m)-1].ID)
	}
	count := 0
	for i, e := range m {
		if m.last(e.ID) == i {
			count++
		}
	}
	if got := tree.Len(); got != count || len(slices.Collect(tree.Entries())) != count {
		t.Fatalf("Len = %d, want %d", got, count)
	}
}

// TestModel grows random trees as pi does, with moves of the leaf and here and
// there what pi does not do.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range 200 {
		tree, m := NewTree(Header{}), model{}
		all := []string{"", "nope"}
		for range rng.IntN(25) {
			e := msg(NewID(tree), tree.Leaf(), "user")
			switch rng.IntN(10) {
			case 0, 1, 2:
				e.ParentID = all[rng.IntN(len(all))]
			case 3:
				e.ID = all[rng.IntN(len(all))]
			}
			if e.ID == "" {
				continue
			}
			tree.Add(e)
			m = append(m, e)
			all = append(all, e.ID)
		}
		checkModel(t, tree, m, all)
	}
}

// FuzzTree builds any graph: two bytes are an entry and its parent.
func FuzzTree(f *testing.F) {
	f.Add([]byte{1, 0, 2, 1, 3, 2, 4, 2})
	f.Add([]byte{1, 1})
	f.Add([]byte{1, 2, 2, 1, 3, 2})
	f.Add([]byte{1, 0, 2, 1, 1, 2})
	f.Add([]byte{1, 9, 1, 9, 9, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		name := func(c byte) string { return strings.TrimPrefix(fmt.Sprint(c%16), "0") }
		tree, m := NewTree(Header{}), model{}
		for i := 0; i+1 < min(len(b), 100); i += 2 {
			e := msg(name(b[i]), name(b[i+1]), "user")
			tree.Add(e)
			if e.ID != "" {
				m = append(m, e)
			}
		}
		var all []string
		for c := range byte(16) {
			all = append(all, name(c))
		}
		checkModel(t, tree, m, all)
	})
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "0198f6f0-7a3b-7cc0": true, "a.b_C-9": true, "...": true, ".x": true, strings.Repeat("a", 128): true,
		"": false, ".": false, "..": false, "a/b": false, `a\b`: false, "a b": false, "a\x00": false, "é": false, "a:b": false,
		strings.Repeat("a", 129): false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%q) = %v, want %v", id, got, want)
		}
	}
}
