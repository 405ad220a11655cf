package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// settleTime bounds how long a restore waits for the database to say whether it
// was done.
const settleTime = 30 * time.Second

// A Recovered says what became of a restore, or of the undo of one, that was cut off.
type Recovered struct {
	RestoreID    string `json:"restore_id"`
	CheckpointID string `json:"checkpoint_id"`
	ChatID       string `json:"chat_id"`
	Done         bool   `json:"done"` // the new state holds; else the old one

	// FilesStay says that the files are those of neither: somebody has restored
	// them by other means since.
	FilesStay bool `json:"files_stay,omitempty"`
}

// Recover settles all restores that were cut off by a crash or a lost connection,
// but for those that run now. A runtime calls it when it starts. With an error
// the list is of those that could be settled.
func (d *DB) Recover(ctx context.Context) ([]Recovered, error) {
	open, err := d.unsettled(ctx, "", "")
	if err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	var list []Recovered
	var errs []error
	for _, r := range open {
		done, err := d.settleAlone(ctx, r)
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restore %q in worktree %q: %w", r.id, r.worktree, err))
			continue
		}
		list = append(list,
			Recovered{RestoreID: r.id, CheckpointID: r.checkpoint, ChatID: r.chat, Done: done, FilesStay: r.buried})
	}
	if err := errors.Join(errs...); err != nil {
		return list, fmt.Errorf("recover: %w", err)
	}
	return list, nil
}

// Outcome says whether a restore of a session, or the undo of one, was done: else
// the old state holds. One that was cut off it settles. The error matches
// [ErrBusy] while it runs, and [ErrNotFound] if there is none, as after Forget.
func (d *DB) Outcome(ctx context.Context, sessionID, restoreID string) (done bool, err error) {
	r, err := scanRestore(d.queryRow(ctx, d.db, `SELECT `+restoreColumns+
		` FROM checkpoint_restores WHERE id = ? AND session_id = ?`, restoreID, sessionID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("restore %q of session %q: %w", restoreID, sessionID, ErrNotFound)
	case err != nil:
		return false, fmt.Errorf("outcome of restore %q: %w", restoreID, err)
	case r.state != stateBegun && r.state != stateTakingBack:
		return r.state != stateTakenBack, nil
	}
	if done, err = d.settleAlone(ctx, r); err != nil {
		err = fmt.Errorf("outcome of restore %q: %w", restoreID, err)
	}
	return done, err
}

// settleAlone settles a restore in its directory, wherever its worktree is now.
// The error matches ErrBusy while it runs, else it is an *UndecidedError.
func (d *DB) settleAlone(ctx context.Context, r *restore) (done bool, err error) {
	w, err := d.openIn(ctx, r.directory, r.chat)
	if err == nil {
		defer w.leave()
		done, err = d.settle(ctx, w.m, r)
	}
	if errors.Is(err, ErrNoWorktree) {
		path, werr := d.worktree(ctx, r.worktree)
		switch {
		case errors.Is(werr, ErrNoWorktree): // it was not moved: it is gone, files and all
			done, err = d.settle(ctx, nil, r)
		case werr == nil && path != r.directory:
			if w, err = d.openIn(ctx, path, r.chat); err == nil {
				defer w.leave()
				done, err = d.settle(ctx, w.m, r)
			}
		}
	}
	if err != nil && !errors.Is(err, ErrBusy) {
		err = &UndecidedError{r.id, err}
	}
	return done, err
}

// Forget deletes for good what restores have deleted: of those that began before
// a time, and of chats that are gone. They cannot be undone any more. It returns
// how many restores, undos, and those that were taken back, it has forgotten. What they have done to the files
// stays in the store.
func (d *DB) Forget(ctx context.Context, before time.Time) (n int64, err error) {
	if err := d.makeArchives(ctx); err != nil {
		return 0, fmt.Errorf("forget restores: %w", err)
	}
	var at any = before.UTC()
	if d.dialect == SQLite {
		at = before.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	gone := `state NOT IN ('` + stateBegun + `', '` + stateTakingBack + `') AND (created_at < ?`
	if s := &d.schema; s.Chats != None {
		gone += ` OR chat_id NOT IN (SELECT CAST(` + quote(s.ChatID) + ` AS TEXT) FROM ` + quote(s.Chats) + `)`
	}
	gone += `)`
	err = d.tx(ctx, d.reading(), func(q querier) error {
		for _, table := range d.moved() {
			if _, err := d.exec(ctx, q, `DELETE FROM `+quote(archiveOf(table))+` WHERE `+quote(ofRestore)+
				` IN (SELECT id FROM checkpoint_restores WHERE `+gone+`)`, at); err != nil {
				return err
			}
		}
		n, err = d.exec(ctx, q, `DELETE FROM checkpoint_restores WHERE `+gone, at)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget restores: %w", err)
	}
	return n, nil
}

// unsettled lists the restores that have begun and not come to an end, in a
// worktree, or in whatever was in its directory; all of them without a worktree.
func (d *DB) unsettled(ctx context.Context, worktree, directory string) (list []*restore, err error) {
	rows, err := d.db.QueryContext(ctx, d.bind(`SELECT `+restoreColumns+` FROM checkpoint_restores
		WHERE state IN ('`+stateBegun+`', '`+stateTakingBack+`') AND (worktree_id = ? OR directory = ? OR ? = '') ORDER BY seq`), worktree, directory, worktree)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRestore(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// settleAll settles what was cut off in a worktree. m is the manager of a chat in
// it. The caller has its lock.
func (d *DB) settleAll(ctx context.Context, m *manager.FileSnapshotManager, worktree string) error {
	list, err := d.unsettled(ctx, worktree, m.Project().Root)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := d.settleIn(ctx, m, r); err != nil {
			return &UndecidedError{r.id, fmt.Errorf("restore %q was cut off: %w", r.id, err)}
		}
	}
	return nil
}

// settleIn settles a restore in the directory of a manager, of whichever chat.
func (d *DB) settleIn(ctx context.Context, m *manager.FileSnapshotManager, r *restore) error {
	if r.chat != m.Session() {
		other, release, err := d.opts.Manager(ctx, m.Project().Root, r.chat)
		if err != nil {
			return err
		}
		if release != nil {
			defer release() // what it has written is durable
		}
		m = other
	}
	_, err := d.settle(ctx, m, r)
	return err
}

// sure notes whether a worktree's restore is settled, for when the database does
// not answer.
func (d *DB) sure(r *restore, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.unsure, r.directory)
	} else {
		d.unsure[r.directory] = r.id
	}
}

// settle brings a restore to its end that has begun. If its transaction has
// committed it is done, else it is taken back. The caller has the worktree's lock.
// A nil m says that there are no files any more.
func (d *DB) settle(ctx context.Context, m *manager.FileSnapshotManager, r *restore) (done bool, err error) {
	defer func() { d.sure(r, err) }()
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := d.step("settle"); err != nil {
		return false, err
	}
	// A transaction of which nobody knows whether it has committed holds the row
	// until that is decided: this waits for it, and no other can follow.
	if _, err := d.exec(wait, d.db, `UPDATE checkpoint_restores SET state = ? WHERE id = ? AND state = ?`,
		stateTakingBack, r.id, stateBegun); err != nil {
		return false, err
	}
	var state string
	err = d.queryRow(wait, d.db, `SELECT state FROM checkpoint_restores WHERE id = ?`, r.id).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows): // it has not even begun
		return false, nil
	case err != nil:
		return false, err
	case state == stateDone || state == stateUndone:
		return true, nil
	case state == stateTakenBack:
		return false, nil
	}
	if m != nil {
		if root := m.Project().Root; root != r.directory {
			was, err := wasAt(ctx, m, r.directory)
			if err != nil {
				return false, err
			}
			if !was {
				return false, fmt.Errorf("its files are in %q, and the worktree is %q now", r.directory, root)
			}
		}
		if err := d.filesBack(ctx, m, r); err != nil {
			return false, fmt.Errorf("take the files back: %w", err)
		}
	}
	if err := d.step("settled"); err != nil {
		return false, err
	}
	_, err = d.exec(ctx, d.db, `UPDATE checkpoint_restores SET state = ? WHERE id = ? AND state = ?`,
		stateTakenBack, r.id, stateTakingBack)
	return false, err
}

