package cas

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// A newer program may have given the store a feature while this one has it open, and what it
// writes since then looks like damage. It says so in FORMAT before it writes the first of it
// ([Store.NeedToRead]), and a compaction or prune has another epoch before packs go. So FORMAT
// is read again by whoever enters an epoch that is new to this process, or has found damage.

// outdated returns an error that matches [store.ErrFormat] if the store has come to need what
// this program does not know. That FORMAT is damaged or missing is told elsewhere.
func (s *Store) outdated() error {
	f, err := readFormat(s.fsys)
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.check(s.readOnly); err != nil {
		return fmt.Errorf("a newer program has changed the store since this one opened it: %w", err)
	}
	return nil
}

// honest returns what to say of an error: that something is damaged or missing only if this
// program knows all that the store may have.
func (s *Store) honest(err error) error {
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
		if newer := s.outdated(); newer != nil {
			return newer
		}
	}
	return err
}

// warnPack logs damage in a pack, each place once.
func (s *Store) warnPack(damage ...*object.CorruptError) {
	if len(damage) == 0 {
		return
	}
	if err := s.outdated(); errors.Is(err, store.ErrFormat) {
		s.log.Warn("pack not read", "path", damage[0].Path, "err", err)
		return
	}
	for _, d := range damage {
		if _, again := s.warned.LoadOrStore(object.CorruptError{Path: d.Path, Off: d.Off}, true); !again {
			s.log.Warn("pack damaged", "err", d)
		}
	}
}

// heedEpoch is called by who has entered an epoch.
func (s *Store) heedEpoch(n uint64) error {
	if s.known.Load() == n+1 {
		return nil
	}
	err := s.outdated()
	if err == nil {
		s.known.Store(n + 1)
	}
	return err
}
