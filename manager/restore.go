package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// RestoreOptions are the choices at [FileSnapshotManager.RestoreFiles].
type RestoreOptions struct {
	Target string // the moment to go to, as [FileSnapshotManager.Resolve] takes it

	// Paths are files, directories and globs that are to be as they were at
	// the target, whoever changed them. What git's sparse checkout has taken
	// out since is put back only with OnDirty Overwrite. Default: what the session's turns have
	// changed between the target and now, and that only as far as they did.
	Paths []string

	// Exact restores all that differs from the target, whoever changed it.
	Exact bool

	// OnDirty says what becomes of files that are not as the session left
	// them last. Default: [rollback.Skip]; with Exact, which means the files
	// of others too, [rollback.Overwrite].
	OnDirty rollback.Policy

	// Agreed is what somebody has seen at paths and agreed to lose: it is as good
	// there as what the session left. What is something else by now is dirty.
	Agreed map[string]*tree.Entry

	Preview    bool // say what would be done, and do nothing
	Force      bool // also while a turn is open in the directory
	AcrossHead bool // also where the user's repository has another commit checked out than at the target

	// Past has Undo and Redo pass over restores of which they could take back only
	// a part, or can take back nothing now. These stay next on the list.
	Past bool

	Label string // of the record

	// Append appends the unrevert-point to the runtime's session log.
	// Default: it goes to our own log of the session.
	Append EntryFunc
}

// An EntryFunc appends an entry to the runtime's session log, as a child of its
// leaf, and returns the ID that the entry got; "" if the runtime does not know.
// It may not call the manager.
type EntryFunc func(ctx context.Context, e *session.Entry) (entryID string, err error)

// A RestoreResult says what a restore has done, or would do. The lists are in
// order of path.
type RestoreResult struct {
	Restored []string `json:"restored"` // written, or made again
	Deleted  []string `json:"deleted"`
	Skipped  []string `json:"skipped"` // dirty, and so left as they are
	Dirty    []string `json:"dirty"`   // not as the session left them, whatever became of them

	Made        []string `json:"made,omitempty"`        // directories that were made for what was restored in them
	Kept        []string `json:"kept,omitempty"`        // would have to be deleted, and may not be
	Failed      []string `json:"failed,omitempty"`      // could not be done
	NotCaptured []string `json:"notCaptured,omitempty"` // changed only in whether they are captured: their content is not known

	Items []rollback.Item `json:"items"` // of every path: what was done and why
	Moves []rollback.Move `json:"moves,omitempty"`

	TurnsTakenBack []int `json:"turnsTakenBack,omitempty"` // numbers of the turns that it takes off the line
	TurnsPutBack   []int `json:"turnsPutBack,omitempty"`   // and of those that it puts on it again, which had been taken back

	Undoes *TakenBack  `json:"undoes,omitempty"` // the restore that it takes back
	Passed []TakenBack `json:"passed,omitempty"` // restores that it passed over: they stay next on the list

	EntryID             string          `json:"entryId,omitempty"`            // of the unrevert-point; "": none, or the runtime did not say
	PreRollbackTreeHash store.ID        `json:"preRollbackTreeHash,omitzero"` // zero: nothing was changed
	Preview             bool            `json:"preview,omitempty"`
	Aborted             bool            `json:"aborted,omitempty"`     // something is dirty, and the policy is to do nothing then
	Differing           int             `json:"differing,omitempty"`   // nothing to do, but so many files differ from the target: others changed them
	HeadChanged         bool            `json:"headChanged,omitempty"` // another commit is checked out than at the target
	Snapshot            *store.Snapshot `json:"-"`                     // what was recorded; nil: nothing

	Expected map[string]Expected `json:"-"` // at the dirty paths that are skipped, as far as it is known
}

// An Expected is what the session left at a path.
type Expected struct {
	Entry *tree.Entry // nil: nothing
	Turn  int         // that left it; -1: it was there when the session began
}

// A TakenBack is a restore that an undo or a redo takes back, or passes over.
type TakenBack struct {
	Session     string    `json:"session"`
	EntryID     string    `json:"entryId,omitempty"`
	SnapshotSeq uint64    `json:"snapshotSeq"` // number of its record
	Time        time.Time `json:"time"`
	Left        []string  `json:"left,omitempty"` // paths of one that is passed over at which it is still to be taken back
}

func newRestoreResult() *RestoreResult {
	return &RestoreResult{Restored: []string{}, Deleted: []string{}, Skipped: []string{}, Dirty: []string{}, Items: []rollback.Item{}}
}

// IsComplete reports whether all that was wanted has been done.
func (r *RestoreResult) IsComplete() bool {
	return !r.Aborted && len(r.Skipped)+len(r.Failed)+len(r.Kept)+len(r.NotCaptured) == 0 &&
		!slices.ContainsFunc(r.Moves, func(mv rollback.Move) bool { return mv.Why != "" })
}

