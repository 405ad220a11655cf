package checkpoint

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// RestoreOptions are the choices at Restore and Undo.
type RestoreOptions struct {
	// OnDirty says what becomes of files that somebody else has changed. Default:
	// [rollback.Abort], with ErrDirty.
	OnDirty rollback.Policy `json:"on_dirty"`

	// Exact has all files be as they were, whoever changed them; not for Undo.
	Exact bool `json:"exact"`
	// AcrossHead goes on where the repository has another commit checked out; not
	// for Undo.
	AcrossHead bool `json:"across_head"`
	// SkipFiles leaves the files as they are: the transcript alone goes back.
	SkipFiles bool `json:"skip_files"`
	// Preview says what would be done, and does nothing but settle what was cut off;
	// Files.Aborted, Failed and HeadChanged say what stands against it.
	Preview bool `json:"preview"`
}

// A Result says what a restore, or the undo of one, has done or would do.
type Result struct {
	CheckpointID     string `json:"checkpoint_id"`
	MessagesDeleted  int64  `json:"messages_deleted"`
	MessagesRestored int64  `json:"messages_restored,omitempty"` // by an undo
	WorktreeReset    bool   `json:"worktree_reset"`              // files have been changed
	BackendReset     bool   `json:"backend_reset"`               // an agent has forgotten something

	RestoreID string                 `json:"restore_id,omitempty"` // for Undo; "": of a preview
	Undoes    string                 `json:"undoes,omitempty"`     // the restore that was taken back
	Preview   bool                   `json:"preview,omitempty"`
	Files     *manager.RestoreResult `json:"files"`
}

// States of a restore in the table checkpoint_restores.
const (
	stateBegun      = "begun"       // the files may be those of either state
	stateTakingBack = "taking back" // it will not be done; the files may be those of either state
	stateTakenBack  = "taken back"  // nothing is done
	stateDone       = "done"
	stateUndone     = "undone" // it was done, and undone
)

// A restore is a row of checkpoint_restores: the intent, and then the record, of
// a restore or of the undo of one.
type restore struct {
	seq            int64
	id, checkpoint string
	chat, session  string
	worktree       string
	directory      string // real path of the worktree, then
	undoes         string // the restore that this one takes back; "": it is a restore
	state          string
	anchor         int64 // messages from here on go, or come back
	newest         int64 // the newest message of the chat; noMessage
	files          bool  // it has changed files
	buried         bool  // on top of which others have restored: see checkBuried
}

// noMessage is before all messages.
const noMessage = -1

const restoreColumns = `seq, id, checkpoint_id, chat_id, session_id, worktree_id, directory, undoes, state, anchor_order, newest_order, files`

func scanRestore(row interface{ Scan(...any) error }) (*restore, error) {
	var r restore
	var undoes sql.NullString
	err := row.Scan(&r.seq, &r.id, &r.checkpoint, &r.chat, &r.session, &r.worktree, &r.directory, &undoes, &r.state,
		&r.anchor, &r.newest, &r.files)
	r.undoes = undoes.String
	return &r, err
}

// Restore takes a session's chat back to a checkpoint: the files, the transcript,
// and what the agents know. opts may be nil. With an error that does not match
// [ErrUndecided] nothing has been done, or it has been taken back.
//
// Errors match those of this package, [manager.ErrTurnOpen] and
// [manager.ErrHeadChanged], and are those of Options.Reset and of both stores.
func (d *DB) Restore(ctx context.Context, sessionID, checkpointID string, opts *RestoreOptions) (*Result, error) {
	result, err := d.restore(ctx, sessionID, checkpointID, opts)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return result, nil
}

func (d *DB) restore(ctx context.Context, sessionID, checkpointID string, opts *RestoreOptions) (*Result, error) {
	if opts == nil {
		opts = new(RestoreOptions)
	}
	c, err := d.checkpoint(ctx, d.db, sessionID, checkpointID)
	if err != nil {
		return nil, err
	}
	w, err := d.enter(ctx, c.WorktreeID, c.ChatID)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	// Whoever was there before may have removed it.
	if c, err = d.checkpoint(ctx, d.db, sessionID, checkpointID); err != nil {
		return nil, err
	}
	x := &run{DB: d, w: w, preview: opts.Preview, files: w.m.RestoreFiles, rows: d.removeRows}
	if opts.SkipFiles {
		x.files = nil
	}
	x.r = &restore{id: newID(), checkpoint: c.ID, chat: c.ChatID, session: c.SessionID, worktree: c.WorktreeID,
		directory: w.m.Project().Root}
	if x.r.anchor, err = d.anchor(ctx, c); err != nil {
		return nil, err
	}
	target := c.point
	if opts.Exact || target == "" {
		target = c.CommitSHA
	}
	return x.do(ctx, &manager.RestoreOptions{Target: target, Exact: opts.Exact, OnDirty: opts.OnDirty,
		AcrossHead: opts.AcrossHead})
}

