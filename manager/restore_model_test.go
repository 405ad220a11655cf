package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// A rmStep is a turn that changed something, as full copies tell.
type rmStep struct {
	changes map[string]rmChange
	after   files
	stands  rmStanding // when it had ended
	under   rmStanding // before it
	entry   string
}

// rmUnknown is expected where nothing says what was.
const rmUnknown = "unknown"

type rmChange struct {
	old, new string // "": absent
	mixed    bool
}

// A rmPath is where a path stands: the turns whose changes are in there, oldest
// first, and what is expected to be there.
type rmPath struct {
	in       []*rmStep
	expected string
}

// A rmStanding is where all paths stand.
type rmStanding map[string]rmPath

// A rmRestore is a restore that was recorded.
type rmRestore struct {
	changes       map[string][2]string // from, to
	before, after rmStanding
	found, left   files           // what was there before it, and after it
	rest          map[string]bool // what an undo has left alone of it; nil: none was tried
	again         bool            // it is an undo, or a redo
}

// A restoreModel runs random restores against a manager and plain rules over
// full copies of the directory.
type restoreModel struct {
	*bench
	rng      *rand.Rand
	disk     vfs.FS // of the store
	m        *FileSnapshotManager
	byTools  bool
	start    files
	at       rmStanding
	begin    rmStanding        // when the session began
	expected map[string]string // by the path and what is in there
	steps    []*rmStep
	restores []*rmRestore
	undo     []*rmRestore
	redo     []*rmRestore
	crashes  int

	dirty []string // of the restore that was tried
}

// TestRestoreModel restores at random: what turns did, named files, exactly,
// undo and redo, on branches, with the user's edits in between, and with
// crashes at random operations.
func TestRestoreModel(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	first := testseed.Of(t)
	for i := range uint64(*modelRuns) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) { restoreAtRandom(t, first+i) })
	}
}

// TestRestoreModelOnceWrong restores at random as some seeds say of which the manager and the model
// said different things once.
func TestRestoreModelOnceWrong(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, seed := range []uint64{1085, 100742, 101368, 101417, 200266} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { restoreAtRandom(t, seed) })
	}
}

// restoreAtRandom has a history of restores happen.
func restoreAtRandom(t *testing.T, seed uint64) {
	rm := &restoreModel{bench: &bench{T: t, dir: t.TempDir()}, rng: rand.New(rand.NewPCG(seed, 1)),
		disk: vfstest.NewMem()}
	rm.run()
}

func (rm *restoreModel) run() {
	rm.byTools = rm.rng.IntN(3) == 0
	rm.edit()
	rm.reopen(nil)
	rm.start = rm.look()
	rm.begin = make(rmStanding)
	rm.expected = make(map[string]string)
	for _, p := range rmNames {
		rm.begin[p] = rm.stand(p, nil, rm.start[p])
	}
	rm.at = rm.begin
	rm.initialize(rm.m)
	for range *modelSteps {
		switch n := rm.rng.IntN(15); {
		case n < 3:
			rm.edit()
		case n < 7:
			rm.turn()
		case n < 8:
			rm.reopen(nil)
			rm.initialize(rm.m)
		case n < 11:
			rm.restoreRandom()
		case n == 13:
			rm.navigate()
		case n < 13:
			rm.takeBack(true)
		default:
			rm.takeBack(false)
		}
		if rm.Failed() {
			rm.FailNow()
		}
	}
	rm.recoverable()
	rm.check(rm.m.store)
	if err := rm.m.Close(); err != nil {
		rm.Error(err)
	}
}

// reopen is a new process, whose operations may fail.
func (rm *restoreModel) reopen(fault *vfstest.Fault) {
	if rm.m != nil {
		rm.m.Close()
	}
	disk := rm.disk
	if fault != nil {
		disk = vfstest.WithFault(disk, fault)
	}
	m, err := openOn(rm.T, rm.dir, disk)
	if err != nil {
		rm.Fatal(err)
	}
	m.opts.ToolWindows = rm.byTools
	if fault != nil {
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			if err != nil {
				return nil, err
			}
			return vfstest.WithFaultDir(d, fault), nil
		}
	}
	rm.m = m
}

