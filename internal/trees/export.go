package trees

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A BlobGetter gives trees and the content of files. [*cas.Store] is one.
type BlobGetter interface {
	Getter
	// CopyBlob writes the content of a blob to w.
	CopyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error)
}

// A Source gives trees, and the content of many files in the order that suits it.
// [*cas.Store] is one.
type Source interface {
	Getter
	// EachBlob calls fn once for each blob, from several goroutines, with its number among
	// ids and what copies its content.
	EachBlob(ctx context.Context, ids []store.ID, fn func(i int, copy func(w io.Writer) (int64, error)) error) error
}

// copying is a content that a function copies.
type copying func(w io.Writer) (int64, error)

func (c copying) Get(context.Context, object.Kind, store.ID) ([]byte, error) {
	var b bytes.Buffer
	_, err := c(&b)
	return b.Bytes(), err
}

func (c copying) CopyBlob(_ context.Context, w io.Writer, _ store.ID) (int64, error) { return c(w) }

// An ExportResult counts what was written.
type ExportResult struct {
	Files, Dirs, Symlinks int64
	Bytes                 int64 // of files

	Forgotten []string  // files and links that were forgotten: they are not there, and in no count
	Lost      []Problem // what the store has lost of it: neither; of a directory, what is in it and is not there
	Refused   []Problem // what the system cannot have, a name or a link: neither; of a directory, all of it
}

// Export writes a tree into a directory that is empty, or does not exist and
// whose parent does. Names, contents, permission bits and targets of links
// are as they were captured. Export leaves out what was forgotten, what the
// store has lost, and what the system cannot have. It syncs nothing: the store still has it all.
//
// An error leaves what was written until then, but no file that is not whole.
func Export(ctx context.Context, g Source, root store.ID, dir string) (*ExportResult, error) {
	r, err := export(ctx, g, root, dir)
	if err != nil {
		return nil, fmt.Errorf("export to %q: %w", dir, err)
	}
	return r, nil
}

func export(ctx context.Context, g Source, root store.ID, dir string) (*ExportResult, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	d, err := vfs.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return exportTo(ctx, g, root, d)
}

// exportTo writes a tree into a directory that is empty, and closes that.
func exportTo(ctx context.Context, g Source, root store.ID, d vfs.Dir) (*ExportResult, error) {
	p := progress.Of(ctx)
	if p != nil {
		p.Begin(phaseOf(ctx, g, root))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exporter{ctx: ctx, g: g, progress: p, windows: make(chan []exportFile), limit: firstWindow, number: 1}
	written := make(chan error)
	go func() { written <- x.write(cancel) }()
	// The root's own permission bits are not in the tree: they stay.
	err := x.dir(&openDir{dir: d}, root)
	if err != nil {
		cancel(err)
	}
	x.flush()
	close(x.windows)
	if werr := <-written; werr != nil {
		err = werr // that is also why the walk has ended
	}
	if err != nil {
		return nil, err
	}
	return x.result(), nil
}

func (x *exporter) result() *ExportResult {
	slices.Sort(x.forgotten)
	for _, list := range [][]Problem{x.lost, x.refused} {
		slices.SortFunc(list, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	}
	return &ExportResult{
		Files: x.written.Load(), Dirs: x.dirs.Load(), Symlinks: x.links.Load(), Bytes: x.bytes.Load(),
		Forgotten: x.forgotten, Lost: x.lost, Refused: x.refused,
	}
}

// phaseOf returns how much there is to export: of what cannot be read nothing is known.
func phaseOf(ctx context.Context, g Getter, root store.ID) progress.Phase {
	of := progress.Phase{Name: "writing", Unit: "file"}
	var add func(id store.ID, path int) error
	add = func(id store.ID, path int) error {
		for e, err := range Entries(ctx, g, id) {
			switch {
			case err != nil:
				return err
			case !e.Mode.IsDir():
				of.Items++
				of.Bytes += e.Size
			default:
				path := path + len("/") + len(e.Name)
				if path > MaxDir {
					continue
				}
				if err := add(e.ID, path); err != nil && !IsLoss(err) {
					return err
				}
			}
		}
		return nil
	}
	if add(root, -len("/")) != nil {
		of.Items, of.Bytes = 0, 0
	}
	return of
}

// emptyDir makes sure that a directory exists and is empty.
func emptyDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	names, err := os.ReadDir(dir)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("not empty: it holds %q", names[0].Name())
	}
	return err
}