// RestoreFiles brings files of the directory back to what they were at a
// moment of the session. What it overwrites or deletes is in the store before,
// so that Undo brings it back. Files that are not named and that no turn of the
// session has changed are not touched.
//
// Errors are those of [FileSnapshotManager.Resolve], [ErrTurnOpen] while a turn
// is open in the directory, [ErrHeadChanged], [ErrCutOff], and those of reading and writing.
// After one of writing the files that were changed have been changed back, as
// far as that could be done; the error says if not. An error of Append is
// returned together with a result.
func (m *FileSnapshotManager) RestoreFiles(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if opts == nil {
		opts = new(RestoreOptions)
	}
	result, err := m.restoreFiles(ctx, opts, nil)
	if err != nil {
		err = fmt.Errorf("restore %q: %w", opts.Target, err)
	}
	return result, err
}

// restoreFiles is RestoreFiles for who holds mu. nav is the navigation that it
// is part of, nil if it is none.
func (m *FileSnapshotManager) restoreFiles(ctx context.Context, opts *RestoreOptions, nav *navigation) (*RestoreResult, error) {
	policy := opts.OnDirty
	if policy == "" && opts.Exact {
		policy = rollback.Overwrite
	}
	x := &restore{m: m, policy: policy, agreed: opts.Agreed, preview: opts.Preview, force: opts.Force, append: opts.Append, label: opts.Label,
		expressly: len(opts.Paths) > 0 && policy == rollback.Overwrite}
	if nav != nil {
		x.label, x.oldLeaf, x.newLeaf, x.always = nav.Label, &nav.old, &nav.new, true
	}
	return x.run(ctx, func(*look) error { return x.findOut(ctx, opts) })
}

// findOut finds out what a restore is to do.
func (x *restore) findOut(ctx context.Context, opts *RestoreOptions) (err error) {
	m := x.m
	if x.target, err = m.resolve(ctx, opts.Target); err != nil {
		return err
	}
	if x.target.n > 0 && (opts.Exact || len(opts.Paths) > 0) { // it names the end of a turn, as when it is read
		x.target = x.target.moment()
	}
	if x.target.Snapshot != nil && x.target.Snapshot.Worktree != m.project.Worktree() {
		return fmt.Errorf("%w: it is of %q", ErrOtherSession, x.target.Snapshot.Root)
	}
	if err := x.checkHead(opts.AcrossHead || opts.Preview); err != nil {
		return err
	}
	l, err := m.line(ctx)
	if err != nil {
		return err
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return err
	}
	if head == nil || head.position() == 0 {
		return fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
	}
	if x.tip, err = m.stepAt(ctx, head.position(), m.opts.Session); err != nil {
		return err
	}
	last, err := m.lastRestore(ctx, head)
	if err != nil {
		return err
	}
	if last != nil {
		x.undo = last.undo()
	}
	ws, err := x.wanted(ctx, l, x.target, opts)
	if err != nil {
		return err
	}
	x.wants, x.expected = ws.list(), ws.paths
	if len(x.target.same) == 0 || len(opts.Paths) > 0 || opts.Exact {
		return nil
	}
	return x.compareSame(ctx, l, opts)
}

