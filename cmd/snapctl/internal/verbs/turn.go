package verbs

import (
	"context"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
)

// Tool names one that begins.
type Tool struct {
	Tool string `json:"tool"` // its name; no two may run under one
}

// ToolEnd names one that has ended.
type ToolEnd struct {
	Tool    string `json:"tool"`
	Refused bool   `json:"refused,omitempty"` // it has not been run after all
}

// Told says that the runtime's log has an entry.
type Told struct {
	SnapshotSeq uint64 `json:"snapshotSeq"`
	EntryID     string `json:"entryId"`
}

// Claim names files that the turn writes.
type Claim struct {
	Paths []string `json:"paths"`
}

// File names a file.
type File struct {
	Path string `json:"path"`
}

// Hash is a file's content.
type Hash struct {
	Hash string `json:"hash"` // BLAKE3; "": there is no file
}

// Done has nothing to say.
type Done struct{}

func newLook(r *manager.Result) *client.Look {
	l := &client.Look{SnapshotTreeHash: r.Tree, EntryID: r.EntryID, Data: r.Data, Offline: r.Offline,
		SinceLast: r.SinceLast, Secrets: r.Secrets}
	if r.Snapshot != nil {
		l.SnapshotSeq = r.Snapshot.Seq
	}
	if c := r.Capture; c != nil {
		l.CoverageHash, l.Omitted, l.Partial = c.Coverage, c.Omitted, c.Partial
		l.Files, l.ReadFiles = c.Files+c.Symlinks, c.ReadFiles
	}
	return l
}

func look(r *manager.Result, err error) (*client.Look, error) {
	if err != nil {
		return nil, err
	}
	return newLook(r), nil
}

func turnStart(ctx context.Context, s *Session, a *manager.Turn) (*client.Look, error) {
	return look(s.OnTurnStart(ctx, a))
}

func toolStart(ctx context.Context, s *Session, a *Tool) (*client.Look, error) {
	return look(s.OnToolStart(ctx, a.Tool))
}

func toolEnd(ctx context.Context, s *Session, a *ToolEnd) (*client.Look, error) {
	if a.Refused {
		return look(s.OnToolsRefused(ctx, a.Tool))
	}
	return look(s.OnToolEnd(ctx, a.Tool))
}

func turnEnd(ctx context.Context, s *Session, _ *struct{}) (*client.TurnEnded, error) {
	var r *manager.Result
	var err error
	entries := []session.Entry{}
	if s.logs {
		var list []*manager.StepSnapshotData
		r, list, err = s.EndTurn(ctx)
		for _, step := range list {
			entries = append(entries, step.Entry("", ""))
		}
	} else {
		r, err = s.OnTurnEnd(ctx, nil)
	}
	if r == nil {
		return nil, err
	}
	return &client.TurnEnded{Look: *newLook(r), Entries: entries, Health: s.Health()}, err
}

func told(ctx context.Context, s *Session, a *Told) (*Done, error) {
	return &Done{}, s.Told(ctx, a.SnapshotSeq, a.EntryID)
}

func claim(ctx context.Context, s *Session, a *Claim) (*Done, error) {
	return &Done{}, s.Claim(ctx, a.Paths...)
}

func noteRead(ctx context.Context, s *Session, a *File) (*Hash, error) {
	if err := wantPath(a.Path); err != nil {
		return nil, err
	}
	hash, err := s.NoteRead(ctx, a.Path)
	return &Hash{hash}, err
}
