package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A Point is a moment in a session at which the files are known.
type Point struct {
	State     store.State
	EntryID   string          // session entry of the step; "": the start, or no entry is known
	TurnIndex int             // of the step; -1: the start of the session, or a tree that is no step's
	Snapshot  *store.Snapshot // what the store recorded of it; nil: nothing

	on *record // the turn, or the start; nil: Snapshot is of neither, or it is a tree
	at *record // where files stand that are brought there; nil: nothing says so

	n    int       // of @~N, which for a restore takes the N newest turns and nothing else; 0: of all others
	end  *record   // of @~N: the end of the turn that it is when it is read, or the start
	gone []*record // these turns, newest first, if what stays is the position of no record
	same []*Point  // others that the same name stands for, as well
}

// moment returns the point of @~N as the end of that turn, and nothing of turns.
func (p *Point) moment() *Point {
	q := *p
	q.at, q.n, q.gone = p.end, 0, nil
	return &q
}

// step returns the step that the point is, nil if it is none.
func (p *Point) step() *record {
	if p.on == nil || p.on.Kind != history.KindStep {
		return nil
	}
	return p.on
}

// pointOf returns the point of a turn, or of a start.
func pointOf(r *record) *Point {
	p := &Point{State: r.State(), EntryID: r.Entry, TurnIndex: r.Turn(), on: r, at: r}
	if r.Seq != 0 {
		p.Snapshot = r.Snapshot
	}
	return p
}

// Resolve finds a point of the session by what people call it: "start", "@" for
// the newest turn that is not taken back, "@~N" for the one N turns before,
// "turn:N" for the end of a turn, also of one that was taken back, an entry, "~N" behind
// the name of a turn's end for the turn N before it,
// "look:N" for the record of a number, "REMOTE:SESSION" for where others go on with a session
// that came from a remote, "REMOTE:SESSION@N" for the end of their turn N, "@{yesterday}" for the newest record by some
// time, as package when reads it, a label, or a tree. An entry of what the user said
// stands for the begin of its turn. A tree that several records have is the
// session's own turn first, then what it looked at within one, then its start, and
// then whatever else; of several turns one that is not taken back goes first, then
// the newest. Entries and trees may be abbreviated to 4 characters or more, if that
// fits only one.
//
// Errors match [ErrUnknown], [ErrAmbiguous], [ErrOtherSession], [ErrNoSession]
// and those of package session.
func (m *FileSnapshotManager) Resolve(ctx context.Context, rev string) (*Point, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resolve(ctx, rev)
}