// wanted finds out what a restore to a target is to do, and where the files
// stand afterwards.
func (x *restore) wanted(ctx context.Context, l *line, target *Point, opts *RestoreOptions) (*wants, error) {
	m := x.m
	ws := &wants{m: m, ctx: ctx, tip: x.tip, target: target, g: m.tree.pages, standings: l.standings(m.tree.pages),
		paths: make(map[string]*want), notCaptured: make(map[string]bool)}
	x.whole = len(opts.Paths) > 0 || opts.Exact
	x.goes, x.untouched = goes{from: x.tip.Seq, to: x.tip.Seq, depth: x.tip.data.Depth}, nil
	var err error
	switch {
	case len(opts.Paths) > 0:
		err = x.named(ctx, ws, opts)
	case opts.Exact:
		err = x.exact(ctx, ws, func(string) bool { return true }, opts.OnDirty)
	case target.n > 0:
		err = x.newestTurns(ctx, ws)
	case target.at == nil:
		err = fmt.Errorf("%w: no turn of this session left it; name files, or ask for all of it", ErrUnknown)
	default:
		err = ws.between(target.at)
	}
	if x.about, x.stay = ws.about, ws.stay; err == nil {
		err = x.aim(ctx, ws, len(opts.Paths) > 0)
	}
	if err != nil {
		return nil, err
	}
	if len(opts.Paths) == 0 && !opts.Exact && len(ws.paths) == 0 {
		if x.result.Differing, err = x.differing(ctx, target); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(ws.expect(), ws.addDirs(), ws.keep()); err != nil {
		return nil, err
	}
	x.result.NotCaptured = nil
	for p := range ws.notCaptured {
		x.untouched = append(x.untouched, p)
		if ws.paths[p] == nil {
			x.result.NotCaptured = append(x.result.NotCaptured, p)
		}
	}
	slices.Sort(x.result.NotCaptured)
	return ws, nil
}

// newestTurns wants what the newest turns of the line did to be taken back, if
// they did anything.
func (x *restore) newestTurns(ctx context.Context, ws *wants) error {
	l, p := ws.standings.l, ws.target
	if p.gone == nil {
		joints := false // paths may go their own way
		gone, _, err := l.between(ctx, x.tip, p.at, "", func(*record) { joints = true })
		if err != nil {
			return err
		}
		if joints {
			q := *p
			q.at, q.gone, ws.target = nil, gone, &q
		} else {
			back, _, err := ws.standings.paths(ctx, x.tip, p.at)
			if err == nil && len(back) == 0 {
				err = x.nothingIn(ctx, ws, gone)
			}
			return errors.Join(err, ws.undo(back, nil, p.at))
		}
	}
	back, also, err := ws.standings.backOf(ctx, x.tip, ws.target.gone)
	if err != nil {
		return err
	}
	if len(back) == 0 {
		return x.nothingIn(ctx, ws, ws.target.gone)
	}
	x.goes.without = also
	return ws.undo(back, nil, nil)
}

// nothingIn says that the newest turns changed nothing, and which did.
func (x *restore) nothingIn(ctx context.Context, ws *wants, gone []*record) error {
	if len(gone) == 0 {
		return nil
	}
	which := fmt.Sprintf("turn %d", gone[0].turn())
	if n := gone[len(gone)-1].turn(); n != gone[0].turn() {
		which = fmt.Sprintf("turns %d to %d", n, gone[0].turn())
	}
	n := 0
	var last *record
	for t := ws.standings.l.trail(x.tip, ""); ; {
		r, err := t.next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%s %w, and neither did a turn before", which, ErrChangedNothing)
		}
		if last == nil || !r.isSameTurn(last) {
			n++
		}
		last = r
		list, err := ws.standings.of(ctx, r)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			return fmt.Errorf("%s %w; the newest that did is turn %d, which @~%d takes back", which, ErrChangedNothing, r.turn(), n)
		}
	}
}

// compareSame refuses a restore to a tree that several moments had, if it were
// another one for each: nothing says which of them is meant.
func (x *restore) compareSame(ctx context.Context, l *line, opts *RestoreOptions) error {
	kept := *x
	root, err := x.m.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	plan := func(list []rollback.Want) (*rollback.Plan, error) {
		return rollback.NewPlan(ctx, root, list, &rollback.Options{Policy: x.policy})
	}
	one, err := plan(x.wants)
	if err != nil {
		return err
	}
	for _, o := range x.target.same[:min(len(x.target.same), maxSame)] {
		result := *kept.result
		other := kept
		other.result = &result
		ws, err := other.wanted(ctx, l, o, opts)
		if err != nil {
			return err
		}
		two, err := plan(ws.list())
		if err != nil {
			return err
		}
		if !slices.EqualFunc(effects(one), effects(two), func(a, b rollback.Item) bool {
			return a.Path == b.Path && a.Do == b.Do && (isLeft(a) || same(a.New, b.New))
		}) {
			return fmt.Errorf("%w: turn %d and turn %d both left that state, and to go back to one is not to go back to the other: name one",
				ErrAmbiguous, o.TurnIndex, x.target.TurnIndex)
		}
	}
	return nil
}

// maxSame bounds how many moments with the same tree are compared: more are taken
// for alike. Each costs a plan.
const maxSame = 32

// effects returns the items of a plan that say something.
func effects(p *rollback.Plan) (list []rollback.Item) {
	for _, it := range p.Items {
		if it.Do != rollback.Nothing && !it.Parent {
			list = append(list, it)
		}
	}
	return list
}

// A restore is one while it runs.
type restore struct {
	m       *FileSnapshotManager
	policy  rollback.Policy
	agreed  map[string]*tree.Entry
	preview bool
	force   bool
	append  EntryFunc
	// What git has taken out is put back, too: files are named that are to be
	// as they were, whoever has changed them.
	expressly bool

	own bool // the unrevert-point goes to our own log

	target    *Point  // nil: of an undo
	tip       *record // where the files stand before it
	goes      goes
	whole     bool      // paths are to be as the target has them, whoever changed them
	about     []*record // turns whose changes go or come
	stay      []*record // turns, and joints, that have left what is there then
	untouched []string  // paths that it is about and does not touch, since their content is not known
	wants     []rollback.Want
	expected  map[string]*want // what is known of their paths; nil: of an undo
	moves     []rollback.Move  // that are known
	undoes    *record          // that it takes back
	held      map[string]bool  // paths of restores that it passes over
	list      string           // in which it comes next then: topsUndo or topsRedo
	undo      backList         // the lists after it, without itself
	redo      backList
	again     backList // the list that it is taken from, if it stays on that
	always    bool     // it is recorded even if it changes nothing
	label     string
	oldLeaf   *string // of the log, if the conversation goes along; nil: it does not
	newLeaf   *string
	result    *RestoreResult
}

