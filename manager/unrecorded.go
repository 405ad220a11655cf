package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/boocode/filestore/store"
)

// A NotRecordedError says again that nothing is recorded in a directory, in one
// line: the first error in a row was told in full.
type NotRecordedError struct {
	Since time.Time // of the first
	Err   error     // of this one, in full
}

func (e *NotRecordedError) Error() string {
	return fmt.Sprintf("nothing is recorded since %s: %v", e.Since.Format(time.DateTime), trouble(e.Err))
}

func (e *NotRecordedError) Unwrap() error { return e.Err }

// trouble returns what is wrong with the disk or the system, in short; nil if it is
// something else that went wrong.
func trouble(err error) error {
	if errors.Is(err, ErrNoSpace) {
		return ErrNoSpace
	}
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, fs.ErrPermission, store.ErrNoLocks, store.ErrOwner} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// noteRecorded remembers whether a look could be recorded, for all processes, and
// returns the error as it is to be told. It takes an empty file, which a full disk
// has room for.
func (m *FileSnapshotManager) noteRecorded(err error) error {
	fsys, name := m.store.FS(), "worktrees/"+m.project.Worktree()+"/unrecorded"
	st, serr := fsys.Stat(name)
	switch {
	case err == nil && serr == nil:
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Debug("it stays noted that nothing is recorded", "path", name, "err", err)
		}
		return nil
	case err == nil || trouble(err) == nil:
		return err
	case serr == nil:
		return &NotRecordedError{Since: time.Unix(0, st.Mtime), Err: err}
	}
	f, ferr := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if ferr != nil { // the next error is told in full, too
		m.log.Debug("it is not noted that nothing is recorded", "path", name, "err", ferr)
		return err
	}
	f.Close()
	return err
}
