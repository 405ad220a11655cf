package lines

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/remote"
)

// A Repo is a remote. It may be used from several goroutines.
type Repo struct {
	b      remote.Backend
	format *format
	keys   keyring
	names  key
}

func newRepo(b remote.Backend, f *format, ks keyring) *Repo {
	return &Repo{b: b, format: f, keys: ks, names: ks[0].derive(contextNames)}
}

// ID returns the identity of the remote, 32 hex digits.
func (r *Repo) ID() string { return r.format.ID }

// IsPlain reports whether all who can read the place can read what is in it.
func (r *Repo) IsPlain() bool { return r.format.Plain != "" }

// ErrRival: another writer has put an entry there.
var ErrRival = errors.New("another writer has put an entry there")

// ErrPruned: somebody has pruned the remote, which this version does not know how to heed.
var ErrPruned = fmt.Errorf("%w: it was pruned", ErrNewer)

// create puts an object. That it is there already, with other bytes, is a rival.
func (r *Repo) create(ctx context.Context, key string, data []byte) error {
	if err := r.format.mayWrite(); err != nil {
		return err
	}
	err := r.b.Create(ctx, key, data)
	if errors.Is(err, remote.ErrExists) {
		err = fmt.Errorf("%s: %w", key, ErrRival)
	}
	return err
}

// dir is what the keys of the lines of a session begin with.
func (r *Repo) dir(session string) string {
	h := r.names.hash([]byte(session))
	return "log/" + hex.EncodeToString(h[:16]) + "/"
}

func entryKey(dir string, line Line, n uint64) string { return fmt.Sprintf("%s%s/%08d", dir, line, n) }

// Append puts an entry at a place in a line of a session, behind one with a hash; of the first
// entry that is zero. It is durable when Append returns nil. Done again with the same entry,
// it changes nothing. The error matches [ErrRival] if another is there, and [ErrPruned] if it
// is there, but may not count.
func (r *Repo) Append(
	ctx context.Context, session string, line Line, n uint64, prev [32]byte, e *Entry,
) (Position, error) {
	key := entryKey(r.dir(session), line, n)
	b := e.seal(r.keys, key, prev)
	at := Position{line, n, hashOf(b)}
	if err := r.create(ctx, key, b); err != nil {
		return at, err
	}
	return at, r.heed(ctx, e.Generation)
}

// heed asks, behind a commit, whether somebody prunes: see docs/reference/format-remote.md §7.
func (r *Repo) heed(ctx context.Context, known uint64) error {
	_, err := r.b.Get(ctx, fmt.Sprintf("ledger/%08d", known+1), 0, -1)
	switch {
	case errors.Is(err, remote.ErrNoKey):
		return nil
	case err == nil:
		return ErrPruned
	}
	return err
}

// Entry reads an entry, whose hash has to be that of the position unless it is zero there. It
// returns the hash of the entry before it. The error matches [remote.ErrNoKey] if there is
// none, and is a [*DamageError] if it is another.
func (r *Repo) Entry(ctx context.Context, dir string, at Position) (e *Entry, now Position, prev [32]byte, err error) {
	key := entryKey(dir, at.Line, at.Entry)
	b, err := r.b.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, at, prev, err
	}
	now = Position{at.Line, at.Entry, hashOf(b)}
	if at.Hash != [32]byte{} && at.Hash != now.Hash {
		return nil, now, prev, damaged(key, errors.New("it is not the entry that was there"))
	}
	e, prev, err = openEntry(r.keys, key, b)
	if errors.Is(err, ErrNewer) {
		return nil, now, prev, fmt.Errorf("%s: %w", key, err)
	}
	if err == nil && (at.Entry == 0) != (e.Opening != nil) {
		err = errors.New("it is at another place of its line")
	}
	if err == nil && at.Entry == 0 && (prev != [32]byte{} || r.dir(e.Opening.Session) != dir) {
		err = errors.New("it is at another place")
	}
	if err != nil {
		return nil, now, prev, damaged(key, err)
	}
	return e, now, prev, nil
}

// A Tip is how far a line goes.
type Tip struct {
	Dir  string // of the session
	Line Line
	Last uint64 // number of its last entry
}

// Tips lists the lines of a session, or of all if all is set. The error is a [*DamageError]
// if an entry is missing in one.
func (r *Repo) Tips(ctx context.Context, session string, all bool) ([]Tip, error) {
	prefix := "log/"
	if !all {
		prefix = r.dir(session)
	}
	tips, damage, err := r.tips(ctx, prefix)
	if err == nil && len(damage) > 0 {
		err = &damage[0]
	}
	return tips, err
}

// AllTips lists all lines, with what is missing or should not be there.
func (r *Repo) AllTips(ctx context.Context) (tips []Tip, damage []DamageError, err error) {
	return r.tips(ctx, "log/")
}

func (r *Repo) tips(ctx context.Context, prefix string) (tips []Tip, damage []DamageError, err error) {
	missing := func(t Tip, from, to uint64) {
		for n := from; n < to && n < from+1000; n++ {
			damage = append(damage, DamageError{entryKey(t.Dir, t.Line, n), errors.New("it is missing")})
		}
	}
	for item, err := range r.b.List(ctx, prefix, "") {
		if err != nil {
			return nil, nil, err
		}
		t, n, ok := parseEntryKey(item.Key)
		if !ok {
			damage = append(damage, DamageError{item.Key, errors.New("nothing of ours has put it there")})
			continue
		}
		if k := len(tips) - 1; k >= 0 && tips[k].Dir == t.Dir && tips[k].Line == t.Line {
			missing(t, tips[k].Last+1, n)
			tips[k].Last = n
			continue
		}
		missing(t, 0, n)
		t.Last = n
		tips = append(tips, t)
	}
	return tips, damage, nil
}

func parseEntryKey(key string) (t Tip, n uint64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[0] != "log" || len(parts[1]) != 32 || len(parts[3]) != 8 {
		return t, 0, false
	}
	line, err := hex.DecodeString(parts[2])
	n, nerr := strconv.ParseUint(parts[3], 10, 64)
	if err != nil || nerr != nil || len(line) != len(t.Line) {
		return t, 0, false
	}
	return Tip{Dir: "log/" + parts[1] + "/", Line: Line(line)}, n, true
}

// DirOf returns what the keys of a session's lines begin with.
func (r *Repo) DirOf(session string) string { return r.dir(session) }

// Packs lists the packs that are there, with their lengths.
func (r *Repo) Packs(ctx context.Context) (map[string]int64, error) {
	packs := make(map[string]int64)
	for item, err := range r.b.List(ctx, "data/", "") {
		if err != nil {
			return nil, err
		}
		packs[item.Key] = item.Size
	}
	return packs, nil
}
