package manager

import (
	"context"
	"fmt"

	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// unrevertPointData is the data of an unrevert-point entry in a session log:
// what a restore did, so that it can be taken back.
type unrevertPointData struct {
	PreRollbackTreeHash store.ID `json:"preRollbackTreeHash"` // the files that it changed are in there as they were
	RolledBackToLeaf    *string  `json:"rolledBackToLeaf"`    // entry of the target; null: the start of the session
	RestoredFiles       []string `json:"restoredFiles"`

	DeletedFiles []string `json:"deletedFiles"`
	TreeHash     store.ID `json:"treeHash"`            // of the directory afterwards, as far as is known
	SnapshotSeq  uint64   `json:"snapshotSeq"`         // number of the record in the store
	Undoes       uint64   `json:"undoesSeq,omitempty"` // number of the restore that it takes back

	// The bytes of paths that are not UTF-8, by list and by index in it.
	PathBytes map[string]map[int][]byte `json:"pathBytes,omitempty"`
}

// log appends the unrevert-point of a restore to the session's log.
func (x *restore) log(ctx context.Context, r *record) error {
	if x.isOwn() {
		x.result.EntryID = r.Entry
		return nil
	}
	d, err := x.m.unrevertPoint(ctx, r)
	if err != nil {
		return err
	}
	id, err := x.opts.Append(ctx, d.entry("", ""))
	if err != nil {
		return fmt.Errorf("log the restore: %w", err)
	}
	x.result.EntryID = id
	return x.m.bind(context.WithoutCancel(ctx), r, id, false)
}

// unrevertPoint returns what a session's log is told of a restore.
func (m *FileSnapshotManager) unrevertPoint(ctx context.Context, r *record) (*unrevertPointData, error) {
	d := &unrevertPointData{PreRollbackTreeHash: r.Base.Tree, RestoredFiles: []string{}, DeletedFiles: []string{},
		TreeHash: r.Tree, SnapshotSeq: r.Seq, Undoes: r.Facts.Undoes}
	to, err := m.records.StepAt(ctx, r.Position(), r.Session)
	if err == nil {
		to, err = m.byRecords().TurnAt(ctx, to)
	}
	if err != nil {
		return nil, err
	}
	if to.Entry != "" {
		d.RolledBackToLeaf = &to.Entry
	}
	for c, err := range trees.Diff(ctx, m.tree.pages, r.Base.Tree, r.Tree) {
		switch {
		case err != nil:
			return nil, err
		case c.New != nil && !c.New.Mode.IsDir():
			d.PathBytes = addPath(d.PathBytes, "restoredFiles", &d.RestoredFiles, c.Path)
		case c.New == nil && !c.Old.Mode.IsDir():
			d.PathBytes = addPath(d.PathBytes, "deletedFiles", &d.DeletedFiles, c.Path)
		}
	}
	return d, nil
}

// entry returns the unrevert-point entry that has this data.
func (d *unrevertPointData) entry(id, parent string) *session.Entry {
	return &session.Entry{ID: id, ParentID: parent, Type: "custom", CustomType: sessionlog.UnrevertPoint,
		Data: encode(d)}
}
