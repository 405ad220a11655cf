package exchange

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// This file has the log that a runtime keeps of a session go along, so that the conversation goes on
// elsewhere, too. Our own log follows from the records, and is not put anywhere.

// maxLogPart bounds what of a log goes in one entry: the rest goes with the next.
const maxLogPart = 8 << 20

// A logAt is how much of a session's log was pushed.
type logAt struct {
	File string `json:"file"`
	Off  int64  `json:"off"`
	Hash hexID  `json:"hash"` // of what is before it: if that is another, all goes again
}

// transcript puts into an entry what the log of a session has got, and returns how far that goes. A
// log that cannot be read is told of, and holds nothing up.
func (p *Pusher) transcript(at *logAt, e *lines.Entry, records []*store.Snapshot) *logAt {
	file := at.File
	for _, snap := range records {
		if snap.Log != "" {
			file = snap.Log
		}
	}
	if file == "" || p.NoLog {
		return at
	}
	next, part, err := readLog(file, at)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.result.Unread = append(p.result.Unread, err.Error())
		}
		return at
	}
	if e.Log = part; part == nil {
		return at
	}
	return next
}

// readLog returns what a log has behind what was pushed of it; nil if that is nothing.
func readLog(file string, at *logAt) (next *logAt, part *lines.LogPart, err error) {
	st, err := os.Stat(file)
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: file, Err: errors.New("it is no file")}
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	h, off := blake3.New(), at.Off
	if _, err := io.CopyN(h, f, off); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if file != at.File || string(h.Sum(nil)[:16]) != string(at.Hash) { // it was written anew
		h.Reset()
		off = 0
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLogPart))
	if err != nil || len(text) == 0 && off == at.Off {
		return nil, nil, err
	}
	h.Write(text)
	return &logAt{File: file, Off: off + int64(len(text)), Hash: h.Sum(nil)[:16]},
		&lines.LogPart{Off: uint64(off), Text: text}, nil
}

// Log returns the log of a line's session as it was pushed last; nil: none was.
func (f *Fetched) Log(l *FetchedLine) (text []byte) {
	chain := f.Chain(l)
	for i := len(chain) - 1; i >= 0; i-- {
		for n, e := range chain[i].Entries {
			if uint64(n) > ends(chain, i) || e.Void || e.Log == nil || e.Log.Off > uint64(len(text)) {
				continue
			}
			text = append(text[:e.Log.Off:e.Log.Off], e.Log.Text...)
		}
	}
	return text
}
