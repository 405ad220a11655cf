// Package verbs is the one table of what can be asked of a session: each verb's name,
// its arguments, its answer and what it does. The faces of the command (lines over
// streams and sockets, HTTP, tools for models) decode, look here and encode; what
// goes wrong is in package explain.
//
// A verb's arguments are the structure that the manager takes, where it takes one:
// what is wrong with them the manager says, to all faces alike.
package verbs

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/tree"
)

// All are the verbs. "changes" says that one waits for those that came before it.
var All = []*Verb{
	verb("initialize", changes,
		"begins with a session, or takes it up again; before any other command about it", initialize),
	verb("turn_start", changes, "looks at the directory and opens a turn", turnStart),
	verb("tool_start", changes, "says that a tool of the turn begins", toolStart),
	verb("tool_end", changes, "says that it has ended", toolEnd),
	verb("turn_end", changes, "looks at the directory and records what the turn changed", turnEnd),
	verb("told", changes, "says that the runtime's log has an entry for a step or a restore", told),
	verb("claim", changes, "says that the turn writes files", claim),
	verb("note_read", changes,
		"remembers what a file holds, so that an edit that builds on it can be refused", noteRead),
	verb("get_modified_files", looks, "lists the paths that turns changed between two points", modifiedFiles),
	verb("get_file_diff", looks, "returns a file at two points and the difference", fileDiff),
	verb("get_turn_diff", looks, "returns what a turn did, without what others did meanwhile", turnDiff),
	verb("hunks", looks, "lists pieces of a change, each with what would come of taking it back", hunks),
	verb("get_snapshots", looks, "lists the session's history, oldest first", snapshots),
	verb("whereis", looks, "says which turn changed a path last", whereIs),
	verb("blame", looks, "says which turn wrote each line of a file", blame),
	verb("find", looks, "lists the changes by which a text came or went, newest first", find),
	verb("get_coverage", looks, "lists what was left out of a snapshot", coverage),
	verb("restore_preview", changes, "says what restore would do, and does nothing", restorePreview),
	verb("restore", changes, "brings files back to what they were", restore),
	verb("revert_preview", changes, "says what revert would do, and does nothing", revertPreview),
	verb("revert", changes, "takes back turns by name, and keeps what came after them", revert),
	verb("undo", changes, "takes back the newest restore", undo),
	verb("redo", changes, "takes back the newest undo", redo),
	verb("navigate_tree", changes, "moves the conversation to an entry, and the files with it", navigateTree),
	verb("apply_patch", changes, "edits files: all pieces of a patch, or none", applyPatch),
	verb("undo_patch", changes, "takes back an edit", undoPatch),
}

const (
	changes = true
	looks   = false
)

// A Verb is one thing to ask of a session.
type Verb struct {
	Name         string
	Text         string // what it does
	Changes      bool
	Args, Result reflect.Type // structures
	bind         func(args []byte, beside []reflect.Type) (Do, error)
}

// Do does what a verb was bound to. An answer beside an error says how far it got.
type Do func(ctx context.Context, s *Session) (answer any, err error)

// Bind reads the arguments of a verb from JSON. The fields of the structures beside may
// stand beside them, and no others.
func (v *Verb) Bind(args []byte, beside ...reflect.Type) (Do, error) { return v.bind(args, beside) }

