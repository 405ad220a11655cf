package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/tree"
)

const (
	// maxSinceLast is how long Result.SinceLast may be, in bytes.
	maxSinceLast = 400
	// maxNameSince is how many characters of a path are in it: a name is no place to
	// tell a model something.
	maxNameSince = 60
	// maxHunksSince is of how many files it has the number of hunks, and maxSizeSince how
	// large, in bytes, such a file may be: a turn waits for it.
	maxHunksSince = 20
	maxSizeSince  = 256 << 10
)

// sinceLast says in one line, for a model, what was taken back, or put back, since the
// session's last turn ended. head is the session's newest record then. It is "" if nothing
// was, if it is not known any more, or if a tool of a turn did it.
func (m *FileSnapshotManager) sinceLast(ctx context.Context, head *record) (string, error) {
	restores, err := m.restoresSince(ctx, head)
	if err != nil || len(restores) == 0 {
		return "", err
	}
	oldest, newest := restores[len(restores)-1], restores[0]
	l, err := m.line(ctx)
	if err != nil {
		return "", err
	}
	from, err := m.records.StepAt(ctx, oldest.Facts.From, oldest.Session)
	if err != nil {
		return "", err
	}
	to, err := m.records.StepAt(ctx, newest.Position(), newest.Session)
	if err != nil {
		return "", err
	}
	back, forth, err := l.Between(ctx, from, to, "", nil)
	if err != nil {
		return "", err
	}
	files, err := m.restoredFiles(ctx, restores)
	if err != nil || len(files) == 0 {
		return "", err
	}
	went, came := numbers(changing(back)), numbers(changing(forth))
	partWent, partCame, err := l.movedAnywhere(ctx, from, to)
	if err != nil && !isLost(err) {
		return "", err
	}
	var what []string
	if took := wholeAndPartText(went, partWent); took != "" {
		what = append(what, "took back "+took)
	}
	if put := wholeAndPartText(came, partCame); put != "" {
		what = append(what, "put back in "+put)
	}
	if len(what) == 0 {
		what = append(what, "restored files")
	}
	text := "Since your last turn the user " + strings.Join(what, " and ")
	for i, file := range files {
		before := ", "
		if i == 0 {
			before = ": "
		}
		if len(text)+len(before)+len(file) > maxSinceLast-len(", and 1,000,000 more.") {
			return text + before + fmt.Sprintf("and %s more.", words.Comma(len(files)-i)), nil
		}
		text += before + file
	}
	return text + ".", nil
}

// movedAnywhere returns the numbers of the turns of which anything is in at one position, at
// any path, and not at another, and the other way around.
func (l *line) movedAnywhere(ctx context.Context, from, to *record) (went, came []int, err error) {
	var sides [2]map[string][]standing.StepChange
	if sides[0], sides[1], err = l.Paths(l.m.tree.pages).Between(ctx, from, to); err != nil {
		return nil, nil, err
	}
	var turns [2][]*record
	for i, side := range sides {
		for path, list := range side {
			for _, sc := range list {
				if !sc.By.IsJoint() {
					turns[i] = append(turns[i], sc.By)
					continue
				}
				for _, cut := range sc.By.CutAt(path) { // where that comes, a part of its turn goes
					if slices.ContainsFunc(list, func(o standing.StepChange) bool { return o.By.Seq == cut.Turn }) {
						continue
					}
					r, err := l.m.records.Record(ctx, cut.Turn)
					if err != nil {
						return nil, nil, err
					}
					turns[1-i] = append(turns[1-i], r)
				}
			}
		}
	}
	return numbers(turns[0]), numbers(turns[1]), nil
}

// wholeAndPartText names turns, and those of some others that are not among them: "turn 2
// and a part of turn 3"; "" for none.
func wholeAndPartText(whole, some []int) string {
	var list []string
	if len(whole) > 0 {
		list = append(list, turnsText(whole))
	}
	some = slices.DeleteFunc(some, func(n int) bool { return slices.Contains(whole, n) })
	switch len(some) {
	case 0:
	case 1:
		list = append(list, "a part of "+turnsText(some))
	default:
		list = append(list, "parts of "+turnsText(some))
	}
	return strings.Join(list, " and ")
}

