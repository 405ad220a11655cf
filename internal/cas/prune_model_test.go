package cas

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The protocol by which a prune is to run beside writers and readers, as a model
// of which every interleaving is tried, with a crash after every step
// (docs/adr/0019-prune-protocol.md). A prune that is written later does these
// steps in this order; the mistakes below are those that it must not make.
//
// Two objects, a tree and the blob in it, are the snapshot "old", which the
// retention drops. A third, "other", is a snapshot that stays, and lies in the pack
// of the blob, so that the prune has to copy it. Writers capture the very same
// tree again, or make a snapshot from the tree of the old one without looking at
// what is in it, as a restore does; a reader restores the old one.

const (
	objTree uint8 = 1 << iota
	objBlob
	objOther
)

// closure is what a snapshot of the tree needs.
const closure = objTree | objBlob

// Packs: 0 has the blob and other, 1 the tree; then one for each writer, and one
// for each run of the prune.
const (
	modelWriters = 2
	modelRuns    = 2
	modelPacks   = 2 + modelWriters + modelRuns
)

// A modelActor is a writer or the reader.
type modelActor struct {
	step    uint8
	epoch   uint8 // whose lock it has or wants
	held    bool
	skip    uint8 // condemned packs, as bits, that it takes for absent
	noOld   bool  // for it the old snapshot is gone
	patches bool  // a writer: it makes its snapshot from the old one's tree
}

// A modelPrune is a run of the prune.
type modelPrune struct {
	step      uint8
	run       uint8
	condemned uint8
	drain     uint8 // the epoch that is waited for next
	dropped   bool  // before it one had announced that the old snapshot is dropped
	live      uint8
}

// A modelState is what is on the disk and in each process.
type modelState struct {
	packs   [modelPacks]uint8 // objects
	exists  uint8             // packs that are there
	counted uint8             // packs that the journal vouches for

	epoch     uint8 // that the journal names: how many prunes were announced
	completed uint8 // the last epoch whose prune has come to its end
	announced uint8 // packs that were condemned since then
	dropping  bool  // a prune was announced that drops the old snapshot
	oldGone   bool  // and one that has done so
	removed   uint8 // packs that a prune that is done has to remove
	commits   uint8 // of writers, as bits

	writers [modelWriters]modelActor
	reader  modelActor
	prune   modelPrune
}

// A mistake is one in the protocol.
type mistake string

const (
	noMistake       mistake = ""
	drainsNewest    mistake = "waits for the newest epoch only"
	noRecheck       mistake = "does not look at the epoch again once it has the lock"
	noRemark        mistake = "does not mark again after waiting"
	usesCondemned   mistake = "takes an object in a condemned pack for there"
	removesFirst    mistake = "removes packs before saying so"
	buildsOnDropped mistake = "builds on a snapshot that is being dropped"
	readsDropped    mistake = "restores a snapshot that is being dropped"
	readsUnlocked   mistake = "restores without an epoch"
	forgetsCrash    mistake = "counts a prune that crashed as completed"
	forgetsWithdraw mistake = "counts a prune that was withdrawn as completed"
)

// An explorer tries one variant of the protocol.
type explorer struct {
	mistake mistake
	seen    map[modelState]bool
	trace   []string
	broken  string // what was lost, and how
}

func newModelState() modelState {
	s := modelState{exists: 0b11, counted: 0b11}
	s.packs[0], s.packs[1] = objBlob|objOther, objTree
	return s
}

// has returns the packs that are there, counted and none of those to be skipped,
// that have an object.
func (s *modelState) has(obj, skip uint8) (packs uint8) {
	for p, objs := range s.packs {
		if objs&obj != 0 {
			packs |= 1 << p
		}
	}
	return packs & s.exists & s.counted &^ skip
}

// lost says which object of a snapshot is nowhere; "" if none is.
func (s *modelState) lost() string {
	need := objOther
	if s.commits != 0 || !s.oldGone {
		need |= closure
	}
	for _, obj := range []uint8{objTree, objBlob, objOther} {
		if need&obj != 0 && s.has(obj, 0) == 0 {
			return map[uint8]string{objTree: "the tree", objBlob: "the blob", objOther: "the other blob"}[obj]
		}
	}
	return ""
}

