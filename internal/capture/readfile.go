package capture

import (
	"errors"
	"io"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

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
	if w.st.Size > w.c.limits.FileSize {
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
	return w.c.sink.Put(object.Blob, buf[:n])
}
