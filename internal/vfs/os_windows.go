package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// lockRange returns where the one locked byte lies: far beyond any content,
// because a lock of Windows also keeps others from reading what it covers.
func lockRange() *windows.Overlapped {
	return &windows.Overlapped{OffsetHigh: math.MaxInt32}
}

// systemName returns an error if no file can have a name, or if the system takes it for
// another one: what is behind a colon is a stream of the file before it, and what is not
// Unicode becomes the same character, whatever it was.
func systemName(name string) error {
	noFile := func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*`, r) }
	if wide, err := syscall.UTF16FromString(name); err != nil || syscall.UTF16ToString(wide) != name ||
		strings.ContainsFunc(name, noFile) || !filepath.IsLocal(name) { // as NUL
		return errNoName
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return fmt.Errorf("%w: a dot or a space at the end of a name is dropped", ErrImpossible)
	}
	return nil
}

// hasNoLinks reports whether an error says that this process can make no links: it may not, the
// file system has none, or Wine.
func hasNoLinks(err error) bool {
	return errors.Is(err, windows.ERROR_PRIVILEGE_NOT_HELD) || errors.Is(err, errors.ErrUnsupported)
}

// renameIn renames a file within a directory. One that is read-only is replaced, too: the
// system refuses that, so the file is made writable before.
func renameIn(root *os.Root, name, newname string) error {
	err := root.Rename(name, newname)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	old, lerr := root.Lstat(newname)
	if lerr != nil || !old.Mode().IsRegular() || old.Mode().Perm()&0o222 != 0 || root.Chmod(newname, 0o666) != nil {
		return err
	}
	if err = root.Rename(name, newname); err != nil {
		err = errors.Join(err, root.Chmod(newname, 0o444))
	}
	return err
}

func tryLock(f *os.File, mode LockMode) (bool, error) {
	// A lock here does not change its mode: the old one goes first.
	if err := unlock(f); err != nil {
		return false, err
	}
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if mode == Exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := control(f, "lock", func(fd uintptr) error {
		return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, lockRange())
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	err := control(f, "unlock", func(fd uintptr) error {
		return windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, lockRange())
	})
	if errors.Is(err, windows.ERROR_NOT_LOCKED) || errors.Is(err, windows.ERROR_LOCK_VIOLATION) { // as Wine says it
		return nil
	}
	return err
}

// syncDir only looks whether there is one: Windows has no sync of a directory, and NTFS
// keeps names in its own journal.
func syncDir(path string) error {
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "sync", Path: path, Err: windows.ERROR_DIRECTORY}
	}
	return err
}

// openNonblock is empty: a directory of Windows holds no fifo.
const openNonblock = 0

// syncRoot does nothing, as syncDir.
func syncRoot(*os.Root) error {
	return nil
}

// KeptPerm returns what the system keeps of the permission bits of a name: whether a file is
// read-only. The others are the usual ones of a system that has them, as git has it.
func KeptPerm(kind Kind, perm uint16) uint16 {
	switch {
	case kind == Symlink:
		return 0o777
	case kind == Directory:
		return 0o755
	case perm&0o222 == 0:
		return 0o444
	}
	return 0o644
}

// renameFree renames a file within a directory, unless the name is taken.
func renameFree(root *os.Root, name, newname string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	at := windows.Handle(dir.Fd())
	ntName, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return err
	}
	of := windows.OBJECT_ATTRIBUTES{RootDirectory: at, ObjectName: ntName}
	of.Length = uint32(unsafe.Sizeof(of))
	var h windows.Handle
	var done windows.IO_STATUS_BLOCK
	err = windows.NtCreateFile(&h, windows.SYNCHRONIZE|windows.DELETE, &of, &done, nil, 0,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, windows.FILE_OPEN,
		windows.FILE_OPEN_REPARSE_POINT|windows.FILE_OPEN_FOR_BACKUP_INTENT|windows.FILE_SYNCHRONOUS_IO_NONALERT, 0, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer windows.CloseHandle(h)
	wide, err := windows.UTF16FromString(newname)
	if err != nil {
		return err
	}
	var as struct { // a FILE_RENAME_INFORMATION
		replace uint32
		at      windows.Handle
		length  uint32 // in bytes, without the 0 at the end
		name    [windows.MAX_PATH]uint16
	}
	if len(wide) > len(as.name) {
		return windows.ERROR_INVALID_NAME
	}
	as.at, as.length = at, uint32(2*copy(as.name[:], wide)-2)
	return errnoOf(windows.NtSetInformationFile(h, &done, (*byte)(unsafe.Pointer(&as)), uint32(unsafe.Sizeof(as)),
		windows.FileRenameInformation))
}

// errnoOf returns the error that package fs knows for one of the kernel.
func errnoOf(err error) error {
	if status, ok := errors.AsType[windows.NTStatus](err); ok {
		return status.Errno()
	}
	return err
}

// HasOwners says whether files have an owner that is a number: access control
// lists are not looked at.
const HasOwners = false

// Owners returns whose a file is, and who this process is.
func Owners(fs.FileInfo) (owner, self int, ok bool) { return 0, 0, false }

const openDirectly = 0

func isLink(error) bool { return false }

// openFile opens a file so that others may rename and delete it, as they may on Unix:
// os.OpenFile does not allow that, and a Root does.
func openFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	r, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := r.OpenFile(filepath.Base(path), flag, perm)
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: bad.Err}
	}
	return f, err
}

// rename replaces a file that somebody has open, too.
func (o osFS) rename(oldname, newname string) error {
	r, err := os.OpenRoot(o.dir)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Rename(oldname, newname)
}

// statAt returns what was said of a name, with the numbers of the file: who has locked one
// has to know whether it is the one that has the name.
func statAt(path string, fi fs.FileInfo) (Stat, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Stat{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	h, err := windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return Stat{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	defer windows.CloseHandle(h)
	st := statOf(fi)
	if err := number(&st, h); err != nil {
		return Stat{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st, nil
}

// statRoot describes a directory, with a number by which a store is known that lies in what is
// captured. What lies in a directory has no Dev, so nor has that: the volume is in Ino.
func statRoot(root *os.Root) (Stat, error) {
	f, err := root.Open(".")
	if err != nil {
		return Stat{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return Stat{}, err
	}
	st, err := statOpen(f, fi)
	st.Ino, st.Dev = st.Ino^bits.Reverse64(st.Dev), 0
	return st, err
}

func statOpen(f *os.File, fi fs.FileInfo) (Stat, error) {
	st := statOf(fi)
	err := control(f, "stat", func(fd uintptr) error { return number(&st, windows.Handle(fd)) })
	return st, err
}

// number sets Ino and Dev.
func number(st *Stat, h windows.Handle) error {
	var more windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &more); err != nil {
		return err
	}
	st.Ino = uint64(more.FileIndexHigh)<<32 | uint64(more.FileIndexLow)
	st.Dev = uint64(more.VolumeSerialNumber)
	return nil
}

// Space returns how many bytes are free for this user on the disk of a directory, and how many it
// has.
func Space(path string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, &fs.PathError{Op: "space", Path: path, Err: err}
	}
	var mine, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &mine, &all, nil); err != nil {
		return 0, 0, &fs.PathError{Op: "space", Path: path, Err: err}
	}
	return int64(min(mine, math.MaxInt64)), int64(min(all, math.MaxInt64)), nil
}
