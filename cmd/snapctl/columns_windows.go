package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// sizeOf returns how large a terminal is, in characters; 0: it does not say.
func sizeOf(f *os.File) (columns, rows int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

// isConsole reports whether a file is a terminal, which other devices are not: nobody looks at
// NUL, or answers there.
func isConsole(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
