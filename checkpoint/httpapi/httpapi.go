package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/boocode/filestore/checkpoint"
	explained "github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/session"
)

// Options are the choices at New.
type Options struct {
	Token   string       // that each request must carry; "": all are refused
	Hosts   []string     // names of the server in the header Host, without a port; default localhost, 127.0.0.1, [::1]
	Origins []string     // of pages that may send requests, as "http://localhost:3000"; default none
	Logger  *slog.Logger // nil: nothing is logged

	// Verb answers POST /v1/verbs/NAME: request is the body, the answer becomes JSON.
	// An answer beside an error says how far it got. Default: there are none.
	Verb func(ctx context.Context, name string, request json.RawMessage) (answer any, err error)
}

const (
	// maxBody is how many bytes of a body are read, and maxVerb of one to a verb.
	maxBody = 64 << 10
	maxVerb = wire.MaxLine
)

type server struct {
	db      *checkpoint.DB
	token   [sha256.Size]byte
	verb    func(ctx context.Context, name string, request json.RawMessage) (any, error)
	closed  bool // there is no token
	hosts   []string
	origins []string
	log     *slog.Logger
}

// New returns a handler for the checkpoints of a database. Without one, if db is nil, it
// answers verbs, and requests about checkpoints with 501 no_database. opts may be nil, and
// then all is refused: there is no token.
func New(db *checkpoint.DB, opts *Options) http.Handler {
	if opts == nil {
		opts = new(Options)
	}
	s := &server{db: db, token: sha256.Sum256([]byte(opts.Token)), closed: opts.Token == "", origins: opts.Origins,
		verb: opts.Verb, log: opts.Logger}
	hosts := opts.Hosts
	if hosts == nil {
		hosts = []string{"localhost", "127.0.0.1", "[::1]"}
	}
	for _, h := range hosts {
		s.hosts = append(s.hosts, hostname(h))
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	const checkpoints = "/api/sessions/{sessionId}/checkpoints"
	s.route(mux, checkpoints, maxBody, map[string]handler{"GET": s.inDB(s.list), "POST": s.inDB(s.create)})
	s.route(mux, checkpoints+"/{checkpointId}/restore", maxBody, map[string]handler{"POST": s.inDB(s.restore)})
	const restore = "/api/sessions/{sessionId}/restores/{restoreId}"
	s.route(mux, restore, maxBody, map[string]handler{"GET": s.inDB(s.outcome)})
	s.route(mux, restore+"/undo", maxBody, map[string]handler{"POST": s.inDB(s.undo)})
	if s.verb != nil {
		s.route(mux, "/v1/verbs/{verb}", maxVerb, map[string]handler{"POST": s.ask})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, refuse(http.StatusNotFound, "not_found", "there is no %q", r.URL.Path))
	})
	return s.guard(mux)
}

// A handler answers a request, with a status and what becomes JSON.
type handler func(r *http.Request) (status int, answer any, err error)

// inDB returns what answers a request about checkpoints: h, if there is a database.
func (s *server) inDB(h handler) handler {
	if s.db != nil {
		return h
	}
	return func(*http.Request) (int, any, error) {
		return 0, nil, refuse(http.StatusNotImplemented, "no_database", "this server has no database of checkpoints")
	}
}

// route has the methods of a path answered, with bodies of so many bytes.
func (s *server) route(mux *http.ServeMux, path string, most int64, methods map[string]handler) {
	var allow []string
	for method, h := range methods {
		allow = append(allow, method)
		mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, most)
			status, answer, err := h(r)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			s.answer(w, r, status, answer)
		})
	}
	slices.Sort(allow)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { // with any other method
		w.Header().Set("Allow", strings.Join(allow, ", "))
		s.fail(w, r, refuse(http.StatusMethodNotAllowed, "method", "%s: want %s", r.Method,
			strings.Join(allow, " or ")))
	})
}

// guard lets requests through that may be answered.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := s.check(r); err != nil {
			if err.status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check says what is wrong with a request before anything is done about it.
