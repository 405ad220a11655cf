package manager

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// join merges stretches that follow one another without a gap, and drops those
// that come to nothing.
func join(list []history.Stretch) []history.Stretch {
	var out []history.Stretch
	for _, s := range list {
		if n := len(out); n > 0 && out[n-1].To == s.From && out[n-1].Contested == s.Contested {
			out[n-1].To = s.To
		} else {
			out = append(out, s)
		}
	}
	return slices.DeleteFunc(out, func(s history.Stretch) bool { return s.From.Tree == s.To.Tree })
}

// A pathChange is what a turn did to a path: from the state in which it found it
// first to the one in which it left it last.
type pathChange struct {
	path     string
	status   tree.Status
	old, new *tree.Entry // nil: absent
	owner    Owner
	mixed    bool // somebody else has changed it in between
}

// pathSet is a set of paths.
type pathSet map[string]bool

// has reports whether a path, or a directory above it, is in the set.
func (s pathSet) has(path string) bool {
	for len(s) > 0 {
		if s[path] {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
	return false
}

func newPathSet(paths [][]byte) pathSet {
	set := make(pathSet, len(paths))
	for _, p := range paths {
		set[string(p)] = true
	}
	return set
}

// changesOf returns what stretches of a turn changed, in order of path. Claims
// settle what is contested: those of the session for it, those of others
// (foreign) against it, and not those of both.
func changesOf(ctx context.Context, g trees.Getter, list []history.Stretch, claims,
	foreign pathSet) ([]pathChange, error) {
	found := make(map[string]*pathChange)
	for _, s := range list {
		for d, err := range trees.Compare(ctx, g, s.From, s.To) {
			if err != nil {
				return nil, err
			}
			if owner, ok := ownerIn(s, d.Path, claims, foreign); ok {
				found[d.Path] = found[d.Path].then(&d, owner)
			}
		}
	}
	var changes []pathChange
	for _, path := range slices.Sorted(maps.Keys(found)) {
		c := found[path]
		if c.settle() {
			changes = append(changes, *c)
		}
	}
	return changes, nil
}

// ownerIn tells whose a change in a stretch of a turn is; not ok: another
// session has claimed the path, and it is that one's.
func ownerIn(s history.Stretch, path string, claims, foreign pathSet) (owner Owner, ok bool) {
	mine, theirs := claims.has(path), s.Contested && foreign.has(path)
	switch {
	case mine && !theirs:
		return Claimed, true
	case theirs && !mine:
		return "", false
	case s.Contested:
		return Contested, true
	}
	return OwnTurn, true
}

// then adds what became of a path later. A path that a directory replaces is
// deleted and added by one comparison.
func (c *pathChange) then(d *tree.Difference, owner Owner) *pathChange {
	if c == nil {
		return &pathChange{d.Path, d.Status, d.Old, d.New, owner, false}
	}
	c.mixed = c.mixed || netStatus(c.new, d.Old) != 0
	if d.Status == tree.Captured || d.Status == tree.Uncaptured {
		if c.status != tree.Captured && c.status != tree.Uncaptured {
			return c // it was changed on the disk as well
		}
		c.status = d.Status
	} else if c.status == tree.Captured || c.status == tree.Uncaptured {
		c.old, c.status = d.Old, d.Status
	}
	c.new = d.New
	if owner == Contested || c.owner == Contested {
		c.owner = Contested
	} else if owner == Claimed {
		c.owner = Claimed
	}
	return c
}

// settle sets the status to what the two ends say, and reports whether there
// is something to say: they differ, or what somebody did in between is gone.
func (c *pathChange) settle() bool {
	if c.status == tree.Captured || c.status == tree.Uncaptured {
		return true
	}
	if c.status = netStatus(c.old, c.new); c.status == 0 && c.mixed {
		c.status = tree.Modified
	}
	return c.status != 0
}

// netStatus tells how two entries of a path differ; 0: they do not.
func netStatus(old, new *tree.Entry) tree.Status {
	switch {
	case old == nil && new == nil:
		return 0
	case old == nil:
		return tree.Added
	case new == nil:
		return tree.Deleted
	case old.Mode.Kind() != new.Mode.Kind():
		return tree.Retyped
	case old.Mode != new.Mode || old.ID != new.ID && !old.Mode.IsDir():
		return tree.Modified
	}
	return 0
}

// invert returns a status as seen from the other end.
func invert(s tree.Status) tree.Status {
	switch s {
	case tree.Added:
		return tree.Deleted
	case tree.Deleted:
		return tree.Added
	case tree.Captured:
		return tree.Uncaptured
	case tree.Uncaptured:
		return tree.Captured
	}
	return s
}

// diffsOf returns a turn's own changes and the contested ones as lists.
func diffsOf(changes []pathChange) (own, contested *Diff) {
	own, contested = newDiff(), newDiff()
	for _, c := range changes {
		if c.owner == Contested {
			contested.Add(c.path, c.status)
		} else {
			own.Add(c.path, c.status)
		}
	}
	return own, contested
}

// stretches returns what happened in the windows of a turn after the record
// seq of the worktree and up to newest, and what state the directory had
// there. A turn that nobody announced has had every moment in which no other
// turn was open.
func (m *FileSnapshotManager) stretches(ctx context.Context, newest uint64, o *history.OpenTurn,
	announced bool) ([]history.Stretch, error) {
	var records []*record
	for r, err := range m.records.Since(ctx, newest, o.After) {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	var list []history.Stretch
	state, seq := o.Base, o.After
	for _, r := range slices.Backward(records) {
		if r.Kind == history.KindRestore { // whose changes are nobody's turn
			state, seq = r.State(), r.Seq
			continue
		}
		windows := r.Facts.Windows
		mine := slices.Contains(windows, o.Session) || !announced && len(windows) == 0
		contested := len(windows) > 1 || len(windows) == 1 && windows[0] != o.Session
		if r.IsAfterGap(seq) {
			mine, contested = true, true
		}
		if mine && (o.End == 0 || r.Seq <= o.End) {
			list = append(list, history.Stretch{From: state, To: r.State(), Contested: contested})
		}
		state, seq = r.State(), r.Seq
	}
	return join(list), nil
}
