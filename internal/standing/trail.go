package standing

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/store"
)

// AnyPath stands for a path that no joint tells of.
const AnyPath = "\x00"

// A Trail leads back from a position over all that is in there: the whole line,
// or what is in at one path.
type Trail struct {
	l    *Line
	path string // "": the whole line; anyPath: what is in at all paths but those that joints tell of

	At      *history.Record   // nil: the trail is at its end
	with    []*history.Record // turns that come beside those of at, newest first
	without map[uint64]bool   // turns of at that are to be passed over
	altered bool              // what is in ahead of it may be in at no position

	Joint func(*history.Record) // is told of the joints that it passes, if not nil
	past  *history.Record       // joint over which it goes next, though it is a cut
}

// Trail returns the way back from a position.
func (l *Line) Trail(at *history.Record, path string) *Trail {
	return &Trail{l: l, path: path, At: at}
}

// settle goes over joints until the trail is at a record of its own, or at its
// end.
func (t *Trail) settle(ctx context.Context) error {
	for t.At != nil && t.At.IsJoint() {
		j := t.At
		if j != t.past && j.CutAt(t.path) != nil {
			return nil
		}
		if t.Joint != nil {
			t.Joint(j)
		}
		to, with, without := j.Facts.Prev, []uint64(nil), j.Facts.Without
		switch way := j.Way(t.path); {
		case t.path == "":
			with = j.Facts.With
		case way != nil:
			to, with, without = way.From, way.With, way.Without
		case j.Facts.TookFrom != 0: // it names all paths that it is about
			without = nil
		}
		if err := t.beside(ctx, with); err != nil {
			return err
		}
		t.passOver(without)
		var err error
		if t.At, err = t.l.Records.StepAt(ctx, to, j.Session); err != nil {
			return err
		}
	}
	return nil
}

// beside adds the turns that a joint has beside those of the position from which
// it goes on.
func (t *Trail) beside(ctx context.Context, turns []uint64) error {
	for _, seq := range turns {
		r, err := t.l.Records.Record(ctx, seq)
		isLost := errors.Is(err, store.ErrNotFound) // it costs itself
		if err != nil && !isLost {
			return err
		}
		if t.without[seq] { // a later one has taken it back
			// A cut is on the way of a position also where it is void, since its turn is not
			// in there: it stays passed over.
			if isLost || !r.IsJoint() {
				delete(t.without, seq)
			}
			continue
		}
		// A cut comes before its turn in the list, and is void if that has been taken back.
		if !isLost && !t.isBeside(seq) && (!r.IsJoint() || t.hasCut(r)) {
			t.with = append(t.with, r)
		}
	}
	slices.SortFunc(t.with, func(a, b *history.Record) int { return cmp.Compare(b.Seq, a.Seq) })
	return nil
}

func (t *Trail) isBeside(seq uint64) bool {
	return slices.ContainsFunc(t.with, func(r *history.Record) bool { return r.Seq == seq })
}

// passOver notes the turns that a joint has not, but those that a later one has put
// back.
func (t *Trail) passOver(turns []uint64) {
	for _, seq := range turns {
		if t.isBeside(seq) {
			continue
		}
		if t.without == nil {
			t.without = make(map[uint64]bool)
		}
		t.without[seq] = true
	}
}

// IsPure reports whether nothing but the record that the trail is at says how
// it goes on.
func (t *Trail) IsPure() bool { return len(t.with) == 0 && len(t.without) == 0 }

// Peek returns the record that the trail is at, nil at its end.
func (t *Trail) Peek(ctx context.Context) (*history.Record, error) {
	if err := errors.Join(context.Cause(ctx), t.settle(ctx)); err != nil {
		return nil, err
	}
	if len(t.with) > 0 && (t.At == nil || t.At.Seq < t.with[0].Seq) {
		return t.with[0], nil
	}
	return t.At, nil
}

// Pop goes on to the next record. in says whether the one that it was at is a
// turn, or a look within one, that is in.
func (t *Trail) Pop(ctx context.Context) (r *history.Record, in bool, err error) {
	if r, err = t.Peek(ctx); err != nil || r == nil {
		return nil, false, err
	}
	if len(t.with) > 0 && r.Seq == t.with[0].Seq {
		t.with = t.with[1:]
		if t.At == nil || t.At.Seq != r.Seq {
			return r, true, nil
		}
	}
	if r.IsJoint() {
		t.past, in = r, !t.without[r.Seq] && t.hasCut(r)
		delete(t.without, r.Seq)
		return r, in, nil
	}
	in = r.Kind != history.KindStart
	if in && t.without[r.Seq] {
		delete(t.without, r.Seq)
		in = false
	}
	t.At, err = t.l.Prev(ctx, r)
	if t.At == nil || t.At.Kind == history.KindStart && t.At.Facts.Fork == 0 {
		t.without = nil
	}
	return r, in, err
}