// look returns what the files are now.
func (rm *restoreModel) look() files {
	got := make(files)
	for p, n := range readWorld(rm.T, rm.dir) {
		if !n.mode.IsDir() {
			got[p] = fmt.Sprintf("%v %s", n.mode, n.content)
		}
	}
	return got
}

var rmNames = []string{"a", "b", "c", "dir/a", "dir/b", "dir/sub/x", anyName("other/y\xff")}

// edit changes files at random. Contents are of one name: what a turn deletes and makes elsewhere with
// the same content was moved, of which TestRulesHold knows the rules, and this does not.
func (rm *restoreModel) edit() {
	for range 1 + rm.rng.IntN(3) {
		name := rmNames[rm.rng.IntN(len(rmNames))]
		p := filepath.Join(rm.dir, name)
		var err error
		switch rm.rng.IntN(7) {
		case 0, 1:
			if err = os.Remove(p); err == nil && strings.Contains(name, "/") && rm.rng.IntN(2) == 0 {
				os.Remove(filepath.Dir(p)) // if it is empty
			}
		case 2:
			os.Remove(p)
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.Symlink(fmt.Sprint(name, rm.rng.IntN(2)), p))
		case 3:
			if st, serr := os.Lstat(p); serr == nil && st.Mode().IsRegular() {
				err = os.Chmod(p, []fs.FileMode{0o644, 0o755}[rm.rng.IntN(2)])
			}
		default:
			os.Remove(p)
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755),
				os.WriteFile(p, []byte(fmt.Sprint(name, rm.rng.IntN(4))), 0o644))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			rm.Fatal(err)
		}
	}
}

// turn is a turn of the session. With tools, what is edited between them is
// the user's.
func (rm *restoreModel) turn() {
	bench := rm.bench
	bench.start(rm.m)
	type piece struct {
		from, to   files
		begin, end world // with directories
	}
	var pieces []piece
	if !rm.byTools {
		before, begin := rm.look(), readWorld(rm.T, rm.dir)
		rm.edit()
		pieces = append(pieces, piece{before, rm.look(), begin, readWorld(rm.T, rm.dir)})
	} else {
		for i := range rm.rng.IntN(4) {
			if rm.rng.IntN(2) == 0 {
				rm.edit()
			}
			before, begin := rm.look(), readWorld(rm.T, rm.dir)
			if _, err := rm.m.OnToolStart(rm.Context(), fmt.Sprint(i)); err != nil {
				rm.Fatal(err)
			}
			rm.edit()
			if _, err := rm.m.OnToolEnd(rm.Context(), fmt.Sprint(i)); err != nil {
				rm.Fatal(err)
			}
			pc := piece{before, rm.look(), begin, readWorld(rm.T, rm.dir)}
			if n := len(pieces); n > 0 && maps.Equal(pieces[n-1].end, begin) { // nobody was there in between
				pc.from, pc.begin = pieces[n-1].from, pieces[n-1].begin
				pieces = pieces[:n-1]
			}
			pieces = append(pieces, pc)
		}
		pieces = slices.DeleteFunc(pieces, func(pc piece) bool { return maps.Equal(pc.begin, pc.end) })
		if rm.rng.IntN(2) == 0 {
			rm.edit()
		}
	}
	changes := make(map[string]rmChange)
	for _, pc := range pieces {
		for _, p := range rmNames {
			from, to := pc.from[p], pc.to[p]
			if from == to {
				continue
			}
			c, ok := changes[p]
			if !ok {
				c.old = from
			}
			c.mixed = c.mixed || ok && c.new != from
			c.new = to
			changes[p] = c
		}
	}
	maps.DeleteFunc(changes, func(_ string, c rmChange) bool { return c.old == c.new && !c.mixed })
	now := rm.look()
	r := rm.end(rm.m)
	if len(changes) == 0 {
		// A directory may have come or gone.
		if r.Data == nil {
			return
		}
	}
	if r.Data == nil {
		rm.Fatalf("a turn with the changes %v left no step", changes)
	}
	s := &rmStep{changes: changes, after: now, under: rm.at, stands: maps.Clone(rm.at), entry: r.EntryID}
	rm.steps = append(rm.steps, s)
	for p, c := range changes {
		s.stands[p] = rm.stand(p, append(slices.Clone(rm.at[p].in), s), c.new)
	}
	rm.at = s.stands
	rm.Logf("turn %s: %+v", s.entry, changes)
}

