package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
)

// This file finds out what hunks, which somebody has chosen, are of: of a change of which
// all go, or are gone, all goes; out of others they are cut.

// A picks is IDs of hunks that were chosen, or parts of them.
type picks struct {
	ids  []string
	fits []map[fit]bool // of each
}

// A fit is a hunk that was chosen, as it is among others that made the same change.
type fit struct {
	id, hash, path string
	of             string // turn and window, as they are behind the ID
}

func newPicks(ids []string) (*picks, error) {
	p := &picks{ids: ids, fits: make([]map[fit]bool, len(ids))}
	for i, id := range ids {
		if p.fits[i] = make(map[fit]bool); len(id) < minPrefix {
			return nil, fmt.Errorf("hunk %q: %w: want %d characters of an ID at least", id, ErrUnknown, minPrefix)
		}
	}
	return p, nil
}

// has reports whether a hunk of a file, in a turn's window, was chosen; all are of nil.
func (p *picks) has(h *hunks.Hunk, path string, turn uint64, window int) (is bool) {
	if p == nil {
		return true
	}
	f := fit{h.ID, h.Hash, path, hunkID("", turn, window)}
	for i, id := range p.ids {
		if digits := strings.TrimSuffix(id, f.of); len(digits) >= minPrefix && strings.HasPrefix(h.Hash, digits) {
			p.fits[i][f], is = true, true
		}
	}
	return is
}

// check requires that each ID fits one hunk.
func (p *picks) check() error {
	for i, id := range p.ids {
		switch len(p.fits[i]) {
		case 0:
			return fmt.Errorf("hunk %q: %w: it is not of these changes, or not any more: list them again",
				id, ErrUnknown)
		case 1:
			continue
		}
		return fmt.Errorf("hunk %q: %w: it may be %s", id, ErrAmbiguous, strings.Join(fitNames(p.fits[i]), " or "))
	}
	return nil
}

