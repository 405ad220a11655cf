package manager

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/pickaxe"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A deed is what a turn did to files, or a restore, or nobody's turn.
type deed struct {
	found    *Found  // what there is to say of it, without a file
	r        *record // nil: it has none yet
	worktree string
	changes  []TurnChange

	pruned, lost int // snapshots that were to be here
}

// deeds are what happened in directories of a store, newest first. What looks have found
// within turns is in the turns.
type deeds struct {
	*finder
	ends map[string][]span // of turns that were met, by worktree and session
	next map[string]uint64 // by worktree the number of the record before; 0: there is none
}

// A span is from the record after which a turn began to its own.
type span struct {
	after, seq uint64
	base       store.State // where it began, of a turn that nobody announced
	announced  bool
}

// jobs yields the deeds, with what they changed.
func (d *deeds) jobs(ctx context.Context) iter.Seq2[pickaxe.Job[*deed], error] {
	return func(yield func(pickaxe.Job[*deed], error) bool) {
		say := func(found *deed) bool {
			job := pickaxe.Job[*deed]{Of: found}
			for i := range found.changes {
				job.Changes = append(job.Changes, found.changes[i].Difference)
			}
			return yield(job, nil)
		}
		err := d.open(ctx, say)
		for s, serr := range d.m.store.Snapshots(ctx) {
			if err = errors.Join(err, serr); err != nil || s.Seq <= d.since {
				break
			}
			if !d.isLookedAt(s) {
				continue
			}
			var list []*deed
			if list, err = d.of(ctx, s); err != nil {
				break
			}
			if slices.ContainsFunc(list, func(found *deed) bool { return !say(found) }) {
				return
			}
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(pickaxe.Job[*deed]{}, err)
		}
	}
}

// isLookedAt reports whether a snapshot may be of a deed that is asked for.
func (d *deeds) isLookedAt(s *store.Snapshot) bool {
	return (d.opts.All || s.Worktree == d.m.project.Worktree) && !history.IsEdit(s) && !s.Time.Before(d.after)
}

// open says what turns did that have not ended, as far as it was seen.
func (d *deeds) open(ctx context.Context, say func(*deed) bool) error {
	list, err := d.unended(ctx)
	for _, found := range list {
		if !say(found) {
			return errStopped
		}
	}
	return err
}

