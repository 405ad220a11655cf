package main

import (
	"context"
	"errors"
	"slices"
)

// start is what each command pays before it does anything.
func (l *lab) start(ctx context.Context) error {
	all := l.each(ctx, "start", func(t *tool) *contender {
		return &contender{run: func() (usage, error) {
			u, _, err := t.do(ctx, "start", nil, "")
			return u, err
		}}
	})
	return l.race(ctx, race{contenders: append(all, l.floor(ctx, "an empty process", "nothing"))})
}

// revert has each contender that can take back a snapshot that changed 1,000 files, and keep one that
// changed 10 others since. What the files hold then is compared.
func (l *lab) revert(ctx context.Context) error {
	names := l.next(1010)
	reverted, kept := names[:1000], names[1000:]
	var want [32]byte
	all := l.each(ctx, "revert", func(t *tool) *contender {
		c := &contender{out: t.slow}
		c.prepare = func() (err error) {
			if want, err = sum(l.tree, reverted); err != nil {
				return err
			}
			for _, files := range [][]string{nil, reverted, kept} { // what others have left is none of its own
				if err := l.change(files); err != nil {
					return err
				}
				if _, err := t.take(ctx); err != nil {
					return err
				}
			}
			return nil
		}
		c.run = func() (usage, error) {
			u, _, err := t.do(ctx, "revert", nil, "")
			if err != nil {
				return u, err
			}
			got, err := sum(l.tree, reverted)
			if err == nil && got != want {
				err = errors.New("the files are not what they were")
			}
			return u, err
		}
		return c
	})
	return l.race(ctx, race{contenders: all})
}

// compact has each contender write its store anew so that it takes less room. Nothing goes.
func (l *lab) compact(ctx context.Context) error {
	return l.race(ctx, race{contenders: l.doing(ctx, "compact", nil, nil, nil), once: true})
}

// compacted tells what the stores take then, of those that were compacted.
func (l *lab) compacted(ctx context.Context) error {
	for _, t := range l.tools {
		if !t.began || t.does["compact"] == nil || slices.Contains(l.of.without, t.name) {
			continue
		}
		n, err := l.repository(ctx, t.name)
		if err != nil {
			return err
		}
		l.addBytes(t.name, n)
	}
	return nil
}
