package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/patch"
)

// An EditRequest is what is to be done to files. Either Patch is set, or Path,
// Old and New.
type EditRequest struct {
	Patch *patch.Patch

	Path     string // relative to the session's directory, or absolute; an absent file is made if Old is empty
	Old, New []byte

	// Fuzzy also takes what is only similar for the old text, from a
	// similarity of 0.92 on, or Options.MinSimilarity. The new text then gets the
	// file's indentation, unless Options.Reindent is ReindentOff, and is refused if
	// no single rule leads to it; and is merged with what is there
	// (patch.Options.Merge), unless NoMerge. So it is with V4A in any case, which
	// may differ in blanks and quotes.
	Fuzzy      bool
	NoMerge    bool
	Options    patch.Options
	Sequential bool // each piece of a patch is looked for in what the one before it left
	Fuzz       *int // of a unified diff; see patch.ApplyOptions

	// Expected are the BLAKE3 or SHA-256 hashes, in hexadecimal, that files
	// must have, by path as in the request. For others that is the hash that
	// NoteRead has seen, if it has been called for the file.
	Expected map[string]string

	Preview bool // find out what would be done, and do nothing
}

// defaultMinSimilarity is how similar a text must be that is edited unseen.
const defaultMinSimilarity = 0.92

// An EditResult says what an edit has done, or would do.
type EditResult struct {
	UndoID  string       `json:"undoId,omitempty"` // for UndoEdit; "": nothing was written
	Undoes  string       `json:"undoes,omitempty"` // the edit that it takes back
	Session string       `json:"session,omitempty"`
	Turn    *int         `json:"turnIndex,omitempty"` // whose it is; nil: of none
	Time    time.Time    `json:"time"`
	Files   []EditedFile `json:"files"`
	Preview bool         `json:"preview,omitempty"`
}

// An EditedFile is a file before and after an edit. Hashes are empty where
// there is no file.
type EditedFile struct {
	Path   string   `json:"path"`
	To     string   `json:"to,omitempty"` // where it was moved
	Op     patch.Op `json:"op"`
	Unread bool     `json:"unread,omitempty"` // nobody had said which content it should have

	BeforeHash   string `json:"beforeHash,omitempty"` // BLAKE3
	AfterHash    string `json:"afterHash,omitempty"`
	BeforeSHA256 string `json:"beforeSha256,omitempty"`
	AfterSHA256  string `json:"afterSha256,omitempty"`

	Mode         patch.Kind  `json:"mode,omitempty"`  // exact, or fuzzy if any piece was
	Stage        patch.Stage `json:"stage,omitempty"` // the loosest
	Similarity   float64     `json:"similarity,omitempty"`
	Replacements int         `json:"replacements,omitempty"`

	Warnings []string `json:"warnings,omitempty"`
	Diff     string   `json:"diff,omitempty"` // not on record
}

// ApplyEdits edits files: all pieces of a request, or none. What the files held
// is in the store before the first of them is written, and each is replaced in
// one step if it still holds what was edited. The files are claimed for the turn
// of the session that is open; with [Options.ToolWindows] only while a tool of it
// runs, as an edit that is made between two is the user's.
//
// An error is an [*EditError] if a piece could not be put, or matches [ErrStale],
// [ErrNotText], [ErrReadOnly] or [ErrOutside].
func (m *FileSnapshotManager) ApplyEdits(ctx context.Context, req *EditRequest) (*EditResult, error) {
	req = cmp.Or(req, new(EditRequest))
	p := req.Patch
	if p == nil {
		f := patch.FilePatch{Op: patch.Update, Path: req.Path, Hunks: []patch.Hunk{{Old: req.Old, New: req.New}}}
		p = &patch.Patch{Format: patch.EditList, Files: []patch.FilePatch{f}}
	}
	opts := req.applyOptions(p.Format, req.Fuzzy)
	e := &editing{m: m, ctx: ctx, preview: req.Preview, expected: make(map[string]string)}
	return e.run("edit", func() ([]patch.FileResult, error) {
		for name, hash := range req.Expected {
			path, err := e.path(name)
			if err != nil {
				return nil, fmt.Errorf("expected hash of %q: %w", name, err)
			}
			e.expected[path] = hash
		}
		results, refused := p.Apply(e.read, opts)
		if len(refused) > 0 {
			return nil, &EditError{Refused: refused, Fuzzy: !req.Fuzzy && e.fuzzyFits(p, req)}
		}
		for name := range req.Expected {
			path, err := e.path(name)
			if err != nil || !slices.ContainsFunc(e.files, func(f *editFile) bool { return f.path == path }) {
				return nil, fmt.Errorf("expected hash of %q: the edit is not about it", name)
			}
		}
		return results, nil
	})
}

