package vfs

import (
	"io/fs"
	"syscall"
)

// statOf returns what the system said about a file.
func statOf(fi fs.FileInfo) Stat {
	sys := fi.Sys().(*syscall.Stat_t)
	return Stat{
		Size:  fi.Size(),
		Mtime: sys.Mtimespec.Nano(),
		Ctime: sys.Ctimespec.Nano(),
		Ino:   sys.Ino,
		Dev:   uint64(sys.Dev),
		Perm:  uint16(fi.Mode().Perm()),
		Kind:  KindOf(fi.Mode()),
	}
}

// born returns when a file was made, 0 where the file system does not say.
func born(_ string, fi fs.FileInfo) int64 {
	return fi.Sys().(*syscall.Stat_t).Birthtimespec.Nano()
}