// run runs a restore: prepare finds out what it is to do, under the lock on the
// worktree's turns.
func (x *restore) run(ctx context.Context, prepare func(*look) error) (*RestoreResult, error) {
	m := x.m
	if m.opts.Session == "" {
		return nil, errors.New("no session is named: see UseSession")
	}
	if err := x.policy.Check(); err != nil {
		return nil, err
	}
	x.policy = cmp.Or(x.policy, rollback.Skip)
	if !x.preview {
		m.store.MakeRoom(false)
		defer m.store.KeepBallast()
	}
	x.result = newRestoreResult()
	x.result.Preview = x.preview
	x.own = x.append == nil
	if err := x.closeCutOff(ctx); err != nil {
		return nil, err
	}
	var done *record
	err := m.withTurns(ctx, func(t *turns) error {
		o, err := m.under(ctx, t)
		if err != nil {
			return err
		}
		defer o.close(m)
		if x.preview && o.last != nil && o.last.Kind == kindIntent {
			return ErrCutOff
		}
		if _, err := m.recover(ctx, o, true); err != nil {
			return err
		}
		if err := x.checkTurns(t); err != nil {
			return err
		}
		if err := prepare(o); err != nil {
			return err
		}
		done, err = x.apply(ctx, o)
		return err
	})
	if err != nil || done == nil {
		if err == nil {
			return x.result, nil
		}
		return nil, err
	}
	x.result.Snapshot = done.Snapshot
	if x.newLeaf != nil && m.given != nil {
		if err := m.given.SetLeaf(*x.newLeaf); err != nil {
			return x.result, err
		}
		m.turnLeaf = ""
	}
	return x.result, x.log(context.WithoutCancel(ctx), done)
}

// closeCutOff closes a turn of the session that was cut off: it is a step, from
// which the restore goes back.
func (x *restore) closeCutOff(ctx context.Context) error {
	m := x.m
	t, _, err := m.readTurns()
	if err != nil || x.preview {
		return err
	}
	if own := t.of(m.opts.Session); own == nil || m.isOurs(own) || !errors.Is(m.notOurs(own), ErrNoTurn) {
		return nil
	}
	_, err = m.lookAnyway(ctx, m.turnOptions(), func(o *look) error {
		if err := m.begin(ctx, o); err != nil {
			return err
		}
		return m.closeCutOff(ctx, o)
	})
	return err
}

// checkTurns refuses a restore while a turn is open in the directory.
func (x *restore) checkTurns(t *turns) error {
	if x.force || x.preview {
		return nil
	}
	for _, o := range t.Open {
		open, err := x.m.isOpen(o)
		if err != nil {
			return err
		}
		if open {
			return fmt.Errorf("%w: of session %q", ErrTurnOpen, o.Session)
		}
	}
	return nil
}

// checkHead refuses a restore across a change of the commit that is checked
// out, unless that is wanted.
func (x *restore) checkHead(wanted bool) error {
	s := x.target.Snapshot
	if s == nil {
		return nil
	}
	head, err := x.m.project.Head()
	if err != nil {
		return err
	}
	if x.result.HeadChanged = s.Head != head; s.Head != head && !wanted {
		return fmt.Errorf("%w: %s then, %s now", ErrHeadChanged, shortHead(s.Head), shortHead(head))
	}
	return nil
}

func shortHead(h string) string {
	if h == "" {
		return "none"
	}
	return h[:min(len(h), 12)]
}

// disk finds out what is in the directory.
func (x *restore) disk(ctx context.Context) (store.State, tree.Getter, error) {
	overlay := tree.NewOverlay(x.m.store)
	r, err := x.m.engine.capture(ctx, x.m.tree, overlay, &tree.CaptureOptions{Limits: x.m.opts.Limits, Partial: true})
	if err != nil {
		return store.State{}, nil, err
	}
	return store.State{Tree: r.Tree, Coverage: r.Coverage}, overlay, nil
}

// differing counts what differs between a target and the disk.
func (x *restore) differing(ctx context.Context, target *Point) (n int, err error) {
	disk, g, err := x.disk(ctx)
	if err != nil {
		return 0, err
	}
	for d, err := range tree.Compare(ctx, g, target.State, disk) {
		if err != nil {
			return 0, err
		}
		if d.Status != tree.Captured && d.Status != tree.Uncaptured {
			n++
		}
	}
	return n, nil
}

