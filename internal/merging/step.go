package merging

import (
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// A Step is a change that goes or comes at a path: what leads from base to theirs
// is done to what is there.
type Step struct {
	Base, Theirs *tree.Entry
	Of           *history.Record // the turn, or the restore
	Comes        bool            // it is done, and not taken back
	Part         *Part           // the window of a change that it is about; nil: it is about more, or about less

	// What the change was made on and is out, as steps that take it back, newest first: it
	// does not come with theirs where that is taken in a conflict.
	Out []Step
}

// A Part is the window of a change that a step is about.
type Part struct {
	Cut         history.Cut // of nothing
	Found, Left *tree.Entry

	// What is out of it before the step, what of that is so by cuts that stay, and what is
	// out then.
	Now, Stay, Then []history.Cut
}

// All returns a cut of all that the window did.
func (p *Part) All() []history.Cut {
	c := p.Cut
	c.Whole = true
	return []history.Cut{c}
}

// CutsOf returns those cuts that are of the window.
func (p *Part) CutsOf(list []history.Cut) []history.Cut {
	return CutsOfWindow(list, p.Cut.Turn, p.Cut.Window)
}

// isPutBack reports whether lines of a change that is in come that were out of it.
func (p *Part) isPutBack() bool { return !IsOut(p.Then) && len(CutsBut(p.Now, p.Then)) > 0 }

// isModeOut reports whether the mode of a window is out by cuts.
func (p *Part) isModeOut(cuts []history.Cut) bool {
	if IsOut(cuts) {
		return trees.IsFile(p.Found) && trees.IsFile(p.Left) && p.Found.Mode != p.Left.Mode
	}
	return slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Mode })
}

// A stepDone is what came of a step.
type stepDone struct {
	st   *Step
	out  []history.Cut // what is out of the change then, but for what is by cuts that stay
	some bool          // something of it was done
}

// done returns what came of a step that was done.
func (st *Step) done() stepDone {
	p := st.Part
	d := stepDone{st: st, some: true}
	switch {
	case p == nil || IsOut(p.Stay):
	case IsOut(p.Then):
		d.out = p.All()
	default:
		d.out = CutsBut(p.Then, p.Stay)
	}
	return d
}

// Whose names the turn that made a change, or the restore.
func (st *Step) Whose() string {
	if n := st.Of.Turn(); n >= 0 {
		return fmt.Sprint("turn ", n)
	}
	if st.Of.Kind == history.KindRestore {
		return "the restore"
	}
	return "the turn"
}

// Began returns the number of a record before all that a step's change did.
func (st *Step) Began() uint64 {
	r := st.Of
	if r.Behind != nil {
		return r.Behind.Seq
	}
	if r.Kind == history.KindRestore {
		return r.Seq
	}
	for _, seq := range []uint64{r.Facts.Since, r.Facts.Within, r.Facts.Prev} {
		if seq != 0 {
			return seq
		}
	}
	return r.Seq
}
