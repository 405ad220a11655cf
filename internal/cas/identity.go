package cas

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A headerCount is what the headers of a store's files say of it.
type headerCount struct {
	files  map[[16]byte]int // by store id
	oldest int64            // time of the first segment or pack; 0: there is none
	some   string           // one of the files
}

var magics = []string{layout.PackMagic, layout.IndexMagic, layout.JournalMagic, journal.SummaryMagic}

// countHeaders reads the headers of all packs, indexes and segments.
func countHeaders(fsys vfs.FS) (*headerCount, error) {
	c := &headerCount{files: make(map[[16]byte]int)}
	for _, dir := range []string{"journal", "packs"} {
		names, err := fsys.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			c.some = cmp.Or(c.some, dir+"/"+name)
			b, err := readHeader(fsys, dir+"/"+name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) ||
				errors.Is(err, vfs.ErrNotRegular) {
				continue // it says nothing
			}
			if err != nil {
				return nil, err
			}
			id := [16]byte(b[12:28])
			for _, magic := range magics {
				h, err := layout.ParseHeader(b, magic, id)
				if err != nil {
					continue
				}
				c.files[id]++
				timed := magic == layout.PackMagic || magic == layout.JournalMagic
				if t := int64(h.A); timed && (c.oldest == 0 || t < c.oldest) {
					c.oldest = t
				}
			}
		}
	}
	return c, nil
}

func readHeader(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, layout.HeaderSize)
	_, err = f.ReadAt(b, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// remadeFormat returns what FORMAT said, as far as other files know it, where it
// is missing or damaged, which is why; nil if no file tells. What the store needs
// programs to know is not told: that is all that we know.
func remadeFormat(fsys vfs.FS, root string, why error) (*format, *object.CorruptError, error) {
	c, err := countHeaders(fsys)
	if err != nil {
		return nil, nil, err
	}
	if c.some == "" {
		return nil, nil, nil
	}
	damage, ok := errors.AsType[*object.CorruptError](why)
	if !ok {
		damage = &object.CorruptError{Path: layout.FormatName, Err: fmt.Errorf("missing, and there is %s", c.some)}
	}
	var id [16]byte
	for other, n := range c.files {
		if n > c.files[id] {
			id = other
		}
	}
	if c.files[id] == 0 {
		return nil, damage, nil
	}
	f := &format{Format: FormatVersion, ID: hex.EncodeToString(id[:]), Hash: hashName, Root: []byte(root),
		Features: features{Read: knownToRead, Write: []string{}, Prune: []string{}},
		Created:  time.Unix(0, c.oldest).UTC()}
	if _, err := fsys.Stat("places"); err == nil { // package manager's, which may count
		f.Features.Write, f.Features.Prune = []string{FeatureMoved}, []string{FeatureMoved}
	}
	return f, damage, nil
}

// findFormat is readFormat for a store that goes on where FORMAT is missing or
// damaged: damage says so then.
func findFormat(fsys vfs.FS, root string) (f *format, damage *object.CorruptError, err error) {
	f, err = readFormat(fsys)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrCorrupt) {
		return f, nil, err
	}
	remade, damage, rerr := remadeFormat(fsys, root, err)
	if rerr == nil && damage != nil && errors.Is(err, fs.ErrNotExist) {
		// FORMAT comes before all other files: another process may have made the store
		// since it was looked for.
		if f, err := readFormat(fsys); err == nil {
			return f, nil, nil
		}
	}
	switch {
	case rerr != nil:
		return nil, nil, rerr
	case remade != nil:
		return remade, damage, nil
	case damage != nil:
		return nil, nil, damage
	}
	return nil, nil, err
}

// namesAnother reports whether FORMAT has a store id that no file has, though they
// have one.
func (f *format) namesAnother(fsys vfs.FS) error {
	c, err := countHeaders(fsys)
	if err != nil {
		return err
	}
	id, err := hex.DecodeString(f.ID)
	if err != nil || len(c.files) == 0 || c.files[[16]byte(id)] > 0 {
		return err
	}
	return &object.CorruptError{Path: layout.FormatName, Err: errors.New("names a store that no file belongs to")}
}
