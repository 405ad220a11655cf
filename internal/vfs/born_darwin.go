package vfs

import (
	"io/fs"
	"syscall"
)

// born returns when a file was made, 0 where the file system does not say.
func born(_ string, fi fs.FileInfo) int64 {
	return fi.Sys().(*syscall.Stat_t).Birthtimespec.Nano()
}
