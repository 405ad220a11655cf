package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

func (a *app) repairCommand() *cobra.Command {
	var f repairFlags
	c := &cobra.Command{
		Use:   "repair",
		Short: "Mend a damaged store",
		Args:  args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.repair(cmd, &f) },
	}
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	c.Flags().BoolVar(&f.accept, "accept-loss", false,
		"accept that what cannot be mended is lost: it is no damage any more")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false,
		"with --accept-loss, do not ask; without a terminal nothing is accepted without it")
	return c
}

type repairFlags struct{ dryRun, accept, yes bool }

// A repairAnswer is what repair prints as JSON.
type repairAnswer struct {
	DryRun  bool               `json:"dryRun"`
	Damage  []jsonDamage       `json:"damage"`  // all that was found
	Stays   []jsonDamage       `json:"stays"`   // what of it is left alone
	Packs   []cas.PackRepair   `json:"packs"`   // replaced
	Gone    []string           `json:"gone"`    // packs that are missing
	Rebuilt []string           `json:"rebuilt"` // FORMAT, indexes and summaries
	Records []cas.RecordRepair `json:"records"` // of the journal, that come back
	// other files that were moved to quarantine: they are made again when they are needed
	Aside  []string     `json:"aside"`
	Mended []jsonMend   `json:"mended"`
	Hurt   []jsonHurt   `json:"hurt"`
	Unread []jsonUnread `json:"unread"` // files that may have what is lost

	Accepted bool `json:"accepted"` // what of stays and hurt is lost for good is no damage any more
}

// A jsonUnread is a file that could not be read: of the store, or of a working
// tree by its full path.
type jsonUnread struct {
	jsonPath
	Error string `json:"error"`
}

// A jsonMend is a lost object that was put back.
type jsonMend struct {
	ID   string    `json:"id"`
	From *jsonPath `json:"from"`           // file of the working tree
	File string    `json:"file,omitempty"` // or of the store
}

// A jsonHurt is a path that a snapshot cannot give back.
type jsonHurt struct {
	Session string  `json:"session"`
	EntryID *string `json:"entryId"`
	Seq     uint64  `json:"seq"`
	Kind    string  `json:"kind"`
	jsonPath
	Error string `json:"error"`
}

// maxHurtLines is how many paths the text form lists.
const maxHurtLines = 50

func (a *app) repair(cmd *cobra.Command, f *repairFlags) error {
	ctx, stop := a.showProgress(cmd.Context())
	defer stop()
	s, err := a.openStore(ctx, f.dryRun, true)
	if err != nil {
		return err
	}
	defer s.Close()
	r := &repair{app: a, store: s, j: &repairAnswer{DryRun: f.dryRun}}
	if err := r.journal(ctx); err != nil {
		return err
	}
	stays := r.plan.Stays
	for _, l := range r.lost {
		r.plan.Stays = append(r.plan.Stays, l.Damage)
	}
	r.mender = audit.NewMender(s, r.plan)
	defer r.mender.Close()
	if err := r.mend(ctx); err != nil {
		return err
	}
	objects, err := r.hurt(ctx)
	if err != nil {
		return err
	}
	stop()
	j := r.j
	if !a.flags.json {
		a.printRepair(j, r.todo)
	}
	left := len(j.Stays) + len(j.Hurt)
	if f.accept && !f.dryRun && left > 0 {
		n, err := a.acceptLoss(cmd, s, stays, r.lost, objects, len(j.Hurt), f.yes)
		if err != nil {
			return err
		}
		j.Accepted, left = n > 0, left-n
	}
	if a.flags.json {
		err = a.printJSON(j)
	}
	switch {
	case err != nil:
		return err
	case left > 0:
		return &failure{code: exitDamage}
	case f.dryRun && r.todo:
		return &failure{code: exitRefused}
	}
	return nil
}

// A repair is one of a store, on its way.
type repair struct {
	app    *app
	store  *cas.Store
	plan   *cas.RepairPlan
	mender *audit.Mender
	lost   []history.LostRecord // that nobody brings back, or has accepted
	format bool                 // FORMAT is written again
	todo   bool                 // something is to be done, or was
	done   bool                 // packs and the journal are mended
	j      *repairAnswer
}

