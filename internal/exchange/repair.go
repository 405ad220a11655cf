package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// This file repairs both ways: what a remote has lost comes from the store, what the store has lost from the remote.

// A RepairResult is what a repair has done.
type RepairResult struct {
	Fetched  int      `json:"fetched"`  // objects that the store had lost, and that came
	Lost     int      `json:"lost"`     // objects that neither has
	Restored []string `json:"restored"` // keys in the remote, of which the store had a copy
	Put      []string `json:"put"`      // keys of entries in the remote that were put anew
	// what is still damaged there, since the store has not what it takes
	Left []lines.DamageError `json:"-"`
}

// Repair has a store and a remote mend each other. It removes nothing. It may be done beside others that push or
// prune, and again.
func (p *Pusher) Repair(ctx context.Context) (*RepairResult, error) {
	lock, err := layout.Lock(ctx, p.Store.FS(), lockName(p.Name))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	p.state, p.result = new(state), new(PushResult)
	if _, err := read(p.Store.FS(), p.Name, "lines", p.state); err != nil {
		return nil, err
	}
	r := new(RepairResult)
	if err := p.fetchLost(ctx, r); err != nil {
		return nil, err
	}
	for range 3 { // what is behind a damaged entry is seen when that is mended
		c, err := Check(ctx, p.Repo, p.Store.FS(), p.Name, true)
		if err != nil {
			return nil, err
		}
		r.Left = c.Damage
		n := len(r.Put)
		if err := p.mend(ctx, c, r); err != nil {
			return nil, err
		}
		if len(r.Put) == n {
			break
		}
	}
	return r, nil
}

