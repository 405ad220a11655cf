package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// A Fetched is what is in lines of a remote, but for the objects in packs.
type Fetched struct {
	Lines []*FetchedLine // what one goes on from comes before it
	repo  *lines.Repo
}

// A FetchedLine is a line as it was read.
type FetchedLine struct {
	lines.Opening
	Line    lines.Line
	Dir     string
	Entries []*lines.Entry
	Hashes  [][32]byte // of the entries
	before  [][32]byte // what each says is the hash of the one before it

	Beside  bool             // it was not asked for: another leans on it
	Records []*FetchedRecord // each once, as it was said last
	of      map[uint64]*FetchedRecord
}

// A FetchedRecord is a record of a line.
type FetchedRecord struct {
	lines.Record
	Entry uint64          // in which it came first
	Snap  *store.Snapshot // with the numbers of the store that it is from
	names map[uint64]origin

	here uint64 // its number in this store; 0: none yet
	came bool   // by this import
}

// fetchers is how many requests are under way at once: so many hide the way to the server.
const fetchers = 16

// Fetch reads the lines of a session, or with none, all of a remote, each as far as it goes. Each
// entry is verified, and that it is behind the one before it. The error is a
// [*lines.DamageError] if something was changed or is missing.
func Fetch(ctx context.Context, repo *lines.Repo, session *string) (*Fetched, error) {
	if err := repo.Load(ctx); err != nil {
		return nil, err
	}
	for {
		f, err := fetch(ctx, repo, session)
		if err == nil {
			return f, nil
		}
		if _, changed, rerr := repo.Refresh(ctx); rerr != nil || !changed { // else it was pruned meanwhile
			return nil, err
		}
	}
}

func fetch(ctx context.Context, repo *lines.Repo, session *string) (*Fetched, error) {
	name := ""
	if session != nil {
		name = *session
	}
	tips, err := repo.Tips(ctx, name, session == nil)
	if err != nil {
		return nil, err
	}
	f := &Fetched{repo: repo}
	pins := repo.DirOf(lines.PinSession)
	tips = slices.DeleteFunc(tips, func(t lines.Tip) bool { return t.Dir == pins })
	if err := f.add(ctx, tips, false); err != nil {
		return nil, err
	}
	for i := 0; i < len(f.Lines); i++ { // it gets longer
		l := f.Lines[i].Leans
		if l == nil || f.line(l.Line) != nil {
			continue
		}
		// The whole line, as another may lean on more of it, and what it goes on from.
		tips, err := repo.Tips(ctx, l.Session, false)
		if err != nil {
			return nil, err
		}
		tips = slices.DeleteFunc(tips, func(t lines.Tip) bool { return f.line(t.Line) != nil })
		if err := f.add(ctx, tips, true); err != nil {
			return nil, err
		}
		if f.line(l.Line) == nil {
			return nil, &lines.DamageError{Key: key(repo.DirOf(l.Session), l.Line, l.Entry),
				Err: errors.New("it is missing: another line leans on it")}
		}
	}
	return f, f.order()
}

