package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file is what restores, undos, reverts and forks mean, as a simulation
// that imports nothing of ours and shares no code with it. Files are small
// texts, a directory is a map. Speed is of no concern.
//
// A change is what one window of a turn did at one path, from its before to its
// after. The standing of a path in a session is the set of changes that are in.
// A moment has the standing of each path. The line is the turns that are not
// taken back.
//
// Where the rules contradict each other or say nothing, this is decided here:
//
//  1. What is expected at a path follows from the set that is in: what was
//     expected when that set was there first. So it is recorded once for each
//     set, and a set that nothing clean has led to is unknown until something
//     does.
//  2. The first change that goes counts for mixed as well, unless the restore
//     goes back to just before it: only then the user's text that it found is
//     part of what is written. (user: u; turn A; turn B; revert A; start: u is
//     lost otherwise. So it is with A; start; user: u; turn B; turn:0.)
//  3. What is written becomes what is expected of a set that is new only if all
//     that it is made of was expected: the disk, what the changes found and,
//     for an undo, what the restore found and left. It may be dirty for the
//     undo by then (a turn came in between).
//  4. A path that already holds what it is to become is in no list, whatever
//     was expected there; its standing moves if the restore counts, that is,
//     if it changes another file.
//  5. An undo or redo counts if it changes a file or leaves nothing alone: so
//     one whose files are all back already is taken off the list.
//  6. Turns are tried again where paths of them were left by a restore
//     @~N whose oldest turn is older than they are, by every restore to a moment
//     in which they are not in, and by revert.
//  7. By PATH a turn leaves the line when the last of it goes, and is on it
//     again when something of it comes, if it is on the line of the target.
//  8. A conflict of lines leaves these, and the rest of the path is merged: it is
//     written. The changes that go stay in then, and those that come are in, but where
//     nothing of a turn has come; and what of them is out, nevertheless or already, is a
//     cut, a change that is in behind them. One of a whole path leaves all of it alone.
//     Where files are not to be merged, and nothing says what is expected without the
//     changes that go, one after the other goes if it left all that is there. Merged
//     or not, a path is as it is to be then if it holds what the first that goes had
//     found, or the last that comes has left. But not, merged, where a change that goes
//     has left what is there: what it took there of the user, or of a turn that stays,
//     is to come. So it is where one that goes is mixed, whatever is known.
//  9. hidden is said only where no moment had the set. Else what it had there
//     is known, and nothing has to be written.
//     It holds for undo and redo as well (turn 0 makes p; restored away and
//     forth; turn 1 deletes p; undo), and where the file was made anew since:
//     else a restore that takes turn 1 back brings the lines of turn 0 along,
//     which is out. But it does not where nothing has come since, nor where the
//     restore wrote nothing.
//  10. Named PATHs and --exact do not ask for what is mixed: whoever says them
//     means those bytes. With @~N they mean the end of that turn of the line.
//  11. An undo that overwrites puts back the standing along with the bytes.
//  12. A revert of several turns is refused if one of them was taken back.
//  13. An undo in part brings the line back as a whole: the turns that the
//     restore took are on it again, but for the paths that were left.
//  14. undo --past passes over the restores that were left in part, and those
//     of which nothing can be taken back now, and takes the next one; those that
//     it passed stay on the list.
//  15. What a turn did in one window and took back in another is no change of it
//     once it has ended: all that it did at a path, or in windows between which
//     nobody changed anything.
//  16. Without merging, an undo leaves a path alone that a later turn or restore
//     has changed, even if it holds what the restore left by now.
//  17. What a restore that undo --past passes over is still to give back is given
//     back first: at these paths the older one is left alone, whatever is there.
//     Else changes come without those that they were made on.
//  18. theirs gives up what others have done where there is a conflict, and markers leaves
//     both sides: there the user takes at once what was there. Else they do as keep does.
//     What a change was made on, and is out by then, does not come with theirs, nor what that
//     had been made on: what others had made of it since comes. Nothing is given up, or marked,
//     where keep has no conflict in the end.
//  19. A tool of a turn that restores, or takes a snapshot, divides the turn: each part
//     is a turn here, with the number of the first. @~N counts parts that are on the line
//     and have one number as one.

const (
	ruleNone    = "-" // no file
	ruleUnknown = "?"
)

type ruleFiles map[string]string

func (f ruleFiles) at(p string) string {
	if text, ok := f[p]; ok {
		return text
	}
	return ruleNone
}

func (f ruleFiles) put(p, text string) {
	if text == ruleNone {
		delete(f, p)
	} else {
		f[p] = text
	}
}

