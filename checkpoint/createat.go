package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// CreateAt is Create for who has no manager of the chat: it opens one, by
// Options.Manager, and releases it. So a runtime in another process, which has
// begun the turn by its own means, can make a checkpoint of it. at.Tree is the
// state of the files that it was told when the turn began.
//
// The error also matches [ErrNotFound] if the session's ID is none that the
// database could have.
func (d *DB) CreateAt(ctx context.Context, at *Anchor) (*Checkpoint, error) {
	c, err := d.createAt(ctx, at)
	if isNoID(err) {
		err = fmt.Errorf("session %q: %w", at.SessionID, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("create a checkpoint of chat %q: %w", at.ChatID, err)
	}
	return c, nil
}

func (d *DB) createAt(ctx context.Context, at *Anchor) (*Checkpoint, error) {
	if at.WorktreeID == "" {
		return nil, ErrNoWorktree
	}
	path, err := d.worktree(ctx, at.WorktreeID)
	if err != nil {
		return nil, err
	}
	m, release, err := d.opts.Manager(ctx, path, at.ChatID)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoWorktree, err)
	}
	if err != nil {
		return nil, err
	}
	if release != nil {
		defer func() {
			if err := release(); err != nil {
				d.log.Warn("leave a worktree", "worktree", at.WorktreeID, "err", err)
			}
		}()
	}
	return d.create(ctx, m, at)
}