// resolve is Resolve for who holds mu.
func (m *FileSnapshotManager) resolve(ctx context.Context, rev string) (*Point, error) {
	p, err := m.find(ctx, rev)
	if errors.Is(err, ErrUnknown) && !errors.Is(err, errRecordLost) {
		err = m.unlessLost(ctx, err)
	}
	if err == nil && p.State.IsZero() {
		err = recordLost(rev)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

var errRecordLost = fmt.Errorf("%w: its record is lost", ErrUnknown)

// recordLost says that the journal has lost what a name stands for.
func recordLost(rev string) error {
	return fmt.Errorf("revision %q: %w", rev, errRecordLost)
}

// find is resolve, but what it finds may be a start that is lost.
func (m *FileSnapshotManager) find(ctx context.Context, rev string) (*Point, error) {
	p, err := m.findName(ctx, rev)
	if !errors.Is(err, ErrUnknown) {
		return p, err
	}
	// Only what nothing is called goes back from what its beginning names.
	i := strings.LastIndexByte(rev, '~')
	if i <= 0 || rev[:i] == "@" {
		return nil, err
	}
	n := 1
	if digits := rev[i+1:]; digits != "" {
		var perr error
		if n, perr = parseNumber(digits); perr != nil {
			return nil, err
		}
	}
	if p, err = m.find(ctx, rev[:i]); err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	return l.turnsBefore(ctx, p, rev[:i], n)
}

// turnsBefore returns the end of the turn n before one whose end is at a point, which rev
// names. It is a moment: nothing of which turns go.
func (l *line) turnsBefore(ctx context.Context, p *Point, rev string, n int) (*Point, error) {
	at, left := cmp.Or(p.end, p.at), n
	if at == nil || !at.IsTurn() {
		return nil, fmt.Errorf("revision \"%s~%d\": %w: %q is not the end of a turn", rev, n, ErrUnknown, rev)
	}
	if p.turn(rev) != at.Turn() { // that changed nothing, and has no record
		left--
	}
	var last *record
	isOwn := at.Session == l.m.opts.Session
	for t := l.Trail(at, ""); ; {
		r, err := t.Next(ctx)
		if err != nil {
			return nil, err
		}
		missing, err := l.lostBefore(ctx, last)
		if err != nil {
			return nil, err
		}
		if left -= missing; missing > 0 && left < 1 {
			return nil, recordLost(fmt.Sprintf("%s~%d", rev, n))
		}
		switch {
		case r == nil && left <= 1:
			start, err := l.startBefore(ctx, last, at)
			if err != nil {
				return nil, err
			}
			return pointOf(start), nil
		case r == nil:
			return nil, fmt.Errorf("revision \"%s~%d\": %w: %s before it", rev, n, ErrUnknown,
				words.Count(n-left, "turn"))
		case last != nil && r.IsSameTurn(last):
			continue
		case last != nil:
			left--
		}
		if last = r; left > 0 {
			continue
		}
		switch {
		case r.Facts.Within == 0:
			return l.stepPoint(ctx, r)
		case !isOwn:
			return nil, fmt.Errorf("revision \"%s~%d\": %w: of %q", rev, n, ErrOtherSession, at.Session)
		}
		return l.atTurn(ctx, r.Turn()) // it is on the line in part
	}
}

// startBefore returns the start before the first turn that is known of those up to one: the session's, or what a
// repair has made a start of, a turn before which all are lost. first may be nil.
func (l *line) startBefore(ctx context.Context, first, turn *record) (*record, error) {
	if first != nil && first.Seq != 0 && first.Facts.Prev != 0 && l.log == nil {
		prev, err := l.m.records.StepAt(ctx, first.Facts.Prev, first.Session)
		if err != nil || prev.Seq == first.Facts.Prev && prev.Kind == history.KindStart && prev.Next() > 0 {
			return prev, err
		}
	}
	if turn.Session == l.m.opts.Session {
		return l.start(ctx)
	}
	return l.startOf(ctx, turn)
}

// findName finds what has a name of its own.
func (m *FileSnapshotManager) findName(ctx context.Context, rev string) (*Point, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	if rev == "start" {
		return l.startPoint(ctx)
	}
	if n, ok := generations(rev); ok {
		return l.nthLast(ctx, n)
	}
	if digits, ok := strings.CutPrefix(rev, "turn:"); ok {
		n, err := parseNumber(digits)
		if err != nil {
			return nil, fmt.Errorf("turn %q: %w: want a number from 0", digits, ErrUnknown)
		}
		return l.atTurn(ctx, n)
	}
	if digits, ok := strings.CutPrefix(rev, history.LookPrefix); ok {
		return m.atLook(ctx, digits)
	}
	if text, ok := timeIn(rev); ok {
		return m.atTime(ctx, text)
	}
	if p, err := m.elsewhere(ctx, rev); p != nil || err != nil {
		return p, err
	}
	if l.log == nil {
		return m.named(ctx, rev)
	}
	if e, ok := l.log.Entry(rev); ok {
		return l.atEntry(ctx, e)
	}
	p, perr := m.named(ctx, rev)
	if len(rev) < minPrefix { // it may be a label
		return p, perr
	}
	e, err := l.named(rev)
	switch {
	case errors.Is(err, session.ErrUnknownEntry):
		return p, perr
	case err != nil:
		return nil, err
	case perr == nil && p.EntryID != e.ID:
		return nil, fmt.Errorf("revision %q: %w: entry %s, tree %s", rev, ErrAmbiguous, e.ID, p.State.Tree.Short())
	}
	return l.atEntry(ctx, e)
}

// named returns the entry of the log that an ID, or the beginning of one, names.
func (l *line) named(id string) (*session.Entry, error) {
	const most = 10 // to list
	found := sessionlog.Find(l.log, id)
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("entry %q: %w", id, session.ErrUnknownEntry)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, e := range found[:min(len(found), most)] {
		ids = append(ids, e.ID)
	}
	list := strings.Join(ids, ", ")
	if more := len(found) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return nil, fmt.Errorf("entry %q: %w: %s", id, ErrAmbiguous, list)
}

// generations reads @, @~ or @~N.
func generations(rev string) (n int, ok bool) {
	if rev == "@" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(rev, "@~")
	if !ok || digits == "" {
		return 1, ok
	}
	n, err := parseNumber(digits)
	return n, err == nil
}

// parseNumber reads a number that is not negative, without a sign.
func parseNumber(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err
}

// startPoint returns the start of the session.
func (l *line) startPoint(ctx context.Context) (*Point, error) {
	r, err := l.start(ctx)
	if err != nil {
		return nil, err
	}
	return pointOf(r), nil
}

// newest is tip, but it is an error if there is none.
func (l *line) newest(ctx context.Context) (*record, error) {
	r, err := l.tip(ctx)
	if r == nil && err == nil {
		err = l.m.noSession(ctx)
	}
	return r, err
}

// noSession is the error of a session that has no records.
func (m *FileSnapshotManager) noSession(ctx context.Context) error {
	return m.orLost(ctx, fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession))
}

// orLost returns an error that says that there are no records, or the damage of the history, by which
// there may have been some.
func (m *FileSnapshotManager) orLost(ctx context.Context, none error) error {
	damage, err := history.JournalDamage(ctx, m.store)
	if err != nil {
		return err
	}
	if len(damage) > 0 {
		return fmt.Errorf("%v; but the history is damaged: %w", none, damage[0])
	}
	return none
}

// unlessLost adds to an error that says that something is not known the damage by which it may have been.
func (m *FileSnapshotManager) unlessLost(ctx context.Context, unknown error) error {
	damage, err := history.Shown(ctx, m.store, m.project.Worktree)
	if err != nil {
		return err
	}
	if damage != "" {
		return fmt.Errorf("%w; but %s", unknown, damage)
	}
	return unknown
}

// nthLast returns the end of the turn n before the newest on the line.
func (l *line) nthLast(ctx context.Context, n int) (*Point, error) {
	tip, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	at, left := tip, n
	if l.log == nil {
		depth := tip.Facts.Depth - n
		if at, err = l.Ancestor(ctx, tip, func(r *record) bool { return r.Facts.Depth <= depth }); err != nil {
			return nil, err
		}
		if left = at.Facts.Depth - depth; left < 0 {
			return nil, recordLost(fmt.Sprintf("@~%d", n))
		}
	}
	b, err := l.goBack(ctx, at, left)
	switch {
	case err != nil:
		return nil, err
	case b.left < 0:
		return nil, recordLost(fmt.Sprintf("@~%d", n))
	case b.left > 0 || b.at == nil:
		return nil, fmt.Errorf("revision @~%d: %w: session %q has %s, without those that were taken back", n,
			ErrUnknown, l.m.opts.Session, words.Count(n-b.left, "turn"))
	}
	if b.pure {
		r, err := l.TurnAt(ctx, b.at)
		if err != nil {
			return nil, err
		}
		return l.generation(ctx, r, n, b.at, nil)
	}
	next, gone, err := l.downTo(ctx, tip, b.last)
	if err != nil {
		return nil, err
	}
	return l.generation(ctx, next, n, nil, gone)
}

// A wayBack leads from one position on the line to an older one.
type wayBack struct {
	at   *record // nil: before all turns
	last *record // the oldest that is behind it; nil: none is
	pure bool    // no restore has told paths apart on the way
	left int     // turns that were still to be passed there; less than 0: one of them is lost
}

// goBack goes back over n turns of the line, as far as there are so many.
func (l *line) goBack(ctx context.Context, from *record, n int) (*wayBack, error) {
	b := &wayBack{at: from, pure: true, left: n}
	for t := l.Trail(from, ""); ; {
		before, wasPure := t.At, t.IsPure()
		r, err := t.Next(ctx)
		if err != nil {
			return nil, err
		}
		missing, err := l.lostBefore(ctx, b.last)
		if b.left -= missing; err != nil || b.left < 0 {
			return b, err
		}
		if r != nil && b.last != nil && r.IsSameTurn(b.last) {
			b.last = r
			continue
		}
		if b.left == 0 {
			b.at, b.pure = before, wasPure
			return b, nil
		}
		if b.last = r; r == nil {
			return b, nil
		}
		b.left--
	}
}

// downTo returns the turns of the line that are in from its tip to one, and what comes behind them.
func (l *line) downTo(ctx context.Context, tip, last *record) (next *record, gone []*record, err error) {
	for t, passed := l.Trail(tip, ""), false; ; gone = append(gone, next) {
		if next, err = t.Next(ctx); err != nil || next == nil || passed && !next.IsSameTurn(last) {
			return next, gone, err
		}
		passed = passed || history.IsSame(next, last)
	}
}

// lostBefore returns how many turns right before one the journal has lost. r may be nil.
func (l *line) lostBefore(ctx context.Context, r *record) (int, error) {
	if r == nil || r.Seq == 0 || r.Facts.Prev == 0 || l.log != nil {
		return 0, nil // what only a log has is no part of the chain
	}
	prev, err := l.m.records.StepAt(ctx, r.Facts.Prev, r.Session)
	if err != nil || prev.Seq == r.Facts.Prev && !prev.State().IsZero() {
		return 0, err
	}
	return max(r.Facts.Depth-prev.Facts.Depth-1, 0), nil
}

// generation returns the point of @~n: the end of a turn, or the start if it is
// nil. A restore goes to at, or has the turns in gone go.
func (l *line) generation(ctx context.Context, turn *record, n int, at *record, gone []*record) (p *Point, err error) {
	switch {
	case turn == nil:
		p, err = l.startPoint(ctx)
	case turn.Facts.Within != 0: // it is on the line in part
		p, err = l.endOf(ctx, turn)
	default:
		p, err = l.stepPoint(ctx, turn)
	}
	if err != nil {
		return nil, err
	}
	p.end, p.at, p.n, p.gone = p.at, at, n, gone
	return p, nil
}

// endOf returns the end of the turn within which a look was, or of that part of one which was
// divided.
func (l *line) endOf(ctx context.Context, look *record) (*Point, error) {
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return nil, err
	}
	for r, err := range l.m.records.TimeBack(ctx, head) {
		switch {
		case err != nil:
			return nil, err
		case r.Kind == history.KindStep && r.EndsAt(look):
			return l.stepPoint(ctx, r)
		}
		if r.Seq <= look.Seq {
			break
		}
	}
	return l.atTurn(ctx, look.Turn())
}

