// Package health remembers how a store is: when it was checked and what was found, what
// failed since, and when somebody was told. It checks a part of a store that nobody uses.
package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

const (
	// healthName is the file of a store that says when it was checked, and what went
	// wrong since (docs/reference/format.md §2). It is advice: where it is missing, or damaged,
	// nothing is known, and that is no error.
	healthName    = "health.json"
	healthVersion = 1

	// checkedWithin is after how long without a check that is said.
	checkedWithin = 30 * 24 * time.Hour
	// sayEvery is how often the same is said.
	sayEvery = 24 * time.Hour
	// partsOfAll is into how many parts an engine that is idle divides the content,
	// one of which it reads each day; minPart is what it reads at least, and partTime
	// how long.
	partsOfAll = 30
	minPart    = 64 << 20
	partTime   = 5 * time.Minute
)

// A Health is what is remembered of checks of a store, and of what failed since.
type Health struct {
	Version int       `json:"v"`
	Checked time.Time `json:"checked"` // when a check has last come to its end; zero: never, as far as is known
	Content time.Time `json:"content"` // when all content had last been read
	Damage  int       `json:"damage"`  // places in the structure, that it found or somebody has come across since
	Bad     int       `json:"bad"`     // damaged objects that reading content has found
	Next    string    `json:"next"`    // pack at which reading content goes on; "": at the first
	BadNow  int       `json:"badNow"`  // damaged objects in the packs before that
	Part    time.Time `json:"part"`    // when an engine has last read a part
	Failed  int       `json:"failed"`  // captures, and prunes by themselves, that failed since Checked
	Last    time.Time `json:"last"`    // when the last did
	Why     string    `json:"why"`     // why the last did
	Said    time.Time `json:"said"`    // when the user was told
	Logged  time.Time `json:"logged"`  // when hook.log was

	BadAt []string `json:"badAt,omitempty"` // the first damaged objects, as file@offset: they are stored again when met

	// Unrecorded are worktrees in which nothing can be recorded, and since when.
	Unrecorded map[string]time.Time `json:"unrecorded,omitempty"`
}

// ReadHealth reads what is remembered of a store.
func Read(storeDir string) *Health { return readFS(vfs.OS(storeDir)) }

func readFS(fsys vfs.FS) *Health {
	h := new(Health)
	b, err := vfs.ReadFile(fsys, healthName)
	if err != nil || json.Unmarshal(b, h) != nil || h.Version != healthVersion ||
		min(h.Damage, h.Bad, h.BadNow, h.Failed) < 0 {
		return &Health{Version: healthVersion}
	}
	return h
}

// ChangeHealth changes what is remembered of a store, if fn does. It is not
// remembered in a store that cannot be written, or is another user's.
func Change(storeDir string, fn func(*Health)) error {
	if err := cas.CheckOwner(storeDir); err != nil {
		return err
	}
	fsys := vfs.OS(storeDir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return layout.WithLock(ctx, fsys, layout.HealthLock, func() error {
		h := readFS(fsys)
		before, err := json.Marshal(h)
		if err != nil {
			return err
		}
		fn(h)
		after, err := json.MarshalIndent(h, "", "  ")
		if err != nil {
			return err
		}
		if again, err := json.Marshal(h); err != nil || string(again) == string(before) {
			return err
		}
		return writeHealth(fsys, append(after, '\n'))
	})
}

// writeHealth replaces the file. On a full disk it is overwritten, and filled up with
// newlines: who reads it meanwhile, or after a power cut, may find nothing to read.
func writeHealth(fsys vfs.FS, b []byte) error {
	err := layout.WriteFile(fsys, healthName, b)
	if !cas.IsNoSpace(err) {
		return err
	}
	f, err := fsys.OpenFile(healthName, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, bytes.Repeat([]byte("\n"), max(int(st.Size)-len(b), 0))...), 0)
	return err
}

// maxWhy is how much is remembered of an error, in bytes.
const maxWhy = 300

// NoteFailure remembers that something failed that nobody may have seen.
func (h *Health) NoteFailure(err error, now time.Time) {
	if h.Failed == 0 { // the first is told at once, those behind it the next day
		h.Said, h.Logged = time.Time{}, time.Time{}
	}
	h.Failed++
	h.Last, h.Why = now, fmt.Sprintf("%.*s", maxWhy, err)
}

// NoteChecked remembers that the structure has been checked.
func (h *Health) NoteChecked(damage int, now time.Time) {
	h.Checked, h.Damage = now, damage
	h.Failed, h.Last, h.Why = 0, time.Time{}, ""
	h.Said, h.Logged = time.Time{}, time.Time{}
}

