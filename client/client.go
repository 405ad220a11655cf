// Package client speaks to a resident engine, in a process of its own, as if it
// were a manager in this one: the methods of a [Session] are those of a
// manager.FileSnapshotManager. The engine is 'snapctl serve', to which [Dial]
// connects, or 'snapctl rpc', whose stdin and stdout [New] takes.
//
// Errors match by errors.Is what the manager returns, manager.ErrTurnOpen and the
// others.
package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/rpc"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/tree"
)

// What is asked and answered; docs/rpc.md has the fields.
type (
	Initialize  = rpc.Initialize
	Initialized = rpc.Initialized
	Look        = rpc.Look
	TurnEnded   = rpc.TurnEnded
	Range       = rpc.Range
	FileRange   = rpc.FileRange
	TurnDiffOf  = rpc.TurnDiffOf
	TurnDiff    = rpc.TurnDiff
	TurnChange  = rpc.TurnChange
	Snapshot    = rpc.Snapshot
	Snapshots   = rpc.Snapshots
	Page        = rpc.Page
	Omission    = rpc.Omission
	Omissions   = rpc.Omissions
	Restore     = rpc.Restore
	TakeBack    = rpc.TakeBack
	Restored    = rpc.Restored
	Navigate    = rpc.Navigate
	Navigated   = rpc.Navigated
	ApplyPatch  = rpc.ApplyPatch
	UndoPatch   = rpc.UndoPatch
	Edited      = rpc.Edited
	Refusal     = rpc.Refusal
	Stats       = rpc.Stats
	Error       = rpc.Error
	HungError   = rpc.HungError
)

// ErrHung: the engine does not answer. It may be stopped, and go on at any time.
var ErrHung = rpc.ErrHung

// A Client is a connection to an engine. It may be used from several goroutines.
type Client struct {
	conn io.ReadWriteCloser

	write sync.Mutex // one line at a time

	mu      sync.Mutex // guards the rest
	next    int
	waiting map[string]chan *answer
	err     error // why the connection has ended
}

type answer struct {
	ID      json.RawMessage `json:"id"`
	Type    string          `json:"type"`
	Success bool            `json:"success"`
	Status  rpc.Status      `json:"status"`
	Data    json.RawMessage `json:"data"`
	Error   string          `json:"error"`
	Code    rpc.Code        `json:"code"`
}

// Dial connects to the engine that serves a store; its directory is that of
// manager.FileSnapshotManager.StoreDir. The error matches fs.ErrNotExist or is
// the system's if there is none. The error matches [ErrHung] if it does not answer.
func Dial(ctx context.Context, storeDir string) (*Client, error) {
	conn, err := rpc.Dial(ctx, storeDir)
	if err != nil {
		return nil, err
	}
	return New(conn), nil
}

// New returns a client that speaks over a connection, which it closes.
func New(conn io.ReadWriteCloser) *Client {
	c := &Client{conn: conn, waiting: make(map[string]chan *answer)}
	go c.read()
	return c
}

// Close ends the connection. Requests under way are cancelled, and turns that are
// open count as interrupted.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) read() {
	in := bufio.NewReader(c.conn)
	var err error
	for {
		var line []byte
		if line, err = in.ReadBytes('\n'); err != nil {
			break
		}
		a := new(answer)
		if err = json.Unmarshal(line, a); err != nil {
			err = fmt.Errorf("engine: %w", err)
			break
		}
		if a.Type != "response" {
			continue
		}
		c.mu.Lock()
		ch := c.waiting[string(a.ID)]
		delete(c.waiting, string(a.ID))
		c.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
	c.conn.Close() // nobody reads what comes
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("engine: the connection has ended: %w", io.ErrUnexpectedEOF)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, ch := range c.waiting {
		close(ch)
	}
	clear(c.waiting)
}

