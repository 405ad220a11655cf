// Package inside is the door by which our programs reach what package manager does not
// show to embedders, whose types are internal. Package manager sets the functions.
package inside

import (
	"context"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// A Manager is a *manager.FileSnapshotManager, or something that embeds one.
type Manager interface {
	StoreDir() string
	Session() string
}

// Store returns the store of a manager, which is open until the manager is closed.
var Store func(m Manager) *cas.Store

// Disk finds out what is in the directory of a manager now and stores nothing. The
// Getter knows the trees of the result and all that the store holds.
var Disk func(ctx context.Context, m Manager, opts *capture.Options) (*tree.Result, trees.Getter, error)

type locationKey struct{}

// WithLocation has manager.Open take the history of the directory for where it was found
// just now, instead of looking for it once more.
func WithLocation(ctx context.Context, loc *places.Location) context.Context {
	return context.WithValue(ctx, locationKey{}, loc)
}

// Location returns what WithLocation was given; nil: nothing.
func Location(ctx context.Context) *places.Location {
	loc, _ := ctx.Value(locationKey{}).(*places.Location)
	return loc
}
