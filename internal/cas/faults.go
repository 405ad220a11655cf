package cas

import "errors"

// Errors for the packages above, which answer to them.
var (
	// ErrMoved: the snapshot that a commit builds on is not the newest of
	// its session any more.
	ErrMoved = errors.New("session has moved on")
	// ErrPlanStale: the store was pruned or repaired since a prune was planned: plan
	// again.
	ErrPlanStale = errors.New("the store was pruned or repaired since it was planned")
	// ErrLost: a write failed elsewhere in this process, and objects that
	// this writer may have counted on are gone with it. Capture again.
	ErrLost = errors.New("objects lost by a failed write")
)
