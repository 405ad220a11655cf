//go:build darwin || (linux && !amd64 && !arm64)

package vfs

import "golang.org/x/sys/unix"

// lstatat describes name in the directory dirfd, not following a link.
func lstatat(dirfd int, name string, st *unix.Stat_t) error {
	return retry(func() error { return unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// openat opens name in the directory dirfd.
func openat(dirfd int, name string, flags int, perm uint32) (int, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(dirfd, name, flags, perm)
		return err
	})
	return fd, err
}
