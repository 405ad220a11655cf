package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func init() {
	inside.Of = func(m inside.Manager) inside.Door { return door{m.(selfer).self()} }
	inside.OfEngine = func(e inside.Engine) inside.EngineDoor { return engineDoor{e.(*Engine)} }
}

// A selfer is a manager, or something that embeds one.
type selfer interface{ self() *FileSnapshotManager }

func (m *FileSnapshotManager) self() *FileSnapshotManager { return m }

// A door is what our own programs get at: see [inside.Door].
type door struct{ *FileSnapshotManager }

func (m door) Store() *cas.Store { return m.store }

func (m door) Disk(ctx context.Context, opts *capture.Options) (*tree.Result, trees.Getter, error) {
	overlay := trees.NewOverlay(m.store)
	o := *opts
	if o.Limits.FileSize == 0 && o.Limits.FileSizes == "" {
		o.Limits.FileSize, o.Limits.FileSizes = m.opts.Limits.FileSize, m.opts.Limits.FileSizes
	}
	r, err := m.engine.capture(ctx, m.tree, overlay, &o)
	return r, overlay, err
}

func (m door) TreePath(path string) (string, error) { return m.treePath(path) }

func (m door) UseSession(id string) error {
	unlock, err := m.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case !session.ValidID(id):
		return badSession(id)
	case m.held != nil:
		return fmt.Errorf("turn to session %q: %w", id, ErrTurnOpen)
	}
	if m.opts.Session != id {
		m.given = nil
		if m.opts.Session != "" {
			m.file, m.opts.SessionFile = nil, "" // of the other one
		}
	}
	m.forget()
	m.opts.Session = id
	return nil
}

func (m door) UseRemote(ctx context.Context, rev string) (bool, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, ok := parseRemoteRev(rev)
	if !ok || r.rest != "" {
		return false, nil
	}
	t, err := m.tipAt(ctx, r, rev)
	if err != nil || t.Point == nil {
		return false, err
	}
	o := t.reader
	m.forget()
	m.opts, m.project, m.records, m.given, m.file = o.opts, o.project, o.records, nil, nil
	return true, nil
}

func (m door) Elsewhere(ctx context.Context, sessions []string) ([]*store.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.othersOf(ctx, sessions)
}

func (m door) LogSession() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return ""
	}
	return m.file.Header().ID
}

func (m door) LogProblems() (first string, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return "", 0
	}
	list, total := m.file.Problems()
	if len(list) > 0 {
		first = fmt.Sprintf("line %d: %s", list[0].Line, list[0].Reason)
	}
	return first, total
}

func (m door) Capturing() bool { return m.capturing.Load() }

func (m door) OpenTurn() (*history.OpenTurn, error) {
	t, open, err := m.UnendedTurn()
	if !open {
		t = nil
	}
	return t, err
}

func (m door) AllOpenTurns() ([]*history.OpenTurn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.openTurns()
}

func (m door) UnendedTurn() (t *history.OpenTurn, open bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, _, err := m.readTurns()
	if err != nil {
		return nil, false, err
	}
	if t = list.Of(m.opts.Session); t == nil {
		return nil, false, nil
	}
	open, err = m.isOpen(t)
	return t, open, err
}

func (m door) Title(ctx context.Context, s *store.Snapshot) string {
	r, err := history.Read(s)
	if err != nil {
		return ""
	}
	return m.title(ctx, r)
}

func (m door) Moments(ctx context.Context) ([]*moments.Moment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*moments.Moment
	for mo, err := range m.looks(ctx, 0) {
		if err != nil {
			return nil, err
		}
		list = append(list, mo)
	}
	slices.Reverse(list)
	return list, nil
}

func (m door) ResumeTurn(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	list, _, err := m.readTurns()
	if err != nil {
		return err
	}
	t := list.Of(m.opts.Session)
	if t == nil || !t.Held || t.Boot != vfs.BootID() || m.opts.Detached {
		return nil
	}
	if err := m.hold(ctx); err != nil {
		return fmt.Errorf("resume the turn of session %q: %w", m.opts.Session, err)
	}
	return nil
}