// NoteDamage remembers that somebody has come across damage in so many places, until the structure is
// checked.
func (h *Health) NoteDamage(places int) {
	if places > h.Damage {
		h.Damage = places
		h.Said, h.Logged = time.Time{}, time.Time{}
	}
}

// NoteLook remembers, for all processes, whether what was found in a directory could be
// recorded, and returns the error as it is to be told.
func NoteLook(ctx context.Context, storeDir, worktree string, err error, log *slog.Logger) error {
	now := time.Now()
	if err == nil && Read(storeDir).Unrecorded[worktree].IsZero() || err != nil && !isFailure(ctx, err) {
		return err
	}
	var since time.Time
	herr := Change(storeDir, func(h *Health) {
		if err == nil {
			delete(h.Unrecorded, worktree)
			return
		}
		h.NoteFailure(err, now)
		if since = h.Unrecorded[worktree]; since.IsZero() && trouble(err) != nil {
			if h.Unrecorded == nil {
				h.Unrecorded = make(map[string]time.Time)
			}
			h.Unrecorded[worktree] = now
		}
	})
	if herr != nil { // the next error is told in full, too
		log.Debug("not remembered whether turns are recorded", "err", herr)
	}
	if since.IsZero() || trouble(err) == nil {
		return err
	}
	return &NotRecordedError{Since: since, Err: err}
}

// A NotRecordedError says again that nothing is recorded in a directory, in one
// line: the first error in a row was told in full.
type NotRecordedError struct {
	Since time.Time // of the first
	Err   error     // of this one, in full
}

func (e *NotRecordedError) Error() string {
	return fmt.Sprintf("nothing is recorded since %s: %v", e.Since.Local().Format(time.DateTime), trouble(e.Err))
}

func (e *NotRecordedError) Unwrap() error { return e.Err }

// trouble returns what is wrong with the disk or the system, in short; nil if it is
// something else that went wrong.
func trouble(err error) error {
	for _, cause := range []error{store.ErrNoSpace, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS,
		fs.ErrPermission, layout.ErrNoLocks, cas.ErrOwner} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// isFailure reports whether the system has failed, or the time was over, and not
// somebody was refused or gave up.
func isFailure(ctx context.Context, err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, tree.ErrBudget) {
		return false
	}
	_, path := errors.AsType[*fs.PathError](err)
	return path || trouble(err) != nil || errors.Is(err, cas.ErrLost) || errors.Is(err, store.ErrCorrupt) ||
		errors.Is(err, context.DeadlineExceeded)
}

// A Concern is something about a store that its user should know.
type Concern struct {
	Text   string
	Urgent bool // something is damaged
}

// Concerns lists what a user should know of a store: that it has not been checked for
// long, what checks have found, what failed since, what is in quarantine, and that
// its disk is nearly full. A young store need not have been checked.
func (h *Health) Concerns(storeDir string, now time.Time) []Concern {
	fsys := vfs.OS(storeDir)
	var list []Concern
	add := func(urgent bool, format string, args ...any) {
		list = append(list, Concern{fmt.Sprintf(format, args...), urgent})
	}
	if n := h.Damage + h.Bad; n > 0 {
		add(true, "damage was found in %s: 'snapctl check --read-data' lists it", words.Count(n, "place"))
	}
	if h.Failed > 0 {
		add(false, "since it was checked captures or prunes have failed %s, the last on %s: %s",
			words.Count(h.Failed, "time"), h.Last.Local().Format(time.DateTime), h.Why)
	}
	if n := newerIn(fsys, "quarantine", h.Checked); n > 0 {
		add(false, "%s came into its quarantine, damaged or cut off by a crash", words.Count(n, "file"))
	}
	days := func(since time.Time) int { return int(now.Sub(since) / (24 * time.Hour)) }
	if h.Checked.IsZero() {
		if d, err := cas.Describe(fsys); err == nil && now.Sub(d.Created) > checkedWithin {
			add(false, "it has not been checked since it was made, %d days ago: "+howToCheck, days(d.Created))
		}
	} else if now.Sub(h.Checked) > checkedWithin {
		add(false, "it has not been checked for %d days: "+howToCheck, days(h.Checked))
	}
	if free, total, err := vfs.Space(storeDir); err == nil {
		if reserve := cas.ReserveOf(total); free < 2*reserve {
			add(false, "%s are free on its disk, and below %s nothing is captured", words.Size(free),
				words.Size(reserve))
		}
	}
	return list
}

const howToCheck = "'snapctl check', or a part of it, 'snapctl check --sample 5%%'"

