package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/bisect"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/scratch"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// A bisectState is how far a bisect by hand is: the file worktrees/<wt>/bisect.state. Looks
// are named by their numbers.
type bisectState struct {
	Version int       `json:"v"`
	Root    string    `json:"root"`
	Good    uint64    `json:"good"`
	Bad     uint64    `json:"bad"`
	Now     uint64    `json:"now,omitempty"` // which the user is asked of; 0: none
	Tree    store.ID  `json:"tree,omitzero"` // that the scratch directory has; zero: nobody knows
	Links   []string  `json:"links,omitempty"`
	Clean   bool      `json:"clean,omitempty"`
	Said    []verdict `json:"said"`
}

// A verdict is what the user has said of a look.
type verdict struct {
	Look uint64         `json:"look"`
	Is   bisect.Verdict `json:"is"`
	Time time.Time      `json:"time"`
	Why  string         `json:"why,omitempty"` // it was skipped without asking
}

const bisectVersion = 1

func readBisectState(file string) (*bisectState, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	st := new(bisectState)
	text, err := cas.CutSum(b)
	if err == nil {
		err = json.Unmarshal(text, st)
	}
	if err == nil && st.Version != bisectVersion {
		err = fmt.Errorf("%w: version %d", store.ErrFormat, st.Version)
	}
	if err != nil {
		return nil, &failure{exitDamage, fmt.Errorf("how far the bisect is cannot be read: %w", err),
			"'snapctl bisect reset' ends it"}
	}
	return st, nil
}

// isBisecting reports whether a bisect by hand was begun, and not ended.
func (p *place) isBisecting() (bool, error) {
	_, err := os.Lstat(p.bisectFile(layout.Worktree.BisectState))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (a *app) addBisectByHand(c *cobra.Command) {
	var f bisectFlags
	start := &cobra.Command{Use: "start [flags]", Short: "Begin by hand", Args: args(0, 0),
		RunE: a.bisecting(func(cmd *cobra.Command, p *place, _ []string) error {
			return a.bisectStart(cmd.Context(), p, &f)
		})}
	f.add(start.Flags())
	c.AddCommand(start)
	for _, say := range []struct {
		name, short string
		is          bisect.Verdict
	}{
		{"good", "Say that a state is good (default: the one that is there)", bisect.Good},
		{"bad", "Say that a state is bad", bisect.Bad},
		{"skip", "Say that nobody can tell of a state", bisect.Skipped},
	} {
		c.AddCommand(&cobra.Command{Use: say.name + " [REV]", Short: say.short, Args: args(0, 1),
			RunE: a.bisecting(func(cmd *cobra.Command, p *place, args []string) error {
				return p.bisectSay(cmd.Context(), args, say.is)
			})})
	}
	c.AddCommand(&cobra.Command{Use: "log", Short: "List what was said", Args: args(0, 0),
		RunE: a.bisecting(func(cmd *cobra.Command, p *place, _ []string) error { return p.bisectLog(cmd.Context()) })})
	c.AddCommand(&cobra.Command{Use: "reset", Short: "End it, and remove the scratch directory", Args: args(0, 0),
		RunE: a.bisecting(func(_ *cobra.Command, p *place, _ []string) error { return p.bisectReset() })})
}

func (a *app) bisectStart(ctx context.Context, p *place, f *bisectFlags) error {
	b, err := p.beginBisect(ctx, f)
	if err != nil {
		return err
	}
	defer b.lock.Close()
	st := &bisectState{Version: bisectVersion, Root: p.project.Root, Good: b.stops[0].Seq(),
		Bad: b.stops[len(b.stops)-1].Seq(), Links: f.links, Clean: f.clean, Said: []verdict{}}
	err = b.goOn(ctx, st)
	if _, isMore := b.search.Next(); err != nil && isMore { // nothing has begun
		err = errors.Join(err, b.removeBisect())
	}
	return err
}

// resumeBisect goes on with a bisect by hand.
func (p *place) resumeBisect(ctx context.Context) (*bisection, *bisectState, error) {
	st, err := readBisectState(p.bisectFile(layout.Worktree.BisectState))
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse("'snapctl bisect start' begins one", "no bisect by hand is under way in %s",
			words.Quote(p.project.Root))
	}
	if err != nil {
		return nil, nil, err
	}
	list, err := p.stops(ctx)
	if err != nil {
		return nil, nil, err
	}
	good, bad := stopAt(list, st.Good), stopAt(list, st.Bad)
	if good < 0 || good >= bad {
		return nil, nil, refuse("'snapctl bisect reset' ends it", "an end of the bisect was pruned")
	}
	b := p.bisectionOf(list[good : bad+1])
	for _, v := range st.Said {
		if i := stopAt(b.stops, v.Look); i > 0 && i < len(b.stops)-1 {
			if err := b.search.Say(i, v.Is); err != nil {
				return nil, nil, refuse("'snapctl bisect reset' ends it", "bisect: %s: %w", b.stops[i].what(), err)
			}
		}
	}
	return b, st, b.set(st.Links, st.Clean)
}

