package manager

import (
	"strings"

	"github.com/boocode/filestore/rollback"
)

// A Conflict is a path at which something stays that a restore with [rollback.Merge] was
// to take back, or to do again, since somebody has changed it.
type Conflict struct {
	Path string `json:"path"`

	// Why it stays: "lines" were changed, the rest of the file is merged; of a whole file
	// "made-then-changed", "deleted-then-made", "changed-then-deleted", "binary", "large",
	// "kind" (one is no file), "lost" (a content is not in the store); "hidden" under the
	// deletion by a turn that stays; "contested" or "unknown": nobody knows whose it is.
	Why string `json:"why"`

	// BlockedBy are those who have changed it since, the newest last: "turn:9" of this
	// session, "session ID turn:5" of another, "user", or "unknown".
	BlockedBy []string `json:"blockedBy,omitempty"`

	// Hint is a command that would take it back, with the turns in its way; "": there is
	// none.
	Hint string `json:"hint,omitempty"`
}

// addConflict adds what is in the way at a path that was left alone to the result.
func (x *restore) addConflict(it *rollback.Item) {
	c := x.conflicts[it.Path]
	w := x.expected[it.Path]
	switch doubt, _, _ := strings.Cut(it.Why, ":"); {
	case c != nil || x.opts.OnDirty != rollback.Merge:
	case w != nil && w.Hidden:
		c = &Conflict{Path: it.Path, Why: "hidden"}
	case it.Do == rollback.Skipped && (doubt == "contested" || doubt == "unknown"):
		c = &Conflict{Path: it.Path, Why: doubt}
	}
	if c != nil {
		x.result.Conflicts = append(x.result.Conflicts, *c)
	}
}
