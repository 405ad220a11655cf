package manager

import (
	"errors"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// markForgotten says of what is wanted that it cannot be had.
func (m *FileSnapshotManager) markForgotten(wants []livedir.Want) error {
	for i := range wants {
		was, err := m.isForgotten(wants[i].New)
		if err != nil {
			return err
		}
		if was {
			wants[i].Lost = "its content " + store.ErrForgotten.Error()
		}
	}
	return nil
}

// isForgotten reports whether the content of a file or link was forgotten, and is
// not there.
func (m *FileSnapshotManager) isForgotten(e *tree.Entry) (bool, error) {
	if e == nil || e.Mode.IsDir() {
		return false, nil
	}
	was, err := m.store.Forgotten(e.ID)
	if errors.Is(err, store.ErrCorrupt) { // then it is not found
		return false, nil
	}
	if !was || err != nil {
		return false, err
	}
	there, err := m.store.Has(e.ID)
	return !there, err
}
