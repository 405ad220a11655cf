package trees

import (
	"errors"
	"time"

	"github.com/boocode/filestore/store"
)

// A Problem is a path of a snapshot that cannot be restored as it was.
type Problem struct {
	Path string
	ID   store.ID  // of the content or directory that is lost; zero: it is another problem
	Err  error     // matches store.ErrNotFound or store.ErrCorrupt
	At   time.Time // when the loss was accepted; zero: it was not
}

// IsLoss reports whether an error of reading trees or blobs means that the store
// has lost something, not that it could not be looked at.
func IsLoss(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, errPage)
}
