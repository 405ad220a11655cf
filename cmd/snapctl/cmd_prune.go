package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

type pruneFlags struct {
	dryRun, dropSession, despite, auto, yes bool
	keepLast                                int
	keepWithin, keepDeleted, wait           time.Duration
	maxSize                                 int64
}

// hasRule reports whether something says which snapshots go.
func (f *pruneFlags) hasRule() bool {
	return f.dropSession || f.keepLast != 0 || f.keepWithin != 0 || f.keepDeleted != 0 || f.maxSize != 0
}

func (a *app) pruneCommand() *cobra.Command {
	var f pruneFlags
	c := &cobra.Command{
		Use:   "prune",
		Short: "Drop old snapshots, and free what none needs",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.auto && (f.dryRun || f.dropSession || f.despite || f.keepLast != 0 || f.keepWithin != 0 ||
				f.keepDeleted != 0 || f.maxSize != 0 || f.wait != 0):
				return usageError(cmd, "prune: --auto goes by retention.json, and takes no other flags")
			case cmd.Flags().Changed("session") && a.flags.session == "":
				return usageError(cmd, "prune: --session is empty")
			case f.auto:
				return a.autoPrune(cmd.Context())
			case f.keepLast < 0 || f.keepLast == 0 && cmd.Flags().Changed("keep-last"):
				return usageError(cmd, "prune: --keep-last %d: want 1 or more", f.keepLast)
			case f.dropSession && !cmd.Flags().Changed("session"):
				return usageError(cmd, "prune: --drop-session: name it with --session ID")
			case a.flags.sessionFile != "":
				return usageError(cmd, "prune: --session-file is only read")
			}
			if !cmd.Flags().Changed("session") { // BOO_SESSION is not meant
				a.flags.session = ""
			}
			return a.prune(cmd, &f)
		},
	}
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	c.Flags().IntVar(&f.keepLast, "keep-last", 0, "keep the newest `N` snapshots of each session")
	addParsed(c.Flags(), &f.keepWithin, when.ParseLength, "keep-within", "keep what is younger than `AGE`, e.g. 12h, 30d or 1y")
	addParsed(c.Flags(), &f.keepDeleted, when.ParseLength, "keep-deleted",
		"drop sessions whose log or directory was deleted, if they are older than `AGE`")
	addParsed(c.Flags(), &f.maxSize, parseQuantity, "max-size",
		"drop the oldest until the store is below `SIZE`, e.g. 2GB")
	c.Flags().BoolVar(&f.dropSession, "drop-session", false, "drop all that --session has")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false,
		"with --drop-session: do not ask; without a terminal nothing is done without it")
	c.Flags().BoolVar(&f.despite, "despite-damage", false, "ignore this once that snapshots lack something they need")
	c.Flags().BoolVar(&f.auto, "auto", false, "do what retention.json beside the stores says, if it is due")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait for those who write or restore for at most `TIME` (default 1m)")
	return c
}

// autoPrune prunes the store as the user has set it up, if a day has passed.
func (a *app) autoPrune(ctx context.Context) error {
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	r, err := retain.AutoPrune(ctx, dir, a.log)
	if err == nil && r != nil {
		a.note("dropped %s, freed %s", words.Count(r.Dropped, "snapshot"), words.Size(max(r.Freed, 0)))
	} else if err == nil {
		a.note("nothing to do: it is not due before a day has passed, or not worth it; 'snapctl prune' looks now")
	}
	return errors.Join(err, retain.AutoPruneSiblings(ctx, filepath.Dir(dir), a.log))
}

// startPrune has another process prune the store, if it is due: nobody waits for
// it, and nobody hears of it if it fails.
func (a *app) startPrune(m *manager.FileSnapshotManager) {
	if a.engine != nil || !retain.IsPruneDue(m.StoreDir()) { // an engine sees to it itself
		return
	}
	self, err := os.Executable()
	if err == nil {
		cmd := exec.Command(self, "prune", "--auto", "--quiet", "--root", m.Project().Root, "--store",
			filepath.Dir(m.StoreDir()))
		cmd.Dir = string(filepath.Separator) // and not the user's, which it would keep busy
		cmd.SysProcAttr = detached()
		err = cmd.Start()
	}
	if err != nil {
		a.log.Debug("prune not started", "err", err)
	}
}

