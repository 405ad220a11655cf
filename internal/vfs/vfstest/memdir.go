package vfstest

import (
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/boocode/filestore/internal/vfs"
)

// Dir returns the root of m as a tree of the user's: what is restored into it is
// as durable as what is written to the store. Beside what m promises of files,
// directories can be moved, a symbolic link is as durable as its name, and
// permission bits are durable at once. Of an exchange with a directory a crash
// leaves all or nothing, since no disk gives a directory two names within another.
// Nothing is Linked.
func (m *Mem) Dir() vfs.Dir { return &memDir{memOpen{m: m, node: m.root, name: "."}} }

// A memOpen is something in a tree that is open. It keeps its node also when the
// name is gone.
type memOpen struct {
	m      *Mem
	node   *memNode
	name   string
	closed bool // guarded by m.mu
}

// do runs fn with the lock held, unless it is closed, and makes its error a
// PathError.
func (o *memOpen) do(op, name string, fn func() error) error {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	err := error(fs.ErrClosed)
	if !o.closed {
		err = fn()
	}
	if err != nil && err != io.EOF {
		err = &fs.PathError{Op: op, Path: name, Err: err}
	}
	return err
}

func (o *memOpen) Stat(st *vfs.Stat) error {
	return o.do("stat", o.name, func() error {
		*st = o.node.stat()
		return nil
	})
}

func (o *memOpen) Chmod(perm uint16) error {
	return o.do("chmod", o.name, func() error {
		o.node.mode = o.node.mode.Type() | fs.FileMode(perm).Perm()
		o.m.clock++
		o.node.ctime = o.m.clock
		return nil
	})
}

func (o *memOpen) Close() error {
	return o.do("close", o.name, func() error {
		o.closed = true
		delete(o.node.locks, o)
		return nil
	})
}

type memDir struct{ memOpen }

// with calls fn with what has a name, nil if nothing has. Its error becomes a
// PathError.
func (d *memDir) with(op, name string, fn func(n *memNode) error) error {
	if err := vfs.CheckName(op, name); err != nil {
		return err
	}
	return d.do(op, name, func() error { return fn(d.node.names[name]) })
}

// there is with for what must be there.
func (d *memDir) there(op, name string, fn func(n *memNode) error) error {
	return d.with(op, name, func(n *memNode) error {
		if n == nil {
			return fs.ErrNotExist
		}
		return fn(n)
	})
}

// add gives a new node a name that is free. Its content is durable.
func (d *memDir) add(op, name string, mode fs.FileMode, content string) (node *memNode, err error) {
	err = d.with(op, name, func(n *memNode) error {
		if n != nil {
			return fs.ErrExist
		}
		node = d.m.newNode(mode)
		node.data, node.syncedData = []byte(content), []byte(content)
		d.node.names[name] = node
		d.m.changed(d.node)
		return nil
	})
	return node, err
}

func (d *memDir) ReadNames(fn func(name []byte, kind vfs.Kind)) error {
	kinds := make(map[string]vfs.Kind)
	err := d.do("readdir", d.name, func() error {
		for name, n := range d.node.names {
			kinds[name] = vfs.KindOf(n.mode)
		}
		return nil
	})
	for name, kind := range kinds {
		fn([]byte(name), kind)
	}
	return err
}

func (d *memDir) Lstat(name string, st *vfs.Stat) error {
	return d.there("lstat", name, func(n *memNode) error {
		*st = n.stat()
		return nil
	})
}

