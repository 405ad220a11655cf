package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/wire"
)

// ErrServed: another process serves the store.
var ErrServed = errors.New("it is served already")

// A Listener accepts connections about one store.
type Listener struct {
	l    *net.UnixListener
	lock vfs.File
	name string
	own  os.FileInfo // of the socket

	stopped atomic.Bool
}

// Listen begins to serve a store, which must be there. Whoever served it and died
// is no obstacle. The error matches [ErrServed].
func Listen(storeDir string) (*Listener, error) {
	lock, err := vfs.OS(storeDir).OpenFile(layout.ServeLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if ok, err := lock.TryLock(vfs.Exclusive); err != nil || !ok {
		lock.Close()
		if err == nil {
			err = fmt.Errorf("store %q: %w", storeDir, ErrServed)
		}
		return nil, err
	}
	// For people; the lock is what counts.
	if pid := fmt.Appendf(nil, "%-20d\n", os.Getpid()); err == nil {
		_, err = lock.WriteAt(pid, 0)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	l := &Listener{lock: lock, name: filepath.Join(storeDir, wire.SocketName)}
	if err = os.Remove(l.name); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = wire.WithPath(storeDir, func(path string) error {
			l.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			return err
		})
	}
	if err == nil {
		l.l.SetUnlinkOnClose(false) // by a path that is gone by then
		err = os.Chmod(l.name, 0o600)
	}
	if err == nil {
		l.own, err = os.Lstat(l.name)
	}
	if err != nil {
		if l.l != nil {
			l.l.Close()
		}
		lock.Close()
		return nil, fmt.Errorf("listen in %q: %w", storeDir, err)
	}
	return l, nil
}

// Stop has [Server.ServeAll] come to an end: nobody may connect or ask any more,
// and requests under way are answered.
func (l *Listener) Stop() {
	l.stopped.Store(true)
	l.l.Close()
}

// Close ends it. Connections go on.
func (l *Listener) Close() error {
	err := l.l.Close()
	if errors.Is(err, net.ErrClosed) { // ServeAll has ended
		err = nil
	}
	if l.isOwn() {
		err = errors.Join(err, os.Remove(l.name))
	}
	return errors.Join(err, l.lock.Close())
}

// isOwn reports whether the socket is still there: a store that was deleted may
// have been made again, and be served by another.
func (l *Listener) isOwn() bool {
	now, err := os.Lstat(l.name)
	return err == nil && os.SameFile(l.own, now)
}

const (
	// maxConns is how many may be connected.
	maxConns = 128
	// ownEvery is how often a server looks whether the store is still its.
	ownEvery = 5 * time.Second
	// lastWrite is how long a server that ends waits for clients to read.
	lastWrite = 2 * time.Second
)

// isPassing reports whether accepting failed for a reason that may pass.
func isPassing(err error) bool {
	passing := []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOMEM}
	return slices.ContainsFunc(passing, func(of error) bool { return errors.Is(err, of) })
}

// endIfTaken ends the listener if the store is taken away, until ended is closed.
func (l *Listener) endIfTaken(ended <-chan struct{}, log *slog.Logger) {
	tick := time.NewTicker(ownEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if !l.isOwn() {
			log.Warn("the store was taken away")
			l.l.Close()
			return
		}
	}
}

// ServeAll answers all who connect, until ctx ends or, if idle is not 0, nobody
// has been connected for so long.
func (s *Server) ServeAll(ctx context.Context, l *Listener, idle time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cs := &clients{s: s, l: l, idle: idle, open: make(map[*net.UnixConn]bool)}
	if idle > 0 {
		cs.timer = time.AfterFunc(idle, func() { l.l.Close() })
	}
	stop := context.AfterFunc(ctx, func() { l.l.Close() })
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go l.endIfTaken(ended, s.log())
	for {
		c, err := l.l.AcceptUnix()
		switch {
		case isPassing(err):
			s.log().Warn("connection not accepted", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		case err != nil:
			if !l.stopped.Load() {
				cancel()
			}
			cs.end(ctx)
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		default:
			if err := cs.serve(ctx, c); err != nil {
				s.log().Warn("connection refused", "err", err)
				c.Close()
			}
		}
	}
}

// clients are those who are connected.
type clients struct {
	s    *Server
	l    *Listener
	idle time.Duration
	all  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	open  map[*net.UnixConn]bool
	timer *time.Timer // nil: the server stays without any
}

// serve answers one who has connected, unless they may not, or too many are there.
func (cs *clients) serve(ctx context.Context, c *net.UnixConn) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := wire.CheckPeer(c); err != nil {
		return err
	}
	if len(cs.open) >= maxConns {
		return fmt.Errorf("%d are open", maxConns)
	}
	cs.open[c] = true
	if cs.timer != nil {
		cs.timer.Stop()
	}
	cs.all.Go(func() {
		cs.s.serveConn(ctx, c, cs.l)
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if delete(cs.open, c); len(cs.open) == 0 && cs.timer != nil {
			cs.timer.Reset(cs.idle)
		}
	})
	return nil
}

// end takes no more requests, and waits until those that came are answered.
func (cs *clients) end(ctx context.Context) {
	cs.mu.Lock()
	for c := range cs.open { // answers are still written
		c.CloseRead()
		defer context.AfterFunc(ctx, func() { c.SetWriteDeadline(time.Now().Add(lastWrite)) })()
	}
	cs.mu.Unlock()
	cs.all.Wait()
}

// serveConn answers one who has connected, and closes the connection.
func (s *Server) serveConn(ctx context.Context, c net.Conn, l *Listener) {
	defer c.Close()
	stopped := func(err error) bool { // perhaps in the middle of a line
		return l.stopped.Load() && (err == nil || errors.Is(err, io.ErrUnexpectedEOF))
	}
	err := s.serve(ctx, c, c, stopped)
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.log().Debug("connection ended", "err", err)
	}
}
