package checkpoint

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/boocode/filestore/manager"
)

// A DB keeps the checkpoints of a runtime's conversations in its database. It may
// be used from several goroutines.
type DB struct {
	db      *sql.DB
	dialect Dialect
	schema  Schema
	opts    Options
	log     *slog.Logger

	mu     sync.Mutex        // guards unsure
	unsure map[string]string // the restore that is not settled, by directory, as far as this process knows

	// step is called between the steps of a restore, by name: an error is one of
	// that step. For tests.
	step func(name string) error
}

// Options are the choices at Open.
type Options struct {
	// Manager returns the manager of the session of that name in a directory, and
	// what to call when it is not needed any more, or nil: a chat is a session. It
	// must be given. An error that matches [fs.ErrNotExist] says that the directory
	// is gone.
	Manager func(ctx context.Context, path, chat string) (m *manager.FileSnapshotManager, release func() error, err error)

	Backend  Backend      // nil: agents keep nothing in memory
	Notifier Notifier     // nil: nobody is told
	Schema   Schema       // the runtime's tables
	Runtime  bool         // make those of them that are missing, and in PostgreSQL the order of messages
	Tables   []string     // statements that make more tables of the runtime, before Schema is held against what is there; $id stands for Schema.IDType, $when for a time
	Logger   *slog.Logger // nil: nothing is logged
}

// A Backend holds what the agents of a chat remember beside the transcript.
type Backend interface {
	// Reset drops that, so that the next turn begins from the transcript. It
	// reports whether there was anything. It may be called in vain, and again.
	// An error takes the restore back.
	Reset(ctx context.Context, chatID string) (bool, error)
}

// A Notifier tells the clients of a runtime.
type Notifier interface {
	// Restored is called after a restore or an undo has been done, by the
	// goroutine that did it.
	Restored(ctx context.Context, e *Event)
}

// An Event is a restore, or the undo of one, that has been done.
type Event struct {
	SessionID string
	ChatID    string
	Result    *Result
}

// Errors to match with errors.Is. After each the state is the old one, but for
// ErrUndecided.
var (
	// ErrNotFound: the session has no such checkpoint or restore.
	ErrNotFound = errors.New("not found")
	// ErrNoWorktree: the turn has no worktree, or it is gone.
	ErrNoWorktree = errors.New("no worktree")
	// ErrAnchor: nobody knows where in the transcript the checkpoint is.
	ErrAnchor = errors.New("the message of the checkpoint is not known")
	// ErrBusy: another restore runs in the worktree.
	ErrBusy = errors.New("another restore is running")
	// ErrRunning: an agent is at work in the chat or in the worktree.
	ErrRunning = errors.New("an agent is at work")
	// ErrDirty: somebody else has changed files. The error is a *FilesError.
	ErrDirty = errors.New("files were changed by others")
	// ErrFiles: some files cannot be restored. The error is a *FilesError.
	ErrFiles = errors.New("files cannot be restored")
	// ErrChanged: the chat has changed while it was restored, or its tables were
	// in use all the time.
	ErrChanged = errors.New("the chat has changed meanwhile")
	// ErrFollowed: a restore cannot be undone any more, because something has
	// followed it.
	ErrFollowed = errors.New("something has followed the restore")
	// ErrUndecided: whether the old state or the new one holds is not known
	// before the database answers, or the files can be written. The error is an
	// *UndecidedError, and Outcome tells then.
	ErrUndecided = errors.New("it is not decided whether the restore was done")
)

// An UndecidedError is about a restore, or an undo, that may have been done. It
// matches [ErrUndecided].
type UndecidedError struct {
	RestoreID string // for Outcome
	Err       error
}

func (e *UndecidedError) Error() string { return ErrUndecided.Error() + ": " + e.Err.Error() }

func (e *UndecidedError) Unwrap() []error { return []error{ErrUndecided, e.Err} }

// A FilesError says which files stand against a restore. It matches [ErrDirty]
// or [ErrFiles].
type FilesError struct {
	Err   error
	Files *manager.RestoreResult // of what would have been done; see Dirty, Failed
}

func (e *FilesError) Error() string {
	list := e.Files.Dirty
	if errors.Is(e.Err, ErrFiles) {
		list = e.Files.Failed
	}
	const most = 3
	more := ""
	if len(list) > most {
		more = fmt.Sprintf(" and %d more", len(list)-most)
		list = list[:most]
	}
	quoted := make([]string, len(list))
	for i, f := range list {
		quoted[i] = strconv.Quote(f)
	}
	return fmt.Sprintf("%v: %s%s", e.Err, strings.Join(quoted, ", "), more)
}

func (e *FilesError) Unwrap() error { return e.Err }

