// Package retain is what stays of a store: it prunes what rules let go, forgets contents
// on purpose, prunes by itself once a day, and counts what takes how much. What destroys
// is a plan first, which its Do does.
package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remotes"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Retention says which snapshots stay. One stays if a rule keeps it: KeepLast,
// KeepWithin, a name. If neither KeepLast nor KeepWithin is given, all do. The
// newest of each session stays, too. The newest of each directory stays in any
// case, and what open turns and restores need.
type Retention struct {
	// KeepLast is how many snapshots of each session stay, the newest, with all
	// that the session recorded since the oldest of them.
	KeepLast int
	// KeepWithin is the age up to which snapshots stay.
	KeepWithin time.Duration
	// Session, if it is not "", is the only session that is looked at.
	Session string
	// DropSession drops all that the Session has.
	DropSession bool
	// KeepDeleted is for how long sessions stay whose log or whose directory was
	// deleted, since they recorded something last; 0: like others. Of those that go,
	// what has a name stays. A directory that was moved was not deleted.
	KeepDeleted time.Duration
	// MaxBytes is how large the store may be; 0: no limit. Over it the oldest
	// snapshots go, whatever keeps them, those with a name last.
	MaxBytes int64
	// MaxCopy bounds how much is written anew at once: see [store.PruneOptions]. It
	// is never more than half of what is free.
	MaxCopy int64
	// DespiteDamage prunes even if something is missing or damaged that snapshots
	// need. Objects that only the damaged one leads to are removed, also if that
	// comes back later.
	DespiteDamage bool
	// Wait bounds the wait for those who write or restore.
	Wait time.Duration
	// Alone says that nothing else uses the [store.Store]: see [store.PruneOptions].
	Alone bool

	thorough bool // as [store.PruneOptions] has it, also if MaxBytes is 0
}

// drops reports whether it drops anything at all.
func (r *Retention) drops() bool { return r.KeepLast > 0 || r.KeepWithin > 0 }

// A PrunePlan is what a prune will do. It is of use until somebody else prunes.
type PrunePlan struct {
	*cas.PrunePlan
	Sessions []PrunedSession // of which snapshots go, the one with the newest first
	Over     int64           // bytes by which what must stay is more than MaxBytes
	// Snapshots that rules let go, and that stay since they are not in a remote of the store yet.
	Unpushed int
	Problems []trees.Problem // what is missing or damaged: there is no prune before a repair

	s       *cas.Store
	keep    *Retention
	despite bool
	stay    int64      // how many snapshots do
	rest    *Retention // for what there was no room for: drops nothing
}

// A PrunedSession is a session some of whose snapshots go.
type PrunedSession struct {
	Session string
	Root    string // its directory
	Dropped int
	Kept    int
	Newest  time.Time // of those that go
}

// maxReplans is how often a prune is planned again because others were faster.
const maxReplans = 5

// Do does what the plan says, or what a new one by the same rules says, if somebody
// has pruned or repaired the store meanwhile: p is that one then. Where the disk is
// full it goes on in steps, as long as something comes free, and Left is then what
// is left after the last. The error matches [ErrDamaged] if it has Problems,
// [store.ErrBusy] if somebody writes or restores for too long.
func (p *PrunePlan) Do(ctx context.Context) (*cas.PruneResult, error) {
	room := p.s.MakeRoom(false)
	defer p.s.KeepBallast()
	r, err := p.first(ctx)
	if err == nil {
		err = blame.Remove(ctx, p.s.FS()) // what it says was so before
	}
	if err != nil {
		return nil, err
	}
	// What is wholly dead has gone first. In the room that came of it the rest is
	// written anew, as much as fits at a time.
	for freed := r.Freed; p.Short && (freed > 0 || room); room = false {
		if most := p.keep.MaxCopy; most > 0 {
			if p.rest.MaxCopy = most - r.Copied; p.rest.MaxCopy <= 0 {
				break
			}
		}
		next, err := PlanPrune(ctx, p.s, p.rest)
		if err != nil || next.PrunePlan.Empty() || len(next.Problems) > 0 && !p.despite {
			break // what is left is told
		}
		more, err := p.s.Prune(ctx, next.PrunePlan)
		if err != nil {
			break
		}
		p.Left, p.Short, freed = next.Left, next.Short, more.Freed
		r.Packs, r.Copied, r.Freed = r.Packs+more.Packs, r.Copied+more.Copied, r.Freed+more.Freed
		r.Kept = append(r.Kept, more.Kept...)
	}
	return r, context.Cause(ctx)
}