// A pruneAnswer is what prune prints as JSON.
type pruneAnswer struct {
	DryRun    bool                `json:"dryRun"`
	Kept      int                 `json:"kept"`    // snapshots
	Dropped   int                 `json:"dropped"` // snapshots
	Sessions  []jsonPrunedSession `json:"sessions"`
	Packs     int                 `json:"packs"` // taken away
	Copied    int64               `json:"copiedBytes"`
	Compacted int                 `json:"compactedPacks"` // written anew to take less room: freedBytes has that, too
	Freed     int64               `json:"freedBytes"`
	Left      int64               `json:"leftBytes"` // that nothing needs, and that stay for now
	Over      int64               `json:"overBytes"` // by which what must stay is above --max-size
	Unpushed  int                 `json:"unpushed"`  // that stay only until they are in a remote
	Damage    []string            `json:"damage"`    // for which packs stayed
	Problems  []jsonProblem       `json:"problems"`
}

type jsonPrunedSession struct {
	Session string `json:"session"`
	jsonRoot
	Dropped int       `json:"dropped"`
	Kept    int       `json:"kept"`
	Newest  time.Time `json:"newest"` // of those that are dropped
}

func newPruneAnswer(plan *retain.PrunePlan, dryRun bool) *pruneAnswer {
	j := &pruneAnswer{DryRun: dryRun, Kept: plan.Kept, Dropped: len(plan.Dropped), Sessions: []jsonPrunedSession{},
		Packs: plan.Packs, Copied: plan.Copy, Freed: plan.Free, Left: plan.Left, Over: plan.Over,
		Unpushed: plan.Unpushed,
		Damage:   []string{}, Problems: newJSONProblems(plan.Problems)}
	for _, s := range plan.Sessions {
		j.Sessions = append(j.Sessions,
			jsonPrunedSession{s.Session, newJSONRoot(s.Root), s.Dropped, s.Kept, s.Newest.UTC()})
	}
	return j
}

func (a *app) prune(cmd *cobra.Command, f *pruneFlags) error {
	ctx := cmd.Context()
	s, err := a.openStore(ctx, f.dryRun, false)
	if err != nil {
		return err
	}
	defer s.Close()
	plan, err := a.planPrune(ctx, s, f)
	if err != nil {
		return err
	}
	listed := false
	if f.dropSession && !f.dryRun && !f.yes && len(plan.Dropped) > 0 {
		if listed = a.canAsk(); listed {
			a.printDropped(plan)
		}
		what := fmt.Sprintf("%s of session %s", words.Count(len(plan.Dropped), "snapshot"), a.flags.session)
		if err := a.confirm(cmd, "prune", what+" would be dropped", "drop "+what+" for good?"); err != nil {
			return err
		}
	}
	j := newPruneAnswer(plan, f.dryRun)
	if !f.dryRun {
		if err := a.doPrune(ctx, s, plan, j); err != nil {
			return err
		}
	}
	if a.flags.json {
		err = a.printJSON(j)
	} else {
		if !listed {
			a.printDropped(plan)
		}
		a.printPrune(j, plan, f)
	}
	switch {
	case err != nil:
		return err
	case f.dryRun && len(j.Problems) > 0, len(j.Damage) > 0:
		return &failure{code: exitDamage}
	case f.dryRun && !plan.Empty():
		return &failure{code: exitRefused}
	case j.Over > 0:
		return &failure{code: exitPart}
	}
	return nil
}