// Next returns the next record that is in, nil at the end of the trail.
func (t *Trail) Next(ctx context.Context) (*history.Record, error) {
	for {
		r, in, err := t.Pop(ctx)
		if r == nil || in || err != nil {
			return r, err
		}
	}
}

// Find returns the record by which a turn is ahead of a trail: its own, or else one by which
// it is in in part; nil if it is not.
func (t *Trail) Find(ctx context.Context, turn *history.Record) (*history.Record, error) {
	var part *history.Record // a look within the turn may be there beside the whole of it
	for {
		r, err := t.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			return part, nil
		case history.IsSame(r, turn):
			return r, nil
		case r.EndsAt(turn) || turn.EndsAt(r):
			part = cmp.Or(part, r)
		}
		if r.Seq < turn.Seq && r.Seq != 0 {
			return part, nil
		}
	}
}

// hasCut reports whether a turn is in from which a joint takes something back.
func (t *Trail) hasCut(j *history.Record) bool {
	return slices.ContainsFunc(j.CutAt(t.path), func(c history.Cut) bool { return !t.without[c.Turn] })
}

// Between returns what is in at one position and not at another, and the other
// way around: what is to undo to get there, newest first, and what to do then,
// oldest first. Of a turn that is in in part on one side and whole on the other
// it is the rest. joint is told of each joint that is passed on the way, if it
// is not nil.
func (l *Line) Between(ctx context.Context, from, to *history.Record, path string, joint func(*history.Record)) (back,
	forth []*history.Record, err error) {
	a, b := l.Trail(from, path), l.Trail(to, path)
	a.Joint, b.Joint = joint, joint
	return l.difference(ctx, a, b)
}

// difference is Between for what is ahead of two trails.
func (l *Line) difference(ctx context.Context, a, b *Trail) (back, forth []*history.Record, err error) {
	for {
		x, err := a.Peek(ctx)
		if err != nil {
			return nil, nil, err
		}
		y, err := b.Peek(ctx)
		if err != nil {
			return nil, nil, err
		}
		if x == nil && y == nil || a.IsPure() && b.IsPure() && history.IsSame(x, y) {
			break
		}
		if x != nil && x.Seq == 0 || y != nil && y.Seq == 0 { // what only a log has knows no time
			undo, do, err := l.way(ctx, a.At, b.At)
			if err != nil {
				return nil, nil, err
			}
			back, forth = append(back, undo...), append(forth, do...)
			break
		}
		popX, popY := x != nil && (y == nil || x.Seq >= y.Seq), y != nil && (x == nil || y.Seq >= x.Seq)
		inX, inY := false, false
		if popX {
			if x, inX, err = a.Pop(ctx); err != nil {
				return nil, nil, err
			}
		}
		if popY {
			if y, inY, err = b.Pop(ctx); err != nil {
				return nil, nil, err
			}
		}
		if inX && !inY {
			back = append(back, x)
		}
		if inY && !inX {
			forth = append(forth, y)
		}
	}
	back, forth = rests(back, forth)
	slices.Reverse(forth)
	return back, forth, nil
}

// rests replaces a turn on one side and a look within it on the other by what the
// turn did behind the look.
func rests(a, b []*history.Record) (x, y []*history.Record) {
	rest := func(whole, parts []*history.Record) ([]*history.Record, []*history.Record) {
		for i, w := range whole {
			j := slices.IndexFunc(parts, w.EndsAt)
			if j < 0 {
				continue
			}
			whole[i], parts = w.PartAfter(parts[j]), slices.Delete(parts, j, j+1)
		}
		return whole, parts
	}
	a, b = rest(a, b)
	b, a = rest(b, a)
	return a, b
}

// way is Between for positions on simple lines, also where only a log has some of
// the turns.
func (l *Line) way(ctx context.Context, from, to *history.Record) (back, forth []*history.Record, err error) {
	type key struct { // numbers for what is on record, entries for the rest
		seq   uint64
		entry string
	}
	keyOf := func(r *history.Record) key {
		if r.Seq != 0 {
			return key{seq: r.Seq}
		}
		return key{entry: r.Entry}
	}
	at := [2]*history.Record{from, to}
	var steps [2][]*history.Record
	seen := [2]map[key]int{make(map[key]int), make(map[key]int)}
	for met := false; !met && (at[0] != nil || at[1] != nil); {
		for side, r := range at {
			if r == nil {
				continue
			}
			if i, ok := seen[1-side][keyOf(r)]; ok {
				steps[1-side], met = steps[1-side][:i], true
				break
			}
			seen[side][keyOf(r)] = len(steps[side])
			steps[side] = append(steps[side], r)
			at[side], err = l.Prev(ctx, r)
			if err = errors.Join(err, context.Cause(ctx)); err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range steps {
		steps[i] = slices.DeleteFunc(steps[i], func(r *history.Record) bool { return r.Kind == history.KindStart })
	}
	return steps[0], steps[1], nil
}
