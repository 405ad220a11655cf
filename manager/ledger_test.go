package manager

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

var ledgerRuns = flag.Int("ledger.runs", 15, "histories of TestLedger")

// A ledger is a history at random in which every line is written once, by somebody, so that
// it is known whose each line is that goes or comes, whatever a merge makes of files, with
// whatever is asked for of conflicts, moved files and single hunks. It predicts nothing; it
// holds what was done against what must always hold.
type ledger struct {
	*bench
	m       *FileSnapshotManager
	other   *FileSnapshotManager // of another session
	tools   bool                 // turns have windows, and the user edits between them
	rng     *rand.Rand
	written int // lines
	made    int // files, and names of files
	turns   []ledgerEffect
	ended   map[string]map[string]bool // lines that a file had when a turn ended
	out     map[int]bool               // turns that are taken back
	effects map[uint64]ledgerEffect    // of restores, by number
	copied  lineOf                     // lines that were in two files
	brought lineOf                     // lines that restores have brought
	given   map[string]bool            // families of which something was given up for theirs, or left by an undo
	takers  map[string][]string        // who has taken each line away that is not there: "u", "t5", "restore"
	moved   map[string]bool            // families of files of which the user has moved one, or another session
	shared  map[string]bool            // families of which two turns at once have changed one
	// hasMoved is the same of everybody: "user", or "t5" for a turn.
	hasMoved map[string]map[string]bool
	steps    []string
	sharing  bool            // what is changed is of two turns
	gone     map[string]bool // kinds of owners of which a line may be, whoever wrote it
}

// A ledgerEffect is the lines that somebody brought, took away, and moved to another file.
type ledgerEffect struct{ came, went, moved lineOf }

// A lineOf is lines, with the file in which each is.
type lineOf map[string]string

// TestLedger holds: with whatever is asked for of conflicts no line of the user or of another
// turn goes, but by theirs where there is a conflict; none of the turn stays outside of a
// conflict that is listed; a preview says what is done; undo and redo give every byte back.
func TestLedger(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	first := testseed.Of(t)
	for i := range uint64(*ledgerRuns) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) { holdLedger(t, first+i) })
	}
	for _, seed := range []uint64{1110643, 1130376, 1210055, 1320161, 1340272, 1360202, 1361145} { // once wrong
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { holdLedger(t, seed) })
	}
}

// holdLedger has a history happen.
func holdLedger(t *testing.T, seed uint64) {
	l := &ledger{bench: &bench{T: t, dir: t.TempDir()}, rng: rand.New(rand.NewPCG(seed, 3)),
		effects: make(map[uint64]ledgerEffect), out: make(map[int]bool), copied: make(lineOf),
		brought: make(lineOf), moved: make(map[string]bool), shared: make(map[string]bool),
		hasMoved: make(map[string]map[string]bool), takers: make(map[string][]string),
		given: make(map[string]bool), ended: make(map[string]map[string]bool)}
	m, err := openOn(t, l.dir, vfstest.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	l.m, l.tools = m, rand.New(rand.NewPCG(seed, 6)).IntN(3) == 0
	m.opts.ToolWindows = l.tools
	l.other = newManager(m.engine, m.tree, &Options{StoreRoot: m.opts.StoreRoot, Session: "o"})
	l.run()
	l.check(m.store)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func (l *ledger) run() {
	for range 3 {
		l.makeFile("b")
	}
	l.initialize(l.m)
	l.initialize(l.other)
	for range 16 {
		switch n := l.rng.IntN(18); {
		case n < 5 || len(l.turns) == 0:
			l.turnAtRandom()
		case n < 8:
			l.step("the user:%s", l.edits("u", 1+l.rng.IntN(2)))
			if l.rng.IntN(3) == 0 {
				l.initialize(l.m) // a look sees it
			}
		case n < 11:
			l.revertAtRandom()
		case n < 12:
			l.revertHunks()
		case n < 13:
			l.revertLines()
		case n < 14:
			l.restoreAtRandom()
		case n < 16:
			l.turnOfOther()
		default:
			l.takeBackAtRandom()
		}
		l.resolve()
		l.blames()
		if testing.Verbose() {
			l.Logf("%s\n%s", l.steps[len(l.steps)-1], storyFiles(l.files()))
		}
	}
	l.blamesPruned()
}

func (l *ledger) step(format string, args ...any) {
	l.steps = append(l.steps, fmt.Sprintf(format, args...))
}

// wrong ends the history with what does not hold.
func (l *ledger) wrong(format string, args ...any) {
	l.Helper()
	l.Fatalf("%s\n%.1200s\n%s", strings.Join(l.steps, "\n"), fmt.Sprintf(format, args...), storyFiles(l.files()))
}

func storyFiles(f files) string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%s: %q\n", p, strings.Fields(f[p]))
	}
	return b.String()
}

