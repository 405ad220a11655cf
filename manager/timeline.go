package manager

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
)

// A Moment is a line of a session's timeline: a turn, the start of the session,
// a restore, or what was found changed that no turn did.
type Moment struct {
	EntryID   string // of a turn or a start; "": not known
	TurnIndex int    // of a turn; -1 of the others
	// "step", "empty" for a turn that changed nothing, "start", "fork", "restore", "undo",
	// "redo", "base" for what no turn did, or "unknown" for what was found where the
	// store has lost what was recorded last
	Kind        string
	Added       int // paths that it added
	Modified    int // and so on
	Deleted     int
	Unknown     string          // why these three are not known, as in Diff
	Title       string          // of a turn: what it was to do, as its [Turn] said; it may have many lines
	Agent       string          // that ran it
	Model       string          // that was asked
	Interrupted bool            // the turn was cut off
	GoesOn      bool            // it is a part of a turn that a restore within it, or a look ahead at one, divided
	Partial     bool            // a limit was reached
	Tree        store.ID        // what the files were then
	Snapshot    *store.Snapshot // nil: the log has it, the store has not

	// Of a turn that is not on the line: the restore that took it back, and the
	// paths at which what it did is in all the same. Of one that is on the line:
	// the paths at which what it did is not in, or not all of it.
	TakenBack *store.Snapshot
	But       []string
	Without   []string
	InPart    []string // those of But and Without at which a part of it is in, and a part is not

	Elsewhere bool   // the turn is on another branch of the conversation
	NotIn     bool   // and what it did is not in: only 'snapctl log --graph' lists it
	Prev      uint64 // Seq of the turn that it builds on, or of the start; 0: not known, or not asked for
	// The session whose turn it is, or that a fork began from; of a turn of another machine its
	// directory, REMOTE:PATH; "": the session itself.
	ForkedFrom string
	TookBack   []int // turns that a restore took back
	PutBack    []int // and those that it put back
	PartOf     []int // those of both of which it was only a part: it went to the middle of a turn, or from there
	Aborted    bool  // the restore was stopped, and what it had changed was changed back: that is counted
	// turns that it was asked to take back by name, of PATHs perhaps, or of which it was to take
	// back single hunks; none: it went to a moment
	Reverts []int

	m *FileSnapshotManager // nil: nothing has changed it
	r *record
}

// Changes lists what a turn did, or what was found changed that none did.
func (mo *Moment) Changes(ctx context.Context) (own, contested *Diff, err error) {
	if mo.m == nil {
		return newDiff(), newDiff(), nil
	}
	mo.m.mu.Lock()
	defer mo.m.mu.Unlock()
	return mo.m.changesIn(ctx, mo.r)
}

// changesIn is [Moment.Changes].
func (m *FileSnapshotManager) changesIn(ctx context.Context, r *record) (own, contested *Diff, err error) {
	contested = newDiff()
	switch r.Kind {
	case history.KindEmpty: // what others did within it is not the turn's
		return newDiff(), contested, nil
	case history.KindStep:
		var changes []windows.Change
		changes, err = m.byRecords().Changes(ctx, r)
		own, contested = diffsOf(changes)
	default:
		own, err = m.diff(ctx, r.Base, r.State())
	}
	own.Unknown, err = lost(err)
	return own, contested, err
}

// Timeline yields what happened in the session, newest first: its turns, also
// those that were taken back, its restores, and what was found between that no
// turn did. Not the turns of other branches of the conversation, unless what they
// did is in. Below the begin of a fork come the turns of the line that it was
// forked from. Each pair is a moment and nil, or nil and the error that ends the
// sequence.
func (m *FileSnapshotManager) Timeline(ctx context.Context) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		// The caller may ask the manager between two moments.
		m.mu.Lock()
		defer m.mu.Unlock()
		labels, lerr := m.store.LastLabels()
		unlocked := func(mo *Moment, err error) bool {
			if err == nil && mo.Snapshot != nil {
				mo.Snapshot = relabelled(mo.Snapshot, labels)
			}
			if err == nil && mo.r != nil {
				mo.Title = m.title(ctx, mo.r)
			}
			if err == nil && mo.Unknown != "" {
				if err = mo.recount(ctx); err != nil {
					mo = nil
				}
			}
			m.mu.Unlock()
			defer m.mu.Lock()
			return yield(mo, err)
		}
		l, err := m.line(ctx)
		if err = errors.Join(err, lerr, context.Cause(ctx)); err == nil {
			tl := &timeline{l: l, yield: unlocked, takenBack: make(map[uint64]*record),
				branches: inside.AllBranches(ctx)}
			err = tl.run(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			unlocked(nil, err)
		}
	}
}

