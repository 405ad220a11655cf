// Package hunks divides what became of a file into pieces that can be taken back
// one by one.
//
// [Between] lists the pieces between two states of a file, [Places] says what would
// come of each in the file as it is now, [TakenBack] makes the text that the later
// state would be without some of them. The file is merged with that text, the later
// state being what both come from: patch.Merge(after, now, TakenBack(…)). There is no
// other way in which a hunk is applied.
//
// All hunks are the whole change, none is nothing. Some now and the rest later are as
// all at once, but in texts whose lines are nearly all the same, where it is not told
// apart which of them were changed meanwhile.
//
// The package is pure; all functions may be called from any number of goroutines.
package hunks

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A State is a file, or a link, at one moment.
type State struct {
	ID   store.ID  // of Text; the zero ID if there was nothing
	Mode tree.Mode // 0 if there was nothing
	Text []byte

	Opaque bool // nobody has read it: Text is not its content
}

// IsText reports whether lines of a state can be taken back.
func (s *State) IsText() bool {
	return s.Mode.Kind() == tree.ModeFile && !s.Opaque && !similar.IsBinary(s.Text)
}

func isSame(a, b *State) bool { return a.ID == b.ID && a.Mode == b.Mode }

// A Kind says what a hunk is about.
type Kind string

const (
	Lines Kind = "lines"
	Mode  Kind = "mode"  // the mode of a file, apart from its content
	Whole Kind = "whole" // a file that was made, deleted or replaced, or is no text
)

// A Hunk is one of the places at which two states of a file differ.
type Hunk struct {
	// Of the path, both states and the ranges: the same whatever the file is now, and
	// of no other hunk of the two states. 8 hex digits, more in the rare case that
	// two hunks of a file have these in common; of other files one may have them, too.
	ID   string
	Hash string // 64 hex digits, of which ID is the beginning
	Kind Kind

	Before, After patch.Side // its lines; one of them may be none
}

// Between returns the hunks that lead from before to after: one of the mode comes first,
// those of lines follow in order, with at least one line between any two. What is no
// text before and after is one hunk.
func Between(path string, before, after State) []Hunk {
	var list []Hunk
	switch {
	case isSame(&before, &after):
		return nil
	case !before.IsText() || !after.IsText():
		list = []Hunk{{Kind: Whole, Before: whole(before.Text), After: whole(after.Text)}}
	default:
		if before.Mode != after.Mode {
			list = append(list, Hunk{Kind: Mode})
		}
		old, new := textdiff.SplitLines(before.Text), textdiff.SplitLines(after.Text)
		// From after to before, as the merge that takes hunks back compares them.
		numbers, distinct := textdiff.Number(new, old)
		edits := textdiff.CompareNumbers(numbers[0], numbers[1], distinct)
		edits = textdiff.Slide(numbers[0], numbers[1], edits)
		list = appendHunks(list, cursor{text: before.Text, lines: old}, cursor{text: after.Text, lines: new}, edits)
	}
	name(list, path, &before, &after)
	return list
}

// appendHunks appends what edits that lead from the lines of to to those of from change.
func appendHunks(list []Hunk, from, to cursor, edits []textdiff.Edit) []Hunk {
	for _, e := range edits {
		list = append(list, Hunk{Kind: Lines, Before: from.side(e.NewStart, e.NewEnd),
			After: to.side(e.OldStart, e.OldEnd)})
	}
	return list
}

// Of returns the hunks that are lines of two texts: of each the first and the end of the
// later text, then those of the earlier one. They come in order. Not ok: a text has no
// such lines.
func Of[T ~[4]int](before, after []byte, spans []T) (list []Hunk, ok bool) {
	from, to := cursorIn(whole(before)), cursorIn(whole(after))
	for _, s := range spans {
		if s[1] > len(to.lines) || s[3] > len(from.lines) || s[0] < to.line || s[2] < from.line {
			return nil, false
		}
		list = append(list, Hunk{Kind: Lines, Before: from.side(s[2], s[3]), After: to.side(s[0], s[1])})
	}
	return list, true
}

