package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// A Checkpoint stands before a turn of an agent.
type Checkpoint struct {
	ID         string    `json:"id"`
	ChatID     string    `json:"chat_id"`
	SessionID  string    `json:"session_id"`
	WorktreeID string    `json:"worktree_id"` // "": it is gone
	MessageID  string    `json:"message_id"`  // its anchor: the message that the turn was going to write
	CommitSHA  string    `json:"commit_sha"`  // the hash of the files' tree before the turn
	Label      string    `json:"label"`
	CreatedAt  time.Time `json:"created_at"`

	seq    int64  // order of creation
	anchor *int64 // place of the anchor in its chat; nil: a table of the runtime's own did not say
	point  string // of the manager: the newest step before the turn
}

// An Anchor says before what a checkpoint is to stand.
type Anchor struct {
	ChatID     string `json:"chat_id"`
	SessionID  string `json:"-"`
	WorktreeID string `json:"worktree_id"` // "": the turn runs in none, and gets no checkpoint

	// MessageID is the first message that a restore deletes: the answer that the turn
	// is going to write, or the question before it; it is there already.
	MessageID string `json:"message_id"`
	Label     string `json:"label"`

	// Tree is that of the files, as OnTurnStart of the chat's manager has it in
	// its result.
	Tree store.ID `json:"tree_hash"`
}

// BeforeTurn opens a turn, as [manager.FileSnapshotManager.OnTurnStart] does, and
// makes a checkpoint of what is before it; at.Tree is not looked at. A checkpoint
// that cannot be made is logged, and nil: the turn goes on. The error is that of
// OnTurnStart, or matches [ErrBusy] while a restore runs in the worktree, or
// [ErrUndecided] if one was cut off and cannot be settled: its files may be those
// of either state, and no agent should build on them. While the database does not
// answer only what this DB has seen is known.
//
// A runtime that marks its agents as running does so before, and takes the mark
// away when the turn ends, and when it starts itself: as long as it is there no
// restore is done.
func (d *DB) BeforeTurn(ctx context.Context, m *manager.FileSnapshotManager, turn *manager.Turn,
	at *Anchor) (*Checkpoint, *manager.Result, error) {
	if at.WorktreeID != "" {
		err := d.settleFirst(ctx, m, at)
		if errors.Is(err, ErrUndecided) || errors.Is(err, ErrBusy) {
			return nil, nil, fmt.Errorf("begin a turn of chat %q: %w", at.ChatID, err)
		}
		if err != nil { // where the database does not answer there is no checkpoint either
			d.log.Warn("whether a restore was cut off is not known", "worktree", at.WorktreeID, "err", err)
		}
	}
	result, err := m.OnTurnStart(ctx, turn)
	if errors.Is(err, manager.ErrLocked) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return nil, nil, err
	}
	here := *at
	here.Tree = result.Tree
	c, err := d.Create(ctx, m, &here)
	switch {
	case errors.Is(err, ErrNoWorktree) && at.WorktreeID == "":
		// It runs in the user's own directory.
	case err != nil:
		d.log.Warn("no checkpoint for this turn", "session", at.SessionID, "chat", at.ChatID, "err", err)
	}
	return c, result, nil
}

// settleFirst settles what was cut off in the worktree of a turn that is to begin.
func (d *DB) settleFirst(ctx context.Context, m *manager.FileSnapshotManager, at *Anchor) error {
	list, err := d.unsettled(ctx, at.WorktreeID, m.Project().Root)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if id := d.unsure[m.Project().Root]; id != "" {
			err = &UndecidedError{id, err}
		}
		return err
	}
	if len(list) == 0 {
		return nil
	}
	if err := d.checkPlace(ctx, m, at); err != nil {
		return &UndecidedError{list[0].id, err}
	}
	unlock, err := lock(m)
	if err != nil {
		return err
	}
	return errors.Join(d.settleAll(ctx, m, at.WorktreeID), unlock())
}

