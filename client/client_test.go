package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
)

// An engine of tests answers each request as it is told; "" ends the connection.
func engine(t *testing.T, answer func(q map[string]any) string) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		in := bufio.NewReader(theirs)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var q map[string]any
			if err := json.Unmarshal(line, &q); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			a := answer(q)
			if a == "" {
				return
			}
			if _, err := io.WriteString(theirs, a); err != nil {
				return
			}
		}
	}()
	c := client.New(&once{Conn: ours})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return c
}

// once is a connection that is closed once, as those of sockets are.
type once struct {
	net.Conn
	closed atomic.Bool
}

func (o *once) Close() error {
	if o.closed.Swap(true) {
		return net.ErrClosed
	}
	return o.Conn.Close()
}

func response(id any, rest string) string {
	return fmt.Sprintf(`{"id":%v,"type":"response",%s}`+"\n", id, rest)
}

// TestEnds: a call ends with its connection, whatever the reason, and so does each
// that comes after.
func TestEnds(t *testing.T) {
	for last, want := range map[string]string{
		"":           "the connection has ended",
		"nonsense\n": "invalid character",
	} {
		c := engine(t, func(map[string]any) string { return last })
		for range 2 {
			err := c.Call(t.Context(), "ping", nil, nil)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "ping: ") {
				t.Errorf("after %q: %v, want %q", last, err, want)
			}
		}
	}
}

// TestAnswers: what is no answer of the request is passed over, and data comes with
// an error, too.
func TestAnswers(t *testing.T) {
	c := engine(t, func(q map[string]any) string {
		return `{"id":99,"type":"response","success":true}` + "\n" + fmt.Sprintf(`{"id":%v,"type":"progress"}`+"\n", q["id"]) +
			response(q["id"], `"success":false,"status":"failed","code":"refused","error":"no",`+
				`"data":{"n":7,"refusals":[{"message":"x","code":"stale"},{"message":"y"}]}`)
	})
	var data struct{ N int }
	err := c.Call(t.Context(), "apply_patch", map[string]int{"a": 1}, &data)
	if data.N != 7 || err == nil || err.Error() != "no" {
		t.Errorf("answer %+v, %v", data, err)
	}
	if !errors.Is(err, manager.ErrStale) || errors.Is(err, manager.ErrOutside) || errors.Is(err, context.Canceled) {
		t.Errorf("the error matches other errors than its codes say: %v", err)
	}
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "refused" {
		t.Errorf("error %#v", err)
	}
	if err := c.Call(t.Context(), "ping", func() {}, nil); err == nil {
		t.Error("arguments that are no JSON are sent")
	}
	if err := c.Call(t.Context(), "ping", nil, &struct{ N string }{}); err == nil ||
		!strings.Contains(err.Error(), "answer: ") {
		t.Errorf("an answer of another kind: %v", err)
	}
}

// TestNilArguments: options that are nil are none, as in Go.
func TestNilArguments(t *testing.T) {
	c := engine(t, func(q map[string]any) string { return response(q["id"], `"success":true`) })
	if err := c.Call(t.Context(), "undo", (*manager.UndoOptions)(nil), nil); err != nil {
		t.Error(err)
	}
}

// TestNoText: what JSON has no bytes for is not sent as something else, but what people read.
func TestNoText(t *testing.T) {
	c := engine(t, func(q map[string]any) string { return response(q["id"], `"success":true`) })
	const bad = "a\xff"
	for _, test := range []struct {
		args any
		want string // in the error; "": it is sent
	}{
		{map[string]any{"x": json.RawMessage(`"a"`), "y": []byte(bad), "z": nil}, ""},
		{&manager.Turn{Title: bad, Agent: bad, Model: bad}, ""},
		{&manager.RestoreOptions{Target: "@", Paths: []string{"b", bad}}, `paths "a\xff"`},
		{manager.RestoreOptions{Target: bad}, `target "a\xff"`},
		{map[string][]string{"paths": {bad}}, `paths "a\xff"`},
		{map[string]int{bad: 1}, `"a\xff"`},
	} {
		err := c.Call(t.Context(), "restore", test.args, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestCancel: a call whose context ends says what became of the request.
func TestCancel(t *testing.T) {
	for end, want := range map[string]error{
		`"success":false,"status":"cancelled","code":"cancelled","error":"by request"`: context.Canceled,
		`"success":true,"status":"complete"`:                                           nil, // it was faster
		`"success":false,"status":"failed","code":"nothing","error":"nothing"`:         manager.ErrNothing,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var of any
		c := engine(t, func(q map[string]any) string {
			if q["type"] != "cancel" {
				of = q["id"]
				cancel()
				return "{}\n" // of no request
			}
			if q["requestId"] != of {
				t.Errorf("cancel of %v, want %v", q["requestId"], of)
			}
			return response(of, end) + response(q["id"], `"success":true`)
		})
		if err := c.Call(ctx, "undo", nil, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", end, err, want)
		}
		if err := c.Call(ctx, "undo", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a call with a context that has ended: %v", err)
		}
	}
}
