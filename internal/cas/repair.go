package cas

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A RepairPlan is what [Store.Repair] will do, and what it cannot. It is plain
// data.
type RepairPlan struct {
	Damage []*object.CorruptError // all that was found
	// the part of it that is left alone: in the journal, and what is of a newer format or
	// another store
	Stays      []*object.CorruptError
	Packs      []PackRepair   // to be replaced
	Gone       []string       // packs that the journal counts on, and that are not there: it is told so
	Indexes    []string       // of packs, to be made again
	Summaries  []string       // of segments, to be made again
	EndSegment bool           // the newest segment is damaged: the next begins
	Records    []RecordRepair // of the journal, that come back
	Format     bool           // FORMAT is written again, as other files tell it
	Aside      []string       // other files to be moved to quarantine: what they say is not known

	journal       *journalMend
	replace, gone [][16]byte
	indexes       [][16]byte
	summaries     []uint64
	intact        map[store.ID][16]byte // a pack that has it; one that stays, if there is one
	lost          map[store.ID]bool     // chunked blobs that lack a chunk
}

// A PackRepair is a pack with damaged records. What is intact goes into another
// pack, unless it is in one already, and the file into quarantine.
type PackRepair struct {
	Pack    string `json:"pack"`    // its file
	Intact  int    `json:"intact"`  // records
	Damaged int    `json:"damaged"` // records, as far as it can be seen
}

// Empty reports whether there is nothing to do.
func (p *RepairPlan) Empty() bool {
	return !p.Format && len(p.Packs) == 0 && len(p.Gone) == 0 && len(p.Indexes) == 0 &&
		len(p.Summaries)+len(p.Records)+len(p.Aside) == 0 && !p.EndSegment
}

// Keeps reports whether an object will be there, whole, when the plan is done.
func (p *RepairPlan) Keeps(id store.ID) bool {
	_, ok := p.intact[id]
	return ok
}

// PlanRepair reads the whole store, all content included, and says what there
// is to mend. It writes nothing.
//
// It knows objects, not what they are for: which snapshots are hurt, and what
// of that can be found elsewhere, is the business of package tree.
func (s *Store) PlanRepair(ctx context.Context) (*RepairPlan, error) {
	p := &RepairPlan{intact: make(map[store.ID][16]byte), lost: make(map[store.ID]bool)}
	s.jmu.Lock()
	err := s.planJournalRepair(p)
	durable, removed := maps.Clone(s.j.Packs), s.j.Removed
	s.jmu.Unlock()
	if err != nil {
		return nil, err
	}
	if damage, err := s.checkAccepted(); err != nil {
		return nil, err
	} else if damage != nil {
		p.Aside = []string{layout.AcceptedName}
	}
	ids, err := s.packIDs()
	if err != nil {
		return nil, err
	}
	v := &survey{s: s, blobs: make(map[store.ID]pack.Location)}
	defer v.close()
	s.beginPacks(ctx, "reading", ids, 0)
	for _, id := range ids {
		if slices.Contains(removed, id) {
			continue // by a prune: the next who opens the store removes it
		}
		if err := v.add(ctx, id, durable[id]); err != nil {
			return nil, err
		}
		delete(durable, id)
	}
	if len(v.packs) > 0 && !slices.ContainsFunc(v.packs, func(p *surveyed) bool { return !p.foreign }) {
		return nil, &object.CorruptError{Path: layout.FormatName,
			Err: errors.New("names a store that no pack belongs to")}
	}
	if err := v.checkLists(ctx); err != nil {
		return nil, err
	}
	v.plan(p)
	for id := range durable {
		p.gone = append(p.gone, id)
		p.Gone = append(p.Gone, layout.PackName(id))
		p.Damage = append(p.Damage, &object.CorruptError{Path: layout.PackName(id), Err: errors.New("pack is missing")})
	}
	if err := s.outdated(); err != nil && len(p.Damage) > 0 {
		return nil, err
	}
	return p, nil
}

