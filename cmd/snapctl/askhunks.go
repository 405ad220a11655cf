package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// addHunks adds the flags by which single hunks are taken back.
func (f *restoreFlags) addHunks(c *cobra.Command) {
	c.Flags().BoolVarP(&f.asksHunks, "patch", "p", false,
		"show the pieces of what would be taken back, and ask for each")
	c.Flags().StringSliceVar(&f.hunks, "hunks", nil, "take back only these pieces: `ID`s as 'diff --hunks' lists them")
}

// checkHunks refuses flags that do not go together.
func (a *app) checkHunks(cmd *cobra.Command, f *restoreFlags) error {
	switch {
	case f.asksHunks && len(f.hunks) > 0:
		return usageError(cmd, "%s: -p and --hunks", cmd.Name())
	case cmd.Flags().Changed("hunks") && len(f.hunks) == 0:
		return usageError(cmd, "%s: --hunks names none", cmd.Name())
	case (f.asksHunks || len(f.hunks) > 0) && f.exact:
		return usageError(cmd, "%s: --exact takes files whole", cmd.Name())
	case f.asksHunks && !a.canAsk():
		return &failure{exitUsage, fmt.Errorf("%s: -p asks on a terminal, and there is none", cmd.Name()),
			"'snapctl diff --hunks --turn REV' lists pieces of what a turn did; to take some back: " +
				"'snapctl " + cmd.Name() + " --hunks ID,ID'"}
	}
	return nil
}

// hintOfHunks has an error about hunks say how to list them.
func (f *restoreFlags) hintOfHunks(err error) error {
	isAbout := errors.Is(err, manager.ErrUnknown) || errors.Is(err, manager.ErrAmbiguous) ||
		errors.Is(err, manager.ErrNothing)
	if len(f.hunks) == 0 || !isAbout {
		return err
	}
	return &failure{exitRefused, err,
		"'snapctl diff --hunks --turn REV' lists the hunks of a turn, and says which are taken back"}
}

// askHunks asks which hunks are to be taken back of those that are offered, if that is
// wanted. run would take all back.
func (p *place) askHunks(cmd *cobra.Command, f *restoreFlags,
	run func(preview bool) (*manager.RestoreResult, error)) error {
	if !f.asksHunks {
		return nil
	}
	if _, err := run(true); err != nil {
		return err
	}
	f.always = false // it is asked for each
	a := p.app
	c := &hunkChooser{app: a, parts: make(map[string][]manager.Hunk), answers: make(map[string]bool)}
	done := 0
	f.offered.Parts, f.offered.Context = true, 3
	list, err := allHunks(cmd.Context(), p, f.offered)
	if err != nil {
		return err
	}
	for _, h := range list {
		switch {
		case h.PartOf != "" && h.State == "done":
		case h.PartOf != "":
			c.parts[h.PartOf] = append(c.parts[h.PartOf], h)
		case h.State == "done":
			done++
		default:
			c.hunks = append(c.hunks, h)
		}
	}
	if done > 0 {
		a.note("%s not asked for: taken back already, or as they were before", words.Count(done, "hunk"))
	}
	if err := c.run(cmd); err != nil {
		return err
	}
	for _, h := range c.hunks {
		if c.answers[h.ID] && !slices.Contains(f.hunks, h.ID) {
			f.hunks = append(f.hunks, h.ID)
		}
	}
	if len(f.hunks) == 0 {
		return refuse("", "no hunk was chosen: nothing was changed")
	}
	return nil
}

// A hunkChooser asks for hunks one by one.
type hunkChooser struct {
	app     *app
	hunks   []manager.Hunk
	parts   map[string][]manager.Hunk // by ID
	answers map[string]bool           // by ID; those that are not there are undecided
}

const hunkAnswers = `y - take back this hunk
n - leave it
q - leave it and all that were not decided yet, and go on
a - take it back, and all after it in the file
d - leave it, and all after it in the file
j - leave it undecided, see the next one that is
k - leave it undecided, see the one before
s - divide it into smaller ones
? - this help`

// run asks until all are decided. An error says that nothing is to be done.
func (c *hunkChooser) run(cmd *cobra.Command) error {
	a := c.app
	for i := 0; ; {
		if i = c.undecided(i, 1); i < 0 {
			return nil
		}
		h := &c.hunks[i]
		c.show(h)
		before, next := c.undecided(i-1, -1), c.undecided(i+1, 1)
		keys := "y,n,q,a,d"
		if next >= 0 && next != i {
			keys += ",j,k"
		}
		if len(c.parts[h.ID]) > 0 {
			keys += ",s"
		}
		answer, ok := a.answer(cmd.Context(), "(%d/%d) take back this hunk [%s,?]? ", i+1, len(c.hunks), keys)
		if !ok {
			return refuse("", "nothing was changed")
		}
		answer = strings.ToLower(answer)
		if answer != "?" && !slices.Contains(strings.Split(keys, ","), answer) {
			answer = "?"
		}
		switch answer {
		case "y", "n":
			c.answers[h.ID] = answer == "y"
		case "q":
			return nil
		case "a", "d":
			for j := i; j < len(c.hunks) && c.hunks[j].Path == h.Path; j++ {
				if _, is := c.answers[c.hunks[j].ID]; !is {
					c.answers[c.hunks[j].ID] = answer == "a"
				}
			}
		case "j":
			i = next
		case "k":
			i = before
		case "s":
			parts := c.parts[h.ID]
			a.tell("divided into %s", words.Count(len(parts), "hunk"))
			c.hunks = slices.Replace(c.hunks, i, i+1, parts...)
		default:
			for line := range strings.Lines(hunkAnswers) {
				if key, _, _ := strings.Cut(line, " "); key == "?" || slices.Contains(strings.Split(keys, ","), key) {
					a.tell("%s", strings.TrimSuffix(line, "\n"))
				}
			}
		}
	}
}

// undecided returns the first hunk that is not decided, from one on, round and round; -1:
// there is none.
func (c *hunkChooser) undecided(from, by int) int {
	n := len(c.hunks)
	for j := range n {
		i := ((from+by*j)%n + n) % n
		if _, is := c.answers[c.hunks[i].ID]; !is {
			return i
		}
	}
	return -1
}

// show prints a hunk where it is asked for.
func (c *hunkChooser) show(h *manager.Hunk) {
	a := c.app
	a.tell("%s", a.paint(asHeading, words.Quote(h.Path)))
	a.out.Flush()
	a.stderr.Write(a.hunkText(h, true))
}
