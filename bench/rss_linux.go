package main

import (
	"os"
	"syscall"
)

// maxRSS returns the peak resident size of a process that has ended. Linux
// counts in what its parent had when it started it.
func maxRSS(state *os.ProcessState) int64 {
	return int64(state.SysUsage().(*syscall.Rusage).Maxrss) << 10
}
