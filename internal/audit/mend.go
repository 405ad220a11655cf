package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"syscall"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Mend is a lost object of a snapshot, and where there is another copy.
type Mend struct {
	ID   store.ID
	Kind object.Kind

	Spare string // file of the store that has one; "":
	Root  string // the captured directory, and
	Path  string // the file or link in it that has this content still
}

// A Mender finds out what snapshots have lost, and what of that is still
// somewhere.
type Mender struct {
	s      *cas.Store
	plan   *cas.RepairPlan
	spares *cas.Spares // opened when something is lost
	found  map[store.ID]Mend
	since  map[store.ID]bool // blobs stored since the plan was made
	list   []Mend
	snap   *store.Snapshot // that is being looked at
	whole  []bool          // for each directory above, whether it will lack nothing

	clean  map[store.ID]bool   // trees that lack nothing, by now
	tried  map[triedKey]uint64 // the newest snapshot with it
	roots  map[string]vfs.Dir  // that are open
	unread map[string]error    // first error of each file of a working tree
	open   func(string) (vfs.Dir, error)
}

// A triedKey is a lost object, or a tree that lacks some, in a worktree.
type triedKey struct {
	id       store.ID
	worktree string
}

// NewMender returns a Mender for a store as it will be once a plan is done. It
// must be closed.
func NewMender(s *cas.Store, plan *cas.RepairPlan) *Mender {
	return &Mender{
		s: s, plan: plan,
		found: make(map[store.ID]Mend), since: make(map[store.ID]bool),
		clean: make(map[store.ID]bool), tried: make(map[triedKey]uint64),
		roots: make(map[string]vfs.Dir), unread: make(map[string]error), open: vfs.OpenDir,
	}
}

// Close closes the files that were opened.
func (m *Mender) Close() error {
	var errs []error
	for _, d := range m.roots {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Unread returns the files that could not be read when a copy of something lost
// was looked for, each with the first error: those of the store, and of working
// trees by their full path. Whether they have one is not known.
func (m *Mender) Unread() map[string]error {
	all := maps.Clone(m.unread)
	if m.spares != nil {
		maps.Copy(all, m.spares.Unread())
	}
	return all
}

// Plan reads all snapshots and returns the lost objects that can be put back.
// A blob is looked for in the store's own files, and at its paths in the newest
// snapshot of each worktree that has it; never through a link, and nowhere
// else. It writes nothing.
func (m *Mender) Plan(ctx context.Context) ([]Mend, error) {
	done := progress.Of(ctx)
	done.Begin(progress.Phase{Name: "looking for what is lost", Unit: "snapshot"})
	for snap, err := range m.s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		done.Count(1, 0)
		m.snap, m.whole = snap, []bool{true}
		if err := walkSnapshot(ctx, m, snap, byDirectory, m); err != nil {
			return nil, err
		}
	}
	return m.list, nil
}

func (m *Mender) enter(ctx context.Context, p *place) (goOn bool, err error) {
	whole := true
	if p.isBlob() {
		whole, err = m.blob(ctx, p)
	} else if goOn = !m.clean[p.id]; goOn {
		seq, ok := m.tried[triedKey{p.id, m.snap.Worktree}]
		whole = !ok || seq == m.snap.Seq // or it is not the newest that has it
		goOn = whole
	}
	if goOn {
		m.whole = append(m.whole, true)
	} else if !whole {
		m.lack()
	}
	return goOn, err
}

// lack notes of the directory that is being visited that it will lack something.
func (m *Mender) lack() { m.whole[len(m.whole)-1] = false }

func (m *Mender) lost(_ *place, err error) error {
	if !trees.IsLoss(err) {
		return err
	}
	m.lack()
	return nil
}

func (m *Mender) leave(p *place) {
	whole := m.whole[len(m.whole)-1]
	m.whole = m.whole[:len(m.whole)-1]
	if whole {
		m.clean[p.id] = true
	} else {
		m.tried[triedKey{p.id, m.snap.Worktree}] = m.snap.Seq
		m.lack()
	}
}

// has reports whether an object will be there. One that the plan does not know
// and that can be read was stored since the plan was made, by somebody else.
func (m *Mender) has(ctx context.Context, id store.ID) (bool, error) {
	if _, ok := m.found[id]; ok || m.plan.Keeps(id) || m.since[id] {
		return true, nil
	}
	if remote, err := m.s.Promiser(id); remote != "" || err != nil {
		return err == nil, err
	}
	_, err := m.s.CopyBlob(ctx, io.Discard, id)
	if trees.IsLoss(err) || errors.Is(err, store.ErrForgotten) {
		return false, nil
	}
	m.since[id] = err == nil
	return err == nil, err
}

// Get implements Getter: as the store will be.
func (m *Mender) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	if b, err := m.s.Get(ctx, kind, id); err == nil || !trees.IsLoss(err) {
		return b, err
	}
	var b bytes.Buffer
	file, err := m.spare(ctx, &b, kind, id)
	if err != nil {
		return nil, err
	}
	if _, ok := m.found[id]; !ok && !m.plan.Keeps(id) {
		m.add(Mend{ID: id, Kind: kind, Spare: file})
	}
	return b.Bytes(), nil
}

