package cas

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// FormatVersion is the version of a store as a whole that this package writes,
// in the file FORMAT. Older ones are read and appended to as they are; the first
// prune makes them this one.
// Since 2 the first frame of a segment may tell of a prune.
const FormatVersion = 2

// oldestFormat is the oldest version that is read.
const oldestFormat = 1

// hashName is the hash that objects have their IDs by.
const hashName = "blake3"

// FeatureSparse is the name of what a program must know to read a coverage
// page with the reason "sparse" (docs/reference/format.md §7).
const FeatureSparse = "sparse"

// FeatureGroups is the name of what a program must know to read records that hold many
// objects (docs/reference/format.md §3.6).
const FeatureGroups = "groups"

// The features that this version knows.
var (
	knownToRead  = []string{FeatureSparse, FeatureGroups, FeaturePromised}
	knownToWrite = []string{FeatureMoved}
	knownToPrune = []string{FeatureMoved}
)

// NeedToRead makes a feature one that programs must know to read the store: an
// older one refuses it by name from then on, rather than to take for damage what
// it does not know. It is durable when NeedToRead returns. Programs that have
// the store open go on.
func (s *Store) NeedToRead(ctx context.Context, feature string) error {
	s.fmu.Lock()
	defer s.fmu.Unlock()
	switch {
	case slices.Contains(s.needs, feature):
		return nil
	case s.readOnly:
		return errors.New("store is open read-only")
	case !slices.Contains(knownToRead, feature):
		panic(fmt.Sprintf("store: internal error: feature %q", feature))
	}
	err := change(ctx, s.fsys, func(f *format) bool {
		if !slices.Contains(f.Features.Read, feature) {
			f.Features.Read = append(f.Features.Read, feature)
		}
		s.needs = f.Features.Read
		return true // in any case: who wrote it may not have come to sync it
	})
	if err != nil {
		s.needs = nil
		return fmt.Errorf("note in FORMAT that reading needs %q: %w", feature, err)
	}
	return nil
}

// format is the file FORMAT (docs/reference/format.md §2).
type format struct {
	Format   int       `json:"format"`
	ID       string    `json:"id"`   // 32 hex digits
	Hash     string    `json:"hash"` // hashName
	Features features  `json:"features"`
	Root     []byte    `json:"root"` // path of the project, base64 of the raw bytes
	Created  time.Time `json:"created"`
}

// features are names that a program must know to do one of three things.
type features struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
	Prune []string `json:"prune"`
}

func readFormat(fsys vfs.FS) (*format, error) {
	b, err := vfs.ReadFile(fsys, layout.FormatName)
	if err != nil {
		return nil, err
	}
	f := new(format)
	if err := json.Unmarshal(b, f); err != nil {
		return nil, &object.CorruptError{Path: layout.FormatName, Err: err}
	}
	if id, err := hex.DecodeString(f.ID); err != nil || len(id) != 16 || f.Format == 0 || f.Hash == "" {
		return nil, &object.CorruptError{Path: layout.FormatName, Err: fmt.Errorf("store id %q, format %d, hash %q",
			f.ID, f.Format, f.Hash)}
	}
	if name := f.flipped(); name != "" {
		return nil, &object.CorruptError{Path: layout.FormatName, Err: fmt.Errorf("%q has a wrong bit", name)}
	}
	return f, nil
}

// flipped returns a name that is one of ours but for a bit, if all others are known: no
// program has such a name (docs/reference/format.md §2).
func (f *format) flipped() (flipped string) {
	for _, list := range []struct{ names, known []string }{
		{[]string{f.Hash}, []string{hashName}},
		{f.Features.Read, knownToRead}, {f.Features.Write, knownToWrite}, {f.Features.Prune, knownToPrune},
	} {
		for _, name := range unknown(list.names, list.known) {
			isFlipped := func(known string) bool { return isBitOff(name, known) }
			if !slices.ContainsFunc(list.known, isFlipped) {
				return ""
			}
			flipped = name
		}
	}
	return flipped
}

