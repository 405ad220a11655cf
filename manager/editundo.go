package manager

import (
	"bytes"
	"cmp"
	"fmt"
	pathpkg "path"
	"slices"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// undo says what becomes of the files of an edit when it is taken back.
func (e *editing) undo(r *editRecord, opts *UndoEditOptions) ([]patch.FileResult, error) {
	for c, err := range trees.Diff(e.ctx, e.m.store, r.Base.Tree, r.Tree) {
		if err != nil {
			return nil, err
		}
		if c.Old != nil || !c.New.Mode.IsDir() {
			continue
		}
		d, err := e.dir(c.Path) // that the edit has made goes
		if err != nil {
			return nil, err
		}
		if d.becomes = nil; d.now != nil && !d.now.Mode.IsDir() {
			delete(e.dirs, c.Path)
		}
	}
	left := make(map[string]string) // hashes of what the edit left, by path
	for _, f := range r.data.Files {
		if f.AfterHash != "" {
			left[cmp.Or(f.To, f.Path)] = f.AfterHash
		}
	}
	var results []patch.FileResult
	for i := range r.data.Files {
		res, err := e.undoFile(r, &r.data.Files[i], left, opts)
		if err != nil {
			return nil, err
		}
		if res != nil {
			results = append(results, *res)
		}
	}
	return results, nil
}

// undoFile says what becomes of one of them, nil if it has gone already.
func (e *editing) undoFile(
	r *editRecord, f *fileData, left map[string]string, opts *UndoEditOptions,
) (*patch.FileResult, error) {
	now, err := e.file(cmp.Or(f.To, f.Path))
	if err != nil {
		return nil, err
	}
	now.unread = false
	if f.To != "" {
		switch there, err := e.file(f.Path); {
		case err != nil:
			return nil, err
		case there.entry != nil && left[f.Path] == "":
			return nil, fmt.Errorf("%q: %w the file there was moved: something else is in its place", f.Path, ErrStale)
		}
	}
	if f.AfterHash == "" || now.entry == nil { // what is there now, if anything, is another file
		if err := e.takeModes(r.Base.Tree, f.Path); err != nil {
			return nil, err
		}
	}
	before, err := e.content(f.BeforeHash)
	if err != nil {
		return nil, err
	}
	res := &patch.FileResult{Op: patch.Update, Path: now.path, Before: now.content, Content: before}
	if f.To != "" {
		res.To = f.Path
	}
	switch {
	case now.hash() == left[now.path] || opts.Force:
	case opts.Reverse && f.AfterHash != "" && f.BeforeHash != "" && now.entry != nil:
		after, err := e.content(f.AfterHash)
		if err != nil {
			return nil, err
		}
		if res.Content, res.Hunks, err = reversed(f.Path, now.content, before, after); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%q: %w it was edited: reverse takes back only the edit, force what came since, too",
			now.path, ErrStale)
	}
	switch {
	case f.BeforeHash == "" && now.entry == nil:
		return nil, nil
	case f.BeforeHash == "":
		res.Op, res.Content = patch.Delete, nil
	case now.entry == nil:
		res.Op, res.Before = patch.Create, nil
		if res.To != "" {
			res.Path, res.To = res.To, ""
		}
	}
	return res, nil
}

// takeModes takes note of the modes that a file had, and the directories above
// it.
func (e *editing) takeModes(before store.ID, path string) error {
	for p := path; p != "."; p = pathpkg.Dir(p) {
		old, err := trees.EntryAt(e.ctx, e.m.store, before, p)
		if err != nil {
			return err
		}
		if old != nil && (p != path || old.Mode.Kind() == tree.ModeFile) {
			e.modes[p] = old.Mode
		}
	}
	return nil
}

// content returns what a file held, by its hash; "": there was none.
func (e *editing) content(hash string) ([]byte, error) {
	if hash == "" {
		return nil, nil
	}
	id, err := store.ParseID(hash)
	if err != nil {
		return nil, err
	}
	return e.m.store.Get(e.ctx, object.Blob, id)
}

// reversed takes what an edit changed back out of what a file holds now: each
// piece that it wrote is looked for with the lines around it and, if all pieces
// are more than a few characters, with fewer and at last alone. It must be there
// once. The lines around it stay as they are now.
func reversed(path string, now, before, after []byte) ([]byte, []patch.Result, error) {
	if len(after) == 0 {
		return nil, nil, fmt.Errorf("%q: %w it was edited, which had left it empty", path, ErrStale)
	}
	contexts := []int{0} // the default
	if !slices.ContainsFunc(textdiff.Edits(after, before), func(e textdiff.Edit) bool {
		own := bytes.Join(bytes.SplitAfter(after, []byte("\n"))[e.OldStart:e.OldEnd], nil)
		return len(bytes.TrimSpace(own)) < minAlone
	}) {
		contexts = append(contexts, 1, -1)
	}
	var first []*patch.HunkError
	for _, context := range contexts {
		from := textdiff.File{Name: path, Mode: 0o100644, Content: after}
		to := textdiff.File{Name: path, Mode: 0o100644, Content: before}
		diff := textdiff.AppendUnified(nil, from, to, &textdiff.UnifiedOptions{Context: context})
		p, err := patch.Parse(patch.Unified, diff, "")
		if err != nil {
			return nil, nil, err
		}
		p.Format = patch.V4A // found by what they say alone
		results, refused := p.Apply(func(string) ([]byte, error) { return now, nil }, nil)
		if len(refused) == 0 && !bytes.Equal(results[0].Content, now) {
			return results[0].Content, results[0].Hunks, nil
		}
		if first == nil {
			first = refused
		}
	}
	if len(first) == 0 { // the end of the file's last line, say
		return nil, nil, fmt.Errorf("%q: %w it was edited, and what the edit changed cannot be told apart",
			path, ErrStale)
	}
	return nil, nil, &EditError{Refused: first}
}

// minAlone is how many bytes a piece must have to be looked for with fewer lines
// around it.
const minAlone = 8
