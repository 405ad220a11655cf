// Package progress counts how far long work is, for others to see while it runs. Whoever
// has the work done puts a [Progress] into the context; the work finds it there and counts;
// whoever shows it calls [Progress.Now] now and then. The work never waits for that, and
// starts no goroutine.
package progress

import (
	"context"
	"sync/atomic"
	"time"
)

// A Phase is a part of some work, with what is known of it before.
type Phase struct {
	Name string // what is done, as people say it: "writing"
	Unit string // what is counted, one of it: "file"

	Items int64 // how many there are; 0: that is not known
	Bytes int64 // how many bytes they have; 0: not known, or nobody counts them
}

// A State is how far a phase is.
type State struct {
	Phase
	Began time.Time

	Done      int64 // items
	DoneBytes int64 // bytes that were read or written
	Read      int64 // items whose content was read, where that need not be
}

// A Progress is how far some work is. The zero value is of work that has not begun. A nil
// *Progress counts nothing. Its methods may be called by several goroutines at once.
type Progress struct{ now atomic.Pointer[counts] }

type counts struct {
	phase             Phase
	began             time.Time
	done, bytes, read atomic.Int64
}

// Begin begins the next phase, at 0.
func (p *Progress) Begin(phase Phase) {
	if p != nil {
		p.now.Store(&counts{phase: phase, began: time.Now()})
	}
}

// Count counts items that are done in this phase, and their bytes. Before the first phase
// it counts nothing.
func (p *Progress) Count(items, bytes int64) {
	if p == nil {
		return
	}
	if c := p.now.Load(); c != nil {
		c.done.Add(items)
		c.bytes.Add(bytes)
	}
}

// CountRead counts an item whose content was read, and that is counted as done on its own.
func (p *Progress) CountRead(bytes int64) {
	if p == nil {
		return
	}
	if c := p.now.Load(); c != nil {
		c.read.Add(1)
		c.bytes.Add(bytes)
	}
}

// Now returns how far the present phase is, and the zero State before the first.
func (p *Progress) Now() State {
	if p == nil {
		return State{}
	}
	c := p.now.Load()
	if c == nil {
		return State{}
	}
	return State{Phase: c.phase, Began: c.began, Done: c.done.Load(), DoneBytes: c.bytes.Load(), Read: c.read.Load()}
}

// fileWork is what a file costs beside its bytes, in bytes: opening, naming and syncing it.
const fileWork = 64 << 10

// Left returns how long the phase still takes if it goes on as until now. Not ok: nobody
// knows, as the totals are not known or too little is done.
func (s *State) Left(now time.Time) (left time.Duration, ok bool) {
	work := float64(s.Items*fileWork + s.Bytes)
	done := float64(s.Done*fileWork + min(s.DoneBytes, s.Bytes))
	elapsed := now.Sub(s.Began)
	if work == 0 || s.Done > s.Items && s.Items > 0 || done < work/100 || elapsed < time.Second {
		return 0, false
	}
	return time.Duration(max(work-done, 0) / done * float64(elapsed)), true
}

type key struct{}

// With returns a context whose work is counted by p.
func With(ctx context.Context, p *Progress) context.Context { return context.WithValue(ctx, key{}, p) }

// Of returns the Progress of a context; nil: nobody wants to know.
func Of(ctx context.Context) *Progress {
	p, _ := ctx.Value(key{}).(*Progress)
	return p
}