// Named returns a verb, nil if there is none of that name.
func Named(name string) *Verb {
	if i := slices.IndexFunc(All, func(v *Verb) bool { return v.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

func verb[A, R any](name string, changes bool, text string, do func(context.Context, *Session, *A) (*R, error)) *Verb {
	v := &Verb{Name: name, Text: text, Changes: changes, Args: reflect.TypeFor[A](), Result: reflect.TypeFor[R]()}
	v.bind = func(args []byte, beside []reflect.Type) (Do, error) {
		a := new(A)
		if err := Decode(name, args, a, beside...); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *Session) (any, error) {
			r, err := do(ctx, s, a)
			if r == nil { // and not a value that holds nil
				return nil, err
			}
			return r, err
		}, nil
	}
	return v
}

// A Session is one that verbs are asked of.
type Session struct {
	*manager.FileSnapshotManager
	logs   bool                              // the runtime keeps a log: what it is to append is in answers
	listed atomic.Pointer[[]*manager.Moment] // what get_snapshots lists page by page
}

// Initialize reads which session a request is about: the arguments of initialize.
func Initialize(request []byte) (*client.Initialize, error) {
	return initializeBy(request, session.ValidID)
}

// InitializeToLook is Initialize for verbs that change nothing: see [OpenToLook].
func InitializeToLook(request []byte) (*client.Initialize, error) {
	return initializeBy(request, func(id string) bool {
		_, of, isRemote := strings.Cut(id, ":")
		return session.ValidID(id) || isRemote && session.ValidID(of)
	})
}

func initializeBy(request []byte, isValid func(session string) bool) (*client.Initialize, error) {
	a := new(client.Initialize)
	if err := DecodePart("initialize", request, a); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(a.CWD) || !isValid(a.SessionID) {
		return nil, explain.Errorf(explain.BadRequest,
			"initialize: want cwd, an absolute path, and sessionId of 1 to 128 letters, digits and ._-")
	}
	if strings.Contains(a.CWD+a.SessionFile, "\x00") {
		return nil, explain.Errorf(explain.BadRequest, "initialize: a path with a NUL")
	}
	return a, nil
}

// Open opens a session. Whoever opened it closes it.
func Open(ctx context.Context, e *manager.Engine, a *client.Initialize) (*Session, error) {
	l := tree.Limits{FileSize: a.Limits.FileSize, NewBytes: a.Limits.NewBytes, Files: a.Limits.Files,
		Time: time.Duration(a.Limits.TimeMs) * time.Millisecond}
	m, err := manager.Open(ctx, a.CWD, &manager.Options{Engine: e, Session: a.SessionID, SessionFile: a.SessionFile,
		ToolWindows: a.ToolWindows, Detached: a.Detached, AllowBroad: a.AllowBroad, Limits: l,
		OnDirty: rollback.Merge})
	if err != nil {
		return nil, err
	}
	return &Session{FileSnapshotManager: m, logs: !a.OwnLog}, nil
}

// Ask asks a verb of a session that the request names itself: it has the fields of
// initialize beside the verb's own. A turn goes on when it is answered.
func Ask(ctx context.Context, e *manager.Engine, name string, request []byte) (answer any, err error) {
	v := Named(name)
	if v == nil {
		return nil, explain.Errorf(explain.BadCommand, "no verb %q", name)
	}
	do, err := v.Bind(request, reflect.TypeFor[client.Initialize]())
	if err != nil {
		return nil, err
	}
	of, err := Initialize(request)
	if err != nil {
		return nil, err
	}
	of.Detached = true
	s, err := Open(ctx, e, of)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(ctx, s)
}

// Look is Ask for verbs that change nothing: the store is only read, and must be there.
func Look(ctx context.Context, e *manager.Engine, name string, request []byte) (answer any, err error) {
	v := Named(name)
	if v == nil || v.Changes {
		return nil, explain.Errorf(explain.BadCommand, "no verb %q that only looks", name)
	}
	do, err := v.Bind(request, reflect.TypeFor[client.Initialize]())
	if err != nil {
		return nil, err
	}
	of, err := InitializeToLook(request)
	if err != nil {
		return nil, err
	}
	m, err := OpenToLook(ctx, of.CWD, &manager.Options{Engine: e, Session: of.SessionID, SessionFile: of.SessionFile})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return do(ctx, &Session{FileSnapshotManager: m, logs: !of.OwnLog})
}

// OpenToLook opens a manager to read. Its session may be REMOTE:SESSION: as others go on with it, as
// far as that was pulled.
func OpenToLook(ctx context.Context, root string, opts *manager.Options) (*manager.FileSnapshotManager, error) {
	opts.ReadOnly = true
	rev := opts.Session
	if !strings.Contains(rev, ":") {
		return manager.Open(ctx, root, opts)
	}
	opts.Session, opts.SessionFile = "", ""
	m, err := manager.Open(ctx, root, opts)
	if err != nil {
		return nil, err
	}
	is, err := inside.Of(m).UseRemote(ctx, rev)
	if err == nil && !is {
		err = explain.Errorf(explain.BadRequest, "session %q: no remote is called so", rev)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func initialize(ctx context.Context, s *Session, a *client.Initialize) (*client.Initialized, error) {
	if a.Resume {
		if err := inside.Of(s).ResumeTurn(ctx); err != nil {
			return nil, err
		}
	}
	r, err := s.Initialize(ctx)
	if err != nil {
		return nil, err
	}
	dir := s.StoreDir()
	answer := &client.Initialized{Look: *newLook(r), SessionID: s.Session(), Root: s.Project().Root, StoreDir: dir}
	for _, c := range health.Read(dir).Concerns(dir, time.Now()) {
		answer.Concerns = append(answer.Concerns, client.Concern(c))
	}
	damage, err := history.Shown(ctx, inside.Store(s.FileSnapshotManager), s.Project().Worktree)
	if err != nil {
		return nil, err
	}
	if damage != "" {
		answer.Concerns = append(answer.Concerns, client.Concern{Urgent: true,
			Text: damage + ": 'snapctl check' lists all that is"})
	}
	return answer, nil
}
