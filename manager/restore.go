package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// RestoreOptions are the choices at [FileSnapshotManager.RestoreFiles].
type RestoreOptions struct {
	// Target is the moment to go to, as [FileSnapshotManager.Resolve] takes it.
	Target string `json:"target"`

	// Paths are files, directories and globs that are to be as they were at
	// the target, whoever changed them. What git's sparse checkout has taken
	// out since is put back only with OnDirty Overwrite. Default: what the session's
	// turns have changed between the target and now, and that only as far as they did.
	Paths []string `json:"paths,omitempty"`

	// Exact restores all that differs from the target, whoever changed it; what is left out
	// of snapshots by now only if Paths name it.
	Exact bool `json:"exact,omitempty"`

	// OnDirty says what becomes of files that are not as the session left
	// them last. Default: that of [Options]; with Exact, which means the files
	// of others too, [rollback.Overwrite]. With Paths or Exact, files are restored whole:
	// [rollback.Merge] is [rollback.Skip] then.
	OnDirty rollback.Policy `json:"onDirty,omitempty"`

	// OnConflict says what becomes of what cannot be merged. Default:
	// [rollback.ConflictKeep].
	OnConflict rollback.OnConflict `json:"onConflict,omitempty"`

	// Hunks are IDs of pieces of changes, as [FileSnapshotManager.Hunks] lists them for
	// Restore: only these are taken back, of what turns did that the restore would take
	// back, by a merge. Of Paths, if there are any, then only those there. Nothing comes
	// back. A part of an ID, of 4 characters at least, will do.
	Hunks []string `json:"hunks,omitempty"`

	// Agreed is what somebody has seen at paths and agreed to lose: it is as good
	// there as what the session left. What is something else by now is dirty.
	Agreed map[string]*tree.Entry `json:"-"`

	Preview bool `json:"-"`               // say what would be done, and do nothing
	Force   bool `json:"force,omitempty"` // also while a turn is open in the directory

	// EndTurn ends the session's open turn first, unless its process is alive and holds
	// it, so that what it did can be taken back as a whole. A preview says what would be
	// done then, and has the turn go on: it divides it, see [Options].InTurn.
	EndTurn bool `json:"endTurn,omitempty"`

	// AcrossHead restores also where the user's repository has another commit
	// checked out than at the target.
	AcrossHead bool `json:"acrossHead,omitempty"`

	Label string `json:"-"` // of the record

	// Append appends the unrevert-point to the runtime's session log.
	// Default: it has an entry of ours.
	Append EntryFunc `json:"-"`
}

// UndoOptions are those of [FileSnapshotManager.Undo] and [FileSnapshotManager.Redo],
// where they are as in [RestoreOptions].
type UndoOptions struct {
	OnDirty rollback.Policy `json:"onDirty,omitempty"`
	Force   bool            `json:"force,omitempty"`
	EndTurn bool            `json:"endTurn,omitempty"`
	Preview bool            `json:"preview,omitempty"`

	// Past passes over restores of which only a part, or nothing, can be taken
	// back now. These stay next on the list.
	Past bool `json:"past,omitempty"`

	Label  string    `json:"-"`
	Append EntryFunc `json:"-"`
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

	Merged    []MergedFile `json:"merged,omitempty"`    // of Restored, those in which what others changed stays
	Conflicts []Conflict   `json:"conflicts,omitempty"` // what was to change and stays, with [rollback.Merge]

	Made        []string `json:"made,omitempty"`        // directories that were made for what was restored in them
	Kept        []string `json:"kept,omitempty"`        // would have to be deleted, and may not be
	Failed      []string `json:"failed,omitempty"`      // could not be done
	NotCaptured []string `json:"notCaptured,omitempty"` // changed only in whether they are captured

	Items []rollback.Item `json:"items"` // of every path: what was done and why
	Moves []rollback.Move `json:"moves,omitempty"`

	// numbers of the turns that it takes off the line, and not of those of which it takes back a part
	TurnsTakenBack []int `json:"turnsTakenBack,omitempty"`
	TurnsPutBack   []int `json:"turnsPutBack,omitempty"` // and of those that it puts on it again
	// of those that it was to take back the ones of which something is in still, if it is done and
	// something is in conflict; nil: that is not known
	TurnsLeft []int `json:"-"`

	Undoes *TakenBack  `json:"undoes,omitempty"` // the restore that it takes back
	Passed []TakenBack `json:"passed,omitempty"` // restores that it passed over: they stay next on the list

	EntryID             string          `json:"entryId,omitempty"`            // of the unrevert-point; "": not known
	PreRollbackTreeHash store.ID        `json:"preRollbackTreeHash,omitzero"` // zero: nothing was changed
	Preview             bool            `json:"preview,omitempty"`
	Aborted             bool            `json:"aborted,omitempty"`     // something is dirty, or in conflict, and Abort was asked for
	Differing           int             `json:"differing,omitempty"`   // nothing to do; files that others changed
	HeadChanged         bool            `json:"headChanged,omitempty"` // another commit was checked out then
	Snapshot            *store.Snapshot `json:"-"`                     // what was recorded; nil: nothing
	TakenBackBy         string          `json:"-"`                     // of FinishRestore: "undo", "redo", or "" for neither
}

