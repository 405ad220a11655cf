package cas

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

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
