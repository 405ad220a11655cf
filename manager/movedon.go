package manager

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// A turn that goes may have written into a file that another turn, which stays, has moved
// since. Mostly the file is gone where it was written, and that is said: what the turn wrote
// is hidden. But it may be back there, too, since a conflict had left one of both places, or
// a piece of the move was taken back. The file at the other place has what the turn wrote
// then, and the records say nothing of it there. It stays, and is listed.

// A wrote is what a turn that goes wrote into a file, which is at a path by then.
type wrote struct {
	standing.StepChange
	by uint64 // record that has to be in at the path for it to be there: the turn, or who moved it there
}

// hideMoved leaves alone the files to which turns that stay have moved what turns wrote that
// go. all is what is in since these, at each path.
func (ws *wants) hideMoved(turns []*record, all map[string][]standing.StepChange) error {
	written := make(map[string][]wrote) // what goes, by the path at which it is by then
	for _, r := range turns {
		did, err := ws.standings.Of(ws.ctx, r)
		if err != nil {
			return err
		}
		for p, c := range did {
			if trees.IsFile(c.New) {
				written[p] = append(written[p], wrote{standing.StepChange{By: r, Change: c}, r.Seq})
			}
		}
	}
	later := make(map[uint64]*record) // turns that stay, of which something is in
	for _, list := range all {
		for _, sc := range list {
			if !sc.By.IsJoint() && !slices.ContainsFunc(turns, sc.By.IsSameTurn) {
				later[sc.By.Seq] = sc.By
			}
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(later)) {
		moved, err := ws.movesIn(later[seq], written)
		if err != nil {
			return err
		}
		for from, to := range moved {
			list, err := ws.inBefore(later[seq], from, written[from])
			if err != nil {
				return err
			}
			for _, wr := range list {
				written[to] = append(written[to], wrote{wr.StepChange, seq})
			}
			isMade := func(sc standing.StepChange) bool { return sc.By.Seq == seq }
			if w := ws.paths[from]; w != nil && w.Hidden || !slices.ContainsFunc(all[to], isMade) {
				continue
			}
			if err := ws.hideAt(to, from, later[seq], list); err != nil {
				return err
			}
		}
	}
	return nil
}

// inBefore returns what of it was there when a turn began.
func (ws *wants) inBefore(r *record, p string, list []wrote) (in []wrote, err error) {
	before, err := ws.standings.Line.FoundBy(ws.ctx, r)
	if before == nil || err != nil {
		return nil, err
	}
	oldest := r.Seq
	for _, wr := range list {
		oldest = min(oldest, wr.by)
	}
	there, err := ws.standings.Line.InAt(ws.ctx, before, p, oldest)
	for _, wr := range list {
		is := func(o *record) bool { return o.Seq == wr.by || wr.by == wr.By.Seq && o.IsSameTurn(wr.By) }
		if slices.ContainsFunc(there, is) {
			in = append(in, wr)
		}
	}
	return in, err
}

// movesIn returns, by the path at which a turn found a file into which others wrote, the one
// to which it moved it.
func (ws *wants) movesIn(r *record, written map[string][]wrote) (map[string]string, error) {
	did, err := ws.standings.Of(ws.ctx, r)
	if err != nil {
		return nil, err
	}
	var went, came []similar.Candidate
	isBefore := func(wr wrote) bool { return wr.By.Seq < r.Seq }
	is := func(p string) bool { return slices.ContainsFunc(written[p], isBefore) }
	any := false
	for p, c := range did {
		switch {
		case c.New == nil && trees.IsFile(c.Old):
			any = any || is(p)
			went = append(went, ws.m.movedFile(ws.ctx, p, c.Old))
		case c.Old == nil && trees.IsFile(c.New):
			came = append(came, ws.m.movedFile(ws.ctx, p, c.New))
		}
	}
	if !any || len(came) == 0 {
		return nil, nil
	}
	moved, err := renames(went, came)
	maps.DeleteFunc(moved, func(from, _ string) bool { return !is(from) })
	return moved, err
}

// hideAt leaves a file alone to which a turn has moved another, if something of what others
// wrote into that is there.
func (ws *wants) hideAt(p, from string, by *record, list []wrote) error {
	disk, err := ws.root.Entry(ws.ctx, p, trees.NewOverlay(nil))
	if err != nil { // which the plan says, if anything is wanted there
		return context.Cause(ws.ctx)
	}
	w, will := ws.paths[p], disk
	if w != nil {
		will = w.New
	}
	if !trees.IsFile(will) {
		return nil
	}
	for _, sc := range list {
		is, err := ws.has(p, disk, will, sc.Change.Old, sc.Change.New)
		if err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
		if !is {
			continue
		}
		if w == nil {
			w = ws.path(p)
			w.Want = livedir.Want{Path: p, Old: disk, New: disk}
			w.at, w.known = by.State(), true
		}
		w.Held = fmt.Sprintf("hidden by turn %d, which has moved what turn %d wrote from %q", by.Turn(), sc.By.Turn(),
			from)
		w.Hidden = true
		ws.hide(p, by)
		return nil
	}
	return nil
}

// has reports whether a file is what a change left, or has a line that it brought.
func (ws *wants) has(p string, disk, file, before, after *tree.Entry) (bool, error) {
	if file.ID == after.ID {
		return true, nil
	}
	var lines [3]map[string]bool
	for i, e := range []*tree.Entry{before, after, file} {
		if lines[i] = make(map[string]bool); !trees.IsFile(e) || e.Size > merging.MaxText {
			continue
		}
		text, err := ws.m.text(ws.ctx, ws.root, p, disk, e)
		if err != nil && !trees.IsLoss(err) {
			return false, err
		}
		for line := range bytes.Lines(text) {
			lines[i][merging.Bare(line)] = true
		}
	}
	isWord := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
	for line := range lines[1] {
		if !lines[0][line] && lines[2][line] && strings.ContainsFunc(line, isWord) {
			return true, nil
		}
	}
	return false, nil
}
