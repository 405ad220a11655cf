package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/moments"
)

// Why lines are left.
const (
	leftNotTurn   = "not_turn"  // who wrote them is no turn that can be told
	leftSession   = "session"   // a turn of another session did
	leftOpen      = "open"      // a turn did that has not ended
	leftMade      = "made"      // a turn that has made the file, or replaced it, of which all would go
	leftElsewhere = "elsewhere" // a turn wrote them at another path
)

// A hunkLines chooses hunks by the lines that they have written.
type hunkLines struct {
	asked BlameOptions
	of    int          // lines of the file
	left  []BlameRange // not_turn, session and open: known from blame alone
	owned []ownedLines
	turns []int // that own some, in order
}

// ownedLines are lines that a turn of the session's line has written.
type ownedLines struct {
	BlameRange
	turn    int
	isFound bool // a hunk of the turn has them
	isMade  bool // the turn has made the file
}

// hunkLines finds out whose lines of a file are, and of which turns hunks are wanted.
func (m *FileSnapshotManager) hunkLines(ctx context.Context, asked BlameOptions) (*hunkLines, error) {
	path, err := asked.check(m)
	if err == nil && cmp.Or(asked.Rev, onDisk) != onDisk {
		err = fmt.Errorf("revision %q: of lines that are asked for it is %q", asked.Rev, onDisk)
	}
	if err != nil {
		return nil, err
	}
	b, err := m.blamed(ctx, path, onDisk, blame.Options{IgnoreSpace: asked.IgnoreSpace})
	if err != nil {
		return nil, err
	}
	x := &hunkLines{asked: asked, of: b.end.Lines.Count()}
	x.asked.Path = path
	if x.asked.Start, x.asked.End, err = asked.within(path, x.of); err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	past, err := l.past(ctx)
	if err != nil {
		return nil, err
	}
	line := 1
	for _, r := range b.end.Lines {
		start, end := max(line, x.asked.Start), min(line+r.Lines-1, x.asked.End)
		if line += r.Lines; start <= end {
			x.add(start, end, b.owner(ctx, r.Origin), past)
		}
	}
	slices.Sort(x.turns)
	x.turns = slices.Compact(x.turns)
	return x, nil
}

// add notes whose lines are. past has the last record of each session of the line.
func (x *hunkLines) add(start, end int, o *blame.Owner, past map[string]uint64) {
	l := BlameRange{Start: start, End: end, Owner: publicOwner(o)}
	switch {
	case o.Kind != string(moments.Turn):
		l.Why = leftNotTurn
	case o.Of == 0:
		l.Why = leftOpen
	case o.Of > past[o.Session]:
		l.Why = leftSession
	default:
		x.owned = append(x.owned, ownedLines{BlameRange: l, turn: o.Turn})
		x.turns = append(x.turns, o.Turn)
		return
	}
	x.left = append(x.left, l)
}

// hunkedByLines returns the changes of the file by turns that wrote lines that are asked for.
func (m *FileSnapshotManager) hunkedByLines(ctx context.Context, r *HunkRange) (
	x *hunkLines, files []hunkedFile, err error) {
	if len(r.Turns)+len(r.Paths) > 0 || r.Restore+r.From+r.To != "" {
		return nil, nil, errors.New("want lines, and nothing else that names changes")
	}
	if x, err = m.hunkLines(ctx, *r.Lines); err != nil || len(x.turns) == 0 {
		return x, nil, err
	}
	var turns []string
	for _, n := range x.turns {
		turns = append(turns, fmt.Sprint("turn:", n))
	}
	files, err = m.hunkedFiles(ctx, &HunkRange{Turns: turns})
	isElsewhere := func(f hunkedFile) bool { return f.path != x.asked.Path || f.of.By == nil }
	return x, slices.DeleteFunc(files, isElsewhere), err
}

// choose returns which hunks of a change are wanted: parts rather than what they are parts
// of, unless all of these are wanted.
func (x *hunkLines) choose(f *hunkedFile) (isWanted func(int) bool) {
	want := make([]bool, len(f.list))
	for i := 0; i < len(f.list); {
		end := i + 1
		for end < len(f.list) && f.partOf[end] != "" {
			end++
		}
		parts, all := end > i+1, true
		for j := i; j < end; j++ {
			if j > i || !parts {
				want[j] = x.has(f, j)
				all = all && want[j]
			}
		}
		if parts && all {
			want[i] = true
			clear(want[i+1 : end])
		}
		i = end
	}
	return func(i int) bool { return want[i] }
}

// has reports whether a hunk has written some of the lines, or has deleted between them.
func (x *hunkLines) has(f *hunkedFile, i int) (is bool) {
	turn, p := f.of.By.Turn(), f.places[i]
	if f.list[i].Kind == hunks.Whole {
		if x.asked.Start > 1 || x.asked.End < x.of { // all of it would go
			for j := range x.owned {
				o := &x.owned[j]
				o.isMade = o.isMade || o.turn == turn
			}
			return false
		}
		p.Start, p.End = 0, x.of
	}
	if p.Outcome == hunks.Done || f.list[i].Kind == hunks.Mode {
		return false
	}
	for j := range x.owned {
		o := &x.owned[j]
		if o.turn == turn && p.Start < o.End && p.End >= o.Start {
			o.isFound, is = true, true
		}
	}
	return is || p.Start == p.End && x.asked.Start <= p.Start && p.Start < x.asked.End
}

// rest returns the lines of which no hunk was chosen, in order.
func (x *hunkLines) rest() []BlameRange {
	list := slices.Clone(x.left)
	for _, o := range x.owned {
		if o.isFound {
			continue
		}
		if o.Why = leftElsewhere; o.isMade {
			o.Why = leftMade
		}
		list = append(list, o.BlameRange)
	}
	slices.SortFunc(list, func(a, b BlameRange) int { return a.Start - b.Start })
	return list
}
