package cas

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"syscall"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/store"
)

// IsNoSpace reports whether an error is for want of space, be it that the disk or a
// quota is full, or that what is left is for others.
func IsNoSpace(err error) bool {
	return errors.Is(err, store.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

const (
	// minFree is what is left free for others, and for restores: by default so
	// many bytes, or a part of a small disk.
	minFree     = 256 << 20
	minFreePart = 50
)

// ReserveOf returns how many bytes are to stay free by default on a disk of some size.
func ReserveOf(total int64) int64 { return min(minFree, total/minFreePart) }

// Reserve returns how many bytes are to stay free where the store is, if want is what
// the user has said: 0 is the default, a negative number no limit.
func (s *Store) Reserve(want int64) int64 {
	_, total, err := s.fsys.Space()
	if err != nil || want < 0 {
		return 0
	}
	return cmp.Or(want, ReserveOf(total))
}

// CheckSpace returns an error if fewer bytes are free where the store is, which is
// storeDir.
func (s *Store) CheckSpace(storeDir string, keep int64) error {
	free, _, err := s.fsys.Space()
	if err == nil && free < keep {
		return &SpaceError{Dir: storeDir, Free: free, Keep: keep}
	}
	return nil
}

// lookEvery is after how many bytes a writer looks again how many are free: others
// write, too.
const lookEvery = 1 << 20

// KeepFree has the writer stop before fewer than so many bytes are free in a
// directory, which is the store's and only for the error: Put fails
// with an error that matches [ErrNoSpace] then, and what was put and not
// committed is removed when the writer is closed.
func (w *Writer) KeepFree(bytes int64, dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepFree, w.keepIn, w.room = bytes, dir, 0
}

// spend makes sure that there is room for a record that is about to be appended.
func (w *Writer) spend(n int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full != nil {
		return w.full
	}
	if w.keepFree > 0 && w.room < n {
		free, _, err := w.s.fsys.Space()
		if err != nil { // the system does not say
			w.keepFree = 0
			return nil
		}
		room := free - w.keepFree - w.s.buffered() - w.pending
		if room < n {
			w.full = &SpaceError{Dir: w.keepIn, Free: free, Keep: w.keepFree}
			return w.full
		}
		w.room = min(room, max(lookEvery, n))
	}
	w.room -= n
	w.pending += n
	return nil
}

// spent notes that a record was appended, or was not.
func (w *Writer) spent(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending -= n
}

// buffered returns how many bytes are appended and not yet written.
func (s *Store) buffered() int64 {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	n := s.grouping.bytes // they get shorter
	if s.active != nil {
		n += int64(len(s.active.Buf))
	}
	return n
}

// ballastSize is how many bytes the ballast has. Enough for a few records of the
// journal, and for the index of a pack that is not sealed yet.
//
// A variable, so that tests reach it sooner.
var ballastSize int64 = 256 << 10

// MakeRoom removes the ballast if the disk is full, or in any case. Who is about to
// free something, or to restore, does so first: he has to write a little before.
// It reports whether there is more room now.
func (s *Store) MakeRoom(anyway bool) bool {
	if s.readOnly {
		return false
	}
	if free, _, err := s.fsys.Space(); !anyway && (err != nil || free >= 4*ballastSize) {
		return false
	}
	err := s.fsys.Remove(layout.BallastName)
	if err == nil {
		err = s.fsys.SyncDir(".") // some file systems free nothing before
	}
	s.log.Debug("ballast removed", "err", err)
	return err == nil
}

// KeepBallast writes the ballast again after MakeRoom. Where the disk is still full it
// is smaller: others would take what was freed.
func (s *Store) KeepBallast() { s.keepBallast(minBallast) }

// minBallast is the least that is of use: a few blocks.
const minBallast = 16 << 10

// keepBallast writes the ballast, if it is not there in full and there is room for
// so many bytes of it, with as many beside. They are really there, and do not
// compress.
func (s *Store) keepBallast(least int64) {
	if s.readOnly {
		return
	}
	free, _, err := s.fsys.Space()
	if err != nil { // nobody could tell when it is needed
		return
	}
	st, err := s.fsys.Stat(layout.BallastName)
	if err == nil {
		least = ballastSize
	}
	if err == nil && st.Size >= ballastSize || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	size := ballastSize
	if free < 5*ballastSize {
		size = min(size, free/2)
	}
	if size < least || least == ballastSize && free < 5*ballastSize {
		return
	}
	b := make([]byte, size)
	rand.Read(b) // it never fails (crypto/rand)
	if err := layout.WriteFile(s.fsys, layout.BallastName, b); err != nil {
		s.log.Debug("ballast not written", "err", err)
	}
}
