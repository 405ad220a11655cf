package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Mend is a lost object of a snapshot, and where there is another copy.
type Mend struct {
	ID   store.ID
	Kind store.Kind

	Spare string // file of the store that has one; "":
	Root  string // the captured directory, and
	Path  string // the file or link in it that has this content still
}

// A Hurt is a snapshot that cannot be restored as it was.
type Hurt struct {
	Snapshot *store.Snapshot
	Problems []Problem  // in its tree, and in the other states that it keeps: of each path one
	Lost     []store.ID // all contents and directories that it lacks
}

// A Mender finds out what snapshots have lost, and what of that is still
// somewhere.
type Mender struct {
	s      *store.Store
	plan   *store.RepairPlan
	spares *store.Spares // opened when something is lost
	found  map[store.ID]Mend
	since  map[store.ID]bool // blobs stored since the plan was made
	list   []Mend

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
func NewMender(s *store.Store, plan *store.RepairPlan) *Mender {
	return &Mender{s: s, plan: plan, found: make(map[store.ID]Mend), since: make(map[store.ID]bool), clean: make(map[store.ID]bool),
		tried: make(map[triedKey]uint64), roots: make(map[string]vfs.Dir), unread: make(map[string]error), open: vfs.OpenDir}
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
	for snap, err := range m.s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		for _, state := range snap.States() {
			for _, top := range reach(m, state) {
				if _, err := m.visit(ctx, snap, &top); err != nil {
					return nil, err
				}
			}
		}
	}
	return m.list, nil
}

// visit looks at what a place is and all that it leads to, and reports whether
// it will lack nothing.
func (m *Mender) visit(ctx context.Context, snap *store.Snapshot, p *place) (whole bool, err error) {
	if p.isBlob() {
		return m.blob(ctx, snap, p)
	}
	if m.clean[p.id] {
		return true, nil
	}
	key := triedKey{p.id, snap.Worktree}
	if seq, ok := m.tried[key]; ok && seq != snap.Seq {
		return false, nil // not the newest that has it
	}
	whole = true
	for next, err := range p.entries(ctx) {
		if IsLoss(err) {
			whole = false
			break
		}
		if err != nil {
			return false, err
		}
		ok, err := m.visit(ctx, snap, next)
		if err != nil {
			return false, err
		}
		whole = whole && ok
	}
	if whole {
		m.clean[p.id] = true
	} else {
		m.tried[key] = snap.Seq
	}
	return whole, nil
}

// has reports whether an object will be there. One that the plan does not know
// and that can be read was stored since the plan was made, by somebody else.
func (m *Mender) has(ctx context.Context, id store.ID) (bool, error) {
	if _, ok := m.found[id]; ok || m.plan.Keeps(id) || m.since[id] {
		return true, nil
	}
	_, err := m.s.CopyBlob(ctx, io.Discard, id)
	if IsLoss(err) || errors.Is(err, store.ErrForgotten) {
		return false, nil
	}
	m.since[id] = err == nil
	return err == nil, err
}

