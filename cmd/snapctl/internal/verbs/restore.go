package verbs

import (
	"context"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
)

// Navigate moves the conversation, and the files with it.
type Navigate struct {
	Target string `json:"target"` // an entry
	manager.NavigateOptions
}

// Restore brings files back, Revert takes turns back, and Undo takes one of these back.
type (
	Restore struct {
		manager.RestoreOptions
		Agreed
	}
	Revert struct {
		manager.RevertOptions
		Agreed
	}
	Undo struct {
		manager.UndoOptions
		Agreed
		Planned
	}
)

// RestorePreview says what Restore would do, RevertPreview what Revert would.
type (
	RestorePreview struct {
		manager.RestoreOptions
		Planned
	}
	RevertPreview struct {
		manager.RevertOptions
		Planned
	}
)

// Restored says what a restore did, or would do.
type Restored struct {
	*manager.RestoreResult
	Plan        string          `json:"plan,omitempty"`        // of a preview: stands for all that would be done
	Diffs       []PlannedFile   `json:"diffs,omitempty"`       // of a preview, if they were asked for
	SnapshotSeq uint64          `json:"snapshotSeq,omitempty"` // number of the record; 0: nothing was changed
	Complete    bool            `json:"complete"`              // all that was wanted was done
	Entries     []session.Entry `json:"entries"`               // for the runtime's log: then send told
}

// Navigated says where the conversation stands.
type Navigated struct {
	*manager.NavigateResult
	Entries []session.Entry `json:"entries"` // for the runtime's log
}

// entries collects what a runtime is to append to its log. A session of which we
// keep the log collects nothing.
func (s *Session) entries(list *[]session.Entry) manager.EntryFunc {
	*list = []session.Entry{}
	if !s.logs {
		return nil
	}
	return func(_ context.Context, e *session.Entry) (string, error) {
		*list = append(*list, *e)
		return "", nil
	}
}

// restoring has do restore files. What the manager wants to append to the runtime's log,
// by the field to of its options, is in the answer. isPreview is the field of the options that says
// whether it is one; nil: it is not.
func (s *Session) restoring(ctx context.Context, to *manager.EntryFunc, isPreview *bool, agreed *Agreed, p *Planned,
	do func(ctx context.Context) (*manager.RestoreResult, error)) (*Restored, error) {
	var entries []session.Entry
	*to = s.entries(&entries)
	if agreed != nil && agreed.Plan != "" && !*isPreview {
		if answer, err := s.holds(ctx, isPreview, agreed.Plan, do); err != nil {
			return answer, err
		}
	}
	var texts mergedTexts
	if p != nil && p.Diffs {
		texts = make(mergedTexts)
		ctx = inside.WithMerged(ctx, texts.add)
	}
	r, err := do(ctx)
	if r == nil {
		return nil, err
	}
	answer := &Restored{RestoreResult: r, Complete: r.IsComplete(), Entries: entries}
	if r.Snapshot != nil {
		answer.SnapshotSeq = r.Snapshot.Seq
	}
	if r.Preview {
		answer.Plan = PlanSum(r)
	}
	if r.Preview && texts != nil && err == nil {
		answer.Diffs, err = s.planDiffs(ctx, r, texts, p.Context)
	}
	return answer, err
}

// wantSome refuses a list that is there and has nothing in it: without one all would be taken back,
// which who has picked nothing does not mean.
func wantSome(paths, hunks []string) error {
	for name, list := range map[string][]string{"paths": paths, "hunks": hunks} {
		if list != nil && len(list) == 0 {
			return explain.Errorf(explain.BadRequest, "%s: the list is empty: leave it out if all is meant", name)
		}
	}
	return nil
}

// RestoreFiles is the manager's, of lists that have something in them.
func (s *Session) RestoreFiles(ctx context.Context, o *manager.RestoreOptions) (*manager.RestoreResult, error) {
	if err := wantSome(o.Paths, o.Hunks); err != nil {
		return nil, err
	}
	return s.FileSnapshotManager.RestoreFiles(ctx, o)
}

// Revert is so, too.
func (s *Session) Revert(ctx context.Context, o *manager.RevertOptions) (*manager.RestoreResult, error) {
	if err := wantSome(o.Paths, o.Hunks); err != nil {
		return nil, err
	}
	return s.FileSnapshotManager.Revert(ctx, o)
}

func restore(ctx context.Context, s *Session, a *Restore) (*Restored, error) {
	return s.restoring(ctx, &a.Append, &a.Preview, &a.Agreed, nil,
		func(ctx context.Context) (*manager.RestoreResult, error) {
			return s.RestoreFiles(ctx, &a.RestoreOptions)
		})
}

func restorePreview(ctx context.Context, s *Session, a *RestorePreview) (*Restored, error) {
	a.Preview = true
	return s.restoring(ctx, &a.Append, &a.Preview, nil, &a.Planned,
		func(ctx context.Context) (*manager.RestoreResult, error) {
			return s.RestoreFiles(ctx, &a.RestoreOptions)
		})
}

func revert(ctx context.Context, s *Session, a *Revert) (*Restored, error) {
	return s.restoring(ctx, &a.Append, &a.Preview, &a.Agreed, nil,
		func(ctx context.Context) (*manager.RestoreResult, error) { return s.Revert(ctx, &a.RevertOptions) })
}

func revertPreview(ctx context.Context, s *Session, a *RevertPreview) (*Restored, error) {
	a.Preview = true
	return s.restoring(ctx, &a.Append, &a.Preview, nil, &a.Planned,
		func(ctx context.Context) (*manager.RestoreResult, error) { return s.Revert(ctx, &a.RevertOptions) })
}

func undo(ctx context.Context, s *Session, a *Undo) (*Restored, error) {
	return s.restoring(ctx, &a.Append, &a.Preview, &a.Agreed, &a.Planned,
		func(ctx context.Context) (*manager.RestoreResult, error) { return s.Undo(ctx, &a.UndoOptions) })
}

func redo(ctx context.Context, s *Session, a *Undo) (*Restored, error) {
	return s.restoring(ctx, &a.Append, &a.Preview, &a.Agreed, &a.Planned,
		func(ctx context.Context) (*manager.RestoreResult, error) { return s.Redo(ctx, &a.UndoOptions) })
}

func navigateTree(ctx context.Context, s *Session, a *Navigate) (*Navigated, error) {
	var entries []session.Entry
	a.Append = s.entries(&entries)
	r, err := s.NavigateTree(ctx, a.Target, &a.NavigateOptions)
	if r == nil {
		return nil, err
	}
	return &Navigated{r, entries}, err
}

// WhyNotCaptured says why a path stays that [manager.RestoreResult].NotCaptured lists.
const WhyNotCaptured = "it was left out of the snapshots then, or is left out now"
