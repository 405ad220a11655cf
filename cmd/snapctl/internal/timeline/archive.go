package timeline

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// archive answers GET /v1/archive?cwd=DIR&session=ID&rev=REV with the files as they were then, in the
// format of tar, below a directory of the project's name: what 'snapctl export' writes, for a browser
// that may run elsewhere. Nothing is written on this machine.
func (s *Server) archive(w http.ResponseWriter, r *http.Request) {
	err := s.sendArchive(w, r)
	switch e := (*started)(nil); {
	case errors.As(err, &e):
		s.log.Error("archive cut off", "err", e.err)
		panic(http.ErrAbortHandler) // an end would say that this is all
	case err != nil:
		s.fail(w, r, withData(err, nil))
	}
}

// started is an error of an archive of which a part was sent.
type started struct{ err error }

func (e *started) Error() string { return e.err.Error() }

func (s *Server) sendArchive(w http.ResponseWriter, r *http.Request) (err error) {
	root := r.FormValue("cwd")
	m, err := s.look(r.Context(), root, r.FormValue("session"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	point, err := m.Resolve(r.Context(), cmp.Or(r.FormValue("rev"), "@"))
	if err != nil {
		return err
	}
	a := &archiver{ctx: r.Context(), store: inside.Store(m), at: time.Unix(0, 0)}
	if point.Snapshot != nil {
		a.at = point.Snapshot.Time
	}
	if err := a.each(point.State.Tree, "", a.read); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", "attachment")
	a.to = tar.NewWriter(w)
	top := filepath.Base(root)
	err = a.to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: top + "/", Mode: 0o755, ModTime: a.at})
	if err == nil {
		err = a.each(point.State.Tree, top, a.add)
	}
	if err = errors.Join(err, a.to.Close()); err != nil {
		err = &started{err}
	}
	return err
}

// An archiver writes a tree.
type archiver struct {
	ctx   context.Context
	store trees.BlobGetter
	at    time.Time // of all files: a tree knows none
	to    *tar.Writer
}

// each calls fn for each entry of a tree, of a directory before what is in it.
func (a *archiver) each(id store.ID, dir string, fn func(path string, e *tree.Entry) error) error {
	if err := trees.CheckDir(dir); err != nil {
		return err
	}
	for e, err := range trees.Entries(a.ctx, a.store, id) {
		if err != nil {
			return err
		}
		path := trees.Join(dir, e.Name)
		if err = fn(path, &e); err == nil && e.Mode.IsDir() {
			err = a.each(e.ID, path, fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns an error if the content of an entry cannot be read: that is said before anything is sent,
// since what is sent then has nowhere to say that something is missing.
func (a *archiver) read(path string, e *tree.Entry) error {
	if e.Mode.IsDir() {
		return nil
	}
	_, err := a.store.CopyBlob(a.ctx, io.Discard, e.ID)
	if err != nil {
		return fmt.Errorf("%q cannot be read, and 'snapctl export' writes all else: %w", path, err)
	}
	return nil
}

func (a *archiver) add(path string, e *tree.Entry) error {
	h := &tar.Header{Name: path, Mode: int64(e.Mode & 0o777), ModTime: a.at}
	if !utf8.ValidString(path) {
		h.Format = tar.FormatGNU // the others have names in UTF-8
	}
	switch {
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, path+"/"
		return a.to.WriteHeader(h)
	case e.Mode.Kind() == tree.ModeSymlink:
		target, err := a.store.Get(a.ctx, object.Blob, e.ID)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, string(target), 0o777
		return a.to.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, e.Size
	if err := a.to.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.store.CopyBlob(a.ctx, a.to, e.ID)
	return err
}
