package vfs

var (
	OpenRootDir = openRootDir
	StatOf      = statOf
)
