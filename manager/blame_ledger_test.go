package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/merging"
)

// blames holds: each line of a ledger is blamed on who wrote it, whatever has been taken
// back since, and brought again. Who moved a file may be the owner of all that is in it then:
// where too little of it was the same it is another file. The same is said without what was
// kept of the answer before.
func (l *ledger) blames() {
	l.Helper()
	now := l.files()
	for i, p := range slices.Sorted(maps.Keys(now)) {
		a, err := l.m.Blame(l.Context(), &BlameOptions{Path: p})
		if err != nil {
			l.wrong("blame %s: %v", p, err)
		}
		l.isBlamed(p, now[p], a)
		l.must(blame.Remove(l.Context(), l.m.store.FS()))
		anew, err := l.m.Blame(l.Context(), &BlameOptions{Path: p})
		if err != nil {
			l.wrong("blame %s: %v", p, err)
		}
		if diff := cmp.Diff(anew, a); diff != "" {
			l.wrong("blame %s (-anew +by what was kept):\n%s", p, diff)
		}
		if (len(l.steps)+i)%2 == 0 { // what is kept is of some time ago
			l.must(blame.Remove(l.Context(), l.m.store.FS()))
		}
	}
}

// isBlamed holds the answer for one file against who wrote its lines.
func (l *ledger) isBlamed(p, text string, a *Blame) {
	l.Helper()
	lines := slices.Collect(strings.Lines(text))
	next := 1
	for _, r := range a.Ranges {
		if r.Start != next || r.End < r.Start {
			l.wrong("blame %s: line %d is followed by range %+v", p, next-1, r)
		}
		next = r.End + 1
		for _, line := range lines[r.Start-1 : r.End] {
			if !l.isOwner(p, strings.TrimSuffix(line, "\n"), &r.Owner) {
				l.wrong("blame %s: line %q is said to be of %+v", p, line, r.Owner)
			}
		}
	}
	if next != len(lines)+1 || a.Lines != len(lines) || string(a.Text) != text {
		l.wrong("blame %s: %d lines of %d, the last is %d", p, a.Lines, len(lines), next-1)
	}
}

func (l *ledger) isOwner(p, line string, o *BlameOwner) bool {
	who, _, isWritten := strings.Cut(line, ".")
	switch {
	case merging.IsMarker([]byte(line), 7):
		return o.Kind == "restore" || o.Kind == "user"
	case !isWritten: // "}" is in all files
		return true
	case who == "b":
		who = "before"
	case who == "u":
		who = "user"
	}
	is := o.Kind
	if o.Kind == "turn" && o.Session == "s" {
		is = fmt.Sprint("t", o.Turn)
	}
	if is == who {
		return true
	}
	if o.Kind == "turn" && o.Turn < len(l.turns) {
		return l.turns[o.Turn].moved[line] != "" || l.hasMoved[is][family(p)]
	}
	return l.hasMoved[is][family(p)]
}