// stepPoint returns the point of a step whose tree is in the store.
func (l *line) stepPoint(ctx context.Context, r *record) (*Point, error) {
	if r.Seq == 0 && r.Kind != history.KindStart {
		if err := l.m.hasTree(ctx, r.Tree, r.Entry); err != nil {
			return nil, err
		}
	}
	if r.Kind != history.KindEmpty {
		return pointOf(r), nil
	}
	// A turn that changed nothing is known by the step before it.
	step, err := l.m.newestStep(ctx, r)
	if err != nil {
		return nil, err
	}
	p := pointOf(step)
	p.State, p.at = r.State(), r
	return p, nil
}

// hasTree reports as an error that the tree of a step is not in the store: the
// log comes from elsewhere.
func (m *FileSnapshotManager) hasTree(ctx context.Context, id store.ID, entry string) error {
	_, err := m.store.Get(ctx, object.Tree, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("step-snapshot %q: tree %s: %w in this store", entry, id.Short(), ErrUnknown)
	}
	return err
}

// atTurn returns the end of turn n, also if it was taken back. A turn that no
// record tells of changed nothing: it is the end of the one before it. But where
// the journal has lost records there is no telling.
func (l *line) atTurn(ctx context.Context, n int) (*Point, error) {
	tip, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return nil, err
	}
	next, err := l.numberOfNext(ctx, tip, head, n)
	if err != nil {
		return nil, err
	}
	if n >= next {
		return nil, fmt.Errorf("turn %d: %w: session %q has had %s so far", n, ErrUnknown,
			l.m.opts.Session, turnsUpTo(next))
	}
	r, err := l.Ancestor(ctx, tip, func(r *record) bool {
		if r.IsJoint() {
			return r.Next() <= n+1
		}
		return r.Turn() <= n
	})
	if err == nil {
		r, err = l.TurnAt(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if r.IsTurn() && r.Turn() == n {
		return l.stepPoint(ctx, r)
	}
	found, before, isLost, err := l.inTime(ctx, head, n)
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		r = found
	case isLost:
		return nil, recordLost(fmt.Sprintf("turn:%d", n))
	case before != nil && (r.Turn() > n || before.Turn() > r.Turn()):
		r = before
	}
	return l.stepPoint(ctx, r)
}

