package tree

import (
	"errors"
	"time"

	"github.com/boocode/filestore/store"
)

// Limits bound a capture. For each, 0 is the default and a negative number
// no limit.
type Limits struct {
	FileSize int64 // a larger file is left out; default 100 MiB

	// FileSizes are limits of single files in place of FileSize: words such as *.psd=500000000,
	// of a pattern as [path.Match] has it and bytes, negative for no limit. A pattern with a
	// slash is for the path, others are for the name. The last that matches decides.
	FileSizes string

	NewBytes int64         // content to be read; default 4 GiB
	Files    int64         // files and links in the tree; default 2,000,000
	Time     time.Duration // default none
}

// A Result is what a capture found.
type Result struct {
	Tree     store.ID
	Coverage store.ID // what was left out; zero: nothing

	Files, Dirs, Symlinks int64
	Bytes                 int64 // of files
	ReadFiles             int64 // files that had to be read
	ReadBytes             int64
	Omitted               int64 // what was left out, a directory counted once
	Partial               bool  // a limit was reached: the coverage lists a part of the rest as over the budget
}

// ErrBudget: a capture would have gone over a limit. The error says which, and where
// there is most to read.
var ErrBudget = errors.New("over the budget")

// A Project says where a directory belongs.
type Project struct {
	Root     string // real path of the directory that is captured
	Main     string // real path of what it belongs to: the main working tree of its git repository, or Root
	Worktree string // the directory's identity in its store, 32 hex digits: a hash of the path that it had there first
}

// GitEnv says where git's configuration beside the repository's own is. An
// empty path is not read.
type GitEnv struct {
	Home          string // ~
	XDGConfigHome string // default Home/.config
	SystemConfig  string // e.g. /etc/gitconfig
}
