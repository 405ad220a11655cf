package verbs

import (
	"context"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
)

// Navigate moves the conversation, and the files with it.
type Navigate struct {
	Target string `json:"target"` // an entry
	manager.NavigateOptions
}

// Restored says what a restore did, or would do.
type Restored struct {
	*manager.RestoreResult
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
// by the field to of its options, is in the answer.
func (s *Session) restoring(to *manager.EntryFunc, do func() (*manager.RestoreResult, error)) (*Restored, error) {
	var entries []session.Entry
	*to = s.entries(&entries)
	r, err := do()
	if r == nil {
		return nil, err
	}
	answer := &Restored{RestoreResult: r, Complete: r.IsComplete(), Entries: entries}
	if r.Snapshot != nil {
		answer.SnapshotSeq = r.Snapshot.Seq
	}
	return answer, err
}

func restore(ctx context.Context, s *Session, a *manager.RestoreOptions) (*Restored, error) {
	return s.restoring(&a.Append, func() (*manager.RestoreResult, error) { return s.RestoreFiles(ctx, a) })
}

func restorePreview(ctx context.Context, s *Session, a *manager.RestoreOptions) (*Restored, error) {
	a.Preview = true
	return restore(ctx, s, a)
}

func revert(ctx context.Context, s *Session, a *manager.RevertOptions) (*Restored, error) {
	return s.restoring(&a.Append, func() (*manager.RestoreResult, error) { return s.Revert(ctx, a) })
}

func revertPreview(ctx context.Context, s *Session, a *manager.RevertOptions) (*Restored, error) {
	a.Preview = true
	return revert(ctx, s, a)
}

func undo(ctx context.Context, s *Session, a *manager.UndoOptions) (*Restored, error) {
	return s.restoring(&a.Append, func() (*manager.RestoreResult, error) { return s.Undo(ctx, a) })
}

func redo(ctx context.Context, s *Session, a *manager.UndoOptions) (*Restored, error) {
	return s.restoring(&a.Append, func() (*manager.RestoreResult, error) { return s.Redo(ctx, a) })
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
