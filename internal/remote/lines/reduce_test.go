package lines

import (
	"fmt"
	"hash/maphash"
	"maps"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// This file has the explorer take states for one that can lead to nothing different: what nobody looks at any more is
// cleared, and two prunes that are alike have no order. TestProtocolReduced shows that it is so.

// reduce makes one state of those that are the same but for that.
func (w *mWorld) reduce(s *mState) {
	for i := range s.actors {
		a := &s.actors[i]
		a.reduce()
		if !w.twins || a.next > 0 {
			a.named = 0
		}
		for line := range a.tip { // a prune asks of those that it takes whether they have become longer
			if a.role == aPruner && a.pc > 0 && a.pc < 6 && a.going&(1<<line) == 0 && !w.mist.noAnnounce {
				a.tip[line] = none
			}
		}
	}
	isAlike := func(a *mActor) bool { return a.role == aPruner || a.role == aNone }
	for i := range s.actors {
		for j := range i {
			a, b := &s.actors[j], &s.actors[i]
			if isAlike(a) && isAlike(b) && maphash.Comparable(w.seed[0], *a) > maphash.Comparable(w.seed[0], *b) {
				*a, *b = *b, *a
			}
		}
	}
	for line := range s.lines {
		for n := range s.lines[line] {
			if e := &s.lines[line][n]; !e.pack && !w.mist.noVoid {
				e.has = 0
			}
		}
	}
	s.reduceLedger()
}

// reduce clears what an actor does not look at any more.
func (a *mActor) reduce() {
	was := *a
	switch a.role {
	case aNone:
		*a = mActor{}
	case aWriter:
		if a.done == a.turns {
			*a = mActor{}
			return
		}
		if a.pc == 0 {
			a.known = 0
		}
		if a.pc != 3 {
			a.has = 0
		}
		if a.next == 0 || a.again {
			a.conf = 0
		}
		if !a.sure {
			a.base, a.baseN = none, 0
		}
	case aPruner:
		switch a.pc {
		case 3, 4, 5:
			a.at = 0
		case 6:
			*a = mActor{role: aPruner, pc: 6, known: was.known, packs: was.packs, logs: was.logs}
		}
	case aReader:
		if a.pc == 0 {
			*a = mActor{role: aReader}
		}
	case aKeeper:
		switch a.pc {
		case 0:
			*a = mActor{role: aKeeper}
		case 1:
			*a = mActor{role: aKeeper, pc: 1, known: was.known}
		case 2:
			a.line = 0
		case 4:
			*a = mActor{role: aKeeper, pc: 4, baseN: was.baseN, conf: was.conf}
		}
	}
	if a.role == aPruner || a.role == aReader || a.role == aKeeper {
		a.base = none
	}
}

// reduceLedger clears what objects of the ledger say that nobody reads by what they know.
func (s *mState) reduceLedger() {
	var read [mLedger + 1]bool // as the newest that somebody knows
	read[s.newest] = true
	for i := range s.actors {
		a := &s.actors[i]
		if a.role == aNone || a.role == aRotator || a.pc == 0 || a.role == aKeeper && a.pc == 4 {
			continue // it reads the ledger anew, or no more
		}
		read[a.known] = true
		if a.role == aPruner {
			read[min(a.known+1, mLedger)] = true // its announcement
		}
	}
	var content [mLedger + 1]bool
	for known, isRead := range read {
		if !isRead || known > int(s.newest) {
			continue
		}
		content[known] = true
		for n := known; n > 0; n-- {
			if s.ledger[n-1].kind == kindDone {
				content[n] = true
				break
			}
		}
	}
	for n := 1; n <= int(s.newest); n++ {
		if r := &s.ledger[n-1]; !content[n] {
			*r = mRecord{forget: r.forget}
		}
	}
}

// compare fails the world if a state and what it was reduced to lead to anything different.
func (w *mWorld) compare(was, reduced mState) {
	one, whyOne := w.all(was)
	other, whyOther := w.all(reduced)
	if !maps.Equal(one, other) || (whyOne == "") != (whyOther == "") || w.wrong(&was) != w.wrong(&reduced) {
		w.failed = fmt.Sprintf("%d states are next, %q, and %d of what it is reduced to, %q:\n%+v\n%+v",
			len(one), whyOne, len(other), whyOther, was, reduced)
	}
}

// all returns all states that are next, each reduced.
func (w *mWorld) all(s mState) (next map[mState]bool, failed string) {
	c := &mWorld{going: w.going, forget: w.forget, twins: w.twins, restart: w.restart, mist: w.mist, seed: w.seed,
		next: make(map[mState]bool)}
	for i := range s.actors {
		c.step(s, i)
	}
	return c.next, c.failed
}

// TestProtocolReduced compares, in the small worlds, each state with what it is reduced to: what is wrong with them is
// the same, and what comes next. So a world that was explored with the one was explored with the other.
func TestProtocolReduced(t *testing.T) {
	testseed.Sequential(t)
	worlds, large := mWorlds()
	if *explore {
		worlds = append(worlds, large[:3]...)
	}
	for _, w := range worlds {
		w.compares = true
		n, failed := w.run()
		if failed != "" {
			t.Errorf("%s: %s", w.name, failed)
		}
		t.Logf("%s: %d states", w.name, n)
	}
}
