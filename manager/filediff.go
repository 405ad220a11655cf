package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A FileRange asks for a file at two points.
type FileRange struct {
	Path     string // relative to the session's directory, or absolute
	From, To string // as in Range
	Bytes    bool   // the contents that are no text, too; default only of the rest
	Context  int    // unchanged lines around each change; negative for none; default 3
}

// MaxText is above which size, in bytes, a file counts as binary: its lines are
// not compared, and its content is not returned.
const MaxText = 10 << 20

// FileDiff returns a file at two points and the difference; nil if it is at
// neither. Directories are at neither: they have no content.
//
// Errors are those of [FileSnapshotManager.Resolve], and [ErrOutside]. A file
// that was there and left out, by a rule or a limit, matches [ErrUnknown], and so does
// one that git's sparse checkout had taken out at one of the points. One that was
// forgotten is shown as binary, without content.
func (m *FileSnapshotManager) FileDiff(ctx context.Context, r *FileRange) (*FileDiffInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path, err := m.relative(r.Path)
	if err != nil {
		return nil, fmt.Errorf("file diff: %w", err)
	}
	from, to, err := m.ends(ctx, r.From, r.To)
	if err != nil {
		return nil, fmt.Errorf("file diff: %w", err)
	}
	old, err := m.fileIn(ctx, from.State, path)
	if err != nil {
		return nil, fmt.Errorf("file diff: %w", err)
	}
	new, err := m.fileIn(ctx, to.State, path)
	if err != nil {
		return nil, fmt.Errorf("file diff: %w", err)
	}
	if old.takenOut && new.entry != nil || new.takenOut && old.entry != nil {
		there := to.State
		if new.takenOut {
			there = from.State
		}
		// On both sides: who put one there, or deleted it, was not git.
		why, err := tree.WhyOmitted(ctx, m.tree.pages, there.Coverage, path)
		if err == nil && why != tree.Sparse {
			err = fmt.Errorf("%q: %w: at one end git's sparse checkout had taken it out", path, ErrUnknown)
		}
		if err != nil {
			return nil, fmt.Errorf("file diff: %w", err)
		}
	}
	if old.entry == nil && new.entry == nil {
		return nil, nil
	}
	info := &FileDiffInfo{Path: path, PathBytes: bytesUnlessText(path)}
	info.OldContent, info.OldHash, info.OldMode, info.OldBytes = old.show(r.Bytes)
	info.NewContent, info.NewHash, info.NewMode, info.NewBytes = new.show(r.Bytes)
	info.Binary = old.isBinary() || new.isBinary()
	text := patch.AppendUnified(nil, old.patch(path), new.patch(path), &patch.UnifiedOptions{Context: r.Context, NoPrefix: true})
	info.UnifiedDiff, info.UnifiedDiffBytes = string(text), bytesUnlessText(string(text))
	return info, nil
}

// A fileAt is a file, or a link, in a state.
type fileAt struct {
	entry   *tree.Entry // nil: absent
	content []byte      // nil of one that is too large, or was forgotten
	opaque  bool        // there is no content to show

	takenOut bool // it is absent: git has taken it out
}

func (m *FileSnapshotManager) fileIn(ctx context.Context, s store.State, path string) (*fileAt, error) {
	e, err := tree.Lookup(ctx, m.tree.pages, s.Tree, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && e.Mode.IsDir() {
		why, err := tree.WhyOmitted(ctx, m.tree.pages, s.Coverage, path)
		if why != 0 && why != tree.Sparse && err == nil {
			err = fmt.Errorf("%q: %w: it was there, but not captured", path, ErrUnknown)
		}
		return &fileAt{takenOut: why == tree.Sparse}, err
	}
	if err != nil {
		return nil, err
	}
	f := &fileAt{entry: &e, opaque: e.Size > MaxText}
	if !f.opaque {
		f.content, err = m.store.Get(ctx, store.Blob, e.ID)
	}
	if errors.Is(err, store.ErrForgotten) {
		f.opaque, err = true, nil
	}
	return f, err
}

func (f *fileAt) isBinary() bool {
	return f.entry != nil && (f.opaque || patch.IsBinary(f.content))
}

func (f *fileAt) show(all bool) (content *string, hash *store.ID, mode *string, raw []byte) {
	if f.entry == nil {
		return nil, nil, nil, nil
	}
	text := string(f.content)
	if bytesUnlessText(text) == nil && !f.opaque {
		content = &text
	} else if all {
		raw = f.content
	}
	return content, &f.entry.ID, new(fmt.Sprintf("%06o", f.entry.Mode.Git())), raw
}

// patch returns the file as package patch takes it. The hash stands for the
// content of one that has none to show.
func (f *fileAt) patch(path string) patch.File {
	if f.entry == nil {
		return patch.File{Name: path}
	}
	file := patch.File{Name: path, Content: f.content, Mode: f.entry.Mode.Git()}
	if f.opaque {
		file.Content, file.Opaque = f.entry.ID[:], true
	}
	return file
}
