package dbpipe

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Serve answers requests until in ends or an answer cannot be written. Statements under way are
// cancelled then, and connections closed, which takes back their transactions. Drivers are those
// that have registered themselves with database/sql.
func Serve(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{out: writer{out: json.NewEncoder(out)}, conns: make(map[int64]driver.Conn),
		cancels: make(map[int64]context.CancelFunc)}
	err := s.out.write(protocol)
	d := json.NewDecoder(bufio.NewReader(in))
	for err == nil {
		q := new(request)
		if err = d.Decode(q); err == nil {
			s.begin(ctx, q)
			err = s.out.failed()
		}
	}
	if err == io.EOF {
		err = nil
	}
	cancel()
	s.work.Wait()
	for _, c := range s.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

type server struct {
	out  writer
	work sync.WaitGroup // requests under way

	mu      sync.Mutex // guards the rest
	conns   map[int64]driver.Conn
	cancels map[int64]context.CancelFunc // of requests under way
}

// begin has a request answered, and cancels another at once.
func (s *server) begin(ctx context.Context, q *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Op == opCancel {
		if cancel := s.cancels[q.Conn]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.cancels[q.ID] = cancel
	s.work.Go(func() {
		a, err := s.do(ctx, q)
		if err != nil {
			a = &answer{Err: newFailure(err)}
		}
		a.ID = q.ID
		s.mu.Lock()
		delete(s.cancels, q.ID)
		s.mu.Unlock()
		cancel()
		s.out.write(a) // an error ends Serve
	})
}

func (s *server) do(ctx context.Context, q *request) (*answer, error) {
	if q.Op == opOpen {
		return s.open(ctx, q)
	}
	s.mu.Lock()
	c, ok := s.conns[q.Conn]
	if q.Op == opClose {
		delete(s.conns, q.Conn)
	}
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("database: there is no connection %d", q.Conn)
	}
	switch q.Op {
	case opClose:
		return new(answer), c.Close()
	case opReset:
		return new(answer), reset(ctx, c)
	case opPing:
		if p, ok := c.(driver.Pinger); ok {
			return new(answer), p.Ping(ctx)
		}
		return new(answer), nil
	}
	args := make([]driver.NamedValue, len(q.Args))
	for i, v := range q.Args {
		arg, err := v.decode()
		if err != nil {
			return nil, err
		}
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	switch q.Op {
	case opExec:
		return exec(ctx, c, q.Text, args)
	case opQuery:
		return query(ctx, c, q.Text, args)
	}
	return nil, fmt.Errorf("database: there is no request %q", q.Op)
}

func (s *server) open(ctx context.Context, q *request) (*answer, error) {
	c, err := connect(ctx, q.Driver, q.Text)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[q.Conn] = c
	return new(answer), nil
}

// connect opens a connection as database/sql does, but for its pool, which is on the other side.
func connect(ctx context.Context, name, dsn string) (driver.Conn, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close() // it has no connection
	d := db.Driver()
	dc, ok := d.(driver.DriverContext)
	if !ok {
		return d.Open(dsn)
	}
	connector, err := dc.OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// reset returns driver.ErrBadConn if a connection cannot be used again.
func reset(ctx context.Context, c driver.Conn) error {
	if v, ok := c.(driver.Validator); ok && !v.IsValid() {
		return driver.ErrBadConn
	}
	if r, ok := c.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func exec(ctx context.Context, c driver.Conn, text string, args []driver.NamedValue) (*answer, error) {
	e, ok := c.(driver.ExecerContext)
	if !ok {
		return nil, errors.New("database: its driver executes no statements without preparing them")
	}
	r, err := e.ExecContext(ctx, text, args)
	if err != nil {
		return nil, err
	}
	n, err := r.RowsAffected()
	return &answer{Affected: n}, err
}

func query(ctx context.Context, c driver.Conn, text string, args []driver.NamedValue) (a *answer, err error) {
	q, ok := c.(driver.QueryerContext)
	if !ok {
		return nil, errors.New("database: its driver answers no queries without preparing them")
	}
	rows, err := q.QueryContext(ctx, text, args)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	a = &answer{Columns: rows.Columns()}
	row := make([]driver.Value, len(a.Columns))
	for {
		switch err := rows.Next(row); {
		case err == io.EOF:
			return a, nil
		case err != nil:
			return nil, err
		}
		line := make([]value, len(row))
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				v = bytes.Clone(b) // a driver may put the next row into the same bytes
			}
			if line[i], err = encode(v); err != nil {
				return nil, err
			}
		}
		a.Rows = append(a.Rows, line)
	}
}
