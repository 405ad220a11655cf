package exchange

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// An Importer brings lines of a remote into a store.
type Importer struct {
	Store *cas.Store
	Repo  *lines.Repo
	Name  string // of the remote in the store

	// What the store calls the directory in which sessions go on, and its path. With none
	// every line has a directory of its own, which is nowhere: it is only looked at.
	Worktree, Root string

	// Lazy leaves contents at the remote, and notes where they are.
	Lazy bool

	// Fill is called when all directories are here, and before most contents come, with the tree of the
	// newest record of the importer's directory: what it returns is given contents as they come. If
	// the import fails, it is abandoned. Default: nothing is written.
	Fill func(ctx context.Context, tree store.ID) (*trees.Filling, error)
}

// An ImportResult says what came.
type ImportResult struct {
	Records int   `json:"records"`
	Amended int   `json:"amended"` // of records that were here, what was said again since
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"` // of the remote's objects that were read
	Lost    int   `json:"lost"`  // objects that the writers had lost
	// contents that were forgotten there
	Forgotten int `json:"forgotten"`
	// contents were left there, and whoever prunes it is not told: this store may not write there
	Untold bool `json:"untold"`
}

// Import brings what of lines is not in the store, with all that it needs, verified. The lines in
// goOn, and those that they go on from, become the history of the importer's directory; others
// become those of directories that are only looked at. When it returns nil, all is durable. Done
// again it changes nothing.
func (m *Importer) Import(ctx context.Context, f *Fetched, goOn []*FetchedLine) (*ImportResult, error) {
	lock, err := layout.Lock(ctx, m.Store.FS(), lockName(m.Name))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	x := &importing{Importer: m, ctx: ctx, f: f, known: make(map[origin]uint64), result: new(ImportResult),
		lost: make(map[store.ID]bool), local: make(map[*FetchedLine]uint64),
		chains: make(map[*FetchedLine][]*FetchedLine)}
	for _, l := range goOn {
		chain := f.Chain(l)
		for i, c := range chain {
			x.local[c] = max(x.local[c], ends(chain, i)+1)
		}
	}
	if err := x.findHere(); err != nil {
		return nil, err
	}
	err = x.all()
	if err == nil {
		err = KeepHeld(ctx, m.Store.FS(), m.Name, m.Repo)
	}
	if err != nil && x.filling != nil {
		err = errors.Join(err, x.filling.Abandon())
	}
	return x.result, err
}

// importing is one import.
type importing struct {
	*Importer
	ctx    context.Context
	f      *Fetched
	known  map[origin]uint64       // records that are here
	local  map[*FetchedLine]uint64 // how many entries of a line are of the importer's directory
	lost   map[store.ID]bool
	result *ImportResult

	chains  map[*FetchedLine][]*FetchedLine // of lines, as they were asked for
	ofStore map[[16]byte][]*FetchedRecord   // records of each store, in order of number; nil: not known yet

	forgotten []store.ID // which nobody takes for damage
	promising promising

	filling *trees.Filling  // nil: nobody wants one, or it is not time yet
	later   []lines.PackRef // packs of contents, which are to come when there is a filling
	isLater bool            // and it is not time yet

	mu    sync.Mutex // guards the rest, and what of result counts
	lists []store.ID // of chunks
}

// findHere finds the records that are here: those that came before, and the store's own.
func (x *importing) findHere() error {
	for snap, err := range x.Store.Snapshots(x.ctx) {
		if err != nil {
			return err
		}
		if o, ok := parseOrigin(snap.Origin); ok {
			x.known[o] = snap.Seq
		}
	}
	for _, l := range x.f.Lines {
		for _, r := range l.Records {
			if r.here = x.known[origin{l.Line, r.Seq}]; r.here != 0 || l.Store != x.Store.RawID() {
				continue
			}
			_, ok, err := ownRecord(x.ctx, x.Store, r.Record)
			if err != nil {
				return err
			}
			if ok {
				r.here = r.Seq
			}
		}
	}
	return nil
}