// linesOf returns the lines of files, of two states, but those that are not told apart: once
// in two files, where one was moved and came back where it was, a line may go from either.
func (l *ledger) linesOf(before, after files) (was, is lineOf) {
	var list []lineOf
	for _, f := range []files{before, after} {
		lines := make(lineOf)
		for p, text := range f {
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if _, again := lines[line]; again || line == "}" || merging.IsMarker([]byte(line), 7) {
					l.copied[line] = p
				}
				lines[line] = p
			}
		}
		list = append(list, lines)
	}
	return list[0].but(l.copied), list[1].but(l.copied)
}

// but returns lines that are not among others.
func (a lineOf) but(others lineOf) lineOf {
	rest := maps.Clone(a)
	maps.DeleteFunc(rest, func(line, _ string) bool { _, is := others[line]; return is })
	return rest
}

// effectOf returns what leads from files to others.
func (l *ledger) effectOf(before, after files) ledgerEffect {
	was, is := l.linesOf(before, after)
	e := ledgerEffect{is.but(was), was.but(is), make(lineOf)}
	for line, p := range was {
		if to, stays := is[line]; stays && to != p {
			e.moved[line] = p
		}
	}
	return e
}

// newLine returns a line of somebody's.
func (l *ledger) newLine(who string) string {
	l.written++
	return fmt.Sprintf("%s.%d", who, l.written)
}

func (l *ledger) makeFile(who string) string {
	l.made++
	name := fmt.Sprintf("%c", 'a'-1+l.made)
	if l.made%3 == 0 {
		name = "dir/" + name
	}
	var text strings.Builder
	for i := range 9 {
		fmt.Fprintln(&text, l.newLine(who))
		if i%3 == 2 {
			text.WriteString("}\n")
		}
	}
	l.write(name, text.String())
	return name
}

// family names the file that was made first of those that a path is another name of.
func family(path string) string {
	name, _, _ := strings.Cut(path, "~")
	return name
}

// edits has somebody change files, n times, and says how.
func (l *ledger) edits(who string, n int) (said string) {
	before := l.files()
	defer func() { l.noteTaken(who, l.effectOf(before, l.files())) }()
	for range n {
		now := l.files()
		if len(now) == 0 {
			return said + " make " + l.makeFile(who)
		}
		p := slices.Sorted(maps.Keys(now))[l.rng.IntN(len(now))]
		l.shared[family(p)] = l.shared[family(p)] || l.sharing
		lines := strings.Split(strings.TrimSuffix(now[p], "\n"), "\n")
		i := l.rng.IntN(len(lines))
		switch k := l.rng.IntN(16); {
		case k < 1:
			said += " make " + l.makeFile(who)
		case k < 2:
			said += " delete " + p
			l.remove(p)
		case k < 4:
			l.made++
			to := fmt.Sprint(family(p), "~", l.made)
			said += fmt.Sprintf(" move %s to %s", p, to)
			l.moved[family(p)] = l.moved[family(p)] || !strings.HasPrefix(who, "t")
			l.noteMove(who, family(p))
			l.remove(p)
			l.write(to, now[p])
		case k < 7:
			line := l.newLine(who)
			said += fmt.Sprintf(" %s: insert %s at %d", p, line, i)
			l.write(p, strings.Join(slices.Insert(lines, i, line), "\n")+"\n")
		case k < 9 && len(lines) > 6:
			said += fmt.Sprintf(" %s: delete %d", p, i)
			l.write(p, strings.Join(slices.Delete(lines, i, i+1), "\n")+"\n")
		default:
			line := l.newLine(who)
			said += fmt.Sprintf(" %s: %s at %d", p, line, i)
			lines[i] = line
			l.write(p, strings.Join(lines, "\n")+"\n")
		}
	}
	return said
}

