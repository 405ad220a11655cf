package cas

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// The protocol by which prunes and compactions run beside writers and readers, as a
// model of which every interleaving is tried, with a crash after every step
// (docs/adr/0019-prune-protocol.md, docs/adr/0047-compaction.md). The mistakes below
// are those that the code must not make.
//
// Two objects, a tree and the blob in it, are the snapshot "old", which a prune
// drops and a compaction does not. A third, "other", is a snapshot that stays, and
// lies in the pack of the blob, so that a prune has to copy it. Writers capture the
// very same tree again, or make a snapshot from the tree of the old one without
// looking at what is in it, as a restore does; a reader restores the old one.
//
// Two runs may be rounds of one compaction, of which the first brings forward some of what is in the
// pack of the second.
//
// Writers may be of one process: then what one has put is in a group that is not
// written yet, which the other finds, and it is gone if the process dies.
//
// What nobody looks at any more becomes zero, so that states are one that differ in it alone.

const (
	objTree uint8 = 1 << iota
	objBlob
	objOther
)

// closure is what a snapshot of the tree needs.
const closure = objTree | objBlob

// Packs: 0 has the blob and other, 1 the tree; then one for each writer, and one
// for each run of a prune or compaction.
const (
	modelWriters = 2
	modelRuns    = 2
	modelPacks   = 2 + modelWriters + modelRuns
)

// A modelActor is a writer or the reader.
type modelActor struct {
	step  uint8
	epoch uint8 // whose lock it has or wants
	held  bool
	skip  uint8 // condemned packs, as bits, that it takes for absent
	noOld bool  // for it the old snapshot is gone
	open  uint8 // objects in the group that it has begun
}

// The steps of a run.
const (
	runPlans uint8 = iota
	runLocks       // from here on to its end it has the lock of all runs
	runAnnounces
	runDrains
	runMarks
	runCopies
	runSays
	runRemoves
	runOver
)

// A modelRun is a run of a prune or a compaction. Its plan it makes without the lock.
type modelRun struct {
	step      uint8
	compacts  bool
	condemned uint8
	planned   uint8 // the epoch when it planned
	prunes    bool  // the old snapshot is dropped by it, or was when it planned
	drain     uint8 // the epoch that is waited for next
	dropped   bool  // when it announced, the old snapshot was dropped
	live      uint8
	brings    uint8 // objects of the next round's pack that it writes, too
	brought   uint8 // those that the round before has written
}

// A modelState is what is on the disk and in each process.
type modelState struct {
	packs   [modelPacks]uint8 // objects
	exists  uint8             // packs that are there
	counted uint8             // packs that the journal vouches for, or their seals

	epoch     uint8 // that the journal names
	completed uint8 // the last epoch whose run has come to its end
	announced uint8 // packs that were condemned since then
	dropping  bool  // a prune was announced that drops the old snapshot
	oldGone   bool  // and one that has done so
	removed   uint8 // packs that a run that is done has to remove
	committed bool  // a writer has

	together bool // the writers are of one process
	inTurn   bool // a run plans when the one before is over
	rounds   bool // the runs are of one compaction
	writers  [modelWriters]modelActor
	reader   modelActor
	runs     [modelRuns]modelRun
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
	usesStalePlan   mistake = "goes by a plan that others have made wrong"
	takesWritten    mistake = "takes what it has written for all that lives"
	announcesFirst  mistake = "announces before its packs are there"
	namesLate       mistake = "gives its packs their names when it is done"
	takesAsBrought  mistake = "takes all of a later pack for brought forward"
	keepsOpenGroups mistake = "commits without the groups that others have begun"
)

// An explorer tries one variant of the protocol.
type explorer struct {
	mistake mistake
	seen    map[modelState]struct{}
	trace   []modelStep
	broken  string // what was lost, and how
}

// A modelStep is what was done, to be formatted.
type modelStep struct {
	format string
	args   []any
}

// A modelScene is who is there.
type modelScene struct {
	compacts [modelRuns]bool // which runs are compactions; prunes otherwise
	alone    bool            // there is one writer
	together bool            // both are of one process
	inTurn   bool            // a run plans when the one before is over
	single   bool            // there is one run
	rounds   bool            // they are of one compaction
	pruned   bool            // the old snapshot was pruned, and what it needs is still there
}

