package capture

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/secrets"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

func (j *dirJob) visitRange(w *worker, lo, hi int) {
	for i := lo; i < hi && !j.c.queue.isStopped(); i++ {
		j.visit(w, &j.slots[i])
	}
}

// visit finds out what a name stands for, and captures a file or a link.
func (j *dirJob) visit(w *worker, s *slot) {
	if s.reason == trees.Sparse { // somebody may have made it
		s.kind, s.st, s.id = 0, vfs.Stat{}, store.ID{}
	}
	for range maxTries {
		if j.visitOnce(w, s) {
			j.findLinks(w, s)
			return
		}
		s.kind = 0 // it is changing under our hands: look again
	}
	s.reason = trees.Unstable
	s.kind = w.st.Kind
}

// visitOnce reports whether it came to a conclusion.
func (j *dirJob) visitOnce(w *worker, s *slot) bool {
	s.reason = 0
	if s.kind == 0 {
		if !j.lstat(w, s) {
			return true
		}
		s.kind = w.st.Kind
	}
	switch {
	case trees.IsVCS(s.name, s.kind == vfs.Directory), trees.SpellsVCS(j.dir, s.name):
		s.reason = trees.VCS
		return true
	case j.ruled(s) == nil && j.c.late(): // patterns may be so many that each name takes long
		j.settle(s, errOverBudget)
		s.st = vfs.Stat{}
		return true
	case j.ignored(s):
		s.reason = trees.Ignored
		s.st = vfs.Stat{}
		return true
	case s.kind == vfs.Special:
		s.reason = trees.NotFile
		return true
	case s.kind == vfs.Directory:
		return true // its identity is found out when it is opened
	}
	if !j.lstat(w, s) {
		return true
	}
	if w.st.Kind != s.kind {
		return false
	}
	s.st = w.st
	if s.old >= 0 {
		if e := j.old.entry(s.old); j.reusable(e, s.name, &w.st) {
			s.id = e.id()
			s.racy = false
			j.c.count(1)
			return true
		}
	}
	err := j.take(w, s)
	s.racy = j.c.isRacy(&s.st) || s.st.Dev != j.st.Dev
	return j.settle(s, err)
}

// take captures a file or a link.
func (j *dirJob) take(w *worker, s *slot) error {
	switch {
	case s.kind == vfs.Symlink:
		return j.c.fit(func() error { return w.readLink(j.dir, s) })
	case j.isKnown(w, s):
		j.c.count(1)
		return nil
	}
	return j.readFile(w, s)
}

// isKnown reports whether somebody knows what is in a file, and takes that.
func (j *dirJob) isKnown(w *worker, s *slot) (is bool) {
	if j.c.known == nil || w.st.Size > j.most(s.name, w.st.Size) {
		return false
	}
	s.id, is = j.c.known(trees.Join(j.path(), s.name), &w.st)
	return is
}

// lstat describes a name in w.st. If it cannot, the slot says why.
func (j *dirJob) lstat(w *worker, s *slot) bool {
	err := j.dir.Lstat(s.name, &w.st)
	if err == nil {
		return true
	}
	j.settle(s, vfs.SourceError{Err: err})
	return false
}

// readFile captures a regular file within the budget.
func (j *dirJob) readFile(w *worker, s *slot) (err error) {
	c := j.c
	size := s.st.Size
	j.weight.files.Add(1)
	if w.most = j.most(s.name, size); size > w.most {
		return errTooLarge
	}
	j.weight.bytes.Add(size)
	if c.newBytes.Add(size) > c.limits.NewBytes {
		c.overBudget("new bytes", c.limits.NewBytes)
	}
	if c.isOver() || c.late() {
		return errOverBudget // what is over is only counted
	}
	err = c.fit(func() (err error) {
		s.id, err = w.readFile(j.dir, s.name)
		s.st = w.st
		return err
	})
	if err == nil {
		if secrets.Holds(s.name, w.content()) {
			c.foundSecret(trees.Join(j.path(), s.name))
		}
		c.readFiles.Add(1)
		c.readBytes.Add(size)
		c.progress.CountRead(size)
	}
	return err
}

var errOverBudget = errors.New("over budget")

// fit reads a file or a link, and counts it. If only what fits is captured it is counted before: of several
// goroutines none reads one too many.
func (c *capture) fit(read func() error) error {
	if !c.partial {
		err := read()
		if err == nil {
			c.count(1)
		}
		return err
	}
	if c.seen.Add(1) > c.limits.Files {
		c.seen.Add(-1)
		c.overBudget("files", c.limits.Files)
		return errOverBudget
	}
	err := read()
	if err != nil {
		c.seen.Add(-1)
		return err
	}
	c.progress.Count(1, 0)
	return nil
}

// readLink captures the target of a symbolic link.
func (w *worker) readLink(dir vfs.Dir, s *slot) (err error) {
	target, err := dir.Readlink(s.name)
	if errors.Is(err, syscall.EINVAL) {
		return errChanged // not a link any more
	}
	if err != nil {
		return vfs.SourceError{Err: err}
	}
	s.st.Size = int64(len(target))
	s.id, err = w.c.sink.Put(object.Blob, []byte(target))
	return err
}

