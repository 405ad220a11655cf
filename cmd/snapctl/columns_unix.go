//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// columnsOf returns how wide a terminal is; 0: it does not say.
func columnsOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
