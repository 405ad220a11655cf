// Package hunks divides what became of a file into pieces that can be taken back
// one by one.
//
// [Between] lists the pieces between two states of a file, [TakenBack] makes the
// text that the later state would be without some of them. What they are taken back
// from, the file as it is now, is merged with that text, the later state being what
// both come from: patch.Merge(after, now, TakenBack(…)). There is no other way in
// which a hunk is applied. All hunks are the whole change, none is nothing. Some now
// and the rest later are as all at once, but in texts whose lines are nearly all the
// same, where it is not told apart which of them were changed meanwhile.
//
// The package is pure; all functions may be called from any number of goroutines.
package hunks

import (
	"encoding/binary"
	"encoding/hex"

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