// wasAt reports whether the directory of a manager was at a path where nothing is
// now: its history, which goes on where it was moved to, has records from there.
func wasAt(ctx context.Context, m *manager.FileSnapshotManager, path string) (bool, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for s, err := range inside.Store(m).Snapshots(ctx) {
		if err != nil {
			return false, err
		}
		if s.Worktree == m.Project().Worktree && s.Root == path {
			return true, nil
		}
	}
	return false, nil
}

// filesBack takes back what a restore has done to the files. What somebody has
// changed since stays as it is.
func (d *DB) filesBack(ctx context.Context, m *manager.FileSnapshotManager, r *restore) error {
	undo, redo, cutOff, err := inside.Of(m).Restores(ctx)
	if err != nil {
		return err
	}
	if cutOff != nil {
		ours := cutOff.Label == r.id
		result, err := m.FinishRestore(ctx, ours)
		if err != nil {
			return err
		}
		if ours {
			return d.checkBack(r, result)
		}
		if undo, redo, _, err = inside.Of(m).Restores(ctx); err != nil {
			return err
		}
	}
	var result *manager.RestoreResult
	switch {
	case r.undoes == "" && undo != nil && undo.Label == r.id:
		result, err = m.Undo(ctx, &manager.UndoOptions{OnDirty: rollback.Skip, Label: r.id})
	case r.undoes != "" && redo != nil && redo.Label == r.id:
		result, err = m.Redo(ctx, &manager.UndoOptions{OnDirty: rollback.Skip, Label: r.undoes})
	case r.undoes == "" && redo != nil && redo.Label == r.id, r.undoes != "" && undo != nil && undo.Label == r.undoes:
		return nil // it was taken back, and nobody has written that down
	default:
		return d.checkBuried(ctx, m, r)
	}
	if err != nil {
		return err
	}
	return d.checkBack(r, result)
}

// checkBack says what was not taken back of the files.
func (d *DB) checkBack(r *restore, result *manager.RestoreResult) error {
	if len(result.Failed) > 0 {
		return &FilesError{ErrFiles, result}
	}
	if len(result.Skipped) > 0 {
		d.log.Warn("files that were changed meanwhile stay as they are", "restore", r.id, "files", result.Skipped)
	}
	return nil
}

// checkBuried notes it if a restore has changed files, and something else was
// restored on top of that: then whoever did so has said what is to be there. Else
// it had not come so far.
func (d *DB) checkBuried(ctx context.Context, m *manager.FileSnapshotManager, r *restore) error {
	for moment, err := range m.Timeline(ctx) {
		if errors.Is(err, manager.ErrNoSession) {
			return nil
		}
		if err != nil {
			return err
		}
		if s := moment.Snapshot; s != nil && s.Label == r.id && s.Tree != s.Base.Tree {
			d.log.Warn("files were restored by other means since a restore that was cut off, and stay", "restore", r.id)
			r.buried = true
			return nil
		}
	}
	return nil
}
