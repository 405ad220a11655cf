package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/boocode/filestore/store"
)

// Kinds of record of edits. They are in a line of their own, of all sessions of
// a worktree: they say of a few files what they were, and nothing of the others.
const (
	kindEditIntent = "edit-intent" // an edit is about to be written: with a crash it is taken back
	kindEdit       = "edit"
)

// editSession is the session of that line; others have no such name.
const editSession = "edits"

// editSuffix makes the line of a worktree's edits of its name.
const editSuffix = "/edits"

func (m *FileSnapshotManager) editWorktree() string { return m.project.Worktree() + editSuffix }

// IsEdit reports whether a snapshot is of an edit, and so of a few files only.
func IsEdit(s *store.Snapshot) bool { return s.Kind == kindEdit || s.Kind == kindEditIntent }

// editVersion is the version of editData.
const editVersion = 1

// editData is what a record of an edit holds. Of contents it has hashes; the
// store has them as blobs of its two trees.
type editData struct {
	Version int  `json:"v"`
	Aborted bool `json:"aborted,omitempty"` // it was cut off, and taken back
	EditResult
	Raw [][2][]byte `json:"raw"` // paths and where they were moved, as bytes
}

type editRecord struct {
	*store.Snapshot
	data editData
}

func readEditRecord(s *store.Snapshot) (*editRecord, error) {
	r := &editRecord{Snapshot: s}
	if err := json.Unmarshal(s.Data, &r.data); err != nil {
		return nil, fmt.Errorf("snapshot %d: data: %w", s.Seq, err)
	}
	if r.data.Version != editVersion || len(r.data.Raw) != len(r.data.Files) {
		return nil, fmt.Errorf("snapshot %d: %w: data of an edit", s.Seq, store.ErrFormat)
	}
	for i := range r.data.Files {
		f := &r.data.Files[i]
		f.Path, f.To = string(r.data.Raw[i][0]), string(r.data.Raw[i][1])
	}
	return r, nil
}

// newestEdit returns the newest record of an edit, nil if there is none.
func (m *FileSnapshotManager) newestEdit(ctx context.Context) (*editRecord, error) {
	s, err := m.store.Newest(ctx, m.editWorktree(), editSession)
	return readNewestEdit(s, err)
}

func readNewestEdit(s *store.Snapshot, err error) (*editRecord, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readEditRecord(s)
}

// editRecords yields the records of edits, newest first.
func (m *FileSnapshotManager) editRecords(ctx context.Context) iter.Seq2[*editRecord, error] {
	return func(yield func(*editRecord, error) bool) {
		r, err := m.newestEdit(ctx)
		for r != nil || err != nil {
			if !yield(r, err) || err != nil || r.Parent == 0 {
				return
			}
			var s *store.Snapshot
			if s, err = m.store.Snapshot(ctx, r.Parent); err == nil {
				r, err = readEditRecord(s)
			}
		}
	}
}

// editByID finds an edit.
func (m *FileSnapshotManager) editByID(ctx context.Context, id string) (*editRecord, error) {
	for r, err := range m.editRecords(ctx) {
		if err != nil {
			return nil, err
		}
		if r.Kind == kindEdit && !r.data.Aborted && r.data.UndoID == id {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no such edit", ErrUnknown)
}
