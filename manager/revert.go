package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// RevertOptions are those of [FileSnapshotManager.Revert], where they are as in
// [RestoreOptions].
type RevertOptions struct {
	// Turns are those to take back: "turn:7" or "7", a range as "turn:3..turn:5", or
	// what [FileSnapshotManager.Resolve] takes for the end of a turn.
	Turns []string `json:"turns"`

	// Paths are files, directories and globs: only what the turns changed there goes.
	// It is merged like the rest. Default: all that they changed.
	Paths []string `json:"paths,omitempty"`

	Hunks []string `json:"hunks,omitempty"` // as in [RestoreOptions], of the turns' changes; default: all

	OnDirty    rollback.Policy     `json:"onDirty,omitempty"`    // default: [rollback.Merge]
	OnConflict rollback.OnConflict `json:"onConflict,omitempty"` // default: [rollback.ConflictKeep]

	Preview bool `json:"-"`
	Force   bool `json:"force,omitempty"`
	EndTurn bool `json:"endTurn,omitempty"`

	Label  string    `json:"-"`
	Append EntryFunc `json:"-"`
}

// Revert takes back what some turns did to the files, and nothing of what was done
// since, by other turns or by anybody else. Several turns are taken back together, as
// one restore, which Undo takes back as any other. The turns are not on the session's
// line any more then: [RestoreOptions].Target "turn:N" brings them back, "@~N" does not.
//
// Errors are those of [FileSnapshotManager.RestoreFiles], but ErrHeadChanged. One that
// matches [ErrNothing] says that a turn was taken back already, and by which restore, or
// that the files hold nothing of the turns any more, one that matches [ErrChangedNothing]
// that the turns have changed no file.
func (m *FileSnapshotManager) Revert(ctx context.Context, opts *RevertOptions) (*RestoreResult, error) {
	opts = cmp.Or(opts, new(RevertOptions))
	return restoring(ctx, m, opOfRevert(opts.Turns), func(ctx context.Context) (*RestoreResult, error) {
		x := &restore{m: m, asked: asked{opts: RestoreOptions{Paths: opts.Paths, Hunks: opts.Hunks,
			OnDirty: cmp.Or(opts.OnDirty, rollback.Merge), OnConflict: opts.OnConflict,
			Preview: opts.Preview, Force: opts.Force, EndTurn: opts.EndTurn,
			Label: opts.Label, Append: opts.Append}}}
		return x.run(ctx, func() error { return x.findTurns(ctx, opts.Turns) })
	})
}

// maxNamed is how many turns an error names.
const maxNamed = 20

// opOfRevert says what is done, for errors: "revert turn:7". A bare number is a turn's.
func opOfRevert(turns []string) string {
	op := "revert"
	for i, name := range turns {
		if i == maxNamed {
			return fmt.Sprintf("%s and %d more", op, len(turns)-i)
		}
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			name = "turn:" + name
		}
		op += " " + cmp.Or(words.Quote(name), `""`)
	}
	return op
}

// findTurns finds out what is to be done to take back turns that have names.
func (x *restore) findTurns(ctx context.Context, names []string) error {
	l, err := x.m.line(ctx)
	if err != nil {
		return err
	}
	last, err := x.begin(ctx)
	if err != nil {
		return err
	}
	if x.tip == nil {
		return x.m.noSession(ctx)
	}
	x.undo, _ = last.Lists()
	if x.reverts, x.named, err = l.turnNumbers(ctx, names); err != nil {
		return err
	}
	turns, err := l.turnsOf(ctx, x.reverts, x.named)
	if err != nil {
		return err
	}
	ws := x.newWants(ctx, l)
	if err := ws.withoutTurns(turns); err != nil {
		return err
	}
	x.aim, err = ws.finish()
	x.result.NotCaptured = x.notCaptured
	return err
}

