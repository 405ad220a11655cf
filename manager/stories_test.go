package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A storyTeller has the same things done by the rules and by managers, and
// compares what comes of it.
type storyTeller struct {
	*testing.T
	rules *rules
	last  *ruleAnswer
	looks []*ruleMoment
	steps []string // what was done, for people
	ends  bool     // restores end the open turn first

	detached bool // turns are, so that tools may divide them

	real    *bench // nil: the rules only
	engine  *Engine
	tools   bool
	logged  bool // the runtime has a log
	m       map[string]*FileSnapshotManager
	logs    map[string]*session.Tree
	prompts map[string]string   // of session and turn
	entries map[string]string   // of the ends of turns; "": none was given
	hashes  map[string]store.ID // of directories
	quiet   bool                // failures are collected
	ended   bool                // the manager knows less than the rules from here on
	fails   []string
}

// storyText makes a text of one line for each letter, with another line behind it that
// nobody changes, so that changes of two letters are merged.
func storyText(letters string) string {
	if letters == ruleNone {
		return ruleNone
	}
	return ruleText(strings.Split(letters, "")...)
}

// ruleText makes a text of lines that are changed, and one behind each that is not.
func ruleText(lines ...string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "%s\n~%d\n", line, i)
	}
	return b.String()
}

func storyLetters(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "~") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func newStory(t *testing.T, merge, real bool, start ruleFiles) *storyTeller {
	st := &storyTeller{T: t, rules: newRules(merge, start), m: make(map[string]*FileSnapshotManager),
		logs: make(map[string]*session.Tree), prompts: make(map[string]string), entries: make(map[string]string),
		hashes: make(map[string]store.ID)}
	if real {
		st.real = &bench{T: t, dir: t.TempDir(), stores: t.TempDir()}
		t.Cleanup(st.closeAll)
		for p, text := range start {
			st.real.write(p, text)
		}
	}
	return st
}

func (st *storyTeller) fail(format string, args ...any) {
	st.Helper()
	if st.fails = append(st.fails, fmt.Sprintf(format, args...)); !st.quiet {
		st.Errorf("%s\nafter: %s", st.fails[len(st.fails)-1], strings.Join(st.steps, "; "))
	}
}

func (st *storyTeller) step(format string, args ...any) {
	st.steps = append(st.steps, fmt.Sprintf(format, args...))
}

func (st *storyTeller) closeAll() {
	for name, m := range st.m {
		if err := m.Close(); err != nil {
			st.Error(err)
		}
		delete(st.m, name)
	}
}

// open is a process for a session.
func (st *storyTeller) open(name string) {
	opts := &Options{StoreRoot: st.real.stores, Session: name, ToolWindows: st.tools, Engine: st.engine,
		Detached: st.detached}
	m, err := Open(st.Context(), st.real.dir, opts)
	if err != nil {
		st.Fatal(err)
	}
	st.m[name] = m
	if log := st.logs[name]; log != nil {
		if err := m.RebuildIndex(st.Context(), log); err != nil {
			st.Fatal(err)
		}
	}
	r, err := m.Initialize(st.Context())
	if err != nil {
		st.Fatal(err)
	}
	st.hash(r.Tree)
}

// hash remembers what the directory is called now.
func (st *storyTeller) hash(id store.ID) {
	if !id.IsZero() {
		st.hashes[fmt.Sprint(st.rules.disk)] = id
	}
}

func (st *storyTeller) begin(name string) {
	st.step("session %s", name)
	st.rules.begin(name)
	if st.real != nil {
		if st.logged {
			st.logs[name] = session.NewTree()
		}
		st.open(name)
	}
}

// fork begins a session at the end of a turn of another one.
func (st *storyTeller) fork(parent, name string, turn int) {
	st.step("%s is a fork of %s at turn %d", name, parent, turn)
	st.rules.fork(parent, name, st.rules.sessions[parent].moment("end", turn))
	if st.real == nil {
		return
	}
	old := st.logs[parent]
	log := session.NewTree()
	entry := st.entries[fmt.Sprint(parent, turn)]
	path, err := old.Path(entry)
	if err != nil {
		st.Fatal(err)
	}
	for _, e := range path {
		log.Add(*e)
	}
	st.logs[name] = log
	for n := 0; n <= turn; n++ {
		st.entries[fmt.Sprint(name, n)] = st.entries[fmt.Sprint(parent, n)]
		st.prompts[fmt.Sprint(name, n)] = st.prompts[fmt.Sprint(parent, n)]
	}
	st.open(name)
}

// restart ends all processes and begins new ones.
func (st *storyTeller) restart() {
	st.step("restart")
	if st.real == nil {
		return
	}
	names := slices.Sorted(maps.Keys(st.m))
	st.closeAll()
	for _, name := range names {
		st.open(name)
	}
}

// put writes a file, or deletes it, in both.
func (st *storyTeller) put(p, text string) {
	st.step("%s=%q", p, storyLetters(text))
	st.rules.disk.put(p, text)
	if st.real == nil {
		return
	}
	if text == ruleNone {
		st.real.remove(p)
	} else {
		st.real.write(p, text)
	}
}

// line writes one line of a file.
func (st *storyTeller) line(p string, n int, letter string) {
	lines := strings.Split(st.rules.disk.at(p), "\n")
	lines[2*(n-1)] = letter
	st.put(p, strings.Join(lines, "\n"))
}

func (st *storyTeller) turnStart(name string) {
	n := st.rules.turnStart(name, st.tools)
	st.step("%s: turn %d {", name, n)
	if st.real == nil {
		return
	}
	st.useLog(name)
	if st.logged {
		st.prompts[fmt.Sprint(name, n)] = st.real.message("user")
	}
	r, err := st.m[name].OnTurnStart(st.Context(), nil)
	if err != nil {
		st.Fatal(err)
	}
	st.hash(r.Tree)
	if st.logged {
		st.real.message("assistant")
	}
}

func (st *storyTeller) useLog(name string) { st.real.log = st.logs[name] }

func (st *storyTeller) turnEnd(name string) {
	n := st.rules.sessions[name].turn
	st.rules.turnEnd(name)
	st.step("}")
	if st.real == nil {
		return
	}
	st.useLog(name)
	var appendFn AppendFunc
	if st.logged {
		appendFn = func(_ context.Context, data *StepSnapshotData) (string, error) { return st.real.append(data), nil }
	}
	r, err := st.m[name].OnTurnEnd(st.Context(), appendFn)
	if err != nil {
		st.Fatal(err)
	}
	st.hash(r.Tree)
	st.entries[fmt.Sprint(name, n)] = r.EntryID
	if st.logged && r.EntryID == "" {
		st.entries[fmt.Sprint(name, n)] = st.logs[name].Leaf()
	}
	if want := st.rules.sessions[name].numbers[n]; r.Data != nil && r.Data.TurnIndex != want {
		st.fail("turn %d of %s has the number %d", want, name, r.Data.TurnIndex)
	}
}

// divide has a tool of the open turn ask for something, between two parts of the turn.
func (st *storyTeller) divide(name string, do func()) {
	st.step("asked by it:")
	if st.real != nil {
		st.m[name].opts.InTurn = true
		defer func() { st.m[name].opts.InTurn = false }()
	}
	st.rules.divide(name, do)
}

// snapshot is one that a tool asks for.
func (st *storyTeller) snapshot(name string) {
	st.step("%s: snapshot", name)
	if st.real == nil {
		return
	}
	r, err := st.m[name].Snapshot(st.Context(), nil)
	if err != nil {
		st.Fatal(err)
	}
	st.hash(r.Tree)
}

// endingTurn has the open turn end by what is asked for then, if that is something.
func (st *storyTeller) endingTurn(name string, do func()) {
	st.rules.turnEnd(name)
	st.step("} by:")
	st.ends = true
	do()
	if st.ends && st.real != nil {
		st.real.end(st.m[name])
	}
	st.ends = false
}

func (st *storyTeller) turn(name string, fn func()) {
	st.turnStart(name)
	fn()
	st.turnEnd(name)
}

// tool is a window of a turn.
func (st *storyTeller) tool(name string, fn func()) {
	st.step("tool [")
	st.looks = append(st.looks, st.rules.toolStart(name))
	id := fmt.Sprint(len(st.looks))
	if st.real != nil {
		r, err := st.m[name].OnToolStart(st.Context(), id)
		if err != nil {
			st.Fatal(err)
		}
		st.looked(r)
	}
	fn()
	st.looks = append(st.looks, st.rules.toolEnd(name))
	st.step("]")
	if st.real != nil {
		r, err := st.m[name].OnToolEnd(st.Context(), id)
		if err != nil {
			st.Fatal(err)
		}
		st.looked(r)
	}
}

// looked takes note of what came of the newest look within a turn.
func (st *storyTeller) looked(r *Result) {
	st.hash(r.Tree)
	st.looks[len(st.looks)-1].idle = r.Snapshot == nil // another session may have been there
}