// fetchLost brings objects that the store needs and has not.
func (p *Pusher) fetchLost(ctx context.Context, r *RepairResult) error {
	problems, err := p.problems(ctx)
	if err != nil || len(problems) == 0 {
		return err
	}
	lost := make(map[store.ID]bool)
	for _, x := range problems {
		lost[x.ID] = true
	}
	w, err := p.Store.Begin(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	put := func(record []byte) error {
		q, err := cas.ReadParcel(record)
		if err != nil {
			return err
		}
		// Of a tree that is lost nobody knows what it leads to: all comes that is not here.
		_, err = w.PutParcel(q.Record)
		return err
	}
	tips, _, err := p.Repo.AllTips(ctx)
	if err != nil {
		return err
	}
	for _, tip := range tips {
		for n := uint64(0); n <= tip.Last; n++ {
			e, _, _, err := p.Repo.Entry(ctx, tip.Dir, lines.Position{Line: tip.Line, Entry: n})
			if err != nil { // a check says what is wrong with it
				n = lastUnread(p.Repo, tip, n)
				continue
			}
			if e.Void {
				continue
			}
			if err := splitRecords(e.Objects, put); err != nil {
				return err
			}
			for i := range e.Packs {
				err := p.Repo.ReadPack(ctx, &e.Packs[i], put)
				if d, ok := errors.AsType[*lines.DamageError](err); err != nil && !ok && !isGone(err) {
					return errors.Join(err, d)
				}
			}
		}
	}
	if err := w.Close(); err != nil { // which makes durable what came
		return err
	}
	after, err := p.problems(ctx)
	r.Lost = len(after)
	r.Fetched = max(len(problems)-len(after), 0)
	return err
}

// problems lists what snapshots of the store need and it has not.
func (p *Pusher) problems(ctx context.Context) ([]trees.Problem, error) {
	live, marker := p.Store.NewLive(), audit.NewMarker(p.Store)
	for snap, err := range p.Store.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if snap.Pruned {
			continue
		}
		if err := marker.MarkSnapshot(ctx, live, snap); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(marker.Problems(), func(x trees.Problem) bool {
		return errors.Is(x.Err, store.ErrForgotten)
	}), nil
}

// mend puts those entries anew that are damaged, or whose packs are.
func (p *Pusher) mend(ctx context.Context, c *CheckResult, r *RepairResult) error {
	bad := make(map[string]bool)
	for _, d := range c.Damage {
		bad[d.Key] = true
	}
	tips, _, err := p.Repo.AllTips(ctx)
	if err != nil {
		return err
	}
	for _, at := range p.state.Lines { // of which the newest entries may be gone
		i := slices.IndexFunc(tips, func(t lines.Tip) bool {
			return len(at.Line) == 16 && t.Line == lines.Line(at.Line)
		})
		switch {
		case at.Next == 0 || !p.Repo.Ledger().Lives(lines.Line(at.Line), at.Opened):
		case i < 0:
			tips = append(tips, lines.Tip{Dir: p.Repo.DirOf(at.Session), Line: lines.Line(at.Line), Last: at.Next - 1})
		default:
			tips[i].Last = max(tips[i].Last, at.Next-1)
		}
	}
	for _, tip := range tips {
		m := &mending{p: p, ctx: ctx, tip: tip, bad: bad}
		if err := m.line(r); err != nil {
			return err
		}
	}
	r.Left = slices.DeleteFunc(r.Left, func(d lines.DamageError) bool { return slices.Contains(r.Put, d.Key) })
	return nil
}

// mending is a line being mended.
type mending struct {
	p   *Pusher
	ctx context.Context
	tip lines.Tip
	bad map[string]bool

	seqs uint64 // up to which the line has said records
}

func (m *mending) line(r *RepairResult) error {
	var before [32]byte // hash of the entry before
	for n := range m.tip.Last + 1 {
		k := key(m.tip.Dir, m.tip.Line, n)
		e, at, prev, err := m.entry(n)
		if err != nil && !isGone(err) {
			return err
		}
		if n > 0 && e != nil && prev != before && before != [32]byte{} {
			e = nil // it is not behind that
		}
		isFolded := n < m.p.Repo.Ledger().Kept[m.tip.Line].Folded()
		if e == nil && isFolded {
			return nil // a fold is not put anew: nobody would look at what is put into the log
		}
		isPack := func(ref lines.PackRef) bool { return m.bad[ref.Key()] }
		if e != nil && (isFolded || !slices.ContainsFunc(e.Packs, isPack)) {
			before = at.Hash
			m.note(e)
			continue
		}
		if n > 0 && before == [32]byte{} {
			break // it is not known behind what
		}
		was := at.Hash
		if e == nil {
			if was, err = m.hashOf(n); err != nil {
				return err
			}
			e, err = m.again(n)
		}
		if err == nil && e != nil {
			err = m.whole(e)
		}
		if errors.Is(err, errNotHere) || err == nil && e == nil {
			before = was
			if e != nil {
				m.note(e)
			}
			continue // it stays in the list of what is left
		}
		if err != nil {
			return err
		}
		e.Was = was
		if e.Was == [32]byte{} { // nobody names it
			e.Was = blake3.Sum256([]byte(k))
		}
		if err := m.p.Repo.Replace(m.ctx, m.tip.Dir, m.tip.Line, n, before, e); err != nil {
			return err
		}
		r.Put = append(r.Put, k)
		before = e.Was
		m.note(e)
	}
	return nil
}

// errNotHere: the store has not what it takes.
var errNotHere = errors.New("it is not here")

func (m *mending) note(e *lines.Entry) {
	for _, r := range e.Records {
		m.seqs = max(m.seqs, r.Seq)
	}
}

// entry reads an entry; nil: it is damaged.
func (m *mending) entry(n uint64) (e *lines.Entry, at lines.Position, prev [32]byte, err error) {
	e, at, prev, err = m.p.Repo.Entry(m.ctx, m.tip.Dir, lines.Position{Line: m.tip.Line, Entry: n})
	if _, ok := errors.AsType[*lines.DamageError](err); ok {
		return nil, lines.Position{}, prev, nil
	}
	return e, at, prev, err
}

// hashOf returns the hash by which others name an entry that is damaged; zero: nobody does.
func (m *mending) hashOf(n uint64) ([32]byte, error) {
	_, _, prev, err := m.p.Repo.Entry(m.ctx, m.tip.Dir, lines.Position{Line: m.tip.Line, Entry: n + 1})
	if err == nil {
		return prev, nil
	}
	if k := m.p.Repo.Ledger().Kept[m.tip.Line]; k != nil && k.Last == n {
		return k.Hash, nil
	}
	if at := m.own(); at != nil && at.Next == n+1 {
		return hash32(at.Hash), nil
	}
	return [32]byte{}, nil
}

// own returns what the store knows of the line if it is its own.
func (m *mending) own() *pushed {
	i := slices.IndexFunc(m.p.state.Lines, func(at *pushed) bool {
		return len(at.Line) == 16 && lines.Line(at.Line) == m.tip.Line
	})
	if i < 0 {
		return nil
	}
	return m.p.state.Lines[i]
}

// again returns an entry as the store would put it now; nil: it is of another store.
func (m *mending) again(n uint64) (*lines.Entry, error) {
	at := m.own()
	if at == nil {
		return nil, nil
	}
	upTo := at.Seq
	for i := n + 1; i <= m.tip.Last; i++ { // what the next that is whole says first
		e, _, _, err := m.entry(i)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if e == nil {
			continue
		}
		for _, r := range e.Records {
			if r.Seq > m.seqs {
				upTo = min(upTo, r.Seq-1)
			}
		}
		break
	}
	var records []*store.Snapshot
	for snap, err := range m.p.Store.Snapshots(m.ctx) {
		if err != nil {
			return nil, err
		}
		isIts := snap.Worktree == at.Worktree && snap.Session == at.Session && len(snap.Origin) == 0
		if isIts && snap.Seq > m.seqs && snap.Seq <= upTo {
			records = append(records, snap)
		}
	}
	slices.SortFunc(records, func(a, b *store.Snapshot) int { return cmp.Compare(a.Seq, b.Seq) })
	e := &lines.Entry{Generation: m.p.Repo.Ledger().Newest}
	if n == 0 {
		if len(records) == 0 {
			return nil, nil
		}
		t := &Todo{Worktree: at.Worktree, Session: at.Session, at: &pushed{}}
		if err := m.p.baseBefore(m.ctx, t, records[0]); err != nil {
			return nil, err
		}
		e.Opening = &lines.Opening{Base: t.at.Base.position(), Session: at.Session, Store: m.p.Store.RawID(),
			Worktree: at.Worktree, Root: records[0].Root}
	}
	for _, snap := range records {
		e.Records = append(e.Records, lines.Record{Seq: snap.Seq, Body: cas.EncodeSnapshot(snap)})
	}
	var err error
	e.Names, err = m.p.names(m.ctx, records)
	return e, err
}

// baseBefore finds what a session went on from when a record was made.
func (p *Pusher) baseBefore(ctx context.Context, t *Todo, first *store.Snapshot) error {
	for snap, err := range p.Store.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if snap.Seq < first.Seq && snap.Worktree == t.Worktree && snap.Session == t.Session {
			if t.Imported = snap; len(snap.Origin) == 0 {
				return nil
			}
			tips, err := p.Repo.Tips(ctx, t.Session, false)
			if err != nil { // damaged, too
				return nil
			}
			return p.baseOfImported(ctx, t, tips)
		}
	}
	return nil
}

