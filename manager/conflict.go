package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Conflict is a path at which something stays that a restore with [rollback.Merge] was
// to take back, or to do again, since somebody has changed it.
type Conflict struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"pathBytes,omitempty"` // if it is not UTF-8

	// Why it stays: "lines" were changed, the rest of the file is merged unless somebody has
	// moved it; of a whole file
	// "made-then-changed", "deleted-then-made", "changed-then-deleted", "binary", "large",
	// "kind" (one is no file), "lost" (a content is not in the store), "markers" (of another
	// conflict are in it: see [FileSnapshotManager.Marked]); "hidden" under the deletion by
	// a turn that stays, or in a file that such a turn has moved; "contested" or "unknown":
	// nobody knows whose it is.
	Why string `json:"why"`

	// BlockedBy are those who have changed it since, the newest last: "turn:9" of this
	// session, "session ID turn:5" of another, "session ID" if nothing says in which turn,
	// "user", or "unknown".
	BlockedBy []string `json:"blockedBy,omitempty"`

	// Hint is a command that would take it back: with the turns in its way or, where others
	// are in it, with --on-conflict, so that the file has both sides ("lines") or what came
	// since is overwritten. "": there is none.
	Hint string `json:"hint,omitempty"`
}

// whyHidden is why a path that a turn has deleted stays so, as a [Conflict] has it: see also
// package merging.
const whyHidden = "hidden"

// byUser and byUnknown are who is in the way where no turn is.
const (
	byUser    = "user"
	byUnknown = "unknown"
)

// text says why something stays, for people.
func (c *clash) text() string {
	whose := c.Parts[0].Step.Whose()
	both := listed(append(peopleOf(c.by), whose)) + " changed"
	text := ""
	switch c.Why {
	case merging.WhyLines:
		text = both + " the same lines"
	case merging.WhyMade:
		text = fmt.Sprintf("%s made it, and %s changed it", whose, namesOf(c.by))
	case merging.WhyDeleted:
		text = whose + " deleted it, and it was made again since"
	case merging.WhyUserDeleted:
		text = fmt.Sprintf("it was deleted since, and %s changed it", whose)
	case merging.WhyBinary:
		text = both + " it, and it is binary"
	case merging.WhyLarge:
		text = both + " it, and it is too large to be merged"
	case merging.WhyKind:
		text = both + " it, and only files are merged"
	case merging.WhyMarkers:
		text = "it has the markers of another one, which is to be resolved first"
	case merging.WhyLost:
		text = fmt.Sprintf("it cannot be merged with what %s did: %v", whose, c.Lost)
	}
	return "conflict: " + text + c.note
}

// namesOf lists those who are in the way, for people.
func namesOf(by []string) string { return listed(peopleOf(by)) }

// peopleOf names each of those who are in the way, for people: "somebody" if there is none.
func peopleOf(by []string) []string {
	var names []string
	for _, who := range by {
		session, turn, isTurn := strings.Cut(who, "turn:")
		switch {
		case who == byUser:
			who = "you"
		case who == byUnknown:
			who = "somebody"
		case isTurn && session == "":
			who = "turn " + turn
		case isTurn:
			who = fmt.Sprintf("turn %s of %s", turn, strings.TrimSpace(session))
		}
		names = append(names, who)
	}
	if len(names) == 0 {
		return []string{"somebody"}
	}
	return names
}

// listed returns one name or more as a list: "turn 1, you and turn 0".
func listed(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// A clash is what cannot be merged of a path.
type clash struct {
	*merging.Clash
	want *livedir.Want
	disk *tree.Entry // what is there; nil: nothing
	note string      // what is said besides, with a comma
	by   []string    // who is in the way, the newest last
}

// conflictAt returns what is in the way at a path that was left alone, or changed in
// part; nil: nothing of that kind is.
func (x *restore) conflictAt(it *rollback.Item) *Conflict {
	isLeft := it.Do == rollback.Skipped || it.Do == rollback.Kept || it.IsPart()
	if x.opts.OnDirty != rollback.Merge || !isLeft {
		return nil
	}
	c := &Conflict{Path: it.Path, PathBytes: words.BytesUnlessText(it.Path)}
	why := it.Why
	if w := x.expected[it.Path]; why == whyUntold && w != nil {
		why = cmp.Or(w.Doubt, "unknown:")
	}
	doubt, _, _ := strings.Cut(why, ":")
	switch found := x.clashes[it.Path]; {
	case found != nil:
		c.Why, c.BlockedBy = found.Why, found.by
	case x.hidden[it.Path] != nil:
		c.Why, c.BlockedBy = whyHidden, []string{fmt.Sprint("turn:", x.hidden[it.Path].Turn())}
	case doubt == "contested" || doubt == "unknown":
		c.Why = doubt
	case it.Dirty && slices.ContainsFunc(slices.Concat(x.back[it.Path], x.forth[it.Path]), isContested):
		c.Why = "contested"
	case it.Now == nil && it.Dirty && x.movesTo(it.Path): // and what it would be made of is gone
		c.Why = merging.WhyUserDeleted
	default:
		return nil
	}
	if c.Hint = x.hintWithTurns(c.BlockedBy); c.Hint == "" {
		c.Hint = x.hintOnConflict(c)
	}
	return c
}

// movesTo reports whether a restore that is taken back had moved the file of a path, which goes back.
func (x *restore) movesTo(path string) bool {
	return slices.ContainsFunc(x.moves, func(mv rollback.Move) bool { return mv.To == path })
}

// isContested reports whether nobody knows whose a change is.
func isContested(sc standing.StepChange) bool { return sc.Change.Owner == windows.Contested }

// hintWithTurns returns the command that takes turns back together with those in their
// way, "" if others are in it.
func (x *restore) hintWithTurns(by []string) string {
	if x.reverts == nil || len(by) == 0 || len(x.opts.Hunks) > 0 { // of hunks it would do more
		return ""
	}
	turns := slices.Clone(x.reverts)
	if x.result.TurnsLeft != nil {
		turns = slices.Clone(x.result.TurnsLeft)
	}
	for _, who := range by {
		digits, ok := strings.CutPrefix(who, "turn:")
		n, err := parseNumber(digits)
		if !ok || err != nil {
			return ""
		}
		turns = append(turns, n)
	}
	return x.revertLine(turns, "", x.opts.Paths)
}

// nameLeft finds the turns of a restore that is done of which something is in still, since it is in
// conflict, and has the hints name those alone: a revert refuses the others. If that cannot be found
// out they name all.
func (x *restore) nameLeft(ctx context.Context) {
	asked := x.reverts
	if asked == nil {
		asked = x.result.TurnsTakenBack
	}
	if len(x.result.Conflicts) == 0 || len(asked) == 0 || x.undoes != nil {
		return
	}
	l, err := x.m.line(ctx)
	if err != nil {
		return
	}
	left := make([]int, 0, len(asked))
	tl := &timeline{l: l, takenBack: make(map[uint64]*record)}
	tl.yield = func(mo *Moment, _ error) bool {
		isIn := mo.TakenBack == nil || len(mo.But) > 0
		if slices.Contains(asked, mo.TurnIndex) && isIn && !slices.Contains(left, mo.TurnIndex) {
			left = append(left, mo.TurnIndex)
		}
		return mo.TurnIndex < 0 || mo.TurnIndex >= slices.Min(asked)
	}
	if err := tl.run(ctx); err != nil && !errors.Is(err, errStopped) {
		return
	}
	slices.Sort(left)
	x.result.TurnsLeft = left
	for i := range x.result.Conflicts {
		c := &x.result.Conflicts[i]
		c.Hint = cmp.Or(x.hintWithTurns(c.BlockedBy), c.Hint)
	}
}

// hintOnConflict returns the command that settles a conflict in which others are than
// turns, "" if none does.
func (x *restore) hintOnConflict(c *Conflict) string {
	how := rollback.ConflictTheirs
	switch c.Why {
	case merging.WhyLines:
		how = rollback.ConflictMarkers
	case merging.WhyMade, merging.WhyDeleted, merging.WhyUserDeleted, merging.WhyBinary, merging.WhyLarge,
		merging.WhyKind:
	default:
		return ""
	}
	found := x.clashes[c.Path]
	isMany := len(x.opts.Hunks) > 1 // some may be done by then
	if found == nil || x.undoes != nil || x.opts.OnConflict == how || isMany ||
		found.disk != nil && found.disk.Mode.IsDir() {
		return "" // what somebody has put into a directory stays
	}
	var turns []int
	add := func(r *record) bool {
		turns = append(turns, r.Turn())
		return r.Turn() >= 0 && !r.IsElsewhere()
	}
	for _, part := range found.Parts {
		if part.Step.Comes || !add(part.Step.Of) {
			return ""
		}
	}
	if found.IsWhole { // all stay
		for _, sc := range x.back[c.Path] {
			if !sc.By.IsJoint() && !add(sc.By) {
				return ""
			}
		}
	}
	flags := fmt.Sprint(" --on-conflict ", how)
	if len(x.opts.Hunks) > 0 {
		flags = fmt.Sprint(" --hunks ", x.opts.Hunks[0], flags)
	}
	return x.revertLine(turns, flags, []string{c.Path})
}

// revertLine returns the command that takes back turns.
func (x *restore) revertLine(turns []int, flags string, paths []string) string {
	text := "snapctl --session " + x.m.opts.Session + " revert"
	slices.Sort(turns)
	for _, n := range slices.Compact(turns) {
		text += fmt.Sprint(" turn:", n)
	}
	if text += flags; len(paths) > 0 {
		text += " --"
	}
	for _, p := range paths {
		text += " " + words.ShellQuote(p)
	}
	return text
}

// blame finds out who is in the way of what cannot be merged, and has the wants say it.
func (x *restore) blame(ctx context.Context, a *aim) error {
	if len(a.clashes) == 0 {
		return nil
	}
	l, err := x.m.line(ctx)
	if err != nil {
		return err
	}
	b := newBlamer(ctx, x, l, a)
	if err := b.collect(); err != nil {
		return err
	}
	for _, c := range a.clashes {
		if err := errors.Join(b.blame(c), b.blameCarried(c)); err != nil {
			return err
		}
		if text := c.text(); c.IsWhole {
			c.want.Held = text
		} else {
			c.want.Part, c.want.Doubt = text, text
		}
	}
	return nil
}

// A stage is what became of a path between two records that follow one another.
type stage struct {
	seq      uint64 // of the newer one; the largest number: what is on the disk now
	by       []string
	from, to *tree.Entry

	known   bool
	edits   []textdiff.Edit // between the two, if that is known
	isWhole bool            // one of them is no text, or cannot be read
}

// A blamer finds out who has changed paths since.
type blamer struct {
	x      *restore
	ctx    context.Context
	l      *line
	a      *aim
	turns  map[string]int             // of each session that which was open, as far as is known
	past   map[string]uint64          // see [line.past]
	stages map[string][]*stage        // of the paths of the clashes, newest first
	in     map[string]map[string]bool // the turns that are in, at a path, and at all of which no joint tells
	own    map[string]bool            // the others
	oldest uint64                     // record from which on they are known
}

func newBlamer(ctx context.Context, x *restore, l *line, a *aim) *blamer {
	return &blamer{x: x, ctx: ctx, l: l, a: a, turns: make(map[string]int), stages: make(map[string][]*stage),
		in: make(map[string]map[string]bool), own: make(map[string]bool)}
}

// collect finds the stages of all clashes, back to when the oldest of their changes was
// made.
func (b *blamer) collect() (err error) {
	m := b.x.m
	if b.past, err = b.l.past(b.ctx); err != nil {
		return err
	}
	b.oldest = b.x.o.newestSeq()
	for _, c := range b.a.clashes {
		for _, part := range c.Parts {
			b.oldest = min(b.oldest, part.Step.Began())
		}
	}
	for _, t := range b.x.o.turns.Open {
		b.turns[t.Session] = t.Turn
	}
	var newer *record
	for r, err := range m.records.Since(b.ctx, b.x.o.newestSeq(), max(b.oldest, 1)-1) {
		if err != nil {
			return err
		}
		if newer == nil {
			for p, c := range b.a.clashes {
				e, err := trees.EntryAt(b.ctx, m.tree.pages, r.Tree, p)
				if err != nil {
					return err
				}
				b.add(stage{seq: math.MaxUint64, by: b.names(b.x.o.windows, math.MaxUint64), from: e, to: c.disk}, p)
			}
		} else if err := b.between(r, newer); err != nil {
			return err
		}
		newer = r
	}
	return nil
}

func (b *blamer) add(s stage, p string) {
	if b.a.clashes[p] != nil && !trees.Same(s.from, s.to) {
		b.stages[p] = append(b.stages[p], &s)
	}
}

// between adds the stages between two records that follow one another.
func (b *blamer) between(r, newer *record) error {
	if n := newer.Turn(); n >= 0 {
		b.turns[newer.Session] = n
	}
	by := b.owners(r, newer)
	for d, err := range trees.Compare(b.ctx, b.x.m.tree.pages, r.State(), newer.State()) {
		if err != nil {
			return err
		}
		b.add(stage{seq: newer.Seq, by: by, from: d.Old, to: d.New}, d.Path)
	}
	return nil
}

// owners names those who were at work between two records.
func (b *blamer) owners(r, newer *record) (by []string) {
	switch {
	case newer.Kind == history.KindRestore: // what it brings is somebody else's
		return nil
	case newer.IsAfterGap(r.Seq):
		return []string{byUnknown}
	}
	return b.names(newer.Facts.Windows, newer.Seq)
}

// names names those who had windows open before a record; nobody is the user. Turns of
// a session that this one was forked from, up to there, are its own.
func (b *blamer) names(windows []string, seq uint64) (by []string) {
	if len(windows) == 0 {
		return []string{byUser}
	}
	for _, session := range windows {
		turn, known := b.turns[session]
		switch own := seq <= b.past[session]; {
		case known && own:
			by = append(by, fmt.Sprint("turn:", turn))
		case known:
			by = append(by, fmt.Sprintf("session %s turn:%d", session, turn))
		case own || session == history.Nobody:
			by = append(by, byUnknown)
		default:
			by = append(by, "session "+session)
		}
	}
	return by
}

// blame finds out who is in the way of a clash.
func (b *blamer) blame(c *clash) error {
	newest := make(map[string]uint64) // where each of them was in the way last
	for _, part := range c.Parts {
		stages := b.stages[c.want.Path]
		// The newest place at which the path was as the change left it, or found it.
		is := func(s *stage) bool { return s.seq <= part.Step.Of.Seq && trees.Same(s.to, part.Step.Base) }
		if i := slices.IndexFunc(stages, is); i >= 0 {
			stages = stages[:i]
		}
		places, whole := part.Places, part.Places == nil
		for _, s := range slices.Backward(stages) {
			touched := true
			if !whole {
				var err error
				if touched, places, err = b.through(c.want.Path, s, places); err != nil {
					return err
				}
				whole = places == nil
			}
			for _, who := range s.by {
				stays, err := b.stays(c.want.Path, who)
				if err != nil {
					return err
				}
				if touched && stays {
					newest[who] = s.seq
				}
			}
		}
	}
	c.by = slices.SortedFunc(maps.Keys(newest), func(a, b string) int {
		return cmp.Or(cmp.Compare(newest[a], newest[b]), cmp.Compare(a, b))
	})
	return nil
}

// blameCarried finds out who is in the way in a file that was moved to where the clash is: by
// turns that go, after those had changed it that stay.
func (b *blamer) blameCarried(c *clash) error {
	p := b.a.carried[c.want.Path]
	for len(c.by) == 0 && p != "" {
		stay, err := b.a.standings.StaysAt(b.ctx, b.x.tip, p, b.a.back[p])
		if err != nil {
			return err
		}
		for _, sc := range slices.Backward(stay) {
			if who := fmt.Sprint("turn:", sc.By.Turn()); !sc.By.IsJoint() && !slices.Contains(c.by, who) {
				c.by = append(c.by, who)
			}
		}
		p = b.a.carried[p]
	}
	return nil
}

// stays reports whether what somebody did at a path is still there: of a turn of the session
// that was taken back, or goes now, it is not.
func (b *blamer) stays(p, who string) (bool, error) {
	if !strings.HasPrefix(who, "turn:") {
		return true, nil
	}
	for _, side := range []map[string][]standing.StepChange{b.a.back, b.a.forth} {
		for _, sc := range side[p] {
			if who == fmt.Sprint("turn:", sc.By.Turn()) {
				return false, nil
			}
		}
	}
	in, err := b.turnsIn(p)
	return in[who], err
}

// turnsIn returns the turns of the session that are in at a path.
func (b *blamer) turnsIn(p string) (map[string]bool, error) {
	if b.in[standing.AnyPath] == nil {
		if err := b.walk(standing.AnyPath); err != nil {
			return nil, err
		}
	}
	if !b.own[p] {
		p = standing.AnyPath
	}
	if b.in[p] == nil {
		if err := b.walk(p); err != nil {
			return nil, err
		}
	}
	return b.in[p], nil
}

// walk finds the turns that are in at a path.
func (b *blamer) walk(p string) error {
	b.in[p] = make(map[string]bool)
	t := b.l.Trail(b.x.tip, p)
	t.Joint = func(j *record) {
		for q := range j.Facts.OwnPaths() {
			b.own[q] = true
		}
	}
	for {
		r, err := t.Next(b.ctx)
		if r == nil || err != nil || r.Seq < b.oldest {
			return err
		}
		b.in[p][fmt.Sprint("turn:", r.Turn())] = true
	}
}

// through returns where lines are after a stage, and whether it has changed one of them,
// or what is beside them; nil: the file as a whole was changed.
func (b *blamer) through(p string, s *stage, places []patch.Span) (touched bool, to []patch.Span, err error) {
	if !s.known {
		if err := b.compare(p, s); err != nil {
			return true, nil, err
		}
	}
	if s.isWhole {
		return true, nil, nil
	}
	for _, place := range places {
		moved, is := throughEdits(place, s.edits)
		touched, to = touched || is, append(to, moved)
	}
	return touched, to, nil
}

// compare finds the edits of a stage.
func (b *blamer) compare(p string, s *stage) error {
	s.known, s.isWhole = true, true
	var lines [2][]string
	for i, e := range []*tree.Entry{s.from, s.to} {
		if e == nil || e.Mode.Kind() != tree.ModeFile || e.Size > merging.MaxText {
			return nil
		}
		text, err := b.x.merger().Read(b.ctx, p, s.to, e)
		if err != nil {
			return context.Cause(b.ctx)
		}
		lines[i] = textdiff.SplitLines(text)
	}
	s.edits, s.isWhole = textdiff.Compare(lines[0], lines[1]), false
	return nil
}

// throughEdits returns where lines are after edits, with what these have put in their
// place or beside them, and whether they have.
func throughEdits(place patch.Span, edits []textdiff.Edit) (to patch.Span, touched bool) {
	start, end := place.Start, place.End
	by := 0 // how much the lines have moved
	for _, e := range edits {
		if e.OldStart > place.End {
			break
		}
		if e.OldEnd >= place.Start {
			if !touched {
				start = min(place.Start+by, e.NewStart)
			}
			touched = true
		}
		by += e.NewEnd - e.NewStart - (e.OldEnd - e.OldStart)
		if end = place.End + by; e.OldEnd > place.End {
			end = e.NewEnd
		}
	}
	if !touched {
		start, end = place.Start+by, place.End+by
	}
	return patch.Span{Start: start, End: end}, touched
}

// markedIn returns the files of a plan that get markers, as its record has them.
func (x *restore) markedIn(plan *livedir.Plan) (list []history.Marked) {
	paths := make(map[int]map[string]bool) // by signs
	for i := range plan.Items {
		it := &plan.Items[i]
		if c := x.clashes[it.Path]; c != nil && it.IsPart() {
			for _, signs := range c.Signs {
				if paths[signs] == nil {
					paths[signs] = make(map[string]bool)
				}
				paths[signs][it.Path] = true
			}
		}
	}
	for _, signs := range slices.Sorted(maps.Keys(paths)) {
		list = append(list, history.Marked{Paths: history.PathBytes(paths[signs], nil), Signs: signs})
	}
	return list
}

// IsMarked reports whether a text, of a path, has markers of conflicts that a restore has
// left there.
func (x *restore) IsMarked(ctx context.Context, p string, text []byte) (is bool, err error) {
	if !bytes.Contains(text, []byte("<<<<<<<")) {
		return false, nil
	}
	if x.marked == nil {
		if x.marked, err = x.m.markedFiles(ctx); err != nil {
			return false, err
		}
	}
	return merging.HasMarkers(text, x.marked[p]), nil
}

// Marked lists the files of the directory in which restores of whatever session have left
// markers of conflicts that are still there (see [rollback.ConflictMarkers]), in order of
// path. None of them is merged again as long as it has them.
func (m *FileSnapshotManager) Marked(ctx context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	files, err := m.markedFiles(ctx)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	root, err := m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var list []string
	for _, p := range slices.Sorted(maps.Keys(files)) {
		to := &textSink{Sink: trees.NewOverlay(nil)}
		e, err := root.Entry(ctx, p, to)
		if err != nil {
			return nil, err
		}
		if e != nil && e.Mode.Kind() == tree.ModeFile && merging.HasMarkers(to.text, files[p]) {
			list = append(list, p)
		}
	}
	return list, nil
}

// markedFiles returns the files in which restores have left markers, with their signs.
func (m *FileSnapshotManager) markedFiles(ctx context.Context) (map[string][]int, error) {
	files := make(map[string][]int)
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Worktree != m.project.Worktree || history.IsEdit(s) {
			continue
		}
		head, err := history.Read(s)
		if err != nil {
			return nil, err
		}
		r, err := m.newestMarked(ctx, head)
		for ; r != nil && err == nil; r, err = m.markedBefore(ctx, r) {
			for _, marked := range r.Facts.Marked {
				for _, p := range marked.Paths {
					files[string(p)] = append(files[string(p)], marked.Signs)
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// newestMarked returns the session's newest restore that has left markers, nil if none has.
func (m *FileSnapshotManager) newestMarked(ctx context.Context, head *record) (*record, error) {
	r, err := m.records.LastRestore(ctx, head)
	if r == nil || err != nil || len(r.Facts.Marked) > 0 {
		return r, err
	}
	return m.markedBefore(ctx, r)
}

// markedBefore returns the session's newest restore before one that has left markers, nil
// if none has. Records of older programs do not say which it is.
func (m *FileSnapshotManager) markedBefore(ctx context.Context, r *record) (*record, error) {
	for {
		var err error
		if r.Facts.Marks == 0 {
			r, err = m.records.RestoreBefore(ctx, r)
		} else {
			session := r.Session
			r, err = m.records.OrBefore(ctx, r.Facts.Marks, func(s *store.Snapshot) bool {
				return s.Session == session && (s.Kind == history.KindRestore || s.Kind == history.KindStart)
			})
		}
		switch {
		case r == nil || err != nil || len(r.Facts.Marked) > 0:
			return r, err
		case r.Kind != history.KindRestore:
			return nil, nil
		}
	}
}
