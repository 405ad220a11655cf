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
	"slices"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
)

// A State is a file at one moment.
type State struct {
	ID   store.ID // of Text; the zero ID if there was no file
	Text []byte
}

// A Hunk is one of the places at which two states of a file differ.
type Hunk struct {
	// Of the path, both states and the ranges: the same whatever the file is now, and
	// of no other hunk of the two states. 8 hex digits, more in the rare case that
	// two hunks of a file have these in common.
	ID string

	Before, After patch.Side // its lines; one of them may be none
}

// Between returns the hunks that lead from before to after, in order, with at least
// one line between any two. Where one of the states is binary it is one hunk.
func Between(path string, before, after State) []Hunk {
	var edits []textdiff.Edit
	old, new := textdiff.SplitLines(before.Text), textdiff.SplitLines(after.Text)
	switch {
	case before.ID == after.ID:
		return nil
	case similar.IsBinary(before.Text) || similar.IsBinary(after.Text):
		edits = []textdiff.Edit{{OldEnd: len(new), NewEnd: len(old)}}
	default:
		// From after to before, as the merge that takes hunks back compares them.
		numbers, distinct := textdiff.Number(new, old)
		edits = textdiff.CompareNumbers(numbers[0], numbers[1], distinct)
		edits = textdiff.Slide(numbers[0], numbers[1], edits)
	}
	list := make([]Hunk, len(edits))
	from, to := cursor{text: before.Text, lines: old}, cursor{text: after.Text, lines: new}
	for i, e := range edits {
		list[i].Before = from.side(e.NewStart, e.NewEnd)
		list[i].After = to.side(e.OldStart, e.OldEnd)
	}
	name(list, path, before.ID, after.ID)
	return list
}

// name gives hunks their IDs.
func name(list []Hunk, path string, before, after store.ID) {
	ids := make([]string, len(list))
	for i, h := range list {
		b := append(append([]byte(path), 0), before[:]...)
		b = append(b, after[:]...)
		for _, n := range []int{h.Before.Lines.Start, h.Before.Lines.End, h.After.Lines.Start, h.After.Lines.End} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		sum := blake3.Sum256(b)
		ids[i] = hex.EncodeToString(sum[:])
	}
	for digits := idDigits; ; digits++ {
		seen := make(map[string]bool)
		for i := range list {
			list[i].ID = ids[i][:digits]
			seen[list[i].ID] = true
		}
		if len(seen) == len(list) {
			return
		}
	}
}

// idDigits are enough for 973 hunks of a file but in one case of 9,000.
const idDigits = 8

// A cursor walks over the lines of a text.
type cursor struct {
	text     []byte
	lines    []string
	line, at int
}

// side returns lines that are not before those of the call before.
func (c *cursor) side(start, end int) patch.Side {
	c.to(start)
	s := patch.Side{Lines: patch.Span{Start: start, End: end}, Bytes: patch.Span{Start: c.at}}
	c.to(end)
	s.Bytes.End = c.at
	s.Text = c.text[s.Bytes.Start:c.at:c.at]
	return s
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

// Places returns the place of each hunk that [Between] returned.
func Places(after, now []byte, list []Hunk) []Place {
	before := TakenBack(after, list, func(*Hunk) bool { return true })
	onlyEnds := false
	if patch.Merge(after, now, before, nil).EndsOfOurs { // then lines are compared without them
		before, after, now = toLF(before), toLF(after), toLF(now)
		onlyEnds = bytes.Equal(before, after)
	}
	lines := [2][]string{textdiff.SplitLines(after), textdiff.SplitLines(now)}
	numbers, distinct := textdiff.Number(lines[0], lines[1])
	ours := textdiff.CompareNumbers(numbers[0], numbers[1], distinct)
	ours = textdiff.Slide(numbers[0], numbers[1], ours)
	theirs := make([]textdiff.Edit, len(list))
	for i, h := range list {
		theirs[i] = textdiff.Edit{OldStart: h.After.Lines.Start, OldEnd: h.After.Lines.End,
			NewStart: h.Before.Lines.Start, NewEnd: h.Before.Lines.End}
	}
	places := make([]Place, 0, len(list))
	old := textdiff.SplitLines(before)
	for _, r := range textdiff.Regions(ours, theirs) {
		p := Place{Outcome: Clean, Start: r.OursStart, End: r.OursEnd}
		switch {
		case onlyEnds, slices.Equal(lines[1][r.OursStart:r.OursEnd], old[r.TheirsStart:r.TheirsEnd]):
			p.Outcome = Done
		case r.ByOurs:
			p.Outcome = Conflict
		}
		for len(places) < len(list) && r.ByTheirs && list[len(places)].After.Lines.Start <= r.End {
			places = append(places, p)
		}
	}
	return places
}

func toLF(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