func (x *importing) all() error {
	w, err := x.Store.Begin(x.ctx)
	if err != nil {
		return err
	}
	err = x.put(w)
	return errors.Join(err, w.Close())
}

// put stores the objects first, then the records.
func (x *importing) put(w *cas.Writer) error {
	todo := x.inOrder()
	needs := make(map[*FetchedLine]uint64) // from which entry on
	for _, t := range todo {
		if n, ok := needs[t.line]; !ok || t.Entry < n {
			needs[t.line] = t.Entry
		}
		if t.Entry > 0 {
			continue
		}
		// A line that is new here: all that it leans on comes, too.
		for _, on := range x.f.needs(t.line) {
			if on.Beside {
				needs[on] = 0
			}
		}
	}
	newest := x.newest(todo)
	x.isLater = x.Fill != nil && newest != nil
	for _, l := range x.f.Lines {
		if from, ok := needs[l]; ok {
			if err := x.objects(w, l, from); err != nil {
				return err
			}
		}
	}
	if err := x.fill(w, newest); err != nil {
		return err
	}
	if err := x.pin(); err != nil {
		return err
	}
	if err := x.Store.AddPromises(x.ctx, x.Name, x.promising.packs, x.promising.places); err != nil {
		return err
	}
	if err := x.verify(w, todo); err != nil {
		return err
	}
	for batch := range slices.Chunk(todo, 500) {
		if err := w.Import(x.ctx, func(first uint64) ([]*store.Snapshot, error) {
			return x.snapshots(batch, first)
		}); err != nil {
			return err
		}
		x.result.Records += len(batch)
	}
	x.result.Objects = w.Stats().Objects
	if err := x.Store.NoteForgotten(x.ctx, x.forgotten); err != nil {
		return err
	}
	return x.amend()
}

// newest returns the newest record of the importer's directory, nil if that has none.
func (x *importing) newest(todo []*turn) *store.Snapshot {
	for _, t := range slices.Backward(todo) {
		if x.isHere(t.line, t.FetchedRecord) && !t.Snap.Pruned {
			return t.Snap
		}
	}
	return nil
}

// isHere reports whether a record becomes one of the importer's directory.
func (x *importing) isHere(l *FetchedLine, r *FetchedRecord) bool {
	return r.Entry < x.local[l] && x.Worktree != ""
}

// fill begins to write files, and has the contents come that were to come later.
func (x *importing) fill(w *cas.Writer, newest *store.Snapshot) (err error) {
	if !x.isLater {
		return nil
	}
	x.isLater = false
	if x.filling, err = x.Fill(x.ctx, newest.Tree); err != nil {
		return err
	}
	return x.packs(x.later, x.putIn(w))
}

// putIn returns what stores records, and gives contents to who wants them. It may be called from several
// goroutines.
func (x *importing) putIn(w *cas.Writer) func(record []byte) error {
	var give func(store.ID, []byte) error
	if x.filling != nil {
		give = x.filling.Give
	}
	return func(record []byte) error {
		more, err := w.PutParcelAnd(record, give)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.lists = append(x.lists, more...)
		x.result.Bytes += int64(len(record))
		if x.Fill == nil { // who fills counts files
			progress.Of(x.ctx).Count(0, int64(len(record)))
		}
		return err
	}
}

// objects stores the objects of a line's entries from one on.
func (x *importing) objects(w *cas.Writer, l *FetchedLine, from uint64) error {
	put := x.putIn(w)
	for n, e := range l.Entries {
		for _, id := range e.Lost {
			if !x.lost[id] {
				x.lost[id] = true
				x.result.Lost++
			}
		}
		for _, id := range e.Forgotten {
			if !x.lost[id] {
				x.lost[id] = true
				x.forgotten = append(x.forgotten, id)
				x.result.Forgotten++
			}
		}
		if uint64(n) < from || e.Void {
			continue
		}
		if err := splitRecords(e.Objects, put); err != nil {
			return damageIn(l.key(uint64(n)), err)
		}
		read := x.packs
		switch {
		case x.Lazy:
			read = x.promise
		case x.isLater:
			read = x.postpone
		}
		if err := read(e.Packs, put); err != nil {
			return err
		}
	}
	return nil
}

