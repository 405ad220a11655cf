package manager

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// NavigateOptions are the choices at [FileSnapshotManager.NavigateTree].
type NavigateOptions struct {
	SkipFiles bool   // move the conversation only, and leave the files alone
	Summarize bool   // append a branch_summary of what is left
	Summary   string // its text
	Label     string // of the record
	Preview   bool   // say what would be done, and do nothing

	OnDirty    rollback.Policy // as in RestoreOptions; with Abort the move is cancelled
	Force      bool
	AcrossHead bool
	Append     EntryFunc
}

// A NavigateResult says where the conversation stands.
type NavigateResult struct {
	OldLeafID *string        `json:"oldLeafId"` // null: before the first entry
	NewLeafID *string        `json:"newLeafId"`
	Cancelled bool           `json:"cancelled"`         // something is dirty, and the policy is to do nothing then
	Restore   *RestoreResult `json:"restore,omitempty"` // of the files; null with SkipFiles
	SummaryID string         `json:"summaryEntryId,omitempty"`
	Preview   bool           `json:"preview,omitempty"`
}

// A navigation is one while it runs.
type navigation struct {
	Label    string
	old, new string
}

// NavigateTree moves the conversation to an entry, and the files to what they
// were there: before a user message, so that it can be said again, and to any
// other entry itself. Files go as with [FileSnapshotManager.RestoreFiles].
//
// Where the runtime has given its tree (see RebuildIndex) its leaf is moved;
// the entry that Append appends then makes that last. Without a log the records
// say where the conversation stands.
//
// Errors are those of RestoreFiles and [session.Tree.Target].
func (m *FileSnapshotManager) NavigateTree(ctx context.Context, target string, opts *NavigateOptions) (*NavigateResult, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if opts == nil {
		opts = new(NavigateOptions)
	}
	result, err := m.navigate(ctx, target, opts)
	if err != nil {
		err = fmt.Errorf("navigate to %q: %w", target, err)
	}
	return result, err
}

func (m *FileSnapshotManager) navigate(ctx context.Context, target string, opts *NavigateOptions) (*NavigateResult, error) {
	if err := opts.OnDirty.Check(); err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	nav := &navigation{Label: opts.Label}
	if l.log != nil {
		e, err := l.log.Find(target)
		if err != nil {
			return nil, err
		}
		target, nav.old = e.ID, m.leaf(l.log)
		if nav.new, err = l.log.Target(target); err != nil {
			return nil, err
		}
	} else {
		tip, err := m.conversation(ctx)
		if err != nil {
			return nil, err
		}
		p, err := m.resolve(ctx, target)
		if err != nil {
			return nil, err
		}
		if p.on == nil {
			return nil, fmt.Errorf("%w: it is no step of the session", ErrUnknown)
		}
		nav.old, nav.new = tip.Entry, p.EntryID
	}
	result := &NavigateResult{OldLeafID: orNull(nav.old), NewLeafID: orNull(nav.new), Preview: opts.Preview}
	switch {
	case !opts.SkipFiles:
		result.Restore, err = m.restoreFiles(ctx, &RestoreOptions{Target: target, OnDirty: opts.OnDirty, Preview: opts.Preview,
			Force: opts.Force, AcrossHead: opts.AcrossHead, Append: opts.Append}, nav)
		if result.Restore != nil {
			result.Cancelled = result.Restore.Aborted
		}
		if result.Restore == nil || result.Cancelled {
			return result, err
		}
	case opts.Preview:
		return result, nil
	default:
		err = m.moveLeaf(ctx, l, target, nav)
	}
	if err != nil || opts.Preview || !opts.Summarize {
		return result, err
	}
	result.SummaryID, err = m.summarize(ctx, opts, nav)
	return result, err
}

// conversation returns the turn, or the start, at which the conversation stands of
// a session without a log.
func (m *FileSnapshotManager) conversation(ctx context.Context) (*record, error) {
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return nil, err
	}
	if head == nil {
		return nil, fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
	}
	r, err := m.stepAt(ctx, head.step(), m.opts.Session)
	if err != nil {
		return nil, err
	}
	return (&line{m: m}).turnAt(ctx, r)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moveLeaf moves the conversation and not the files.
func (m *FileSnapshotManager) moveLeaf(ctx context.Context, l *line, target string, nav *navigation) error {
	if l.log != nil {
		if m.given == nil {
			return nil // the runtime moves it
		}
		m.turnLeaf = ""
		return m.given.SetLeaf(nav.new)
	}
	p, err := m.resolve(ctx, target)
	if err != nil {
		return err
	}
	return m.withTurns(ctx, func(t *turns) error {
		o, err := m.under(ctx, t)
		if err != nil {
			return err
		}
		defer o.close(m)
		if _, err := m.recover(ctx, o, true); err != nil {
			return err
		}
		if o.head == nil || o.last == nil {
			return fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
		}
		last, err := m.lastRestore(ctx, o.head)
		if err != nil {
			return err
		}
		r := &record{Snapshot: &store.Snapshot{Kind: kindRestore, Base: o.last.State(), Label: nav.Label}}
		r.data.Prev, r.data.From, r.data.Pos, r.data.Tops = p.on.Seq, o.head.position(), o.head.position(), topsNone
		if last != nil {
			r.data.setBack(last.undo(), last.redo())
		}
		return m.commitAt(ctx, o, r, o.last.State())
	})
}

// summarize appends a summary of the branch that was left.
func (m *FileSnapshotManager) summarize(ctx context.Context, opts *NavigateOptions, nav *navigation) (string, error) {
	e := &session.Entry{Type: "branch_summary", FromID: nav.old, Summary: opts.Summary, SkipFiles: opts.SkipFiles}
	if e.FromID == "" {
		e.FromID = "root"
	}
	if opts.Append != nil {
		if opts.SkipFiles { // all that pi takes
			e.Details = json.RawMessage(`{"skipFiles":true}`)
		}
		return opts.Append(ctx, e)
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err == nil {
		err = m.appendOwn(ctx, head, false)
	}
	if err != nil {
		return "", err
	}
	if e.ID, err = m.newEntryID(ctx); err != nil {
		return "", err
	}
	if _, ok := m.own.Tree().Entry(nav.new); ok {
		e.ParentID = nav.new
	}
	return e.ID, m.own.Append(ctx, *e)
}
