//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// HasOwners says whether files have an owner that is a number.
const HasOwners = true

// Owners returns whose a file is, and who this process is.
func Owners(fi fs.FileInfo) (owner, self int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), os.Geteuid(), true
}

// openDirectly keeps an open from following a link, and that of a fifo from
// waiting.
const openDirectly = openNonblock | unix.O_NOFOLLOW

// isLink reports whether an open failed because of a link that it does not follow.
func isLink(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) // FreeBSD's
}
