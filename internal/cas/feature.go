package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
)

// FeatureSparse is the name of what a program must know to read a coverage
// page with the reason "sparse" (docs/format.md §7).
const FeatureSparse = "sparse"

// readFeatures are the features that this version can read.
var readFeatures = []string{FeatureSparse}

// NeedToRead makes a feature one that programs must know to read the store: an
// older one refuses it by name from then on, rather than to take for damage what
// it does not know. It is durable when NeedToRead returns. Programs that have
// the store open go on.
func (s *Store) NeedToRead(ctx context.Context, feature string) error {
	s.fmu.Lock()
	defer s.fmu.Unlock()
	switch {
	case slices.Contains(s.needs, feature):
		return nil
	case s.readOnly:
		return errors.New("store is open read-only")
	case !slices.Contains(readFeatures, feature):
		panic(fmt.Sprintf("store: internal error: feature %q", feature))
	}
	err := layout.WithLock(ctx, s.fsys, layout.JournalLock, func() error {
		f, err := readFormat(s.fsys)
		if err != nil {
			return err
		}
		if !slices.Contains(f.Features.Read, feature) {
			f.Features.Read = append(f.Features.Read, feature)
		}
		s.needs = f.Features.Read
		return f.write(s.fsys) // in any case: who wrote it may not have come to sync it
	})
	if err != nil {
		s.needs = nil
		return fmt.Errorf("note in FORMAT that reading needs %q: %w", feature, err)
	}
	return nil
}
