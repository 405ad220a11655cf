package standing

import (
	"context"
	"errors"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
)

// A Line leads back over the records of a session, from a position to those before it.
type Line struct {
	Records *history.Records
	Pages   trees.Getter

	// Logged returns what a turn changed that only a log has.
	Logged func(*history.Record) ([]windows.Change, error)

	// Before returns what is before a record by a log: prev, which the record names, unless
	// the log has a turn of its own between them. prev is nil for a turn that only the log
	// has. Nil: only the records lead.
	Before func(ctx context.Context, r, prev *history.Record) (*history.Record, error)
}

// Changes returns what a turn changed, or a part of one.
func (l *Line) Changes(ctx context.Context, r *history.Record) ([]windows.Change, error) {
	if r.Logged != nil {
		return l.Logged(r)
	}
	return windows.Changes(ctx, l.Records, l.Pages, r)
}

// Prev returns the step, or the start, before a step; nil before a start. It is
// the one that the record names, unless the log has one between them.
func (l *Line) Prev(ctx context.Context, r *history.Record) (*history.Record, error) {
	switch {
	case r.Kind == history.KindStart && r.Facts.Fork != 0:
		return l.Records.StepAt(ctx, r.Facts.Fork, r.Session)
	case r.Kind == history.KindStart:
		return nil, nil
	case r.Seq == 0:
		return l.Before(ctx, r, nil)
	case r.Facts.Prev == 0:
		return nil, nil
	}
	prev, err := l.Records.StepAt(ctx, r.Facts.Prev, r.Session)
	if err != nil || l.Before == nil {
		return prev, err
	}
	return l.Before(ctx, r, prev)
}

// StepBefore returns the newest turn before a record that changed something, or
// the start if that comes first; nil before a start. However many positions that
// are neither lie between, it is one hop: each knows where it leads.
func (l *Line) StepBefore(ctx context.Context, r *history.Record) (*history.Record, error) {
	for {
		var err error
		if r.Facts.Step != 0 {
			r, err = l.Records.StepAt(ctx, r.Facts.Step, r.Session)
		} else {
			r, err = l.Prev(ctx, r)
		}
		if r == nil || err != nil || r.Kind == history.KindStep || r.Kind == history.KindStart {
			return r, err
		}
	}
}

// Ancestor returns the first record at or before r for which is holds, or before
// which hops cannot be made: a joint that has turns of its own; the start if
// there is none. As soon as is holds it must hold for all before.
func (l *Line) Ancestor(ctx context.Context, r *history.Record, is func(*history.Record) bool) (*history.Record,
	error) {
	for !is(r) && !r.TurnsLine() {
		if l.Before == nil && r.Facts.Jump != 0 {
			jump, err := l.Records.StepAt(ctx, r.Facts.Jump, r.Session)
			if err != nil {
				return nil, err
			}
			if !is(jump) && !jump.TurnsLine() {
				r = jump
				continue
			}
		}
		prev, err := l.Prev(ctx, r)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return nil, err
		}
		if prev == nil {
			break
		}
		r = prev
	}
	return r, nil
}

// TurnAt returns the newest record that is in at a position, or the start if none
// is: what the position is called by.
func (l *Line) TurnAt(ctx context.Context, at *history.Record) (*history.Record, error) {
	t := l.Trail(at, "")
	var last *history.Record
	for {
		r, in, err := t.Pop(ctx)
		switch {
		case err != nil:
			return nil, err
		case r == nil && last == nil:
			return at, nil
		case r == nil:
			return last, nil
		case in:
			return r, nil
		}
		last = r
	}
}

// LastTurn returns the newest turn that is in at a position, or the start if none is.
func (l *Line) LastTurn(ctx context.Context, at *history.Record) (*history.Record, error) {
	if !at.IsJoint() {
		return at, nil
	}
	d := &at.Facts
	r, err := l.StepBefore(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case r == nil || slices.Contains(d.Without, r.Seq):
		return l.TurnAt(ctx, at)
	case len(d.With) > 0 && d.With[0] > r.Seq:
		return l.Records.StepAt(ctx, d.With[0], at.Session)
	}
	return r, nil
}

// IsOn reports whether a turn is on the line that leads to a position.
func (l *Line) IsOn(ctx context.Context, at, turn *history.Record) (bool, error) {
	on, err := l.OnLine(ctx, at, turn)
	return on != nil, err
}

// OnLine returns the record by which a turn is on the line that leads to a position,
// nil if it is not.
func (l *Line) OnLine(ctx context.Context, at, turn *history.Record) (*history.Record, error) {
	at, err := l.Ancestor(ctx, at, func(r *history.Record) bool { return r.Seq <= turn.Seq || r.IsSameTurn(turn) })
	if err != nil {
		return nil, err
	}
	return l.Trail(at, "").Find(ctx, turn)
}

