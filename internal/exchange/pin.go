package exchange

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
)

// This file has a remote keep what a store has left there: docs/reference/format-remote.md §7. A pin is said like
// any entry, behind the ledger and before it, so a prune either sees it, or is seen.

// A pinFile is what a store remembers of its pin. Where it is lost, what was pinned stays pinned, and is not said
// again.
type pinFile struct {
	Version int       `json:"v"`
	Line    hexID     `json:"line"`
	Opened  uint64    `json:"opened"` // generation of its first entry
	Next    uint64    `json:"next"`   // number of the next
	Hash    hexID     `json:"hash"`   // of the last
	Said    time.Time `json:"said"`
	On      []pinOn   `json:"on"`
}

type pinOn struct {
	base
	Session string `json:"session"`
}

func (o *pinOn) leaning() lines.Leaning {
	return lines.Leaning{Session: o.Session, Position: *o.position()}
}

// pinAge is after how long a pin is said again while something is there and not here.
const pinAge = 24 * time.Hour

// pinPatience is how often a pin is tried while others prune.
const pinPatience = 10

// errTakenAway: a prune has taken away what was to be kept.
var errTakenAway = errors.New("a prune has taken it away meanwhile")

// A pinner says what a store has left in a remote. Whoever has one holds the lock of the remote.
type pinner struct {
	store    *cas.Store
	repo     *lines.Repo
	name     string
	patience time.Duration // with a prune that is under way
	at       pinFile
}

func (p *Pusher) pinner() *pinner {
	return newPinner(p.Store, p.Repo, p.Name, p.patience)
}

func newPinner(s *cas.Store, repo *lines.Repo, name string, patience time.Duration) *pinner {
	p := &pinner{store: s, repo: repo, name: name, patience: patience}
	if patience == 0 {
		p.patience = pruneWait
	}
	if ok, err := read(s.FS(), name, "pinned", &p.at); !ok || err != nil {
		p.at = pinFile{} // another is begun
	}
	p.at.Version = stateVersion
	p.at.On = slices.DeleteFunc(p.at.On, func(o pinOn) bool { return o.position() == nil })
	return p
}

// PinOf returns the line by which a store has said what it has left in a remote.
func PinOf(s *cas.Store, name string) (line lines.Line, ok bool) {
	at := newPinner(s, nil, name, 0).at
	if len(at.Line) != len(line) || at.Next == 0 {
		return line, false
	}
	return lines.Line(at.Line), true
}

// keep has a remote keep what lines have, up to entries, beside what it keeps already. When it returns nil, no prune
// takes that away. The error matches [errTakenAway] if one has done so before.
func (p *pinner) keep(ctx context.Context, more []lines.Leaning) error {
	for range pinPatience {
		l, err := p.settle(ctx)
		if err != nil {
			return err
		}
		on, err := p.counting(ctx, l, more)
		if err != nil {
			return err
		}
		if p.repo.Ledger().Newest != l.Newest { // what was found may be of before
			continue
		}
		err = p.say(ctx, l.Newest, on)
		if !errors.Is(err, lines.ErrOvertaken) && !errors.Is(err, lines.ErrRival) {
			return err
		}
	}
	return errors.New("others prune it again and again")
}

// settle reads the ledger, and waits until no prune is under way.
func (p *pinner) settle(ctx context.Context) (*lines.Ledger, error) {
	start := time.Now()
	for {
		l, _, err := p.repo.Refresh(ctx)
		if err != nil || l.Open == nil {
			return l, err
		}
		if err := outlast(ctx, p.repo, p.patience, time.Since(start), p.store.RawID()); err != nil {
			return nil, err
		}
	}
}

// lives reports whether the pin that the store remembers still holds.
func (p *pinner) lives(l *lines.Ledger) bool {
	return p.at.Next > 0 && len(p.at.Line) == 16 && l.Lives(lines.Line(p.at.Line), p.at.Opened)
}