// journal plans the repair. Before all else it puts back FORMAT and records of the
// journal: what comes back there needs objects, too.
func (r *repair) journal(ctx context.Context) error {
	s, j := r.store, r.j
	plan, err := s.PlanRepair(ctx)
	if err != nil {
		return err
	}
	var logs []string
	if file := r.app.flags.sessionFile; file != "" {
		logs = []string{file}
	}
	if err := history.Rebuild(ctx, s, plan, logs); err != nil {
		return err
	}
	lost, err := history.LostRecords(ctx, s)
	if err != nil {
		return err
	}
	isAccepted := func(l history.LostRecord) bool { return !l.Accepted.IsZero() }
	j.Damage, j.Records = jsonDamages(plan.Damage), append([]cas.RecordRepair{}, plan.Records...)
	lost = slices.DeleteFunc(lost, isAccepted)
	for _, l := range lost {
		j.Damage = append(j.Damage, jsonDamages([]*object.CorruptError{l.Damage})...)
	}
	if r.format = plan.Format; !j.DryRun && (r.format || len(j.Records) > 0) {
		if err := s.Repair(ctx, plan.OnlyJournal()); err != nil {
			return err
		}
		if plan, err = s.PlanRepair(ctx); err != nil {
			return err
		}
		if lost, err = history.LostRecords(ctx, s); err != nil {
			return err
		}
	}
	r.plan = plan
	r.lost = slices.DeleteFunc(lost, func(l history.LostRecord) bool { return plan.HasRecord(l.Seq) || isAccepted(l) })
	return nil
}

// mend mends the rest, in a dry run only in the answer.
func (r *repair) mend(ctx context.Context) error {
	s, j, plan := r.store, r.j, r.plan
	mends, err := r.mender.Plan(ctx)
	if err != nil {
		return err
	}
	j.plan(plan)
	damaged, err := places.Check(s)
	if err != nil {
		return err
	}
	spoilt, others, err := history.SpoiltTurns(s)
	if err != nil {
		return err
	}
	if damaged != nil {
		others, j.Aside = append([]*object.CorruptError{damaged}, others...), append(j.Aside, damaged.Path)
	}
	j.Damage, j.Aside = append(j.Damage, jsonDamages(others)...), append(j.Aside, spoilt...)
	ofStore := !plan.Empty() || len(mends)+len(j.Records) > 0 || r.format
	r.todo = ofStore || len(j.Aside) > 0
	if r.format {
		j.Rebuilt = append([]string{"FORMAT"}, j.Rebuilt...)
	}
	if !j.DryRun {
		if damaged != nil {
			err = places.Repair(ctx, s)
		}
		for _, name := range spoilt {
			if err == nil {
				err = history.MendTurns(ctx, s, name)
			}
		}
		if err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	if r.done = ofStore && !j.DryRun; r.done {
		if err := s.Repair(ctx, plan); err != nil {
			return err
		}
		if mends, err = r.mender.Restore(ctx, mends); err != nil {
			return err
		}
		r.app.forgetChecks()
	}
	for _, mend := range mends {
		one := jsonMend{ID: mend.ID.String(), File: mend.Spare}
		if mend.Spare == "" {
			one.From = new(newJSONPath(mend.Path))
		}
		j.Mended = append(j.Mended, one)
	}
	return nil
}

// hurt finds what snapshots cannot give back, and returns the objects that are lost.
func (r *repair) hurt(ctx context.Context) (objects []store.ID, err error) {
	list := r.mender.Hurt(ctx)
	if r.done {
		list = audit.Hurts(ctx, r.store)
	}
	for h, err := range list {
		if err != nil {
			return nil, err
		}
		objects = append(objects, h.Lost...)
		for _, problem := range h.Problems {
			r.j.Hurt = append(r.j.Hurt, jsonHurt{h.Snapshot.Session, words.OrNull(h.Snapshot.Entry), h.Snapshot.Seq,
				h.Snapshot.Kind, newJSONPath(problem.Path), problem.Err.Error()})
		}
	}
	unread := r.mender.Unread()
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		r.j.Unread = append(r.j.Unread, jsonUnread{newJSONPath(name), unread[name].Error()})
	}
	return objects, nil
}

