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

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/pickaxe"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// FindOptions say what [FileSnapshotManager.Find] looks for, and where.
type FindOptions struct {
	Text string `json:"text"`

	Regexp     bool `json:"regexp,omitempty"`     // Text is one (RE2), in which ^ and $ are ends of lines
	IgnoreCase bool `json:"ignoreCase,omitempty"` // a letter is the same as its capital
	Binary     bool `json:"binary,omitempty"`     // look into files that are no text, too

	Since string   `json:"since,omitempty"` // a revision: only what came after it
	Paths []string `json:"paths,omitempty"` // files and directories; default: all
	Own   bool     `json:"own,omitempty"`   // only what turns and restores of the session did
	All   bool     `json:"all,omitempty"`   // also other directories that share the store

	Gone        bool `json:"gone,omitempty"`        // only how it went from where it is not any more
	AllVersions bool `json:"allVersions,omitempty"` // each change of a file that has it
}

// A Found is a change of a file by which a text came or went: it is in another number of
// places after than it was before.
type Found struct {
	EntryID string `json:"entryId,omitempty"` // of the turn; "": not known, or it is none
	Turn    int    `json:"turn"`              // -1: no turn did it, but Kind, or Owner
	Session string `json:"session"`           // whose turn or restore it is, or that found it

	Path      string `json:"path"`
	PathBytes []byte `json:"pathBytes,omitempty"` // if it is not UTF-8
	Before    int    `json:"before"`              // places in which it was
	After     int    `json:"after"`               // and in which it is then
	Line      int    `json:"line"`                // the first that it came into, from 1; or else that it went from
	Text      string `json:"text"`                // that line, at most 200 bytes of it

	Kind        string    `json:"kind"`            // as in a [Moment]; "start": it was there before
	Owner       Owner     `json:"owner,omitempty"` // as in a [TurnChange]
	Open        bool      `json:"open,omitempty"`  // the turn has not ended
	Rev         string    `json:"rev,omitempty"`   // the entry, or look:N of what has none: a revision
	RenamedFrom string    `json:"renamedFrom,omitempty"`
	Time        time.Time `json:"time"`
	Title       string    `json:"title,omitempty"` // of the turn, as in a [Moment]
	Agent       string    `json:"agent,omitempty"`
	Model       string    `json:"model,omitempty"`
}

// ErrNotAll: a search has found what it could, and could not look everywhere.
var ErrNotAll = errors.New("not all could be searched")