// exact wants all that differs to be as at the target. What is there is
// expected, unless dirty files are to be looked at.
func (x *restore) exact(ctx context.Context, ws *wants, match func(string) bool, onDirty rollback.Policy) error {
	disk, g, err := x.disk(ctx)
	if err != nil {
		return err
	}
	if err := ws.exactly(disk, g, match, x.expressly); err != nil {
		return err
	}
	if onDirty == rollback.Skip || onDirty == rollback.Abort {
		for _, w := range ws.paths {
			w.known, w.Old = false, nil
		}
	}
	return nil
}

// aim notes where the files stand after the restore.
func (x *restore) aim(ctx context.Context, ws *wants, named bool) error {
	at := ws.target.at
	switch {
	case at == nil && ws.target.gone != nil:
		for _, r := range ws.target.gone {
			x.goes.without = append(x.goes.without, r.Seq)
		}
		slices.Sort(x.goes.without)
		slices.Reverse(x.goes.without)
		x.goes.leftFrom, x.goes.back = x.tip.Seq, ws.target.gone
		return nil
	case at == nil: // bytes of others: they are the user's from now on
		return nil
	}
	l := ws.standings.l
	to, err := l.recorded(ctx, at)
	if err != nil {
		return err
	}
	if x.goes.back, x.goes.forth, err = l.between(ctx, x.tip, at, "", nil); err != nil {
		return err
	}
	if !named {
		x.goes.to, x.goes.depth, x.goes.leftFrom = to, at.data.Depth, x.tip.Seq
		return nil
	}
	for i, r := range x.goes.back {
		if r.behind == nil {
			continue
		}
		if list, err := ws.standings.of(ctx, r.behind); err != nil {
			return err
		} else if len(list) == 0 { // so what goes is all of the turn
			whole := *r
			whole.behind, x.goes.back[i] = nil, &whole
		}
	}
	x.goes.tookFrom = to
	x.goes.pathsBack, x.goes.pathsForth, err = ws.standings.paths(ctx, x.tip, at)
	return err
}

// named wants what patterns stand for to be as at the target.
func (x *restore) named(ctx context.Context, ws *wants, opts *RestoreOptions) error {
	files, missing, found := !opts.Exact, "", false
	target := ws.target
	look := func(rel string) (bool, error) {
		if rel == "." {
			files, found = false, true
			return true, nil
		}
		then, err := ws.entry(target.State, rel, false)
		if err != nil {
			return false, err
		}
		now, err := x.entryOnDisk(ctx, rel)
		if err != nil {
			return false, err
		}
		switch there := then != nil || now != nil; {
		case !there && !isGlob(rel):
			missing = rel
			return false, nil
		case !there || then != nil && then.Mode.IsDir() || now != nil && now.Mode.IsDir():
			files, found = false, found || there
			return there, nil
		}
		w, _ := ws.path(rel)
		w.New, w.at, w.Created = then, target.State, true
		w.known = now == nil // it is named, so it is made
		return true, nil
	}
	match, err := x.m.matcher(opts.Paths, look)
	switch {
	case err != nil:
		return err
	case missing != "":
		return fmt.Errorf("path %q: %w, neither at the target nor in the directory", missing, ErrUnknown)
	case files && len(ws.paths) > 0:
		return nil
	}
	clear(ws.paths)
	policy := opts.OnDirty
	if !opts.Exact {
		policy = ""
	}
	if err := x.exact(ctx, ws, match, policy); err != nil {
		return err
	}
	if !found && len(ws.paths)+len(ws.notCaptured) == 0 { // of globs alone
		if is, err := ws.isAny(match); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("%q: %w: no path that is captured matches, neither at the target nor in the directory", opts.Paths, ErrUnknown)
		}
	}
	if opts.Exact {
		return nil
	}
	for _, w := range ws.paths {
		if w.Old != nil { // what is not there is made
			w.known, w.Old = false, nil
		}
	}
	return nil
}

func (x *restore) entryOnDisk(ctx context.Context, rel string) (*tree.Entry, error) {
	root, err := x.m.openRoot()
	if err != nil {
		return nil, err
	}
	e, err := root.Entry(ctx, rel, tree.NewOverlay(nil))
	return e, errors.Join(err, root.Close())
}

