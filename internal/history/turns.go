package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// Turns are the turns that are open in a worktree, of all sessions: the file
// worktrees/<wt>/turns (docs/reference/format.md §9). It is read and replaced under the
// lock beside it. Between two of its locks no manager captures the worktree.
type Turns struct {
	Version int         `json:"v"`
	Open    []*OpenTurn `json:"open"`
	Last    uint64      `json:"last,omitempty"` // the worktree's newest record: if the store lacks it, damage took it
	Lost    []uint64    `json:"lost,omitempty"` // records that damage took, as far as they are known
}

const TurnsVersion = 1

// An OpenTurn is a turn that has not ended, as far as is known.
type OpenTurn struct {
	Session     string      `json:"session"`
	Turn        int         `json:"turn"`
	Began       time.Time   `json:"began,omitzero"` // zero: not known
	RuntimeTurn *int        `json:"runtimeTurn,omitempty"`
	After       uint64      `json:"after"` // newest record of the worktree when it began
	Base        store.State `json:"base"`
	Prev        uint64      `json:"prev"`             // step that it builds on
	Leaf        string      `json:"leaf,omitempty"`   // of the log, where it began
	LeafAt      string      `json:"leafAt,omitempty"` // the log's own leaf then
	ToolWindows bool        `json:"toolWindows,omitempty"`
	Tools       []string    `json:"tools,omitempty"`    // that run
	ToolBegan   time.Time   `json:"toolBegan,omitzero"` // the newest of them; zero: not known
	Known       uint64      `json:"known,omitempty"`    // newest record when a tool began or ended last; 0: none has
	Claims      [][]byte    `json:"claims,omitempty"`   // paths that it wrote
	Past        [][]byte    `json:"past,omitempty"`     // of Claims: no tool that may write them runs any more
	Foreign     [][]byte    `json:"foreign,omitempty"`  // paths that others wrote meanwhile
	Title       string      `json:"title,omitempty"`    // what it was to do; its record has it as a note
	Agent       string      `json:"agent,omitempty"`
	Model       string      `json:"model,omitempty"`

	Held bool      `json:"held,omitempty"` // its process has the session's lock
	Boot string    `json:"boot"`           // of the machine
	Seen time.Time `json:"seen"`           // when it was last heard of
	End  uint64    `json:"end,omitempty"`  // cut off: the newest record that may have to do with it
}

// IsWindow reports whether what changes now may be the turn's doing.
func (t *OpenTurn) IsWindow() bool {
	return t.End == 0 && (!t.ToolWindows || len(t.Tools) > 0)
}

// Hear notes that the turn is alive. Where its process holds a lock, that says
// so.
func (t *OpenTurn) Hear() {
	t.End = 0
	if !t.Held && time.Since(t.Seen) > time.Minute {
		t.Seen = time.Now()
	}
}

// Claim says that the turn writes these paths: those that its tools write which run now,
// or run next.
func (t *OpenTurn) Claim(paths [][]byte) {
	t.Claims = AddPaths(t.Claims, paths)
	t.Past = without(t.Past, paths)
}

// ClaimsNow returns the claims of what the turn may be writing.
func (t *OpenTurn) ClaimsNow() [][]byte {
	return without(slices.Clone(t.Claims), t.Past)
}

// Dispute has a path claimed by the turn and by others, who may all have changed it.
func (t *OpenTurn) Dispute(path string) {
	list := [][]byte{[]byte(path)}
	t.Claims, t.Past, t.Foreign = AddPaths(t.Claims, list), AddPaths(t.Past, list), AddPaths(t.Foreign, list)
}

// EndTools says that tools do not run any more. Those that do not are passed over.
func (t *OpenTurn) EndTools(tools ...string) {
	t.Tools = slices.DeleteFunc(t.Tools, func(tool string) bool { return slices.Contains(tools, tool) })
	if len(t.Tools) == 0 {
		t.Past = slices.Clone(t.Claims)
	}
}

// AddPaths adds to a list of paths those that it does not have.
func AddPaths(list, paths [][]byte) [][]byte {
	if len(paths) == 1 && !slices.ContainsFunc(list, func(p []byte) bool { return bytes.Equal(p, paths[0]) }) {
		return append(list, paths[0]) // which most calls are about
	}
	known := setOf(list)
	for _, p := range paths {
		if !known[string(p)] {
			known[string(p)] = true
			list = append(list, p)
		}
	}
	return list
}

