package trees

import (
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/store"
)

// maxPages bounds what Pages remembers, in bytes.
const maxPages = 4 << 20

// Pages is a [Getter] that remembers pages, so that nobody reads, decodes and checks
// them again: all that were read through it, and those that a [PageWriter] or [Patch]
// with it has written. A page that it remembers is right, but need not be in the
// store: the capture that wrote it may not have been kept.
//
// Several goroutines may use it.
type Pages struct {
	Getter

	mu    sync.Mutex // guards the rest
	pages map[pageKey]page
	order []pageKey // oldest first
	size  int
}

// A pageKey names a page and says what was checked of it: a root that has few names
// is not cut, any other page is cut before every name that says so.
type pageKey struct {
	id   store.ID
	root bool
}

// A page is what ParsePage returns.
type page struct {
	level int
	items []Item
}

// NewPages returns a Getter that remembers pages, none so far, and has the rest
// from g.
func NewPages(g Getter) *Pages { return &Pages{Getter: g, pages: make(map[pageKey]page)} }

// get returns a page, of which nothing may be changed. A nil p knows none.
func (p *Pages) get(key pageKey) (page, bool) {
	if p == nil {
		return page{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pg, ok := p.pages[key]
	return pg, ok
}

// addCopy remembers a copy of a page that is right. A nil p does not.
func (p *Pages) addCopy(key pageKey, level int, items []Item) {
	if p == nil {
		return
	}
	if _, ok := p.get(key); ok {
		return
	}
	var names strings.Builder
	for i := range items {
		names.WriteString(items[i].Name)
	}
	all := names.String()
	items = slices.Clone(items)
	for i := range items {
		n := len(items[i].Name)
		items[i].Name, all = all[:n], all[n:]
	}
	p.add(key, page{level, items})
}

// add remembers a page that is right, and keeps it. A nil p does not.
func (p *Pages) add(key pageKey, pg page) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.pages[key]; ok {
		return
	}
	p.pages[key] = pg
	p.order = append(p.order, key)
	for p.size += pg.size(); p.size > maxPages; {
		p.size -= p.pages[p.order[0]].size()
		delete(p.pages, p.order[0])
		p.order = p.order[1:]
	}
}

// size returns about how much memory a page takes.
func (pg page) size() int {
	const itemSize = 64 + 16 // with what its name takes beside its bytes
	n := 200
	for i := range pg.items {
		n += itemSize + len(pg.items[i].Name)
	}
	return n
}
