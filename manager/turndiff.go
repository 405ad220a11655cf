package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A TurnDiff says what a turn did to the files, and nothing that anybody else
// did meanwhile. Of a moment that is no turn it says what it found: the user's
// changes where Kind is "base", what was restored of a restore.
type TurnDiff struct {
	EntryID   string          // of the turn; "": not known, or it is none
	TurnIndex int             // of the turn; -1: it is none
	Kind      string          // as in a [Moment]
	Snapshot  *store.Snapshot // nil: the log has it, the store has not
	Changes   []TurnChange    // in order of path, those of one path in order of time
	Unknown   string          // why these are not known, as in Diff; "": they are

	Title, Agent, Model string // of the turn, as in a [Moment]
}

// A TurnChange is what a turn did to a path: one difference from the state in
// which it found the path to the one in which it left it. If somebody else has
// changed the path in between, there is one for each piece of the turn's own work.
// Both sides are in the store; a path that became a directory, or was one, is
// deleted and added, in two changes of one piece.
type TurnChange struct {
	tree.Difference
	Owner  Owner // OwnTurn, Claimed or Contested; of no turn Offline, Other or Contested; "": a restore's
	Piece  int   // from 1
	Pieces int   // of the path; 1: nobody has changed it in between
}

// TurnDiff returns what the turn did that a revision names. A turn that changed
// nothing has no changes, also where the revision then stands for the state
// that an earlier one left.
//
// Errors are those of [FileSnapshotManager.Resolve]; that of a tree that is no
// snapshot matches [ErrUnknown], that of a snapshot that was pruned
// [store.ErrPruned].
func (m *FileSnapshotManager) TurnDiff(ctx context.Context, rev string) (*TurnDiff, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.resolve(ctx, rev)
	if err != nil {
		return nil, fmt.Errorf("turn's diff: %w", err)
	}
	r := p.on
	switch {
	case r == nil && p.Snapshot == nil:
		err = fmt.Errorf("revision %q: %w: a tree, and not a turn of the session", rev, ErrUnknown)
	case r == nil:
		r, err = m.records.Record(ctx, p.Snapshot.Seq)
	}
	if err != nil {
		return nil, fmt.Errorf("turn's diff: %w", err)
	}
	if n := p.turn(rev); n != p.TurnIndex {
		return &TurnDiff{TurnIndex: n, Kind: history.KindStep}, nil
	}
	t, err := m.turnDiff(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("turn's diff: revision %q: %w", rev, err)
	}
	return t, nil
}

// turn returns the number of the turn that a revision names, which is not that of
// the point if the turn changed nothing.
func (p *Point) turn(rev string) int {
	if digits, ok := strings.CutPrefix(rev, "turn:"); ok { // it may have no record
		if n, err := parseNumber(digits); err == nil {
			return n
		}
	}
	if r := cmp.Or(p.end, p.at); r != nil && r.Kind == history.KindEmpty {
		return r.Turn()
	}
	return p.TurnIndex
}

// TurnDiff returns what [FileSnapshotManager.TurnDiff] says of the moment.
func (mo *Moment) TurnDiff(ctx context.Context) (*TurnDiff, error) {
	if mo.m == nil {
		return &TurnDiff{EntryID: mo.EntryID, TurnIndex: mo.TurnIndex, Kind: mo.Kind, Snapshot: mo.Snapshot}, nil
	}
	mo.m.mu.Lock()
	defer mo.m.mu.Unlock()
	return mo.m.turnDiff(ctx, mo.r)
}

// turnDiff is TurnDiff of a record.
func (m *FileSnapshotManager) turnDiff(ctx context.Context, r *record) (*TurnDiff, error) {
	if r.Pruned {
		return nil, fmt.Errorf("the snapshot %w", store.ErrPruned)
	}
	mo := m.momentOf(r)
	t := &TurnDiff{EntryID: mo.EntryID, TurnIndex: mo.TurnIndex, Kind: mo.Kind, Snapshot: mo.Snapshot,
		Title: m.title(ctx, r), Agent: mo.Agent, Model: mo.Model}
	var err error
	t.Changes, err = m.turnChanges(ctx, r)
	t.Unknown, err = lost(err)
	return t, err
}

