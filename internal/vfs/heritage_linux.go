package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// inheritedFlags are the attributes (chattr) of a directory that files which are made in
	// it get: C, c and X, S, A, d, D.
	inheritedFlags = 0x00800000 | 0x4 | 0x400 | 0x8 | 0x80 | 0x40 | 0x10000

	// getXAttr is FS_IOC_FSGETXATTR, which package unix lacks: it has the direction bits of
	// its neighbour, and the size of an fsXAttr.
	getXAttr    = unix.FS_IOC_GETFLAGS&0xe0000000 | unsafe.Sizeof(fsXAttr{})<<16 | 'X'<<8 | 31
	projInherit = 0x200 // FS_XFLAG_PROJINHERIT
)

// An fsXAttr is struct fsxattr.
type fsXAttr struct {
	flags, extent, extents, project, cow uint32
	_                                    [8]byte
}

// inheritedAttributes are extended attributes of a directory from which those of files
// that are made in it follow.
var inheritedAttributes = []string{"system.posix_acl_default", "security.selinux", "security.SMACK64TRANSMUTE"}

func (d *fdDir) Heritage() (string, error) {
	var sys unix.Stat_t
	var fsys unix.Statfs_t
	var x unix.Statx_t
	err := errors.Join(retry(func() error { return unix.Fstat(d.fd, &sys) }),
		retry(func() error { return unix.Fstatfs(d.fd, &fsys) }),
		retry(func() error { return unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x) }))
	if err != nil {
		return "", pathError("stat", d.name, err)
	}
	// A file in an encrypted directory can be renamed only to another of the same policy.
	if !isLocal(&fsys) || x.Mask&unix.STATX_MNT_ID == 0 || x.Attributes&unix.STATX_ATTR_ENCRYPTED != 0 {
		return "", nil
	}
	var group, flags, project uint32
	if sys.Mode&unix.S_ISGID != 0 || sys.Gid != uint32(unix.Getegid()) && groupFromDir(x.Mnt_id) {
		group = sys.Gid + 1
	}
	if n, err := unix.IoctlGetUint32(d.fd, unix.FS_IOC_GETFLAGS); err == nil {
		flags = n & inheritedFlags
	}
	var more fsXAttr
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), uintptr(getXAttr), uintptr(unsafe.Pointer(&more)))
	if errno == 0 && more.flags&projInherit != 0 {
		project = more.project + 1
	}
	key := fmt.Appendf(nil, "%x %x %x %x %x", sys.Dev, x.Mnt_id, group, flags, project)
	for _, name := range inheritedAttributes {
		value := make([]byte, 1024)
		n, err := unix.Fgetxattr(d.fd, name, value)
		switch {
		case err == unix.ERANGE:
			return "", nil
		case allowed(err) != nil:
			return "", pathError("getxattr", d.name, err)
		case err == nil:
			key = fmt.Appendf(key, " %s %x", name, bytes.Clone(value[:n]))
		}
	}
	return string(key), nil
}

// groupFromDir reports whether files on a mount get the group of their directory, whether that
// is setgid or not, as on BSD: option grpid of ext4 and XFS. What is not known is so.
func groupFromDir(mount uint64) bool {
	list, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || hasGrpid(string(list), mount)
}

// hasGrpid reports whether a mount of a list in the format of mountinfo has option grpid, or
// is not in it.
func hasGrpid(list string, mount uint64) bool {
	id := strconv.FormatUint(mount, 10)
	for line := range strings.Lines(list) {
		if first, rest, _ := strings.Cut(line, " "); first == id {
			_, options, _ := strings.Cut(rest, " - ") // kind, source, options
			fields := strings.Fields(options)
			return len(fields) < 3 || slices.Contains(strings.Split(fields[2], ","), "grpid")
		}
	}
	return true
}
