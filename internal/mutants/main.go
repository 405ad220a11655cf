// Mutants breaks the code in the places that count, one at a time, and looks
// whether a test notices: syncs, orders of writes, looks at what is about to be
// overwritten, checks of paths and peers. The list is mutants.txt.
//
//	go run ./internal/mutants [-only REGEXP]
//
// It works in a copy of the tree. What the tests say without a change comes
// first: they must pass. A change that does not compile is an error, and so is
// one whose old lines are not in the file exactly once. A test that does not end
// counts as one that fails, and is named.
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
	"strings"
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
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{root: filepath.Join(dir, "tree"), bin: filepath.Join(dir, "tests"),
		sound: make(map[testRun]time.Duration)}
	if err := copyTree(".", b.root); err != nil {
		return err
	}
	counts := make(map[outcome]int)
	start := time.Now()
	var bad []string
	for _, m := range list {
		if !match.MatchString(m.name) {
			continue
		}
		r, err := b.try(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		counts[r.outcome]++
		fmt.Fprintf(stdout, "%-10s %-28s %6.1fs  %s\n", r.outcome, m.name, r.took.Seconds(), r.by)
		switch {
		case r.outcome == survived && m.survives == "":
			bad = append(bad, fmt.Sprintf("%s survived: %s (%s)", m.name, m.what, m.file))
		case (r.outcome == killed || r.outcome == late) && m.survives != "":
			bad = append(bad, fmt.Sprintf("%s is noticed, and the list says why it would not be: take that away",
				m.name))
		}
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	fmt.Fprintf(stdout, "%d mutants in %v: %d killed, %d killed by time, "+
		"%d survived, %d of them with a reason, %d not tried\n", n, time.Since(start).Round(time.Second), counts[killed], counts[late], counts[survived]+counts[excused],
		counts[excused], counts[skipped])
	if n == 0 {
		return errors.New("no mutant has such a name")
	}
	for _, line := range bad {
		fmt.Fprintln(stdout, line)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d are not as they should be", len(bad), n)
	}
	return nil
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
	by      string // the test that has noticed, or why none did
	took    time.Duration
}

// A bench is a copy of the tree, and what is known of its tests.
type bench struct {
	root  string                    // of the copy
	bin   string                    // the test binary
	sound map[testRun]time.Duration // runs that pass without a change, and how long they take
}

// try breaks the copy, runs the tests, and mends it.
func (b *bench) try(ctx context.Context, m *mutant) (result, error) {
	if m.root && os.Geteuid() != 0 {
		return result{skipped, "needs root", 0}, nil
	}
	for _, t := range m.tests {
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
	r, err := b.tests(ctx, m)
	return r, errors.Join(err, os.WriteFile(name, src, 0o644))
}

func (b *bench) tests(ctx context.Context, m *mutant) (result, error) {
	var took time.Duration
	for _, t := range m.tests {
		if err := b.build(ctx, t.pkg); err != nil {
			return result{}, err
		}
		// A test that waits for what does not come any more.
		limit := 5*b.sound[t] + time.Minute
		start := time.Now()
		out, err := b.runTest(ctx, t, limit)
		took += time.Since(start)
		switch {
		case ctx.Err() != nil:
			return result{}, ctx.Err()
		case err == nil:
			continue
		case bytes.Contains(out, []byte("panic: test timed out")) || time.Since(start) > limit:
			return result{late, failed(out, t), took}, nil
		}
		return result{killed, failed(out, t), took}, nil
	}
	if m.survives != "" {
		return result{excused, m.survives, took}, nil
	}
	return result{survived, m.what, took}, nil
}

// passes requires that a run is one, and passes while nothing is broken.
func (b *bench) passes(ctx context.Context, t testRun) error {
	if _, ok := b.sound[t]; ok {
		return nil
	}
	if err := b.build(ctx, t.pkg); err != nil {
		return err
	}
	start := time.Now()
	out, err := b.runTest(ctx, t, 20*time.Minute)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s, with nothing broken: %w\n%s", t.pkg, t.args, err, out)
	case bytes.Contains(out, []byte("no tests to run")):
		return fmt.Errorf("%s %s: no test is called so", t.pkg, t.args)
	}
	b.sound[t] = time.Since(start)
	return nil
}

func (b *bench) build(ctx context.Context, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", b.bin, pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func (b *bench) runTest(ctx context.Context, t testRun, limit time.Duration) ([]byte, error) {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=" + limit.String()}
	for _, arg := range strings.Fields(t.args) {
		if arg == "-run" || arg == "-skip" { // other flags are the tests' own
			arg = "-test." + arg[1:]
		}
		args = append(args, arg)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // the test's own limit comes first
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, args...)
	cmd.Dir = filepath.Join(b.root, filepath.FromSlash(t.pkg))
	cmd.WaitDelay = 10 * time.Second // a child may hold the output
	return cmd.CombinedOutput()
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failed returns the name of the test that failed, of nested ones the innermost
// that is named first.
func failed(out []byte, t testRun) string {
	if all := failLine.FindAllSubmatch(out, -1); len(all) > 0 {
		return t.pkg + " " + string(all[len(all)-1][1])
	}
	if at := regexp.MustCompile(`running tests:\n\s*(\S+)`).FindSubmatch(out); at != nil {
		return t.pkg + " " + string(at[1])
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return t.pkg + ": " + string(first[:min(len(first), 100)])
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
