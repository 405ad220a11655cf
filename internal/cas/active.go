package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/store"
)

// reserve reports whether the caller is the one to store an object, and must
// release it. It is not if the object is there. While another goroutine is
// storing it, reserve waits: a commit must not overtake an object that its
// writer counts on.
func (s *Store) reserve(id store.ID) (bool, error) {
	for {
		if ok, err := s.counts(id); ok || err != nil {
			return false, err
		}
		s.mu.Lock() // who has stored it has done so before it is released
		loc, stored := s.objects[id]
		stored = stored && !s.absent[loc.Pack.ID] && !s.damaged[place{loc.Pack.ID, loc.Off}] || s.isGrouped(id)
		done := s.pending[id]
		if !stored && done == nil {
			s.pending[id] = make(chan struct{})
		}
		s.mu.Unlock()
		if stored || done == nil {
			return !stored, nil
		}
		<-done // it may have failed: look again
	}
}

// release ends a reservation.
func (s *Store) release(id store.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.pending[id])
	delete(s.pending, id)
}

// append writes a record to the active pack: of an object, or of a group, which has members.
func (s *Store) append(generation int, h pack.Header, payload []byte, members []pack.Member) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if generation != s.generation {
		return s.failed
	}
	if s.active == nil {
		if err := s.openActive(); err != nil {
			s.fail(err)
			return err
		}
	}
	entries, err := s.active.Append(h, payload, members)
	if err != nil {
		s.fail(err)
		return err
	}
	s.mu.Lock()
	for _, e := range entries {
		s.objects[e.ID] = e.Location
	}
	s.mu.Unlock()
	// What lies behind what is on record goes to waste if we are killed: of a pack
	// that has a name not much is to.
	if end := s.active.End(); end >= pack.SealSizeMax || end >= pack.SealSizeIdle && s.active.IsNamed() {
		s.sealActive()
	}
	return nil
}

// openActive takes up a pack to append to: an unsealed one that no process
// uses, or a new one. Store.wmu is held.
func (s *Store) openActive() error {
	ids, err := s.packIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.fsys.Stat(layout.IndexName(id)); err == nil || s.repairing[id] {
			continue
		}
		w, err := pack.Adopt(s.fsys, s.id, id, func() (int64, error) { return s.durable(id) })
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		s.use(w)
		if w.Written < pack.SealSizeIdle {
			return nil
		}
		s.sealActive() // its process had no time to
	}
	if err := s.beginJournal(); err != nil {
		return err
	}
	w, err := pack.Create(s.fsys, s.id)
	if err != nil {
		return err
	}
	s.use(w)
	return nil
}

// beginJournal starts the first segment, if there is none, so that there is no
// pack without one: where there are packs alone, the journal was lost.
func (s *Store) beginJournal() error {
	s.jmu.Lock()
	begun := s.j.Seg > 0
	s.jmu.Unlock()
	if begun {
		return nil
	}
	return s.withJournal(context.Background(), func() error {
		if s.j.Seg > 0 {
			return nil
		}
		return s.j.Rotate()
	})
}

// use makes a pack the active one, with all that it holds.
func (s *Store) use(w *pack.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.packs[w.ID]; old != nil {
		s.retired = append(s.retired, old.F) // others may be reading it
	}
	s.packs[w.ID] = w.Pack
	if !w.IsNamed() {
		s.unnamed[w.ID] = true
	}
	delete(s.scanned, w.ID) // from now on we know what is in it
	for _, e := range w.Entries {
		s.objects[e.ID] = e.Location
	}
	s.active = w
}

// durable returns up to where the journal says that a pack is durable.
func (s *Store) durable(id [16]byte) (int64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	err := s.j.Refresh()
	return max(s.j.Packs[id], layout.HeaderSize), err
}

// waitSealed waits for the packs that are sealed or synced in the background by now.
func (s *Store) waitSealed() {
	s.wmu.Lock()
	sealing := s.sealing
	s.wmu.Unlock()
	waitAll(sealing)
}

func waitAll(ends []chan struct{}) {
	for _, end := range ends {
		<-end
	}
}

// sealActive ends the active pack. If all of it is on record it is sealed;
// otherwise a commit does so, since a seal vouches for all that is before it.
// Store.wmu is held.
func (s *Store) sealActive() {
	w := s.active
	// Flushed while it is the active one: its objects are read from the file
	// from here on.
	if err := w.Flush(); err != nil {
		s.fail(err)
		return
	}
	s.active = nil
	if w.Settled() {
		s.seal(w)
		return
	}
	s.ended = append(s.ended, w)
	end := w.Written
	s.background(func() error { return w.Sync(end) }, func() {})
}

// seal seals a pack that nothing more is appended to, and that is on record.
// Store.wmu is held.
func (s *Store) seal(w *pack.Writer) {
	s.background(func() error {
		if err := s.there(); err != nil {
			return err
		}
		if err := w.Seal(s.fsys, s.id, w.Written); err != nil {
			return fmt.Errorf("seal %s: %w", w.Name(), err)
		}
		return w.F.Unlock()
	}, func() { s.sealed = append(s.sealed, w.Pack) })
}