func (d *memDir) OpenDir(name string) (vfs.Dir, error) {
	sub := &memDir{memOpen{m: d.m, name: name}}
	err := d.there("open", name, func(n *memNode) error {
		if sub.node = n; !n.mode.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}

func (d *memDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	r := &memReader{memOpen: memOpen{m: d.m, name: name}}
	err := d.there("open", name, func(n *memNode) error {
		if r.node = n; !n.mode.IsRegular() {
			return vfs.ErrNotRegular
		}
		if st != nil {
			*st = n.stat()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (d *memDir) Readlink(name string) (target string, err error) {
	err = d.there("readlink", name, func(n *memNode) error {
		if n.mode.Type() != fs.ModeSymlink {
			return syscall.EINVAL
		}
		target = string(n.data)
		return nil
	})
	return target, err
}

func (d *memDir) Mkdir(name string, perm uint16) error {
	_, err := d.add("mkdir", name, fs.ModeDir|fs.FileMode(perm).Perm(), "")
	return err
}

func (d *memDir) Create(name string, perm uint16) (vfs.Writer, error) {
	n, err := d.add("create", name, fs.FileMode(perm).Perm()|0o600, "")
	if err != nil {
		return nil, err
	}
	return &memWriter{memOpen{m: d.m, node: n, name: name}}, nil
}

func (d *memDir) Symlink(target, name string) error {
	_, err := d.add("symlink", name, fs.ModeSymlink|0o777, target)
	return err
}

func (d *memDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	other := to.(*memDir)
	if err := vfs.CheckName("rename", newname); err != nil {
		return err
	}
	return d.there("rename", name, func(n *memNode) error {
		there := other.node.names[newname]
		switch {
		case other.closed:
			return fs.ErrClosed
		case mode == vfs.NoReplace && there != nil:
			return fs.ErrExist
		case mode == vfs.Exchange && there == nil:
			return fs.ErrNotExist
		case n.holds(other.node) || mode == vfs.Exchange && there.holds(d.node):
			return syscall.EINVAL
		case there == n:
			return nil // as POSIX has it: of two names of one file both stay
		case mode == vfs.Replace && there != nil && there.mode.IsDir() != n.mode.IsDir():
			return fmt.Errorf("to %s: %w", newname, fs.ErrExist)
		case mode == vfs.Replace && there != nil && len(there.names) > 0:
			return syscall.ENOTEMPTY
		}
		delete(d.node.names, name)
		if mode == vfs.Exchange {
			d.node.names[name] = there
		}
		other.node.names[newname] = n
		d.m.changed(d.node)
		d.m.changed(other.node)
		n.ctime = d.m.clock
		if mode == vfs.Exchange {
			there.ctime = d.m.clock
			if n.mode.IsDir() || there.mode.IsDir() {
				n.partner, there.partner = there, n
			}
		}
		return nil
	})
}

// holds reports whether a node is another, or a directory with that in it.
func (n *memNode) holds(other *memNode) bool {
	if n == other {
		return n.mode.IsDir()
	}
	for _, sub := range n.names {
		if sub.holds(other) {
			return true
		}
	}
	return false
}

// Heritage is the same everywhere.
func (d *memDir) Heritage() (string, error) { return "memory", nil }

func (d *memDir) TryLock(mode vfs.LockMode) (ok bool, err error) {
	err = d.do("lock", d.name, func() error {
		ok = d.node.lock(&d.memOpen, mode)
		return nil
	})
	return ok, err
}

// IsPrivate says that it is: nobody else can get at the memory.
func (d *memDir) IsPrivate() (bool, error) { return true, nil }

func (d *memDir) Remove(name string) error { return d.remove(name, false) }

func (d *memDir) RemoveDir(name string) error { return d.remove(name, true) }

func (d *memDir) remove(name string, onlyDir bool) error {
	return d.there("remove", name, func(n *memNode) error {
		if onlyDir && !n.mode.IsDir() {
			return syscall.ENOTDIR
		}
		if len(n.names) > 0 {
			return syscall.ENOTEMPTY
		}
		delete(d.node.names, name)
		d.m.changed(d.node)
		return nil
	})
}

func (d *memDir) Sync() error {
	return d.do("sync", d.name, func() error {
		d.node.sync()
		return nil
	})
}

type memReader struct {
	memOpen
	off int // guarded by m.mu
}

func (r *memReader) Read(p []byte) (n int, err error) {
	err = r.do("read", r.name, func() error {
		if n = copy(p, r.node.data[min(r.off, len(r.node.data)):]); n == 0 && len(p) > 0 {
			return io.EOF
		}
		r.off += n
		return nil
	})
	return n, err
}

type memWriter struct{ memOpen }

func (w *memWriter) Write(p []byte) (int, error) {
	err := w.do("write", w.name, func() error {
		w.node.data = append(w.node.data, p...)
		w.m.changed(w.node)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Inherit has nothing to hand on: a Mem knows no owners and no attributes.
func (w *memWriter) Inherit(vfs.Reader) (names int, privileged bool, err error) { return 1, false, nil }

func (w *memWriter) Sync() error {
	return w.do("sync", w.name, func() error {
		w.node.sync()
		return nil
	})
}
