package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
)

func (m *FileSnapshotManager) editWorktree() string { return m.project.Worktree + history.EditSuffix }

// editVersion is the version of editData.
const editVersion = 1

// An editData is what a record of an edit holds. Of contents it has hashes; the
// store has them as blobs of its two trees.
type editData struct {
	Version int  `json:"v"`
	Aborted bool `json:"aborted,omitempty"` // it was cut off, and taken back

	UndoID  string     `json:"undoId,omitempty"`
	Undoes  string     `json:"undoes,omitempty"`
	Session string     `json:"session,omitempty"`
	Turn    *int       `json:"turnIndex,omitempty"`
	Time    time.Time  `json:"time"`
	Files   []fileData `json:"files"`

	Raw [][2][]byte `json:"raw"` // paths and where they were moved, as bytes
}

// A fileData is an [EditedFile] on record: it has the same fields, in the same order.
type fileData struct {
	Path         string      `json:"path"`
	To           string      `json:"to,omitempty"`
	Op           patch.Op    `json:"op"`
	Unread       bool        `json:"unread,omitempty"`
	BeforeHash   string      `json:"beforeHash,omitempty"`
	AfterHash    string      `json:"afterHash,omitempty"`
	BeforeSHA256 string      `json:"beforeSha256,omitempty"`
	AfterSHA256  string      `json:"afterSha256,omitempty"`
	Mode         patch.Kind  `json:"mode,omitempty"`
	Stage        patch.Stage `json:"stage,omitempty"`
	Similarity   float64     `json:"similarity,omitempty"`
	Replacements int         `json:"replacements,omitempty"`
	Warnings     []string    `json:"warnings,omitempty"`
	Diff         string      `json:"-"`
}

// newEditData returns what a record has of an edit.
func newEditData(r *EditResult) editData {
	d := editData{Version: editVersion, UndoID: r.UndoID, Undoes: r.Undoes, Session: r.Session, Turn: r.Turn,
		Time: r.Time}
	for _, f := range r.Files {
		f.Diff = "" // of contents there are only hashes
		d.Files = append(d.Files, fileData(f))
		d.Raw = append(d.Raw, [2][]byte{[]byte(f.Path), []byte(f.To)})
	}
	return d
}

// result returns what the API says of an edit on record.
func (d *editData) result() *EditResult {
	r := &EditResult{UndoID: d.UndoID, Undoes: d.Undoes, Session: d.Session, Turn: d.Turn, Time: d.Time}
	r.Files = []EditedFile{}
	for _, f := range d.Files {
		r.Files = append(r.Files, EditedFile(f))
	}
	return r
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
	s, err := m.store.Newest(ctx, m.editWorktree(), history.EditSession)
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
		if r.Kind == history.KindEdit && !r.data.Aborted && r.data.UndoID == id {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no such edit", ErrUnknown)
}
