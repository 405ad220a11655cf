package dbpipe

import (
	"bufio"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Connector opens connections to a database through another program. It may be used from
// several goroutines. Close, which [database/sql.DB.Close] calls, ends the program.
type Connector struct {
	driver, dsn string
	start       func() (io.ReadWriteCloser, error)

	mu sync.Mutex // guards p
	p  *program   // nil: it was not needed yet
}

// NewConnector returns one for the database that the program's driver of that name calls dsn.
// start starts a program that calls [Serve]: with the first connection, and again where it has
// ended by itself. What it returns writes to the program's input and reads its output; Close
// ends its input, and waits until it has ended.
func NewConnector(driver, dsn string, start func() (io.ReadWriteCloser, error)) *Connector {
	return &Connector{driver: driver, dsn: dsn, start: start}
}

// Connect implements [driver.Connector].
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	p, err := c.program()
	if err != nil {
		return nil, err
	}
	conn := &conn{p: p, id: p.newID()}
	_, err = p.ask(ctx, &request{Op: opOpen, Conn: conn.id, Driver: c.driver, Text: c.dsn})
	return conn, err
}

// Driver implements [driver.Connector].
func (c *Connector) Driver() driver.Driver { return opener{c} }

// An opener is a Connector as the driver that it has to name.
type opener struct{ c *Connector }

func (o opener) Open(string) (driver.Conn, error) { return o.c.Connect(context.Background()) }

// Close ends the program, if it was started.
func (c *Connector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p == nil {
		return nil
	}
	return c.p.end()
}

// program returns the one that runs, and starts one if there is none.
func (c *Connector) program() (*program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil && !c.p.hasEnded() {
		return c.p, nil
	}
	if c.p != nil {
		c.p.end() // why it has ended, statements under way were told
		c.p = nil
	}
	rw, err := c.start()
	if err != nil {
		return nil, err
	}
	c.p, err = newProgram(rw)
	return c.p, err
}

// A program answers requests.
type program struct {
	rw   io.ReadWriteCloser
	out  writer
	read sync.WaitGroup // until there is nothing more

	mu      sync.Mutex // guards the rest
	last    int64      // ID
	waiting map[int64]chan<- *answer
	err     error // why there will be no more answers
}

// helloWithin is how long a program may take to say its first line: a start takes
// milliseconds, and nobody else can connect meanwhile.
var helloWithin = 5 * time.Second

func newProgram(rw io.ReadWriteCloser) (*program, error) {
	p := &program{rw: rw, out: writer{out: json.NewEncoder(rw)}, waiting: make(map[int64]chan<- *answer)}
	d := json.NewDecoder(bufio.NewReader(rw))
	var hello string
	hung := time.AfterFunc(helloWithin, func() { rw.Close() }) // which ends the reading
	err := d.Decode(&hello)
	if !hung.Stop() {
		err = fmt.Errorf("it said nothing within %v", helloWithin)
	}
	if err == nil && hello != protocol {
		err = fmt.Errorf("it speaks %q, want %q: it is of another release", hello, protocol)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("snapctl-checkpoints: %w", err), rw.Close())
	}
	p.read.Go(func() {
		for {
			a := new(answer)
			if err := d.Decode(a); err != nil {
				p.fail(err)
				return
			}
			p.mu.Lock()
			to := p.waiting[a.ID]
			delete(p.waiting, a.ID)
			p.mu.Unlock()
			if to != nil {
				to <- a
			}
		}
	})
	return p, nil
}

func (p *program) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// fail tells all who wait for an answer that there will be none.
func (p *program) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = fmt.Errorf("snapctl-checkpoints has ended: %w", err)
	for _, to := range p.waiting {
		close(to)
	}
	clear(p.waiting)
}

func (p *program) end() error {
	err := p.rw.Close()
	p.read.Wait()
	return err
}

func (p *program) newID() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return p.last
}

// expect returns an ID for a request, and where its answer will come; it is closed if there will
// be none. The error is driver.ErrBadConn where the program has ended before: nothing was done.
func (p *program) expect() (int64, <-chan *answer, error) {
	to := make(chan *answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, nil, driver.ErrBadConn
	}
	p.last++
	p.waiting[p.last] = to
	return p.last, to, nil
}

// ask sends a request and waits for the answer, also where ctx ends it: only the answer says what
// was done by then.
func (p *program) ask(ctx context.Context, q *request) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, to, err := p.expect()
	if err != nil {
		return nil, err
	}
	q.ID = id
	p.out.write(q) // after an error the program's output ends, too
	stop := context.AfterFunc(ctx, func() { p.out.write(&request{Op: opCancel, Conn: id}) })
	defer stop()
	a, ok := <-to
	switch {
	case !ok:
		p.mu.Lock()
		err = p.err
		p.mu.Unlock()
	case a.Err != nil:
		err = a.Err
	}
	if cause := ctx.Err(); err != nil && cause != nil {
		err = &stopped{err, cause}
	}
	return a, err
}

// A conn is a connection of the program's.
type conn struct {
	p  *program
	id int64
}

var errNotHere = errors.New("database: neither prepared statements nor sql.Tx are passed on")

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errNotHere }

func (c *conn) Begin() (driver.Tx, error) { return nil, errNotHere }

func (c *conn) Close() error {
	_, err := c.p.ask(context.Background(), &request{Op: opClose, Conn: c.id})
	if errors.Is(err, driver.ErrBadConn) { // it went with the program
		err = nil
	}
	return err
}

func (c *conn) Ping(ctx context.Context) error {
	_, err := c.p.ask(ctx, &request{Op: opPing, Conn: c.id})
	return err
}

// ResetSession implements [driver.SessionResetter].
func (c *conn) ResetSession(ctx context.Context) error {
	_, err := c.p.ask(ctx, &request{Op: opReset, Conn: c.id})
	return err
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	a, err := c.run(ctx, opExec, text, args)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(a.Affected), nil
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	a, err := c.run(ctx, opQuery, text, args)
	if err != nil {
		return nil, err
	}
	return &rows{columns: a.Columns, rest: a.Rows}, nil
}

func (c *conn) run(ctx context.Context, op, text string, args []driver.NamedValue) (*answer, error) {
	q := &request{Op: op, Conn: c.id, Text: text}
	for _, arg := range args {
		if arg.Name != "" {
			return nil, fmt.Errorf("database: argument %q: names of arguments are not passed on", arg.Name)
		}
		v, err := encode(arg.Value)
		if err != nil {
			return nil, err
		}
		q.Args = append(q.Args, v)
	}
	return c.p.ask(ctx, q)
}

// rows are those of an answer.
type rows struct {
	columns []string
	rest    [][]value
}

func (r *rows) Columns() []string { return r.columns }

func (r *rows) Close() error { return nil }

func (r *rows) Next(row []driver.Value) (err error) {
	if len(r.rest) == 0 {
		return io.EOF
	}
	for i, v := range r.rest[0] {
		if row[i], err = v.decode(); err != nil {
			return err
		}
	}
	r.rest = r.rest[1:]
	return nil
}