// turnNumbers returns the numbers of the turns that names stand for, in order, and the
// records by which they are known.
func (l *line) turnNumbers(ctx context.Context, names []string) (list []int, named []*record, err error) {
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("no turn is named: %w", ErrUnknown)
	}
	for _, name := range names {
		from, to, isRange := strings.Cut(name, "..")
		first, r, err := l.turnNumber(ctx, from)
		last := first
		if named = append(named, r); err == nil && isRange {
			last, r, err = l.turnNumber(ctx, to)
			named = append(named, r)
		}
		if err != nil {
			return nil, nil, err
		}
		if last < first {
			return nil, nil, fmt.Errorf("turns %q: %w: the first comes after the last", name, ErrUnknown)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	named = slices.DeleteFunc(named, func(r *record) bool { return r == nil })
	return slices.Compact(list), named, nil
}

// turnNumber returns the number of the turn that a name stands for, and what it is known by,
// if that is on record. A number that may be the beginning of an entry as well is that of a
// turn, if there is such a turn and no such entry.
func (l *line) turnNumber(ctx context.Context, name string) (int, *record, error) {
	digits, isTurn := strings.CutPrefix(name, "turn:")
	if n, err := parseNumber(digits); err == nil {
		p, err := l.atTurn(ctx, n)
		mayBeEntry := !isTurn && len(digits) >= minPrefix
		if err == nil && mayBeEntry {
			if _, err := l.m.resolve(ctx, name); !errors.Is(err, ErrUnknown) {
				return 0, nil, fmt.Errorf("%q: %w: turn:%s, and something else that begins so", name, ErrAmbiguous,
					digits)
			}
		}
		if err == nil && p.on.Logged != nil && p.on.Turn() == n {
			err = onlyLogged(n)
		}
		if err == nil || !mayBeEntry {
			if err != nil {
				return n, nil, err
			}
			return n, p.on, nil
		}
	}
	p, err := l.m.resolve(ctx, name)
	if err != nil {
		return 0, nil, err
	}
	n := p.turn(name)
	if l.log != nil {
		if e, err := l.named(name); err == nil && e.Type+e.CustomType != "custom"+sessionlog.StepSnapshot {
			if n, err = l.turnOfEntry(ctx, e); err != nil {
				return 0, nil, err
			}
		}
	}
	past, err := l.past(ctx)
	switch {
	case err != nil:
		return 0, nil, err
	case n < 0:
		return 0, nil, fmt.Errorf("revision %q: %w: it is no turn", name, ErrUnknown)
	case p.Snapshot == nil:
		return 0, nil, onlyLogged(n)
	case l.m.checkPlace(p.Snapshot) != nil:
		return 0, nil, l.m.checkPlace(p.Snapshot)
	case p.Snapshot.Seq > past[p.Snapshot.Session]:
		return 0, nil, fmt.Errorf("turn %d: %w: of %q", n, ErrOtherSession, p.Snapshot.Session)
	}
	return n, p.on, nil
}

// onlyLogged says that nothing but the log tells of a turn.
func onlyLogged(n int) error {
	return fmt.Errorf("turn %d: %w in this store: only the session's log has it", n, ErrUnknown)
}

// turnOfEntry returns the number of the turn to which a message of the log belongs, -1
// if it is none, or nothing is known of its turn.
func (l *line) turnOfEntry(ctx context.Context, e *session.Entry) (int, error) {
	var r *record
	var err error
	switch {
	case isUser(e):
		if r, err = l.search(ctx, e, true, isUser); err == nil {
			r, err = l.emptyBelow(ctx, e, r)
		}
	case e.Type == "message":
		if r, err = l.stepBelow(ctx, e); r == nil && err == nil {
			r, err = l.emptyOf(ctx, e)
		}
	}
	if r == nil || err != nil {
		return -1, err
	}
	return r.Turn(), nil
}

// turnsOf returns the records of turns with these numbers, which are in order, newest
// first, and by which some of them were named. A turn that was divided has several; one that
// nothing is on record of changed nothing. The numbers are those of this machine, unless what
// was named is another's: then they are those that it gave.
func (l *line) turnsOf(ctx context.Context, numbers []int, named []*record) (turns []*record, err error) {
	head, err := l.m.records.Newest(l.m.opts.Session)
	isOther := func(r *record) bool { return r.Seq != 0 && r.Worktree != l.m.project.Worktree }
	if i := slices.IndexFunc(named, isOther); i >= 0 && err == nil {
		head, err = l.m.newestOf(ctx, named[i])
	}
	if err != nil {
		return nil, err
	}
	for r, err := range l.m.records.TimeBack(ctx, head) {
		if err != nil {
			return nil, err
		}
		switch {
		case !r.IsTurn():
			continue
		case slices.Contains(numbers, r.Turn()) && r.Pruned:
			return nil, fmt.Errorf("turn %d: the snapshot %w", r.Turn(), store.ErrPruned)
		case slices.Contains(numbers, r.Turn()):
			turns = append(turns, r)
		}
		if r.Turn() < numbers[0] {
			break
		}
	}
	for _, r := range named {
		isNamed := r.Seq != 0 && r.IsTurn() && slices.Contains(numbers, r.Turn())
		if isNamed && !slices.ContainsFunc(turns, r.IsSameTurn) {
			return nil, fmt.Errorf("turn %d: %w: turns of two machines are named, which number theirs alike: "+
				"name those of one at a time", r.Turn(), ErrAmbiguous)
		}
	}
	return turns, nil
}

// withoutTurns wants what turns did to be taken back, and what was done since to stay.
func (ws *wants) withoutTurns(turns []*record) error {
	s := ws.standings
	ws.goes = staying(ws.tip)
	if len(turns) == 0 {
		return ws.noChange()
	}
	isOne := func(r *record) bool { return slices.ContainsFunc(turns, r.IsSameTurn) }
	all, _, err := s.BackOf(ws.ctx, ws.tip, turns)
	if err != nil {
		return err
	}
	back := make(map[string][]standing.StepChange)
	stay := make(map[string][]standing.StepChange) // changes that came since and stay
	for p, list := range all {
		for len(list) > 0 && !isOne(list[len(list)-1].By) {
			list = list[:len(list)-1]
		}
		for _, sc := range list {
			if isOne(sc.By) || sc.CutsOnly(list, isOne) {
				back[p] = append(back[p], sc)
			} else {
				stay[p] = append(stay[p], sc)
			}
		}
	}
	if err := ws.turnsGo(turns, back); err != nil {
		return err
	}
	if len(ws.asked.opts.Hunks) > 0 {
		if all, err := ws.takeHunks(back, false); !all || err != nil {
			return err
		}
	}
	if ws.goes.pathsBack = back; len(ws.asked.opts.Paths) == 0 {
		ws.goes.pathsBack = nil
	} else if back, err = ws.onlyPaths(back); err != nil {
		return err
	}
	for p, list := range back {
		if len(stay[p]) > 0 {
			s.Own[p], ws.stays = true, stay
		} else if ws.goes.pathsBack == nil {
			continue // it goes the line's way
		}
		if err := ws.standApart(p, list); err != nil {
			return err
		}
	}
	if err := ws.undo(back, nil, nil); err != nil || len(ws.asked.opts.Hunks) > 0 {
		return err
	}
	return ws.hideMoved(turns, all)
}

// staying says that files stand where they do, but for what is still to be noted.
func staying(tip *record) goes {
	return goes{from: tip.Seq, to: tip.Seq, depth: tip.Facts.Depth, leftFrom: tip.Seq,
		reverts: true, apart: make(map[string]*history.Apart)}
}

// standApart notes where a path stands once changes are taken back, the newest first,
// which are not all on the way that the line goes.
func (ws *wants) standApart(p string, list []standing.StepChange) error {
	s := ws.standings
	if len(ws.stays[p]) == 0 {
		before, err := s.Line.FoundBy(ws.ctx, list[len(list)-1].By)
		is := before != nil && !s.Own[p]
		if err == nil && before != nil && s.Own[p] {
			is, err = s.Alike(ws.ctx, s.Without(ws.tip, p, list), s.Line.Trail(before, p))
		}
		if err != nil {
			return err
		}
		if is {
			ws.goes.apart[p] = &history.Apart{From: before.Seq}
			return nil
		}
	}
	a := &history.Apart{From: ws.tip.Seq}
	for _, sc := range list {
		a.Without = append(a.Without, sc.By.Seq)
	}
	ws.goes.apart[p] = a
	return nil
}

// turnsGo notes which turns leave the line: all that are named, if something of each is
// in. back has what is in of them.
func (ws *wants) turnsGo(turns []*record, back map[string][]standing.StepChange) error {
	l := ws.line
	some := make(map[int]bool) // turns of which something is in
	seqs := make(map[uint64]bool)
	for _, list := range back {
		for _, sc := range list {
			if !sc.By.IsJoint() {
				some[sc.By.Turn()], seqs[sc.By.Seq] = true, true
			}
		}
	}
	for t := l.Trail(ws.tip, ""); ; {
		r, err := t.Next(ws.ctx)
		if err != nil {
			return err
		}
		if r == nil || r.Seq != 0 && r.Turn() < ws.asked.reverts[0] {
			break
		}
		if slices.ContainsFunc(turns, r.IsSameTurn) {
			ws.goes.back = append(ws.goes.back, r)
			seqs[r.Seq] = true
		}
	}
	for _, r := range turns {
		onLine := slices.ContainsFunc(ws.goes.back, r.IsSameTurn)
		if some[r.Turn()] || onLine {
			continue
		}
		did, err := ws.standings.Of(ws.ctx, r)
		if err != nil {
			return err
		}
		if len(did) > 0 {
			return ws.m.takenBackError(ws.ctx, l, r, "")
		}
	}
	if len(some) == 0 {
		return ws.noChange()
	}
	ws.goes.without = slices.Sorted(maps.Keys(seqs))
	slices.Reverse(ws.goes.without)
	return nil
}

// noChange says that the turns that are named have changed nothing.
func (ws *wants) noChange() error {
	list := ws.asked.reverts
	if len(list) == 1 {
		return fmt.Errorf("turn %d %w", list[0], ErrChangedNothing)
	}
	return fmt.Errorf("%s %w", turnsText(list), ErrChangedNothing)
}

// takenBackError says when a turn, or what it did to a path, was taken back that is not in,
// and by what.
func (m *FileSnapshotManager) takenBackError(ctx context.Context, l *line, turn *record, path string) error {
	what := fmt.Sprint("turn ", turn.Turn())
	if turn.IsElsewhere() {
		what += " of " + words.Quote(turn.Root)
	}
	if path != "" {
		what = fmt.Sprintf("what %s did to %q", what, path)
	}
	head, err := m.records.Newest(m.opts.Session)
	if err != nil {
		return err
	}
	for r, err := range m.records.OwnBack(ctx, head) {
		if err != nil {
			return err
		}
		if r.Seq < turn.Seq {
			break
		}
		if r.Kind != history.KindRestore || r.Pruned {
			continue
		}
		back, _, err := l.effect(ctx, r, path)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(back, turn.IsSameTurn) {
			continue
		}
		by := r.Event()
		if name := history.NameOf(r.Entry, r.Snapshot); name != "" {
			by += " " + name
		}
		return fmt.Errorf("%w: %s was taken back at %s, by %s", ErrNothing, what,
			r.Time.Local().Format(time.DateTime), by)
	}
	if turn.IsElsewhere() { // it was never in, or others have taken it back
		return fmt.Errorf("%w: %s is not in the files here", ErrNothing, what)
	}
	return fmt.Errorf("%w: %s was taken back", ErrNothing, what)
}

// onlyPaths returns what is at those paths that were named.
func (ws *wants) onlyPaths(back map[string][]standing.StepChange) (map[string][]standing.StepChange, error) {
	missing := ""
	match, err := ws.m.matcher(ws.asked.opts.Paths, func(rel string) (bool, error) {
		for p := range back {
			if rel == "." || p == rel || strings.HasPrefix(p, rel+"/") {
				return true, nil
			}
		}
		if !isGlob(rel) {
			missing = rel
		}
		return false, nil
	})
	switch {
	case err != nil:
		return nil, err
	case missing != "":
		return nil, ws.nothingAt(fmt.Sprintf("path %q", missing), func(p string) bool {
			return p == missing || strings.HasPrefix(p, missing+"/")
		})
	}
	only := make(map[string][]standing.StepChange)
	for p, list := range back {
		if match(p) {
			only[p] = list
		}
	}
	if len(only) == 0 {
		return nil, ws.nothingAt(fmt.Sprintf("%q", ws.asked.opts.Paths), match)
	}
	return only, nil
}

// nothingAt says that nothing that was to be taken back is at paths for which match holds:
// it was taken back already, or there was nothing.
func (ws *wants) nothingAt(where string, match func(string) bool) error {
	l, reverts := ws.line, ws.asked.reverts
	if reverts == nil {
		return fmt.Errorf("%s: %w: no turn that would be taken back changed anything there", where, ErrUnknown)
	}
	turns, err := l.turnsOf(ws.ctx, reverts, ws.asked.named)
	if err != nil {
		return err
	}
	for _, r := range turns {
		did, err := ws.standings.Of(ws.ctx, r)
		if err != nil {
			return err
		}
		for _, p := range slices.Sorted(maps.Keys(did)) {
			if match(p) {
				return ws.m.takenBackError(ws.ctx, l, r, p)
			}
		}
	}
	return fmt.Errorf("%s: %w: %s changed nothing there", where, ErrUnknown, turnsText(reverts))
}