// first does what fits, and plans again if others were faster, or there was less
// room than was told.
func (p *PrunePlan) first(ctx context.Context) (*cas.PruneResult, error) {
	for n := 0; ; n++ {
		if len(p.Problems) > 0 && !p.despite {
			return nil, fmt.Errorf("prune: %w", damagedBy(p.Problems[0]))
		}
		r, err := p.s.Prune(ctx, p.PrunePlan)
		stale := errors.Is(err, cas.ErrPlanStale)
		full := cas.IsNoSpace(err) && p.s.MakeRoom(true) // a quota, say, of which nobody tells how much is left
		if n == maxReplans || !stale && !full {
			return r, err
		}
		again, err := PlanPrune(ctx, p.s, p.keep)
		if err != nil {
			return nil, err
		}
		*p = *again
	}
}

// A dated is what retention has to know of a snapshot.
type dated struct {
	seq    uint64
	line   *sessionLine
	time   time.Time
	counts bool // towards KeepLast
	named  bool
	first  bool // the newest of its session, which goes on from it
	must   bool // it stays in any case
	drop   bool
}

// A sessionLine is a session in a directory.
type sessionLine struct {
	worktree, session, root, log string
	seen, counted                int
	gone                         bool // deleted, and long enough
	info                         PrunedSession
}

// PlanPrune finds out which snapshots of a store go and what nothing needs then.
// It writes nothing but indexes that are missing.
func PlanPrune(ctx context.Context, s *cas.Store, keep *Retention) (*PrunePlan, error) {
	p := &PrunePlan{s: s, keep: keep, despite: keep.DespiteDamage,
		rest: &Retention{MaxCopy: keep.MaxCopy, DespiteDamage: keep.DespiteDamage, Wait: keep.Wait, Alone: keep.Alone,
			thorough: keep.MaxBytes > 0 || keep.thorough}}
	drop, named, err := p.choose(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan prune: %w", err)
	}
	maxCopy := keep.MaxCopy
	if free, _, err := s.FS().Space(); err == nil {
		maxCopy = max(free/2, 1)
		if keep.MaxCopy > 0 {
			maxCopy = min(maxCopy, keep.MaxCopy)
		}
	}
	progress.Of(ctx).Begin(progress.Phase{Name: "marking", Unit: "snapshot", Items: p.stay})
	marker := audit.NewMarker(s)
	p.PrunePlan, err = s.PlanPrune(ctx, &cas.PruneOptions{
		Drop: func(snap *store.Snapshot) bool { // not what was named meanwhile
			return drop[snap.Seq] && (snap.Label == "" || named[snap.Seq])
		},
		Mark:    markSound(marker, func() bool { return p.PrunePlan == nil || p.despite }),
		MaxCopy: maxCopy, Wait: keep.Wait, Thorough: p.rest.thorough, Alone: keep.Alone,
	})
	if err != nil {
		return nil, err
	}
	p.Problems, err = problemsOf(ctx, s, marker)
	return p, err
}

