package audit

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Checker verifies that trees are complete. It looks once at what several of them
// share.
type Checker struct {
	s        *cas.Store
	done     map[store.ID]bool
	problems []trees.Problem // of the snapshot that is being checked
	told     map[loss]bool   // that are among them
}

// A loss is an object that is lost, and a path that needs it.
type loss struct {
	path string
	id   store.ID
}

// atOnce is how many snapshots [Checker.Each] looks at together. Of each it remembers what is new in it, a
// level of directories at a time: 40 bytes for each directory.
//
// A variable, so that tests make it less.
var atOnce = 1024

// Each calls fn with each of some snapshots, and what [Checker.Snapshot] finds in it. It returns the first error.
func (c *Checker) Each(
	ctx context.Context, snaps iter.Seq2[*store.Snapshot, error], fn func(*store.Snapshot, []trees.Problem) error,
) error {
	var some []*store.Snapshot
	flush := func() error {
		if err := c.ahead(ctx, some); err != nil {
			return err
		}
		for _, snap := range some {
			problems, err := c.Snapshot(ctx, snap)
			if err != nil {
				return err
			}
			if err := fn(snap, problems); err != nil {
				return err
			}
		}
		some = some[:0]
		return nil
	}
	for snap, err := range snaps {
		if err != nil {
			return err
		}
		if some = append(some, snap); len(some) == atOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// ahead looks at so much of some snapshots that [Checker.Snapshot] need not look at those in which nothing
// is missing. It reads in the order of the packs, where the versions of a directory stand in one
// group, and not from snapshot to snapshot: directories that are equally deep in all of them are read together.
func (c *Checker) ahead(ctx context.Context, snaps []*store.Snapshot) error {
	a := &ahead{Checker: c, found: make(map[store.ID]bool)}
	for _, snap := range snaps {
		for _, state := range object.States(snap) {
			a.add(object.Tree, state.Tree)
			a.add(object.Coverage, state.Coverage)
		}
	}
	for depth := 0; !a.bad && len(a.next[object.Tree])+len(a.next[object.Coverage]) > 0; depth++ {
		if depth > trees.MaxDir/2 { // some path is too long, even with short names
			return nil
		}
		level := a.next
		a.next = make(map[object.Kind][]store.ID)
		for kind, ids := range level {
			if err := a.level(ctx, kind, ids); err != nil {
				return err
			}
		}
	}
	if !a.bad {
		maps.Copy(c.done, a.found)
	}
	return nil
}

// An ahead is one look of a Checker at what several snapshots need.
type ahead struct {
	*Checker

	mu    sync.Mutex // guards the rest, and Checker.done
	found map[store.ID]bool
	next  map[object.Kind][]store.ID // of the directories that come next
	bad   bool                       // something is missing: of what, Checker.Snapshot says
}

// add has a directory looked at.
func (a *ahead) add(kind object.Kind, id store.ID) {
	if id.IsZero() || a.done[id] || a.found[id] {
		return
	}
	if a.next == nil {
		a.next = make(map[object.Kind][]store.ID)
	}
	a.found[id] = true
	a.next[kind] = append(a.next[kind], id)
}

// level looks at directories, and notes which are in them.
func (a *ahead) level(ctx context.Context, kind object.Kind, ids []store.ID) error {
	return a.s.EachTree(ctx, kind, ids, func(i int, content []byte, err error) error {
		g := &oneRead{Getter: a.s, id: ids[i], content: content, err: err}
		r := trees.TreeReader(g)
		if kind == object.Coverage {
			r = trees.CoverageReader(g)
		}
		for next, err := range topOf(r, ids[i]).entries(ctx) {
			if err == nil {
				err = a.meet(ctx, next)
			}
			if trees.IsLoss(err) {
				a.mu.Lock()
				a.bad = true
				a.mu.Unlock()
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *ahead) meet(ctx context.Context, p *place) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.isBlob() {
		return a.blob(ctx, p)
	}
	a.add(p.kind, p.id)
	return nil
}

// A oneRead is a store of which one object was read already.
type oneRead struct {
	trees.Getter
	id      store.ID
	content []byte
	err     error
}

func (g *oneRead) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	if id == g.id {
		return g.content, g.err
	}
	return g.Getter.Get(ctx, kind, id)
}

// NewChecker returns a Checker for the trees of a store.
func NewChecker(s *cas.Store) *Checker {
	return &Checker{s: s, done: make(map[store.ID]bool)}
}

// Snapshot reads all directories that a snapshot keeps and makes sure that every
// blob, with its chunks, is there or was forgotten; contents are the business of [cas.Store.Check].
// Losses that were accepted are listed, too. An error means that the check could
// not be done.
func (c *Checker) Snapshot(ctx context.Context, snap *store.Snapshot) ([]trees.Problem, error) {
	c.problems, c.told = nil, make(map[loss]bool)
	if err := walkSnapshot(ctx, c.s, snap, byDirectory, c); err != nil {
		return nil, err
	}
	return c.problems, nil
}

func (c *Checker) enter(ctx context.Context, p *place) (goOn bool, err error) {
	if p.isBlob() {
		return false, c.lost(p, c.blob(ctx, p))
	}
	again := c.done[p.id]
	c.done[p.id] = true
	return !again, nil
}

func (c *Checker) lost(p *place, err error) error {
	if !trees.IsLoss(err) {
		return err
	}
	l := loss{p.path(), p.id}
	if c.told[l] { // in another state of the snapshot
		return nil
	}
	c.told[l] = true
	at, _ := c.s.AcceptedObject(p.id)
	err = p.said(err)
	c.problems = append(c.problems, trees.Problem{Path: l.path, ID: p.id, Err: err, At: at})
	return nil
}

func (c *Checker) leave(*place) {}

// blob makes sure that the content of a file or link is there, or was forgotten.
func (c *Checker) blob(_ context.Context, p *place) error {
	if c.done[p.id] {
		return nil
	}
	err := c.s.CheckBlob(p.id, p.size())
	if errors.Is(err, store.ErrForgotten) {
		err = nil
	}
	c.done[p.id] = err == nil
	return err
}

// IsWhole reports whether all that a state needs is there for a writer to count
// on. A tree that no snapshot names may have lost what is in it to a prune.
func IsWhole(ctx context.Context, s *cas.Store, w *cas.Writer, state store.State) (bool, error) {
	err := walk(ctx, s, state, byPage, &wholeness{w, make(map[store.ID]bool)})
	if err == errNotWhole {
		return false, nil
	}
	return err == nil, err
}

// errNotWhole ends a walk that has found something missing.
var errNotWhole = errors.New("something is missing")

type wholeness struct {
	w    *cas.Writer
	seen map[store.ID]bool
}

func (v *wholeness) enter(_ context.Context, p *place) (goOn bool, err error) {
	if v.seen[p.id] {
		return false, nil
	}
	v.seen[p.id] = true
	ok, err := v.w.HasOrPromised(p.id, p.size())
	if err == nil && !ok {
		err = errNotWhole
	}
	return !p.isBlob(), err
}

func (v *wholeness) lost(_ *place, err error) error {
	if trees.IsLoss(err) {
		return errNotWhole
	}
	return err
}

func (v *wholeness) leave(*place) {}
