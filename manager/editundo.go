package manager

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// undo says what becomes of the files of an edit when it is taken back.
func (e *editing) undo(r *editRecord, opts *UndoEditOptions) (results []patch.FileResult, err error) {
	for c, err := range tree.Diff(e.ctx, e.m.store, r.Base.Tree, r.Tree) {
		if err != nil {
			return nil, err
		}
		if c.Old == nil && c.New.Mode.IsDir() {
			e.made = append(e.made, c.Path)
		}
	}
	left := make(map[string]string) // hashes of what the edit left, by path
	for _, f := range r.data.Files {
		if f.AfterHash != "" {
			left[cmp.Or(f.To, f.Path)] = f.AfterHash
		}
	}
	for i := range r.data.Files {
		f := &r.data.Files[i]
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
		if old, err := tree.Lookup(e.ctx, e.m.store, r.Base.Tree, f.Path); err == nil && old.Mode.IsFile() {
			e.modes[f.Path] = old.Mode
		}
		before, after, err := e.contents(r, f)
		if err != nil {
			return nil, err
		}
		res := patch.FileResult{Op: patch.Update, Path: now.path, Before: now.content, Content: before}
		if f.To != "" {
			res.To = f.Path
		}
		if now.hash() != left[now.path] {
			switch {
			case opts.Force:
			case opts.Reverse && f.AfterHash != "" && f.BeforeHash != "" && now.entry != nil:
				if res.Content, res.Hunks, err = reversed(f.Path, now.content, before, after); err != nil {
					return nil, err
				}
			default:
				return nil, fmt.Errorf("%q: %w it was edited: see Force and Reverse", now.path, ErrStale)
			}
		}
		switch {
		case f.BeforeHash == "" && now.entry == nil:
			continue // gone already
		case f.BeforeHash == "":
			res.Op, res.Content = patch.Delete, nil
		case now.entry == nil:
			res.Op, res.Before = patch.Create, nil
			if res.To != "" {
				res.Path, res.To = res.To, ""
			}
		}
		results = append(results, res)
	}
	return results, nil
}

// contents returns what a file held before and after an edit.
func (e *editing) contents(r *editRecord, f *EditedFile) (before, after []byte, err error) {
	get := func(hash string) ([]byte, error) {
		if hash == "" {
			return nil, nil
		}
		id, err := store.ParseID(hash)
		if err != nil {
			return nil, err
		}
		return e.m.store.Get(e.ctx, store.Blob, id)
	}
	if before, err = get(f.BeforeHash); err == nil {
		after, err = get(f.AfterHash)
	}
	return before, after, err
}

// reversed takes what an edit changed back out of what a file holds now: each
// piece that it wrote is looked for with the lines around it, and if it is more
// than a few characters with fewer, and at last alone. It must be there once.
func reversed(path string, now, before, after []byte) ([]byte, []patch.HunkResult, error) {
	opts := patch.Options{Stages: []patch.Stage{patch.Exact, patch.Whitespace, patch.Unicode}}
	f := patch.FilePatch{Op: patch.Update, Path: path}
	was, is := bytes.SplitAfter(before, []byte("\n")), bytes.SplitAfter(after, []byte("\n"))
	for i, e := range patch.Edits(after, before) {
		with := func(context int) patch.Hunk {
			from, to := max(0, e.OldStart-context), min(len(is), e.OldEnd+context)
			return patch.Hunk{Line: i + 1, Old: bytes.Join(is[from:to], nil),
				New: slices.Concat(bytes.Join(is[from:e.OldStart], nil), bytes.Join(was[e.NewStart:e.NewEnd], nil), bytes.Join(is[e.OldEnd:to], nil))}
		}
		h := with(3)
		own := bytes.TrimSpace(bytes.Join(is[e.OldStart:e.OldEnd], nil))
		for _, context := range []int{3, 1, 0} {
			if context < 3 && len(own) < minAlone {
				break // the lines around it may be anywhere
			}
			less := with(context)
			if patch.Locate(now, less.Old, &opts).Found() {
				h = less
				break
			}
		}
		f.Hunks = append(f.Hunks, h)
	}
	p := &patch.Patch{Format: patch.SearchReplace, Files: []patch.FilePatch{f}}
	results, refused := p.Apply(func(string) ([]byte, error) { return now, nil }, &patch.ApplyOptions{Options: opts})
	if len(refused) > 0 {
		return nil, nil, &EditError{refused}
	}
	return results[0].Content, results[0].Hunks, nil
}

// minAlone is how many bytes a piece must have to be looked for with fewer lines
// around it.
const minAlone = 8
