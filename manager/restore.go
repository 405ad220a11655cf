package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// RestoreOptions are the choices at [FileSnapshotManager.RestoreFiles].
type RestoreOptions struct {
	Target string // the moment to go to, as [FileSnapshotManager.Resolve] takes it

	// Paths are files, directories and globs that are to be as they were at
	// the target, whoever changed them. Default: what the session's turns have
	// changed between the target and now, and that only as far as they did.
	Paths []string

	// Exact restores all that differs from the target, whoever changed it.
	Exact bool

	// OnDirty says what becomes of files that are not as the session left
	// them last. Default: [rollback.Skip]; with Exact, which means the files
	// of others too, [rollback.Overwrite].
	OnDirty rollback.Policy

	Preview    bool // say what would be done, and do nothing
	Force      bool // also while a turn is open in the directory
	AcrossHead bool // also where the user's repository has another commit checked out than at the target

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

	Kept        []string `json:"kept,omitempty"`        // would have to be deleted, and may not be
	Failed      []string `json:"failed,omitempty"`      // could not be done
	NotCaptured []string `json:"notCaptured,omitempty"` // changed only in whether they are captured: their content is not known

	Items []rollback.Item `json:"items"` // of every path: what was done and why
	Moves []rollback.Move `json:"moves,omitempty"`

	EntryID             string          `json:"entryId,omitempty"`            // of the unrevert-point; "": none, or the runtime did not say
	PreRollbackTreeHash store.ID        `json:"preRollbackTreeHash,omitzero"` // zero: nothing was changed
	Preview             bool            `json:"preview,omitempty"`
	Aborted             bool            `json:"aborted,omitempty"`     // something is dirty, and the policy is to do nothing then
	Differing           int             `json:"differing,omitempty"`   // nothing to do, but so many files differ from the target: others changed them
	HeadChanged         bool            `json:"headChanged,omitempty"` // another commit is checked out than at the target
	Snapshot            *store.Snapshot `json:"-"`                     // what was recorded; nil: nothing
}

func newRestoreResult() *RestoreResult {
	return &RestoreResult{Restored: []string{}, Deleted: []string{}, Skipped: []string{}, Dirty: []string{}, Items: []rollback.Item{}}
}

// IsComplete reports whether all that was wanted has been done.
func (r *RestoreResult) IsComplete() bool {
	return !r.Aborted && len(r.Skipped)+len(r.Failed)+len(r.Kept)+len(r.NotCaptured) == 0 &&
		!slices.ContainsFunc(r.Moves, func(mv rollback.Move) bool { return mv.Why != "" })
}