// restore restores to start, turn:N, @~N, prompt:N (of the turn), look:N (from
// 0 on, by its tree), or tree:TEXT, as a ruleRequest's other fields say.
func (st *storyTeller) restore(name, target string, change ...func(*ruleRequest)) *ruleAnswer {
	q := ruleRequest{verb: "restore", session: name}
	for _, fn := range change {
		fn(&q)
	}
	st.step("%s: restore %s %s%s%s", name, target, q.policy, strings.Join(q.paths, " "),
		map[bool]string{true: " exact"}[q.exact])
	s := st.rules.sessions[name]
	kind, arg, _ := strings.Cut(target, ":")
	n, _ := strconv.Atoi(arg)
	real := target
	switch kind {
	case "start":
		q.to = s.start()
	case "turn":
		q.to = s.moment("end", n)
		if q.to != nil {
			real = fmt.Sprint("turn:", s.numbers[n])
		}
	case "entry":
		q.to = s.moment("end", n)
		real = st.entries[fmt.Sprint(name, n)]
	case "prompt":
		q.to = s.moment("begin", n)
		real = st.prompts[fmt.Sprint(name, n)]
	case "look":
		q.hash = st.looks[n].disk
		real = st.hashes[fmt.Sprint(q.hash)].String()
	case "hash":
		q.hash = s.moment("end", n).disk
		real = st.hashes[fmt.Sprint(q.hash)].String()
	default:
		q.back, _ = strconv.Atoi(strings.TrimPrefix(target, "@~"))
	}
	opts := &RestoreOptions{Target: real, Paths: q.paths, Exact: q.exact, OnDirty: map[string]rollback.Policy{
		"skip": rollback.Skip, "overwrite": rollback.Overwrite, "abort": rollback.Abort}[q.policy]}
	if q.policy == "" && !q.exact {
		opts.OnDirty = st.policy()
	}
	return st.both(q, func(preview bool) (*RestoreResult, error) {
		o := *opts
		o.Preview, o.EndTurn = preview, st.ends
		o.OnConflict = rollback.OnConflict(q.conflict)
		if st.logged {
			o.Append = st.real.appendTo
		}
		return st.m[name].RestoreFiles(st.Context(), &o)
	})
}

// revert takes back turns; of one that was divided all parts. paths: only what they did
// there.
func (st *storyTeller) revert(name string, paths []string, turns ...int) *ruleAnswer {
	return st.revertOr(name, "", paths, turns...)
}

// revertOr is revert, with what becomes of what is in conflict.
func (st *storyTeller) revertOr(name, conflict string, paths []string, turns ...int) *ruleAnswer {
	st.step("%s: revert %d %s", name, turns, strings.Join(paths, " "))
	opts := &RevertOptions{OnDirty: st.policy(), Paths: paths}
	s := st.rules.sessions[name]
	var parts []int
	for _, n := range turns {
		opts.Turns = append(opts.Turns, fmt.Sprint("turn:", s.numbers[n]))
		for part, of := range s.numbers {
			if of == s.numbers[n] && s.turns.has(part) {
				parts = append(parts, part)
			}
		}
	}
	q := ruleRequest{verb: "revert", session: name, turns: parts, paths: paths, conflict: conflict}
	opts.OnConflict = rollback.OnConflict(conflict)
	return st.both(q, func(preview bool) (*RestoreResult, error) {
		o := *opts
		if o.Preview, o.EndTurn = preview, st.ends; st.logged {
			o.Append = st.real.appendTo
		}
		return st.m[name].Revert(st.Context(), &o)
	})
}

// policy is what becomes of dirty files if nothing else is said.
func (st *storyTeller) policy() rollback.Policy {
	if st.rules.merge {
		return rollback.Merge
	}
	return rollback.Skip
}

func (st *storyTeller) undo(name string) *ruleAnswer { return st.takeBack("undo", name, false) }
func (st *storyTeller) redo(name string) *ruleAnswer { return st.takeBack("redo", name, false) }

// undoAny takes back the newest restore of the directory.
func (st *storyTeller) undoAny(verb, want string) *ruleAnswer {
	if a, _ := st.rules.preview(ruleRequest{verb: verb}); a.of != want {
		st.fail("by the rules %s is of session %q, want %q", verb, a.of, want)
	}
	st.compareNext(verb)
	return st.takeBack(verb, want, false)
}

// compareNext compares of which session the newest restore of the directory is that
// can be taken back.
func (st *storyTeller) compareNext(verb string) {
	st.Helper()
	for name, m := range st.m { // whoever asks
		a, _ := st.rules.preview(ruleRequest{verb: verb})
		list, err := inside.Of(m).NextBack(st.Context(), verb == "redo")
		of := ""
		if len(list) > 0 {
			of = list[0].Session
		}
		if err != nil || of != a.of {
			st.fail("%s: the next %s is of session %q (%v), want %q", name, verb, of, err, a.of)
		}
	}
}

func (st *storyTeller) takeBack(verb, name string, past bool) *ruleAnswer {
	st.step("%s: %s", name, verb)
	if past {
		st.steps[len(st.steps)-1] += " --past"
	}
	return st.both(ruleRequest{verb: verb, session: name, past: past}, func(preview bool) (*RestoreResult, error) {
		opts := &UndoOptions{OnDirty: st.policy(), Preview: preview, Past: past, EndTurn: st.ends}
		if st.logged {
			opts.Append = st.real.appendTo
		}
		if verb == "undo" {
			return st.m[name].Undo(st.Context(), opts)
		}
		return st.m[name].Redo(st.Context(), opts)
	})
}

// both does what is wanted, and compares.
func (st *storyTeller) both(q ruleRequest, do func(preview bool) (*RestoreResult, error)) *ruleAnswer {
	st.Helper()
	st.last = st.rules.do(q)
	if st.real == nil || st.ended {
		return st.last
	}
	st.useLog(q.session)
	before := st.readReal()
	ahead, aheadErr := do(true)
	if d := ruleDiffer(before, st.readReal()); len(d) > 0 {
		st.fail("a preview of %s changed %q", st.steps[len(st.steps)-1], d)
	}
	r, err := do(false)
	st.ends = false
	st.resolve(r, q.conflict == string(rollback.ConflictMarkers))
	lists := q.policy != "overwrite" && (!q.exact || q.policy != "") && q.verb != "undo" && q.verb != "redo"
	if a, b := storyAnswer(ahead, aheadErr, true), storyAnswer(r, err, true); a != b {
		st.fail("%s: the preview said %s, the deed %s", st.steps[len(st.steps)-1], a, b)
	}
	lists = lists && !st.isMoreDirty(r, st.last)
	want, got := storyRuleAnswer(st.last, lists), storyAnswer(r, err, lists)
	if st.quiet && want != got && leavesMore(r, st.last) {
		st.ended = true
		return st.last
	}
	if want != got && (want != "unknown" && want != "already" || got != "nothing") {
		st.fail("%s: got %s (%v), want %s%s", st.steps[len(st.steps)-1], got, err, want, storyReasons(r))
	}
	st.compare()
	st.compareLine(q.session)
	st.compareModified(q.session, err == nil && r.Snapshot != nil)
	if !st.quiet {
		st.compareLog(q.session)
	}
	return st.last
}

// resolve has the user take what was there where there are markers, which only the files that
// a restore lists have, if it wrote them: else it may have brought those of an earlier one back.
func (st *storyTeller) resolve(r *RestoreResult, wrote bool) {
	st.Helper()
	for p, text := range st.readReal() {
		now := text
		for n := 20; n >= 7; n-- { // of a conflict of what was marked first the outer ones
			keep := true
			var b strings.Builder
			for line := range strings.Lines(now) {
				if merging.IsMarker([]byte(line), n) {
					keep = line[0] == '<' || line[0] == '>'
				} else if keep {
					b.WriteString(line)
				}
			}
			now = b.String()
		}
		if now == text {
			continue
		}
		is := func(c Conflict) bool { return c.Path == p }
		if wrote && (r == nil || !slices.ContainsFunc(r.Conflicts, is)) {
			st.fail("%s has markers, and no conflict is listed", p)
		}
		st.real.write(p, now)
	}
}

// leavesMore reports whether a manager leaves alone what the rules do not, only since it
// does not know what is expected there: it looks for that at fewer moments than they do.
func leavesMore(r *RestoreResult, a *ruleAnswer) bool {
	more := false
	for i := 0; r != nil && i < len(r.Items); i++ {
		it := &r.Items[i]
		isStopped := r.Aborted && strings.HasPrefix(it.Why, "something else is dirty")
		if it.Do != rollback.Skipped && it.Do != rollback.Kept || isStopped || a.skipped[it.Path] != "" {
			continue
		}
		if it.Why != whyUntold && it.Why != unknownDoubt && !strings.HasPrefix(it.Why, unknownBefore) {
			return false
		}
		more = true
	}
	return more
}

