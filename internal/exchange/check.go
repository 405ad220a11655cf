package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/vfs"
)

// A CheckResult is what a check of a remote has found.
type CheckResult struct {
	Lines   int   `json:"lines"`
	Entries int   `json:"entries"`
	Records int   `json:"records"`
	Packs   int   `json:"packs"` // that entries name
	Bytes   int64 `json:"bytes"` // of entries and packs, as far as they were read or listed
	Unnamed int   `json:"unnamed"`
	Read    bool  `json:"read"` // packs were read, too

	Damage []lines.DamageError `json:"-"`
}

// Check reads all entries of a remote, and finds out whether the packs are there that they
// name; with data it reads these, too. Each is verified. What the store remembers to be there,
// of the lines that it has pushed, must be.
//
// An error means that it could not be done, not that something was found.
func Check(ctx context.Context, repo *lines.Repo, fsys vfs.FS, name string, data bool) (*CheckResult, error) {
	for {
		r, ledger, err := check(ctx, repo, fsys, name, data)
		if ledger == nil || err == nil && len(r.Damage) == 0 {
			return r, err
		}
		if _, changed, rerr := repo.Refresh(ctx); rerr != nil || !changed { // else it was pruned meanwhile
			return r, err
		}
	}
}

// check also returns the ledger that it goes by; nil: none could be read.
func check(ctx context.Context, repo *lines.Repo, fsys vfs.FS, name string, data bool) (
	r *CheckResult, ledger *lines.Ledger, err error) {
	c := &checking{ctx: ctx, repo: repo, result: &CheckResult{Read: data}, named: make(map[string]*lines.PackRef)}
	if err := c.checkHeld(maps.All(heldOf(fsys, name)), func(key string) ([]byte, error) {
		return repo.Raw(ctx, key)
	}); err != nil {
		return nil, nil, err
	}
	// Before anything is listed: what is put meanwhile is in none of the lists.
	put := new(state)
	if _, err := read(fsys, name, "lines", put); err != nil {
		return nil, nil, err
	}
	if ledger, _, err = repo.Refresh(ctx); err != nil { // without it nobody knows what counts
		return c.result, nil, c.note(err)
	}
	c.keeps(ledger)
	damage, err := repo.CheckLedger(ctx)
	if err != nil {
		return nil, ledger, err
	}
	c.result.Damage = append(c.result.Damage, damage...)
	tips, err := c.tips()
	if err != nil {
		return nil, ledger, err
	}
	c.result.Lines = len(tips)
	for _, tip := range tips {
		if err := c.line(tip); err != nil {
			return nil, ledger, err
		}
	}
	for _, b := range c.bases { // by now all entries are known
		if h, ok := c.hashes[key(b.dir, b.at.Line, b.at.Entry)]; !ok || h != b.at.Hash {
			c.damaged(key(b.dir, b.at.Line, b.at.Entry), errors.New("it is not the entry that another line counts on"))
		}
	}
	c.remembered(put)
	return c.result, ledger, c.packs(data)
}

type checking struct {
	ctx    context.Context
	repo   *lines.Repo
	result *CheckResult
	hashes map[string][32]byte
	bases  []basis
	named  map[string]*lines.PackRef
}

type basis struct {
	dir string
	at  *lines.Position
}

func key(dir string, line lines.Line, n uint64) string { return fmt.Sprintf("%s%s/%08d", dir, line, n) }

func (c *checking) damaged(key string, err error) {
	c.result.Damage = append(c.result.Damage, lines.DamageError{Key: key, Err: err})
}

// note keeps damage, and returns any other error.
func (c *checking) note(err error) error {
	if d, ok := errors.AsType[*lines.DamageError](err); ok {
		if !c.isDamaged(d.Key) { // a fold has many entries
			c.result.Damage = append(c.result.Damage, *d)
		}
		return nil
	}
	return err
}

// keeps notes the packs that the last prune has put.
func (c *checking) keeps(l *lines.Ledger) {
	if m := l.Manifest(); m != nil {
		c.named[m.Key()] = m
	}
	for _, k := range l.Kept {
		for i := range k.Folds {
			c.named[k.Folds[i].Pack.Key()] = &k.Folds[i].Pack
		}
	}
}

