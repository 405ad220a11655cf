// Package remotes is how far a store was pushed, for those who must not take away what is nowhere else. It is
// derived, as package exchange has written it; it asks no remote.
package remotes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/vfs"
)

// Dir is the directory of a store that has one for each remote.
const Dir = "remotes"

// Unpushed returns the records that are not in each of a store's remotes yet, as far as it remembers.
func Unpushed(ctx context.Context, s *cas.Store) (map[uint64]bool, error) {
	names, err := s.FS().ReadDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var remotes []map[[2]string]uint64
	for _, name := range names {
		if _, err := s.FS().Stat(path.Join(Dir, name, "config")); errors.Is(err, fs.ErrNotExist) { // it is none
			continue
		}
		to, err := pushedTo(s.FS(), name)
		if err != nil {
			return nil, err
		}
		remotes = append(remotes, to)
	}
	if len(remotes) == 0 {
		return nil, nil
	}
	seqs := make(map[uint64]bool)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if len(snap.Origin) > 0 || history.IsEdit(snap) { // it came from there, or does not go there
			continue
		}
		for _, to := range remotes {
			if snap.Seq > to[[2]string{snap.Worktree, snap.Session}] {
				seqs[snap.Seq] = true
			}
		}
	}
	return seqs, nil
}

// pushedTo returns the newest record that was pushed to a remote, of each session of a directory. If the note is
// lost or damaged nothing was.
func pushedTo(fsys vfs.FS, name string) (map[[2]string]uint64, error) {
	to := make(map[[2]string]uint64)
	b, err := vfs.ReadFile(fsys, path.Join(Dir, name, "lines"))
	if errors.Is(err, fs.ErrNotExist) {
		return to, nil
	}
	if err != nil {
		return nil, err
	}
	var note struct {
		Lines []struct {
			Worktree, Session string
			Seq               uint64
		}
	}
	if b, err = cas.CutSum(b); err != nil || json.Unmarshal(b, &note) != nil {
		return to, nil
	}
	for _, l := range note.Lines {
		to[[2]string{l.Worktree, l.Session}] = l.Seq
	}
	return to, nil
}
