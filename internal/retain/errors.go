package retain

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/boocode/filestore/internal/trees"
)

// ErrNothingToForget: a content is empty, or no prompt is kept.
var ErrNothingToForget = errors.New("there is nothing to forget")

// ErrDamaged: the store is damaged, so that it is not known what is needed.
var ErrDamaged = errors.New("the store is damaged: repair it first")

func damagedBy(p trees.Problem) error { return fmt.Errorf("%w: %s", ErrDamaged, p.Text(strconv.Quote)) }

// A ForgetError is why a forget was not done, or not wholly.
type ForgetError struct {
	Left int // contents that snapshots may still have: of the others it is known that they are gone
	All  int // that were to go; 0: only what open turns are for was
	Err  error
}

func (e *ForgetError) Error() string {
	if e.Left == 0 {
		return fmt.Sprintf("no snapshot has it any more, but other files of the store may: %v", e.Err)
	}
	return fmt.Sprintf("%d of %d contents may still be in the store: %v", e.Left, e.All, e.Err)
}

func (e *ForgetError) Unwrap() error { return e.Err }