// numberOfNext returns the number of the session's next turn, or one that is greater than n where n
// was given, also if that turn came back after it had been lost. head is nil where only a log is.
func (l *line) numberOfNext(ctx context.Context, tip, head *record, n int) (int, error) {
	if head == nil {
		return tip.Next(), nil
	}
	next, err := l.nextTurn(ctx, head)
	if err != nil || n < next {
		return next, err
	}
	last, err := l.lastStep(ctx, head)
	if err != nil {
		return 0, err
	}
	return max(next, last.Next()), nil
}

// inTime looks for turn n among all that the session has had, the newest first. If it finds none, it
// returns the newest turn of those before it, nil if there is none, and whether records are
// lost between that and what came behind it, of which one may be the turn's.
func (l *line) inTime(ctx context.Context, head *record, n int) (found, before *record, isLost bool, err error) {
	newer := head
	for o, err := range l.m.records.TimeBack(ctx, head) {
		if err != nil {
			return nil, nil, false, err
		}
		if o.IsTurn() && o.Turn() == n {
			return o, nil, false, nil
		}
		if before == nil {
			isHole := newer != o && newer.Session == o.Session && newer.Parent != o.Seq
			isLost = o.IsAfterGap(o.Facts.After) || (isLost || isHole) && !(o.IsTurn() && o.Turn() > n)
		}
		if o.IsTurn() && o.Turn() < n && before == nil {
			before = o
		}
		newer = o
	}
	// A repair makes a start of a turn that it knows from a log, and nothing before it.
	isCut := newer != nil && (newer.Parent != 0 || n < newer.Next())
	return nil, before, isLost || before == nil && isCut, nil
}