// turnChanges returns what a TurnDiff of a record lists.
func (m *FileSnapshotManager) turnChanges(ctx context.Context, r *record) (changes []TurnChange, err error) {
	switch {
	case r.Logged != nil:
		return m.loggedPieces(ctx, r)
	case r.Kind == history.KindStep:
		return piecesOf(ctx, m.tree.pages, r.Stretches(), windows.NewPathSet(r.Facts.Claims),
			windows.NewPathSet(r.Facts.Foreign))
	case r.Kind == history.KindStart || r.Base.IsZero():
		return nil, nil
	}
	owner := foundOwner(r)
	for d, err := range trees.Compare(ctx, m.tree.pages, r.Base, r.State()) {
		if err != nil {
			return nil, err
		}
		changes = append(changes, TurnChange{d, owner, 1, 1})
	}
	return changes, nil
}

// foundOwner tells whose doing is what a record found that is no step.
func foundOwner(r *record) Owner {
	windows := r.Facts.Windows
	switch {
	case r.Kind == history.KindRestore:
		return ""
	case len(windows) == 0:
		return Offline
	case len(windows) > 1 || windows[0] == history.Nobody:
		return Contested
	case windows[0] != r.Session:
		return Other
	}
	return OwnTurn
}

// A piece is what a turn did to a path as long as nobody else changed it.
type piece struct {
	from, to store.State
	owner    windows.Owner
	last     int // number of the newest of its stretches
}

// pieces are those of a path, in order.
type pieces []piece

// add notes that a turn has changed a path in a stretch of this number.
func (l pieces) add(ctx context.Context, g trees.Getter, path string, i int, s history.Stretch, owner windows.Owner) (
	pieces, error) {
	next := piece{s.From, s.To, owner, i}
	if len(l) == 0 {
		return pieces{next}, nil
	}
	last := &l[len(l)-1]
	goesOn := last.last == i // the second of a file and a directory
	if !goesOn {
		var err error
		if goesOn, err = trees.IsSameAt(ctx, g, last.to, s.From, path); err != nil {
			return nil, err
		}
	}
	if !goesOn {
		return append(l, next), nil
	}
	last.to, last.last = s.To, i
	if owner == windows.Contested || last.owner == windows.Own {
		last.owner = owner
	}
	return l, nil
}

