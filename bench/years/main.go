// Years measures a store that years of work have gone into: it makes a tree of
// source files, records many snapshots of it as turns of sessions, and reports
// what the store takes and what looking at it costs after some of them. It prints
// one markdown table.
//
//	go run ./bench/years [-snapshots 1000,10000,100000] [-files 10000] [-snapctl PATH] [-dir DIR]
//
// Snapshots are recorded by a process that stays (this program started again with
// -record), with an engine that watches the directory; a new one for each column.
// What is timed is a whole process of snapctl each time, page cache warm.
//
// Read main.go first, then record.go; work.go makes the files and changes them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "years: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("years", flag.ExitOnError)
	flags.SetOutput(stderr)
	var (
		numbers = flags.String("snapshots", "1000,10000,100000", "measure after `N,N,…` snapshots")
		files   = flags.Int("files", 10000, "make a tree of `N` files")
		turns   = flags.Int("turns", 330, "a session has `N` turns on average")
		snapctl = flags.String("snapctl", "snapctl", "`PATH` of the program under test")
		dir     = flags.String("dir", "",
			"work in `DIR` and keep it; what years has recorded there counts (default: a temporary one)")
		runs     = flags.Int("runs", 5, "measure what is quick `N` times")
		seed     = flags.Uint64("seed", 1, "choose what changes by `N`")
		record   = flags.Int("record", 0, "record `N` snapshots in -dir (years starts itself so)")
		profile  = flags.String("cpuprofile", "", "with -record: write a profile to `FILE`")
		keepLast = flags.Int("keeplast", 100, "prune all but `N` snapshots of each session, where snapctl can prune")
	)
	flags.Parse(args) // exits if it fails
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *record > 0 {
		r := &recorder{dir: *dir, turns: *turns, seed: *seed, profile: *profile}
		return r.run(ctx, *record, stdout)
	}

	var marks []int
	for field := range strings.SplitSeq(*numbers, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || len(marks) > 0 && n <= marks[len(marks)-1] {
			return fmt.Errorf("-snapshots %q: want numbers that grow", *numbers)
		}
		marks = append(marks, n)
	}
	if *runs < 1 || *files < 1 || *turns < 1 {
		return errors.New("-runs, -files and -turns must be at least 1")
	}
	program, err := exec.LookPath(*snapctl)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "years-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		*dir = filepath.Join(tmp, "work")
	}
	m := &measurer{snapctl: program, dir: *dir, runs: *runs, keepLast: *keepLast, log: stderr}
	tree := filepath.Join(*dir, "tree")
	if _, err := os.Stat(tree); errors.Is(err, fs.ErrNotExist) {
		err = makeTree(tree, *files, *seed)
		if err != nil {
			return err
		}
	} else if err := m.begin(ctx); err != nil {
		return err
	}
	done := m.recorded
	for _, n := range marks {
		if n <= done {
			return fmt.Errorf("%q has %d snapshots already", *dir, done)
		}
		fmt.Fprintf(stderr, "recording up to %d snapshots\n", n)
		out, err := m.command(ctx, self, "-dir", *dir, "-record", strconv.Itoa(n-done), "-seed",
			strconv.FormatUint(*seed+uint64(n), 10), "-turns", strconv.Itoa(*turns))
		if err != nil {
			return err
		}
		span := new(span)
		if err := json.Unmarshal(out.stdout, span); err != nil {
			return err
		}
		done = n
		if err := m.column(ctx, n, span, n == marks[len(marks)-1]); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "after %d snapshots:\n%s", n, m.table())
	}
	_, err = io.WriteString(stdout, m.table())
	return err
}
