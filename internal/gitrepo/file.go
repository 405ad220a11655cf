package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The largest files that we read, by kind.
const (
	maxLink   = 64 << 10  // .git as a file, commondir, HEAD, loose refs
	maxText   = 16 << 20  // configuration and pattern files
	maxRefs   = 256 << 20 // packed-refs
	maxIndex  = 1 << 30   // index, sharedindex: 10 million entries
	maxPrefix = 64        // names of an index v4, as a multiple of its size

	maxSettings = 1 << 19 // of a configuration: 80 bytes each, where the text may have two
)

// readFile returns the content of a regular file. A directory is an error;
// anything else, such as /dev/null, is empty and not opened.
func readFile(name string, limit int64) ([]byte, error) {
	f, size, err := openFile(name)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("read %q: %d bytes are more than the %d that such a file may have", name, size, limit)
	}
	// The file may grow meanwhile: the limit holds for what is read, too.
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// openFile opens a regular file and returns its size. The file is nil if the
// name is something else than a file or a directory.
func openFile(name string) (*os.File, int64, error) {
	// Look before opening: opening a device can do things. Look again
	// after, and do not block: it may have become a pipe.
	st, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if st.IsDir() {
		return nil, 0, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if !st.Mode().IsRegular() {
		return nil, 0, nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	if st, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, f.Close()
	}
	return f, st.Size(), nil
}

// missing reports whether err says that there is no such file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
