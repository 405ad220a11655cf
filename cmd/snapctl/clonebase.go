package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/base"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// placed are the files that a clone has taken from its base.
type placed struct {
	mu    sync.Mutex // guards files
	files map[string]placedFile
}

type placedFile struct {
	st vfs.Stat
	id store.ID
}

// find is a [capture.Options] Known.
func (p *placed) find(path string, st *vfs.Stat) (store.ID, bool) {
	f, ok := p.files[path] // nobody writes any more
	return f.id, ok && f.st == *st
}

// openBase opens the base of a clone, if there is one: else the clone makes it.
func (x *cloning) openBase() (err error) {
	if x.flags.base == "" {
		return nil
	}
	if x.baseDir, err = filepath.Abs(x.app.path(x.flags.base)); err != nil {
		return err
	}
	x.base, err = base.Open(x.baseDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refuse("name another: a clone makes one where nothing is", "%w", err)
	}
	return nil
}

// place takes files from the base.
func (x *cloning) place() error {
	x.placed = &placed{files: make(map[string]placedFile)}
	err := x.filling.Place(func(dir vfs.Dir, path string, e *tree.Entry) (bool, error) {
		st, ok, err := x.base.Place(dir, path, e)
		if !ok || err != nil {
			return false, err
		}
		x.placed.mu.Lock()
		defer x.placed.mu.Unlock()
		x.placed.files[path] = placedFile{st, e.ID}
		return true, nil
	})
	n := len(x.placed.files)
	x.answer.FromBase = &n
	return err
}

// fillLazily writes all files of a tree: from the base, and the rest from the remote.
func (x *cloning) fillLazily(ctx context.Context, s *cas.Store, root store.ID, also []store.ID) (
	_ *trees.ExportResult, err error,
) {
	if x.filling, err = trees.Fill(ctx, s, root, x.dir); err != nil {
		return nil, err
	}
	if x.base != nil {
		if err := x.place(); err != nil {
			return nil, err
		}
	}
	if any, err := s.AnyPromised(); err != nil {
		return nil, err
	} else if any {
		come := exchange.WithGive(progress.With(ctx, nil), x.filling.Give) // files are counted, not requests
		if err := s.Prefetch(come, append(also, x.filling.Missing()...)); err != nil {
			return nil, err
		}
	}
	return x.filling.Finish(s)
}

// seed has the next turn know what is in the files of the base, so that it reads none of them; or makes the base, if
// there is none. What goes wrong costs time, and no clone.
func (x *cloning) seed(ctx context.Context, s *cas.Store, loc *places.Location, snap *store.Snapshot) {
	var err error
	switch {
	case x.placed != nil:
		err = x.saveCache(ctx, s, loc)
	case x.baseDir != "":
		err = base.Make(ctx, s, snap.Tree, x.baseDir)
		if errors.Is(err, fs.ErrExist) { // another clone was first
			err = nil
		} else if err == nil {
			x.app.note("made the base %s", words.Quote(x.baseDir))
		}
	}
	if err != nil {
		x.app.tell("warning: %v", err)
	}
}

// saveCache saves the stat cache of the directory, by a capture that reads nothing of what is known and records
// nothing.
func (x *cloning) saveCache(ctx context.Context, s *cas.Store, loc *places.Location) error {
	// Of a file that has changed at this moment nobody knows whether it does so again.
	// The clock on which this depends lags behind the time, by which files are stamped, too.
	const most = 100 // ms, should it stand
	began := time.Now().UnixNano()
	for n := 0; vfs.CoarseTime() <= began && n < most; n++ {
		time.Sleep(time.Millisecond)
	}
	storeRoot, err := x.app.storeRoot()
	if err != nil {
		return err
	}
	_, git := x.app.home()
	ws, err := loc.Project.Open(&capture.WorkspaceOptions{Store: s, StoreDir: storeRoot, Git: git,
		IgnoreFile: x.app.ignoreFile(), Logger: x.app.log})
	if err != nil {
		return err
	}
	w, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = ws.Capture(ctx, w, &capture.Options{Limits: new(limitFlags).limits(x.app), Partial: true,
		Known: x.placed.find})
	return errors.Join(err, w.Close(), ws.Close())
}
