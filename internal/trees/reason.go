package trees

import (
	"fmt"

	"github.com/boocode/filestore/tree"
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
	Size   int64     // of a file in bytes; 0 for ignored ones and those that git has taken out, which nobody measured
	Reason Reason
}
