package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A FileRange asks for a file at two points.
type FileRange struct {
	Path    string `json:"path"` // relative to the session's directory, or absolute
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`      // as in Range
	Bytes   bool   `json:"bytes,omitempty"`   // the contents that are no text, too; default only of the rest
	Context int    `json:"context,omitempty"` // unchanged lines around each change; negative for none; default 3
}

// FileDiff returns a file at two points and the difference; nil if it is at
// neither. Directories are at neither: they have no content.
//
// Errors are those of [FileSnapshotManager.Resolve], and [ErrOutside]. A file
// that was there and left out, by a rule or a limit, matches [ErrUnknown], and so does
// one that git's sparse checkout had taken out at one of the points. One that was
// forgotten is shown as binary, without content.
func (m *FileSnapshotManager) FileDiff(ctx context.Context, r *FileRange) (*FileDiffInfo, error) {
	r = cmp.Or(r, new(FileRange))
	return asking(ctx, m, "file diff", func(ctx context.Context) (*FileDiffInfo, error) { return m.fileDiff(ctx, r) })
}

func (m *FileSnapshotManager) fileDiff(ctx context.Context, r *FileRange) (*FileDiffInfo, error) {
	path, err := m.relative(r.Path)
	if err != nil {
		return nil, err
	}
	from, to, err := m.ends(ctx, r.From, r.To)
	if err != nil {
		return nil, err
	}
	old, err := m.fileIn(ctx, from.State, path)
	if err != nil {
		return nil, err
	}
	new, err := m.fileIn(ctx, to.State, path)
	if err != nil {
		return nil, err
	}
	if old.takenOut && new.entry != nil || new.takenOut && old.entry != nil {
		there := to.State
		if new.takenOut {
			there = from.State
		}
		// On both sides: who put one there, or deleted it, was not git.
		why, err := trees.WhyOmitted(ctx, m.tree.pages, there.Coverage, path)
		if err == nil && why != trees.Sparse {
			err = fmt.Errorf("%q: %w: at one end git's sparse checkout had taken it out", path, ErrUnknown)
		}
		if err != nil {
			return nil, err
		}
	}
	if old.entry == nil && new.entry == nil {
		return nil, nil
	}
	info := &FileDiffInfo{Path: path, PathBytes: words.BytesUnlessText(path)}
	info.OldContent, info.OldHash, info.OldMode, info.OldBytes = old.show(r.Bytes)
	info.NewContent, info.NewHash, info.NewMode, info.NewBytes = new.show(r.Bytes)
	info.Binary = old.isBinary() || new.isBinary()
	text := textdiff.AppendUnified(nil, old.file, new.file, &textdiff.UnifiedOptions{Context: r.Context,
		NoPrefix: true})
	text = bytes.TrimSuffix(text, []byte(textdiff.EndOfHeader)) // nothing follows
	info.UnifiedDiff, info.UnifiedDiffBytes = string(text), words.BytesUnlessText(string(text))
	return info, nil
}

// A fileAt is a file, or a link, in a state.
type fileAt struct {
	entry *tree.Entry // nil: absent
	file  textdiff.File

	takenOut bool // it is absent: git has taken it out
}

func (m *FileSnapshotManager) fileIn(ctx context.Context, s store.State, path string) (*fileAt, error) {
	e, err := trees.Lookup(ctx, m.tree.pages, s.Tree, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && e.Mode.IsDir() {
		why, err := trees.WhyOmitted(ctx, m.tree.pages, s.Coverage, path)
		if why != 0 && why != trees.Sparse && err == nil {
			err = fmt.Errorf("%q: %w: it was there, but not captured", path, ErrUnknown)
		}
		return &fileAt{file: textdiff.File{Name: path}, takenOut: why == trees.Sparse}, err
	}
	if err != nil {
		return nil, err
	}
	f := &fileAt{entry: &e}
	f.file, err = filediff.File(ctx, filediff.InStore(m.store), path, &e)
	return f, err
}

func (f *fileAt) isBinary() bool { return f.file.Opaque || similar.IsBinary(f.file.Content) }

func (f *fileAt) show(all bool) (content *string, hash *store.ID, mode *string, raw []byte) {
	if f.entry == nil {
		return nil, nil, nil, nil
	}
	if text := string(f.file.Content); !f.file.Opaque && words.BytesUnlessText(text) == nil {
		content = &text
	} else if all && !f.file.Opaque {
		raw = f.file.Content
	}
	return content, &f.entry.ID, new(fmt.Sprintf("%06o", filediff.GitMode(f.entry.Mode))), raw
}
