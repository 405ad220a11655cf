// Package rpc serves managers to programs in other languages, as one JSON object
// a line in both directions (docs/rpc.md): over a pair of streams, or over a unix
// socket of a process that stays.
package rpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxLine is how long a line may be, in bytes.
const MaxLine = 16 << 20

// errLong: a line is longer than MaxLine.
var errLong = fmt.Errorf("a line of more than %d bytes", MaxLine)

// A lineReader reads lines that end with LF, and passes over those that are too
// long without keeping them.
type lineReader struct {
	r   *bufio.Reader
	max int
}

// next returns the next line without its end. It is valid until the next call.
// What comes after the last LF is no line: whoever wrote it did not get to its
// end. The error is errLong for a line that was passed over.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.max+1; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && (long || len(line)+len(part) > 0):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case long:
			return nil, errLong
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}

// A lineWriter writes values as lines, from many goroutines.
type lineWriter struct {
	mu  sync.Mutex // guards the rest
	w   io.Writer
	err error // the first: nothing is written after it
}

func (l *lineWriter) write(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b) // ends with LF
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		_, l.err = l.w.Write(b.Bytes())
	}
	return l.err
}
