package tree

import (
	"fmt"
	"strings"
	"time"
)

// A BudgetError says that a capture would have gone over a limit.
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
	return "over the budget of " + limit + b.String()
}
