package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// turns are the turns that are open in a worktree, of all sessions: the file
// worktrees/<wt>/turns (docs/format.md §9). It is read and replaced under the
// lock beside it. Between two of its locks no manager captures the worktree.
type turns struct {
	Version int         `json:"v"`
	Open    []*openTurn `json:"open"`
	Last    uint64      `json:"last,omitempty"` // the worktree's newest record: if the store has it no more, damage took it
	Lost    []uint64    `json:"lost,omitempty"` // records that damage took, as far as they are known
}

const turnsVersion = 1

// An openTurn is a turn that has not ended, as far as is known.
type openTurn struct {
	Session     string      `json:"session"`
	Turn        int         `json:"turn"`
	RuntimeTurn *int        `json:"runtimeTurn,omitempty"`
	After       uint64      `json:"after"` // newest record of the worktree when it began
	Base        store.State `json:"base"`
	Prev        uint64      `json:"prev"`             // step that it builds on
	Leaf        string      `json:"leaf,omitempty"`   // of the log, where it began
	LeafAt      string      `json:"leafAt,omitempty"` // the log's own leaf then
	ToolWindows bool        `json:"toolWindows,omitempty"`
	Tools       []string    `json:"tools,omitempty"`   // that run
	Claims      [][]byte    `json:"claims,omitempty"`  // paths that it wrote
	Foreign     [][]byte    `json:"foreign,omitempty"` // paths that others wrote meanwhile

	Held bool      `json:"held,omitempty"` // its process has the session's lock
	Boot string    `json:"boot"`           // of the machine
	Seen time.Time `json:"seen"`           // when it was last heard of
	End  uint64    `json:"end,omitempty"`  // cut off: the newest record that may have to do with it
}

// isWindow reports whether what changes now may be the turn's doing.
func (t *openTurn) isWindow() bool {
	return t.End == 0 && (!t.ToolWindows || len(t.Tools) > 0)
}

// hear notes that the turn is alive. Where its process holds a lock, that says
// so.
func (t *openTurn) hear() {
	t.End = 0
	if !t.Held && time.Since(t.Seen) > time.Minute {
		t.Seen = time.Now()
	}
}

// silence is after how long a turn counts as cut off that no process holds.
const silence = 24 * time.Hour

func (m *FileSnapshotManager) wtDir() string { return "worktrees/" + m.project.Worktree() }

func (m *FileSnapshotManager) sessionsDir() string { return m.wtDir() + "/sessions" }

