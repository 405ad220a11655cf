//go:build amd64 || arm64

package vfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The two calls of a walk, made 80,000 times in one: the name goes to the
// kernel from the stack, where package unix allocates a copy.

// nameBuf holds a name and its terminating NUL. Longer names take the way of
// package unix.
type nameBuf [256]byte

// lstatat describes name in the directory dirfd, not following a link.
func lstatat(dirfd int, name string, st *unix.Stat_t) error {
	var buf nameBuf
	if len(name) >= len(buf) {
		return retry(func() error { return unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW) })
	}
	copy(buf[:], name)
	for {
		_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dirfd),
			uintptr(unsafe.Pointer(&buf)), uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

// openat opens name in the directory dirfd. A path that holds a NUL must not
// come here.
func openat(dirfd int, name string, flags int, perm uint32) (int, error) {
	var buf nameBuf
	if len(name) >= len(buf) {
		fd := -1
		err := retry(func() (err error) {
			fd, err = unix.Openat(dirfd, name, flags, perm)
			return err
		})
		return fd, err
	}
	copy(buf[:], name)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd),
			uintptr(unsafe.Pointer(&buf)), uintptr(flags), uintptr(perm), 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
			continue
		}
		return -1, errno
	}
}
