package client

import (
	"context"
	"encoding/json"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Initialize begins with a session, or takes it up again.
type Initialize struct {
	CWD         string `json:"cwd"`                   // directory of the session
	SessionID   string `json:"sessionId"`             // letters, digits and ._-
	SessionFile string `json:"sessionFile,omitempty"` // the runtime's log, in pi's format; it is only read
	OwnLog      bool   `json:"ownLog,omitempty"`      // the runtime keeps no log: steps get entries of ours
	ToolWindows bool   `json:"toolWindows,omitempty"` // the runtime sends tool_start and tool_end
	Detached    bool   `json:"detached,omitempty"`    // a turn may end on another connection
	Resume      bool   `json:"resume,omitempty"`      // the engine has died, not the runtime: the turn goes on
	AllowBroad  bool   `json:"allowBroad,omitempty"`  // also a home directory and the like
	Limits      Limits `json:"limits,omitzero"`
}

// Limits are those of captures. Zero is the default, negative is none.
type Limits struct {
	FileSize int64 `json:"fileSize,omitempty"` // bytes; a larger file is left out
	NewBytes int64 `json:"newBytes,omitempty"` // bytes to be read
	Files    int64 `json:"files,omitempty"`
	TimeMs   int64 `json:"timeMs,omitempty"`
}

// Initialized is a Look at the start of a session.
type Initialized struct {
	Look
	SessionID string `json:"sessionId"`
	Root      string `json:"root"`     // real path of the directory
	StoreDir  string `json:"storeDir"` // directory of the store

	Concerns []Concern `json:"concerns,omitempty"` // what the user should know of the store
}

// A Concern is something about a store that its user should know.
type Concern struct {
	Text   string `json:"text"`
	Urgent bool   `json:"urgent"` // something is damaged
}

// Look is what came of looking at the directory.
type Look struct {
	SnapshotTreeHash store.ID                  `json:"snapshotTreeHash"`
	CoverageHash     store.ID                  `json:"coverageHash,omitzero"` // of what was left out
	EntryID          string                    `json:"entryId,omitempty"`     // of the step, if it is one of ours
	Data             *manager.StepSnapshotData `json:"data"`                  // of the step; null: nothing changed
	Offline          *manager.Diff             `json:"offline"`               // changed, and no turn's doing
	SinceLast        string                    `json:"sinceLast,omitempty"`   // what the user took back, for the model
	SnapshotSeq      uint64                    `json:"snapshotSeq,omitempty"` // number of what was recorded; 0: nothing
	Files            int64                     `json:"files"`
	ReadFiles        int64                     `json:"readFiles"`
	Omitted          int64                     `json:"omitted"` // left out, a directory counted once
	Partial          bool                      `json:"partial"` // a limit was reached
	// Secrets are files that were captured and seem to hold secrets, once in a session, at the
	// end of a turn.
	Secrets []string `json:"secrets,omitempty"`
}

// TurnEnded is a Look at the end of a turn.
type TurnEnded struct {
	Look
	// Entries are for the runtime's log, oldest first: all that it was not told of yet.
	Entries []session.Entry `json:"entries"`
	// Health is what the user should know of the store, once a day.
	Health string `json:"health,omitempty"`
}

// A Session is one of the engine's that this client has initialized.
type Session struct {
	c  *Client
	id string
}

// Open begins with a session, or takes it up again: what manager.Open and
// Initialize do.
func (c *Client) Open(ctx context.Context, p *Initialize) (*Session, *Initialized, error) {
	r := new(Initialized)
	if err := c.Call(ctx, "initialize", p, r); err != nil {
		return nil, nil, err
	}
	return &Session{c, p.SessionID}, r, nil
}

// Call sends a verb about the session; see [Client.Call].
func (s *Session) Call(ctx context.Context, verb string, args, answer any) error {
	return s.c.call(ctx, verb, s.id, args, answer, nil)
}

// OnTurnStart opens a turn. turn may be nil.
func (s *Session) OnTurnStart(ctx context.Context, turn *manager.Turn) (*Look, error) {
	r := new(Look)
	if turn == nil {
		turn = new(manager.Turn)
	}
	if err := s.Call(ctx, "turn_start", turn, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Claim says that the turn writes files.
func (s *Session) Claim(ctx context.Context, paths ...string) error {
	return s.Call(ctx, "claim", map[string][]string{"paths": paths}, nil)
}

// OnTurnEnd records what the turn changed. append appends an entry to the runtime's
// log and returns its ID, which the engine is told. Without it the entries of the
// answer are to be appended, and each is offered again until "told" names it.
func (s *Session) OnTurnEnd(ctx context.Context, append manager.AppendFunc) (*TurnEnded, error) {
	r := new(TurnEnded)
	if err := s.Call(ctx, "turn_end", nil, r); err != nil {
		return nil, err
	}
	if append == nil {
		return r, nil
	}
	for _, entry := range r.Entries {
		e, id := new(manager.StepSnapshotData), ""
		err := json.Unmarshal(entry.Data, e)
		if err == nil {
			id, err = append(ctx, e)
		}
		if err == nil {
			err = s.Call(ctx, "told", map[string]any{"snapshotSeq": e.SnapshotSeq, "entryId": id}, nil)
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
