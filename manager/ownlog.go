package manager

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
)

// ownLog is the name in the store of our own log of the session.
func (m *FileSnapshotManager) ownLog() string {
	return m.place().Sessions() + "/" + m.opts.Session + ".jsonl"
}

// exportLog writes our own log of the session: see [inside.Door]. It appends an entry that
// no record has; nil: none. Of two who export at once, the second goes on from the first.
// The caller holds mu.
func (m *FileSnapshotManager) exportLog(ctx context.Context, last *session.Entry) error {
	return m.withTurns(ctx, func(*history.Turns) error {
		fsys, log := m.store.FS(), session.NewTree()
		text, err := vfs.ReadFile(fsys, m.ownLog())
		if err == nil {
			var file *sessionlog.File
			if file, err = sessionlog.OpenFS(ctx, fsys, m.ownLog()); err == nil {
				log = file.Tree()
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries, err := m.missingFrom(ctx, log)
		if err != nil {
			return err
		}
		if last != nil {
			if _, ok := log.Entry(last.ParentID); !ok {
				last.ParentID = ""
			}
			entries = append(entries, *last)
		}
		text, err = sessionlog.AppendLog(text, &sessionlog.Header{ID: m.opts.Session, CWD: m.project.Root}, entries...)
		if err != nil {
			return err
		}
		return layout.WriteFile(fsys, m.ownLog(), text)
	})
}

// missingFrom adds to our own log what it lacks of the session's line and of its restores,
// and returns the entries.
func (m *FileSnapshotManager) missingFrom(ctx context.Context, log *session.Tree) (entries []session.Entry, err error) {
	head, err := m.records.Newest(m.opts.Session)
	if err == nil && head == nil {
		err = m.noSession(ctx)
	}
	if err != nil {
		return nil, err
	}
	var missing []*record
	isKnown := func(r *record) bool {
		_, ok := log.Entry(r.Entry)
		return ok && r.Facts.Own || r.Pruned
	}
	steps := m.byRecords()
	r, err := m.records.StepAt(ctx, head.Step(), head.Session)
	for ; err == nil && r != nil && !(r.IsStep() && r.Facts.Own && isKnown(r)); r, err = steps.StepBefore(ctx, r) {
		if r.Facts.Own && r.IsStep() { // no start without an entry, and no step that a runtime's log has
			missing = append(missing, r)
		}
	}
	if err == nil {
		r, err = m.records.LastRestore(ctx, head)
	}
	for ; err == nil && r != nil && !isKnown(r); r, err = m.records.RestoreBefore(ctx, r) {
		if r.Facts.Own {
			missing = append(missing, r)
		}
	}
	slices.SortFunc(missing, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range missing {
		var e *session.Entry
		if err == nil {
			e, err = m.ownEntry(ctx, r, log)
		}
		if err != nil {
			break
		}
		log.Add(*e)
		entries = append(entries, *e)
	}
	return entries, err
}

// ownEntry returns the entry of a step, or of a restore, in our own log. Its parent is
// that of the nearest record before it that has one there.
func (m *FileSnapshotManager) ownEntry(ctx context.Context, r *record, log *session.Tree) (*session.Entry, error) {
	parent := ""
	for seq := r.Facts.Prev; seq != 0 && parent == ""; {
		up, err := m.records.StepAt(ctx, seq, r.Session)
		if err != nil {
			return nil, err
		}
		if seq = up.Facts.Prev; up.Facts.Step > up.Facts.Restored { // no restore lies between, which may have one
			seq = up.Facts.Step
		}
		if _, ok := log.Entry(up.Entry); ok && up.Facts.Own {
			parent = up.Entry
		}
	}
	if r.Kind == history.KindRestore {
		d, err := m.unrevertPoint(ctx, r)
		if err != nil {
			return nil, err
		}
		e := d.entry(r.Entry, parent)
		e.Timestamp = r.Time
		return e, nil
	}
	d, err := m.readData(ctx, r)
	if err != nil {
		return nil, err
	}
	e := d.Entry(r.Entry, parent)
	e.Timestamp = r.Time
	return &e, nil
}