// errStopped: the caller of an iterator has seen enough.
var errStopped = errors.New("stopped")

// A timeline is one while it is listed.
type timeline struct {
	l     *line
	yield func(*Moment, error) bool

	line      *standing.Trail // what is in and was not listed yet
	parts     *parts
	takenBack map[uint64]*record // turns that are not on the line, and the newest restore that took each back
	looks     []*record          // of takenBack: looks within turns that were in up to there
	path      map[string]bool    // entries on the path to the leaf of the log; nil: there is no log
	branches  bool               // all branches of the conversation are listed
}

func (tl *timeline) run(ctx context.Context) error {
	l := tl.l
	tip, err := l.newest(ctx)
	if l.log != nil && errors.Is(err, ErrNoSession) {
		return nil // nothing has happened yet
	}
	if err != nil {
		return err
	}
	if l.log != nil {
		path, err := l.log.Path(l.m.leaf(l.log))
		if err != nil {
			return err
		}
		tl.path = make(map[string]bool, len(path))
		for _, e := range path {
			tl.path[e.ID] = true
		}
	}
	tl.line, tl.parts = l.Trail(tip, ""), l.parts(tip)
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return err
	}
	for r, err := range l.m.records.OwnBack(ctx, head) {
		if err = errors.Join(err, context.Cause(ctx)); err == nil && r.Kind == history.KindStart {
			if err = tl.others(ctx, r); err == nil {
				break
			}
		}
		if err == nil {
			err = tl.own(ctx, r)
		}
		if err != nil {
			return err
		}
	}
	return tl.inherited(ctx, head)
}

// say lists a moment.
func (tl *timeline) say(mo *Moment) error {
	if !tl.yield(mo, nil) {
		return errStopped
	}
	return nil
}

// own lists a record of the session itself.
func (tl *timeline) own(ctx context.Context, r *record) error {
	m := tl.l.m
	switch {
	case r.IsTurn():
		return tl.turn(ctx, r)
	case r.Kind == history.KindRestore:
		mo := m.momentOf(r)
		mo.Aborted = r.Facts.Tops == history.TopsNone
		if !r.Pruned {
			back, forth, err := tl.l.effect(ctx, r, "")
			if err != nil {
				return err
			}
			mo.Reverts = r.Facts.Reverts
			if mo.TookBack, err = m.numbers(ctx, back); err == nil {
				mo.PutBack, err = m.numbers(ctx, forth)
			}
			if err != nil {
				return err
			}
			isWhole := func(r *record) bool { return r.Behind == nil }
			mo.PartOf = numbers(slices.DeleteFunc(slices.Concat(back, forth), isWhole))
			for _, turn := range back {
				if tl.takenBack[turn.Seq] != nil {
					continue
				}
				if tl.takenBack[turn.Seq] = r; turn.Facts.Within != 0 {
					tl.looks = append(tl.looks, turn)
				}
			}
		}
		if r.Facts.Counts == [3]int{} {
			return nil
		}
		return tl.say(mo)
	case r.IsOffline() || r.IsOfNobody():
		return tl.say(m.momentOf(r))
	}
	return nil
}

