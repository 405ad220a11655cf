package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, st.Size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// ReplaceFile gives the file tmp the name of another, if there is one, by Exchange
// where that can be: then tmp is the other file afterwards.
func ReplaceFile(fsys FS, tmp, name string) error {
	err := fsys.Exchange(tmp, name)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		err = fsys.Rename(tmp, name)
	}
	return err
}

// A SourceError is an error of the file that was read, where the same call
// wrote what it read elsewhere and could have failed there.
type SourceError struct{ Err error }

func (e SourceError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the file.
func (e SourceError) Unwrap() error { return e.Err }

// A SourceReader reads a file and makes its errors SourceErrors.
type SourceReader struct{ File io.Reader }

func (r SourceReader) Read(b []byte) (int, error) {
	n, err := r.File.Read(b)
	if err != nil && err != io.EOF {
		err = SourceError{err}
	}
	return n, err
}
