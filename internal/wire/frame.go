// Package wire is what both ends of docs/reference/rpc.md have in common: lines, answers, and
// the socket of a process that stays. Package client is one end, the command's
// package rpc is the other.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// MaxLine is how long a line may be, in bytes.
const MaxLine = 16 << 20

// ErrLong: a line is longer than MaxLine.
var ErrLong = fmt.Errorf("a line of more than %d bytes", MaxLine)

// A Status says how a request ended.
type Status string

const (
	Complete  Status = "complete"
	Cancelled Status = "cancelled" // nothing is as if it had been done
	Failed    Status = "failed"
)

// A Response answers a request. Other lines of an engine are events.
type Response struct {
	ID      json.RawMessage `json:"id"`   // of the request; null if it could not be read
	Type    string          `json:"type"` // "response", or the kind of an event
	Command string          `json:"command"`
	Success bool            `json:"success"`
	Status  Status          `json:"status"`
	Data    any             `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
	Code    string          `json:"code,omitempty"` // of the error
}

// IsForPeople reports whether an argument of this name is a text that people read. A runtime may
// have cut it in the middle of a character, and what it asks for is done all the same.
func IsForPeople(name string) bool {
	switch name {
	case "title", "agent", "model", "summary", "label":
		return true
	}
	return false
}

// A LineReader reads lines that end with LF, and passes over those that are too
// long without keeping them.
type LineReader struct {
	R   *bufio.Reader
	Max int
}

// Next returns the next line without its end. It is valid until the next call.
// What comes after the last LF is no line: whoever wrote it did not get to its
// end. The error is ErrLong for a line that was passed over, with the begin of it.
func (l *LineReader) Next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.R.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.Max+1; !long {
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
			return line, ErrLong
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}

// IDOf returns the ID of a request that may be no JSON, or end early: a text or a number;
// nil if none is found.
func IDOf(line []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if name == "id" {
			if !IsID(value) {
				return nil
			}
			return value
		}
	}
	return nil
}

// IsID reports whether a JSON value is a text, in UTF-8, or a number.
func IsID(b json.RawMessage) bool {
	return len(b) > 0 && utf8.Valid(b) && (b[0] == '"' || b[0] == '-' || b[0] >= '0' && b[0] <= '9')
}

// A LineWriter writes values as lines, from many goroutines.
type LineWriter struct {
	W io.Writer

	mu  sync.Mutex // guards the rest
	err error      // the first: nothing is written after it
}

// Err returns why nothing can be written any more, nil if it can.
func (l *LineWriter) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Write writes a value as one line.
func (l *LineWriter) Write(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b) // ends with LF
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		_, l.err = l.W.Write(b.Bytes())
	}
	return l.err
}
