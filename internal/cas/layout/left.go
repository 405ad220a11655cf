package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/vfs"
)

// A Left is what a clone has left out of a directory: it is neither there nor deleted.
type Left struct {
	Version int      `json:"v"`
	Paths   []string `json:"-"` // of which directories end in a slash, and none is in another
	Links   []string `json:"-"` // those of them that are symbolic links

	RawPaths [][]byte `json:"paths"` // names are bytes
	RawLinks [][]byte `json:"links,omitempty"`
}

const leftSum = 32

// ReadLeft returns what was left out of a directory, nil if nothing was. A file that is damaged is an
// error.
func ReadLeft(fsys vfs.FS, w Worktree) (*Left, error) {
	b, err := vfs.ReadFile(fsys, w.Left())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	bad := func(err error) (*Left, error) { return nil, fmt.Errorf("%s: %w", w.Left(), err) }
	if len(b) < leftSum {
		return bad(errors.New("it is cut off"))
	}
	text := b[:len(b)-leftSum]
	if sum := blake3.Sum256(text); !bytes.Equal(sum[:], b[len(text):]) {
		return bad(errors.New("its hash is wrong"))
	}
	l := new(Left)
	if err := json.Unmarshal(text, l); err != nil {
		return bad(err)
	}
	for _, p := range l.RawPaths {
		l.Paths = append(l.Paths, string(p))
	}
	for _, p := range l.RawLinks {
		l.Links = append(l.Links, string(p))
	}
	return l, nil
}

// Write makes durable what was left out of a directory.
func (l *Left) Write(fsys vfs.FS, w Worktree) error {
	l.Version, l.RawPaths, l.RawLinks = 1, nil, nil
	for _, p := range l.Paths {
		l.RawPaths = append(l.RawPaths, []byte(p))
	}
	for _, p := range l.Links {
		l.RawLinks = append(l.RawLinks, []byte(p))
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	sum := blake3.Sum256(b)
	if err := fsys.Mkdir(w.Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(fsys.SyncDir(Worktrees), WriteFile(fsys, w.Left(), append(b, sum[:]...)))
}
