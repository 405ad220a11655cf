package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

const (
	// SocketName is the socket in the directory of a store that is served.
	SocketName = "serve.sock"
)

// IsServed reports whether somebody serves a store, or has not come to an end of
// that: [Dial] fails then, and nobody else may serve.
func IsServed(storeDir string) (bool, error) {
	lock, err := vfs.OS(storeDir).OpenFile(layout.ServeLock, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	free, err := lock.TryLock(vfs.Exclusive)
	return !free, err
}

// Dial connects to whoever serves a store. The error matches [fs.ErrNotExist] or
// is the system's if nobody does, and [store.ErrOwner] if another user has the
// directory, or serves it: what it would answer could be anything. It matches
// [ErrHung] if whoever serves does not answer.
func Dial(ctx context.Context, storeDir string) (net.Conn, error) {
	return DialWithin(ctx, storeDir, AliveWithin)
}

// DialWithin is [Dial] for who has less patience than [AliveWithin].
func DialWithin(ctx context.Context, storeDir string, patience time.Duration) (net.Conn, error) {
	if err := cas.CheckOwner(storeDir); err != nil {
		return nil, err
	}
	var c net.Conn
	err := WithPath(storeDir, func(path string) (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := CheckPeer(c.(*net.UnixConn)); err != nil {
		c.Close()
		if foreign, ok := errors.AsType[*vfs.ForeignError](err); ok {
			err = &cas.OwnerError{Path: storeDir, What: "the process that serves it",
				Owner: foreign.Owner, Self: foreign.Self}
		}
		return nil, err
	}
	if err := checkAlive(ctx, c, storeDir, patience); err != nil {
		c.Close()
		return nil, fmt.Errorf("store %q: %w", storeDir, err)
	}
	return c, nil
}

// WithPath calls fn with a path of the socket that is short enough: a socket's
// may have some 100 bytes only. Where there is none the error matches [fs.ErrNotExist].
func WithPath(storeDir string, fn func(path string) error) error {
	const maxPath = 100
	path := filepath.Join(storeDir, SocketName)
	if len(path) <= maxPath {
		return fn(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%q: the path of a socket may have %d bytes here: %w", path, maxPath, fs.ErrNotExist)
	}
	dir, err := os.Open(storeDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return fn(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SocketName))
}
