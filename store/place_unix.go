//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

const hasOwners = true

// owners returns whose a file is, and who this process is.
func owners(fi fs.FileInfo) (owner, self int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), os.Geteuid(), true
}
