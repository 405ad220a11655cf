package main

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

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

func (l *changeList) add(c *tree.Difference) {
	word := c.Status.String()
	list := map[string]*[]string{"added": &l.Added, "modified": &l.Modified, "deleted": &l.Deleted,
		"captured": &l.Captured, "uncaptured": &l.Uncaptured}[word]
	if !utf8.ValidString(c.Path) {
		if l.PathBytes == nil {
			l.PathBytes = make(map[string]map[int][]byte)
		}
		if l.PathBytes[word] == nil {
			l.PathBytes[word] = make(map[int][]byte)
		}
		l.PathBytes[word][len(*list)] = []byte(c.Path)
	}
	*list = append(*list, c.Path)
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

// listChanges collects what differs between two states.
func listChanges(ctx context.Context, g tree.Getter, old, new store.State) (*changeList, error) {
	list := newChangeList()
	for d, err := range tree.Compare(ctx, g, old, new) {
		if err != nil {
			return nil, err
		}
		list.add(&d)
	}
	return list, nil
}
