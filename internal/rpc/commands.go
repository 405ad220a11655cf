package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Command is one that a client may send.
type Command struct {
	Params, Result reflect.Type // structures
	Changes        bool         // it waits for those that arrived for the session before it
	Text           string       // what it does
	prepare        func(c *conn, q *request, line json.RawMessage) (do func(context.Context) (any, error), err error)
}

// Commands returns all commands by name.
func Commands() map[string]*Command { return commands }

var commands = make(map[string]*Command)

// Of are the parameters that name a session.
type Of struct {
	SessionID string `json:"sessionId"` // as given to initialize
}

func (o *Of) session() string { return o.SessionID }

// add adds a command about a session.
func add[P any, Q interface {
	*P
	session() string
}, R any](name string, changes bool, text string, fn func(ctx context.Context, s *served, p *P) (*R, error)) {
	cmd := &Command{Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Changes: changes, Text: text}
	cmd.prepare = func(c *conn, q *request, line json.RawMessage) (func(context.Context) (any, error), error) {
		p := Q(new(P))
		if err := json.Unmarshal(line, p); err != nil {
			return nil, badRequest(name + ": " + err.Error())
		}
		c.mu.Lock()
		s := c.sessions[p.session()]
		c.mu.Unlock()
		if s == nil {
			return nil, &Error{NoSession, fmt.Sprintf("session %q: not initialized on this connection", p.session())}
		}
		wait, done := func(context.Context) error { return nil }, func() {}
		if changes {
			wait, done = s.inOrder()
		}
		return func(ctx context.Context) (any, error) {
			defer done()
			if err := wait(ctx); err != nil {
				return nil, err
			}
			if err := s.wait(ctx); err != nil {
				return nil, err
			}
			return c.watched(ctx, s, q, func(ctx context.Context) (any, error) {
				r, err := fn(ctx, s, (*P)(p))
				if r == nil {
					return nil, err
				}
				return r, err
			})
		}, nil
	}
	commands[name] = cmd
}

// addFree adds a command about no session.
func addFree[P, R any](name, text string, fn func(ctx context.Context, c *conn, p *P) (*R, error)) {
	commands[name] = &Command{Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Text: text,
		prepare: func(c *conn, q *request, line json.RawMessage) (func(context.Context) (any, error), error) {
			p := new(P)
			if err := json.Unmarshal(line, p); err != nil {
				return nil, badRequest(name + ": " + err.Error())
			}
			return func(ctx context.Context) (any, error) {
				r, err := fn(ctx, c, p)
				if r == nil {
					return nil, err
				}
				return r, err
			}, nil
		}}
}

// Limits are those of captures. Zero is the default, negative is none.
type Limits struct {
	FileSize int64 `json:"fileSize,omitempty"` // bytes; a larger file is left out
	NewBytes int64 `json:"newBytes,omitempty"` // bytes to be read
	Files    int64 `json:"files,omitempty"`
	TimeMs   int64 `json:"timeMs,omitempty"`
}

// Initialize begins with a session, or takes it up again.
type Initialize struct {
	CWD         string `json:"cwd"`                   // directory of the session
	SessionID   string `json:"sessionId"`             // letters, digits and ._-
	SessionFile string `json:"sessionFile,omitempty"` // the runtime's log, in pi's format; it is only read
	OwnLog      bool   `json:"ownLog,omitempty"`      // the runtime keeps no log: entries go to one of ours
	ToolWindows bool   `json:"toolWindows,omitempty"` // the runtime sends tool_start and tool_end
	Detached    bool   `json:"detached,omitempty"`    // a turn may end on another connection
	AllowBroad  bool   `json:"allowBroad,omitempty"`  // also a home directory and the like
	Limits      Limits `json:"limits"`
}

