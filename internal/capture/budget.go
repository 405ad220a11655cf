package capture

import (
	"fmt"
	"strings"
	"time"

	"github.com/boocode/filestore/tree"
)

// A BudgetError says that a capture would have gone over a limit. It matches
// [tree.ErrBudget].
type BudgetError struct {
	Limit   string     // which: "files", "new bytes" or "time"
	Max     int64      // the limit; nanoseconds for time
	Largest []Offender // directories with most to read, the largest first
}

func (e *BudgetError) Error() string {
	limit := fmt.Sprintf("%d %s", e.Max, e.Limit)
	if e.Limit == "time" {
		limit = time.Duration(e.Max).String()
	}
	var b strings.Builder
	for _, o := range e.Largest {
		fmt.Fprintf(&b, "; %q has %d files, %d bytes", o.Path, o.Files, o.Bytes)
	}
	return tree.ErrBudget.Error() + " of " + limit + b.String()
}

// Is reports that the error is tree.ErrBudget.
func (e *BudgetError) Is(target error) bool { return target == tree.ErrBudget }

// An Offender is a directory, one or two levels below the root, with what a
// capture would have to read in it.
type Offender struct {
	Path  string
	Files int64
	Bytes int64
}