// stand returns where a path stands if some turns are in, and notes what is
// expected there if that is known now and was not before.
func (rm *restoreModel) stand(p string, in []*rmStep, now string) rmPath {
	key := p
	for _, s := range in {
		key += fmt.Sprint(" ", slices.Index(rm.steps, s))
	}
	was, ok := rm.expected[key]
	switch {
	case !ok && now != rmUnknown:
		rm.expected[key] = now
	case !ok:
		return rmPath{in, rmUnknown}
	default:
		now = was
	}
	return rmPath{in, now}
}

// A rmWant is what a path is to become.
type rmWant struct {
	new, old string
	doubt    bool // dirty whatever is there, unless it is as wanted
	hidden   bool // it stays, also if it is as wanted
	kept     bool // it stays, whatever the policy
}

// wants tells what a restore of what turns did is about: the paths at which other
// changes are in at the target than now.
func (rm *restoreModel) wants(target rmStanding) map[string]rmWant {
	wants := make(map[string]rmWant)
	for _, p := range rmNames {
		from, to := rm.at[p], target[p]
		if slices.Equal(from.in, to.in) {
			continue
		}
		goes, comes := lacks(from, to), lacks(to, from)
		w := rmWant{new: to.expected, old: from.expected, doubt: from.expected == rmUnknown,
			kept: to.expected == rmUnknown}
		back := len(goes) > 0 && len(comes) == 0 && slices.Equal(goes[0].under[p].in, to.in)
		if back { // with what the first of them found
			w.new, w.kept = goes[0].changes[p].old, false
		}
		if w.kept && w.old != rmUnknown { // one after the other, if it left, or found, all that is there
			w.new, w.kept = w.old, false
			step := func(from, to string) {
				if w.new == from {
					w.new = to
				} else if w.new != to {
					w.kept = true
				}
			}
			for _, s := range slices.Backward(goes) {
				step(s.changes[p].new, s.changes[p].old)
			}
			for _, s := range comes {
				step(s.changes[p].old, s.changes[p].new)
			}
		}
		for _, s := range from.in {
			if len(goes) == 0 || slices.Index(rm.steps, s) < slices.Index(rm.steps, goes[0]) || back && s == goes[0] {
				continue
			}
			w.doubt = w.doubt || s.under[p].expected != s.changes[p].old
		}
		for _, s := range goes {
			w.doubt = w.doubt || s.changes[p].mixed
		}
		wants[p] = w
	}
	return wants
}

// restoreRandom restores to a random moment, in a random way.
func (rm *restoreModel) restoreRandom() {
	opts := &RestoreOptions{Target: "start", OnDirty: []rollback.Policy{"", rollback.Skip,
		rollback.Overwrite, rollback.Abort}[rm.rng.IntN(4)]}
	world, target := rm.start, rm.begin
	if n := rm.rng.IntN(len(rm.steps) + 1); n < len(rm.steps) {
		opts.Target, world, target = rm.steps[n].entry, rm.steps[n].after, rm.steps[n].stands
	}
	now := rm.look()
	var wants map[string]rmWant
	policy := opts.OnDirty
	about := rmNames
	switch rm.rng.IntN(4) {
	case 0: // named
		p := rmNames[rm.rng.IntN(len(rmNames))]
		opts.Paths = []string{p}
		if world[p] == "" && now[p] == "" {
			return
		}
		w := rmWant{new: world[p], old: rm.at[p].expected}
		if now[p] == "" { // it is made, since it is named
			w.old = ""
		}
		wants, about = map[string]rmWant{p: w}, []string{p}
	case 1:
		opts.Exact = true
		wants = make(map[string]rmWant)
		for _, p := range rmNames {
			if world[p] != now[p] {
				w := rmWant{new: world[p], old: now[p]}
				if policy == rollback.Skip || policy == rollback.Abort {
					w.old = rm.at[p].expected
				}
				wants[p] = w
			}
		}
		if policy == "" {
			policy = rollback.Overwrite
		}
	default:
		wants = rm.wants(target)
	}
	rm.try(fmt.Sprintf("restore %+v", *opts), wants, policy, now, func() (*RestoreResult, error) {
		return rm.m.RestoreFiles(rm.Context(), opts)
	}, func(changes map[string][2]string, changed bool) {
		if changed {
			rm.done(changes, target, about)
		}
	})
}

