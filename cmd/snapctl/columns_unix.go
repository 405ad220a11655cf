//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf returns how large a terminal is, in characters; 0: it does not say.
func sizeOf(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// isConsole reports whether a file is a terminal, which other devices are not: nobody looks at
// /dev/null, or answers there.
func isConsole(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