// Look is what came of looking at the directory.
type Look struct {
	SnapshotTreeHash store.ID                  `json:"snapshotTreeHash"`
	CoverageHash     store.ID                  `json:"coverageHash,omitzero"` // of what was left out
	EntryID          string                    `json:"entryId,omitempty"`     // of the step, in our own log
	Data             *manager.StepSnapshotData `json:"data"`                  // of the step; null: nothing changed
	Offline          *manager.Diff             `json:"offline"`               // changed, and no turn's doing
	SnapshotSeq      uint64                    `json:"snapshotSeq,omitempty"` // number of what was recorded; 0: nothing
	Files            int64                     `json:"files"`
	ReadFiles        int64                     `json:"readFiles"`
	Omitted          int64                     `json:"omitted"` // left out, a directory counted once
	Partial          bool                      `json:"partial"` // a limit was reached
}

// Initialized is a Look at the start of a session.
type Initialized struct {
	Look
	SessionID string `json:"sessionId"`
	Root      string `json:"root"`     // real path of the directory
	StoreDir  string `json:"storeDir"` // directory of the store

	Concerns []Concern `json:"concerns,omitempty"` // what the user should know of the store
}

// Concern is something about a store that its user should know.
type Concern struct {
	Text   string `json:"text"`
	Urgent bool   `json:"urgent"` // something is damaged
}

func newLook(r *manager.Result) *Look {
	l := &Look{SnapshotTreeHash: r.Tree, EntryID: r.EntryID, Data: r.Data, Offline: r.Offline}
	if r.Snapshot != nil {
		l.SnapshotSeq = r.Snapshot.Seq
	}
	if c := r.Capture; c != nil {
		l.CoverageHash, l.Files, l.ReadFiles, l.Omitted, l.Partial = c.Coverage, c.Files+c.Symlinks, c.ReadFiles, c.Omitted, c.Partial
	}
	return l
}

// opened says that it is known whether the session is open.
func (s *served) opened() {
	s.once.Do(func() {
		if s.m == nil && s.err == nil {
			s.err = errors.New("the session could not be opened")
		}
		close(s.ready)
	})
}

// wait waits until the session is open.
func (s *served) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func init() {
	commands["initialize"] = &Command{Params: reflect.TypeFor[Initialize](), Result: reflect.TypeFor[Initialized](), Changes: true,
		Text: "begins with a session, or takes it up again; before any other command about it", prepare: prepareInitialize}
}