// ruleDiffer lists the paths at which two directories differ.
func ruleDiffer(a, b ruleFiles) (list []string) {
	for p := range a {
		if a[p] != b.at(p) {
			list = append(list, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// A ruleSet is a set of changes or of turns, in the order of time.
type ruleSet []int

func (s ruleSet) has(n int) bool { return slices.Contains(s, n) }

func (s ruleSet) plus(t ruleSet) ruleSet {
	sum := append(slices.Clone(s), t...)
	slices.Sort(sum)
	return slices.Compact(sum)
}

func (s ruleSet) minus(t ruleSet) ruleSet {
	return slices.DeleteFunc(slices.Clone(s), t.has)
}

func (s ruleSet) is(t ruleSet) bool { return slices.Equal(s, t) }

func (s ruleSet) key() string { return fmt.Sprint([]int(s)) }

type ruleChange struct {
	id            int // in the order of time
	turn          int
	path          string
	before, after string
	stretch       int     // windows between which nobody changed anything have one number
	mixed         bool    // it found something else than was expected
	under         ruleSet // what was in just before
	none          bool    // its turn took it back in a later window (rule 15)

	cuts []ruleCut // of a restore that took back a part of changes, and is one itself: turn is -1
}

// A ruleCut is what was taken back of a change that stays in.
type ruleCut struct {
	of    ruleChange // as one with those that it is joined with
	whole bool
	lines map[int]bool
}

// A ruleMoment is a recorded state of a session.
type ruleMoment struct {
	kind string // start, begin, look, end or restore
	turn int    // of begin, look, end
	in   map[string]ruleSet
	line ruleSet
	next int
	disk ruleFiles // what was there, of whomever
	idle bool      // a look that found what the moment before had: no name finds it
}

type ruleSession struct {
	name     string
	changes  map[int]*ruleChange
	in       map[string]ruleSet
	expected map[string]map[string]string // path, set
	first    ruleFiles                    // the start
	line     ruleSet
	turns    ruleSet // all that were
	next     int     // turn, or part of one
	numbers  []int   // of the turns, which parts of one have in common
	moments  []*ruleMoment
	undos    []*ruleRestore
	redos    []*ruleRestore

	turn    int // that is open; -1: none
	window  bool
	seen    ruleFiles // when the window opened
	left    ruleFiles // when the last one of the turn closed; nil: it is the first
	stretch int
	lost    string // where what is expected was recorded twice, and not alike
}

// A ruleRestore is what a restore, revert, undo or redo did.
type ruleRestore struct {
	order   int
	session string
	paths   map[string]ruleDeed
	out, in ruleSet // turns of the line
	part    bool    // an undo has left the paths alone that are still here
}

type ruleDeed struct {
	found, left string
	from, to    ruleSet
	rest        bool // an undo has taken back a part of it, which led to to
}

// Rules is a directory and its sessions.
type rules struct {
	merge    bool // else the rule is to skip
	disk     ruleFiles
	sessions map[string]*ruleSession
	time     int
}

func newRules(merge bool, disk ruleFiles) *rules {
	return &rules{merge: merge, disk: maps.Clone(disk), sessions: make(map[string]*ruleSession)}
}

// clone returns a copy to try things on.
func (w *rules) clone() *rules {
	c := *w
	c.disk = maps.Clone(w.disk)
	c.sessions = make(map[string]*ruleSession)
	for name, s := range w.sessions {
		c.sessions[name] = s.clone()
	}
	return &c
}

func (s *ruleSession) clone() *ruleSession {
	c := *s
	c.changes, c.in, c.seen = maps.Clone(s.changes), maps.Clone(s.in), maps.Clone(s.seen)
	c.expected = make(map[string]map[string]string)
	for p, sets := range s.expected {
		c.expected[p] = maps.Clone(sets)
	}
	c.numbers = slices.Clone(s.numbers)
	c.line, c.turns, c.moments = slices.Clone(s.line), slices.Clone(s.turns), slices.Clone(s.moments)
	c.undos, c.redos = slices.Clone(s.undos), slices.Clone(s.redos)
	return &c
}

// Sessions, turns and windows.

func (w *rules) begin(name string) *ruleSession {
	s := &ruleSession{name: name, changes: make(map[int]*ruleChange), in: make(map[string]ruleSet),
		expected: make(map[string]map[string]string), first: maps.Clone(w.disk), turn: -1}
	w.sessions[name] = s
	s.note("start", w.disk)
	return s
}

// fork begins a session at a moment of another one.
func (w *rules) fork(parent, name string, at *ruleMoment) *ruleSession {
	s := w.sessions[parent].clone()
	s.name, s.in, s.line, s.next = name, maps.Clone(at.in), slices.Clone(at.line), at.next
	s.numbers = s.numbers[:at.next]
	s.moments = s.moments[:slices.Index(s.moments, at)+1]
	s.turns = slices.DeleteFunc(s.turns, func(n int) bool { return n >= at.next })
	maps.DeleteFunc(s.changes, func(_ int, c *ruleChange) bool { return c.turn >= at.next })
	s.undos, s.redos, s.turn, s.window = nil, nil, -1, false
	w.sessions[name] = s
	return s
}

func (s *ruleSession) note(kind string, disk ruleFiles) *ruleMoment {
	m := &ruleMoment{kind: kind, turn: s.turn, in: maps.Clone(s.in), line: slices.Clone(s.line), next: s.next,
		disk: maps.Clone(disk)}
	s.moments = append(s.moments, m)
	return m
}

// turnStart begins a turn; without tools it is one window.
func (w *rules) turnStart(name string, tools bool) int {
	s := w.sessions[name]
	number := 0
	if s.next > 0 {
		number = s.numbers[s.next-1] + 1
	}
	s.turn = s.next
	// The line has it from its first moment within on, not at its begin.
	s.note("begin", w.disk).next++
	s.beginPart(number)
	if !tools {
		w.open(name)
	}
	return s.turn
}

// beginPart begins a turn of this number, or a part of it.
func (s *ruleSession) beginPart(number int) {
	s.turn, s.numbers = s.next, append(s.numbers, number)
	s.next++
	s.line, s.turns = s.line.plus(ruleSet{s.turn}), append(s.turns, s.turn)
}

// divide has a tool of the open turn do something between two parts of it.
func (w *rules) divide(name string, do func()) {
	s := w.sessions[name]
	part, isWindow := s.turn, s.window
	if w.close(name); s.hasChanged() {
		w.turnEnd(name)
	} else { // nothing is recorded of it
		s.line = s.line.minus(ruleSet{part})
	}
	do()
	s.left = nil // what the restore has done is in no window
	if s.turn < 0 {
		s.beginPart(s.numbers[part])
	} else {
		s.line = s.line.plus(ruleSet{part})
	}
	if isWindow {
		w.open(name)
	}
}

// hasChanged reports whether the open turn has changed something so far.
func (s *ruleSession) hasChanged() bool {
	for _, in := range s.in {
		is := func(id int) bool { return s.changes[id].turn == s.turn }
		if slices.ContainsFunc(in.minus(s.nothing(in)), is) {
			return true
		}
	}
	return false
}

func (w *rules) open(name string) {
	s := w.sessions[name]
	if s.left == nil || len(ruleDiffer(s.left, w.disk)) > 0 {
		s.stretch++
	}
	s.window, s.seen = true, maps.Clone(w.disk)
}

func (w *rules) close(name string) {
	s := w.sessions[name]
	if !s.window {
		return
	}
	s.window, s.left = false, maps.Clone(w.disk)
	for _, p := range ruleDiffer(s.seen, w.disk) {
		w.time++
		c := &ruleChange{id: w.time, turn: s.turn, path: p, before: s.seen.at(p), after: w.disk.at(p), under: s.in[p],
			stretch: s.stretch}
		c.mixed = s.expects(p, s.in[p]) != c.before
		s.changes[c.id] = c
		s.in[p] = s.in[p].plus(ruleSet{c.id})
		s.expect(p, s.in[p], c.after)
	}
}

func (w *rules) toolStart(name string) *ruleMoment {
	m := w.sessions[name].look(w.disk)
	w.open(name)
	return m
}

func (w *rules) toolEnd(name string) *ruleMoment {
	w.close(name)
	return w.sessions[name].look(w.disk)
}

// look notes a look within a turn.
func (s *ruleSession) look(disk ruleFiles) *ruleMoment {
	before := s.moments[len(s.moments)-1]
	m := s.note("look", disk)
	m.idle = len(ruleDiffer(before.disk, disk)) == 0
	return m
}

func (w *rules) turnEnd(name string) *ruleMoment {
	w.close(name)
	s := w.sessions[name]
	kind := "end"
	if n := len(s.line); n > 1 && s.numbers[s.line[n-2]] == s.numbers[s.turn] && !s.hasChanged() {
		kind, s.line = "nothing", s.line[:n-1] // the turn is one by its parts before
	}
	for p, in := range s.in {
		if own := s.nothing(in); len(own) > 0 {
			s.leaveOut(p, own)
		}
	}
	m := s.note(kind, w.disk)
	m.idle = kind != "end"
	s.turn, s.left = -1, nil
	return m
}

// leaveOut takes changes of the open turn at a path for none: what it did after them was
// done on what was there without them.
func (s *ruleSession) leaveOut(p string, none ruleSet) {
	for _, id := range none {
		c := *s.changes[id]
		c.none = true
		s.changes[id] = &c
	}
	in := s.in[p].minus(none)
	s.in[p] = in
	for _, id := range in {
		if c := *s.changes[id]; c.turn == s.turn {
			c.under = c.under.minus(none)
			c.mixed = s.expects(p, c.under) != c.before
			s.changes[id] = &c
			if with := c.under.plus(ruleSet{id}); s.expects(p, with) == ruleUnknown {
				s.expect(p, with, c.after)
			}
		}
	}
}

// nothing returns the changes of the open turn that are in at a path, all or those of
// a stretch, if each found what the one before it left, and the last left what the
// first found.
func (s *ruleSession) nothing(in ruleSet) (none ruleSet) {
	var own ruleSet
	stretches := make(map[int]ruleSet)
	for _, id := range in {
		if c := s.changes[id]; c.turn == s.turn {
			own, stretches[c.stretch] = append(own, id), append(stretches[c.stretch], id)
		}
	}
	for _, list := range append(slices.Collect(maps.Values(stretches)), own) {
		is := true
		for i, id := range list {
			next := list[(i+1)%len(list)]
			is = is && s.changes[id].after == s.changes[next].before
		}
		if is {
			none = none.plus(list)
		}
	}
	return none
}

// expects returns what is expected at a path where a set is in.
func (s *ruleSession) expects(p string, in ruleSet) string {
	if len(in) == 0 {
		return s.first.at(p)
	}
	if text, ok := s.expected[p][in.key()]; ok {
		return text
	}
	return ruleUnknown
}

func (s *ruleSession) expect(p string, in ruleSet, text string) {
	switch was := s.expects(p, in); was {
	case ruleUnknown:
		if s.expected[p] == nil {
			s.expected[p] = make(map[string]string)
		}
		s.expected[p][in.key()] = text
	case text:
	default:
		s.lost = fmt.Sprintf("%s with %v in: expected %q, now %q", p, in, was, text)
	}
}

// moment returns the begin or the end of a turn, or the start.
func (s *ruleSession) moment(kind string, turn int) *ruleMoment {
	for _, m := range s.moments {
		if m.kind == kind && (kind == "start" || m.turn == turn) {
			return m
		}
	}
	return nil
}

func (s *ruleSession) start() *ruleMoment { return s.moments[0] }

// A ruleRequest is what somebody wants done. What is to be is said by one of
// to, back, turns, hash.
type ruleRequest struct {
	verb    string // restore, revert, undo, redo
	session string // undo, redo: "": whatever the session
	to      *ruleMoment
	back    int   // @~N, if to and hash are nil
	turns   []int // of revert
	hash    ruleFiles
	paths   []string // of restore: these, whoever changed them; of revert: only there
	exact   bool
	policy  string // skip, overwrite, abort, merge; "": what the directory's rule is
	past    bool

	conflict string // what becomes of a conflict of a merge: keep, theirs, markers, abort; "": keep
}

// A ruleAnswer says what comes of it.
type ruleAnswer struct {
	outcome           string // ok, left, nothing, already, unknown, ambiguous, aborted
	restored, deleted []string
	skipped           map[string]string // why
	dirty             []string
	out, in           ruleSet      // turns taken back, and put back
	of                string       // session
	took              *ruleRestore // that an undo or a redo took back

	gave map[string]bool // paths at which what others did was given up, for theirs
}

// A rulePath is what is planned for a path.
type rulePath struct {
	path        string
	found, text string
	from, to    ruleSet
	why         string // it is dirty, if that is not ""
	left        string // why it is left alone
	part        bool   // but for lines that are merged
	pure        bool   // text is the session's, and nothing else
	steps       []ruleStep

	how  string // what becomes of conflicts, as a ruleRequest has it
	gave string // text that others had a part in, and that was given up in a conflict
	ever bool   // there was one
	gone bool   // nothing is to be there

	keep *rulePath // what it comes to with keep, if how is another one and something was done
}

// A ruleStep leads from what is there of a change to what is to be there of it.
type ruleStep struct {
	c            ruleChange // as one with those that it is joined with
	comes        bool       // nothing of it was in
	half         bool       // it is joined with earlier ones that neither go nor come
	base, theirs string
	got          string     // base, with as much of theirs as was done
	out          []ruleStep // what the change was made on and is out, newest first
}

// do does what is wanted, and tells.
func (w *rules) do(q ruleRequest) *ruleAnswer {
	if q.policy == "" {
		q.policy = "skip"
		if q.verb == "restore" && q.exact {
			q.policy = "overwrite"
		} else if w.merge && len(q.paths) == 0 || q.verb != "restore" && w.merge {
			q.policy = "merge"
		}
	}
	switch q.verb {
	case "undo", "redo":
		return w.takeBack(q)
	case "revert":
		return w.revert(q)
	}
	s := w.sessions[q.session]
	switch {
	case q.hash != nil:
		return w.restoreHash(s, q)
	case q.to == nil && s.backTo(q.back) < 0:
		return &ruleAnswer{outcome: "unknown"}
	case q.to == nil && (q.exact || len(q.paths) > 0):
		q.to = s.start()
		if n := s.backTo(q.back); n > 0 {
			q.to = s.moment("end", s.line[n-1])
		}
	}
	if q.to == nil {
		return w.restoreBack(s, q)
	}
	return w.restoreTo(s, q)
}

// preview says what would be done.
func (w *rules) preview(q ruleRequest) (*ruleAnswer, ruleFiles) {
	c := w.clone()
	return c.do(q), c.disk
}

// isPart reports whether a turn is a part of one that was divided.
func (s *ruleSession) isPart(turn int) bool {
	n := s.numbers[turn]
	return turn > 0 && s.numbers[turn-1] == n || turn+1 < len(s.numbers) && s.numbers[turn+1] == n
}

// backTo returns how much of the line is before its last turns; -1: it has not so many.
func (s *ruleSession) backTo(turns int) int {
	n := len(s.line)
	for range turns {
		if n == 0 {
			return -1
		}
		for n--; n > 0 && s.numbers[s.line[n-1]] == s.numbers[s.line[n]]; n-- {
		}
	}
	return n
}

func (w *rules) restoreBack(s *ruleSession, q ruleRequest) *ruleAnswer {
	taken := s.line[s.backTo(q.back):]
	if len(taken) == 0 {
		return &ruleAnswer{outcome: "nothing", of: s.name}
	}
	goes := func(c *ruleChange) bool {
		return taken.has(c.turn) || c.turn > taken[0] && !s.line.has(c.turn) // left by an earlier one
	}
	return w.apply(s, q, w.without(s, q, goes, nil), s.line.minus(taken))
}

func (w *rules) revert(q ruleRequest) *ruleAnswer {
	s := w.sessions[q.session]
	for _, n := range q.turns {
		if !s.turns.has(n) {
			return &ruleAnswer{outcome: "unknown", of: s.name}
		}
		isPart := func(m int) bool { return s.numbers[m] == s.numbers[n] }
		isIn := func(m int) bool { return isPart(m) && (s.line.has(m) || s.anyIn(m, nil)) }
		did := func(c *ruleChange) bool { return c.turn >= 0 && isPart(c.turn) }
		if slices.ContainsFunc(slices.Collect(maps.Values(s.changes)), did) && !slices.ContainsFunc(q.turns, isIn) {
			return &ruleAnswer{outcome: "already", of: s.name}
		}
	}
	plan := w.without(s, q, func(c *ruleChange) bool { return slices.Contains(q.turns, c.turn) }, q.paths)
	line := s.line.minus(q.turns)
	if len(q.paths) > 0 {
		if line = ruleByPath; len(plan) == 0 {
			return &ruleAnswer{outcome: "unknown", of: s.name}
		}
	}
	return w.apply(s, q, plan, line)
}

// without plans to take changes out.
func (w *rules) without(s *ruleSession, q ruleRequest, goes func(*ruleChange) bool, only []string) (plan []*rulePath) {
	for p, in := range s.in {
		to := slices.DeleteFunc(slices.Clone(in), func(id int) bool { return goes(s.changes[id]) })
		to = slices.DeleteFunc(slices.Clone(to), func(id int) bool { return s.isVoid(id, to) })
		if !to.is(in) && (len(only) == 0 || slices.Contains(only, p)) {
			plan = append(plan, w.plan(s, p, to, q))
		}
	}
	return plan
}

// anyIn reports whether anything of a turn is in; with moved, after these have
// gone where they go.
func (s *ruleSession) anyIn(turn int, moved map[string]ruleSet) bool {
	for p, in := range s.in {
		if to, ok := moved[p]; ok {
			in = to
		}
		if slices.ContainsFunc(in, func(id int) bool { return s.changes[id].turn == turn }) {
			return true
		}
	}
	for p, in := range moved {
		if _, ok := s.in[p]; !ok && slices.ContainsFunc(in, func(id int) bool { return s.changes[id].turn == turn }) {
			return true
		}
	}
	return false
}

// anyComes reports whether anything of a turn comes in.
func (s *ruleSession) anyComes(turn int, moved map[string]ruleSet) bool {
	for p, to := range moved {
		if slices.ContainsFunc(to.minus(s.in[p]), func(id int) bool { return s.changes[id].turn == turn }) {
			return true
		}
	}
	return false
}

func (w *rules) restoreTo(s *ruleSession, q ruleRequest) *ruleAnswer {
	own := slices.Contains(s.moments, q.to)
	var plan []*rulePath
	if !q.exact && len(q.paths) == 0 {
		if !own {
			return &ruleAnswer{outcome: "unknown", of: s.name}
		}
		for _, p := range ruleKeys(s.in, q.to.in) {
			if to := q.to.in[p]; !to.is(s.in[p]) {
				plan = append(plan, w.plan(s, p, to, q))
			}
		}
		return w.apply(s, q, plan, q.to.line)
	}
	names := q.paths
	if q.exact && len(names) == 0 {
		names = ruleKeys(s.in, q.to.in, w.disk, q.to.disk)
	}
	for _, p := range names {
		if w.disk.at(p) == ruleNone && q.to.disk.at(p) == ruleNone && len(q.paths) > 0 {
			return &ruleAnswer{outcome: "unknown", of: s.name}
		}
		rp := &rulePath{path: p, found: w.disk.at(p), text: q.to.disk.at(p), from: s.in[p], to: s.in[p]}
		if own {
			rp.to = q.to.in[p]
		}
		named := len(q.paths) > 0 && rp.found == ruleNone // it is made, then
		if rp.found != rp.text && rp.found != s.expects(p, rp.from) && !named {
			rp.why = ruleWhy(rp.found, s.expects(p, rp.from))
			if q.policy != "overwrite" {
				rp.left = rp.why
			}
		}
		if rp.found != rp.text || !rp.from.is(rp.to) {
			plan = append(plan, rp)
		}
	}
	line := s.line
	if own {
		line = q.to.line
	}
	if len(q.paths) > 0 {
		line = append(ruleByPath, line...)
	}
	return w.apply(s, q, plan, line)
}

// restoreHash finds out which moment a tree names.
func (w *rules) restoreHash(s *ruleSession, q ruleRequest) *ruleAnswer {
	ranks := make([][]*ruleMoment, 6)
	for _, m := range s.moments {
		if m.idle || len(ruleDiffer(m.disk, q.hash)) > 0 {
			continue
		}
		rank := 5 // of others, or no name of a moment of the session
		switch m.kind {
		case "end":
			rank = 0
		case "look":
			rank = 2
		case "start":
			rank = 4
		}
		if rank < 4 && !s.line.has(m.turn) {
			rank++
		}
		ranks[rank] = append(ranks[rank], m)
	}
	hash := q.hash
	q.hash = nil
	for _, fit := range ranks[:5] {
		if len(fit) == 0 {
			continue
		}
		seen := make(map[string]bool)
		for _, m := range fit {
			q.to = m
			a, disk := w.preview(q)
			seen[fmt.Sprint(a.outcome, a.restored, a.deleted, slices.Sorted(maps.Keys(a.skipped)), disk)] = true
		}
		if len(seen) > 1 {
			return &ruleAnswer{outcome: "ambiguous", of: s.name}
		}
		q.to = fit[len(fit)-1]
		return w.restoreTo(s, q)
	}
	if !q.exact && len(q.paths) == 0 {
		return &ruleAnswer{outcome: "unknown", of: s.name}
	}
	q.to = &ruleMoment{kind: "tree", disk: hash}
	return w.restoreTo(s, q)
}

// plan says what is to become of a path where other changes are to be in.
func (w *rules) plan(s *ruleSession, p string, to ruleSet, q ruleRequest) *rulePath {
	in, policy := s.in[p], q.policy
	rp := &rulePath{path: p, found: w.disk.at(p), text: ruleUnknown, from: in, to: to, how: q.conflict}
	goes, comes := in.minus(to), to.minus(in)
	merges := policy == "merge"
	back := false
	if len(goes) > 0 && len(comes) == 0 && s.changes[goes[0]].under.is(to) {
		back, rp.text = true, s.changes[goes[0]].before
	} else {
		rp.text = s.expects(p, to)
	}
	if rp.hide(s, goes, rp.text != ruleUnknown); rp.left != "" {
		return rp
	}
	if rp.text == ruleUnknown && !merges {
		rp.text = s.oneByOne(p, goes, comes)
	}
	known := rp.text != ruleUnknown
	why := ""
	if exp := s.expects(p, in); exp != rp.found {
		why = ruleWhy(rp.found, exp)
	}
	isMade := merges && why == ""
	if isMade {
		steps := s.steps(goes, comes, in, to)
		isMade = len(steps) > 0 && steps[0].base == rp.found
	}
	if !known && !isMade {
		switch n := len(comes); { // it is so already by what goes, or comes
		case n > 0 && s.changes[comes[n-1]].after == rp.found,
			n == 0 && len(goes) > 0 && s.changes[goes[0]].before == rp.found:
			rp.text = rp.found
		}
	}
	for _, id := range in {
		if len(goes) > 0 && why == "" && s.changes[id].mixed && (id > goes[0] || id == goes[0] && !back) {
			why = "mixed"
		}
	}
	rp.pure = why == "" && !back // what it found there is not known to be the session's
	for _, id := range comes {
		rp.pure = rp.pure && !s.changes[id].mixed
	}
	if rp.text == rp.found && !(isMade && why == "mixed") { // which a turn has made of what others did
		return rp
	}
	rp.why = why
	switch {
	case rp.why != "" && (policy == "skip" || policy == "abort"):
		rp.left = rp.why
	case known && (rp.why == "" || policy == "overwrite"):
	default:
		rp.gone, rp.text = known && rp.text == ruleNone, rp.found
		for _, st := range s.steps(goes, comes, in, to) {
			rp.step(st, merges)
		}
		rp.settle()
	}
	return rp
}

// steps returns what is to be done where changes go, and others come.
func (s *ruleSession) steps(goes, comes, in, to ruleSet) (list []ruleStep) {
	done := make(ruleSet, 0) // changes that need no step for a cut of them
	for _, c := range append(s.joined(goes), s.joined(comes)...) {
		done = append(done, c.id)
	}
	// What was cut of several changes comes again the older first, and goes the newer first.
	recut := func(cut ruleChange, comes bool) (list []ruleStep) {
		cuts := slices.SortedFunc(slices.Values(cut.cuts), func(a, b ruleCut) int { return b.of.id - a.of.id })
		if !comes {
			slices.Reverse(cuts)
		}
		for _, c := range cuts {
			if in.has(c.of.id) && !done.has(c.of.id) {
				done = append(done, c.of.id)
				of := s.stays(c.of, in, to)
				list = append(list, ruleStep{c: of, base: s.without(of, in), theirs: s.without(of, to)})
			}
		}
		return list
	}
	var again []ruleStep // comes again, once what goes is gone, and before what was done on it
	for _, c := range slices.Backward(s.joined(goes)) {
		if again = append(again, recut(c, false)...); c.turn >= 0 {
			list = append(list, ruleStep{c: c, half: s.isHalf(c), base: s.without(c, in), theirs: c.before})
		}
	}
	slices.SortStableFunc(again, func(a, b ruleStep) int { return a.c.id - b.c.id })
	for _, c := range s.joined(comes) {
		for len(again) > 0 && again[0].c.id < c.id {
			list, again = append(list, again[0]), again[1:]
		}
		if list = append(list, recut(c, true)...); c.turn >= 0 {
			list = append(list, ruleStep{c: c, half: s.isHalf(c), comes: true, base: c.before,
				theirs: s.without(c, to)})
		}
	}
	list = append(list, again...)
	for i := range list {
		if c := list[i].c; c.turn >= 0 {
			is := in.plus(to) // what goes with it has a step of its own
			if list[i].comes {
				is = to // behind those of what goes
			}
			list[i].out = s.out(c, is)
		}
	}
	return list
}

// out returns what a change was made on, and is out where others are in, as steps that take it
// back, newest first.
func (s *ruleSession) out(c ruleChange, in ruleSet) (list []ruleStep) {
	for _, o := range slices.Backward(s.joined(c.under)) {
		switch st := (ruleStep{c: o, base: s.without(o, c.under), theirs: o.before}); {
		case o.turn < 0:
		case !in.has(o.id):
			list = append(list, st)
		default: // what has come of it since does not come with theirs
			if st.theirs = s.without(o, in.plus(c.under)); st.theirs != st.base {
				list = append(list, st)
			}
		}
	}
	return list
}

// stays returns what of a change stays in, which is one with those that it is joined with.
func (s *ruleSession) stays(c ruleChange, in, to ruleSet) ruleChange {
	of := *s.changes[c.id]
	for _, id := range in {
		next := s.changes[id]
		if to.has(id) && id > of.id && next.turn == of.turn && next.before == of.after {
			of.after = next.after
		}
	}
	return of
}

// without returns what a change left without what was taken back by cuts that are in: of it, or of
// all that its turn did at the path without a gap.
func (s *ruleSession) without(c ruleChange, in ruleSet) string {
	all := s.whole(c)
	before, after := strings.Split(all.before, "\n"), strings.Split(c.after, "\n")
	for _, id := range in {
		for _, cut := range s.changes[id].cuts {
			switch {
			case cut.of.id != all.id:
			case cut.whole:
				return all.before
			default:
				for i := range cut.lines {
					if len(after) == len(before) { // else it is of more windows than these
						after[i] = before[i]
					}
				}
			}
		}
	}
	return strings.Join(after, "\n")
}

// isVoid reports whether a change is a cut of nothing that is in.
func (s *ruleSession) isVoid(id int, in ruleSet) bool {
	isIn := func(c ruleCut) bool { return in.has(c.of.id) }
	cuts := s.changes[id].cuts
	return len(cuts) > 0 && !slices.ContainsFunc(cuts, isIn)
}

// joined returns changes; those of a turn between which nobody else has changed the path
// are one.
func (s *ruleSession) joined(ids ruleSet) (list []ruleChange) {
	for _, id := range ids {
		c := *s.changes[id]
		if n := len(list); n > 0 && c.turn >= 0 && list[n-1].turn == c.turn && list[n-1].after == c.before {
			list[n-1].after = c.after
			continue
		}
		list = append(list, c)
	}
	return list
}

// isHalf reports whether a change, as one with those that it is joined with, is only the
// later part of what its turn did at the path without a gap.
func (s *ruleSession) isHalf(c ruleChange) bool { return s.whole(c).id != c.id }

// whole returns what the turn of a change did at the path without a gap, that change in it.
func (s *ruleSession) whole(c ruleChange) ruleChange {
	var ids ruleSet
	for id, o := range s.changes {
		if o.turn == c.turn && o.path == c.path && !o.none {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, o := range slices.Backward(s.joined(ids)) {
		if o.id <= c.id {
			return o
		}
	}
	return c
}

// oneByOne returns what is expected at a path without changes, newest first, and then
// with others, if each left, or found, all that was there.
func (s *ruleSession) oneByOne(p string, goes, comes ruleSet) string {
	text := s.expects(p, s.in[p])
	step := func(from, to string) {
		switch text {
		case from:
			text = to
		case to:
		default:
			text = ruleUnknown
		}
	}
	for _, c := range slices.Backward(s.joined(goes)) {
		step(c.after, c.before)
	}
	for _, c := range s.joined(comes) {
		step(c.before, c.after)
	}
	return text
}

// hide leaves alone what a later turn, which stays, has deleted, if changes that it
// deleted are to go.
func (rp *rulePath) hide(s *ruleSession, goes ruleSet, known bool) {
	stay := rp.from.minus(goes)
	for i, id := range stay {
		c := s.changes[id]
		made := i+1 < len(stay) && s.isSameTurn(c, s.changes[stay[i+1]]) // again
		under := slices.ContainsFunc(goes, c.under.has)
		if !known && under && c.after == ruleNone && !made {
			rp.left = fmt.Sprint("hidden by turn ", c.turn)
			if s.changes[goes[0]].before != ruleNone {
				rp.left = "changed-then-deleted"
			}
			return
		}
	}
}

// isSameTurn reports whether changes are of one turn, of whatever parts.
func (s *ruleSession) isSameTurn(a, b *ruleChange) bool {
	return a.turn >= 0 && b.turn >= 0 && s.numbers[a.turn] == s.numbers[b.turn]
}

// step does to the text what leads from base to theirs; not by lines, it takes the
// whole of it.
func (rp *rulePath) step(st ruleStep, lines bool) {
	if rp.how == "theirs" || rp.how == "markers" {
		if rp.keep == nil {
			keep := *rp
			keep.how, keep.steps = "keep", slices.Clone(rp.steps)
			rp.keep = &keep
		}
		rp.keep.stepOf(st, lines)
	}
	rp.stepOf(st, lines)
}

// unlessKept gives nothing up for theirs, and marks nothing, if nothing is in conflict in the end.
func (rp *rulePath) unlessKept() {
	if keep := rp.keep; keep != nil && keep.left == "" {
		rp.text, rp.steps, rp.gave, rp.ever, rp.left, rp.part = keep.text, keep.steps, "", false, "", false
	}
}

// stepOf is step, with whatever is asked for of a conflict on the way.
func (rp *rulePath) stepOf(st ruleStep, lines bool) {
	if rp.text == st.base || rp.text == st.theirs { // of what was in conflict nothing is there any more
		if rp.part {
			rp.left, rp.part = "", false
			for i := range rp.steps {
				rp.steps[i].got = rp.steps[i].theirs
			}
		}
	}
	st.got = st.theirs
	switch {
	case rp.left != "" && !rp.part || rp.text == st.theirs:
	case lines || rp.text == st.base:
		text, why, part := ruleMerge(st.base, rp.text, st.theirs)
		switch {
		case why == "":
		case rp.how == "theirs":
			if len(st.out) > 0 {
				st.theirs, st.out = ruleWithoutOut(st), nil
				rp.stepOf(st, true)
				return
			}
			rp.gave, rp.ever = rp.text, true
			if part {
				text = ruleInConflict(st, rp.text, text, func(_, theirs string) string { return theirs })
			} else {
				text = st.theirs
			}
		default:
			rp.left, rp.part = why, part
			st.got = ruleGot(st.base, rp.text, st.theirs)
			if part && rp.how == "markers" {
				text = ruleInConflict(st, rp.text, text, func(ours, _ string) string {
					return ruleMarker + strings.TrimPrefix(ours, ruleMarker)
				})
			}
		}
		rp.text = text
	default:
		rp.left = "unknown"
	}
	rp.steps = append(rp.steps, st)
}

// ruleWithoutOut returns theirs of a step without what its change was made on and is out. Of what is
// in conflict with that it gives only up what has lines that are out.
func ruleWithoutOut(st ruleStep) string {
	keep, theirs := &rulePath{text: st.theirs, how: "keep"}, &rulePath{text: st.theirs, how: "theirs"}
	for _, o := range st.out {
		keep.step(o, true)
		theirs.step(o, true)
	}
	for _, o := range st.out {
		for line := range strings.SplitSeq(o.base, "\n") {
			if line != ruleNone && line != "" && !ruleHasLine(o.theirs, line) && ruleHasLine(keep.text, line) {
				theirs.unlessKept()
				return theirs.text
			}
		}
	}
	return keep.text
}

// ruleGot returns base, with those lines of theirs that are not in conflict with ours.
func ruleGot(base, ours, theirs string) string {
	b, o, t := strings.Split(base, "\n"), strings.Split(ours, "\n"), strings.Split(theirs, "\n")
	if len(b) != len(o) || len(b) != len(t) {
		return base
	}
	for i := range b {
		if _, clash := ruleMergeLine(b[i], o[i], t[i]); !clash {
			b[i] = t[i]
		}
	}
	return strings.Join(b, "\n")
}

// ruleMarker stands before a line of a conflict in place of markers, until the user has
// resolved it in favour of what was there.
const ruleMarker = "<<<<<<< "

// ruleInConflict returns a text that ruleMerge has made, with other lines where there is a
// conflict.
func ruleInConflict(st ruleStep, ours, text string, line func(ours, theirs string) string) string {
	b, o, t := strings.Split(st.base, "\n"), strings.Split(ours, "\n"), strings.Split(st.theirs, "\n")
	lines := strings.Split(text, "\n")
	for i := range lines {
		if _, clash := ruleMergeLine(b[i], o[i], t[i]); clash {
			lines[i] = line(o[i], t[i])
		}
	}
	return strings.Join(lines, "\n")
}

// settle ends merging: what is in conflict as a whole is as it was, and what no cut can say.
func (rp *rulePath) settle() {
	rp.unlessKept()
	if rp.gone && rp.left == "changed-then-deleted" { // it was gone before it was made again
		rp.left, rp.text = "", ruleNone
	}
	// Markers are written all the same: whoever resolves them is not the one who says what is in.
	rp.part = rp.part && (rp.how == "markers" ||
		!slices.ContainsFunc(rp.steps, func(st ruleStep) bool { return st.half }))
	rp.pure = rp.pure && rp.gave == ""
	if rp.left != "" && !rp.part {
		rp.text = rp.found
	}
	rp.part = rp.part && rp.text != rp.found
	if rp.left != "" && rp.left != "unknown" && rp.why == "" {
		rp.why = "changed"
	}
}

func ruleWhy(found, expected string) string {
	switch {
	case expected == ruleUnknown:
		return "unknown"
	case found == ruleNone:
		return "changed-then-deleted"
	case expected == ruleNone:
		return "made-then-changed"
	}
	return "changed"
}

// ruleMerge merges whole paths, or line by line: then a conflict is of some of them.
func ruleMerge(base, ours, theirs string) (text, conflict string, part bool) {
	switch {
	case ours == base:
		return theirs, "", false
	case base == theirs || ours == theirs:
		return ours, "", false
	case ours == ruleNone:
		return ours, "changed-then-deleted", false
	case theirs == ruleNone:
		return ours, "made-then-changed", false
	case base == ruleNone:
		return ours, "deleted-then-made", false
	}
	b, o, t := strings.Split(base, "\n"), strings.Split(ours, "\n"), strings.Split(theirs, "\n")
	if len(b) != len(o) || len(b) != len(t) {
		return ours, "changed", false
	}
	for i := range b {
		line, why := ruleMergeLine(b[i], o[i], t[i])
		if why {
			conflict, part = "changed", true
		}
		o[i] = line
	}
	return strings.Join(o, "\n"), conflict, part
}

func ruleMergeLine(base, ours, theirs string) (line string, conflict bool) {
	switch {
	case ours == base:
		return theirs, false
	case base == theirs || ours == theirs:
		return ours, false
	}
	return ours, true
}

// ruleByPath, and the line of the target, is no line: it is to follow from what is
// in.
var ruleByPath = ruleSet{-1}

// apply does what is planned.
func (w *rules) apply(s *ruleSession, q ruleRequest, plan []*rulePath, line ruleSet) *ruleAnswer {
	a := ruleTell(s, plan)
	isConflict := func(rp *rulePath) bool { return rp.left != "" && rp.left != "unknown" }
	if q.policy == "abort" && len(a.dirty) > 0 ||
		q.conflict == "abort" && q.policy == "merge" && slices.ContainsFunc(plan, isConflict) {
		a.outcome, a.restored, a.deleted = "aborted", nil, nil
		return a
	}
	if len(a.restored)+len(a.deleted) == 0 {
		a.outcome = "nothing"
		if len(a.skipped) > 0 {
			a.outcome = "left"
		}
		return a
	}
	r := w.move(s, plan, line)
	s.undos, s.redos = append(s.undos, r), nil
	a.out, a.in = r.out, r.in
	return a
}

func ruleTell(s *ruleSession, plan []*rulePath) *ruleAnswer {
	slices.SortFunc(plan, func(a, b *rulePath) int { return strings.Compare(a.path, b.path) })
	a := &ruleAnswer{outcome: "ok", skipped: make(map[string]string), of: s.name, gave: make(map[string]bool)}
	for _, rp := range plan {
		if rp.why != "" && (rp.left != "" || rp.text != rp.found) {
			a.dirty = append(a.dirty, rp.path)
		}
		if rp.left != "" {
			a.skipped[rp.path], a.outcome = rp.left, "left"
		}
		if rp.ever {
			a.gave[rp.path] = true
		}
		switch {
		case rp.left != "" && !rp.part:
		case rp.text == rp.found:
		case rp.text == ruleNone:
			a.deleted = append(a.deleted, rp.path)
		default:
			a.restored = append(a.restored, rp.path)
		}
	}
	return a
}

// move writes what is planned, and moves the standings and the line.
func (w *rules) move(s *ruleSession, plan []*rulePath, line ruleSet) *ruleRestore {
	w.time++
	r := &ruleRestore{order: w.time, session: s.name, paths: make(map[string]ruleDeed)}
	moved := make(map[string]ruleSet)
	for _, rp := range plan {
		if rp.left == "" {
			moved[rp.path] = rp.to
		}
	}
	if line.has(ruleByPath[0]) {
		target := line
		line = nil
		for _, n := range s.turns {
			if s.line.has(n) && (s.anyIn(n, moved) || !s.anyIn(n, nil)) ||
				!s.line.has(n) && target.has(n) && s.anyComes(n, moved) {
				line = append(line, n)
			}
		}
	}
	for _, rp := range plan {
		if rp.left != "" && !rp.part {
			continue
		}
		if rp.part {
			w.cut(s, rp)
		}
		w.disk.put(rp.path, rp.text)
		s.in[rp.path] = rp.to
		if rp.pure && s.expects(rp.path, rp.to) == ruleUnknown {
			s.expect(rp.path, rp.to, rp.text)
		}
		if rp.text != rp.found || !rp.to.is(rp.from) { // else it has done nothing there
			r.paths[rp.path] = ruleDeed{found: rp.found, left: rp.text, from: rp.from, to: rp.to}
		}
	}
	r.out, r.in = s.line.minus(line), line.minus(s.line)
	s.line = slices.Clone(line)
	s.note("restore", w.disk)
	for _, rp := range plan { // the user resolves what is marked
		if rp.left == "" || rp.part {
			w.disk.put(rp.path, strings.ReplaceAll(rp.text, ruleMarker, ""))
		}
	}
	return r
}

// cut notes where a path stands at which not all was done that was to be.
func (w *rules) cut(s *ruleSession, rp *rulePath) {
	came := make(ruleSet, 0) // turns of which something has come
	for _, st := range rp.steps {
		if st.comes && st.got != st.base {
			came = append(came, st.c.turn)
		}
	}
	// cuts that are said anew
	again := slices.DeleteFunc(rp.from.minus(rp.to), func(id int) bool { return s.changes[id].turn >= 0 })
	in := rp.from.minus(again)
	for _, id := range rp.to.minus(rp.from) {
		if c := s.changes[id]; came.has(c.turn) {
			in = in.plus(ruleSet{id})
		}
	}
	w.time++
	c := &ruleChange{id: w.time, turn: -1, path: rp.path, before: rp.found, after: rp.text, under: rp.from}
	for _, st := range rp.steps {
		if st.comes && !came.has(st.c.turn) || st.half { // which no cut can say
			continue
		}
		if cut, ok := ruleCutOf(st); ok && !s.isCut(cut, rp.from.minus(again)) {
			c.cuts = append(c.cuts, cut)
		}
	}
	if rp.to, rp.pure = in, false; len(c.cuts) == 0 {
		return
	}
	c.mixed = len(again) > 0 || s.expects(rp.path, rp.from) != c.before
	if n := len(in); n > 0 && !rp.from.has(in[n-1]) { // nor was it made on what that has left
		c.mixed = c.mixed || s.changes[in[n-1]].after != c.before
	}
	s.changes[c.id] = c
	rp.to = in.plus(ruleSet{c.id})
	s.expect(rp.path, rp.to, c.after)
}

// ruleCutOf returns what is out of a change after a step; not ok: nothing is.
func ruleCutOf(st ruleStep) (cut ruleCut, ok bool) {
	cut = ruleCut{of: st.c, lines: make(map[int]bool)}
	before, after, got := strings.Split(st.c.before, "\n"), strings.Split(st.c.after, "\n"), strings.Split(st.got, "\n")
	if len(before) != len(after) || len(got) != len(after) || st.got == st.c.before {
		cut.whole = true
		return cut, st.got == st.c.before
	}
	for i := range got {
		if got[i] == before[i] && got[i] != after[i] {
			cut.lines[i] = true
		}
	}
	return cut, len(cut.lines) > 0
}

// isCut reports whether cuts that are in say all of a cut.
func (s *ruleSession) isCut(cut ruleCut, in ruleSet) bool {
	said := make(map[int]bool)
	for _, id := range in {
		for _, o := range s.changes[id].cuts {
			if o.of.id == cut.of.id && o.whole {
				return true
			}
			if o.of.id == cut.of.id {
				maps.Copy(said, o.lines)
			}
		}
	}
	for i := range cut.lines {
		if !said[i] {
			return false
		}
	}
	return !cut.whole
}

// takeBack undoes or redoes.
func (w *rules) takeBack(q ruleRequest) *ruleAnswer {
	var s *ruleSession
	var r *ruleRestore
	var held map[string]bool
	for name, x := range w.sessions {
		list := x.undos
		if q.verb == "redo" {
			list = x.redos
		}
		n := len(list) - 1
		passed := make(map[string]bool)
		for q.past && n >= 0 && (list[n].part || w.isStuck(x, list[n], passed, q.policy)) {
			for p := range list[n].paths {
				passed[p] = true
			}
			n--
		}
		if n >= 0 && (q.session == "" || q.session == name) && (r == nil || list[n].order > r.order) {
			s, r, held = x, list[n], passed
		}
	}
	if r == nil {
		return &ruleAnswer{outcome: "nothing"}
	}
	var plan []*rulePath
	for p, d := range r.paths {
		plan = append(plan, w.planBack(s, p, d, held[p], q.policy))
	}
	a := ruleTell(s, plan)
	a.took = r
	if q.policy == "abort" && len(a.dirty) > 0 {
		a.outcome, a.restored, a.deleted = "aborted", nil, nil
		return a
	}
	if len(a.restored)+len(a.deleted) == 0 && len(a.skipped) > 0 {
		return a
	}
	u := w.move(s, plan, s.line.plus(r.out).minus(r.in))
	a.out, a.in = u.out, u.in
	from, onto := &s.undos, &s.redos
	if q.verb == "redo" {
		from, onto = onto, from
	}
	i := slices.Index(*from, r)
	*from = slices.Delete(slices.Clone(*from), i, i+1)
	if len(a.skipped) > 0 {
		rest := *r
		rest.part, rest.paths = true, make(map[string]ruleDeed)
		for p := range a.skipped {
			d := r.paths[p]
			if done, ok := u.paths[p]; ok { // in part
				d.to, d.rest = d.to.plus(done.to.minus(done.from)).minus(done.from.minus(done.to)), true
			}
			rest.paths[p] = d
		}
		*from = slices.Insert(*from, i, &rest)
	}
	*onto = append(*onto, u)
	return a
}

// isStuck reports whether nothing of a restore can be taken back now.
func (w *rules) isStuck(s *ruleSession, r *ruleRestore, held map[string]bool, policy string) bool {
	var plan []*rulePath
	for p, d := range r.paths {
		plan = append(plan, w.planBack(s, p, d, held[p], policy))
	}
	a := ruleTell(s, plan)
	return len(a.restored)+len(a.deleted) == 0 && len(a.skipped) > 0
}

// planBack says what is to become of a path where a restore is taken back.
func (w *rules) planBack(s *ruleSession, p string, d ruleDeed, held bool, policy string) *rulePath {
	in := s.in[p]
	rp := &rulePath{path: p, found: w.disk.at(p), text: d.found, from: in}
	if held {
		rp.left = "held by a restore that stays"
		return rp
	}
	rp.to = in.plus(d.from.minus(d.to)).minus(d.to.minus(d.from))
	rp.pure = rp.found == s.expects(p, in) && d.found == s.expects(p, d.from) && d.left == s.expects(p, d.to)
	if d.found != d.left && (!in.is(d.to) || rp.found != d.left) {
		rp.hide(s, in.minus(rp.to), s.expects(p, rp.to) != ruleUnknown)
	}
	if rp.left != "" {
		return rp
	}
	if rp.found == d.found || d.found == d.left && !d.rest { // so it is already, or nothing is to be written
		rp.text = rp.found
		return rp
	}
	switch {
	case rp.found != d.left:
		rp.why = ruleWhy(rp.found, d.left)
	case !in.is(d.to) && !w.merge:
		rp.why = "changed"
	}
	switch {
	case rp.why == "" || policy == "merge":
		rp.text = rp.found
		rp.step(ruleStep{base: d.left, theirs: d.found}, true)
		if steps, ok := s.stepsBack(d, in, rp.to); ok && rp.left != "" {
			rp.left, rp.part, rp.text, rp.steps, rp.keep = "", false, rp.found, nil, nil
			for _, st := range steps {
				rp.step(st, true)
			}
		} else { // nothing says what of it would be in
			rp.part = false
		}
		rp.settle()
	case policy == "overwrite":
		rp.to = d.from
	default:
		rp.left = rp.why
	}
	return rp
}

// stepsBack returns how a restore is taken back at a path change by change; not ok: it has
// done there what changes do not say.
func (s *ruleSession) stepsBack(d ruleDeed, in, to ruleSet) (steps []ruleStep, ok bool) {
	goes, comes := d.to.minus(d.from), d.from.minus(d.to)
	if steps = s.steps(goes, comes, d.to, d.from); d.rest {
		return s.steps(goes, comes, in, to), true
	}
	try := &rulePath{path: "", text: d.left}
	for _, st := range steps {
		try.step(st, true)
	}
	isSo := len(goes.minus(in)) == 0 && len(comes.minus(in)) == len(comes)
	return s.steps(goes, comes, in, to), isSo && try.left == "" && try.text == d.found
}

// ruleKeys lists the keys of maps in order.
func ruleKeys(list ...any) (keys []string) {
	for _, m := range list {
		switch m := m.(type) {
		case map[string]ruleSet:
			keys = slices.AppendSeq(keys, maps.Keys(m))
		case ruleFiles:
			keys = slices.AppendSeq(keys, maps.Keys(m))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// takeHunk takes back lines of what a turn did at a path, where nobody else has
// touched it. Undo does not know of it here.
func (w *rules) takeHunk(name string, turn int, p string, lines ...int) {
	s := w.sessions[name]
	for _, id := range s.in[p] {
		c := *s.changes[id]
		if c.turn != turn {
			continue
		}
		before, after := strings.Split(c.before, "\n"), strings.Split(c.after, "\n")
		for _, i := range lines {
			after[2*i] = before[2*i]
		}
		without := strings.Join(after, "\n")
		text, why, _ := ruleMerge(c.after, w.disk.at(p), without)
		if why != "" {
			return
		}
		delete(s.expected[p], s.in[p].key())
		c.after = without
		w.disk[p], s.changes[id] = text, &c
		s.expect(p, s.in[p], text)
	}
}

// isCutAway reports whether all that a turn did at a path was taken back by a cut that
// is in, and nothing was between what it did there.
func (s *ruleSession) isCutAway(c *ruleChange) bool {
	for _, o := range s.changes {
		if o.turn == c.turn && o.path == c.path && o.stretch != c.stretch && !o.none {
			return false
		}
	}
	return slices.ContainsFunc(s.in[c.path], func(id int) bool {
		return slices.ContainsFunc(s.changes[id].cuts, func(cut ruleCut) bool {
			return cut.whole && cut.of.turn == c.turn && cut.of.stretch == c.stretch
		})
	})
}

// marks is the log: what of each turn is taken back. "": nothing; "all"; else
// the paths that are still in, of a turn that is off the line, or that are
// out, of one that is on it.
func (s *ruleSession) marks() map[int]string {
	marks := make(map[int]string)
	for _, n := range s.turns {
		var in, out []string
		for _, c := range s.changes {
			switch {
			case c.turn != n: // nor a cut
			case s.in[c.path].has(c.id) && !s.isCutAway(c):
				in = append(in, c.path)
			default:
				out = append(out, c.path)
			}
		}
		slices.Sort(in)
		slices.Sort(out)
		in, out = slices.Compact(in), slices.Compact(out)
		switch {
		case !s.line.has(n) && len(in) == 0:
			marks[n] = "all"
		case !s.line.has(n):
			marks[n] = fmt.Sprint("all but ", strings.Join(in, " "))
		case len(out) > 0:
			marks[n] = fmt.Sprint("in part: ", strings.Join(out, " "))
		default:
			marks[n] = ""
		}
	}
	return marks
}