// choose finds out which snapshots go, by number, and which of these have a name, and notes of
// which sessions.
func (p *PrunePlan) choose(ctx context.Context) (drop, named map[uint64]bool, err error) {
	keep := p.keep
	all, err := datedSnapshots(ctx, p.s)
	if err != nil {
		return nil, nil, err
	}
	if keep.Session != "" && !slices.ContainsFunc(all, func(m dated) bool { return m.line.session == keep.Session }) {
		return nil, nil, fmt.Errorf("session %q: %w", keep.Session, history.ErrNoSession)
	}
	ps, _, err := places.Of(p.s.FS())
	if err != nil {
		return nil, nil, err
	}
	deleted := deletedRoots(ps, keep.KeepDeleted > 0)
	if err := protect(p.s, all, deleted); err != nil {
		return nil, nil, err
	}
	unpushed, err := remotes.Unpushed(ctx, p.s)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	for i := range all {
		m := &all[i]
		if keep.Session != "" && m.line.session != keep.Session {
			continue
		}
		p.judge(m, now, deleted)
		if unpushed[m.seq] && !keep.DropSession {
			p.keepUnpushed(m)
		}
		if m.counts {
			m.line.counted++
		}
	}
	if keep.MaxBytes > 0 {
		if err := p.fit(ctx, all, keep); err != nil {
			return nil, nil, err
		}
	}
	drop, named = p.count(all)
	return drop, named, nil
}

// judge says whether the rules have a snapshot go. Those of its session that are newer come before.
func (p *PrunePlan) judge(m *dated, now time.Time, deleted func(*sessionLine) bool) {
	keep := p.keep
	m.line.gone = m.line.gone || keep.KeepDeleted > 0 && m.first && m.line.isDeleted(deleted) &&
		now.Sub(m.time) > keep.KeepDeleted
	stays := m.named || m.first || !keep.drops() || keep.KeepWithin > 0 && now.Sub(m.time) <= keep.KeepWithin ||
		keep.KeepLast > 0 && m.line.counted < keep.KeepLast
	byRule := !stays || m.line.gone && !m.named
	m.drop = !m.must && (byRule || keep.DropSession && keep.Session != "")
}

// count notes how many snapshots go and stay in each session, and returns, by number, which go and
// which have a name.
func (p *PrunePlan) count(all []dated) (drop, named map[uint64]bool) {
	drop, named = make(map[uint64]bool), make(map[uint64]bool)
	var lines []*sessionLine // of which some go
	for i := range all {
		m := &all[i]
		drop[m.seq], named[m.seq] = m.drop, m.named
		if !m.drop {
			m.line.info.Kept++
			p.stay++
			continue
		}
		if m.line.info.Dropped == 0 {
			m.line.info.Newest = m.time
			lines = append(lines, m.line)
		}
		m.line.info.Dropped++
	}
	for _, l := range lines {
		p.Sessions = append(p.Sessions, l.info)
	}
	slices.SortStableFunc(p.Sessions, func(a, b PrunedSession) int { return b.Newest.Compare(a.Newest) })
	return drop, named
}

// keepUnpushed has a snapshot stay that is nowhere else, and is to be.
func (p *PrunePlan) keepUnpushed(m *dated) {
	if m.drop {
		p.Unpushed++
	}
	m.must, m.drop = true, false
}

// problemsOf returns what a marker has missed, and what the journal has: that may
// have been snapshots.
func problemsOf(ctx context.Context, s *cas.Store, marker *audit.Marker) ([]trees.Problem, error) {
	list := marker.Problems()
	damage, err := history.JournalDamage(ctx, s)
	for _, d := range damage {
		list = append(list, trees.Problem{Path: d.Path, Err: d})
	}
	return list, err
}

// markSound marks what a snapshot needs. What is missing or damaged is an error,
// unless it may be: while a prune is planned it is only noted.
func markSound(marker *audit.Marker, may func() bool) func(context.Context, *cas.Live, *store.Snapshot) error {
	return func(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
		before := len(marker.Problems())
		err := marker.MarkSnapshot(ctx, live, snap)
		if list := marker.Problems(); err == nil && len(list) > before && !may() {
			return damagedBy(list[before])
		}
		return err
	}
}

// counting are the kinds of record that KeepLast counts.
var counting = []string{history.KindStep, history.KindStart, history.KindBase, history.KindEdit}