// planJournalRepair says what there is to mend in the journal, and what is damaged in the
// files beside the packs. Store.jmu is held.
func (s *Store) planJournalRepair(p *RepairPlan) error {
	p.Format = s.badFormat != nil
	journal, stays := new(Report), new(Report)
	c, err := s.checkJournal(journal, nil)
	if err != nil {
		return err
	}
	if p.journal, err = s.planJournal(c.have); err != nil {
		return err
	}
	p.Records = p.journal.records
	if _, err = s.checkJournal(stays, p.journal); err != nil {
		return err
	}
	if err := errors.Join(s.checkForgotten(journal), s.checkForgotten(stays)); err != nil {
		return err
	}
	p.Damage, p.Stays = journal.Damage, stays.Damage
	p.EndSegment = s.j.Broken != ""
	wrong, err := s.j.WrongSummaries()
	for _, seg := range wrong {
		wasCut := slices.ContainsFunc(journal.Damage, func(d *object.CorruptError) bool {
			return d.Path == layout.SegmentName(seg) && errors.Is(d.Err, errCut)
		})
		if wasCut || p.journal.fixes[seg] != nil {
			continue // the summary may be all that knows what was cut off
		}
		p.summaries = append(p.summaries, seg)
		p.Summaries = append(p.Summaries, layout.SummaryName(seg))
	}
	return err
}

// A survey is a look at all packs.
type survey struct {
	s     *Store
	packs []*surveyed
	blobs map[store.ID]pack.Location // intact, and whole in one record
}

type surveyed struct {
	*examined
	intact []pack.Entry
	lists  []chunkList // not in intact until their chunks are found
	bad    int         // records
}

type chunkList struct {
	pack.Entry
	data []byte
}

func (v *survey) close() {
	for _, p := range v.packs {
		p.pack.F.Close()
	}
}

// add looks at one pack.
func (v *survey) add(ctx context.Context, id [16]byte, durable int64) error {
	x, err := v.s.examine(id, durable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // taken away since it was listed
	}
	if err != nil {
		return err
	}
	p := &surveyed{examined: x}
	v.packs = append(v.packs, p)
	if x.untouchable() {
		return nil
	}
	return p.verify(ctx, func(e pack.Entry, kind uint8) {
		if kind == uint8(object.Blob) {
			v.blobs[e.ID] = e.Location
		}
	})
}

// untouchable reports whether a pack is of a format that we do not know, or of
// another store.
func (x *examined) untouchable() bool {
	return x.foreign || x.header != nil && errors.Is(x.header, store.ErrFormat)
}

// verify reads all records, and calls fn for those that are intact.
func (p *surveyed) verify(ctx context.Context, fn func(e pack.Entry, kind uint8)) error {
	done := progress.Of(ctx)
	var r recordReader
	for _, e := range p.records {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if e.Member <= 1 {
			done.Count(0, int64(e.Stored))
		}
		h, data, err := r.read(e)
		switch {
		case err != nil && e.Member > 0 && len(p.damage) > 0 && p.damage[len(p.damage)-1].Off == e.Off:
			p.bad++ // a group that is damaged is so once
		case err != nil:
			if err := unlessDamage(&p.damage, err); err != nil {
				return err
			}
			p.bad++
		case h.Kind == pack.RecChunked:
			p.lists = append(p.lists, chunkList{e, data})
		default:
			p.intact = append(p.intact, e)
			fn(e, h.Kind)
		}
	}
	done.Count(1, 0)
	return nil
}

// checkLists looks for the chunks of chunked blobs. One that lacks any is
// damaged as a whole: then no writer takes it for there, and the next that has
// the content stores it again.
func (v *survey) checkLists(ctx context.Context) error {
	for _, p := range v.packs {
		for _, l := range p.lists {
			err := v.checkList(ctx, l)
			if err == nil {
				p.intact = append(p.intact, l.Entry)
				continue
			}
			if err := unlessDamage(&p.damage, err); err != nil {
				return err
			}
			p.bad++
		}
	}
	return nil
}

func (v *survey) checkList(ctx context.Context, l chunkList) error {
	return joinChunks(ctx, io.Discard, l.ID, l.data, l.Location, func(chunk store.ID) ([]byte, error) {
		at, ok := v.blobs[chunk]
		if !ok {
			return nil, corrupt(l.Location, "chunk %s: %w", chunk.Short(), store.ErrNotFound)
		}
		_, data, err := new(recordReader).read(pack.Entry{ID: chunk, Location: at})
		return data, err
	})
}

