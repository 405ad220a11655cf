package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

const (
	// maxFiles is how many files a list has: who has more is told of these.
	maxFiles = 1000
	// maxTold is how many sessions are remembered of a file.
	maxTold = 100
	// maxList is how long the list gets, in bytes.
	maxList = 16 << 20
)

// A list has the files of a directory that seem to hold secrets.
type list struct {
	Files []file `json:"files"`
}

type file struct {
	Path []byte   `json:"path"`           // slash-separated, relative to the directory
	Told []string `json:"told,omitempty"` // sessions whose users know
}

// Add puts paths on the list of a directory.
func Add(ctx context.Context, fsys vfs.FS, of layout.Worktree, paths []string) error {
	if err := fsys.Mkdir(of.Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return change(ctx, fsys, of, os.O_CREATE, func(l *list) error {
		for _, p := range paths {
			known := slices.ContainsFunc(l.Files, func(f file) bool { return string(f.Path) == p })
			if !known && len(l.Files) < maxFiles {
				l.Files = append(l.Files, file{Path: []byte(p)})
			}
		}
		return nil
	})
}

// Tell returns the paths on the list of which a session's user does not know, and notes
// that they are told now. A path that is not captured any more, by isCaptured, goes from
// the list.
func Tell(ctx context.Context, fsys vfs.FS, of layout.Worktree, session string,
	isCaptured func(path string) (bool, error)) (paths []string, err error) {
	err = change(ctx, fsys, of, 0, func(l *list) error {
		var stay []file
		for _, f := range l.Files {
			if slices.Contains(f.Told, session) {
				stay = append(stay, f)
				continue
			}
			is, err := isCaptured(string(f.Path))
			if err != nil {
				return err
			}
			if is {
				f.Told = append(f.Told[max(len(f.Told)-maxTold+1, 0):], session)
				stay = append(stay, f)
				paths = append(paths, string(f.Path))
			}
		}
		l.Files = stay
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) { // as nearly everywhere
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	return paths, nil
}

// change calls fn with the list, and writes what fn makes of it. The file is its own lock.
func change(ctx context.Context, fsys vfs.FS, of layout.Worktree, flag int, fn func(*list) error) error {
	f, err := fsys.OpenFile(of.Secrets(), os.O_RDWR|flag, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // what was not written is told once more
	if err := vfs.Lock(ctx, f, vfs.Exclusive); err != nil {
		return err
	}
	before, err := io.ReadAll(io.NewSectionReader(f, 0, maxList))
	if err != nil {
		return err
	}
	l := new(list)
	if json.Unmarshal(before, l) != nil {
		l = new(list)
	}
	if err := fn(l); err != nil {
		return err
	}
	after, err := json.Marshal(l)
	if err != nil || string(after) == string(before) {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(after, 0)
	return err
}