// apply plans, records what it is about to do, does it, and records what it
// did. It returns that record, nil if nothing was to be done.
func (x *restore) apply(ctx context.Context, o *look) (*record, error) {
	root, err := x.m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	plan, err := x.plan(ctx, root, o)
	if err != nil {
		return nil, err
	}
	gd := x.guardOf(ctx, x.m.tree.pages)
	if err := errors.Join(gd.check(plan), gd.listed(plan)); err != nil {
		return nil, err
	}
	defer func() { x.fill(plan) }()
	if x.preview || plan.Aborted {
		x.result.Aborted = plan.Aborted
		return nil, nil
	}
	if plan.Changes() {
		if err := plan.Save(ctx, root, o.w); err != nil {
			return nil, err
		}
	}
	if !plan.Changes() {
		if !x.always || x.newLeaf == nil && plan.Count(rollback.Skipped)+plan.Count(rollback.Failed) > 0 {
			return nil, nil
		}
		r, err := x.record(ctx, kindRestore, o.last.State(), plan)
		if err != nil {
			return nil, err
		}
		return r, x.m.commitAt(ctx, o, r, o.last.State())
	}
	planned, made := slices.Clone(plan.Items), slices.Clone(plan.Made)
	before, err := x.patched(ctx, o, o.last.State(), plan, false)
	if err != nil {
		return nil, err
	}
	after, err := x.patched(ctx, o, before, plan, true)
	if err != nil {
		return nil, err
	}
	intent, err := x.record(ctx, kindIntent, o.last.State(), plan)
	if err != nil {
		return nil, err
	}
	intent.data.ID = newRestoreID()
	intent.Also = []store.State{after}
	if len(o.windows) == 0 {
		diff, err := x.m.diff(ctx, o.last.State(), before)
		if err != nil {
			return nil, err
		}
		intent.data.Counts = diff.counts()
	}
	intent.data.Windows = o.windows
	if err := x.m.commitAt(ctx, o, intent, before); err != nil {
		return nil, err
	}
	if err := plan.Apply(ctx, root, x.m.store, intent.data.ID); err != nil {
		return nil, x.giveUp(ctx, o, intent, err)
	}
	sameDeeds := slices.EqualFunc(planned, plan.Items, func(a, b rollback.Item) bool { return a.Do == b.Do })
	if !sameDeeds || !slices.Equal(made, plan.Made) {
		after, err = x.patched(ctx, o, before, plan, true)
		if err != nil {
			return nil, err
		}
	}
	r, err := x.record(ctx, kindRestore, before, plan)
	if err != nil {
		return nil, err
	}
	r.data.ID = intent.data.ID
	r.data.Counts = countsOf(plan)
	x.result.PreRollbackTreeHash = before.Tree
	return r, x.m.commitAt(context.WithoutCancel(ctx), o, r, after)
}

// plan compares what is wanted with the disk.
func (x *restore) plan(ctx context.Context, root *rollback.Root, o *look) (*rollback.Plan, error) {
	if err := x.m.markForgotten(x.wants); err != nil {
		return nil, err
	}
	if !x.expressly {
		if err := x.m.markTakenOut(x.wants); err != nil {
			return nil, err
		}
	}
	for i := range x.wants {
		w := &x.wants[i]
		if seen, ok := x.agreed[w.Path]; ok {
			w.Old, w.Doubt = seen, ""
		}
	}
	return rollback.NewPlan(ctx, root, x.wants, &rollback.Options{Policy: x.policy, Moves: x.moves, Loose: x.loose(ctx, o)})
}

// openRoot opens the session's directory for a restore.
func (m *FileSnapshotManager) openRoot() (*rollback.Root, error) {
	dir, err := m.openDir(m.project.Root)
	if err != nil {
		return nil, err
	}
	return rollback.NewRoot(dir), nil
}

// isLeft reports whether an item is not done.
func isLeft(it rollback.Item) bool {
	return it.Do == rollback.Skipped || it.Do == rollback.Failed || it.Do == rollback.Kept
}

// note puts into a record where files stand after a plan.
func (x *restore) note(r *record, plan *rollback.Plan) {
	g, d := &x.goes, &r.data
	d.From, d.Prev, d.With, d.Without = g.from, g.to, slices.Clone(g.with), slices.Clone(g.without)
	left := make(map[string]bool)
	for _, p := range x.untouched {
		left[p] = true
	}
	done, skipped := make(map[string]bool), make(map[string]bool)
	for _, it := range plan.Items {
		switch {
		case isLeft(it):
			left[it.Path], skipped[it.Path] = true, true
		case it.Parent, x.undoes != nil && it.Do == rollback.Nothing && (left[it.Path] || g.apart[it.Path] != nil):
		default:
			done[it.Path] = true
			delete(left, it.Path)
		}
	}
	if g.leftFrom != 0 && g.tookFrom == 0 {
		g.keep(d, left, done)
	}
	d.Apart = g.apartBut(left, done)
	if x.undoes != nil { // what is as it is to be stays, and no undo has to go on with it
		if rest := pathBytes(left, skipped); len(rest) > 0 {
			d.Apart = append(d.Apart, apart{Paths: rest, From: g.leftFrom})
		}
		left = skipped
	}
	if g.leftFrom != 0 {
		d.Left = pathBytes(left, nil)
	}
	if g.tookFrom != 0 {
		for _, p := range g.along {
			done[p] = done[p] || !left[p]
		}
		maps.DeleteFunc(done, func(_ string, is bool) bool { return !is })
		d.Took = pathBytes(done, nil)
		g.settle(d, done)
	}
	if len(d.Left) > 0 {
		d.LeftFrom = g.leftFrom
	}
	if d.isJoint() {
		d.TookFrom = g.tookFrom
		d.Depth = max(0, g.depth+len(d.With)-len(d.Without))
	}
}