func (m *Mender) spare(ctx context.Context, w io.Writer, kind object.Kind, id store.ID) (file string, err error) {
	if m.spares == nil {
		if m.spares, err = m.s.Spares(ctx); err != nil {
			return "", err
		}
	}
	return m.spares.Find(ctx, w, kind, id)
}

func (m *Mender) add(mend Mend) {
	m.found[mend.ID] = mend
	m.list = append(m.list, mend)
}

// blob looks at the content of a file or link.
func (m *Mender) blob(ctx context.Context, p *place) (ok bool, err error) {
	if ok, err := m.has(ctx, p.id); ok || err != nil {
		return ok, err
	}
	if was, err := m.s.Forgotten(p.id); was || err != nil && !trees.IsLoss(err) { // it is not to come back
		return was, err
	}
	key := triedKey{p.id, m.snap.Worktree}
	seq, seen := m.tried[key]
	if !seen {
		file, err := m.spare(ctx, io.Discard, object.Blob, p.id)
		if err == nil {
			m.add(Mend{ID: p.id, Kind: object.Blob, Spare: file})
			return true, nil
		}
		if !trees.IsLoss(err) {
			return false, err
		}
		m.tried[key] = m.snap.Seq
	} else if seq != m.snap.Seq {
		return false, nil // not the newest that has it
	}
	if p.isNote() { // no file has it
		return false, nil
	}
	mend := Mend{ID: p.id, Kind: object.Blob, Root: m.snap.Root, Path: p.path()}
	if ok = m.isThere(&mend); ok {
		m.add(mend)
	}
	return ok, nil
}

// isThere reports whether a file of a working tree has the content that is lost.
func (m *Mender) isThere(mend *Mend) (ok bool) {
	m.read(mend, func(r io.Reader) error {
		id, _, err := trees.HashBlob(r)
		ok = err == nil && id == mend.ID
		return err
	})
	return ok
}

// read calls fn with the content of a file of a working tree, or what a link
// holds, if there is one. An error of either is kept for [Mender.Unread].
func (m *Mender) read(mend *Mend, fn func(io.Reader) error) {
	r, err := m.openFile(mend)
	if err == nil {
		err = errors.Join(fn(r), r.Close())
	}
	if err == nil || isNoFile(err) {
		return
	}
	if name := filepath.Join(mend.Root, mend.Path); m.unread[name] == nil {
		m.unread[name] = err
	}
}

// isNoFile reports whether an error of opening a file or link says that there is
// none at that path.
func isNoFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func (m *Mender) openFile(mend *Mend) (io.ReadCloser, error) {
	root := m.roots[mend.Root]
	if root == nil {
		var err error
		if root, err = m.open(mend.Root); err != nil {
			return nil, err
		}
		m.roots[mend.Root] = root
	}
	return vfs.OpenBelow(root, mend.Path)
}

// Restore puts back what Plan has found and returns what it did: a file may
// have changed meanwhile. The plan for the store must be done before.
func (m *Mender) Restore(ctx context.Context, mends []Mend) (done []Mend, err error) {
	if len(mends) == 0 {
		return nil, nil
	}
	w, err := m.s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }() // which makes durable what was put

	if m.spares != nil { // packs have moved since they were looked through
		maps.Copy(m.unread, m.spares.Unread())
		m.spares = nil
	}
	for _, mend := range mends {
		ok, err := m.restore(ctx, w, &mend)
		if err != nil {
			return done, err
		}
		if ok {
			done = append(done, mend)
		}
	}
	return done, nil
}

func (m *Mender) restore(ctx context.Context, w *cas.Writer, mend *Mend) (ok bool, err error) {
	if mend.Kind != object.Blob {
		var b bytes.Buffer
		if _, err = m.spare(ctx, &b, mend.Kind, mend.ID); err == nil {
			_, err = w.Put(mend.Kind, b.Bytes())
		} else if trees.IsLoss(err) { // it could be read when it was planned
			return false, nil
		}
		return err == nil, err
	}
	if was, err := m.s.Forgotten(mend.ID); was || err != nil && !trees.IsLoss(err) { // since it was planned
		return false, err
	}
	if mend.Spare == "" {
		if !m.isThere(mend) { // any more; other content is none of the store's business
			return false, nil
		}
		m.read(mend, func(r io.Reader) error {
			var id store.ID
			id, _, err = w.PutReader(vfs.SourceReader{File: r})
			if source, bad := errors.AsType[vfs.SourceError](err); bad {
				err = nil
				return source.Err
			}
			ok = err == nil && id == mend.ID
			return nil
		})
		return ok, err
	}
	r, pw := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := m.spare(ctx, pw, object.Blob, mend.ID)
		pw.CloseWithError(err)
		sent <- err
	}()
	id, _, err := w.PutReader(r)
	r.Close()
	if serr := <-sent; trees.IsLoss(serr) { // as above
		return false, nil
	}
	return err == nil && id == mend.ID, err
}