// anchor returns where a checkpoint stands in its chat. A message that somebody
// has deleted still has had its place.
func (d *DB) anchor(ctx context.Context, c *Checkpoint) (int64, error) {
	n, err := d.place(ctx, d.db, c.ChatID, c.MessageID)
	if errors.Is(err, ErrAnchor) && c.anchor != nil {
		return *c.anchor, nil
	}
	return n, err
}

// Undo takes back a restore that was done last in its chat, and after which
// nobody has written a message: the transcript, the later checkpoints and the
// files are again what they were. What agents remembered is not. opts may be nil.
// Errors are those of Restore and [ErrFollowed].
func (d *DB) Undo(ctx context.Context, sessionID, restoreID string, opts *RestoreOptions) (*Result, error) {
	result, err := d.undo(ctx, sessionID, restoreID, opts)
	if err != nil {
		return nil, fmt.Errorf("undo restore: %w", err)
	}
	return result, nil
}

func (d *DB) undo(ctx context.Context, sessionID, restoreID string, opts *RestoreOptions) (*Result, error) {
	if opts == nil {
		opts = new(RestoreOptions)
	}
	old, err := d.done(ctx, sessionID, restoreID)
	if err != nil {
		return nil, err
	}
	w, err := d.enter(ctx, old.worktree, old.chat)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	if old, err = d.done(ctx, sessionID, restoreID); err != nil {
		return nil, err
	}
	if err := d.checkLast(ctx, d.db, old); err != nil {
		return nil, err
	}
	x := &run{DB: d, w: w, preview: opts.Preview, files: w.undo, rows: d.bringRowsBack}
	if !old.files || opts.SkipFiles {
		x.files = nil
	} else if last, _, _, err := inside.Of(w.m).Restores(ctx); err != nil {
		return nil, err
	} else if last == nil || last.Label != old.id {
		return nil, fmt.Errorf("%w: files were restored by other means since; with SkipFiles the transcript comes "+
			"back without them", ErrFollowed)
	}
	x.r = &restore{id: newID(), checkpoint: old.checkpoint, chat: old.chat, session: old.session,
		worktree: old.worktree, directory: w.m.Project().Root, undoes: old.id, anchor: old.anchor}
	return x.do(ctx, &manager.RestoreOptions{OnDirty: opts.OnDirty})
}

// LastRestore returns the ID of the restore of a chat that Undo may take back next.
// The error matches [ErrNotFound] if there is none.
func (d *DB) LastRestore(ctx context.Context, sessionID, chatID string) (restoreID string, err error) {
	err = d.queryRow(ctx, d.db, `SELECT id FROM checkpoint_restores WHERE session_id = ? AND chat_id = ? AND undoes IS NULL AND state = ? ORDER BY seq DESC LIMIT 1`,
		sessionID, chatID, stateDone).Scan(&restoreID)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("last restore of chat %q: %w", chatID, err)
	}
	return restoreID, err
}

// done returns a restore of a session that was done and not undone.
func (d *DB) done(ctx context.Context, session, id string) (*restore, error) {
	r, err := scanRestore(d.queryRow(ctx, d.db, `SELECT `+restoreColumns+
		` FROM checkpoint_restores WHERE id = ? AND session_id = ?`, id, session))
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("restore %q of session %q: %w", id, session, ErrNotFound)
	}
	if err == nil && (r.undoes != "" || r.state != stateDone) {
		err = fmt.Errorf("restore %q: %w: it is %s", id, ErrNotFound, r.state)
	}
	return r, err
}

// checkLast says so if something has followed a restore.
func (d *DB) checkLast(ctx context.Context, q querier, r *restore) error {
	newest, err := d.newest(ctx, q, r.chat)
	if err != nil {
		return err
	}
	if newest >= r.anchor {
		return fmt.Errorf("%w: there are new messages", ErrFollowed)
	}
	n := 0
	err = d.queryRow(ctx, q, `SELECT count(*) FROM checkpoint_restores WHERE chat_id = ? AND seq > ? AND undoes IS NULL AND state = ?`,
		r.chat, r.seq, stateDone).Scan(&n)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: another restore, which would have to be undone first", ErrFollowed)
	}
	return err
}

