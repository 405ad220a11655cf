package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func (a *app) repairCommand() *cobra.Command {
	dryRun := false
	c := &cobra.Command{
		Use:     "repair",
		Short:   "Mend a damaged store",
		Long:    repairHelp,
		Example: repairExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.repair(cmd.Context(), dryRun)
		},
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be done")
	return c
}

// A repairAnswer is what repair prints as JSON.
type repairAnswer struct {
	DryRun  bool                 `json:"dryRun"`
	Damage  []jsonDamage         `json:"damage"`  // all that was found
	Stays   []jsonDamage         `json:"stays"`   // what of it is left alone
	Packs   []store.PackRepair   `json:"packs"`   // replaced
	Gone    []string             `json:"gone"`    // packs that are missing
	Rebuilt []string             `json:"rebuilt"` // FORMAT, indexes and summaries
	Records []store.RecordRepair `json:"records"` // of the journal, that come back
	Aside   []string             `json:"aside"`   // other files that were moved to quarantine: they are made again when they are needed
	Mended  []jsonMend           `json:"mended"`
	Hurt    []jsonHurt           `json:"hurt"`
	Unread  []jsonUnread         `json:"unread"` // files that may have what is lost
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

func (a *app) repair(ctx context.Context, dryRun bool) error {
	s, err := a.openStore(ctx, dryRun, true)
	if err != nil {
		return err
	}
	defer s.Close()
	plan, err := s.PlanRepair(ctx)
	if err != nil {
		return err
	}
	lost, err := manager.LostRecords(ctx, s)
	if err != nil {
		return err
	}
	damage, records := append(plan.Damage, damageOf(lost)...), plan.Records
	format := plan.Format
	if !dryRun && (format || len(records) > 0) {
		// Before all else: what comes back in the journal needs objects, too.
		if err := s.Repair(ctx, plan.OnlyJournal()); err != nil {
			return err
		}
		if plan, err = s.PlanRepair(ctx); err != nil {
			return err
		}
		if lost, err = manager.LostRecords(ctx, s); err != nil {
			return err
		}
	}
	for _, l := range lost {
		if !plan.HasRecord(l.Seq) {
			plan.Stays = append(plan.Stays, l.Damage)
		}
	}
	m := tree.NewMender(s, plan)
	defer m.Close()
	mends, err := m.Plan(ctx)
	if err != nil {
		return err
	}
	j := newRepairAnswer(plan, dryRun)
	j.Damage, j.Records = jsonDamages(damage), append([]store.RecordRepair{}, records...)
	places, err := manager.CheckPlaces(s)
	if err != nil {
		return err
	}
	if places != nil {
		j.Damage, j.Aside = append(j.Damage, jsonDamages([]*store.CorruptError{places})...), append(j.Aside, places.Path)
	}
	hurt := m.Hurt
	todo := !plan.Empty() || len(mends)+len(records)+len(j.Aside) > 0 || format
	if format {
		j.Rebuilt = append([]string{"FORMAT"}, j.Rebuilt...)
	}
	if !dryRun && places != nil {
		if err := manager.RepairPlaces(ctx, s); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	if !dryRun && (!plan.Empty() || len(mends)+len(records) > 0 || format) {
		if err := s.Repair(ctx, plan); err != nil {
			return err
		}
		if mends, err = m.Restore(ctx, mends); err != nil {
			return err
		}
		if dir, err := a.storeDir(); err == nil { // what checks have found is dealt with, or listed here
			manager.ChangeHealth(dir, func(h *manager.Health) { h.Damage, h.Bad, h.BadNow, h.Next = 0, 0, 0, "" })
		}
		hurt = func(ctx context.Context) iter.Seq2[tree.Hurt, error] { return tree.Hurts(ctx, s) }
	}
	for _, mend := range mends {
		one := jsonMend{ID: mend.ID.String(), File: mend.Spare}
		if mend.Spare == "" {
			from := newJSONPath(mend.Path)
			one.From = &from
		}
		j.Mended = append(j.Mended, one)
	}
	for h, err := range hurt(ctx) {
		if err != nil {
			return err
		}
		for _, problem := range h.Problems {
			j.Hurt = append(j.Hurt, jsonHurt{h.Snapshot.Session, orNull(h.Snapshot.Entry), h.Snapshot.Seq, h.Snapshot.Kind,
				newJSONPath(problem.Path), problem.Err.Error()})
		}
	}
	unread := m.Unread()
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		j.Unread = append(j.Unread, jsonUnread{newJSONPath(name), unread[name].Error()})
	}
	if a.flags.json {
		err = a.printJSON(j)
	} else {
		a.printRepair(j, todo)
	}
	switch {
	case err != nil:
		return err
	case len(j.Stays)+len(j.Hurt) > 0:
		return &failure{code: exitDamage}
	case dryRun && todo:
		return &failure{code: exitRefused}
	}
	return nil
}

// openStore opens the project's store without a session. It must be there. mend is
// for who is going to repair it.
func (a *app) openStore(ctx context.Context, readOnly, mend bool) (*store.Store, error) {
	loc, err := a.locate()
	if err != nil {
		return nil, err
	}
	if loc.Moved != nil {
		return nil, &manager.MovedError{Moved: *loc.Moved}
	}
	if _, err := os.Stat(filepath.Join(loc.Dir, "packs")); errors.Is(err, fs.ErrNotExist) {
		return nil, a.noSnapshots(loc.Project)
	}
	return store.Open(ctx, loc.Dir, &store.Options{Root: loc.Project.Main, ReadOnly: readOnly, Mend: mend, Logger: a.log})
}

func newRepairAnswer(plan *store.RepairPlan, dryRun bool) *repairAnswer {
	j := &repairAnswer{DryRun: dryRun, Damage: jsonDamages(plan.Damage), Stays: jsonDamages(plan.Stays),
		Packs: append([]store.PackRepair{}, plan.Packs...), Gone: append([]string{}, plan.Gone...),
		Rebuilt: append(append([]string{}, plan.Indexes...), plan.Summaries...), Aside: []string{}, Mended: []jsonMend{}, Hurt: []jsonHurt{}, Unread: []jsonUnread{}}
	return j
}

// damageOf returns what is wrong where records are lost.
func damageOf(list []manager.LostRecord) (out []*store.CorruptError) {
	for _, l := range list {
		out = append(out, l.Damage)
	}
	return out
}

func jsonDamages(list []*store.CorruptError) []jsonDamage {
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
		fmt.Fprintf(a.out, "%s: %smoved to quarantine, %s kept, %d damaged\n", p.Pack, would, count(p.Intact, "object"), p.Damaged)
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
			from = patch.Quote(m.From.raw())
		}
		fmt.Fprintf(a.out, "object %s: %sput back from %s\n", m.ID[:12], would, from)
	}
	for _, d := range j.Stays {
		fmt.Fprintf(a.out, "%s at offset %d: stays: %s\n", d.File, d.Offset, d.Error)
	}
	for i, h := range j.Hurt {
		if i == maxHurtLines {
			fmt.Fprintf(a.out, "… and %s more; --json lists all\n", count(len(j.Hurt)-i, "path"))
			break
		}
		entry := fmt.Sprint("record ", h.Seq)
		if h.EntryID != nil {
			entry = *h.EntryID
		}
		fmt.Fprintf(a.out, "session %s, snapshot %s: %s is lost: %s\n", h.Session, entry, patch.Quote(cmp.Or(h.raw(), ".")), h.Error)
	}
	for _, u := range j.Unread {
		if len(j.Hurt) == 0 {
			break // all was found elsewhere
		}
		fmt.Fprintf(a.out, "%s: not read, and may have what is lost: %s\n", patch.Quote(u.raw()), u.Error)
	}
	if a.flags.quiet {
		return
	}
	left := len(j.Hurt) + len(j.Stays)
	switch {
	case !todo && left == 0:
		fmt.Fprintln(a.out, "nothing to repair")
	case left > 0:
		fmt.Fprintf(a.out, "%s cannot be mended\n", count(left, "problem"))
	case j.DryRun:
		fmt.Fprintln(a.out, "all can be mended")
	default:
		fmt.Fprintln(a.out, "all is mended")
	}
}

// raw returns the path as bytes.
func (p jsonPath) raw() string {
	if p.Bytes != nil {
		return string(p.Bytes)
	}
	return p.Path
}
