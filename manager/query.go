package manager

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A StepSnapshot is a snapshot of a session: what a turn left.
type StepSnapshot struct {
	EntryID string // "": the start of the session, or the entry is not known
	StepSnapshotData
}

// SnapshotAtTurn returns the snapshot of turn n on the path to the leaf. A
// turn that changed nothing has that of the one before, and at last that of
// the start of the session. The error matches [ErrUnknown] if there was no
// such turn, or nobody remembers it: turns behind the last step that changed
// nothing are known to the manager that ran them.
func (m *FileSnapshotManager) SnapshotAtTurn(ctx context.Context, n int) (*StepSnapshot, error) {
	return m.snapshotAt(ctx, fmt.Sprint("turn:", n))
}

// SnapshotAtEntry returns the snapshot that an entry of the session stands
// for: its own if it has one; that of its turn for a message of the agent or
// a result of its tools; else the one before it on its path. Errors are those
// of [FileSnapshotManager.Resolve].
func (m *FileSnapshotManager) SnapshotAtEntry(ctx context.Context, entry string) (*StepSnapshot, error) {
	return m.snapshotAt(ctx, entry)
}

// LatestSnapshotOnPath returns the newest snapshot on the path to a leaf; ""
// is where the session stands. Errors are those of
// [FileSnapshotManager.Resolve]; an unknown leaf matches
// [session.ErrUnknownEntry].
func (m *FileSnapshotManager) LatestSnapshotOnPath(ctx context.Context, leaf string) (*StepSnapshot, error) {
	if leaf == "" {
		leaf = "@"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	if leaf == "@" || l.log == nil {
		return m.snapshotOf(ctx, leaf)
	}
	r, err := l.at(ctx, leaf, false)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return m.snapshotOf(ctx, "start")
	}
	p, err := l.stepPoint(ctx, r)
	if err != nil {
		return nil, err
	}
	return m.stepSnapshot(ctx, p)
}

func (m *FileSnapshotManager) snapshotAt(ctx context.Context, rev string) (*StepSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshotOf(ctx, rev)
}

func (m *FileSnapshotManager) snapshotOf(ctx context.Context, rev string) (*StepSnapshot, error) {
	p, err := m.resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	return m.stepSnapshot(ctx, p)
}

func (m *FileSnapshotManager) stepSnapshot(ctx context.Context, p *Point) (*StepSnapshot, error) {
	s := &StepSnapshot{EntryID: p.EntryID}
	switch r := p.step(); {
	case r == nil:
		s.SnapshotTreeHash = p.State.Tree
		if p.Snapshot != nil {
			s.SnapshotSeq = p.Snapshot.Seq
		}
	case r.Logged != nil:
		s.StepSnapshotData = *loggedData(r)
	default:
		d, err := m.readData(ctx, r)
		if err != nil {
			return nil, err
		}
		s.StepSnapshotData = *d
	}
	return s, nil
}

// A Range asks for what changed between two points. Both are what
// [FileSnapshotManager.Resolve] takes.
type Range struct {
	From string `json:"from,omitempty"` // default "start"
	To   string `json:"to,omitempty"`   // default: where the session's files stand now

	// All lists rows that come to nothing, too, and those whose path is not on the
	// disk but in what is captured of it.
	All bool `json:"all,omitempty"`
	// Foreign lists rows of changes that are not of turns between the points, too:
	// the user's, other sessions', other branches'.
	Foreign bool `json:"foreign,omitempty"`
	Renames bool `json:"renames,omitempty"` // say of added files where they came from

	Limit  int    `json:"limit,omitempty"`  // rows at most; default all
	Cursor string `json:"cursor,omitempty"` // NextCursor of the part before; default from the first
}

// ModifiedFiles are the answer to a Range.
type ModifiedFiles struct {
	Files      []ModifiedFileInfo `json:"files"`                // in order of path
	NextCursor string             `json:"nextCursor,omitempty"` // there is more: ask with this
}

// ModifiedFiles lists the paths that the session's turns changed between two
// points, one row for each. Where the points are on different branches, the
// way leads from one to the other over the step that both have in common:
// turns that are undone on it count from their end, so that a file that one
// of them added is deleted.
//
// Errors are those of [FileSnapshotManager.Resolve].
func (m *FileSnapshotManager) ModifiedFiles(ctx context.Context, r *Range) (*ModifiedFiles, error) {
	return asking(ctx, m, "modified files", func(ctx context.Context) (*ModifiedFiles, error) {
		return m.modifiedFiles(ctx, r)
	})
}

