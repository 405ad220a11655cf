package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A blaming finds out whose the lines of one file are: it goes back over the moments to see
// when the file was changed, and then forth over these versions.
type blaming struct {
	m         *FileSnapshotManager
	path, rev string
	opts      blame.Options

	newest *record // of the worktree
	epoch  uint64
	turns  []*history.OpenTurn
	to     uint64       // the record that is asked about
	isPast bool         // it is not the newest one
	head   string       // the commit that was checked out then
	now    *tree.Entry  // the file then; nil: it is only on the disk
	disk   *fileVersion // what is on the disk, if that is another
	onDisk *fileVersion // what is on the disk, if that is asked about

	kept      *blame.File
	stop      uint64            // the walk goes back to this record, whose version is kept; 0: to the first
	versions  []fileVersion     // newest first while they are looked for, then oldest first
	restores  int               // of versions
	holes     []*moments.Moment // of which it is not known what happened, newest first
	begin     fileVersion       // what it was where the walk has ended
	isAtStart bool              // the versions are all that there ever was, as far as is known

	origins []origin
	known   map[originKey]int
	lines   map[int]blame.Lines // of versions, as long as somebody needs them
	needed  map[int]int         // the last version that needs the lines of a version
	others  map[string]*blaming // other files from which lines have come, by path and record
	end     blame.Version
	isLost  bool // a version could not be read, or one of a file from which lines have come
}

// A fileVersion is what a file was from a moment on.
type fileVersion struct {
	mo    *moments.Moment
	path  string
	entry *tree.Entry // nil: it was not there, or was no file

	isNew     bool             // it was not there before
	unseen    bool             // before, it was there and not captured
	isUnknown bool             // what was there before cannot be read
	moved     *tree.Difference // of a restore that has made it: what was done to the path at which it was
	isKept    bool             // its lines are
	isDisk    bool             // it is what is on the disk now
	text      []byte
}

// An origin is where lines come from.
type origin struct {
	originKey
	owner *blame.Owner // nil: nobody has asked
}

type originKey struct {
	mo        *moments.Moment
	path      string
	isUnknown bool
}

// errRebuild: what is kept does not do.
var errRebuild = errors.New("what is kept of the file does not do")

// run finds out about the lines, from what is kept or else from the first look on.
func (b *blaming) run(ctx context.Context, kept *blame.File) error {
	b.kept, b.stop, b.versions, b.restores, b.holes, b.isAtStart = kept, 0, nil, 0, nil, false
	b.origins, b.known, b.isLost = nil, make(map[originKey]int), false
	b.lines, b.needed = make(map[int]blame.Lines), make(map[int]int)
	if kept != nil {
		b.stop = kept.Seq
		for i := range kept.Owners {
			b.origins = append(b.origins, origin{owner: &kept.Owners[i]})
		}
	}
	if err := b.walk(ctx); err != nil {
		return err
	}
	if err := b.attach(); err != nil {
		return err
	}
	return b.forth(ctx)
}

// walk finds the versions.
func (b *blaming) walk(ctx context.Context) error {
	w := &blameWalk{blaming: b, ctx: ctx, path: b.path, entry: b.now}
	if b.disk != nil {
		b.versions = append(b.versions, *b.disk)
	}
	if b.isAtStart = b.now == nil && !b.disk.unseen; b.isAtStart {
		return nil
	}
	for mo, err := range moments.Back(ctx, b.m.records, b.newest, 0, b.turns) {
		if err != nil {
			return err
		}
		if mo.Seq() > b.to {
			continue
		}
		if b.kept != nil && mo.Seq() <= b.stop {
			break
		}
		if b.kept != nil && b.turnsBack(mo) {
			return errRebuild
		}
		if mo.IsHole {
			b.holes = append(b.holes, mo)
		}
		goesOn, err := w.pass(mo)
		if err != nil {
			return err
		}
		if !goesOn {
			b.isAtStart = true
			break
		}
	}
	b.begin = fileVersion{path: w.path, entry: w.entry}
	return nil
}

// turnsBack reports whether a turn may have what was the user's when the lines were kept:
// one that nobody announced.
func (b *blaming) turnsBack(mo *moments.Moment) bool {
	r := mo.Record
	return r.Kind == history.KindStep && r.Facts.Since == 0 && r.Parent < b.kept.Seq &&
		slices.ContainsFunc(b.kept.Owners, func(o blame.Owner) bool {
			return o.Kind == string(moments.User) && o.Seq > r.Parent
		})
}

// A blameWalk follows a file back.
type blameWalk struct {
	*blaming
	ctx   context.Context
	path  string
	entry *tree.Entry     // the file after the moment that comes next; nil: it was not there
	lost  *moments.Moment // what was there before this one could not be read
}

// pass goes over a moment, and reports whether there is more to find.
func (w *blameWalk) pass(mo *moments.Moment) (goesOn bool, err error) {
	if mo.State.IsZero() || mo.From == mo.State {
		return true, nil
	}
	if mo.From.IsZero() { // the first that is known
		v := fileVersion{mo: mo, isNew: true}
		if w.lost != nil {
			v.mo, v.isUnknown = w.lost, true
		}
		if w.entry != nil {
			w.add(v)
		}
		return false, nil
	}
	old, err := trees.EntryAt(w.ctx, w.m.tree.pages, mo.From.Tree, w.path)
	if _, err := lost(err); err != nil {
		return false, err
	}
	if err != nil {
		if w.lost == nil {
			w.lost = mo
		}
		return true, nil
	}
	if !trees.IsFile(old) {
		old = nil
	}
	if w.lost != nil {
		mo, w.lost = w.lost, nil
		if !isSameFile(old, w.entry) {
			w.add(fileVersion{mo: mo, isUnknown: true})
			w.entry = old
		}
		return true, nil
	}
	switch {
	case isSameFile(old, w.entry):
	case old != nil:
		w.add(fileVersion{mo: mo})
		w.entry = old
	default:
		return w.made(mo)
	}
	return true, nil
}