// Tell returns what there is to say of a store, "" if nothing is, or it was said
// not long ago. urgent is what is damaged only.
func Tell(storeDir string, said func(*Health) *time.Time, urgent bool) string {
	h, now := Read(storeDir), time.Now()
	if age := now.Sub(*said(h)); age >= 0 && age < sayEvery {
		return ""
	}
	var list []string
	for _, c := range h.Concerns(storeDir, now) {
		if c.Urgent || !urgent {
			list = append(list, c.Text)
		}
	}
	if len(list) > 0 && Change(storeDir, func(h *Health) { *said(h) = now }) != nil {
		return "" // it would be said each time
	}
	return strings.Join(list, "; ")
}

// Told is the time for [Tell] when the user was told of a store.
func (h *Health) Told() *time.Time { return &h.Said }

// newerIn counts the files in a directory that were changed after a time.
func newerIn(fsys vfs.FS, dir string, since time.Time) (n int) {
	names, _ := fsys.ReadDir(dir)
	for _, name := range names {
		if st, err := fsys.Stat(dir + "/" + name); err == nil && (since.IsZero() || st.Ctime > since.UnixNano()) {
			n++
		}
	}
	return n
}

// CheckPart reads a part of the content of a store and verifies it, once a day, so that
// all is read in a month or so. What it finds is remembered, for the next who uses it.
func CheckPart(ctx context.Context, storeDir string, log *slog.Logger) (err error) {
	h, now := Read(storeDir), time.Now()
	if age := now.Sub(h.Part); age >= 0 && age < sayEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	s, err := cas.Open(ctx, storeDir, &cas.Options{ReadOnly: true, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	use, err := s.Usage(ctx)
	if err != nil {
		return err
	}
	part := max((use.ObjectBytes+use.CopyBytes)/partsOfAll, minPart)
	damage, _, ended, err := CheckNext(ctx, s, storeDir, part)
	if err == nil && ended { // all of it has been looked at by now
		var r *cas.Report
		if r, err = s.Check(ctx, false); err == nil {
			damage = append(damage, r.Damage...)
			err = Change(storeDir, func(h *Health) { h.NoteChecked(len(r.Damage), now) })
		}
	}
	if len(damage) > 0 {
		log.Error("the store is damaged", "path", storeDir, "places", len(damage), "first", damage[0])
	}
	return errors.Join(err, Change(storeDir, func(h *Health) { h.Part = now }))
}

// CheckNext reads the next part of the content of a store and verifies it, of so many
// bytes, and remembers how far it got, and what it found; 0 is all that is left. With an
// error, too, it returns what it found until then, and how much it read.
func CheckNext(ctx context.Context, s *cas.Store, storeDir string, bytes int64) (
	damage []*object.CorruptError, read int64, ended bool, err error) {
	const rememberEvery = 5 * time.Second
	remembered := time.Now()
	damage, read, next, err := s.CheckContent(ctx, Read(storeDir).Next, bytes, func(next string, found int) {
		if now := time.Now(); next != "" && found == 0 && now.Sub(remembered) > rememberEvery {
			remembered = now
			Change(storeDir, func(h *Health) { h.Next = next }) // else it is read again
		}
	})
	ended = err == nil && next == ""
	Change(storeDir, func(h *Health) { // in a store that cannot be written the next begins where this one did
		h.Next, h.BadNow = next, h.BadNow+len(damage)
		h.NoteBad(damage)
		if len(damage) > 0 {
			h.Said, h.Logged = time.Time{}, time.Time{}
		}
		h.Bad = max(h.Bad, h.BadNow)
		if ended {
			if h.BadNow == 0 {
				h.BadAt = nil
			}
			h.Bad, h.BadNow, h.Content = h.BadNow, 0, time.Now()
		}
	})
	return damage, read, ended, err
}

// maxBadAt is how many damaged objects are remembered by their places.
const maxBadAt = 1000

// NoteBad remembers where objects are damaged.
func (h *Health) NoteBad(damage []*object.CorruptError) {
	for _, d := range damage {
		at := fmt.Sprintf("%s@%d", d.Path, d.Off)
		if len(h.BadAt) < maxBadAt && !slices.Contains(h.BadAt, at) {
			h.BadAt = append(h.BadAt, at)
		}
	}
}

// Remembered returns what NoteBad remembered.
func (h *Health) Remembered() (list []*object.CorruptError) {
	for _, at := range h.BadAt {
		name, off, _ := strings.Cut(at, "@")
		if n, err := strconv.ParseInt(off, 10, 64); err == nil {
			list = append(list, &object.CorruptError{Path: name, Off: n})
		}
	}
	return list
}

// Mended forgets what checks have found.
func (h *Health) Mended() { h.Damage, h.Bad, h.BadNow, h.Next, h.BadAt = 0, 0, 0, "", nil }

// CheckFromStart has [CheckNext] begin with the first pack.
func CheckFromStart(storeDir string) {
	Change(storeDir, func(h *Health) { h.Next, h.BadNow = "", 0 }) // else nothing can be remembered either
}
