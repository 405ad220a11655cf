package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/bisect"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/scratch"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// A bisection looks for the first bad one of some states of the directory, each of which it
// has in a directory of its own.
type bisection struct {
	*place
	stops  []*stop // from the good end to the bad one
	search *bisect.Search
	dir    *scratch.Dir
	opts   scratch.Options

	oneSession bool // all turns are of one

	setup   string        // for a shell, before the command; "": nothing
	timeout time.Duration // of the command, and of setup; 0: none
	command []string
	lock    vfs.File // of all bisects of the directory
}

// bisectFile returns the path of something that a bisect keeps in the store.
func (p *place) bisectFile(name func(layout.Worktree) string) string {
	return filepath.Join(p.m.StoreDir(), filepath.FromSlash(name(layout.Worktree(p.project.Worktree))))
}

// lockBisect keeps other bisects of the directory away until the file is closed. The lock ends
// with this process, however that ends.
func (p *place) lockBisect() (vfs.File, error) {
	wt := layout.Worktree(p.project.Worktree)
	if err := os.MkdirAll(filepath.Join(p.m.StoreDir(), filepath.FromSlash(wt.Dir())), 0o700); err != nil {
		return nil, err
	}
	f, err := layout.OpenLock(vfs.OS(p.m.StoreDir()), wt.BisectLock())
	if err != nil {
		return nil, err
	}
	free, err := f.TryLock(vfs.Exclusive)
	if err == nil && !free {
		err = refuse("wait until it has ended", "another bisect is at work on %s", words.Quote(p.project.Root))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// newBisection finds the two ends, and what is between them.
func (p *place) newBisection(ctx context.Context, f *bisectFlags) (*bisection, error) {
	list, err := p.stops(ctx)
	if err != nil {
		return nil, err
	}
	good, bad := 0, len(list)-1
	if from := f.good; from != "" || p.app.sessionTyped {
		good, err = p.find(ctx, list, cmp.Or(from, "start"))
	}
	if to := f.bad; err == nil && (to != "" || p.app.sessionTyped) {
		bad, err = p.find(ctx, list, cmp.Or(to, "@"))
	}
	switch {
	case err != nil:
		return nil, err
	case good >= bad && f.good == "" && f.bad == "":
		return nil, refuse("'snapctl log' lists the turns", "bisect: nothing has changed since the first snapshot")
	case good >= bad:
		return nil, refuse("'snapctl log' lists the turns, the newest first",
			"bisect: %s, which is to be good, is not before %s, which is to be bad", list[good].what(),
			list[bad].what())
	}
	b := p.bisectionOf(list[good : bad+1])
	if err := b.set(f.links, f.clean); err != nil {
		return nil, err
	}
	return b, nil
}

func (p *place) bisectionOf(stops []*stop) *bisection {
	return &bisection{place: p, stops: stops, search: bisect.New(len(stops)), oneSession: oneSession(stops)}
}

// set says how the scratch directory is to be.
func (b *bisection) set(links []string, clean bool) error {
	b.opts = scratch.Options{Clean: clean, Links: make(map[string]string)}
	for _, arg := range links {
		path := filepath.ToSlash(filepath.Clean(arg))
		if filepath.IsAbs(arg) || path == "." || path == ".." || strings.HasPrefix(path, "../") {
			return &failure{exitUsage, fmt.Errorf("--link %q: want a path below %s", arg,
				words.Quote(b.project.Root)), ""}
		}
		target := filepath.Join(b.project.Root, filepath.FromSlash(path))
		if _, err := os.Lstat(target); err != nil {
			return &failure{exitUsage, fmt.Errorf("--link %q: %w", arg, err), "it is to be there, and not captured"}
		}
		b.opts.Links[path] = target
	}
	return nil
}

// An answer is what came of asking of one state.
type answer struct {
	verdict bisect.Verdict
	code    int    // exit code of the command; -1: it was not run
	why     string // why it was skipped, or why it is no answer
	abort   bool   // the command says that it cannot go on
	change  *scratch.Change
	took    time.Duration // of the command
	ready   time.Duration // until the directory was the state
}

// become makes the scratch directory a state. It is a skip if the store does not have it all.
func (b *bisection) become(ctx context.Context, i int) (*answer, error) {
	began := time.Now()
	shown, stop := b.app.showProgress(ctx)
	c, err := b.dir.Become(shown, b.store, b.stops[i].State.Tree, &b.opts)
	stop()
	if errors.Is(err, scratch.ErrCaptured) {
		err = &failure{exitUsage, fmt.Errorf("%s: %w", b.stops[i].what(), err), "leave that --link away"}
	}
	if trees.IsLoss(err) {
		return &answer{verdict: bisect.Skipped, code: -1, why: "its list of files is lost",
			change: new(scratch.Change)}, nil
	}
	if err != nil {
		return nil, err
	}
	o := &answer{code: -1, change: c, ready: time.Since(began)}
	if n := len(c.Missing); n > 0 {
		first := c.Missing[0]
		o.verdict, o.why = bisect.Skipped, words.Quote(first.Path)+" is lost"
		if errors.Is(first.Err, store.ErrForgotten) {
			o.why = words.Quote(first.Path) + " was forgotten"
		}
		if n > 1 {
			o.why += fmt.Sprintf(", and so %s", words.Count(n-1, "other path"))
		}
	}
	return o, nil
}

// ask runs the command in a state.
func (b *bisection) ask(ctx context.Context, i int) (*answer, error) {
	o, err := b.become(ctx, i)
	if err != nil || o.verdict != bisect.Unasked {
		return o, err
	}
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	if b.setup != "" {
		code, late, err := b.run(ctx, ofShell(b.setup))
		if err != nil {
			return nil, err
		}
		if code != 0 || late {
			o.verdict, o.why = bisect.Skipped, fmt.Sprintf("--setup ended with %d", code)
			if late {
				o.why = fmt.Sprintf("--setup took longer than %v", b.timeout)
			}
			return o, nil
		}
	}
	var late bool
	if o.code, late, err = b.run(ctx, b.command); err != nil {
		return nil, err
	}
	switch {
	case late:
		o.verdict, o.why = bisect.Skipped, fmt.Sprintf("it took longer than %v", b.timeout)
	case o.code == 0:
		o.verdict = bisect.Good
	case o.code == 125:
		o.verdict, o.why = bisect.Skipped, "exit code 125"
	case o.code < 128:
		o.verdict = bisect.Bad
	default:
		o.abort = true
	}
	return o, nil
}

// ofShell returns the command that runs a command line of the user's.
func ofShell(text string) []string {
	if runtime.GOOS == "windows" {
		return shellCommand(text).Args
	}
	return []string{"sh", "-c", text}
}

// graceTime is how long a command has to end that was asked to.
const graceTime = time.Second

// run runs a command in the scratch directory, and returns its exit code as shells have it.
// What it has started ends with it. late: it took too long, and was ended.
func (b *bisection) run(ctx context.Context, args []string) (code int, late bool, err error) {
	limited := ctx
	if b.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, b.timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	cmd.Dir = b.dir.Tree()
	cmd.Env = environmentOf(cmd)
	out := b.app.outputOf()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return endGroup(cmd, false) }
	cmd.WaitDelay = graceTime
	inOwnGroup(cmd)
	b.app.out.Flush()
	err = cmd.Start()
	if err == nil {
		err = cmd.Wait()
		endGroup(cmd, true) // as a rule there is nobody
	}
	exit, hasEnded := errors.AsType[*exec.ExitError](err)
	switch {
	case context.Cause(ctx) != nil:
		return 0, false, context.Cause(ctx)
	case limited.Err() != nil:
		return 0, true, nil
	case hasEnded:
		return exitCodeOf(exit), false, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound):
		b.app.tell("%s: there is no such program", words.Quote(args[0]))
		return 127, false, nil
	case errors.Is(err, fs.ErrPermission):
		b.app.tell("%s: it cannot be run: permission denied", words.Quote(args[0]))
		return 126, false, nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return 0, false, fmt.Errorf("run %q: %w", args[0], err)
	}
	return 0, false, nil
}

