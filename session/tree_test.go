package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
	return NewTree(
		msg("u1", "", "user"), msg("a1", "u1", "assistant"),
		msg("u2", "a1", "user"), msg("a2", "u2", "assistant"),
		Entry{ID: "s2", ParentID: "a2", Type: "custom", CustomType: "step-snapshot"},
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

func TestLeaf(t *testing.T) {
	tree := NewTree()
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
}

// TestRoots is about entries whose parent is missing, or comes late.
func TestRoots(t *testing.T) {
	tree := NewTree(msg("late", "p", "user"), msg("o", "gone", "user"), Entry{Type: "message"}, Entry{ID: "x"})
	if got := ids(tree.Children("")); got != "late o" {
		t.Errorf("roots = %q", got)
	}
	tree.Add(msg("p", "", "user"))
	if got := ids(tree.Children("")); got != "o p" {
		t.Errorf("roots = %q", got)
	}
	if got := ids(tree.Children("gone")); got != "" {
		t.Errorf("Children(gone) = %q", got)
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
	if got := len(slices.Collect(tree.Entries())); got != count {
		t.Fatalf("%d entries, want %d", got, count)
	}
}

// TestModel grows random trees as pi does, with moves of the leaf and here and
// there what pi does not do.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range 200 {
		tree, m := NewTree(), model{}
		all := []string{"", "nope"}
		for range rng.IntN(25) {
			e := msg(fmt.Sprintf("%08x", rng.Uint32()), tree.Leaf(), "user")
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
		tree, m := NewTree(), model{}
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