// navigate moves the conversation to a random step, with the files or without.
func (rm *restoreModel) navigate() {
	target, entry := rm.begin, "start"
	if n := rm.rng.IntN(len(rm.steps) + 1); n < len(rm.steps) {
		target, entry = rm.steps[n].stands, rm.steps[n].entry
	}
	if rm.rng.IntN(2) == 0 {
		now := rm.look()
		if _, err := rm.m.NavigateTree(rm.Context(), entry, &NavigateOptions{SkipFiles: true}); err != nil {
			rm.Fatal(err)
		}
		if d := cmp.Diff(now, rm.look()); d != "" {
			rm.Errorf("navigate without files (-before +after):\n%s", d)
		}
		return
	}
	wants := rm.wants(target)
	rm.try("navigate to "+entry, wants, rollback.Skip, rm.look(), func() (*RestoreResult, error) {
		r, err := rm.m.NavigateTree(rm.Context(), entry, nil)
		if r == nil {
			return nil, err
		}
		return r.Restore, err
	}, func(changes map[string][2]string, changed bool) {
		about := rmNames
		// nothing was to be done: it is as it was
		if last := (&RestoreResult{}).recordOr(rm); last != nil && last.Facts.Pos != 0 {
			about = nil
		}
		rm.done(changes, target, about)
	})
}

// done takes note of a restore that was recorded: the paths that it is about stand
// where they stood at the target, but for those that it left alone.
func (rm *restoreModel) done(changes map[string][2]string, target rmStanding, about []string) {
	rm.undo, rm.redo = append(rm.undo, rm.record(changes, target, about)), nil
}

// record remembers a restore.
func (rm *restoreModel) record(changes map[string][2]string, target rmStanding, about []string) *rmRestore {
	r := &rmRestore{changes: changes, before: rm.at, after: maps.Clone(rm.at), left: rm.look()}
	r.found = maps.Clone(r.left)
	for p, c := range changes {
		r.found[p] = c[0]
	}
	for _, p := range about {
		if !slices.Contains(rm.dirty, p) {
			r.after[p] = target[p]
		}
	}
	rm.restores, rm.at = append(rm.restores, r), r.after
	return r
}

// lacks returns what is in at a and not at b.
func lacks(a, b rmPath) []*rmStep {
	return slices.DeleteFunc(slices.Clone(a.in), func(s *rmStep) bool { return slices.Contains(b.in, s) })
}

// beside returns where a path stands if a restore is taken back behind others, and
// nothing has to be written to it.
func (rm *restoreModel) beside(p string, x *rmRestore, now string) rmPath {
	in := lacks(rm.at[p], rmPath{in: lacks(x.after[p], x.before[p])})
	in = append(in, lacks(rmPath{in: lacks(x.before[p], x.after[p])}, rmPath{in: in})...)
	slices.SortFunc(in, func(a, b *rmStep) int { return slices.Index(rm.steps, a) - slices.Index(rm.steps, b) })
	if now != rm.at[p].expected || x.found[p] != x.before[p].expected || x.left[p] != x.after[p].expected ||
		rm.isUnseen(p, x) {
		now = rmUnknown
	}
	return rm.stand(p, in, now)
}