// whole gives an entry all objects that its records need, but for those in packs that are whole.
func (m *mending) whole(e *lines.Entry) error {
	w, err := m.p.Store.Begin(m.ctx) // nobody takes away meanwhile what is there
	if err != nil {
		return err
	}
	defer w.Close()
	have := make(map[store.ID]bool)
	note := func(record []byte) error {
		q, err := cas.ReadParcel(record)
		for i := 0; err == nil && i < len(q.Objects); i++ {
			have[q.Objects[i].ID] = true
		}
		return err
	}
	if err := splitRecords(e.Objects, note); err != nil {
		return err
	}
	var packs []lines.PackRef
	for i := range e.Packs {
		if m.bad[e.Packs[i].Key()] {
			continue
		}
		if err := m.p.Repo.ReadPack(m.ctx, &e.Packs[i], note); err != nil {
			return err
		}
		packs = append(packs, e.Packs[i])
	}
	live, marker := m.p.Store.NewLive(), audit.NewMarker(m.p.Store)
	for _, r := range e.Records {
		snap, err := m.here(r)
		if err != nil {
			return err
		}
		if snap.Pruned {
			continue
		}
		if err := marker.MarkSnapshot(m.ctx, live, snap); err != nil {
			return err
		}
	}
	for _, id := range append(slices.Clone(e.Lost), e.Forgotten...) {
		have[id] = true
	}
	ledger := m.p.Repo.Ledger()
	ids := slices.DeleteFunc(live.Take(), func(id store.ID) bool { return have[id] || ledger.IsForgotten(id) })
	missing, err := m.p.Store.Parcels(m.ctx, ids, func(q *cas.Parcel) error {
		e.Objects = append(e.Objects, q.Record...)
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("object %s: %w", missing[0].Short(), errNotHere)
	}
	e.Packs = packs
	return err
}

// here returns a record of the line as the store has it.
func (m *mending) here(r lines.Record) (*store.Snapshot, error) {
	if m.own() != nil {
		snap, ok, err := ownRecord(m.ctx, m.p.Store, r)
		if err == nil && !ok {
			err = errNotHere
		}
		return snap, err
	}
	want := string(origin{m.tip.Line, r.Seq}.bytes())
	for snap, err := range m.p.Store.Snapshots(m.ctx) {
		if err != nil || string(snap.Origin) == want {
			return snap, err
		}
	}
	return nil, errNotHere
}
