package tree

import (
	"context"
	"fmt"
	"iter"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

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
	maxReason  = Sparse
)

// Reasons returns all reasons, in order of their numbers.
func Reasons() []Reason {
	var list []Reason
	for r := Ignored; r <= maxReason; r++ {
		list = append(list, r)
	}
	return list
}

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
	Path   string // slash-separated, relative to the root
	Kind   Mode   // ModeFile, ModeDir, ModeSymlink; 0 for anything else
	Size   int64  // of a file in bytes; 0 for ignored ones and those that git has taken out, which nobody measured
	Reason Reason
}

// In a coverage page an item's attr is the reason and the kind: the number
// of vfs.Kind, in the upper byte. A directory with reason 0 was captured,
// and its id names what is missing in it. So it may with the reason Sparse. With
// that reason and kind 0 something was captured in the place of what git has
// taken out: it is no omission, but was made by somebody else than git.
func coverageAttr(kind vfs.Kind, r Reason) uint16 { return uint16(kind)<<8 | uint16(r) }

func validOmission(it *item) bool {
	kind, r := vfs.Kind(it.attr>>8), Reason(it.attr&0xff)
	if kind > vfs.Special || r > maxReason || it.size >= 1<<62 {
		return false
	}
	if r == 0 {
		return kind == vfs.Directory && it.size == 0 && !it.id.IsZero()
	}
	if r == Sparse && (kind == vfs.Special || it.size != 0) {
		return false
	}
	return it.id.IsZero() || r == Sparse && kind == vfs.Directory
}

var kindModes = [...]Mode{vfs.Regular: ModeFile, vfs.Directory: ModeDir, vfs.Symlink: ModeSymlink, vfs.Special: 0}

// Coverage yields what a capture left out, in order of path. A zero ID means
// nothing. Each pair is an omission and nil, or a zero one and the error that
// ends the sequence.
func Coverage(ctx context.Context, g Getter, root store.ID) iter.Seq2[Omission, error] {
	return func(yield func(Omission, error) bool) {
		coverage(ctx, pageReader{g, store.Coverage, validOmission, nil}, root, "", yield)
	}
}

func coverages(g Getter) pageReader {
	known, _ := g.(*Pages)
	return pageReader{g, store.Coverage, validOmission, known}
}

// reason returns why what a coverage page names was left out; 0: it was not.
func (it *item) reason() Reason { return Reason(it.attr & 0xff) }

func coverage(ctx context.Context, r pageReader, id store.ID, prefix string, yield func(Omission, error) bool) bool {
	if id.IsZero() {
		return true
	}
	for it, err := range r.items(ctx, id) {
		if err != nil {
			yield(Omission{}, fmt.Errorf("coverage of %q: %w", prefix, err))
			return false
		}
		path := join(prefix, it.name)
		kind, reason := vfs.Kind(it.attr>>8), it.reason()
		if reason != 0 && !(reason == Sparse && kind == 0) && !yield(Omission{path, kindModes[kind], int64(it.size), reason}, nil) {
			return false
		}
		if !it.id.IsZero() && !coverage(ctx, r, it.id, path, yield) {
			return false
		}
	}
	return true
}
