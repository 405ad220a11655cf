package sessionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
)

// blockSize is how much is read at once, and how long a header may be.
//
// A variable, so that tests reach it sooner, as maxLine.
var blockSize int64 = 1 << 20

// maxLine is how long a line may be without its long strings; a longer one is
// skipped.
var maxLine int64 = 64 << 20

// longString is how long a string in a line may be that is longer than that, for its
// text to be kept: what a tool has printed, say. Nothing is wanted of it.
var longString = 1 << 20

// A File follows a session log that somebody else appends to. It never writes
// to it, and holds no descriptor between calls, so there is nothing to close.
type File struct {
	path string                                       // as the user gave it
	find func() (fsys vfs.FS, name string, err error) // where that is now

	mu sync.Mutex // guards r
	r  reader
}

// OpenFile reads the session log at path. Symbolic links in path are followed,
// now and at each Refresh.
//
// The error matches [ErrFormat] if the file is no session log of version 3, an
// empty one included, and fs.ErrNotExist if there is none.
func OpenFile(ctx context.Context, path string) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return openFile(ctx, path, func() (vfs.FS, string, error) {
		target, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return nil, "", err
		}
		return vfs.OS(filepath.Dir(target)), filepath.Base(target), nil
	})
}

// OpenFS is OpenFile for a name in a file system.
func OpenFS(ctx context.Context, fsys vfs.FS, name string) (*File, error) {
	return openFile(ctx, name, func() (vfs.FS, string, error) { return fsys, name, nil })
}

func openFile(ctx context.Context, path string, find func() (vfs.FS, string, error)) (*File, error) {
	f := &File{path: path, find: find}
	if err := f.Refresh(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Refresh reads the lines that were added since the last time; the cost
// follows what is new. After an error the tree is as far as the file was read,
// and the next Refresh goes on from there.
//
// The error matches [ErrRewritten] if the file shrank, was replaced by another
// or was changed just before where reading had ended. That is returned once:
// f is empty then, and the next Refresh reads the file from its start. A
// rewrite that changes only what lies further back is not noticed.
//
// It matches fs.ErrNotExist if the file has vanished, [ErrFormat] as in
// [OpenFile], and [ErrNotFile] if the file is not a regular one.
func (f *File) Refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(ctx); err != nil {
		return fileError(f.path, err)
	}
	return nil
}

func (f *File) refresh(ctx context.Context) error {
	fsys, name, err := f.find()
	if err != nil {
		return err
	}
	file, err := openRegular(fsys, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.r.read(ctx, file)
}

// Tree returns the session as of the last Refresh. The next Refresh adds to
// it, unless the file was rewritten: then a new Tree is begun.
func (f *File) Tree() *session.Tree {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.session()
}

// Header returns the header as of the last Refresh.
func (f *File) Header() Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.header
}

// Problems returns the first problems of the log in file order, at most 100,
// and how many there are. A missing parent is none any more once it is added.
func (f *File) Problems() (list []Problem, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.listProblems()
}

// fileError says which file an error is about.
func fileError(path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pe.Op, pe.Err) // its path is part of ours
	}
	return fmt.Errorf("session file %q: %w", path, err)
}

// openRegular opens a regular file. It looks first, because opening a fifo
// waits for its other end.
func openRegular(fsys vfs.FS, name string, flag int) (vfs.File, error) {
	st, err := fsys.Stat(name)
	if err != nil {
		return nil, err
	}
	if st.Kind != vfs.Regular {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotFile}
	}
	return fsys.OpenFile(name, flag, 0)
}

// A reader reads a session log and what is appended to it later. The zero
// reader has read nothing.
type reader struct {
	header Header
	tree   *session.Tree // nil before the header
	problems
	off      int64   // where the last whole line ends
	line     int     // its number
	last     []byte  // the bytes before off, at most 64
	cut      elision // of the line that is being read
	ino, dev uint64  // of the file
}

// session returns the tree, an empty one if there is none.
func (r *reader) session() *session.Tree {
	if r.tree == nil {
		return session.NewTree()
	}
	return r.tree
}

// read takes in the lines after the last one that it knows. If the file was
// rewritten, the reader is zero again and the error ErrRewritten.
func (r *reader) read(ctx context.Context, f vfs.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if r.tree != nil {
		same, err := r.same(f, st)
		if err != nil {
			return err
		}
		if !same {
			*r = reader{}
			return ErrRewritten
		}
	}
	r.ino, r.dev = st.Ino, st.Dev
	if err := r.readLines(ctx, f, st.Size); err != nil {
		return err
	}
	if r.tree == nil {
		if st.Size == 0 {
			return notBegunError{"empty, without a session header"}
		}
		return notBegunError{"line 1: session header is incomplete"}
	}
	return nil
}

// same reports whether f still is the file that was read, and not rewritten.
func (r *reader) same(f vfs.File, st vfs.Stat) (bool, error) {
	if st.Ino != r.ino || st.Dev != r.dev {
		return false, nil
	}
	b := make([]byte, len(r.last))
	n, err := f.ReadAt(b, r.off-int64(len(b)))
	if err != nil && err != io.EOF {
		return false, err
	}
	return bytes.Equal(b[:n], r.last), nil // n is less if the file shrank
}