// compareLine compares which turns are on the line, in whole or in part.
func (st *storyTeller) compareLine(name string) {
	st.Helper()
	m := st.m[name]
	unlock, err := m.lock(st.Context())
	if err != nil {
		st.Fatal(err)
	}
	defer unlock()
	l, err := m.line(st.Context())
	if err != nil {
		st.Fatal(err)
	}
	tip, err := l.tip(st.Context())
	if err != nil {
		st.Fatal(err)
	}
	var got, want []int
	for t := l.Trail(tip, ""); ; {
		r, err := t.Next(st.Context())
		if err != nil {
			st.Fatal(err)
		}
		if r == nil {
			break
		}
		got = append(got, r.Turn())
	}
	slices.Reverse(got)
	s := st.rules.sessions[name]
	for _, n := range s.line {
		want = append(want, s.numbers[n])
	}
	if got, want = slices.Compact(got), slices.Compact(want); !slices.Equal(got, want) {
		st.fail("%s: the line of %s is %v, want %v", st.steps[len(st.steps)-1], name, got, want)
	}
}

// compareModified compares which files the session has changed, those at which changes are in,
// and, if a restore has looked at them just now, whether that comes to something, where nobody
// else has.
func (st *storyTeller) compareModified(name string, isLookedAt bool) {
	st.Helper()
	list, err := st.m[name].ModifiedFiles(st.Context(), &Range{All: true})
	if err != nil {
		st.fail("files that %s has changed: %v", name, err)
		return
	}
	var got, want []string
	s := st.rules.sessions[name]
	for _, f := range list.Files {
		got = append(got, f.Path)
		now := st.rules.disk.at(f.Path)
		same := now == s.first.at(f.Path)
		if isLookedAt && now == s.expects(f.Path, s.in[f.Path]) && same != (f.NetStatus == "none") {
			st.fail("%s: what %s has changed in %s comes to %s, and it is as at the start: %t",
				st.steps[len(st.steps)-1], name, f.Path, f.NetStatus, same)
		}
	}
	for p, in := range s.in {
		if len(in) > 0 {
			want = append(want, p)
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		st.fail("%s: %s has changed %q, want %q", st.steps[len(st.steps)-1], name, got, want)
	}
}

// compareLog compares of which paths of turns the log says that they are taken back,
// or are not.
func (st *storyTeller) compareLog(name string) {
	st.Helper()
	got := make(map[int]string)
	for mo, err := range st.m[name].Timeline(st.Context()) {
		if err != nil {
			st.fail("log of %s: %v", name, err)
			return
		}
		switch n := mo.TurnIndex; {
		case n < 0, mo.Kind == "empty":
		case len(mo.But) > 0:
			got[n] = "all but " + strings.Join(mo.But, " ")
		case mo.TakenBack != nil:
			got[n] = "all"
		case len(mo.Without) > len(mo.InPart): // the rules mark no lines
			got[n] = "in part: " + strings.Join(mo.Without, " ")
		default:
			got[n] = ""
		}
	}
	want := st.rules.sessions[name].marks()
	for n, text := range got {
		if want[n] != text {
			st.fail("log of %s: turn %d is marked %q, want %q", name, n, text, want[n])
		}
	}
}

// storyAnswer is what is compared of an answer of a manager. What is dirty and
// overwritten need not be listed.
func storyAnswer(r *RestoreResult, err error, dirty bool) string {
	switch {
	case errors.Is(err, ErrNothing), errors.Is(err, ErrChangedNothing):
		return "nothing"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrAmbiguous):
		return "ambiguous"
	case err != nil:
		return "error " + err.Error()
	case r.Aborted:
		return "aborted"
	}
	left := append(append(slices.Clone(r.Skipped), r.Kept...), r.Failed...)
	for i := range r.Items {
		if r.Items[i].IsPart() {
			left = append(left, r.Items[i].Path)
		}
	}
	slices.Sort(left)
	if len(r.Restored)+len(r.Deleted)+len(left) == 0 {
		return "nothing"
	}
	return storyLists(r.Restored, r.Deleted, left, r.Dirty, dirty)
}

// isMoreDirty reports whether a manager that merges calls more paths dirty than the
// rules do: what a merge made of clean texts is not known to it to be expected.
func (st *storyTeller) isMoreDirty(r *RestoreResult, a *ruleAnswer) bool {
	return st.rules.merge && r != nil && len(r.Dirty) > len(a.dirty) &&
		!slices.ContainsFunc(a.dirty, func(p string) bool { return !slices.Contains(r.Dirty, p) })
}

// storyReasons says why paths were left alone.
func storyReasons(r *RestoreResult) string {
	var b strings.Builder
	if r != nil {
		for _, it := range r.Items {
			if it.Why != "" {
				fmt.Fprintf(&b, "\n%s: %s", it.Path, it.Why)
			}
		}
	}
	return b.String()
}

func storyLists(restored, deleted, left, dirty []string, withDirty bool) string {
	list := fmt.Sprintf("restored %q deleted %q left alone %q", restored, deleted, left)
	if withDirty {
		list += fmt.Sprintf(" dirty %q", dirty)
	}
	return list
}

func storyRuleAnswer(a *ruleAnswer, dirty bool) string {
	switch a.outcome {
	case "ok", "left":
		if len(a.restored)+len(a.deleted)+len(a.skipped) == 0 {
			return "nothing"
		}
		return storyLists(a.restored, a.deleted, slices.Sorted(maps.Keys(a.skipped)), a.dirty, dirty)
	}
	return a.outcome
}