func (m *FileSnapshotManager) modifiedFiles(ctx context.Context, r *Range) (*ModifiedFiles, error) {
	r = cmp.Or(r, new(Range))
	after, err := base64.StdEncoding.DecodeString(r.Cursor)
	if err != nil || r.Limit < 0 {
		return nil, fmt.Errorf("limit %d, cursor %q: %w", r.Limit, r.Cursor, inside.ErrPage)
	}
	list, diffs, err := m.modified(ctx, r)
	if err != nil {
		return nil, err
	}
	skip, _ := slices.BinarySearchFunc(diffs, string(after), func(d tree.Difference, after string) int {
		if r.Cursor == "" || d.Path > after {
			return 1
		}
		return -1
	})
	answer := &ModifiedFiles{Files: list[skip:]}
	if r.Limit > 0 && len(answer.Files) > r.Limit {
		answer.Files = answer.Files[:r.Limit]
		answer.NextCursor = base64.StdEncoding.EncodeToString([]byte(diffs[skip+r.Limit-1].Path))
	}
	return answer, nil
}

// modified returns all rows that are asked for, with what differs at the path of each.
func (m *FileSnapshotManager) modified(ctx context.Context, r *Range) ([]ModifiedFileInfo, []tree.Difference, error) {
	from, to, err := m.ends(ctx, r.From, r.To)
	if err != nil {
		return nil, nil, err
	}
	rows, err := m.rows(ctx, from, to)
	if err == nil && r.Foreign {
		err = m.addForeign(ctx, rows, from, to)
	}
	if err != nil {
		return nil, nil, err
	}
	list, diffs := []ModifiedFileInfo{}, []tree.Difference(nil)
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		row := rows[path]
		d, err := m.net(ctx, from.State, to.State, path)
		if err != nil {
			return nil, nil, err
		}
		// Whatever was left out around it at the other end: the turns made it
		// where nothing was, or deleted what was there.
		switch {
		case d.Status == tree.Captured && row.Status == tree.Added.String():
			d.Status = tree.Added
		case d.Status == tree.Uncaptured && row.Status == tree.Deleted.String():
			d.Status = tree.Deleted
		}
		if row.NetStatus = d.Status.String(); d.Status == 0 {
			row.NetStatus = "none"
		}
		if !r.All && (d.Status == 0 || d.Status == tree.Captured || d.Status == tree.Uncaptured) {
			continue
		}
		row.Path, row.PathBytes = path, words.BytesUnlessText(path)
		list, diffs = append(list, *row), append(diffs, d)
	}
	if !r.Renames {
		return list, diffs, nil
	}
	read := func(_ *tree.Difference, e *tree.Entry) ([]byte, error) { return m.store.Get(ctx, object.Blob, e.ID) }
	renames, _, err := trees.Renames(diffs, filediff.MaxText, read)
	for _, n := range renames {
		list[n.To].RenamedFrom = diffs[n.From].Path
	}
	return list, diffs, err
}

// ends resolves the two points of a question.
func (m *FileSnapshotManager) ends(ctx context.Context, from, to string) (a, b *Point, err error) {
	if to == "" {
		b, err = m.now(ctx)
	} else {
		b, err = m.resolve(ctx, to)
	}
	if err != nil {
		return nil, nil, err
	}
	if from == "" {
		from = "start"
	}
	a, err = m.resolve(ctx, from)
	return a, b, err
}

// now returns the point at which the session's files stand: "@", unless a restore since has put
// them where no turn has ended. It holds what the newest restore behind it has left: of files that
// somebody else has changed that may be something else than the turn left.
func (m *FileSnapshotManager) now(ctx context.Context) (*Point, error) {
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	tip, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	p := pointOf(tip)
	if tip.IsTurn() || tip.Kind == history.KindStart {
		if p, err = m.resolve(ctx, "@"); err != nil {
			return nil, err
		}
	}
	head, err := m.records.Newest(m.opts.Session)
	if err != nil || head == nil {
		return p, err
	}
	restored := head.Facts.Restored
	if head.Kind == history.KindRestore {
		restored = head.Seq
	}
	if restored <= tip.Seq {
		return p, nil
	}
	r, err := m.records.Record(ctx, restored)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	case !r.Pruned && r.Position() == tip.Seq:
		p.State, p.Snapshot = r.State(), r.Snapshot
	}
	return p, nil
}

