package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/vfs"
)

// enterEpoch takes the current epoch's lock shared, and returns its number.
// Who takes packs away waits for all to leave: see docs/reference/concurrency.md.
func (s *Store) enterEpoch(ctx context.Context) (vfs.File, uint64, error) {
	s.jmu.Lock()
	n := s.j.Epoch // as far as is known
	s.jmu.Unlock()
	for {
		f, err := layout.OpenLock(s.fsys, layout.EpochLock(n))
		if err != nil {
			return nil, 0, err
		}
		ok, err := f.TryLock(vfs.Shared)
		var now uint64
		if err == nil {
			now, err = s.Epoch()
		}
		if ok && err == nil && now == n {
			if err := s.heedEpoch(n); err != nil {
				f.Close()
				return nil, 0, err
			}
			return f, n, nil
		}
		f.Close()
		if err != nil {
			return nil, 0, err
		}
		if n != now {
			n = now
			continue
		}
		// Somebody holds it who is about to end it, or has ended it.
		select {
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// drain waits until all have left the epochs from the last one that is known
// to be empty up to before an epoch. It returns their locks, held: even who is
// misled by damage to the journal cannot enter one.
func (s *Store) drain(ctx context.Context, from, before uint64) (locks []vfs.File, err error) {
	for n := from; n < before; n++ {
		f, err := layout.Lock(ctx, s.fsys, layout.EpochLock(n))
		if err != nil {
			closeAll(locks)
			return nil, err
		}
		locks = append(locks, f)
	}
	return locks, nil
}

func closeAll(files []vfs.File) {
	for _, f := range files {
		f.Close()
	}
}

// see reads the journal and takes over what it says of packs: see heed.
func (s *Store) see() error {
	if err := s.refresh(); err != nil {
		return err
	}
	return s.heed()
}

// heed takes over what the journal says, as far as it was read, of packs that are
// being taken away, and forgets what was in those that are gone, or in whose place somebody
// has put another file. They may be open here, but nobody else will find them.
func (s *Store) heed() error {
	s.mu.RLock()
	known := slices.Collect(maps.Keys(s.packs))
	known = slices.DeleteFunc(known, func(id [16]byte) bool { return s.unnamed[id] })
	s.mu.RUnlock()
	s.jmu.Lock()
	seq, absent := s.j.Seq, slices.Concat(s.j.Condemned, s.j.Removed)
	s.jmu.Unlock()
	// After the journal: what it says no more was withdrawn, or is gone by now.
	there, err := s.packIDs()
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(known), func(id [16]byte) bool { return slices.Contains(there, id) })
	known = slices.DeleteFunc(known, func(id [16]byte) bool { return slices.Contains(gone, id) })
	replaced, err := s.replaced(known)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if seq >= s.seen { // else another has looked since
		s.seen = seq
		now := make(map[[16]byte]bool)
		for _, id := range slices.Concat(absent, gone) {
			now[id] = true
		}
		for id := range s.absent {
			if !slices.Contains(there, id) {
				now[id] = true
			}
		}
		s.absent = now
	}
	s.mu.Unlock()
	return s.forgetPacks(append(gone, replaced...))
}

// settled is how old a change of a directory must be before its time tells it from the next.
const settled = 2 * time.Second

// replaced returns those of some packs whose names are another file's than the one that is open. It
// looks at each where a name in packs/ has changed hands since it looked last.
func (s *Store) replaced(known [][16]byte) (list [][16]byte, err error) {
	if len(known) == 0 {
		return nil, nil
	}
	now := time.Now().UnixNano()
	dir, err := s.fsys.Stat("packs")
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	same := dir == s.looked
	open := maps.Clone(s.packs)
	s.mu.RUnlock()
	if same {
		return nil, nil
	}
	for _, id := range known {
		if p := open[id]; p == nil {
			continue // forgotten meanwhile
		} else if is, err := p.IsAt(s.fsys, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		} else if !is {
			list = append(list, id)
		}
	}
	if now-dir.Mtime > int64(settled) {
		s.mu.Lock()
		s.looked = dir
		s.mu.Unlock()
	}
	return list, nil
}

// heedCuts forgets what was in packs that this process appends to, and of which somebody has cut a part off.
func (s *Store) heedCuts() error {
	s.wmu.Lock()
	var list [][16]byte
	for _, w := range s.open() {
		st, err := w.F.Stat()
		if err != nil {
			s.wmu.Unlock()
			return err
		}
		if st.Size < w.Written {
			list = append(list, w.ID)
		}
	}
	s.wmu.Unlock()
	return s.forgetPacks(list)
}

// forgetPacks forgets what was in packs whose files nobody else will find.
func (s *Store) forgetPacks(gone [][16]byte) error {
	if len(gone) == 0 {
		return nil
	}
	s.wmu.Lock()
	for len(s.sealing) > 0 { // until their indexes say what is in them
		s.wmu.Unlock()
		s.waitSealed()
		s.wmu.Lock()
	}
	defer s.wmu.Unlock()
	for _, w := range s.open() {
		if slices.Contains(gone, w.ID) {
			s.fail(fmt.Errorf("%s %w", w.Name(), errTaken))
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Others may be reading their files: the runtime closes each when nobody
	// has it any more, and then its bytes are free.
	for _, id := range gone {
		delete(s.packs, id)
	}
	damaged := maps.Clone(s.damaged) // who reads it has no lock
	maps.DeleteFunc(damaged, func(at place, _ bool) bool { return slices.Contains(gone, at.pack) })
	s.damaged = damaged
	s.groups.forget(func(p *pack.Pack) bool { return slices.Contains(gone, p.ID) })
	s.indexes = slices.DeleteFunc(slices.Clone(s.indexes), func(x *pack.Index) bool {
		return slices.Contains(gone, x.Pack.ID)
	})
	s.forgetObjects()
	return nil
}

// forgetObjects forgets where objects are, but for those in indexes, which vouch
// for them, and in the active pack. Those that a commit has named are found again
// by the next look into the packs. Store.wmu and Store.mu are held.
func (s *Store) forgetObjects() {
	clear(s.objects)
	s.groups.forget(func(*pack.Pack) bool { return true }) // others may write where one was
	s.sealed = nil
	clear(s.scanned)
	for id := range s.packs {
		s.scanned[id] = layout.HeaderSize
	}
	for _, x := range s.indexes {
		delete(s.scanned, x.Pack.ID)
	}
	for _, w := range s.open() {
		delete(s.scanned, w.ID)
		for _, e := range w.Entries {
			s.objects[e.ID] = e.Location
		}
	}
	s.loaded = false
}

// removePacks removes what a prune that is done has left.
func (s *Store) removePacks(ids [][16]byte) error {
	removed := false
	for _, id := range ids {
		// The pack first: an index without a pack is nothing, but a pack
		// without an index would be taken in again.
		for _, name := range []string{layout.PackName(id), layout.IndexName(id)} {
			err := s.fsys.Remove(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			removed = removed || err == nil
		}
	}
	if !removed {
		return nil
	}
	return s.fsys.SyncDir("packs")
}

// removeDead removes the packs of processes that died before their first commit:
// nothing was ever promised of them.
func (s *Store) removeDead() error {
	names, err := s.fsys.ReadDir("tmp")
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := layout.ParsePackID(name, ".pack")
		if !ok {
			continue
		}
		f, err := s.fsys.OpenFile(layout.NewPackName(id), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has got its name
		}
		if err != nil {
			return err
		}
		dead, err := f.TryLock(vfs.Exclusive)
		if dead && err == nil {
			dead, err = layout.SameFile(s.fsys, layout.NewPackName(id), f)
		}
		if dead && err == nil {
			err = s.fsys.Remove(layout.NewPackName(id))
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// filesOf returns the files that are open of packs.
func (s *Store) filesOf(ids [][16]byte) (files []vfs.File) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range ids {
		if p := s.packs[id]; p != nil {
			files = append(files, p.F)
		}
	}
	for _, x := range s.indexes {
		if slices.Contains(ids, x.Pack.ID) {
			files = append(files, x.F)
		}
	}
	return files
}

// abandoned is the age from which a file in tmp/ is nobody's: no write takes so
// long.
const abandoned = 24 * time.Hour

// sweep removes files from tmp/ that were being written when their processes
// died. Ages are told by the file system's own clock.
func (s *Store) sweep() error {
	s.jmu.Lock()
	now, err := s.fsys.Stat(layout.SegmentName(s.j.Seg))
	s.jmu.Unlock()
	if err != nil {
		return err
	}
	names, err := s.fsys.ReadDir("tmp")
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := s.fsys.Stat("tmp/" + name)
		if err == nil && st.Kind == vfs.Regular && now.Mtime-st.Mtime > int64(abandoned) {
			err = s.fsys.Remove("tmp/" + name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