// whole returns all of a text.
func whole(text []byte) patch.Side {
	c := cursor{text: text, lines: textdiff.SplitLines(text)}
	return c.side(0, len(c.lines))
}

// Parts divides a hunk of lines between before and after at lines that both sides of it
// have; nil if there are none. All parts are the hunk.
func Parts(path string, before, after State, h *Hunk) []Hunk {
	const least = 4 // lines of both sides: one that both have, and one before and behind it
	if a, b := h.Before.Lines, h.After.Lines; h.Kind != Lines || b.End-b.Start+a.End-a.Start < least {
		return nil
	}
	from, to := cursorIn(h.Before), cursorIn(h.After)
	edits := textdiff.Compare(to.lines, from.lines)
	if len(edits) < 2 {
		return nil
	}
	list := appendHunks(nil, from, to, edits)
	name(list, path, &before, &after)
	return list
}

// name gives hunks their IDs.
func name(list []Hunk, path string, before, after *State) {
	for i, h := range list {
		b := append(append([]byte(path), 0), before.ID[:]...)
		b = append(b, after.ID[:]...)
		for _, n := range []int{h.Before.Lines.Start, h.Before.Lines.End, h.After.Lines.Start, h.After.Lines.End} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		if h.Kind != Lines {
			b = fmt.Appendf(b, "%s %o %o", h.Kind, before.Mode, after.Mode)
		}
		sum := blake3.Sum256(b)
		list[i].Hash = hex.EncodeToString(sum[:])
	}
	for digits := idDigits; ; digits++ {
		seen := make(map[string]bool)
		for i := range list {
			list[i].ID = list[i].Hash[:digits]
			seen[list[i].ID] = true
		}
		if len(seen) == len(list) {
			return
		}
	}
}

// idDigits are enough for 973 hunks of a file but in one case of 9,000.
const idDigits = 8

// A cursor walks over the lines of a text, or of a side of it.
type cursor struct {
	text     []byte
	lines    []string
	in       patch.Side // where they are in the whole text
	line, at int
}

func cursorIn(s patch.Side) cursor {
	return cursor{text: s.Text, lines: textdiff.SplitLines(s.Text), in: s}
}

// side returns lines that are not before those of the call before.
func (c *cursor) side(start, end int) patch.Side {
	c.to(start)
	from := c.at
	c.to(end)
	line, at := c.in.Lines.Start, c.in.Bytes.Start
	return patch.Side{Text: c.text[from:c.at:c.at], Lines: patch.Span{Start: line + start, End: line + end},
		Bytes: patch.Span{Start: at + from, End: at + c.at}}
}

func (c *cursor) to(line int) {
	for ; c.line < line; c.line++ {
		c.at += len(c.lines[c.line])
	}
}

// TakenBack returns the text of the later state without those hunks that are
// chosen. The hunks are all that [Between] returned.
func TakenBack(after []byte, list []Hunk, chosen func(h *Hunk) bool) []byte {
	var out []byte
	at := 0
	for i := range list {
		if h := &list[i]; chosen(h) {
			out = append(append(out, after[at:h.After.Bytes.Start]...), h.Before.Text...)
			at = h.After.Bytes.End
		}
	}
	return append(out, after[at:]...)
}

// An Outcome is what comes of taking all hunks back from a file, for one of them.
type Outcome string

const (
	Clean    Outcome = "clean"    // it is taken back
	Done     Outcome = "done"     // it is taken back already
	Conflict Outcome = "conflict" // its lines, or those beside them, were changed since: they stay
)

// A Place is where a hunk is in a file as it is now: lines [Start, End), what would
// be replaced if it is clean, and what was changed since with a conflict.
type Place struct {
	Outcome    Outcome
	Start, End int
}

