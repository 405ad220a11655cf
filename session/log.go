package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// A Log is a session log of ours, to which many processes may append. Beside
// the log lie its lock, and what was torn off it: <name>.torn-1 and so on.
//
// The lock is a file of its own, <name>.lock, because it is taken before the
// log exists too: of two processes that create one, the second must not
// rename its own over that of the first. It is never deleted.
type Log struct {
	fsys vfs.FS
	name string
	file *File // the same, as any reader sees it

	// Guarded by file.mu, which is taken after the lock on the file.
	synced bool  // the name of the log is known to be durable
	err    error // why nothing can be appended any more
}

// OpenLog opens the log with a name in fsys and reads it. If there is none it
// is created with h, durably; its directory must exist. The version in h does
// not matter, and a zero Timestamp is the current time. The header of an
// existing log stays as it is.
//
// The error matches fs.ErrNotExist if there is no log and h is nil, and
// [ErrFormat] if the file is no session log.
func OpenLog(ctx context.Context, fsys vfs.FS, name string, h *Header) (*Log, error) {
	l := &Log{fsys: fsys, name: name}
	var err error
	l.file, err = OpenFS(ctx, fsys, name)
	if h != nil && errors.Is(err, fs.ErrNotExist) {
		if err := l.create(ctx, h); err != nil {
			return nil, fileError(name, err)
		}
		l.file, err = OpenFS(ctx, fsys, name)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// create creates the log, unless somebody else just has.
func (l *Log) create(ctx context.Context, h *Header) error {
	b, err := h.line()
	if err != nil {
		return err
	}
	return l.withLock(ctx, func() error {
		_, err := l.fsys.Stat(l.name)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Whole and durable before it has its name: a log is never empty.
		tmp := l.name + ".tmp"
		l.fsys.Remove(tmp) // of a process that died here
		if err := l.writeFile(tmp, b); err != nil {
			return err
		}
		if err := l.fsys.Rename(tmp, l.name); err != nil {
			return err
		}
		return l.syncName()
	})
}

// Refresh reads what others have appended. Its errors are those of
// [File.Refresh].
func (l *Log) Refresh(ctx context.Context) error { return l.file.Refresh(ctx) }

// Tree returns the session as of the last Append or Refresh, as [File.Tree].
func (l *Log) Tree() *Tree { return l.file.Tree() }

// Append adds entries, the last of which is the leaf then. Their type is
// "custom" or "branch_summary"; a zero Timestamp is the current time. When it
// returns nil, they are durable and in the Tree.
//
// Nothing is written if an entry has the ID of another, which matches
// [ErrEntryExists], or a parent that is neither in the log nor before it in
// entries, which matches [ErrUnknownEntry]. What others have appended is read
// first, with the errors of Refresh.
//
// A torn last line, which an append that did not finish has left, is moved to
// a file of its own. If writing or syncing fails, entries may be in the log or
// not, and every further Append returns that error: open the log again to go
// on.
func (l *Log) Append(ctx context.Context, entries ...Entry) error {
	err := l.withLock(ctx, func() error {
		l.file.mu.Lock()
		defer l.file.mu.Unlock()
		return l.append(ctx, entries)
	})
	if err != nil {
		return fileError(l.name, err)
	}
	return nil
}

func (l *Log) append(ctx context.Context, entries []Entry) error {
	if l.err != nil {
		return l.err
	}
	f, err := openRegular(l.fsys, l.name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close() // after the sync there is nothing to lose
	size, err := l.file.r.read(ctx, f)
	if err != nil {
		return err
	}
	b, err := l.encode(entries)
	if err != nil || len(b) == 0 {
		return err
	}
	if l.err = l.write(f, l.file.r.off, size, b); l.err != nil {
		return l.err
	}
	_, err = l.file.r.take(b)
	return err
}

// encode returns the lines of entries that may be appended.
func (l *Log) encode(entries []Entry) ([]byte, error) {
	var b []byte
	added := make(map[string]bool)
	has := func(id string) bool {
		_, ok := l.file.r.tree.Entry(id)
		return ok || added[id]
	}
	for _, e := range entries {
		if has(e.ID) {
			return nil, fmt.Errorf("entry %q: %w", e.ID, ErrEntryExists)
		}
		if e.ParentID != "" && !has(e.ParentID) {
			return nil, fmt.Errorf("parent of entry %q: %w", e.ID, unknown(e.ParentID))
		}
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		b = append(b, line...)
		added[e.ID] = true
	}
	return b, nil
}

// write appends b to the log and makes it durable. The last whole line ends at
// end, the file at size.
func (l *Log) write(f vfs.File, end, size int64, b []byte) error {
	if size > end {
		if err := l.cutTail(f, end, size); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(b, end); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if l.synced {
		return nil
	}
	// Whoever created the log may have died before it had synced the name.
	return l.syncName()
}

// cutTail removes the torn last line. Its bytes go to another file first.
func (l *Log) cutTail(f vfs.File, end, size int64) error {
	tail := make([]byte, size-end)
	if _, err := f.ReadAt(tail, end); err != nil && err != io.EOF {
		return err
	}
	err := fs.ErrExist
	for n := 1; errors.Is(err, fs.ErrExist); n++ {
		err = l.writeFile(fmt.Sprintf("%s.torn-%d", l.name, n), tail)
	}
	if err != nil {
		return err
	}
	if err := l.syncName(); err != nil {
		return err
	}
	// Synced before anything is written in its place: else a power cut could
	// leave a line that is made of old bytes and new ones.
	if err := f.Truncate(end); err != nil {
		return err
	}
	return f.Sync()
}

// writeFile creates a file with synced content. The name is not synced.
func (l *Log) writeFile(name string, content []byte) error {
	f, err := l.fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncName makes the names of the log and of what lies beside it durable.
func (l *Log) syncName() error {
	if err := l.fsys.SyncDir(path.Dir(l.name)); err != nil {
		return err
	}
	l.synced = true
	return nil
}

// maxWait bounds the wait for the lock, which is held for a sync or two: by
// then its holder has been stopped, or its disk has.
const maxWait = 30 * time.Second

// withLock runs fn while it holds the lock of the log.
func (l *Log) withLock(ctx context.Context, fn func() error) error {
	f, err := l.fsys.OpenFile(l.name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	wait, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("another process has held it for %v", maxWait))
	defer cancel()
	if err := vfs.Lock(wait, f, vfs.Exclusive); err != nil {
		return err
	}
	return fn()
}

// Close ends the use of the log: Append fails then, the Tree stays.
func (l *Log) Close() error {
	l.file.mu.Lock()
	defer l.file.mu.Unlock()
	l.err = fs.ErrClosed
	return nil
}