func (s *server) check(r *http.Request) *refusal {
	// A page whose name has been made to mean this machine sends that name.
	if !slices.Contains(s.hosts, hostname(r.Host)) {
		return refuse(http.StatusForbidden, "forbidden", "host %q is not this server", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(s.origins, origin) {
			return refuse(http.StatusForbidden, "forbidden", "origin %q may not", origin)
		}
	}
	if !s.isAuthorized(r.Header.Values("Authorization")) {
		return refuse(http.StatusUnauthorized, "unauthorized", "want Authorization: Bearer TOKEN")
	}
	// Before the mux, which would clean it, and tell of another path.
	for part := range strings.SplitSeq(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/") {
		if !session.ValidID(part) {
			return badRequest("path %q: want parts of %s", r.URL.EscapedPath(), idForm)
		}
	}
	return nil
}

// hostname returns the name in a Host header, without the port.
func hostname(host string) string {
	return strings.ToLower((&url.URL{Host: host}).Hostname())
}

// isAuthorized reports whether a request carries the token. Hashes are compared,
// so that the time it takes says nothing about the token, not even its length.
func (s *server) isAuthorized(header []string) bool {
	if len(header) != 1 || s.closed {
		return false
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	sum := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

// idForm is that of an ID, which [session.ValidID] checks, and of a part of a path.
const idForm = "1 to 128 letters, digits and ._-"

func (s *server) list(r *http.Request) (int, any, error) {
	opts, err := listOptions(r.URL.RawQuery)
	if err != nil {
		return 0, nil, err
	}
	list, next, err := s.db.List(r.Context(), r.PathValue("sessionId"), opts)
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = badRequest("cursor %q is none", opts.Cursor)
	}
	return http.StatusOK, &page{append([]*checkpoint.Checkpoint{}, list...), next}, err
}

// A page is one of checkpoints, oldest first.
type page struct {
	Checkpoints []*checkpoint.Checkpoint `json:"checkpoints"`
	NextCursor  string                   `json:"next_cursor,omitempty"` // there are more: ask with this
}

func listOptions(query string) (*checkpoint.ListOptions, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("query: %v", err)
	}
	opts := new(checkpoint.ListOptions)
	for name, list := range values {
		value, ok := list[0], len(list) == 1
		switch name {
		case "chat":
			opts.ChatID, ok = value, ok && session.ValidID(value)
		case "cursor":
			opts.Cursor, ok = value, ok && session.ValidID(value)
		case "limit":
			n, err := strconv.Atoi(value)
			opts.Limit, ok = n, ok && err == nil && n > 0
		default:
			ok = false
		}
		if !ok {
			return nil, badRequest("query: %s=%q: want chat=ID, limit=N and cursor=NEXT, each once", name, value)
		}
	}
	return opts, nil
}

// create makes a checkpoint of a turn that has begun.
func (s *server) create(r *http.Request) (int, any, error) {
	q := checkpoint.Anchor{SessionID: r.PathValue("sessionId")}
	if err := readBody(r, &q, false); err != nil {
		return 0, nil, err
	}
	ids := map[string]string{"chat_id": q.ChatID, "worktree_id": q.WorktreeID, "message_id": q.MessageID}
	for name, id := range ids {
		if !session.ValidID(id) {
			return 0, nil, badRequest("%s %q: want %s", name, id, idForm)
		}
	}
	if q.Tree.IsZero() {
		return 0, nil, badRequest("tree_hash: want snapshotTreeHash of the turn's start")
	}
	if strings.ContainsRune(q.Label, 0) { // PostgreSQL has no such text
		return 0, nil, badRequest("label: it contains NUL")
	}
	c, err := s.db.Create(r.Context(), nil, &q)
	return http.StatusCreated, c, err
}

func (s *server) restore(r *http.Request) (int, any, error) {
	var q checkpoint.RestoreOptions
	if err := readBody(r, &q, true); err != nil {
		return 0, nil, err
	}
	result, err := s.db.Restore(r.Context(), r.PathValue("sessionId"), r.PathValue("checkpointId"), &q)
	return http.StatusOK, result, err
}

func (s *server) undo(r *http.Request) (int, any, error) {
	var q checkpoint.RestoreOptions
	if err := readBody(r, &q, true); err != nil {
		return 0, nil, err
	}
	if q.Exact || q.AcrossHead {
		return 0, nil, badRequest("an undo brings back what was there: exact and across_head have no meaning")
	}
	result, err := s.db.Undo(r.Context(), r.PathValue("sessionId"), r.PathValue("restoreId"), &q)
	return http.StatusOK, result, err
}

// An outcome says whether a restore, or an undo, was done: else the old state holds.
type outcome struct {
	RestoreID string `json:"restore_id"`
	Done      bool   `json:"done"`
}

func (s *server) outcome(r *http.Request) (int, any, error) {
	id := r.PathValue("restoreId")
	done, err := s.db.Outcome(r.Context(), r.PathValue("sessionId"), id)
	return http.StatusOK, &outcome{id, done}, err
}

// ask answers a verb. Its errors are those of RPC: it is about no checkpoint.
func (s *server) ask(r *http.Request) (int, any, error) {
	request := json.RawMessage("{}")
	if err := readBody(r, &request, true); err != nil {
		return 0, nil, err
	}
	answer, err := s.verb(r.Context(), r.PathValue("verb"), request)
	if err != nil {
		k := explained.Of(err)
		err = &refusal{status: k.Status, Code: k.Code, Message: err.Error(), Data: answer}
	}
	return http.StatusOK, answer, err
}

// readBody decodes a body, which is one JSON object with known fields.
func readBody(r *http.Request, v any, optional bool) error {
	if optional && r.ContentLength == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content_type", "want Content-Type: application/json")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more == nil {
			err = errors.New("there is more after the object")
		} else if more != io.EOF {
			err = more
		}
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "body: more than %d bytes", long.Limit)
	}
	if err != nil {
		return badRequest("body: %v", err)
	}
	return nil
}

// answer writes an answer.
func (s *server) answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // our own types: it is a mistake
		s.log.Error("answer not encoded", "path", r.URL.Path, "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) // an error says that the client is gone
}

// fail answers a request that was not done. The text of any error is in the
// answer, with paths and the words of the database: who has the token is the
// user, or acts for them.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		s.log.Debug("the client went away", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	e := explain(err)
	if e.status == http.StatusInternalServerError {
		s.log.Error("request not done", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	s.answer(w, r, e.status, map[string]*refusal{"error": e})
}

// A refusal is an error as clients see it.
type refusal struct {
	status    int
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	Files     []string `json:"files,omitempty"`      // that stand against it
	RestoreID string   `json:"restore_id,omitempty"` // that is not decided
	Data      any      `json:"data,omitempty"`       // how far a verb got
}

func (e *refusal) Error() string { return e.Message }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "bad_request", format, args...)
}
