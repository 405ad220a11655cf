package manager

import (
	"context"

	"github.com/boocode/filestore/internal/history"
)

// A restore goes from one turn to another, and never lies within one: what a turn did
// before it goes, and what the turn does after it stays. So a tool of a turn that
// restores files divides the turn (see Options.InTurn): the first part is recorded as a
// turn, then the restore, and the turn goes on behind it under the same number.

// divisible returns the session's open turn if the manager works for a tool of it, or is
// to say what would be once it has ended; else nil.
func (o *look) divisible() *history.OpenTurn {
	if t := o.turns.Of(o.m.opts.Session); t != nil && (o.m.opts.InTurn || o.divides) && o.m.isOurs(t) {
		return t
	}
	return nil
}

// catchUp has the session's open turn stand where the newest record says: whoever divided
// it, or restored files while it was open, may not have got to saying so.
func (o *look) catchUp(ctx context.Context) error {
	t := o.turns.Of(o.session)
	if t == nil || o.head == nil || o.head.Seq <= t.After {
		return nil
	}
	seq := o.head.Step()
	if o.head.Facts.From != 0 { // of a restore: the part that it goes back from
		seq = o.head.Facts.From
	}
	part, err := o.m.records.StepAt(ctx, seq, o.session)
	if err != nil {
		return err
	}
	if part.Seq > t.After && part.Facts.GoesOn && part.Turn() == t.Turn {
		t.Prev, t.After, t.Base = part.Seq, part.Seq, part.State()
	}
	if o.head.Kind == history.KindRestore {
		o.moveTurn()
	}
	return nil
}

// goOn has an open turn go on behind what it has done so far, which was just recorded.
func (o *look) goOn(t *history.OpenTurn) {
	t.Prev, t.After, t.Base = o.head.Seq, o.newestSeq(), o.state
}

// divide records what an open turn of the session has done so far, if it has changed
// something, or is to be as if it had ended.
func (o *look) divide(ctx context.Context, t *history.OpenTurn, asEnded bool) error {
	e := &turnEnd{look: o, turn: t, announced: true}
	log, err := o.m.entries(ctx)
	if err == nil && log == nil {
		e.entry, err = unusedID(o.w.HasEntry)
	}
	if err != nil {
		return err
	}
	r, list, err := e.stretches(ctx)
	if err != nil {
		return err
	}
	r.Facts.GoesOn = true
	if _, err := o.m.step(ctx, o, t, list, r, false); err != nil {
		return err
	}
	if r.Seq == 0 && asEnded {
		r, err = o.m.empty(ctx, o, t, true)
	} else if r.Seq == 0 {
		err = o.m.found(ctx, o, history.KindBase)
	}
	if err == nil && r != nil && r.Seq != 0 {
		o.goOn(t)
	}
	return err
}

// runInTurn runs a restore that a tool of the session's open turn asks for. All is done
// under one lock on the worktree's turns: no event of the turn comes in between.
func (x *restore) runInTurn(ctx context.Context, prepare func() error) (err error) {
	o, err := x.m.lookKeeping(ctx, x.m.turnOptions(), 0) // a restore may take the last bytes there are
	if err != nil {
		return err
	}
	defer func() { o.end(ctx, &err) }()
	o.divides = true
	t := o.divisible()
	if t != nil {
		if err := o.divide(ctx, t, x.opts.EndTurn); err != nil {
			return err
		}
	}
	err = x.runLocked(ctx, o, prepare)
	if t != nil && x.done != nil {
		t.After, t.Base = o.newestSeq(), o.last.State()
	}
	return err
}

// moveTurn has the session's open turn, if there is one, build on where a restore has led.
func (o *look) moveTurn() {
	if t := o.turns.Of(o.session); t != nil {
		t.Prev = o.head.Position()
	}
}
