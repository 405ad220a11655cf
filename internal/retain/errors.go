package retain

import (
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/trees"
)

// ErrNothingToForget: a content is empty, or no prompt is kept.
var ErrNothingToForget = errors.New("there is nothing to forget")

// ErrDamaged: the store is damaged, so that it is not known what is needed.
var ErrDamaged = errors.New("the store is damaged: repair it first")

func damagedBy(p trees.Problem) error { return fmt.Errorf("%w: %q: %v", ErrDamaged, p.Path, p.Err) }