// Errors of restores, to match with errors.Is.
var (
	// ErrHeadChanged: the user's repository has another commit checked out
	// than at the target.
	ErrHeadChanged = errors.New("another commit is checked out since")
	// ErrCutOff: a restore was cut off in the directory, and a preview does not
	// bring it to its end.
	ErrCutOff = errors.New("a restore was cut off")
	// ErrNothing: there is nothing to undo, or to redo.
	ErrNothing = errors.New("nothing to take back")
)

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
	switch policy {
	case "":
		if policy = rollback.Skip; opts.Exact {
			policy = rollback.Overwrite
		}
	case rollback.Skip, rollback.Overwrite, rollback.Abort:
	default:
		return nil, fmt.Errorf("policy %q: want skip, overwrite or abort", policy)
	}
	x := &restore{m: m, policy: policy, preview: opts.Preview, force: opts.Force, append: opts.Append, label: opts.Label}
	if nav != nil {
		x.label, x.oldLeaf, x.newLeaf, x.always = nav.Label, &nav.old, &nav.new, true
	}
	return x.run(ctx, func() error {
		var err error
		if x.target, err = m.resolve(ctx, opts.Target); err != nil {
			return err
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
		if head == nil || head.step() == 0 {
			return fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
		}
		tip, err := m.stepAt(ctx, head.position(), m.opts.Session)
		if err != nil {
			return err
		}
		last, err := m.lastRestore(ctx, head)
		if err != nil {
			return err
		}
		if x.leftFrom = tip.Seq; last != nil {
			if x.undo = last.undo(); len(last.data.Left) > 0 && last.data.Prev == tip.Seq {
				x.leftFrom = last.data.LeftFrom
				if len(opts.Paths) > 0 {
					x.left = last.data.Left
				}
			}
		}
		x.from, x.to = tip.Seq, tip.Seq
		ws := &wants{m: m, ctx: ctx, line: l, tip: tip, target: x.target, g: m.tree.pages, paths: make(map[string]*want), notCaptured: make(map[string]bool)}
		switch {
		case len(opts.Paths) > 0:
			err = x.named(ctx, ws, opts.Paths)
		case opts.Exact:
			err = x.exact(ctx, ws, func(string) bool { return true }, opts.OnDirty)
		default:
			err = ws.withLeft(last)
		}
		if err != nil {
			return err
		}
		if len(opts.Paths) == 0 {
			if x.to, err = x.position(ctx, l); err != nil {
				return err
			}
			if len(ws.paths) == 0 && !opts.Exact {
				if x.result.Differing, err = x.differing(ctx); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(ws.expect(), ws.addDirs(), ws.keep()); err != nil {
			return err
		}
		for p := range ws.notCaptured {
			if ws.paths[p] == nil {
				x.result.NotCaptured = append(x.result.NotCaptured, p)
			}
		}
		slices.Sort(x.result.NotCaptured)
		x.wants = ws.list()
		return nil
	})
}

// A restore is one while it runs.
type restore struct {
	m       *FileSnapshotManager
	policy  rollback.Policy
	preview bool
	force   bool
	append  EntryFunc
	own     bool // the unrevert-point goes to our own log

	target   *Point   // nil: of an undo
	from, to uint64   // where the files stand before it and after it
	at       uint64   // where the log stands
	left     [][]byte // what restores before did not get done, and this one is not about
	leftFrom uint64   // where the files stood before the first restore that did not get all done
	wants    []rollback.Want
	moves    []rollback.Move // that are known
	undoes   *record         // that it takes back
	list     string          // in which it comes next then: topsUndo or topsRedo
	undo     uint64          // the lists after it, without itself
	redo     uint64
	always   bool // it is recorded even if it changes nothing
	label    string
	oldLeaf  *string // of the log, if the conversation goes along; nil: it does not
	newLeaf  *string
	result   *RestoreResult
}

// run runs a restore: prepare finds out what it is to do, under the lock on the
// worktree's turns.
func (x *restore) run(ctx context.Context, prepare func() error) (*RestoreResult, error) {
	m := x.m
	if m.opts.Session == "" {
		return nil, errors.New("no session is named: see UseSession")
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
		if x.at, err = x.logTip(ctx); err != nil {
			return err
		}
		if x.preview && o.last != nil && o.last.Kind == kindIntent {
			return ErrCutOff
		}
		if _, err := m.recover(ctx, o, true); err != nil {
			return err
		}
		if err := x.checkTurns(t); err != nil {
			return err
		}
		if err := prepare(); err != nil {
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

// logTip returns the number of the step at which the log stands, 0 if there is
// no log.
func (x *restore) logTip(ctx context.Context) (uint64, error) {
	l, err := x.m.line(ctx)
	if err != nil || l.log == nil {
		return 0, err
	}
	tip, err := l.tip(ctx)
	if err != nil {
		return 0, err
	}
	return l.recorded(ctx, tip)
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

// position returns where the files stand after going to the target.
func (x *restore) position(ctx context.Context, l *line) (uint64, error) {
	r, err := x.m.stepOn(ctx, x.target)
	if errors.Is(err, ErrUnknown) { // a tree: the session stands where it stood
		return x.from, nil
	}
	if err != nil {
		return 0, err
	}
	return l.recorded(ctx, r)
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

// differing counts what differs between the target and the disk.
func (x *restore) differing(ctx context.Context) (n int, err error) {
	disk, g, err := x.disk(ctx)
	if err != nil {
		return 0, err
	}
	for d, err := range tree.Compare(ctx, g, x.target.State, disk) {
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
	if err := ws.exactly(disk, g, match); err != nil {
		return err
	}
	if onDirty == rollback.Skip || onDirty == rollback.Abort {
		for _, w := range ws.paths {
			w.known, w.Old = false, nil
		}
	}
	return nil
}

// named wants what patterns stand for to be as at the target.
func (x *restore) named(ctx context.Context, ws *wants, patterns []string) error {
	files, missing := true, ""
	look := func(rel string) (bool, error) {
		if rel == "." {
			files = false
			return true, nil
		}
		then, err := ws.entry(x.target.State, rel, false)
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
			files = false
			return there, nil
		}
		w, _ := ws.path(rel)
		w.New, w.at, w.Created = then, x.target.State, true
		return true, nil
	}
	match, err := x.m.matcher(patterns, look)
	switch {
	case err != nil:
		return err
	case missing != "":
		return fmt.Errorf("path %q: %w, neither at the target nor in the directory", missing, ErrUnknown)
	case files && len(ws.paths) > 0:
		return nil
	}
	clear(ws.paths)
	return x.exact(ctx, ws, match, rollback.Skip)
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
	if err := x.m.markForgotten(x.wants); err != nil {
		return nil, err
	}
	root, err := x.m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	plan, err := rollback.NewPlan(ctx, root, x.wants, &rollback.Options{Policy: x.policy, Moves: x.moves, Loose: x.loose(ctx, o)})
	if err != nil {
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
	before, err := x.patched(ctx, o, o.last.State(), plan, func(it *rollback.Item) *tree.Entry { return it.Now })
	if err != nil {
		return nil, err
	}
	after, err := x.patched(ctx, o, before, plan, func(it *rollback.Item) *tree.Entry { return it.New })
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
	planned := slices.Clone(plan.Items)
	if err := plan.Apply(ctx, root, x.m.store, intent.data.ID); err != nil {
		return nil, x.giveUp(ctx, o, intent, err)
	}
	if !slices.EqualFunc(planned, plan.Items, func(a, b rollback.Item) bool { return a.Do == b.Do }) {
		after, err = x.patched(ctx, o, before, plan, func(it *rollback.Item) *tree.Entry { return it.New })
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

// noteLeft puts into a record what a plan did not get done.
func (x *restore) noteLeft(r *record, plan *rollback.Plan) {
	if x.leftFrom == 0 {
		return
	}
	r.data.Left = slices.Clone(x.left)
	if x.undoes == nil {
		planned := make(map[string]bool)
		for _, it := range plan.Items {
			planned[it.Path] = true
		}
		r.data.Left = slices.DeleteFunc(r.data.Left, func(p []byte) bool { return planned[string(p)] })
		for _, it := range plan.Items {
			if isLeft(it) {
				r.data.Left = append(r.data.Left, []byte(it.Path))
			}
		}
	}
	if len(r.data.Left) > 0 {
		r.data.LeftFrom = x.leftFrom
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

// patched stores a state with what a plan changes in it.
func (x *restore) patched(ctx context.Context, o *look, s store.State, plan *rollback.Plan, entry func(*rollback.Item) *tree.Entry) (store.State, error) {
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
	id, err := tree.Patch(ctx, x.m.tree.pages, o.w, s.Tree, edits)
	return store.State{Tree: id, Coverage: s.Coverage}, err
}

// record returns a record of the restore that builds on a state.
func (x *restore) record(ctx context.Context, kind string, base store.State, plan *rollback.Plan) (*record, error) {
	r := &record{Snapshot: &store.Snapshot{Kind: kind, Base: base}}
	r.Label = x.label
	r.data.From, r.data.Prev, r.data.At, r.data.Own = x.from, x.to, x.at, x.own
	r.data.OldLeaf, r.data.NewLeaf = x.oldLeaf, x.newLeaf
	r.data.Moves = movesOf(plan)
	x.noteLeft(r, plan)
	if x.own && kind == kindRestore {
		var err error
		if r.Entry, err = x.m.newEntryID(ctx); err != nil {
			return nil, err
		}
	}
	if x.undoes != nil {
		r.data.Undoes = x.undoes.Seq
	}
	r.data.Undo, r.data.Redo, r.data.Tops = x.undo, x.redo, x.list
	if n := plan.Count(rollback.Skipped) + plan.Count(rollback.Failed); n > 0 && x.undoes != nil && x.policy != rollback.Overwrite { // that stays on its list
		if x.list == topsRedo {
			r.data.Undo = x.undoes.Seq
		} else {
			r.data.Redo = x.undoes.Seq
		}
	}
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
	x.result.Moves = plan.Moves
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
