package timeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// Whoever records something (hooks, a runtime, the command) appends to the journal of a store, and
// writes the file of open turns: that is all that is looked at, so nobody has to tell. Looking costs
// three stats of each store, 40 times a second, and only while somebody listens.

const (
	lookEvery = 25 * time.Millisecond
	// listEvery is how often stores that are new are looked for.
	listEvery = time.Second
	// maxEvents is how many are kept for who comes back.
	maxEvents = 4096
	// lingers is how long is looked on when nobody listens: a page that is loaded again comes back.
	lingers = 30 * time.Second
	// beat is how often an idle stream says that it is alive.
	beat = 10 * time.Second
)

// An event is a line of the stream.
type event struct {
	N       uint64     `json:"n"`    // its number in this run of the server
	Type    string     `json:"type"` // hello, turns, record, projects; prune and label: older records may be others now
	Run     string     `json:"run,omitempty"`
	Reset   bool       `json:"reset,omitempty"` // of hello: what was missed is not known
	Root    string     `json:"root,omitempty"`
	Open    []openTurn `json:"open,omitempty"` // of turns: all that are open there now
	Session string     `json:"session,omitempty"`
	Kind    string     `json:"kind,omitempty"` // of a record: step, empty, tool, base, restore, …
	Seq     uint64     `json:"seq,omitempty"`
	Time    time.Time  `json:"time,omitzero"`
}

// A watcher finds out what happens in the stores that are served.
type watcher struct {
	s *Server

	mu      sync.Mutex // guards the rest
	run     string
	n       uint64
	kept    []event
	news    chan struct{}      // closed when there is an event
	streams int                // that are open
	stop    context.CancelFunc // ends looking; nil: nobody looks
	done    chan struct{}      // closed when that has ended
	idle    *time.Timer
}

func newWatcher(s *Server) *watcher {
	return &watcher{s: s, run: rand.Text(), news: make(chan struct{})}
}

func (w *watcher) close() {
	w.mu.Lock()
	stop, done := w.stop, w.done
	w.stop = nil
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// listen has stores looked at as long as somebody listens.
func (w *watcher) listen() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	if w.idle != nil {
		w.idle.Stop()
	}
	if w.stop == nil {
		w.run, w.kept = rand.Text(), nil // nobody knows what has happened since
		var ctx context.Context
		ctx, w.stop = context.WithCancel(w.s.ended)
		done := make(chan struct{})
		w.done = done
		l := &looker{w: w, stores: make(map[string]*watched)}
		l.list() // as they are now, before anybody asks for what they hold
		go func() {
			defer close(done)
			l.look(ctx)
		}()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams--; w.streams == 0 {
			w.idle = time.AfterFunc(lingers, w.closeIdle)
		}
	}
}

func (w *watcher) closeIdle() {
	w.mu.Lock()
	isIdle := w.streams == 0
	w.mu.Unlock()
	if isIdle {
		w.close()
	}
}

func (w *watcher) emit(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	e.N = w.n
	w.kept = append(w.kept, e)
	if len(w.kept) > 2*maxEvents {
		w.kept = slices.Clone(w.kept[maxEvents:])
	}
	close(w.news)
	w.news = make(chan struct{})
}

// since returns the events after a number, and what tells of more. Not ok: some of them are not
// known any more.
func (w *watcher) since(n uint64) (list []event, news <-chan struct{}, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.kept); i > 0; i-- {
		if w.kept[i-1].N <= n {
			return slices.Clone(w.kept[i:]), w.news, true
		}
	}
	isWhole := n == w.n || len(w.kept) > 0 && w.kept[0].N == n+1
	return slices.Clone(w.kept), w.news, isWhole
}

// serve answers GET /v1/events?run=RUN&since=N: lines of JSON without end. The first is a hello,
// with the number from which it goes on.
func (w *watcher) serve(rw http.ResponseWriter, r *http.Request) {
	defer w.listen()()
	n, err := strconv.ParseUint(r.FormValue("since"), 10, 64)
	w.mu.Lock()
	hello := event{Type: "hello", Run: w.run, N: n}
	hello.Reset = err != nil || r.FormValue("run") != w.run || n > w.n
	if hello.Reset {
		hello.N = w.n
	}
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/x-ndjson")
	out, control := json.NewEncoder(rw), http.NewResponseController(rw)
	send := func(list ...event) bool {
		control.SetWriteDeadline(time.Now().Add(2 * beat))
		for i := range list {
			if out.Encode(&list[i]) != nil {
				return false
			}
		}
		return control.Flush() == nil
	}
	list, news, ok := w.since(hello.N)
	hello.Reset = hello.Reset || !ok
	if !send(append([]event{hello}, list...)...) {
		return
	}
	for n = hello.N + uint64(len(list)); ; {
		t := time.NewTimer(beat)
		select {
		case <-r.Context().Done():
			t.Stop()
			return
		case <-t.C:
			if !send(event{Type: "beat", N: n}) {
				return
			}
		case <-news:
			t.Stop()
		}
		if list, news, ok = w.since(n); !ok || !send(list...) {
			return // who comes again is told
		}
		n += uint64(len(list))
	}
}

// A looker looks at stores.
type looker struct {
	w      *watcher
	stores map[string]*watched // by directory
	listed time.Time
}

// A watched store, as it was when it was looked at last.
type watched struct {
	dir, root string
	isNew     bool   // it has come while others were looked at
	segment   uint64 // newest of the journal; 0: there is none
	size      int64
	seq       uint64            // newest record; 0: not known
	epoch     uint64            // of the store; 0: not known
	journal   time.Time         // when a segment came or went
	places    time.Time         // when a worktree came or went
	turns     map[string]string // of each worktree: what its file of open turns looked like
}

