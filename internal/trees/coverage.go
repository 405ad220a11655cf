package trees

import (
	"context"
	"fmt"
	"iter"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// CoverageAttr returns the Attr of an item of a coverage page: a reason, and in the
// upper byte a kind. A directory with reason 0 was captured, and its ID names the page
// of what is missing in it; one with the reason Sparse may have such an ID, too. With
// the reason Sparse and kind 0 the item is no omission: somebody else than git has put
// something, which was captured, in the place of what git has taken out.
func CoverageAttr(kind vfs.Kind, r Reason) uint16 { return uint16(kind)<<8 | uint16(r) }

func validOmission(it *Item) bool {
	kind, r := it.kind(), it.reason()
	if kind > vfs.Special || r > MaxReason || it.Size >= 1<<62 {
		return false
	}
	if r == 0 {
		return kind == vfs.Directory && it.Size == 0 && !it.ID.IsZero()
	}
	if r == Sparse && (kind == vfs.Special || it.Size != 0) {
		return false
	}
	return it.ID.IsZero() || r == Sparse && kind == vfs.Directory
}

var kindModes = [...]tree.Mode{
	vfs.Regular: tree.ModeFile, vfs.Directory: tree.ModeDir, vfs.Symlink: tree.ModeSymlink, vfs.Special: 0,
}

// Coverage yields what a capture left out, in order of path. A zero ID means
// nothing. Each pair is an omission and nil, or a zero one and the error that
// ends the sequence.
func Coverage(ctx context.Context, g Getter, root store.ID) iter.Seq2[Omission, error] {
	return func(yield func(Omission, error) bool) {
		coverage(ctx, CoverageReader(g), root, "", yield)
	}
}

// reason returns why what a coverage page names was left out; 0: it was not.
func (it *Item) reason() Reason { return Reason(it.Attr & 0xff) }

func (it *Item) kind() vfs.Kind { return vfs.Kind(it.Attr >> 8) }

func coverage(
	ctx context.Context, r PageReader, id store.ID, prefix string, yield func(Omission, error) bool,
) bool {
	if id.IsZero() {
		return true
	}
	for it, err := range r.Items(ctx, id) {
		if err != nil {
			yield(Omission{}, fmt.Errorf("coverage of %q: %w", prefix, err))
			return false
		}
		path := Join(prefix, it.Name)
		kind, reason := it.kind(), it.reason()
		o := Omission{Path: path, Kind: kindModes[kind], Size: int64(it.Size), Reason: reason}
		if reason != 0 && !(reason == Sparse && kind == 0) && !yield(o, nil) {
			return false
		}
		if !it.ID.IsZero() && !coverage(ctx, r, it.ID, path, yield) {
			return false
		}
	}
	return true
}
