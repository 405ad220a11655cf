package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

const (
	// keptVersions is how many of the newest versions have their lines kept: a restore
	// brings back one of them.
	keptVersions = 16
	// mergedVersions is in how many of the versions before it the lines of a merge are
	// looked for that its record does not lead to.
	mergedVersions = 64
)

// forth goes over the versions, the oldest first.
func (b *blaming) forth(ctx context.Context) (err error) {
	sources := make(map[int]*blameSources)
	for i := range b.versions {
		v := &b.versions[i]
		if v.isKept || v.isDisk || v.mo.Kind != moments.Restore || v.entry == nil {
			continue
		}
		s, err := b.sourcesOf(i)
		if err != nil {
			return err
		}
		sources[i] = s
		for _, j := range s.list {
			b.needed[j] = i
		}
	}
	f := &blameForth{blaming: b, ctx: ctx, last: -1}
	for i := range b.versions {
		if err = f.pass(i, sources[i]); err != nil {
			return err
		}
	}
	b.end = f.was
	if v := &b.versions[len(b.versions)-1]; v.isKept {
		b.end.Text, err = b.text(ctx, v)
	}
	return err
}

// A blameForth goes over the versions.
type blameForth struct {
	*blaming
	ctx    context.Context
	last   int // the newest version so far that could be read; -1: there is none
	was    blame.Version
	isHurt bool // one since then could not be
}

// pass finds out about the lines of a version.
func (f *blameForth) pass(i int, sources *blameSources) error {
	v := &f.versions[i]
	switch {
	case v.entry == nil:
		return nil
	case v.isKept:
		f.last, f.was = i, blame.Version{Lines: f.lines[i]}
		return nil
	}
	text, err := f.text(f.ctx, v)
	if isUnreadable(err) && i < len(f.versions)-1 {
		f.isHurt, f.isLost = true, true
		return nil
	}
	if err == nil && f.last >= 0 && f.versions[f.last].isKept && !v.isNew {
		f.was.Text, err = f.text(f.ctx, &f.versions[f.last])
	}
	if err != nil {
		return err
	}
	now := originKey{v.mo, v.path, v.unseen || v.isUnknown || f.isHurt && !v.isNew}
	switch {
	case sources != nil && !now.isUnknown:
		f.was, err = f.restored(i, text, f.origin(now), sources)
	case f.last < 0 || v.isNew && !v.unseen:
		f.was = blame.First(text, f.origin(now))
	default:
		f.was = f.was.Next(text, f.origin(now), f.opts)
	}
	f.lines[i] = f.was.Lines
	f.last, f.isHurt = i, false
	for j := range f.lines {
		if f.needed[j] <= i && j < i && j < len(f.versions)-keptVersions {
			delete(f.lines, j)
		}
	}
	return err
}

// isUnreadable reports whether a content is gone, or is too large to be told apart.
func isUnreadable(err error) bool {
	return trees.IsLoss(err) || errors.Is(err, store.ErrForgotten) || errors.Is(err, ErrNotText)
}

// text returns the content of a version.
func (b *blaming) text(ctx context.Context, v *fileVersion) ([]byte, error) {
	switch {
	case v.isDisk:
		return v.text, nil
	case b.onDisk != nil && v.entry.ID == b.onDisk.entry.ID: // the store may have forgotten it
		return b.onDisk.text, nil
	}
	if v.entry.Size > filediff.MaxText {
		return nil, ErrNotText
	}
	return filediff.InStore(b.m.store)(ctx, v.path, v.entry)
}

// origin returns the number of an origin.
func (b *blaming) origin(key originKey) int {
	i, ok := b.known[key]
	if !ok {
		i = len(b.origins)
		b.known[key] = i
		b.origins = append(b.origins, origin{originKey: key})
	}
	return i
}

// restored finds out about the lines of a version that a restore has made: whose they were
// in the version that it has gone back to, or in those of which it is made.
func (f *blameForth) restored(i int, text []byte, origin int, s *blameSources) (blame.Version, error) {
	if s.isExact {
		if lines, ok := f.lines[s.list[0]]; ok {
			return blame.Version{Text: text, Lines: lines}, nil
		}
	}
	v, err := blame.Merge(text, origin, f.opts, f.merged(i, s.list))
	isOwn := func(r blame.Run) bool { return r.Origin == origin }
	if err == nil && !f.isAtStart && f.kept != nil && slices.ContainsFunc(v.Lines, isOwn) {
		err = errRebuild
	}
	if err == nil && slices.ContainsFunc(v.Lines, isOwn) {
		v = f.withoutGuess(i, v, origin)
	}
	return v, err
}

// withoutGuess returns a version that a restore has made in which lines of an origin are not
// the restore's, unless they are marks of conflicts: it has them from what is not known.
func (f *blameForth) withoutGuess(i int, v blame.Version, origin int) blame.Version {
	mo := f.versions[i].mo
	key := originKey{mo, f.versions[i].path, true}
	isBefore := func(hole *moments.Moment) bool { return hole.Seq() <= mo.Seq() }
	if at := slices.IndexFunc(f.holes, isBefore); at >= 0 {
		key.mo, key.isUnknown = f.holes[at], false
	} else if !f.isLost {
		return v
	}
	isMark := func(line string) bool {
		signs := len(line) - len(strings.TrimLeft(line, line[:1]))
		return signs >= 7 && merging.IsMarker([]byte(line), signs)
	}
	return v.Without(origin, f.origin(key), isMark)
}

