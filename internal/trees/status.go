package trees

import (
	"context"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// StatusOf tells how two entries of a path differ; 0: they do not.
func StatusOf(old, new *tree.Entry) tree.Status {
	switch {
	case old == nil && new == nil:
		return 0
	case old == nil:
		return tree.Added
	case new == nil:
		return tree.Deleted
	case old.Mode.Kind() != new.Mode.Kind():
		return tree.Retyped
	case old.Mode != new.Mode || old.ID != new.ID && !old.Mode.IsDir():
		return tree.Modified
	}
	return 0
}

// Same reports whether two entries are the same; nil is nothing.
func Same(a, b *tree.Entry) bool { return StatusOf(a, b) == 0 }

// Inverse returns a status as seen from the other end.
func Inverse(s tree.Status) tree.Status {
	switch s {
	case tree.Added:
		return tree.Deleted
	case tree.Deleted:
		return tree.Added
	case tree.Captured:
		return tree.Uncaptured
	case tree.Uncaptured:
		return tree.Captured
	}
	return s
}

// IsSameAt reports whether two states have the same at a path.
func IsSameAt(ctx context.Context, g Getter, a, b store.State, path string) (bool, error) {
	x, err := EntryAt(ctx, g, a.Tree, path)
	if err != nil {
		return false, err
	}
	y, err := EntryAt(ctx, g, b.Tree, path)
	return Same(x, y), err
}

// IsFile reports whether there is a file.
func IsFile(e *tree.Entry) bool { return e != nil && e.Mode.Kind() == tree.ModeFile }