func isSameFile(a, b *tree.Entry) bool {
	return a == nil && b == nil || a != nil && b != nil && a.ID == b.ID
}

// add adds a version.
func (w *blameWalk) add(v fileVersion) {
	v.path, v.entry = w.path, w.entry
	w.versions = append(w.versions, v)
	if v.mo.Kind == moments.Restore {
		if w.restores++; w.kept != nil { // it may bring what is in an older version that is kept
			w.stop = min(w.stop, w.kept.Versions[0].Seq-1)
		}
	}
}

// made goes over the moment in which the file came to be, or came to be captured, and
// reports whether there is more to find: where it was, or what a restore has brought back.
func (w *blameWalk) made(mo *moments.Moment) (goesOn bool, err error) {
	unseen, err := trees.IsOmitted(w.ctx, w.m.tree.pages, mo.From.Coverage, w.path)
	if err != nil {
		return false, err
	}
	if unseen {
		w.add(fileVersion{mo: mo, unseen: true})
		w.entry = nil
		return true, nil
	}
	from, err := w.movedFrom(mo)
	if err != nil {
		return false, err
	}
	if from == nil || mo.Kind == moments.Restore { // it may have been there before, as well
		w.add(fileVersion{mo: mo, isNew: true, moved: from})
		w.entry = nil
		return w.restores > 0, nil
	}
	w.add(fileVersion{mo: mo})
	w.path, w.entry = from.Path, from.Old
	return true, nil
}

// movedFrom returns what a moment did to the path at which the file was before, nil if it
// was nowhere.
func (w *blameWalk) movedFrom(mo *moments.Moment) (*tree.Difference, error) {
	if mo.Kind == moments.Restore {
		if from, err := w.recordedMove(mo); from != nil || err != nil {
			return from, err
		}
	}
	var diffs []tree.Difference
	for d, err := range trees.Compare(w.ctx, w.m.tree.pages, mo.From, mo.State) {
		if err != nil {
			return nil, err
		}
		if d.Status == tree.Deleted && trees.IsFile(d.Old) || d.Path == w.path && d.Status == tree.Added {
			diffs = append(diffs, d)
		}
	}
	read := filediff.InStore(w.m.store)
	pairs, _, err := trees.Renames(diffs, filediff.MaxText, func(d *tree.Difference, e *tree.Entry) ([]byte, error) {
		text, err := read(w.ctx, d.Path, e)
		if trees.IsLoss(err) { // it is like nothing else
			return nil, nil
		}
		return text, err
	})
	if err != nil || len(pairs) == 0 {
		return nil, err
	}
	return &diffs[pairs[0].From], nil
}

// recordedMove is movedFrom for a restore that says what it has made the file of: a merge may
// have left too little of that for it to be told by its content.
func (w *blameWalk) recordedMove(mo *moments.Moment) (*tree.Difference, error) {
	for _, mv := range mo.Record.Moves() {
		if mv.To != w.path {
			continue
		}
		old, err := trees.EntryAt(w.ctx, w.m.tree.pages, mo.From.Tree, mv.From)
		if err != nil || !trees.IsFile(old) {
			return nil, err
		}
		return &tree.Difference{Path: mv.From, Status: tree.Deleted, Old: old}, nil
	}
	return nil, nil
}

// attach puts what is kept in the place of the versions of which it is.
func (b *blaming) attach() error {
	slices.Reverse(b.versions)
	if b.kept == nil {
		return nil
	}
	byKey := make(map[string]*blame.Kept)
	key := func(seq uint64, path string, id store.ID) string { return fmt.Sprintln(seq, id, path) }
	for i := range b.kept.Versions {
		k := &b.kept.Versions[i]
		byKey[key(k.Seq, k.Path, k.Blob)] = k
	}
	attach := func(i int, k *blame.Kept) error {
		lines, ok := k.Lines(len(b.kept.Owners))
		if !ok {
			return errRebuild
		}
		b.lines[i], b.versions[i].isKept = lines, true
		return nil
	}
	for i := range b.versions {
		v := &b.versions[i]
		if v.mo.Seq() > b.kept.Seq || v.isDisk {
			continue
		}
		if v.entry == nil || byKey[key(v.mo.Seq(), v.path, v.entry.ID)] == nil {
			return errRebuild
		}
		if err := attach(i, byKey[key(v.mo.Seq(), v.path, v.entry.ID)]); err != nil {
			return err
		}
	}
	if b.isAtStart || len(b.versions) > 0 && b.versions[0].isKept {
		return nil
	}
	// The file as it was when the lines were kept.
	last := &b.kept.Versions[len(b.kept.Versions)-1]
	if b.stop != b.kept.Seq || b.begin.entry == nil || b.begin.entry.ID != last.Blob || b.begin.path != last.Path {
		return errRebuild
	}
	b.versions = slices.Insert(b.versions, 0, fileVersion{path: last.Path, entry: b.begin.entry})
	b.lines = make(map[int]blame.Lines)
	return attach(0, last)
}