// acceptLoss asks, and then records in the store that some damage is lost for good: records
// of the journal and objects that no repair brings back. It returns how many problems are
// settled by that, of which n are paths of snapshots. Damage that is a newer format's, or
// another store's, is never accepted: nothing is lost there.
func (a *app) acceptLoss(cmd *cobra.Command, s *cas.Store, stays []*object.CorruptError, lost []history.LostRecord,
	objects []store.ID, n int, yes bool) (int, error) {
	loss, err := s.JournalLoss()
	if err != nil {
		return 0, err
	}
	n += len(lost)
	for _, d := range stays {
		if loss.Has(d) {
			n++
		}
	}
	for _, l := range lost {
		loss.AddRecord(l.Seq)
		loss.Places = append(loss.Places, l.Places...)
	}
	slices.SortFunc(objects, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	loss.Objects = slices.Compact(objects)
	if n == 0 {
		return 0, nil
	}
	what := words.Count(n, "problem")
	if !yes {
		if err := a.confirm(cmd, "accept loss", what+" would be accepted as lost for good",
			"accept that as lost for good?"); err != nil {
			return 0, err
		}
	}
	loss.Time = time.Now().UTC().Truncate(time.Second)
	if err := s.Accept(cmd.Context(), loss); err != nil {
		return 0, err
	}
	a.forgetChecks()
	if !a.flags.json && !a.flags.quiet {
		fmt.Fprintf(a.out, "%s accepted as lost\n", what)
	}
	return n, nil
}

// forgetChecks forgets what checks have found: it is dealt with, or listed here.
func (a *app) forgetChecks() {
	if dir, err := a.storeDir(); err == nil {
		health.Change(dir, (*health.Health).Mended)
	}
}

// openStore opens the project's store, which must be there, without a session. With mend
// it is opened to be repaired, also if its FORMAT is missing or damaged.
func (a *app) openStore(ctx context.Context, readOnly, mend bool) (*cas.Store, error) {
	loc, err := a.locate()
	if err != nil {
		return nil, err
	}
	if loc.Moved != nil {
		return nil, &places.MovedError{Moved: *loc.Moved}
	}
	if _, err := os.Stat(filepath.Join(loc.Dir, "packs")); errors.Is(err, fs.ErrNotExist) {
		return nil, a.noSnapshots(&loc.Project.Project)
	}
	return cas.Open(ctx, loc.Dir, &cas.Options{Root: loc.Project.Main, ReadOnly: readOnly, Mend: mend, Logger: a.log})
}

// plan takes over what a plan says, and that nothing else was found until now.
func (j *repairAnswer) plan(p *cas.RepairPlan) {
	j.Stays = jsonDamages(p.Stays)
	j.Packs, j.Gone = append([]cas.PackRepair{}, p.Packs...), append([]string{}, p.Gone...)
	j.Rebuilt = append(append([]string{}, p.Indexes...), p.Summaries...)
	j.Aside = append([]string{}, p.Aside...)
	j.Mended, j.Hurt, j.Unread = []jsonMend{}, []jsonHurt{}, []jsonUnread{}
}

func jsonDamages(list []*object.CorruptError) []jsonDamage {
	out := []jsonDamage{}
	for _, d := range list {
		out = append(out, jsonDamage{d.Path, d.Off, d.Err.Error()})
	}
	return out
}

func (a *app) printRepair(j *repairAnswer, todo bool) {
	would := ""
	if j.DryRun {
		would = "would be "
	}
	for _, p := range j.Packs {
		fmt.Fprintf(a.out, "%s: %smoved to quarantine, %s kept, %d damaged\n", p.Pack, would,
			words.Count(p.Intact, "object"), p.Damaged)
	}
	for _, name := range j.Gone {
		fmt.Fprintf(a.out, "%s: is missing, %sno longer counted on\n", name, would)
	}
	for _, name := range j.Rebuilt {
		fmt.Fprintf(a.out, "%s: %smade again\n", name, would)
	}
	for _, name := range j.Aside {
		fmt.Fprintf(a.out, "%s: %smoved to quarantine\n", name, would)
	}
	for _, r := range j.Records {
		what := fmt.Sprintf("record %d", r.Seq)
		if r.Seq == 0 {
			what = "the header"
		}
		fmt.Fprintf(a.out, "%s at offset %d: %s %sput back\n", r.File, r.Off, what, would)
	}
	for _, m := range j.Mended {
		from := m.File
		if m.From != nil {
			from = words.Quote(m.From.raw())
		}
		fmt.Fprintf(a.out, "object %s: %sput back from %s\n", m.ID[:12], would, from)
	}
	for _, d := range j.Stays {
		fmt.Fprintf(a.out, "%s at offset %d: stays: %s\n", d.File, d.Offset, d.Error)
	}
	a.printHurt(j)
	if a.flags.quiet {
		return
	}
	left := len(j.Hurt) + len(j.Stays)
	switch {
	case !todo && left == 0:
		fmt.Fprintln(a.out, "nothing to repair")
	case left > 0:
		fmt.Fprintf(a.out, "%s cannot be mended\n", words.Count(left, "problem"))
	case j.DryRun:
		fmt.Fprintln(a.out, "all can be mended")
	default:
		fmt.Fprintln(a.out, "all is mended")
	}
}

// printHurt prints what snapshots cannot give back, and which files may have it.
func (a *app) printHurt(j *repairAnswer) {
	for i, h := range j.Hurt {
		if i == maxHurtLines {
			fmt.Fprintf(a.out, "… and %s more; --json lists all\n", words.Count(len(j.Hurt)-i, "path"))
			break
		}
		entry := fmt.Sprint("record ", h.Seq)
		if h.EntryID != nil {
			entry = *h.EntryID
		}
		fmt.Fprintf(a.out, "session %s, snapshot %s: %s is lost: %s\n", h.Session, entry,
			words.Quote(cmp.Or(h.raw(), ".")), h.Error)
	}
	for _, u := range j.Unread {
		if len(j.Hurt) == 0 {
			break // all was found elsewhere
		}
		fmt.Fprintf(a.out, "%s: not read, and may have what is lost: %s\n", words.Quote(u.raw()), u.Error)
	}
}

// raw returns the path as bytes.
func (p jsonPath) raw() string { return words.TextOrBytes(p.Path, p.Bytes) }
