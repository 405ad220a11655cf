package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/remote/lines"
)

// A pusher puts what a store records into its remotes, behind the turns: no turn waits for
// it. It pushes when nothing more has come for a while, when a session ends, and at last when the
// oldest record has waited for long. What fails is tried again, less and less often; 'snapctl remote status' says
// why. The zero durations are not useful: see newPusher.
type pusher struct {
	app *app
	s   *cas.Store
	log *slog.Logger

	every time.Duration // looks at the journal
	quiet time.Duration // without another record, then it pushes
	most  time.Duration // that a record waits while others come
	again time.Duration // after a failure; doubled each time
	last  time.Duration // for the rest, when the engine ends

	open   map[string]*openRemote // by name
	urgent chan struct{}          // see hurry
}

// An openRemote is a remote that was opened: what that reads need not be read for each turn.
type openRemote struct {
	repo   *lines.Repo
	config exchange.Config
}

func newPusher(a *app, s *cas.Store) *pusher {
	return &pusher{app: a, s: s, log: a.log, every: 500 * time.Millisecond, quiet: 2 * time.Second,
		most: 10 * time.Second, again: 5 * time.Second, last: 5 * time.Second,
		open: make(map[string]*openRemote), urgent: make(chan struct{}, 1)}
}

// hurry has it push what there is without waiting for more: whoever made it may be about to end the machine.
func (p *pusher) hurry() {
	select {
	case p.urgent <- struct{}{}:
	default: // it is told already
	}
}

// maxAgain bounds how long a remote that failed is left alone.
const maxAgain = 5 * time.Minute

// run pushes until ctx ends, and then what is left, if that does not take long.
func (p *pusher) run(ctx context.Context) {
	var seen, pushed uint64 // newest record
	var first, newest time.Time
	var next time.Time // not before, after a failure
	failures := 0
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	pushed, seen = ^uint64(0), ^uint64(0) // what there was before may not be there
	for {
		isUrgent := false
		select {
		case <-ctx.Done():
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.last)
			defer cancel()
			p.push(rest) // also what came since the last look
			return
		case <-p.urgent:
			isUrgent = true
		case <-tick.C:
		}
		now := time.Now()
		if seq := p.newest(ctx); seq != seen {
			if seen == pushed {
				first = now
			}
			seen, newest = seq, now
		}
		isDue := seen != pushed && (now.Sub(newest) >= p.quiet || now.Sub(first) >= p.most)
		switch {
		case isUrgent:
			isDue = seen != pushed || failures > 0
		case failures > 0:
			isDue = !now.Before(next)
		}
		if !isDue {
			continue
		}
		at := seen
		if p.push(ctx) {
			pushed, failures = at, 0
			continue
		}
		failures++
		next = time.Now().Add(min(p.again<<min(failures-1, 10), maxAgain))
		pushed = at // it is tried again by next
	}
}

// newest returns the number of the store's newest record, 0 if there is none.
func (p *pusher) newest(ctx context.Context) uint64 {
	for snap, err := range p.s.Snapshots(ctx) {
		if err != nil {
			return 0
		}
		return snap.Seq
	}
	return 0
}

// push pushes to all remotes that are to be pushed to, and reports whether all is there.
func (p *pusher) push(ctx context.Context) bool {
	list, err := exchange.List(p.s.FS())
	if err != nil {
		p.log.Debug("remotes not read", "err", err)
		return false
	}
	ok := true
	for _, c := range list {
		if c.Manual {
			continue
		}
		if err := p.pushTo(ctx, c); err != nil {
			ok = false
			p.log.Debug("push failed", "remote", c.Name, "err", err)
		}
	}
	return ok
}

func (p *pusher) pushTo(ctx context.Context, c *exchange.Config) error {
	w, err := exchange.Waiting(ctx, p.s, c.Name)
	if err != nil || w.Records == 0 {
		return err
	}
	repo, err := p.opened(ctx, c)
	if err != nil {
		delete(p.open, c.Name)
		return errors.Join(err, exchange.NoteFailure(p.s.FS(), c.Name, err))
	}
	_, err = exchange.NewPusher(p.s, repo, c).Push(ctx)
	if err != nil {
		delete(p.open, c.Name)
	}
	return err
}

// opened returns a remote that is open. Of one that was open before it asks whether it is still there: somebody may
// have put another in its place, which would get what is sealed for this one, and never show it.
func (p *pusher) opened(ctx context.Context, c *exchange.Config) (*lines.Repo, error) {
	if o := p.open[c.Name]; o != nil && o.config == *c {
		isStill, err := o.repo.IsStill(ctx)
		if err != nil {
			return nil, remoteError(c.Name, err)
		}
		if isStill {
			return o.repo, nil
		}
	}
	repo, err := (&place{app: p.app, store: p.s}).openKnown(ctx, c)
	if err != nil {
		return nil, err
	}
	p.open[c.Name] = &openRemote{repo, *c}
	return repo, nil
}
