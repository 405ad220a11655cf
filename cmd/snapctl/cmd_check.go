package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

func (a *app) checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Verify the store",
		Args:  args(0, 0),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if f.readData && f.resume || f.sample != 0 && (f.readData || f.resume) {
				return usageError(cmd, "check: more than one of --read-data, --resume and --sample")
			}
			return nil
		},
		RunE: a.reading(func(cmd *cobra.Command, p *place, _ []string) error { return a.check(cmd.Context(), p, &f) }),
	}
	c.Flags().BoolVar(&f.readData, "read-data", false, "read all content and verify its hashes")
	c.Flags().BoolVar(&f.resume, "resume", false,
		"continue reading content where the last check got to, or was interrupted")
	addParsed(c.Flags(), &f.sample, parsePercent, "sample",
		"read `PART` of the content, as 5%, and the next time what comes behind it")
	return c
}

type checkFlags struct {
	readData, resume bool
	sample           float64 // percent; 0: all, or nothing
}

// reads reports whether content is read.
func (f *checkFlags) reads() bool { return f.readData || f.resume || f.sample != 0 }

// A checkAnswer is what check prints as JSON.
type checkAnswer struct {
	*cas.Report
	ReadData bool          `json:"readData"`              // all content has been read, here or by the parts before
	Content  int64         `json:"contentRead,omitempty"` // bytes of packs that were read here
	Damage   []jsonDamage  `json:"damage"`
	Problems []jsonProblem `json:"problems"`
	Accepted []jsonLoss    `json:"accepted"`           // lost for good, as somebody has accepted
	Concerns []string      `json:"concerns,omitempty"` // about the place of the store, for people
}

// A jsonDamage is a damaged place in a file of the store.
type jsonDamage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Error  string `json:"error"`
}

func (d jsonDamage) String() string {
	return fmt.Sprintf("%s at offset %d: %s", d.File, d.Offset, d.Error)
}

// A jsonProblem is a path that a snapshot cannot give back.
type jsonProblem struct {
	EntryID string `json:"entryId"`       // "": of one that no entry names
	Rev     string `json:"rev,omitempty"` // that names the snapshot; "": of no one in particular
	jsonPath
	Error string `json:"error"`
}

// newJSONProblems returns those of no snapshot in particular.
func newJSONProblems(problems []trees.Problem) []jsonProblem {
	list := []jsonProblem{}
	for _, p := range problems {
		list = append(list, jsonProblem{jsonPath: newJSONPath(p.Path), Error: p.Err.Error()})
	}
	return list
}

// sayProblems lists what snapshots cannot give back.
func (a *app) sayProblems(problems []trees.Problem) {
	for _, p := range problems {
		a.tell("%s", words.Plain(p.Text(words.Quote)))
	}
}

// A jsonLoss is damage that was accepted: in a file of the store, or at a path of a
// snapshot.
type jsonLoss struct {
	File    string    `json:"file,omitempty"`
	Offset  int64     `json:"offset,omitempty"`
	EntryID string    `json:"entryId,omitempty"`
	Rev     string    `json:"rev,omitempty"` // as jsonProblem has it
	In      *jsonPath `json:"in,omitempty"`
	Error   string    `json:"error"`
	At      time.Time `json:"at"`
}

func (a *app) check(ctx context.Context, p *place, f *checkFlags) error {
	ctx, stop := a.showProgress(ctx)
	defer stop()
	dir := p.m.StoreDir()
	report, err := p.store.Check(ctx, false)
	if err != nil {
		return err
	}
	j := &checkAnswer{Report: report, Problems: []jsonProblem{}, Accepted: []jsonLoss{}}
	if err := j.addLost(ctx, p.store); err != nil {
		return err
	}
	structure := len(report.Damage)
	if f.reads() {
		if err := j.readContent(ctx, p.store, dir, f); err != nil {
			return err
		}
	}
	places, err := places.Check(p.store)
	if err != nil {
		return err
	}
	if places != nil {
		report.Damage = append(report.Damage, places)
	}
	_, turns, err := history.SpoiltTurns(p.store)
	if err != nil {
		return err
	}
	report.Damage = append(report.Damage, turns...)
	j.Damage = jsonDamages(report.Damage)
	if err := j.checkSnapshots(ctx, p.store); err != nil {
		return err
	}
	// Advice, which a store that cannot be written does without.
	err = health.Change(dir, func(h *health.Health) {
		h.NoteBad(report.Damage)
		h.NoteChecked(structure+len(j.Problems), time.Now())
	})
	if err != nil {
		a.log.Debug("check not remembered", "err", err)
	}
	if j.Concerns, err = cas.Concerns(dir); err != nil {
		return err
	}
	stop()
	if a.flags.json {
		err = a.printJSON(j)
	} else {
		a.printCheck(j)
	}
	a.warner.listed(j.Damage)
	if err == nil && len(j.Damage)+len(j.Problems) > 0 {
		err = &failure{code: exitDamage, hint: "'snapctl repair' mends what can be mended"}
	}
	return err
}

