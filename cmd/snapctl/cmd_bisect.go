package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/internal/bisect"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/scratch"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// A bisectFlags are the flags of bisect run, and of bisect start.
type bisectFlags struct {
	good, bad string
	links     []string
	clean     bool

	setup   string
	timeout time.Duration
	keep    bool
	verify  bool
}

func (f *bisectFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.good, "good", "", "a `REV` that is good (default: the oldest, or the start of --session)")
	flags.StringVar(&f.bad, "bad", "", "a `REV` that is bad (default: the newest)")
	flags.StringArrayVar(&f.links, "link", nil,
		"have `PATH` of your directory there, too, by a symbolic link: what is not captured, as node_modules")
	flags.BoolVar(&f.clean, "clean", false, "remove what commands have made before each step")
}

func (a *app) bisectCommand() *cobra.Command {
	c := &cobra.Command{Use: "bisect COMMAND", Short: "Find the turn that broke something",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(cmd, "bisect: no command %q", args[0])
			}
			return usageError(cmd, "bisect: no COMMAND: run, or by hand start, good, bad, skip, log, reset")
		}}
	var f bisectFlags
	run := &cobra.Command{Use: "run [flags] -- COMMAND [ARG]...", Short: "Ask a command of one state after another",
		Args: args(1, 1<<20),
		RunE: a.bisecting(func(cmd *cobra.Command, p *place, args []string) error {
			return a.bisectRun(cmd.Context(), p, &f, args)
		})}
	f.add(run.Flags())
	run.Flags().StringVar(&f.setup, "setup", "", "a command line `CMD` for sh to run before, as for building; "+
		"if it fails the state is skipped")
	run.Flags().DurationVar(&f.timeout, "timeout", 0, "skip a state of which the command takes longer than `TIME`")
	run.Flags().BoolVar(&f.keep, "keep", false, "leave the scratch directory, in the state that was found")
	run.Flags().BoolVar(&f.verify, "verify", false, "ask of the last good one and the first bad one once more")
	run.Flags().SetInterspersed(false)
	c.AddCommand(run)
	a.addBisectByHand(c)
	return c
}

// bisecting is reading, also from within a scratch directory.
func (a *app) bisecting(fn func(*cobra.Command, *place, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.flags.root == "" {
			a.leaveScratch()
		}
		return a.reading(fn)(cmd, args)
	}
}

// bisectRun finds the first bad state with a command.
func (a *app) bisectRun(ctx context.Context, p *place, f *bisectFlags, command []string) (err error) {
	if f.timeout < 0 {
		return &failure{exitUsage, fmt.Errorf("--timeout %v: want more than 0", f.timeout), ""}
	}
	if filepath.Base(command[0]) == command[0] {
		if _, err := exec.LookPath(command[0]); err != nil {
			return &failure{exitUsage, fmt.Errorf("bisect: %w", err), ""}
		}
	}
	b, err := p.beginBisect(ctx, f)
	if err != nil {
		return err
	}
	b.setup, b.timeout, b.command = f.setup, f.timeout, command
	defer func() { err = b.finish(f.keep, err) }()
	if err := b.checkEnds(ctx); err != nil {
		return err
	}
	a.note("%s between, about %s", words.Count(b.search.Left(), "state"), words.Count(b.search.Steps(), "step"))
	for {
		i, ok := b.search.Next()
		if !ok {
			break
		}
		o, err := b.step(ctx, i)
		if err == nil {
			err = b.search.Say(i, o.verdict)
		}
		if err != nil {
			return err
		}
	}
	if f.verify {
		if err := b.verify(ctx); err != nil {
			return err
		}
	}
	if f.keep {
		_, to := b.search.Result()
		if _, err := b.become(ctx, to); err != nil {
			return err
		}
	}
	return b.sayResult(ctx)
}

