package rpc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/wire"
)

const nobody = 65534

// asUser calls fn as another user. It needs to be root.
func asUser(t *testing.T, uid int, fn func()) {
	t.Helper()
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		const same = ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same) // this thread's alone
		if errno == 0 {
			fn()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatalf("become user %d: %v", uid, errno)
	}
}

// TestOtherUser: an engine answers nobody but its user, and nobody but its user's
// engine is asked, however open the directory is.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: to be another user takes root")
	}
	b := newBench(t)
	dir := b.storeForOthers()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, wire.SocketName), 0o777); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.server.ServeAll(context.Background(), l, 0) }()
	defer func() {
		l.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	c, err := wire.Dial(t.Context(), dir)
	if err != nil {
		t.Fatalf("own engine: %v", err)
	}
	c.Close()
	var n int
	asUser(t, nobody, func() {
		var c net.Conn
		if c, err = net.Dial("unix", filepath.Join(dir, wire.SocketName)); err != nil {
			return
		}
		defer c.Close()
		c.Write([]byte(`{"id":1,"type":"ping"}` + "\n"))
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err = c.Read(make([]byte, 1))
	})
	if n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("another user was answered %d bytes, %v", n, err)
	}
	asUser(t, nobody, func() { _, err = wire.Dial(t.Context(), dir) })
	if !errors.Is(err, cas.ErrOwner) {
		t.Errorf("Dial in another user's store: %v, want %v", err, cas.ErrOwner)
	}

	// One that another user serves.
	dir = b.storeForOthers()
	var theirs net.Listener
	asUser(t, nobody, func() { theirs, err = net.Listen("unix", filepath.Join(dir, wire.SocketName)) })
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if c, err := wire.Dial(t.Context(), dir); !errors.Is(err, cas.ErrOwner) {
		t.Errorf("Dial where another user serves: %v, want %v", err, cas.ErrOwner)
		c.Close()
	}

	// Another user's directory that leads to the engine of another store.
	theirDir := b.storeForOthers()
	if err := errors.Join(os.Symlink(l.name, filepath.Join(theirDir, wire.SocketName)),
		os.Chown(theirDir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if c, err := wire.Dial(t.Context(), theirDir); !errors.Is(err, cas.ErrOwner) {
		t.Errorf("Dial by another user's link: %v, want %v", err, cas.ErrOwner)
		c.Close()
	}
}

// storeForOthers returns the directory of a store that others may enter and write
// to.
func (b *bench) storeForOthers() string {
	b.Helper()
	base, err := os.MkdirTemp("", "peer-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "store")
	s, err := cas.Open(b.Context(), dir, nil)
	if err == nil {
		err = s.Close()
	}
	for _, open := range []string{base, dir} {
		err = errors.Join(err, os.Chmod(open, 0o777))
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}