// restoresSince returns the restores since the session's last turn, but for those of tools
// of a turn, newest first.
func (m *FileSnapshotManager) restoresSince(ctx context.Context, head *record) (list []*record, err error) {
	for r, err := range m.records.OwnBack(ctx, head) {
		switch {
		case err != nil:
			return nil, err
		case r.IsTurn() || r.Kind == history.KindStart:
			return list, nil
		case r.Kind == history.KindRestore && !r.Pruned && r.Facts.From != 0:
			list = append(list, r)
		case r.Kind == history.KindIntent && slices.Contains(r.Facts.Windows, r.Session):
			list = slices.DeleteFunc(list, func(done *record) bool { return done.Facts.ID == r.Facts.ID })
		}
	}
	return list, nil
}

// restoredFiles says of each file what became of it in some restores, newest first, all in
// all.
func (m *FileSnapshotManager) restoredFiles(ctx context.Context, restores []*record) ([]string, error) {
	was, is := make(map[string]*tree.Entry), make(map[string]*tree.Entry)
	for _, r := range slices.Backward(restores) {
		for d, err := range trees.Compare(ctx, m.tree.pages, r.Base, r.State()) {
			if err != nil {
				return nil, err
			}
			if _, ok := was[d.Path]; !ok {
				was[d.Path] = d.Old
			}
			is[d.Path] = d.New
		}
	}
	var files []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
		old, now := fileOf(was[path]), fileOf(is[path])
		verb := "changed"
		switch {
		case old == nil && now == nil, old != nil && now != nil && old.ID == now.ID && old.Mode == now.Mode:
			continue
		case now == nil:
			verb = "deleted"
		case old == nil:
			verb = "brought back"
		}
		text := verb + " " + words.Quoted(words.FirstLine(path, maxNameSince))
		if old != nil && now != nil && len(files) < maxHunksSince {
			n, err := m.hunksOf(ctx, path, old, now)
			if err != nil {
				return nil, err
			}
			text += n
		}
		files = append(files, text)
	}
	return files, nil
}

// hunksOf says in brackets at how many places two states of a file differ; "" for what is
// no text, long, not there any more, or at a remote: a turn does not wait for that.
func (m *FileSnapshotManager) hunksOf(ctx context.Context, path string, old, now *tree.Entry) (string, error) {
	var states [2]hunks.State
	for i, e := range []*tree.Entry{old, now} {
		if e.Size > maxSizeSince {
			return "", nil
		}
		var err error
		states[i], err = m.hunkState(cas.WithoutFetcher(ctx, nil), path, e)
		if _, err := lost(err); err != nil && !cas.IsPromised(err) {
			return "", err
		}
		if err != nil || !states[i].IsText() {
			return "", nil
		}
	}
	return " (" + words.Count(len(hunks.Between(path, states[0], states[1])), "hunk") + ")", nil
}

// changing returns those of some turns that changed something.
func changing(turns []*record) []*record {
	return slices.DeleteFunc(turns, func(r *record) bool { return r.Kind == history.KindEmpty })
}

// fileOf returns an entry that is no directory; nil: there is none.
func fileOf(e *tree.Entry) *tree.Entry {
	if e == nil || e.Mode.IsDir() {
		return nil
	}
	return e
}

// turnsText names turns, the first few if there are many.
func turnsText(turns []int) string {
	const most = 5
	text := fmt.Sprint("turn ", turns[0])
	if len(turns) > 1 {
		text = fmt.Sprint("turns ", turns[0])
	}
	for _, n := range turns[1:min(len(turns), most)] {
		text += fmt.Sprint(", ", n)
	}
	if more := len(turns) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tellSinceLast puts into the result what a turn that begins was asked to be told. What
// cannot be told is no reason not to begin.
func (o *look) tellSinceLast(ctx context.Context, head *record) {
	text, err := o.m.sinceLast(ctx, head)
	if err != nil && !errors.Is(err, context.Canceled) {
		o.m.log.Warn("what was taken back since the last turn is not known", "session", o.m.opts.Session, "err", err)
	}
	o.result.SinceLast = text
}
