// Mutants breaks the code in the places that count, one at a time, and looks
// whether a test notices: syncs, orders of writes, looks at what is about to be
// overwritten, checks of paths and peers. The list is mutants.txt.
//
//	go run ./internal/mutants [-only REGEXP] [-jobs N]
//
// It works in copies of the tree. What the tests say without a change comes
// first: they must pass. A change that does not compile is an error, and so is
// one whose old lines are not in the file exactly once. A test that does not end
// counts as one that fails, and is named.
//
// The test that noticed a mutant last time is tried before all others, so that
// a run in which nothing has changed takes minutes, not hours. killers.txt, which
// is written at the end, has its name.
//
// The exit code is 0 if each mutant is noticed, or has a reason in the list why
// it need not be.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ExitOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "try those whose name matches `REGEXP`")
	jobs := flags.Int("jobs", runtime.NumCPU(), "try `N` at a time")
	flags.Parse(args) // exits if it fails
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	list, err := readList(".")
	if err != nil {
		return err
	}
	if list = slices.DeleteFunc(list, func(m *mutant) bool { return !match.MatchString(m.name) }); len(list) == 0 {
		return errors.New("no mutant has such a name")
	}
	remembered, err := readKillers(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &score{out: stdout, counts: make(map[outcome]int), killers: remembered}
	start := time.Now()
	err = tryAll(ctx, list, max(*jobs, 1), dir, s)
	if err := errors.Join(err, writeKillers(".", s.killers)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d mutants in %v: %d killed, %d killed by time, "+
		"%d survived, %d of them with a reason, %d not tried\n", len(list), time.Since(start).Round(time.Second),
		s.counts[killed], s.counts[late], s.counts[survived]+s.counts[excused], s.counts[excused], s.counts[skipped])
	for _, line := range s.bad {
		fmt.Fprintln(stdout, line)
	}
	if len(s.bad) > 0 {
		return fmt.Errorf("%d of %d are not as they should be", len(s.bad), len(list))
	}
	return nil
}

// tryAll tries the mutants of a list, some at a time, each in a copy of the tree of its own.
func tryAll(ctx context.Context, list []*mutant, jobs int, dir string, s *score) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *mutant)
	var workers sync.WaitGroup
	for i := range min(jobs, len(list)) {
		workers.Go(func() {
			b := newBench(filepath.Join(dir, fmt.Sprint(i)))
			err := copyTree(".", b.root)
			for m := range next {
				var r result
				if err == nil {
					r, err = b.try(ctx, m, s.killer(m))
				}
				if err != nil {
					cancel(fmt.Errorf("%s: %w", m.name, err))
					return
				}
				s.add(m, r)
			}
		})
	}
	for _, m := range list {
		select {
		case next <- m:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// A score is what has become of the mutants. It may be used by several goroutines.
type score struct {
	out io.Writer

	mu      sync.Mutex
	counts  map[outcome]int
	bad     []string           // those that are not as they should be
	killers map[string]testRun // by name of the mutant, the test that noticed it
}

func (s *score) killer(m *mutant) testRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killers[m.name]
}

func (s *score) add(m *mutant, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[r.outcome]++
	fmt.Fprintf(s.out, "%-10s %-28s %6.1fs  %s\n", r.outcome, m.name, r.took.Seconds(), r.by)
	switch {
	case r.outcome == survived:
		s.bad = append(s.bad, fmt.Sprintf("%s survived: %s (%s)", m.name, m.what, m.file))
	case (r.outcome == killed || r.outcome == late) && m.survives != "":
		s.bad = append(s.bad, fmt.Sprintf("%s is noticed, and the list says why it would not be: take that away",
			m.name))
	}
	switch {
	case r.killer != (testRun{}):
		s.killers[m.name] = r.killer
	case r.outcome != skipped:
		delete(s.killers, m.name)
	}
}

// An outcome says what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	late     outcome = "LATE"     // the tests did not end
	survived outcome = "SURVIVED" // no test has noticed
	excused  outcome = "excused"  // nor need it
	skipped  outcome = "NOT TRIED"
)

type result struct {
	outcome outcome
	by      string  // the test that has noticed, or why none did
	killer  testRun // of that test alone, if it ended
	took    time.Duration
}

// A bench is a copy of the tree, and what is known of its tests.
type bench struct {
	root  string                    // of the copy
	bin   string                    // test binaries
	sound map[testRun]time.Duration // runs that pass without a change, and how long they take
}

func newBench(dir string) *bench {
	return &bench{root: filepath.Join(dir, "tree"), bin: filepath.Join(dir, "bin"),
		sound: make(map[testRun]time.Duration)}
}

