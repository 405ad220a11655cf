package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
)

// This file answers where a path stands in a session: which of the session's
// changes are in, and what is expected to be there. Both are read off the
//  A position is a record from which others lead back, newest first: a
// turn to what it was built on, a start to the line that it was forked from. A
// restore moves the position to another one. Where it could not do so for every
// path it is a joint: a position from which some paths go back another way than
// the rest. So the changes that are in at a path are the turns that changed it
// on its own way back, and what is expected is what the newest of them left. A restore
// that took back only a part of what a turn did there, a cut, is itself a change that is
// in: see cut.go.

// anyPath stands for a path that no joint tells of.
const anyPath = "\x00"

// A trail leads back from a position over all that is in there: the whole line,
// or what is in at one path.
type trail struct {
	l    *line
	path string // "": the whole line; anyPath: what is in at all paths but those that joints tell of

	at      *record         // nil: the trail is at its end
	with    []*record       // turns that come beside those of at, newest first
	without map[uint64]bool // turns of at that are to be passed over
	altered bool            // what is in ahead of it may be in at no position

	joint func(*record) // is told of the joints that it passes, if not nil
	past  *record       // joint over which it goes next, though it is a cut
}

// trail returns the way back from a position.
func (l *line) trail(at *record, path string) *trail {
	return &trail{l: l, path: path, at: at}
}