// isUnseen reports whether nobody has looked at what a restore left at a path: it is an undo, or a
// redo, which looks only at what it writes, and what came since has found something else.
func (rm *restoreModel) isUnseen(p string, x *rmRestore) bool {
	came := lacks(rm.at[p], x.after[p])
	_, wrote := x.changes[p]
	return x.again && !wrote && len(came) > 0 && came[0].changes[p].old != x.after[p].expected
}

// takeBack undoes or redoes.
func (rm *restoreModel) takeBack(undo bool) {
	list, other, fn := &rm.undo, &rm.redo, rm.m.Undo
	if !undo {
		list, other = &rm.redo, &rm.undo
		fn = nil
	}
	do := func() (*RestoreResult, error) {
		if fn = rm.m.Undo; !undo {
			fn = rm.m.Redo
		}
		return fn(rm.Context(), nil)
	}
	if len(*list) == 0 {
		if _, err := do(); !errors.Is(err, ErrNothing) {
			rm.Errorf("undo %v of nothing: %v", undo, err)
		}
		return
	}
	x := (*list)[len(*list)-1]
	wants := make(map[string]rmWant)
	for p, c := range x.changes {
		if x.rest != nil && !x.rest[p] {
			continue
		}
		w := rmWant{new: c[0], old: c[1]}
		for _, s := range lacks(rm.at[p], x.after[p]) { // what came since stays
			w.doubt = true
			w.hidden = w.hidden || s.changes[p].new == "" && len(lacks(x.after[p], x.before[p])) > 0
		}
		wants[p] = w
	}
	now := rm.look()
	rm.try(fmt.Sprintf("undo %v", undo), wants, rollback.Skip, now, do,
		func(changes map[string][2]string, changed bool) {
			if !changed { // it counts if all was as wanted already
				for p, w := range wants {
					if now[p] != w.new || w.hidden {
						return
					}
				}
			}
			var about []string
			rest := make(map[string]bool)
			target := maps.Clone(x.before)
			for _, p := range rmNames { // what has come since stays
				if x.rest != nil && !x.rest[p] {
					continue
				}
				about = append(about, p)
				rest[p] = slices.Contains(rm.dirty, p)
				if _, done := changes[p]; !done {
					target[p] = rm.beside(p, x, now[p])
				}
			}
			if x.rest = rest; len(rm.dirty) == 0 {
				x.rest = nil
			}
			r := rm.record(changes, target, about)
			r.again = true
			if len(rm.dirty) == 0 {
				*list = (*list)[:len(*list)-1]
			}
			*other = append(*other, r)
		})
}