// bisectSay takes what the user says of a state, and goes on to the next.
func (p *place) bisectSay(ctx context.Context, args []string, is bisect.Verdict) error {
	lock, err := p.lockBisect()
	if err != nil {
		return err
	}
	defer lock.Close()
	b, st, err := p.resumeBisect(ctx)
	if err != nil {
		return err
	}
	i := stopAt(b.stops, st.Now)
	_, isMore := b.search.Next()
	switch {
	case len(args) > 0:
		i, err = b.findBetween(ctx, args[0])
	case st.Now == 0 && isMore: // it was cut off before a state was there
		a := b.app
		a.tell("snapctl: bisect: no state was there of which something could be said; this one is:")
		return errors.Join(p.openScratch(ctx, b, st), b.goOn(ctx, st))
	case st.Now == 0 || i < 0:
		err = refuse("'snapctl bisect reset' ends it", "bisect: nothing is left to ask of")
	}
	if err != nil {
		return err
	}
	if err := b.search.Say(i, is); err != nil {
		return refuse("'snapctl bisect log' lists what was said", "bisect: %s: %w", b.stops[i].what(), err)
	}
	st.Said = append(st.Said, verdict{Look: b.stops[i].Seq(), Is: is, Time: time.Now().UTC()})
	if err := p.openScratch(ctx, b, st); err != nil {
		return err
	}
	return b.goOn(ctx, st)
}

// findBetween returns the index of the state that a REV names, which is to be between the ends.
func (b *bisection) findBetween(ctx context.Context, text string) (int, error) {
	list, err := b.place.stops(ctx)
	if err != nil {
		return 0, err
	}
	at, err := b.find(ctx, list, text)
	if err != nil {
		return 0, err
	}
	i := stopAt(b.stops, list[at].first)
	if i < 0 || b.stops[i].first != list[at].first {
		return 0, refuse("'snapctl bisect log' lists both ends", "bisect: %s is not between the ends", list[at].what())
	}
	return i, nil
}

// openScratch opens the scratch directory. Where nobody knows what it has, it is made anew.
func (p *place) openScratch(ctx context.Context, b *bisection, st *bisectState) (err error) {
	path := p.bisectFile(layout.Worktree.Bisect)
	if st.Tree.IsZero() {
		if err := scratch.Remove(path); err != nil {
			return err
		}
	}
	b.dir, err = scratch.Open(ctx, path, p.store, st.Tree)
	return err
}

// goOn goes on to the next state of which to ask, and writes down how far it is.
func (b *bisection) goOn(ctx context.Context, st *bisectState) error {
	a := b.app
	for {
		st.Now = 0
		i, ok := b.search.Next()
		if !ok {
			if err := b.save(st); err != nil {
				return err
			}
			a.note("the scratch directory is there until 'snapctl bisect reset'")
			return b.sayResult(ctx)
		}
		st.Tree = store.ID{} // until it is whole
		if err := b.save(st); err != nil {
			return err
		}
		o, err := b.become(ctx, i)
		if err != nil {
			return err
		}
		if o.verdict == bisect.Skipped {
			if err := errors.Join(b.say(ctx, i, o), b.search.Say(i, o.verdict)); err != nil {
				return err
			}
			st.Said = append(st.Said, verdict{b.stops[i].Seq(), o.verdict, time.Now().UTC(), o.why})
			continue
		}
		st.Now, st.Tree = b.stops[i].Seq(), b.stops[i].State.Tree
		if err := b.save(st); err != nil {
			return err
		}
		return b.sayNext(ctx, i)
	}
}

// save writes down how far the bisect is.
func (b *bisection) save(st *bisectState) error {
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	file := layout.Worktree(b.project.Worktree).BisectState()
	return layout.WriteFile(vfs.OS(b.m.StoreDir()), file, cas.AppendSum(text))
}

// A nextAnswer is what bisect prints as JSON by hand, as long as it goes on.
type nextAnswer struct {
	*jsonStop
	jsonPath     // where its files are
	Left     int `json:"left"`  // states that may be the first bad one, and of which nothing was said
	Steps    int `json:"steps"` // about how many of them will be asked of
}

// sayNext prints of which state is to be said something.
func (b *bisection) sayNext(ctx context.Context, i int) error {
	a := b.app
	left, steps := b.search.Left(), b.search.Steps()
	if a.flags.json {
		return a.printJSON(&nextAnswer{b.newJSONStop(ctx, b.stops[i]), newJSONPath(b.dir.Tree()), left, steps})
	}
	line := a.newLine()
	line.add(asHeading, b.stops[i].what())
	line.end(b.titleOf(ctx, b.stops[i]))
	fmt.Fprintln(a.out, "its files are in "+words.Quote(b.dir.Tree()))
	a.note("%s left, about %s; try it there, then 'snapctl bisect good', 'bad' or 'skip'", words.Count(left, "state"),
		words.Count(steps, "step"))
	return nil
}

// bisectLog lists what was said.
func (p *place) bisectLog(ctx context.Context) error {
	b, st, err := p.resumeBisect(ctx)
	if err != nil {
		return err
	}
	list := []verdict{{Look: st.Good, Is: bisect.Good}, {Look: st.Bad, Is: bisect.Bad}}
	for _, v := range append(list, st.Said...) {
		i := stopAt(b.stops, v.Look)
		if i < 0 {
			continue
		}
		if err := b.say(ctx, i, &answer{verdict: v.Is, code: -1, why: v.Why, change: new(scratch.Change)}); err != nil {
			return err
		}
	}
	return nil
}

// bisectReset ends a bisect by hand, and removes the scratch directory.
func (p *place) bisectReset() error {
	lock, err := p.lockBisect()
	if err != nil {
		return err
	}
	defer lock.Close()
	return p.removeBisect()
}

// removeBisect removes the scratch directory, and what is known of a bisect by hand.
func (p *place) removeBisect() error {
	err := os.Remove(p.bisectFile(layout.Worktree.BisectState))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, scratch.Remove(p.bisectFile(layout.Worktree.Bisect)))
}