// explore tries all that can happen next.
func (m *explorer) explore(s modelState, what string) {
	if m.broken != "" || m.seen[s] {
		return
	}
	m.seen[s] = true
	m.trace = append(m.trace, what)
	defer func() { m.trace = m.trace[:len(m.trace)-1] }()
	if lost := s.lost(); lost != "" {
		m.fail(lost + " is lost")
		return
	}
	for i := range s.writers {
		m.writer(s, i)
	}
	m.read(s)
	m.runPrune(s)
}

func (m *explorer) fail(what string) { m.broken = what + ":\n  " + strings.Join(m.trace, "\n  ") }

// enter does the steps of an actor up to where it has its epoch. It reports
// whether it is there.
func (m *explorer) enter(s modelState, name string, of func(s *modelState) *modelActor) bool {
	a := of(&s)
	switch a.step {
	case 0:
		a.epoch, a.step = s.epoch, 1
		m.explore(s, fmt.Sprintf("%s reads epoch %d", name, a.epoch))
	case 1:
		a.held, a.step = true, 2
		m.explore(s, fmt.Sprintf("%s locks epoch %d", name, a.epoch))
	case 2:
		if s.epoch != a.epoch && m.mistake != noRecheck {
			a.held, a.step = false, 0
			m.explore(s, name+" sees that the epoch is another")
			return false
		}
		a.skip, a.noOld, a.step = s.announced, s.dropping || s.oldGone, 3
		if m.mistake == noRecheck { // it knows what it has read at first
			a.skip, a.noOld = 0, s.oldGone
		}
		m.explore(s, name+" is in its epoch")
	default:
		return true
	}
	return false
}

func (m *explorer) writer(s modelState, i int) {
	of := func(s *modelState) *modelActor { return &s.writers[i] }
	name := fmt.Sprintf("writer %d", i)
	a := of(&s)
	if a.step > 2 && a.step < 7 {
		crashed := s
		crashed.writers[i] = modelActor{step: 7}
		m.explore(crashed, name+" crashes")
	}
	if !m.enter(s, name, of) {
		return
	}
	own := uint8(1) << (2 + i)
	look := func(obj uint8, what string) {
		skip := a.skip
		if m.mistake == usesCondemned {
			skip = 0
		}
		did := " finds "
		if s.has(obj, skip) == 0 {
			s.packs[2+i] |= obj
			s.exists |= own
			did = " puts "
		}
		a.step++
		m.explore(s, name+did+what)
	}
	switch a.step {
	case 3:
		if i == 1 && !a.patches { // the second writer may be either
			p := s
			b := of(&p)
			if b.noOld && m.mistake != buildsOnDropped || p.oldGone {
				b.step, b.held = 7, false
				m.explore(p, name+" finds the old snapshot gone")
			} else {
				b.patches, b.step = true, 5
				m.explore(p, name+" builds on the old snapshot")
			}
		}
		look(objBlob, "the blob")
	case 4:
		look(objTree, "the tree")
	case 5:
		s.counted |= own
		s.commits |= 1 << i
		a.step = 6
		m.explore(s, name+" commits")
	case 6:
		a.held, a.step = false, 7
		m.explore(s, name+" leaves")
	}
}

func (m *explorer) read(s modelState) {
	of := func(s *modelState) *modelActor { return &s.reader }
	a := of(&s)
	if a.step < 3 && m.mistake == readsUnlocked {
		a.step = 3
		m.explore(s, "the reader begins")
		return
	}
	if !m.enter(s, "the reader", of) {
		return
	}
	switch a.step {
	case 3: // it looks whether all is there before it writes
		if s.oldGone || a.noOld && m.mistake != readsDropped || s.has(objTree, 0) == 0 || s.has(objBlob, 0) == 0 {
			a.held, a.step = false, 7
			m.explore(s, "the reader finds the old snapshot gone")
			return
		}
		a.step = 4
		m.explore(s, "the reader plans")
	case 4:
		if s.has(objBlob, 0) == 0 {
			m.fail("the reader cannot read the blob")
			return
		}
		a.held, a.step = false, 7
		m.explore(s, "the reader has read")
	}
}

// marked returns the objects that snapshots need but for the one that is dropped.
func (s *modelState) marked() uint8 {
	if s.commits != 0 {
		return objOther | closure
	}
	return objOther
}