// noteTaken notes who has taken lines away.
func (l *ledger) noteTaken(who string, e ledgerEffect) {
	for line := range e.went {
		l.takers[line] = append(l.takers[line], who)
	}
}

// noteMove notes that somebody has moved a file of a family.
func (l *ledger) noteMove(who, family string) {
	if full := ledgerKinds[who]; full != "" {
		who = full
	}
	if l.hasMoved[who] == nil {
		l.hasMoved[who] = make(map[string]bool)
	}
	l.hasMoved[who][family] = true
}

func (l *ledger) turnAtRandom() {
	if l.tools {
		l.turnOfTools()
		return
	}
	n := len(l.turns)
	before, said := l.files(), ""
	l.turn(l.m, func() { said = l.edits(fmt.Sprint("t", n), 1+l.rng.IntN(3)) })
	l.step("turn %d:%s", n, said)
	l.noteTurn(l.effectOf(before, l.files()))
}

// noteTurn notes what a turn did, and what each file had then.
func (l *ledger) noteTurn(e ledgerEffect) {
	l.turns = append(l.turns, e)
	for p, text := range l.files() {
		if l.ended[p] == nil {
			l.ended[p] = make(map[string]bool)
		}
		for line := range strings.Lines(text) {
			l.ended[p][strings.TrimSuffix(line, "\n")] = true
		}
	}
}

// turnOfTools is a turn in windows, between which the user edits files.
func (l *ledger) turnOfTools() {
	n := len(l.turns)
	said := ""
	e := ledgerEffect{make(lineOf), make(lineOf), make(lineOf)}
	l.start(l.m)
	for i := range 1 + l.rng.IntN(3) {
		if i > 0 && l.rng.IntN(2) == 0 {
			said += " (the user:" + l.edits("u", 1) + ")"
		}
		name := fmt.Sprint("tool", i)
		if _, err := l.m.OnToolStart(l.Context(), name); err != nil {
			l.Fatal(err)
		}
		before := l.files()
		said += " [" + l.edits(fmt.Sprint("t", n), 1+l.rng.IntN(2)) + " ]"
		is := l.effectOf(before, l.files())
		maps.DeleteFunc(e.came, func(line, _ string) bool { return is.went[line] != "" })
		maps.Copy(e.came, is.came)
		maps.Copy(e.went, is.went)
		maps.Copy(e.moved, is.moved)
		if _, err := l.m.OnToolEnd(l.Context(), name); err != nil {
			l.Fatal(err)
		}
	}
	l.end(l.m)
	l.step("turn %d:%s", n, said)
	l.noteTurn(e)
}

// turnOfOther is a turn of another session, or one of each session at once.
func (l *ledger) turnOfOther() {
	if l.rng.IntN(2) == 0 {
		said := ""
		l.turn(l.other, func() { said = l.edits("o", 1+l.rng.IntN(2)) })
		l.step("the other session:%s", said)
		return
	}
	who := "c"
	if l.tools { // the turn has no window without a tool
		who = "o"
	}
	l.start(l.m)
	l.start(l.other)
	l.sharing = true
	said := l.edits(who, 1+l.rng.IntN(2))
	l.sharing = false
	both := []*FileSnapshotManager{l.m, l.other}
	first := l.rng.IntN(2)
	l.end(both[first])
	l.end(both[1-first])
	l.step("turn %d and the other session at once:%s", len(l.turns), said)
	l.noteTurn(ledgerEffect{make(lineOf), make(lineOf), make(lineOf)})
}

// resolve has the user take the upper side of all conflicts that are marked.
func (l *ledger) resolve() {
	for p, text := range l.files() {
		var b strings.Builder
		keep, marked := true, false
		for line := range strings.Lines(text) {
			if merging.IsMarker([]byte(line), 7) {
				keep, marked = line[0] == '<' || line[0] == '>', true
			} else if keep {
				b.WriteString(line)
			}
		}
		if marked {
			l.step("the user resolves %s", p)
			before := l.files()
			l.write(p, b.String())
			l.noteTaken("u", l.effectOf(before, l.files()))
		}
	}
}