// add reads lines.
func (f *Fetched) add(ctx context.Context, tips []lines.Tip, beside bool) error {
	repo, before := f.repo, len(f.Lines)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for _, tip := range tips {
		l := &FetchedLine{Line: tip.Line, Dir: tip.Dir, Beside: beside, Entries: make([]*lines.Entry, tip.Last+1),
			Hashes: make([][32]byte, tip.Last+1), before: make([][32]byte, tip.Last+1),
			of: make(map[uint64]*FetchedRecord)}
		f.Lines = append(f.Lines, l)
		for n := range tip.Last + 1 {
			group.Go(func() error { return l.read(ctx, repo, n) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// A line whose first entry does not count was begun again.
	f.Lines = append(f.Lines[:before], slices.DeleteFunc(f.Lines[before:], func(l *FetchedLine) bool {
		return l.Entries[0].Void
	})...)
	for _, l := range f.Lines[before:] {
		if err := l.join(); err != nil {
			return err
		}
	}
	return nil
}

// read reads an entry.
func (l *FetchedLine) read(ctx context.Context, repo *lines.Repo, n uint64) error {
	e, at, prev, err := repo.Entry(ctx, l.Dir, lines.Position{Line: l.Line, Entry: n})
	if err != nil {
		return err
	}
	l.Entries[n], l.Hashes[n] = e, at.Hash
	l.before[n] = prev
	return nil
}

// key returns the key of an entry.
func (l *FetchedLine) key(n uint64) string { return key(l.Dir, l.Line, n) }

// join puts the entries of a line together.
func (l *FetchedLine) join() error {
	l.Opening = *l.Entries[0].Opening
	for n, e := range l.Entries {
		if n > 0 && l.before[n] != l.Hashes[n-1] {
			return &lines.DamageError{Key: l.key(uint64(n)), Err: errors.New("it is not behind the entry before it")}
		}
		if e.Void { // it was put again
			continue
		}
		names := make(map[uint64]origin)
		for _, name := range e.Names {
			names[name.Seq] = origin{name.Line, name.At}
		}
		for _, r := range e.Records {
			snap, err := cas.DecodeSnapshot(r.Seq, r.Body)
			if errors.Is(err, store.ErrFormat) {
				return fmt.Errorf("%s: %w", l.key(uint64(n)), err)
			}
			if err != nil {
				return &lines.DamageError{Key: l.key(uint64(n)), Err: err}
			}
			if again := l.of[r.Seq]; again != nil {
				again.Record, again.Snap, again.names = r, snap, names
				continue
			}
			rec := &FetchedRecord{Record: r, Entry: uint64(n), Snap: snap, names: names}
			l.of[r.Seq] = rec
			l.Records = append(l.Records, rec)
		}
	}
	if !slices.IsSortedFunc(l.Records, func(a, b *FetchedRecord) int { return int(int64(a.Seq - b.Seq)) }) {
		return &lines.DamageError{Key: l.key(0), Err: errors.New("its records are not in order")}
	}
	return nil
}

// order sorts the lines, and verifies that each goes on from what is there.
func (f *Fetched) order() error {
	var sorted []*FetchedLine
	rest := slices.Clone(f.Lines)
	for len(rest) > 0 {
		n := len(rest)
		rest = slices.DeleteFunc(rest, func(l *FetchedLine) bool {
			isBase := func(b *FetchedLine) bool { return b.Line == l.Base.Line }
			if l.Base != nil && !slices.ContainsFunc(sorted, isBase) {
				return false
			}
			sorted = append(sorted, l)
			return true
		})
		if len(rest) == n {
			return &lines.DamageError{Key: rest[0].key(0), Err: fmt.Errorf("line %s, from which it goes on, is missing",
				rest[0].Base.Line)}
		}
	}
	f.Lines = sorted
	for _, l := range f.Lines {
		on := []*lines.Position{l.Base}
		if l.Leans != nil {
			on = append(on, &l.Leans.Position)
		}
		for _, b := range on {
			if b == nil {
				continue
			}
			from := f.line(b.Line)
			if b.Entry >= uint64(len(from.Hashes)) || from.Hashes[b.Entry] != b.Hash {
				return &lines.DamageError{Key: from.key(b.Entry), Err: errors.New("it is not the entry that another " +
					"line counts on")}
			}
		}
	}
	return nil
}

func (f *Fetched) line(id lines.Line) *FetchedLine {
	for _, l := range f.Lines {
		if l.Line == id {
			return l
		}
	}
	return nil
}

// Chain returns a line and those that it goes on from, itself first.
func (f *Fetched) Chain(l *FetchedLine) (chain []*FetchedLine) {
	for ; l != nil; l = f.line(l.Base.Line) {
		chain = append(chain, l)
		if l.Base == nil {
			break
		}
	}
	return chain
}

// ends returns up to which entry a line belongs to a chain.
func ends(chain []*FetchedLine, i int) uint64 {
	if i == 0 {
		return uint64(len(chain[0].Entries)) - 1
	}
	return chain[i-1].Base.Entry
}

// Tips returns the lines that have something which no other goes on from, the one with the newest
// record first.
func (f *Fetched) Tips() []*FetchedLine {
	var tips []*FetchedLine
	for _, l := range f.Lines {
		if l.Beside {
			continue
		}
		isBase := func(o *FetchedLine) bool {
			return o.Base != nil && o.Base.Line == l.Line && o.Base.Entry == uint64(len(l.Entries))-1
		}
		if !slices.ContainsFunc(f.Lines, isBase) {
			tips = append(tips, l)
		}
	}
	slices.SortStableFunc(tips, func(a, b *FetchedLine) int { return b.newest().Compare(a.newest()) })
	return tips
}

// newest returns when the newest record of a line is from.
func (l *FetchedLine) newest() (t time.Time) {
	for _, r := range l.Records {
		if r.Snap.Time.After(t) {
			t = r.Snap.Time
		}
	}
	return t
}

// Newest returns what is to go on in a directory: of each session the tip with the newest record,
// if it was made in the same directory as the newest of all. others counts the tips beside.
func (f *Fetched) Newest() (goOn []*FetchedLine, others int) {
	type place struct {
		store    [16]byte
		worktree string
	}
	where := make(map[place]bool) // the directory, as the stores call it in which the newest went on
	seen := make(map[string]bool)
	for i, l := range f.Tips() {
		if i == 0 {
			for _, c := range f.Chain(l) {
				where[place{c.Store, c.Worktree}] = true
			}
		}
		if seen[l.Session] || !where[place{l.Store, l.Worktree}] {
			others++
			continue
		}
		seen[l.Session] = true
		goOn = append(goOn, l)
	}
	return goOn, others
}

// needs returns a line and all others that have something which it needs.
func (f *Fetched) needs(l *FetchedLine) []*FetchedLine {
	list := []*FetchedLine{l}
	for i := 0; i < len(list); i++ {
		on := []*FetchedLine{}
		if b := list[i].Base; b != nil {
			on = append(on, f.line(b.Line))
		}
		if b := list[i].Leans; b != nil {
			on = append(on, f.line(b.Line))
		}
		for _, o := range on {
			if !slices.Contains(list, o) {
				list = append(list, o)
			}
		}
	}
	return list
}
