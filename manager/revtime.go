package manager

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/store"
)

// timeIn returns the text of a revision that is a time, "@{yesterday}".
func timeIn(rev string) (text string, ok bool) {
	text, ok = strings.CutPrefix(rev, "@{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(text, "}")
}

// atTime finds what the session's newest record had by a time.
func (m *FileSnapshotManager) atTime(ctx context.Context, text string) (*Point, error) {
	t, err := when.Parse(text, time.Now())
	if err != nil {
		return nil, fmt.Errorf("revision @{%s}: %w: %w", text, ErrUnknown, err)
	}
	oldest := ""
	for s, err := range m.moments(ctx) {
		switch {
		case err != nil:
			return nil, err
		case s.Time.After(t):
			oldest = ": the first record is of " + s.Time.In(t.Location()).Format(time.DateTime)
		case s.Pruned:
			return nil, fmt.Errorf("revision @{%s}: the snapshot of then %w", text, store.ErrPruned)
		default:
			return m.recordPoint(ctx, s)
		}
	}
	return nil, fmt.Errorf("revision @{%s}: %w: nothing was recorded by then%s", text, ErrUnknown, oldest)
}

// labelled finds the record that has a label: of the session, else of whatever session in the
// directory; nil if there is none. Of several none is meant.
func (m *FileSnapshotManager) labelled(ctx context.Context, label string) (*Point, error) {
	var found, others []*store.Snapshot
	for s, err := range m.states(ctx) {
		own := false
		if err == nil && s.Label == label {
			own, err = m.owns(ctx, s)
		}
		switch {
		case err != nil:
			return nil, err
		case own:
			found = append(found, s)
		case s.Label == label:
			others = append(others, s)
		}
	}
	if len(found) == 0 {
		found = others
	}
	switch {
	case len(found) == 0 || label == "":
		return nil, nil
	case len(found) > 1:
		var names []string
		for _, s := range found {
			names = append(names, history.NameOf(s.Entry, s))
		}
		return nil, fmt.Errorf("revision %q: %w: the label is that of %s", label, ErrAmbiguous,
			strings.Join(names, ", "))
	case found[0].Pruned:
		return nil, fmt.Errorf("revision %q: the snapshot %w", label, store.ErrPruned)
	}
	return m.recordPoint(ctx, found[0])
}

// asOf returns where the session was when another one of the directory made a record: its newest
// state of then, its start if it began later.
func (l *line) asOf(ctx context.Context, made *store.Snapshot) (*Point, error) {
	for s, err := range l.m.states(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Seq > made.Seq {
			continue
		}
		own, err := l.has(ctx, s)
		switch {
		case err != nil:
			return nil, err
		case own && s.Pruned:
			return nil, fmt.Errorf("session %q: its snapshot of then %w", l.m.opts.Session, store.ErrPruned)
		case own:
			return l.m.recordPoint(ctx, s)
		}
	}
	return l.startPoint(ctx)
}

// moments yields the records of the session, or of all in its directory where any will do,
// newest first: each is a state that the directory had.
func (m *FileSnapshotManager) moments(ctx context.Context) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		for s, err := range m.states(ctx) {
			own := false
			if err == nil {
				own, err = m.owns(ctx, s)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if own && !yield(s, nil) {
				return
			}
		}
	}
}

// states yields the records of all sessions of the directory, newest first, that tell a state of it.
func (m *FileSnapshotManager) states(ctx context.Context) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		for s, err := range m.store.Snapshots(ctx) {
			if err == nil && (history.IsEdit(s) || s.Kind == history.KindIntent || s.Worktree != m.project.Worktree) {
				continue
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}