func prepareInitialize(c *conn, q *request, line json.RawMessage) (func(context.Context) (any, error), error) {
	var p Initialize
	if err := json.Unmarshal(line, &p); err != nil {
		return nil, badRequest("initialize: " + err.Error())
	}
	if p.CWD == "" || !session.ValidID(p.SessionID) {
		return nil, badRequest("initialize: want cwd, and sessionId of 1 to 128 letters, digits and ._-")
	}
	c.mu.Lock()
	s := c.sessions[p.SessionID]
	fresh := s == nil
	if fresh {
		first := make(chan struct{})
		close(first)
		s = &served{asked: p, ready: make(chan struct{}), last: first, logs: !p.OwnLog}
		c.sessions[p.SessionID] = s
	}
	c.mu.Unlock()
	if !fresh && s.asked != p {
		return nil, badRequest(fmt.Sprintf("initialize: session %q is open on this connection, and with other parameters", p.SessionID))
	}
	wait, done := s.inOrder()
	return func(ctx context.Context) (any, error) {
		defer done()
		if fresh {
			defer s.opened()
			s.m, s.err = manager.Open(ctx, p.CWD, &manager.Options{Engine: c.server.Engine, Session: p.SessionID, SessionFile: p.SessionFile,
				ToolWindows: p.ToolWindows, Detached: p.Detached, AllowBroad: p.AllowBroad, Limits: p.Limits.tree()})
			if s.err != nil { // it may be tried again
				c.mu.Lock()
				delete(c.sessions, p.SessionID)
				c.mu.Unlock()
			}
			s.opened()
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
		return c.watched(ctx, s, q, func(ctx context.Context) (any, error) {
			r, err := s.m.Initialize(ctx)
			if err != nil {
				return nil, err
			}
			answer := &Initialized{Look: *newLook(r), SessionID: p.SessionID, Root: s.m.Project().Root, StoreDir: s.m.StoreDir()}
			for _, c := range manager.ReadHealth(answer.StoreDir).Concerns(answer.StoreDir, time.Now()) {
				answer.Concerns = append(answer.Concerns, Concern(c))
			}
			return answer, nil
		})
	}, nil
}

// TurnStart opens a turn.
type TurnStart struct {
	Of
	Leaf             string `json:"leaf,omitempty"`             // session entry that it builds on
	RuntimeTurnIndex *int   `json:"runtimeTurnIndex,omitempty"` // the runtime's own number for it
	Continues        bool   `json:"continues,omitempty"`        // it goes on with the prompt of the turn before: both have one number
}

// Tool begins.
type Tool struct {
	Of
	Tool string `json:"tool"` // its name; no two may run under one
}

// ToolEnd says that a tool has ended.
type ToolEnd struct {
	Tool
	Refused bool `json:"refused,omitempty"` // it has not been run after all
}

// TurnEnded is a Look at the end of a turn.
type TurnEnded struct {
	Look
	Entries []*manager.StepSnapshotData `json:"entries"`          // for the runtime's log, oldest first: all that it was not told of yet
	Health  string                      `json:"health,omitempty"` // what the user should know of the store, once a day
}

func newTurnEnded(s *served, r *manager.Result, entries []*manager.StepSnapshotData) *TurnEnded {
	return &TurnEnded{Look: *newLook(r), Entries: append([]*manager.StepSnapshotData{}, entries...),
		Health: manager.TellHealth(s.m.StoreDir(), (*manager.Health).Told, false)}
}

// Told says that the runtime's log has an entry.
type Told struct {
	Of
	SnapshotSeq uint64 `json:"snapshotSeq"`
	EntryID     string `json:"entryId"`
}

// Claim names files that the turn writes.
type Claim struct {
	Of
	Paths []string `json:"paths"`
}

// File names a file.
type File struct {
	Of
	Path string `json:"path"`
}

// Hash is a file's content.
type Hash struct {
	Hash string `json:"hash"` // BLAKE3; "": there is no file
}

// Done has nothing to say.
type Done struct{}

func init() {
	add("turn_start", true, "looks at the directory and opens a turn", func(ctx context.Context, s *served, p *TurnStart) (*Look, error) {
		r, err := s.m.OnTurnStart(ctx, &manager.Turn{Leaf: p.Leaf, RuntimeIndex: p.RuntimeTurnIndex, Continues: p.Continues})
		if err != nil {
			return nil, err
		}
		return newLook(r), nil
	})
	add("tool_start", true, "says that a tool of the turn begins", func(ctx context.Context, s *served, p *Tool) (*Look, error) {
		r, err := s.m.OnToolStart(ctx, p.Tool)
		if err != nil {
			return nil, err
		}
		return newLook(r), nil
	})
	add("tool_end", true, "says that it has ended", func(ctx context.Context, s *served, p *ToolEnd) (*Look, error) {
		var r *manager.Result
		var err error
		if p.Refused {
			r, err = s.m.OnToolsRefused(ctx, p.Tool.Tool)
		} else {
			r, err = s.m.OnToolEnd(ctx, p.Tool.Tool)
		}
		if err != nil {
			return nil, err
		}
		return newLook(r), nil
	})
	add("turn_end", true, "looks at the directory and records what the turn changed", func(ctx context.Context, s *served, p *Of) (*TurnEnded, error) {
		if !s.logs {
			r, err := s.m.OnTurnEnd(ctx, nil)
			if r == nil {
				return nil, err
			}
			return newTurnEnded(s, r, nil), err
		}
		r, entries, err := s.m.EndTurn(ctx)
		if r == nil {
			return nil, err
		}
		return newTurnEnded(s, r, entries), err
	})
	add("told", true, "says that the runtime's log has an entry for a step or a restore", func(ctx context.Context, s *served, p *Told) (*Done, error) {
		return &Done{}, s.m.Told(ctx, p.SnapshotSeq, p.EntryID)
	})
	add("claim", true, "says that the turn writes files", func(ctx context.Context, s *served, p *Claim) (*Done, error) {
		return &Done{}, s.m.Claim(ctx, p.Paths...)
	})
	add("note_read", true, "remembers what a file holds, so that an edit that builds on it can be refused", func(ctx context.Context, s *served, p *File) (*Hash, error) {
		hash, err := s.m.NoteRead(ctx, p.Path)
		return &Hash{hash}, err
	})
}

// Range asks for what turns changed between two points.
type Range struct {
	Of
	From    string `json:"from,omitempty"` // a revision; default "start"
	To      string `json:"to,omitempty"`   // default "@"
	All     bool   `json:"all,omitempty"`  // rows that come to nothing, too
	Foreign bool   `json:"foreign,omitempty"`
	Renames bool   `json:"renames,omitempty"`
	Limit   int    `json:"limit,omitempty"` // default: all
	Cursor  string `json:"cursor,omitempty"`
}

// FileRange asks for a file at two points.
type FileRange struct {
	Of
	Path    string `json:"path"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Bytes   bool   `json:"bytes,omitempty"`   // contents that are no text, too
	Context int    `json:"context,omitempty"` // unchanged lines around each change; default 3
}

// FileDiff is the answer.
type FileDiff struct {
	File *manager.FileDiffInfo `json:"file"` // null: at neither point
}

// Page asks for a part of a list.
type Page struct {
	Of
	Limit  int    `json:"limit,omitempty"` // default 50, at most 200
	Cursor string `json:"cursor,omitempty"`
}

// A Snapshot is a line of a session's history.
type Snapshot struct {
	EntryID     string   `json:"entryId,omitempty"`
	Rev         string   `json:"rev,omitempty"` // the entry, or look:N of what has none: a revision
	TurnIndex   int      `json:"turnIndex"`     // -1: of no turn
	Kind        string   `json:"kind"`          // step, empty (a turn that changed nothing), start, fork, restore, undo, redo or base
	TreeHash    store.ID `json:"treeHash"`
	SnapshotSeq uint64   `json:"snapshotSeq,omitempty"`
	Time        string   `json:"time,omitempty"` // RFC 3339
	Label       string   `json:"label,omitempty"`
	Added       int      `json:"added"`
	Modified    int      `json:"modified"`
	Deleted     int      `json:"deleted"`
	Unknown     string   `json:"unknown,omitempty"` // why these three are not all: what was there before is lost
	Interrupted bool     `json:"interrupted,omitempty"`
	Partial     bool     `json:"partial,omitempty"`
	TakenBack   uint64   `json:"takenBackSeq,omitempty"` // snapshotSeq of the restore that took the turn back; absent: none did
	But         []string `json:"but,omitempty"`          // paths at which it did not
	Without     []string `json:"without,omitempty"`      // of a turn that was not taken back: paths at which what it did is not in, or not all of it
	Elsewhere   bool     `json:"elsewhere,omitempty"`    // on another branch of the conversation
	ForkedFrom  string   `json:"forkedFrom,omitempty"`   // the session whose turn it is, or that a fork began from
	TookBack    []int    `json:"tookBack,omitempty"`     // turns that a restore took back
	PutBack     []int    `json:"putBack,omitempty"`      // and those that it put back
}

// Snapshots are a part of a session's history, oldest first.
type Snapshots struct {
	Snapshots  []Snapshot `json:"snapshots"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

// CoverageOf asks for what was left out of a snapshot.
type CoverageOf struct {
	Page
	Rev          string        `json:"rev,omitempty"`         // default "@"
	CoverageHash store.ID      `json:"coverageHash,omitzero"` // instead of Rev: as a look has it
	Reasons      []tree.Reason `json:"reasons,omitempty"`     // default: all
}

// An Omission was left out.
type Omission struct {
	Path      string      `json:"path"`
	PathBytes []byte      `json:"pathBytes,omitempty"` // if it is not UTF-8
	Kind      string      `json:"kind"`                // file, dir, symlink or special
	Size      int64       `json:"size,omitempty"`
	Reason    tree.Reason `json:"reason"`
}

// Omissions are in order of path.
type Omissions struct {
	Omissions  []Omission `json:"omissions"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

const (
	pageSize    = 50
	maxPageSize = 200
)

// bounds returns what part of a list is asked for.
func (p *Page) bounds() (from, to int, err error) {
	if p.Cursor != "" {
		if from, err = strconv.Atoi(p.Cursor); err != nil || from < 0 {
			return 0, 0, badRequest(fmt.Sprintf("cursor %q: want one that an answer had", p.Cursor))
		}
	}
	n := p.Limit
	if n <= 0 {
		n = pageSize
	}
	return from, from + min(n, maxPageSize), nil
}

func (l Limits) tree() tree.Limits {
	return tree.Limits{FileSize: l.FileSize, NewBytes: l.NewBytes, Files: l.Files, Time: time.Duration(l.TimeMs) * time.Millisecond}
}

func init() {
	add("get_modified_files", false, "lists the paths that turns changed between two points", func(ctx context.Context, s *served, p *Range) (*manager.ModifiedFiles, error) {
		return s.m.ModifiedFiles(ctx, &manager.Range{From: p.From, To: p.To, All: p.All, Foreign: p.Foreign, Renames: p.Renames, Limit: p.Limit, Cursor: p.Cursor})
	})
	add("get_file_diff", false, "returns a file at two points and the difference", func(ctx context.Context, s *served, p *FileRange) (*FileDiff, error) {
		info, err := s.m.FileDiff(ctx, &manager.FileRange{Path: p.Path, From: p.From, To: p.To, Bytes: p.Bytes, Context: p.Context})
		return &FileDiff{info}, err
	})
	add("get_turn_diff", false, "returns what a turn did, without what others did meanwhile", getTurnDiff)
	add("get_snapshots", false, "lists the session's history, oldest first", getSnapshots)
	add("get_coverage", false, "lists what was left out of a snapshot", getCoverage)
}

func getSnapshots(ctx context.Context, s *served, p *Page) (*Snapshots, error) {
	from, to, err := p.bounds()
	if err != nil {
		return nil, err
	}
	all, err := s.moments(ctx, from == 0)
	if err != nil {
		return nil, err
	}
	answer := &Snapshots{Snapshots: []Snapshot{}}
	for _, mo := range all[min(from, len(all)):min(to, len(all))] {
		line := Snapshot{EntryID: mo.EntryID, Rev: manager.NameOf(mo.EntryID, mo.Snapshot), TurnIndex: mo.TurnIndex, Kind: mo.Kind, TreeHash: mo.Tree, Added: mo.Added, Modified: mo.Modified, Deleted: mo.Deleted,
			Unknown: mo.Unknown, Interrupted: mo.Interrupted, Partial: mo.Partial}
		line.But, line.Without, line.Elsewhere, line.ForkedFrom, line.TookBack, line.PutBack = mo.But, mo.Without, mo.Elsewhere, mo.ForkedFrom, mo.TookBack, mo.PutBack
		if s := mo.TakenBack; s != nil {
			line.TakenBack = s.Seq
		}
		if snap := mo.Snapshot; snap != nil {
			line.SnapshotSeq, line.Label, line.Time = snap.Seq, snap.Label, snap.Time.Format("2006-01-02T15:04:05.000Z07:00")
		}
		answer.Snapshots = append(answer.Snapshots, line)
	}
	if to < len(all) {
		answer.NextCursor = strconv.Itoa(to)
	} else {
		s.listed.Store(nil)
	}
	return answer, nil
}

// moments returns what happened in the session, oldest first. All pages after the
// first are of the list that the first was of: the timeline can only be read as a
// whole, newest first.
func (s *served) moments(ctx context.Context, anew bool) ([]*manager.Moment, error) {
	if list := s.listed.Load(); list != nil && !anew {
		return *list, nil
	}
	var all []*manager.Moment
	for mo, err := range s.m.Timeline(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, mo)
	}
	slices.Reverse(all)
	s.listed.Store(&all)
	return all, nil
}

func getCoverage(ctx context.Context, s *served, p *CoverageOf) (*Omissions, error) {
	from, to, err := p.bounds()
	if err != nil {
		return nil, err
	}
	coverage := p.CoverageHash
	if coverage.IsZero() {
		point, err := s.m.Resolve(ctx, cmp.Or(p.Rev, "@"))
		if err != nil {
			return nil, err
		}
		coverage = point.State.Coverage
	}
	answer := &Omissions{Omissions: []Omission{}}
	i := 0
	for o, err := range tree.Coverage(ctx, s.m.Store(), coverage) {
		switch {
		case err != nil:
			return nil, err
		case p.Reasons != nil && !slices.Contains(p.Reasons, o.Reason):
			continue
		case i == to:
			answer.NextCursor = strconv.Itoa(to)
			return answer, nil
		case i >= from:
			line := Omission{Path: o.Path, Kind: "special", Size: o.Size, Reason: o.Reason}
			switch {
			case o.Kind.IsFile():
				line.Kind = "file"
			case o.Kind.IsDir():
				line.Kind = "dir"
			case o.Kind != 0:
				line.Kind = "symlink"
			}
			if !utf8.ValidString(o.Path) {
				line.PathBytes = []byte(o.Path)
			}
			answer.Omissions = append(answer.Omissions, line)
		}
		i++
	}
	return answer, nil
}

// Restore brings files back.
type Restore struct {
	Of
	Target     string          `json:"target"`          // a revision
	Paths      []string        `json:"paths,omitempty"` // default: what turns changed since
	Exact      bool            `json:"exact,omitempty"`
	OnDirty    rollback.Policy `json:"onDirty,omitempty"` // skip, overwrite or abort
	Force      bool            `json:"force,omitempty"`   // also while a turn is open
	AcrossHead bool            `json:"acrossHead,omitempty"`
}

// TakeBack takes back the newest restore, or the newest undo.
type TakeBack struct {
	Of
	OnDirty rollback.Policy `json:"onDirty,omitempty"`
	Force   bool            `json:"force,omitempty"`
	Preview bool            `json:"preview,omitempty"`
	Past    bool            `json:"past,omitempty"` // pass over restores of which only a part, or nothing, can be taken back
}

// Navigate moves the conversation, and the files with it.
type Navigate struct {
	Of
	Target     string          `json:"target"` // an entry
	SkipFiles  bool            `json:"skipFiles,omitempty"`
	Summarize  bool            `json:"summarize,omitempty"`
	Summary    string          `json:"summary,omitempty"`
	Label      string          `json:"label,omitempty"`
	Preview    bool            `json:"preview,omitempty"`
	OnDirty    rollback.Policy `json:"onDirty,omitempty"`
	Force      bool            `json:"force,omitempty"`
	AcrossHead bool            `json:"acrossHead,omitempty"`
}

// An Entry is one for the runtime's log.
type Entry struct {
	Type       string          `json:"type"`
	CustomType string          `json:"customType,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	FromID     string          `json:"fromId,omitempty"`  // of a branch_summary
	Summary    string          `json:"summary,omitempty"` // of a branch_summary
}

// Restored says what a restore did, or would do.
type Restored struct {
	*manager.RestoreResult
	SnapshotSeq uint64  `json:"snapshotSeq,omitempty"` // number of the record; 0: nothing was changed
	Complete    bool    `json:"complete"`              // all that was wanted was done
	Entries     []Entry `json:"entries"`               // for the runtime's log: then send told
}

// Navigated says where the conversation stands.
type Navigated struct {
	*manager.NavigateResult
	Entries []Entry `json:"entries"` // for the runtime's log
}

// entries collects what a runtime is to append to its log. A session of which we
// keep the log collects nothing.
func (s *served) entries(list *[]Entry) manager.EntryFunc {
	*list = []Entry{}
	if !s.logs {
		return nil
	}
	return func(_ context.Context, e *session.Entry) (string, error) {
		*list = append(*list, Entry{Type: e.Type, CustomType: e.CustomType, Data: e.Data, FromID: e.FromID, Summary: e.Summary})
		return "", nil
	}
}

func restored(r *manager.RestoreResult, entries []Entry, err error) (*Restored, error) {
	if r == nil {
		return nil, err
	}
	answer := &Restored{RestoreResult: r, Complete: r.IsComplete(), Entries: entries}
	if r.Snapshot != nil {
		answer.SnapshotSeq = r.Snapshot.Seq
	}
	return answer, err
}

func init() {
	restore := func(preview bool) func(context.Context, *served, *Restore) (*Restored, error) {
		return func(ctx context.Context, s *served, p *Restore) (*Restored, error) {
			var entries []Entry
			r, err := s.m.RestoreFiles(ctx, &manager.RestoreOptions{Target: p.Target, Paths: p.Paths, Exact: p.Exact, OnDirty: p.OnDirty, Force: p.Force,
				AcrossHead: p.AcrossHead, Preview: preview, Append: s.entries(&entries)})
			return restored(r, entries, err)
		}
	}
	add("restore_preview", true, "says what restore would do, and does nothing", restore(true))
	add("restore", true, "brings files back to what they were", restore(false))
	takeBack := func(fn func(*manager.FileSnapshotManager, context.Context, *manager.RestoreOptions) (*manager.RestoreResult, error)) func(context.Context, *served, *TakeBack) (*Restored, error) {
		return func(ctx context.Context, s *served, p *TakeBack) (*Restored, error) {
			var entries []Entry
			r, err := fn(s.m, ctx, &manager.RestoreOptions{OnDirty: p.OnDirty, Force: p.Force, Preview: p.Preview, Past: p.Past, Append: s.entries(&entries)})
			return restored(r, entries, err)
		}
	}
	add("undo", true, "takes back the newest restore", takeBack((*manager.FileSnapshotManager).Undo))
	add("redo", true, "takes back the newest undo", takeBack((*manager.FileSnapshotManager).Redo))
	add("navigate_tree", true, "moves the conversation to an entry, and the files with it", func(ctx context.Context, s *served, p *Navigate) (*Navigated, error) {
		var entries []Entry
		r, err := s.m.NavigateTree(ctx, p.Target, &manager.NavigateOptions{SkipFiles: p.SkipFiles, Summarize: p.Summarize, Summary: p.Summary, Label: p.Label,
			Preview: p.Preview, OnDirty: p.OnDirty, Force: p.Force, AcrossHead: p.AcrossHead, Append: s.entries(&entries)})
		if r == nil {
			return nil, err
		}
		return &Navigated{r, entries}, err
	})
}

// ApplyPatch edits files.
type ApplyPatch struct {
	Of
	Format     patch.Format      `json:"format,omitempty"` // of patch; default: told by its look
	Patch      string            `json:"patch,omitempty"`  // in place of old and new
	Path       string            `json:"path,omitempty"`
	Old        string            `json:"old,omitempty"`
	New        string            `json:"new,omitempty"`
	Fuzzy      bool              `json:"fuzzy,omitempty"` // also what is only similar; then reindent is auto and merge true, unless options say off and false
	Sequential bool              `json:"sequential,omitempty"`
	Fuzz       *int              `json:"fuzz,omitempty"`     // of a unified diff
	Expected   map[string]string `json:"expected,omitempty"` // hashes, by path
	Options    patch.OptionsJSON `json:"options"`
	Preview    bool              `json:"preview,omitempty"`
}

// UndoPatch takes back an edit.
type UndoPatch struct {
	Of
	UndoID  string `json:"undoId"`
	Force   bool   `json:"force,omitempty"`
	Reverse bool   `json:"reverse,omitempty"`
	Preview bool   `json:"preview,omitempty"`
}

// Edited says what an edit did, or why it was refused.
type Edited struct {
	*manager.EditResult
	Refusals  []Refusal `json:"refusals,omitempty"`
	FuzzyFits bool      `json:"fuzzyFits,omitempty"` // of a refusal: with fuzzy all pieces could be put
}

// A Refusal says why a piece of a patch was refused.
type Refusal struct {
	Path    string       `json:"path,omitempty"`
	Line    int          `json:"line,omitempty"` // of the patch
	Reason  patch.Reason `json:"reason,omitempty"`
	Message string       `json:"message"`
	Near    []patch.Near `json:"near,omitempty"`
}

// Refusals returns why pieces of a patch were refused.
func Refusals(list []*patch.HunkError) []Refusal {
	var refusals []Refusal
	for _, e := range list {
		refusals = append(refusals, Refusal{e.Path, e.Line, e.Match.Reason, e.Error(), e.Match.Near})
	}
	return refusals
}

func edited(r *manager.EditResult, err error) (*Edited, error) {
	if refused, ok := errors.AsType[*manager.EditError](err); ok {
		return &Edited{Refusals: Refusals(refused.Refused), FuzzyFits: refused.Fuzzy}, err
	}
	if r == nil {
		return nil, err
	}
	return &Edited{EditResult: r}, err
}

func init() {
	add("apply_patch", true, "edits files: all pieces of a patch, or none", func(ctx context.Context, s *served, p *ApplyPatch) (*Edited, error) {
		req := &manager.EditRequest{Path: p.Path, Old: []byte(p.Old), New: []byte(p.New), Fuzzy: p.Fuzzy, Sequential: p.Sequential, Fuzz: p.Fuzz,
			Expected: p.Expected, Preview: p.Preview, Options: *p.Options.Options(),
			NoMerge: p.Options.Merge != nil && !*p.Options.Merge}
		if p.Format != "" || p.Patch != "" {
			parsed, err := patch.Parse(p.Format, []byte(p.Patch), p.Path)
			if err != nil {
				return nil, err
			}
			req.Patch = parsed
		} else if p.Path == "" {
			return nil, badRequest("apply_patch: want patch, or path, old and new")
		}
		return edited(s.m.ApplyEdits(ctx, req))
	})
	add("undo_patch", true, "takes back an edit", func(ctx context.Context, s *served, p *UndoPatch) (*Edited, error) {
		return edited(s.m.UndoEdit(ctx, p.UndoID, &manager.UndoEditOptions{Force: p.Force, Reverse: p.Reverse, Preview: p.Preview}))
	})
}

// Cancel ends a request.
type Cancel struct {
	RequestID json.RawMessage `json:"requestId"`
}

// Ended says how the request ended that was to be cancelled.
type Ended struct {
	Outcome Status `json:"outcome"` // complete: it was done by then; "unknown": no such request is being answered
}

// Pong says who answers.
type Pong struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
}

// Protocol is the version of the protocol: it grows when something changes that
// a client could mind.
const Protocol = 1

// Stats are counts.
type Stats struct {
	Watches  map[string]tree.WatchStats `json:"watches"` // by directory
	Sessions []string                   `json:"sessions"`
	Requests int                        `json:"requests"` // being answered on this connection
}

func init() {
	addFree("cancel", "ends a request, and answers when it has ended", func(ctx context.Context, c *conn, p *Cancel) (*Ended, error) {
		c.mu.Lock()
		run := c.running[string(p.RequestID)]
		c.mu.Unlock()
		if run == nil {
			return &Ended{"unknown"}, nil
		}
		run.cancel(errCancelled)
		select {
		case <-run.done:
			return &Ended{run.status}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	addFree("ping", "answers", func(_ context.Context, c *conn, _ *struct{}) (*Pong, error) {
		return &Pong{c.server.Version, Protocol}, nil
	})
	addFree("stats", "counts", func(_ context.Context, c *conn, _ *struct{}) (*Stats, error) {
		st := &Stats{Watches: c.server.Engine.WatchStats(), Sessions: []string{}}
		c.mu.Lock()
		defer c.mu.Unlock()
		for id := range c.sessions {
			st.Sessions = append(st.Sessions, id)
		}
		slices.Sort(st.Sessions)
		st.Requests = len(c.running)
		return st, nil
	})
	addFree("locate", "finds the place of a text in another, in memory", func(_ context.Context, _ *conn, q *Locate) (*Located, error) {
		return q.Answer(), nil
	})
}
