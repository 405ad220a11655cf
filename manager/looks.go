package manager

import (
	"context"
	"iter"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/moments"
)

// looks yields what happened to the directory behind the look of a number, in turns of
// all sessions and between them, newest first; all with 0. The caller holds mu.
func (m *FileSnapshotManager) looks(ctx context.Context, seq uint64) iter.Seq2[*moments.Moment, error] {
	return func(yield func(*moments.Moment, error) bool) {
		newest, err := m.records.Newest(cas.AnySession)
		if err != nil {
			yield(nil, err)
			return
		}
		turns, _, err := m.readTurns()
		if err != nil {
			yield(nil, err)
			return
		}
		moments.Back(ctx, m.records, newest, seq, turns.Open)(yield)
	}
}
