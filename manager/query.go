package manager

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/boocode/filestore/session"
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
	log, err := m.entries(ctx)
	if err != nil {
		return nil, err
	}
	if leaf == "@" || log == nil {
		return m.snapshotOf(ctx, leaf)
	}
	steps, err := m.logSteps(log, leaf)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return m.snapshotOf(ctx, "start")
	}
	return m.snapshotOf(ctx, steps[len(steps)-1].ID)
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
	switch {
	case p.step == nil:
		s.SnapshotTreeHash = p.State.Tree
		if p.Snapshot != nil {
			s.SnapshotSeq = p.Snapshot.Seq
		}
	case p.step.record == nil:
		s.StepSnapshotData = *p.step.data
	default:
		changes, err := m.changes(ctx, p.step.record)
		if err != nil {
			return nil, err
		}
		s.StepSnapshotData = *m.dataOf(p.step.record, changes)
	}
	return s, nil
}

// A Range asks for what changed between two points. Both are what
// [FileSnapshotManager.Resolve] takes.
type Range struct {
	From string // default "start"
	To   string // default "@"

	All     bool // rows that come to nothing, too, and those whose path is not on the disk but in what is captured of it
	Foreign bool // rows of changes that are not of turns between the points, too: the user's, other sessions', other branches'
	Renames bool // say of added files where they came from

	Limit  int    // rows at most; default all
	Cursor string // NextCursor of the part before; default from the first
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if r == nil {
		r = new(Range)
	}
	after, err := base64.StdEncoding.DecodeString(r.Cursor)
	if err != nil || r.Limit < 0 {
		return nil, fmt.Errorf("modified files: limit %d, cursor %q: not an answer's", r.Limit, r.Cursor)
	}
	from, to, err := m.ends(ctx, r.From, r.To)
	if err != nil {
		return nil, fmt.Errorf("modified files: %w", err)
	}
	rows, err := m.rows(ctx, from, to)
	if err == nil && r.Foreign {
		err = m.addForeign(ctx, rows, from, to)
	}
	if err != nil {
		return nil, fmt.Errorf("modified files: %w", err)
	}
	list := []ModifiedFileInfo{}
	var diffs []tree.Difference // of the paths in list
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		row := rows[path]
		d, err := m.net(ctx, from.State, to.State, path)
		if err != nil {
			return nil, fmt.Errorf("modified files: %w", err)
		}
		if row.NetStatus = d.Status.String(); d.Status == 0 {
			row.NetStatus = "none"
		}
		if !r.All && (d.Status == 0 || d.Status == tree.Captured || d.Status == tree.Uncaptured) {
			continue
		}
		row.Path, row.PathBytes = path, bytesUnlessText(path)
		list, diffs = append(list, *row), append(diffs, d)
	}
	if r.Renames {
		renames, _, err := Renames(diffs, func(d *tree.Difference, e *tree.Entry) ([]byte, error) {
			return m.store.Get(ctx, store.Blob, e.ID)
		})
		if err != nil {
			return nil, fmt.Errorf("modified files: %w", err)
		}
		for _, n := range renames {
			list[n.To].RenamedFrom = diffs[n.From].Path
		}
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

// ends resolves the two points of a question.
func (m *FileSnapshotManager) ends(ctx context.Context, from, to string) (a, b *Point, err error) {
	if to == "" {
		to = "@"
	}
	if b, err = m.resolve(ctx, to); err != nil {
		return nil, nil, err
	}
	if from == "" {
		from = "start"
	}
	a, err = m.resolve(ctx, from)
	return a, b, err
}

// rows collects what the turns on the way changed, without NetStatus.
func (m *FileSnapshotManager) rows(ctx context.Context, from, to *Point) (map[string]*ModifiedFileInfo, error) {
	back, forth, err := m.way(ctx, from, to)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]*ModifiedFileInfo)
	add := func(s *step, seen func(tree.Status) tree.Status) error {
		changes, err := m.stepChanges(ctx, s)
		if err != nil {
			return fmt.Errorf("turn %d: %w", s.turn(), err)
		}
		for _, c := range changes {
			row := rows[c.path]
			if row == nil {
				row = &ModifiedFileInfo{Status: seen(c.status).String(), TurnIndex: s.turn(), EntryID: s.entry, Owner: c.owner}
				rows[c.path] = row
			}
			row.LastTurnIndex, row.LastEntryID = s.turn(), s.entry
			if c.owner == Contested || row.Owner == OwnTurn {
				row.Owner = c.owner
			}
		}
		return nil
	}
	for _, s := range back {
		if err := add(s, invert); err != nil {
			return nil, err
		}
	}
	for _, s := range forth {
		if err := add(s, func(status tree.Status) tree.Status { return status }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// stepChanges returns what a step changed, as the store recorded it or, where
// it has not, as the log says.
func (m *FileSnapshotManager) stepChanges(ctx context.Context, s *step) ([]change, error) {
	if s.record != nil {
		return m.changes(ctx, s.record)
	}
	var changes []change
	for _, part := range []struct {
		diff  *Diff
		owner Owner
	}{{s.data.Diff, OwnTurn}, {s.data.Contested, Contested}} {
		if part.diff == nil {
			continue
		}
		for path, status := range part.diff.Paths() {
			changes = append(changes, change{path: path, status: status, owner: part.owner})
		}
	}
	return changes, nil
}

// way returns the steps that lead from one point to another: those to undo,
// newest first, and those to do then, oldest first.
func (m *FileSnapshotManager) way(ctx context.Context, from, to *Point) (back, forth []*step, err error) {
	log, err := m.entries(ctx)
	if err != nil {
		return nil, nil, err
	}
	if log == nil || !isIn(log, from) || !isIn(log, to) {
		return m.wayByRecords(ctx, from, to)
	}
	a, err := m.logSteps(log, from.entry)
	if err != nil {
		return nil, nil, err
	}
	b, err := m.logSteps(log, to.entry)
	if err != nil {
		return nil, nil, err
	}
	common := 0
	for common < min(len(a), len(b)) && a[common].ID == b[common].ID {
		common++
	}
	steps := func(entries []*session.Entry) (list []*step, err error) {
		for _, e := range entries {
			s, err := m.stepOf(ctx, e)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
		return list, nil
	}
	if back, err = steps(a[common:]); err != nil {
		return nil, nil, err
	}
	slices.Reverse(back)
	forth, err = steps(b[common:])
	return back, forth, err
}

// isIn reports whether a log has the way to a point.
func isIn(log *session.Tree, p *Point) bool {
	if p.entry == "" { // before all entries, or a state between two
		return p.step == nil && (p.Snapshot == nil && p.isStart || p.Snapshot != nil && p.Snapshot.Kind == kindStart)
	}
	_, ok := log.Entry(p.entry)
	return ok
}

// wayByRecords is way where there is no log but the records.
func (m *FileSnapshotManager) wayByRecords(ctx context.Context, from, to *Point) (back, forth []*step, err error) {
	var a, b *record
	for _, end := range []struct {
		p *Point
		r **record
	}{{from, &a}, {to, &b}} {
		if end.p.Snapshot == nil {
			return nil, nil, fmt.Errorf("tree %s: %w: not a snapshot of the session", end.p.State.Tree.Short(), ErrUnknown)
		}
		r, err := m.record(ctx, end.p.Snapshot.Seq)
		if err != nil {
			return nil, nil, err
		}
		if *end.r, err = m.stepAt(ctx, r.step()); err != nil {
			return nil, nil, err
		}
	}
	prev := func(r *record) (*record, error) { return m.stepAt(ctx, r.data.Prev) }
	stepOf := func(r *record) *step { return &step{entry: r.Entry, record: r} }
	for a.Seq != b.Seq {
		if a.Kind == kindStart && b.Kind == kindStart {
			break // of two sessions
		}
		if a.Kind != kindStart && (a.data.Depth >= b.data.Depth || b.Kind == kindStart) {
			back = append(back, stepOf(a))
			if a, err = prev(a); err != nil {
				return nil, nil, err
			}
			continue
		}
		forth = append(forth, stepOf(b))
		if b, err = prev(b); err != nil {
			return nil, nil, err
		}
	}
	slices.Reverse(forth)
	return back, forth, nil
}

// net tells what two states say of a path; a zero Status: it is the same.
func (m *FileSnapshotManager) net(ctx context.Context, old, new store.State, path string) (tree.Difference, error) {
	net := tree.Difference{Path: path}
	for d, err := range tree.CompareAt(ctx, m.store, old, new, path) {
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
func (m *FileSnapshotManager) addForeign(ctx context.Context, rows map[string]*ModifiedFileInfo, from, to *Point) error {
	if from.Snapshot == nil || to.Snapshot == nil {
		return fmt.Errorf("changes of others: %w: a point was not recorded", ErrUnknown)
	}
	low, high := from.Snapshot.Seq, to.Snapshot.Seq
	seen := func(status tree.Status) tree.Status { return status }
	if low > high {
		low, high, seen = high, low, invert
	}
	var newer *record
	for r, err := range m.since(ctx, high, low-1) {
		if err != nil {
			return err
		}
		if newer != nil {
			if err := m.addStretch(ctx, rows, r, newer, seen); err != nil {
				return err
			}
		}
		newer = r
	}
	return nil
}

// addStretch adds rows for what changed between two records that follow one
// another.
func (m *FileSnapshotManager) addStretch(ctx context.Context, rows map[string]*ModifiedFileInfo, r, newer *record, seen func(tree.Status) tree.Status) error {
	mine := slices.Contains(newer.data.Windows, m.opts.Session)
	owner := Offline
	switch {
	case newer.data.After != r.Seq: // a record in between is lost
		owner = Contested
	case mine && len(newer.data.Windows) == 1:
		owner = Branch
	case len(newer.data.Windows) > 0:
		owner = Other
	}
	for d, err := range tree.Compare(ctx, m.store, r.State(), newer.State()) {
		if err != nil {
			return err
		}
		row := rows[d.Path]
		switch {
		case row == nil || row.TurnIndex < 0:
			rows[d.Path] = &ModifiedFileInfo{Status: seen(d.Status).String(), TurnIndex: -1, LastTurnIndex: -1, Owner: owner}
		case !mine:
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
	if err != nil || p.step != nil || p.Snapshot == nil || p.Snapshot.Kind == kindStart || p.Snapshot.Base.IsZero() {
		return s, err
	}
	diff, err := m.diff(ctx, p.Snapshot.Base, p.State)
	if err != nil {
		return nil, err
	}
	s.BaselineTreeHash, s.Diff = &p.Snapshot.Base.Tree, diff.orNil()
	return s, nil
}