// beginBisect makes the scratch directory, and keeps other bisects of the directory away. What
// a process has left that was killed goes.
func (p *place) beginBisect(ctx context.Context, f *bisectFlags) (*bisection, error) {
	lock, err := p.lockBisect()
	if err != nil {
		return nil, err
	}
	path := p.bisectFile(layout.Worktree.Bisect)
	var b *bisection
	isByHand, err := p.isBisecting()
	switch {
	case isByHand:
		err = refuse("'snapctl bisect log' says how far it is, 'snapctl bisect reset' ends it",
			"a bisect by hand is under way in %s", words.Quote(p.project.Root))
	case err == nil:
		b, err = p.newBisection(ctx, f)
	}
	if err == nil {
		err = scratch.Remove(path)
	}
	if err == nil {
		b.dir, err = scratch.Open(ctx, path, p.store, store.ID{})
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	b.lock = lock
	return b, nil
}

// finish removes the scratch directory, or says where it is, behind what has become of the
// bisect.
func (b *bisection) finish(keep bool, err error) error {
	defer b.lock.Close()
	state := "the scratch directory was removed"
	if keep {
		state = "the scratch directory is kept: " + words.Quote(b.dir.Tree())
		b.app.note("%s; 'snapctl bisect reset' removes it", state)
	} else if rerr := b.dir.Remove(); rerr != nil {
		state = "the scratch directory is left: " + words.Quote(b.dir.Tree())
		b.app.log.Warn("scratch directory not removed", "err", rerr)
	}
	if errors.Is(err, context.Canceled) {
		err = &failure{exitInterrupted, fmt.Errorf("bisect: interrupted, %s", state), ""}
	}
	return err
}

// step asks of one state, and says what came of it. A command that says that it cannot go on
// is an error.
func (b *bisection) step(ctx context.Context, i int) (*answer, error) {
	o, err := b.ask(ctx, i)
	if err != nil {
		return nil, err
	}
	if err := b.say(ctx, i, o); err != nil {
		return nil, err
	}
	b.app.out.Flush()
	if o.abort {
		return nil, refuse("exit codes: 0 is good, 125 skips, others below 128 are bad; a crash of the program is "+
			"bad if sh says so: sh -c 'COMMAND || exit 1'",
			"bisect: stopped at %s: %q ended with %d", b.stops[i].what(), b.command[0], o.code)
	}
	return o, nil
}

// checkEnds asks of both ends, which are to be what was said of them.
func (b *bisection) checkEnds(ctx context.Context) error {
	last := len(b.stops) - 1
	for _, end := range []struct {
		i    int
		want bisect.Verdict
		hint string
	}{
		{last, bisect.Bad, "what is on the disk now may not be recorded: 'snapctl snapshot' does it; " +
			"--bad REV names another end"},
		{0, bisect.Good, "--good REV names another end"},
	} {
		o, err := b.step(ctx, end.i)
		if err != nil {
			return err
		}
		switch what := b.stops[end.i].what(); {
		case o.verdict == bisect.Skipped:
			return refuse(end.hint, "bisect: %s, which is to be %s, cannot be asked of: %s", what, end.want, o.why)
		case o.verdict != end.want:
			return refuse(end.hint, "bisect: %s, which is to be %s, is %s", what, end.want, o.verdict)
		}
	}
	return nil
}

// verify asks of the last good state and the first bad one once more.
func (b *bisection) verify(ctx context.Context) error {
	from, to := b.search.Result()
	for _, i := range []int{from - 1, to} {
		o, err := b.step(ctx, i)
		if err != nil {
			return err
		}
		if was := b.search.Verdict(i); o.verdict != was {
			return refuse("the command does not say the same of the same files: have it do so, or run it several "+
				"times in each step", "bisect: %s was %s, and is %s now", b.stops[i].what(), was, o.verdict)
		}
	}
	return nil
}

// leaveScratch has the command work on the directory of which a bisect has the state, if the
// user is in its scratch directory.
func (a *app) leaveScratch() {
	cwd, err := a.getwd()
	if err != nil {
		return
	}
	for dir := cwd; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Dir(dir)
		if scratch.TreeOf(path) != dir {
			continue
		}
		wt := filepath.Dir(path)
		st, err := readBisectState(filepath.Join(wt, filepath.Base(layout.Worktree("").BisectState())))
		if err == nil && filepath.Base(filepath.Dir(wt)) == layout.Worktrees {
			a.flags.root, a.flags.store = st.Root, filepath.Dir(filepath.Dir(filepath.Dir(wt)))
			return
		}
	}
}