func (d *deeds) unended(ctx context.Context) (list []*deed, err error) {
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	turns, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	last, err := m.records.Newest(cas.AnySession)
	if err != nil || last == nil {
		return nil, err
	}
	for _, t := range turns.Open {
		if t.Session == history.Nobody || t.After >= last.Seq {
			continue
		}
		d.end(last.Worktree, t.Session, span{after: t.After, seq: last.Seq + 1, announced: true})
		stretches, err := windows.Stretches(ctx, m.records, last.Seq, t, true)
		if err != nil {
			return nil, err
		}
		found := &deed{worktree: last.Worktree, found: &Found{Turn: t.Turn, Session: t.Session,
			Kind: history.KindStep, Open: true, Time: last.Time, Title: t.Title, Agent: t.Agent, Model: t.Model,
			Rev: history.NameOf("", last.Snapshot)}}
		claims, foreign := windows.NewPathSet(t.Claims), windows.NewPathSet(t.Foreign)
		changes, err := piecesOf(ctx, m.tree.pages, stretches, claims, foreign)
		if err := found.know(d, changes, err); err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, nil
}

// know notes what was changed, or that it is lost.
func (found *deed) know(d *deeds, changes []TurnChange, err error) error {
	unknown, err := lost(err)
	if unknown != "" {
		found.lost++
	}
	differenceOf := func(c *TurnChange) *tree.Difference { return &c.Difference }
	found.changes = pickaxe.Narrow(changes, differenceOf, d.wants)
	return err
}

// end notes that a turn of a session has ended.
func (d *deeds) end(worktree, session string, s span) {
	key := worktree + "\x00" + session
	d.ends[key] = append(d.ends[key], s)
}

// of returns what a record says was done, and that one is missing before it.
func (d *deeds) of(ctx context.Context, s *store.Snapshot) (list []*deed, err error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	r, err := history.Read(s)
	if err != nil {
		return nil, err
	}
	if next, is := d.next[r.Worktree]; is && next > r.Seq { // the one that was to be next is not there
		list = append(list, &deed{worktree: r.Worktree, found: new(Found), lost: 1})
	}
	d.next[r.Worktree] = r.Facts.After
	if r.IsTurn() {
		end := span{after: r.Facts.Since, seq: r.Seq, announced: r.Facts.Since != 0}
		if !end.announced {
			end.after, end.base = r.Parent, r.Base
		}
		d.end(r.Worktree, r.Session, end)
	}
	switch {
	case r.Kind == history.KindEmpty, r.Kind == history.KindPin, d.isOfTurn(r):
		return list, nil
	case r.Pruned:
		return append(list, &deed{worktree: r.Worktree, found: new(Found), pruned: 1}), nil
	}
	mo := d.m.momentOf(r)
	found := &deed{worktree: r.Worktree, r: r, found: &Found{EntryID: mo.EntryID, Turn: mo.TurnIndex,
		Session: r.Session, Kind: mo.Kind, Rev: history.NameOf(r.Entry, r.Snapshot), Time: r.Time.UTC(),
		Agent: mo.Agent, Model: mo.Model}}
	if !d.opts.Gone && !d.isAsked(found) {
		return list, nil
	}
	changes, err := d.changes(ctx, r)
	if err := found.know(d, changes, err); err != nil {
		return nil, err
	}
	return append(list, found), nil
}

// changes returns what a record has changed.
func (d *deeds) changes(ctx context.Context, r *record) (changes []TurnChange, err error) {
	if r.Kind != history.KindStart {
		return d.m.turnChanges(ctx, r)
	}
	// Nobody has looked between the record before and this one.
	before, owner := store.State{}, Owner("")
	if r.Facts.After != 0 {
		last, err := d.m.records.Record(ctx, r.Facts.After)
		if err != nil {
			return nil, err
		}
		if last.Pruned {
			return nil, lossError("what was there before was pruned")
		}
		before, owner = last.State(), Offline
	}
	for c, err := range trees.Compare(ctx, d.m.tree.pages, before, r.State()) {
		if err != nil {
			return nil, err
		}
		changes = append(changes, TurnChange{c, owner, 1, 1})
	}
	return changes, nil
}

// isOfTurn reports whether what a look has found is in a turn that was met.
func (d *deeds) isOfTurn(r *record) bool {
	switch r.Kind {
	case history.KindBase, history.KindTool, history.KindIntent:
	default:
		return false
	}
	if len(r.Facts.Windows) == 0 { // the user's, unless a turn has it that nobody announced
		return d.isIn(r, "", func(s span) bool { return !s.announced && s.base != r.State() })
	}
	return slices.ContainsFunc(r.Facts.Windows, func(session string) bool {
		if session == history.Nobody {
			session = ""
		}
		return d.isIn(r, session, func(s span) bool { return s.announced || s.base != r.State() })
	})
}

// isIn reports whether a look was within a turn that fits, of a session, of any if that is "".
func (d *deeds) isIn(look *record, session string, fits func(span) bool) bool {
	for key, list := range d.ends {
		if worktree, of, _ := strings.Cut(key, "\x00"); worktree != look.Worktree || session != "" && of != session {
			continue
		}
		list = slices.DeleteFunc(list, func(s span) bool { return s.after >= look.Seq }) // nor is any older look
		d.ends[key] = list
		if slices.ContainsFunc(list, func(s span) bool { return look.Seq < s.seq && fits(s) }) {
			return true
		}
	}
	return false
}
