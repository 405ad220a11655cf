package layout

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/boocode/filestore/internal/vfs"
)

// SameFile reports whether a name still is the open file.
func SameFile(fsys vfs.FS, name string, f vfs.File) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return a.Ino == b.Ino && a.Dev == b.Dev, err
}

// WriteFile creates a file durably: it is whole and synced under another
// name before it gets its own, and the name is synced before writeFile
// returns. An existing file is replaced.
func WriteFile(fsys vfs.FS, name string, content []byte) error {
	tmp := "tmp/" + RandomName()
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		// Sync before rename: the new name may reach the disk before the
		// bytes that it names.
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		fsys.Remove(tmp)
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// Quarantine moves a file of the store's own directory aside, durably.
func Quarantine(fsys vfs.FS, name string) error {
	if err := fsys.Rename(name, "quarantine/"+name+"-"+RandomName()); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir("quarantine"), fsys.SyncDir("."))
}

func RandomName() string {
	id := RandomID()
	return hex.EncodeToString(id[:8])
}

func RandomID() (id [16]byte) {
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}