// newest returns the place of the newest message of a chat.
func (d *DB) newest(ctx context.Context, q querier, chat string) (n int64, err error) {
	s := &d.schema
	err = d.queryRow(ctx, q, `SELECT coalesce(max(`+quote(s.MessageOrder)+`), ?) FROM `+quote(s.Messages)+` WHERE `+
		quote(s.MessageChat)+` = ?`, noMessage, chat).Scan(&n)
	return n, err
}

// A workplace is a worktree while a restore has it for itself.
type workplace struct {
	m     *manager.FileSnapshotManager
	leave func()
}

// enter goes to a worktree, and settles what was cut off there.
func (d *DB) enter(ctx context.Context, worktree, chat string) (*workplace, error) {
	w, err := d.open(ctx, worktree, chat)
	if err != nil {
		return nil, err
	}
	if err = d.settleAll(ctx, w.m, worktree); err == nil {
		err = d.makeArchives(ctx)
	}
	if err != nil {
		w.leave()
		return nil, err
	}
	return w, nil
}

// open opens a worktree and locks it.
func (d *DB) open(ctx context.Context, worktree, chat string) (*workplace, error) {
	if worktree == "" {
		return nil, fmt.Errorf("%w: it is gone", ErrNoWorktree)
	}
	path, err := d.worktree(ctx, worktree)
	if err != nil {
		return nil, err
	}
	return d.openIn(ctx, path, chat)
}

// openIn is open for a directory.
func (d *DB) openIn(ctx context.Context, path, chat string) (*workplace, error) {
	m, release, err := d.opts.Manager(ctx, path, chat)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoWorktree, err)
	}
	if err != nil {
		return nil, err
	}
	if release == nil {
		release = func() error { return nil }
	}
	unlock, err := lock(m)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return &workplace{m, func() {
		if err := errors.Join(unlock(), release()); err != nil {
			d.log.Warn("leave a worktree", "path", path, "err", err)
		}
	}}, nil
}

// lock takes a worktree for a restore: no other is done meanwhile, and no turn
// begins.
func lock(m *manager.FileSnapshotManager) (unlock func() error, err error) {
	unlock, err = m.TryLock(manager.NoTurns)
	if errors.Is(err, manager.ErrLocked) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return unlock, err
}

// A run is a restore, or the undo of one, while it runs.
type run struct {
	*DB
	w       *workplace
	r       *restore
	preview bool
	// nil: no files are to be changed
	files func(ctx context.Context, opts *manager.RestoreOptions) (*manager.RestoreResult, error)
	rows  func(ctx context.Context, q querier, r *restore) (int64, error)
}

// do does it: files, backend, database, which decides.
func (x *run) do(ctx context.Context, opts *manager.RestoreOptions) (*Result, error) {
	if _, err := opts.OnDirty.MarshalText(); err != nil {
		return nil, err
	}
	opts.OnDirty = cmp.Or(opts.OnDirty, rollback.Abort)
	opts.Label = x.r.id
	if err := x.checkIdle(ctx, x.db, x.r.chat); err != nil {
		return nil, err
	}
	if open, err := x.w.m.OpenTurns(); err != nil {
		return nil, err
	} else if len(open) > 0 {
		return nil, fmt.Errorf("%w: a turn of %q is open", ErrRunning, open[0])
	}
	result := &Result{CheckpointID: x.r.checkpoint, Undoes: x.r.undoes, Preview: x.preview}
	// What stands against it is better found before anything is written.
	looked := *opts
	looked.Preview = true
	var err error
	result.Files, err = x.changeFiles(ctx, &looked)
	if x.preview && result.Files != nil {
		return result, x.count(ctx, result)
	}
	if err != nil {
		return nil, err
	}
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	settled := false
	defer func() {
		if !settled { // the backend panics
			x.settle(context.WithoutCancel(ctx), x.w.m, x.r) // Recover does it if this fails
		}
	}()
	err = x.change(ctx, opts, result)
	settled = true
	if err != nil {
		done, serr := x.settle(context.WithoutCancel(ctx), x.w.m, x.r)
		switch {
		case serr != nil:
			return nil, &UndecidedError{x.r.id, fmt.Errorf("%w; %w", err, serr)}
		case !done:
			return nil, err
		}
		x.log.Warn("a restore was done, and the database did not say so at first", "restore", x.r.id, "err", err)
	}
	result.RestoreID = x.r.id
	if x.opts.Restored != nil {
		x.opts.Restored(context.WithoutCancel(ctx), x.r.session, x.r.chat, result)
	}
	return result, nil
}