// How likely each is.
var ledgerHow = []rollback.OnConflict{"", rollback.ConflictKeep, rollback.ConflictTheirs, rollback.ConflictTheirs,
	rollback.ConflictMarkers, rollback.ConflictAbort}

// A ledgerRequest is something to be taken back.
type ledgerRequest struct {
	name string
	how  rollback.OnConflict
	do   func(how rollback.OnConflict, preview bool) (*RestoreResult, error)

	may   ledgerEffect // lines that may come, and go
	never lineOf       // lines that may not come where no conflict is listed, whatever is given up
	must  lineOf       // those of them that have to go, with the file from which; "": from all
	comes lineOf       // lines that have to come where no conflict is listed, with the file from which they went

	// A file that is not there may come as it was when a turn ended, with what others had written.
	anew bool
}

// ask asks for it, and holds what comes of it against the lines.
func (l *ledger) ask(q *ledgerRequest) {
	l.step("%s, %s", q.name, q.how)
	for n := range l.out { // where a conflict has left them
		maps.Copy(q.may.went, l.turns[n].came)
	}
	before := l.files()
	kept, _ := q.do(rollback.ConflictKeep, true)
	ahead, aheadErr := q.do(q.how, true)
	if d := diffOf(before, l.files()); d != "" {
		l.wrong("a preview has changed %s", d)
	}
	r, err := q.do(q.how, false)
	if fmt.Sprint(err) != fmt.Sprint(aheadErr) || r != nil &&
		fmt.Sprint(r.Restored, r.Deleted, unhinted(r.Conflicts), r.Aborted) !=
			fmt.Sprint(ahead.Restored, ahead.Deleted, unhinted(ahead.Conflicts), ahead.Aborted) {
		l.wrong("the preview said %+v, %v, the deed %+v, %v", ahead, aheadErr, r, err)
	}
	l.came(r, err)
	after := l.files()
	was, is := l.linesOf(before, after)
	switch {
	case err != nil || r.Aborted:
		if d := diffOf(before, after); d != "" || err == nil && len(r.Conflicts) == 0 {
			l.wrong("it was not done, %+v, %v, and %q is not as it was", r, err, d)
		}
		if err != nil && !errors.Is(err, ErrNothing) && !errors.Is(err, ErrChangedNothing) &&
			!strings.HasSuffix(err.Error(), `session "s" has 0 turns, without those that were taken back`) {
			l.wrong("%v", err)
		}
		return
	case q.how == rollback.ConflictAbort && len(r.Conflicts) > 0:
		l.wrong("there are conflicts, and it was done: %+v", r)
	}
	left, overwritten := make(map[string]bool), make(map[string]bool) // families of files
	for _, c := range r.Conflicts {
		left[family(c.Path)] = true
	}
	for _, it := range r.Items {
		isLeft := it.Do != rollback.Restore && it.Do != rollback.Delete
		if isLeft && !left[family(it.Path)] && !l.shared[family(it.Path)] {
			l.wrong("%s is left, and no conflict is listed: %+v", it.Path, r)
		}
	}
	if q.how == rollback.ConflictTheirs && kept != nil {
		for _, c := range kept.Conflicts {
			overwritten[family(c.Path)], l.given[family(c.Path)] = true, true
		}
	}
	for line, p := range was.but(is) {
		if _, may := q.may.went[line]; !may && !overwritten[family(p)] {
			l.wrong("the line %s of %s is gone: %+v", line, p, r)
		}
	}
	isMarked := func(p string) bool { return q.how == rollback.ConflictMarkers && left[family(p)] }
	for line, p := range is.but(was) {
		_, never := q.never[line]
		never = never && !l.moved[family(p)] && !left[family(p)]
		_, may := q.may.came[line]
		_, isThere := before[p]
		may = may || q.anew && !isThere && l.ended[p][line]
		if never || !may && !overwritten[family(p)] && !isMarked(p) {
			l.wrong("the line %s of %s has come: %+v", line, p, r)
		}
	}
	for line, p := range was {
		at, must := q.must[line]
		is, stays := is[line]
		if stays && must && (at == "" || at == p && is == p) && !left[family(p)] && !l.moved[family(p)] &&
			!l.shared[family(p)] {
			l.wrong("the line %s of %s stays, and no conflict is listed: %+v", line, p, r)
		}
	}
	for line, p := range q.comes {
		if !left[family(p)] && !overwritten[family(p)] && is[line] == "" && l.copied[line] == "" {
			l.wrong("the line %s of %s does not come, and no conflict is listed: %+v", line, p, r)
		}
	}
	if r.Snapshot == nil {
		return
	}
	l.note(r, before, after)
	l.followHints(r)
	l.backAndForth(before, after)
}

