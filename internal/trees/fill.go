package trees

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Filling is an export whose contents come one by one, in any order: each is written where it
// belongs while it is at hand. It may be used from several goroutines until it is ended.
type Filling struct {
	exporter
	Root  store.ID // of the tree
	dir   string
	all   []*fillDir // one comes before those in it
	files []*fillFile

	mu   sync.Mutex // guards the rest, and what directories have open
	want map[store.ID][]*fillFile
	idle []*fillDir // open, and nobody writes there; the one of longest ago first
}

// A fillDir is a directory that is being filled.
type fillDir struct {
	path string // in the tree
	perm uint16
	left int // files that are to come
	open vfs.Dir
	busy int // who write there
}

type fillFile struct {
	dir *fillDir
	tree.Entry
	isThere bool
}

// maxIdle is how many directories stay open in which nothing is written: the next file of one may be
// of the next content.
const maxIdle = 64

// Fill makes the directories of a tree in a directory that is empty, or does not exist and whose parent
// does. Give writes files, and Finish the rest: all is as with [Export] then.
func Fill(ctx context.Context, g Getter, root store.ID, dir string) (*Filling, error) {
	if err := emptyDir(dir); err != nil {
		return nil, fmt.Errorf("export to %q: %w", dir, err)
	}
	f := &Filling{exporter: exporter{ctx: ctx, progress: progress.Of(ctx)}, Root: root, dir: dir,
		want: make(map[store.ID][]*fillFile)}
	top, err := vfs.OpenDir(dir)
	if err == nil {
		err = errors.Join(f.plan(g, top, new(fillDir), root), top.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("export to %q: %w", dir, errors.Join(err, f.Abandon()))
	}
	of := progress.Phase{Name: "writing", Unit: "file", Items: int64(len(f.files))}
	for _, file := range f.files {
		of.Bytes += file.Size
	}
	f.progress.Begin(of)
	return f, nil
}

// plan notes what is to come into a directory, which is open, and makes those in it.
func (f *Filling) plan(g Getter, open vfs.Dir, d *fillDir, id store.ID) error {
	f.all = append(f.all, d)
	for e, err := range Entries(f.ctx, g, id) {
		if err != nil && d.path != "" { // without the root there is nothing
			if err = f.lose(d.path, err); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
		if err := CheckVCS(open, &e); err != nil {
			if err = f.lose(Join(d.path, e.Name), err); err != nil {
				return err
			}
			continue
		}
		if !e.Mode.IsDir() {
			d.left++
			file := &fillFile{dir: d, Entry: e}
			f.files, f.want[e.ID] = append(f.files, file), append(f.want[e.ID], file)
			continue
		}
		if err := f.makeDir(g, open, d, e); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filling) makeDir(g Getter, open vfs.Dir, above *fillDir, e tree.Entry) error {
	path := Join(above.path, e.Name)
	err := CheckDir(path)
	if err == nil { // until it is full it must be writable, by us only
		err = open.Mkdir(e.Name, 0o700)
	}
	if err != nil {
		return f.lose(path, err)
	}
	f.dirs.Add(1)
	d := &fillDir{path: path, perm: uint16(e.Mode & 0o777)}
	in, err := open.OpenDir(e.Name)
	if err != nil {
		f.all = append(f.all, d)
		return err
	}
	return errors.Join(f.plan(g, in, d, e.ID), in.Close())
}

func (f *Filling) at(d *fillDir) string { return filepath.Join(f.dir, filepath.FromSlash(d.path)) }

// Give writes the files, and links, that hold a content.
func (f *Filling) Give(id store.ID, content []byte) error {
	_, err := f.Copy(copying(func(w io.Writer) (int64, error) {
		n, err := w.Write(content)
		return int64(n), err
	}), id)
	return err
}

// Copy is Give of a content that a store has, and reports whether a file was to hold it. That it cannot
// be read is an error.
func (f *Filling) Copy(g BlobGetter, id store.ID) (is bool, err error) {
	list := f.take(id)
	for _, file := range list {
		err := f.write(file, func(dir vfs.Dir) (bool, error) {
			err := f.entry(g, dir, file.Entry)
			if errors.Is(err, vfs.ErrImpossible) || errors.Is(err, fs.ErrExist) {
				return false, f.lose(Join(file.dir.path, file.Name), err)
			}
			return err == nil, err
		})
		if err != nil {
			return true, err
		}
	}
	return len(list) > 0, nil
}

// take returns the files that hold a content and are not there.
func (f *Filling) take(id store.ID) []*fillFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.want[id]
	delete(f.want, id)
	return list
}

// write calls put with the directory of a file, which reports whether it has written that.
func (f *Filling) write(file *fillFile, put func(vfs.Dir) (bool, error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("export to %q: %q: %w", f.dir, Join(file.dir.path, file.Name), err)
		}
	}()
	if err := context.Cause(f.ctx); err != nil {
		return err
	}
	dir, err := f.enter(file.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.leave(file.dir)) }()
	is, err := put(dir)
	file.isThere = is && err == nil
	return err
}

