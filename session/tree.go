package session

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// A Tree is a session: entries that name their parents, and a leaf. A session
// may have several roots. Entries are added and replaced, never removed.
//
// A Tree may be used from several goroutines at once. The slices that it
// returns are the caller's.
type Tree struct {
	header Header

	mu       sync.RWMutex // guards all below
	leaf     string
	byID     map[string]*Entry
	order    []*Entry            // as added; one that was replaced stays, see current
	children map[string][]*Entry // by ParentID, in the same way
	orphans  []orphan            // whose parent was not there when they were added
	problems []Problem           // the first maxProblems, without those of orphans
	total    int                 // number of problems, without those of orphans
}

// A Problem is something in a session log that is not as it should be.
type Problem struct {
	Line   int    // number of the line, from 1; 0 if the entry came from no file
	Offset int64  // of the line, in bytes from the start of the file
	Reason string // what is wrong
}

// maxProblems bounds the problems that are kept. The rest are counted.
const maxProblems = 100

// An orphan is an entry and where it came from.
type orphan struct {
	*Entry
	line int
	off  int64
}

// NewTree returns a tree of entries, as [Tree.Add] adds them.
func NewTree(h Header, entries ...Entry) *Tree {
	t := &Tree{header: h, byID: make(map[string]*Entry), children: make(map[string][]*Entry)}
	for _, e := range entries {
		t.Add(e)
	}
	return t
}

// Add adds an entry, which becomes the leaf. One with the same ID is replaced,
// and that is a problem, as is an entry without ID or type, which is left out.
func (t *Tree) Add(e Entry) {
	t.add(e, 0, 0)
}

func (t *Tree) add(e Entry, line int, off int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.ID == "" || e.Type == "" {
		t.note(line, off, "entry without ID or type")
		return
	}
	if t.byID[e.ID] != nil {
		t.note(line, off, fmt.Sprintf("entry %q is there twice; the later one counts", e.ID))
	}
	if e.ParentID != "" && t.byID[e.ParentID] == nil {
		t.orphans = append(t.orphans, orphan{&e, line, off})
	}
	t.byID[e.ID] = &e
	t.order = append(t.order, &e)
	t.children[e.ParentID] = append(t.children[e.ParentID], &e)
	t.leaf = e.ID
}

// problem takes a line that is no entry.
func (t *Tree) problem(line int, off int64, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(line, off, reason)
}

// note keeps or counts a problem. The caller holds mu.
func (t *Tree) note(line int, off int64, reason string) {
	t.total++
	if len(t.problems) < maxProblems {
		t.problems = append(t.problems, Problem{line, off, reason})
	}
}

// current reports whether e was not replaced. The caller holds mu.
func (t *Tree) current(e *Entry) bool { return t.byID[e.ID] == e }

// orphaned reports whether the parent of e is missing. The caller holds mu.
func (t *Tree) orphaned(e *Entry) bool {
	return e.ParentID != "" && t.byID[e.ParentID] == nil
}

// Header returns the header.
func (t *Tree) Header() Header { return t.header }

// Len returns the number of entries.
func (t *Tree) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID)
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
// last. A missing parent ends the path as a root does, as in pi, and is listed
// by [Tree.Problems]. The path of "" is empty.
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

// CommonAncestor returns the ID of the last entry that the paths of a and b
// share, which may be a or b; "" if they share none. The errors are those of
// Path.
func (t *Tree) CommonAncestor(a, b string) (string, error) {
	pathA, err := t.Path(a)
	if err != nil {
		return "", err
	}
	pathB, err := t.Path(b)
	if err != nil {
		return "", err
	}
	common := ""
	for i := 0; i < min(len(pathA), len(pathB)) && pathA[i].ID == pathB[i].ID; i++ {
		common = pathA[i].ID
	}
	return common, nil
}

// Target returns where the leaf goes when pi is told to move to an entry:
// before a user message or a custom_message, so that it can be said again, and
// to any other entry itself. "" is before the first entry.
//
// The error matches [ErrUnknownEntry] if the entry is missing, or its parent
// where that is the answer.
func (t *Tree) Target(id string) (leaf string, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.byID[id]
	if e == nil {
		return "", unknown(id)
	}
	if e.Type != "custom_message" && (e.Type != "message" || e.Role != "user") {
		return id, nil
	}
	if t.orphaned(e) {
		return "", fmt.Errorf("parent of entry %q: %w", id, unknown(e.ParentID))
	}
	return e.ParentID, nil
}

// Find returns the entry whose ID is id, or else the only one whose ID begins
// with it.
//
// The error matches [ErrUnknownEntry] if there is none, and [ErrAmbiguous],
// listing them, if there are several.
func (t *Tree) Find(id string) (*Entry, error) {
	if e, ok := t.Entry(id); ok {
		return e, nil
	}
	var found []*Entry
	for e := range t.Entries() {
		if id != "" && strings.HasPrefix(e.ID, id) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return nil, unknown(id)
	case 1:
		return found[0], nil
	}
	const most = 10 // to list
	var ids []string
	for _, e := range found[:min(len(found), most)] {
		ids = append(ids, e.ID)
	}
	list := strings.Join(ids, ", ")
	if more := len(found) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return nil, fmt.Errorf("entry %q: %w: %s", id, ErrAmbiguous, list)
}

// Problems returns the first problems of the log in file order, at most 100,
// and how many there are. A missing parent is none any more once it is added.
func (t *Tree) Problems() (list []Problem, total int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list, total = slices.Clone(t.problems), t.total
	for _, o := range t.orphans {
		if !t.current(o.Entry) || !t.orphaned(o.Entry) {
			continue
		}
		total++
		if total-t.total <= maxProblems {
			list = append(list, Problem{o.line, o.off, fmt.Sprintf("entry %q: its parent %q is missing", o.ID, o.ParentID)})
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return list[:min(len(list), maxProblems)], total
}

func unknown(id string) error {
	return fmt.Errorf("entry %q: %w", id, ErrUnknownEntry)
}
