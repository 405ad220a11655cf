//go:build !linux && !darwin

package vfs

import (
	"errors"
	"os"
)

// CoarseTime returns 0: nothing is known of the clock that stamps files, so
// none is old enough to be trusted by it alone.
func CoarseTime() int64 { return 0 }

// Local reports false: nothing is known of the file system's stamps.
func Local(path string) bool { return false }

// Remote returns "": nothing is known of file systems.
func Remote(path string) string { return "" }

// BootID returns "": the boot is unknown.
func BootID() string { return "" }

// MachineID returns "": the system is unknown.
func MachineID() string { return "" }

// Umask returns the permission bits that the process leaves out of files and
// directories that it makes. Here it is the usual ones: the system tells only by
// setting others, for all threads.
func Umask() uint16 { return usualUmask }

// syncData makes content and size durable.
func syncData(f *os.File) error {
	return f.Sync()
}

func exchange(_, _ string) error { return errors.ErrUnsupported }