// rows collects what the turns on the way changed, without NetStatus.
func (m *FileSnapshotManager) rows(ctx context.Context, from, to *Point) (map[string]*ModifiedFileInfo, error) {
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	a, err := m.positionOf(ctx, from)
	if err != nil {
		return nil, err
	}
	b, err := m.positionOf(ctx, to)
	if err != nil {
		return nil, err
	}
	s := l.Paths(m.tree.pages)
	back, forth, err := s.Between(ctx, a, b)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]*ModifiedFileInfo)
	add := func(changes map[string][]standing.StepChange, seen func(tree.Status) tree.Status) error {
		for path, list := range changes {
			for _, sc := range list {
				r, err := s.TurnOf(ctx, &sc)
				if err != nil {
					return err
				}
				row := rows[path]
				if row == nil {
					row = &ModifiedFileInfo{Status: seen(sc.Change.Status).String(), TurnIndex: r.Turn(),
						EntryID: r.Entry, Owner: Owner(sc.Change.Owner)}
					rows[path] = row
				}
				row.LastTurnIndex, row.LastEntryID = r.Turn(), r.Entry
				if sc.Change.Owner == windows.Contested || row.Owner == OwnTurn {
					row.Owner = Owner(sc.Change.Owner)
				}
			}
		}
		return nil
	}
	if err := add(back, trees.Inverse); err != nil {
		return nil, err
	}
	return rows, add(forth, func(status tree.Status) tree.Status { return status })
}

// positionOf returns where files stand at a point. The error matches [ErrUnknown]
// if it is a tree that no session has recorded.
func (m *FileSnapshotManager) positionOf(ctx context.Context, p *Point) (*record, error) {
	if p.at != nil {
		return p.at, nil
	}
	if p.on != nil {
		return p.on, nil
	}
	if p.Snapshot == nil {
		return nil, fmt.Errorf("tree %s: %w: not a snapshot of the session", p.State.Tree.Short(), ErrUnknown)
	}
	r, err := m.records.Record(ctx, p.Snapshot.Seq)
	if err != nil {
		return nil, err
	}
	return m.records.StepAt(ctx, r.Position(), r.Session)
}

// net tells what two states say of a path; a zero Status: it is the same.
func (m *FileSnapshotManager) net(ctx context.Context, old, new store.State, path string) (tree.Difference, error) {
	net := tree.Difference{Path: path}
	for d, err := range trees.CompareAt(ctx, m.tree.pages, old, new, path) {
		if err != nil {
			return net, err
		}
		if net.Status != 0 { // an empty directory replaces a file, or a file one
			d.Status, d.Old = tree.Retyped, net.Old
		}
		net = d
	}
	return net, nil
}

// addForeign adds rows for what was not the session's doing, as the records of
// the worktree between two points have it.
func (m *FileSnapshotManager) addForeign(ctx context.Context, rows map[string]*ModifiedFileInfo, from,
	to *Point) error {
	if from.Snapshot == nil || to.Snapshot == nil {
		return fmt.Errorf("changes of others: %w: a point was not recorded", ErrUnknown)
	}
	low, high := from.Snapshot.Seq, to.Snapshot.Seq
	back := low > high
	if back {
		low, high = high, low
	}
	var newer *record
	for r, err := range m.records.Since(ctx, high, low-1) {
		if err != nil {
			return err
		}
		if newer != nil && newer.Kind != history.KindRestore {
			if err := m.addStretch(ctx, rows, r, newer, back); err != nil {
				return err
			}
		}
		newer = r
	}
	return nil
}

// addStretch adds rows for what changed between two records that follow one
// another. The records come newest first; back says that so do the changes.
func (m *FileSnapshotManager) addStretch(ctx context.Context, rows map[string]*ModifiedFileInfo, r,
	newer *record, back bool) error {
	mine := slices.Contains(newer.Facts.Windows, m.opts.Session)
	owner := Offline
	switch {
	case newer.IsAfterGap(r.Seq):
		owner = Contested
	case mine && len(newer.Facts.Windows) == 1:
		owner = Branch
	case len(newer.Facts.Windows) > 0:
		owner = Other
	}
	for d, err := range trees.Compare(ctx, m.tree.pages, r.State(), newer.State()) {
		if err != nil {
			return err
		}
		status := d.Status
		if back {
			status = trees.Inverse(status)
		}
		row := rows[d.Path]
		switch {
		case row == nil || row.TurnIndex < 0 && !back:
			rows[d.Path] = &ModifiedFileInfo{Status: status.String(), TurnIndex: -1, LastTurnIndex: -1, Owner: owner}
		case row.TurnIndex >= 0 && !mine:
			row.Mixed = true
		}
	}
	return nil
}

// Describe returns what is known of a snapshot that Resolve has found. Of one
// that is no turn's, Diff says what differs from the state before, unless it
// is the start of a session.
func (m *FileSnapshotManager) Describe(ctx context.Context, p *Point) (*StepSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.stepSnapshot(ctx, p)
	if err != nil || p.step() != nil || p.Snapshot == nil || p.Snapshot.Kind == history.KindStart ||
		p.Snapshot.Base.IsZero() {
		return s, err
	}
	diff, err := m.diff(ctx, p.Snapshot.Base, p.State)
	if diff.Unknown, err = lost(err); err != nil {
		return nil, err
	}
	s.BaselineTreeHash, s.Diff = &p.Snapshot.Base.Tree, diff.orNil()
	return s, nil
}