// unhinted returns conflicts without hints, which name other turns once some are taken back.
func unhinted(list []Conflict) []Conflict {
	list = slices.Clone(list)
	for i := range list {
		list[i].Hint = ""
	}
	return list
}

// followHints requires that no turn which a hint of what was done names is refused, but where the
// files hold nothing of all of them together.
func (l *ledger) followHints(r *RestoreResult) {
	for _, c := range r.Conflicts {
		_, turns, ok := strings.Cut(c.Hint, " revert ")
		if !ok || strings.Contains(turns, "--") {
			continue
		}
		_, err := l.m.Revert(l.Context(), &RevertOptions{Turns: strings.Fields(turns), Preview: true})
		if err != nil && !strings.Contains(err.Error(), "the files hold nothing of") {
			l.wrong("the hint %q: %v", c.Hint, err)
		}
	}
}

// note notes what a restore did.
func (l *ledger) note(r *RestoreResult, before, after files) {
	e := l.effectOf(before, after)
	for _, n := range r.TurnsTakenBack {
		l.out[n] = true
	}
	for _, n := range r.TurnsPutBack {
		delete(l.out, n)
	}
	l.effects[r.Snapshot.Seq] = e
	l.noteTaken("restore", e)
	maps.Copy(l.brought, e.came)
}

// came notes what came of the newest step.
func (l *ledger) came(r *RestoreResult, err error) {
	text := fmt.Sprint(err)
	if err == nil {
		text = fmt.Sprintf("restored %q, deleted %q, left %q, took back %d, put back %d", r.Restored, r.Deleted,
			r.Skipped, r.TurnsTakenBack, r.TurnsPutBack)
		for _, c := range r.Conflicts {
			text += fmt.Sprintf(", conflict in %s: %s with %q", c.Path, c.Why, c.BlockedBy)
		}
	}
	l.steps[len(l.steps)-1] += ": " + text
}

// backAndForth requires that undo and redo give every byte back, and leaves one or the other.
func (l *ledger) backAndForth(before, after files) {
	states := []files{before, after, before}
	names := []string{"undo", "redo", "undo"}
	for i := range 2 + l.rng.IntN(2) {
		do := l.m.Undo
		if i == 1 {
			do = l.m.Redo
		}
		was := l.files()
		r, err := do(l.Context(), &UndoOptions{OnDirty: rollback.Merge})
		if d := diffOf(states[i], l.files()); err != nil || !r.IsComplete() || d != "" {
			l.wrong("%s: %+v, %v, and %s is not as it was", names[i], r, err, d)
		}
		l.note(r, was, l.files())
		if i == 2 {
			l.step("undo")
		}
	}
}

