package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// NavigateOptions are the choices at [FileSnapshotManager.NavigateTree].
type NavigateOptions struct {
	SkipFiles bool   `json:"skipFiles,omitempty"` // move the conversation only, and leave the files alone
	Summarize bool   `json:"summarize,omitempty"` // append a branch_summary of what is left
	Summary   string `json:"summary,omitempty"`   // its text
	Label     string `json:"label,omitempty"`     // of the record
	Preview   bool   `json:"preview,omitempty"`   // say what would be done, and do nothing

	// The rest is as in RestoreOptions. With Abort the move is cancelled.
	OnDirty    rollback.Policy `json:"onDirty,omitempty"`
	Force      bool            `json:"force,omitempty"`
	EndTurn    bool            `json:"endTurn,omitempty"`
	AcrossHead bool            `json:"acrossHead,omitempty"`
	Append     EntryFunc       `json:"-"`
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

// A navigation is where the conversation was, and is then.
type navigation struct{ old, new string }

// NavigateTree moves the conversation to an entry, and the files to what they
// were there: before a user message, so that it can be said again, and to any
// other entry itself. Files go as with [FileSnapshotManager.RestoreFiles].
//
// Where the runtime has given its tree (see RebuildIndex) its leaf is moved;
// the entry that Append appends then makes that last. Without a log the records
// say where the conversation stands.
//
// Errors are those of RestoreFiles and [session.Tree.Target].
func (m *FileSnapshotManager) NavigateTree(
	ctx context.Context, target string, opts *NavigateOptions,
) (*NavigateResult, error) {
	what := fmt.Sprintf("navigate to %q", target)
	return restoring(ctx, m, what, func(ctx context.Context) (*NavigateResult, error) {
		return m.navigate(ctx, target, cmp.Or(opts, new(NavigateOptions)))
	})
}

func (m *FileSnapshotManager) navigate(
	ctx context.Context, target string, opts *NavigateOptions,
) (*NavigateResult, error) {
	if _, err := opts.OnDirty.MarshalText(); err != nil {
		return nil, err
	}
	if opts.EndTurn && !opts.Preview && !opts.SkipFiles { // before it is asked where the conversation stands
		m.mayEnd = true
		err := (&restore{m: m, asked: asked{opts: RestoreOptions{Append: opts.Append}}}).endTurn(ctx)
		if m.mayEnd = false; err != nil {
			return nil, err
		}
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	nav, target, err := l.navigation(ctx, target)
	if err != nil {
		return nil, err
	}
	result := &NavigateResult{OldLeafID: words.OrNull(nav.old), NewLeafID: words.OrNull(nav.new), Preview: opts.Preview}
	switch {
	case !opts.SkipFiles:
		result.Restore, err = m.restoreFiles(ctx, &RestoreOptions{
			Target: target, Label: opts.Label, OnDirty: opts.OnDirty, Preview: opts.Preview,
			Force: opts.Force, EndTurn: opts.EndTurn, AcrossHead: opts.AcrossHead, Append: opts.Append}, nav)
		if result.Restore != nil {
			result.Cancelled = result.Restore.Aborted
		}
		if result.Restore == nil || result.Cancelled {
			return result, err
		}
	case opts.Preview:
		return result, nil
	default:
		err = m.moveLeaf(ctx, l, target, opts.Label, nav)
	}
	if err != nil || opts.Preview || !opts.Summarize {
		return result, err
	}
	result.SummaryID, err = m.summarize(ctx, opts, nav)
	return result, err
}

// navigation finds out which way a navigation to a target goes. The target is named by its
// entry then, if there is a log.
func (l *line) navigation(ctx context.Context, target string) (nav *navigation, name string, err error) {
	nav = new(navigation)
	if l.log != nil {
		e, err := l.named(target)
		if err != nil {
			return nil, "", err
		}
		nav.old = l.m.leaf(l.log)
		nav.new, err = sessionlog.Target(l.log, e)
		return nav, e.ID, err
	}
	tip, err := l.m.conversation(ctx)
	if err != nil {
		return nil, "", err
	}
	p, err := l.m.resolve(ctx, target)
	if err != nil {
		return nil, "", err
	}
	if p.on == nil {
		return nil, "", fmt.Errorf("%w: it is no step of the session", ErrUnknown)
	}
	nav.old, nav.new = tip.Entry, p.EntryID
	return nav, target, nil
}

// conversation returns the turn, or the start, at which the conversation stands of
// a session without a log.
func (m *FileSnapshotManager) conversation(ctx context.Context) (*record, error) {
	head, err := m.records.Newest(m.opts.Session)
	if err != nil {
		return nil, err
	}
	if head == nil {
		return nil, m.noSession(ctx)
	}
	r, err := m.records.StepAt(ctx, head.Step(), m.opts.Session)
	if err != nil {
		return nil, err
	}
	return m.byRecords().TurnAt(ctx, r)
}

// moveLeaf moves the conversation and not the files.
func (m *FileSnapshotManager) moveLeaf(ctx context.Context, l *line, target, label string, nav *navigation) error {
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
	return m.withLook(ctx, func(o *look) error {
		if _, err := m.recover(ctx, o, change.Forward); err != nil {
			return err
		}
		if o.head == nil || o.last == nil {
			return m.noSession(ctx)
		}
		last, err := m.records.LastRestore(ctx, o.head)
		if err != nil {
			return err
		}
		r := &record{Snapshot: &store.Snapshot{Kind: history.KindRestore, Base: o.last.State(), Label: label}}
		d := &r.Facts
		d.Prev, d.From, d.Pos, d.Tops = p.on.Seq, o.head.Position(), o.head.Position(), history.TopsNone
		d.SetBack(last.Lists())
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
	var err error
	if e.ID, err = m.newEntryID(ctx); err != nil {
		return "", err
	}
	e.ParentID = nav.new
	return e.ID, m.exportLog(ctx, e)
}
