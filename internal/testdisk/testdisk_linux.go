package testdisk

import (
	"os"
	"slices"
	"strings"
	"syscall"
)

// room is what the tests of a package need at most, in bytes, several times over.
const room = 4 << 30

func init() {
	const dir = "/dev/shm"
	var st syscall.Statfs_t
	measures := slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.bench=") })
	if os.Getenv("TMPDIR") == "" && !measures && syscall.Access(dir, 2 /* W_OK */) == nil &&
		syscall.Statfs(dir, &st) == nil && uint64(st.Bavail)*uint64(st.Bsize) >= room {
		os.Setenv("TMPDIR", dir)
	}
}
