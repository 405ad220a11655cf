package tree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/store"
)

// An FS is a tree as a read-only [fs.FS]. It also has ReadFile, ReadDir,
// Stat, Lstat and ReadLink.
//
// An io/fs name is valid UTF-8, while names in a tree are raw bytes: an entry
// whose name is not is left out, with all that it holds. [FS.LeftOut] lists
// those. Open and Stat follow symbolic links that stay inside the tree, like
// those of [os.DirFS]; others do not exist. A tree has no times, so ModTime
// is zero.
//
// An FS may be used from several goroutines. Each Open reads from the store
// and ends with the context that the FS was made with.
type FS struct {
	ctx  context.Context
	g    Getter
	root store.ID
}

// NewFS returns a tree as an fs.FS.
func NewFS(ctx context.Context, g Getter, root store.ID) *FS {
	return &FS{ctx, g, root}
}

var (
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// LeftOut returns the paths of what io/fs cannot name, raw.
func (f *FS) LeftOut() ([]string, error) { return f.leftOut("", f.root) }

func (f *FS) leftOut(dir string, id store.ID) ([]string, error) {
	var out []string
	for e, err := range Entries(f.ctx, f.g, id) {
		if err != nil {
			return nil, err
		}
		switch p := join(dir, e.Name); {
		case !utf8.ValidString(e.Name):
			out = append(out, p)
		case e.Mode.IsDir():
			below, err := f.leftOut(p, e.ID)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
	}
	return out, nil
}

// maxLinks is how many symbolic links one name may lead through, as on Linux.
const maxLinks = 40

var errLoop = errors.New("too many levels of symbolic links")

// find returns the entry that a name stands for. The last component is
// followed if it is a link and follow is set.
func (f *FS) find(op, name string, follow bool) (Entry, error) {
	if !fs.ValidPath(name) {
		return Entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	e, err := f.resolve(name, follow)
	if err != nil {
		return Entry{}, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if name != "." {
		e.Name = path.Base(name)
	}
	return e, nil
}

func (f *FS) resolve(name string, follow bool) (Entry, error) {
	for range maxLinks {
		e, link, rest, err := f.walk(name, follow)
		if err != nil || link == "" {
			return e, err
		}
		target, err := f.g.Get(f.ctx, store.Blob, e.ID)
		if err != nil {
			return Entry{}, err
		}
		if path.IsAbs(string(target)) {
			return Entry{}, fs.ErrNotExist
		}
		name = path.Join(path.Dir(link), string(target), rest)
		if !fs.ValidPath(name) {
			return Entry{}, fs.ErrNotExist // it leads out of the tree
		}
	}
	return Entry{}, errLoop
}

// walk goes along a path up to the first link that must be followed, which it
// returns with where it is and what comes after it.
func (f *FS) walk(name string, follow bool) (e Entry, link, rest string, err error) {
	e = Entry{Name: ".", Mode: ModeDir | 0o755, ID: f.root}
	if name == "." {
		return e, "", "", nil
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if !e.Mode.IsDir() {
			return e, "", "", fs.ErrNotExist
		}
		if e, err = Lookup(f.ctx, f.g, e.ID, part); err != nil {
			return e, "", "", err
		}
		if e.Mode.IsSymlink() && (follow || i < len(parts)-1) {
			return e, path.Join(parts[:i+1]...), path.Join(parts[i+1:]...), nil
		}
	}
	return e, "", "", nil
}

// Open opens a file or a directory.
func (f *FS) Open(name string) (fs.File, error) {
	e, err := f.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if e.Mode.IsDir() {
		list, err := f.list(e)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return &dirFile{info: fileInfo{e}, list: list}, nil
	}
	b, err := f.g.Get(f.ctx, store.Blob, e.ID)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &regularFile{info: fileInfo{e}, content: b}, nil
}

// ReadFile returns the content of a file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	e, err := f.find("read", name, true)
	if err != nil {
		return nil, err
	}
	if e.Mode.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	b, err := f.g.Get(f.ctx, store.Blob, e.ID)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return b, nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := f.find("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	list, err := f.list(e)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return list, nil
}

// Stat describes a file, following a link.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	e, err := f.find("stat", name, true)
	if err != nil {
		return nil, err
	}
	return fileInfo{e}, nil
}

// Lstat describes a file or a link.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	e, err := f.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return fileInfo{e}, nil
}

// ReadLink returns the target of a link.
func (f *FS) ReadLink(name string) (string, error) {
	e, err := f.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if !e.Mode.IsSymlink() {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	b, err := f.g.Get(f.ctx, store.Blob, e.ID)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b), nil
}

// list returns what io/fs can name in a directory.
func (f *FS) list(dir Entry) ([]fs.DirEntry, error) {
	list := []fs.DirEntry{}
	for e, err := range Entries(f.ctx, f.g, dir.ID) {
		if err != nil {
			return nil, err
		}
		if utf8.ValidString(e.Name) {
			list = append(list, fs.FileInfoToDirEntry(fileInfo{e}))
		}
	}
	return list, nil
}

// A fileInfo is an entry as fs.FileInfo.
type fileInfo struct{ e Entry }

func (i fileInfo) Name() string       { return i.e.Name }
func (i fileInfo) Size() int64        { return i.e.Size }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.e.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.e }

func (i fileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(i.e.Mode.Perm())
	switch i.e.Mode.Kind() {
	case ModeDir:
		mode |= fs.ModeDir
	case ModeSymlink:
		mode |= fs.ModeSymlink
	}
	return mode
}

// A regularFile is an open file, whole in memory.
type regularFile struct {
	info    fileInfo
	content []byte
	off     int
}

func (r *regularFile) Stat() (fs.FileInfo, error) { return r.info, nil }
func (r *regularFile) Close() error               { return nil }

func (r *regularFile) Read(b []byte) (int, error) {
	if r.off == len(r.content) && len(b) > 0 {
		return 0, io.EOF
	}
	n := copy(b, r.content[r.off:])
	r.off += n
	return n, nil
}

// A dirFile is an open directory.
type dirFile struct {
	info fileInfo
	list []fs.DirEntry
	off  int
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dirFile) Close() error               { return nil }

func (d *dirFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.Name(), Err: errors.New("is a directory")}
}

func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.list[d.off:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.off += len(rest)
	return slices.Clone(rest), nil
}