// plan says what becomes of the packs.
func (v *survey) plan(plan *RepairPlan) {
	for _, p := range v.packs {
		name, id := p.pack.Name(), p.pack.ID
		if p.untouchable() {
			plan.Damage, plan.Stays = append(plan.Damage, p.header), append(plan.Stays, p.header)
			continue
		}
		if p.header != nil {
			plan.Damage = append(plan.Damage, p.header)
		}
		plan.Damage = append(plan.Damage, p.damage...)
		if p.header != nil || len(p.damage) > 0 {
			plan.Packs = append(plan.Packs, PackRepair{Pack: name, Intact: len(p.intact), Damaged: p.bad})
			plan.replace = append(plan.replace, id)
			continue
		}
		for _, e := range p.intact {
			plan.intact[e.ID] = id
		}
		if p.index == nil || !p.sealed || errors.Is(p.index, store.ErrFormat) {
			continue
		}
		if errors.Is(p.index, fs.ErrNotExist) {
			if idle, err := p.pack.F.TryLock(vfs.Shared); !idle || err != nil {
				continue // somebody is about to write it
			}
		} else {
			plan.Damage = append(plan.Damage, &object.CorruptError{Path: layout.IndexName(id), Err: p.index})
		}
		plan.Indexes, plan.indexes = append(plan.Indexes, layout.IndexName(id)), append(plan.indexes, id)
	}
	for _, p := range v.packs {
		for _, e := range p.intact {
			if _, ok := plan.intact[e.ID]; !ok {
				plan.intact[e.ID] = p.pack.ID
			}
		}
	}
	for _, p := range v.packs {
		for _, l := range p.lists {
			if !plan.Keeps(l.ID) {
				plan.lost[l.ID] = true
			}
		}
	}
}

// Repair does what a plan says. Damaged files go to quarantine, after all that
// is intact in them is durable elsewhere; docs/reference/concurrency.md has the order. It
// may run beside readers and writers of other processes, but waits for all
// writers to be closed, those of this process too.
//
// An error leaves the store as good as it was, and a new plan may follow.
func (s *Store) Repair(ctx context.Context, plan *RepairPlan) error {
	if s.readOnly {
		return errors.New("repair: store is open read-only")
	}
	if plan.Empty() {
		return nil
	}
	if err := s.repair(ctx, plan); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}

func (s *Store) repair(ctx context.Context, plan *RepairPlan) error {
	alone, err := layout.Lock(ctx, s.fsys, layout.RepairLock)
	if err != nil {
		return err
	}
	defer alone.Close()
	for _, id := range plan.indexes {
		if err := s.remakeIndex(id); err != nil {
			return err
		}
	}
	if err := s.endDamagedSegment(ctx, plan); err != nil {
		return err
	}
	if len(plan.replace)+len(plan.gone) == 0 {
		return nil
	}
	r := &replacement{s: s, plan: plan, ends: make(map[[16]byte]int64), copied: make(map[store.ID]bool)}
	defer s.condemn(nil)
	for {
		s.condemn(plan.replace)
		if err := r.copy(ctx); err != nil {
			return err
		}
		done, err := r.move(ctx)
		if err != nil {
			return err
		}
		if done {
			return s.see()
		}
	}
}