// readReal returns the files of the directory.
func (st *storyTeller) readReal() ruleFiles {
	got := make(ruleFiles)
	err := filepath.WalkDir(st.real.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(st.real.dir, p)
		got[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		st.Fatal(err)
	}
	return got
}

// compare compares both directories.
func (st *storyTeller) compare() {
	st.Helper()
	if d := cmp.Diff(st.rules.disk, st.readReal()); d != "" {
		st.fail("%s (-want +got):\n%s", st.steps[len(st.steps)-1], d)
	}
}

// want requires that files are so: p, its letters, q, its letters.
func (st *storyTeller) want(files ...string) {
	st.Helper()
	for i := 0; i < len(files); i += 2 {
		if got := storyLetters(st.rules.disk.at(files[i])); got != files[i+1] {
			st.fail("by the rules %s is %s, want %s", files[i], got, files[i+1])
		}
	}
}

// wantLine requires that these turns are not taken back.
func (st *storyTeller) wantLine(name string, turns ...int) {
	st.Helper()
	if got := st.rules.sessions[name].line; !got.is(turns) {
		st.fail("by the rules the line of %s is %v, want %v", name, got, turns)
	}
}

// wantAnswer requires what the last answer was, and of which path.
func (st *storyTeller) wantAnswer(outcome string, skipped ...string) {
	st.Helper()
	if got := slices.Sorted(maps.Keys(st.last.skipped)); st.last.outcome != outcome || !slices.Equal(got, skipped) {
		st.fail("by the rules the answer is %s, skipped %v; want %s, %v", st.last.outcome, st.last.skipped,
			outcome, skipped)
	}
}

func storySkip(q *ruleRequest)  { q.policy = "skip" }
func storyExact(q *ruleRequest) { q.exact = true }

func storyPath(p string) func(*ruleRequest) {
	return func(q *ruleRequest) { q.paths = []string{p} }
}

// A story is told by the rules with both ways to deal with what others have
// changed, and by managers where real is set: with the way that they know.
type story struct {
	name   string
	why    string
	ways   int // to end it; 0 is 1
	real   bool
	merge  bool // it is told so only
	logged bool // it needs the runtime's log
	tools  bool
	parts  bool      // tools may divide turns
	start  ruleFiles // default: p is 0000
	tell   func(st *storyTeller, way int)
}

// A and B are what the first two turns do, u is what the user does.
func (st *storyTeller) a() { st.turn("s", func() { st.line("p", 1, "A") }) }
func (st *storyTeller) b() { st.turn("s", func() { st.line("p", 2, "B") }) }
func (st *storyTeller) u() { st.line("p", 4, "u") }
func (st *storyTeller) q() { st.turn("s", func() { st.put("q", storyText("Q")) }) }

// either returns what is right if dirty files are merged, or if skipped.
func (st *storyTeller) either(merge, skip string) string {
	if st.rules.merge {
		return merge
	}
	return skip
}

var stories = []story{
	{name: "S1", why: "two restores protect what one protects", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.u()
		st.b()
		st.want("p", "AB0u")
		st.restore("s", "@~1")
		st.want("p", "A00u")
		st.restore("s", "start")
		st.want("p", st.either("000u", "A00u"))
		if !st.rules.merge {
			st.wantAnswer("left", "p")
		}
	}},
	{name: "S2", why: "a turn stays when a restore before it is undone", ways: 3, real: true,
		tell: func(st *storyTeller, way int) {
			st.a()
			st.restore("s", "start")
			st.q()
			st.undo("s")
			st.want("p", "A000", "q", "Q")
			st.wantLine("s", 0, 1)
			switch way {
			case 0:
				st.restore("s", "@~1")
				st.want("p", "A000", "q", "-")
			case 1:
				st.restore("s", "start")
				st.want("p", "0000", "q", "-")
			case 2:
				st.restore("s", "turn:1")
				st.want("p", "0000", "q", "Q")
				st.wantLine("s", 1)
			}
		}},
	{name: "S3", why: "an undo gives back what was expected", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.u()
		st.restore("s", "start", storyExact)
		st.want("p", "0000")
		st.undo("s")
		st.want("p", "A00u")
		st.restore("s", "@~1")
		st.want("p", st.either("000u", "A00u"))
		if !st.rules.merge {
			st.wantAnswer("left", "p")
		}
	}},
	{name: "S4", why: "what an undo merged can be taken back", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.restore("s", "start")
		st.b()
		st.undo("s")
		st.want("p", st.either("AB00", "0B00"))
		if !st.rules.merge {
			st.wantAnswer("left", "p")
			st.wantLine("s", 1)
		}
		st.restore("s", "start", storySkip)
		st.want("p", "0000")
		st.wantAnswer("ok")
		if len(st.last.dirty) > 0 {
			st.fail("dirty: %v", st.last.dirty)
		}
	}},
	{name: "S5", why: "an undo that cannot be merged stays on the list", real: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.restore("s", "start")
			st.turn("s", func() { st.line("p", 1, "B") })
			st.undo("s")
			st.want("p", "B000")
			st.wantAnswer("left", "p")
			st.wantLine("s", 1)
			if st.rules.merge {
				st.line("p", 1, "0") // the user helps
				st.undo("s")
				st.want("p", "A000")
				st.wantLine("s", 0, 1)
			}
		}},
	{name: "S6", why: "start is the start behind a revert", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.b()
			st.revert("s", nil, 0)
			st.want("p", "0B00")
			st.wantLine("s", 1)
			st.restore("s", "start")
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "S7", why: "@~N is relative, turn:N is not", ways: 2, real: true, merge: true,
		tell: func(st *storyTeller, way int) {
			st.a()
			st.b()
			st.revert("s", nil, 0)
			st.q()
			if way == 0 {
				st.restore("s", "@~1")
				st.want("p", "0B00", "q", "-")
				st.wantLine("s", 1)
				return
			}
			st.restore("s", "turn:1")
			st.want("p", "AB00", "q", "-")
			if !st.last.in.is(ruleSet{0}) || !st.last.out.is(ruleSet{2}) {
				st.fail("puts %v back and takes %v", st.last.in, st.last.out)
			}
		}},
	{name: "S8", why: "what was taken back is not taken back again", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.revert("s", nil, 0)
			st.a()
			st.revert("s", nil, 0)
			st.wantAnswer("already")
			st.want("p", "A000")
		}},
	{name: "S8a", why: "what a revert brought back of the user's is the user's", real: true,
		tell: func(st *storyTeller, _ int) {
			st.q()
			st.a()
			st.u()
			st.turn("s", func() { st.line("p", 4, "C") })
			st.restore("s", "start", storySkip) // p stays, so it goes its own way from here
			st.turn("s", func() { st.put("r", storyText("R")) })
			st.undo("s")
			st.want("p", "A00C", "q", "Q")
			st.revert("s", []string{"p"}, 0, 2)
			st.want("p", "A00u", "q", "Q")
			st.restore("s", "start")
			st.want("p", st.either("000u", "A00u"))
		}},
	{name: "S9", why: "the user's text goes along both ways", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.u()
		st.restore("s", "start")
		st.want("p", st.either("000u", "A00u"))
		st.restore("s", "turn:0")
		st.want("p", "A00u")
	}},
	{name: "S10", why: "a fork takes back what it has from its parent", real: true, logged: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.q()
			st.fork("s", "f", 0)
			st.restore("f", "start")
			st.want("p", "0000", "q", "Q")
			st.undo("f")
			st.want("p", "A000", "q", "Q")
			st.restore("s", "start")
			st.want("p", "0000", "q", "-")
		}},
	{name: "S11", why: "what the user did before a fork is the user's", real: true, logged: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.u()
			st.fork("s", "f", 0)
			st.restore("f", "start")
			st.want("p", st.either("000u", "A00u"))
		}},
	{name: "S12", why: "what the parent did after a fork is not the fork's", real: true, logged: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.b()
			st.fork("s", "f", 0)
			st.restore("f", "start")
			st.want("p", st.either("0B00", "AB00"))
		}},
	{name: "S13", why: "a turn that was left behind can be gone to, not taken back", ways: 2, real: true,
		tell: func(st *storyTeller, way int) {
			st.a()
			st.b()
			st.restore("s", "turn:0")
			st.q()
			if way == 1 {
				st.revert("s", nil, 1)
				st.wantAnswer("already")
				st.want("p", "A000", "q", "Q")
				return
			}
			st.restore("s", "turn:1")
			st.want("p", "AB00", "q", "-")
			st.wantLine("s", 0, 1)
		}},
	{name: "S14", why: "what is under a deletion stays to be taken back", real: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.turn("s", func() { st.put("p", ruleNone) })
			st.revert("s", nil, 0)
			st.wantAnswer("left", "p")
			if why := st.last.skipped["p"]; why != "changed-then-deleted" {
				st.fail("left alone for %s", why)
			}
			st.want("p", "-")
			st.restore("s", "@~1")
			st.want("p", "A000")
			st.wantLine("s", 0)
			st.revert("s", nil, 0)
			st.want("p", "0000")
		}},
	{name: "S14 made", why: "of a file that the turn had made", real: true, start: ruleFiles{},
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", storyText("A000")) })
			st.turn("s", func() { st.put("p", ruleNone) })
			st.revert("s", nil, 0)
			st.wantAnswer("left", "p")
			if why := st.last.skipped["p"]; why != "hidden by turn 1" {
				st.fail("left alone for %s", why)
			}
			st.restore("s", "@~1")
			st.want("p", "A000")
			st.revert("s", nil, 0)
			st.want("p", "-")
		}},
	{name: "S15", why: "what --exact brought back of the user's is the user's", real: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.u()
			st.q()
			st.b()
			st.restore("s", "turn:1", storyExact)
			st.want("p", "A00u", "q", "Q")
			st.restore("s", "start")
			st.want("p", st.either("000u", "A00u"), "q", "-")
			if !st.rules.merge {
				st.wantAnswer("left", "p")
			}
		}},
	{name: "S16", why: "undo and redo around the user's text", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.restore("s", "start")
		st.u()
		st.undo("s")
		st.want("p", st.either("A00u", "000u"))
		st.redo("s")
		st.want("p", "000u")
	}},
	{name: "S17", why: "a file that was made and changed is kept", real: true, start: ruleFiles{},
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", storyText("A000")) })
			st.u()
			st.restore("s", "start")
			st.want("p", "A00u")
			st.wantAnswer("left", "p")
		}},
	{name: "S17a", why: "a file that a turn deleted comes back with what the user had done before", real: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.u()
			st.turn("s", func() { st.put("p", ruleNone) })
			st.restore("s", "start")
			st.want("p", st.either("000u", "-"))
		}},
	{name: "S17b", why: "also if it comes back in part, and then is to be taken back again", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.line("p", 1, "u")
			st.turn("s", func() { st.put("p", ruleNone) })
			for range 2 {
				st.restore("s", "start")
				st.want("p", "u000")
				st.wantAnswer("left", "p")
			}
		}},
	{name: "S17c", why: "what was taken back in part, and put back, is taken back again", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.line("p", 1, "A"); st.line("p", 2, "B") })
			st.line("p", 1, "u")
			st.restore("s", "start")
			st.want("p", "u000")
			st.q()
			st.undo("s")
			st.want("p", "uB00", "q", "Q")
			st.restore("s", "turn:1")
			st.want("p", "u000", "q", "Q")
		}},
	{name: "S17d", why: "what was taken back of two turns at one line comes again, the older first", real: true,
		merge: true, tell: func(st *storyTeller, _ int) {
			st.a()
			st.turn("s", func() {
				st.line("p", 1, "B")
				st.line("p", 3, "C")
			})
			st.restore("s", "start")
			st.restore("s", "turn:1")
			st.turn("s", func() { st.line("p", 3, "D") })
			st.undo("s") // C has gone below D
			st.want("p", "00D0")
			st.revert("s", nil, 2)
			st.want("p", "00C0")
			st.u()
			st.restore("s", "turn:1")
			st.want("p", "B0Cu")
			st.wantAnswer("ok")
		}},
	{name: "S17e", why: "what was taken back in part, and then deleted, goes as a whole", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() {
				st.line("p", 2, "B")
				st.line("p", 3, "C")
			})
			st.line("p", 2, "u")
			st.restore("s", "start")
			st.want("p", "0u00")
			st.line("p", 2, "B") // so it is what the turn left without that part
			st.turn("s", func() { st.put("p", ruleNone) })
			st.restore("s", "start")
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "S17f", why: "what came back in part twice goes as a whole", real: true, merge: true, ways: 2,
		start: ruleFiles{"p": storyText("1234")}, tell: func(st *storyTeller, way int) {
			st.turn("s", func() { st.put("p", storyText("ABCD")) })
			st.restore("s", "start")
			st.line("p", 2, "u")
			st.undo("s")
			st.want("p", "AuCD")
			st.restore("s", []string{"start", "@~1"}[way])
			st.want("p", "1u34")
			st.turn("s", func() { st.line("p", 3, "E") })
			st.undo("s")
			st.want("p", "AuED")
			st.restore("s", "start")
			st.want("p", "1u34")
			st.wantAnswer("ok")
		}},
	{name: "S18", why: "a file that is named is made, another is not", ways: 2, real: true,
		tell: func(st *storyTeller, way int) {
			st.a()
			st.put("p", ruleNone)
			if way == 0 {
				st.restore("s", "turn:0", storyPath("p"))
				st.want("p", "A000")
				st.wantAnswer("ok")
				return
			}
			st.restore("s", "start")
			st.want("p", "-")
			st.wantAnswer("left", "p")
		}},
	{name: "S19", why: "undo is the directory's", real: true, tell: func(st *storyTeller, _ int) {
		st.begin("t")
		st.a()
		st.restore("s", "start")
		st.turn("t", func() { st.put("q", storyText("Q")) })
		st.restore("t", "start")
		st.want("p", "0000", "q", "-")
		st.undoAny("undo", "t")
		st.undoAny("undo", "s")
		st.want("p", "A000", "q", "Q")
		st.undoAny("redo", "s")
		st.undoAny("redo", "t")
		st.want("p", "0000", "q", "-")
	}},
	{name: "S19a", why: "undo --past goes on behind what stays", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.turn("s", func() { st.put("q", storyText("Q")); st.put("r", storyText("R")) })
		st.restore("s", "@~1")   // q, r
		st.restore("s", "start") // p
		st.put("q", storyText("u"))
		st.line("p", 1, "u")
		st.undo("s")
		st.wantAnswer("left", "p")
		st.takeBack("undo", "s", true) // the older one, of which q stays
		st.want("p", "u000", "q", "u", "r", "R")
		st.wantAnswer("left", "q")
		st.takeBack("undo", "s", true)
		st.wantAnswer("nothing")
		st.put("p", storyText("0000"))
		st.undo("s") // the newer one is still first
		st.want("p", "A000", "q", "u", "r", "R")
		st.put("q", ruleNone)
		st.restart()
		st.undo("s") // then what was left of the older one
		st.want("p", "A000", "q", "Q", "r", "R")
		st.wantLine("s", 0, 1)
		st.undo("s")
		st.wantAnswer("nothing")
		for range 3 {
			st.redo("s")
		}
		st.want("p", "0000", "q", "-", "r", "-")
	}},
	{name: "S19b", why: "undo --past leaves alone what a restore that it passes over is to give back first",
		merge: true, tell: func(st *storyTeller, _ int) {
			st.a()
			st.b()
			st.restore("s", "@~1")
			st.restore("s", "start")
			st.line("p", 1, "u") // where the newer restore took A away
			st.takeBack("undo", "s", true)
			st.wantAnswer("nothing")
			st.want("p", "u000") // not B without A
			st.put("p", storyText("0000"))
			st.undo("s")
			st.want("p", "A000")
			st.undo("s")
			st.want("p", "AB00")
		}},
	{name: "S19c", why: "also where the older one wrote nothing", real: true, tell: func(st *storyTeller, _ int) {
		st.turn("s", func() { st.line("p", 1, "A"); st.put("q", storyText("Q")) })
		st.turn("s", func() { st.put("p", ruleNone) })
		st.restore("s", "start")
		st.put("p", ruleNone)
		st.restore("s", "turn:1") // q comes; p is gone already
		st.restore("s", "@~1", func(q *ruleRequest) { q.policy = "skip" })
		st.want("p", "A000", "q", "Q")
		st.turn("s", func() { st.line("p", 3, "C") })
		st.takeBack("undo", "s", true) // q
		st.want("p", "A0C0", "q", "-")
		st.wantAnswer("left", "p")
		st.restore("s", "start")
		st.want("p", "0000")
	}},
	{name: "S19d", why: "what a change found where nothing was expected is somebody's", real: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("q", storyText("Q")) })
			st.turn("s", func() { st.put("q", ruleNone) })
			st.restore("s", "turn:0")
			st.turn("s", func() { st.line("q", 1, "C") })
			st.put("q", ruleNone)
			st.undo("s") // it is gone already; turn 1 and turn 2 are in
			st.turn("s", func() { st.put("q", storyText("R")) })
			st.restore("s", "start")
			if st.rules.merge { // to where there was none, which the user had made of it before
				st.want("q", ruleNone)
				return
			}
			st.wantAnswer("left", "q")
			st.want("q", "R")
		}},
	{name: "S19e", why: "one change after the other goes where nothing is expected without it", real: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", ruleNone) })
			st.restore("s", "start")
			st.turn("s", func() { st.line("p", 1, "A") })
			st.turn("s", func() { st.put("p", ruleNone) })
			st.undo("s") // turn 0 is in beside both
			st.restore("s", "@~1")
			st.want("p", "A000")
		}},
	{name: "S19f", why: "a change that stays counts if somebody else was there during its turn", real: true,
		merge: true, tools: true, start: ruleFiles{}, tell: func(st *storyTeller, _ int) {
			turn := func(fns ...func()) {
				st.turnStart("s")
				for _, fn := range fns {
					st.tool("s", fn)
				}
				st.turnEnd("s")
			}
			turn(func() { st.put("p", storyText("A000")) })
			st.restore("s", "start")
			st.turnStart("s")
			st.tool("s", func() { st.put("p", storyText("B000")) })
			st.u()
			st.tool("s", func() { st.line("p", 2, "C") })
			st.turnEnd("s")
			turn(func() { st.put("p", ruleNone) })
			st.undo("s")
			st.restore("s", "turn:2", storySkip)
			st.want("p", "A000")
			st.wantAnswer("left", "p")
		}},
	{name: "S19g", why: "undos that come back to where a turn ended", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.u()
			st.restore("s", "start")
			st.line("p", 4, "0")
			st.restore("s", "turn:0")
			st.b()
			st.undo("s")
			st.want("p", "0B00")
			st.undo("s") // its restore had found the user's text
			st.want("p", "AB00")
			st.restore("s", "start", storySkip)
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "S19h", why: "two undos behind a turn that deleted the file again", real: true, merge: true,
		start: ruleFiles{}, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", storyText("A000")) })
			st.restore("s", "start")
			st.restore("s", "turn:0")
			st.restore("s", "start")
			st.turn("s", func() { st.put("p", storyText("B000")) })
			st.turn("s", func() { st.put("p", ruleNone) })
			st.undo("s")
			st.want("p", "A000")
			st.undo("s")
			st.want("p", "-")
			st.wantAnswer("ok")
		}},
	{name: "S19h user", why: "also if what it deleted was the user's: nothing of the turns lies under that",
		real: true, merge: true, start: ruleFiles{}, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", storyText("A000")) })
			st.restore("s", "start")
			st.turn("s", func() { st.put("p", storyText("B000")) })
			st.restore("s", "turn:0")
			st.restore("s", "start")
			st.put("p", storyText("uuuu"))
			st.turn("s", func() { st.put("p", ruleNone) })
			st.undo("s")
			st.want("p", "A000")
			st.undo("s")
			st.want("p", "B000")
			st.wantAnswer("ok")
			st.revert("s", nil, 1)
			st.want("p", "-")
		}},
	{name: "S19i", why: "what a turn did to a file of which nothing is known comes again", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.u()
			st.a()
			st.restore("s", "start", func(q *ruleRequest) { q.policy = "overwrite" })
			st.b()
			st.undo("s")
			st.q()
			st.turn("s", func() { st.line("p", 3, "C") })
			st.want("p", "ABCu")
			st.restore("s", "@~1")
			st.want("p", "AB0u")
			st.restore("s", "turn:3")
			st.want("p", "ABCu")
		}},
	{name: "S19j", why: "a turn leaves the line by PATH, also if the target has it on its line", real: true,
		tell: func(st *storyTeller, _ int) {
			st.q()
			st.a()
			st.restore("s", "start")
			st.turn("s", func() { st.line("p", 1, "X") })
			st.undo("s") // q comes, p stays
			st.want("p", "X000", "q", "Q")
			st.turn("s", func() { st.put("r", storyText("R")) })
			st.wantLine("s", 0, 1, 2, 3)
			st.restore("s", "turn:1")
			st.want("p", "A000", "q", "Q", "r", "-")
			st.restore("s", "turn:3", storyPath("p"))
			st.want("p", "X000")
			st.wantLine("s", 0, 2)
		}},
	{name: "S19k", why: "a turn stays on the line by PATH that is in at the target, which has it not on its line",
		real: true, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.line("p", 1, "X"); st.put("q", storyText("Q")) })
			st.u()
			st.restore("s", "@~1", storySkip)
			st.want("q", "-")
			st.wantAnswer("left", "p")
			st.turn("s", func() { st.put("r", storyText("R")) })
			st.wantLine("s", 1)
			st.undo("s")
			st.want("q", "Q")
			st.wantLine("s", 0, 1)
			st.restore("s", "turn:1", storyPath("q"))
			st.want("q", "-")
			st.wantLine("s", 0, 1)
		}},
	{name: "S20", why: "what an undo put back can be taken back", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.restore("s", "start")
			st.undo("s")
			st.revert("s", nil, 0)
			st.want("p", "0000")
		}},
	{name: "S21", why: "back, forward, undo, undo", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.b()
		st.turn("s", func() { st.line("p", 3, "C") })
		st.restore("s", "turn:0")
		st.want("p", "A000")
		st.wantLine("s", 0)
		st.restore("s", "turn:2")
		st.want("p", "ABC0")
		st.wantLine("s", 0, 1, 2)
		st.undo("s")
		st.want("p", "A000")
		st.wantLine("s", 0)
		st.undo("s")
		st.want("p", "ABC0")
		st.wantLine("s", 0, 1, 2)
	}},
	{name: "S22", why: "redo behind a turn", real: true, tell: func(st *storyTeller, _ int) {
		st.a()
		st.restore("s", "start")
		st.q()
		st.undo("s")
		st.redo("s")
		st.want("p", "0000", "q", "Q")
		st.wantLine("s", 1)
	}},
	{name: "S23", why: "a state within a turn", real: true, tools: true, start: ruleFiles{"a": storyText("0")},
		tell: func(st *storyTeller, _ int) {
			st.turnStart("s")
			st.tool("s", func() { st.put("a", storyText("1")); st.put("new", storyText("n")) })
			st.tool("s", func() { st.put("a", storyText("2")) })
			st.turnEnd("s")
			st.restore("s", "look:1")
			st.want("a", "1", "new", "n")
			st.wantLine("s", 0)
			if got := st.rules.sessions["s"].marks()[0]; got != "in part: a" {
				st.fail("turn 0 is marked %q", got)
			}
			if st.real == nil {
				c := st.rules.clone()
				c.do(ruleRequest{verb: "restore", session: "s", to: c.sessions["s"].moment("end", 0)})
				if c.disk["a"] != storyText("2") {
					st.fail("turn:0 brings a to %q", c.disk["a"])
				}
			}
			st.restore("s", "@~1")
			st.want("a", "0", "new", "-")
			st.wantLine("s")
		}},
	{name: "S23a", why: "what the user did between two windows of a turn stays", real: true, tools: true,
		tell: func(st *storyTeller, _ int) {
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 1, "A") })
			st.u()
			st.tool("s", func() { st.line("p", 2, "B") })
			st.turnEnd("s")
			st.restore("s", "start")
			st.want("p", st.either("000u", "AB0u"))
		}},
	{name: "S23f", why: "what a turn did and took back is no part of what it did", real: true, tools: true, merge: true,
		start: ruleFiles{"p": storyText("1234")}, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.tool("s", func() { st.line("p", 1, "A") }) })
			st.line("p", 1, "u")
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 4, "D") })
			st.tool("s", func() { st.line("p", 4, "4") })
			st.put("new", storyText("v"))
			st.tool("s", func() { st.line("p", 2, "B") })
			st.turnEnd("s")
			st.want("p", "uB34")
			st.restore("s", "start")
			st.want("p", "u234")
			st.wantAnswer("left", "p")
		}},
	{name: "S23b", why: "a turn is on the line as long as a part of it is in somewhere", real: true, tools: true,
		tell: func(st *storyTeller, _ int) {
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 1, "A") })
			st.tool("s", func() { st.line("p", 1, "B"); st.put("q", storyText("Q")) })
			st.turnEnd("s")
			st.restore("s", "look:1")
			st.want("p", "A000", "q", "-")
			st.line("p", 1, "u")
			st.restore("s", "turn:0") // q comes, p stays at the look
			st.want("p", "u000", "q", "Q")
			st.restore("s", "start", storyPath("q"))
			st.wantLine("s", 0)
			st.line("p", 1, "A")
			st.restore("s", "start", storyPath("p"))
			st.want("p", "0000", "q", "-")
			st.wantLine("s")
		}},
	{name: "S23c", why: "also where it is in there as a whole, and on the line in part", real: true, tools: true,
		tell: func(st *storyTeller, _ int) {
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 1, "A"); st.put("q", storyText("Q")) })
			st.tool("s", func() { st.line("p", 1, "B"); st.line("q", 1, "R") })
			st.turnEnd("s")
			st.line("p", 1, "u")
			st.restore("s", "look:1") // q goes back, p stays
			st.want("p", "u000", "q", "Q")
			st.restore("s", "start", storyPath("q"))
			st.wantLine("s", 0)
		}},
	{name: "S23e", why: "a turn that came back by PATH beside a part of it leaves the line as one", real: true,
		tools: true, tell: func(st *storyTeller, _ int) {
			made := func(name string) {
				st.turnStart("s")
				st.tool("s", func() { st.put(name, storyText("N")) })
				st.turnEnd("s")
			}
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 1, "A") })
			st.tool("s", func() { st.put("q", storyText("Q")) })
			st.turnEnd("s")
			st.restore("s", "look:1")
			st.want("p", "A000", "q", "-")
			st.restore("s", "turn:0", storyPath("q"))
			st.want("p", "A000", "q", "Q")
			made("new")
			st.restore("s", "start")
			st.restore("s", "turn:1")
			made("newer")
			st.undo("s")
			st.want("p", "0000", "q", "-", "new", "-", "newer", "N")
			st.wantLine("s", 2)
		}},
	{name: "S23d", why: "what a turn made where the user had deleted something goes, and nothing comes", real: true,
		tools: true, tell: func(st *storyTeller, _ int) {
			st.put("p", ruleNone)
			st.turnStart("s")
			st.tool("s", func() { st.put("p", storyText("A000")) })
			st.tool("s", func() { st.put("p", ruleNone) }) // so the tools have done nothing so far
			st.put("q", storyText("u"))
			st.tool("s", func() { st.put("p", storyText("B000")) })
			st.turnEnd("s")
			st.restore("s", "start")
			st.want("p", "-")
			st.wantAnswer("ok")
		}},
	{name: "S24", why: "hunks first, then the turn", merge: true, tell: func(st *storyTeller, _ int) {
		st.turn("s", func() { st.put("p", storyText("AB00")) })
		st.rules.takeHunk("s", 0, "p", 0)
		st.want("p", "0B00")
		st.revert("s", nil, 0)
		st.want("p", "0000")
		st.wantAnswer("ok")
	}},
	{name: "S25", why: "a prompt is the begin of its turn", real: true, logged: true,
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.b()
			st.q()
			st.navigateOnly("s", 0)
			st.turn("s", func() { st.put("r", storyText("R")) })
			st.restore("s", "prompt:3")
			st.want("p", "AB00", "q", "Q", "r", "-")
			st.wantLine("s", 0, 1, 2)
		}},
	{name: "S26", why: "several restores and as many undos", real: true, tell: func(st *storyTeller, _ int) {
		made := func(p string) { st.turn("s", func() { st.put(p, storyText(p)) }) }
		st.a()
		made("q")
		made("r")
		st.restore("s", "@~1") // r
		made("x")
		st.restore("s", "@~1") // x
		made("y")
		st.restore("s", "turn:0") // q, y
		st.want("p", "A000", "q", "-", "r", "-", "x", "-", "y", "-")
		made("z")
		st.restart()
		st.undo("s")
		st.want("p", "A000", "q", "q", "r", "-", "x", "-", "y", "y", "z", "z")
		st.restart()
		made("v")
		st.undo("s")
		st.want("x", "x", "r", "-", "v", "v")
		st.undo("s")
		st.want("p", "A000", "q", "q", "r", "r", "x", "x", "y", "y", "z", "z", "v", "v")
		st.wantLine("s", 0, 1, 2, 3, 4, 5, 6)
		st.undo("s")
		st.wantAnswer("nothing")
	}},
	{name: "undo beside a turn that did the same", why: "both have deleted it then", real: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", ruleNone) })
			st.restore("s", "start")
			st.turn("s", func() { st.put("p", ruleNone) })
			st.undo("s")
			st.want("p", "-")
			st.wantAnswer("ok")
			st.wantLine("s", 0, 1)
			st.restore("s", "@~1")
			st.want("p", "-")
			st.restore("s", "start")
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "@~1 exactly", why: "it names the end of a turn, not what is left of it", real: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.line("p", 1, "A"); st.put("q", storyText("q")) })
			st.restore("s", "start", storyPath("q"))
			st.want("p", "A000", "q", "-")
			st.turn("s", func() {})
			st.restore("s", "@~1", storyExact)
			st.want("p", "A000", "q", "q")
			st.restore("s", "start")
			st.want("p", "0000", "q", "-")
			st.wantAnswer("ok")
		}},
	{name: "@~1 exactly in part", why: "of a turn that was divided it names the end of the part that is there",
		real: true, parts: true, tell: func(st *storyTeller, _ int) {
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 1, "A") })
			st.tool("s", func() {
				st.line("p", 2, "B")
				st.divide("s", func() { st.restore("s", "start") })
			})
			st.turnEnd("s")
			st.want("p", "0000")
			st.restore("s", "look:1")
			st.want("p", "A000")
			st.turn("s", func() { st.tool("s", func() { st.put("q", storyText("q")) }) })
			st.restore("s", "@~1", storyExact)
			st.want("p", "AB00", "q", "-")
		}},
	{name: "expected behind a cut", why: "what came in part has found what was expected there", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("p", storyText("AB0E")) })
			st.restore("s", "start")
			st.turn("s", func() { st.line("p", 2, "C") })
			st.undo("s")
			st.want("p", "AC0E")
			st.restore("s", "turn:1", storyExact)
			st.want("p", "0C00")
			st.turn("s", func() { st.line("p", 4, "D") })
			st.undo("s")
			st.want("p", "AC0D")
			st.restore("s", "start", func(q *ruleRequest) { q.policy = "abort" })
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "expected before", why: "a set that was there once is known, whatever has come and gone since", real: true,
		merge: true, tell: func(st *storyTeller, _ int) {
			st.a()
			st.restore("s", "start")
			st.b()
			st.undo("s")
			st.want("p", "AB00")
			st.turn("s", func() { st.put("p", ruleNone) })
			st.turn("s", func() { st.put("p", storyText("NNNN")) })
			st.put("p", ruleNone)
			st.revert("s", nil, 2)
			st.want("p", "AB00")
			st.restore("s", "@~1")
			st.want("p", "AB00")
			st.wantAnswer("nothing")
		}},
	{name: "no move", why: "a restore that makes one file and deletes another like it has not moved it", real: true,
		merge: true, ways: 2, tell: func(st *storyTeller, way int) {
			st.begin("t")
			st.turn("t", func() { st.put("q", storyText("0000")) })
			edit := func(p string) { st.turn("s", func() { st.line(p, 1, "A") }) }
			if way == 0 {
				edit("q")
				st.restore("s", "start")
			}
			st.turn("t", func() { st.put("p", ruleNone) })
			st.restore("t", "start")
			st.want("p", "0000", "q", "-")
			if way == 0 { // q is not p by now
				st.undo("s")
				st.want("p", "0000", "q", "-")
				st.wantAnswer("left", "q")
				return
			}
			edit("p")
			st.undo("t") // nor is p to be q
			st.want("p", "A000", "q", "0000")
			st.wantAnswer("left", "p")
		}},
	{name: "lines again", why: "a line of a change comes again behind the older one on which it was done", real: true,
		merge: true, ways: 2, tell: func(st *storyTeller, way int) {
			st.a()
			st.turn("s", func() {
				st.line("p", 1, "B")
				st.line("p", 2, "C")
			})
			st.restore("s", "start")
			st.turn("s", func() { st.line("p", 1, "D") })
			st.undo("s")
			st.want("p", "DC00")
			st.restore("s", "@~1")
			st.want("p", "0C00")
			if way == 1 {
				st.u()
			}
			st.restore("s", "turn:1")
			st.want("p", []string{"BC00", "BC0u"}[way])
			st.wantAnswer("ok")
		}},
	{name: "part of a cut", why: "what was taken back of a window that goes does not come back", real: true,
		merge: true, tools: true, ways: 2, tell: func(st *storyTeller, way int) {
			st.turnStart("s")
			st.tool("s", func() { st.line("p", 4, "A"); st.line("p", 2, "B") })
			st.tool("s", func() { st.line("p", 1, "C") })
			st.turnEnd("s")
			st.u()
			st.restore("s", "start")
			st.want("p", "000u")
			if way == 1 {
				st.q()
			}
			st.restore("s", "look:1")
			st.want("p", "0B0u")
		}},
	{name: "found by the user's hand", why: "what a restore has not looked at is not what is expected there",
		real: true, merge: true, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("q", storyText("AAAA")) })
			st.a()
			st.turn("s", func() { st.put("q", ruleNone) })
			st.restore("s", "start")
			st.put("q", storyText("uuuu"))
			st.undo("s")
			st.turn("s", func() { st.line("q", 1, "B") })
			st.redo("s")
			st.turn("s", func() { st.line("q", 2, "C") })
			st.undo("s")
			st.restore("s", "@~1")
			st.want("q", "Buuu")
			if !slices.Equal(st.last.dirty, []string{"q"}) {
				st.fail("dirty %q, want q", st.last.dirty)
			}
		}},
	{name: "given up twice", why: "what a change was made on, and is out, does not come with theirs", real: true,
		merge: true, ways: 2, tell: func(st *storyTeller, way int) {
			how := func(q *ruleRequest) { q.conflict = "theirs" }
			st.a()
			st.turn("s", func() { st.line("p", 1, "B") })
			st.line("p", 1, "u")
			st.revertOr("s", "theirs", nil, 0)
			st.want("p", "0000")
			st.line("p", 1, "w")
			if way == 0 {
				st.restore("s", "start", how)
			} else {
				st.revertOr("s", "theirs", nil, 1)
			}
			st.want("p", "0000")
		}},
	{name: "given up beside", why: "nor does what has come since, so that nothing of it is given up", real: true,
		merge: true, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.line("p", 1, "A"); st.line("p", 4, "D") })
			st.revert("s", nil, 0)
			st.u()
			st.b()
			st.undo("s") // puts line 1 back
			st.want("p", "AB0u")
			st.wantAnswer("left", "p")
			st.line("p", 2, "v")
			st.restore("s", "start", func(q *ruleRequest) { q.conflict = "theirs" })
			st.want("p", "000u")
		}},
	{name: "given up for good", why: "a line that was given up is not what is expected", real: true, merge: true,
		ways: 2, tell: func(st *storyTeller, way int) {
			st.a()
			st.b()
			st.turn("s", func() { st.line("p", 2, "C") })
			st.revertOr("s", "theirs", nil, 0, 1)
			st.want("p", "0000")
			if way == 1 {
				st.turn("s", func() { st.line("p", 3, "D") })
				st.undo("s")
				st.want("p", "ACD0")
				st.revert("s", nil, 0, 1)
				st.want("p", "0CD0")
			} else {
				st.undo("s")
				st.revert("s", nil, 0, 1)
				st.want("p", "0C00")
			}
			st.wantAnswer("left", "p")
		}},
	{name: "given up behind", why: "what goes does not come again with what was made on it", real: true, merge: true,
		tell: func(st *storyTeller, _ int) {
			how := func(q *ruleRequest) { q.conflict = "theirs" }
			st.turn("s", func() { st.put("q", storyText("QQQQ")) })
			st.turn("s", func() { st.line("q", 4, "R") })
			st.revertOr("s", "theirs", nil, 0)
			st.want("q", "-")
			st.b()
			st.restore("s", "turn:0", how)
			st.want("q", "QQQQ")
			st.restore("s", "turn:2", how)
			st.want("q", "-")
		}},
	{name: "marked", why: "markers leave what keep leaves, for whoever resolves them so", real: true, merge: true,
		ways: 3, tell: func(st *storyTeller, way int) {
			st.turn("s", func() { st.line("p", 1, "A"); st.line("p", 2, "B") })
			st.line("p", 1, "u")
			st.revertOr("s", "markers", nil, 0)
			st.want("p", "u000")
			st.wantAnswer("left", "p")
			switch way {
			case 0:
				st.undo("s")
				st.want("p", "uB00")
			case 1:
				st.restore("s", "start")
				st.want("p", "u000")
				st.wantAnswer("left", "p")
			case 2:
				st.line("p", 1, "A")
				st.revert("s", nil, 0)
				st.want("p", "0000")
			}
		}},
	{name: "already gone", why: "what a turn has taken away of others comes, though the file is as it is to be",
		real: true, merge: true, ways: 4, tell: func(st *storyTeller, way int) {
			st.turn("s", func() { st.put("q", storyText("AAAA")); st.line("p", 1, "A") })
			if way%2 == 0 {
				st.line("q", 2, "u")
				st.line("p", 2, "u")
			} else {
				st.turn("s", func() { st.line("q", 2, "u"); st.line("p", 2, "u") })
			}
			st.turn("s", func() { st.put("q", ruleNone); st.put("p", storyText("0000")) })
			last := len(st.rules.sessions["s"].turns) - 1
			if way < 2 {
				st.revert("s", nil, 0, last)
			} else {
				st.restore("s", "start")
			}
			if way == 3 { // the turn that wrote it goes, too
				st.want("p", "0000", "q", "-")
				return
			}
			st.wantAnswer("left", "q")
			st.want("p", "0u00", "q", "-")
			st.undo("s")
			st.want("p", "0000", "q", "-")
			st.revert("s", nil, last)
			st.want("p", "Au00", "q", "AuAA")
		}},
	{name: "expected unwritten", why: "what is already as it is to be is what is expected there then",
		real: true, merge: true, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.put("q", storyText("AAAA")) })
			st.turn("s", func() { st.line("q", 1, "B") })
			st.turn("s", func() { st.line("p", 1, "C"); st.put("q", ruleNone) })
			st.revert("s", nil, 0, 2)
			st.want("p", "0000", "q", "-")
			st.turn("s", func() { st.put("q", storyText("NNNN")) })
			st.restore("s", "start")
			st.want("q", "-")
			st.wantAnswer("ok")
		}},
	{name: "given up of older ones", why: "nor does what is out and came before what was made on it", real: true,
		merge: true, tell: func(st *storyTeller, _ int) {
			st.line("p", 1, "u")
			st.turn("s", func() { st.line("p", 1, "A") })
			st.turn("s", func() { st.line("p", 1, "B") })
			st.revertOr("s", "theirs", nil, 0)
			st.want("p", "u000")
			st.line("p", 1, "v")
			st.turn("s", func() { st.line("p", 1, "C") })
			st.revertOr("s", "theirs", nil, 1)
			st.want("p", "u000")
			st.revertOr("s", "theirs", nil, 2)
			st.want("p", "v000")
		}},
	{name: "rest of a cut", why: "what comes of a turn of which a part stays comes without what was cut of all of it",
		real: true, merge: true, parts: true, tell: func(st *storyTeller, _ int) {
			st.turn("s", func() {
				st.tool("s", func() { st.put("p", ruleNone) })
				st.tool("s", func() { st.put("p", storyText("AAAA")) })
			})
			st.revert("s", nil, 0)
			st.line("p", 4, "u")
			st.undo("s")
			st.want("p", "AAAu")
			st.turn("s", func() { st.tool("s", func() { st.put("q", storyText("B")) }) })
			st.put("p", ruleNone)
			st.restore("s", "look:1")
			st.turn("s", func() {
				st.tool("s", func() { st.divide("s", func() { st.undo("s") }) })
				st.tool("s", func() { st.put("p", storyText("CCCC")) })
			})
			st.redo("s")
			st.want("p", "CCCC", "q", "-")
			st.restore("s", "hash:1", func(q *ruleRequest) { q.conflict = "theirs" })
			st.want("p", "AAA0", "q", "B")
			st.restore("s", "start")
			st.want("p", "0000", "q", "-")
		}},
	{name: "found where it came", why: "what came in part on what others had made does not bring what it was made on",
		real: true, merge: true, tell: func(st *storyTeller, _ int) {
			st.begin("t")
			st.turn("s", func() { st.line("p", 4, "S") })
			st.turn("t", func() { st.line("p", 2, "A"); st.line("p", 4, "B") })
			st.restore("t", "@~1")
			st.restore("s", "start")
			st.undo("t")
			st.want("p", "0A00")
			st.wantAnswer("left", "p")
			st.restore("t", "start")
			st.want("p", "0000")
		}},
	{name: "expected behind the user", real: true,
		why: "what a restore has written it has looked at, whatever came then",
		tell: func(st *storyTeller, _ int) {
			st.a()
			st.restore("s", "start")
			st.line("p", 1, "u")
			st.turn("s", func() { st.line("p", 1, "A") })
			st.undo("s")
			st.want("p", "A000")
			st.wantAnswer("ok")
			st.restore("s", "start", func(q *ruleRequest) { q.exact, q.policy = true, "abort" })
			st.want("p", "0000")
			st.wantAnswer("ok")
		}},
	{name: "expected where nothing was written", real: true,
		why: "a restore has looked at each path that it moves, also where it writes nothing",
		tell: func(st *storyTeller, _ int) {
			st.turn("s", func() { st.line("p", 1, "A"); st.put("q", storyText("Q")) })
			st.turn("s", func() { st.line("p", 1, "0") })
			st.restore("s", "start")
			st.want("p", "0000", "q", "-")
			st.line("p", 1, "u")
			st.turn("s", func() { st.line("p", 1, "B") })
			st.undo("s")
			st.want("p", "B000", "q", "Q")
			st.wantAnswer("ok")
			st.restore("s", "start", func(q *ruleRequest) { q.exact, q.policy = true, "abort" })
			st.want("p", "0000", "q", "-")
			st.wantAnswer("ok")
		}},
	{name: "cut before it went", why: "what was cut of a turn that went since does not go again when that comes",
		real: true, merge: true, ways: 2, tell: func(st *storyTeller, way int) {
			st.turn("s", func() { st.line("p", 3, "A") })
			st.line("p", 3, "u")
			st.turn("s", func() { st.line("p", 4, "B"); st.put("q", storyText("Q")) })
			st.restore("s", "start")
			st.want("p", "00u0", "q", "-")
			st.wantAnswer("left", "p")
			st.put("p", ruleNone)
			st.restore("s", "turn:1")
			st.want("p", "-", "q", "Q")
			st.put("p", storyText("00u0"))
			st.revert("s", nil, 1)
			st.want("p", "00u0", "q", "-")
			if way == 0 {
				st.turn("s", func() { st.line("p", 1, "C") })
				st.line("p", 1, "v")
				st.restore("s", "turn:1")
				st.want("p", "v0uB", "q", "Q")
				st.wantAnswer("left", "p")
				st.revert("s", nil, 1)
				st.want("p", "v0u0", "q", "-")
			} else {
				st.turn("s", func() { st.line("p", 1, "C") })
				st.undo("s")
				st.want("p", "C0u0", "q", "Q")
			}
			st.restore("s", "start")
			st.want("q", "-")
		}},
	{name: "given up with the file", why: "a file comes as the moment had it, and as others had it by undo", real: true,
		merge: true, ways: 2, tell: func(st *storyTeller, way int) {
			st.turn("s", func() { st.put("q", storyText("QQQQ")) })
			st.line("q", 4, "u")
			st.turn("s", func() { st.line("q", 1, "B"); st.line("p", 1, "B") })
			st.line("q", 4, "v")
			st.revertOr("s", "theirs", nil, 0)
			st.want("q", "-")
			if way == 0 {
				st.revert("s", nil, 1)
				st.want("p", "0000", "q", "-")
				st.restore("s", "turn:1")
				st.want("p", "B000", "q", "BQQu")
			} else {
				st.undo("s")
				st.want("q", "BQQv")
			}
		}},
}

