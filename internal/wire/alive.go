package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

const (
	// AliveWithin is how long a process that serves may take to say that it is
	// there, which a goroutine of its own does at once, whatever else is under way:
	// docs/reference/concurrency.md has what was measured. One that has not been in time, and
	// is still the same, is not waited for again.
	AliveWithin     = 3 * time.Second
	aliveWithinHung = 300 * time.Millisecond
)

// ErrHung: the process that serves the store does not answer. It may be stopped,
// and go on at any time. The error is a [*HungError].
var ErrHung = errors.New("the engine does not answer")

// A HungError says which process does not answer.
type HungError struct {
	StoreDir string
	PID      int // 0: not known
}

func (e *HungError) Error() string {
	if e.PID == 0 {
		return ErrHung.Error()
	}
	return fmt.Sprintf("%v: process %d", ErrHung, e.PID)
}

// Is reports that the error is ErrHung.
func (e *HungError) Is(target error) bool { return target == ErrHung }

// checkAlive asks whoever is at the other end for a sign of life, before it is
// asked for anything: what it had been sent before it was given up it would do later,
// when it goes on. Any answer is one.
func checkAlive(ctx context.Context, c net.Conn, storeDir string, patience time.Duration) error {
	fsys := vfs.OS(storeDir)
	pid := numberIn(fsys, layout.ServeLock)
	wasHung := pid != 0 && numberIn(fsys, layout.HungName) == pid
	if wasHung {
		patience = min(patience, aliveWithinHung)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
	_, err := io.WriteString(c, `{"id":0,"type":"ping"}`+"\n")
	var b [1]byte // by single bytes, for what comes behind is the caller's
	for err == nil && b[0] != '\n' {
		_, err = io.ReadFull(c, b[:])
	}
	if !stop() {
		return context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if !wasHung {
			return NoteHung(storeDir)
		}
		return &HungError{StoreDir: storeDir, PID: pid}
	}
	if err == nil && wasHung {
		fsys.Remove(layout.HungName) // if not, the next to find it silent does not wait for long
	}
	return errors.Join(err, c.SetDeadline(time.Time{}))
}

// ServedBy returns which process serves a store, or was the last to do so; 0: it is
// not known.
func ServedBy(storeDir string) int { return numberIn(vfs.OS(storeDir), layout.ServeLock) }

// numberIn returns the number that a file holds, 0 if it holds none.
func numberIn(fsys vfs.FS, name string) int {
	b, _ := vfs.ReadFile(fsys, name)
	n, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		return 0
	}
	return n
}

// NoteHung notes that the process that serves a store does not answer, and returns the
// error that says so.
func NoteHung(storeDir string) error {
	fsys := vfs.OS(storeDir)
	hung := &HungError{StoreDir: storeDir, PID: numberIn(fsys, layout.ServeLock)}
	if hung.PID == 0 {
		return hung
	}
	f, err := fsys.OpenFile(layout.HungName, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return hung // the next will wait as long
	}
	fmt.Fprintf(io.NewOffsetWriter(f, 0), "%d\n", hung.PID)
	f.Close()
	return hung
}

// KnownHung returns the error that whoever serves a store does not answer, if that is
// known of it, and nil if it is not: nobody is asked.
func KnownHung(storeDir string) error {
	fsys := vfs.OS(storeDir)
	pid := numberIn(fsys, layout.HungName)
	if pid == 0 || pid != numberIn(fsys, layout.ServeLock) {
		return nil
	}
	if served, err := IsServed(storeDir); err == nil && !served { // it is gone
		return nil
	}
	return &HungError{StoreDir: storeDir, PID: pid}
}