// settle notes how a visit ended, and reports whether that is the end of it.
func (j *dirJob) settle(s *slot, err error) bool {
	var source vfs.SourceError
	switch {
	case err == nil:
	case err == errTooLarge:
		s.reason = trees.TooLarge
	case err == errOverBudget:
		s.reason = trees.OverBudget
		j.c.unfinished.Store(true)
	case err == errChanged, errors.Is(err, vfs.ErrNotRegular):
		return false
	case !errors.As(err, &source) || isFatal(err):
		j.c.fail(err)
	case isGone(err):
		s.gone = true
	default:
		s.reason = trees.Unreadable
	}
	return true
}

// isRacy reports whether a file may change again without its identity
// showing it.
func (c *capture) isRacy(st *vfs.Stat) bool {
	if st.Dev != c.rootDev {
		return st.Ctime >= c.foreignFrom
	}
	return st.Ctime >= c.racyFrom
}

func (c *capture) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over != nil
}

// has reports whether an id from the cache is in the store: of a content of some length, or, if that
// is 0, of a page of a directory.
func (c *capture) has(id store.ID, size int64) bool {
	if !c.lookup {
		return true
	}
	ok, err := c.sink.HasAll(id, size)
	if err != nil {
		c.fail(err)
	}
	return ok
}

// count adds files and links that were captured.
func (c *capture) count(n int64) {
	c.progress.Count(n, 0)
	if c.seen.Add(n) > c.limits.Files {
		c.overBudget("files", c.limits.Files)
	}
}

// isFatal reports whether an error says something of this process or
// machine, not of the file: then nothing that follows would be true.
func isFatal(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE)
}

// maxTries is how often a file is read that changes meanwhile.
const maxTries = 3

// wholeRead is the size up to which a file is read at once.
const wholeRead = 1 << 20

// errChanged: the file is not the same after reading as before.
var errChanged = errors.New("changed while it was read")

var (
	errTooLarge = errors.New("too large")
	errStopped  = errors.New("capture has ended")
)

// A sourceReader ends after left bytes, and fails when the capture has.
type sourceReader struct {
	c    *capture
	r    vfs.SourceReader
	left int64
}

func (r *sourceReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if r.c.queue.isStopped() {
		return 0, errStopped
	}
	n, err := r.r.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	return n, err
}

// readFile stores the content of a file and leaves in w.st the identity that
// the content belongs to. It tells by errChanged that there is none.
func (w *worker) readFile(dir vfs.Dir, name string) (store.ID, error) {
	f, err := dir.Open(name, &w.st)
	if err != nil {
		return store.ID{}, vfs.SourceError{Err: err}
	}
	defer f.Close()
	if w.st.Size > max(w.c.limits.FileSize, w.most) { // it has grown
		return store.ID{}, errTooLarge
	}
	var id store.ID
	if w.st.Size < wholeRead {
		id, err = w.readSmall(f)
	} else {
		var n int64
		id, n, err = w.c.sink.PutReader(&sourceReader{c: w.c, r: vfs.SourceReader{File: f}, left: w.st.Size + 1})
		if err == nil && n != w.st.Size {
			err = errChanged
		}
	}
	if err != nil {
		return store.ID{}, err
	}
	var after vfs.Stat
	if err := f.Stat(&after); err != nil {
		return store.ID{}, vfs.SourceError{Err: err}
	}
	if after != w.st {
		return store.ID{}, errChanged
	}
	return id, nil
}

// content returns what was read last, by readFile; nil: it was read in pieces.
func (w *worker) content() []byte {
	if w.st.Size >= wholeRead {
		return nil
	}
	return w.buf[:w.st.Size]
}

// readSmall stores the content of a file of w.st.Size bytes.
func (w *worker) readSmall(f vfs.Reader) (store.ID, error) {
	// One byte more than there should be: a file that has grown shows, and one
	// that is as long as it should be is at its end, or readFile finds it
	// changed. A file that says that it is empty is read, too: those of
	// /proc are not.
	if cap(w.buf) < int(w.st.Size)+1 {
		w.buf = make([]byte, max(64<<10, int(w.st.Size)+1))
	}
	buf := w.buf[:w.st.Size+1]
	n := 0
	for {
		k, err := f.Read(buf[n:])
		n += k
		if err != nil && err != io.EOF {
			return store.ID{}, vfs.SourceError{Err: err}
		}
		if err == io.EOF || k == 0 || int64(n) >= w.st.Size {
			break
		}
	}
	if int64(n) != w.st.Size {
		return store.ID{}, errChanged
	}
	if to, ok := w.c.sink.(*cas.Writer); ok {
		return to.PutFrom(w.n, object.Blob, buf[:n])
	}
	return w.c.sink.Put(object.Blob, buf[:n])
}