// counting returns what is to be kept, of each line up to where most is wanted.
func (p *pinner) counting(ctx context.Context, l *lines.Ledger, more []lines.Leaning) (on []lines.Leaning, err error) {
	add := func(o lines.Leaning) {
		i := slices.IndexFunc(on, func(b lines.Leaning) bool { return b.Line == o.Line })
		switch {
		case i < 0:
			on = append(on, o)
		case on[i].Entry < o.Entry:
			on[i] = o
		}
	}
	for i := range p.at.On {
		o := p.at.On[i].leaning()
		ok := p.lives(l)
		if !ok {
			ok, err = counts(ctx, p.repo, &o)
		}
		if err != nil {
			return nil, err
		}
		if ok { // else it is gone: who reads it is told
			add(o)
		}
	}
	for i := range more {
		if ok, err := counts(ctx, p.repo, &more[i]); err != nil {
			return nil, err
		} else if !ok {
			return nil, errTakenAway
		}
		add(more[i])
	}
	return on, nil
}

// counts reports whether an entry, and its line, count.
func counts(ctx context.Context, repo *lines.Repo, on *lines.Leaning) (bool, error) {
	at := []lines.Position{{Line: on.Line}, on.Position}
	if on.Entry == 0 { // they are one
		at = at[1:]
	}
	for _, at := range at {
		e, _, _, err := repo.Entry(ctx, repo.DirOf(on.Session), at)
		if isGone(err) || err == nil && e.Void {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// say puts the next entry of the pin's line, of a new one if that has gone.
func (p *pinner) say(ctx context.Context, generation uint64, on []lines.Leaning) error {
	e := &lines.Entry{Generation: generation, Pin: &lines.Pin{Time: time.Now().Unix(), On: on}}
	if !p.lives(p.repo.Ledger()) {
		id := layout.RandomID()
		p.at.Line, p.at.Next, p.at.Hash, p.at.Opened = id[:], 0, nil, generation
		e.Opening = &lines.Opening{Session: lines.PinSession, Store: p.store.RawID()}
	}
	at, err := p.repo.Append(ctx, lines.PinSession, lines.Line(p.at.Line), p.at.Next, hash32(p.at.Hash), e)
	switch {
	case errors.Is(err, lines.ErrRival): // a copy of this store: each has a pin of its own
		p.at.Line, p.at.Next = nil, 0
		return err
	case err == nil, errors.Is(err, lines.ErrOvertaken) && p.at.Next > 0:
		p.at.Next, p.at.Hash = at.Entry+1, at.Hash[:]
	case errors.Is(err, lines.ErrOvertaken): // nor does its line count
		p.at.Line, p.at.Next = nil, 0
	}
	if err == nil {
		p.at.Said, p.at.On = time.Now(), nil
		for i := range on {
			p.at.On = append(p.at.On, pinOn{*baseOf(&on[i].Position), on[i].Session})
		}
		err = write(p.store.FS(), p.name, "pinned", &p.at)
	}
	return err
}

// renew says again what the store has left there, so that nobody takes it for dead.
func (p *pinner) renew(ctx context.Context) error {
	if len(p.at.On) == 0 {
		return nil
	}
	if age := time.Since(p.at.Said); age >= 0 && age < pinAge { // else the clock was wrong then, or is now
		return nil
	}
	if n, err := p.store.Absent(p.name); n == 0 || err != nil {
		return err
	}
	return p.keep(ctx, nil)
}

// pin has the remote keep what the import leaves there.
func (x *importing) pin() error {
	if len(x.promising.places) == 0 {
		return nil
	}
	var on []lines.Leaning
	for _, l := range x.f.Lines {
		if at, ok := l.lastWith(x.promising.has); ok {
			on = append(on, at)
		}
	}
	err := newPinner(x.Store, x.Repo, x.Name, 0).keep(x.ctx, on)
	if errors.Is(err, remote.ErrRefused) { // who may only read takes what there is
		x.result.Untold, err = true, nil
	}
	return err
}

// lastWith returns the last entry of a line that counts and has one of some packs; ok: there is one.
func (l *FetchedLine) lastWith(has func(*lines.PackRef) bool) (at lines.Leaning, ok bool) {
	for n, e := range slices.Backward(l.Entries) {
		if !e.Void && slices.ContainsFunc(e.Packs, func(ref lines.PackRef) bool { return has(&ref) }) {
			return lines.Leaning{Session: l.Session, Position: lines.Position{Line: l.Line, Entry: uint64(n),
				Hash: l.Hashes[n]}}, true
		}
	}
	return at, false
}