// effect returns the turns that a restore took off the line, and those that it put
// on it; with a path those that it took out there, and put in. Where records are lost
// nobody knows.
func (l *line) effect(ctx context.Context, r *record, path string) (back, forth []*record, err error) {
	m := l.m
	if r.Facts.From == 0 {
		return nil, nil, nil
	}
	from, err := m.records.StepAt(ctx, r.Facts.From, r.Session)
	if err != nil {
		return nil, nil, err
	}
	to, err := m.records.StepAt(ctx, r.Position(), r.Session)
	if err != nil {
		return nil, nil, err
	}
	return l.Between(ctx, from, to, path, nil)
}

// numbers returns the numbers of turns, in order, but for those of other machines, which
// number theirs alike.
func numbers(turns []*record) (list []int) {
	for _, r := range turns {
		if n := r.Turn(); n >= 0 && !r.IsElsewhere() && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// numbers is numbers of what of turns is the session's own.
func (m *FileSnapshotManager) numbers(ctx context.Context, turns []*record) ([]int, error) {
	own, err := m.own(ctx, turns)
	return numbers(own), err
}

// turn lists a turn of the session.
func (tl *timeline) turn(ctx context.Context, r *record) error {
	on, err := tl.isOn(ctx, r)
	if err != nil {
		return err
	}
	mo := tl.l.m.momentOf(r)
	if tl.path != nil {
		if e := tl.l.entryOf(r); e != nil {
			mo.Elsewhere = !tl.path[e.ID]
		}
		if mo.NotIn = mo.Elsewhere && !on; mo.NotIn && !tl.branches {
			return nil
		}
	}
	in, out, err := tl.parts.of(ctx, r)
	if err != nil && !isLost(err) {
		return err
	}
	if by := tl.takerOf(r); !on && by != nil {
		mo.TakenBack, mo.But = by.Snapshot, in
	}
	if on {
		mo.Without = out
	}
	mo.InPart = inBoth(in, out)
	if tl.branches {
		if mo.Prev, err = tl.l.builtOn(ctx, r); err != nil {
			return err
		}
	}
	return tl.say(mo)
}

// takerOf returns the newest restore that took back a turn, or what of it was in still; nil: none did.
func (tl *timeline) takerOf(turn *record) *record {
	by := tl.takenBack[turn.Seq]
	for _, look := range tl.looks {
		if r := tl.takenBack[look.Seq]; turn.EndsAt(look) && (by == nil || by.Seq < r.Seq) {
			by = r
		}
	}
	return by
}

// isOn reports whether a turn of the session is on its line. What the line has before it is listed.
func (tl *timeline) isOn(ctx context.Context, r *record) (on bool, err error) {
	for {
		next, err := tl.line.Peek(ctx)
		if err != nil {
			return false, err
		}
		if next == nil || next.Seq < r.Seq && next.Seq != 0 {
			break
		}
		popped, in, err := tl.line.Pop(ctx)
		if err != nil {
			return false, err
		}
		if history.IsSame(popped, r) {
			on = in
			break
		}
		if popped.Seq == 0 && in { // only the log has it
			err = tl.say(tl.l.m.momentOf(popped))
		} else if in {
			err = tl.other(popped)
		}
		if err != nil {
			return false, err
		}
	}
	if next, err := tl.line.Peek(ctx); err != nil {
		return false, err
	} else if next != nil && r.EndsAt(next) { // the line ends within it, unless it came back beside that
		_, in, err := tl.line.Pop(ctx)
		if err != nil {
			return false, err
		}
		on = on || in
	}
	return on, nil
}

// other lists a turn that is on the line, if it is another machine's.
func (tl *timeline) other(r *record) error {
	if !r.IsElsewhere() || !r.IsTurn() {
		return nil
	}
	mo := tl.l.m.momentOf(r)
	mo.ForkedFrom = r.Root
	return tl.say(mo)
}

// others lists the turns of other machines that are on the line behind the session's start,
// and were not listed yet.
func (tl *timeline) others(ctx context.Context, start *record) error {
	for {
		next, err := tl.line.Peek(ctx)
		if err != nil || next == nil || next.Seq <= start.Seq {
			return err
		}
		r, in, err := tl.line.Pop(ctx)
		if err == nil && in {
			err = tl.other(r)
		}
		if err != nil {
			return err
		}
	}
}

// builtOn returns the number of the turn that a turn builds on, the newest that was in when
// it began, or of the start.
func (l *line) builtOn(ctx context.Context, r *record) (uint64, error) {
	if r.Facts.Prev == 0 {
		return 0, nil
	}
	prev, err := l.m.records.StepAt(ctx, r.Facts.Prev, r.Session)
	if err != nil {
		return 0, err
	}
	for t := l.Trail(prev, ""); ; {
		x, in, err := t.Pop(ctx)
		switch {
		case err != nil || x == nil:
			return 0, err
		case in && x.IsTurn() || x.Kind == history.KindStart:
			return x.Seq, nil
		}
	}
}

// parts tells of turns, newest first, at which paths what they did is in at a
// position.
type parts struct {
	l      *line
	at     *record
	s      *standing.Paths
	trail  *standing.Trail            // of the paths of which no joint tells
	own    map[string]bool            // the others
	trails map[string]*standing.Trail // of those of them that were asked for
	cuts   map[string][]history.Cut
}

func (l *line) parts(at *record) *parts {
	p := &parts{l: l, at: at, s: l.Paths(l.m.tree.pages), trail: l.Trail(at, standing.AnyPath),
		own: make(map[string]bool), trails: make(map[string]*standing.Trail), cuts: make(map[string][]history.Cut)}
	p.trail.Joint = func(j *record) { p.s.Pass(j, p.own) }
	return p
}

// of returns the paths at which what a turn did is in, and those at which it is
// not, or not all of it. Both are nil if no restore tells its paths apart, or it was
// pruned.
func (p *parts) of(ctx context.Context, r *record) (in, out []string, err error) {
	at, err := upTo(ctx, p.trail, r)
	if err != nil || r.Pruned || len(p.own) == 0 && (at == nil || history.IsSame(at, r)) {
		return nil, nil, err
	}
	list, err := p.s.Of(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	behind := make(map[uint64]map[string]*windows.Change) // looks within the turn: what it did after them
	for _, path := range slices.Sorted(maps.Keys(list)) {
		x := at
		if p.own[path] {
			t := p.trails[path]
			if t == nil {
				t = p.l.Trail(p.at, path)
				t.Joint = p.trail.Joint // some are on its way alone
				p.trails[path] = t
			}
			if x, err = upTo(ctx, t, r); err != nil {
				return nil, nil, err
			}
		}
		isIn := x != nil
		if x != nil && !history.IsSame(x, r) {
			if behind[x.Seq] == nil {
				if behind[x.Seq], err = p.s.Of(ctx, r.PartAfter(x)); err != nil {
					return nil, nil, err
				}
			}
			isIn = behind[x.Seq][path] == nil
		}
		isPart := false
		if isIn && p.s.Cut[path] {
			cuts, known := p.cuts[path]
			if !known {
				if cuts, err = p.l.CutsIn(ctx, p.at, path, 0); err != nil {
					return nil, nil, err
				}
				p.cuts[path] = cuts
			}
			for _, c := range cuts {
				if c.Turn == x.Seq {
					isPart = true
					isIn = isIn && !(c.Whole && c.Window == 0) // else it was taken back to the last line
				}
			}
		}
		if isIn {
			in = append(in, path)
		}
		if !isIn || isPart {
			out = append(out, path)
		}
	}
	return in, out, nil
}

// inBoth returns the paths at which a part of what a turn did is in, and a part is not:
// they are in both lists of [parts.of].
func inBoth(in, out []string) []string {
	var both []string
	for _, path := range out {
		if _, found := slices.BinarySearch(in, path); found {
			both = append(both, path)
		}
	}
	return both
}

// upTo goes on to a turn. It returns that, or a look within it at which the trail
// goes on, if it is in; else nil.
func upTo(ctx context.Context, t *standing.Trail, turn *record) (*record, error) {
	for {
		r, err := t.Peek(ctx)
		if err != nil || r == nil {
			return nil, err
		}
		found := history.IsSame(r, turn) || turn.EndsAt(r)
		if !found && r.Seq != 0 && r.Seq < turn.Seq {
			return nil, nil
		}
		r, in, err := t.Pop(ctx)
		if err != nil {
			return nil, err
		}
		if found {
			if !in {
				return nil, nil
			}
			return r, nil
		}
	}
}

// isLost reports whether an error is only about what the store has lost.
func isLost(err error) bool {
	unknown, other := lost(err)
	return unknown != "" && other == nil
}

// inherited lists what came before the session's own turns: the line that it was
// forked from, what only the log has, and where the line begins.
func (tl *timeline) inherited(ctx context.Context, head *record) error {
	l := tl.l
	var newer *record // of the session of the turn that was listed last
	for {
		r, in, err := tl.line.Pop(ctx)
		if err = errors.Join(err, context.Cause(ctx)); err != nil || r == nil {
			return err
		}
		if newer != nil && r.Seq != 0 {
			if err := tl.offline(ctx, r, newer); err != nil {
				return err
			}
		}
		if r.Seq != 0 && r.Session != l.m.opts.Session {
			newer = r
		}
		mo := l.m.momentOf(r)
		if r.Session != l.m.opts.Session {
			mo.ForkedFrom = r.Session
		}
		if r.Seq != 0 && r.IsTurn() {
			in, out, err := tl.parts.of(ctx, r)
			if err != nil && !isLost(err) {
				return err
			}
			mo.Without, mo.InPart = out, inBoth(in, out)
			if tl.branches {
				if mo.Prev, err = l.builtOn(ctx, r); err != nil {
					return err
				}
			}
		}
		switch {
		case r.Kind == history.KindStart && r.Facts.Fork != 0:
			from, err := l.m.records.StepAt(ctx, r.Facts.Fork, r.Session)
			if err != nil {
				return err
			}
			mo.Kind, mo.ForkedFrom = "fork", from.Session
		case r.Kind == history.KindStart && r.Seq == 0 && head != nil && r.State().IsZero(), !in &&
			r.Kind != history.KindStart:
			continue
		case r.State().IsZero(): // it is lost
			continue
		}
		if err := tl.say(mo); err != nil {
			return err
		}
	}
}

// offline lists what a session found after one of its records that no turn did,
// down from another.
func (tl *timeline) offline(ctx context.Context, after, newer *record) error {
	for r, err := range tl.l.m.records.OwnBack(ctx, newer) {
		if err != nil || r.Seq <= after.Seq {
			return err
		}
		if r.Seq < newer.Seq && (r.IsOffline() || r.IsOfNobody()) {
			if err := tl.say(tl.l.m.momentOf(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *FileSnapshotManager) momentOf(r *record) *Moment {
	turn := -1
	if r.IsTurn() {
		turn = r.Facts.Turn
	}
	mo := &Moment{EntryID: r.Entry, TurnIndex: turn, Kind: r.Event(), Unknown: r.Facts.Unknown,
		Agent: r.Facts.Agent, Model: r.Facts.Model, Interrupted: r.Facts.Interrupted, GoesOn: r.Facts.GoesOn,
		Partial: r.Facts.Partial,
		Tree:    r.Tree}
	if r.IsOfNobody() {
		mo.Kind = "unknown"
	}
	mo.count(r.Facts.Counts)
	if r.Seq != 0 {
		mo.Snapshot = r.Snapshot
	}
	if r.Kind != history.KindStart {
		mo.m, mo.r = m, r
	}
	return mo
}

func (mo *Moment) count(counts [3]int) {
	mo.Added, mo.Modified, mo.Deleted = counts[0], counts[1], counts[2]
}

// recount takes back that the changes are not known, if they are by now: the
// store may have been repaired since.
func (mo *Moment) recount(ctx context.Context) error {
	own, _, err := mo.m.changesIn(ctx, mo.r)
	if err == nil && own.Unknown == "" {
		mo.count(own.counts())
		mo.Unknown = ""
	}
	return err
}

// A SessionInfo is a session that has recorded something in the store.
type SessionInfo struct {
	Session  string
	Worktree string    // identity of its directory
	Root     string    // path of that
	Began    time.Time // zero: not known
	Last     time.Time // when it recorded something last
	Steps    int       // turns that are not taken back, with those that it was forked with
	Turns    int       // turns that it has had at least
	LastTurn time.Time // when the newest turn on that path ended; zero: there is none
	Worked   bool      // it has had a turn that changed something, or was cut off, or a restore
	Open     bool      // a turn of it is open
	EntryID  string    // of its newest step
	Title    string    // of its first turn that has one; if that is not kept any more, of its newest
	Agent    string    // that ran its newest turn
	Model    string    // that was asked in it
}

// Sessions lists the sessions of the manager's directory, or of all that share
// the store, the one that recorded something last first; not those of which
// nothing was kept.
func (m *FileSnapshotManager) Sessions(ctx context.Context, all bool) ([]SessionInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	var list []SessionInfo
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		mine := s.Worktree == m.project.Worktree
		if !all && !mine || history.IsEdit(s) || s.Pruned {
			continue
		}
		info := SessionInfo{Session: s.Session, Worktree: s.Worktree, Root: s.Root, Last: s.Time}
		if t := open.Of(s.Session); mine && t != nil {
			if info.Open, err = m.isOpen(t); err != nil {
				return nil, err
			}
			info.Title, info.Agent, info.Model = t.Title, t.Agent, t.Model
			info.Worked = !info.Open // it was cut off, and nobody has noted that yet
		}
		if err := m.fillInfo(ctx, &info, s); err != nil && !errors.Is(err, store.ErrNotFound) &&
			!errors.Is(err, store.ErrFormat) {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

// fillInfo fills in what the records say of a session whose newest is s.
func (m *FileSnapshotManager) fillInfo(ctx context.Context, info *SessionInfo, s *store.Snapshot) error {
	r, err := history.Read(s)
	if err != nil {
		return err
	}
	info.Worked = info.Worked || r.Kind == history.KindRestore || r.Facts.Restored != 0
	turns := r.Next()
	at, err := m.records.Record(ctx, r.Position())
	if err != nil {
		return err
	}
	first := r
	if r.Facts.First != 0 {
		if first, err = m.records.StepAt(ctx, r.Facts.First, r.Session); err != nil {
			return err
		}
	}
	if r, err = m.newestStep(ctx, r); err != nil {
		return err
	}
	info.Title = cmp.Or(m.title(ctx, first), m.title(ctx, r), info.Title)
	info.Agent = cmp.Or(info.Agent, r.Facts.Agent, first.Facts.Agent)
	info.Model = cmp.Or(info.Model, r.Facts.Model, first.Facts.Model)
	if r.Kind == history.KindStep {
		info.LastTurn, info.Worked = r.Time, true
	}
	info.Steps, info.EntryID, info.Turns = at.Facts.Depth, r.Entry, turns
	if r, err = m.records.Record(ctx, r.Start()); err != nil {
		return err
	}
	info.Began = r.Time
	return nil
}

// OpenTurns lists the sessions that have a turn open in the directory.
func (m *FileSnapshotManager) OpenTurns() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open, err := m.openTurns()
	var list []string
	for _, o := range open {
		list = append(list, o.Session)
	}
	return list, err
}

// openTurns returns the turns that are open in the directory.
func (m *FileSnapshotManager) openTurns() (list []*history.OpenTurn, err error) {
	t, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	for _, o := range t.Open {
		if open, err := m.isOpen(o); err != nil {
			return nil, err
		} else if open {
			list = append(list, o)
		}
	}
	return list, nil
}

// isOpen reports whether a turn may still go on.
func (m *FileSnapshotManager) isOpen(t *history.OpenTurn) (bool, error) {
	if t.End != 0 || t.Session == m.opts.Session && m.isOurs(t) {
		return t.End == 0, nil
	}
	return m.isAlive(t)
}