// turnsUpTo names the turns before number n.
func turnsUpTo(n int) string {
	switch n {
	case 0:
		return "none"
	case 1:
		return "turn 0 only"
	}
	return fmt.Sprintf("turns 0 to %d", n-1)
}

// atEntry returns the point that an entry of the log stands for. A message of
// the agent and a result of its tools stand for the step behind them, which is
// appended when the turn ends; a message of the user for the begin of the turn
// that it began; anything else for what was before it.
func (l *line) atEntry(ctx context.Context, e *session.Entry) (*Point, error) {
	if _, err := l.log.Path(e.ID); err != nil {
		return nil, err
	}
	if e.Type == "custom" && e.CustomType == sessionlog.StepSnapshot {
		r, err := l.stepOf(ctx, e)
		if err != nil {
			return nil, err
		}
		return l.stepPoint(ctx, r)
	}
	if e.Type == "message" && (e.Role == "assistant" || e.Role == "toolResult") {
		r, err := l.stepBelow(ctx, e)
		if err != nil {
			return nil, err
		}
		if r != nil {
			return l.stepPoint(ctx, r)
		}
	}
	if isUser(e) {
		p, err := l.beginOf(ctx, e)
		if p != nil || err != nil {
			return p, err
		}
	}
	r, err := l.at(ctx, e.ID, false)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return l.stepPoint(ctx, r)
	}
	// Before all steps: where the first one below began.
	first, err := l.firstBelow(ctx, e)
	if err != nil {
		return nil, err
	}
	if first == nil {
		p, err := l.startPoint(ctx)
		if errors.Is(err, ErrNoSession) {
			err = fmt.Errorf("entry %q: %w: nothing says what the files were", e.ID, ErrUnknown)
		}
		return p, err
	}
	r, err = l.startOf(ctx, first)
	if err != nil {
		return nil, err
	}
	return pointOf(r), nil
}

// beginOf returns the begin of the turn that a message of the user began, nil if
// it changed nothing, or is not known.
func (l *line) beginOf(ctx context.Context, e *session.Entry) (*Point, error) {
	first, err := l.search(ctx, e, true, isUser)
	if err == nil {
		first, err = l.emptyBelow(ctx, e, first)
	}
	if first == nil || err != nil || first.Base.IsZero() {
		return nil, err
	}
	if first.Seq == 0 {
		if err := l.m.hasTree(ctx, first.Base.Tree, first.Entry); err != nil {
			return nil, err
		}
	}
	at, err := l.Prev(ctx, first)
	if at == nil || err != nil {
		return nil, err
	}
	r, err := l.TurnAt(ctx, at)
	if err != nil {
		return nil, err
	}
	p := pointOf(r)
	p.State, p.at = first.Base, at
	return p, nil
}

// emptyBelow returns the oldest turn that changed nothing, so that no entry tells
// of it, below a message of the user, or first if that is older.
func (l *line) emptyBelow(ctx context.Context, e *session.Entry, first *record) (*record, error) {
	if first != nil && first.Seq == 0 {
		return first, nil
	}
	for id := range l.below(e) {
		below, ok := l.log.Entry(id)
		if !ok || below.Type != "message" || below == e {
			continue
		}
		r, err := l.emptyOf(ctx, below)
		if err != nil {
			return nil, err
		}
		if r != nil && (first == nil || r.Seq < first.Seq) {
			first = r
		}
	}
	return first, nil
}

// below returns the entries below one, and itself, as far as no message of the user
// comes.
func (l *line) below(e *session.Entry) map[string]bool {
	seen := map[string]bool{e.ID: true} // parents may form a cycle
	queue := slices.Clone(l.log.Children(e.ID))
	for len(queue) > 0 {
		e := queue[0]
		if queue = queue[1:]; seen[e.ID] || isUser(e) {
			continue
		}
		seen[e.ID] = true
		queue = append(queue, l.log.Children(e.ID)...)
	}
	return seen
}

