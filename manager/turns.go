package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// silence is after how long a turn counts as cut off that no process holds.
const silence = 24 * time.Hour

// place names what the store keeps of the worktree.
func (m *FileSnapshotManager) place() layout.Worktree { return layout.Worktree(m.project.Worktree) }

// heldTurns are the open turns of a worktree while its lock on them is held.
type heldTurns struct {
	*history.Turns
	m      *FileSnapshotManager
	lock   vfs.File
	before []byte // what the file says; nil: there is none that says something
}

// withTurns calls fn with the open turns of the worktree, and saves what fn
// makes of them, also where fn fails. The caller holds mu.
func (m *FileSnapshotManager) withTurns(ctx context.Context, fn func(*history.Turns) error) (err error) {
	held, err := m.holdTurns(ctx)
	if err != nil {
		return err
	}
	defer func() { err = held.release(err) }()
	return fn(held.Turns)
}

// holdTurns takes the lock on the worktree's turns, and reads them. Release them.
func (m *FileSnapshotManager) holdTurns(ctx context.Context) (_ *heldTurns, err error) {
	if m.opts.ReadOnly {
		return nil, errors.New("manager is open read-only")
	}
	select {
	case m.tree.turns <- struct{}{}: // in turn, which a lock on a file is not
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other turns: %w", context.Cause(ctx))
	}
	h := &heldTurns{m: m}
	defer func() {
		if err != nil {
			h.unlock()
		}
	}()
	fsys := m.store.FS()
	for _, dir := range []string{m.place().Dir(), m.place().Sessions()} {
		if err := fsys.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if h.lock, err = fsys.OpenFile(m.place().TurnsLock(), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := m.lockTurns(ctx, h.lock); err != nil {
		return nil, fmt.Errorf("wait for other turns: %w", err)
	}
	h.Turns, h.before, err = m.readTurns()
	return h, err
}

// release saves the turns as they are by now, and gives back the lock. err is how the use
// of them has ended; it is returned with what goes wrong here.
func (h *heldTurns) release(err error) error {
	defer h.unlock()
	now, jerr := json.Marshal(h.Turns)
	if jerr != nil {
		panic("manager: internal error: " + jerr.Error())
	}
	if string(now) == string(h.before) {
		return err
	}
	if h.before == nil { // the first: where it is, the directory above it is durable
		if serr := h.m.store.FS().SyncDir(path.Dir(h.m.place().Dir())); serr != nil {
			return errors.Join(err, serr)
		}
	}
	if werr := h.m.writeTurns(now, h.HasNews(h.before)); werr != nil {
		return errors.Join(err, werr)
	}
	return err
}

func (h *heldTurns) unlock() {
	if h.lock != nil {
		h.lock.Close() // it never fails on a lock
	}
	<-h.m.tree.turns
}

// longTurn is after how long it is said that somebody else is waited for.
const longTurn = 5 * time.Second

// lockTurns waits for the lock on the turns, which others have for the whole of a
// capture or a restore.
func (m *FileSnapshotManager) lockTurns(ctx context.Context, lock vfs.File) error {
	first, cancel := context.WithTimeout(ctx, longTurn)
	defer cancel()
	err := vfs.Lock(first, lock, vfs.Exclusive)
	if err == nil || ctx.Err() != nil || first.Err() == nil {
		return err
	}
	m.log.Warn("another process is at work on the directory: waiting until it is done", "root", m.project.Root)
	return vfs.Lock(ctx, lock, vfs.Exclusive)
}

// NoTurns is the name of the lock under which no turn begins in the directory,
// of whatever session: OnTurnStart returns ErrLocked. It is for who restores more
// than files. A turn that is open already is not noticed: see OpenTurns.
const NoTurns = "noturns"

// TryLock takes a lock on the directory, if nobody has it: NoTurns, or one for
// something of the runtime's own, which manager pays no heed to; "turns" is taken.
// name is a few letters of ASCII. The system frees the lock when the process dies. The error
// matches [ErrLocked].
func (m *FileSnapshotManager) TryLock(name string) (unlock func() error, err error) {
	fsys := m.store.FS()
	if err := fsys.Mkdir(m.place().Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := fsys.OpenFile(m.place().Dir()+"/"+name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := f.TryLock(vfs.Exclusive)
	if err == nil && !ok {
		err = fmt.Errorf("lock %s of %q: %w", name, m.project.Root, ErrLocked)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}

// checkNoTurns says so if no turn may begin. The caller has the lock on the turns
// until the turn is on record, so whoever takes NoTurns later and restores files
// sees it.
func (m *FileSnapshotManager) checkNoTurns() error {
	f, err := m.store.FS().OpenFile(m.place().Dir()+"/"+NoTurns+".lock", os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	free, err := f.TryLock(vfs.Shared)
	if err == nil && !free {
		err = fmt.Errorf("%w: something is being restored", ErrLocked)
	}
	return errors.Join(err, f.Close())
}

// readTurns returns what the file says. One that is damaged, as a power cut
// may leave it, is no error: which turns were open is not known then, so one
// of nobody is made up that makes all changes until now contested.
func (m *FileSnapshotManager) readTurns() (*history.Turns, []byte, error) {
	b, err := vfs.ReadFile(m.store.FS(), m.place().Turns())
	if errors.Is(err, fs.ErrNotExist) {
		return &history.Turns{Version: history.TurnsVersion}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	t, text, err := history.DecodeTurns(b)
	if errors.Is(err, store.ErrFormat) {
		return nil, nil, err
	}
	if err != nil {
		m.log.Warn("the file of open turns says nothing, as after a power cut: the next turn writes it anew, and what "+
			"was changed until then may be anybody's", "path", m.place().Turns(), "err", err)
		return history.Spoilt(), nil, nil
	}
	return t, text, nil
}

// writeTurns replaces the file. With news it is synced, so that after a power cut
// it is known that a turn was cut off.
func (m *FileSnapshotManager) writeTurns(b []byte, news bool) error {
	fsys := m.store.FS()
	name := m.place().Turns()
	b = cas.AppendSum(b)
	f, err := fsys.OpenFile(name+".new", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil && news {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := vfs.ReplaceFile(fsys, name+".new", name); err != nil {
		return err
	}
	if !news {
		return nil
	}
	return fsys.SyncDir(path.Dir(name))
}

// bury marks open turns whose process has died. What was recorded up to seq may
// be their doing, what comes later is not. A mark stays until the turn's session
// runs again.
func (m *FileSnapshotManager) bury(t *history.Turns, seq uint64) error {
	for _, o := range t.Open {
		if o.Session == m.opts.Session && m.isOurs(o) {
			o.End = 0 // whoever thought it dead was wrong
			continue
		}
		if o.End != 0 {
			continue
		}
		alive, err := m.isAlive(o)
		if err != nil {
			return err
		}
		if !alive {
			o.End = max(seq, 1)
		}
	}
	t.Open = slices.DeleteFunc(t.Open, func(o *history.OpenTurn) bool {
		return o.End != 0 && o.Session == history.Nobody
	})
	return nil
}

func (m *FileSnapshotManager) isAlive(o *history.OpenTurn) (bool, error) {
	if o.Session == history.Nobody || o.Boot != vfs.BootID() {
		return false, nil
	}
	if !o.Held {
		return time.Since(o.Seen) < silence, nil
	}
	// Whoever takes the lock meanwhile tries again: see hold.
	f, err := m.store.FS().OpenFile(m.lockName(o.Session), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := f.TryLock(vfs.Shared)
	return !free, errors.Join(err, f.Close())
}

func (m *FileSnapshotManager) lockName(session string) string {
	return m.place().Sessions() + "/" + session + ".turn"
}

// hold takes the session's lock for a turn, which tells others that it is
// alive, unless the turn may end in another process.
func (m *FileSnapshotManager) hold(ctx context.Context) error {
	if m.opts.Detached || m.held != nil {
		return nil
	}
	f, err := m.store.FS().OpenFile(m.lockName(m.opts.Session), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// Somebody may have it for a moment, to see whether it is free.
	patience, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := vfs.Lock(patience, f, vfs.Exclusive); err != nil {
		if patience.Err() != nil && ctx.Err() == nil {
			err = ErrTurnOpen
		}
		return errors.Join(err, f.Close())
	}
	m.held = f
	return nil
}

// release gives the session's lock back.
func (m *FileSnapshotManager) release() {
	if m.held != nil {
		m.held.Close() // it never fails on a lock
		m.held = nil
	}
}

// openError returns the error of a turn that is in the way.
func openError(t *history.OpenTurn) error {
	err := fmt.Errorf("%w: of session %q", ErrTurnOpen, t.Session)
	if !t.Began.IsZero() {
		err = fmt.Errorf("%w, which began %s", err, when.Ago(t.Began, time.Now()))
	}
	if t.Title != "" {
		err = fmt.Errorf("%w (%s)", err, words.Quoted(words.FirstLine(t.Title, 60)))
	}
	return err
}

// isOurs reports whether the session's open turn may be ended by this manager.
func (m *FileSnapshotManager) isOurs(t *history.OpenTurn) bool {
	return m.held != nil || (m.opts.Detached || m.mayEnd) && !t.Held
}