// pathBytes returns a set of paths, but for some, as records have it.
func pathBytes(set, but map[string]bool) (list pathList) {
	for _, p := range slices.Sorted(maps.Keys(set)) {
		if !but[p] {
			list = append(list, []byte(p))
		}
	}
	return list
}

// numbersOf returns the numbers of those turns that a list names.
func numbersOf(turns []*record, list []uint64) []int {
	return numbers(slices.DeleteFunc(slices.Clone(turns), func(r *record) bool { return !slices.Contains(list, r.Seq) }))
}

// goes says where files stand after a restore.
type goes struct {
	from, to uint64 // the position before it, and the one to which it goes
	depth    int    // of the latter

	// Paths that are left alone stand where they stood, at leftFrom; of a restore
	// of some paths only, those stand at tookFrom. 0: there are none.
	leftFrom, tookFrom uint64
	along              []string          // paths that stand at tookFrom then, too, though they need not be touched
	apart              map[string]*apart // paths that stand where no other position does, if they need not be touched

	with, without         []uint64                // the turns by which its line differs from that of to
	back, forth           []*record               // turns that go, and that come, on the line
	pathsBack, pathsForth map[string][]stepChange // at each path, of a restore of some paths
}

// apartBut returns what a record says of the paths that stand apart: neither left
// alone nor done. Those of which the same is to be said are told of together.
func (g *goes) apartBut(left, done map[string]bool) (list []apart) {
	for _, p := range slices.Sorted(maps.Keys(g.apart)) {
		a := g.apart[p]
		if left[p] || done[p] {
			continue
		}
		i := slices.IndexFunc(list, func(b apart) bool {
			return b.Known == a.Known && b.From == a.From && slices.Equal(b.With, a.With) && slices.Equal(b.Without, a.Without)
		})
		if i < 0 {
			i = len(list)
			list = append(list, *a)
		}
		list[i].Paths = append(list[i].Paths, []byte(p))
	}
	return list
}

// keep leaves the paths alone that a restore of some paths is not about, where turns
// go from the line: one of which something stays is still on it.
func (g *goes) keep(d *recordData, left, done map[string]bool) {
	stays := make(map[uint64]bool)
	for p, list := range g.pathsBack {
		if done[p] {
			continue
		}
		left[p] = true
		for _, sc := range list {
			stays[sc.r.Seq] = true
		}
	}
	for _, seq := range d.Without {
		if stays[seq] {
			d.With = append(d.With, seq)
		}
	}
}

// settle notes which turns are on the line after a restore of some paths: one of
// which nothing is in any more is not, one of which something comes is.
func (g *goes) settle(d *recordData, took map[string]bool) {
	if g.pathsBack == nil && g.pathsForth == nil {
		return
	}
	stays, comes := make(map[uint64]bool), make(map[uint64]bool)
	whole := make(map[uint64]*record) // turns of which all goes at a path
	for p, list := range g.pathsBack {
		for _, sc := range list {
			stays[sc.r.Seq] = stays[sc.r.Seq] || !took[p]
			if sc.r.behind == nil {
				whole[sc.r.Seq] = sc.r
			}
		}
	}
	for p, list := range g.pathsForth {
		for _, sc := range list {
			comes[sc.r.Seq] = comes[sc.r.Seq] || took[p]
		}
	}
	d.With, d.Without = nil, nil
	for _, r := range g.back {
		in, some := stays[r.Seq]
		for _, turn := range whole { // it may be on the line in part, and whole at the path
			if !some && r.data.Within != 0 && turn.endsAt(r) {
				in, some = stays[turn.Seq], true
			}
		}
		if some && !in && r.behind == nil {
			d.Without = append(d.Without, r.Seq)
		}
	}
	for _, r := range slices.Backward(g.forth) {
		if comes[r.Seq] {
			d.With = append(d.With, r.Seq)
		}
	}
}

// loose yields what was there and was left out when the directory was looked
// at last.
func (x *restore) loose(ctx context.Context, o *look) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for om, err := range tree.Coverage(ctx, x.m.store, o.last.Coverage) {
			if !yield(om.Path, err) || err != nil {
				return
			}
		}
	}
}

func newRestoreID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// countsOf returns how many paths a plan adds, modifies and deletes.
func countsOf(plan *rollback.Plan) (n [3]int) {
	for _, it := range plan.Items {
		switch {
		case it.Parent:
		case it.Do == rollback.Restore && it.Now == nil:
			n[0]++
		case it.Do == rollback.Restore:
			n[1]++
		case it.Do == rollback.Delete:
			n[2]++
		}
	}
	return n
}

