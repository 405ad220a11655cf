package standing

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/tree"
)

// A StepChange is a change with the turn that made it.
type StepChange struct {
	By     *history.Record
	Change *windows.Change
}

// Paths tells where paths stand. It remembers what turns changed.
type Paths struct {
	Line    *Line
	g       trees.Getter
	changes map[*history.Record]map[string]*windows.Change
	Own     map[string]bool // paths whose changes need not have been made on top of one another
	Cut     map[string]bool // paths at which parts of changes were taken back, of those that it was asked for
}

func (l *Line) Paths(g trees.Getter) *Paths {
	return &Paths{Line: l, g: g, changes: make(map[*history.Record]map[string]*windows.Change), Own: make(
		map[string]bool),
		Cut: make(map[string]bool)}
}

// Of returns what a turn changed, by path. Both sides of each change are there.
func (s *Paths) Of(ctx context.Context, r *history.Record) (map[string]*windows.Change, error) {
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
		changes, err := s.Line.Changes(ctx, r)
		if err != nil {
			return nil, TurnError(r, err)
		}
		entryAt := trees.DirAt
		if r.Logged != nil {
			entryAt = trees.EntryAt
		}
		for i := range changes {
			c := &changes[i]
			// A directory that took the place of a file is seen as such, and a
			// file that took one's.
			if c.Old == nil {
				if c.Old, err = entryAt(ctx, s.g, r.Base.Tree, c.Path); err != nil {
					return nil, err
				}
			}
			if c.New == nil {
				if c.New, err = entryAt(ctx, s.g, r.Tree, c.Path); err != nil {
					return nil, err
				}
			}
			list[c.Path] = c
		}
	}
	s.changes[r] = list
	return list, nil
}

// At returns what a turn did to one path, nil if nothing.
func (s *Paths) At(ctx context.Context, r *history.Record, path string) (*windows.Change, error) {
	list, err := s.Of(ctx, r)
	return list[path], err
}