// readLines takes in the whole lines between r.off and size.
func (r *reader) readLines(ctx context.Context, f vfs.File, size int64) error {
	r.cut = elision{}
	buf := make([]byte, min(size-r.off, blockSize))
	have := 0     // bytes in buf: an incomplete line
	long := false // it is too long, and buf has only its end
	for pos := r.off; pos < size; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if have == len(buf) && r.tree == nil {
			return formatError("line 1: not a pi session header")
		}
		if have == len(buf) && have >= longString {
			have = r.cut.shorten(buf)
		}
		if have > len(buf)/2 {
			switch {
			case int64(have) >= maxLine:
				long, have, r.cut = true, 0, elision{}
			case have == len(buf):
				buf = append(buf, make([]byte, len(buf))...)
			}
		}
		n, err := f.ReadAt(buf[have:min(int64(len(buf)), int64(have)+size-pos)], pos)
		pos += int64(n)
		b := buf[:have+n]
		if end := bytes.IndexByte(b, '\n') + 1; long && end > 0 {
			r.line++
			r.note(r.line, r.off, fmt.Sprintf("longer than %d bytes", maxLine))
			r.last = nil // the bytes before b are gone
			r.took(b[:end], pos-int64(len(b)-end))
			b, long = b[end:], false
		}
		if long {
			b = nil
		}
		taken, lineErr := r.take(b)
		have = copy(buf, b[taken:])
		if taken > 0 {
			r.cut = elision{}
		}
		switch {
		case lineErr != nil:
			return lineErr
		case err == io.EOF:
			return nil // shrunk since: the next read will see
		case err != nil:
			return err
		}
	}
	return nil
}

// take takes in the whole lines of b, which begins at r.off, and returns their
// length.
func (r *reader) take(b []byte) (taken int, err error) {
	for {
		n := bytes.IndexByte(b[taken:], '\n') + 1
		if n == 0 {
			return taken, nil
		}
		line := b[taken : taken+n]
		if r.tree == nil {
			h, err := parseHeader(line)
			if err != nil {
				return taken, err
			}
			r.header, r.tree = h, session.NewTree()
			r.line = 1
		} else {
			r.line++
			if e, reason := parseEntry(line); reason == "" {
				r.add(e)
			} else if len(bytes.TrimSpace(line)) > 0 {
				r.note(r.line, r.off, reason)
			}
		}
		if cut := r.cut; taken == 0 && cut.dropped > 0 {
			r.last = nil // only what is behind the last string that was cut is as in the file
			r.took(line[cut.tail:], r.off+int64(n)+cut.dropped)
		} else {
			r.took(line, r.off+int64(n))
		}
		taken += n
	}
}

// add adds an entry to the tree. What is wrong with it is a problem.
func (r *reader) add(e session.Entry) {
	if r.has(e.ID) {
		r.note(r.line, r.off, fmt.Sprintf("entry %q is there twice; the later one counts", e.ID))
	}
	isOrphan := e.ParentID != "" && !r.has(e.ParentID)
	r.tree.Add(e)
	if isOrphan {
		added, _ := r.tree.Entry(e.ID)
		r.orphans = append(r.orphans, orphan{added, r.line, r.off})
	}
}

func (r *reader) has(id string) bool {
	_, ok := r.tree.Entry(id)
	return ok
}

// took notes that reading has come to off, and how the line before that ends.
func (r *reader) took(line []byte, off int64) {
	const keep = 64
	r.last = append(r.last, line[max(0, len(line)-keep):]...)
	r.last = append(r.last[:0], r.last[max(0, len(r.last)-keep):]...)
	r.off = off
}

// An elision empties the long strings of a line while it is read.
type elision struct {
	done    int   // up to here it has looked
	in      bool  // in a string there
	start   int   // of that string's text
	cut     bool  // of which something has gone
	dropped int64 // bytes that have gone of the line
	tail    int   // what is from here on lies in the file without a gap
}

// shorten empties the long strings in b, which begins with the line, and returns its
// length then. Of a string that has no end in b the rest comes later: it is as
// valid as the whole.
func (e *elision) shorten(b []byte) int {
	w := e.done
	empty := func() {
		if e.cut = e.cut || w-e.start > longString; e.cut {
			w, e.tail = e.start, e.start
		}
	}
	defer func(before int) { e.dropped += int64(before - w) }(len(b))
	for i := e.done; i < len(b); i++ {
		c := b[i]
		switch {
		case !e.in:
			e.in, e.cut = c == '"', false
			e.start = w + 1
		case c == '"':
			empty()
			e.in = false
		case c == '\\' && i+1 == len(b): // what it stands before is not there yet
			empty()
			b[w] = c
			e.done = w
			w++
			return w
		case c == '\\':
			b[w] = c
			w++
			i++
			c = b[i]
		}
		b[w] = c
		w++
	}
	if e.in {
		empty()
	}
	e.done = w
	return w
}

// Find returns the entry whose ID is id, or else all whose IDs begin with it.
func Find(t *session.Tree, id string) []*session.Entry {
	if e, ok := t.Entry(id); ok {
		return []*session.Entry{e}
	}
	var found []*session.Entry
	for e := range t.Entries() {
		if id != "" && strings.HasPrefix(e.ID, id) {
			found = append(found, e)
		}
	}
	return found
}

// Target returns where the leaf goes when pi is told to move to an entry:
// before a user message or a custom_message, so that it can be said again, and
// to any other entry itself. "" is before the first entry.
//
// The error matches [session.ErrUnknownEntry] if the parent is missing where that is
// the answer.
func Target(t *session.Tree, e *session.Entry) (leaf string, err error) {
	if e.Type != "custom_message" && (e.Type != "message" || e.Role != "user") {
		return e.ID, nil
	}
	if _, ok := t.Entry(e.ParentID); e.ParentID != "" && !ok {
		return "", fmt.Errorf("parent of entry %q: entry %q: %w", e.ID, e.ParentID, session.ErrUnknownEntry)
	}
	return e.ParentID, nil
}