// background does what keeps nobody waiting but the next commit, and then calls
// done, which Store.wmu guards. Store.wmu is held.
func (s *Store) background(work func() error, done func()) {
	end := make(chan struct{})
	s.sealing = append(s.sealing, end)
	go func() {
		defer close(end)
		err := work()
		s.wmu.Lock()
		defer s.wmu.Unlock()
		if err != nil {
			s.fail(err)
		} else {
			done()
		}
		i := slices.Index(s.sealing, end)
		s.sealing = slices.Concat(s.sealing[:i], s.sealing[i+1:])
	}()
}

// open returns the packs that this process has locked to append to, and that are not
// being sealed. Store.wmu is held.
func (s *Store) open() []*pack.Writer {
	list := slices.Clone(s.ended)
	if s.active != nil {
		list = append(list, s.active)
	}
	return list
}

// maxObjects is how many objects are remembered before those in sealed packs are
// looked up in the indexes, also where this process has sealed them: 2 MB. In
// the middle of a capture it is quicker to have them in memory.
var maxObjects = 16 << 10

// dropSealed forgets where the objects of sealed packs are, if there are many:
// from now on their indexes say so.
func (s *Store) dropSealed() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sealed) == 0 || len(s.objects) <= maxObjects || s.packs == nil { // closed
		return
	}
	indexed := make(map[[16]byte]bool)
	for _, x := range s.indexes {
		indexed[x.Pack.ID] = true
	}
	for _, p := range s.sealed {
		if indexed[p.ID] {
			continue
		}
		x, err := pack.OpenIndex(s.fsys, s.id, p)
		if err != nil { // it stays as it is
			s.log.Warn("index not read", "path", layout.IndexName(p.ID), "err", err)
			continue
		}
		s.indexes = append(slices.Clip(s.indexes), x)
		indexed[p.ID] = true
	}
	s.sealed = nil
	objects := make(map[store.ID]pack.Location) // the old one would stay as large
	for id, loc := range s.objects {
		if !indexed[loc.Pack.ID] {
			objects[id] = loc
		}
	}
	s.objects = objects
}

// fail ends all writers of the process: what was appended and not committed
// may not be on the disk, and any of them may count on it. Nothing more is
// appended to the pack. Store.wmu is held.
func (s *Store) fail(err error) {
	if errors.Is(s.failed, layout.ErrClosed) {
		return
	}
	s.generation++
	s.failed = fmt.Errorf("%w: %w", ErrLost, err)
	list := s.open()
	s.active, s.ended, s.unwanted = nil, nil, nil
	s.dropGroups()
	for _, w := range list {
		if slices.Contains(s.offered, w) { // see endOffer
			w.Dropped = err
		} else {
			s.drop(w, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetObjects()
}

// drop gives up a pack. What is in it and on no record nobody counts on: a pack
// without a name goes, and if there was no space, that of others is cut back to
// what is on record. Store.wmu is held.
func (s *Store) drop(w *pack.Writer, why error) {
	defer w.F.Unlock() // it never fails on a file that is open
	if w.IsNamed() {
		w.Smu.Lock()
		synced := w.Failed == nil
		w.Smu.Unlock()
		end, err := s.durable(w.ID)
		if err != nil || !synced || !IsNoSpace(why) {
			return // who takes it up closes off what is behind the end
		}
		end = max(end, w.Committed)
		if st, err := w.F.Stat(); err == nil && st.Size > end {
			err = w.F.Truncate(end)
			s.log.Debug("pack cut back", "path", w.Name(), "bytes", st.Size-end, "err", err)
		}
		return
	}
	s.mu.Lock()
	delete(s.packs, w.ID)
	delete(s.unnamed, w.ID)
	s.mu.Unlock()
	// It may be open for a while yet, and take its bytes so long.
	if err := errors.Join(w.F.Truncate(0), s.fsys.Remove(w.File)); err != nil {
		s.log.Warn("pack not removed that nothing needs", "path", w.File, "err", err)
	}
}

// endOffer ends a commit that syncPacks has begun. Until then a pack that is not
// appended to any more stays locked: who took it up would seal it at the length
// that is on record, and the commit is about to record a greater one.
func (s *Store) endOffer() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	for _, w := range s.offered {
		if w.Dropped != nil {
			s.drop(w, w.Dropped)
		}
	}
	s.offered = nil
}

// flushFor makes sure that the record at loc can be read from its file.
func (s *Store) flushFor(loc pack.Location) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.active == nil || s.active.Pack != loc.Pack || loc.Off < s.active.Written {
		return nil
	}
	if err := s.active.Flush(); err != nil {
		s.fail(err)
		return err
	}
	return nil
}

// lacksSpace returns why what is on no record is to go, nil if it is not.
func (s *Store) lacksSpace() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.unwanted
}

// leave counts a writer out. If it had no space, what is on no record goes with
// the last one.
func (s *Store) leave(full error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.writers--
	if full != nil && s.unwanted == nil {
		s.unwanted = full
	}
	if s.writers == 0 && s.unwanted != nil {
		s.fail(s.unwanted)
		s.unwanted = nil
	}
}

// state reports whether no write has failed since a writer began, and whether
// a commit has followed everything that this process appended: a writer may
// count on what another one put.
func (s *Store) state(generation int) (intact, committed bool) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	committed = s.grouping.bytes == 0 &&
		!slices.ContainsFunc(s.open(), func(w *pack.Writer) bool { return !w.Settled() })
	return generation == s.generation, committed
}