// send sends a request and returns where its answer comes.
func (c *Client) send(command string, params any) (id string, ch chan *answer, err error) {
	fields := make(map[string]json.RawMessage)
	if params != nil {
		b, err := json.Marshal(params)
		if err == nil {
			err = json.Unmarshal(b, &fields)
		}
		if err != nil {
			return "", nil, err
		}
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return "", nil, c.err
	}
	c.next++
	id = strconv.Itoa(c.next)
	ch = make(chan *answer, 1)
	c.waiting[id] = ch
	c.mu.Unlock()
	fields["id"], fields["type"] = json.RawMessage(id), json.RawMessage(strconv.Quote(command))
	line, err := json.Marshal(fields)
	if err != nil {
		return "", nil, err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if _, err = c.conn.Write(append(line, '\n')); err != nil {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}
	return id, ch, err
}

// cancelWait is how long a request that is cancelled may take to come to its end.
const cancelWait = 30 * time.Second

// Call sends a command of docs/rpc.md and reads the data of its answer, also of
// one that failed. Where ctx ends the request is cancelled, and Call waits for
// what became of it, for half a minute: with no error it was done all the same.
func (c *Client) Call(ctx context.Context, command string, params, data any) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	id, ch, err := c.send(command, params)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	var a *answer
	ok := false
	select {
	case a, ok = <-ch:
	case <-ctx.Done():
		if _, _, err := c.send("cancel", map[string]json.RawMessage{"requestId": json.RawMessage(id)}); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		select {
		case a, ok = <-ch:
		case <-time.After(cancelWait):
			return fmt.Errorf("%s: %w: the engine has not said what became of it", command, context.Cause(ctx))
		}
	}
	if !ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%s: %w", command, c.err)
	}
	if len(a.Data) > 0 && data != nil {
		if err := json.Unmarshal(a.Data, data); err != nil {
			return fmt.Errorf("%s: answer: %w", command, err)
		}
	}
	switch {
	case a.Success:
		return nil
	case a.Status == rpc.WasCancelled && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &Error{Code: a.Code, Message: a.Error}
}

// Stats returns what the engine has counted.
func (c *Client) Stats(ctx context.Context) (*Stats, error) { return call[Stats](ctx, c, "stats", nil) }

