package dbpipe

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// protocol is written by [Serve] before all else. It changes with the messages below.
const protocol = "snapctl-checkpoints 1"

// Requests.
const (
	opOpen   = "open"   // a connection: Driver, Text is the DSN
	opClose  = "close"  // a connection
	opPing   = "ping"   // a connection: does the database answer?
	opReset  = "reset"  // a connection, before it is used again
	opExec   = "exec"   // Text is a statement
	opQuery  = "query"  // Text is a statement with rows
	opCancel = "cancel" // the request Conn; it has no answer of its own
)

// A request is one line to the program.
type request struct {
	ID     int64   `json:"id"`
	Op     string  `json:"op"`
	Conn   int64   `json:"conn,omitempty"` // of opOpen: the number that it is to have
	Driver string  `json:"driver,omitempty"`
	Text   string  `json:"text,omitempty"`
	Args   []value `json:"args,omitempty"`
}

// An answer is one line from the program.
type answer struct {
	ID       int64     `json:"id"`
	Affected int64     `json:"affected,omitempty"` // rows, by opExec
	Columns  []string  `json:"columns,omitempty"`
	Rows     [][]value `json:"rows,omitempty"`
	Err      *failure  `json:"error,omitempty"`
}

// A failure is an error of the database, or of its driver.
type failure struct {
	Message string `json:"message"`
	State   string `json:"state,omitempty"` // SQLSTATE, where the database has it
	BadConn bool   `json:"badConn,omitempty"`
}

func newFailure(err error) *failure {
	f := &failure{Message: err.Error(), BadConn: errors.Is(err, driver.ErrBadConn)}
	if s, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		f.State = s.SQLState()
	}
	return f
}

// A stopped error is one of a statement whose context has ended. It reads as the driver says it,
// and matches the context's, too.
type stopped struct {
	error
	cause error
}

func (e *stopped) Unwrap() []error { return []error{e.error, e.cause} }

func (f *failure) Error() string { return f.Message }

// SQLState returns the code that the SQL standard, or PostgreSQL, has for the error, or "".
func (f *failure) SQLState() string { return f.State }

// Unwrap has database/sql try another connection where the driver says that nothing was done.
func (f *failure) Unwrap() error {
	if f.BadConn {
		return driver.ErrBadConn
	}
	return nil
}

// A writer writes messages, each on a line. It has a lock of its own on either side: who writes may
// have to wait until the other side reads, and that must not wait for who writes.
type writer struct {
	mu  sync.Mutex // guards the rest
	out *json.Encoder
	err error // the first
}

func (w *writer) write(message any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Encode(message)
	}
	return w.err
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// A value is a [driver.Value]. Its text is not JSON's own: integers of 64 bits, bytes that are
// no UTF-8, and NaN arrive as they are.
type value struct {
	Kind string `json:"k,omitempty"` // "": NULL
	Text []byte `json:"t,omitempty"` // in base64; nil: of nil bytes
}

func encode(v driver.Value) (value, error) {
	switch v := v.(type) {
	case nil:
		return value{}, nil
	case int64:
		return value{"int", strconv.AppendInt(nil, v, 10)}, nil
	case float64:
		return value{"float", strconv.AppendFloat(nil, v, 'g', -1, 64)}, nil
	case bool:
		return value{"bool", strconv.AppendBool(nil, v)}, nil
	case string:
		return value{"string", []byte(v)}, nil
	case []byte:
		if v == nil {
			return value{Kind: "nil"}, nil
		}
		return value{"bytes", v}, nil
	case time.Time:
		b, err := v.MarshalBinary()
		return value{"time", b}, err
	}
	return value{}, fmt.Errorf("database: cannot pass on a %T", v)
}

func (v value) decode() (driver.Value, error) {
	text := string(v.Text)
	switch v.Kind {
	case "":
		return nil, nil
	case "int":
		return strconv.ParseInt(text, 10, 64)
	case "float":
		return strconv.ParseFloat(text, 64)
	case "bool":
		return strconv.ParseBool(text)
	case "string":
		return text, nil
	case "nil":
		return []byte(nil), nil
	case "bytes":
		return append([]byte{}, v.Text...), nil
	case "time":
		var t time.Time
		err := t.UnmarshalBinary(v.Text)
		return t, err
	}
	return nil, fmt.Errorf("database: a value of kind %q", v.Kind)
}
