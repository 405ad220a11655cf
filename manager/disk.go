package manager

import (
	"context"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

func init() {
	inside.Store = func(m inside.Manager) *cas.Store { return m.(selfer).self().store }
	inside.Disk = func(ctx context.Context, m inside.Manager, opts *capture.Options) (
		*tree.Result, trees.Getter, error) {
		return m.(selfer).self().disk(ctx, opts)
	}
}

// A selfer is a manager, or something that embeds one.
type selfer interface{ self() *FileSnapshotManager }

func (m *FileSnapshotManager) self() *FileSnapshotManager { return m }

func (m *FileSnapshotManager) disk(ctx context.Context, opts *capture.Options) (*tree.Result, trees.Getter, error) {
	overlay := trees.NewOverlay(m.store)
	r, err := m.engine.capture(ctx, m.tree, overlay, opts)
	return r, overlay, err
}