// changeFiles changes the files, or says what stands against it. Where that is
// files there is a result, too.
func (x *run) changeFiles(ctx context.Context, opts *manager.RestoreOptions) (*manager.RestoreResult, error) {
	if x.files == nil {
		return &manager.RestoreResult{Restored: []string{}, Deleted: []string{}, Skipped: []string{}, Dirty: []string{},
			Items: []rollback.Item{}, Preview: opts.Preview}, nil
	}
	files, err := x.files(ctx, opts)
	if errors.Is(err, manager.ErrTurnOpen) {
		err = fmt.Errorf("%w: %w", ErrRunning, err)
	}
	if err != nil {
		return nil, err
	}
	if files.Aborted {
		return files, &FilesError{ErrDirty, files}
	}
	if len(files.Failed) > 0 {
		return files, &FilesError{ErrFiles, files}
	}
	return files, nil
}

// count says in the result of a preview what would be done to the transcript.
func (x *run) count(ctx context.Context, result *Result) error {
	s := &x.schema
	if x.r.undoes != "" {
		return x.queryRow(ctx, x.db, `SELECT count(*) FROM `+quote(archiveOf(s.Messages))+` WHERE `+quote(ofRestore)+
			` = ?`, x.r.undoes).Scan(&result.MessagesRestored)
	}
	return x.queryRow(ctx, x.db, `SELECT count(*) FROM `+quote(s.Messages)+` WHERE `+quote(s.MessageChat)+` = ? AND `+
		quote(s.MessageOrder)+` >= ?`,
		x.r.chat, x.r.anchor).Scan(&result.MessagesDeleted)
}

