package audit

import (
	"context"
	"errors"
	"math"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Tally counts what trees take in a store. It reads a page of a directory
// once, however many trees have it, and of a file's content only what is in the
// header of its record; then it knows which object leads to which, and answers
// from memory. That takes about 100 bytes for each object (77 were measured with
// 414,000, maps that have just grown take twice that) and 4 for each entry
// of a page.
//
// It is for one goroutine.
type Tally struct {
	s        *cas.Store
	progress *progress.Progress // of what is being added; nil: nobody wants to know

	numbers  map[store.ID]uint32 // of objects
	objects  []tallied
	leads    []uint32 // numbers of the objects that objects lead to
	stack    []uint32 // numbers of the pages that are being visited, and of what they lead to
	begun    []int    // where on the stack begins what each of these pages leads to
	round    uint32   // see each
	problems []trees.Problem
}

// A tallied is an object. None is above [pack.MaxObject], which has room in 32
// bits.
type tallied struct {
	stored, size uint32
	first, n     uint32 // where in leads it has its own
	round        uint32 // in which it was visited last
}

// An Amount is what some objects take, each counted once.
type Amount struct {
	Objects int
	Stored  int64 // bytes of their records, compressed
	Bytes   int64 // of their content
}

func (a *Amount) add(o *tallied) {
	a.Objects++
	a.Stored += int64(o.stored)
	a.Bytes += int64(o.size)
}

// Add adds what another Amount has.
func (a *Amount) Add(b Amount) {
	a.Objects += b.Objects
	a.Stored += b.Stored
	a.Bytes += b.Bytes
}

// A Root is an object that a Tally was given.
type Root uint32

// NewTally returns a Tally of what is in a store.
func NewTally(s *cas.Store) *Tally { return &Tally{s: s, numbers: make(map[store.ID]uint32)} }

// Add takes up all that a snapshot needs, and returns the roots of it. What is
// missing or damaged is no error: it counts as nothing, and is listed in
// [Tally.Problems].
func (t *Tally) Add(ctx context.Context, snap *store.Snapshot) ([]Root, error) {
	t.stack, t.begun, t.progress = t.stack[:0], t.begun[:0], progress.Of(ctx)
	if err := walkSnapshot(ctx, t.s, snap, byPage, t); err != nil {
		return nil, err
	}
	roots := make([]Root, len(t.stack))
	for i, n := range t.stack {
		roots[i] = Root(n)
	}
	return roots, nil
}

// Problems lists what was missing or damaged, with the path where it was met
// first.
func (t *Tally) Problems() []trees.Problem { return t.problems }

// All returns what all that was added takes.
func (t *Tally) All() Amount {
	var a Amount
	for i := range t.objects {
		a.add(&t.objects[i])
	}
	return a
}

// Firsts returns for each group of roots what it needs and no group before it.
func (t *Tally) Firsts(groups [][]Root) []Amount {
	list := make([]Amount, len(groups))
	t.round++
	for i, roots := range groups {
		t.each(roots, func(n uint32) { list[i].add(&t.objects[n]) })
	}
	return list
}

// Shares returns for each group of roots what it needs, and what of that no
// other group does; and what several need.
func (t *Tally) Shares(groups [][]Root) (needs, alone []Amount, shared Amount) {
	needs, alone = make([]Amount, len(groups)), make([]Amount, len(groups))
	const nobody, several = 0, math.MaxUint32
	owners := make([]uint32, len(t.objects)) // a group's number and 1
	for i, roots := range groups {
		t.round++
		t.each(roots, func(n uint32) {
			needs[i].add(&t.objects[n])
			if owners[n] == nobody {
				owners[n] = uint32(i + 1)
			} else {
				owners[n] = several
			}
		})
	}
	for n, owner := range owners {
		switch owner {
		case nobody:
		case several:
			shared.add(&t.objects[n])
		default:
			alone[owner-1].add(&t.objects[n])
		}
	}
	return needs, alone, shared
}

// each calls fn for all objects that roots lead to and no call in this round
// has come by. Whoever begins a round counts t.round up.
func (t *Tally) each(roots []Root, fn func(n uint32)) {
	var next []uint32
	visit := func(n uint32) {
		if o := &t.objects[n]; o.round != t.round {
			o.round = t.round
			fn(n)
			next = append(next, n)
		}
	}
	for _, root := range roots {
		visit(uint32(root))
		for len(next) > 0 {
			o := &t.objects[next[len(next)-1]]
			next = next[:len(next)-1]
			for _, n := range t.leads[o.first:][:o.n] {
				visit(n)
			}
		}
	}
}

// number returns the number of an object, and whether it is new: then it has
// what the header of its record says.
func (t *Tally) number(kind object.Kind, id store.ID, p *place) (n uint32, o cas.Stored, isNew bool, err error) {
	if n, ok := t.numbers[id]; ok {
		return n, o, false, nil
	}
	n = uint32(len(t.objects))
	t.numbers[id] = n
	o, err = t.s.Stored(kind, id)
	t.objects = append(t.objects, tallied{stored: uint32(o.Bytes), size: uint32(o.Size)})
	return n, o, true, t.lost(p, err)
}

// lost makes a note of what is missing or damaged. Other errors it returns.
func (t *Tally) lost(p *place, err error) error {
	if errors.Is(err, store.ErrForgotten) || cas.IsPromised(err) { // it takes nothing
		return nil
	}
	if trees.IsLoss(err) {
		t.problems = append(t.problems, trees.Problem{Path: p.path(), Err: p.said(err)})
		return nil
	}
	return err
}

// lead says to which objects one leads.
func (t *Tally) lead(n uint32, to []uint32) {
	t.objects[n].first, t.objects[n].n = uint32(len(t.leads)), uint32(len(to))
	t.leads = append(t.leads, to...)
}

// enter takes up what a place is, and puts its number on the stack.
func (t *Tally) enter(_ context.Context, p *place) (goOn bool, err error) {
	if p.id.IsZero() { // no tree
		return false, nil
	}
	var n uint32
	if p.isBlob() {
		n, err = t.blob(p)
	} else {
		var o cas.Stored
		n, o, goOn, err = t.number(p.kind, p.id, p)
		goOn = goOn && o.Size > 0 // no page is empty: it is lost
	}
	if t.stack = append(t.stack, n); goOn {
		t.begun = append(t.begun, len(t.stack))
	}
	return goOn, err
}

// leave notes what a place leads to: what is on the stack above its number.
func (t *Tally) leave(*place) {
	first := t.begun[len(t.begun)-1]
	t.begun = t.begun[:len(t.begun)-1]
	t.lead(t.stack[first-1], t.stack[first:])
	t.stack = t.stack[:first]
}

// blob takes up a file's content and its chunks.
func (t *Tally) blob(p *place) (uint32, error) {
	n, o, isNew, err := t.number(object.Blob, p.id, p)
	if err != nil || !isNew {
		return n, err
	}
	t.progress.Count(1, o.Bytes)
	var to []uint32
	for _, chunk := range o.Chunks {
		c, o, isNew, err := t.number(object.Blob, chunk, p)
		if err != nil {
			return n, err
		}
		if isNew {
			t.progress.Count(0, o.Bytes)
		}
		to = append(to, c)
	}
	t.lead(n, to)
	return n, nil
}
