package lines

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/remote"
)

// A Repo is a remote. It may be used from several goroutines.
type Repo struct {
	b      remote.Backend
	format *format
	unwrap func([]byte) ([]byte, error)

	mu      sync.Mutex // guards the rest
	keys    keyring
	readers []string // for whom they are
	keysAt  uint64   // number of the object that has them; 0: FORMAT
	names   key
	ledger  *Ledger
	isFresh bool // the ledger was read
	held    map[string][]byte
	folds   map[string]map[uint64]*folded
	near    Near // that has packs; nil: they are read from the remote
}

func newRepo(b remote.Backend, f *format, ks keyring, unwrap func([]byte) ([]byte, error)) *Repo {
	r := &Repo{b: b, format: f, unwrap: unwrap, keys: ks, ledger: new(Ledger)}
	if len(ks) > 0 {
		r.names = ks[0].derive(contextNames)
	}
	return r
}

func (r *Repo) ring() keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys
}

// withKeys calls fn with the keys, again if somebody has made newer ones meanwhile.
func (r *Repo) withKeys(ctx context.Context, fn func(keyring) error) error {
	err := fn(r.ring())
	if !errors.Is(err, errEpoch) || r.unwrap == nil {
		return err
	}
	if err := r.readKeys(ctx); err != nil {
		return err
	}
	return fn(r.ring())
}

// openSealed reads what was sealed.
func (r *Repo) openSealed(ctx context.Context, magic, name string, b []byte) (body []byte, prev [32]byte, err error) {
	err = r.withKeys(ctx, func(ks keyring) error {
		body, prev, err = open(ks, magic, name, b)
		return err
	})
	return body, prev, err
}

// ID returns the identity of the remote, 32 hex digits.
func (r *Repo) ID() string { return r.format.ID }

// IsPlain reports whether all who can read the place can read what is in it.
func (r *Repo) IsPlain() bool { return r.format.Plain != "" }

// ErrRival: another writer has put an entry there.
var ErrRival = errors.New("another writer has put an entry there")

// ErrOvertaken: somebody prunes, or has pruned, and what was put may not count. See [Repo.Ledger].
var ErrOvertaken = errors.New("somebody prunes")

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
	r.mu.Lock()
	names := r.names
	r.mu.Unlock()
	h := names.hash([]byte(session))
	return "log/" + hex.EncodeToString(h[:16]) + "/"
}

func entryKey(dir string, line Line, n uint64) string { return fmt.Sprintf("%s%s/%08d", dir, line, n) }

// Append puts an entry at a place in a line of a session, behind one with a hash; of the first
// entry that is zero. It is durable when Append returns nil. Done again with the same entry,
// it changes nothing. The error matches [ErrRival] if another is there, and [ErrOvertaken] if it
// is there, but may not count.
func (r *Repo) Append(
	ctx context.Context, session string, line Line, n uint64, prev [32]byte, e *Entry,
) (Position, error) {
	key := entryKey(r.dir(session), line, n)
	b := e.seal(r.ring(), key, prev)
	at := Position{line, n, hashOf(b)}
	// What is in a fold is no longer in the log: its number is taken all the same.
	isTaken := func() error {
		if n < r.Ledger().Kept[line].Folded() {
			return fmt.Errorf("%s: %w", key, ErrRival)
		}
		return nil
	}
	if err := isTaken(); err != nil {
		return at, err
	}
	if err := r.create(ctx, key, b); err != nil {
		return at, err
	}
	if err := r.Heed(ctx, line, n, e.Generation); err != nil {
		return at, err
	}
	return at, isTaken() // by what came meanwhile: perhaps this one
}

