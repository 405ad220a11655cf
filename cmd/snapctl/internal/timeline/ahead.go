package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/store"
)

// A page asks for projects, for sessions, for turns, for the files of the newest, and for what has changed in
// the first of them: each question follows from the answer before. A browser needs longer to begin with the
// page than the engine to answer them all, so they are answered as soon as the page is asked for, and the page
// asks for all answers at once. They are those that the page would get, found by what it asks: where it asks
// something else it is answered as always.

const (
	// aheadWait is how long the page waits for answers that are not there yet; it asks for these itself.
	aheadWait = 150 * time.Millisecond
	// aheadStays is how long answers are kept for a page that does not come.
	aheadStays = 2 * time.Second
	// maxAhead is the size of a blob that is sent ahead.
	maxAhead = 1 << 20
)

// An answered question, as the page would ask it: a path and arguments, in the page's order.
type answered struct {
	Path   string `json:"path"`
	Args   any    `json:"args"`
	Answer any    `json:"answer"`
}

// answers to what a page asks first. They become more.
type answers struct {
	ready chan struct{} // closed when all are there
	end   context.CancelFunc

	mu   sync.Mutex // guards list
	list []answered
}

// lookAhead begins to answer what the page asks first, unless that is under way.
func (s *Server) lookAhead() {
	s.aheadMu.Lock()
	defer s.aheadMu.Unlock()
	if s.ahead != nil || s.ended.Err() != nil {
		return
	}
	s.ahead = s.newAnswers()
	a := s.ahead
	time.AfterFunc(aheadStays, func() {
		s.aheadMu.Lock()
		defer s.aheadMu.Unlock()
		if s.ahead == a {
			s.ahead = nil
		}
	})
}

func (s *Server) newAnswers() *answers {
	ctx, cancel := context.WithTimeout(s.ended, aheadStays)
	a := &answers{ready: make(chan struct{}), end: cancel}
	s.open.Go(func() {
		defer close(a.ready)
		defer cancel()
		if err := s.first(ctx, a); err != nil { // who asks again is told what is wrong
			s.log.Debug("not all is answered ahead", "err", err)
		}
	})
	return a
}

// answerAhead answers GET /v1/ahead.
func (s *Server) answerAhead(r *http.Request) (any, error) {
	s.aheadMu.Lock()
	a := s.ahead
	s.ahead = nil
	s.aheadMu.Unlock()
	if a == nil {
		a = s.newAnswers()
	}
	t := time.NewTimer(aheadWait)
	defer t.Stop()
	select {
	case <-a.ready:
	case <-t.C:
	case <-r.Context().Done():
	}
	a.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	return map[string][]answered{"answers": slices.Clone(a.list)}, nil
}

func (a *answers) add(path string, args, answer any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, answered{path, args, answer})
}

// ofPage is what each verb is asked with.
type ofPage struct {
	CWD       string `json:"cwd"`
	SessionID string `json:"sessionId"`
	OwnLog    bool   `json:"ownLog"`
}

// verb asks a verb, and fills in what is needed of its answer.
func (a *answers) verb(ctx context.Context, s *Server, name string, args, into any) error {
	request, err := json.Marshal(args)
	if err != nil {
		return err
	}
	v, err := verbs.Look(ctx, s.opts.Engine, name, request)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.add("/v1/verbs/"+name, args, json.RawMessage(b))
	return json.Unmarshal(b, into)
}

// first answers what a page asks first, in its order: see start in web/src/store.ts.
func (s *Server) first(ctx context.Context, a *answers) error {
	roots := s.roots()
	a.add("/v1/projects", struct{}{}, s.newPage(roots))
	if len(roots) == 0 {
		return nil
	}
	type of struct {
		CWD     string `json:"cwd"`
		Session string `json:"session,omitempty"`
	}
	list, err := s.sessionsOf(ctx, roots[0], "")
	if err != nil {
		return err
	}
	a.add("/v1/sessions", of{roots[0], ""}, list)
	if len(list.Sessions) == 0 {
		return nil
	}
	row := list.Sessions[max(0, slices.IndexFunc(list.Sessions, func(r sessionRow) bool { return r.Root == roots[0] }))]
	if list, err = s.sessionsOf(ctx, row.Root, row.Session); err != nil {
		return err
	}
	a.add("/v1/sessions", of{row.Root, row.Session}, list)
	return s.firstTurn(ctx, a, ofPage{row.Root, row.Session, true})
}

