package history

import (
	"strconv"

	"github.com/boocode/filestore/store"
)

// LookPrefix comes before the number of a record that is named by it.
const LookPrefix = "look:"

// NameOf returns what Resolve of a manager takes for a snapshot: its
// entry, or "look:N" with the number of its record where no entry is known. It
// is "" if neither is. s may be nil.
func NameOf(entryID string, s *store.Snapshot) string {
	if entryID != "" || s == nil || s.Seq == 0 {
		return entryID
	}
	return LookPrefix + strconv.FormatUint(s.Seq, 10)
}