func call[R any](ctx context.Context, c *Client, command string, params any) (*R, error) {
	r := new(R)
	if err := c.Call(ctx, command, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

// A Session is one of the engine's that this client has initialized.
type Session struct {
	c  *Client
	of rpc.Of
}

// Open begins with a session, or takes it up again: what manager.Open and
// Initialize do.
func (c *Client) Open(ctx context.Context, p *Initialize) (*Session, *Initialized, error) {
	r, err := call[Initialized](ctx, c, "initialize", p)
	if err != nil {
		return nil, nil, err
	}
	return &Session{c: c, of: rpc.Of{SessionID: p.SessionID}}, r, nil
}

// OnTurnStart opens a turn. turn may be nil.
func (s *Session) OnTurnStart(ctx context.Context, turn *manager.Turn) (*Look, error) {
	p := &rpc.TurnStart{Of: s.of}
	if turn != nil {
		p.Leaf, p.RuntimeTurnIndex, p.Continues = turn.Leaf, turn.RuntimeIndex, turn.Continues
	}
	return call[Look](ctx, s.c, "turn_start", p)
}

// OnToolStart says that a tool of the turn begins.
func (s *Session) OnToolStart(ctx context.Context, tool string) (*Look, error) {
	return call[Look](ctx, s.c, "tool_start", &rpc.Tool{Of: s.of, Tool: tool})
}

// OnToolEnd says that a tool has ended.
func (s *Session) OnToolEnd(ctx context.Context, tool string) (*Look, error) {
	return call[Look](ctx, s.c, "tool_end", &rpc.ToolEnd{Tool: rpc.Tool{Of: s.of, Tool: tool}})
}

// OnToolRefused says that a tool that was said to begin has not been run.
func (s *Session) OnToolRefused(ctx context.Context, tool string) (*Look, error) {
	return call[Look](ctx, s.c, "tool_end", &rpc.ToolEnd{Tool: rpc.Tool{Of: s.of, Tool: tool}, Refused: true})
}

// EndTurn records what the turn changed. The entries are for the runtime's log;
// see Told.
func (s *Session) EndTurn(ctx context.Context) (*TurnEnded, error) {
	return call[TurnEnded](ctx, s.c, "turn_end", &s.of)
}

// OnTurnEnd is EndTurn with a function that appends an entry to the runtime's log
// and returns its ID.
func (s *Session) OnTurnEnd(ctx context.Context, append manager.AppendFunc) (*TurnEnded, error) {
	r, err := s.EndTurn(ctx)
	if err != nil || append == nil {
		return r, err
	}
	for _, e := range r.Entries {
		id, err := append(ctx, e)
		if err == nil {
			err = s.Told(ctx, e.SnapshotSeq, id)
		}
		if err != nil {
			return r, err
		}
		if e.SnapshotSeq == r.SnapshotSeq {
			r.EntryID = id
		}
	}
	return r, nil
}

// Told says that the runtime's log has an entry for a step or a restore.
func (s *Session) Told(ctx context.Context, seq uint64, entryID string) error {
	return s.c.Call(ctx, "told", &rpc.Told{Of: s.of, SnapshotSeq: seq, EntryID: entryID}, nil)
}

// Claim says that the turn writes files.
func (s *Session) Claim(ctx context.Context, paths ...string) error {
	return s.c.Call(ctx, "claim", &rpc.Claim{Of: s.of, Paths: paths}, nil)
}

// NoteRead remembers what a file holds, and returns its BLAKE3 hash.
func (s *Session) NoteRead(ctx context.Context, path string) (string, error) {
	r, err := call[rpc.Hash](ctx, s.c, "note_read", &rpc.File{Of: s.of, Path: path})
	if err != nil {
		return "", err
	}
	return r.Hash, nil
}

// ModifiedFiles lists the paths that turns changed between two points.
func (s *Session) ModifiedFiles(ctx context.Context, r *Range) (*manager.ModifiedFiles, error) {
	q := Range{}
	if r != nil {
		q = *r
	}
	q.Of = s.of
	return call[manager.ModifiedFiles](ctx, s.c, "get_modified_files", &q)
}

// FileDiff returns a file at two points and the difference; nil: it is at
// neither.
func (s *Session) FileDiff(ctx context.Context, r *FileRange) (*manager.FileDiffInfo, error) {
	q := *r
	q.Of = s.of
	d, err := call[rpc.FileDiff](ctx, s.c, "get_file_diff", &q)
	if err != nil {
		return nil, err
	}
	return d.File, nil
}

// TurnDiff returns a part of what a turn did, without what others did meanwhile.
// p may be nil: what the newest did.
func (s *Session) TurnDiff(ctx context.Context, p *TurnDiffOf) (*TurnDiff, error) {
	q := TurnDiffOf{}
	if p != nil {
		q = *p
	}
	q.Of = s.of
	return call[TurnDiff](ctx, s.c, "get_turn_diff", &q)
}

// Snapshots returns a part of the session's history, oldest first. p may be nil.
func (s *Session) Snapshots(ctx context.Context, p *Page) (*Snapshots, error) {
	q := Page{}
	if p != nil {
		q = *p
	}
	q.Of = s.of
	return call[Snapshots](ctx, s.c, "get_snapshots", &q)
}

// Coverage returns a part of what was left out of a snapshot, for some reasons
// or all; "" is the newest.
func (s *Session) Coverage(ctx context.Context, rev string, p *Page, reasons ...tree.Reason) (*Omissions, error) {
	q := rpc.CoverageOf{Rev: rev, Reasons: reasons}
	if p != nil {
		q.Page = *p
	}
	q.Of = s.of
	return call[Omissions](ctx, s.c, "get_coverage", &q)
}

// PreviewRestore says what RestoreFiles would do.
func (s *Session) PreviewRestore(ctx context.Context, r *Restore) (*Restored, error) {
	q := *r
	q.Of = s.of
	return call[Restored](ctx, s.c, "restore_preview", &q)
}

// RestoreFiles brings files back to what they were.
func (s *Session) RestoreFiles(ctx context.Context, r *Restore) (*Restored, error) {
	q := *r
	q.Of = s.of
	return call[Restored](ctx, s.c, "restore", &q)
}

// Undo takes back the newest restore. p may be nil.
func (s *Session) Undo(ctx context.Context, p *TakeBack) (*Restored, error) {
	return s.takeBack(ctx, "undo", p)
}

// Redo takes back the newest undo. p may be nil.
func (s *Session) Redo(ctx context.Context, p *TakeBack) (*Restored, error) {
	return s.takeBack(ctx, "redo", p)
}

func (s *Session) takeBack(ctx context.Context, command string, p *TakeBack) (*Restored, error) {
	q := TakeBack{}
	if p != nil {
		q = *p
	}
	q.Of = s.of
	return call[Restored](ctx, s.c, command, &q)
}

// NavigateTree moves the conversation to an entry, and the files with it.
func (s *Session) NavigateTree(ctx context.Context, p *Navigate) (*Navigated, error) {
	q := *p
	q.Of = s.of
	return call[Navigated](ctx, s.c, "navigate_tree", &q)
}

// ApplyEdits edits files: all pieces of a patch, or none. Where pieces are
// refused the result lists them, beside the error.
func (s *Session) ApplyEdits(ctx context.Context, p *ApplyPatch) (*Edited, error) {
	q := *p
	q.Of = s.of
	r := new(Edited)
	return r, s.c.Call(ctx, "apply_patch", &q, r)
}

// UndoEdit takes back an edit; see ApplyEdits.
func (s *Session) UndoEdit(ctx context.Context, p *UndoPatch) (*Edited, error) {
	q := *p
	q.Of = s.of
	r := new(Edited)
	return r, s.c.Call(ctx, "undo_patch", &q, r)
}
