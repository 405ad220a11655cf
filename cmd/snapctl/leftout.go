package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// reasonCounts is how much was left out, by reason.
type reasonCounts map[trees.Reason]int

// A leftOut sums up a coverage.
type leftOut struct {
	counts reasonCounts
	paths  map[trees.Reason][]string // the first few of the reasons that a user should know of
}

// maxCalledOut is how many paths a warning names.
const maxCalledOut = 5

// worries are the reasons that nobody asked for.
var worries = []trees.Reason{trees.Unreadable, trees.Unstable, trees.TooLarge, trees.OverBudget}

func newLeftOut() *leftOut {
	return &leftOut{make(reasonCounts), make(map[trees.Reason][]string)}
}

// readLeftOut sums up a coverage.
func readLeftOut(ctx context.Context, g trees.Getter, coverage store.ID) (*leftOut, error) {
	l := newLeftOut()
	for o, err := range trees.Coverage(ctx, g, coverage) {
		if err != nil {
			return nil, err
		}
		l.add(&o)
	}
	return l, nil
}

func (l *leftOut) add(o *trees.Omission) {
	l.counts[o.Reason]++
	if len(l.paths[o.Reason]) < maxCalledOut {
		l.paths[o.Reason] = append(l.paths[o.Reason], shown(o.Path, o.Kind))
	}
}

// isPart reports whether something is missing that was meant to be captured.
func (l *leftOut) isPart() bool {
	return l.counts[trees.Unreadable]+l.counts[trees.Unstable]+l.counts[trees.OverBudget] > 0
}

// String lists the reasons: 320 ignored, 1 vcs.
func (l *leftOut) String() string {
	var amounts []amount
	for r := trees.Ignored; r <= trees.MaxReason; r++ {
		amounts = append(amounts, amount{l.counts[r], r.String()})
	}
	return nonZero(amounts)
}

// news is String without the insides of version control systems, which no snapshot has.
func (l *leftOut) news() string {
	n := &leftOut{counts: maps.Clone(l.counts)}
	delete(n.counts, trees.VCS)
	return n.String()
}

// warn names paths that are not captured though their user may count on them. Files above
// the size limit are only noted: the user has set it.
func (l *leftOut) warn(a *app) {
	for _, r := range worries {
		n := l.counts[r]
		if n == 0 || r == trees.TooLarge && a.flags.quiet {
			continue
		}
		more := ""
		if n > maxCalledOut {
			more = fmt.Sprintf(" and %s more", words.Comma(n-maxCalledOut))
		}
		a.tell("warning: %s not captured: %s%s", r, strings.Join(l.paths[r], ", "), more)
	}
}