func (m *explorer) runPrune(s modelState) {
	p := &s.prune
	if p.run == modelRuns {
		return
	}
	next := func(what string) { m.explore(s, fmt.Sprintf("prune %d %s", p.run, what)) }
	if p.step > 1 {
		crashed := s
		if m.mistake == forgetsCrash {
			crashed.completed = crashed.epoch
		}
		crashed.prune = modelPrune{run: p.run + 1}
		m.explore(crashed, fmt.Sprintf("prune %d crashes", p.run))
	}
	switch p.step {
	case 0:
		s.exists &^= s.removed // what the one before has left
		p.live, p.step = s.marked(), 1
		next("marks")
	case 1:
		// Any packs with something dead in them, but those of writers.
		for choice := uint8(1); choice < 4; choice++ {
			dead := true
			for pack := range 2 {
				if choice&(1<<pack) != 0 && (s.exists&(1<<pack) == 0 || s.packs[pack]&^p.live == 0) {
					dead = false
				}
			}
			if !dead {
				continue
			}
			n := s
			n.epoch++
			n.announced = choice
			n.dropping = true
			n.prune.condemned, n.prune.drain, n.prune.step, n.prune.dropped = choice, n.completed, 2, s.dropping
			if m.mistake == drainsNewest {
				n.prune.drain = n.epoch - 1
			}
			m.explore(n, fmt.Sprintf("prune %d announces epoch %d without packs %02b", p.run, n.epoch, choice))
		}
	case 2:
		w := s
		w.epoch++
		w.announced, w.dropping = 0, p.dropped
		if m.mistake == forgetsWithdraw {
			w.completed = w.epoch
		}
		w.prune = modelPrune{run: p.run + 1}
		m.explore(w, fmt.Sprintf("prune %d withdraws", p.run))
		holders := append(slices.Clone(s.writers[:]), s.reader)
		if slices.ContainsFunc(holders, func(a modelActor) bool { return a.held && a.epoch == p.drain }) {
			return // it waits
		}
		what := fmt.Sprintf("has seen all leave epoch %d", p.drain)
		if p.drain++; p.drain == s.epoch {
			p.step = 3
		}
		next(what)
	case 3:
		if m.mistake != noRemark {
			p.live = s.marked()
		}
		p.step = 4
		next("marks again")
	case 4:
		pack := 2 + modelWriters + int(p.run)
		for c := range 2 {
			if p.condemned&(1<<c) != 0 {
				s.packs[pack] |= s.packs[c] & p.live
			}
		}
		s.exists |= 1 << pack
		p.step = 5
		if m.mistake == removesFirst {
			s.exists &^= p.condemned
		}
		next("copies")
	case 5:
		s.counted |= 1 << (2 + modelWriters + p.run)
		s.completed, s.announced, s.dropping, s.oldGone = s.epoch, 0, false, true
		s.removed |= p.condemned
		s.counted &^= p.condemned
		p.step = 6
		next("says that it is done")
	case 6:
		s.exists &^= s.removed
		run := p.run + 1
		s.prune = modelPrune{run: run}
		m.explore(s, fmt.Sprintf("prune %d removes packs", run-1))
	}
}

func explored(mistake mistake) *explorer {
	m := &explorer{mistake: mistake, seen: make(map[modelState]bool)}
	m.explore(newModelState(), "")
	return m
}

// sequential skips a test of one goroutine where tests run under the race detector, which has nothing
// to say of it and makes it ten times slower.
func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine, of which the race detector has nothing to say")
	}
}

// TestPruneProtocol tries all there is to try.
func TestPruneProtocol(t *testing.T) {
	t.Parallel()
	sequential(t)
	m := explored(noMistake)
	t.Logf("%d states", len(m.seen))
	if m.broken != "" {
		t.Error(m.broken)
	}
	if len(m.seen) < 10_000 {
		t.Errorf("only %d states", len(m.seen))
	}
}

// TestPruneMistakes has the explorer find each mistake that is made on purpose.
func TestPruneMistakes(t *testing.T) {
	t.Parallel()
	sequential(t)
	for _, mistake := range []mistake{drainsNewest, noRecheck, noRemark, usesCondemned, removesFirst, buildsOnDropped,
		readsDropped, readsUnlocked, forgetsCrash, forgetsWithdraw} {
		m := explored(mistake)
		if m.broken == "" {
			t.Errorf("a prune or a writer that %s: nothing is lost in %d states", mistake, len(m.seen))
		} else {
			t.Logf("%s: %s", mistake, m.broken)
		}
	}
}