// Heed asks, behind a commit, whether somebody prunes: see docs/reference/format-remote.md §7. The error
// matches [ErrOvertaken] if so, and the entry may not count, of which the writer knew of a generation.
func (r *Repo) Heed(ctx context.Context, line Line, n, generation uint64) error {
	_, err := r.b.Stat(ctx, ledgerKey(generation+1))
	if errors.Is(err, remote.ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	keys := r.Ledger()
	l, _, err := r.Refresh(ctx)
	if err != nil {
		return err
	}
	if l.Open == nil && l.Prune <= generation && l.Newest > keys.Newest {
		err = r.readKeys(ctx) // somebody may have made a newer one
	}
	switch {
	case err != nil:
		return err
	case l.Open != nil && l.Open.Number > generation, !l.Counts(line, n, generation):
		return ErrOvertaken
	}
	return nil
}

// Entry reads an entry, whose hash has to be that of the position unless it is zero there. It
// returns the hash of the entry before it. The error matches [remote.ErrNoKey] if there is
// none, and is a [*DamageError] if it is another.
func (r *Repo) Entry(ctx context.Context, dir string, at Position) (e *Entry, now Position, prev [32]byte, err error) {
	l, err := r.known(ctx)
	if err != nil {
		return nil, at, prev, err
	}
	key, now := entryKey(dir, at.Line, at.Entry), Position{Line: at.Line, Entry: at.Entry}
	var body []byte
	if k := l.Kept[at.Line]; k != nil && k.Dir == dir && at.Entry < k.Folded() {
		body, now.Hash, prev, err = r.foldedEntry(ctx, k, at.Entry)
	} else {
		var b []byte
		if b, err = r.b.Get(ctx, key, 0, -1); err != nil {
			return nil, at, prev, err
		}
		now.Hash = hashOf(b)
		body, prev, err = r.openSealed(ctx, entryMagic, key, b)
	}
	if d, ok := errors.AsType[*DamageError](err); ok {
		return nil, now, prev, d
	}
	if err == nil {
		e, err = parseBody(body)
	}
	if err == nil && e.Was != [32]byte{} && at.Entry >= l.Kept[at.Line].Folded() {
		now.Hash = e.Was
	}
	if err == nil && at.Hash != [32]byte{} && at.Hash != now.Hash {
		return nil, now, prev, damaged(key, errors.New("it is not the entry that was there"))
	}
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
	e.Void = !l.Counts(at.Line, at.Entry, e.Generation)
	return e, now, prev, nil
}

// Replace puts an entry in the place of one that is damaged or gone. Its field Was has the hash by which others
// name that.
func (r *Repo) Replace(ctx context.Context, dir string, line Line, n uint64, prev [32]byte, e *Entry) error {
	if err := r.format.mayWrite(); err != nil {
		return err
	}
	key := entryKey(dir, line, n)
	return r.b.Overwrite(ctx, key, e.seal(r.ring(), key, prev))
}

// hold remembers the bytes of an object without which nothing can be read.
func (r *Repo) hold(key string, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(map[string][]byte)
	}
	r.held[key] = bytes.Clone(b)
}

// Held returns the objects without which nothing can be read, as they were read: FORMAT, keys, the ledger.
func (r *Repo) Held() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.held)
}

// Raw returns the bytes of an object.
func (r *Repo) Raw(ctx context.Context, key string) ([]byte, error) { return r.b.Get(ctx, key, 0, -1) }

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

// tips lists lines. What is missing may have been taken away by a prune that ended meanwhile.
func (r *Repo) tips(ctx context.Context, prefix string) (tips []Tip, damage []DamageError, err error) {
	for {
		logs, err := r.Logs(ctx, prefix)
		if err != nil {
			return nil, nil, err
		}
		l, err := r.known(ctx)
		if err != nil {
			return nil, nil, err
		}
		tips, damage = nil, nil
		for _, g := range logs {
			t, missing, err := r.tipOf(ctx, l, g)
			if err != nil {
				return nil, nil, err
			}
			damage = append(damage, missing...)
			for _, key := range g.Others {
				damage = append(damage, DamageError{key, errors.New("nothing of ours has put it there")})
			}
			if t != nil {
				tips = append(tips, *t)
			}
		}
		if len(damage) == 0 {
			return tips, nil, nil
		}
		if _, changed, err := r.Refresh(ctx); err != nil || !changed {
			return tips, damage, err
		}
	}
}

// A Log is what of a line is listed in the log.
type Log struct {
	Dir     string
	Line    Line
	Entries []uint64 // ascending
	Others  []string // keys that are none of entries
}

// Key returns the key of an entry.
func (g *Log) Key(n uint64) string { return entryKey(g.Dir, g.Line, n) }

