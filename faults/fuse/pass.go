//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// faults are what is wrong with the file system; each command replaces all:
//
//	fail OPS ERRNO PATH   operations (read,write,sync,open,create,rename,unlink,mkdir) fail
//	                      with the number ERRNO where PATH is a part of the path
//	full BYTES ERRNO      so many bytes may be written, and then no more
//	locks all             a lock is granted to everybody
//	locks none            there are no locks
//	rename keep           a rename onto a name that exists is refused
//	rename copy           a rename leaves the old name in place
//	times DURATION        time stamps are rounded down to a multiple of it
//	none                  nothing is wrong
type faults struct {
	mu     sync.Mutex // guards the rest
	ops    []string
	errno  syscall.Errno
	path   string
	left   int // what may still be written; < 0: anything
	locks  string
	rename string
	times  time.Duration
}

func (f *faults) command(line string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.errno, f.left, f.locks, f.rename, f.times = nil, 0, -1, "", "", 0
	var ops string
	if n, _ := fmt.Sscanf(line, "fail %s %d %s", &ops, &f.errno, &f.path); n == 3 {
		f.ops = strings.Split(ops, ",")
		return nil
	}
	var left int
	if n, _ := fmt.Sscanf(line, "full %d %d", &left, &f.errno); n == 2 {
		f.left = left
		return nil
	}
	word, value, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "locks":
		f.locks = value
	case "rename":
		f.rename = value
	case "times":
		f.times, err = time.ParseDuration(value)
	case "none":
	default:
		err = fmt.Errorf("unknown command %q", line)
	}
	return err
}

// fault returns the error that an operation is to have, or 0.
func (f *faults) fault(op, path string) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.ops, op) && strings.Contains(path, f.path) {
		return f.errno
	}
	return 0
}

// take returns how many of n bytes may be written, and the error if it is none.
func (f *faults) take(n int) (int, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left < 0 {
		return n, 0
	}
	if n > 0 && f.left == 0 {
		return 0, f.errno
	}
	n = min(n, f.left)
	f.left -= n
	return n, 0
}

func (f *faults) mode() (locks, rename string, times time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks, f.rename, f.times
}

func newPass(source string) (fs.InodeEmbedder, func(string) error, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(source, &st); err != nil {
		return nil, nil, err
	}
	f := &faults{left: -1}
	data := &fs.LoopbackRoot{Path: source, Dev: uint64(st.Dev)}
	data.NewNode = func(*fs.LoopbackRoot, *fs.Inode, string, *syscall.Stat_t) fs.InodeEmbedder {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: data}, faults: f}
	}
	root := data.NewNode(data, nil, "", &st)
	data.RootNode = root
	return root, f.command, nil
}

type node struct {
	fs.LoopbackNode
	faults *faults
}

func (n *node) fault(op, name string) syscall.Errno {
	return n.faults.fault(op, filepath.Join("/", n.Path(nil), name))
}

func (n *node) round(a *fuse.Attr) {
	_, _, unit := n.faults.mode()
	if unit == 0 {
		return
	}
	for _, t := range []struct {
		sec  *uint64
		nsec *uint32
	}{{&a.Mtime, &a.Mtimensec}, {&a.Ctime, &a.Ctimensec}} {
		ns := int64(*t.sec)*1e9 + int64(*t.nsec)
		ns -= ns % int64(unit)
		*t.sec, *t.nsec = uint64(ns/1e9), uint32(ns%1e9)
	}
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	in, errno := n.LoopbackNode.Lookup(ctx, name, out)
	n.round(&out.Attr)
	return in, errno
}

func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	errno := n.LoopbackNode.Getattr(ctx, f, out)
	n.round(&out.Attr)
	return errno
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.fault("open", ""); errno != 0 {
		return nil, 0, errno
	}
	f, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(f), fuseFlags, errno
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode,
	fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.fault("create", name); errno != 0 {
		return nil, nil, 0, errno
	}
	in, f, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	n.round(&out.Attr)
	return in, in.Operations().(*node).wrap(f), fuseFlags, 0
}

func (n *node) wrap(f fs.FileHandle) fs.FileHandle {
	if f, ok := f.(*fs.LoopbackFile); ok {
		return &file{f, n}
	}
	return f
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.fault("mkdir", name); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.fault("unlink", name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string,
	flags uint32) syscall.Errno {
	if errno := n.fault("rename", name); errno != 0 {
		return errno
	}
	source := n.RootData.Path
	from := filepath.Join(source, n.Path(nil), name)
	target := filepath.Join(source, to.EmbeddedInode().Path(nil), newName)
	switch _, mode, _ := n.faults.mode(); mode {
	case "keep":
		if _, err := os.Lstat(target); err == nil {
			return syscall.EEXIST
		}
	case "copy":
		os.Remove(target)
		return fs.ToErrno(os.Link(from, target))
	}
	return n.LoopbackNode.Rename(ctx, name, to, newName, flags)
}

func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64,
	uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS // so that all writes are seen
}

// A file is an open one.
type file struct {
	*fs.LoopbackFile
	node *node
}

func (f *file) PassthroughFd() (int, bool) { return 0, false }

func (f *file) Read(ctx context.Context, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.node.fault("read", ""); errno != 0 {
		return nil, errno
	}
	return f.LoopbackFile.Read(ctx, b, off)
}

func (f *file) Write(ctx context.Context, b []byte, off int64) (uint32, syscall.Errno) {
	if errno := f.node.fault("write", ""); errno != 0 {
		return 0, errno
	}
	n, errno := f.node.faults.take(len(b))
	if errno != 0 {
		return 0, errno
	}
	return f.LoopbackFile.Write(ctx, b[:n], off)
}

func (f *file) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if errno := f.node.fault("sync", ""); errno != 0 {
		return errno
	}
	return f.LoopbackFile.Fsync(ctx, flags)
}

func (f *file) Setlk(ctx context.Context, owner uint64, lk *fuse.FileLock, flags uint32) syscall.Errno {
	switch locks, _, _ := f.node.faults.mode(); locks {
	case "all":
		return 0
	case "none":
		return syscall.ENOTSUP
	}
	return f.LoopbackFile.Setlk(ctx, owner, lk, flags)
}
