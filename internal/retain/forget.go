package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// ForgetOptions say which contents are to go from all snapshots of a store, of
// all its directories and sessions.
type ForgetOptions struct {
	// Paths are files, links, and directories with all below them, relative to the
	// root: whatever a snapshot has there, in all states that it keeps.
	Paths []string
	// Blobs are contents by their hash.
	Blobs []store.ID
	// Prompts are what turns were for, of the Session or, if that is "", of all.
	Prompts bool
	Session string
	// DespiteDamage, Wait, Alone: see [Retention].
	DespiteDamage bool
	Wait          time.Duration
	Alone         bool
}

// A ForgetPlan is what [ForgetPlan.Do] will do. It is of use until somebody else
// prunes.
type ForgetPlan struct {
	*cas.PrunePlan
	Blobs    []ForgottenBlob // by their first path
	Problems []trees.Problem // what is missing or damaged: nothing is forgotten before a repair

	s      *cas.Store
	opts   *ForgetOptions
	caches []string // stat caches that hold the content
	open   bool     // an open turn has a prompt
}

// Empty reports whether there is nothing to do.
func (p *ForgetPlan) Empty() bool { return p.PrunePlan.Empty() && !p.open }

// A ForgottenBlob is a content that goes.
type ForgottenBlob struct {
	ID        store.ID
	Size      int64    // 0 if no snapshot has it
	Paths     []string // all at which a snapshot has it, in order
	Turns     int      // that it says what they were for
	Snapshots int      // that have it
}

// PlanForget finds out what there is to forget. It writes nothing. The error
// matches [history.ErrUnknown] if no snapshot has anything at a path, or the store has no
// such content, and [ErrNothingToForget].
//
// The same content elsewhere is forgotten, too. A large file is stored in pieces: a piece
// that is also one of another file stays, since that file needs it.
func PlanForget(ctx context.Context, s *cas.Store, opts *ForgetOptions) (*ForgetPlan, error) {
	p, err := planForget(ctx, s, opts)
	if err != nil {
		return nil, fmt.Errorf("forget: %w", err)
	}
	return p, nil
}

func planForget(ctx context.Context, s *cas.Store, opts *ForgetOptions) (*ForgetPlan, error) {
	ids, err := blobsToForget(ctx, s, opts)
	if err != nil {
		return nil, err
	}
	p := &ForgetPlan{s: s, opts: opts}
	if opts.Prompts {
		if p.open, err = history.ForgetTitles(ctx, s, opts.Session, false); err != nil {
			return nil, err
		}
		if len(ids) == 0 && !p.open {
			return nil, fmt.Errorf("no turn has a prompt on record: %w", ErrNothingToForget)
		}
	}
	if err := p.find(ctx, ids); err != nil {
		return nil, err
	}
	for _, b := range p.Blobs {
		there, err := s.Has(b.ID)
		if err == nil && !there && len(b.Paths)+b.Turns == 0 {
			there, err = s.Forgotten(b.ID)
		}
		if err != nil {
			return nil, err
		}
		if !there && len(b.Paths)+b.Turns == 0 {
			return nil, fmt.Errorf("blob %s: %w", b.ID, history.ErrUnknown)
		}
	}
	progress.Of(ctx).Begin(progress.Phase{Name: "marking", Unit: "snapshot"})
	marker := audit.NewMarker(s)
	p.PrunePlan, err = s.PlanPrune(ctx, &cas.PruneOptions{Forget: ids, Wait: opts.Wait, Alone: opts.Alone,
		Mark: markSound(marker, func() bool { return p.PrunePlan == nil || opts.DespiteDamage })})
	if err == nil {
		p.Problems, err = problemsOf(ctx, s, marker)
	}
	return p, err
}

