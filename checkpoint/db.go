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
	Manager func(ctx context.Context, path, chat string) (m *manager.FileSnapshotManager,
		release func() error, err error)

	// Reset drops what the agents of a chat remember beside the transcript, so that
	// the next turn begins from that. It reports whether there was anything. It may be
	// called in vain, and again. An error takes the restore back. nil: agents keep
	// nothing in memory.
	Reset func(ctx context.Context, chatID string) (bool, error)

	// Restored is called after a restore or an undo has been done, by the goroutine
	// that did it, to tell the clients of the runtime. nil: nobody is told.
	Restored func(ctx context.Context, sessionID, chatID string, r *Result)

	Schema  Schema       // the runtime's tables
	Runtime bool         // make those of them that are missing, and in PostgreSQL the order of messages
	Logger  *slog.Logger // nil: nothing is logged

	// Tables are statements that make more tables of the runtime, before Schema is
	// held against what is there. $id stands for Schema.IDType, $when for a time.
	Tables []string
}

// Open migrates a database and returns what keeps checkpoints in it. db stays the
// caller's. A schema of the runtime that does not fit is an error.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, opts *Options) (*DB, error) {
	if opts == nil || opts.Manager == nil {
		return nil, errors.New("open checkpoints: no Manager is given")
	}
	if dialect != SQLite && dialect != PostgreSQL {
		return nil, fmt.Errorf("open checkpoints: dialect %q: want %q or %q", dialect, SQLite, PostgreSQL)
	}
	d := &DB{db: db, dialect: dialect, schema: opts.Schema.withDefaults(dialect), opts: *opts, log: opts.Logger,
		unsure: make(map[string]string), step: func(string) error { return nil }}
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
	return append(d.reading(), "SET LOCAL lock_timeout = '500ms'", "LOCK TABLE "+strings.Join(tables, ", ")+
		" IN SHARE ROW EXCLUSIVE MODE")
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
	// of SQLite, which may have ended it itself
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
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
