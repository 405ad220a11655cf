package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// columnsOf returns how wide a terminal is; 0: it does not say.
func columnsOf(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