// begin writes down that the restore has begun.
func (x *run) begin(ctx context.Context) (err error) {
	r := x.r
	if err := x.step("begin"); err != nil {
		return err
	}
	if r.newest, err = x.newest(ctx, x.db, r.chat); err != nil {
		return err
	}
	undoes := sql.NullString{String: r.undoes, Valid: r.undoes != ""}
	_, err = x.exec(ctx, x.db, `INSERT INTO checkpoint_restores (id, checkpoint_id, chat_id, session_id, worktree_id, directory, undoes, state, anchor_order, newest_order)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.id, r.checkpoint, r.chat, r.session, r.worktree, r.directory, undoes, stateBegun, r.anchor, r.newest)
	return err // even if it is there: whoever comes next finds that nothing was done
}

// change does what a restore is about.
func (x *run) change(ctx context.Context, opts *manager.RestoreOptions, result *Result) (err error) {
	if err := x.step("files"); err != nil {
		return err
	}
	if result.Files, err = x.changeFiles(ctx, opts); err != nil {
		return err
	}
	result.WorktreeReset = result.Files.Snapshot != nil
	if err := x.step("backend"); err != nil {
		return err
	}
	if x.opts.Reset != nil {
		if result.BackendReset, err = x.opts.Reset(ctx, x.r.chat); err != nil {
			return fmt.Errorf("reset the backend: %w", err)
		}
	}
	if err := x.step("rows"); err != nil {
		return err
	}
	err = x.tx(ctx, x.moving(), func(q querier) error {
		n, err := x.rows(ctx, q, x.r)
		if err != nil {
			return err
		}
		if result.MessagesDeleted = n; x.r.undoes != "" {
			result.MessagesDeleted, result.MessagesRestored = 0, n
		}
		if err := x.crash(ctx, q, x.r.chat); err != nil {
			return err
		}
		n, err = x.exec(ctx, q, `UPDATE checkpoint_restores SET state = ?, files = ? WHERE id = ? AND state = ?`,
			stateDone, result.WorktreeReset, x.r.id, stateBegun)
		if err == nil && n != 1 {
			err = errors.New("somebody else has taken it back")
		}
		return err
	})
	if err != nil {
		return err
	}
	return x.step("done")
}

// crash marks the agents of a chat: they begin anew.
func (d *DB) crash(ctx context.Context, q querier, chat string) error {
	s := &d.schema
	if s.AgentSessions == None {
		return nil
	}
	_, err := d.exec(ctx, q, `UPDATE `+quote(s.AgentSessions)+` SET `+quote(s.AgentStatus)+` = ? WHERE `+
		quote(s.AgentChat)+` = ?`, s.Crashed, chat)
	return err
}

// checkIdle says so if an agent of the chat is at work.
func (d *DB) checkIdle(ctx context.Context, q querier, chat string) error {
	s := &d.schema
	if s.AgentSessions == None {
		return nil
	}
	n := 0
	err := d.queryRow(ctx, q, `SELECT count(*) FROM `+quote(s.AgentSessions)+` WHERE `+quote(s.AgentChat)+` = ? AND `+
		quote(s.AgentStatus)+` = ?`, chat, s.Running).Scan(&n)
	if err == nil && n > 0 {
		err = fmt.Errorf("chat %q: %w", chat, ErrRunning)
	}
	return err
}

// checkUnchanged says so if something has come to a chat, or an agent has begun.
func (d *DB) checkUnchanged(ctx context.Context, q querier, r *restore) error {
	newest, err := d.newest(ctx, q, r.chat)
	if err == nil && newest != r.newest {
		err = fmt.Errorf("chat %q: %w", r.chat, ErrChanged)
	}
	if err != nil {
		return err
	}
	return d.checkIdle(ctx, q, r.chat)
}

// removals returns what a restore deletes, by table.
func (d *DB) removals(r *restore, c *Checkpoint) map[string]*removal {
	s := &d.schema
	after := quote(s.MessageChat) + ` = ? AND @.` + quote(s.MessageOrder) + ` >= ?`
	all := map[string]*removal{
		s.Messages: {s.Messages, `@.` + after, []any{r.chat, r.anchor}},
		ownTable:   {ownTable, `@.chat_id = ? AND @.seq > ?`, []any{r.chat, c.seq}},
	}
	for _, p := range s.Parts {
		all[p.Table] = &removal{p.Table, `@.` + quote(p.Message) + ` IN (SELECT m.` + quote(s.MessageID) +
			` FROM ` + quote(s.Messages) +
			` AS m WHERE m.` + strings.ReplaceAll(after, "@", "m") + `)`, []any{r.chat, r.anchor}}
	}
	return all
}

// removeRows moves what comes at and after a checkpoint to the archive. It
// returns the number of messages.
func (d *DB) removeRows(ctx context.Context, q querier, r *restore) (n int64, err error) {
	if err := d.checkUnchanged(ctx, q, r); err != nil {
		return 0, err
	}
	c, err := d.checkpoint(ctx, q, r.session, r.checkpoint)
	if err != nil {
		return 0, err
	}
	refs, tables, err := d.checkMovable(ctx, q) // the runtime may have changed its tables since
	if err != nil {
		return 0, err
	}
	removals := d.removals(r, c)
	if err := d.checkStaying(ctx, q, refs, removals); err != nil {
		return 0, err
	}
	for _, table := range tables {
		moved, err := d.archive(ctx, q, r.id, removals[table])
		if err != nil {
			return 0, err
		}
		if table == d.schema.Messages {
			n = moved
		}
	}
	for _, table := range slices.Backward(tables) {
		if err := d.delete(ctx, q, removals[table]); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// bringRowsBack is removeRows for the undo of a restore.
func (d *DB) bringRowsBack(ctx context.Context, q querier, r *restore) (n int64, err error) {
	if err := d.checkUnchanged(ctx, q, r); err != nil {
		return 0, err
	}
	old, err := scanRestore(d.queryRow(ctx, q, `SELECT `+restoreColumns+` FROM checkpoint_restores WHERE id = ?`,
		r.undoes))
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("restore %q: %w: it was forgotten", r.undoes, ErrNotFound)
	}
	if err == nil {
		err = d.checkLast(ctx, q, old)
	}
	if err != nil {
		return 0, err
	}
	_, tables, err := d.checkMovable(ctx, q)
	if err != nil {
		return 0, err
	}
	for _, table := range tables {
		back, err := d.bringBack(ctx, q, r.undoes, table)
		if err != nil {
			return 0, err
		}
		if table == d.schema.Messages {
			n = back
		}
	}
	changed, err := d.exec(ctx, q, `UPDATE checkpoint_restores SET state = ? WHERE id = ? AND state = ?`,
		stateUndone, r.undoes, stateDone)
	if err == nil && changed != 1 {
		err = fmt.Errorf("restore %q: %w: it is not done any more", r.undoes, ErrNotFound)
	}
	return n, err
}

// undo is the manager's Undo, for a run.
func (w *workplace) undo(ctx context.Context, o *manager.RestoreOptions) (*manager.RestoreResult, error) {
	return w.m.Undo(ctx, &manager.UndoOptions{OnDirty: o.OnDirty, Force: o.Force, Preview: o.Preview,
		Label: o.Label, Append: o.Append})
}