func (m door) ToolsUnknown(ctx context.Context, tools ...string) error {
	_, err := m.lookInTurn(ctx, fmt.Sprintf("end tools %q", tools), func(o *look, t *history.OpenTurn) error {
		o.windows = append(o.windows, history.Nobody)
		if err := o.dispute(ctx); err != nil {
			return err
		}
		if err := m.found(ctx, o, history.KindTool); err != nil {
			return err
		}
		t.EndTools(tools...)
		return nil
	})
	return err
}

func (m door) CutOff(ctx context.Context) (restore, edit bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lock, err := m.store.FS().OpenFile(m.place().TurnsLock(), os.O_RDONLY, 0)
	if err == nil {
		defer lock.Close()
		if free, err := lock.TryLock(vfs.Shared); !free || err != nil {
			return false, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	last, err := m.records.Newest(cas.AnySession)
	if err != nil {
		return false, false, err
	}
	e, err := m.newestEdit(ctx)
	restore = last != nil && last.Kind == history.KindIntent && !last.Pruned
	return restore, e != nil && e.Kind == history.KindEditIntent && !e.Pruned, err
}

func (m door) Restores(ctx context.Context) (undo, redo, cutOff *store.Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.records.Newest(cas.AnySession)
	if err != nil {
		return nil, nil, nil, err
	}
	if last != nil && last.Kind == history.KindIntent {
		cutOff = last.Snapshot
	}
	head, err := m.records.Newest(m.opts.Session)
	if err != nil {
		return nil, nil, nil, err
	}
	if last, err = m.records.LastRestore(ctx, head); err != nil {
		return nil, nil, nil, err
	}
	toUndo, toRedo := last.Lists()
	if undo, err = m.firstOf(ctx, toUndo); err == nil {
		redo, err = m.firstOf(ctx, toRedo)
	}
	return undo, redo, cutOff, err
}

func (m door) LeaveRestore(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return m.withLook(ctx, func(o *look) error {
		if o.last == nil || o.last.Kind != history.KindIntent {
			return fmt.Errorf("%w: no restore was cut off", ErrNothing)
		}
		_, err := m.endCutOff(ctx, o, func(c *change.Change) (*livedir.Plan, error) { return nil, c.Leave(ctx) })
		return err
	})
}

func (m door) NextBack(ctx context.Context, redo bool) ([]*store.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*store.Snapshot
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Worktree != m.project.Worktree || history.IsEdit(s) || s.Pruned {
			continue
		}
		head, err := history.Read(s)
		if err != nil {
			return nil, err
		}
		last := head // of one that was cut off its intent says what will be on the lists
		if head.Kind != history.KindIntent {
			if last, err = m.records.LastRestore(ctx, head); err != nil {
				return nil, err
			}
		}
		back, toRedo := last.Lists()
		if redo {
			back = toRedo
		}
		first, err := m.firstOf(ctx, back)
		if errors.Is(err, store.ErrNotFound) {
			m.log.Warn("record is lost: see the store's check", "seq", back.First(), "session", s.Session)
			continue
		}
		if err != nil {
			return nil, err
		}
		if first != nil {
			list = append(list, first)
		}
	}
	slices.SortFunc(list, func(a, b *store.Snapshot) int { return cmp.Compare(b.Seq, a.Seq) })
	return list, nil
}

func (m door) ExportLog(ctx context.Context) (string, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := m.exportLog(ctx, nil); err != nil {
		return "", fmt.Errorf("export the log of session %q: %w", m.opts.Session, err)
	}
	return filepath.Join(m.StoreDir(), filepath.FromSlash(m.ownLog())), nil
}

// An engineDoor is what our own programs get at of an engine: see [inside.EngineDoor].
type engineDoor struct{ *Engine }

func (e engineDoor) Seal() {
	e.mu.Lock()
	stores := make(map[*cas.Store]bool)
	for _, wt := range e.trees {
		stores[wt.store] = true
	}
	e.mu.Unlock()
	for s := range stores {
		s.Seal()
	}
}

func (e engineDoor) WatchStats() map[string]capture.WatchStats {
	e.mu.Lock()
	trees := maps.Clone(e.trees)
	e.mu.Unlock()
	stats := make(map[string]capture.WatchStats)
	for root, wt := range trees {
		wt.mu.Lock()
		ws := wt.ws
		wt.mu.Unlock()
		if ws != nil {
			stats[root] = ws.WatchStats()
		}
	}
	return stats
}

func (e engineDoor) BeforeAdopt(fn func(ctx context.Context, storeDir string) error) {
	e.beforeAdopt = fn
}