// checkPlace says so if a manager is not that of an anchor's chat in its worktree.
func (d *DB) checkPlace(ctx context.Context, m *manager.FileSnapshotManager, at *Anchor) error {
	path, err := d.worktree(ctx, at.WorktreeID)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
		was, werr := wasAt(ctx, m, path)
		if werr != nil {
			return werr
		}
		if !was {
			return fmt.Errorf("%w: %w", ErrNoWorktree, err)
		}
		if err := d.moveWorktree(ctx, at.WorktreeID, path, m.Project().Root); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if real != m.Project().Root {
		return fmt.Errorf("worktree %q is in %q, and the manager's directory is %q",
			at.WorktreeID, real, m.Project().Root)
	}
	if m.Session() != at.ChatID {
		return fmt.Errorf("the manager is that of session %q", m.Session())
	}
	return nil
}

// Create makes a checkpoint of a turn that OnTurnStart of m, the manager of the
// chat in the worktree, has begun. With nil it opens one, by Options.Manager, and
// releases it: so a checkpoint can be made of a turn that a runtime in another process
// has begun by its own means. A runtime logs the error and goes on with the turn. It
// matches [ErrNoWorktree], [ErrAnchor] if the chat has no such message, [ErrNotFound]
// if the session's ID is none that the database could have, and [manager.ErrUnknown]
// if the store has no such tree.
func (d *DB) Create(ctx context.Context, m *manager.FileSnapshotManager, at *Anchor) (*Checkpoint, error) {
	create := d.create
	if m == nil {
		create = d.createAlone
	}
	c, err := create(ctx, m, at)
	if isNoID(err) {
		err = fmt.Errorf("session %q: %w", at.SessionID, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("create a checkpoint of chat %q: %w", at.ChatID, err)
	}
	return c, nil
}

func (d *DB) create(ctx context.Context, m *manager.FileSnapshotManager, at *Anchor) (*Checkpoint, error) {
	if at.WorktreeID == "" {
		return nil, ErrNoWorktree
	}
	if err := d.checkPlace(ctx, m, at); err != nil {
		return nil, err
	}
	if _, err := m.Resolve(ctx, at.Tree.String()); err != nil {
		return nil, err
	}
	point, err := m.Resolve(ctx, "@")
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{ID: newID(), ChatID: at.ChatID, SessionID: at.SessionID, WorktreeID: at.WorktreeID,
		MessageID: at.MessageID, CommitSHA: at.Tree.String(), Label: at.Label, point: point.EntryID}
	if point.EntryID == "" {
		c.point = "start"
	}
	place, err := d.place(ctx, d.db, at.ChatID, at.MessageID)
	if err != nil {
		return nil, err
	}
	c.anchor = &place
	var made timestamp
	err = d.queryRow(ctx, d.db, `INSERT INTO checkpoints (id, chat_id, session_id, worktree_id, message_id, commit_sha, label, anchor_order, point)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq, created_at`,
		c.ID, c.ChatID, c.SessionID, c.WorktreeID, c.MessageID, c.CommitSHA, c.Label, place,
		c.point).Scan(&c.seq, &made)
	if err != nil {
		return nil, err
	}
	c.CreatedAt = made.Time
	return c, nil
}

// createAlone is create without a manager: it opens one.
func (d *DB) createAlone(ctx context.Context, _ *manager.FileSnapshotManager, at *Anchor) (*Checkpoint, error) {
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

// moveWorktree notes that the directory of a worktree is at another path now: its
// history has gone on there.
func (d *DB) moveWorktree(ctx context.Context, id, from, to string) error {
	s := &d.schema
	_, err := d.exec(ctx, d.db, `UPDATE `+quote(s.Worktrees)+` SET `+quote(s.WorktreePath)+` = ? WHERE `+
		quote(s.WorktreeID)+` = ? AND `+quote(s.WorktreePath)+` = ?`, to, id, from)
	if err != nil {
		return fmt.Errorf("worktree %q, which was moved: %w", id, err)
	}
	d.log.Info("a worktree was moved", "worktree", id, "from", from, "to", to)
	return nil
}

// worktree returns where a worktree is. The error matches ErrNoWorktree if there
// is no such worktree.
func (d *DB) worktree(ctx context.Context, id string) (path string, err error) {
	s := &d.schema
	err = d.queryRow(ctx, d.db, `SELECT `+quote(s.WorktreePath)+` FROM `+quote(s.Worktrees)+` WHERE `+
		quote(s.WorktreeID)+` = ?`, id).Scan(&path)
	if errors.Is(err, sql.ErrNoRows) || isNoID(err) {
		err = ErrNoWorktree
	}
	if err != nil {
		return "", fmt.Errorf("worktree %q: %w", id, err)
	}
	return path, nil
}

// place returns where in its chat a message is. The error matches ErrAnchor if
// the chat has no such message.
func (d *DB) place(ctx context.Context, q querier, chat, message string) (n int64, err error) {
	s := &d.schema
	err = d.queryRow(ctx, q, `SELECT `+quote(s.MessageOrder)+` FROM `+quote(s.Messages)+` WHERE `+quote(s.MessageID)+
		` = ? AND `+quote(s.MessageChat)+` = ?`,
		message, chat).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) || isNoID(err) {
		err = fmt.Errorf("message %q: %w", message, ErrAnchor)
	}
	return n, err
}

const checkpointColumns = `seq, id, chat_id, session_id, worktree_id, message_id, commit_sha, label, created_at, anchor_order, point`

func scanCheckpoint(row interface{ Scan(...any) error }) (*Checkpoint, error) {
	var c Checkpoint
	var session, worktree, message, label, point sql.NullString
	var made timestamp
	if err := row.Scan(&c.seq, &c.ID, &c.ChatID, &session, &worktree, &message, &c.CommitSHA, &label, &made,
		&c.anchor, &point); err != nil {
		return nil, err
	}
	c.SessionID, c.WorktreeID, c.MessageID, c.Label, c.point, c.CreatedAt =
		session.String, worktree.String, message.String, label.String, point.String, made.Time
	return &c, nil
}

// checkpoint returns a checkpoint of a session.
func (d *DB) checkpoint(ctx context.Context, q querier, session, id string) (*Checkpoint, error) {
	c, err := scanCheckpoint(d.queryRow(ctx, q, `SELECT `+checkpointColumns+
		` FROM checkpoints WHERE id = ? AND session_id = ?`, id, session))
	if errors.Is(err, sql.ErrNoRows) || isNoID(err) {
		return nil, fmt.Errorf("checkpoint %q of session %q: %w", id, session, ErrNotFound)
	}
	return c, err
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

// ListOptions are the choices at List.
type ListOptions struct {
	ChatID string // default: of all chats of the session
	Limit  int    // at most so many; default 50, at most 200
	Cursor string // next of the page before
}

// List lists a page of the checkpoints of a session, oldest first; next is the Cursor
// of the page after it, "" if there is none. opts may be nil. After a restore its
// checkpoint is still there, and leads to the same place, though the message that
// it names is in the archive; the next turn adds one beside it. A cursor that is
// none matches [ErrNotFound].
func (d *DB) List(ctx context.Context, sessionID string, opts *ListOptions) (page []*Checkpoint, next string,
	err error) {
	if opts == nil {
		opts = new(ListOptions)
	}
	limit := opts.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	var after int64
	if opts.Cursor != "" {
		if after, err = strconv.ParseInt(opts.Cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("list checkpoints: cursor %q: %w", opts.Cursor, ErrNotFound)
		}
	}
	query, args := `SELECT `+checkpointColumns+` FROM checkpoints WHERE session_id = ? AND seq > ?`,
		[]any{sessionID, after}
	if opts.ChatID != "" {
		query += ` AND chat_id = ?`
		args = append(args, opts.ChatID)
	}
	rows, err := d.db.QueryContext(ctx, d.bind(query+` ORDER BY seq LIMIT ?`), append(args, limit+1)...)
	if isNoID(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("list checkpoints: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		c, err := scanCheckpoint(rows)
		if err != nil {
			return nil, "", fmt.Errorf("list checkpoints: %w", err)
		}
		page = append(page, c)
	}
	if err := rows.Err(); isNoID(err) {
		return nil, "", nil
	} else if err != nil {
		return nil, "", fmt.Errorf("list checkpoints: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = strconv.FormatInt(page[limit-1].seq, 10)
	}
	return page, next, nil
}
