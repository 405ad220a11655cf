package moments

import (
	"context"
	"errors"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
)

// A back is a walk from the newest record back.
type back struct {
	ctx   context.Context
	rs    *history.Records
	turns map[string]*Who // of each session the turn that was at work, as far as is known
	yield func(*Moment) bool
}

// errStopped: the caller has seen enough.
var errStopped = errors.New("stopped")

// walk says the moments of the records from one back to the one after seq.
func (b *back) walk(newest, seq uint64) error {
	var next *Moment     // whose From is not known yet
	var pruned []*Moment // between that and the record that is looked at
	for r, err := range b.rs.Chain(b.ctx, newest) {
		if err != nil {
			return err
		}
		if next != nil && !r.Pruned {
			if err := b.say(r, next, pruned); err != nil {
				return err
			}
			pruned = nil
		}
		if r.Seq <= seq && !r.Pruned {
			return nil
		}
		m, err := b.momentOf(r)
		if err != nil {
			return err
		}
		switch {
		case !r.Pruned:
			next = m
		case r.Seq > seq:
			pruned = append(pruned, m)
		}
	}
	return b.say(nil, next, pruned)
}

// momentOf returns what a record says of itself, and takes note of a turn that it is.
func (b *back) momentOf(r *history.Record) (*Moment, error) {
	m := &Moment{Kind: Contested, Record: r}
	if r.IsTurn() {
		w, err := b.whoOf(r)
		if err != nil {
			return nil, err
		}
		b.turns[r.Session], m.own = w, w
	}
	isUnknown := false
	for _, session := range slices.Sorted(slices.Values(r.Facts.Windows)) {
		if isUnknown = isUnknown || session == history.Nobody; session != history.Nobody {
			m.Who = append(m.Who, b.who(session, r))
		}
	}
	switch {
	case r.Kind == history.KindRestore:
		m.Kind, m.Who = Restore, nil
	case isUnknown && len(m.Who) == 0:
		m.Kind = Unknown
	case len(m.Who) == 0:
		b.unannounced(m)
	case len(m.Who) > 1 || isUnknown || m.Who[0].isCutOff(r.Seq):
	case m.Who[0].Turn < 0:
		m.Kind = Unknown
	default:
		m.Kind = Turn
	}
	if r.Pruned {
		m.Kind = Pruned
	} else {
		m.State = r.State()
	}
	return m, nil
}

// whoOf returns the turn that a record is. Where its session was at work with a turn before
// of which it was not known that it had ended, the turn began behind the look that found out.
func (b *back) whoOf(r *history.Record) (*Who, error) {
	w := &Who{Session: r.Session, Turn: r.Turn(), Agent: r.Facts.Agent, Model: r.Facts.Model, Record: r,
		began: r.Facts.Since, claims: windows.NewPathSet(r.Facts.Claims), foreign: windows.NewPathSet(r.Facts.Foreign)}
	if r.Pruned || w.began != 0 || r.Parent == 0 {
		return w, nil
	}
	begin, err := b.rs.Record(b.ctx, r.Parent)
	if errors.Is(err, store.ErrNotFound) {
		return w, nil
	}
	if err == nil && !begin.Pruned && begin.State() == r.Base {
		w.began = r.Parent
	}
	return w, err
}

// isCutOff reports whether a turn was cut off, and it is not known whether it was at work
// still before a look.
func (w *Who) isCutOff(look uint64) bool {
	if w.Open != nil {
		return w.Open.End != 0 && look > w.Open.Known
	}
	return w.Record != nil && w.Record.Facts.Interrupted && look > w.Record.Facts.Known
}

// who returns the turn of a session that was at work before a look.
func (b *back) who(session string, look *history.Record) *Who {
	if w := b.turns[session]; w != nil && look.Seq > w.began {
		return w
	}
	if look.Session == session && look.Facts.Within != 0 { // what it knew by then
		return &Who{Session: session, Turn: look.Turn(), claims: windows.NewPathSet(look.Facts.Claims),
			foreign: windows.NewPathSet(look.Facts.Foreign)}
	}
	return &Who{Session: session, Turn: -1}
}

// unannounced tells what happened while no window was open: it is the user's, unless a turn
// that nobody announced has it. Such a turn began where its session had looked before.
func (b *back) unannounced(m *Moment) {
	m.Kind = User
	seq := m.Record.Seq
	for _, w := range b.turns {
		t := w.Record
		if t != nil && t.Kind == history.KindStep && t.Facts.Since == 0 && w.began == t.Parent && t.Parent < seq &&
			seq < t.Seq && t.Base != m.Record.State() && (m.Kind == User || t.Seq < m.Who[0].Record.Seq) {
			m.Kind, m.Who = Turn, []*Who{w}
		}
	}
}

// say says a moment, now that the record before it is known, nil if there is none, and what
// was pruned between the two, newest first. Behind a hole the moment's own record has where
// it began.
func (b *back) say(before *history.Record, m *Moment, pruned []*Moment) error {
	list := slices.Clone(pruned)
	slices.Reverse(list) // oldest first
	switch {
	case m == nil:
	case before != nil && before.Seq == m.Record.Facts.After:
		m.From = before.State()
		list = append(list, m)
	case before == nil && m.Record.Facts.After == 0 && m.Record.Base.IsZero():
		m.Kind, m.Who = Before, nil
		list = append(list, m)
	case len(pruned) > 0:
		list = append(list, m.behindHole(before, Pruned)...)
	default:
		list = append(list, m.behindHole(before, Unknown)...)
	}
	for _, m := range slices.Backward(list) {
		if !b.yield(m) {
			return errStopped
		}
	}
	return nil
}

// behindHole returns what is known behind a hole, with what is not, oldest first.
func (m *Moment) behindHole(before *history.Record, why Kind) (list []*Moment) {
	r, at := m.Record, store.State{}
	if before != nil {
		at = before.State()
	}
	add := func(kind Kind, to store.State) {
		piece := &Moment{Kind: kind, From: at, State: to, Record: r, IsHole: kind == why}
		switch {
		case piece.IsHole:
		case m.own != nil && (kind == Turn || len(m.Who) == 0):
			piece.Who = []*Who{m.own}
		default:
			piece.Who = m.Who
		}
		list, at = append(list, piece), to
	}
	its := m.Kind
	if m.own != nil { // what a turn's record knows of the time before is what the turn did
		its = Turn
	}
	for _, s := range m.stretches(before) {
		if s.From != at {
			add(why, s.From)
		}
		kind := its
		if s.Contested {
			kind = Contested
		}
		add(kind, s.To)
	}
	if at != r.State() {
		add(why, r.State())
	}
	if len(list) == 0 { // nothing has changed
		m.From = at
		list = []*Moment{m}
	}
	return list
}

// stretches returns what a record behind a hole knows of the time before it. Of a turn that
// was at work already at the record before it is known only if nobody else was.
func (m *Moment) stretches(before *history.Record) []history.Stretch {
	r := m.Record
	if !r.IsTurn() {
		if r.Base.IsZero() {
			return nil
		}
		return []history.Stretch{{From: r.Base, To: r.State()}}
	}
	list := r.Stretches()
	switch {
	case before == nil || len(list) == 0 || list[0].From == before.State():
		return list
	case r.EndsAt(before):
		if len(list) == 1 && list[0].To == r.State() && !list[0].Contested {
			return []history.Stretch{{From: before.State(), To: r.State()}}
		}
		return nil
	case before.Seq <= max(r.Parent, r.Facts.Since):
		return list
	}
	return nil
}
