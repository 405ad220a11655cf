package exchange

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remotes"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
)

// dirName is the directory of a store that has one for each remote.
const dirName = remotes.Dir

var validName = words.Pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// ValidName reports whether a remote may be called so: letters, digits, _ and -.
func ValidName(name string) bool { return validName().MatchString(name) }

// A Config is what a store knows of a remote.
type Config struct {
	Version  int    `json:"v"`
	Name     string `json:"-"`
	URL      string `json:"url"`
	ID       string `json:"id"`                 // of the remote that was there: another is refused
	Identity string `json:"identity,omitempty"` // file with the identity that opens it; "": the user's own
	Cache    string `json:"cache,omitempty"`    // directory that keeps packs nearby; "": none
	NoLog    bool   `json:"noLog,omitempty"`    // logs of runtimes do not go along
	Manual   bool   `json:"manual,omitempty"`   // only who asks for it pushes, and no engine does
}

const stateVersion = 1

// ErrUnknown: the store knows no remote of that name.
var ErrUnknown = errors.New("no such remote")

// Add writes down a remote, under a name that is free. The error matches [fs.ErrExist] if one
// has it.
func Add(ctx context.Context, fsys vfs.FS, c *Config) error {
	if !ValidName(c.Name) {
		return fmt.Errorf("remote %q: want letters, digits, - and _", c.Name)
	}
	return layout.WithLock(ctx, fsys, lockName(c.Name), func() error {
		if _, err := Find(fsys, c.Name); !errors.Is(err, ErrUnknown) {
			return cmp.Or(err, fmt.Errorf("remote %q: %w", c.Name, fs.ErrExist))
		}
		for _, dir := range []string{dirName, path.Join(dirName, c.Name)} {
			if err := fsys.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		c.Version = stateVersion
		return errors.Join(fsys.SyncDir(dirName), fsys.SyncDir("."), write(fsys, c.Name, "config", c))
	})
}

// ErrPromised: contents are at a remote, and nowhere here.
var ErrPromised = errors.New("contents are there, and not here")

// Remove forgets a remote. What is there stays. The error matches [ErrPromised] if something that
// the store needs is only there.
func Remove(ctx context.Context, s *cas.Store, name string) error {
	fsys := s.FS()
	if _, err := Find(fsys, name); err != nil {
		return err
	}
	return layout.WithLock(ctx, fsys, lockName(name), func() error {
		if n, err := s.Absent(name); err != nil || n > 0 {
			return cmp.Or(err, fmt.Errorf("remote %q: %w: %d of them", name, ErrPromised, n))
		}
		var errs []error
		// Without config it is none.
		for _, f := range []string{"config", "lines", "last", "held", "pinned", "promised"} {
			if err := fsys.Remove(path.Join(dirName, name, f)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(append(errs, fsys.Remove(path.Join(dirName, name)))...)
	})
}

// List returns the remotes that a store knows, by name.
func List(fsys vfs.FS) (list []*Config, err error) {
	names, err := fsys.ReadDir(dirName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		c, err := Find(fsys, name)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Find returns a remote that a store knows. The error matches [ErrUnknown] if there is none.
func Find(fsys vfs.FS, name string) (*Config, error) {
	c := &Config{Name: name}
	if !ValidName(name) {
		return nil, fmt.Errorf("remote %q: %w", name, ErrUnknown)
	}
	ok, err := read(fsys, name, "config", c)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("remote %q: %w", name, ErrUnknown)
	}
	return c, nil
}

func lockName(name string) string { return "locks/remote-" + name }

// A pushed is how far a session was pushed from a directory. It is derived.
type pushed struct {
	Worktree string `json:"worktree"`
	Session  string `json:"session"`
	Line     hexID  `json:"line"`
	Next     uint64 `json:"next"`           // number of the line's next entry
	Hash     hexID  `json:"hash,omitempty"` // of the last one
	Seq      uint64 `json:"seq"`            // newest record that was pushed

	// What was pushed last, and may be said again: number, and half a hash of what was said.
	Recent []said `json:"recent,omitempty"`

	Log logAt `json:"log,omitzero"` // how much of the session's log

	// Entry of another line that this one goes on from, until it has an entry.
	Base *base `json:"base,omitempty"`

	Opened uint64  `json:"opened,omitempty"` // generation of the first entry; of a line without one, when it was named
	On     []hexID `json:"on,omitempty"`     // lines that it counts on
}

type said struct {
	Seq  uint64 `json:"seq"`
	Hash hexID  `json:"hash"`
}

type base struct {
	Line  hexID  `json:"line"`
	Entry uint64 `json:"entry"`
	Hash  hexID  `json:"hash"`
}

func baseOf(p *lines.Position) *base {
	return &base{Line: p.Line[:], Entry: p.Entry, Hash: p.Hash[:]}
}

func (b *base) position() *lines.Position {
	if b == nil || len(b.Line) != 16 || len(b.Hash) != 32 {
		return nil
	}
	return &lines.Position{Line: lines.Line(b.Line), Entry: b.Entry, Hash: [32]byte(b.Hash)}
}

// hexID is bytes as hex digits.
type hexID []byte

func (h hexID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

func (h *hexID) UnmarshalText(b []byte) (err error) {
	*h, err = hex.AppendDecode(nil, b)
	return err
}

// state is what a store remembers of its lines in a remote.
type state struct {
	Version int       `json:"v"`
	Lines   []*pushed `json:"lines"`
}

// of returns how far a session was pushed; what is not known yet is a new line.
func (st *state) of(worktree, session string) *pushed {
	for _, p := range st.Lines {
		if p.Worktree == worktree && p.Session == session {
			return p
		}
	}
	p := &pushed{Worktree: worktree, Session: session}
	st.Lines = append(st.Lines, p)
	return p
}

// Last is when a remote was last asked, and what it said, for people.
type Last struct {
	Version int       `json:"v"`
	Pushed  time.Time `json:"pushed"` // when all was there last
	Tried   time.Time `json:"tried"`
	Err     string    `json:"err,omitempty"` // of the last try; "": it succeeded
}

// LastOf returns when a remote was last pushed to; zero if it never was.
func LastOf(fsys vfs.FS, name string) *Last {
	var l Last
	if ok, err := read(fsys, name, "last", &l); !ok || err != nil {
		return new(Last) // it is for people, and another is written
	}
	return &l
}

// NoteFailure remembers, for people, why a remote could not even be opened.
func NoteFailure(fsys vfs.FS, name string, why error) error {
	last := LastOf(fsys, name)
	last.Version, last.Tried, last.Err = stateVersion, time.Now(), why.Error()
	return write(fsys, name, "last", last)
}

func write(fsys vfs.FS, name, file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return layout.WriteFile(fsys, path.Join(dirName, name, file), cas.AppendSum(b))
}

// read reads a file of a remote. What is derived and damaged is not there.
func read(fsys vfs.FS, name, file string, v any) (ok bool, err error) {
	b, err := vfs.ReadFile(fsys, path.Join(dirName, name, file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if b, err = cas.CutSum(b); err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil && file == "config" {
		return false, &object.CorruptError{Path: path.Join(dirName, name, file), Err: err}
	}
	return err == nil, nil
}