type exporter struct {
	ctx      context.Context
	g        Source
	progress *progress.Progress

	windows chan []exportFile
	window  []exportFile // found and not yet sent
	limit   int          // how many files the next one may have
	opened  int          // directories that the window keeps open
	number  int          // of the window, from 1 on

	written, dirs, links, bytes atomic.Int64

	unread    sync.Mutex // guards the rest
	forgotten []string
	lost      []Problem
	refused   []Problem
}

// lose takes up what the store has lost, or the system refuses, and returns any other error.
func (x *exporter) lose(path string, err error) error {
	x.unread.Lock()
	defer x.unread.Unlock()
	switch problem := (Problem{Path: path, Err: err}); {
	case IsLoss(err):
		x.lost = append(x.lost, problem)
	case errors.Is(err, vfs.ErrImpossible):
		x.refused = append(x.refused, problem)
	case errors.Is(err, fs.ErrExist): // the directory was empty
		problem.Err = fmt.Errorf("this disk takes its name for another of the same directory: %w", err)
		x.refused = append(x.refused, problem)
	default:
		return err
	}
	return nil
}

// An openDir is a directory that is being filled. It is closed by the last
// that is done with it, which gives it its permission bits: these may forbid
// to write into it.
type openDir struct {
	dir   vfs.Dir
	path  string
	perm  uint16 // 0 with above == nil: leave them
	above *openDir
	users atomic.Int32 // beyond the first

	window int // the last that has had files of it
}

