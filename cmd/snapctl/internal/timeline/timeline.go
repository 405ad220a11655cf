// Package timeline serves a page in which people look at turns, and take back what they
// pick. The page asks the same verbs as other programs do over RPC and HTTP (package verbs),
// and for what no verb has: which sessions there are, what a blob holds, and what happens
// ([Server] has a stream of that). What the page looks like is in web/, from where the page
// in assets is built.
//
// A server answers only requests that name this machine as their host and carry its token,
// but for the files of the page, in which there is no data.
package timeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// Options are the choices at New.
type Options struct {
	Engine    *manager.Engine
	StoreRoot string // the directory that holds the stores
	Root      string // real path of the one directory that is served; "": all that have a store
	ReadOnly  bool   // nothing can be changed
	Token     string // that each request must carry
	Version   string // of the program

	// Settle prepares the end of an open turn of a manager's session, so that the turn that ends is the
	// one that somebody was asked about: until release is called nobody else records its end, or the
	// begin of another. nil: nobody else does.
	Settle func(ctx context.Context, m *manager.FileSnapshotManager, t *history.OpenTurn) (release func(), err error)

	Logger *slog.Logger // nil: nothing is logged
}

// A Server is an [http.Handler]. Close ends its streams.
type Server struct {
	opts  Options
	token [sha256.Size]byte
	log   *slog.Logger
	mux   *http.ServeMux
	watch *watcher

	aheadMu sync.Mutex // guards ahead
	ahead   *answers   // for the next page; nil: none was asked for

	ended context.Context // when Close was called
	end   context.CancelFunc
	open  sync.WaitGroup // requests
}

// New returns a server. Close it.
func New(opts *Options) *Server {
	s := &Server{opts: *opts, token: sha256.Sum256([]byte(opts.Token)), log: opts.Logger, mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ended, s.end = context.WithCancel(context.Background())
	s.watch = newWatcher(s)
	s.route("GET", "/v1/projects", s.projects)
	s.route("GET", "/v1/sessions", s.sessions)
	s.route("GET", "/v1/ahead", s.answerAhead)
	s.route("POST", "/v1/verbs/{verb}", s.verb)
	s.route("POST", "/v1/label", s.label)
	s.mux.HandleFunc("/v1/reviewed", s.reviewed)
	s.route("POST", "/v1/export", s.export)
	s.mux.HandleFunc("/v1/content", s.only("GET", s.content))
	s.mux.HandleFunc("/v1/archive", s.only("GET", s.archive))
	s.mux.HandleFunc("/v1/events", s.only("GET", s.watch.serve))
	s.mux.HandleFunc("/", s.asset)
	if s.opts.Root != "" {
		s.open.Go(s.warm)
	}
	return s
}

// warm reads what a page asks for first, while the browser starts: the next to ask has it in memory.
// Who asks is told of what goes wrong.
func (s *Server) warm() {
	m, err := s.look(s.ended, s.opts.Root, "")
	if err != nil {
		return
	}
	_, err = m.Sessions(s.ended, true)
	if err = errors.Join(err, m.Close()); err != nil {
		s.log.Debug("the history is not read ahead", "err", err)
	}
}

// Close ends the streams and cancels requests, and returns when these have ended: a restore is
// taken back first.
func (s *Server) Close() {
	s.end()
	s.open.Wait()
	s.watch.close()
}

// ServeHTTP answers a request that may be answered.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	secure(w.Header())
	if err := s.check(r); err != nil {
		if err.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// route has requests to a path answered in JSON.
func (s *Server) route(method, path string, answer func(r *http.Request) (any, error)) {
	s.mux.HandleFunc(path, s.only(method, s.inJSON(answer)))
}

func (s *Server) inJSON(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		if err != nil {
			s.fail(w, r, withData(err, v))
			return
		}
		s.answer(w, http.StatusOK, v)
	}
}

// reviewed answers requests about marks.
func (s *Server) reviewed(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.inJSON(s.getReviewed)(w, r)
		return
	}
	s.only("POST", s.inJSON(s.review))(w, r)
}

