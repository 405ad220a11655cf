package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

var (
	modelRuns  = flag.Int("runs", 4, "histories that TestModel makes")
	modelSteps = flag.Int("steps", 60, "events in each of them")
)

// A node is a file, link or directory as the model knows it.
type node struct {
	mode    tree.Mode
	content string
}

// A world is a full copy of a directory.
type world map[string]node

func readWorld(t *testing.T, dir string) world {
	t.Helper()
	w := make(world)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		name = filepath.ToSlash(name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		n := node{mode: tree.Mode(vfs.KeptPerm(vfs.KindOf(info.Mode()), uint16(info.Mode().Perm())))}
		switch {
		case d.IsDir():
			n.mode |= tree.ModeDir
		case info.Mode().IsRegular():
			n.mode |= tree.ModeFile
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			n.content = string(b)
		default:
			n.mode = tree.ModeSymlink | 0o777
			if n.content, err = os.Readlink(p); err != nil {
				return err
			}
		}
		w[name] = n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shown reports whether a path speaks for itself: it is no directory that
// holds something.
func (w world) shown(p string) bool {
	n, ok := w[p]
	if !ok || !n.mode.IsDir() {
		return ok
	}
	for q := range w {
		if strings.HasPrefix(q, p+"/") {
			return false
		}
	}
	return true
}

// net tells what two copies say of a path.
func netChange(old, new world, p string) string {
	a, inOld := old[p]
	b, inNew := new[p]
	if inOld && inNew && a.mode.IsDir() == b.mode.IsDir() {
		if a == b {
			return "none"
		}
		return "modified"
	}
	switch o, n := old.shown(p), new.shown(p); {
	case o && n:
		return "modified"
	case o:
		return "deleted"
	case n:
		return "added"
	}
	return "none"
}

func paths(worlds ...world) []string {
	set := make(map[string]bool)
	for _, w := range worlds {
		for p := range w {
			set[p] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// A modelStep is a step as the model knows it.
type modelStep struct {
	turn    int
	before  world // when the turn began
	after   world
	changes map[string]modelChange
	pieces  map[string][]modelPiece
	// that it builds on, the one before it in time, since the files are never brought back; nil:
	// the start
	on    *modelStep
	above string // leaf of the log when its turn ended
	entry string // "": the log was not given it yet
	late  bool   // the log was given it later
	order int    // in which it was recorded
}

type modelChange struct {
	status string
	owner  Owner
}

// A modelPiece is what a turn did to a path while nobody else changed it; nil:
// absent.
type modelPiece struct {
	old, new *node
	owner    Owner
}

// An interval is what happened between two looks at the directory.
type interval struct {
	from, to world
	windows  []string
}

// A modelSession is a session as the model knows it.
type modelSession struct {
	id      string
	m       *FileSnapshotManager
	log     *session.Tree
	start   world
	steps   map[string]*modelStep // by entry
	open    bool
	since   int // intervals before the turn
	known   int // intervals before a tool of it began or ended last, or it did: these are all it knows of
	tools   []string
	claims  map[string]bool
	writes  map[string]bool // claims of tools that may run still
	foreign map[string]bool
	byTools bool
	newest  *modelStep   // in time; nil: the start
	untold  []*modelStep // that the log was not given yet
	empty   []*modelStep // turns that changed nothing
	turn    int          // number of the open turn
	before  world        // when it began
	next    int          // number of the next one: each is given once
	returns string       // what the append callback returns: "id" or "nothing"
}

func (s *modelSession) isOpen() bool { return s.open }

// A model runs random events against managers and a naive model side by side.
type model struct {
	*bench
	rng       *rand.Rand
	sessions  []*modelSession
	intervals []interval
	last      world
	seq       int
}

// TestModel checks what the managers of some sessions in one directory say
// against full copies of it, for every pair of entries.
func TestModel(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	first := testseed.Of(t)
	for i := range uint64(*modelRuns) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) {
			md := &model{bench: newBench(t), rng: rand.New(rand.NewPCG(first+i, 0))}
			md.run()
		})
	}
}

func (md *model) run() {
	md.edit()
	for _, id := range []string{"one", "two", "three"}[:2+md.rng.IntN(2)] {
		s := &modelSession{id: id, steps: make(map[string]*modelStep), log: session.NewTree(),
			byTools: md.rng.IntN(3) == 0, returns: []string{"id", "nothing"}[md.rng.IntN(2)]}
		md.sessions = append(md.sessions, s)
		md.reopen(s)
		md.look(func() { md.initialize(s.m) })
		s.start = md.last
		s.log.Add(session.Entry{ID: md.name("user"), Type: "message", Role: "user"})
	}
	for range *modelSteps {
		s := md.sessions[md.rng.IntN(len(md.sessions))]
		switch n := md.rng.IntN(12); {
		case n < 5:
			md.edit()
		case n == 5:
			if s.open {
				md.claim(s)
			}
		case n == 6 && s.open && s.byTools:
			md.tool(s)
		case n == 6 && s.open && md.rng.IntN(2) == 0 || n == 7 && s.open && md.rng.IntN(3) == 0:
			md.die(s)
		case n > 8 && s.open && s.byTools && md.rng.IntN(3) > 0:
			for range 6 { // tools, with the user at work between them
				md.tool(s)
				md.edit()
			}
		case n == 7 && !s.open:
			md.navigate(s)
		case n == 8 && !slices.ContainsFunc(md.sessions, (*modelSession).isOpen) && md.rng.IntN(2) == 0:
			md.move()
		case n == 8 && !s.open:
			md.reopen(s)
		case !s.open:
			md.begin(s)
		default:
			md.finish(s)
		}
	}
	for _, s := range md.sessions {
		if s.open {
			md.finish(s)
		}
		md.verify(s)
	}
	md.check(md.sessions[0].m.store)
	for _, s := range md.sessions {
		if err := s.m.Close(); err != nil {
			md.Error(err)
		}
	}
}

// move renames the directory. Its history is known under the old path alone, until
// the directory adopts it: then nothing has happened.
func (md *model) move() {
	if id, err := vfs.Identify(md.dir); err == nil && id == (vfs.Identity{}) {
		return // a directory that was moved is not recognised
	}
	for _, s := range md.sessions {
		if err := s.m.Close(); err != nil {
			md.Fatal(err)
		}
	}
	to := filepath.Join(filepath.Dir(md.dir), md.name("moved"))
	if err := os.Rename(md.dir, to); err != nil {
		md.Fatal(err)
	}
	md.dir = to
	if m, err := Open(md.Context(), to, &Options{StoreRoot: md.stores, Session: "one"}); !errors.Is(err,
		places.ErrMovedAway) {
		md.Fatalf("open a directory that was moved: %v, %v; want ErrMovedAway", m, err)
	}
	opts := &places.AdoptOptions{StoreRoot: md.stores}
	mv, err := places.PlanAdopt(md.Context(), to, opts)
	if err == nil {
		err = places.Adopt(md.Context(), mv, opts)
	}
	if err != nil {
		md.Fatal(err)
	}
	for _, s := range md.sessions {
		s.m = nil
		md.reopen(s)
	}
}

func (md *model) name(what string) string {
	md.seq++
	return fmt.Sprintf("%s-%d", what, md.seq)
}

// reopen is a new process for a session.
func (md *model) reopen(s *modelSession) {
	if s.m != nil {
		if err := s.m.Close(); err != nil {
			md.Fatal(err)
		}
	}
	var err error
	if s.m, err = Open(md.Context(), md.dir, &Options{StoreRoot: md.stores, Session: s.id,
		ToolWindows: s.byTools}); err != nil {
		md.Fatal(err)
	}
	if err := s.m.RebuildIndex(md.Context(), s.log); err != nil {
		md.Fatal(err)
	}
}

// look calls fn, which makes a manager look at the directory.
func (md *model) look(fn func()) {
	now := readWorld(md.T, md.dir)
	var windows []string
	for _, s := range md.sessions {
		if s.open && (!s.byTools || len(s.tools) > 0) {
			windows = append(windows, s.id)
		}
	}
	if md.last != nil && cmp.Diff(md.last, now, cmp.AllowUnexported(node{})) != "" {
		md.intervals = append(md.intervals, interval{md.last, now, windows})
		md.dispute(md.last, now, windows)
	}
	md.last = now
	fn()
}

// dispute has all who may have changed a path claim it, if one has, and none does now; but
// those that do not tell of tools only if it would be taken for that of somebody else.
func (md *model) dispute(from, to world, windows []string) {
	if len(windows) < 2 {
		return
	}
	for _, p := range paths(from, to) {
		claimed, writes := false, false
		for _, s := range md.sessions {
			if slices.Contains(windows, s.id) {
				claimed = claimed || s.byTools && (has(s.claims, p) || has(s.foreign, p))
				writes = writes || has(s.writes, p)
			}
		}
		if netChange(from, to, p) == "none" || writes {
			continue
		}
		for _, s := range md.sessions {
			if slices.Contains(windows, s.id) && (claimed || has(s.foreign, p)) {
				s.claims[p], s.foreign[p] = true, true
			}
		}
	}
}

func (md *model) begin(s *modelSession) {
	md.look(func() {
		if _, err := s.m.OnTurnStart(md.Context(), nil); err != nil {
			md.Fatal(err)
		}
	})
	s.log.Add(session.Entry{ID: md.name("agent"), ParentID: s.log.Leaf(), Type: "message", Role: "assistant"})
	s.open, s.since, s.known, s.tools = true, len(md.intervals), len(md.intervals), nil
	s.claims, s.foreign, s.writes = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, o := range md.sessions {
		if o != s && o.open {
			maps.Copy(s.foreign, o.claims)
		}
	}
	s.turn, s.before = s.next, md.last
	s.next++
}

func (md *model) tool(s *modelSession) {
	md.look(func() {
		var err error
		if len(s.tools) > 0 && md.rng.IntN(2) == 0 {
			_, err = s.m.OnToolEnd(md.Context(), s.tools[0])
			if s.tools = s.tools[1:]; len(s.tools) == 0 {
				clear(s.writes)
			}
		} else {
			s.tools = append(s.tools, md.name("tool"))
			_, err = s.m.OnToolStart(md.Context(), s.tools[len(s.tools)-1])
		}
		if err != nil {
			md.Fatal(err)
		}
		s.known = len(md.intervals)
	})
}

func (md *model) claim(s *modelSession) {
	all := paths(md.last, readWorld(md.T, md.dir))
	if len(all) == 0 {
		return
	}
	p := all[md.rng.IntN(len(all))]
	if err := s.m.Claim(md.Context(), p); err != nil {
		md.Fatal(err)
	}
	s.claims[p], s.writes[p] = true, true
	for _, o := range md.sessions {
		if o != s && o.open {
			o.foreign[p] = true
		}
	}
}

func (md *model) finish(s *modelSession) {
	var result *Result
	var changes map[string]modelChange
	var pieces map[string][]modelPiece
	var own *modelStep
	full := errors.New("the log is full")
	above := s.log.Leaf()
	md.look(func() {
		changes, pieces = md.changes(s, len(md.intervals))
		queue := slices.Clone(s.untold)
		if len(changes) > 0 {
			md.seq++
			own = &modelStep{turn: s.turn, before: s.before, after: md.last, changes: changes, pieces: pieces,
				on: s.newest, above: s.log.Leaf(), order: md.seq}
			queue = append(queue, own)
		}
		calls, failed := 0, false
		var err error
		result, err = s.m.OnTurnEnd(md.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
			if calls == len(queue) {
				md.Fatalf("session %s: the runtime is told of %+v, too", s.id, d)
			}
			step := queue[calls]
			if md.rng.IntN(5) == 0 {
				failed = true
				return "", full
			}
			calls++
			if step.late = step != own; step.late != d.Late || step.late && d.AboveEntryID != step.above ||
				d.TurnIndex != step.turn {
				md.Errorf("session %s: told of turn %d above %q, want turn %d above %q", s.id, d.TurnIndex,
					d.AboveEntryID, step.turn, step.above)
			}
			id := md.name("step")
			s.steps[id], step.entry = step, id
			s.log.Add(session.Entry{ID: id, ParentID: s.log.Leaf(), Type: "custom",
				CustomType: sessionlog.StepSnapshot, Data: encode(d)})
			if s.returns == "nothing" {
				return "", nil
			}
			return id, nil
		})
		if failed != errors.Is(err, full) || result == nil || !failed && calls != len(queue) {
			md.Fatalf("session %s: told of %d of %d steps, %v", s.id, calls, len(queue), err)
		}
		s.untold = queue[calls:]
	})
	md.ended(s, own, result, above)
}

// die is the death of a session's process within a turn, and the process that takes the
// session up again. Whose it is what has changed since a tool began or ended is not known.
func (md *model) die(s *modelSession) {
	if err := s.m.Close(); err != nil {
		md.Fatal(err)
	}
	s.m = nil
	if md.rng.IntN(2) == 0 {
		md.edit()
	}
	md.reopen(s)
	md.look(func() {
		var own *modelStep
		changes, pieces := md.changes(s, s.known)
		if len(changes) > 0 {
			md.seq++
			own = &modelStep{turn: s.turn, before: s.before, after: md.last, changes: changes, pieces: pieces,
				on: s.newest, above: s.log.Leaf(), order: md.seq, late: true}
			s.untold = append(s.untold, own)
		}
		result := md.initialize(s.m)
		if result.Data != nil && !result.Data.Interrupted {
			md.Errorf("session %s: a turn that was cut off has data %+v", s.id, result.Data)
		}
		md.ended(s, own, result, s.log.Leaf())
	})
}

// ended compares what a manager says of the end of a turn with what the model does. above
// is the leaf of the log before it.
func (md *model) ended(s *modelSession, own *modelStep, result *Result, above string) {
	s.open = false
	if (own != nil) != (result.Data != nil) {
		md.Errorf("session %s: a turn that is %+v has data %+v", s.id, own, result.Data)
	}
	if own == nil && result.Data == nil {
		md.seq++
		s.empty = append(s.empty, &modelStep{turn: s.turn, before: s.before, on: s.newest, above: above, order: md.seq})
	}
	if own == nil || result.Data == nil {
		return
	}
	changes := own.changes
	s.newest = own
	md.checkTurnDiff(s, history.NameOf("", result.Snapshot), own)
	got := make(map[string]modelChange)
	for _, part := range []struct {
		diff  *Diff
		owner Owner
	}{{result.Data.Diff, OwnTurn}, {result.Data.Contested, Contested}} {
		if part.diff == nil {
			continue
		}
		for status, list := range map[string][]string{"added": part.diff.Added, "modified": part.diff.Modified,
			"deleted": part.diff.Deleted} {
			for _, p := range list {
				owner := part.owner
				if owner == OwnTurn && changes[p].owner == Claimed {
					owner = Claimed // a diff does not tell
				}
				got[p] = modelChange{status, owner}
			}
		}
	}
	if d := cmp.Diff(changes, got, cmp.AllowUnexported(modelChange{})); d != "" {
		md.Errorf("session %s, turn %d: diff (-want +got):\n%s", s.id, s.turn, d)
	}
	if result.Data.TurnIndex != s.turn {
		md.Errorf("session %s: turn %d, want %d", s.id, result.Data.TurnIndex, s.turn)
	}
}

// changes tells from full copies what the turn of a session did, and in which
// pieces. Behind so many intervals it is not known who was at work.
func (md *model) changes(s *modelSession, known int) (map[string]modelChange, map[string][]modelPiece) {
	type window struct {
		interval
		contested bool
	}
	var pieces []window
	joined := false
	for i, iv := range md.intervals[s.since:] {
		if !slices.Contains(iv.windows, s.id) {
			joined = false
			continue
		}
		contested := len(iv.windows) > 1 || s.since+i >= known
		if n := len(pieces); n > 0 && pieces[n-1].contested == contested &&
			(joined || cmp.Diff(pieces[n-1].to, iv.from, cmp.AllowUnexported(node{})) == "") {
			pieces[n-1].to = iv.to
		} else {
			pieces = append(pieces, window{iv, contested})
		}
		joined = true
	}
	first, last, owners := make(map[string]world), make(map[string]world), make(map[string]Owner)
	mixed := make(map[string]bool)
	type span struct {
		from, to world
		owner    Owner
	}
	spans := make(map[string][]span)
	for _, pc := range pieces {
		for _, p := range paths(pc.from, pc.to) {
			if netChange(pc.from, pc.to, p) == "none" {
				continue
			}
			owner := OwnTurn
			mine, theirs := has(s.claims, p), pc.contested && has(s.foreign, p)
			switch {
			case mine && !theirs:
				owner = Claimed
			case theirs && !mine:
				continue
			case pc.contested:
				owner = Contested
			}
			if n := len(spans[p]); n > 0 && sameNode(spans[p][n-1].to, pc.from, p) {
				last := &spans[p][n-1]
				last.to = pc.to
				if owner == Contested || last.owner != Contested && owner == Claimed {
					last.owner = owner
				}
			} else {
				spans[p] = append(spans[p], span{pc.from, pc.to, owner})
			}
			if first[p] == nil {
				first[p], owners[p] = pc.from, owner
			} else if mixed[p] = mixed[p] || netChange(last[p], pc.from, p) != "none"; owner == Contested ||
				owners[p] != Contested && owner == Claimed {
				owners[p] = owner
			}
			last[p] = pc.to
		}
	}
	changes := make(map[string]modelChange)
	for p, owner := range owners {
		status := netChange(first[p], last[p], p)
		if status == "none" && mixed[p] {
			status = "modified"
		}
		if status != "none" {
			changes[p] = modelChange{status, owner}
		}
	}
	all := make(map[string][]modelPiece)
	for p, list := range spans {
		for _, sp := range list {
			if netChange(sp.from, sp.to, p) == "none" {
				continue
			}
			mp := modelPiece{owner: sp.owner}
			a, inOld := sp.from[p]
			b, inNew := sp.to[p]
			both := inOld && inNew && a.mode.IsDir() == b.mode.IsDir()
			if both || sp.from.shown(p) {
				mp.old = &a
			}
			if both || sp.to.shown(p) {
				mp.new = &b
			}
			all[p] = append(all[p], mp)
		}
	}
	return changes, all
}

// sameNode reports whether two copies have the same at a path.
func sameNode(a, b world, p string) bool {
	m, inA := a[p]
	n, inB := b[p]
	return inA == inB && m == n
}

// checkTurnDiff compares the diff of a turn with full copies: each piece of each
// path, and nothing that anybody else did in between.
func (md *model) checkTurnDiff(s *modelSession, rev string, step *modelStep) {
	d, err := s.m.TurnDiff(md.Context(), rev)
	if err != nil {
		md.Fatalf("TurnDiff(%s): %v", rev, err)
	}
	if d.TurnIndex != step.turn || d.Kind != "step" || d.Unknown != "" {
		md.Errorf("TurnDiff(%s) is of turn %d, %s, %q; want turn %d", rev, d.TurnIndex, d.Kind, d.Unknown, step.turn)
	}
	read := func(e *tree.Entry) *node {
		if e == nil {
			return nil
		}
		n := &node{mode: e.Mode}
		if !e.Mode.IsDir() {
			b, err := s.m.store.Get(md.Context(), object.Blob, e.ID)
			if err != nil {
				md.Fatalf("TurnDiff(%s): %v", rev, err)
			}
			n.content = string(b)
		}
		return n
	}
	got := make(map[string][]modelPiece)
	for _, c := range d.Changes {
		list := got[c.Path]
		if len(list) == c.Piece { // a file and a directory, in one piece
			mp := &list[len(list)-1]
			if c.Old != nil {
				mp.old = read(c.Old)
			}
			if c.New != nil {
				mp.new = read(c.New)
			}
		} else {
			got[c.Path] = append(list, modelPiece{read(c.Old), read(c.New), c.Owner})
		}
		if n := len(step.pieces[c.Path]); c.Pieces != n {
			md.Errorf("TurnDiff(%s): %q is piece %d of %d, want %d", rev, c.Path, c.Piece, c.Pieces, n)
		}
	}
	if d := cmp.Diff(step.pieces, got, cmp.AllowUnexported(modelPiece{}, node{})); d != "" {
		md.Fatalf("session %s: TurnDiff(%s) (-want +got):\n%s", s.id, rev, d)
	}
}

// has reports whether a path or a directory above it was claimed.
func has(set map[string]bool, p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// navigate moves the conversation to an earlier entry; the files stay.
func (md *model) navigate(s *modelSession) {
	all := slices.Collect(s.log.Entries())
	e := all[md.rng.IntN(len(all))]
	if err := s.log.SetLeaf(e.ID); err != nil {
		md.Fatal(err)
	}
	s.log.Add(session.Entry{ID: md.name("user"), ParentID: e.ID, Type: "message", Role: "user"})
}

// edit changes the directory at random.
func (md *model) edit() {
	for range 1 + md.rng.IntN(4) {
		md.editOnce()
	}
}

var modelNames = []string{"a", "b", "dir/a", "dir/b c", "dir/sub/x", anyName("dir/sub/\xff"), "e", anyName("é\n"),
	"other/deep/er"}

// anyName returns a name that a file may have, or one that it may have on Windows instead.
func anyName(name string) string {
	if runtime.GOOS != "windows" {
		return name
	}
	return strings.NewReplacer("\n", "%", "\xff", "\u00ff", "\xfe", "\u00fe").Replace(name)
}

func (md *model) editOnce() {
	name := modelNames[md.rng.IntN(len(modelNames))]
	p := filepath.Join(md.dir, name)
	content := []string{"", "one line", "lines\n1\n2\n3\n", "crlf\r\nline\r\n", "bin\x00ary", "\xff\xfe not utf-8\n",
		strings.Repeat("long\n", 50) + fmt.Sprint(md.rng.IntN(100)) + "\n" + strings.Repeat("tail\n", 50),
		fmt.Sprint(md.rng.IntN(10))}[md.rng.IntN(8)]
	var err error
	clear := func(p string) { // a file in the way of a directory goes
		for q := filepath.Dir(p); q != md.dir; q = filepath.Dir(q) {
			if st, err := os.Lstat(q); err == nil && !st.IsDir() {
				os.Remove(q)
			}
		}
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.RemoveAll(p)
	}
	switch md.rng.IntN(10) {
	default:
		clear(p)
		err = os.WriteFile(p, []byte(content), 0o644)
	case 0, 1:
		err = os.RemoveAll(p)
	case 2:
		if _, serr := os.Lstat(p); serr == nil {
			to := filepath.Join(md.dir, modelNames[md.rng.IntN(len(modelNames))])
			if !strings.HasPrefix(to+"/", p+"/") && !strings.HasPrefix(p+"/", to+"/") {
				clear(to)
				if _, serr := os.Lstat(p); serr == nil {
					err = os.Rename(p, to)
				}
			}
		}
	case 3:
		if st, serr := os.Lstat(p); serr == nil && st.Mode()&fs.ModeSymlink == 0 {
			modes := []fs.FileMode{0o644, 0o755} // all that a diff can say
			if st.IsDir() {
				modes = []fs.FileMode{0o755, 0o700, 0o777}
			}
			err = os.Chmod(p, modes[md.rng.IntN(len(modes))])
		}
	case 4:
		clear(p)
		err = os.Symlink([]string{"a", "dir", "/nowhere", "\xff"}[md.rng.IntN(4)], p)
	case 5:
		clear(p)
		err = os.Mkdir(p, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "not a directory") {
		md.Fatal(err)
	}
}

// verify compares every answer for every pair of entries.
func (md *model) verify(s *modelSession) {
	type point struct {
		rev   string
		state world
		steps []*modelStep // that lead there
	}
	points := []point{{"start", s.start, nil}}
	for e := range s.log.Entries() {
		steps, state := md.resolve(s, e)
		if step := s.steps[e.ID]; step != nil && md.rng.IntN(3) == 0 {
			md.checkTurnDiff(s, e.ID, step)
		}
		points = append(points, point{e.ID, state, steps})
	}
	md.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	points = points[:min(len(points), 14)]
	var applied []diffCase
	for _, from := range points {
		for _, to := range points {
			common := 0
			for common < min(len(from.steps), len(to.steps)) && from.steps[common] == to.steps[common] {
				common++
			}
			want := make(map[string]ModifiedFileInfo)
			add := func(st *modelStep, back bool) {
				for p, c := range st.changes {
					row, ok := want[p]
					if !ok {
						row = ModifiedFileInfo{Path: p, Status: c.status, TurnIndex: st.turn, EntryID: st.entry,
							Owner: c.owner, PathBytes: words.BytesUnlessText(p)}
						if back {
							row.Status = map[string]string{"added": "deleted", "deleted": "added",
								"modified": "modified"}[c.status]
						}
					}
					row.LastTurnIndex, row.LastEntryID = st.turn, st.entry
					if c.owner == Contested || row.Owner == OwnTurn {
						row.Owner = c.owner
					}
					row.NetStatus = netChange(from.state, to.state, p)
					want[p] = row
				}
			}
			for _, st := range slices.Backward(from.steps[common:]) {
				add(st, true)
			}
			for _, st := range to.steps[common:] {
				add(st, false)
			}
			got := make(map[string]ModifiedFileInfo)
			cursor := ""
			for {
				answer, err := s.m.ModifiedFiles(md.Context(),
					&Range{From: from.rev, To: to.rev, All: true, Limit: md.rng.IntN(4), Cursor: cursor})
				if err != nil {
					md.Fatalf("ModifiedFiles(%s, %s): %v", from.rev, to.rev, err)
				}
				for _, row := range answer.Files {
					got[rawPath(row)] = row
				}
				if cursor = answer.NextCursor; cursor == "" {
					break
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				md.Fatalf("session %s: ModifiedFiles(%s, %s) (-want +got):\n%s", s.id, from.rev, to.rev, d)
			}
			all := paths(from.state, to.state)
			for range min(3, len(all)) {
				p := all[md.rng.IntN(len(all))]
				if c := md.checkDiff(s, from.rev, to.rev, from.state, to.state, p); c != nil {
					applied = append(applied, *c)
				}
			}
		}
	}
	applyAll(md.T, applied)
}

// resolve tells which steps lead to an entry and what the files were there.
func (md *model) resolve(s *modelSession, e *session.Entry) (steps []*modelStep, state world) {
	tip := s.steps[e.ID]
	if e.Role == "assistant" {
		tip = md.stepOf(s, e.ID)
	}
	if tip == nil {
		tip = md.tip(s, e.ID)
	}
	state = s.start
	if tip != nil {
		state = tip.after
	}
	if e.Role == "user" { // the begin of its turn
		if first := md.firstOf(s, e.ID); first != nil {
			tip, state = first.on, first.before
		}
	}
	for ; tip != nil; tip = tip.on {
		steps = append(steps, tip)
	}
	slices.Reverse(steps)
	return steps, state
}

// firstOf returns the first step in time of what a message of the user began, nil
// if there is none.
func (md *model) firstOf(s *modelSession, user string) (first *modelStep) {
	below := func(id string) bool {
		for ; id != user; id = md.parent(s, id) {
			if e, ok := s.log.Entry(id); !ok || e.Role == "user" {
				return false
			}
		}
		return true
	}
	take := func(st *modelStep, at string) {
		if below(at) && (first == nil || st.order < first.order) {
			first = st
		}
	}
	for id, st := range s.steps {
		if st.late {
			id = st.above
		}
		take(st, id)
	}
	for _, st := range append(slices.Clone(s.untold), s.empty...) {
		take(st, st.above)
	}
	return first
}

func (md *model) parent(s *modelSession, id string) string {
	e, ok := s.log.Entry(id)
	if !ok {
		return ""
	}
	return e.ParentID
}

// tip returns the newest step in time on the path to an entry of the log, nil for
// the start.
func (md *model) tip(s *modelSession, id string) *modelStep {
	on := md.above(s, id)
	behind := maps.Clone(on)
	delete(behind, id)
	var tip *modelStep
	for entry, st := range s.steps {
		if st.late && behind[st.above] && !md.parts(s, entry, id, st.above) || !st.late && on[entry] {
			if tip == nil || st.order > tip.order {
				tip = st
			}
		}
	}
	for _, st := range s.untold {
		if behind[st.above] && (tip == nil || st.order > tip.order) {
			tip = st
		}
	}
	return tip
}

// parts reports whether the ways from an entry to two others part right below
// it.
func (md *model) parts(s *modelSession, a, b, from string) bool {
	next := func(id string) string {
		path, err := s.log.Path(id)
		if err != nil {
			md.Fatal(err)
		}
		for i, e := range path {
			if e.ID == from && i+1 < len(path) {
				return path[i+1].ID
			}
		}
		return ""
	}
	x, y := next(a), next(b)
	return x != "" && y != "" && x != y
}

// above returns the entries on the path to one.
func (md *model) above(s *modelSession, id string) map[string]bool {
	path, err := s.log.Path(id)
	if err != nil {
		md.Fatal(err)
	}
	on := make(map[string]bool)
	for _, e := range path {
		on[e.ID] = true
	}
	return on
}

// stepOf returns the step of the turn that a message of the agent begins: it
// follows, perhaps behind others that are told late, or comes late itself; nil
// if there is none.
func (md *model) stepOf(s *modelSession, agent string) *modelStep {
	for id, st := range s.steps {
		if st.late {
			continue
		}
		parent := id
		for e, ok := s.log.Entry(parent); ok && (s.steps[e.ID] != nil); e, ok = s.log.Entry(parent) {
			parent = e.ParentID
			if e.ID != id && !s.steps[e.ID].late {
				parent = ""
			}
		}
		if parent == agent {
			return st
		}
	}
	var first *modelStep // of those that do not stand there
	for _, st := range append(slices.Collect(maps.Values(s.steps)), s.untold...) {
		if (st.late || st.entry == "") && st.above == agent && (first == nil || st.order < first.order) {
			first = st
		}
	}
	return first
}

// checkDiff compares a FileDiff with full copies. It returns the diff if it
// is one that can be applied.
func (md *model) checkDiff(s *modelSession, from, to string, old, new world, p string) *diffCase {
	got, err := s.m.FileDiff(md.Context(), &FileRange{Path: p, From: from, To: to, Bytes: true})
	if err != nil {
		md.Fatalf("FileDiff(%q, %s, %s): %v", p, from, to, err)
	}
	a, b := fileNode(old, p), fileNode(new, p)
	if a == nil && b == nil {
		if got != nil {
			md.Errorf("FileDiff(%q, %s, %s) = %+v, want nil", p, from, to, got)
		}
		return nil
	}
	for _, side := range []struct {
		want    *node
		content *string
		raw     []byte
		hash    *store.ID
		mode    *string
	}{{a, got.OldContent, got.OldBytes, got.OldHash, got.OldMode},
		{b, got.NewContent, got.NewBytes, got.NewHash, got.NewMode}} {
		if side.want == nil {
			if side.content != nil || side.raw != nil || side.hash != nil || side.mode != nil {
				md.Errorf("FileDiff(%q, %s, %s) = %+v: one side is absent", p, from, to, got)
			}
			continue
		}
		content := string(side.raw)
		if side.content != nil {
			content = *side.content
		}
		if content != side.want.content || *side.hash != object.Hash(object.Blob, []byte(content)) ||
			*side.mode != fmt.Sprintf("%06o", filediff.GitMode(side.want.mode)) {
			md.Errorf("FileDiff(%q, %s, %s) = %+v, want content %q, mode %s", p, from, to, got,
				side.want.content, side.want.mode)
		}
	}
	text := got.UnifiedDiff
	if got.UnifiedDiffBytes != nil {
		text = string(got.UnifiedDiffBytes)
	}
	same := a != nil && b != nil && *a == *b
	if same != (text == "") {
		md.Errorf("FileDiff(%q, %s, %s): same is %v, diff %q", p, from, to, same, text)
	}
	if same || got.Binary {
		return nil
	}
	return &diffCase{p, a, b, text}
}

func fileNode(w world, p string) *node {
	if n, ok := w[p]; ok && !n.mode.IsDir() {
		return &n
	}
	return nil
}

// A diffCase is a diff that turns one state of a file into another.
type diffCase struct {
	path     string
	old, new *node // nil: absent
	text     string
}

// applyAll has git and patch apply diffs, each in a directory of its own.
func applyAll(t *testing.T, cases []diffCase) {
	t.Helper()
	for i, c := range cases[:min(len(cases), 25)] {
		for _, tool := range [][]string{{"git", "apply", "-p0", "-"},
			{"patch", "-p0", "-s", "--no-backup-if-mismatch"}} {
			if tool[0] == "patch" && (strings.ContainsAny(path.Base(c.path), "\n") || isLink(c.old) || isLink(c.new)) {
				continue // GNU patch 2.7.6 refuses these: see package patch
			}
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Logf("%s is not there to apply diffs", tool[0])
				continue
			}
			dir := t.TempDir()
			place(t, dir, c.path, c.old)
			cmd := exec.Command(tool[0], tool[1:]...)
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader(c.text)
			cmd.Env = append(os.Environ(), "GIT_DIR=/nonexistent", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("case %d: %v of %q: %v\n%s\n%s", i, tool, c.path, err, out, c.text)
				continue
			}
			want := make(world)
			if c.new != nil {
				want[c.path] = *c.new
			}
			got := readWorld(t, dir)
			maps.DeleteFunc(got, func(_ string, n node) bool { return n.mode.IsDir() })
			if d := cmp.Diff(want, got, cmp.AllowUnexported(node{})); d != "" {
				t.Errorf("case %d: %v of %q (-want +got):\n%s\n%s", i, tool, c.path, d, c.text)
			}
		}
	}
}

func isLink(n *node) bool { return n != nil && n.mode.Kind() == tree.ModeSymlink }

func place(t *testing.T, dir, name string, n *node) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if n == nil {
		return
	}
	var err error
	if n.mode.Kind() == tree.ModeSymlink {
		err = os.Symlink(n.content, p)
	} else {
		err = errors.Join(os.WriteFile(p, []byte(n.content), 0o644), os.Chmod(p, fs.FileMode(n.mode&0o777)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rawPath(row ModifiedFileInfo) string {
	if row.PathBytes != nil {
		return string(row.PathBytes)
	}
	return row.Path
}
