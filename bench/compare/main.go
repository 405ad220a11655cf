// Compare times snapctl beside git and beside floors, which are the least work
// that could give the same result, and prints one markdown table.
//
//	go run ./bench/compare -tree DIR [-runs N] [-snapctl PATH] [-out FILE]
//
// It works on a private copy of the tree and in turns (A B A B …), so that a
// machine that slows down slows down all rows. Whatever is timed is a whole
// process: the floors are this program started again with -floor. The page
// cache is warm: each contender runs once unmeasured before its first round.
//
// Read main.go first, then rounds.go, which has a function for each part of
// the table; tool.go has the commands, floors_linux.go the floors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("compare", flag.ExitOnError)
	flags.SetOutput(stderr)
	var (
		tree     = flags.String("tree", "", "copy and snapshot the files of `DIR`")
		runs     = flags.Int("runs", 5, "measure each contender `N` times")
		snapctl  = flags.String("snapctl", "snapctl", "`PATH` of the program under test")
		out      = flags.String("out", "", "also write the table to `FILE`")
		seed     = flags.Uint64("seed", 1, "choose the changed files by `N`")
		peers    = flags.Bool("peers", false, "also time restic, borg and kopia")
		manyRuns = flags.Int("manyruns", 0, "also snapshot a small tree `N` times over")
		floor    = flags.String("floor", "", "run the floor `NAME` on the arguments (compare starts itself so)")
	)
	flags.Parse(args) // exits if it fails
	if *floor != "" {
		return runFloor(*floor, flags.Args(), stdout)
	}
	switch {
	case *tree == "":
		return errors.New("-tree is missing")
	case *runs < 1:
		return errors.New("-runs must be at least 1")
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &bench{
		self:     self,
		tmp:      tmp,
		tree:     filepath.Join(tmp, "tree"),
		runs:     *runs,
		manyRuns: *manyRuns,
		rng:      rand.New(rand.NewPCG(*seed, 0)),
		log:      stderr,
	}
	program := *snapctl
	if found, err := exec.LookPath(program); err == nil {
		if program, err = filepath.Abs(found); err != nil {
			return err
		}
	}
	b.git = newGit(filepath.Join(tmp, "git"), b.tree)
	b.snapctl = newSnapctl(program, filepath.Join(tmp, "snapctl"), b.tree)
	if *peers {
		b.peers = newPeers(filepath.Join(tmp, "peers"), b.tree)
	}
	for _, t := range append(b.peers, b.snapctl) {
		if _, err := exec.LookPath(t.program[0]); err != nil {
			b.note("%s is left out: %v", t.name, err)
			t.missing = true
		}
	}
	if err := b.copyTree(ctx, *tree); err != nil {
		return err
	}
	head, err := b.header(ctx, *tree)
	if err != nil {
		return err
	}
	runErr := b.all(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := head + "\n" + b.table.String() + b.notes.String()
	io.WriteString(stdout, text)
	if *out != "" {
		err = os.WriteFile(*out, []byte(text), 0o666)
	}
	return errors.Join(runErr, err)
}

// copyTree makes the private copy of the tree that everything runs on.
func (b *bench) copyTree(ctx context.Context, from string) error {
	fmt.Fprintf(b.log, "copy %s\n", from)
	if err := os.Mkdir(b.tree, 0o777); err != nil {
		return err
	}
	if _, _, err := execute(ctx, "", nil, "cp", "-a", from+"/.", b.tree); err != nil {
		return err
	}
	err := filepath.WalkDir(b.tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	// Outside a git repository snapctl leaves these out and git does not.
	// Both are to capture the same files.
	return os.WriteFile(filepath.Join(b.tree, ".booignore"), []byte("!node_modules/\n!.pi/\n"), 0o666)
}

// header says what was measured, on what, and with which versions.
func (b *bench) header(ctx context.Context, tree string) (string, error) {
	_, stat, err := execute(ctx, "", nil, b.self, "-floor", "stat", b.tree)
	if err != nil {
		return "", err
	}
	snapctl := "none"
	if !b.snapctl.missing {
		snapctl = lastLine(ctx, b.snapctl.program[0], "version")
	}
	var s strings.Builder
	for _, line := range [][2]string{
		{"date", time.Now().UTC().Format("2006-01-02 15:04 MST")},
		{"machine", fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), cpuModel(), lastLine(ctx, "uname", "-sr"))},
		{"temp dir", lastLine(ctx, "df", "--output=fstype", b.tmp)},
		{"go", runtime.Version()},
		{"git", lastLine(ctx, "git", "version")},
		{"snapctl", snapctl},
		{"tree", fmt.Sprintf("%s, %s", tree, strings.TrimSpace(string(stat)))},
		{"runs", fmt.Sprintf("%d, interleaved, page cache warm, a sync before each", b.runs)},
	} {
		fmt.Fprintf(&s, "- %s: %s\n", line[0], line[1])
	}
	return s.String(), nil
}

// cpuModel returns the name of the first processor, where /proc tells it.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
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