// only refuses requests with another method.
func (s *Server) only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			s.fail(w, r, refuse(http.StatusMethodNotAllowed, "method", "%s: want %s", r.Method, method))
			return
		}
		next(w, r)
	}
}

// A project is a directory with a history.
type project struct {
	Root string `json:"root"`
	Name string `json:"name"`
}

// page is what the page knows of the server.
type page struct {
	Version  string    `json:"version"`
	ReadOnly bool      `json:"readOnly"`
	All      bool      `json:"all"`
	Projects []project `json:"projects"`
}

func (s *Server) projects(*http.Request) (any, error) { return s.newPage(s.roots()), nil }

func (s *Server) newPage(roots []string) *page {
	p := &page{s.opts.Version, s.opts.ReadOnly, s.opts.Root == "", []project{}}
	for _, root := range roots {
		p.Projects = append(p.Projects, project{root, filepath.Base(root)})
	}
	return p
}

// roots returns the directories that are served.
func (s *Server) roots() []string {
	if s.opts.Root != "" {
		return []string{s.opts.Root}
	}
	return places.Projects(s.opts.StoreRoot, func(p places.Presence) bool { return p != places.Gone })
}

// A sessionRow is a session, as the page lists it.
type sessionRow struct {
	Session string    `json:"session"`
	Root    string    `json:"root"`
	Began   time.Time `json:"began,omitzero"`
	Last    time.Time `json:"last"`
	Turns   int       `json:"turns"`
	Steps   int       `json:"steps"`
	Open    bool      `json:"open,omitempty"`
	Title   string    `json:"title,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Model   string    `json:"model,omitempty"`
}

// An openTurn is a turn that has not ended, as the page shows it.
type openTurn struct {
	Session string    `json:"session"`
	Turn    int       `json:"turn"`
	Began   time.Time `json:"began,omitzero"`
	Title   string    `json:"title,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Model   string    `json:"model,omitempty"`
	Tools   []string  `json:"tools,omitempty"` // that run
	Held    bool      `json:"held,omitempty"`  // only the program that runs it can end it
}

func newOpenTurns(list []*history.OpenTurn) []openTurn {
	open := []openTurn{}
	for _, t := range list {
		if t.End == 0 && t.Session != history.Nobody {
			open = append(open, openTurn{t.Session, t.Turn, t.Began, t.Title, t.Agent, t.Model, t.Tools, t.Held})
		}
	}
	return open
}

// sessionList are the sessions of a directory, the one that recorded something last first.
type sessionList struct {
	Sessions []sessionRow `json:"sessions"`
	Open     []openTurn   `json:"open"`
	UndoSeq  uint64       `json:"undoSeq,omitempty"` // of the session asked for: what undo would take back next
	RedoSeq  uint64       `json:"redoSeq,omitempty"`
}

func (s *Server) sessions(r *http.Request) (any, error) {
	return s.sessionsOf(r.Context(), r.FormValue("cwd"), r.FormValue("session"))
}

// sessionsOf returns the sessions of a directory, and what is to be known of one; "": of none.
func (s *Server) sessionsOf(ctx context.Context, cwd, session string) (list *sessionList, err error) {
	list = &sessionList{Sessions: []sessionRow{}, Open: []openTurn{}}
	m, err := s.look(ctx, cwd, session)
	if errors.Is(err, fs.ErrNotExist) { // nothing was recorded yet
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	infos, err := m.Sessions(ctx, true)
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		remote, _, isRemote := strings.Cut(i.Root, ":")
		switch {
		case !filepath.IsAbs(i.Root) && isRemote: // what others make of a session is looked at from here
			i.Session, i.Root = remote+":"+i.Session, cwd
		case s.opts.Root != "" && i.Worktree != m.Project().Worktree:
			continue
		}
		list.Sessions = append(list.Sessions, sessionRow{i.Session, i.Root, i.Began, i.Last, i.Turns, i.Steps, i.Open,
			i.Title, i.Agent, i.Model})
	}
	open, err := inside.Of(m).AllOpenTurns()
	if err != nil {
		return nil, err
	}
	list.Open = newOpenTurns(open)
	if m.Session() == "" {
		return list, nil
	}
	undo, redo, _, err := inside.Of(m).Restores(ctx)
	if undo != nil {
		list.UndoSeq = undo.Seq
	}
	if redo != nil {
		list.RedoSeq = redo.Seq
	}
	if errors.Is(err, manager.ErrNoSession) || errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return list, err
}