// stages are all stages, the strictest first.
var stages = []patch.Stage{patch.Exact, patch.Whitespace, patch.Unicode, patch.BlockAnchor, patch.Levenshtein}

// applyOptions returns how the pieces of a patch are looked for.
func (req *EditRequest) applyOptions(format patch.Format, fuzzy bool) *patch.ApplyOptions {
	opts := &patch.ApplyOptions{Options: req.Options, Sequential: req.Sequential, Fuzz: req.Fuzz}
	o := &opts.Options
	switch {
	case fuzzy:
		o.MinSimilarity = cmp.Or(o.MinSimilarity, defaultMinSimilarity)
		if o.Stages == nil {
			o.Stages = stages
		}
	case format != patch.V4A:
		o.ExactOnly = true
	case o.Stages != nil: // by similarity only with Fuzzy
		o.Stages = slices.DeleteFunc(slices.Clone(o.Stages), func(s patch.Stage) bool {
			return s == patch.BlockAnchor || s == patch.Levenshtein
		})
	}
	if fuzzy || format == patch.V4A { // which may differ in blanks and quotes in any case
		o.Merge = !req.NoMerge
		if o.Reindent == "" {
			o.Reindent = patch.ReindentAuto
		}
		o.RefuseUnsureIndent = true
	}
	return opts
}

// fuzzyBudget is what it may cost to find out whether an edit that was refused
// could be put with Fuzzy: some 80 ms.
const fuzzyBudget = 10e6

// fuzzyFits reports whether a patch that was refused could be put with Fuzzy.
func (e *editing) fuzzyFits(p *patch.Patch, req *EditRequest) bool {
	if p.Format == patch.Unified {
		return false // of which nothing is looked for by similarity
	}
	opts := req.applyOptions(p.Format, true)
	opts.Options.Budget = fuzzyBudget
	_, refused := p.Apply(e.read, opts)
	return len(refused) == 0
}

// UndoEditOptions are the choices at [FileSnapshotManager.UndoEdit]. The zero
// value is the default.
type UndoEditOptions struct {
	// Force takes the edit back also where a file is not what the edit left: it is
	// what it was before the edit, then.
	Force bool `json:"force,omitempty"`
	// Reverse takes back only what the edit changed, wherever that is now, where a
	// file is not what the edit left.
	Reverse bool `json:"reverse,omitempty"`
	Preview bool `json:"preview,omitempty"`
}

// UndoEdit takes back an edit, or an undo of one, by its UndoID. It is an edit
// of its own. opts may be nil.
//
// The error matches [ErrStale] if a file is not what the edit left, [ErrUnknown]
// if there is no such edit, and is an [*EditError] if what it changed is not
// found.
func (m *FileSnapshotManager) UndoEdit(ctx context.Context, id string, opts *UndoEditOptions) (*EditResult, error) {
	opts = cmp.Or(opts, new(UndoEditOptions))
	e := &editing{m: m, ctx: ctx, preview: opts.Preview, undoes: id, anew: true}
	return e.run(fmt.Sprintf("undo edit %q", id), func() ([]patch.FileResult, error) {
		r, err := m.editByID(ctx, id)
		if err != nil {
			return nil, err
		}
		return e.undo(r, opts)
	})
}

// NoteRead remembers what a file holds now, so that an edit that builds on it is
// refused if somebody has changed it meanwhile. It returns the BLAKE3 hash. What
// is remembered is so for this manager alone.
func (m *FileSnapshotManager) NoteRead(ctx context.Context, path string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	root, err := m.openRoot()
	if err != nil {
		return "", fmt.Errorf("note read: %w", err)
	}
	e := &editing{m: m, ctx: ctx, root: root, anew: true}
	f, err := e.file(path)
	if err = errors.Join(err, root.Close()); err != nil {
		return "", fmt.Errorf("note read of %q: %w", path, err)
	}
	if m.reads == nil {
		m.reads = make(map[string]string)
	}
	m.reads[f.path] = f.hash()
	return f.hash(), nil
}

// Edits yields the edits of the worktree that are on record, newest first. Each
// pair is an edit and nil, or nil and the error that ends the sequence.
func (m *FileSnapshotManager) Edits(ctx context.Context) iter.Seq2[*EditResult, error] {
	return func(yield func(*EditResult, error) bool) {
		for r, err := range m.editRecords(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !r.data.Aborted && r.Kind == history.KindEdit && !yield(r.data.result(), nil) {
				return
			}
		}
	}
}
