package tree

import (
	"fmt"

	"github.com/boocode/filestore/store"
)

// A Mode is what an entry is and its permission bits, in the numbers of
// Unix and git: 0o100644, 0o100755, 0o120777, 0o040755. It has no set-id,
// sticky or other special bits.
type Mode uint16

// The kinds of entry.
const (
	ModeFile    Mode = 0o100000
	ModeDir     Mode = 0o040000
	ModeSymlink Mode = 0o120000

	modeKind Mode = 0o170000
)

// Kind returns ModeFile, ModeDir or ModeSymlink.
func (m Mode) Kind() Mode { return m & modeKind }

// IsDir reports whether the entry is a directory.
func (m Mode) IsDir() bool { return m.Kind() == ModeDir }

// String returns six octal digits.
func (m Mode) String() string { return fmt.Sprintf("%06o", uint16(m)) }

// An Entry is one name in a directory.
type Entry struct {
	Name string // raw bytes, one path component
	Mode Mode
	Size int64    // of a file's content or a link's target in bytes; 0 for a directory
	ID   store.ID // blob of the content or the target; tree of a directory
}
