package session

import (
	"fmt"
	"iter"
	"slices"
	"sync"
)

// A Tree is a session: entries that name their parents, and a leaf. A session
// may have several roots. Entries are added and replaced, never removed.
//
// A Tree may be used from several goroutines at once. The slices that it
// returns are the caller's.
type Tree struct {
	mu       sync.RWMutex // guards all below
	leaf     string
	byID     map[string]*Entry
	order    []*Entry            // as added; one that was replaced stays, see current
	children map[string][]*Entry // by ParentID, in the same way
}

// NewTree returns a tree of entries, as [Tree.Add] adds them.
func NewTree(entries ...Entry) *Tree {
	t := &Tree{byID: make(map[string]*Entry), children: make(map[string][]*Entry)}
	for _, e := range entries {
		t.Add(e)
	}
	return t
}

// Add adds an entry, which becomes the leaf. One with the same ID is replaced; an
// entry without ID or type is left out.
func (t *Tree) Add(e Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.ID == "" || e.Type == "" {
		return
	}
	t.byID[e.ID] = &e
	t.order = append(t.order, &e)
	t.children[e.ParentID] = append(t.children[e.ParentID], &e)
	t.leaf = e.ID
}

// current reports whether e was not replaced. The caller holds mu.
func (t *Tree) current(e *Entry) bool { return t.byID[e.ID] == e }

// orphaned reports whether the parent of e is missing. The caller holds mu.
func (t *Tree) orphaned(e *Entry) bool {
	return e.ParentID != "" && t.byID[e.ParentID] == nil
}

// Changes returns how often an entry was added or replaced.
func (t *Tree) Changes() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.order)
}

// Entry returns the entry with an ID.
func (t *Tree) Entry(id string) (*Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.byID[id]
	return e, ok
}

// Entries yields the entries in file order, without those that are added
// meanwhile.
func (t *Tree) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		t.mu.RLock()
		order := t.order
		t.mu.RUnlock()
		for _, e := range order {
			t.mu.RLock()
			ok := t.current(e)
			t.mu.RUnlock()
			if ok && !yield(e) {
				return
			}
		}
	}
}

// Leaf returns the ID of the leaf; "" before the first entry. It is the last
// entry added, of any type, unless SetLeaf has moved it.
func (t *Tree) Leaf() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.leaf
}

// SetLeaf moves the leaf to an entry, or with "" before the first one. As in
// pi, the move is in memory only: the next entry that is added is the leaf
// again.
//
// The error matches [ErrUnknownEntry] if there is no such entry.
func (t *Tree) SetLeaf(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id != "" && t.byID[id] == nil {
		return unknown(id)
	}
	t.leaf = id
	return nil
}

// Path returns the entries from a root to the entry with an ID, which is the
// last. A missing parent ends the path as a root does, as in pi. The path of "" is
// empty.
//
// The error matches [ErrUnknownEntry] if there is no such entry, and
// [ErrCycle] if the parents never end.
func (t *Tree) Path(id string) ([]*Entry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if id == "" {
		return nil, nil
	}
	e := t.byID[id]
	if e == nil {
		return nil, unknown(id)
	}
	var path []*Entry
	for ; e != nil; e = t.byID[e.ParentID] { // no entry has the ID ""
		if len(path) == len(t.byID) {
			return nil, fmt.Errorf("entry %q: %w through %q", id, ErrCycle, e.ID)
		}
		path = append(path, e)
	}
	slices.Reverse(path)
	return path, nil
}

// Children returns the entries whose parent has an ID, in file order. Those of
// "" are the roots and the entries whose parent is missing.
func (t *Tree) Children(id string) []*Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	from := t.children[id]
	switch {
	case id == "":
		from = t.order // which has the orphans in their places
	case t.byID[id] == nil:
		return nil
	}
	var list []*Entry
	for _, e := range from {
		if t.current(e) && (e.ParentID == id || t.orphaned(e)) {
			list = append(list, e)
		}
	}
	return list
}

func unknown(id string) error {
	return fmt.Errorf("entry %q: %w", id, ErrUnknownEntry)
}