func (sc modelScene) String() string {
	text := []string{}
	for i, is := range sc.compacts {
		if i == 0 || !sc.single {
			text = append(text, map[bool]string{false: "prune", true: "compaction"}[is])
		}
	}
	text = append(text, map[bool]string{false: "two writers", true: "a writer"}[sc.alone])
	for _, also := range []struct {
		is   bool
		text string
	}{{sc.together, "of a process"}, {sc.inTurn, "plans in turn"}, {sc.rounds, "in rounds"},
		{sc.pruned, "after a prune"}} {
		if also.is {
			text = append(text, also.text)
		}
	}
	return strings.Join(text, ", ")
}

func (sc modelScene) state() modelState {
	s := modelState{exists: 0b11, counted: 0b11, together: sc.together}
	s.packs[0], s.packs[1] = objBlob|objOther, objTree
	for i, is := range sc.compacts {
		s.runs[i].compacts = is
	}
	if sc.alone {
		s.writers[0].step = 7
	}
	if sc.single {
		s.end(1)
	}
	s.inTurn, s.oldGone, s.rounds = sc.inTurn, sc.pruned, sc.rounds
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
	if s.committed || !s.oldGone {
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
func (m *explorer) explore(s modelState, format string, args ...any) {
	if m.broken != "" {
		return
	}
	if _, ok := m.seen[s]; ok {
		return
	}
	m.seen[s] = struct{}{}
	m.trace = append(m.trace, modelStep{format, args})
	defer func() { m.trace = m.trace[:len(m.trace)-1] }()
	if lost := s.lost(); lost != "" {
		m.fail(lost + " is lost")
		return
	}
	for i := range s.writers {
		m.writer(s, i)
	}
	m.read(s)
	for i := range s.runs {
		m.run(s, i)
	}
}

func (m *explorer) fail(what string) {
	m.broken = what + ":"
	for _, step := range m.trace {
		m.broken += "\n  " + fmt.Sprintf(step.format, step.args...)
	}
}

// enter does the steps of an actor up to where it has its epoch. It reports
// whether it is there.
func (m *explorer) enter(s modelState, name string, of func(s *modelState) *modelActor) bool {
	a := of(&s)
	switch a.step {
	case 0:
		a.epoch, a.step = s.epoch, 1
		m.explore(s, "%s reads epoch %d", name, a.epoch)
	case 1:
		a.held, a.step = true, 2
		m.explore(s, "%s locks epoch %d", name, a.epoch)
	case 2:
		if s.epoch != a.epoch && m.mistake != noRecheck {
			*a = modelActor{}
			m.explore(s, "%s sees that the epoch is another", name)
			return false
		}
		a.skip, a.noOld, a.step = s.announced, s.dropping || s.oldGone, 3
		if m.mistake == noRecheck { // it knows what it has read at first
			a.skip, a.noOld = 0, s.oldGone
		}
		if a == &s.reader {
			a.skip = 0
		}
		m.explore(s, "%s is in its epoch", name)
	default:
		return true
	}
	return false
}

// die ends a writer, and with it those of its process.
func (s *modelState) die(i int) {
	for k := range s.writers {
		if k == i || s.together && s.writers[k].step < 7 {
			s.writers[k] = modelActor{step: 7}
		}
	}
}

// look has a writer find an object, or put it. Nobody has to put again what a compaction
// writes anew.
func (m *explorer) look(s modelState, i int, obj uint8, what string) {
	a := &s.writers[i]
	skip := a.skip
	if m.mistake == usesCondemned {
		skip = 0
	}
	open := s.together && (s.writers[0].open|s.writers[1].open)&obj != 0
	a.noOld = false
	if a.step++; a.step == 5 {
		a.skip = 0
	}
	if s.has(obj, skip) != 0 || open {
		m.explore(s, "writer %d finds %s", i, what)
		return
	}
	for _, r := range s.runs {
		waits := r.step > runLocks && r.step <= runMarks // till then live is what it has planned with
		if r.compacts && waits && r.live&obj != 0 && s.has(obj, 0)&r.condemned != 0 {
			m.fail(fmt.Sprintf("writer %d puts %s again, which a compaction writes anew", i, what))
			return
		}
	}
	if s.together {
		a.open |= obj
	} else {
		s.packs[2+i] |= obj
		s.exists |= 1 << (2 + i)
	}
	m.explore(s, "writer %d puts %s", i, what)
}

// commit has a writer commit. First all groups of its process are written.
func (m *explorer) commit(s modelState, i int) {
	for k := range s.writers {
		if s.together && (k == i || m.mistake != keepsOpenGroups) {
			s.packs[2+i] |= s.writers[k].open
			s.writers[k].open = 0
			s.exists |= 1 << (2 + i)
		}
	}
	s.counted |= 1 << (2 + i)
	s.committed = true
	s.writers[i].step = 6
	m.explore(s, "writer %d commits", i)
}

func (m *explorer) writer(s modelState, i int) {
	of := func(s *modelState) *modelActor { return &s.writers[i] }
	a := of(&s)
	if a.step > 2 && a.step < 7 {
		crashed := s
		crashed.die(i)
		m.explore(crashed, "writer %d crashes", i)
	}
	if !m.enter(s, []string{"writer 0", "writer 1"}[i], of) {
		return
	}
	switch a.step {
	case 3:
		if i == 1 { // the second writer may be either
			p := s
			b := of(&p)
			if b.noOld && m.mistake != buildsOnDropped || p.oldGone {
				*b = modelActor{step: 7}
				m.explore(p, "writer %d finds the old snapshot gone", i)
			} else {
				b.step, b.skip, b.noOld = 5, 0, false
				m.explore(p, "writer %d builds on the old snapshot", i)
			}
		}
		m.look(s, i, objBlob, "the blob")
	case 4:
		m.look(s, i, objTree, "the tree")
	case 5:
		m.commit(s, i)
	case 6:
		*a = modelActor{step: 7}
		m.explore(s, "writer %d leaves", i)
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
			*a = modelActor{step: 7}
			m.explore(s, "the reader finds the old snapshot gone")
			return
		}
		a.step, a.noOld = 4, false
		m.explore(s, "the reader plans")
	case 4:
		if s.has(objBlob, 0) == 0 {
			m.fail("the reader cannot read the blob")
			return
		}
		*a = modelActor{step: 7}
		m.explore(s, "the reader has read")
	}
}

// marked returns the objects that snapshots need, but for the old one if it is dropped.
func (s *modelState) marked(dropped bool) uint8 {
	if s.committed || !dropped {
		return objOther | closure
	}
	return objOther
}

// run does the next step of a prune or a compaction.
func (m *explorer) run(s modelState, i int) {
	p := &s.runs[i]
	if p.step > runAnnounces && p.step < runOver || p.step == runAnnounces && p.compacts {
		crashed := s
		if m.mistake == forgetsCrash {
			crashed.completed = crashed.epoch
		}
		crashed.end(i)
		m.explore(crashed, "run %d crashes", i)
	}
	switch p.step {
	case runPlans:
		if i == 0 || !s.rounds && (!s.inTurn || s.runs[0].step == runOver) {
			m.plan(s, i)
		}
	case runLocks:
		if other := s.runs[1-i].step; other <= runLocks || other == runOver {
			m.begin(s, i)
		}
	case runAnnounces:
		m.announce(s, i)
	case runDrains:
		m.withdraw(s, i)
		m.drain(s, i)
	case runMarks:
		m.withdraw(s, i)
		if m.mistake != noRemark && (m.mistake != takesWritten || !p.compacts) {
			p.live |= s.marked(true)
		}
		p.step++
		m.explore(s, "run %d marks again", i)
	case runCopies:
		m.withdraw(s, i)
		if p.condemned&^s.exists != 0 {
			return // one is gone: it withdraws
		}
		s.write(i)
		if m.mistake == removesFirst {
			s.exists &^= p.condemned
		}
		p.live, p.dropped = 0, false
		p.step++
		m.explore(s, "run %d copies", i)
	case runSays:
		if m.mistake != namesLate {
			s.counted |= s.pack(i)
		}
		s.completed, s.announced, s.oldGone, s.dropping = s.epoch, 0, s.oldGone || s.dropping, false
		s.removed |= p.condemned
		s.counted &^= p.condemned
		p.condemned = 0
		p.step++
		m.explore(s, "run %d says that it is done", i)
	case runRemoves:
		s.exists &^= s.removed
		s.counted |= s.pack(i) & s.exists
		m.next(&s, i)
		s.end(i)
		m.explore(s, "run %d removes packs", i)
	}
}

func (s *modelState) pack(i int) uint8 { return 1 << (2 + modelWriters + i) }

// end ends a run, and with it the round that was to come next.
func (s *modelState) end(i int) {
	s.runs[i] = modelRun{step: runOver, compacts: s.runs[i].compacts}
	if i == 0 && s.rounds && s.runs[1].step == runPlans {
		s.end(1)
	}
}

// next has the second round begin when the first is done.
func (m *explorer) next(s *modelState, i int) {
	p := &s.runs[1]
	if i != 0 || !s.rounds {
		return
	}
	p.step, p.planned, p.brought = runLocks, s.epoch, s.runs[0].brings
	if m.mistake == takesAsBrought {
		p.brought = p.live
	}
}

// write writes into the run's pack what lives in those that are to go.
func (s *modelState) write(i int) {
	p := &s.runs[i]
	for c := range s.packs {
		if p.condemned&(1<<c) != 0 {
			s.packs[2+modelWriters+i] |= s.packs[c] & p.live &^ p.brought
		}
	}
	s.exists |= s.pack(i)
}

// plan marks, and chooses packs, but those of writers. A prune takes any with something
// dead in them.
func (m *explorer) plan(s modelState, i int) {
	p := &s.runs[i]
	p.planned, p.prunes, p.step = s.epoch, !p.compacts || s.dropping || s.oldGone, runLocks
	p.live = s.marked(p.prunes)
	may := uint8(0b11) | s.pack(1-i)
	for choice := uint8(1); choice <= may; choice++ {
		fits := choice&^(may&s.exists) == 0
		for c := range s.packs {
			fits = fits && (choice&(1<<c) == 0 || p.compacts || s.packs[c]&^p.live != 0)
		}
		if fits {
			n := s
			n.runs[i].condemned = choice
			if i == 0 && s.rounds {
				m.planNext(n)
				continue
			}
			m.explore(n, "run %d plans to have packs %b go", i, choice)
		}
	}
}

// planNext plans the second round, and what the first is to bring forward.
func (m *explorer) planNext(s modelState) {
	p, q := &s.runs[0], &s.runs[1]
	if q.condemned = 0b11 &^ p.condemned; q.condemned == 0 || p.condemned > 0b11 {
		return
	}
	q.live, q.prunes = p.live, p.prunes
	all := s.packs[q.condemned>>1] & p.live
	for brings := all; ; brings = (brings - 1) & all {
		n := s
		n.runs[0].brings = brings
		m.explore(n, "run 0 plans to have packs %b go, and to bring %b forward", p.condemned, brings)
		if brings == 0 {
			return
		}
	}
}

// begin brings to its end what the run before has left. A compaction then writes its packs.
func (m *explorer) begin(s modelState, i int) {
	p := &s.runs[i]
	s.exists &^= s.removed // what the one before has left
	was := p.prunes && p.compacts
	stale := s.epoch != p.planned || p.compacts && was != (s.dropping || s.oldGone)
	if stale && m.mistake != usesStalePlan || p.compacts && p.condemned&^s.exists != 0 {
		s.end(i)
		m.explore(s, "run %d finds its plan stale", i)
		return
	}
	p.planned = 0
	p.step++
	if p.compacts && m.mistake != announcesFirst {
		s.write(i)
		s.packs[2+modelWriters+i] |= p.brings
		if m.mistake != namesLate {
			s.counted |= s.pack(i)
		}
	}
	m.explore(s, "run %d begins", i)
}

func (m *explorer) announce(s modelState, i int) {
	p := &s.runs[i]
	s.epoch++
	p.dropped = s.dropping || s.oldGone
	s.announced, s.dropping = p.condemned, p.prunes
	s.oldGone, p.prunes = s.oldGone && p.prunes, false
	if p.drain = s.completed; m.mistake == drainsNewest {
		p.drain = s.epoch - 1
	}
	p.step++
	m.explore(s, "run %d announces epoch %d without packs %b", i, s.epoch, p.condemned)
}

// withdraw takes the announcement back, at any time before it is done.
func (m *explorer) withdraw(s modelState, i int) {
	p := s.runs[i]
	s.epoch++
	s.announced, s.dropping = 0, p.dropped
	if m.mistake == forgetsWithdraw {
		s.completed = s.epoch
	} else if p.step > runDrains {
		s.completed = s.epoch - 1
	}
	s.end(i)
	m.explore(s, "run %d withdraws", i)
}

func (m *explorer) drain(s modelState, i int) {
	p := &s.runs[i]
	for _, a := range [...]modelActor{s.writers[0], s.writers[1], s.reader} {
		if a.held && a.epoch == p.drain {
			return // it waits
		}
	}
	epoch := p.drain
	if p.drain++; p.drain == s.epoch {
		p.drain = 0
		p.step++
	}
	m.explore(s, "run %d has seen all leave epoch %d", i, epoch)
}

func explored(mistake mistake, scene modelScene) *explorer {
	m := &explorer{mistake: mistake, seen: make(map[modelState]struct{})}
	m.explore(scene.state(), "%v", scene)
	return m
}

var (
	modelPC = [modelRuns]bool{false, true}
	modelCP = [modelRuns]bool{true, false}
	modelCC = [modelRuns]bool{true, true}
)

// modelScenes are those that are tried. Two writers beside two runs are millions of states.
func modelScenes() []modelScene {
	list := []modelScene{
		{single: true}, {single: true, compacts: modelCC}, {single: true, compacts: modelCC, pruned: true},
		{single: true, together: true}, {single: true, together: true, compacts: modelCC, pruned: true},
		{alone: true}, {alone: true, compacts: modelCP}, {alone: true, compacts: modelCC},
		{alone: true, compacts: modelCC, rounds: true},
	}
	if *every {
		list = append(list, modelScene{inTurn: true}, modelScene{inTurn: true, compacts: modelCP},
			modelScene{inTurn: true, compacts: modelPC}, modelScene{inTurn: true, compacts: modelCC})
	}
	return list
}

// TestPruneProtocol tries all there is to try.
func TestPruneProtocol(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, scene := range modelScenes() {
		m := explored(noMistake, scene)
		t.Logf("%v: %d states", scene, len(m.seen))
		if m.broken != "" {
			t.Error(m.broken)
		}
		if len(m.seen) < 10_000 {
			t.Errorf("%v: only %d states", scene, len(m.seen))
		}
	}
}

// TestPruneMistakes has the explorer find each mistake that is made on purpose.
func TestPruneMistakes(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, c := range []struct {
		modelScene
		list []mistake
	}{
		{modelScene{alone: true}, []mistake{drainsNewest, noRecheck, noRemark, usesCondemned, removesFirst,
			buildsOnDropped, readsDropped, readsUnlocked, forgetsCrash, forgetsWithdraw}},
		{modelScene{alone: true, compacts: modelCP}, []mistake{drainsNewest, noRecheck, noRemark, usesCondemned,
			removesFirst, readsUnlocked, usesStalePlan, announcesFirst, namesLate}},
		{modelScene{single: true, compacts: modelCC, pruned: true}, []mistake{takesWritten}},
		{modelScene{alone: true, compacts: modelCC, rounds: true}, []mistake{takesAsBrought}},
		{modelScene{single: true, together: true}, []mistake{keepsOpenGroups}},
	} {
		for _, mistake := range c.list {
			m := explored(mistake, c.modelScene)
			if m.broken == "" {
				t.Errorf("%v: who %s: nothing is lost in %d states", c.modelScene, mistake, len(m.seen))
			} else {
				t.Logf("%s: %s", mistake, m.broken)
			}
		}
	}
}
