//go:build !linux

package vfs

// CoarseTime returns 0: nothing is known of the clock that stamps files, so
// none is old enough to be trusted by it alone.
func CoarseTime() int64 { return 0 }

// Local reports false: nothing is known of the file system's stamps.
func Local(path string) bool { return false }

// BootID returns "": the boot is unknown.
func BootID() string { return "" }