// named finds a step by its entry, or a tree, in the store.
func (m *FileSnapshotManager) named(ctx context.Context, rev string) (*Point, error) {
	var found []*store.Snapshot
	var other, elsewhere *store.Snapshot // of another session, of another worktree
	for s, err := range m.store.ByEntry(ctx, rev) {
		own := false
		if err == nil {
			own, err = m.owns(ctx, s)
		}
		switch {
		case err != nil:
			return nil, err
		case !own:
			if s.Entry == rev {
				other = s
			}
		case s.Entry == rev && s.Worktree != m.project.Worktree:
			if elsewhere == nil {
				elsewhere = s
			}
		case s.Entry == rev:
			return m.recordPoint(ctx, s)
		case !slices.ContainsFunc(found, func(f *store.Snapshot) bool { return f.Entry == s.Entry }):
			found = append(found, s)
		}
	}
	if elsewhere != nil {
		return m.recordPoint(ctx, elsewhere)
	}
	if other != nil {
		return nil, fmt.Errorf("entry %q: %w: of %q in %q", rev, ErrOtherSession, other.Session, other.Root)
	}
	p, terr := m.namedTree(ctx, rev)
	if p == nil && len(found) == 0 && errors.Is(terr, ErrUnknown) {
		if p, err := m.labelled(ctx, rev); p != nil || err != nil {
			return p, err
		}
	}
	switch {
	case len(found) == 0 || len(rev) < minPrefix:
		return p, terr
	case len(found) > 1 || p != nil:
		var names []string
		for _, s := range found {
			names = append(names, s.Entry)
		}
		if p != nil {
			names = append(names, "tree "+p.State.Tree.Short())
		}
		return nil, fmt.Errorf("revision %q: %w: %s", rev, ErrAmbiguous, strings.Join(names, ", "))
	}
	return m.recordPoint(ctx, found[0])
}

// owns reports whether a record is of the session, or of what it was forked from, up to
// there: what its log lists.
func (m *FileSnapshotManager) owns(ctx context.Context, s *store.Snapshot) (bool, error) {
	switch {
	case m.opts.AnySession:
		return true, nil
	case s.Worktree != m.project.Worktree:
		return false, nil
	case s.Session == m.opts.Session: // as most are that are asked for, and the line reads the log
		return true, nil
	}
	l, err := m.line(ctx)
	if err != nil {
		return false, err
	}
	return l.has(ctx, s)
}

// has reports whether a record of the directory is of the line's session, or of what it was
// forked from, up to there.
func (l *line) has(ctx context.Context, s *store.Snapshot) (bool, error) {
	if s.Session == l.m.opts.Session {
		return true, nil
	}
	past, err := l.past(ctx)
	return s.Seq <= past[s.Session], err
}

func (m *FileSnapshotManager) recordPoint(ctx context.Context, s *store.Snapshot) (*Point, error) {
	r, err := history.Read(s)
	if err != nil {
		return nil, err
	}
	if r.IsStep() {
		return pointOf(r), nil
	}
	p := &Point{State: r.State(), TurnIndex: -1, Snapshot: r.Snapshot}
	switch {
	case r.Kind == history.KindIntent || r.Worktree != m.project.Worktree:
	case r.Facts.Within != 0:
		p.at = r
	case r.Position() != 0:
		p.at, err = m.records.StepAt(ctx, r.Position(), r.Session)
	}
	return p, err
}

// minPrefix is how much of a name is enough, if it fits one only.
const minPrefix = 4

// namedTree finds a tree. Of several records that have it the session's own go
// before those of others.
func (m *FileSnapshotManager) namedTree(ctx context.Context, rev string) (*Point, error) {
	prefix := strings.ToLower(rev)
	unknown := fmt.Errorf("revision %q: %w", rev, ErrUnknown)
	if len(prefix) < minPrefix || len(prefix) > 64 || strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil, unknown
	}
	found := make(map[store.ID][]*store.Snapshot)
	for s, err := range m.store.ByTree(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		switch {
		case history.IsEdit(s):
		case s.Pruned: // another may have the same tree
			unknown = fmt.Errorf("revision %q: the snapshot %w", rev, store.ErrPruned)
		default:
			found[s.Tree] = append(found[s.Tree], s)
		}
	}
	if len(found) > 1 {
		var names []string
		for id := range found {
			names = append(names, id.Short())
		}
		slices.Sort(names)
		return nil, fmt.Errorf("revision %q: %w: %s", rev, ErrAmbiguous, strings.Join(names, ", "))
	}
	for _, list := range found {
		return m.pointOfTree(ctx, list)
	}
	id, err := store.ParseID(prefix)
	if err != nil {
		return nil, unknown
	}
	if _, err := m.store.Get(ctx, object.Tree, id); errors.Is(err, store.ErrNotFound) {
		return nil, unknown
	} else if err != nil {
		return nil, err
	}
	return &Point{State: store.State{Tree: id}, TurnIndex: -1}, nil
}

