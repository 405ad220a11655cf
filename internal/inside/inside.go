// Package inside is the door by which our programs reach what package manager does not
// show to embedders: what has types that are internal, and what only they have a use for.
// Package manager opens it.
package inside

import (
	"context"
	"errors"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Manager is a *manager.FileSnapshotManager, or something that embeds one.
type Manager interface {
	StoreDir() string
	Session() string
}

// Of returns what is behind the door of a manager.
var Of func(m Manager) Door

// Store returns the store of a manager, which is open until the manager is closed.
func Store(m Manager) *cas.Store { return Of(m).Store() }

// A Door is what a manager does for our own programs.
type Door interface {
	Store() *cas.Store

	// Disk finds out what is in the directory now and stores nothing. The Getter knows
	// the trees of the result and all that the store holds.
	Disk(ctx context.Context, opts *capture.Options) (*tree.Result, trees.Getter, error)

	// TreePath returns a path as trees have it, "." for the session's directory. The
	// path is relative to that directory, or absolute; the error matches
	// manager.ErrOutside if it leads out.
	TreePath(path string) (string, error)

	// UseSession turns to a session. No turn may be open. The entries that
	// RebuildIndex was given for another one are forgotten, and its file.
	UseSession(id string) error

	// UseRemote turns to a session as others go on with it, to read it, if rev is
	// REMOTE:SESSION and a remote is called so. Errors are those of Resolve.
	UseRemote(ctx context.Context, rev string) (bool, error)

	// Elsewhere returns the newest records of lines on which others go on with one of some
	// sessions, of which something is not on the session's line here.
	Elsewhere(ctx context.Context, sessions []string) ([]*store.Snapshot, error)

	// LogSession returns the session that Options.SessionFile is the log of; "" before
	// the log was read.
	LogSession() string

	// LogProblems returns how much is wrong with Options.SessionFile, lines that were
	// skipped and the like, and what is wrong first, with its line.
	LogProblems() (first string, total int)

	// Capturing reports whether a capture of a turn or a snapshot is under way.
	Capturing() bool

	// OpenTurn returns the session's open turn, nil if there is none, AllOpenTurns those of
	// whatever session in the directory.
	OpenTurn() (*history.OpenTurn, error)
	AllOpenTurns() ([]*history.OpenTurn, error)

	// UnendedTurn is OpenTurn, but has one, too, that was cut off, and whose end nobody has
	// recorded yet.
	UnendedTurn() (t *history.OpenTurn, open bool, err error)

	// Title returns what the turn was for of which a snapshot is the record; "": it is not
	// known.
	Title(ctx context.Context, s *store.Snapshot) string

	// Moments returns what happened to the directory, in turns of all sessions and between
	// them, the oldest first.
	Moments(ctx context.Context) ([]*moments.Moment, error)

	// ResumeTurn has the session's open turn go on, if the process that held it has died:
	// whoever runs the turn has not. It comes before Initialize, which closes such a turn.
	// The error matches manager.ErrTurnOpen if that process is alive.
	ResumeTurn(ctx context.Context) error

	// ToolsUnknown says that nobody knows whether tools that were said to start have
	// been run, nor what the user did meanwhile: what has changed since the last look is
	// contested. Those that do not run are passed over. Errors are those of OnToolStart.
	ToolsUnknown(ctx context.Context, tools ...string) error

	// CutOff says whether something was cut off in the directory, so that files may
	// be half of each state: a restore, which FinishRestore brings to its end, or an
	// edit, which the next edit or turn takes back. What is being done right now is not
	// cut off.
	CutOff(ctx context.Context) (restore, edit bool, err error)

	// LeaveRestore ends a restore that was cut off where it is, and that FinishRestore can end in
	// neither direction, as the store has lost what that needs. No file is changed but those that it
	// had prepared, and of which the store has the content: they go. What differs from before the
	// restore is found by the next look. The error matches
	// manager.ErrNothing if there is none.
	LeaveRestore(ctx context.Context) error

	// Restores returns the records of the restores of the session that Undo and
	// Redo would take back, and of one that was cut off in the directory, of
	// whatever session; nil where there is none.
	Restores(ctx context.Context) (undo, redo, cutOff *store.Snapshot, err error)

	// NextBack returns the records of the restores that Undo, or with redo Redo, would
	// take back next in the sessions of the directory, at most one of each, the newest
	// first. One that was cut off comes first: it is brought to its end before.
	NextBack(ctx context.Context, redo bool) ([]*store.Snapshot, error)

	// Tags returns the snapshots of the session, or of all in the directory, that have a label,
	// newest first.
	Tags(ctx context.Context) ([]*store.Snapshot, error)

	// Tag gives the snapshot that a revision names a label. What had the label loses it, and so
	// does the snapshot another one that it had: that is before, and only with force. The error
	// matches ErrNamed without it, else ErrBadName, or is one of Resolve.
	Tag(ctx context.Context, name, rev string, force bool) (tagged, before *store.Snapshot, err error)

	// Untag takes a label away, and returns what had it. The error matches manager.ErrUnknown if
	// nothing has.
	Untag(ctx context.Context, name string) (*store.Snapshot, error)

	// ExportLog writes our own log of a session that no runtime keeps one of: a file in
	// the store, in pi's format, whose path it returns. The log has the turns and restores
	// of the session's line that were not pruned; what the file had before stays in it. A
	// later turn is not in the log until somebody asks again. With the log a repair can
	// make turns again that the journal has lost: see history.Rebuild.
	ExportLog(ctx context.Context) (string, error)
}

// Errors of tags.
var (
	// ErrNamed: the name is another snapshot's, or the snapshot has another name.
	ErrNamed = errors.New("already named")
	// ErrBadName: a name that cannot be a label.
	ErrBadName = errors.New("no name for a tag")
)

// ErrPage: what is asked for is no part of a list.
var ErrPage = errors.New("want a limit from 0, and a cursor that an answer had")

// ErrPath: no file can have a path.
var ErrPath = errors.New("no file can have this path")

// An Engine is a *manager.Engine.
type Engine interface{ Close() error }

// OfEngine returns what is behind the door of an engine.
var OfEngine func(e Engine) EngineDoor

// An EngineDoor is what an engine does for our own programs.
type EngineDoor interface {
	// Seal ends the packs that the engine appends to, in all stores that it has open,
	// so that another process may take contents out of them, as 'snapctl forget' does.
	Seal()

	// WatchStats returns what the watch on each directory has been through, by real
	// path.
	WatchStats() map[string]capture.WatchStats

	// BeforeAdopt has fn called before the engine has the whole of a store go on at another
	// path: to end who serves the old one, which is gone.
	BeforeAdopt(fn func(ctx context.Context, storeDir string) error)
}

type locationKey struct{}

// WithLocation has manager.Open take the history of the directory for where it was found
// just now, instead of looking for it once more.
func WithLocation(ctx context.Context, loc *places.Location) context.Context {
	return context.WithValue(ctx, locationKey{}, loc)
}

// Location returns what WithLocation was given; nil: nothing.
func Location(ctx context.Context) *places.Location {
	loc, _ := ctx.Value(locationKey{}).(*places.Location)
	return loc
}

type mergedKey struct{}

// WithMerged has a preview of a restore give fn each text that a file would be merged to: the
// store does not have it.
func WithMerged(ctx context.Context, fn func(id store.ID, text []byte)) context.Context {
	return context.WithValue(ctx, mergedKey{}, fn)
}

// TellMerged tells who has called WithMerged of a text.
func TellMerged(ctx context.Context, id store.ID, text []byte) {
	if fn, ok := ctx.Value(mergedKey{}).(func(store.ID, []byte)); ok {
		fn(id, text)
	}
}

type branchesKey struct{}

// WithAllBranches has Timeline list the turns of all branches of the conversation.
func WithAllBranches(ctx context.Context) context.Context {
	return context.WithValue(ctx, branchesKey{}, true)
}

// AllBranches reports whether a context is from WithAllBranches.
func AllBranches(ctx context.Context) bool { return ctx.Value(branchesKey{}) != nil }
