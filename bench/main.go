// Bench times snapctl beside other tools that take snapshots, and beside
// floors, which are the least work that could give the same result. It prints
// markdown tables.
//
//	go run ./bench                                all of it: an hour
//	go run ./bench -tree linux,10k -runs 1        some trees
//	go run ./bench -only first,unchanged          some kinds of work
//	go run ./bench -json bench/results.json       also write all figures to a file
//	go run ./bench -report bench/results.json     docs/benchmarks.md from such a file
//
// It works on private copies of trees and in turns (A B A B …), so that a
// machine that slows down slows down all rows. Whatever is timed is a whole
// process, unless its row says that it is not: the floors are this program
// started again with -floor. The page cache is warm: each contender runs once
// unmeasured before its first round.
//
// Read trees.go first, which has the trees and what is measured on each; then
// parts.go, which has a function for each kind of work; lab.go has the rounds,
// tool.go the commands of the tools, floors_linux.go the floors, and report.go
// and plot.go what becomes of the results.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.SetOutput(stderr)
	home, _ := os.UserHomeDir()
	var (
		tree     = flags.String("tree", "", "measure on these `TREES` only, with commas between: "+treeNames())
		treesDir = flags.String("trees", filepath.Join(home, "trees"),
			"`DIR` with linux, go-src, go-old and nm, which are prepared if they are missing")
		runs       = flags.Int("runs", 3, "measure each contender `N` times")
		snapctl    = flags.String("snapctl", "", "`PATH` of the program under test; default: built from here")
		only       = flags.String("only", "", "measure these `PARTS` only, with commas between: "+partNames())
		contenders = flags.String("contenders", "",
			"run these `NAMES` only, with commas between, as they are in the tables; floors is all floors")
		jsonFile   = flags.String("json", "", "also write all figures to `FILE`")
		seed       = flags.Uint64("seed", 1, "choose the changed files by `N`")
		reportFile = flags.String("report", "", "measure nothing: write the documents from the figures in `FILE`")
		docs       = flags.String("docs", "docs", "`DIR` of benchmarks.md, for -report")
		floor      = flags.String("floor", "", "run the floor `NAME` on the arguments (bench starts itself so)")
	)
	flags.Parse(args) // exits if it fails
	if *floor != "" {
		return runFloor(*floor, flags.Args(), stdout)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *runs < 1 {
		return fmt.Errorf("-runs %d: want 1 or more", *runs)
	}
	if *reportFile != "" {
		r, err := readResults(*reportFile)
		if err != nil {
			return err
		}
		return writeDocs(r, *docs)
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	l := &lab{
		self: self, tmp: tmp, trees: *treesDir, tree: filepath.Join(tmp, "tree"),
		runs: *runs, rng: rand.New(rand.NewPCG(*seed, 0)), log: stderr,
		results: &results{Runs: *runs, Seed: *seed, Versions: map[string]string{},
			Command: strings.Join(append([]string{"go run ./bench"}, args...), " ")},
	}
	if *snapctl == "" {
		*snapctl = filepath.Join(tmp, "snapctl")
		if _, _, err := execute(ctx, "", nil, "go", "build", "-o", *snapctl, "./cmd/snapctl"); err != nil {
			return err
		}
	}
	program, err := exec.LookPath(*snapctl)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return err
	}
	if *contenders != "" {
		l.only = strings.Split(*contenders, ",")
	}
	l.tools = slices.DeleteFunc(newTools(program), func(t *tool) bool { return !l.chosen(t.name) })
	l.describe(ctx)
	l.save = func() error { return nil }
	if *jsonFile != "" {
		l.save = func() error { return l.results.write(*jsonFile) }
	}
	for i := range trees {
		if *tree != "" && !slices.Contains(strings.Split(*tree, ","), trees[i].name) {
			continue
		}
		err := l.measure(ctx, &trees[i], func(part string) bool {
			return *only == "" || slices.Contains(strings.Split(*only, ","), part)
		})
		if err != nil {
			return err
		}
	}
	io.WriteString(stdout, tables(l.results))
	return l.save()
}

// describe records what is measured, on what, and with which versions.
func (l *lab) describe(ctx context.Context) {
	r := l.results
	r.Date = time.Now().UTC().Format("2006-01-02 15:04 MST")
	r.Machine = fmt.Sprintf("%d × %s", runtime.NumCPU(), fromProc("/proc/cpuinfo", "model name", runtime.GOARCH))
	var kib int64
	fmt.Sscan(fromProc("/proc/meminfo", "MemTotal", "0"), &kib)
	r.Memory = size(kib << 10)
	r.System = lastLine(ctx, "uname", "-sr") + ", " + runtime.Version()
	r.Disk = lastLine(ctx, "df", "--output=fstype", l.tmp)
	r.Commit = lastLine(ctx, "git", "describe", "--always", "--dirty")
	for _, t := range l.tools {
		version, err := t.find(ctx)
		if err != nil {
			l.note("%s is left out: %v", t.name, err)
			continue
		}
		r.Versions[t.name] = version
	}
}

// fromProc returns the value of a key in a file of the system.
func fromProc(file, key, otherwise string) string {
	info, _ := os.ReadFile(file)
	for line := range strings.Lines(string(info)) {
		if k, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

// lastLine returns the last line of what a command prints.
func lastLine(ctx context.Context, args ...string) string {
	_, out, err := execute(ctx, "", nil, args...)
	if err != nil {
		return "unknown"
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func treeNames() string {
	var names []string
	for _, t := range trees {
		names = append(names, t.name)
	}
	return strings.Join(names, " ")
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, " ")
}