// postpone reads those packs that have anything but contents, and leaves the others for later.
func (x *importing) postpone(refs []lines.PackRef, put func([]byte) error) error {
	list, err := indexes(x.ctx, x.Repo, refs)
	if err != nil {
		return err
	}
	var now []lines.PackRef
	for i, parts := range list {
		if slices.ContainsFunc(parts, func(p lines.IndexPart) bool { return !isContent(&p) }) {
			now = append(now, refs[i])
		} else {
			x.later = append(x.later, refs[i])
		}
	}
	return x.packs(now, put)
}

// packs reads packs, some of them ahead of the one whose records are stored.
func (x *importing) packs(refs []lines.PackRef, put func([]byte) error) error {
	const ahead = 3
	ctx, cancel := context.WithCancel(x.ctx)
	group, ctx := errgroup.WithContext(ctx)
	defer group.Wait() // nothing goes on behind an error
	defer cancel()
	slots := make(chan struct{}, ahead)
	ready := make([]chan [][]byte, len(refs))
	for i := range ready {
		ready[i] = make(chan [][]byte, 1)
	}
	group.Go(func() error {
		for i := range refs {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			group.Go(func() error {
				var records [][]byte
				err := x.Repo.ReadPack(ctx, &refs[i], func(b []byte) error {
					records = append(records, b)
					return nil
				})
				ready[i] <- records
				return err
			})
		}
		return nil
	})
	for i := range refs {
		select {
		case records := <-ready[i]:
			// A list comes behind its chunks, also if we die in between: who finds it counts on them.
			lists, rest := partition(records, cas.IsChunkList)
			err := each(rest, put)
			if err == nil {
				err = each(lists, put)
			}
			if err != nil {
				return damageIn(refs[i].Key(), err)
			}
			<-slots
		case <-ctx.Done():
			return cmp.Or(group.Wait(), context.Cause(ctx))
		}
	}
	return group.Wait()
}

// damageIn returns an error of what was done with the records of an object of a remote: they may be other than
// they have to be.
func damageIn(key string, err error) error {
	if _, ok := errors.AsType[*cas.ParcelError](err); ok {
		return &lines.DamageError{Key: key, Err: err}
	}
	return err
}