// The log says of a turn of which a restore of some paths took only these that it is
// there in part, and of one that was taken back what stayed.
func TestStoryLog(t *testing.T) {
	st := newStory(t, false, true, ruleFiles{"p": storyText("0000")})
	st.begin("s")
	marked := func(turn int, want string) {
		t.Helper()
		if got := st.rules.sessions["s"].marks()[turn]; got != want {
			t.Errorf("turn %d is marked %q, want %q", turn, got, want)
		}
	}
	st.turn("s", func() { st.line("p", 1, "A"); st.put("q", storyText("Q")); st.put("r", storyText("R")) })
	st.b()
	st.restore("s", "start", storyPath("q"))
	marked(0, "in part: q")
	marked(1, "")
	st.restore("s", "start", storyPath("p"))
	marked(0, "in part: p q")
	marked(1, "all")
	st.undo("s")
	marked(0, "in part: q")
	st.put("r", storyText("mine"))
	st.restore("s", "start")
	st.wantAnswer("left", "r")
	marked(0, "all but r")
	st.put("r", storyText("R"))
	st.restore("s", "start")
	marked(0, "all")
	st.undo("s")
	marked(0, "all but r")
	st.turn("s", func() { st.put("q", storyText("new")) })
	st.restart()
	st.undo("s")
	marked(0, "in part: q")
	st.restore("s", "turn:0")
	marked(0, "")
}

