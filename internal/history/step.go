package history

import (
	"encoding/json"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A Step is what a log says of a turn, in short: the data of a step-snapshot entry.
type Step struct {
	Seq         uint64 // number of its record; 0: none is known
	Turn        int    // index
	RuntimeTurn *int
	Base        store.ID // at its start; zero: not known
	Tree        store.ID // that it left
	Counts      [3]int   // paths added, modified, deleted
	Unknown     string   // why they are not known
	Late        bool     // the log was given it late
	Above       string   // the entry that it belongs behind then; "": it comes before all
	Contested   bool     // of what it changed, something may be another session's doing
	Interrupted bool
	Partial     bool
}

// maxTurn is above any turn that a session can have had.
const maxTurn = 1 << 31

// ParseStep returns what an entry says of a turn, nil if it is no step-snapshot, or
// another program's: a log may have been written by several.
func ParseStep(e *session.Entry) *Step {
	if e.Type != "custom" || e.CustomType != sessionlog.StepSnapshot {
		return nil
	}
	var d struct {
		BaselineTreeHash, SnapshotTreeHash store.ID
		Diff                               *struct {
			Added, Modified, Deleted []string
			Unknown                  string
		}
		TurnIndex            int
		RuntimeTurnIndex     *int
		SnapshotSeq          uint64
		Late                 bool
		AboveEntryID         string
		Contested            *struct{}
		Interrupted, Partial bool
	}
	if json.Unmarshal(e.Data, &d) != nil || d.SnapshotTreeHash.IsZero() || d.TurnIndex < 0 || d.TurnIndex > maxTurn {
		return nil
	}
	s := &Step{Seq: d.SnapshotSeq, Turn: d.TurnIndex, RuntimeTurn: d.RuntimeTurnIndex,
		Base: d.BaselineTreeHash, Tree: d.SnapshotTreeHash, Late: d.Late, Above: d.AboveEntryID,
		Contested: d.Contested != nil, Interrupted: d.Interrupted, Partial: d.Partial}
	if d.Diff != nil {
		s.Counts, s.Unknown = [3]int{len(d.Diff.Added), len(d.Diff.Modified), len(d.Diff.Deleted)}, d.Diff.Unknown
	}
	return s
}

// IsOf reports whether an entry is that of a record, which has the same number:
// one that was made in another store may have it, too.
func (s *Step) IsOf(r *Record) bool {
	tree, base := s.Tree, s.Base
	if r.Pruned {
		tree, base = cas.Pruned(tree), cas.Pruned(base)
	}
	switch {
	case !r.IsStep() || r.Tree != tree:
		return false
	case r.Kind == KindStart:
		return base.IsZero() && s.Turn == 0
	}
	return r.Base.Tree == base && r.Facts.Turn == s.Turn
}
