// Package windows tells whose change it is. A window is the time in which a session may be
// the cause of what changes; the records say which windows were open between two looks at
// the directory. So a turn has stretches, in which its session had one, and what it did to
// a path is what happened there in these, but for what others have claimed.
//
// It only reads records and trees; package manager opens windows and looks.
package windows

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// Join merges stretches that follow one another without a gap, and drops those
// that come to nothing.
func Join(list []history.Stretch) []history.Stretch {
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

// An Owner says whose a change is that a turn has made, or may have.
type Owner string

const (
	Own       Owner = "turn"      // made while a turn of the session was the only one to run
	Claimed   Owner = "claimed"   // named by the session as written
	Contested Owner = "contested" // made while turns of several sessions ran, or after one was cut off
)

// A Change is what a turn did to a path: from the state in which it found it
// first to the one in which it left it last.
type Change struct {
	Path     string
	Status   tree.Status
	Old, New *tree.Entry // nil: absent
	Owner    Owner
	Mixed    bool // somebody else has changed it in between
}

// A PathSet is a set of paths.
type PathSet map[string]bool

// Has reports whether a path, or a directory above it, is in the set.
func (s PathSet) Has(path string) bool {
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

func NewPathSet(paths [][]byte) PathSet {
	set := make(PathSet, len(paths))
	for _, p := range paths {
		set[string(p)] = true
	}
	return set
}

// ChangesOf returns what stretches of a turn changed, in order of path. Claims
// settle what is contested: those of the session for it, those of others
// (foreign) against it, and not those of both.
func ChangesOf(ctx context.Context, g trees.Getter, list []history.Stretch, claims,
	foreign PathSet) ([]Change, error) {
	found := make(map[string]*Change)
	for _, s := range list {
		for d, err := range trees.Compare(ctx, g, s.From, s.To) {
			if err != nil {
				return nil, err
			}
			if owner, ok := OwnerIn(s, d.Path, claims, foreign); ok {
				found[d.Path] = found[d.Path].then(&d, owner)
			}
		}
	}
	var changes []Change
	for _, path := range slices.Sorted(maps.Keys(found)) {
		c := found[path]
		if c.settle() {
			changes = append(changes, *c)
		}
	}
	return changes, nil
}

// OwnerIn tells whose a change in a stretch of a turn is; not ok: another
// session has claimed the path, and it is that one's.
func OwnerIn(s history.Stretch, path string, claims, foreign PathSet) (owner Owner, ok bool) {
	mine, theirs := claims.Has(path), s.Contested && foreign.Has(path)
	switch {
	case mine && !theirs:
		return Claimed, true
	case theirs && !mine:
		return "", false
	case s.Contested:
		return Contested, true
	}
	return Own, true
}

// then adds what became of a path later. A path that a directory replaces is
// deleted and added by one comparison.
func (c *Change) then(d *tree.Difference, owner Owner) *Change {
	if c == nil {
		return &Change{d.Path, d.Status, d.Old, d.New, owner, false}
	}
	c.Mixed = c.Mixed || trees.StatusOf(c.New, d.Old) != 0
	if d.Status == tree.Captured || d.Status == tree.Uncaptured {
		if c.Status != tree.Captured && c.Status != tree.Uncaptured {
			return c // it was changed on the disk as well
		}
		c.Status = d.Status
	} else if c.Status == tree.Captured || c.Status == tree.Uncaptured {
		c.Old, c.Status = d.Old, d.Status
	}
	c.New = d.New
	if owner == Contested || c.Owner == Contested {
		c.Owner = Contested
	} else if owner == Claimed {
		c.Owner = Claimed
	}
	return c
}

// settle sets the status to what the two ends say, and reports whether there
// is something to say: they differ, or what somebody did in between is gone.
func (c *Change) settle() bool {
	if c.Status == tree.Captured || c.Status == tree.Uncaptured {
		return true
	}
	if c.Status = trees.StatusOf(c.Old, c.New); c.Status == 0 && c.Mixed {
		c.Status = tree.Modified
	}
	return c.Status != 0
}

// Stretches returns what happened in the windows of a turn after the record
// seq of the worktree and up to newest, and what state the directory had
// there. A turn that nobody announced has had every moment in which no other
// turn was open.
func Stretches(ctx context.Context, rs *history.Records, newest uint64, o *history.OpenTurn,
	announced bool) ([]history.Stretch, error) {
	var records []*history.Record
	for r, err := range rs.Since(ctx, newest, o.After) {
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
	return Join(list), nil
}

// StretchesOf returns the stretches of a turn, or of what is left of one.
func StretchesOf(ctx context.Context, rs *history.Records, r *history.Record) ([]history.Stretch, error) {
	if look := r.Behind; look != nil {
		return Stretches(ctx, rs, r.Seq, &history.OpenTurn{Session: r.Session, After: look.Seq, Base: look.State()},
			true)
	}
	return r.Stretches(), nil
}

// Changes returns what a turn changed, or a part of one, as the records have it.
func Changes(ctx context.Context, rs *history.Records, g trees.Getter, r *history.Record) ([]Change, error) {
	list, err := StretchesOf(ctx, rs, r)
	if err != nil {
		return nil, err
	}
	return ChangesOf(ctx, g, list, NewPathSet(r.Facts.Claims), NewPathSet(r.Facts.Foreign))
}
