package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// forgotten is what was read last of the file forgotten: it has the IDs of blobs that
// were taken out of all snapshots on purpose (docs/reference/format.md §5.7). Who misses one
// learns from it that nothing is damaged. Of a blob that was stored again it says
// nothing.
type forgotten struct {
	mu  sync.Mutex // guards the rest
	at  vfs.Stat   // of the file that was read
	ids map[store.ID]bool
}

// Forgotten reports whether a blob was forgotten: see [PruneOptions]. It may
// have been stored again since.
func (s *Store) Forgotten(id store.ID) (bool, error) {
	ids, err := s.forgottenIDs()
	return ids[id], err
}

// forgottenIDs returns all IDs in the file, which the caller must not change.
func (s *Store) forgottenIDs() (map[store.ID]bool, error) {
	f := &s.forgotten
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := s.fsys.Stat(layout.ForgottenName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if f.ids != nil && f.at == st {
		return f.ids, nil
	}
	b, err := vfs.ReadFile(s.fsys, layout.ForgottenName)
	if err != nil {
		return nil, err
	}
	list, err := parseForgotten(b, s.id)
	if err != nil {
		return nil, &object.CorruptError{Path: layout.ForgottenName, Err: err}
	}
	f.at, f.ids = st, make(map[store.ID]bool, len(list))
	for _, id := range list {
		f.ids[id] = true
	}
	return f.ids, nil
}

// missing returns why an object is not there.
func (s *Store) missing(id store.ID) error {
	was, err := s.Forgotten(id)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		s.log.Warn("damaged: what was forgotten is not known", "path", layout.ForgottenName, "err", err)
		return store.ErrNotFound
	case err != nil:
		return err
	case was:
		return store.ErrForgotten
	}
	remote, err := s.Promiser(id)
	switch {
	case err != nil: // it is not said to be lost where a remote may have it
		return err
	case remote != "":
		return &PromisedError{Remote: remote}
	}
	return store.ErrNotFound
}