// outputOf returns where a command prints to: results are ours.
func (a *app) outputOf() io.Writer {
	if a.flags.quiet {
		return nil
	}
	if w, ok := a.stderr.(*statusWriter); ok {
		if f, ok := w.w.(*os.File); ok { // so that it knows a terminal
			return f
		}
	}
	return a.stderr
}

// environmentOf returns the environment of a command in the scratch directory. Git there
// finds no repository: neither the one that variables name, nor one around the store.
func environmentOf(cmd *exec.Cmd) []string {
	env := slices.DeleteFunc(cmd.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "OLDPWD",
			"GIT_CEILING_DIRECTORIES"}, name)
	})
	return append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(cmd.Dir))
}

// say prints what came of asking of a state.
func (b *bisection) say(ctx context.Context, i int, o *answer) error {
	a := b.app
	if a.flags.json {
		return a.printJSON(b.newJSONStep(ctx, i, o))
	}
	if a.flags.quiet {
		return nil
	}
	line := a.newLine()
	role, word := asNote, "skip"
	switch {
	case o.verdict == bisect.Good:
		role, word = asAdded, "good"
	case o.verdict == bisect.Bad:
		role, word = asRemoved, "bad "
	case o.abort:
		role, word = asRemoved, "stop"
	}
	line.add(role, word)
	line.add(asHeading, b.nameOf(i))
	line.add("", o.why)
	if o.code > 0 && o.why == "" {
		line.add("", fmt.Sprintf("exit code %d", o.code))
	}
	if o.took >= time.Second/10 {
		line.add("", seconds(o.took))
	}
	line.end(b.titleOf(ctx, b.stops[i]))
	return nil
}

