package vfs

import "io"

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
