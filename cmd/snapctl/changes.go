package main

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A status is the letter before a changed path.
type status byte

const (
	added      status = 'A'
	modified   status = 'M' // content or permission bits
	retyped    status = 'T' // from file to link or back
	deleted    status = 'D'
	captured   status = 'a' // was there before, but left out
	uncaptured status = 'd' // still there, but left out now
)

var statusWords = map[status]string{
	added: "added", modified: "modified", retyped: "modified", deleted: "deleted",
	captured: "captured", uncaptured: "uncaptured",
}

// A change is a path at which two trees differ. A directory is one only if
// its permission bits differ or if it comes or goes empty.
type change struct {
	status   status
	path     string
	old, new *tree.Entry // nil: absent
}

// mode is that of the side that is there, the new one if both are.
func (c *change) mode() tree.Mode {
	if c.new != nil {
		return c.new.Mode
	}
	return c.old.Mode
}

// A side is one of the trees of a comparison, with what was left out of it.
type side struct {
	tree, coverage store.ID
	omitted        map[string]bool // paths in the coverage; true: a directory; nil until needed
}

// changes yields what differs between two trees, in order of path. Each pair
// is a change and nil, or a zero change and the error that ends the sequence.
func changes(ctx context.Context, g tree.Getter, old, new *side) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		for c, err := range tree.Diff(ctx, g, old.tree, new.tree) {
			if err != nil {
				yield(change{}, err)
				return
			}
			for _, c := range split(c) {
				if err = classify(ctx, g, &c, old, new); err != nil {
					yield(change{}, err)
					return
				}
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// split returns the changes to show for one of a tree: none, one, or for a
// directory that replaces something or is replaced, up to two.
func split(c tree.Change) []change {
	var list []change
	switch {
	case c.Old != nil && c.New != nil && c.Old.Mode.IsDir() == c.New.Mode.IsDir():
		s := modified
		if c.Old.Mode.Kind() != c.New.Mode.Kind() {
			s = retyped
		}
		return append(list, change{s, c.Path, c.Old, c.New})
	}
	if c.Old != nil && isShown(c.Old) {
		list = append(list, change{deleted, c.Path, c.Old, nil})
	}
	if c.New != nil && isShown(c.New) {
		list = append(list, change{added, c.Path, nil, c.New})
	}
	return list
}

// isShown reports whether an entry that comes or goes is a change of its own:
// what a directory holds speaks for it.
func isShown(e *tree.Entry) bool { return !e.Mode.IsDir() || e.ID == tree.Empty }

// classify tells what came or went on the disk from what only a rule or a
// limit let in or kept out.
func classify(ctx context.Context, g tree.Getter, c *change, old, new *side) error {
	switch c.status {
	case added:
		out, err := old.omits(ctx, g, c.path)
		if out {
			c.status = captured
		}
		return err
	case deleted:
		out, err := new.omits(ctx, g, c.path)
		if out {
			c.status = uncaptured
		}
		return err
	}
	return nil
}

// omits reports whether a path, or a directory above it, was there and left
// out.
func (s *side) omits(ctx context.Context, g tree.Getter, path string) (bool, error) {
	if s.omitted == nil {
		s.omitted = make(map[string]bool)
		for o, err := range tree.Coverage(ctx, g, s.coverage) {
			if err != nil {
				return false, err
			}
			// What is no file now is gone as one.
			if o.Reason != tree.NotFile {
				s.omitted[o.Path] = o.Kind.IsDir()
			}
		}
	}
	if _, ok := s.omitted[path]; ok {
		return true, nil
	}
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path[:i], '/') {
		if s.omitted[path[:i]] {
			return true, nil
		}
	}
	return false, nil
}

// A changeList is what differs, as JSON shows it.
type changeList struct {
	Added      []string `json:"added"`
	Modified   []string `json:"modified"`
	Deleted    []string `json:"deleted"`
	Captured   []string `json:"captured"`
	Uncaptured []string `json:"uncaptured"`

	// PathBytes has the bytes of paths that are not UTF-8: by list, then by
	// index in it.
	PathBytes map[string]map[int][]byte `json:"pathBytes,omitempty"`
}

func newChangeList() *changeList {
	return &changeList{Added: []string{}, Modified: []string{}, Deleted: []string{}, Captured: []string{}, Uncaptured: []string{}}
}

func (l *changeList) add(c *change) {
	word := statusWords[c.status]
	list := map[string]*[]string{"added": &l.Added, "modified": &l.Modified, "deleted": &l.Deleted,
		"captured": &l.Captured, "uncaptured": &l.Uncaptured}[word]
	if !utf8.ValidString(c.path) {
		if l.PathBytes == nil {
			l.PathBytes = make(map[string]map[int][]byte)
		}
		if l.PathBytes[word] == nil {
			l.PathBytes[word] = make(map[int][]byte)
		}
		l.PathBytes[word][len(*list)] = []byte(c.path)
	}
	*list = append(*list, c.path)
}

func (l *changeList) len() int {
	return len(l.Added) + len(l.Modified) + len(l.Deleted) + len(l.Captured) + len(l.Uncaptured)
}

// String counts what differs: 1 added, 2 deleted.
func (l *changeList) String() string {
	if l.len() == 0 {
		return "nothing changed"
	}
	return nonZero([]amount{{len(l.Added), "added"}, {len(l.Modified), "modified"}, {len(l.Deleted), "deleted"},
		{len(l.Captured), "captured"}, {len(l.Uncaptured), "uncaptured"}})
}

// brief is String with less to read: 3 changed.
func (l *changeList) brief() string {
	changed := len(l.Added) + len(l.Modified) + len(l.Deleted)
	if l.len() == 0 {
		return "nothing changed"
	}
	return nonZero([]amount{{changed, "changed"}, {len(l.Captured), "captured"}, {len(l.Uncaptured), "uncaptured"}})
}

// An amount is a number and what it is of.
type amount struct {
	n    int
	what string
}

// nonZero lists the amounts that are not zero.
func nonZero(amounts []amount) string {
	var parts []string
	for _, a := range amounts {
		if a.n > 0 {
			parts = append(parts, comma(a.n)+" "+a.what)
		}
	}
	return strings.Join(parts, ", ")
}

// listChanges collects what differs between two trees.
func listChanges(ctx context.Context, g tree.Getter, old, new *side) (*changeList, error) {
	list := newChangeList()
	for c, err := range changes(ctx, g, old, new) {
		if err != nil {
			return nil, err
		}
		list.add(&c)
	}
	return list, nil
}

func sideOf(s *store.Snapshot) *side { return &side{tree: s.Tree, coverage: s.Coverage} }
