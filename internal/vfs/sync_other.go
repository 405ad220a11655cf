//go:build !linux

package vfs

import "os"

// syncData makes content and size durable.
func syncData(f *os.File) error {
	return f.Sync()
}