// withTurns calls fn with the open turns of the worktree, and saves what fn
// makes of them, also where fn fails. The caller holds mu.
func (m *FileSnapshotManager) withTurns(ctx context.Context, fn func(*turns) error) error {
	if m.opts.ReadOnly {
		return errors.New("manager is open read-only")
	}
	select {
	case m.tree.turns <- struct{}{}: // in turn, which a lock on a file is not
	case <-ctx.Done():
		return fmt.Errorf("wait for other turns: %w", context.Cause(ctx))
	}
	defer func() { <-m.tree.turns }()
	fsys := m.store.FS()
	for _, dir := range []string{m.wtDir(), m.sessionsDir()} {
		if err := fsys.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	lock, err := fsys.OpenFile(m.wtDir()+"/turns.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := m.lockTurns(ctx, lock); err != nil {
		return fmt.Errorf("wait for other turns: %w", err)
	}
	t, before, err := m.readTurns()
	if err != nil {
		return err
	}
	err = fn(t)
	after, jerr := json.Marshal(t)
	if jerr != nil {
		panic("manager: internal error: " + jerr.Error())
	}
	if string(after) == string(before) {
		return err
	}
	if before == nil { // the first: where it is, the directory above it is durable
		if serr := fsys.SyncDir(path.Dir(m.wtDir())); serr != nil {
			return errors.Join(err, serr)
		}
	}
	return errors.Join(err, m.writeTurns(after, t.hasNews(before)))
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
	if err := fsys.Mkdir(m.wtDir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := fsys.OpenFile(m.wtDir()+"/"+name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
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
	f, err := m.store.FS().OpenFile(m.wtDir()+"/"+NoTurns+".lock", os.O_RDONLY, 0)
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

// hasNews reports whether a turn is open that a file does not have. What else is
// known of open turns, as which tools run and what they claim, a power cut may
// take: what it leaves undecided is nobody's then. That a turn has ended is no
// news, either: its step says so.
func (t *turns) hasNews(file []byte) bool {
	before := new(turns)
	if len(t.Open) > 0 && json.Unmarshal(file, before) != nil {
		return true
	}
	return slices.ContainsFunc(t.Open, func(o *openTurn) bool {
		return !slices.ContainsFunc(before.Open, func(b *openTurn) bool {
			return b.Session == o.Session && b.After == o.After && b.Boot == o.Boot
		})
	})
}

// readTurns returns what the file says. One that is damaged, as a power cut
// may leave it, is no error: which turns were open is not known then, so one
// of nobody is made up that makes all changes until now contested.
func (m *FileSnapshotManager) readTurns() (*turns, []byte, error) {
	b, err := vfs.ReadFile(m.store.FS(), m.wtDir()+"/turns")
	if errors.Is(err, fs.ErrNotExist) {
		return &turns{Version: turnsVersion}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	t, text, err := decodeTurns(b)
	if errors.Is(err, store.ErrFormat) {
		return nil, nil, err
	}
	if err != nil {
		m.log.Warn("it is not known which turns are open", "worktree", m.project.Worktree(), "err", err)
		return spoilt(), nil, nil
	}
	return t, text, nil
}

// spoilt is what is known of open turns where the file is damaged.
func spoilt() *turns { return &turns{Version: turnsVersion, Open: []*openTurn{{Session: nobody}}} }

// decodeTurns reads the file, and returns the JSON in it. One of an older program is
// nothing but JSON.
func decodeTurns(b []byte) (*turns, []byte, error) {
	text, err := store.CutSum(b)
	if err != nil && json.Valid(b) {
		text, err = b, nil
	}
	var v struct {
		Version int `json:"v"`
	}
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil && v.Version > turnsVersion {
		return nil, nil, fmt.Errorf("open turns: %w: version %d", store.ErrFormat, v.Version)
	}
	t := new(turns)
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	if err == nil && (t.Version != turnsVersion || slices.Contains(t.Open, nil)) {
		err = errors.New("not what was written")
	}
	if err != nil {
		return nil, nil, err
	}
	return t, bytes.TrimSuffix(text, []byte("\n")), nil
}

// writeTurns replaces the file. With news it is synced, so that after a power cut
// it is known that a turn was cut off.
func (m *FileSnapshotManager) writeTurns(b []byte, news bool) error {
	fsys := m.store.FS()
	name := m.wtDir() + "/turns"
	b = store.AppendSum(b)
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

// SpoiltTurns lists the files of open turns that say nothing. A power cut may spoil
// one: that is no damage, and the next turn writes it anew. In the place of others there
// is something else: those are.
func SpoiltTurns(s *store.Store) (names []string, damage []*store.CorruptError, err error) {
	worktrees, err := namesIn(s.FS(), "worktrees")
	for _, wt := range worktrees {
		name := "worktrees/" + wt + "/turns"
		spoilt, derr, err := isSpoilt(s.FS(), name)
		if err != nil {
			return nil, nil, err
		}
		if spoilt {
			names = append(names, name)
		}
		if derr != nil {
			damage = append(damage, derr)
		}
	}
	return names, damage, err
}

// isSpoilt reports whether a file of open turns says nothing, and why if that is
// damage.
func isSpoilt(fsys vfs.FS, name string) (bool, *store.CorruptError, error) {
	st, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil, nil
	}
	if err == nil && st.Kind != vfs.Regular {
		return true, &store.CorruptError{Path: name, Err: vfs.ErrNotRegular}, nil
	}
	var b []byte
	if err == nil {
		b, err = vfs.ReadFile(fsys, name)
	}
	if err != nil {
		return false, nil, err
	}
	_, _, err = decodeTurns(b)
	if errors.Is(err, store.ErrFormat) {
		return false, nil, err
	}
	return err != nil, nil, nil
}

// MendTurns moves a file of open turns that says nothing into quarantine, and writes
// one by what the journal has, and the file before it.
func MendTurns(ctx context.Context, s *store.Store, name string) error {
	fsys, dir := s.FS(), path.Dir(name)
	lock, err := fsys.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := vfs.Lock(ctx, lock, vfs.Exclusive); err != nil {
		return fmt.Errorf("%s.lock: %w", name, err)
	}
	if is, _, err := isSpoilt(fsys, name); !is || err != nil { // somebody was faster
		return err
	}
	t := spoilt()
	if b, err := vfs.ReadFile(fsys, name+".new"); err == nil {
		if before, _, err := decodeTurns(b); err == nil {
			t.Last, t.Lost = before.Last, before.Lost
		}
	}
	newest, err := s.Newest(ctx, path.Base(dir), store.AnySession)
	if err == nil {
		t.Last = max(t.Last, newest.Seq)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := fsys.Rename(name, "quarantine/turns-"+path.Base(dir)+"-"+newRestoreID()); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir("quarantine"), store.WriteFile(fsys, name, store.AppendSum(b)))
}

// nobody is the session of a turn that is made up where it is not known which
// are open. No session has this name.
const nobody = "?"

// of returns the open turn of a session, nil if there is none.
func (t *turns) of(session string) *openTurn {
	i := slices.IndexFunc(t.Open, func(o *openTurn) bool { return o.Session == session })
	if i < 0 {
		return nil
	}
	return t.Open[i]
}

func (t *turns) remove(o *openTurn) {
	t.Open = slices.DeleteFunc(t.Open, func(p *openTurn) bool { return p == o })
}

// windows returns the sessions that may be the cause of what changes now.
func (t *turns) windows() []string {
	var list []string
	for _, o := range t.Open {
		if o.isWindow() {
			list = append(list, o.Session)
		}
	}
	return list
}

// bury finds the turns that were cut off since somebody looked last. Up to
// the record seq they may have been the cause of changes; from now on they are
// not. They stay until their session takes note.
func (m *FileSnapshotManager) bury(t *turns, seq uint64) error {
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
	t.Open = slices.DeleteFunc(t.Open, func(o *openTurn) bool { return o.End != 0 && o.Session == nobody })
	return nil
}

func (m *FileSnapshotManager) isAlive(o *openTurn) (bool, error) {
	if o.Session == nobody || o.Boot != vfs.BootID() {
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
	return m.sessionsDir() + "/" + session + ".turn"
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

// isOurs reports whether the session's open turn may be ended by this manager.
func (m *FileSnapshotManager) isOurs(t *openTurn) bool {
	return m.held != nil || m.opts.Detached && !t.Held
}
