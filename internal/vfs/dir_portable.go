//go:build !linux && !darwin

package vfs

// OpenDir opens a directory. Symbolic links in path are followed; names looked
// up in the Dir are not.
//
// It is built on [os.Root], which never leaves a directory but follows links
// that stay inside it. So each open looks at the name first and checks
// afterwards that it got what it saw. Weaker than where a name is looked up and opened
// in one step:
//
//   - While somebody swaps names, a link may be opened before it is refused,
//     and with it a device. Nothing is read from either.
//   - Chmod and ReadNames look up ".", which a directory without permission
//     to search denies.
//   - Two files cannot change places in one step.
//   - On Windows, Sync does nothing, and permission bits are what package os
//     makes of them.
func OpenDir(path string) (Dir, error) {
	return openRootDir(path)
}