// fitNames returns names of hunks by which each is told from the others, in order. Hunks of two files
// that have an ID in common have more digits, and their paths.
func fitNames(fits map[fit]bool) (names []string) {
	for f := range fits {
		isAgain, digits := false, len(f.id)
		for g := range fits {
			isAgain = isAgain || g.hash == f.hash && g.of != f.of
			for g.hash != f.hash && strings.HasPrefix(g.hash, f.hash[:digits]) {
				digits++
			}
		}
		name := f.hash[:digits]
		if isAgain {
			name += f.of
		}
		if digits > len(f.id) {
			name += fmt.Sprintf(" of %q", f.path)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// isTaken reports whether cuts have a hunk, or all of its lines.
func isTaken(h *hunks.Hunk, cuts []history.Cut) bool {
	return slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Whole || h.Kind == hunks.Mode && c.Mode }) ||
		h.Kind == hunks.Lines && len(restOf(h, cuts)) == 0
}

// restOf returns the lines of a hunk that cuts do not have. These may have been made of
// hunks that divide the same lines in another way, as another program finds them.
func restOf(h *hunks.Hunk, cuts []history.Cut) (rest []history.Span) {
	left := spanOf(h)
	add := func(s history.Span) {
		if s[0] < s[1] || s[2] < s[3] {
			rest = append(rest, s)
		}
	}
	for _, s := range merging.SpansOf(cuts) {
		if s[1] <= left[0] && s[3] <= left[2] || s[0] >= left[1] && s[2] >= left[3] {
			continue // before it, or behind it
		}
		within := func(n, from, to int) int { return min(max(n, from), to) }
		add(history.Span{left[0], within(s[0], left[0], left[1]), left[2], within(s[2], left[2], left[3])})
		left[0], left[2] = within(s[1], left[0], left[1]), within(s[3], left[2], left[3])
	}
	add(left)
	return rest
}

func spanOf(h *hunks.Hunk) history.Span {
	a, b := h.After.Lines, h.Before.Lines
	return history.Span{a.Start, a.End, b.Start, b.End}
}

// A picked is what was chosen of a change.
type picked struct {
	cuts []history.Cut
	rest bool // something of it is neither chosen nor taken back already
}

// pick finds out what was chosen of a window of a change.
func (pk *picked) pick(f *hunkedFile, turn uint64, p *picks) error {
	cut := history.Cut{Path: []byte(f.path), Turn: turn, Window: f.window}
	one := func(h *hunks.Hunk, chosen bool) {
		switch {
		case isTaken(h, f.cuts):
		case !chosen:
			pk.rest = true
		case h.Kind == hunks.Mode:
			cut.Mode = true
		case h.Kind == hunks.Whole:
			cut.Whole = true
		default:
			cut.Spans = append(cut.Spans, restOf(h, f.cuts)...)
		}
	}
	for i := 0; i < len(f.list); {
		h := &f.list[i]
		parts := f.list[i+1:]
		parts = parts[:countParts(f.partOf[i+1:])]
		i += 1 + len(parts)
		chosen, divided, left := p.has(h, f.path, turn, f.window), false, !isTaken(h, f.cuts)
		some := make([]bool, len(parts)) // that were chosen
		for j := range parts {
			some[j] = p.has(&parts[j], f.path, turn, f.window)
			taken := isTaken(&parts[j], f.cuts)
			if some[j] && (taken || !left) && p != nil {
				return takenError(&parts[j])
			}
			divided = divided || some[j] && !chosen || taken
		}
		if divided {
			left = slices.ContainsFunc(parts, func(h hunks.Hunk) bool { return !isTaken(&h, f.cuts) })
		}
		if chosen && !left && p != nil {
			return takenError(h)
		}
		if !divided {
			one(h, chosen)
			continue
		}
		for j := range parts {
			one(&parts[j], chosen || some[j])
		}
	}
	if cut.Mode || cut.Whole || len(cut.Spans) > 0 {
		pk.cuts = append(pk.cuts, cut)
	}
	return nil
}

func takenError(h *hunks.Hunk) error {
	return fmt.Errorf("%w: hunk %s was taken back", ErrNothing, h.ID)
}

// countParts returns how many parts come before the next hunk.
func countParts(partOf []string) int {
	if i := slices.Index(partOf, ""); i >= 0 {
		return i
	}
	return len(partOf)
}

// pick returns what was chosen of changes of a path, of each.
func (ws *wants) pick(list []standing.StepChange, p *picks) (of []picked, err error) {
	var files []hunkedFile
	var at []int // of each, its change in the list
	for i, sc := range list {
		more, err := ws.m.hunked(ws.ctx, ws.standings, ws.tip, sc)
		if err != nil {
			return nil, err
		}
		files, at = append(files, more...), append(at, slices.Repeat([]int{i}, len(more))...)
	}
	of = make([]picked, len(list))
	for i := range files {
		if err := ws.m.divideHunks(ws.ctx, &files[i]); err != nil {
			return nil, err
		}
		if err := of[at[i]].pick(&files[i], list[at[i]].By.Seq, p); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// hunksBack wants those hunks to be taken back that were chosen, of what the restore would
// take back. It reports whether they are all that the restore would do, and does nothing
// then.
func (ws *wants) hunksBack() (all bool, err error) {
	back, forth, turns, err := takenBackBy(ws.ctx, ws.standings, ws.tip, ws.target)
	if err != nil {
		return false, err
	}
	was := ws.goes
	ws.goes = staying(ws.tip)
	ws.goes.back = turns
	if all, err = ws.takeHunks(back, len(forth) > 0); all {
		ws.goes = was
	}
	return all, err
}

// takeHunks wants those hunks to be taken back that were chosen, of changes that would go,
// newest first. What is in beside them stays. It reports whether they are all of these,
// unless there is more, and does nothing then.
func (ws *wants) takeHunks(all map[string][]standing.StepChange, isMore bool) (is bool, err error) {
	g, some := &ws.goes, all
	if len(ws.asked.opts.Paths) > 0 {
		if some, err = ws.onlyPaths(all); err != nil {
			return false, err
		}
	}
	p, err := newPicks(ws.asked.opts.Hunks)
	if err != nil {
		return false, err
	}
	g.pathsBack, g.took, g.cuts = all, make(map[string]map[uint64]bool), make(map[string][]history.Cut)
	ws.stays = make(map[string][]standing.StepChange)
	back := make(map[string][]standing.StepChange)
	var chosen []*record
	for path, list := range some {
		if back[path], err = ws.takeHunksAt(path, list, p); err != nil {
			return false, err
		}
		for _, sc := range back[path] {
			chosen = append(chosen, sc.By)
		}
		if len(back[path]) == 0 {
			delete(back, path)
		}
	}
	if err := p.check(); err != nil {
		return false, err
	}
	isWhole := func(a, b []standing.StepChange) bool { return len(a) == len(b) }
	if !isMore && len(g.cuts) == 0 && maps.EqualFunc(all, back, isWhole) {
		ws.stays, g.took, g.pathsBack, g.apart = nil, nil, nil, make(map[string]*history.Apart)
		return true, nil
	}
	g.chosen = numbers(chosen)
	if err := ws.undo(back, nil, nil); err != nil {
		return false, err
	}
	for path := range g.cuts { // no moment had what they are to become
		if w := ws.paths[path]; w != nil && (w.Doubt == "" || w.mixed) {
			last := back[path][len(back[path])-1]
			w.New, w.at, w.Created, w.Keep = last.Change.Old, last.By.Base, last.Change.Old == nil, whyUntold
		}
	}
	return false, nil
}

// takeHunksAt is takeHunks for one path. It returns the changes of which something goes.
func (ws *wants) takeHunksAt(path string, list []standing.StepChange, p *picks) (back []standing.StepChange,
	err error) {
	s, g := ws.standings, &ws.goes
	took := make(map[uint64]bool)
	of, err := ws.pick(list, p)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	for i, sc := range list {
		switch pk := &of[i]; {
		case len(pk.cuts) == 0:
			continue
		case !pk.rest:
			took[sc.By.Seq] = true
		case sc.By.Behind != nil:
			return nil, fmt.Errorf("%q: turn %d would be taken back in part: revert its hunks", path, sc.By.Turn())
		default:
			g.cuts[path] = append(g.cuts[path], pk.cuts...)
		}
		back = append(back, sc)
	}
	if len(back) == 0 {
		return nil, nil
	}
	var whole []standing.StepChange
	isWhole := func(r *record) bool { return took[r.Seq] }
	for _, sc := range list {
		if isWhole(sc.By) || sc.CutsOnly(list, isWhole) {
			whole = append(whole, sc)
		}
	}
	g.took[path] = took
	stay, err := s.StaysAt(ws.ctx, ws.tip, path, back)
	if err != nil {
		return nil, err
	}
	stay = slices.DeleteFunc(stay, func(sc standing.StepChange) bool { return sc.CutsOnly(list, isWhole) })
	for _, sc := range back {
		if !took[sc.By.Seq] {
			stay = append(stay, sc)
		}
	}
	if len(stay) > 0 {
		s.Own[path], ws.stays[path] = true, stay
	}
	if len(whole) > 0 {
		if err := ws.standApart(path, whole); err != nil {
			return nil, err
		}
	}
	if len(g.cuts[path]) > 0 {
		return back, nil
	}
	return whole, nil
}