// done gives up one claim to a directory.
func (d *openDir) done() error {
	for ; d != nil; d = d.above {
		if d.users.Add(-1) >= 0 {
			return nil
		}
		var err error
		if d.above != nil {
			err = d.dir.Chmod(d.perm)
		}
		if err := errors.Join(err, d.dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// A window is what is written together, in the order that suits the store. The first is short, so that
// writing begins; the last are as long as it takes to read most groups once: the 3,278 of Linux, which
// two goroutines have captured, are read 4,521 times in the order of the tree with 16 in a cache, and
// 3,699 times in these. Each of its directories is open, and so are those of the next one.
const (
	firstWindow = 128
	lastWindow  = 4096
	maxOpened   = 256
)

// An exportFile is a file, or a link, that is to be written.
type exportFile struct {
	dir *openDir // nil: it is done
	tree.Entry
}

// dir fills a directory. It takes over one claim to it.
func (x *exporter) dir(d *openDir, id store.ID) (err error) {
	defer func() { err = errors.Join(err, d.done()) }()
	for e, err := range Entries(x.ctx, x.g, id) {
		if err != nil && d.path != "" { // without the root there is nothing
			err = x.lose(d.path, err)
			if err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
		switch err = CheckVCS(d.dir, &e); {
		case err != nil:
			err = x.lose(Join(d.path, e.Name), err)
		case e.Mode.IsDir():
			err = x.subdir(d, e)
		default:
			err = x.add(d, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) subdir(d *openDir, e tree.Entry) error {
	path := Join(d.path, e.Name)
	if err := CheckDir(path); err != nil {
		return x.lose(path, err)
	}
	// Until it is full it must be writable, by us only.
	if err := d.dir.Mkdir(e.Name, 0o700); err != nil {
		return x.lose(path, err)
	}
	dir, err := d.dir.OpenDir(e.Name)
	if err != nil {
		return err
	}
	x.dirs.Add(1)
	d.users.Add(1)
	return x.dir(&openDir{dir: dir, path: path, perm: uint16(e.Mode & 0o777), above: d}, e.ID)
}

// add has a file, or a link, of a directory written with others.
func (x *exporter) add(d *openDir, e tree.Entry) error {
	if d.window != x.number {
		d.window = x.number
		x.opened++
	}
	d.users.Add(1)
	x.window = append(x.window, exportFile{d, e})
	if len(x.window) < x.limit && x.opened < maxOpened {
		return nil
	}
	x.flush()
	return context.Cause(x.ctx)
}

// flush hands the window over to write.
func (x *exporter) flush() {
	if len(x.window) > 0 {
		x.windows <- x.window
	}
	x.window, x.opened, x.limit = nil, 0, min(2*x.limit, lastWindow)
	x.number++
}

// write writes one window after the other. After an error it writes no more, and has the walk end.
func (x *exporter) write(cancel context.CancelCauseFunc) (err error) {
	for window := range x.windows {
		if err == nil {
			if err = x.writeWindow(window); err != nil {
				cancel(err)
			}
		}
		for _, f := range window {
			if f.dir != nil { // nobody has come to it
				err = cmp.Or(err, f.dir.done())
			}
		}
	}
	return err
}

func (x *exporter) writeWindow(window []exportFile) error {
	ids := make([]store.ID, len(window))
	for i := range window {
		ids[i] = window[i].ID
	}
	return x.g.EachBlob(x.ctx, ids, func(i int, copy func(io.Writer) (int64, error)) (err error) {
		f := &window[i]
		d := f.dir
		f.dir = nil
		defer func() { err = errors.Join(err, d.done()) }()
		if _, err := x.put(copying(copy), d.dir, d.path, f.Entry); err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
		return nil
	})
}

// put writes a file, or a link, of a directory, and reports whether it is there: what was forgotten, or
// is lost, is not, and is noted.
func (x *exporter) put(g BlobGetter, dir vfs.Dir, path string, e tree.Entry) (is bool, err error) {
	err = x.entry(g, dir, e)
	if errors.Is(err, store.ErrForgotten) {
		x.unread.Lock()
		defer x.unread.Unlock()
		x.forgotten = append(x.forgotten, Join(path, e.Name))
		return false, nil
	}
	return err == nil, x.lose(Join(path, e.Name), err)
}

func (x *exporter) entry(g BlobGetter, dir vfs.Dir, e tree.Entry) error {
	n, err := WriteEntry(x.ctx, g, dir, &e)
	if err != nil {
		return err
	}
	if e.Mode.Kind() == tree.ModeSymlink {
		x.links.Add(1)
	} else {
		x.written.Add(1)
		x.bytes.Add(n)
	}
	x.progress.Count(1, n)
	return nil
}

// WriteEntry writes a file, or a symbolic link, into a directory that has nothing of its
// name, and returns how many bytes the file has. With an error there is nothing of it.
func WriteEntry(ctx context.Context, g BlobGetter, dir vfs.Dir, e *tree.Entry) (int64, error) {
	if e.Mode.Kind() == tree.ModeSymlink {
		target, err := g.Get(ctx, object.Blob, e.ID)
		if err != nil {
			return 0, err
		}
		return 0, dir.Symlink(string(target), e.Name)
	}
	f, err := dir.Create(e.Name, uint16(e.Mode&0o777))
	if err != nil {
		return 0, err
	}
	n, err := CopyFile(ctx, g, f, e)
	if err == nil {
		err = f.Chmod(uint16(e.Mode & 0o777))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil { // half of it would look like all of it
		if rerr := dir.Remove(e.Name); rerr != nil {
			err = fmt.Errorf("%v, and what is there of it cannot be removed: %w", err, rerr)
		}
		return 0, err
	}
	return n, nil
}

// CopyFile writes the content of a file to w and returns its length. If that is not what the entry
// says, the error matches [store.ErrCorrupt], and no more than the entry says was written.
func CopyFile(ctx context.Context, g BlobGetter, w io.Writer, e *tree.Entry) (int64, error) {
	n, err := g.CopyBlob(ctx, &sizedWriter{Writer: w, e: e}, e.ID)
	if err == nil && n != e.Size {
		err = fmt.Errorf("blob %s has %d bytes, not %d: %w", e.ID.Short(), n, e.Size, store.ErrCorrupt)
	}
	return n, err
}

// A sizedWriter takes no more than an entry says that there is: a list of a few kilobytes may have
// the same chunk a million times.
type sizedWriter struct {
	io.Writer
	e *tree.Entry
	n int64
}

func (w *sizedWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > w.e.Size-w.n {
		return 0, fmt.Errorf("blob %s has more than %d bytes: %w", w.e.ID.Short(), w.e.Size, store.ErrCorrupt)
	}
	n, err := w.Writer.Write(b)
	w.n += int64(n)
	return n, err
}