// addLost adds what the journal has lost, and whether that was accepted.
func (j *checkAnswer) addLost(ctx context.Context, s *cas.Store) error {
	for _, d := range j.Report.Accepted {
		j.Accepted = append(j.Accepted, jsonLoss{File: d.Path, Offset: d.Off, Error: d.Err.Error(), At: d.At})
	}
	lost, err := history.LostRecords(ctx, s)
	for _, l := range lost {
		if l.Accepted.IsZero() {
			j.Report.Damage = append(j.Report.Damage, l.Damage)
		} else {
			j.Accepted = append(j.Accepted, jsonLoss{File: l.Damage.Path, Error: l.Damage.Err.Error(), At: l.Accepted})
		}
	}
	return err
}

// readContent reads the part of the content that is asked for.
func (j *checkAnswer) readContent(ctx context.Context, s *cas.Store, dir string, f *checkFlags) error {
	if f.readData {
		health.CheckFromStart(dir)
	}
	part := int64(float64(j.Report.Bytes) * f.sample / 100)
	damage, read, ended, err := health.CheckNext(ctx, s, dir, part)
	if errors.Is(err, context.Canceled) {
		return &failure{exitInterrupted, fmt.Errorf("check: interrupted, %s read, %s", words.Size(read),
			words.Count(len(damage), "damaged object")), "'snapctl check --resume' continues"}
	}
	j.Content, j.ReadData, j.Report.Damage = read, ended, append(j.Report.Damage, damage...)
	return err
}

// checkSnapshots finds what snapshots cannot give back.
func (j *checkAnswer) checkSnapshots(ctx context.Context, s *cas.Store) error {
	done := progress.Of(ctx)
	done.Begin(progress.Phase{Name: "checking", Unit: "snapshot", Items: int64(j.Snapshots)})
	return audit.NewChecker(s).Each(ctx, s.Snapshots(ctx), func(snap *store.Snapshot, problems []trees.Problem) error {
		done.Count(1, 0)
		for _, p := range problems {
			path, rev := newJSONPath(p.Path), history.NameOf(snap.Entry, snap)
			if p.At.IsZero() {
				j.Problems = append(j.Problems, jsonProblem{snap.Entry, rev, path, p.Err.Error()})
			} else {
				j.Accepted = append(j.Accepted,
					jsonLoss{EntryID: snap.Entry, Rev: rev, In: &path, Error: p.Err.Error(), At: p.At})
			}
		}
		return nil
	})
}

func (a *app) printCheck(j *checkAnswer) {
	for _, d := range j.Damage {
		fmt.Fprintln(a.out, d)
	}
	for _, p := range j.Problems {
		fmt.Fprintf(a.out, "snapshot %s: %s: %s\n", p.Rev, words.Quote(cmp.Or(p.raw(), ".")), p.Error)
	}
	if a.flags.quiet {
		return
	}
	for _, l := range j.Accepted {
		where := l.File + " at offset " + strconv.FormatInt(l.Offset, 10)
		if l.In != nil {
			where = "snapshot " + l.Rev + ": " + words.Quote(cmp.Or(l.In.raw(), "."))
		}
		fmt.Fprintf(a.out, "%s: %s: lost, accepted on %s\n", where, l.Error, l.At.Local().Format(time.DateOnly))
	}
	for _, c := range j.Concerns {
		a.note("note: %s", c)
	}
	verdict := "no damage"
	if n := len(j.Damage) + len(j.Problems); n > 0 {
		verdict = words.Count(n, "problem")
	}
	if n := len(j.Accepted); n == 1 {
		verdict += ", beside a loss that was accepted"
	} else if n > 1 {
		verdict += fmt.Sprintf(", beside %d losses that were accepted", n)
	}
	how := "structure"
	switch {
	case j.ReadData:
		how = "all content"
	case j.Content > 0:
		how = "structure, and " + words.Size(j.Content) + " of content,"
	}
	fmt.Fprintf(a.out, "checked %s of %s, %s, %s, %s: %s\n", how, words.Count(j.Snapshots, "snapshot"),
		words.Count(j.Objects, "object"), words.Count(j.Packs, "pack"), words.Size(j.Bytes), verdict)
}