// without takes paths out of a list.
func without(list, paths [][]byte) [][]byte {
	out := setOf(paths)
	return slices.DeleteFunc(list, func(p []byte) bool { return out[string(p)] })
}

func setOf(paths [][]byte) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, p := range paths {
		set[string(p)] = true
	}
	return set
}

// HasNews reports whether a turn is open that a file does not have. What else is
// known of open turns, as which tools run and what they claim, a power cut may
// take: what it leaves undecided is nobody's then. That a turn has ended is no
// news, either: its step says so.
func (t *Turns) HasNews(file []byte) bool {
	before := new(Turns)
	if len(t.Open) > 0 && json.Unmarshal(file, before) != nil {
		return true
	}
	return slices.ContainsFunc(t.Open, func(o *OpenTurn) bool {
		return !slices.ContainsFunc(before.Open, func(b *OpenTurn) bool {
			return b.Session == o.Session && b.After == o.After && b.Boot == o.Boot
		})
	})
}

// Spoilt is what is known of open turns where the file is damaged.
func Spoilt() *Turns { return &Turns{Version: TurnsVersion, Open: []*OpenTurn{{Session: Nobody}}} }

// DecodeTurns reads the file, and returns the JSON in it. One of an older program is
// nothing but JSON.
func DecodeTurns(b []byte) (*Turns, []byte, error) {
	text, err := cas.CutSum(b)
	if err != nil && json.Valid(b) {
		text, err = b, nil
	}
	var v struct {
		Version int `json:"v"`
	}
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil && v.Version > TurnsVersion {
		return nil, nil, fmt.Errorf("open turns: %w: version %d", store.ErrFormat, v.Version)
	}
	t := new(Turns)
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	if err == nil && (t.Version != TurnsVersion || slices.Contains(t.Open, nil)) {
		err = errors.New("not what was written")
	}
	if err != nil {
		return nil, nil, err
	}
	return t, bytes.TrimSuffix(text, []byte("\n")), nil
}

// SpoiltTurns lists the files of open turns that say nothing. A power cut may spoil
// one: that is no damage, and the next turn writes it anew. In the place of others there
// is something else: those are.
func SpoiltTurns(s *cas.Store) (names []string, damage []*object.CorruptError, err error) {
	worktrees, err := namesIn(s.FS(), layout.Worktrees)
	for _, wt := range worktrees {
		name := layout.Worktree(wt).Turns()
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
func isSpoilt(fsys vfs.FS, name string) (bool, *object.CorruptError, error) {
	st, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil, nil
	}
	if err == nil && st.Kind != vfs.Regular {
		return true, &object.CorruptError{Path: name, Err: vfs.ErrNotRegular}, nil
	}
	var b []byte
	if err == nil {
		b, err = vfs.ReadFile(fsys, name)
	}
	if err != nil {
		return false, nil, err
	}
	_, _, err = DecodeTurns(b)
	if errors.Is(err, store.ErrFormat) {
		return false, nil, err
	}
	return err != nil, nil, nil
}

// MendTurns moves a file of open turns that says nothing into quarantine, and writes
// one by what the journal has, and the file before it.
func MendTurns(ctx context.Context, s *cas.Store, name string) error {
	fsys, dir := s.FS(), path.Dir(name)
	lock, err := layout.Lock(ctx, fsys, name+".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if is, _, err := isSpoilt(fsys, name); !is || err != nil { // somebody was faster
		return err
	}
	b, err := turnsAnew(ctx, s, name)
	if err != nil {
		return err
	}
	if err := fsys.Rename(name, quarantined+path.Base(dir)+"-"+layout.RandomName()); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir(path.Dir(quarantined)), layout.WriteFile(fsys, name, b))
}

// quarantined is how the names begin of files of open turns in quarantine.
const quarantined = "quarantine/turns-"

