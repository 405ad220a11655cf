//go:build !linux

package vfs

import "errors"

// CoarseTime returns 0: nothing is known of the clock that stamps files, so
// none is old enough to be trusted by it alone.
func CoarseTime() int64 { return 0 }

// Local reports false: nothing is known of the file system's stamps.
func Local(path string) bool { return false }

// Space returns an error that matches [errors.ErrUnsupported].
func Space(path string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

// Remote returns "": nothing is known of file systems.
func Remote(path string) string { return "" }

// BootID returns "": the boot is unknown.
func BootID() string { return "" }
