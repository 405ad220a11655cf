package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// This file finds out what a store has pushed where it does not remember that: its note was lost,
// it was killed behind the entry, or it is a copy that goes on beside another.

// meet decides what to do where an entry is that was to be put: it may be our own, of which
// we did not know, or another's.
func (p *Pusher) meet(ctx context.Context, t *Todo) error {
	rival, err := p.walk(ctx, t, t.at)
	if err != nil {
		return err
	}
	if p.isDead(t.at) {
		return p.save() // and revive sees to it
	}
	if rival && t.at.Next == 0 {
		p.newLine(t, t.at.Base.position())
	} else if rival {
		p.newLine(t, &lines.Position{Line: lines.Line(t.at.Line), Entry: t.at.Next - 1, Hash: hash32(t.at.Hash)})
	}
	t.Records = after(t.Records, t.at.Seq)
	t.Again = slices.DeleteFunc(t.Again, func(s *store.Snapshot) bool { return !t.at.isOther(s) })
	return p.save()
}

// walk goes along a line as far as its entries are our own, and reports whether another's
// comes then.
func (p *Pusher) walk(ctx context.Context, t *Todo, at *pushed) (rival bool, err error) {
	dir := p.Repo.DirOf(t.Session)
	var before *pushed // how far it was, and how an entry is called of which it is not known that it counts
	var last lines.Position
	var generation uint64
	defer func() {
		if before == nil || err != nil {
			return
		}
		// Its writer may have been killed before it asked; and it may have been this store.
		err = p.Repo.Heed(ctx, last.Line, last.Entry, generation)
		if errors.Is(err, lines.ErrOvertaken) {
			*at, err = *before, nil
			at.skip(last)
		}
	}()
	for {
		e, now, prev, err := p.Repo.Entry(ctx, dir, lines.Position{Line: lines.Line(at.Line), Entry: at.Next})
		if errors.Is(err, remote.ErrNoKey) {
			return false, nil // all that is there was ours
		}
		if err != nil {
			return false, err
		}
		if prev != hash32(at.Hash) {
			return false, fmt.Errorf("entry %d of the line that this store has pushed to is not behind its own: "+
				"the remote was changed", at.Next)
		}
		if ours, err := p.isOurs(ctx, t, e); !ours || err != nil {
			return true, err
		}
		if e.Void {
			if e.Opening != nil { // nor does the line
				return true, nil
			}
			before = nil
			at.skip(now)
			continue
		}
		was := *at
		was.Recent = slices.Clone(at.Recent)
		before, last, generation = &was, now, e.Generation
		at.note(now, e)
	}
}

// after returns the records behind one.
func after(list []*store.Snapshot, seq uint64) []*store.Snapshot {
	for len(list) > 0 && list[0].Seq <= seq {
		list = list[1:]
	}
	return list
}

// isOurs reports whether an entry has records of this store, and no others.
func (p *Pusher) isOurs(ctx context.Context, t *Todo, e *lines.Entry) (bool, error) {
	if o := e.Opening; o != nil && (o.Store != p.Store.RawID() || o.Worktree != t.Worktree || o.Session != t.Session) {
		return false, nil
	}
	for _, r := range e.Records {
		snap, ok, err := ownRecord(ctx, p.Store, r)
		if !ok || err != nil {
			return false, err
		}
		if snap.Worktree != t.Worktree || snap.Session != t.Session {
			return false, nil
		}
	}
	return true, nil
}

// ownRecord returns the record of a store that another record is: what happened is the same,
// though the one may have been said again, or pruned.
func ownRecord(ctx context.Context, s *cas.Store, r lines.Record) (snap *store.Snapshot, ok bool, err error) {
	snap, err = s.Snapshot(ctx, r.Seq)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if bytes.Equal(cas.EncodeSnapshot(snap), r.Body) {
		return snap, true, nil
	}
	other, err := cas.DecodeSnapshot(r.Seq, r.Body)
	if err != nil {
		return nil, false, err
	}
	same := snap.Time.Equal(other.Time) && snap.Worktree == other.Worktree && snap.Session == other.Session &&
		snap.Kind == other.Kind && snap.Parent == other.Parent && snap.Root == other.Root && len(snap.Origin) == 0
	if !snap.Pruned && !other.Pruned {
		same = same && snap.State() == other.State() && snap.Base == other.Base
	}
	return snap, same, nil
}

// recall finds the line of a session that this store has pushed, of which it has no note: of
// several the one that goes furthest.
func (p *Pusher) recall(ctx context.Context, t *Todo) error {
	tips, err := p.Repo.Tips(ctx, t.Session, false)
	if err != nil {
		return err
	}
	var best *pushed
	for _, tip := range tips {
		at := &pushed{Worktree: t.Worktree, Session: t.Session, Line: tip.Line[:]}
		if _, err := p.walk(ctx, t, at); err != nil {
			return err
		}
		if at.Next > 0 && (best == nil || at.Seq > best.Seq) {
			best = at
		}
	}
	if best != nil {
		*t.at = *best
		return p.meet(ctx, t)
	}
	if t.at.Base == nil && t.Imported != nil {
		return p.baseOfImported(ctx, t, tips)
	}
	return nil
}

// baseOfImported finds the entry with the newest record that came from a remote: what the
// store's own records go on from.
func (p *Pusher) baseOfImported(ctx context.Context, t *Todo, tips []lines.Tip) error {
	o, ok := parseOrigin(t.Imported.Origin)
	if !ok {
		return nil
	}
	at, err := p.findIn(ctx, tips, o)
	if at != nil {
		t.at.Base = baseOf(at)
	}
	return err
}

// find finds the entry in which a record came; nil if it is not there.
func (p *Pusher) find(ctx context.Context, session string, o origin) (*lines.Position, error) {
	tips, err := p.Repo.Tips(ctx, session, false)
	if err != nil {
		return nil, err
	}
	return p.findIn(ctx, tips, o)
}

func (p *Pusher) findIn(ctx context.Context, tips []lines.Tip, o origin) (*lines.Position, error) {
	for _, tip := range tips {
		if tip.Line != o.line {
			continue
		}
		for n := tip.Last + 1; n > 0; n-- { // the newest is the likeliest
			e, at, _, err := p.Repo.Entry(ctx, tip.Dir, lines.Position{Line: tip.Line, Entry: n - 1})
			if err != nil {
				return nil, err
			}
			for _, r := range e.Records {
				if r.Seq == o.seq && !e.Void {
					return &at, nil
				}
			}
		}
	}
	return nil, nil
}

// An origin is what a record is called in a remote.
type origin struct {
	line lines.Line
	seq  uint64
}

func (o origin) bytes() []byte {
	b := append([]byte(nil), o.line[:]...)
	for i := range 8 {
		b = append(b, byte(o.seq>>(8*i)))
	}
	return b
}

func parseOrigin(b []byte) (o origin, ok bool) {
	if len(b) != 24 {
		return o, false
	}
	copy(o.line[:], b)
	for i := range 8 {
		o.seq |= uint64(b[16+i]) << (8 * i)
	}
	return o, true
}
