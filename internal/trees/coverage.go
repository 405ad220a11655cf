package trees

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/boocode/filestore/internal/object"
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

func coverage(ctx context.Context, r PageReader, id store.ID, prefix string, yield func(Omission, error) bool) bool {
	if err := CheckDir(prefix); err != nil {
		yield(Omission{}, err)
		return false
	}
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

// A Reason says why something that was present was not captured. The
// numbers are part of the format.
type Reason uint8

const (
	Ignored    Reason = iota + 1 // an ignore rule matches, and git does not track it
	TooLarge                     // above the size limit for one file
	Unreadable                   // permission denied or an I/O error
	Unstable                     // changed each time it was read
	NotFile                      // socket, fifo or device
	VCS                          // the insides of a version control system, e.g. a .git
	OwnStore                     // the directory that we store to
	OverBudget                   // the capture had to stop before
	Sparse                       // git has taken it out of the directory: see git sparse-checkout
	MaxReason  = Sparse
)

var reasonNames = [...]string{
	Ignored: "ignored", TooLarge: "too-large", Unreadable: "unreadable", Unstable: "unstable",
	NotFile: "special", VCS: "vcs", OwnStore: "store", OverBudget: "budget", Sparse: "sparse",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// MarshalText writes the reason's word.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (r *Reason) UnmarshalText(b []byte) error {
	for i, name := range reasonNames {
		if name != "" && name == string(b) {
			*r = Reason(i)
			return nil
		}
	}
	return fmt.Errorf("reason %q is not known", b)
}

// An Omission is something that was present when a snapshot was taken and is
// not in its tree. What lies in an omitted directory is omitted with it and
// not listed.
//
// With the reason [Sparse] it was not present, but git would have it there: the
// index has it, and says that it is taken out. A directory stands for all that
// git tracks below it. It may be present, and is captured then: with what others
// have put into it.
type Omission struct {
	Path   string    // slash-separated, relative to the root
	Kind   tree.Mode // ModeFile, ModeDir, ModeSymlink; 0 for anything else
	Size   int64     // of a file in bytes, if it is measured; else 0
	Reason Reason
}

// IsMeasured reports whether it is a file of which the size is known. Nobody looks at those that are ignored, that
// are a version control system's, or that git has taken out.
func (o *Omission) IsMeasured() bool {
	return o.Kind.Kind() == tree.ModeFile && o.Reason != Ignored && o.Reason != VCS && o.Reason != Sparse
}

// A Problem is a path of a snapshot that cannot be restored as it was.
type Problem struct {
	Path string
	ID   store.ID  // of the content or directory that is lost; zero: it is another problem
	Err  error     // matches store.ErrNotFound or store.ErrCorrupt
	At   time.Time // when the loss was accepted; zero: it was not
}

// Text says what is lost, and names the place once: an error of a file of the store has it.
func (p *Problem) Text(quote func(string) string) string {
	if c, ok := errors.AsType[*object.CorruptError](p.Err); ok && c.Path == p.Path {
		return p.Err.Error()
	}
	return quote(cmp.Or(p.Path, ".")) + ": " + p.Err.Error()
}

// IsLoss reports whether an error of reading trees or blobs means that the store
// has lost something, not that it could not be looked at.
func IsLoss(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, errPage)
}