// Ranks of the records that have one tree, the first first.
const (
	rankTurn      = iota // of the session itself, or on its line
	rankLook             // within one of its turns
	rankStart            // of its line
	rankForeign          // in the same directory
	rankElsewhere        // in another
	rankIntent           // the state is the one before it
)

// pointOfTree returns the point that the tree of some records stands for.
func (m *FileSnapshotManager) pointOfTree(ctx context.Context, list []*store.Snapshot) (*Point, error) {
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	tip, err := l.tip(ctx)
	if err != nil {
		return nil, err
	}
	past, err := l.past(ctx)
	if err != nil {
		return nil, err
	}
	var all []treeCandidate
	for _, s := range list {
		c, err := l.candidate(ctx, tip, past, s)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	first := slices.MinFunc(all, func(a, b treeCandidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), boolCompare(a.off, b.off), cmp.Compare(b.r.Seq, a.r.Seq))
	})
	p, err := m.recordPoint(ctx, first.r.Snapshot)
	if err != nil {
		return nil, err
	}
	if first.rank >= rankForeign {
		p.on, p.at = nil, nil
		return p, nil
	}
	for _, c := range all {
		if c.rank != first.rank || c.off != first.off || c.r == first.r {
			continue
		}
		o, err := m.recordPoint(ctx, c.r.Snapshot)
		if err != nil {
			return nil, err
		}
		p.same = append(p.same, o)
	}
	return p, nil
}

// A treeCandidate is a record that has left a tree, with how likely it is meant by that.
type treeCandidate struct {
	r    *record
	rank int
	off  bool // not on the line
}

// candidate returns a record as one that may be meant: past is how far the sessions go that
// the line is of.
func (l *line) candidate(ctx context.Context, tip *record, past map[string]uint64, s *store.Snapshot) (
	c treeCandidate, err error) {
	r, err := history.Read(s)
	if err != nil {
		return c, err
	}
	c = treeCandidate{r: r, rank: rankForeign, off: true}
	here := r.Worktree == l.m.project.Worktree
	if here && tip != nil && tip.Seq != 0 && (r.IsTurn() || r.Facts.Within != 0) {
		on, err := l.IsOn(ctx, tip, r)
		if err != nil {
			return c, err
		}
		c.off = !on
	}
	own := here && r.Seq <= past[r.Session]
	switch {
	case r.Kind == history.KindIntent:
		c.rank = rankIntent
	case !here:
		c.rank = rankElsewhere
	case r.IsTurn() && (own || !c.off):
		c.rank = rankTurn
	case r.Facts.Within != 0 && (own || !c.off):
		c.rank = rankLook
	case r.Kind == history.KindStart && (own || tip != nil && r.Seq == tip.Start()):
		c.rank = rankStart
	}
	return c, nil
}

// past returns the sessions to which the records of this one's past belong, its own
// and those that it was forked from, each with the number of the newest that does.
func (l *line) past(ctx context.Context) (map[string]uint64, error) {
	past := map[string]uint64{l.m.opts.Session: math.MaxUint64}
	head, err := l.m.records.Newest(l.m.opts.Session)
	for head != nil && err == nil {
		var start *record
		if start, err = l.m.records.StepAt(ctx, head.Begin(), head.Session); err != nil || start.Facts.Fork == 0 {
			break
		}
		if head, err = l.m.records.StepAt(ctx, start.Facts.Fork, start.Session); err == nil {
			past[head.Session] = max(past[head.Session], head.Seq)
		}
	}
	return past, err
}

