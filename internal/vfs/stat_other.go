//go:build !linux && !darwin

package vfs

import "io/fs"

// statOf returns what the system said about a file. Without its numbers, a
// file is known by size and time alone: Ino and Dev are 0.
func statOf(fi fs.FileInfo) Stat {
	mtime := fi.ModTime().UnixNano()
	return Stat{
		Size:  fi.Size(),
		Mtime: mtime,
		Ctime: mtime,
		Perm:  KeptPerm(KindOf(fi.Mode()), uint16(fi.Mode().Perm())),
		Kind:  KindOf(fi.Mode()),
	}
}

// born returns 0: nothing is known of it.
func born(string, fs.FileInfo) int64 { return 0 }
