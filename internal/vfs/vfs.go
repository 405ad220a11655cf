// Package vfs is the file system as this module uses it, small enough to be
// replaced in tests: by package vfstest.
//
// There are two views. [FS] is the directory that holds a store: named files
// that are appended to, synced, renamed and locked. [Dir] is the user's tree:
// open directories whose names are looked up one component at a time and
// never through a symbolic link.
//
// [OS] and [OpenDir] are the real thing.
//
// All implementations may be used from several goroutines at once, except
// that a single [Dir] listing or file read is one goroutine's.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// An FS is the directory that holds a store. Names are slash-separated and
// relative to it, as [fs.ValidPath] has it; "." is the directory itself.
// Errors are [*fs.PathError] or wrap one, so errors.Is(err, fs.ErrNotExist)
// and fs.ErrExist work.
type FS interface {
	// OpenFile opens a regular file. flag is os.O_RDONLY or os.O_RDWR,
	// and may add os.O_CREATE, os.O_EXCL and os.O_TRUNC.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Mkdir creates one directory.
	Mkdir(name string, perm fs.FileMode) error
	// Rename moves a file, replacing newname if it is a file.
	Rename(oldname, newname string) error
	// Exchange gives two files each other's name. Where the system cannot, the
	// error matches errors.ErrUnsupported. Unlike Rename it does not make ext4
	// write out what replaces a file, which takes a millisecond.
	Exchange(a, b string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// ReadDir returns the names in a directory, sorted.
	ReadDir(name string) ([]string, error)
	// Stat describes the file or directory, not following a symbolic link.
	Stat(name string) (Stat, error)
	// SyncDir makes the names in a directory durable: files created in,
	// renamed into or removed from it. After a rename between directories,
	// the new one goes first.
	SyncDir(name string) error
	// Space returns how many bytes may still be written, and how many the disk
	// has. Where the system does not say, the error matches errors.ErrUnsupported.
	Space() (free, total int64, err error)
}

// A File is an open file of a store.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer // also gives the lock back
	Stat() (Stat, error)
	// Sync makes the content and the size durable (fdatasync).
	Sync() error
	Truncate(size int64) error
	// TryLock takes the advisory lock on the file without waiting and
	// reports whether it got it. Locks belong to the File: two Files on
	// one name exclude each other also within a process. The kernel frees
	// them when the process dies, however it dies. A File that holds the
	// lock already changes its mode; where that fails, the lock is lost.
	TryLock(mode LockMode) (bool, error)
	// Unlock gives the lock back.
	Unlock() error
}

// A LockMode says who else may hold the lock at the same time.
type LockMode int

const (
	Shared    LockMode = iota // other shared holders
	Exclusive                 // nobody
)

// A Kind is what a name in a directory is.
type Kind uint8

const (
	Regular Kind = iota + 1
	Directory
	Symlink
	Special // socket, fifo or device
)

const usualUmask = 0o022

// A Stat describes a file. It is the identity that tells an unchanged file
// from a changed one.
type Stat struct {
	Size  int64
	Mtime int64 // nanoseconds since 1970
	Ctime int64 // nanoseconds since 1970; where the system has none, Mtime
	Ino   uint64
	Dev   uint64
	Perm  uint16 // permission bits, 0o777
	Kind  Kind

	Linked bool // a regular file that has other names; false where the system does not say
}

// A Dir is an open directory of the user's tree. No method follows a
// symbolic link: OpenDir and Open fail on one. A name is one path component,
// raw bytes.
//
// Several goroutines may use a Dir at once; ReadNames is for one at a time.
type Dir interface {
	// Stat describes the directory itself.
	Stat(st *Stat) error
	// ReadNames calls fn for each name in the directory, in no order,
	// leaving out "." and "..". The slice is valid during the call only.
	// Kind is 0 where the system did not say.
	ReadNames(fn func(name []byte, kind Kind)) error
	// Lstat describes a name.
	Lstat(name string, st *Stat) error
	// OpenDir opens a subdirectory.
	OpenDir(name string) (Dir, error)
	// Open opens a regular file for reading and describes it as it is when it
	// is open, unless st is nil. It does not block on a fifo and does not
	// open a device: anything but a regular file is an error that matches
	// [ErrNotRegular].
	Open(name string, st *Stat) (Reader, error)
	// Readlink returns the target of a symbolic link, raw.
	Readlink(name string) (string, error)

	// Mkdir creates a subdirectory with exactly these permission bits,
	// whatever the umask.
	Mkdir(name string, perm uint16) error
	// Create creates a regular file for writing, with these permission bits
	// without those that the umask takes, and with 0o600, until Chmod. A name
	// that exists is an error.
	Create(name string, perm uint16) (Writer, error)
	// Symlink creates a symbolic link called name that holds target.
	Symlink(target, name string) error
	// Rename moves a name of any kind to newname in the directory to, which is
	// of the same kind of Dir. It is atomic. The error matches
	// errors.ErrUnsupported where the system cannot do it in this mode, or
	// between these two directories.
	Rename(name string, to Dir, newname string, mode RenameMode) error
	// Heritage tells what a file gets from the directory that it is made in, and where that
	// is: file system and mount, group, access control list, label, project. Between two
	// directories of the same heritage a file can be renamed, and is then as if it had been
	// made where it is. "": nobody knows.
	Heritage() (string, error)
	// TryLock takes the advisory lock on the directory without waiting, and reports whether
	// it got it: see [File]. Close gives it back. Where the system has no such lock,
	// everybody gets it.
	TryLock(mode LockMode) (bool, error)
	// IsPrivate reports whether the directory is this user's, and nobody else may look names
	// up in it or make some; true where the system does not say.
	IsPrivate() (bool, error)
	// Remove deletes a file, a link or an empty directory.
	Remove(name string) error
	// RemoveDir deletes an empty directory and, where the system can tell in one step,
	// nothing else.
	RemoveDir(name string) error
	// Chmod sets the permission bits of the directory itself.
	Chmod(perm uint16) error
	// Sync makes the names in the directory durable.
	Sync() error
	Close() error
}

// ErrImpossible is matched by the error of making what the system, or this user of it, cannot
// have: a name, or a symbolic link.
var ErrImpossible = errors.New("it cannot be here")

// A RenameMode says what becomes of a file that has the new name already.
type RenameMode int

const (
	Replace   RenameMode = iota // it goes
	NoReplace                   // it stays: that is an error that matches fs.ErrExist
	Exchange                    // it gets the old name
)

// A Writer is a regular file being written into the user's tree.
type Writer interface {
	io.Writer
	io.Closer
	// Inherit gives the file the owner and the extended attributes of an open
	// file, access control lists among them, as far as the system lets it: but
	// no privileges, which were given to other content than it has. It returns
	// how many names that file has, 0 if the system does not say, and whether
	// it had privileges: set-id bits, or capabilities.
	Inherit(from Reader) (names int, privileged bool, err error)
	Chmod(perm uint16) error
	Sync() error
}

// ErrNotRegular is what opening anything but a regular file gives.
var ErrNotRegular = errors.New("not a regular file")

// A Reader is an open regular file of the user's tree, read from its start.
type Reader interface {
	io.Reader
	io.Closer
	Stat(st *Stat) error
}
