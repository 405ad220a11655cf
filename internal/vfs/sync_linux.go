package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes content and size durable. Timestamps may be lost, which
// saves the write of an inode that did not grow.
func syncData(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error {
		return retry(func() error { return unix.Fdatasync(int(fd)) })
	})
}