// patched stores a state with what a plan changes in it: before it does, or after
// it has made its changes.
func (x *restore) patched(ctx context.Context, o *look, s store.State, plan *rollback.Plan, made bool) (store.State, error) {
	entry := func(it *rollback.Item) *tree.Entry { return it.Now }
	if made {
		entry = func(it *rollback.Item) *tree.Entry { return it.New }
	}
	var edits []tree.Edit
	for i := range plan.Items {
		it := &plan.Items[i]
		switch {
		case it.Do == rollback.Nothing && it.Now != nil && it.Now.Mode.IsDir(): // also where it is ignored
			edits = append(edits, tree.Edit{Path: it.Path, New: it.Now})
		case it.Do == rollback.Restore || it.Do == rollback.Delete:
			e := entry(it)
			if it.Do == rollback.Delete && e != it.Now {
				e = nil
			}
			// A directory that goes holds nothing but what the plan knows.
			goes := e == it.Now && (it.New == nil || !it.New.Mode.IsDir())
			edits = append(edits, tree.Edit{Path: it.Path, New: e, Bare: goes})
		}
	}
	edits = editMade(edits, plan, made)
	id, err := tree.Patch(ctx, x.m.tree.pages, o.w, s.Tree, edits)
	return store.State{Tree: id, Coverage: s.Coverage}, err
}

// record returns a record of the restore that builds on a state.
func (x *restore) record(ctx context.Context, kind string, base store.State, plan *rollback.Plan) (*record, error) {
	r := &record{Snapshot: &store.Snapshot{Kind: kind, Base: base}}
	r.Label = x.label
	r.data.Own = x.own
	r.data.OldLeaf, r.data.NewLeaf = x.oldLeaf, x.newLeaf
	r.data.Moves = movesOf(plan)
	if x.note(r, plan); plan != nil && !plan.Changes() && x.undoes == nil { // the conversation goes alone
		d := &r.data
		d.Pos, d.Depth = x.tip.Seq, 0
		d.stay()
	}
	if x.own && kind == kindRestore {
		var err error
		if r.Entry, err = x.m.newEntryID(ctx); err != nil {
			return nil, err
		}
	}
	if x.undoes != nil {
		r.data.Undoes = x.undoes.Seq
	}
	undo, redo := x.undo, x.redo
	if n := plan.Count(rollback.Skipped) + plan.Count(rollback.Failed); n > 0 && x.undoes != nil && x.policy != rollback.Overwrite { // that stays on its list
		if x.list == topsRedo {
			undo = x.again
		} else {
			redo = x.again
		}
	}
	r.data.Tops = x.list
	r.data.setBack(undo, redo)
	if x.list == "" {
		r.data.Tops = topsUndo
	}
	if r.data.Tops == topsUndo {
		r.data.Below = r.data.Undo
	} else {
		r.data.Below = r.data.Redo
	}
	return r, nil
}

// fill puts what a plan says into the result.
func (x *restore) fill(plan *rollback.Plan) {
	x.result.Moves, x.result.Made = plan.Moves, madeBy(plan)
	if plan.Changes() {
		x.result.TurnsTakenBack, x.result.TurnsPutBack = numbers(x.goes.back), numbers(x.goes.forth)
		if x.goes.pathsBack != nil { // of some paths only
			r := &record{Snapshot: new(store.Snapshot)}
			x.note(r, plan)
			x.result.TurnsTakenBack, x.result.TurnsPutBack = numbersOf(x.goes.back, r.data.Without), numbersOf(x.goes.forth, r.data.With)
		}
	}
	for _, it := range plan.Items {
		if it.Parent && it.Do != rollback.Failed && it.Do != rollback.Skipped {
			continue
		}
		if it.Dirty {
			x.result.Dirty = append(x.result.Dirty, it.Path)
		}
		var list *[]string
		switch it.Do {
		case rollback.Restore:
			list = &x.result.Restored
		case rollback.Delete:
			list = &x.result.Deleted
		case rollback.Skipped:
			list = &x.result.Skipped
			if w := x.expected[it.Path]; it.Dirty && w != nil && w.isKnown {
				if x.result.Expected == nil {
					x.result.Expected = make(map[string]Expected)
				}
				x.result.Expected[it.Path] = Expected{w.Old, w.after}
			}
		case rollback.Kept:
			list = &x.result.Kept
		case rollback.Failed:
			list = &x.result.Failed
		default:
			continue
		}
		*list = append(*list, it.Path)
		x.result.Items = append(x.result.Items, it)
	}
}

// giveUp changes back what a restore has changed that cannot go on.
func (x *restore) giveUp(ctx context.Context, o *look, intent *record, cause error) error {
	ctx = context.WithoutCancel(ctx)
	plan, err := x.m.finish(ctx, o, intent, false)
	if err != nil {
		return fmt.Errorf("%w; and it could not be changed back: %w; restore --continue or --abort goes on", cause, err)
	}
	for _, it := range plan.Items {
		if isLeft(it) {
			return fmt.Errorf("%w; all was changed back but %q (%s)", cause, it.Path, it.Why)
		}
	}
	return fmt.Errorf("%w; nothing was changed", cause)
}