// enter opens a directory to write a file there.
func (f *Filling) enter(d *fillDir) (vfs.Dir, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.open == nil {
		var err error
		if d.open, err = vfs.OpenDir(f.at(d)); err != nil {
			return nil, err
		}
	}
	if d.busy++; d.busy == 1 {
		f.idle = slices.DeleteFunc(f.idle, func(o *fillDir) bool { return o == d })
	}
	return d.open, nil
}

// leave ends that.
func (f *Filling) leave(d *fillDir) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.left--
	if d.busy--; d.busy > 0 {
		return nil
	}
	if d.left > 0 {
		f.idle = append(f.idle, d)
		if len(f.idle) <= maxIdle {
			return nil
		}
		d, f.idle = f.idle[0], slices.Delete(f.idle, 0, 1)
	}
	return f.close(d)
}

// close closes a directory. Filling.mu is held.
func (f *Filling) close(d *fillDir) error {
	open := d.open
	d.open = nil
	return open.Close()
}

// Place has put write regular files before contents come, several at once, and reports whether it has. Where it has
// not, and there is no error, nothing is there yet.
func (f *Filling) Place(put func(dir vfs.Dir, path string, e *tree.Entry) (bool, error)) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, file := range f.files {
		if file.Mode.Kind() != tree.ModeFile {
			continue
		}
		group.Go(func() error {
			return f.write(file, func(dir vfs.Dir) (bool, error) {
				is, err := put(dir, Join(file.dir.path, file.Name), &file.Entry)
				if errors.Is(err, fs.ErrExist) { // by another name: who writes it next says so
					is, err = false, nil
				}
				if !is || err != nil {
					f.mu.Lock()
					file.dir.left++ // it is still to come
					f.mu.Unlock()
					return false, err
				}
				f.written.Add(1)
				f.bytes.Add(int64(file.Size))
				f.progress.Count(1, int64(file.Size))
				return true, nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, list := range f.want {
		list = slices.DeleteFunc(list, func(file *fillFile) bool { return file.isThere })
		if f.want[id] = list; len(list) == 0 {
			delete(f.want, id)
		}
	}
	return nil
}

// Missing returns the contents that have not come, in the order of the paths of files that hold them.
func (f *Filling) Missing() (ids []store.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		if list := f.want[file.ID]; len(list) > 0 && list[0] == file {
			ids = append(ids, file.ID)
		}
	}
	return ids
}

// Finish writes what has not come, from a store that has it, and gives directories their permission bits.
func (f *Filling) Finish(g BlobGetter) (*ExportResult, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, file := range f.files { // in order of their paths: what is near is read together
		group.Go(func() error {
			for _, file := range f.take(file.ID) {
				if err := f.write(file, func(dir vfs.Dir) (bool, error) {
					return f.put(g, dir, file.dir.path, file.Entry)
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, d := range slices.Backward(f.all[1:]) { // the root's own permission bits are not in the tree
		open, err := vfs.OpenDir(f.at(d))
		if err == nil {
			err = errors.Join(open.Chmod(d.perm), open.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return f.result(), nil
}

// Abandon removes what was written. What others have put there stays.
func (f *Filling) Abandon() error {
	var errs []error
	for _, d := range f.idle {
		errs = append(errs, f.close(d))
	}
	f.idle = nil
	for _, file := range f.files {
		if !file.isThere {
			continue
		}
		if err := os.Remove(filepath.Join(f.at(file.dir), file.Name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, d := range slices.Backward(f.all) {
		if d.path != "" {
			os.Remove(f.at(d)) // fails if it has what is not ours
		}
	}
	return errors.Join(errs...)
}