// Do does what the plan says. It cannot be taken back. Errors are those of
// [PrunePlan.Do], which leave all as it was, or a [*ForgetError]: it can be planned
// again then, and done.
func (p *ForgetPlan) Do(ctx context.Context) (*cas.PruneResult, error) {
	if len(p.Problems) > 0 && !p.opts.DespiteDamage {
		return nil, fmt.Errorf("forget: %w", damagedBy(p.Problems[0]))
	}
	// Before, so that they are gone if this is cut off; after it, as somebody may
	// have written them meanwhile.
	err := p.removeCaches(ctx)
	var r *cas.PruneResult
	if err == nil {
		r, err = p.s.Prune(ctx, p.PrunePlan)
	}
	if err == nil {
		err = p.removeCaches(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("forget: %w", p.notDone(err))
	}
	return r, nil
}

// notDone returns the error with which a forget ends.
func (p *ForgetPlan) notDone(err error) error {
	if errors.Is(err, cas.ErrBusy) || errors.Is(err, cas.ErrPlanStale) {
		return err
	}
	e := &ForgetError{All: len(p.Blobs), Err: err}
	for _, b := range p.Blobs {
		if there, herr := p.s.Has(b.ID); there || herr != nil {
			e.Left++
		}
	}
	return e
}

func (p *ForgetPlan) removeCaches(ctx context.Context) error {
	if p.opts.Prompts {
		if _, err := history.ForgetTitles(ctx, p.s, p.opts.Session, true); err != nil {
			return err
		}
	}
	if err := blame.Remove(ctx, p.s.FS()); err != nil { // it has prompts, and what lines were alike
		return err
	}
	for _, name := range p.caches {
		if err := p.s.FS().Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// blobsToForget finds the contents that are meant.
func blobsToForget(ctx context.Context, s *cas.Store, opts *ForgetOptions) (map[store.ID]bool, error) {
	f := &forgotten{
		s: s, opts: opts, finder: audit.NewFinder(s, nil), done: make(map[store.ID]bool),
		ids: make(map[store.ID]bool), before: make(map[store.ID]bool), found: make(map[string]bool),
	}
	if err := f.addBlobs(); err != nil {
		return nil, err
	}
	reading := progress.Of(ctx)
	reading.Begin(progress.Phase{Name: "searching", Unit: "snapshot"})
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		reading.Count(1, 0)
		if err := f.addPrompt(snap); err != nil {
			return nil, err
		}
		if err := f.addPaths(ctx, snap); err != nil {
			return nil, err
		}
	}
	for _, path := range opts.Paths {
		if !f.found[path] {
			return nil, fmt.Errorf("path %q: %w: no snapshot has anything there", path, history.ErrUnknown)
		}
	}
	if len(f.ids) == 0 { // which is so already, and no mistake
		f.ids = f.before
	}
	if len(f.ids) == 0 && len(opts.Paths) > 0 {
		return nil, fmt.Errorf("path %q: it has no content, in no snapshot: %w", opts.Paths[0], ErrNothingToForget)
	}
	return f.ids, nil
}

// forgotten gathers the contents that ForgetOptions mean.
type forgotten struct {
	s      *cas.Store
	opts   *ForgetOptions
	finder *audit.Finder
	done   map[store.ID]bool // directories that were looked into
	ids    map[store.ID]bool // what is meant
	before map[store.ID]bool // prompts that were forgotten before
	found  map[string]bool   // paths that some snapshot has
}

var emptyBlob = object.Hash(object.Blob, nil)

// addBlobs adds those that are named by their IDs.
func (f *forgotten) addBlobs() error {
	for _, id := range f.opts.Blobs {
		if id == emptyBlob {
			return fmt.Errorf("blob %s: it is the content of empty files: %w", id.Short(), ErrNothingToForget)
		}
		if there, err := f.s.Has(id); err != nil {
			return err
		} else if _, err := f.s.Stored(object.Blob, id); there && errors.Is(err, store.ErrCorrupt) {
			return fmt.Errorf("blob %s: %w: it is a directory's, and no file's content", id, history.ErrUnknown)
		}
		f.ids[id] = true
	}
	return nil
}

// addPrompt adds a snapshot's prompt, if prompts of its session are meant.
func (f *forgotten) addPrompt(snap *store.Snapshot) error {
	if !f.opts.Prompts || snap.Note.IsZero() || snap.Pruned || f.opts.Session != "" && f.opts.Session != snap.Session {
		return nil
	}
	there, herr := f.s.Has(snap.Note)
	gone, err := f.s.Forgotten(snap.Note)
	if err := errors.Join(herr, err); err != nil {
		return err
	}
	if gone && !there {
		f.before[snap.Note] = true
	} else {
		f.ids[snap.Note] = true
	}
	return nil
}

// addPaths adds what a snapshot has at the paths that are named.
func (f *forgotten) addPaths(ctx context.Context, snap *store.Snapshot) error {
	for _, state := range object.States(snap) {
		if f.done[state.Tree] || len(f.opts.Paths) == 0 {
			continue
		}
		f.done[state.Tree] = true
		for _, path := range f.opts.Paths {
			list, err := f.finder.At(ctx, state.Tree, path)
			if err != nil {
				return err
			}
			for _, e := range list {
				f.found[path] = true
				if e.ID != emptyBlob {
					f.ids[e.ID] = true
				}
			}
		}
	}
	return nil
}

// find finds out where the blobs are.
func (p *ForgetPlan) find(ctx context.Context, ids map[store.ID]bool) error {
	finder := audit.NewFinder(p.s, ids)
	sizes := make(map[store.ID]int64)
	paths := make(map[store.ID]map[string]bool)
	snapshots, turns := make(map[store.ID]int), make(map[store.ID]int)
	reading := progress.Of(ctx)
	reading.Begin(progress.Phase{Name: "searching", Unit: "snapshot"})
	for snap, err := range p.s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		reading.Count(1, 0)
		has := make(map[store.ID]bool)
		if ids[snap.Note] && !snap.Pruned {
			turns[snap.Note]++
			snapshots[snap.Note]++
			has[snap.Note] = true
		}
		for _, state := range object.States(snap) {
			list, err := finder.Find(ctx, state.Tree)
			if err != nil {
				return err
			}
			for _, e := range list {
				if !has[e.ID] {
					has[e.ID] = true
					snapshots[e.ID]++
				}
				if paths[e.ID] == nil {
					paths[e.ID] = make(map[string]bool)
				}
				paths[e.ID][e.Path] = true
				sizes[e.ID] = e.Size
				if name := pathpkg.Base(e.Path); name == ".gitignore" || name == ".booignore" { // a cache has its text
					p.addCache(strings.TrimSuffix(snap.Worktree, history.EditSuffix))
				}
			}
		}
	}
	for id := range ids {
		p.Blobs = append(p.Blobs, ForgottenBlob{id, sizes[id], slices.Sorted(maps.Keys(paths[id])), turns[id],
			snapshots[id]})
	}
	slices.SortFunc(p.Blobs, func(a, b ForgottenBlob) int {
		return cmp.Or(slices.Compare(a.Paths, b.Paths), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return nil
}

func (p *ForgetPlan) addCache(worktree string) {
	if name := layout.Worktree(worktree).Cache(); !slices.Contains(p.caches, name) {
		p.caches = append(p.caches, name)
	}
}