// Open migrates a database and returns what keeps checkpoints in it. db stays the
// caller's. A schema of the runtime that does not fit is an error.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, opts *Options) (*DB, error) {
	if opts == nil || opts.Manager == nil {
		return nil, errors.New("open checkpoints: no Manager is given")
	}
	if dialect != SQLite && dialect != PostgreSQL {
		return nil, fmt.Errorf("open checkpoints: dialect %q: want %q or %q", dialect, SQLite, PostgreSQL)
	}
	d := &DB{db: db, dialect: dialect, schema: opts.Schema.withDefaults(dialect), opts: *opts, log: opts.Logger, unsure: make(map[string]string), step: func(string) error { return nil }}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	err := d.schema.check()
	if err == nil {
		err = d.migrate(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoints: %w", err)
	}
	return d, nil
}

// A querier is a connection or a pool of them.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// bind gives a statement the placeholders of the dialect for its question marks.
func (d *DB) bind(query string) string {
	if d.dialect == SQLite {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

func (d *DB) exec(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	r, err := q.ExecContext(ctx, d.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (d *DB) queryRow(ctx context.Context, q querier, query string, args ...any) *sql.Row {
	return q.QueryRowContext(ctx, d.bind(query), args...)
}

// maxTries is how often a transaction is tried that others stand in the way of,
// and tryAgain how long it waits between.
const (
	maxTries = 20
	tryAgain = 20 * time.Millisecond
)

// reading begins a transaction that sees one state of the database; in SQLite it
// is the only one that writes.
func (d *DB) reading() []string {
	if d.dialect == SQLite {
		return []string{"BEGIN IMMEDIATE"}
	}
	return []string{"BEGIN ISOLATION LEVEL REPEATABLE READ"}
}

// moving begins one in which nobody else changes the tables of which rows are
// moved: not in a transaction that has begun before either, whose rows could not
// be seen. Each lock is given up sooner than PostgreSQL looks for deadlocks, 1 s, so
// that the runtime's transaction is hardly ever the one to go.
func (d *DB) moving() []string {
	if d.dialect == SQLite {
		return d.reading()
	}
	tables := d.moved()
	if d.schema.AgentSessions != None {
		tables = append(tables, d.schema.AgentSessions)
	}
	for i := range tables {
		tables[i] = quote(tables[i])
	}
	return append(d.reading(), "SET LOCAL lock_timeout = '500ms'", "LOCK TABLE "+strings.Join(tables, ", ")+" IN SHARE ROW EXCLUSIVE MODE")
}

// altering begins one that makes tables, or changes them: one at a time, which sees
// what the one before has made.
func (d *DB) altering() []string {
	if d.dialect == SQLite {
		return d.reading()
	}
	return []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_advisory_xact_lock(hashtext('checkpoint'))"}
}

// tx runs fn in a transaction. Where another is in the way it is tried again.
// After an error it may have been done.
func (d *DB) tx(ctx context.Context, begin []string, fn func(q querier) error) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for try := 1; ; try++ {
		err := txOnce(ctx, conn, begin, fn)
		if err == nil || !isConflict(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("%w: %d transactions in vain: %w", ErrChanged, try, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(tryAgain):
		}
	}
}

func txOnce(ctx context.Context, conn *sql.Conn, begin []string, fn func(q querier) error) (err error) {
	done := false
	defer func() {
		if !done { // also after an error of BEGIN, which may have been done, and after a panic
			rollBack(ctx, conn)
		}
	}()
	for _, st := range begin {
		if _, err := conn.ExecContext(ctx, st); err != nil {
			return err
		}
	}
	if err := fn(conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err // it may have been done
	}
	done = true
	return nil
}

// rollBack ends a transaction, if there is one. A connection that cannot do so is
// dropped by the pool, which ends it, too.
func rollBack(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	_, err := conn.ExecContext(ctx, "ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") { // of SQLite, which may have ended it itself
		conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// isConflict reports whether a transaction of PostgreSQL failed because of
// another: serialization_failure, deadlock_detected, lock_not_available.
func isConflict(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && slices.Contains([]string{"40001", "40P01", "55P03"}, state.SQLState())
}

// isNoID reports whether an ID is none of the type that the database has.
func isNoID(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "22P02" // invalid_text_representation
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// A timestamp scans what either database has for a time.
type timestamp struct{ time.Time }

func (t *timestamp) Scan(v any) (err error) {
	switch v := v.(type) {
	case time.Time:
		t.Time = v.UTC()
	case string:
		t.Time, err = time.Parse(time.RFC3339Nano, v)
	default:
		err = fmt.Errorf("time: cannot read a %T", v)
	}
	return err
}