// try has a restore done, perhaps by a process that dies meanwhile, and checks
// what has come of it. done is called with what was changed.
func (rm *restoreModel) try(what string, wants map[string]rmWant, policy rollback.Policy, now files,
	do func() (*RestoreResult, error), done func(map[string][2]string, bool)) {
	rm.Logf("%s: %q", what, now)
	want := maps.Clone(now)
	changes := make(map[string][2]string)
	var dirty, hidden []string
	for p, w := range wants {
		switch {
		case w.hidden && policy != rollback.Overwrite, w.kept:
			hidden = append(hidden, p)
		case now[p] == w.new:
		case (w.doubt || now[p] != w.old) && policy != rollback.Overwrite:
			dirty = append(dirty, p)
		default:
			changes[p] = [2]string{now[p], w.new}
		}
	}
	if policy == rollback.Abort && len(dirty) > 0 {
		clear(changes)
	}
	for p, c := range changes {
		if c[1] == "" {
			delete(want, p)
		} else {
			want[p] = c[1]
		}
	}
	rm.dirty = append(hidden, dirty...)
	crash := rm.rng.IntN(4) == 0 && policy != rollback.Abort
	if crash {
		rm.reopen(nil)
		fault := &vfstest.Fault{At: int64(20 + rm.rng.IntN(200)), Sticky: true, Err: syscall.EIO}
		rm.reopen(fault)
		_, err := do()
		crash = fault.Fired()
		if !crash && err != nil {
			rm.Fatalf("%s: %v", what, err)
		}
		rm.reopen(nil)
		rm.initialize(rm.m)
		got := rm.look()
		switch {
		case maps.Equal(want, now):
			// Whether it was recorded does not show. Undo and redo without a
			// change are recorded.
			head, err := rm.m.records.Newest("s")
			if err != nil {
				rm.Fatal(err)
			}
			last, err := rm.m.records.LastRestore(rm.Context(), head)
			if err != nil {
				rm.Fatal(err)
			}
			if n := rm.count(last); n > len(rm.restores) {
				done(changes, true)
			}
		case maps.Equal(got, want):
			done(changes, true)
		case maps.Equal(got, now): // as if it had not been
			rm.syncAborted()
		default:
			rm.Errorf("%s, cut off: neither as it was nor as wanted (-wanted +got):\n%s(was %q)", what,
				cmp.Diff(want, got), now)
		}
		rm.crashes++
		return
	}
	r, err := do()
	if err != nil {
		rm.Fatalf("%s: %v", what, err)
	}
	if r.Aborted && len(dirty) == 0 && slices.ContainsFunc(r.Dirty,
		func(p string) bool { return !slices.Contains(rmNames, p) }) {
		want = now // for a directory that the user has removed or made
		clear(changes)
	}
	if d := cmp.Diff(want, rm.look()); d != "" {
		rm.Errorf("%s (-want +got):\n%s\nwas %q, wants %+v, result %+v", what, d, now, wants, r)
		return
	}
	if got := r.Dirty; len(got) < len(dirty) {
		rm.Errorf("%s: dirty %q, want %q", what, got, dirty)
	}
	// A directory may have come or gone, alone.
	done(changes, len(changes) > 0 || r.Snapshot != nil)
	if n := rm.count(r.recordOr(rm)); n != len(rm.restores) {
		rm.Errorf("%s: %d restores on record, want %d", what, n, len(rm.restores))
	}
}

// recordOr returns the session's newest restore.
func (r *RestoreResult) recordOr(rm *restoreModel) *record {
	head, err := rm.m.records.Newest("s")
	if err != nil {
		rm.Fatal(err)
	}
	last, err := rm.m.records.LastRestore(rm.Context(), head)
	if err != nil {
		rm.Fatal(err)
	}
	return last
}

// count counts the restores on record that were not given up.
func (rm *restoreModel) count(last *record) (n int) {
	for r := last; r != nil; {
		if r.Facts.Tops != history.TopsNone {
			n++
		}
		var err error
		if r, err = rm.m.records.RestoreBefore(rm.Context(), r); err != nil {
			rm.Fatal(err)
		}
	}
	return n
}

// syncAborted takes note of a restore that was done and changed back.
func (rm *restoreModel) syncAborted() {
	if n := rm.count((&RestoreResult{}).recordOr(rm)); n != len(rm.restores) {
		rm.Errorf("a restore that came to nothing is on record: %d, want %d", n, len(rm.restores))
	}
}

// recoverable requires that all that ever was at a step is in the store.
func (rm *restoreModel) recoverable() {
	for _, s := range rm.steps {
		p, err := rm.m.Resolve(rm.Context(), s.entry)
		if err != nil {
			rm.Fatal(err)
		}
		got := make(files)
		for e, err := range trees.Walk(rm.Context(), rm.m.store, p.State.Tree) {
			if err != nil {
				rm.Fatal(err)
			}
			if e.Mode.IsDir() {
				continue
			}
			at, err := rm.m.fileIn(rm.Context(), p.State, e.Path)
			if err != nil {
				rm.Fatal(err)
			}
			got[e.Path] = fmt.Sprintf("%v %s", e.Mode, at.file.Content)
		}
		if d := cmp.Diff(s.after, got); d != "" {
			rm.Errorf("step %s (-want +got):\n%s", s.entry, d)
		}
	}
}
