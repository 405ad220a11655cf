package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/store"
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

// ledgerKinds are owners by what their lines begin with, but for turns of the session.
var ledgerKinds = map[string]string{"b": "before", "u": "user", "o": "the other session", "c": "contested"}

// blamesPruned holds: whatever is pruned, a line is of who wrote it, or of what was pruned; and
// if contents are forgotten, it may be that it is not known whose it is.
func (l *ledger) blamesPruned() {
	if len(l.turns) < 3 {
		return
	}
	l.prune(l.m.store, &retain.Retention{KeepLast: 1 + l.rng.IntN(6)})
	l.step("prune")
	l.gone = map[string]bool{"pruned": true}
	l.blames()
	p, err := l.m.Resolve(l.Context(), "@~1")
	if err != nil {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(l.files())) {
		e, err := l.m.entryAt(l.T, p.State, path)
		if err != nil || e == nil || e.Size == 0 {
			continue
		}
		plan, err := retain.PlanForget(l.Context(), l.m.store, &retain.ForgetOptions{Blobs: []store.ID{e.ID}})
		if err != nil {
			continue
		}
		_, err = plan.Do(l.Context())
		l.must(err)
		l.step("forget what %s was", path)
		break
	}
	l.gone["unknown"] = true
	l.blames()
}

func (l *ledger) isOwner(p, line string, o *BlameOwner) bool {
	who, _, isWritten := strings.Cut(line, ".")
	switch {
	case merging.IsMarker([]byte(line), 7):
		return o.Kind == "restore" || o.Kind == "user"
	case !isWritten: // "}" is in all files
		return true
	case ledgerKinds[who] != "":
		who = ledgerKinds[who]
	}
	is := o.Kind
	switch {
	case o.Kind == "turn" && o.Session == "s":
		is = fmt.Sprint("t", o.Turn)
	case o.Kind == "turn":
		is = ledgerKinds[o.Session]
	case l.gone[is]: // nobody knows any more
		return true
	}
	if is == who {
		return true
	}
	if o.Kind == "turn" && o.Session == "s" && o.Turn < len(l.turns) {
		return l.turns[o.Turn].moved[line] != "" || l.hasMoved[is][family(p)]
	}
	return l.hasMoved[is][family(p)]
}