// FoundBy returns the position that a turn, or what is left of one, began at.
func (l *Line) FoundBy(ctx context.Context, r *history.Record) (*history.Record, error) {
	switch {
	case r.Behind != nil:
		return r.Behind, nil
	case r.IsJoint():
		return l.Records.StepAt(ctx, r.Facts.From, r.Session)
	}
	return l.Prev(ctx, r)
}

// InAt returns the turns and cuts that are in at a path, from a number on, newest first.
func (l *Line) InAt(ctx context.Context, at *history.Record, path string, from uint64) (list []*history.Record,
	err error) {
	for t := l.Trail(at, path); ; {
		r, err := t.Next(ctx)
		if r == nil || err != nil || r.Seq < from {
			return list, err
		}
		list = append(list, r)
	}
}

// CutsIn returns what was taken back of changes at a path that are in at a position, of
// those from a record on, newest first.
func (l *Line) CutsIn(ctx context.Context, at *history.Record, p string, from uint64) (list []history.Cut, err error) {
	in, err := l.InAt(ctx, at, p, from)
	for _, r := range in {
		if r.IsJoint() {
			list = append(list, r.CutAt(p)...)
		}
	}
	return list, err
}

// VoidCuts returns the cuts on the way of a position at a path of which the turn is one of some, and
// that are not in there. They would be, where these turns come beside what is in.
func (l *Line) VoidCuts(ctx context.Context, at *history.Record, p string, turns []uint64) (list []uint64, err error) {
	if len(turns) == 0 {
		return nil, nil
	}
	oldest := slices.Min(turns)
	isOf := func(c history.Cut) bool { return slices.Contains(turns, c.Turn) }
	for t := l.Trail(at, p); ; {
		r, in, err := t.Pop(ctx)
		if r == nil || err != nil || r.Seq < oldest {
			return list, err
		}
		if r.IsJoint() && !in && slices.ContainsFunc(r.CutAt(p), isOf) {
			list = append(list, r.Seq)
		}
	}
}

// SaysAnew reports whether a joint says cuts again that were in at a path before it, and of
// which it has done a part: what these had found is not known to be expected.
func (l *Line) SaysAnew(ctx context.Context, j *history.Record, p string) (bool, error) {
	a := j.StandsApart(p)
	isLeft := func(q []byte) bool { return string(q) == p }
	if a == nil || len(a.Without) == 0 || !slices.ContainsFunc(j.Facts.Left, isLeft) {
		return false, nil
	}
	before, err := l.FoundBy(ctx, j)
	if err != nil {
		return false, err
	}
	in, err := l.InAt(ctx, before, p, slices.Min(a.Without))
	isAgain := func(r *history.Record) bool { return r.IsJoint() && slices.Contains(a.Without, r.Seq) }
	return slices.ContainsFunc(in, isAgain), err
}

// Link gives a turn its place in the line of turns. Beside the position before
// it each knows one further back, chosen so that any is found in a number of
// hops that grows with the logarithm of their number (Myers, An applicative
// random-access stack, 1983). No hop goes over a start or a joint, or to a look:
// where there is one, the hops begin anew. Turns of one number are one turn.
func (l *Line) Link(ctx context.Context, r *history.Record) error {
	if r.Facts.Prev == 0 {
		return nil
	}
	prev, err := l.Records.StepAt(ctx, r.Facts.Prev, r.Session)
	if err != nil {
		return err
	}
	before, err := l.LastTurn(ctx, prev)
	if err != nil {
		return err
	}
	if r.Facts.Depth = prev.Facts.Depth + 1; r.IsSameTurn(before) {
		r.Facts.Depth--
	}
	if r.Facts.Jump = prev.Seq; prev.Facts.Jump == 0 {
		return nil
	}
	jump, err := l.Records.StepAt(ctx, prev.Facts.Jump, prev.Session)
	if err != nil {
		return err
	}
	if jump.Facts.Jump == 0 {
		return nil
	}
	further, err := l.Records.StepAt(ctx, jump.Facts.Jump, jump.Session)
	if err != nil {
		return err
	}
	if prev.Facts.Depth-jump.Facts.Depth == jump.Facts.Depth-further.Facts.Depth {
		r.Facts.Jump = further.Seq
	}
	return nil
}

// HasRecord reports whether a list has the record of a number.
func HasRecord(list []*history.Record, seq uint64) bool {
	return slices.ContainsFunc(list, func(r *history.Record) bool { return r.Seq == seq })
}
