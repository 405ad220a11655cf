package store

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

	"github.com/boocode/filestore/internal/vfs"
)

// The file forgotten has the IDs of blobs that were taken out of all snapshots
// on purpose (docs/format.md §5.7). Who misses one learns from it that nothing is
// damaged. Of a blob that was stored again it says nothing.
const (
	forgottenName  = "forgotten"
	forgottenMagic = "booforg\n"
)

// forgotten is what was read of the file last.
type forgotten struct {
	mu  sync.Mutex // guards the rest
	at  vfs.Stat   // of the file that was read
	ids map[ID]bool
}

// Forgotten reports whether a blob was forgotten: see [PruneOptions]. It may
// have been stored again since.
func (s *Store) Forgotten(id ID) (bool, error) {
	ids, err := s.forgottenIDs()
	return ids[id], err
}

// forgottenIDs returns all IDs in the file, which the caller must not change.
func (s *Store) forgottenIDs() (map[ID]bool, error) {
	f := &s.forgotten
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := s.fsys.Stat(forgottenName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if f.ids != nil && f.at == st {
		return f.ids, nil
	}
	b, err := vfs.ReadFile(s.fsys, forgottenName)
	if err != nil {
		return nil, err
	}
	list, err := parseForgotten(b, s.id)
	if err != nil {
		return nil, &CorruptError{Path: forgottenName, Err: err}
	}
	f.at, f.ids = st, make(map[ID]bool, len(list))
	for _, id := range list {
		f.ids[id] = true
	}
	return f.ids, nil
}

// missing returns why an object is not there.
func (s *Store) missing(id ID) error {
	was, err := s.Forgotten(id)
	switch {
	case errors.Is(err, ErrCorrupt):
		s.log.Warn("damaged: what was forgotten is not known", "path", forgottenName, "err", err)
		return ErrNotFound
	case err != nil:
		return err
	case was:
		return ErrForgotten
	}
	return ErrNotFound
}

// noteForgotten makes durable that blobs are forgotten.
func (s *Store) noteForgotten(more map[ID]bool) error {
	ids, err := s.forgottenIDs()
	if err != nil {
		return err
	}
	all := maps.Clone(ids)
	if all == nil {
		all = make(map[ID]bool)
	}
	maps.Copy(all, more)
	if len(all) == len(ids) {
		return s.fsys.SyncDir(".") // whoever wrote it may not have come so far
	}
	list := slices.SortedFunc(maps.Keys(all), func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	return writeFile(s.fsys, forgottenName, appendForgotten(nil, s.id, list))
}

func appendForgotten(b []byte, store [16]byte, ids []ID) []byte {
	b = fileHeader{magic: forgottenMagic, store: store, b: uint32(len(ids))}.append(b)
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return le.AppendUint32(b, checksum(b))
}

// parseForgotten reads what appendForgotten writes, and nothing else.
func parseForgotten(b []byte, store [16]byte) ([]ID, error) {
	h, err := parseFileHeader(b, forgottenMagic, store)
	if err != nil {
		return nil, err
	}
	n := int(h.b)
	if h.a != 0 || h.name != [16]byte{} || n == 0 || len(b) != fileHeaderSize+n*len(ID{})+4 || le.Uint32(b[len(b)-4:]) != checksum(b[:len(b)-4]) {
		return nil, errors.New("not the list that was written")
	}
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = ID(b[fileHeaderSize+i*len(ID{}):][:len(ID{})])
		if i > 0 && bytes.Compare(ids[i-1][:], ids[i][:]) >= 0 {
			return nil, errors.New("out of order")
		}
	}
	return ids, nil
}

// isPure reports whether a pack holds nothing but records that are to stay.
func (c *candidate) isPure() bool {
	size := fileHeaderSize + c.live
	if c.sealed {
		size += sealSize + fileHeaderSize + bucketsSize + indexEntrySize*int64(c.records)
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
			var found *indexEntry
			_, err := s.scanAny(name, size, func(e indexEntry) {
				if ids[e.id] {
					found = &e
				}
			})
			if err == nil && found != nil {
				err = fmt.Errorf("blob %s is in %s: it was stored again meanwhile", found.id.Short(), name)
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
			damage, err := s.scanAny(name, size, func(e indexEntry) {
				records++
				if !e.id.IsZero() && !live.has(e.id) {
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
	p := &pack{f: f}
	var keep []indexEntry
	if _, err := p.scan(0, st.Size, func(e indexEntry) {
		if live.has(e.id) {
			keep = append(keep, e)
		}
	}); err != nil {
		return err
	}
	var content []byte
	if !strings.HasPrefix(name, "tmp/") {
		for _, e := range keep {
			h, payload, err := p.read(e.location)
			if errors.Is(err, ErrCorrupt) {
				continue
			}
			if err != nil {
				return err
			}
			if len(content) == 0 {
				content = fileHeader{magic: packMagic, store: s.id}.append(nil)
			}
			content = append(h.append(content), payload...)
		}
	}
	if content != nil {
		return writeFile(s.fsys, name, content)
	}
	if err := s.fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fsys.SyncDir(path.Dir(name))
}

// scanAny finds the records in any file, and reports whether there is something
// else in it, beside the header of a pack. A file that is gone has none.
func (s *Store) scanAny(name string, size int64, fn func(indexEntry)) (damage bool, err error) {
	f, err := s.fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	from := int64(0)
	var b [fileHeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	if _, err := parseFileHeader(b[:], packMagic, s.id); err == nil {
		from = fileHeaderSize
	}
	bad, err := (&pack{f: f}).scan(from, size, fn)
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
	seals := s.sealing
	s.wmu.Unlock()
	waitSealed(seals)
}
