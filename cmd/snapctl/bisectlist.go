package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// A stop is a state of the directory that a bisect can ask of: what a turn left, or the user
// between two, and what led to it.
type stop struct {
	*moments.Moment        // the last that led to it
	first           uint64 // number of the first look that it takes in
}

// stops returns the states of the directory, the oldest first. Looks within a turn are none,
// unless somebody else was at work between them: a turn that is half done breaks things that
// its end has whole.
func (p *place) stops(ctx context.Context) ([]*stop, error) {
	all, err := inside.Of(p.m).Moments(ctx)
	if err != nil {
		return nil, err
	}
	var list []*stop
	for _, m := range all {
		if m.State.IsZero() { // pruned
			continue
		}
		switch last := len(list) - 1; {
		case last >= 0 && isSameTurn(list[last].Moment, m):
			list[last].Moment = m
		case last < 0 || list[last].State.Tree != m.State.Tree:
			list = append(list, &stop{m, m.Seq()})
		}
	}
	if len(list) == 0 {
		return nil, p.noSnapshots(ctx)
	}
	return list, nil
}

func isSameTurn(a, b *moments.Moment) bool {
	return a.Kind == moments.Turn && b.Kind == moments.Turn && a.Who[0].Turn >= 0 &&
		a.Who[0].Session == b.Who[0].Session && a.Who[0].Turn == b.Who[0].Turn
}

// stopAt returns the index of the state that was there at the look of a number; -1: there is
// none.
func stopAt(list []*stop, seq uint64) int {
	for i, s := range slices.Backward(list) {
		if s.first <= seq {
			return i
		}
	}
	return -1
}

// find returns the index of the state that a REV names.
func (p *place) find(ctx context.Context, list []*stop, text string) (int, error) {
	point, err := p.resolveSnapshot(ctx, text)
	if err != nil {
		return 0, err
	}
	if point.Snapshot.Worktree != p.project.Worktree {
		return 0, refuse("'snapctl log' lists the turns", "revision %q: it is of another directory: %s", text,
			words.Quote(point.Snapshot.Root))
	}
	if point.Snapshot.Pruned {
		return 0, refuse("'snapctl log' lists the turns", "revision %q: it was pruned: what the files were is gone",
			text)
	}
	if i := stopAt(list, point.Snapshot.Seq); i >= 0 {
		return i, nil
	}
	return 0, refuse("'snapctl log' lists the turns", "revision %q: what the files were then is not known", text)
}

// turn returns the session and the number of the turn that led to a state; -1: it was no turn.
func (s *stop) turn() (session string, n int) {
	if s.Kind != moments.Turn {
		return "", -1
	}
	return s.Who[0].Session, s.Who[0].Turn
}

// oneSession reports whether all turns of some states are of one session, which need not be
// named then.
func oneSession(list []*stop) bool {
	sessions := make(map[string]bool)
	for _, s := range list {
		if session, n := s.turn(); n >= 0 {
			sessions[session] = true
		}
	}
	return len(sessions) < 2
}

// short is what without the session of a turn.
func (s *stop) short() string {
	if _, n := s.turn(); n >= 0 {
		return fmt.Sprintf("turn %d", n)
	}
	return s.what()
}

// what says what led to a state.
func (s *stop) what() string {
	switch session, n := s.turn(); {
	case n >= 0 && session == defaultSession:
		return fmt.Sprintf("turn %d", n)
	case n >= 0:
		return fmt.Sprintf("turn %d of session %s", n, session)
	case s.Kind == moments.Turn:
		return fmt.Sprintf("a turn of session %s, which ended at %s", session, s.name())
	case s.Kind == moments.User:
		return "what you changed before " + s.name()
	case s.Kind == moments.Restore:
		return "the " + s.Record.Event() + " " + s.name()
	case s.Kind == moments.Contested:
		var sessions []string
		for _, w := range s.Who {
			sessions = append(sessions, w.Session)
		}
		return fmt.Sprintf("what changed before %s, by session %s, or you", s.name(), strings.Join(sessions, ", "))
	case s.Kind == moments.Before:
		return "the first snapshot, " + s.name()
	case s.Kind == moments.Pruned:
		return "what happened before " + s.name() + " in turns that were pruned"
	}
	return "what happened before " + s.name() + ", of which nothing is known"
}

// name returns the REV that names what led to a state, look the one that names the state.
func (s *stop) name() string { return s.Entry() }
func (s *stop) look() string { return history.NameOf(s.Record.Entry, s.Record.Snapshot) }

// title returns what the turn was for that led to a state; "": it was none, or nobody knows.
func (p *place) titleOf(ctx context.Context, s *stop) string {
	if s.Kind != moments.Turn || s.Who[0].Record == nil {
		return ""
	}
	return inside.Of(p.m).Title(ctx, s.Who[0].Record.Snapshot)
}

// A jsonStop is a state of the directory in JSON, and what led to it.
type jsonStop struct {
	EntryID *string `json:"entryId"` // null: none is known
	Rev     string  `json:"rev"`     // that names it
	Kind    string  `json:"kind"`
	Session *string `json:"session"` // of the turn
	Turn    *int    `json:"turn"`    // null: it was no turn
	Title   string  `json:"title"`
}

func (p *place) newJSONStop(ctx context.Context, s *stop) *jsonStop {
	session, turn := s.turn()
	j := &jsonStop{Rev: s.name(), Kind: string(s.Kind), Session: words.OrNull(session), Turn: turnOrNull(turn),
		Title: p.titleOf(ctx, s)}
	if !strings.HasPrefix(j.Rev, history.LookPrefix) {
		j.EntryID = &j.Rev
	}
	return j
}

// sayChanges prints what changed from one state to another, as a chart. one: that is what s did.
// It says how that is taken back, or how it is seen.
func (p *place) sayChanges(ctx context.Context, before, s *stop, one bool) error {
	a := p.app
	d := p.newDiffer(&diffFlags{stat: true})
	d.Old.Point, d.New.Point = &manager.Point{State: before.State}, &manager.Point{State: s.State}
	if err := d.printAll(ctx, nil); err != nil {
		return err
	}
	switch session, n := s.turn(); {
	case one && n >= 0 && session != defaultSession:
		fmt.Fprintf(a.out, "to take it back: %s --session %s revert turn:%d\n", a.snapctl(), session, n)
	case one && n >= 0:
		fmt.Fprintf(a.out, "to take it back: %s revert turn:%d\n", a.snapctl(), n)
	default:
		fmt.Fprintf(a.out, "to see it: %s diff %s %s\n", a.snapctl(), before.look(), s.look())
	}
	return nil
}
