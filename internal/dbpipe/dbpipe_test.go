package dbpipe

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

func start() (io.ReadWriteCloser, error) { return Here(), nil }

func open(t *testing.T, driver, dsn string) *sql.DB {
	db := sql.OpenDB(NewConnector(driver, dsn, start))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestValuesArriveAsTheyAre(t *testing.T) {
	now := time.Date(2026, 11, 25, 1, 2, 3, 456789012, time.FixedZone("", 3600))
	for _, want := range []driver.Value{nil, int64(math.MinInt64), int64(math.MaxInt64), 0.1, math.Inf(-1),
		math.SmallestNonzeroFloat64, true, false, "", "a\xff\x00\u2028", []byte(nil), []byte{}, []byte{0, 255}, now} {
		v, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back value
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		got, err := back.decode()
		if at, ok := got.(time.Time); ok && at.Equal(now) &&
			at.Format(time.RFC3339Nano) == now.Format(time.RFC3339Nano) {
			got = now
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%#v arrives as %#v, %v, by %s", want, got, err, line)
		}
	}
	if v, err := encode(int32(1)); err == nil {
		t.Errorf("an int32, which is no driver.Value, is passed on as %v", v)
	}
	if v, err := (value{Kind: "complex"}).decode(); err == nil {
		t.Errorf("a value of an unknown kind is %v", v)
	}
}

// TestSQLite: statements, transactions and errors are as with the driver itself.
func TestSQLite(t *testing.T) {
	db := open(t, "sqlite", filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	if err := db.PingContext(ctx); err != nil {
		t.Fatal(err)
	}
	must := func(on interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, query string, args ...any) int64 {
		t.Helper()
		r, err := on.ExecContext(ctx, query, args...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	must(db, `CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)`)
	if n := must(db, `INSERT INTO t VALUES (?, ?), (2, NULL)`, 1, []byte{0, 255}); n != 2 {
		t.Errorf("%d rows were inserted, want 2", n)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must(conn, "BEGIN IMMEDIATE")
	must(conn, `DELETE FROM t`)
	must(conn, "ROLLBACK")
	conn.Close()
	rows, err := db.QueryContext(ctx, `SELECT n, b FROM t WHERE n < ? ORDER BY n`, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var n int
		var b []byte
		if err := rows.Scan(&n, &b); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%x:%v", n, b, b == nil))
	}
	if want := []string{"1:00ff:false", "2::true"}; rows.Err() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("rows %q, %v, want %q", got, rows.Err(), want)
	}
	if err := db.QueryRowContext(ctx, `SELECT n FROM t WHERE n = 3`).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO t VALUES (1, NULL)`); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("a row twice: %v", err)
	}
}

// TestManyAtOnce: neither side waits for the other to read while that waits for it.
func TestManyAtOnce(t *testing.T) {
	db := open(t, "sqlite", filepath.Join(t.TempDir(), "db"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			want := bytes.Repeat([]byte{7}, 1<<18)
			for range 5 {
				var got []byte
				if err := db.QueryRow(`SELECT ?`, want).Scan(&got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes come back as %d, %v", len(want), len(got), err)
				}
			}
		})
	}
	all.Wait()
}

// A faulty driver does what the statement says.
type faulty struct{ execs *atomic.Int64 }

func (f faulty) Open(string) (driver.Conn, error)        { return faultyConn(f), nil }
func (c faultyConn) Prepare(string) (driver.Stmt, error) { return nil, errNotHere }
func (c faultyConn) Begin() (driver.Tx, error)           { return nil, errNotHere }

type faultyConn struct{ execs *atomic.Int64 }

var errClose = errors.New("it will not close")

func (c faultyConn) Close() error {
	if c.execs.Load() < 0 {
		return errClose
	}
	return nil
}

// QueryContext answers with three rows, which come one after the other in the same bytes.
func (c faultyConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &faultyRows{b: []byte("0")}, nil
}

type faultyRows struct{ b []byte }

func (*faultyRows) Columns() []string { return []string{"b"} }
func (*faultyRows) Close() error      { return nil }

func (r *faultyRows) Next(row []driver.Value) error {
	if r.b[0] == '3' {
		return io.EOF
	}
	r.b[0]++
	row[0] = r.b
	return nil
}

type conflict struct{ error }

func (conflict) SQLState() string { return "40001" }

func (c faultyConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	n := c.execs.Add(1)
	switch {
	case query == "conflict":
		return nil, fmt.Errorf("wrapped: %w", conflict{errors.New("in the way")})
	case query == "lost" && n == 1:
		return nil, driver.ErrBadConn
	case query == "wait":
		<-ctx.Done()
		return nil, fmt.Errorf("interrupted: %w", ctx.Err())
	}
	return driver.RowsAffected(n), nil
}

var faultyExecs atomic.Int64

func init() { sql.Register("faulty", faulty{&faultyExecs}) }

func TestErrorsOfTheDriver(t *testing.T) {
	db := open(t, "faulty", "")
	_, err := db.Exec("conflict")
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "40001" || err.Error() != "wrapped: in the way" {
		t.Errorf("a conflict: %v", err)
	}

	// The driver says that nothing was done: database/sql tries another connection.
	faultyExecs.Store(0)
	if _, err := db.Exec("lost"); err != nil || faultyExecs.Load() != 2 {
		t.Errorf("a lost connection: %v after %d statements, want 2", err, faultyExecs.Load())
	}

	faultyExecs.Store(0)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for faultyExecs.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := db.ExecContext(ctx, "wait"); !errors.Is(err, context.Canceled) ||
		err.Error() != "interrupted: context canceled" {
		t.Errorf("a cancelled statement: %v", err)
	}
	if _, err := open(t, "no such driver", "").Exec(""); err == nil ||
		!strings.Contains(err.Error(), "unknown driver") {
		t.Errorf("a driver that is not there: %v", err)
	}
}

// TestProgramEnds: a statement under way has failed, and nobody says that it was not done; the
// next one finds another program.
func TestProgramEnds(t *testing.T) {
	started := 0
	var last *here
	db := sql.OpenDB(NewConnector("faulty", "", func() (io.ReadWriteCloser, error) {
		started++
		rw, err := start()
		last = rw.(*here)
		return rw, err
	}))
	defer db.Close()
	faultyExecs.Store(0)
	failed := make(chan error)
	go func() {
		_, err := db.Exec("wait")
		failed <- err
	}()
	for faultyExecs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	last.Reader.(*io.PipeReader).Close() // so that it cannot answer, as one that was killed
	last.WriteCloser.Close()
	if err := <-failed; err == nil || errors.Is(err, driver.ErrBadConn) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the program ends in a statement: %v", err)
	}
	if _, err := db.Exec("any"); err != nil || started != 2 {
		t.Errorf("the next statement: %v, by program %d, want 2", err, started)
	}
}

// TestEndRollsBack: who goes without a word leaves no transaction behind.
func TestEndRollsBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	db := sql.OpenDB(NewConnector("sqlite", file, start))
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{`CREATE TABLE t (n)`, "BEGIN IMMEDIATE", `INSERT INTO t VALUES (1)`} {
		if _, err := c.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	c.Raw(func(c any) error { return c.(*conn).p.rw.Close() })
	n := -1
	if err := open(t, "sqlite", file).QueryRow(`SELECT count(*) FROM t`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v, want none", n, err)
	}
}

// TestRowsInTheSameBytes: a driver may use the bytes of a row for the next one.
func TestRowsInTheSameBytes(t *testing.T) {
	rows, err := open(t, "faulty", "").Query("any")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := ""
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			t.Fatal(err)
		}
		got += string(b)
	}
	if rows.Err() != nil || got != "123" {
		t.Errorf("rows %q, %v, want %q", got, rows.Err(), "123")
	}
}

// TestNamedArguments: a name is not dropped, as if its place had been meant.
func TestNamedArguments(t *testing.T) {
	if _, err := open(t, "faulty", "").Exec("any", sql.Named("who", 1)); err == nil ||
		!strings.Contains(err.Error(), `"who"`) {
		t.Errorf("an argument that has a name: %v", err)
	}
}

// TestEndTellsOfConnections: the end of the input is no error, and hides none.
func TestEndTellsOfConnections(t *testing.T) {
	defer faultyExecs.Store(0)
	faultyExecs.Store(-1)
	var in, out bytes.Buffer
	if err := json.NewEncoder(&in).Encode(&request{ID: 1, Op: opOpen, Conn: 1, Driver: "faulty"}); err != nil {
		t.Fatal(err)
	}
	if err := Serve(&in, &out); !errors.Is(err, errClose) || errors.Is(err, io.EOF) {
		t.Errorf("a connection that cannot be closed: %v\n%s", err, &out)
	}
}

func TestOtherRelease(t *testing.T) {
	for said, want := range map[string]string{
		`"snapctl-checkpoints 0"` + "\n": "of another release",
		"Usage: snapctl-checkpoints\n":   "invalid character",
		"":                               "EOF",
	} {
		db := sql.OpenDB(NewConnector("sqlite", ":memory:", func() (io.ReadWriteCloser, error) {
			return &saying{Reader: strings.NewReader(said)}, nil
		}))
		if err := db.Ping(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a program that says %q: %v, want %q", said, err, want)
		}
	}
}

// A program that says nothing is ended: else all who want a connection would wait for it.
func TestProgramSaysNothing(t *testing.T) {
	before := helloWithin
	helloWithin = time.Millisecond
	t.Cleanup(func() { helloWithin = before })
	db := sql.OpenDB(NewConnector("sqlite", ":memory:", func() (io.ReadWriteCloser, error) {
		r, w := io.Pipe()
		return &silent{r, w}, nil
	}))
	if err := db.Ping(); err == nil || !strings.Contains(err.Error(), "said nothing") {
		t.Errorf("Ping = %v", err)
	}
}

type silent struct {
	*io.PipeReader
	io.Writer
}

type saying struct{ io.Reader }

func (*saying) Write(b []byte) (int, error) { return len(b), nil }
func (*saying) Close() error                { return nil }