// Get implements Getter: as the store will be.
func (m *Mender) Get(ctx context.Context, kind store.Kind, id store.ID) ([]byte, error) {
	if b, err := m.s.Get(ctx, kind, id); err == nil || !IsLoss(err) {
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

func (m *Mender) spare(ctx context.Context, w io.Writer, kind store.Kind, id store.ID) (file string, err error) {
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
func (m *Mender) blob(ctx context.Context, snap *store.Snapshot, p *place) (ok bool, err error) {
	if ok, err := m.has(ctx, p.id); ok || err != nil {
		return ok, err
	}
	if was, err := m.s.Forgotten(p.id); was || err != nil && !IsLoss(err) { // it is not to come back
		return was, err
	}
	key := triedKey{p.id, snap.Worktree}
	seq, seen := m.tried[key]
	if !seen {
		file, err := m.spare(ctx, io.Discard, store.Blob, p.id)
		if err == nil {
			m.add(Mend{ID: p.id, Kind: store.Blob, Spare: file})
			return true, nil
		}
		if !IsLoss(err) {
			return false, err
		}
		m.tried[key] = snap.Seq
	} else if seq != snap.Seq {
		return false, nil // not the newest that has it
	}
	mend := Mend{ID: p.id, Kind: store.Blob, Root: snap.Root, Path: p.path()}
	if ok = m.isThere(&mend); ok {
		m.add(mend)
	}
	return ok, nil
}

// isThere reports whether a file of a working tree has the content that is lost.
func (m *Mender) isThere(mend *Mend) (ok bool) {
	m.read(mend, func(r io.Reader) error {
		id, err := hashBlob(r)
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
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, vfs.ErrNotRegular)
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
	dir, name := root, path.Base(mend.Path)
	for elem := range strings.SplitSeq(mend.Path[:len(mend.Path)-len(name)], "/") {
		if elem == "" {
			continue
		}
		sub, err := dir.OpenDir(elem)
		if dir != root {
			dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	if dir != root {
		defer dir.Close()
	}
	f, err := dir.Open(name, nil)
	if !errors.Is(err, vfs.ErrNotRegular) {
		return f, err
	}
	target, lerr := dir.Readlink(name)
	if errors.Is(lerr, syscall.EINVAL) { // nor is it a link
		return nil, err
	}
	return io.NopCloser(strings.NewReader(target)), lerr
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

func (m *Mender) restore(ctx context.Context, w *store.Writer, mend *Mend) (ok bool, err error) {
	if mend.Kind != store.Blob {
		var b bytes.Buffer
		_, err := m.spare(ctx, &b, mend.Kind, mend.ID)
		if IsLoss(err) { // it could be read when it was planned
			return false, nil
		}
		if err == nil {
			_, err = w.Put(mend.Kind, b.Bytes())
		}
		return err == nil, err
	}
	if was, err := m.s.Forgotten(mend.ID); was || err != nil && !IsLoss(err) { // since it was planned
		return false, err
	}
	if mend.Spare == "" {
		if !m.isThere(mend) { // any more; other content is none of the store's business
			return false, nil
		}
		m.read(mend, func(r io.Reader) error {
			var id store.ID
			id, _, err = w.PutReader(markedReader{r})
			if source, bad := errors.AsType[sourceError](err); bad {
				err = nil
				return source.error
			}
			ok = err == nil && id == mend.ID
			return nil
		})
		return ok, err
	}
	r, pw := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := m.spare(ctx, pw, store.Blob, mend.ID)
		pw.CloseWithError(err)
		sent <- err
	}()
	id, _, err := w.PutReader(r)
	r.Close()
	if serr := <-sent; IsLoss(serr) { // as above
		return false, nil
	}
	return err == nil && id == mend.ID, err
}

// hashBlob returns the ID that what r gives has as a blob.
func hashBlob(r io.Reader) (id store.ID, err error) {
	h := blake3.New()
	_, err = io.Copy(h, r)
	h.Sum(id[:0])
	return id, err
}

// Hurt yields the snapshots that will not be whole, newest first, with all
// their paths that are hurt: also those that they share. A loss that was accepted is
// none. Each pair is a Hurt
// and nil, or a zero Hurt and the error that ends the sequence.
func (m *Mender) Hurt(ctx context.Context) iter.Seq2[Hurt, error] {
	return hurt(ctx, m.s, m, func(ctx context.Context, id store.ID) error {
		if ok, err := m.has(ctx, id); ok || err != nil {
			return err
		}
		if was, err := m.s.Forgotten(id); was || err != nil && !IsLoss(err) {
			return err
		}
		return store.ErrNotFound
	})
}

// Hurts is [Mender.Hurt] of a store as it is, in which objects are as they
// should be or are not there: after a repair.
func Hurts(ctx context.Context, s *store.Store) iter.Seq2[Hurt, error] {
	return hurt(ctx, s, s, NewChecker(s).blob)
}

func hurt(ctx context.Context, s *store.Store, g Getter, blob func(context.Context, store.ID) error) iter.Seq2[Hurt, error] {
	h := &hurtWalk{s: s, g: g, blob: blob, known: make(map[store.ID][]Problem)}
	return func(yield func(Hurt, error) bool) {
		for snap, err := range s.Snapshots(ctx) {
			var one Hurt
			if err == nil {
				one, err = h.snapshot(ctx, snap)
			}
			if err != nil {
				yield(Hurt{}, err)
				return
			}
			if len(one.Problems) > 0 && !yield(one, nil) {
				return
			}
		}
	}
}

// A hurtWalk remembers of each tree what is wrong in it, so that it costs one
// look however many snapshots share it.
type hurtWalk struct {
	s     *store.Store
	g     Getter
	blob  func(context.Context, store.ID) error
	known map[store.ID][]Problem
}

func (h *hurtWalk) snapshot(ctx context.Context, snap *store.Snapshot) (Hurt, error) {
	out := Hurt{Snapshot: snap}
	seen, lost := make(map[string]bool), make(map[store.ID]bool)
	for _, state := range snap.States() {
		for _, top := range reach(h.g, state) {
			list, err := h.visit(ctx, &top)
			if err != nil {
				return Hurt{}, err
			}
			for _, p := range list {
				if !lost[p.ID] {
					lost[p.ID] = true
					out.Lost = append(out.Lost, p.ID)
				}
				if !seen[p.Path] {
					seen[p.Path] = true
					out.Problems = append(out.Problems, p)
				}
			}
		}
	}
	return out, nil
}

// lost returns what there is to say of an object that is lost: nothing, if that was
// accepted.
func (h *hurtWalk) lost(id store.ID, err error) []Problem {
	if _, ok := h.s.AcceptedObject(id); ok {
		return nil
	}
	return []Problem{{ID: id, Err: err}}
}

// visit returns what is wrong at a place and all that it leads to, by paths
// relative to it.
func (h *hurtWalk) visit(ctx context.Context, p *place) ([]Problem, error) {
	if p.isBlob() {
		err := h.blob(ctx, p.id)
		if IsLoss(err) {
			return h.lost(p.id, err), nil
		}
		return nil, err
	}
	if list, ok := h.known[p.id]; ok {
		return list, nil
	}
	var list []Problem
	for next, err := range p.entries(ctx) {
		if IsLoss(err) {
			list = append(list, h.lost(p.id, err)...)
			break
		}
		if err != nil {
			return nil, err
		}
		found, err := h.visit(ctx, next)
		if err != nil {
			return nil, err
		}
		for _, problem := range found {
			full := next.name
			if problem.Path != "" {
				full = join(next.name, problem.Path)
			}
			list = append(list, Problem{Path: full, ID: problem.ID, Err: problem.Err})
		}
	}
	h.known[p.id] = list
	return list, nil
}