// splitRecords calls fn with each record of docs/reference/format.md §3.2.
func splitRecords(b []byte, fn func([]byte) error) error {
	for len(b) > 0 {
		n, err := cas.RecordSize(b)
		if err != nil {
			return err
		}
		if err := fn(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// verify finds out whether all is here that records need. Large contents are read, since only
// the whole has the ID.
func (x *importing) verify(w *cas.Writer, todo []*turn) error {
	for _, id := range x.lists {
		if err := x.readWhole(id); err != nil {
			return err
		}
	}
	problems, err := x.problems(todo)
	if err != nil || len(problems) == 0 {
		return err
	}
	// What was here before, and was pruned since, comes again.
	done := make(map[*FetchedLine]bool)
	for _, t := range todo {
		for _, l := range x.f.needs(t.line) {
			if !done[l] {
				done[l] = true
				if err := x.objects(w, l, 0); err != nil {
					return err
				}
			}
		}
	}
	if problems, err = x.problems(todo); err == nil && len(problems) > 0 {
		err = fmt.Errorf("%q, %s, is missing in the remote: %w", problems[0].Path, problems[0].ID.Short(),
			problems[0].Err)
	}
	return err
}

// readWhole reads a large content, to see that it is what it has to be, or writes the files that hold it,
// which reads it, too.
func (x *importing) readWhole(id store.ID) error {
	if x.filling != nil {
		if is, err := x.filling.Copy(x.Store, id); is || err != nil {
			return err
		}
	}
	_, err := x.Store.CopyBlob(x.ctx, io.Discard, id)
	return err
}

// problems lists what records need and is not here, but for what the writers had lost.
func (x *importing) problems(todo []*turn) ([]trees.Problem, error) {
	live, marker := x.Store.NewLive(), audit.NewMarker(x.Store)
	for _, t := range todo {
		if t.Snap.Pruned {
			continue
		}
		if err := marker.MarkSnapshot(x.ctx, live, t.Snap); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(marker.Problems(), func(p trees.Problem) bool { return x.lost[p.ID] }), nil
}

// A turn is a record whose turn it is to be recorded.
type turn struct {
	*FetchedRecord
	line *FetchedLine
}

// inOrder returns the records that are not here, each behind those that it names: records of one
// store in the order in which that had them, and those of a line behind what it goes on from.
func (x *importing) inOrder() (list []*turn) {
	at := make([]int, len(x.f.Lines))
	emitted, based := make(map[*FetchedRecord]bool), make(map[*FetchedLine]bool)
	for _, l := range x.f.Lines {
		for _, r := range l.Records {
			emitted[r] = r.here != 0 || l.Beside
		}
	}
	// A line is not asked twice whether all that it goes on from has come: it stays.
	isReady := func(l *FetchedLine, r *FetchedRecord) bool {
		based[l] = based[l] || x.isBased(l, emitted)
		return based[l] && x.isReady(l, r, emitted)
	}
	for {
		best := -1
		for _, mustBeReady := range []bool{true, false} { // the second is for what no store writes
			for i, l := range x.f.Lines {
				for at[i] < len(l.Records) && emitted[l.Records[at[i]]] {
					at[i]++
				}
				if at[i] == len(l.Records) || mustBeReady && !isReady(l, l.Records[at[i]]) {
					continue
				}
				if best < 0 || x.isBefore(l, l.Records[at[i]], x.f.Lines[best], x.f.Lines[best].Records[at[best]]) {
					best = i
				}
			}
			if best >= 0 {
				break
			}
		}
		if best < 0 {
			return list
		}
		l := x.f.Lines[best]
		list = append(list, &turn{l.Records[at[best]], l})
		emitted[l.Records[at[best]]] = true
	}
}

// isBased reports whether all that a line goes on from has come.
func (x *importing) isBased(l *FetchedLine, emitted map[*FetchedRecord]bool) bool {
	if l.Base == nil {
		return true
	}
	return !slices.ContainsFunc(x.f.line(l.Base.Line).Records, func(r *FetchedRecord) bool {
		return r.Entry <= l.Base.Entry && !emitted[r]
	})
}

// isReady reports whether all that a record names has come.
func (x *importing) isReady(l *FetchedLine, r *FetchedRecord, emitted map[*FetchedRecord]bool) bool {
	for _, o := range r.names {
		if from := x.f.line(o.line); from != nil && from.of[o.seq] != nil && !emitted[from.of[o.seq]] {
			return false
		}
	}
	return true
}

// isBefore orders records that could both come next.
func (x *importing) isBefore(l *FetchedLine, r *FetchedRecord, than *FetchedLine, other *FetchedRecord) bool {
	if l.Store == than.Store {
		return r.Seq < other.Seq
	}
	return r.Snap.Time.Before(other.Snap.Time)
}

// snapshots returns records as this store has them, the first with a number.
func (x *importing) snapshots(batch []*turn, first uint64) (list []*store.Snapshot, err error) {
	for i, t := range batch {
		t.here, t.came = first+uint64(i), true
		snap, err := x.snapshot(t.line, t.FetchedRecord)
		if err != nil {
			return nil, err
		}
		list = append(list, snap)
	}
	return list, nil
}

// snapshot returns a record as this store has it, without a number.
func (x *importing) snapshot(l *FetchedLine, r *FetchedRecord) (*store.Snapshot, error) {
	s := *r.Snap
	number := func(n uint64) uint64 { return x.number(l, r, n) }
	near := func(n uint64) uint64 { return x.near(l, n) }
	s.Parent, s.Seq, s.Log = number(s.Parent), 0, "" // the log is on another machine
	if err := history.Renumber(&s, number, near); err != nil {
		return nil, &lines.DamageError{Key: l.key(r.Entry), Err: fmt.Errorf("record %d: %w", r.Seq, err)}
	}
	s.Origin = origin{l.Line, r.Seq}.bytes()
	if x.isHere(l, r) {
		s.Worktree, s.Root = x.Worktree, x.Root
	} else {
		s.Worktree, s.Root = worktreeOf(l), x.Name+":"+l.Root
	}
	return &s, nil
}

// worktreeOf returns what a store calls the directory of a line that is only looked at.
func worktreeOf(l *FetchedLine) string {
	sum := blake3.Sum256(append([]byte("line of a remote\x00"), l.Line[:]...))
	return hex.EncodeToString(sum[:16])
}

// number returns the number here of the record that another calls n; 0: it is not here.
func (x *importing) number(l *FetchedLine, r *FetchedRecord, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	if o, ok := r.names[n]; ok {
		if from := x.f.line(o.line); from != nil && from.of[o.seq] != nil {
			return from.of[o.seq].here
		}
		return x.known[o]
	}
	chain, ok := x.chains[l]
	if !ok {
		chain = x.f.Chain(l)
		x.chains[l] = chain
	}
	for i, c := range chain {
		if c.Store == l.Store && c.of[n] != nil && c.of[n].Entry <= ends(chain, i) {
			return c.of[n].here
		}
	}
	found := uint64(0)
	for _, o := range x.f.Lines { // of another session
		if o.Store != l.Store || slices.Contains(chain, o) || o.of[n] == nil {
			continue
		}
		if found != 0 { // copies of a store have given it to two: it is not known which
			return 0
		}
		found = o.of[n].here
	}
	return found
}

// near returns the number here of the newest record that the store of a line had when it had
// the record n.
func (x *importing) near(l *FetchedLine, n uint64) uint64 {
	if x.ofStore == nil {
		x.ofStore = make(map[[16]byte][]*FetchedRecord)
		for _, o := range x.f.Lines {
			x.ofStore[o.Store] = append(x.ofStore[o.Store], o.Records...)
		}
		for _, list := range x.ofStore {
			slices.SortStableFunc(list, func(a, b *FetchedRecord) int { return cmp.Compare(a.Seq, b.Seq) })
		}
	}
	list := x.ofStore[l.Store]
	behind, _ := slices.BinarySearchFunc(list, n, func(r *FetchedRecord, n uint64) int {
		if r.Seq <= n {
			return -1
		}
		return 1
	})
	for _, r := range slices.Backward(list[:behind]) {
		if r.here != 0 {
			return r.here
		}
	}
	return 0
}

// amend says records again that were here, and that their writer has said again since.
func (x *importing) amend() error {
	for _, l := range x.f.Lines {
		if l.Store == x.Store.RawID() || l.Beside {
			continue
		}
		for _, r := range l.Records {
			if r.came || r.Snap.Pruned {
				continue
			}
			have, err := x.Store.Snapshot(x.ctx, r.here)
			if err != nil {
				return err
			}
			said := r.Snap
			if have.Pruned || have.Entry == said.Entry && have.Above == said.Above && have.Label == said.Label {
				continue
			}
			now, err := x.snapshot(l, r)
			if err != nil {
				return err
			}
			c := *have
			c.Entry, c.Above, c.Label, c.Data = now.Entry, now.Above, now.Label, now.Data
			if err := x.Store.Amend(x.ctx, &c); err != nil {
				return err
			}
			x.result.Amended++
		}
	}
	return nil
}
