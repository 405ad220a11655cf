package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

// reviewed are the hunks of a directory that somebody has looked at: the file
// worktrees/<wt>/reviewed (docs/reference/format.md §9). An ID stands for the same piece of a change
// for ever, so a mark that no turn has any more does no harm, and the oldest go when there are many.
type reviewed struct {
	IDs []string `json:"ids"` // in the order in which they were marked
}

const (
	maxReviewed     = 50_000
	maxReviewedID   = 64
	maxReviewedFile = 8 << 20
)

// reviewing asks for marks to be set, or taken away.
type reviewing struct {
	CWD string   `json:"cwd"`
	IDs []string `json:"ids"`
	Is  bool     `json:"is"`
}

// getReviewed lists the marks.
func (s *Server) getReviewed(r *http.Request) (answer any, err error) {
	m, err := s.look(r.Context(), r.FormValue("cwd"), "")
	if errors.Is(err, fs.ErrNotExist) {
		return &reviewed{[]string{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	list := new(reviewed)
	err = withReviewed(r.Context(), m, os.O_RDONLY, vfs.Shared, func(_ vfs.File, l *reviewed) error {
		list = l
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	list.IDs = append([]string{}, list.IDs...)
	return list, err
}

// review sets marks, or takes them away.
func (s *Server) review(r *http.Request) (answer any, err error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var q reviewing
	if err := verbs.DecodePart("body", body, &q); err != nil {
		return nil, err
	}
	isBad := func(id string) bool { return id == "" || len(id) > maxReviewedID }
	if len(q.IDs) == 0 || slices.ContainsFunc(q.IDs, isBad) {
		return nil, explain.Errorf(explain.BadRequest, "ids: want those of hunks")
	}
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	m, err := s.look(r.Context(), q.CWD, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := cas.CheckOwner(m.StoreDir()); err != nil { // it was opened to look
		return nil, err
	}
	return struct{}{}, withReviewed(r.Context(), m, os.O_RDWR|os.O_CREATE, vfs.Exclusive,
		func(f vfs.File, l *reviewed) error {
			l.IDs = slices.DeleteFunc(l.IDs, func(id string) bool { return slices.Contains(q.IDs, id) })
			if q.Is {
				l.IDs = append(l.IDs, q.IDs...)
			}
			l.IDs = l.IDs[max(0, len(l.IDs)-maxReviewed):]
			b, err := json.Marshal(l)
			if err != nil {
				return err
			}
			if err := f.Truncate(0); err != nil {
				return err
			}
			_, err = f.WriteAt(b, 0)
			return err
		})
}

// withReviewed calls fn with the marks. The file is its own lock, and is not synced: one that says
// nothing is an empty one.
func withReviewed(ctx context.Context, m *manager.FileSnapshotManager, flag int, how vfs.LockMode,
	fn func(f vfs.File, l *reviewed) error) error {
	name := layout.Worktree(m.Project().Worktree).Reviewed()
	f, err := inside.Store(m).FS().OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := vfs.Lock(ctx, f, how); err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxReviewedFile))
	if err != nil {
		return err
	}
	l := new(reviewed)
	if json.Unmarshal(b, l) != nil {
		l = new(reviewed)
	}
	return fn(f, l)
}