// piecesAt returns what a turn did to a path, with the same at both ends where it has
// taken all of it back.
func (m *FileSnapshotManager) piecesAt(ctx context.Context, r *record, path string) (list pieces, err error) {
	stretches, err := windows.StretchesOf(ctx, m.records, r)
	if err != nil {
		return nil, err
	}
	claims, foreign := windows.NewPathSet(r.Facts.Claims), windows.NewPathSet(r.Facts.Foreign)
	for i, s := range stretches {
		owner, own := windows.OwnerIn(s, path, claims, foreign)
		if !own {
			continue
		}
		isSame, err := trees.IsSameAt(ctx, m.tree.pages, s.From, s.To, path)
		if err == nil && !isSame {
			list, err = list.add(ctx, m.tree.pages, path, i, s, owner)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// piecesOf is changesOf, but what somebody else did between two stretches is in
// none of the changes: a piece ends where it was done, and the next one begins
// behind it.
func piecesOf(ctx context.Context, g trees.Getter, list []history.Stretch, claims,
	foreign windows.PathSet) ([]TurnChange, error) {
	byPath := make(map[string]pieces)
	unseen := make(map[string]TurnChange) // what only came to be captured, or left out
	for i, s := range list {
		for d, err := range trees.Compare(ctx, g, s.From, s.To) {
			if err != nil {
				return nil, err
			}
			owner, ok := windows.OwnerIn(s, d.Path, claims, foreign)
			switch {
			case !ok:
			case d.Status == tree.Captured || d.Status == tree.Uncaptured:
				unseen[d.Path] = TurnChange{d, Owner(owner), 1, 1}
			default:
				if byPath[d.Path], err = byPath[d.Path].add(ctx, g, d.Path, i, s, owner); err != nil {
					return nil, err
				}
			}
		}
	}
	var changes []TurnChange
	for path, d := range unseen {
		if len(byPath[path]) == 0 {
			changes = append(changes, d)
		}
	}
	for path, known := range byPath {
		ofPath, err := known.changes(ctx, g, path)
		if err != nil {
			return nil, err
		}
		changes = append(changes, ofPath...)
	}
	slices.SortStableFunc(changes, func(a, b TurnChange) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// changes returns those of the pieces of a path that have changed it.
func (l pieces) changes(ctx context.Context, g trees.Getter, path string) (changes []TurnChange, err error) {
	n := 0
	for _, p := range l {
		before := len(changes)
		for d, err := range trees.CompareAt(ctx, g, p.from, p.to, path) {
			if err != nil {
				return nil, err
			}
			changes = append(changes, TurnChange{Difference: d, Owner: Owner(p.owner), Piece: n + 1})
		}
		if len(changes) > before {
			n++
		}
	}
	for i := range changes {
		changes[i].Pieces = n
	}
	return changes, nil
}

// loggedPieces is piecesOf for a step that only a log knows: it has the names.
func (m *FileSnapshotManager) loggedPieces(ctx context.Context, r *record) ([]TurnChange, error) {
	list, err := loggedChanges(r)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b windows.Change) int { return strings.Compare(a.Path, b.Path) })
	var changes []TurnChange
	for _, c := range list {
		found := false
		for d, err := range trees.CompareAt(ctx, m.tree.pages, r.Base, r.State(), c.Path) {
			if err != nil {
				return nil, err
			}
			found = true
			changes = append(changes, TurnChange{d, Owner(c.Owner), 1, 1})
		}
		if !found { // changed, and changed back by somebody else
			return nil, lossError(fmt.Sprintf("its change of %q is not known: only the session's log has it", c.Path))
		}
	}
	return changes, nil
}

// atLook finds a record by its number. Which sessions it may be of is as with
// entries.
func (m *FileSnapshotManager) atLook(ctx context.Context, digits string) (*Point, error) {
	unknown := fmt.Errorf("revision %q: %w", history.LookPrefix+digits, ErrUnknown)
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || seq == 0 {
		return nil, fmt.Errorf("%w: want a number, as log lists it", unknown)
	}
	s, err := m.store.Snapshot(ctx, seq)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && history.IsEdit(s):
		return nil, unknown
	case err != nil:
		return nil, err
	}
	own, err := m.owns(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case !own:
		name := history.NameOf("", s)
		return nil, fmt.Errorf("revision %q: %w: of %q in %q", name, ErrOtherSession, s.Session, s.Root)
	}
	return m.recordPoint(ctx, s)
}

// A Touch says what changed a path last.
type Touch struct {
	TurnIndex int       `json:"turnIndex"` // -1: no turn did, but Owner, or a restore
	EntryID   string    `json:"entryId,omitempty"`
	Session   string    `json:"session"`         // whose turn it is
	Time      time.Time `json:"time"`            // zero: not known
	Owner     Owner     `json:"owner,omitempty"` // as in a TurnChange
	Title     string    `json:"title,omitempty"` // of the turn, as in a [Moment]
	Agent     string    `json:"agent,omitempty"`
	Model     string    `json:"model,omitempty"`
}

// WhereIs returns what changed a path last, as far as the session knows. The error
// matches [ErrUnknown] if nothing did, [store.ErrPruned] if that is not known any more.
func (m *FileSnapshotManager) WhereIs(ctx context.Context, path string) (*Touch, error) {
	rel, err := m.relative(path)
	if err != nil {
		return nil, err
	}
	for mo, err := range m.Timeline(ctx) {
		d := new(TurnDiff)
		if err == nil {
			d, err = mo.TurnDiff(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("where is %q: %w", rel, err)
		}
		if i := slices.IndexFunc(d.Changes, func(c TurnChange) bool { return c.Path == rel }); i >= 0 {
			t := &Touch{TurnIndex: mo.TurnIndex, EntryID: mo.EntryID, Owner: d.Changes[i].Owner,
				Session: cmp.Or(mo.ForkedFrom, m.Session()), Title: mo.Title, Agent: mo.Agent, Model: mo.Model}
			if mo.Snapshot != nil {
				t.Time = mo.Snapshot.Time.UTC()
			}
			return t, nil
		}
	}
	return nil, m.unlessLost(ctx, fmt.Errorf("where is %q: %w: no turn changed it", rel, ErrUnknown))
}