// nameOf returns what led to a state, for a list.
func (b *bisection) nameOf(i int) string {
	if b.oneSession {
		return b.stops[i].short()
	}
	return b.stops[i].what()
}

// A jsonStep is a state that was asked of, in JSON.
type jsonStep struct {
	*jsonStop
	Verdict  string  `json:"verdict"`       // good, bad, skipped or aborted
	ExitCode *int    `json:"exitCode"`      // of the command; null: it was not run
	Why      string  `json:"why,omitempty"` // it was skipped
	Seconds  float64 `json:"seconds"`       // that the command took
	Ready    float64 `json:"readySeconds"`  // that it took to make the directory this state
	Files    int64   `json:"files"`         // that were written for it
	Bytes    int64   `json:"bytes"`
}

func (b *bisection) newJSONStep(ctx context.Context, i int, o *answer) *jsonStep {
	j := &jsonStep{jsonStop: b.newJSONStop(ctx, b.stops[i]), Verdict: o.verdict.String(), Why: o.why,
		Seconds: o.took.Seconds(), Ready: o.ready.Seconds(), Files: o.change.Files, Bytes: o.change.Bytes}
	if o.abort {
		j.Verdict = "aborted"
	}
	if o.code >= 0 {
		j.ExitCode = &o.code
	}
	return j
}

// A bisectAnswer is what bisect prints as JSON in the end.
type bisectAnswer struct {
	FirstBad   *jsonStop   `json:"firstBad"`             // null: one of Candidates is
	Candidates []*jsonStop `json:"candidates,omitempty"` // of which all but the last were skipped
}

// sayResult prints the first bad one, or those of which one is, and returns the failure that
// the exit code stands for.
func (b *bisection) sayResult(ctx context.Context) error {
	a := b.app
	from, to := b.search.Result()
	if a.flags.json {
		j := new(bisectAnswer)
		if from == to {
			j.FirstBad = b.newJSONStop(ctx, b.stops[to])
		} else {
			for _, s := range b.stops[from : to+1] {
				j.Candidates = append(j.Candidates, b.newJSONStop(ctx, s))
			}
		}
		if err := a.printJSON(j); err != nil || from == to {
			return err
		}
		return &failure{code: exitPart}
	}
	s := b.stops[to]
	if from == to {
		line := a.newLine()
		line.add(asHeading, s.what()+" is the first bad one")
		line.end(b.titleOf(ctx, s))
		if err := b.sayChanges(ctx, b.stops[to-1], s, true); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "first bad: %s, entry %s\n", s.what(), s.name())
		return nil
	}
	fmt.Fprintf(a.out, "one of these %d is the first bad one: all but the last were skipped\n", to+1-from)
	for i, s := range b.stops[from : to+1] {
		line := a.newLine()
		line.add("", " "+b.nameOf(from+i))
		line.end(b.titleOf(ctx, s))
	}
	if err := b.sayChanges(ctx, b.stops[from-1], s, false); err != nil {
		return err
	}
	d := b.stops[from]
	fmt.Fprintf(a.out, "first bad: between %s, entry %s, and %s, entry %s\n", d.what(), d.name(), s.what(), s.name())
	return &failure{code: exitPart}
}