// look opens a directory to read, if it is served. A session may be "".
func (s *Server) look(ctx context.Context, root, session string) (*manager.FileSnapshotManager, error) {
	if err := s.serves(root); err != nil {
		return nil, err
	}
	return verbs.OpenToLook(ctx, root, &manager.Options{Engine: s.opts.Engine, Session: session})
}

// serves returns an error unless a directory is served.
func (s *Server) serves(root string) error {
	switch {
	case !filepath.IsAbs(root):
		return explain.Errorf(explain.BadRequest, "cwd %q: want an absolute path", root)
	case s.opts.Root != "" && root != s.opts.Root:
		return refuse(http.StatusForbidden, "forbidden", "only %q is served: 'snapctl timeline --all' serves all",
			s.opts.Root)
	}
	return nil
}

// allowed are the verbs that change something and that the page asks: those that say what would
// be done, and by false those that do it.
var allowed = map[string]bool{"restore_preview": true, "revert_preview": true,
	"restore": false, "revert": false, "undo": false, "redo": false}

func (s *Server) verb(r *http.Request) (any, error) {
	name := r.PathValue("verb")
	request, err := readBody(r)
	if err != nil {
		return nil, err
	}
	v := verbs.Named(name)
	if v == nil {
		return nil, explain.Errorf(explain.BadCommand, "no verb %q", name)
	}
	initialize := verbs.Initialize
	if !v.Changes {
		initialize = verbs.InitializeToLook
	}
	of, err := initialize(request)
	if err == nil {
		err = s.serves(of.CWD)
	}
	if err != nil {
		return nil, err
	}
	if !v.Changes {
		return verbs.Look(r.Context(), s.opts.Engine, name, request)
	}
	if _, ok := allowed[name]; !ok {
		return nil, refuse(http.StatusForbidden, "forbidden", "the timeline does not ask %q", name)
	}
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	if err := s.exists(r.Context(), of.CWD); err != nil {
		return nil, err
	}
	release, err := s.settle(r, of, request)
	if err != nil {
		return nil, err
	}
	defer release()
	return verbs.Ask(r.Context(), s.opts.Engine, name, request)
}