// Between returns what is to undo and what to do at each path to get from one
// position to another: the changes, newest first, and then oldest first.
func (s *Paths) Between(ctx context.Context, from, to *history.Record) (back, forth map[string][]StepChange,
	err error) {
	own := make(map[string]bool) // paths that go their own way
	undo, do, err := s.Line.Between(ctx, from, to, AnyPath, func(j *history.Record) { s.Pass(j, own) })
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
	err = together(own, func(p string, joint func(*history.Record)) error {
		undo, do, err = s.Line.Between(ctx, from, to, p, func(j *history.Record) {
			s.noteCuts(j)
			joint(j)
		})
		return err
	}, func(p string, way ownWay) error {
		for side, list := range map[*map[string][]StepChange][]*history.Record{&back: undo, &forth: do} {
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
func (s *Paths) note(p string, way ownWay, n int) {
	if way.apart || way.told && n > 1 {
		s.Own[p] = true
	}
}

// together calls walk with one of some paths, which tells joint of each joint that
// it passes, and then fn with it and with each that goes the same way everywhere,
// with what the joints told of it; and so on with the others. A restore may leave 100,000 paths alone that all go
// one way.
func together(paths map[string]bool, walk func(p string, joint func(*history.Record)) error,
	fn func(p string, way ownWay) error) error {
	rest := slices.Sorted(maps.Keys(paths))
	for len(rest) > 0 {
		var joints []*history.Record
		seen := make(map[uint64]bool)
		first := rest[0]
		if err := walk(first, func(j *history.Record) {
			if !seen[j.Seq] {
				seen[j.Seq], joints = true, append(joints, j)
			}
		}); err != nil {
			return err
		}
		way := ownWay{
			told:  slices.ContainsFunc(joints, func(j *history.Record) bool { return j.TellsOf(first) }),
			apart: slices.ContainsFunc(joints, func(j *history.Record) bool { return j.StandsApart(first) != nil }),
		}
		var others []string
		for _, p := range rest {
			if slices.ContainsFunc(joints, func(j *history.Record) bool {
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

// Pass notes the paths that go their own way from a joint.
func (s *Paths) Pass(j *history.Record, own map[string]bool) {
	s.noteCuts(j)
	for p := range j.Facts.OwnPaths() {
		own[p] = true
	}
}

// noteCuts notes the paths at which a joint took back parts of changes.
func (s *Paths) noteCuts(j *history.Record) {
	for _, c := range j.Facts.Cuts {
		s.Cut[string(c.Path)] = true
	}
}

// BackOf returns what the newest turns on the line of a position did and is in
// there, by path, newest first. What an older restore has left in of turns between
// them comes along: also are these turns.
func (s *Paths) BackOf(ctx context.Context, at *history.Record, turns []*history.Record) (back map[string][]StepChange,
	also []uint64, err error) {
	own := make(map[string]bool)
	oldest := turns[len(turns)-1]
	// that may be in in part
	isBefore := func(r *history.Record) bool { return r.Seq < oldest.Seq && !oldest.EndsAt(r) }
	t := s.Line.Trail(at, AnyPath)
	t.Joint = func(j *history.Record) { s.Pass(j, own) }
	var in []*history.Record // at paths that no joint tells of
	for {
		r, isIn, err := t.Pop(ctx)
		if err != nil {
			return nil, nil, err
		}
		if r == nil || isBefore(r) {
			break
		}
		if i := slices.IndexFunc(turns, func(o *history.Record) bool { return history.IsSame(o, r) }); i >= 0 {
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
			if !slices.ContainsFunc(turns, func(o *history.Record) bool { return history.IsSame(o, sc.By) }) &&
				!sc.By.IsJoint() && !slices.Contains(also, sc.By.Seq) {
				also = append(also, sc.By.Seq)
			}
		}
	}
	return back, also, nil
}

// ownBack adds to back the changes of paths that go their own way, up to the first turn
// for which isBefore holds.
func (s *Paths) ownBack(ctx context.Context, at *history.Record, own map[string]bool, isBefore func(
	*history.Record) bool,
	back map[string][]StepChange) error {
	var way []*history.Record
	return together(own, func(p string, joint func(*history.Record)) error {
		t := s.Line.Trail(at, p)
		t.Joint = func(j *history.Record) {
			s.noteCuts(j)
			joint(j)
		}
		for way = nil; ; {
			r, err := t.Next(ctx)
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
func (s *Paths) add(ctx context.Context, to map[string][]StepChange, r *history.Record, p string) error {
	c, err := s.At(ctx, r, p)
	if c == nil || err != nil {
		return err
	}
	to[p] = append(to[p], StepChange{r, c})
	s.Cut[p] = s.Cut[p] || r.IsJoint()
	return nil
}

// collect lists what turns changed, but for some paths.
func (s *Paths) collect(ctx context.Context, turns []*history.Record,
	but map[string]bool) (map[string][]StepChange, error) {
	into := make(map[string][]StepChange)
	for _, r := range turns {
		list, err := s.Of(ctx, r)
		if err != nil {
			return nil, err
		}
		for p, c := range list {
			if !but[p] {
				into[p] = append(into[p], StepChange{r, c})
			}
		}
	}
	return into, nil
}

// StaysAt returns what stays in at a path when changes go, the newest of them first: what
// came behind the oldest of these.
func (s *Paths) StaysAt(ctx context.Context, at *history.Record, p string, goes []StepChange) (list []StepChange,
	err error) {
	in, err := s.Line.InAt(ctx, at, p, goes[len(goes)-1].By.Seq)
	if err != nil {
		return nil, err
	}
	for _, r := range in {
		c, err := s.At(ctx, r, p)
		if err != nil {
			return nil, err
		}
		if c != nil && !slices.ContainsFunc(goes, func(sc StepChange) bool { return sc.By.Seq == r.Seq }) {
			list = append(list, StepChange{r, c})
		}
	}
	return list, nil
}

// TurnOf returns the turn that made a change, or one of those that it cuts.
func (s *Paths) TurnOf(ctx context.Context, sc *StepChange) (*history.Record, error) {
	if cuts := sc.By.CutAt(sc.Change.Path); sc.By.IsJoint() && len(cuts) > 0 {
		return s.Line.Records.StepAt(ctx, cuts[0].Turn, sc.By.Session)
	}
	return sc.By, nil
}

// TurnError says of what turn a change could not be read.
func TurnError(r *history.Record, err error) error { return fmt.Errorf("turn %d: %w", r.Turn(), err) }

// cutsOf returns what a restore did that took back parts of changes, by path.
func (s *Paths) cutsOf(ctx context.Context, j *history.Record) (map[string]*windows.Change, error) {
	list := make(map[string]*windows.Change)
	for _, cut := range j.Facts.Cuts {
		p := string(cut.Path)
		if list[p] != nil {
			continue
		}
		c := &windows.Change{Path: p, Status: tree.Modified, Owner: windows.Own}
		var err error
		if c.Old, err = trees.EntryAt(ctx, s.g, j.Base.Tree, p); err == nil {
			c.New, err = trees.EntryAt(ctx, s.g, j.Tree, p)
		}
		if err != nil {
			return nil, err
		}
		list[p] = c
	}
	return list, nil
}

// withoutLoose returns changes that go, newest first, but for cuts of others: these stay.
func withoutLoose(list []StepChange) []StepChange {
	return slices.DeleteFunc(list, func(sc StepChange) bool {
		return sc.By.IsJoint() && !sc.CutsOnly(list, func(*history.Record) bool { return true })
	})
}

// CutsOnly reports whether a change is a cut of nothing but what turns did for which
// is holds, and which are in a list.
func (sc *StepChange) CutsOnly(list []StepChange, is func(*history.Record) bool) bool {
	return sc.By.IsJoint() && !slices.ContainsFunc(sc.By.CutAt(sc.Change.Path), func(c history.Cut) bool {
		return !slices.ContainsFunc(list, func(o StepChange) bool { return o.By.Seq == c.Turn && is(o.By) })
	})
}