// datedSnapshots lists the snapshots, newest first.
func datedSnapshots(ctx context.Context, s *cas.Store) ([]dated, error) {
	var all []dated
	lines := make(map[[2]string]*sessionLine)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if snap.Pruned {
			continue
		}
		key := [2]string{snap.Worktree, snap.Session}
		l := lines[key]
		if l == nil {
			l = &sessionLine{worktree: snap.Worktree, session: snap.Session, root: snap.Root, log: snap.Log,
				info: PrunedSession{Session: snap.Session, Root: snap.Root}}
			lines[key] = l
		}
		l.seen++
		all = append(all, dated{seq: snap.Seq, line: l, time: snap.Time, named: snap.Label != "", first: l.seen == 1,
			counts: slices.Contains(counting, snap.Kind)})
	}
	return all, nil
}

// deletedRoots returns what tells whether the directory of a session was deleted: of
// none, unless it matters.
func deletedRoots(ps *places.File, matters bool) func(*sessionLine) bool {
	known := make(map[string]bool) // by worktree
	return func(l *sessionLine) bool {
		if !matters || l.root == "" {
			return false
		}
		gone, ok := known[l.worktree]
		if !ok {
			gone = ps.IsGone(l.worktree, l.root)
			known[l.worktree] = gone
		}
		return gone
	}
}

// isDeleted reports whether a session's log or its directory was deleted.
func (l *sessionLine) isDeleted(root func(*sessionLine) bool) bool {
	return root(l) || l.log != "" && places.IsDeleted(l.log)
}

// protect notes which must stay: the newest of each directory, unless it was
// deleted and that is to count, and of one with an open turn all since it began.
func protect(s *cas.Store, all []dated, deleted func(*sessionLine) bool) error {
	since := make(map[string]uint64) // by worktree
	for i := range all {
		m := &all[i]
		from, ok := since[m.line.worktree]
		if !ok {
			from = m.seq
			if deleted(m.line) {
				from = m.seq + 1
			} else {
				open, err := history.OpenSince(s.FS(), strings.TrimSuffix(m.line.worktree, history.EditSuffix))
				if err != nil {
					return err
				} else if open != 0 {
					from = min(from, open)
				}
			}
			since[m.line.worktree] = from
		}
		m.must = m.seq >= from
	}
	return nil
}

// inUse is for how long the newest snapshot of a session stays whatever room there
// is: its last turn is to be taken back.
const inUse = 24 * time.Hour

// fit drops snapshots until the others fit into a store of some size.
func (p *PrunePlan) fit(ctx context.Context, all []dated, keep *Retention) error {
	files, err := p.s.Usage(ctx)
	if err != nil {
		return err
	}
	left := keep.MaxBytes - (files.Total() - files.ObjectBytes - files.CopyBytes)
	// What is to stay longest first.
	var order []*dated
	for i := range all {
		if !all[i].drop {
			order = append(order, &all[i])
		}
	}
	must := func(m *dated) bool {
		return m.must || keep.Session != "" && m.line.session != keep.Session || m.first && time.Since(m.time) < inUse
	}
	rank := func(m *dated) int {
		switch {
		case must(m):
			return 0
		case m.named:
			return 1
		case m.first:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(order, func(a, b *dated) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.seq, a.seq))
	})
	progress.Of(ctx).Begin(weighing)
	t := audit.NewTally(p.s)
	var groups [][]audit.Root
	for _, m := range order {
		snap, err := p.s.Snapshot(ctx, m.seq)
		if err != nil {
			return err
		}
		roots, err := t.Add(ctx, snap)
		if err != nil {
			return err
		}
		groups = append(groups, roots)
	}
	full := false
	for i, a := range t.Firsts(groups) {
		left -= a.Stored
		full = full || left < 0
		switch {
		case !full:
		case must(order[i]):
			p.Over = -left
		default:
			order[i].drop = true
		}
	}
	return nil
}