// moment and fileChange are what is needed of rows and of files to know what is asked next.
type moment struct {
	Rev          string
	TurnIndex    int
	Kind         string
	Pruned       bool
	GoesOn       bool
	ForkedFrom   string
	TakenBackSeq uint64
	But          []string
}

func (m *moment) canBeTakenBack() bool {
	return m.Kind == "step" && !m.Pruned && (m.TakenBackSeq == 0 || len(m.But) > 0)
}

type fileChange struct {
	Path             string
	RenamedFrom      string
	OldMode, NewMode string
	OldHash, NewHash string
	OldSize, NewSize int64
}

func (f *fileChange) isDir() bool {
	return strings.HasPrefix(f.OldMode, "4") || strings.HasPrefix(f.NewMode, "4")
}

// firstTurn answers what is asked about the newest turn.
func (s *Server) firstTurn(ctx context.Context, a *answers, of ofPage) error {
	var list struct{ Snapshots []moment }
	err := a.verb(ctx, s, "get_snapshots", struct {
		ofPage
		NewestFirst bool `json:"newestFirst"`
		Branches    bool `json:"branches"`
		Limit       int  `json:"limit"`
	}{of, true, true, 200}, &list)
	if err != nil || len(list.Snapshots) == 0 {
		return err
	}
	m := &list.Snapshots[max(0, slices.IndexFunc(list.Snapshots, func(m moment) bool { return m.canBeTakenBack() }))]
	if m.Kind == "empty" || m.Kind == "start" || m.Pruned {
		return nil
	}
	var diff struct{ Files []fileChange }
	err = a.verb(ctx, s, "get_turn_diff", struct {
		ofPage
		Rev     string `json:"rev"`
		Detail  string `json:"detail"`
		Renames bool   `json:"renames"`
		Limit   int    `json:"limit"`
		Cursor  string `json:"cursor"`
	}{of, m.Rev, "names", true, 10_000, ""}, &diff)
	files := slices.DeleteFunc(diff.Files, func(f fileChange) bool { return f.isDir() })
	if err != nil || len(files) == 0 || files[0].RenamedFrom != "" {
		return err
	}
	path := files[0].Path
	files = slices.DeleteFunc(files, func(f fileChange) bool { return f.Path != path })
	turn := m.Rev
	if m.TurnIndex >= 0 && !m.GoesOn && m.ForkedFrom == "" {
		turn = "turn:" + strconv.Itoa(m.TurnIndex)
	}
	err = a.verb(ctx, s, "hunks", struct {
		ofPage
		Turns  []string `json:"turns"`
		Paths  []string `json:"paths"`
		Cursor string   `json:"cursor"`
	}{of, []string{turn}, []string{globs.Replace(path)}, ""}, new(struct{}))
	for _, f := range files {
		err = errors.Join(err, a.blob(ctx, s, of.CWD, f.OldHash, f.OldSize))
		err = errors.Join(err, a.blob(ctx, s, of.CWD, f.NewHash, f.NewSize))
	}
	return err
}

// globs has a path stand for itself where globs are taken.
var globs = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// blob answers with a text. Whatever cannot be said in JSON byte by byte is left out.
func (a *answers) blob(ctx context.Context, s *Server, cwd, id string, size int64) error {
	if id == "" || size > maxAhead {
		return nil
	}
	of, err := store.ParseID(id)
	if err != nil {
		return err
	}
	b, err := s.readBlob(ctx, cwd, of)
	if err == nil && utf8.Valid(b) {
		a.add("/v1/content", struct {
			CWD string `json:"cwd"`
			ID  string `json:"id"`
		}{cwd, id}, string(b))
	}
	return err
}
