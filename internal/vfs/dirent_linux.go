package vfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// direntPool keeps the buffers of ReadNames: a walk of 80,000 files lists
// thousands of directories.
var direntPool = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (d *fdDir) ReadNames(fn func(name []byte, kind Kind)) error {
	// The descriptor remembers where the last listing ended.
	if _, err := unix.Seek(d.fd, 0, io.SeekStart); err != nil {
		return pathError("readdir", d.name, err)
	}
	buf := direntPool.Get().(*[32 << 10]byte)
	defer direntPool.Put(buf)
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Getdents(d.fd, buf[:])
			return err
		})
		if err != nil {
			return pathError("readdir", d.name, err)
		}
		if n == 0 {
			return nil
		}
		if !eachDirent(buf[:n], fn) {
			return pathError("readdir", d.name, errBadDirent)
		}
	}
}

var errBadDirent = errors.New("malformed directory entry")

// eachDirent calls fn for each struct linux_dirent64 in buf, which holds inode
// (8 bytes), offset (8), record length (2), type (1) and the name, padded with
// at least one NUL. It reports whether buf was well-formed.
func eachDirent(buf []byte, fn func(name []byte, kind Kind)) bool {
	const lenAt, typeAt, nameAt = 16, 18, 19
	for len(buf) > 0 {
		if len(buf) <= nameAt {
			return false
		}
		n := int(binary.NativeEndian.Uint16(buf[lenAt:]))
		if n <= nameAt || n > len(buf) {
			return false
		}
		name := buf[nameAt:n]
		end := bytes.IndexByte(name, 0)
		if end < 0 {
			return false
		}
		name = name[:end]
		if s := string(name); s != "." && s != ".." {
			fn(name, direntKind(buf[typeAt]))
		}
		buf = buf[n:]
	}
	return true
}

func direntKind(typ byte) Kind {
	switch typ {
	case unix.DT_REG:
		return Regular
	case unix.DT_DIR:
		return Directory
	case unix.DT_LNK:
		return Symlink
	case unix.DT_UNKNOWN:
		return 0
	}
	return Special
}
