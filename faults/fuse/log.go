//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A disk is a file whose writes and syncs are logged: an offset and a length of
// eight bytes each, little-endian, and the bytes. A sync has the length 0.
type disk struct {
	fs.Inode
	mu    sync.Mutex // the log has the order in which things were done
	image *os.File
	log   *os.File
}

func newImage(image, log string) (fs.InodeEmbedder, error) {
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	l, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &dir{disk: &disk{image: f, log: l}}, nil
}

// A dir holds the disk.
type dir struct {
	fs.Inode
	disk *disk
}

func (d *dir) OnAdd(ctx context.Context) {
	d.AddChild("disk", d.NewPersistentInode(ctx, d.disk, fs.StableAttr{Mode: syscall.S_IFREG}), true)
}

func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	st, err := d.image.Stat()
	if err != nil {
		return fs.ToErrno(err)
	}
	out.Mode, out.Size, out.Blksize = 0o600, uint64(st.Size()), 4096
	return 0
}

func (d *disk) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, _ *fuse.AttrOut) syscall.Errno {
	if _, resized := in.GetSize(); resized {
		return syscall.EPERM
	}
	return 0
}

func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) { return nil, 0, 0 }

func (d *disk) Read(_ context.Context, _ fs.FileHandle, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, _ := d.image.ReadAt(b, off)
	return fuse.ReadResultData(b[:n]), 0
}

func (d *disk) Write(_ context.Context, _ fs.FileHandle, b []byte, off int64) (uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.image.WriteAt(b, off)
	if err == nil {
		err = d.note(b, off)
	}
	return uint32(n), fs.ToErrno(err)
}

func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fs.ToErrno(d.note(nil, 0))
}

func (d *disk) note(b []byte, off int64) error {
	entry := binary.LittleEndian.AppendUint64(nil, uint64(off))
	entry = binary.LittleEndian.AppendUint64(entry, uint64(len(b)))
	_, err := d.log.Write(append(entry, b...))
	return err
}