// remakeIndex makes the index of a sealed pack again.
func (s *Store) remakeIndex(id [16]byte) error {
	x, err := s.examine(id, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer x.pack.F.Close()
	if !x.sealed || x.index == nil || x.header != nil || len(x.damage) > 0 {
		return nil // not what was planned
	}
	return s.writeIndex(x.pack, x.end, x.records)
}

// endDamagedSegment mends what there is to mend in the journal.
func (s *Store) endDamagedSegment(ctx context.Context, plan *RepairPlan) error {
	if !plan.EndSegment && !plan.Format && len(plan.summaries)+len(plan.Records)+len(plan.Aside) == 0 {
		return nil
	}
	return s.withJournal(ctx, func() error {
		if plan.Format && s.badFormat != nil {
			if err := s.remade.write(s.fsys); err != nil {
				return err
			}
			s.remade, s.badFormat = nil, nil
		}
		if damage, err := s.checkAccepted(); err != nil {
			return err
		} else if damage != nil {
			if err := layout.Quarantine(s.fsys, layout.AcceptedName); err != nil {
				return err
			}
		}
		if err := s.mendJournal(plan.journal); err != nil {
			return err
		}
		if plan.EndSegment && s.j.Broken != "" {
			if err := s.j.Writable(); err != nil {
				return err
			}
		}
		for _, seg := range plan.summaries {
			if err := s.j.RemakeSummary(seg); err != nil {
				return err
			}
		}
		return nil
	})
}

// condemn names the packs that nothing may be appended to.
func (s *Store) condemn(ids [][16]byte) {
	s.wmu.Lock()
	s.repairing = make(map[[16]byte]bool)
	for _, id := range ids {
		s.repairing[id] = true
	}
	if s.active != nil && s.repairing[s.active.ID] {
		s.sealActive()
	}
	s.wmu.Unlock()
	s.waitSealed()
}

// A replacement is the work on damaged packs.
type replacement struct {
	s      *Store
	plan   *RepairPlan
	ends   map[[16]byte]int64 // up to where each pack was copied
	copied map[store.ID]bool
}

// copy makes what is intact in the damaged packs durable in another one. What
// was copied before is not again.
func (r *replacement) copy(ctx context.Context) (err error) {
	w, err := r.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	durable, err := r.s.durableLengths()
	if err != nil {
		return err
	}
	r.s.beginPacks(ctx, "copying", r.plan.replace, 0)
	for _, id := range r.plan.replace {
		x, err := r.s.examine(id, durable[id])
		if errors.Is(err, fs.ErrNotExist) {
			continue // by an earlier repair that did not come to its end
		}
		if err != nil {
			return err
		}
		err = r.copyPack(ctx, w, &surveyed{examined: x})
		x.pack.F.Close()
		if err != nil {
			return err
		}
		r.ends[id] = x.end
	}
	if len(r.copied) == 0 {
		return nil
	}
	return w.commit(ctx, &commitRequest{generation: w.generation})
}

func (r *replacement) copyPack(ctx context.Context, w *Writer, p *surveyed) error {
	if p.untouchable() {
		return nil
	}
	if err := p.verify(ctx, func(pack.Entry, uint8) {}); err != nil {
		return err
	}
	for _, l := range p.lists {
		if !r.plan.lost[l.ID] {
			p.intact = append(p.intact, l.Entry)
		}
	}
	slices.SortFunc(p.intact, comparePlaces)
	c := &copier{s: r.s, generation: w.generation}
	for list := range eachGroup(p.intact) {
		list = slices.DeleteFunc(slices.Clone(list), func(e pack.Entry) bool {
			return r.copied[e.ID] || r.elsewhere(e.ID)
		})
		if err := c.copy(p.pack, list); err != nil {
			return err
		}
		for _, e := range list {
			r.copied[e.ID] = true
		}
	}
	return c.flush()
}

// elsewhere reports whether a pack that stays has an object.
func (r *replacement) elsewhere(id store.ID) bool {
	pack, ok := r.plan.intact[id]
	if !ok || r.s.isCondemned(pack) {
		return false
	}
	_, err := r.s.fsys.Stat(layout.PackName(pack))
	return err == nil
}

func (s *Store) isCondemned(id [16]byte) bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.repairing[id]
}

// move puts the damaged packs into quarantine and ends the epoch, while nobody
// writes. It reports false if there is more to copy first.
func (r *replacement) move(ctx context.Context) (done bool, err error) {
	s := r.s
	n, err := s.Epoch()
	if err != nil {
		return false, err
	}
	s.jmu.Lock()
	completed := s.j.Completed
	s.jmu.Unlock()
	locks, err := s.drain(ctx, completed, n+1)
	if err != nil {
		return false, err
	}
	defer closeAll(locks)
	if now, err := s.Epoch(); err != nil || now != n {
		return false, err
	}
	durable, err := s.durableLengths()
	if err != nil {
		return false, err
	}
	for id, end := range r.ends {
		x, err := s.examine(id, durable[id])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		x.pack.F.Close()
		if x.end > end {
			return false, nil // its writer was still at work
		}
	}
	// Ours sync packs/ when they are done: that would make an old name's end
	// durable before the new name is.
	s.waitSealed()
	for id := range r.ends {
		if err := s.quarantine(id); err != nil {
			return false, err
		}
	}
	if len(r.ends) > 0 {
		// The new names first: else a power cut could leave none.
		for _, dir := range []string{"quarantine", "packs"} {
			if err := s.fsys.SyncDir(dir); err != nil {
				return false, err
			}
		}
	}
	return true, s.withJournal(ctx, func() error { return s.j.EndEpoch() })
}

// quarantine moves a pack aside. Its index goes after it: a pack without one is
// a pack, an index without a pack is nothing.
func (s *Store) quarantine(id [16]byte) error {
	to := "quarantine/" + hex.EncodeToString(id[:]) + "-" + layout.RandomName() + ".pack"
	if err := s.fsys.Rename(layout.PackName(id), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.fsys.Remove(layout.IndexName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.log.Warn("pack moved aside", "path", layout.PackName(id), "to", to)
	return nil
}

// durableLengths returns the length of each pack that the journal names by now.
func (s *Store) durableLengths() (map[[16]byte]int64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	err := s.j.Refresh()
	return maps.Clone(s.j.Packs), err
}