// isBitOff reports whether a name that was read is another but for one bit. JSON has no
// invalid UTF-8: the first bit of a byte that is wrong has become U+FFFD.
func isBitOff(name, other string) bool {
	if before, after, ok := strings.Cut(name, string(utf8.RuneError)); ok {
		return len(before)+1+len(after) == len(other) && strings.HasPrefix(other, before) &&
			strings.HasSuffix(other, after)
	}
	n := 0
	for i := range min(len(name), len(other)) {
		n += bits.OnesCount8(name[i] ^ other[i])
	}
	return n == 1 && len(name) == len(other)
}

func (f *format) write(fsys vfs.FS) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return layout.WriteFile(fsys, layout.FormatName, append(b, '\n'))
}

// check refuses what this version cannot do, by name.
func (f *format) check(readOnly bool) error {
	if f.Format < oldestFormat || f.Format > FormatVersion || f.Hash != hashName {
		return fmt.Errorf("%w: version %d with hash %q, this program knows versions %d to %d with %q",
			store.ErrFormat, f.Format, f.Hash, oldestFormat, FormatVersion, hashName)
	}
	if needs := unknown(f.Features.Read, knownToRead); len(needs) > 0 {
		return fmt.Errorf("%w: reading needs %q", store.ErrFormat, needs)
	}
	if needs := unknown(f.Features.Write, knownToWrite); len(needs) > 0 && !readOnly {
		return fmt.Errorf("%w: writing needs %q", store.ErrFormat, needs)
	}
	return nil
}

// upgrade makes the store one of the newest format, of which older programs
// would read the journal wrongly. The journal is locked.
func (s *Store) upgrade() error {
	f, err := readFormat(s.fsys)
	if err != nil || f.Format == FormatVersion {
		return err
	}
	f.Format = FormatVersion
	return f.write(s.fsys)
}

// FeatureMoved is what a program must know to write to a store, or prune it, that
// has come from another path: the file places says which directory is which
// (docs/reference/format.md §2).
const FeatureMoved = "moved"

// unknown returns the features that a program needs and does not know.
func unknown(needs, known []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(name string) bool { return slices.Contains(known, name) })
}

// Mark writes down, durably, that a program must know of a feature to write to a
// store or to prune it. The store may be open.
func Mark(fsys vfs.FS, feature string) error {
	return change(context.Background(), fsys, func(f *format) bool {
		changed := false
		for _, list := range []*[]string{&f.Features.Write, &f.Features.Prune} {
			if !slices.Contains(*list, feature) {
				*list = append(*list, feature)
				changed = true
			}
		}
		return changed
	})
}

// SetRoot writes down, durably, which project a store is of. The store may be open.
func SetRoot(fsys vfs.FS, root string) error {
	return change(context.Background(), fsys, func(f *format) bool {
		same := string(f.Root) == root
		f.Root = []byte(root)
		return !same
	})
}

// change rewrites FORMAT if fn changes something in it.
func change(ctx context.Context, fsys vfs.FS, fn func(*format) bool) error {
	return layout.WithLock(ctx, fsys, layout.JournalLock, func() error {
		f, err := readFormat(fsys)
		if err != nil || !fn(f) {
			return err
		}
		return f.write(fsys)
	})
}

// A Description is what a store says of itself, for who looks at it without opening
// it.
type Description struct {
	ID      string // 32 hex digits
	Root    string // path of the project
	Created time.Time
	Moved   bool // it has come from another path, or one of its worktrees has
}

// Describe reads what a store says of itself, or other files do where FORMAT is
// missing or damaged; then its root is not known. It takes no lock. The error
// matches fs.ErrNotExist if there is no store.
func Describe(fsys vfs.FS) (*Description, error) {
	f, _, err := findFormat(fsys, "")
	if err != nil {
		return nil, err
	}
	return &Description{f.ID, string(f.Root), f.Created, slices.Contains(f.Features.Write, FeatureMoved)}, nil
}