// Places returns the place of each hunk between before and after, [Between]'s or parts
// of these: what comes of it when all are taken back. Alone, one that is clean may be in
// conflict where much of the file was written anew: in 33 of 6,124 random texts of that
// kind, and in none of 8,277 others.
func Places(before, after, now State, list []Hunk) []Place {
	places := make([]Place, 0, len(list))
	for len(list) > 0 && list[0].Kind != Lines {
		p := Place{Outcome: Conflict}
		isMode := list[0].Kind == Mode
		switch {
		case isMode && now.Mode == before.Mode, isSame(&now, &before):
			p.Outcome = Done
		case isMode && now.Mode == after.Mode, isSame(&now, &after):
			p.Outcome = Clean
		}
		places, list = append(places, p), list[1:]
	}
	switch {
	case len(list) == 0:
		return places
	case !now.IsText():
		for range list {
			places = append(places, Place{Outcome: Conflict})
		}
		return places
	}
	return appendPlaces(places, after.Text, now.Text, list)
}

// Partly merges ours with those of some pieces that lead from base to theirs which are not
// in conflict with it, and says which these are. Each piece has its lines in base, then
// those in theirs; they come in order. Not ok: a text has no such lines, or a merge divides
// what was changed in another way.
func Partly[T ~[4]int](base, ours, theirs []byte, pieces []T) (done []bool, text []byte, ok bool) {
	list, ok := Of(theirs, base, pieces)
	if !ok {
		return nil, nil, false
	}
	file := func(text []byte) State { return State{Mode: tree.ModeFile, Text: text} }
	for _, p := range Places(State{}, file(base), file(ours), list) {
		done = append(done, p.Outcome != Conflict)
	}
	i := -1
	m := patch.Merge(base, ours, TakenBack(base, list, func(*Hunk) bool { i++; return done[i] }), nil)
	return done, m.Text, len(m.Conflicts) == 0
}

func appendPlaces(places []Place, after, now []byte, list []Hunk) []Place {
	n := len(places)
	before := TakenBack(after, list, func(*Hunk) bool { return true })
	onlyEnds, m := false, patch.Merge(after, now, before, nil)
	if m.EndsApart { // then lines are compared without them
		before, after, now = toLF(before), toLF(after), toLF(now)
		onlyEnds = bytes.Equal(before, after)
	}
	lines := [2][]string{textdiff.SplitLines(after), textdiff.SplitLines(now)}
	numbers, distinct := textdiff.Number(lines[0], lines[1])
	ours := textdiff.CompareNumbers(numbers[0], numbers[1], distinct)
	ours = textdiff.Slide(numbers[0], numbers[1], ours)
	theirs := make([]textdiff.Edit, len(list))
	more := 0 // lines that before has up to there more than after
	for i, h := range list {
		theirs[i] = textdiff.Edit{OldStart: h.After.Lines.Start, OldEnd: h.After.Lines.End,
			NewStart: h.After.Lines.Start + more}
		more += h.Before.Lines.End - h.Before.Lines.Start - (h.After.Lines.End - h.After.Lines.Start)
		theirs[i].NewEnd = h.After.Lines.End + more
	}
	old := textdiff.SplitLines(before)
	for _, r := range textdiff.Regions(ours, theirs) {
		p := Place{Outcome: Clean, Start: r.OursStart, End: r.OursEnd}
		switch {
		case !onlyEnds && slices.Equal(lines[1][r.OursStart:r.OursEnd], old[r.TheirsStart:r.TheirsEnd]):
			p.Outcome = Done
		case r.ByOurs && (!m.EndsApart || touchesConflict(&r, m)):
			p.Outcome = Conflict
		}
		for len(places)-n < len(list) && r.ByTheirs && list[len(places)-n].After.Lines.Start <= r.End {
			places = append(places, p)
		}
	}
	return places
}

// touchesConflict reports whether a region is one of a conflict, or beside one.
func touchesConflict(r *textdiff.Region, m *patch.Merged) bool {
	return slices.ContainsFunc(m.Conflicts, func(c patch.Conflict) bool {
		return c.Base.Lines.Start <= r.End && r.Start <= c.Base.Lines.End
	})
}

func toLF(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