// noteForgotten makes durable that blobs are forgotten.
func (s *Store) noteForgotten(more map[store.ID]bool) error {
	ids, err := s.forgottenIDs()
	if err != nil {
		return err
	}
	all := maps.Clone(ids)
	if all == nil {
		all = make(map[store.ID]bool)
	}
	maps.Copy(all, more)
	if len(all) == len(ids) {
		return s.fsys.SyncDir(".") // whoever wrote it may not have come so far
	}
	list := slices.SortedFunc(maps.Keys(all), func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return layout.WriteFile(s.fsys, layout.ForgottenName, appendForgotten(nil, s.id, list))
}

func appendForgotten(b []byte, of [16]byte, ids []store.ID) []byte {
	b = layout.Header{Magic: layout.ForgottenMagic, Store: of, B: uint32(len(ids))}.Append(b)
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return layout.Le.AppendUint32(b, layout.Checksum(b))
}

// parseForgotten reads what appendForgotten writes, and nothing else.
func parseForgotten(b []byte, of [16]byte) ([]store.ID, error) {
	h, err := layout.ParseHeader(b, layout.ForgottenMagic, of)
	if err != nil {
		return nil, err
	}
	n := int(h.B)
	if h.A != 0 || h.Name != [16]byte{} || n == 0 || len(b) != layout.HeaderSize+n*len(store.ID{})+4 ||
		layout.Le.Uint32(b[len(b)-4:]) != layout.Checksum(b[:len(b)-4]) {
		return nil, errors.New("not the list that was written")
	}
	ids := make([]store.ID, n)
	for i := range ids {
		ids[i] = store.ID(b[layout.HeaderSize+i*len(store.ID{}):][:len(store.ID{})])
		if i > 0 && bytes.Compare(ids[i-1][:], ids[i][:]) >= 0 {
			return nil, errors.New("out of order")
		}
	}
	return ids, nil
}

// isPure reports whether a pack holds nothing but records that are to stay.
func (c *candidate) isPure() bool {
	size := layout.HeaderSize + c.live
	if c.sealed {
		size += pack.SealSize + layout.HeaderSize + pack.BucketsSize + pack.EntrySize*int64(c.records)
	}
	return c.size == size
}

// planForget finds out what there is to do beside packs.
func (s *Store) planForget(ctx context.Context, p *PrunePlan) error {
	if len(p.opts.Forget) == 0 {
		return nil
	}
	ids, err := s.forgottenIDs()
	if err != nil {
		return err
	}
	for id := range p.opts.Forget {
		p.note = p.note || !ids[id]
	}
	p.Aside, err = s.aside(ctx, p.live)
	return err
}

// forget does beside the packs what there is to do, and makes sure that nothing is
// left: of a blob that was stored again meanwhile nothing can be promised.
func (r *pruneRun) forget(ctx context.Context) error {
	s, ids := r.s, r.plan.opts.Forget
	if len(ids) == 0 {
		return nil
	}
	if err := s.noteForgotten(ids); err != nil {
		return err
	}
	files, err := s.aside(ctx, r.plan.live)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := s.purify(name, r.plan.live); err != nil {
			return err
		}
	}
	for _, dir := range []string{"packs", "quarantine", "trash", "tmp"} {
		err := s.eachFile(ctx, dir, func(name string, size int64) error {
			var found *pack.Entry
			_, err := s.scanAny(name, size, func(e pack.Entry) {
				if ids[e.ID] {
					found = &e
				}
			})
			if err == nil && found != nil {
				err = fmt.Errorf("blob %s is in %s: it was stored again meanwhile", found.ID.Short(), name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// aside lists the files beside packs/ that hold records, or what is left of some,
// that are not to stay. Damage counts: nobody can say what it was.
func (s *Store) aside(ctx context.Context, live *Live) ([]string, error) {
	var list []string
	for _, dir := range []string{"quarantine", "trash", "tmp"} {
		err := s.eachFile(ctx, dir, func(name string, size int64) error {
			records, dead := 0, 0
			damage, err := s.scanAny(name, size, func(e pack.Entry) {
				records++
				if !e.ID.IsZero() && !live.has(e.ID) {
					dead++
				}
			})
			if records > 0 && dir == "tmp" || dead > 0 || damage && (records > 0 || strings.HasSuffix(name, ".pack")) {
				list = append(list, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// purify writes a file beside packs/ anew with nothing but records that are whole
// and are to stay, or removes it if there are none. Nobody else writes to such
// a file.
func (s *Store) purify(name string, live *Live) (err error) {
	f, err := s.fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	p := &pack.Pack{F: f}
	var keep []pack.Entry
	if _, err := p.Scan(0, st.Size, func(e pack.Entry) {
		if live.has(e.ID) {
			keep = append(keep, e)
		}
	}); err != nil {
		return err
	}
	var content []byte
	if !strings.HasPrefix(name, "tmp/") {
		c := &copier{s: s, put: func(h pack.Header, payload []byte, _ []pack.Member) error {
			if len(content) == 0 {
				content = layout.Header{Magic: layout.PackMagic, Store: s.id}.Append(nil)
			}
			content = append(h.Append(content), payload...)
			return nil
		}}
		for list := range eachGroup(keep) {
			if err := c.copy(p, list); err != nil && !errors.Is(err, store.ErrCorrupt) {
				return err
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	if content != nil {
		return layout.WriteFile(s.fsys, name, content)
	}
	if err := s.fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fsys.SyncDir(path.Dir(name))
}

// scanAny finds the records in any file, and reports whether there is something
// else in it, beside the header of a pack. A file that is gone has none.
func (s *Store) scanAny(name string, size int64, fn func(pack.Entry)) (damage bool, err error) {
	f, err := s.fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	from := int64(0)
	var b [layout.HeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	if _, err := layout.ParseHeader(b[:], layout.PackMagic, s.id); err == nil {
		from = layout.HeaderSize
	}
	bad, err := (&pack.Pack{F: f}).Scan(from, size, fn)
	return len(bad) > 0, err
}

// eachFile calls fn for all regular files below a directory of the store.
func (s *Store) eachFile(ctx context.Context, dir string, fn func(name string, size int64) error) error {
	names, err := s.fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		name = path.Join(dir, name)
		st, err := s.fsys.Stat(name)
		switch {
		case err != nil:
		case st.Kind == vfs.Directory:
			err = s.eachFile(ctx, name, fn)
		case st.Kind == vfs.Regular:
			err = fn(name, st.Size)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Seal ends the pack that this process appends to, so that another process may
// take objects out of it. What is put later goes into a new one. It may be called
// at any time, and waits until the pack is sealed; where that fails, writers that
// have begun report it.
func (s *Store) Seal() {
	s.wmu.Lock()
	if s.active != nil {
		s.sealActive()
	}
	s.wmu.Unlock()
	s.waitSealed()
}