// navigateOnly moves the conversation to the end of a turn, and no file.
func (st *storyTeller) navigateOnly(name string, turn int) {
	st.step("%s: navigate to turn %d without files", name, turn)
	if st.real == nil {
		return
	}
	st.useLog(name)
	opts := &NavigateOptions{SkipFiles: true, Append: st.real.appendTo}
	if _, err := st.m[name].NavigateTree(st.Context(), st.entries[fmt.Sprint(name, turn)], opts); err != nil {
		st.Fatal(err)
	}
	st.compare()
}

// TestStories tells what restores, undos, reverts and forks mean by example.
// The lines of p are 0000 at first; A, B and so on are turns', u is the user's.
func TestStories(t *testing.T) {
	testseed.Sequential(t)
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			start := s.start
			if start == nil {
				start = ruleFiles{"p": storyText("0000")}
			}
			for way := range max(s.ways, 1) {
				for _, merge := range []bool{true, false} {
					if merge || !s.merge {
						st := newStory(t, merge, false, start)
						st.tools, st.detached = s.tools || s.parts, s.parts
						st.begin("s")
						s.tell(st, way)
					}
				}
				for _, merge := range []bool{true, false} {
					if !s.real || s.merge && !merge {
						continue
					}
					t.Run(fmt.Sprintf("real %d merge=%t", way, merge), func(t *testing.T) {
						st := newStory(t, merge, true, start)
						st.tools, st.logged, st.detached = s.tools || s.parts, s.logged, s.parts
						st.begin("s")
						s.tell(st, way)
					})
				}
			}
		})
	}
}