// doPrune does what a plan says, and compacts behind that.
func (a *app) doPrune(ctx context.Context, s *cas.Store, plan *retain.PrunePlan, j *pruneAnswer) error {
	shown, stop := a.showProgress(ctx)
	defer stop()
	r, err := plan.Do(shown)
	if err != nil {
		return err
	}
	j.Dropped, j.Packs, j.Copied, j.Freed = r.Dropped, r.Packs, r.Copied, r.Freed
	for _, why := range r.Kept {
		j.Damage = append(j.Damage, why.Error())
	}
	limitGarbage(compactGarbage)
	c, err := retain.CompactSealed(shown, s)
	if c != nil {
		j.Compacted = c.Packs
		j.Freed += c.Freed
	}
	return cmp.Or(err, context.Cause(ctx))
}

// planPrune finds out what there is to prune, of the session that is named if one is.
func (a *app) planPrune(ctx context.Context, s *cas.Store, f *pruneFlags) (*retain.PrunePlan, error) {
	if a.flags.session != "" {
		var names []string
		for one, err := range s.Sessions(ctx) {
			if err != nil {
				return nil, err
			}
			names = append(names, one.Session)
		}
		var err error
		if a.flags.session, err = a.completeName(a.flags.session, names); err != nil {
			return nil, err
		}
	}
	ctx, stop := a.showProgress(ctx)
	defer stop()
	return retain.PlanPrune(ctx, s, &retain.Retention{KeepLast: f.keepLast, KeepWithin: f.keepWithin,
		Session: a.flags.session, DropSession: f.dropSession, KeepDeleted: f.keepDeleted,
		MaxBytes: max(f.maxSize, 0), DespiteDamage: f.despite, Wait: f.wait, Alone: true})
}

// printDropped lists the sessions of which snapshots go.
func (a *app) printDropped(plan *retain.PrunePlan) {
	for _, s := range plan.Sessions {
		fmt.Fprintf(a.out, "%s  %s: %d of %s, the newest from %s\n", a.paint(asName, s.Session), words.Quote(s.Root),
			s.Dropped, words.Count(s.Dropped+s.Kept, "snapshot"), clock(s.Newest))
	}
}

func (a *app) printPrune(j *pruneAnswer, plan *retain.PrunePlan, f *pruneFlags) {
	dropped, freed := "dropped", "freed"
	if j.DryRun {
		dropped, freed = "would drop", "would free"
	}
	fmt.Fprintf(a.out, "%s %s of %d, %s %s", dropped, words.Count(j.Dropped, "snapshot"), j.Dropped+j.Kept, freed,
		words.Size(max(j.Freed, 0)))
	if j.Copied > 0 {
		fmt.Fprintf(a.out, ", %s written anew", words.Size(j.Copied))
	}
	fmt.Fprintln(a.out)
	switch {
	case j.Dropped == 0 && !f.hasRule():
		a.note("no rule says which snapshots go: --keep-last, --keep-within, --keep-deleted and --max-size do")
	case j.Dropped > 0 && j.Freed <= 0 && j.Left < worthSaying:
		a.note("what they have is in snapshots that stay, too, or in files of the store that mostly are needed")
	}
	if j.Left >= worthSaying {
		a.tell("%s more are not needed any more, but lie in files of the store that mostly are, "+
			"or that there is no room to write anew now", words.Size(j.Left))
	}
	if plan.Unpushed > 0 {
		a.tell("%s would go, but stay until they are in the remotes of this project: 'snapctl remote push'",
			words.Count(plan.Unpushed, "snapshot"))
	}
	a.sayProblems(plan.Problems)
	for _, why := range j.Damage {
		a.tell("left for 'snapctl repair': %s", words.Plain(why))
	}
	if j.Over > 0 {
		a.tell("the store is still %s above %s: the snapshots that are left are too new to be dropped, or the newest "+
			"of a session or directory", words.Size(j.Over), words.Size(f.maxSize))
	}
}

// worthSaying is how many dead bytes are mentioned that stay.
const worthSaying = 1 << 20