// settle prepares the end of the session's open turn, if a request asks for that: of the turn that it
// names by ?turn=N&began=TIME, or of none, if that has ended meanwhile.
func (s *Server) settle(r *http.Request, of *client.Initialize, request []byte) (release func(), err error) {
	var asks struct{ EndTurn, Preview bool }
	if err := json.Unmarshal(request, &asks); err != nil {
		return nil, explain.Errorf(explain.BadRequest, "body: %v", err)
	}
	if !asks.EndTurn || asks.Preview || allowed[r.PathValue("verb")] {
		return func() {}, nil
	}
	m, err := manager.Open(r.Context(), of.CWD, &manager.Options{Engine: s.opts.Engine, Session: of.SessionID,
		Detached: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	t, err := inside.Of(m).OpenTurn()
	if err != nil {
		return nil, err
	}
	began, berr := time.Parse(time.RFC3339Nano, r.FormValue("began"))
	if t == nil || berr != nil || r.FormValue("turn") != strconv.Itoa(t.Turn) || !began.Equal(t.Began) {
		return nil, turnEnded()
	}
	if s.opts.Settle == nil || t.Held {
		return func() {}, nil
	}
	release, err = s.opts.Settle(r.Context(), m, t)
	if errors.Is(err, ErrTurnEnded) {
		err = turnEnded()
	}
	return release, err
}

// ErrTurnEnded: the turn that was to end has ended meanwhile.
var ErrTurnEnded = errors.New("the turn has ended by itself; nothing was changed")

func turnEnded() error { return refuse(http.StatusConflict, "turn_ended", "%v", ErrTurnEnded) }

// exists returns an error if a directory has no history: whoever writes would begin one.
func (s *Server) exists(ctx context.Context, root string) error {
	m, err := s.look(ctx, root, "")
	if err != nil {
		return err
	}
	return m.Close()
}

func (s *Server) mayChange() error {
	if s.opts.ReadOnly {
		return refuse(http.StatusForbidden, "read_only",
			"this timeline only looks: start it without --read-only to take something back")
	}
	return nil
}

// ofSession is what requests about a session that are no verbs have.
type ofSession struct {
	CWD       string `json:"cwd"`
	SessionID string `json:"sessionId"`
	Label     string `json:"label,omitempty"`
	Rev       string `json:"rev,omitempty"` // of label: the turn that is named; "": the directory as it is now
}

// write opens the session that a request names to write.
func (s *Server) write(r *http.Request, q *ofSession) (*manager.FileSnapshotManager, error) {
	body, err := readBody(r)
	if err == nil {
		err = verbs.DecodePart("body", body, q)
	}
	if err == nil {
		err = s.serves(q.CWD)
	}
	if err == nil {
		err = s.mayChange()
	}
	if err == nil {
		err = s.exists(r.Context(), q.CWD)
	}
	if err != nil {
		return nil, err
	}
	return manager.Open(r.Context(), q.CWD, &manager.Options{Engine: s.opts.Engine, Session: q.SessionID,
		Detached: true})
}

// labelled is the answer of label.
type labelled struct {
	SnapshotSeq uint64 `json:"snapshotSeq"`
}

// label names a turn, as 'snapctl tag' does, or records the directory as it is under a name, as
// 'snapctl snapshot --label' does.
func (s *Server) label(r *http.Request) (answer any, err error) {
	var q ofSession
	m, err := s.write(r, &q)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if q.Label == "" {
		return nil, explain.Errorf(explain.BadRequest, "label: it is empty")
	}
	if q.Rev != "" {
		tagged, _, err := inside.Of(m).Tag(r.Context(), q.Label, q.Rev, false)
		if err != nil {
			return nil, err
		}
		return &labelled{tagged.Seq}, nil
	}
	result, err := m.Snapshot(r.Context(), &manager.SnapshotOptions{Label: q.Label})
	if err != nil {
		return nil, err
	}
	l := new(labelled)
	if result.Snapshot != nil {
		l.SnapshotSeq = result.Snapshot.Seq
	}
	return l, nil
}

// exported is the answer of export.
type exported struct {
	File string `json:"file"`
}

// export writes the log of a session, as 'snapctl sessions --export' does.
func (s *Server) export(r *http.Request) (answer any, err error) {
	var q ofSession
	m, err := s.write(r, &q)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	file, err := inside.Of(m).ExportLog(r.Context())
	if err != nil {
		return nil, err
	}
	return &exported{file}, nil
}

// content answers with what a blob holds. It is no page whatever it holds.
func (s *Server) content(w http.ResponseWriter, r *http.Request) {
	id, err := store.ParseID(r.FormValue("id"))
	if err != nil {
		err = explain.Errorf(explain.BadRequest, "%v", err)
	}
	var b []byte
	if err == nil {
		b, err = s.readBlob(r.Context(), r.FormValue("cwd"), id)
	}
	if err != nil {
		s.fail(w, r, withData(err, nil))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b) // an error says that the client is gone
}

func (s *Server) readBlob(ctx context.Context, cwd string, id store.ID) (content []byte, err error) {
	m, err := s.look(ctx, cwd, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var b bytes.Buffer
	_, err = inside.Store(m).CopyBlob(ctx, &limited{&b, filediff.MaxText}, id)
	return b.Bytes(), err
}

// A limited writer takes so many bytes, and no more.
type limited struct {
	*bytes.Buffer
	room int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.room -= len(b); l.room < 0 {
		return 0, refuse(http.StatusRequestEntityTooLarge, "too_large",
			"it has more than %d MiB: 'snapctl cat' prints it", filediff.MaxText>>20)
	}
	return l.Buffer.Write(b)
}