func (c *checking) tips() ([]lines.Tip, error) {
	c.hashes = make(map[string][32]byte)
	tips, damage, err := c.repo.AllTips(c.ctx)
	c.result.Damage = append(c.result.Damage, damage...)
	return tips, err
}

func (c *checking) line(tip lines.Tip) error {
	var last [32]byte
	known := true // the hash of the entry before
	var pinned []basis
	defer func() { c.bases = append(c.bases, pinned...) }()
	for n := uint64(0); n <= tip.Last; n++ {
		e, at, prev, err := c.repo.Entry(c.ctx, tip.Dir, lines.Position{Line: tip.Line, Entry: n})
		if err != nil {
			if err = c.note(err); err != nil && !errors.Is(err, remote.ErrNoKey) { // that was listed as missing
				return err
			}
			known, n = false, lastUnread(c.repo, tip, n)
			continue
		}
		if known && prev != last {
			c.damaged(key(tip.Dir, tip.Line, n), errors.New("it is not behind the entry before it"))
		}
		if n == 0 && e.Void { // so the line does not count
			return nil
		}
		last, known = at.Hash, true
		c.hashes[key(tip.Dir, tip.Line, n)] = at.Hash
		c.result.Entries++
		if e.Void { // it was put again
			continue
		}
		c.result.Records += len(e.Records)
		if e.Opening != nil && e.Opening.Base != nil {
			c.bases = append(c.bases, basis{tip.Dir, e.Opening.Base})
		}
		if e.Opening != nil && e.Opening.Leans != nil {
			c.bases = append(c.bases, basis{c.repo.DirOf(e.Opening.Leans.Session), &e.Opening.Leans.Position})
		}
		if e.Pin != nil { // it stands for those before
			pinned = nil
			for i := range e.Pin.On {
				pinned = append(pinned, basis{c.repo.DirOf(e.Pin.On[i].Session), &e.Pin.On[i].Position})
			}
		}
		for i := range e.Packs {
			c.named[e.Packs[i].Key()] = &e.Packs[i]
		}
	}
	return nil
}

// lastUnread returns which entries behind one that could not be read cannot be, either, up to the last of them: of a
// fold that is damaged or missing, which is not read again for each entry in it.
func lastUnread(repo *lines.Repo, tip lines.Tip, n uint64) uint64 {
	k := repo.Ledger().Kept[tip.Line]
	if f := k.FoldOf(n); f != nil && k.Dir == tip.Dir && n > f.From { // the first says what is before it, too
		return f.To
	}
	return n
}

// remembered finds entries that the store has put or seen, and that are gone.
func (c *checking) remembered(put *state) {
	for _, p := range put.Lines {
		if p.Next == 0 || len(p.Line) != 16 {
			continue
		}
		k := key(c.repo.DirOf(p.Session), lines.Line(p.Line), p.Next-1)
		if !c.repo.Ledger().Lives(lines.Line(p.Line), p.Opened) {
			continue // a prune has taken it away
		}
		switch h, ok := c.hashes[k]; {
		case !ok && !c.isDamaged(k):
			c.damaged(k, errors.New("it is missing: this store has put it there"))
		case ok && h != hash32(p.Hash):
			c.damaged(k, errors.New("it is another than this store has put there"))
		}
	}
}

func (c *checking) isDamaged(key string) bool {
	for _, d := range c.result.Damage {
		if d.Key == key {
			return true
		}
	}
	return false
}

func (c *checking) packs(data bool) error {
	there, err := c.repo.Packs(c.ctx)
	if err != nil {
		return err
	}
	c.result.Packs = len(c.named)
	progress.Of(c.ctx).Begin(progress.Phase{Name: "checking", Unit: "pack", Items: int64(len(c.named))})
	for k, ref := range c.named {
		size, ok := there[k]
		delete(there, k)
		c.result.Bytes += size
		switch {
		case !ok:
			c.damaged(k, errors.New("it is missing"))
		case uint64(size) != ref.Size:
			c.damaged(k, fmt.Errorf("it has %d bytes, not %d", size, ref.Size))
		case data:
			err := c.repo.ReadPack(c.ctx, ref, func(b []byte) error { return nil })
			if err := c.note(err); err != nil {
				return err
			}
		}
		progress.Of(c.ctx).Count(1, size)
	}
	c.result.Unnamed = len(there)
	return nil
}
