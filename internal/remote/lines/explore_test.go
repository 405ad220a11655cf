package lines

import (
	"cmp"
	"flag"
	"fmt"
	"hash/maphash"
	"math/bits"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

// This file explores the protocol of docs/reference/format-remote.md §7 as a model: all orders in which the
// requests of writers, prunes, a reader and a rotation of keys can come, each of whom may stop for good at any of
// them. What a writer was told to be durable has to be there in every state. Each mistake that somebody could
// make in the protocol has to lose something in one of the worlds: else the model would not show that a rule is
// needed.

var (
	explore     = flag.Bool("explore", false, "explore the large worlds of the protocol, too: minutes")
	exploreTime = flag.Duration("explore.time", 0, "leave a large world after so long; 0: when it ends")
)

const (
	mLines   = 6 // lines at most
	mEntries = 4 // of a line
	mLedger  = 6
	mTurns   = 6
	mActors  = 4
	none     = 0xff

	secret = 1 // the content of turn 0, which a prune may forget
)

// mEntry is an entry of a line, and its pack, which is put before.
type mEntry struct {
	put, pack      bool
	pin            bool // its line says what a keeper has left there, and does not go by itself
	gen            uint8
	base, baseN    uint8 // none: it goes on from nothing
	turns, has     uint8 // masks: turns that it says, contents that its pack has
	folded, foldOf uint8 // 1: it is in a fold, and what that has
}

// mRecord is an object of the ledger.
type mRecord struct {
	kind   uint8
	going  uint8 // mask of lines
	forget bool
	last   [mLines]uint8 // of what is kept: none: the line is not
	void   [mLines]uint8 // masks
}

// mActor is a writer, a prune, a reader, one who rotates, or one who leaves contents there.
type mActor struct {
	role, pc, known uint8

	// of a writer
	line, next  uint8 // where its next entry goes
	base, baseN uint8 // of its line
	sure        bool  // it has a base, on which it counts
	first       uint8 // its first turn
	named       uint8 // generation that it knew of when its line was named
	done, turns uint8 // how many of its turns are acknowledged, of how many
	again       bool  // all of its turns go into the next entry
	view        uint8 // contents that it has cloned, of which all its turns have a part
	cloned      bool
	conf, has   uint8 // contents that its line is known to have, and that it is about to put

	// of a prune, or a reader
	going, at   uint8
	tip, seen   [mLines]uint8
	packs, logs [mLines]uint8 // masks of what it is about to remove
	start       uint8         // turns that were acknowledged when a reader began
}

type mState struct {
	lines         [mLines][mEntries]mEntry
	used          uint8
	ledger        [mLedger]mRecord
	newest        uint8
	actors        [mActors]mActor
	acked, lost   uint8 // turns: acknowledged; of those that a prune was to take away
	where, whereN [mTurns]uint8
	need          [mTurns]uint8 // contents that a turn needs
	gone          uint8         // 1 + number of the announcement of a prune that has forgotten, and has ended
}

const (
	aNone = iota
	aWriter
	aPruner
	aReader
	aRotator
	aKeeper
)

// mMistakes are what somebody could get wrong.
type mMistakes struct {
	noHeed, noAnnounce, oldSure, noGrowth, noClosure, noComplete, deletesEarly, deletesNew, noVoid, keepsDead,
	doneAnyway, noRestartHeed, packOfBefore, sendsForgotten, noRetry, foldKeepsSecret, voidsForgotten,
	keysHideDone, noPin, pinBesidePrune, noPinHeed, oldSurvey, prunesPins, oldLine, foldIsFree bool
}

// An mTrace is how a state came about, last step first.
type mTrace struct {
	before          *mTrace
	role, actor, pc uint8
}

func (t *mTrace) String() string {
	if t == nil {
		return ""
	}
	if t.role == aPruner { // any: see reduce
		return fmt.Sprintf("%v prune.%d", t.before, t.pc)
	}
	return fmt.Sprintf("%v %d.%d", t.before, t.actor, t.pc)
}

type mNode struct {
	mState
	*mTrace
}

// An mWorld is who is there.
type mWorld struct {
	name    string
	actors  []mActor
	going   []uint8 // masks of lines that a prune may want to take away: what counts on them goes, too
	forget  bool    // prunes forget the content of turn 0
	twins   bool    // the first two writers are copies
	restart bool    // a writer may be killed behind an entry, and begin again
	mist    mMistakes
	until   time.Time // when to leave it; zero: at its end

	seed       [2]maphash.Seed
	seen       map[[2]uint64]bool
	stack      []mNode
	at         *mTrace
	unexplored int // states from which nobody has gone on when it was left
	failed     string

	compares bool            // each state with what it is reduced to
	next     map[mState]bool // takes what is pushed, for that; nil: it is explored
}

func (w *mWorld) run() (states int, failed string) {
	w.seed = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	w.seen = make(map[[2]uint64]bool)
	var s mState
	for i := range s.lines {
		for n := range s.lines[i] {
			s.lines[i][n].base = none
		}
	}
	s.lines[0][0] = mEntry{put: true, pack: true, base: none, turns: 1, has: 1} // turn 0 in line 0
	s.used, s.acked, s.need[0] = 1, 1, 1
	for i, a := range w.actors {
		a.base = none
		s.actors[i] = a
		s.used = max(s.used, a.line+1)
	}
	w.push(s)
	for n := 1; len(w.stack) > 0 && w.failed == ""; n++ {
		if n%10_000 == 0 && !w.until.IsZero() && time.Now().After(w.until) {
			w.unexplored = len(w.stack)
			break
		}
		s := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		for i := range s.actors {
			w.at = &mTrace{s.mTrace, s.actors[i].role, uint8(i), s.actors[i].pc}
			w.step(s.mState, i)
		}
	}
	states = len(w.seen)
	w.seen, w.stack = nil, nil // the next needs room
	return states, w.failed
}

func (w *mWorld) push(s mState) {
	was := s
	w.reduce(&s)
	if w.next != nil {
		w.next[s] = true
		return
	}
	if w.compares && s != was && w.failed == "" {
		w.compare(was, s)
	}
	k := [2]uint64{maphash.Comparable(w.seed[0], s), maphash.Comparable(w.seed[1], s)}
	if w.failed != "" || w.seen[k] {
		return
	}
	w.seen[k] = true
	if why := w.wrong(&s); why != "" {
		w.failed = fmt.Sprintf("%s by%v", why, w.at)
		return
	}
	w.stack = append(w.stack, mNode{s, w.at})
}

// rule is what a ledger says, read up to an object of it.
func (s *mState) rule(known uint8) (prune uint8, m *mRecord, open *mRecord, openAt uint8) {
	for n := known; n > 0; n-- {
		r := &s.ledger[n-1]
		if r.kind == kindAnnounce && n == known {
			open, openAt = r, n
		}
		if r.kind == kindDone {
			return n - 1, r, open, openAt
		}
	}
	return 0, nil, open, openAt
}

func (s *mState) counts(known, line, n uint8) bool {
	prune, m, _, _ := s.rule(known)
	e := &s.lines[line][n]
	return e.gen >= prune || m.last[line] != none && n <= m.last[line] && m.void[line]&(1<<n) == 0
}

func (s *mState) lives(known, line, opened uint8) bool {
	prune, m, open, _ := s.rule(known)
	return (open == nil || open.going&(1<<line) == 0) && (opened >= prune || m.last[line] != none)
}

// isSure: see [Ledger.IsSure].
func (s *mState) isSure(known, line, n uint8) bool {
	_, m, open, at := s.rule(known)
	switch {
	case open != nil && open.going&(1<<line) != 0 || !s.counts(known, line, n):
		return false
	case m != nil && m.last[line] != none && n <= m.last[line]:
		return true
	}
	return open == nil || s.lines[line][n].gen >= at
}

// there returns what an entry has, as it can be read.
func (s *mState) there(line, n uint8) (has uint8, ok bool) {
	e := &s.lines[line][n]
	switch {
	case e.folded == 1:
		return e.foldOf, true
	case !e.put:
		return 0, false
	case e.pack:
		return e.has, true
	}
	return 0, true
}

// avail returns what a line has up to an entry; ok: nothing is missing in it.
func (w *mWorld) avail(s *mState, known, line, n uint8, deep int) (has uint8, ok bool) {
	if deep > mLines {
		return 0, false
	}
	for i := range n + 1 {
		h, ok := s.there(line, i)
		if !ok {
			return 0, false
		}
		if s.counts(known, line, i) || w.mist.noVoid {
			if e := &s.lines[line][i]; w.mist.noVoid && !e.pack && e.folded == 0 && e.has != 0 {
				return 0, false // a reader that takes it for whole
			}
			has |= h
		}
	}
	if e := &s.lines[line][0]; e.base != none {
		h, ok := w.avail(s, known, e.base, e.baseN, deep+1)
		if !ok {
			return 0, false
		}
		has |= h
	}
	return has, true
}

// broken returns an entry that counts and lacks what it needs: no reader could take it.
func (w *mWorld) broken(s *mState) string {
	forgot := uint8(0)
	for n := range s.newest {
		if s.ledger[n].forget {
			forgot = secret
		}
	}
	for line := range s.used {
		for n := range uint8(mEntries) {
			e := &s.lines[line][n]
			if _, ok := s.there(line, n); !ok || !s.counts(s.newest, line, n) || !s.counts(s.newest, line, 0) {
				continue
			}
			has, ok := w.avail(s, s.newest, line, n, 0)
			if !ok && n <= s.tip(s.newest, line) && s.tip(s.newest, line) != none {
				return fmt.Sprintf("what entry %d of line %d is behind is missing", n, line)
			}
			for t := range mTurns {
				if ok && e.turns&(1<<t) != 0 && s.need[t]&^forgot&^has != 0 {
					return fmt.Sprintf("entry %d of line %d counts and is not whole", n, line)
				}
			}
		}
	}
	return ""
}

// recoverable returns the turns that a reader gets who knows the ledger so far.
func (w *mWorld) recoverable(s *mState, known uint8) (turns uint8) {
	forgot := uint8(0)
	for n := range known {
		if s.ledger[n].forget {
			forgot = secret
		}
	}
	for line := range s.used {
		for n := range uint8(mEntries) {
			e := &s.lines[line][n]
			if _, ok := s.there(line, n); !ok || !s.counts(known, line, n) || !s.counts(known, line, 0) {
				continue
			}
			has, ok := w.avail(s, known, line, n, 0)
			for t := range mTurns {
				if ok && e.turns&(1<<t) != 0 && s.need[t]&^forgot&^has == 0 {
					turns |= 1 << t
				}
			}
		}
	}
	return turns
}

// wrong says what a state must not be.
func (w *mWorld) wrong(s *mState) string {
	if lost := s.acked &^ s.lost &^ w.recoverable(s, s.newest); lost != 0 {
		return fmt.Sprintf("turns %06b are lost", lost)
	}
	if why := cmp.Or(w.broken(s), w.left(s)); why != "" {
		return why
	}
	if s.gone > 0 {
		for line := range s.used {
			for n := range uint8(mEntries) {
				e := &s.lines[line][n]
				if e.pack && e.has&secret != 0 && e.gen >= s.gone || e.folded == 1 && e.foldOf&secret != 0 {
					return fmt.Sprintf("entry %d of line %d still has what was forgotten", n, line)
				}
			}
		}
	}
	return ""
}

func (w *mWorld) step(s mState, i int) {
	switch s.actors[i].role {
	case aWriter:
		w.writer(s, i)
	case aPruner:
		w.pruner(s, i)
	case aReader:
		w.reader(s, i)
	case aKeeper:
		w.keeper(s, i)
	case aRotator:
		if s.newest < mLedger {
			s.ledger[s.newest] = mRecord{kind: kindKeys}
			s.newest++
			s.actors[i].role = aNone
			w.push(s)
		}
	}
}

// A writer: 0 reads the ledger, 1 chooses what to go on from, 2 puts a pack, 3 an entry, 4 heeds; 5 too, if the number
// of its entry was in a fold.
func (w *mWorld) writer(s mState, i int) {
	a := &s.actors[i]
	if a.done == a.turns {
		return
	}
	switch a.pc {
	case 0:
		a.known, a.pc = s.newest, 1
		w.push(s)
	case 1:
		w.choose(s, i)
	case 2:
		if a.next >= mEntries {
			return // the model has no room
		}
		e := &s.lines[a.line][a.next]
		has := w.needs(a) &^ w.relied(&s, a)
		for n := range a.known {
			if s.ledger[n].forget && !w.mist.sendsForgotten {
				has &^= secret
			}
		}
		a.has, a.pc = has, 3
		if !w.twins { // what copies put is in their entries: both would have a pack
			*e = mEntry{pack: true, gen: a.known, base: none, has: has}
		}
		w.push(s)
	case 3:
		e := &s.lines[a.line][a.next]
		turns := uint8(1) << (a.first + a.done)
		if a.again {
			turns = (1<<(a.done+1) - 1) << a.first
		}
		if !e.put && s.isFolded(s.newest, a.line, a.next) {
			w.putInFold(s, i)
			return
		}
		if e.put {
			if w.twins && e.turns&turns == 0 { // a rival: a line of its own
				w.rival(s, i)
			}
			return
		}
		if w.twins {
			*e = mEntry{pack: true, gen: a.known, has: a.has}
		}
		e.put, e.turns, e.base = true, turns, none
		s.need[a.first+a.done] = w.needs(a)
		if a.next == 0 && a.sure {
			e.base, e.baseN = a.base, a.baseN
		}
		a.pc = 4
		w.push(s)
	case 4:
		w.heed(s, i)
		if w.restart {
			if w.mist.noRestartHeed { // killed, and what is there is taken to count
				w.commit(s, i)
			}
			a := &s.actors[i]
			if a.known < s.newest && !w.mist.noRestartHeed {
				w.heed(s, i)
			}
		}
	case 5:
		w.heedFold(s, i)
	}
}

// isFolded reports whether a ledger says that an entry is in a fold.
func (s *mState) isFolded(known, line, n uint8) bool {
	_, m, _, _ := s.rule(known)
	return m != nil && m.forget && m.last[line] != none && n <= m.last[line]
}

// putInFold has a writer put an entry of which the number is in a fold, unless it knows that. Nobody reads it.
func (w *mWorld) putInFold(s mState, i int) {
	a := &s.actors[i]
	if s.isFolded(a.known, a.line, a.next) {
		w.rival(s, i)
		return
	}
	a.pc = 5
	w.push(s)
}

// heedFold is heed behind that: see [Repo.Append].
func (w *mWorld) heedFold(s mState, i int) {
	a := &s.actors[i]
	gen := a.known
	a.known = s.newest
	_, m, open, at := s.rule(a.known)
	isVoid := m.void[a.line]&(1<<a.next) != 0 // of a generation before the prune, which has listed that number
	switch {
	case gen < s.newest && (open != nil && at > gen || isVoid):
		w.overtaken(s, i, open)
	case w.mist.foldIsFree:
		s.acked |= 1 << (a.first + a.done)
		w.commit(s, i)
	default:
		w.rival(s, i)
	}
}

// needs returns what the writer's next entry needs.
func (w *mWorld) needs(a *mActor) uint8 { return a.view | (1<<(a.done+1)-1)<<a.first }

// relied returns what the writer takes to be there.
func (w *mWorld) relied(s *mState, a *mActor) uint8 {
	switch {
	case a.again:
		return 0
	case a.next > 0:
		return a.conf
	case a.sure:
		return s.need[bits.Len8(s.lines[a.base][a.baseN].turns)-1]
	}
	return 0
}

// choose finds what a line may go on from: the newest entry of line 0.
func (w *mWorld) choose(s mState, i int) {
	a := &s.actors[i]
	if w.twins && a.next == 0 && !w.mist.oldLine && !s.lives(a.known, a.line, a.named) { // it may have been the other's
		line, ok := s.newLine()
		if !ok {
			return
		}
		a.line, a.named = line, a.known
	}
	if a.next > 0 || a.again {
		a.pc = 2
		w.push(s)
		return
	}
	tip := uint8(none)
	for n := range uint8(mEntries) {
		if _, ok := s.there(0, n); !ok {
			break
		}
		tip = n
	}
	if tip == none { // it is gone: begin with everything
		a.sure, a.pc = false, 2
		w.push(s)
		return
	}
	if !a.cloned { // its files are what that was, whatever becomes of it
		a.cloned, a.view = true, s.need[bits.Len8(s.lines[0][tip].turns)-1]
	}
	_, _, open, _ := s.rule(a.known)
	switch {
	case w.mist.oldSure || s.isSure(a.known, 0, tip):
		a.sure, a.base, a.baseN, a.pc = true, 0, tip, 2
		w.push(s)
	case open == nil || open.going&1 != 0 || !s.counts(a.known, 0, tip):
		a.sure, a.pc = false, 2
		w.push(s)
	default: // it waits, and then withdraws the prune
		if a.known < s.newest {
			a.known = s.newest
			w.push(s)
		} else if s.newest < mLedger {
			s.ledger[s.newest] = mRecord{kind: kindWithdraw}
			s.newest++
			a.known = s.newest
			w.push(s)
		}
	}
}

func (s *mState) newLine() (line uint8, ok bool) {
	if s.used == mLines {
		return 0, false
	}
	s.used++
	return s.used - 1, true
}

// rival has a copy go on in a line of its own, behind what both have.
func (w *mWorld) rival(s mState, i int) {
	a := &s.actors[i]
	line, ok := s.newLine()
	if !ok {
		return
	}
	base, baseN := a.line, a.next-1
	if a.next == 0 {
		base, baseN = a.base, a.baseN
		ok = a.sure
	}
	sure := ok && s.isSure(a.known, base, baseN)
	a.named = a.known
	if a.line, a.next, a.sure, a.base, a.baseN = line, 0, sure, base, baseN; !sure {
		a.again = true
	}
	a.pc = 2
	w.push(s)
}

func (w *mWorld) commit(s mState, i int) {
	a := &s.actors[i]
	for t := a.first; t <= a.first+a.done; t++ {
		if s.lines[a.line][a.next].turns&(1<<t) != 0 {
			s.where[t], s.whereN[t] = a.line, a.next
			s.acked |= 1 << t
			s.lost &^= 1 << t
		}
	}
	a.conf = w.needs(a)
	a.done, a.next, a.again, a.pc = a.done+1, a.next+1, false, 2
	w.push(s)
}

// heed: see [Repo.Heed] and Pusher.overtaken.
func (w *mWorld) heed(s mState, i int) {
	a := &s.actors[i]
	gen := s.lines[a.line][a.next].gen
	if gen == s.newest || w.mist.noHeed {
		w.commit(s, i)
		return
	}
	a.known = s.newest
	_, _, open, at := s.rule(a.known)
	if w.mist.keysHideDone && s.ledger[s.newest-1].kind == kindKeys || (open == nil || at <= gen) &&
		s.counts(a.known, a.line, a.next) {
		w.commit(s, i)
		return
	}
	w.overtaken(s, i, open)
}

// overtaken has an entry be put again that may not count.
func (w *mWorld) overtaken(s mState, i int, open *mRecord) {
	a := &s.actors[i]
	dead := !s.lives(a.known, a.line, s.lines[a.line][0].gen)
	if open != nil && a.sure && open.going&(1<<a.base) != 0 {
		dead = true
	}
	if w.mist.keepsDead {
		dead = false
	}
	if a.next > 0 && !dead {
		a.next, a.pc = a.next+1, 2
		if w.mist.packOfBefore && a.next < mEntries { // and does not put its pack again
			s.lines[a.line][a.next] = mEntry{gen: a.known, base: none, pack: false}
			a.pc = 3
		}
		w.push(s)
		return
	}
	line, ok := s.newLine()
	if !ok {
		return
	}
	if dead && a.next > 0 {
		a.again, a.sure = true, false
	}
	a.line, a.next, a.named, a.pc = line, 0, a.known, 1
	w.push(s)
}

// A prune: 0 plans, 1 announces, 2 looks at line after line, 3 completes, 4 copies, 5 ends, 6 removes.
func (w *mWorld) pruner(s mState, i int) {
	a := &s.actors[i]
	switch a.pc {
	case 0:
		a.known = s.newest
		for line := range a.tip {
			if a.tip[line] = none; line < int(s.used) {
				a.tip[line] = s.tip(a.known, uint8(line))
			}
		}
		a.pc = 1
		for _, g := range w.going {
			t := s
			t.actors[i].going = t.going(g, &a.tip)
			w.push(t)
		}
	case 1:
		if !s.say(a, mRecord{kind: kindAnnounce, going: a.going, forget: w.forget}) {
			return
		}
		a.pc, a.at = 2, 0
		for line := range a.seen {
			a.seen[line] = none
		}
		w.push(s)
	case 2:
		if w.mist.noAnnounce { // it goes by what it saw before
			a.seen, a.at = a.tip, s.used
		}
		if a.at < s.used {
			a.seen[a.at] = s.tip(a.known, a.at)
			a.at++
			w.push(s)
			return
		}
		a.pc = 3
		w.push(s)
	case 3:
		w.complete(&s, a)
		a.pc = 4
		if w.mist.deletesEarly {
			w.condemn(&s, a, w.kept(&s, a))
			for line := range s.used {
				for n := range uint8(mEntries) {
					if a.packs[line]&(1<<n) != 0 {
						s.lines[line][n].pack = false
					}
				}
			}
		}
		w.push(s)
	case 4, 5:
		w.end(s, i)
	case 6:
		w.remove(s, i)
	}
}

// say puts the next object of the ledger, behind what an actor knows.
func (s *mState) say(a *mActor, r mRecord) bool {
	if a.known != s.newest || s.newest == mLedger {
		a.role = aNone // refused: it does not go on
		return false
	}
	s.ledger[s.newest] = r
	s.newest++
	return true
}

// tip returns the last entry of a line that counts; none: it does not.
func (s *mState) tip(known, line uint8) uint8 {
	last := uint8(none)
	for n := range uint8(mEntries) {
		if _, ok := s.there(line, n); !ok {
			break
		}
		if n == 0 && !s.counts(known, line, 0) {
			return none
		}
		last = n
	}
	return last
}

// going returns the lines of a mask, but for those on which others count that stay.
func (s *mState) going(mask uint8, tip *[mLines]uint8) uint8 {
	for line, n := range tip {
		if n == none || s.lines[line][0].pin {
			mask &^= 1 << line
		}
	}
	for range mLines {
		for line := range s.used {
			if b := s.lines[line][0].base; tip[line] != none && b != none && mask&(1<<line) == 0 {
				mask &^= 1 << b
			}
		}
	}
	return mask
}

// complete looks again at what lines count on.
func (w *mWorld) complete(s *mState, a *mActor) {
	for range mLines {
		for line := range s.used {
			e := &s.lines[line][0]
			if a.seen[line] == none || e.base == none || w.mist.noComplete {
				continue
			}
			if a.seen[e.base] == none || a.seen[e.base] < e.baseN {
				a.seen[e.base] = s.tip(a.known, e.base)
			}
		}
	}
}

// kept returns the lines that stay.
func (w *mWorld) kept(s *mState, a *mActor) (mask uint8) {
	going := uint8(0)
	for line := range s.used {
		if a.going&(1<<line) != 0 && (a.tip[line] == a.seen[line] || w.mist.noGrowth) {
			going |= 1 << line
		}
	}
	if !w.mist.noClosure {
		going = s.going(going, &a.seen)
	}
	for line := range s.used {
		if a.seen[line] != none && going&(1<<line) == 0 {
			mask |= 1 << line
		}
	}
	return mask
}

// condemn finds what is to be removed.
func (w *mWorld) condemn(s *mState, a *mActor, kept uint8) {
	for line := range s.used {
		for n := range uint8(mEntries) {
			e := &s.lines[line][n]
			named := kept&(1<<line) != 0 && n <= a.seen[line] && s.counts(a.known, line, n) && e.put
			isOld := e.gen < a.known+1 || w.mist.deletesNew
			if e.pack && (!named || e.folded == 1) && isOld {
				a.packs[line] |= 1 << n
			}
			listed := a.seen[line] != none && n <= a.seen[line] || e.put && !s.counts(a.known, line, 0)
			if e.put && (kept&(1<<line) == 0 && listed || e.folded == 1) {
				a.logs[line] |= 1 << n
			}
		}
	}
}

func (w *mWorld) end(s mState, i int) {
	a := &s.actors[i]
	kept := w.kept(&s, a)
	r := mRecord{kind: kindDone, forget: w.forget}
	before := a.known
	for line := range s.used {
		if r.last[line] = none; kept&(1<<line) != 0 {
			r.last[line] = a.seen[line]
		}
		for n := range uint8(mEntries) {
			if r.last[line] != none && n <= r.last[line] && !s.counts(before, line, n) && !w.mist.voidsForgotten {
				r.void[line] |= 1 << n
			}
		}
	}
	for line := s.used; line < mLines; line++ {
		r.last[line] = none
	}
	a.known++ // its announcement
	if w.mist.doneAnyway && a.known != s.newest {
		if s.newest == mLedger {
			return
		}
		a.known = s.newest
	}
	if !s.say(a, r) {
		w.push(s)
		return
	}
	for t := range mTurns {
		line := s.where[t]
		if s.acked&(1<<t) != 0 && a.seen[line] != none && kept&(1<<line) == 0 && a.going&(1<<line) != 0 &&
			s.whereN[t] <= a.tip[line] {
			s.lost |= 1 << t
		}
	}
	if w.forget { // the folds are put before the end, and count from it on
		for line := range s.used {
			for n := range uint8(mEntries) {
				if e := &s.lines[line][n]; r.last[line] != none && n <= r.last[line] && e.folded == 0 {
					e.folded = 1
					if e.pack && r.void[line]&(1<<n) == 0 {
						e.foldOf = e.has
					}
					if !w.mist.foldKeepsSecret {
						e.foldOf &^= secret
					}
				}
			}
		}
	}
	a.known = before
	w.condemn(&s, a, kept)
	a.pc = 6
	w.push(s)
}

// remove removes one object.
func (w *mWorld) remove(s mState, i int) {
	a := &s.actors[i]
	for line := range s.used {
		if a.packs[line] != 0 {
			n := bits.TrailingZeros8(a.packs[line])
			a.packs[line] &^= 1 << n
			s.lines[line][n].pack = false
			w.push(s)
			return
		}
		if a.logs[line] != 0 {
			n := bits.TrailingZeros8(a.logs[line])
			a.logs[line] &^= 1 << n
			s.lines[line][n].put = false
			w.push(s)
			return
		}
	}
	if w.forget {
		s.gone = a.known + 1
	}
	a.role = aNone
	w.push(s)
}

// A reader: 0 reads the ledger, 1 reads what lines have, again if the ledger is another by then.
func (w *mWorld) reader(s mState, i int) {
	a := &s.actors[i]
	switch a.pc {
	case 0:
		a.known, a.pc, a.start = s.newest, 1, s.acked
		w.push(s)
	case 1:
		if lost := a.start &^ s.lost &^ w.recoverable(&s, a.known); lost != 0 {
			if a.known == s.newest || w.mist.noRetry {
				w.failed = fmt.Sprintf("a reader misses turns %06b", lost)
				return
			}
			a.pc = 0
			w.push(s)
			return
		}
		a.role = aNone
		w.push(s)
	}
}

// A keeper has what line 0 has, and gives it up: 0 reads the ledger, 1 finds out what is there, 2 says that it is
// to be kept, as an entry of a line of its own that counts on it, 3 heeds, 4 has given it up.
func (w *mWorld) keeper(s mState, i int) {
	a := &s.actors[i]
	switch a.pc {
	case 0:
		if _, _, open, _ := s.rule(s.newest); open != nil && !w.mist.pinBesidePrune {
			if s.newest < mLedger { // it waits, and then withdraws the prune
				s.ledger[s.newest] = mRecord{kind: kindWithdraw}
				s.newest++
				w.push(s)
			}
			return
		}
		a.known, a.pc = s.newest, 1
		w.push(s)
	case 1:
		if a.baseN = s.tip(a.known, 0); a.baseN == none || !s.counts(a.known, 0, a.baseN) {
			a.role = aNone // it keeps what it has
			w.push(s)
			return
		}
		a.conf, a.pc = s.need[bits.Len8(s.lines[0][a.baseN].turns)-1], 2
		if w.mist.noPin {
			a.pc = 4
		}
		w.push(s)
	case 2:
		line, ok := s.newLine()
		if !ok {
			return
		}
		if a.known != s.newest && w.mist.oldSurvey { // what was found is of before
			a.known = s.newest
		}
		a.line = line
		s.lines[line][0] = mEntry{put: true, pin: !w.mist.prunesPins, gen: a.known, base: 0, baseN: a.baseN}
		a.pc = 3
		w.push(s)
	case 3:
		if a.pc = 4; a.known != s.newest && !w.mist.noPinHeed {
			_, _, open, at := s.rule(s.newest)
			if open != nil && at > a.known || !s.counts(s.newest, a.line, 0) {
				a.pc = 0
			}
		}
		w.push(s)
	}
}

// left returns what keepers have given up, and is not there.
func (w *mWorld) left(s *mState) string {
	for i := range s.actors {
		a := &s.actors[i]
		if a.role != aKeeper || a.pc != 4 {
			continue
		}
		if has, ok := w.avail(s, s.newest, 0, a.baseN, 0); !ok || a.conf&^has != 0 || !s.counts(s.newest, 0, 0) {
			return "what was left there is gone"
		}
	}
	return ""
}

func mWriter(first, turns uint8) mActor {
	a := mActor{role: aWriter, first: first, turns: turns}
	if first == 1 { // who has written turn 0: it knows the ledger of then
		a.pc, a.next, a.conf, a.view, a.cloned = 1, 1, 1, 1, true
	}
	return a
}

var (
	mPruner  = mActor{role: aPruner}
	mReader  = mActor{role: aReader}
	mRotator = mActor{role: aRotator}
	mKeeper  = mActor{role: aKeeper}
)

// mWorlds returns the worlds; those from the second list are large.
func mWorlds() (small, large []*mWorld) {
	withLine := func(a mActor, line uint8) mActor {
		a.line = line
		return a
	}
	own := withLine(mWriter(1, 1), 0)
	b := func(first, turns uint8) mActor { return withLine(mWriter(first, turns), 1) }
	copied := own // the store of the owner
	copied.first = 2
	some, all := []uint8{0, 1}, []uint8{0, 1, 0b111111}
	small = []*mWorld{
		{name: "one clones, one prunes", actors: []mActor{b(2, 2), mPruner}, going: all},
		{name: "the owner goes on, one prunes", actors: []mActor{own, mPruner}, going: all},
		{name: "the owner goes on, one clones, one prunes", actors: []mActor{own, b(2, 1), mPruner}, going: some},
		{name: "one reads, one goes on, one prunes", actors: []mActor{own, mReader, mPruner}, going: some},
		{name: "one is killed and begins again", actors: []mActor{own, b(2, 1), mPruner}, going: some, restart: true},
		{name: "one forgets beside a clone", actors: []mActor{b(2, 2), mPruner}, going: []uint8{0}, forget: true},
		{name: "one forgets beside the owner", actors: []mActor{own, mReader, mPruner}, going: some, forget: true},
		{name: "one forgets beside two copies", actors: []mActor{own, copied, mPruner}, going: some, forget: true,
			twins: true},
		{name: "one leaves contents, two prune", actors: []mActor{mKeeper, mPruner, mPruner}, going: all},
		{name: "keys are rotated", actors: []mActor{b(2, 1), mRotator, mPruner}, going: some},
	}
	large = []*mWorld{
		{name: "two copies of one machine", actors: []mActor{withLine(mWriter(2, 1), 1), withLine(mWriter(4, 1), 1),
			mPruner}, going: some, twins: true},
		{name: "the owner goes on, two prune", actors: []mActor{own, mPruner, mPruner}, going: some},
		{name: "one clones, two prune", actors: []mActor{b(2, 1), mPruner, mPruner}, going: some},
		{name: "the owner and a clone, two prunes", actors: []mActor{own, b(2, 1), mPruner, mPruner}, going: some},
		{name: "a clone of two turns, two prunes", actors: []mActor{b(2, 2), mPruner, mPruner}, going: all},
		{name: "the owner, a clone, a reader, a prune", actors: []mActor{own, b(2, 2), mReader, mPruner}, going: all},
		{name: "one leaves contents beside a clone, two prune", actors: []mActor{b(2, 1), mKeeper, mPruner, mPruner},
			going: all},
		{name: "one leaves contents beside a rotation",
			actors: []mActor{mKeeper, mRotator, mPruner, mPruner}, going: some},
		{name: "two forget beside two copies", actors: []mActor{own, copied, mPruner, mPruner}, going: []uint8{0},
			forget: true, twins: true},
		{name: "two forget", actors: []mActor{own, b(2, 1), mPruner, mPruner}, going: []uint8{0}, forget: true},
		{name: "the owner, a clone, a rotation, a prune",
			actors: []mActor{own, b(2, 1), mRotator, mPruner}, going: some},
		{name: "two copies, two prunes", actors: []mActor{withLine(mWriter(2, 1), 1), withLine(mWriter(4, 1), 1),
			mPruner, mPruner}, going: some, twins: true},
		{name: "copies, two prunes", actors: []mActor{withLine(mWriter(2, 2), 1), withLine(mWriter(4, 1), 1),
			mPruner, mPruner}, going: some, twins: true},
	}
	return small, large
}

// TestProtocol explores the protocol as it is: nothing is lost.
func TestProtocol(t *testing.T) {
	testseed.Sequential(t)
	small, large := mWorlds()
	if *explore {
		small = append(small, large...)
	}
	for _, w := range small {
		t.Run(w.name, func(t *testing.T) {
			if *exploreTime > 0 {
				w.until = time.Now().Add(*exploreTime)
			}
			n, failed := w.run()
			if failed != "" {
				t.Error(failed)
			}
			if w.unexplored > 0 {
				t.Logf("left after %d states: %d of them have not been gone on from", n, w.unexplored)
				return
			}
			t.Logf("%d states", n)
		})
	}
}

// TestProtocolMistakes makes each mistake once: in some world it loses something.
func TestProtocolMistakes(t *testing.T) {
	for _, m := range []struct {
		name, in string
		mist     mMistakes
	}{
		{"a writer does not ask the ledger behind its entry", "one clones, one prunes", mMistakes{noHeed: true}},
		{"a prune goes by what it saw before it announced", "one clones, one prunes", mMistakes{noAnnounce: true}},
		{"a line goes on from an entry that may not count", "one clones, one prunes", mMistakes{oldSure: true}},
		{"a line goes though it has become longer", "one clones, one prunes", mMistakes{noGrowth: true}},
		{"a line goes though another counts on it by now", "one clones, one prunes", mMistakes{noClosure: true}},
		{"a list is taken to be of one moment", "the owner goes on, one clones, one prunes",
			mMistakes{noComplete: true}},
		{"packs are removed before the end is said", "one clones, one prunes", mMistakes{deletesEarly: true}},
		{"packs of any generation are removed", "one clones, one prunes", mMistakes{deletesNew: true}},
		{"readers take what does not count", "one clones, one prunes", mMistakes{noVoid: true}},
		{"a writer goes on in a line that goes", "one clones, one prunes", mMistakes{keepsDead: true}},
		{"a prune ends though another has taken over", "the owner goes on, one clones, one prunes",
			mMistakes{doneAnyway: true}},
		{"who was killed does not ask the ledger", "one is killed and begins again", mMistakes{noRestartHeed: true}},
		{"what was put before the announcement is not put again", "one clones, one prunes",
			mMistakes{packOfBefore: true}},
		{"what was forgotten is put again", "one forgets beside the owner", mMistakes{sendsForgotten: true}},
		{"a fold keeps what was forgotten", "one forgets beside a clone", mMistakes{foldKeepsSecret: true}},
		{"a reader does not begin again", "one forgets beside the owner", mMistakes{noRetry: true}},
		{"what did not count counts after the next prune", "the owner goes on, two prune",
			mMistakes{voidsForgotten: true}},
		{"what is left there is not said", "one leaves contents, two prune", mMistakes{noPin: true}},
		{"what says so goes by itself", "one leaves contents, two prune", mMistakes{prunesPins: true}},
		{"it is said beside a prune", "one leaves contents, two prune", mMistakes{pinBesidePrune: true}},
		{"who says it does not ask the ledger behind it", "one leaves contents, two prune",
			mMistakes{noPinHeed: true}},
		{"it is said of what was there before a prune", "one leaves contents, two prune", mMistakes{oldSurvey: true}},
		{"a line is begun that was named before a prune", "two copies, two prunes", mMistakes{oldLine: true}},
		{"a number counts as free though a fold has come that has it", "one forgets beside two copies",
			mMistakes{foldIsFree: true}},
		{"a rotation hides a prune", "keys are rotated", mMistakes{keysHideDone: true}},
	} {
		small, large := mWorlds()
		for _, w := range append(small, large...) {
			if w.name != m.in || m.mist.oldLine && !*explore { // that takes 6 million states
				continue
			}
			w.mist = m.mist
			n, failed := w.run()
			if failed == "" {
				t.Errorf("%s: nothing is lost in %q", m.name, m.in)
			}
			t.Logf("%s: %s, in %q after %d states", m.name, failed, m.in, n)
		}
	}
}