// settle goes over joints until the trail is at a record of its own, or at its
// end.
func (t *trail) settle(ctx context.Context) error {
	for t.at != nil && t.at.IsJoint() {
		j := t.at
		if j != t.past && j.CutAt(t.path) != nil {
			return nil
		}
		if t.joint != nil {
			t.joint(j)
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
		if t.at, err = t.l.m.records.StepAt(ctx, to, j.Session); err != nil {
			return err
		}
	}
	return nil
}

// beside adds the turns that a joint has beside those of the position from which
// it goes on.
func (t *trail) beside(ctx context.Context, turns []uint64) error {
	for _, seq := range turns {
		r, err := t.l.m.records.Record(ctx, seq)
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
	slices.SortFunc(t.with, func(a, b *record) int { return cmp.Compare(b.Seq, a.Seq) })
	return nil
}

func (t *trail) isBeside(seq uint64) bool {
	return slices.ContainsFunc(t.with, func(r *record) bool { return r.Seq == seq })
}

// passOver notes the turns that a joint has not, but those that a later one has put
// back.
func (t *trail) passOver(turns []uint64) {
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

// isPure reports whether nothing but the record that the trail is at says how
// it goes on.
func (t *trail) isPure() bool { return len(t.with) == 0 && len(t.without) == 0 }

// peek returns the record that the trail is at, nil at its end.
func (t *trail) peek(ctx context.Context) (*record, error) {
	if err := errors.Join(context.Cause(ctx), t.settle(ctx)); err != nil {
		return nil, err
	}
	if len(t.with) > 0 && (t.at == nil || t.at.Seq < t.with[0].Seq) {
		return t.with[0], nil
	}
	return t.at, nil
}

// pop goes on to the next record. in says whether the one that it was at is a
// turn, or a look within one, that is in.
func (t *trail) pop(ctx context.Context) (r *record, in bool, err error) {
	if r, err = t.peek(ctx); err != nil || r == nil {
		return nil, false, err
	}
	if len(t.with) > 0 && r.Seq == t.with[0].Seq {
		t.with = t.with[1:]
		if t.at == nil || t.at.Seq != r.Seq {
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
	t.at, err = t.l.prev(ctx, r)
	if t.at == nil || t.at.Kind == history.KindStart && t.at.Facts.Fork == 0 {
		t.without = nil
	}
	return r, in, err
}

// next returns the next record that is in, nil at the end of the trail.
func (t *trail) next(ctx context.Context) (*record, error) {
	for {
		r, in, err := t.pop(ctx)
		if r == nil || in || err != nil {
			return r, err
		}
	}
}

// between returns what is in at one position and not at another, and the other
// way around: what is to undo to get there, newest first, and what to do then,
// oldest first. Of a turn that is in in part on one side and whole on the other
// it is the rest. joint is told of each joint that is passed on the way, if it
// is not nil.
func (l *line) between(ctx context.Context, from, to *record, path string, joint func(*record)) (back,
	forth []*record, err error) {
	a, b := l.trail(from, path), l.trail(to, path)
	a.joint, b.joint = joint, joint
	return l.difference(ctx, a, b)
}

// difference is between for what is ahead of two trails.
func (l *line) difference(ctx context.Context, a, b *trail) (back, forth []*record, err error) {
	for {
		x, err := a.peek(ctx)
		if err != nil {
			return nil, nil, err
		}
		y, err := b.peek(ctx)
		if err != nil {
			return nil, nil, err
		}
		if x == nil && y == nil || a.isPure() && b.isPure() && history.IsSame(x, y) {
			break
		}
		if x != nil && x.Seq == 0 || y != nil && y.Seq == 0 { // what only a log has knows no time
			undo, do, err := l.way(ctx, a.at, b.at)
			if err != nil {
				return nil, nil, err
			}
			back, forth = append(back, undo...), append(forth, do...)
			break
		}
		popX, popY := x != nil && (y == nil || x.Seq >= y.Seq), y != nil && (x == nil || y.Seq >= x.Seq)
		inX, inY := false, false
		if popX {
			if x, inX, err = a.pop(ctx); err != nil {
				return nil, nil, err
			}
		}
		if popY {
			if y, inY, err = b.pop(ctx); err != nil {
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

// foundBy returns the position that a turn, or what is left of one, began at.
func (l *line) foundBy(ctx context.Context, r *record) (*record, error) {
	switch {
	case r.Behind != nil:
		return r.Behind, nil
	case r.IsJoint():
		return l.m.records.StepAt(ctx, r.Facts.From, r.Session)
	}
	return l.prev(ctx, r)
}

// rests replaces a turn on one side and a look within it on the other by what the
// turn did behind the look.
func rests(a, b []*record) (x, y []*record) {
	rest := func(whole, parts []*record) ([]*record, []*record) {
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

// way is between for positions on simple lines, also where only a log has some of
// the turns.
func (l *line) way(ctx context.Context, from, to *record) (back, forth []*record, err error) {
	type key struct { // numbers for what is on record, entries for the rest
		seq   uint64
		entry string
	}
	keyOf := func(r *record) key {
		if r.Seq != 0 {
			return key{seq: r.Seq}
		}
		return key{entry: r.Entry}
	}
	at := [2]*record{from, to}
	var steps [2][]*record
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
			at[side], err = l.prev(ctx, r)
			if err = errors.Join(err, context.Cause(ctx)); err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range steps {
		steps[i] = slices.DeleteFunc(steps[i], func(r *record) bool { return r.Kind == history.KindStart })
	}
	return steps[0], steps[1], nil
}

// ancestor returns the first record at or before r for which is holds, or before
// which hops cannot be made: a joint that has turns of its own; the start if
// there is none. As soon as is holds it must hold for all before.
func (l *line) ancestor(ctx context.Context, r *record, is func(*record) bool) (*record, error) {
	for !is(r) && !r.TurnsLine() {
		if l.log == nil && r.Facts.Jump != 0 {
			jump, err := l.m.records.StepAt(ctx, r.Facts.Jump, r.Session)
			if err != nil {
				return nil, err
			}
			if !is(jump) && !jump.TurnsLine() {
				r = jump
				continue
			}
		}
		prev, err := l.prev(ctx, r)
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

// turnAt returns the newest record that is in at a position, or the start if none
// is: what the position is called by.
func (l *line) turnAt(ctx context.Context, at *record) (*record, error) {
	t := l.trail(at, "")
	var last *record
	for {
		r, in, err := t.pop(ctx)
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

// isOn reports whether a turn is on the line that leads to a position.
func (l *line) isOn(ctx context.Context, at, turn *record) (bool, error) {
	on, err := l.onLine(ctx, at, turn)
	return on != nil, err
}

// onLine returns the record by which a turn is on the line that leads to a position,
// nil if it is not.
func (l *line) onLine(ctx context.Context, at, turn *record) (*record, error) {
	at, err := l.ancestor(ctx, at, func(r *record) bool { return r.Seq <= turn.Seq || r.IsSameTurn(turn) })
	if err != nil {
		return nil, err
	}
	return l.trail(at, "").find(ctx, turn)
}

// find returns the record by which a turn is ahead of a trail: its own, or else one by which
// it is in in part; nil if it is not.
func (t *trail) find(ctx context.Context, turn *record) (*record, error) {
	var part *record // a look within the turn may be there beside the whole of it
	for {
		r, err := t.next(ctx)
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

// A stepChange is a change with the turn that made it.
type stepChange struct {
	r *record
	c *windows.Change
}

// A standings tells where paths stand. It remembers what turns changed.
type standings struct {
	l       *line
	g       trees.Getter
	changes map[*record]map[string]*windows.Change
	own     map[string]bool // paths whose changes need not have been made on top of one another
	cut     map[string]bool // paths at which parts of changes were taken back, of those that it was asked for
}

func (l *line) standings(g trees.Getter) *standings {
	return &standings{l: l, g: g, changes: make(map[*record]map[string]*windows.Change), own: make(map[string]bool),
		cut: make(map[string]bool)}
}

// of returns what a turn changed, by path. Both sides of each change are there.
func (s *standings) of(ctx context.Context, r *record) (map[string]*windows.Change, error) {
	if list, ok := s.changes[r]; ok {
		return list, nil
	}
	list := make(map[string]*windows.Change)
	switch {
	case r.IsJoint():
		var err error
		if list, err = s.cutsOf(ctx, r); err != nil {
			return nil, err
		}
	case r.Kind != history.KindEmpty:
		changes, err := s.l.m.changes(ctx, r)
		if err != nil {
			return nil, turnError(r, err)
		}
		for i := range changes {
			c := &changes[i]
			// A directory that took the place of a file is seen as such, and a
			// file that took one's.
			if c.Old == nil {
				if c.Old, err = entryIn(ctx, s.g, r.Base, c.Path, r.Logged == nil); err != nil {
					return nil, err
				}
			}
			if c.New == nil {
				if c.New, err = entryIn(ctx, s.g, r.State(), c.Path, r.Logged == nil); err != nil {
					return nil, err
				}
			}
			list[c.Path] = c
		}
	}
	s.changes[r] = list
	return list, nil
}

// at returns what a turn did to one path, nil if nothing.
func (s *standings) at(ctx context.Context, r *record, path string) (*windows.Change, error) {
	list, err := s.of(ctx, r)
	return list[path], err
}

// paths returns what is to undo and what to do at each path to get from one
// position to another: the changes, newest first, and then oldest first.
func (s *standings) paths(ctx context.Context, from, to *record) (back, forth map[string][]stepChange, err error) {
	own := make(map[string]bool) // paths that go their own way
	undo, do, err := s.l.between(ctx, from, to, anyPath, func(j *record) { s.pass(j, own) })
	if err != nil {
		return nil, nil, err
	}
	back, err = s.collect(ctx, undo, own)
	if err == nil {
		forth, err = s.collect(ctx, do, own)
	}
	if err != nil {
		return nil, nil, err
	}
	err = together(own, func(p string, joint func(*record)) error {
		undo, do, err = s.l.between(ctx, from, to, p, func(j *record) {
			s.noteCuts(j)
			joint(j)
		})
		return err
	}, func(p string, way ownWay) error {
		for side, list := range map[*map[string][]stepChange][]*record{&back: undo, &forth: do} {
			for _, r := range list {
				if err := s.add(ctx, *side, r, p); err != nil {
					return err
				}
			}
		}
		s.note(p, way, len(back[p])+len(forth[p]))
		return nil
	})
	return back, forth, err
}

// An ownWay says what joints told of a path on its way.
type ownWay struct {
	told  bool // that it does not go on where the others do
	apart bool // that what is in is in at no other position
}

// note notes that the changes of a path, n of them, need not have been made on top
// of one another.
func (s *standings) note(p string, way ownWay, n int) {
	if way.apart || way.told && n > 1 {
		s.own[p] = true
	}
}

// together calls walk with one of some paths, which tells joint of each joint that
// it passes, and then fn with it and with each that goes the same way everywhere,
// with what the joints told of it; and so on with the others. A restore may leave 100,000 paths alone that all go
// one way.
func together(paths map[string]bool, walk func(p string, joint func(*record)) error,
	fn func(p string, way ownWay) error) error {
	rest := slices.Sorted(maps.Keys(paths))
	for len(rest) > 0 {
		var joints []*record
		seen := make(map[uint64]bool)
		first := rest[0]
		if err := walk(first, func(j *record) {
			if !seen[j.Seq] {
				seen[j.Seq], joints = true, append(joints, j)
			}
		}); err != nil {
			return err
		}
		way := ownWay{
			told:  slices.ContainsFunc(joints, func(j *record) bool { return j.TellsOf(first) }),
			apart: slices.ContainsFunc(joints, func(j *record) bool { return j.StandsApart(first) != nil }),
		}
		var others []string
		for _, p := range rest {
			if slices.ContainsFunc(joints, func(j *record) bool {
				return j.Way(p) != j.Way(first) || (j.CutAt(p) == nil) != (j.CutAt(first) == nil)
			}) {
				others = append(others, p)
			} else if err := fn(p, way); err != nil {
				return err
			}
		}
		rest = others
	}
	return nil
}

// pass notes the paths that go their own way from a joint.
func (s *standings) pass(j *record, own map[string]bool) {
	s.noteCuts(j)
	for p := range j.Facts.OwnPaths() {
		own[p] = true
	}
}

// noteCuts notes the paths at which a joint took back parts of changes.
func (s *standings) noteCuts(j *record) {
	for _, c := range j.Facts.Cuts {
		s.cut[string(c.Path)] = true
	}
}

// backOf returns what the newest turns on the line of a position did and is in
// there, by path, newest first. What an older restore has left in of turns between
// them comes along: also are these turns.
func (s *standings) backOf(ctx context.Context, at *record, turns []*record) (back map[string][]stepChange,
	also []uint64, err error) {
	own := make(map[string]bool)
	oldest := turns[len(turns)-1]
	isBefore := func(r *record) bool { return r.Seq < oldest.Seq && !oldest.EndsAt(r) } // that may be in in part
	t := s.l.trail(at, anyPath)
	t.joint = func(j *record) { s.pass(j, own) }
	var in []*record // at paths that no joint tells of
	for {
		r, isIn, err := t.pop(ctx)
		if err != nil {
			return nil, nil, err
		}
		if r == nil || isBefore(r) {
			break
		}
		if i := slices.IndexFunc(turns, func(o *record) bool { return history.IsSame(o, r) }); i >= 0 {
			r = turns[i]
		}
		if isIn {
			in = append(in, r)
		}
	}
	if back, err = s.collect(ctx, in, own); err != nil {
		return nil, nil, err
	}
	if err := s.ownBack(ctx, at, own, isBefore, back); err != nil {
		return nil, nil, err
	}
	for p, list := range back {
		if list = withoutLoose(list); len(list) == 0 {
			delete(back, p)
			continue
		}
		back[p] = list
		for _, sc := range list {
			if !slices.ContainsFunc(turns, func(o *record) bool { return history.IsSame(o, sc.r) }) &&
				!sc.r.IsJoint() && !slices.Contains(also, sc.r.Seq) {
				also = append(also, sc.r.Seq)
			}
		}
	}
	return back, also, nil
}

// ownBack adds to back the changes of paths that go their own way, up to the first turn
// for which isBefore holds.
func (s *standings) ownBack(ctx context.Context, at *record, own map[string]bool, isBefore func(*record) bool,
	back map[string][]stepChange) error {
	var way []*record
	return together(own, func(p string, joint func(*record)) error {
		t := s.l.trail(at, p)
		t.joint = func(j *record) {
			s.noteCuts(j)
			joint(j)
		}
		for way = nil; ; {
			r, err := t.next(ctx)
			if r == nil || err != nil || isBefore(r) {
				return err
			}
			way = append(way, r)
		}
	}, func(p string, how ownWay) error {
		for _, r := range way {
			if err := s.add(ctx, back, r, p); err != nil {
				return err
			}
		}
		s.note(p, how, len(back[p]))
		return nil
	})
}

// add adds what a turn, or a cut, did to one path, if anything.
func (s *standings) add(ctx context.Context, to map[string][]stepChange, r *record, p string) error {
	c, err := s.at(ctx, r, p)
	if c == nil || err != nil {
		return err
	}
	to[p] = append(to[p], stepChange{r, c})
	s.cut[p] = s.cut[p] || r.IsJoint()
	return nil
}

// collect lists what turns changed, but for some paths.
func (s *standings) collect(ctx context.Context, turns []*record,
	but map[string]bool) (map[string][]stepChange, error) {
	into := make(map[string][]stepChange)
	for _, r := range turns {
		list, err := s.of(ctx, r)
		if err != nil {
			return nil, err
		}
		for p, c := range list {
			if !but[p] {
				into[p] = append(into[p], stepChange{r, c})
			}
		}
	}
	return into, nil
}

// newest calls settle for each path with the newest change that is in there at a
// position, and with nil where none is. start is where the line began, nil if
// that is not known.
func (s *standings) newest(ctx context.Context, at *record, paths []string, settle func(p string, sc *stepChange,
	start *record) error) error {
	open := make(map[string]bool)
	for _, p := range paths {
		open[p] = true
	}
	own := make(map[string]bool) // paths that go their own way
	t := s.l.trail(at, anyPath)
	t.joint = func(j *record) {
		for p := range j.Facts.OwnPaths() {
			if open[p] {
				own[p] = true
				delete(open, p)
			}
		}
	}
	start, err := s.first(ctx, t, func(r *record) (bool, error) {
		list, err := s.of(ctx, r)
		if err != nil {
			return false, err
		}
		for p, c := range changedOf(open, list) {
			delete(open, p)
			if err := settle(p, &stepChange{r, c}, nil); err != nil {
				return false, err
			}
		}
		return len(open) == 0, nil
	})
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(open)) {
		if err := settle(p, nil, start); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(own)) {
		if err := s.newestOf(ctx, at, p, settle); err != nil {
			return err
		}
	}
	return nil
}

// changedOf yields those of some paths that a record has changed. The cost follows the
// fewer: a restore may be about 100,000 paths, with 1,000 turns behind the one that changed them.
func changedOf(paths map[string]bool, list map[string]*windows.Change) iter.Seq2[string, *windows.Change] {
	return func(yield func(string, *windows.Change) bool) {
		if len(list) < len(paths) {
			for p, c := range list {
				if paths[p] && !yield(p, c) {
					return
				}
			}
			return
		}
		for p := range paths {
			if c := list[p]; c != nil && !yield(p, c) {
				return
			}
		}
	}
}

// newestOf is newest for a path that goes its own way. Where it stands apart, the
// joint that says so is settled in place of the start, if it knows what is
// expected there.
func (s *standings) newestOf(ctx context.Context, at *record, p string, settle func(p string, sc *stepChange,
	start *record) error) error {
	return s.newestOn(ctx, s.l.trail(at, p), settle)
}

// newestOn is newestOf for what is ahead of a trail.
func (s *standings) newestOn(ctx context.Context, t *trail, settle func(p string, sc *stepChange,
	start *record) error) error {
	p := t.path
	var joint *record    // the newest at which it stands apart
	var altered []uint64 // turns by which what is in ahead differs from what is in there
	t.joint = func(j *record) {
		if j.StandsApart(p) != nil && joint == nil {
			joint, altered = j, slices.Collect(maps.Keys(t.without))
			for _, r := range t.with {
				altered = append(altered, r.Seq)
			}
		}
	}
	var found *stepChange
	start, err := s.first(ctx, t, func(r *record) (bool, error) {
		c, err := s.at(ctx, r, p)
		if c != nil {
			found = &stepChange{r, c}
		}
		return c != nil, err
	})
	if err != nil {
		return err
	}
	isAltered, err := s.anyAt(ctx, altered, p)
	switch {
	case err != nil:
		return err
	case joint != nil && !isAltered && joint.StandsApart(p).Known:
		return settle(p, nil, joint)
	case found == nil:
		return settle(p, nil, start)
	case joint == nil && !t.altered && !found.r.IsJoint():
		return settle(p, found, nil)
	}
	// What the change left is expected if nothing else is in than when it was made.
	before := s.l.trail(found.r, p)
	if _, _, err := before.pop(ctx); err != nil {
		return err
	}
	if alike, err := s.alike(ctx, t, before); err != nil || !alike {
		return errors.Join(err, settle(p, nil, nil))
	}
	return settle(p, found, nil)
}

// isTold reports whether the records say what is expected at a path of a position with
// the changes by which an Apart differs from it.
func (s *standings) isTold(ctx context.Context, at *record, p string, a *history.Apart) (told bool, err error) {
	t := s.l.trail(at, p)
	t.altered = true
	if err := t.beside(ctx, a.With); err != nil {
		return false, err
	}
	t.passOver(a.Without)
	err = s.newestOn(ctx, t, func(_ string, sc *stepChange, start *record) error {
		told = sc != nil || start != nil
		return nil
	})
	return told, err
}

// alike reports whether the same is in at a path ahead of two trails.
func (s *standings) alike(ctx context.Context, a, b *trail) (bool, error) {
	more, less, err := s.l.difference(ctx, a, b)
	if err != nil {
		return false, err
	}
	for _, r := range slices.Concat(more, less) {
		if c, err := s.at(ctx, r, a.path); c != nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

// deletedOver returns the oldest of some changes of a path, which are the newest first, that
// has deleted it while one of others was in there, nil if none has. A turn that made the
// path again has not deleted it.
func (s *standings) deletedOver(ctx context.Context, path string, stay, goes []stepChange) (*stepChange, error) {
	oldest := uint64(math.MaxUint64)
	for _, sc := range goes {
		oldest = min(oldest, sc.r.Seq)
	}
	for i, sc := range slices.Backward(stay) {
		if sc.c.New != nil || sc.r.Seq < oldest || i > 0 && stay[i-1].r.IsSameTurn(sc.r) {
			continue
		}
		before, err := s.l.foundBy(ctx, sc.r)
		if err != nil {
			return nil, err
		}
		in, err := s.l.inAt(ctx, before, path, oldest)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(goes, func(o stepChange) bool { return hasRecord(in, o.r.Seq) }) {
			return &stay[i], nil
		}
	}
	return nil, nil
}

// without returns the way back from a position at a path on which changes have
// been taken back.
func (s *standings) without(at *record, path string, list []stepChange) *trail {
	t := s.l.trail(at, path)
	t.without, t.altered = make(map[uint64]bool), true
	for _, sc := range list {
		if t.without[sc.r.Seq] = true; sc.r.Behind != nil { // of which the rest goes
			t.with = append(t.with, sc.r.Behind)
		}
	}
	return t
}

// inAt returns the turns and cuts that are in at a path, from a number on, newest first.
func (l *line) inAt(ctx context.Context, at *record, path string, from uint64) (list []*record, err error) {
	for t := l.trail(at, path); ; {
		r, err := t.next(ctx)
		if r == nil || err != nil || r.Seq < from {
			return list, err
		}
		list = append(list, r)
	}
}

// hasRecord reports whether a list has the record of a number.
func hasRecord(list []*record, seq uint64) bool {
	return slices.ContainsFunc(list, func(r *record) bool { return r.Seq == seq })
}

// anyAt reports whether one of the turns with these numbers has changed a path.
func (s *standings) anyAt(ctx context.Context, turns []uint64, path string) (bool, error) {
	for _, seq := range turns {
		r, err := s.l.m.records.Record(ctx, seq)
		if err != nil {
			return false, err
		}
		if c, err := s.at(ctx, r, path); c != nil || err != nil {
			return c != nil, err
		}
	}
	return false, nil
}

// first follows a trail until fn says that it is enough. It returns the start of
// the line if it got there; what was pruned ends it as well, and then there is
// none.
func (s *standings) first(ctx context.Context, t *trail, fn func(*record) (enough bool, err error)) (start *record,
	err error) {
	for {
		r, in, err := t.pop(ctx)
		if err != nil || r == nil || r.Pruned {
			return nil, err
		}
		if r.Kind == history.KindStart {
			if r.Facts.Fork != 0 {
				continue
			}
			return r, nil
		}
		if in {
			if enough, err := fn(r); enough || err != nil {
				return nil, err
			}
		}
	}
}

// turnError says of what turn a change could not be read.
func turnError(r *record, err error) error { return fmt.Errorf("turn %d: %w", r.Turn(), err) }