// try breaks the copy, runs the tests, the killer first, and mends the copy.
func (b *bench) try(ctx context.Context, m *mutant, killer testRun) (result, error) {
	if m.root && os.Geteuid() != 0 {
		return result{outcome: skipped, by: "needs root"}, nil
	}
	if slices.ContainsFunc(m.tests, func(t testRun) bool { return t.pkg == killer.pkg }) {
		switch r, err := b.tryWith(ctx, m, []testRun{killer}); {
		case err != nil && !errors.Is(err, errNoTest):
			return result{}, err
		case err == nil && (r.outcome == killed || r.outcome == late):
			return r, nil
		}
	}
	return b.tryWith(ctx, m, m.tests)
}

func (b *bench) tryWith(ctx context.Context, m *mutant, tests []testRun) (result, error) {
	for _, t := range tests {
		if err := b.passes(ctx, t); err != nil {
			return result{}, err
		}
	}
	name := filepath.Join(b.root, filepath.FromSlash(m.file))
	src, err := os.ReadFile(name)
	if err != nil {
		return result{}, err
	}
	broken, err := m.apply(string(src))
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(name, []byte(broken), 0o644); err != nil {
		return result{}, err
	}
	r, err := b.tests(ctx, m, tests)
	return r, errors.Join(err, os.WriteFile(name, src, 0o644))
}

func (b *bench) tests(ctx context.Context, m *mutant, tests []testRun) (result, error) {
	var took time.Duration
	bin := filepath.Join(b.bin, "broken")
	for _, t := range tests {
		if err := b.build(ctx, t.pkg, bin); err != nil {
			return result{}, err
		}
		// A test that waits for what does not come any more.
		limit := 5*b.sound[t] + time.Minute
		start := time.Now()
		out, err := b.runTest(ctx, bin, t, limit)
		took += time.Since(start)
		switch {
		case ctx.Err() != nil:
			return result{}, ctx.Err()
		case err == nil:
			continue
		case bytes.Contains(out, []byte("panic: test timed out")) || time.Since(start) > limit:
			by, _ := failed(out, t)
			return result{outcome: late, by: by, took: took}, nil
		}
		by, killer := failed(out, t)
		return result{killed, by, killer, took}, nil
	}
	if m.survives != "" {
		return result{outcome: excused, by: m.survives, took: took}, nil
	}
	return result{outcome: survived, by: m.what, took: took}, nil
}

var errNoTest = errors.New("no test is called so")

// passes requires that a run is one, and passes while nothing is broken.
func (b *bench) passes(ctx context.Context, t testRun) error {
	if _, ok := b.sound[t]; ok {
		return nil
	}
	bin := filepath.Join(b.bin, strings.ReplaceAll(t.pkg, "/", "_"))
	if _, err := os.Stat(bin); err != nil {
		if err := b.build(ctx, t.pkg, bin); err != nil {
			return err
		}
	}
	start := time.Now()
	out, err := b.runTest(ctx, bin, t, 20*time.Minute)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s, with nothing broken: %w\n%s", t.pkg, t.args, err, out)
	case bytes.Contains(out, []byte("no tests to run")):
		return fmt.Errorf("%s %s: %w", t.pkg, t.args, errNoTest)
	}
	b.sound[t] = time.Since(start)
	return nil
}

func (b *bench) build(ctx context.Context, pkg, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", bin, pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func (b *bench) runTest(ctx context.Context, bin string, t testRun, limit time.Duration) ([]byte, error) {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=" + limit.String()}
	for _, arg := range strings.Fields(t.args) {
		if arg == "-run" || arg == "-skip" { // other flags are the tests' own
			arg = "-test." + arg[1:]
		}
		args = append(args, arg)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // the test's own limit comes first
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = filepath.Join(b.root, filepath.FromSlash(t.pkg))
	cmd.WaitDelay = 10 * time.Second // a child may hold the output
	return cmd.CombinedOutput()
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failed names the test that failed, of nested ones the innermost that is named first, and
// returns the run of it alone.
func failed(out []byte, t testRun) (by string, alone testRun) {
	name := ""
	if all := failLine.FindAllSubmatch(out, -1); len(all) > 0 {
		name = string(all[len(all)-1][1])
	} else if at := regexp.MustCompile(`running tests:\n\s*(\S+)`).FindSubmatch(out); at != nil {
		name = string(at[1])
	} else {
		first, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
		return t.pkg + ": " + string(first[:min(len(first), 100)]), testRun{}
	}
	return t.pkg + " " + name, runOf(t, name)
}

// copyTree copies a tree of files without what git keeps of it.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.Name() == ".git":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
}