func (l *looker) look(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if time.Since(l.listed) > listEvery {
			l.list()
		}
		for _, st := range l.stores {
			l.one(ctx, st)
		}
	}
}

// list finds out which stores there are.
func (l *looker) list() {
	isFirst := l.listed.IsZero()
	l.listed = time.Now()
	s := l.w.s
	for _, root := range s.roots() {
		loc, err := places.Locate(s.opts.StoreRoot, root)
		if err != nil || l.stores[loc.Dir] != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(loc.Dir, layout.FormatName)); err != nil {
			continue
		}
		st := &watched{dir: loc.Dir, root: root, turns: make(map[string]string), isNew: !isFirst}
		if isFirst {
			st.moved()
			st.turnsMoved()
		} else {
			l.w.emit(event{Type: "projects", Root: root})
		}
		l.stores[loc.Dir] = st
	}
}

// one looks at a store.
func (l *looker) one(ctx context.Context, st *watched) {
	for _, name := range st.turnsMoved() {
		l.turns(st, name)
	}
	if st.moved() {
		l.records(ctx, st)
	}
}

// moved reports whether something was added to the journal.
func (st *watched) moved() bool {
	dir := filepath.Join(st.dir, "journal")
	was, size := st.segment, st.size
	if fi, err := os.Stat(dir); err == nil && !fi.ModTime().Equal(st.journal) {
		st.journal = fi.ModTime()
		names, _ := os.ReadDir(dir)
		st.segment = 0
		for _, e := range names {
			var n uint64
			if base, ok := cutSuffix(e.Name(), ".log"); ok {
				n, _ = strconv.ParseUint(base, 10, 64)
			}
			st.segment = max(st.segment, n)
		}
	}
	if fi, err := os.Stat(filepath.Join(st.dir, filepath.FromSlash(layout.SegmentName(st.segment)))); err == nil {
		st.size = fi.Size()
	}
	return st.segment != was || st.size != size
}

func cutSuffix(name, suffix string) (string, bool) {
	if path.Ext(name) != suffix {
		return name, false
	}
	return name[:len(name)-len(suffix)], true
}

// turnsMoved returns the worktrees of which the file of open turns is another.
func (st *watched) turnsMoved() (names []string) {
	dir := filepath.Join(st.dir, layout.Worktrees)
	if fi, err := os.Stat(dir); err == nil && !fi.ModTime().Equal(st.places) {
		st.places = fi.ModTime()
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			if _, ok := st.turns[e.Name()]; !ok {
				st.turns[e.Name()] = ""
			}
		}
	}
	for name, was := range st.turns {
		now := ""
		if fi, err := os.Stat(filepath.Join(st.dir, filepath.FromSlash(layout.Worktree(name).Turns()))); err == nil {
			now = fi.ModTime().String() + " " + strconv.FormatInt(fi.Size(), 10)
		}
		if now != was {
			st.turns[name] = now
			names = append(names, name)
		}
	}
	return names
}

// turns tells which turns are open in a worktree.
func (l *looker) turns(st *watched, name string) {
	b, err := vfs.ReadFile(vfs.OS(st.dir), layout.Worktree(name).Turns())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.w.s.log.Debug("open turns not read", "store", st.dir, "err", err)
		}
		return
	}
	t, _, err := history.DecodeTurns(b)
	if err != nil { // it is being written: the next look finds it
		st.turns[name] = ""
		return
	}
	root := st.root
	if of := rootOf(st.dir, name); of != "" {
		root = of
	}
	l.w.emit(event{Type: "turns", Root: root, Open: newOpenTurns(t.Open)})
}

// rootOf returns the directory of a worktree; "": it is not known.
func rootOf(dir, worktree string) string {
	fsys := vfs.OS(dir)
	d, err := cas.Describe(fsys)
	if err != nil {
		return ""
	}
	ps, err := places.ReadFile(fsys, d.Moved)
	if err != nil {
		return ""
	}
	for _, p := range ps.Worktrees {
		if p.ID == worktree {
			return string(p.Root)
		}
	}
	return ""
}

// records tells of what was added to the journal.
func (l *looker) records(ctx context.Context, st *watched) {
	s := l.w.s
	m, err := manager.Open(ctx, st.root, &manager.Options{Engine: s.opts.Engine, ReadOnly: true})
	if err != nil {
		l.w.emit(event{Type: "record", Root: st.root}) // whoever looks is told what is wrong
		return
	}
	defer m.Close()
	var list []*store.Snapshot
	for snap, err := range inside.Store(m).Snapshots(ctx) {
		if err != nil || snap.Seq <= st.seq {
			break
		}
		list = append(list, snap)
		if st.seq == 0 && !st.isNew || len(list) == maxEvents { // of the others nobody knows that they are new
			break
		}
	}
	was := st.epoch
	if st.epoch, err = inside.Store(m).Epoch(); err != nil {
		l.w.s.log.Debug("epoch not read", "store", st.dir, "err", err)
	}
	switch isNew := len(list) > 0; {
	case was != st.epoch && (was != 0 || !isNew):
		l.w.emit(event{Type: "prune", Root: st.root})
	case !isNew: // what is on record was said again, with a label perhaps
		l.w.emit(event{Type: "label", Root: st.root})
	}
	if len(list) == 0 {
		return
	}
	st.seq = list[0].Seq
	slices.Reverse(list)
	for _, snap := range list {
		l.w.emit(event{Type: "record", Root: snap.Root, Session: snap.Session, Kind: snap.Kind, Seq: snap.Seq,
			Time: snap.Time.UTC()})
	}
}