// diffOf names the files that differ.
func diffOf(a, b files) string {
	var list []string
	for p := range a {
		if text, ok := b[p]; !ok || text != a[p] {
			list = append(list, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// request returns a request of which no line may come or go yet.
func (l *ledger) request(name string) *ledgerRequest {
	return &ledgerRequest{name: name, how: ledgerHow[l.rng.IntN(len(ledgerHow))], must: make(lineOf),
		may: ledgerEffect{came: make(lineOf), went: make(lineOf)}}
}

// mayGo lets lines go that a turn has moved. They need not come where they were: another turn,
// or whoever edited that file once it was back there, has deleted it.
func (l *ledger) mayGo(q *ledgerRequest, e ledgerEffect) {
	for line := range e.moved {
		isGone := func(other ledgerEffect) bool { return other.went[line] != "" }
		if slices.ContainsFunc(l.turns, isGone) || l.brought[line] != "" {
			q.may.went[line] = ""
		}
	}
}

// revertAtRandom takes one turn or two back.
func (l *ledger) revertAtRandom() {
	opts := RevertOptions{Turns: []string{fmt.Sprint(l.rng.IntN(len(l.turns)))}}
	if l.rng.IntN(3) == 0 {
		if n := fmt.Sprint(l.rng.IntN(len(l.turns))); n != opts.Turns[0] {
			opts.Turns = append(opts.Turns, n)
		}
	}
	q := l.request(fmt.Sprint("revert ", opts.Turns))
	for _, n := range opts.Turns {
		var turn int
		fmt.Sscan(n, &turn)
		e := l.turns[turn]
		maps.Copy(q.may.went, e.came)
		maps.Copy(q.may.came, e.went)
		maps.Copy(q.may.came, e.moved) // it is as if the turn had deleted the file where it was
		l.mayGo(q, e)
		for line := range e.came {
			q.must[line] = ""
		}
		is, _ := l.linesOf(l.files(), nil)
		for line := range is { // also one that it took away again, if hunks of that were taken back
			if strings.HasPrefix(line, fmt.Sprintf("t%d.", turn)) {
				q.may.went[line] = ""
			}
		}
	}
	q.comes = l.mustCome(opts.Turns)
	q.do = func(how rollback.OnConflict, preview bool) (*RestoreResult, error) {
		o := opts
		o.OnConflict, o.Preview = how, preview
		return l.m.Revert(l.Context(), &o)
	}
	l.ask(q)
}

// mustCome returns the lines that nobody but turns which are taken back has taken away, of the
// user or of a turn that is in and stays.
func (l *ledger) mustCome(turns []string) lineOf {
	comes := make(lineOf)
	is := func(who string) bool { return slices.Contains(turns, strings.TrimPrefix(who, "t")) }
	for _, name := range turns {
		var n int
		fmt.Sscan(name, &n)
		for line, p := range l.turns[n].went {
			who, _, _ := strings.Cut(line, ".")
			var author int
			isTurn, _ := fmt.Sscanf(who, "t%d", &author)
			isOthers := !is(who) && (isTurn == 0 || !l.out[author])
			isNot := func(taker string) bool { return !is(taker) }
			isOnly := len(l.takers[line]) > 0 && !slices.ContainsFunc(l.takers[line], isNot)
			if isOthers && isOnly && !l.moved[family(p)] && !l.shared[family(p)] && !l.given[family(p)] {
				comes[line] = p
			}
		}
	}
	return comes
}

// revertHunks takes hunks of a turn back.
func (l *ledger) revertHunks() {
	turn := fmt.Sprint(l.rng.IntN(len(l.turns)))
	list := l.hunks(l.m, &HunkRange{Turns: []string{turn}}).Hunks
	list = slices.DeleteFunc(list, func(h Hunk) bool { return h.State == "done" || l.rng.IntN(2) == 0 })
	if len(list) > 0 {
		l.ask(l.requestOf([]string{turn}, list))
	}
}

// requestOf returns a request that takes hunks of turns back.
func (l *ledger) requestOf(turns []string, list []Hunk) *ledgerRequest {
	opts := RevertOptions{Turns: turns}
	q := l.request("")
	for _, h := range list {
		opts.Hunks = append(opts.Hunks, h.ID)
		for line := range strings.Lines(h.Text) {
			to := q.may.went
			if line[0] == '-' {
				to = q.may.came
			}
			to[strings.TrimSuffix(line[1:], "\n")] = h.Path
		}
	}
	q.must = q.may.went.but(q.may.came)
	q.name = fmt.Sprintf("revert %s --hunks %q", turns, opts.Hunks)
	q.do = func(how rollback.OnConflict, preview bool) (*RestoreResult, error) {
		o := opts
		o.OnConflict, o.Preview = how, preview
		return l.m.Revert(l.Context(), &o)
	}
	return q
}

// revertLines takes back what wrote some lines of a file: all of these go, but those of which
// it is said that they stay, and those stay.
func (l *ledger) revertLines() {
	now := l.files()
	paths := slices.Sorted(maps.Keys(now))
	if len(paths) == 0 {
		return
	}
	p := paths[l.rng.IntN(len(paths))]
	lines := strings.Split(strings.TrimSuffix(now[p], "\n"), "\n")
	first := 1 + l.rng.IntN(len(lines))
	asked := &BlameOptions{Path: p, Start: first, End: first + l.rng.IntN(len(lines)-first+1)}
	answer := l.hunks(l.m, &HunkRange{Lines: asked})
	left := make(lineOf)
	for _, r := range answer.Left {
		for _, line := range lines[r.Start-1 : r.End] {
			left[line] = p
		}
	}
	var turns []string
	for _, h := range answer.Hunks {
		if !slices.Contains(turns, h.By) {
			turns = append(turns, h.By)
		}
	}
	if len(turns) == 0 {
		if len(left) == 0 {
			l.wrong("no hunk wrote %+v, and none of them is left", asked)
		}
		return
	}
	q := l.requestOf(turns, answer.Hunks)
	q.name = fmt.Sprintf("revert --lines %s:%d-%d: %s", p, asked.Start, asked.End, q.name)
	for _, line := range lines[asked.Start-1 : asked.End] {
		if left[line] == "" && line != "}" {
			q.must[line] = p
		}
	}
	l.ask(q)
}

// restoreAtRandom goes to a moment.
func (l *ledger) restoreAtRandom() {
	target := "start"
	switch l.rng.IntN(3) {
	case 0:
		target = "@~1"
	case 1:
		target = fmt.Sprint("turn:", l.rng.IntN(len(l.turns)))
	}
	q := l.request("restore " + target)
	q.anew = true
	if target == "start" && q.how != rollback.ConflictMarkers {
		q.never = make(lineOf)
		for _, e := range l.turns {
			maps.Copy(q.never, e.came)
		}
	}
	for _, e := range l.effects { // which a cut had found, or left
		maps.Copy(q.may.came, e.went)
		maps.Copy(q.may.went, e.came)
	}
	for _, e := range l.turns { // of turns that go, and of those that come
		for _, lines := range []lineOf{e.came, e.went} {
			maps.Copy(q.may.came, lines)
			maps.Copy(q.may.went, lines)
		}
		maps.Copy(q.may.came, e.moved)
		l.mayGo(q, e)
		if target == "start" {
			for line := range e.came {
				q.must[line] = ""
			}
		}
	}
	q.do = func(how rollback.OnConflict, preview bool) (*RestoreResult, error) {
		return l.m.RestoreFiles(l.Context(), &RestoreOptions{Target: target, OnDirty: rollback.Merge, OnConflict: how,
			Preview: preview})
	}
	l.ask(q)
}

// takeBackAtRandom undoes or redoes what comes next, whatever has come since.
func (l *ledger) takeBackAtRandom() {
	do, name := l.m.Undo, "undo"
	if l.rng.IntN(3) == 0 {
		do, name = l.m.Redo, "redo"
	}
	l.step("%s", name)
	before := l.files()
	r, err := do(l.Context(), &UndoOptions{OnDirty: rollback.Merge})
	l.came(r, err)
	if errors.Is(err, ErrNothing) {
		return
	}
	if err != nil {
		l.wrong("%v", err)
	}
	for _, p := range r.Skipped { // what it moved before may be at neither path
		l.given[family(p)] = true
		if !slices.ContainsFunc(r.Conflicts, func(c Conflict) bool { return family(c.Path) == family(p) }) &&
			!l.shared[family(p)] {
			l.wrong("%s is left, and no conflict is listed: %+v", p, r)
		}
	}
	was, is := l.linesOf(before, l.files())
	seq := r.Undoes.SnapshotSeq
	of := l.effects[seq]
	for line, p := range of.moved { // it goes where it is, and comes where it was
		of.came[line], of.went[line] = p, p
	}
	for line, p := range was.but(is) {
		if _, may := of.came[line]; !may {
			l.wrong("the line %s of %s is gone, which restore %d has not brought: %+v", line, p, seq, r)
		}
	}
	for line, p := range is.but(was) {
		// A newer turn that goes may have overwritten it, and its own turn is in conflict.
		isLeft := line[0] == 't' && slices.ContainsFunc(r.Conflicts, func(c Conflict) bool { return c.Path == p })
		if _, may := of.went[line]; !may && !isLeft {
			l.wrong("the line %s of %s has come, which restore %d has not taken: %+v", line, p, seq, r)
		}
	}
	if r.Snapshot != nil {
		l.note(r, before, l.files())
	}
}