// Logs lists what there is of lines, whether it counts or not, and those that a prune has kept.
func (r *Repo) Logs(ctx context.Context, prefix string) ([]*Log, error) {
	l, err := r.known(ctx)
	if err != nil {
		return nil, err
	}
	var logs []*Log
	seen := make(map[Line]bool)
	for item, err := range r.b.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		t, n, ok := parseEntryKey(item.Key)
		if !ok {
			logs = append(logs, &Log{Others: []string{item.Key}})
			continue
		}
		k := len(logs) - 1
		if k < 0 || logs[k].Dir != t.Dir || logs[k].Line != t.Line || len(logs[k].Others) > 0 {
			logs = append(logs, &Log{Dir: t.Dir, Line: t.Line})
			seen[t.Line] = true
			k++
		}
		logs[k].Entries = append(logs[k].Entries, n)
	}
	for line, k := range l.Kept {
		if !seen[line] && strings.HasPrefix(k.Dir, prefix) { // all of it is in folds, or missing
			logs = append(logs, &Log{Dir: k.Dir, Line: line})
		}
	}
	slices.SortStableFunc(logs, func(a, b *Log) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), bytes.Compare(a.Line[:], b.Line[:]))
	})
	return logs, nil
}

// maxMissing bounds how many entries of a line may be missing before one that still counts as an entry of it. Who can
// make objects there can make one with the number 99,999,999: nobody asks for all of those before it.
const maxMissing = 1000

// tipOf returns how far a line goes, and what is missing in it; nil if it does not count: a prune is taking it
// away, or it came too late for one.
func (r *Repo) tipOf(ctx context.Context, l *Ledger, g *Log) (t *Tip, damage []DamageError, err error) {
	if len(g.Others) > 0 {
		return nil, nil, nil
	}
	k := l.Kept[g.Line]
	if k != nil && k.Dir != g.Dir {
		k = nil
	}
	from := k.Folded()
	there := g.Entries
	for len(there) > 0 && there[0] < from {
		there = there[1:]
	}
	next := from
	for _, n := range there {
		if n-next > maxMissing-uint64(len(damage)) {
			damage = append(damage, DamageError{g.Key(n), fmt.Errorf("it is behind the end of its line: %d entries "+
				"are missing before it", n-next)})
			break
		}
		for ; next < n; next++ {
			damage = append(damage, DamageError{g.Key(next), errMissing})
		}
		next = n + 1
	}
	for k != nil && next <= k.Last && len(damage) < maxMissing {
		damage = append(damage, DamageError{g.Key(next), errMissing})
		next++
	}
	if k == nil && l.Prune > 0 && len(damage) > 0 {
		e, _, _, err := r.Entry(ctx, g.Dir, Position{Line: g.Line, Entry: there[0]})
		if errors.Is(err, remote.ErrNoKey) || err == nil && e.Void {
			return nil, nil, nil
		}
		if _, ok := errors.AsType[*DamageError](err); !ok && err != nil {
			return nil, nil, err
		}
	}
	if next == 0 {
		return nil, damage, nil
	}
	return &Tip{Dir: g.Dir, Line: g.Line, Last: next - 1}, damage, nil
}

var errMissing = errors.New("it is missing")

func parseEntryKey(key string) (t Tip, n uint64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || len(parts[3]) != 8 {
		return t, 0, false
	}
	dir, err := hex.DecodeString(parts[1])
	line, lerr := hex.DecodeString(parts[2])
	n, nerr := strconv.ParseUint(parts[3], 10, 64)
	if err != nil || lerr != nil || nerr != nil || len(dir) != 16 || len(line) != len(t.Line) {
		return t, 0, false
	}
	t = Tip{Dir: "log/" + hex.EncodeToString(dir) + "/", Line: Line(line)}
	return t, n, entryKey(t.Dir, t.Line, n) == key // and in no other spelling
}

// Delete removes objects, several at once.
func (r *Repo) Delete(ctx context.Context, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16) // so many hide the way to the server
	for _, key := range keys {
		group.Go(func() error { return r.b.Delete(ctx, key) })
	}
	return group.Wait()
}

// DirOf returns what the keys of a session's lines begin with.
func (r *Repo) DirOf(session string) string { return r.dir(session) }

// Packs lists the packs that are there, with their lengths.
func (r *Repo) Packs(ctx context.Context) (map[string]int64, error) {
	packs := make(map[string]int64)
	for item, err := range r.b.List(ctx, PackPrefix, "") {
		if err != nil {
			return nil, err
		}
		packs[item.Key] = item.Size
	}
	return packs, nil
}
