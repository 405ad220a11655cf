package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// born returns when a file was made, 0 where the file system does not say.
func born(path string, _ fs.FileInfo) int64 {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