// turnsAnew returns what is to be in the place of a file of open turns that says nothing.
func turnsAnew(ctx context.Context, s *cas.Store, name string) ([]byte, error) {
	t := Spoilt()
	if b, err := vfs.ReadFile(s.FS(), name+".new"); err == nil {
		if before, _, err := DecodeTurns(b); err == nil {
			t.Last, t.Lost = before.Last, before.Lost
		}
	}
	newest, err := s.Newest(ctx, path.Base(path.Dir(name)), cas.AnySession)
	if err == nil {
		t.Last = max(t.Last, newest.Seq)
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	b, err := json.Marshal(t)
	return cas.AppendSum(b), err
}

// ForgetTitles takes what turns of a session are for, of all sessions if it is "", out of
// the files of open turns of a store, if do is set. The turns end without a note then. It
// reports whether there was any. A file that says nothing may have a piece of one: it goes.
func ForgetTitles(ctx context.Context, s *cas.Store, session string, do bool) (found bool, err error) {
	worktrees, err := namesIn(s.FS(), layout.Worktrees)
	for _, wt := range worktrees {
		is, werr := forgetTitles(ctx, s, layout.Worktree(wt).Turns(), session, do)
		found, err = found || is, errors.Join(err, werr)
	}
	dir, prefix := path.Split(quarantined)
	aside, qerr := namesIn(s.FS(), path.Clean(dir))
	err = errors.Join(err, qerr)
	for _, name := range aside {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if found = true; do {
			err = errors.Join(err, s.FS().Remove(dir+name), s.FS().SyncDir(path.Clean(dir)))
		}
	}
	return found, err
}

func forgetTitles(ctx context.Context, s *cas.Store, turns, session string, do bool) (found bool, err error) {
	fsys := s.FS()
	if do {
		lock, err := layout.Lock(ctx, fsys, turns+".lock")
		if err != nil {
			return false, err
		}
		defer lock.Close()
	}
	for _, name := range []string{turns, turns + ".new"} { // the latter is the one before
		b, err := vfs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, err
		}
		b, had, err := withoutTitles(b, session)
		if found = found || had; err == nil && had && do {
			if b == nil && name == turns {
				b, err = turnsAnew(ctx, s, turns)
			}
			switch {
			case err != nil:
			case b == nil:
				err = errors.Join(fsys.Remove(name), fsys.SyncDir(path.Dir(name)))
			default:
				err = layout.WriteFile(fsys, name, b)
			}
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// withoutTitles returns a file of open turns without titles, nil if it says nothing, and
// whether it had any, or may have had.
func withoutTitles(file []byte, session string) (b []byte, had bool, err error) {
	t, _, err := DecodeTurns(file)
	if errors.Is(err, store.ErrFormat) {
		return nil, false, err
	}
	if err != nil {
		return nil, len(bytes.Trim(file, "\x00")) > 0, nil
	}
	for _, o := range t.Open {
		if o.Title != "" && (session == "" || o.Session == session) {
			o.Title, had = "", true
		}
	}
	b, err = json.Marshal(t)
	return cas.AppendSum(b), had, err
}

// Nobody is the session of a turn that is made up where it is not known which
// are open. No session has this name.
const Nobody = "?"

// Of returns the open turn of a session, nil if there is none.
func (t *Turns) Of(session string) *OpenTurn {
	i := slices.IndexFunc(t.Open, func(o *OpenTurn) bool { return o.Session == session })
	if i < 0 {
		return nil
	}
	return t.Open[i]
}

func (t *Turns) Remove(o *OpenTurn) {
	t.Open = slices.DeleteFunc(t.Open, func(p *OpenTurn) bool { return p == o })
}

// Windows returns the sessions that may be the cause of what changes now.
func (t *Turns) Windows() []string {
	var list []string
	for _, o := range t.Open {
		if o.IsWindow() {
			list = append(list, o.Session)
		}
	}
	return list
}

// OpenSince returns the number of the newest record before the oldest open turn
// of a worktree, 0 if none is open. What cannot be read counts as one that has
// been open from the beginning.
func OpenSince(fsys vfs.FS, worktree string) (uint64, error) {
	b, err := vfs.ReadFile(fsys, layout.Worktree(worktree).Turns())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	t, _, err := DecodeTurns(b)
	if err != nil {
		return 1, nil
	}
	var since uint64
	for _, o := range t.Open {
		if after := max(o.After, 1); since == 0 || after < since {
			since = after
		}
	}
	return since, nil
}