// merged returns what a restore may have made a version of, one after the other: what it has
// found at its path, or at that from which it has moved it, then the sources, and then what
// was at that path before.
func (f *blameForth) merged(i int, sources []int) iter.Seq2[blame.Version, error] {
	return func(yield func(blame.Version, error) bool) {
		var moved *blaming
		var err error
		if d := f.versions[i].moved; d != nil {
			moved, err = f.other(f.versions[i].mo.Seq(), d)
			f.isLost = f.isLost || moved == nil || moved.isLost
		}
		switch {
		case err != nil:
			yield(blame.Version{}, err)
			return
		case moved != nil && !yield(f.of(moved, moved.end), nil):
			return
		case moved == nil && f.last >= 0 && f.versions[i-1].entry != nil && !yield(f.was, nil):
			return
		}
		if !f.yieldAll(f.blaming, slices.Values(sources), yield) || moved == nil {
			return
		}
		f.yieldAll(moved, func(yield func(int) bool) {
			for j := range slices.Backward(moved.versions) {
				if !yield(j) {
					return
				}
			}
		}, yield)
	}
}

// yieldAll yields versions of a file, as far as their lines are known.
func (f *blameForth) yieldAll(b *blaming, list iter.Seq[int], yield func(blame.Version, error) bool) bool {
	for j := range list {
		lines, ok := b.lines[j]
		if !ok {
			continue
		}
		text, err := f.text(f.ctx, &b.versions[j])
		if !yield(f.of(b, blame.Version{Text: text, Lines: lines}), err) || err != nil {
			return false
		}
	}
	return true
}

// of returns a version of a file with the origins of this one.
func (f *blameForth) of(b *blaming, v blame.Version) blame.Version {
	if b == f.blaming {
		return v
	}
	lines := slices.Clone(v.Lines)
	for i := range lines {
		lines[i].Origin = f.origin(b.origins[lines[i].Origin].originKey)
	}
	return blame.Version{Text: v.Text, Lines: lines}
}

// other finds out about the file at another path, before a record; nil: it cannot be read.
func (f *blameForth) other(seq uint64, d *tree.Difference) (b *blaming, err error) {
	key := fmt.Sprintln(seq, d.Path)
	if b = f.others[key]; b == nil {
		b = &blaming{m: f.m, path: d.Path, rev: f.rev, opts: f.opts, newest: f.newest, turns: f.turns, to: seq - 1,
			now: d.Old, others: f.others}
		f.others[key] = b
		err = b.run(f.ctx, nil)
	}
	if isUnreadable(err) || err == nil && b.end.Text == nil {
		return nil, nil
	}
	return b, err
}

// blameSources are the versions that a restore may have brought back, likely ones first.
type blameSources struct {
	list    []int
	isExact bool // it has brought the first of them
}

// sourcesOf returns the sources of a version that a restore has made.
func (b *blaming) sourcesOf(i int) (*blameSources, error) {
	t := &blameTargets{blaming: b, before: b.versions[:i], r: b.versions[i].mo.Record}
	t.find(b.versions[i].path)
	if t.isShort {
		return nil, errRebuild
	}
	list := t.list
	for j := i - 1; j >= 0; j-- {
		list = append(list, j)
	}
	seen := make(map[int]bool)
	list = slices.DeleteFunc(list, func(j int) bool {
		is := seen[j] || b.versions[j].entry == nil
		seen[j] = true
		return is
	})
	for _, j := range list {
		if b.versions[j].entry.ID == b.versions[i].entry.ID {
			return &blameSources{[]int{j}, true}, nil
		}
	}
	return &blameSources{list[:min(len(list), len(t.list)+mergedVersions)], false}, nil
}

// blameTargets finds where a restore has gone back to, as its record has it.
type blameTargets struct {
	*blaming
	before  []fileVersion // the restore
	r       *record
	list    []int
	isShort bool // older versions than are known are needed
}

func (t *blameTargets) find(path string) {
	d := &t.r.Facts
	if d.Undoes != 0 {
		t.add(t.at(d.Undoes - 1))
	}
	session := t.r.Session
	for _, n := range d.Reverts {
		t.addBefore(func(w *moments.Who) bool { return w.Session == session && w.Turn == n }, 0)
	}
	for _, c := range d.Cuts {
		t.addBefore(func(w *moments.Who) bool { return w.Record != nil && w.Record.Seq == c.Turn }, c.Turn-1)
	}
	to := t.r.Position()
	if t.r.IsJoint() {
		to = d.Prev
	}
	if way := t.r.Way(path); way != nil {
		t.add(t.at(way.From))
	}
	if to != 0 {
		t.addBefore(func(w *moments.Who) bool {
			return w.Session == session && (w.Record == nil || w.Record.Seq > to)
		}, to)
		t.add(t.at(to))
	}
}

func (t *blameTargets) add(j int) {
	if j >= 0 {
		t.list = append(t.list, j)
	}
}

// at returns the version at a record, -1 if there was none.
func (t *blameTargets) at(seq uint64) int {
	for j := len(t.before) - 1; j >= 0; j-- {
		if t.before[j].mo.Seq() <= seq {
			return j
		}
	}
	t.isShort = t.isShort || !t.isAtStart
	return -1
}

// addBefore adds what was there before the oldest change by certain turns, which are newer
// than a record.
func (t *blameTargets) addBefore(is func(*moments.Who) bool, seq uint64) {
	oldest := -1
	for j := range slices.Backward(t.before) {
		if slices.ContainsFunc(t.before[j].mo.Who, is) {
			oldest = j
		}
	}
	isAll := t.isAtStart || len(t.before) > 0 && seq != 0 && t.before[0].mo.Seq() <= seq
	t.isShort = t.isShort || !isAll && (oldest <= 0 || seq != 0)
	t.add(oldest - 1)
}
