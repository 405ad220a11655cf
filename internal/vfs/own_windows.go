package vfs

import "io/fs"

// HasOwners says whether files have an owner that is a number: access control
// lists are not looked at.
const HasOwners = false

// Owners returns whose a file is, and who this process is.
func Owners(fs.FileInfo) (owner, self int, ok bool) { return 0, 0, false }

const openDirectly = 0

func isLink(error) bool { return false }
