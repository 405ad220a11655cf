// Package moments has the moments of a worktree: the chain of looks at the directory, of all
// sessions, in the order of the journal, with whose doing each change is. A session's own
// timeline is another thing; here the turns of several sessions, what the user did between,
// and restores follow one another as the files have seen them.
//
// It only reads records; package manager gives it those and the turns that are open. See
// [Back], and [Moment.At] for whose change one path is.
//
// The chain is without holes: a moment with states begins with the state with which the
// one before it ended. What was pruned or lost is said by moments of its own, and never
// guessed over.
package moments

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
)

// A Kind says what a moment is, or whose a change.
type Kind string

const (
	Turn      Kind = "turn"      // one turn was at work
	User      Kind = "user"      // no turn was: the user
	Contested Kind = "contested" // several were, or one that was cut off: nobody knows which
	Restore   Kind = "restore"   // a restore, an undo or a redo, which brings what was there before
	Before    Kind = "before"    // the first look at the directory: what it holds was there before
	Pruned    Kind = "pruned"    // a prune has dropped what happened
	Unknown   Kind = "unknown"   // damage took what happened, or which turns were at work
)

// A Moment is what happened to the directory between two looks.
type Moment struct {
	Kind Kind
	Who  []*Who // of a turn the one, of what is contested those that may be; in order of session

	// From and State are before and after it. Both are zero of a look that a prune dropped;
	// From alone is of the first state that is known.
	From, State store.State

	// Record is the look that found it. Its number, session and time are those of the moment.
	Record *history.Record

	// IsHole says that the moment is no look: it is what is not known before Record.
	IsHole bool

	own *Who // the turn that Record is, if it is one
}

// A Who is a turn that was at work.
type Who struct {
	Session string
	Turn    int    // -1: not known
	Agent   string // that ran it; "": not known
	Model   string // that was asked

	Record *history.Record   // of the turn; nil: it is open, or its record is lost
	Open   *history.OpenTurn // if it is open

	began           uint64 // it has no look up to this one
	claims, foreign windows.PathSet
}

// Seq returns the number of the look.
func (m *Moment) Seq() uint64 { return m.Record.Seq }

// Time returns when the look was.
func (m *Moment) Time() time.Time { return m.Record.Time }

// Entry returns what a revision may name the moment by: the entry of the one turn whose it
// is, else "look:N".
func (m *Moment) Entry() string {
	if m.Kind == Turn {
		return m.Who[0].EntryOr(m.Record)
	}
	return history.NameOf(m.Record.Entry, m.Record.Snapshot)
}

// EntryOr returns what a revision may name a turn by, or one of its looks as long as it has
// no record.
func (w *Who) EntryOr(look *history.Record) string {
	r := look
	if w.Record != nil {
		r = w.Record
	}
	return history.NameOf(r.Entry, r.Snapshot)
}

// A Whose is whose change of a path it is.
type Whose struct {
	Kind    Kind
	Who     []*Who
	Claimed bool // the turn has named the path as written by it; else it was only at work then
}

// At returns whose the change of a path at a moment is: claims settle what is contested.
func (m *Moment) At(path string) Whose {
	switch m.Kind {
	case Turn:
		return Whose{Turn, m.Who, m.Who[0].claims.Has(path)}
	case Contested:
	default:
		return Whose{Kind: m.Kind}
	}
	var claimed, left []*Who
	for _, w := range m.Who {
		owner, ok := windows.OwnerIn(history.Stretch{Contested: true}, path, w.claims, w.foreign)
		if ok {
			left = append(left, w)
		}
		if ok && owner == windows.Claimed {
			claimed = append(claimed, w)
		}
	}
	switch {
	case len(claimed) == 1:
		return Whose{Turn, claimed, true}
	case len(left) == 0:
		left = m.Who
	}
	return Whose{Kind: Contested, Who: left}
}

// Back yields the moments of a worktree from its newest record back to the one after seq,
// newest first, all with 0. open are the turns that are open. Each pair is a moment and nil,
// or nil and the error that ends the sequence.
//
// Use it under the lock of the records, as these.
func Back(ctx context.Context, rs *history.Records, newest *history.Record, seq uint64,
	open []*history.OpenTurn) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		b := &back{ctx: ctx, rs: rs, turns: make(map[string]*Who),
			yield: func(m *Moment) bool { return yield(m, nil) }}
		for _, o := range open {
			b.turns[o.Session] = whoIsAt(o)
		}
		if newest == nil {
			return
		}
		if err := b.walk(newest.Seq, seq); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// Now returns the moment that has not been looked at yet: what is changed by now since the
// newest record, while these turns are open. It has no State.
func Now(newest *history.Record, open []*history.OpenTurn) *Moment {
	m := &Moment{Kind: User, From: newest.State(), Record: newest}
	isUnknown := false
	for _, o := range open {
		switch {
		case o.Session == history.Nobody:
			isUnknown = true
		case o.IsWindow():
			m.Who = append(m.Who, whoIsAt(o))
		}
	}
	switch {
	case isUnknown && len(m.Who) == 0:
		m.Kind = Unknown
	case isUnknown || len(m.Who) > 1:
		m.Kind = Contested
	case len(m.Who) == 1:
		m.Kind = Turn
	}
	return m
}

// whoIsAt returns a turn that is open.
func whoIsAt(o *history.OpenTurn) *Who {
	return &Who{Session: o.Session, Turn: o.Turn, Agent: o.Agent, Model: o.Model, Open: o, began: o.After,
		claims: windows.NewPathSet(o.Claims), foreign: windows.NewPathSet(o.Foreign)}
}