// Find yields the changes by which a text came or went, newest first: those of turns of all
// sessions of the directory, of restores, and what nobody's turn did. A file that was moved
// has not changed. Each pair is a change and nil, or nil and the error that ends the sequence.
//
// The error matches [ErrNotAll], after all that was found, if something was pruned, forgotten
// or lost; [path.ErrBadPattern] for a text that cannot be looked for; [ErrOutside]; or else is one of
// [FileSnapshotManager.Resolve].
func (m *FileSnapshotManager) Find(ctx context.Context, opts *FindOptions) iter.Seq2[*Found, error] {
	opts = cmp.Or(opts, new(FindOptions))
	return func(yield func(*Found, error) bool) {
		f, err := m.newFinder(ctx, opts)
		if err == nil {
			err = f.run(ctx, func(found *Found) bool { return yield(found, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, fmt.Errorf("find: %w", err))
		}
	}
}

// A finder is a search under way.
type finder struct {
	m       *FileSnapshotManager
	opts    *FindOptions
	pattern *pickaxe.Pattern
	paths   []string
	since   uint64    // only records after this one
	after   time.Time // and of this time or later; zero: of any

	gap     pickaxe.Gap
	settled map[string]bool // files of which it is known whether the text is there now
}

func (m *FileSnapshotManager) newFinder(ctx context.Context, opts *FindOptions) (*finder, error) {
	f := &finder{m: m, opts: opts, settled: make(map[string]bool)}
	mode := pickaxe.Count
	switch {
	case opts.Gone && opts.AllVersions:
		return nil, errors.New("gone and allVersions: want one of them")
	case opts.AllVersions:
		mode = pickaxe.Each
	}
	var err error
	f.pattern, err = pickaxe.Compile(opts.Text, pickaxe.Options{Regexp: opts.Regexp, IgnoreCase: opts.IgnoreCase,
		Binary: opts.Binary, Mode: mode})
	if err != nil {
		return nil, err
	}
	for _, p := range opts.Paths {
		rel, err := m.treePath(p)
		if err != nil {
			return nil, err
		}
		f.paths = append(f.paths, rel)
	}
	if opts.Since != "" {
		err = f.begin(ctx)
	}
	return f, err
}

// begin finds out since when.
func (f *finder) begin(ctx context.Context) (err error) {
	if text, ok := timeIn(f.opts.Since); ok { // before all that was recorded, too
		if f.after, err = when.Parse(text, time.Now()); err != nil {
			err = fmt.Errorf("revision %q: %w: %w", f.opts.Since, ErrUnknown, err)
		}
		return err
	}
	p, err := f.m.Resolve(ctx, f.opts.Since)
	switch {
	case err != nil:
		return err
	case p.end != nil:
		f.since = p.end.Seq
	case p.Snapshot != nil:
		f.since = p.Snapshot.Seq
	default:
		return fmt.Errorf("revision %q: %w: only a tree, and not when it was", f.opts.Since, ErrUnknown)
	}
	return nil
}

// run says what is found.
func (f *finder) run(ctx context.Context, say func(*Found) bool) error {
	read := func(ctx context.Context, id store.ID) ([]byte, error) { return f.m.store.Get(ctx, object.Blob, id) }
	d := &deeds{finder: f, ends: make(map[string][]span), next: make(map[string]uint64)}
	for r, err := range pickaxe.Run(ctx, pickaxe.New(f.pattern, read), d.jobs(ctx)) {
		if err != nil {
			return err
		}
		for _, found := range f.foundIn(ctx, r) {
			if !say(found) {
				return errStopped
			}
		}
	}
	why := f.gap.String()
	if why == "" { // what nothing leads to is not missed
		var err error
		if why, err = history.Shown(ctx, f.m.store, f.m.project.Worktree); err != nil {
			return err
		}
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrNotAll, why)
	}
	return nil
}

// foundIn returns what of the hits of a deed is asked for, and notes what is not known.
func (f *finder) foundIn(ctx context.Context, r *pickaxe.Result[*deed]) (list []*Found) {
	d := r.Of
	f.gap.Pruned += d.pruned
	f.gap.Lost += d.lost
	for _, u := range r.Unread {
		if path := r.Changes[u.Change].Path; f.wants(path) {
			f.gap.AddUnread(path, u.Err)
		}
	}
	for _, h := range r.Hits {
		c := &d.changes[h.Change]
		if !f.wants(c.Path) && (h.From == "" || !f.wants(h.From)) {
			continue
		}
		if last := len(list) - 1; last >= 0 && list[last].Path == c.Path { // a later piece of the same file
			list[last].After += h.After - h.Before
			continue
		}
		if d.r != nil && d.found.Title == "" {
			d.found.Title = f.m.lockedTitle(ctx, d.r)
		}
		found := *d.found
		found.Path, found.PathBytes, found.Owner = c.Path, words.BytesUnlessText(c.Path), c.Owner
		found.Before, found.After, found.RenamedFrom = h.Before, h.After, h.From
		found.Line, found.Text = h.Line, h.Text
		list = append(list, &found)
	}
	return slices.DeleteFunc(list, func(found *Found) bool {
		if found.Before == found.After && !f.opts.AllVersions { // piece by piece it came and went
			return true
		}
		key := d.worktree + "\x00" + found.Path
		isNewest := !f.settled[key]
		f.settled[key] = true
		return f.opts.Gone && (!isNewest || found.After > 0) || !f.isAsked(d)
	})
}

// wants reports whether a path is looked at.
func (f *finder) wants(path string) bool {
	return len(f.paths) == 0 || slices.ContainsFunc(f.paths, func(top string) bool {
		return top == "." || path == top || strings.HasPrefix(path, top+"/")
	})
}

// isAsked reports whether a deed is of a session that is asked for.
func (f *finder) isAsked(d *deed) bool {
	return !f.opts.Own || d.found.Session == f.m.opts.Session && d.found.Kind != history.KindBase &&
		d.found.Kind != history.KindStart
}

func (m *FileSnapshotManager) lockedTitle(ctx context.Context, r *record) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.title(ctx, r)
}
