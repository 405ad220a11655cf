package exchange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
)

// This file is what a push does beside prunes: docs/reference/format-remote.md §7. It waits for none to go
// on in a line of its own.

// pruneWait is how long one waits for the end of a prune who wants to begin behind an entry that may not
// count. Then that prune is taken to be dead, and withdrawn: one that is not is done again by its owner.
const pruneWait = 2 * time.Minute

// isDead reports whether a line was retired, or is about to be, or what it counts on.
func (p *Pusher) isDead(at *pushed) bool {
	l := p.Repo.Ledger()
	if at.Next == 0 || len(at.Line) != 16 {
		return false
	}
	return !l.Lives(lines.Line(at.Line), at.Opened) ||
		slices.ContainsFunc(at.On, func(on hexID) bool { return len(on) == 16 && l.IsGoing(lines.Line(on)) })
}

// revive has a session whose line was retired begin again, with all that the store has of it.
func (p *Pusher) revive(ctx context.Context, t *Todo) error {
	if !p.isDead(t.at) {
		return nil
	}
	*t.at = pushed{Worktree: t.Worktree, Session: t.Session}
	t.at.begin(p.Repo.Ledger())
	list, err := Pending(ctx, p.Store, p.state, []string{t.Session})
	if err != nil {
		return err
	}
	for _, all := range list {
		if all.at == t.at {
			t.Records, t.Again, t.Imported = all.Records, all.Again, nil
		}
	}
	return p.save()
}

// overtaken has an entry be put again that may not count: behind itself, or in another line if it was the
// first of one.
func (p *Pusher) overtaken(t *Todo) error {
	if t.put.Entry > 0 {
		t.at.skip(t.put)
		return p.save()
	}
	t.at.begin(p.Repo.Ledger())
	return p.save()
}

// isSure reports whether a line that begins now may count on an entry of a session. It waits while a prune
// is under way that may have overtaken that.
func (p *Pusher) isSure(ctx context.Context, session string, at *lines.Position) (bool, error) {
	if at == nil {
		return true, nil
	}
	patience := cmp.Or(p.patience, pruneWait)
	for start := time.Now(); ; {
		l := p.Repo.Ledger()
		e, _, _, err := p.Repo.Entry(ctx, p.Repo.DirOf(session), *at)
		switch {
		case errors.Is(err, remote.ErrNoKey):
			return false, nil
		case err != nil:
			return false, err
		case l.IsSure(at.Line, at.Entry, e.Generation):
			return true, nil
		case l.Open == nil || l.IsGoing(at.Line) || e.Void:
			return false, nil
		}
		if err := outlast(ctx, p.Repo, patience, time.Since(start), p.Store.RawID()); err != nil {
			return false, err
		}
	}
}

// outlast waits for the end of a prune that is under way, a second at most, or withdraws it if one has
// waited long enough.
func outlast(ctx context.Context, repo *lines.Repo, patience, waited time.Duration, by [16]byte) error {
	if waited > patience {
		return repo.Withdraw(ctx, repo.Ledger(), by)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(min(patience, time.Second)):
	}
	_, _, err := repo.Refresh(ctx)
	return err
}

// isGone reports whether an object is not there.
func isGone(err error) bool { return errors.Is(err, remote.ErrNoKey) }