// A MergedFile is a file in which a restore with [rollback.Merge] has taken back what
// turns did, and left what others changed.
type MergedFile struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"pathBytes,omitempty"` // if it is not UTF-8
	Hunks     int    `json:"hunks"`               // places in it that were changed; 0: its mode alone, or the whole of it

	// Was is another path of a file that was moved: where it was before the restore or, of
	// one that somebody else has moved, where the turns had changed it.
	Was      string `json:"was,omitempty"`
	WasBytes []byte `json:"wasBytes,omitempty"` // if it is not UTF-8
}

// A TakenBack is a restore that an undo or a redo takes back, or passes over.
type TakenBack struct {
	Session     string    `json:"session"`
	EntryID     string    `json:"entryId,omitempty"`
	SnapshotSeq uint64    `json:"snapshotSeq"` // number of its record
	Time        time.Time `json:"time"`
	Left        []string  `json:"left,omitempty"` // of one that is passed over: where it is still to be taken back
}

func newRestoreResult() *RestoreResult {
	none := []string{} // and not null in JSON
	return &RestoreResult{Restored: none, Deleted: none, Skipped: none, Dirty: none, Items: []rollback.Item{}}
}

// IsComplete reports whether all that was wanted has been done.
func (r *RestoreResult) IsComplete() bool {
	return !r.Aborted && len(r.Conflicts)+len(r.Skipped)+len(r.Failed)+len(r.Kept)+len(r.NotCaptured) == 0 &&
		!slices.ContainsFunc(r.Moves, func(mv rollback.Move) bool { return mv.Why != "" })
}

// RestoreFiles brings files of the directory back to what they were at a
// moment of the session. What it overwrites or deletes is in the store before,
// so that Undo brings it back. Files that are not named and that no turn of the
// session has changed are not touched.
//
// Errors are those of [FileSnapshotManager.Resolve], [ErrTurnOpen] while a turn
// is open in the directory that [Options] do not divide, [ErrHeadChanged], [ErrCutOff], and
// those of reading and writing.
// After one of writing the files that were changed have been changed back, as
// far as that could be done; the error says if not. An error of Append is
// returned together with a result.
func (m *FileSnapshotManager) RestoreFiles(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	opts = cmp.Or(opts, new(RestoreOptions))
	what := fmt.Sprintf("restore %q", opts.Target)
	return restoring(ctx, m, what, func(ctx context.Context) (*RestoreResult, error) {
		return m.restoreFiles(ctx, opts, nil)
	})
}

// restoreFiles is RestoreFiles for who holds mu. nav is the navigation that it
// is part of, nil if it is none.
func (m *FileSnapshotManager) restoreFiles(
	ctx context.Context, opts *RestoreOptions, nav *navigation,
) (*RestoreResult, error) {
	x := &restore{m: m, asked: asked{opts: *opts}}
	if x.opts.OnDirty == "" && opts.Exact {
		x.opts.OnDirty = rollback.Overwrite
	}
	x.expressly = len(opts.Paths) > 0 && x.opts.OnDirty == rollback.Overwrite
	if nav != nil {
		x.oldLeaf, x.newLeaf, x.always = &nav.old, &nav.new, true
	}
	return x.run(ctx, func() error { return x.findOut(ctx) })
}

// A restore is one while it runs, or an undo, or a revert: what was asked, where things are
// before it, what is to be done, and what comes of that.
type restore struct {
	m *FileSnapshotManager
	asked

	o    *look
	root *livedir.Root // the session's directory
	tip  *record       // where the files stand before it
	aim
	mergeTexts

	intent *record // what it is about to do
	done   *record // what it did
	result *RestoreResult
	undo   history.BackList // the lists after it, without itself
	redo   history.BackList
	again  history.BackList // the list that it is taken from, if it stays on that
}

// An asked is what somebody wants of a restore.
type asked struct {
	opts    RestoreOptions // of an undo, or a revert, those that it has
	named   []*record      // records by which these were named
	reverts []int          // numbers of the turns that it takes back by name; nil: it goes to a moment
	list    string         // in which it comes next then: history.TopsUndo or history.TopsRedo

	// What git has taken out, or is left out by now, is put back, too: files are named
	// that are to be as they were, whoever has changed them.
	expressly bool
	always    bool // it is recorded even if it changes nothing

	oldLeaf *string // of the log, if the conversation goes along; nil: it does not
	newLeaf *string
}

// mergeTexts are what merges have made, and know.
type mergeTexts struct {
	merged map[store.ID]bool // texts that were merged, which the guard has looked at
	mr     *merging.Merger   // of its paths: see merger
	hunks  map[string]int    // how many places were changed in each file that was merged
	marked map[string][]int  // files in which restores have left markers, with their signs; nil: not known yet
}

// An aim is what a restore is to do, and where the session's files stand then.
type aim struct {
	target *Point  // nil: of an undo, or of turns that have names
	undoes *record // the restore that it takes back
	undone *undone // which finds out about it

	standings *standing.Paths  // nil: of an undo
	expected  map[string]*want // what is known of the paths of wants; nil: of an undo

	// The changes that are to take back at each path, newest first, and those to do
	// then, oldest first; nil: of an undo of which nothing is to be merged, and where paths are
	// to be as at the target.
	back, forth map[string][]standing.StepChange

	wants []livedir.Want
	moves []rollback.Move // that are known
	goes  goes
	whole bool // paths are to be as the target has them, whoever changed them

	about       []*record          // turns whose changes go or come
	carried     map[string]string  // where changes that go have moved what somebody had changed, and from where
	stay        []*record          // turns, and joints, that have left what is there then
	hidden      map[string]*record // paths that a turn which stays has deleted, and is left so: that turn
	untouched   []string           // paths that it is about and does not touch, since their content is not known
	notCaptured []string           // those of them that no other path's sake touches
	differing   int                // files that differ from the target, if none of them is wanted

	merges
}

// Merges are what comes of the dirty files of a plan.
type merges struct {
	clashes map[string]*clash           // what could not be merged, by path
	parted  map[string]*merging.Partial // paths at which something stays that was to go, or to come
	// files that somebody has moved, and the paths at which changes that go or come are
	moved    map[string]string
	gaveUp   map[string]bool // files in which what others changed was given up for that
	replaced map[string]bool // files that become what is wanted whole, whatever others changed in them
}

// isOwn reports whether the unrevert-point has an entry of ours.
func (x *restore) isOwn() bool { return x.opts.Append == nil }

// run runs a restore: prepare finds out what it is to do, under the lock on the
// worktree's turns.
func (x *restore) run(ctx context.Context, prepare func() error) (*RestoreResult, error) {
	m := x.m
	if m.opts.Session == "" {
		return nil, errors.New("no session is named: see Options.Session")
	}
	if _, err := x.opts.OnDirty.MarshalText(); err != nil {
		return nil, err
	}
	if _, err := x.opts.OnConflict.MarshalText(); err != nil {
		return nil, err
	}
	if len(x.opts.Hunks) > 0 {
		if cmp.Or(x.opts.OnDirty, rollback.Merge) != rollback.Merge || x.opts.Exact {
			return nil, errors.New("hunks are taken back by a merge, and files that others changed are not left out")
		}
		x.opts.OnDirty = rollback.Merge
	}
	x.opts.OnDirty = cmp.Or(x.opts.OnDirty, m.opts.OnDirty, rollback.Skip)
	if !x.opts.Preview {
		m.store.MakeRoom(false)
		defer m.store.KeepBallast()
	}
	x.result = newRestoreResult()
	x.result.Preview = x.opts.Preview
	if x.opts.EndTurn {
		m.mayEnd = true
		defer func() { m.mayEnd = false }()
	}
	if m.opts.InTurn || x.opts.EndTurn && x.opts.Preview {
		if err := x.runInTurn(ctx, prepare); err != nil {
			return nil, err
		}
	} else {
		err := x.closeCutOff(ctx)
		if err == nil && x.opts.EndTurn {
			err = x.endTurn(ctx)
		}
		if err == nil {
			err = m.withLook(ctx, func(o *look) error { return x.runLocked(ctx, o, prepare) })
		}
		if err != nil {
			return nil, err
		}
	}
	if x.done == nil {
		if r := x.result; x.reverts != nil && !r.Aborted && len(r.Items)+len(r.NotCaptured)+len(r.Moves) == 0 {
			return nil, fmt.Errorf("%w: the files hold nothing of %s any more", ErrNothing, turnsText(x.reverts))
		}
		return x.result, nil
	}
	x.result.Snapshot = x.done.Snapshot
	x.nameLeft(ctx)
	if x.newLeaf != nil && m.given != nil {
		if err := m.given.SetLeaf(*x.newLeaf); err != nil {
			return x.result, err
		}
		m.turnLeaf = ""
	}
	return x.result, x.log(context.WithoutCancel(ctx), x.done)
}

// runLocked is run for who holds the lock.
func (x *restore) runLocked(ctx context.Context, o *look, prepare func() error) (err error) {
	if x.opts.Preview && o.last != nil && o.last.Kind == history.KindIntent {
		return ErrCutOff
	}
	if _, err := x.m.recover(ctx, o, change.Forward); err != nil {
		return err
	}
	x.o = o
	if err := x.checkTurns(o.turns); err != nil {
		return err
	}
	if x.root, err = x.m.openRoot(); err != nil {
		return err
	}
	defer x.root.Close()
	if err := prepare(); err != nil {
		return err
	}
	return x.apply(ctx)
}

// closeCutOff closes a turn of the session that was cut off: it is a step, from
// which the restore goes back. A preview closes it, too, or it would say of what was done
// in it that it is somebody else's, and count one turn less.
func (x *restore) closeCutOff(ctx context.Context) (err error) {
	m := x.m
	t, _, err := m.readTurns()
	if err != nil {
		return err
	}
	if own := t.Of(m.opts.Session); own == nil || m.isOurs(own) || !errors.Is(m.notOurs(own), ErrNoTurn) {
		return nil
	}
	o, err := m.lookKeeping(ctx, m.turnOptions(), 0) // a restore may take the last bytes there are
	if err != nil {
		return err
	}
	defer func() { o.end(ctx, &err) }()
	if err := m.begin(ctx, o); err != nil {
		return err
	}
	return m.closeCutOff(ctx, o)
}

// endTurn ends the session's open turn, if there is one that the manager may end.
func (x *restore) endTurn(ctx context.Context) error {
	m := x.m
	t, _, err := m.readTurns()
	if err != nil {
		return err
	}
	if own := t.Of(m.opts.Session); own == nil || !m.isOurs(own) {
		return nil
	}
	r, err := m.endTurn(ctx, m.turnOptions(), x.isOwn(), nil)
	if err == nil && x.isOwn() {
		err = m.nameUntold(ctx, r.head)
	}
	if err != nil {
		err = fmt.Errorf("end the open turn: %w", err)
	}
	return err
}

// checkTurns refuses a restore while a turn is open in the directory.
func (x *restore) checkTurns(t *history.Turns) error {
	if x.opts.Force || x.opts.Preview {
		return nil
	}
	for _, o := range t.Open {
		if o == x.o.divisible() {
			continue
		}
		open, err := x.m.isOpen(o)
		if err != nil {
			return err
		}
		if open {
			return openError(o)
		}
	}
	return nil
}

// apply plans the restore and carries it out. If anything is on record of it then, done
// is that.
func (x *restore) apply(ctx context.Context) error {
	plan, err := x.plan(ctx)
	if err != nil {
		return err
	}
	gd := x.guardOf(ctx, x.m.tree.pages)
	if err := errors.Join(gd.check(plan), gd.listed(plan)); err != nil {
		return err
	}
	back, berr := x.m.own(ctx, x.goes.back)
	forth, ferr := x.m.own(ctx, x.goes.forth)
	if err := errors.Join(berr, ferr); err != nil {
		return err
	}
	defer func() { x.fill(plan, back, forth) }()
	if x.opts.Preview || plan.Aborted {
		x.result.Aborted = plan.Aborted
		return nil
	}
	c := x.m.newChange(x.root, x.o.w, x)
	c.ID, c.Plan, c.Base, c.IfCut = layout.RandomName(), plan, x.o.last.State(), change.Forward
	changed, err := c.Do(ctx)
	switch {
	case err != nil:
		return err
	case changed:
		x.result.PreRollbackTreeHash = c.Before.Tree
		return nil
	case !x.always || x.newLeaf == nil && plan.Count(rollback.Skipped)+plan.Count(rollback.Failed) > 0:
		return nil
	}
	c.ID, c.Before, c.After = "", c.Base, c.Base
	return x.Done(ctx, c)
}

// newChange returns a change of the session's directory. What goes by it is made sure of in the store.
func (m *FileSnapshotManager) newChange(root *livedir.Root, w *cas.Writer, records change.Records) *change.Change {
	w.MakeSure()
	return &change.Change{Root: root, Blobs: m.store, Pages: m.tree.pages, Writer: w, Records: records, Log: m.log}
}

// plan compares what is wanted with the disk.
func (x *restore) plan(ctx context.Context) (*livedir.Plan, error) {
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
		if seen, ok := x.opts.Agreed[w.Path]; ok {
			w.Old, w.Doubt = seen, ""
		}
	}
	opts := &livedir.Options{Policy: x.opts.OnDirty, Moves: x.moves, Loose: x.loose(ctx)}
	if err := x.m.wantContents(ctx, x.wants); err != nil { // all that is absent, before anything is changed
		return nil, err
	}
	plan, err := x.newPlan(ctx, &x.aim, opts)
	if err == nil {
		err = anyAbsent(ctx) // some may be what a merge, or a comparison, went without
	}
	if err != nil {
		return nil, err
	}
	x.result.Conflicts = nil
	for i := range plan.Items {
		if c := x.conflictAt(&plan.Items[i]); c != nil {
			x.result.Conflicts = append(x.result.Conflicts, *c)
		}
	}
	if len(x.result.Conflicts) > 0 && x.opts.OnConflict == rollback.ConflictAbort {
		plan.Stop("something else is in conflict, and then nothing is to be done")
	}
	return plan, nil
}

// openRoot opens the session's directory for a restore.
func (m *FileSnapshotManager) openRoot() (*livedir.Root, error) {
	dir, err := m.openDir(m.project.Root)
	if err != nil {
		return nil, err
	}
	return livedir.NewRoot(dir), nil
}

// loose yields what was there and was left out when the directory was looked
// at last.
func (x *restore) loose(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for om, err := range trees.Coverage(ctx, x.m.store, x.o.last.Coverage) {
			if !yield(om.Path, err) || err != nil {
				return
			}
		}
	}
}

// fill puts what a plan says into the result, and the turns of the session that it takes off the line,
// or puts on it.
func (x *restore) fill(plan *livedir.Plan, back, forth []*record) {
	x.result.Moves, x.result.Made = plan.Moves, madeBy(plan)
	isPart := func(r *record) bool { return r.Behind != nil } // to or from the middle of a turn: the rest is in
	back, forth = slices.DeleteFunc(slices.Clone(back), isPart), slices.DeleteFunc(slices.Clone(forth), isPart)
	if plan.Changes() {
		x.result.TurnsTakenBack, x.result.TurnsPutBack = numbers(back), numbers(forth)
		if x.goes.pathsBack != nil { // of some paths only
			var d history.Facts
			x.note(&d, plan)
			x.result.TurnsTakenBack = numbersOf(back, d.Without)
			x.result.TurnsPutBack = numbersOf(forth, d.With)
		}
	}
	for _, it := range plan.Items {
		isInWay := it.Now != nil && !it.Now.Mode.IsDir() // of a directory that is made
		if it.Parent && !isInWay && it.Do != rollback.Failed && it.Do != rollback.Skipped {
			continue
		}
		if it.Dirty {
			x.result.Dirty = append(x.result.Dirty, it.Path)
		}
		w := x.expected[it.Path]
		if w != nil && w.behind != "" && (it.Do == rollback.Restore || it.Do == rollback.Delete) {
			it.Note = strings.TrimSuffix(w.behind+"; "+it.Note, "; ")
		}
		var list *[]string
		switch it.Do {
		case rollback.Restore:
			list = &x.result.Restored
			if it.Parent {
				it.Note = strings.TrimSuffix(inPlaceOf(it.Now)+"; "+it.Note, "; ")
			}
			if it.Merged = it.Merged && !x.replaced[it.Path]; it.Merged {
				was := cmp.Or(it.From, x.moved[it.Path])
				x.result.Merged = append(x.result.Merged, MergedFile{Path: it.Path, Hunks: x.hunks[it.Path], Was: was,
					PathBytes: words.BytesUnlessText(it.Path), WasBytes: words.BytesUnlessText(was)})
			}
		case rollback.Delete:
			list = &x.result.Deleted
		case rollback.Skipped:
			list = &x.result.Skipped
			if it.Dirty && w != nil && w.isKnown {
				it.Left, it.LeftBy = w.Old, &w.after
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

// inPlaceOf says what goes where a directory is made.
func inPlaceOf(now *tree.Entry) string {
	if now.Mode.Kind() == tree.ModeSymlink {
		return "in place of a symbolic link"
	}
	return "in place of a file"
}