// own returns those of some turns that are the session's, or of what it was forked from: a restore to
// what another session has left goes over turns of that one, too.
func (m *FileSnapshotManager) own(ctx context.Context, turns []*record) ([]*record, error) {
	if !slices.ContainsFunc(turns, func(r *record) bool { return r.Session != m.opts.Session }) {
		return turns, nil
	}
	past, err := m.byRecords().past(ctx)
	isOther := func(r *record) bool { return r.Seq > past[r.Session] }
	return slices.DeleteFunc(slices.Clone(turns), isOther), err
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// position returns the number of the record that a turn would build on, and what
// number it would have. w is that of the look, t what it knows of turns.
func (l *line) position(ctx context.Context, w *cas.Writer, t *history.Turns) (prev uint64, turn int, err error) {
	head, err := l.m.records.NewestIn(w, l.m.opts.Session)
	if err != nil || head == nil {
		return 0, 0, err
	}
	at, err := l.m.records.StepAt(ctx, head.Position(), head.Session)
	if err != nil {
		return 0, 0, err
	}
	if turn, err = l.nextTurn(ctx, head); err == nil && len(t.Lost) > 0 {
		turn, err = l.afterLost(ctx, head, turn, t.Lost)
	}
	return at.Seq, turn, err
}

// lastStep returns the newest turn or start at or before a record of the session, the oldest
// record that there is if there is none. It may have come back after it had been lost, and
// then those behind it do not know of it.
func (l *line) lastStep(ctx context.Context, head *record) (last *record, err error) {
	for r, err := range l.m.records.OwnBack(ctx, head) {
		if err != nil {
			return nil, err
		}
		if last = r; r.IsStep() {
			break
		}
	}
	return last, nil
}

// afterLost returns the number of the next turn, where records are lost that may have been
// turns: each of them has its number for itself, as it may come back.
func (l *line) afterLost(ctx context.Context, head *record, turn int, lost []uint64) (int, error) {
	last, err := l.lastStep(ctx, head)
	if err != nil {
		return 0, err
	}
	since := last.Seq // what was lost before was counted then
	turn = max(turn, last.Next())
	for _, newest := range lost {
		for seq := newest; seq > since; seq-- {
			if _, err := l.m.records.Record(ctx, seq); err == nil {
				break
			} else if !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
			turn++
		}
		since = max(since, newest)
	}
	return turn, nil
}

// nextTurn returns the number of the session's next turn, one more than the
// largest that it has given. head is its newest record.
func (l *line) nextTurn(ctx context.Context, head *record) (int, error) {
	next := head.Facts.Next
	// A version that did not remember it has had turns, or they were taken back.
	if next == 0 && (head.Step() != head.Begin() || head.Facts.Restored != 0 || head.Kind == history.KindRestore) {
		for r, err := range l.m.records.OwnBack(ctx, head) {
			if err != nil {
				return 0, err
			}
			next = max(next, r.Next())
			if r.Facts.Next != 0 {
				break
			}
		}
	}
	at, err := l.m.records.StepAt(ctx, head.Position(), head.Session)
	if err != nil {
		return 0, err
	}
	if at.Worktree != l.m.project.Worktree { // another machine's turn, which may have a larger number
		next = max(next, at.Next())
	}
	if l.log == nil {
		return next, nil
	}
	tip, err := l.tip(ctx) // which may come from elsewhere
	if tip == nil || err != nil {
		return next, err
	}
	return max(next, tip.Next()), nil
}

// diff lists what differs between two states.
func (m *FileSnapshotManager) diff(ctx context.Context, old, new store.State) (*Diff, error) {
	diff := newDiff()
	for d, err := range trees.Compare(ctx, m.tree.pages, old, new) {
		if err != nil {
			return diff, err
		}
		diff.Add(d.Path, d.Status)
	}
	return diff, nil
}

// A lossError is one that a log tells of.
type lossError string

func (e lossError) Error() string        { return string(e) }
func (e lossError) Is(target error) bool { return target == store.ErrNotFound }

// lost returns what [Diff.Unknown] says after a comparison, and an error that is
// not about something lost: a directory is recorded also if nobody can tell any
// more what it was before.
func lost(err error) (unknown string, other error) {
	if trees.IsLoss(err) {
		return err.Error(), nil
	}
	return "", err
}

// loggedChanges returns what a turn changed that only a log knows.
func loggedChanges(r *record) ([]windows.Change, error) {
	logged := loggedData(r)
	if d := logged.Diff; d != nil && d.Unknown != "" {
		return nil, lossError("its changes are not known: " + d.Unknown)
	}
	var changes []windows.Change
	for _, part := range []struct {
		diff  *Diff
		owner windows.Owner
	}{{logged.Diff, windows.Own}, {logged.Contested, windows.Contested}} {
		if part.diff == nil {
			continue
		}
		for path, status := range part.diff.Paths() {
			changes = append(changes, windows.Change{Path: path, Status: status, Owner: part.owner})
		}
	}
	return changes, nil
}
