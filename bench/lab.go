package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A lab runs the contenders on one tree after another, and keeps what came of
// it in results.
type lab struct {
	self    string // this program, which is also the floors
	tmp     string // everything that is made lies below it
	trees   string // where the trees are that were not made here
	tree    string // the private copy of the one that is measured
	runs    int
	rng     *rand.Rand
	log     io.Writer // progress
	results *results
	save    func() error // called after each part
	tools   []*tool
	only    []string // contenders; nil: all

	of    *treeSpec // being measured
	part  string    // being measured
	names []string  // of files to change, in random order
	used  int       // of names
	round int       // how often files were changed

	deleted bool // files were deleted after a tree: see discard
}

// A contender is what runs again and again, and so a row of the table.
type contender struct {
	name    string
	prepare func() error // before each run, not timed; may be nil
	change  func() error // right before it, behind the sync; may be nil
	run     func() (usage, error)

	out   bool // it takes no part any more
	took  []usage
	spent time.Duration
}

const (
	// A contender that takes longer than slow when it runs for the first time
	// has that run counted, instead of one that only warms up.
	slow = 20 * time.Second

	// A tool that takes longer than this for a snapshot that is not the first
	// does no other work on that tree.
	tooSlow = 10 * time.Second

	// What a contender may take in one part before its rounds are cut.
	patience = 60 * time.Second
)

// A race has contenders run in turn: once each unmeasured, then for a number
// of rounds, in each of which another one comes first.
type race struct {
	contenders []*contender
	before     func() error // before each round; may be nil
	once       bool         // one round, which counts
	cold       bool         // the page cache is emptied before each run, and nothing warms up
}

func (l *lab) race(ctx context.Context, r race) error {
	defer func() {
		for _, c := range r.contenders {
			for _, u := range c.took {
				l.add(c.name, u)
			}
		}
	}()
	first, last := 0, l.runs
	if r.once {
		last = 1
	}
	if r.once || r.cold {
		first = 1
	}
	for round := first; round <= last; round++ {
		if r.before != nil {
			if err := r.before(); err != nil {
				return err
			}
		}
		for i := range r.contenders {
			c := r.contenders[(i+round)%len(r.contenders)]
			if c.out {
				continue
			}
			u, err := l.once(ctx, c, r.cold)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				l.note("%s, %s: %s is left out: %v", l.of.title, title(l.part), c.name, err)
				c.out = true
			case round > 0 || u.Wall > slow:
				c.took = append(c.took, u)
				c.spent += u.Wall
				c.out = c.spent > patience || round == 0 && last == 1
			}
		}
	}
	return nil
}

// add records a run of the part that is measured.
func (l *lab) add(name string, u usage) {
	r := l.results.row(l.of.name, l.part, name)
	r.Runs = append(r.Runs, u)
}

// addBytes records a size.
func (l *lab) addBytes(name string, n int64) {
	r := l.results.row(l.of.name, l.part, name)
	r.Bytes = append(r.Bytes, n)
	fmt.Fprintf(l.log, "  %s %s\n", name, size(n))
}

// note records what a reader of the results has to know.
func (l *lab) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.results.Notes = append(l.results.Notes, text)
	fmt.Fprintln(l.log, "  note: "+text)
}

// once runs a contender when all that was written before is on the disk, so
// that it pays for its own syncs only.
func (l *lab) once(ctx context.Context, c *contender, cold bool) (usage, error) {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return usage{}, err
		}
	}
	if _, _, err := execute(ctx, "", nil, "sync"); err != nil {
		return usage{}, err
	}
	if cold {
		if err := dropCaches(); err != nil {
			return usage{}, err
		}
	}
	if c.change != nil {
		if err := c.change(); err != nil {
			return usage{}, err
		}
	}
	u, err := c.run()
	if err == nil {
		fmt.Fprintf(l.log, "  %s %s\n", c.name, seconds(u.Wall))
	}
	return u, err
}

func dropCaches() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) }

// floor is the contender that runs a floor as a process of its own.
func (l *lab) floor(ctx context.Context, name, floor string, args ...string) *contender {
	return &contender{name: name, out: !l.chosen("floors") || slices.Contains(l.of.without, name),
		run: func() (usage, error) {
			u, out, err := execute(ctx, "", nil, append([]string{l.self, "-floor", floor}, args...)...)
			if ns, isTime := strings.CutSuffix(string(out), " ns\n"); err == nil && isTime {
				// What it says is the work alone, without the start of a process.
				var n int64
				n, err = strconv.ParseInt(ns, 10, 64)
				u.Wall, u.CPU = time.Duration(n), 0
			}
			return u, err
		}}
}

func (l *lab) walk(ctx context.Context) *contender {
	return l.floor(ctx, "stat walk", "stat", l.tree)
}

func (l *lab) sync(ctx context.Context) *contender {
	return l.floor(ctx, "fdatasync", "fsync", filepath.Join(l.tmp, "synced"))
}

func (l *lab) packWriter(ctx context.Context) *contender {
	pack := filepath.Join(l.tmp, "pack")
	c := l.floor(ctx, "bare pack writer", "pack", l.tree, pack)
	c.prepare = func() error { return os.RemoveAll(pack) }
	return c
}

func (l *lab) create(ctx context.Context) *contender {
	c := l.floor(ctx, "bare file creation", "create", l.tree, l.output("create"))
	c.prepare = func() error { return emptyDir(l.output("create")) }
	return c
}

// chosen tells whether a contender is among those that are asked for, "floors"
// being all floors.
func (l *lab) chosen(name string) bool { return l.only == nil || slices.Contains(l.only, name) }

// each returns what newContender makes of each tool that can do some work and
// takes part in the tree. A tool that is new to the tree takes its first
// snapshot, unless it is for that.
func (l *lab) each(ctx context.Context, work string, newContender func(*tool) *contender) []*contender {
	var all []*contender
	for _, t := range l.tools {
		if t.missing || t.does[work] == nil || slices.Contains(l.of.without, t.name) {
			continue
		}
		if work != "setup" && l.part != "first" && l.part != "first-cold" {
			if err := t.ready(ctx); err != nil {
				l.note("%s: %s is left out: %v", l.of.title, t.name, err)
				t.missing = true
				continue
			}
		}
		c := newContender(t)
		c.name = t.name
		all = append(all, c)
	}
	return all
}

// firsts returns the contenders that take the first snapshot into an empty
// store. An engine looks at the tree when it begins, which is no command.
func (l *lab) firsts(ctx context.Context) []*contender {
	return l.each(ctx, "snapshot", func(t *tool) *contender {
		return &contender{
			out:     t.resident,
			prepare: func() error { return t.reset(ctx) },
			run:     func() (usage, error) { return t.take(ctx) },
		}
	})
}

// again returns the contenders that take one more snapshot.
func (l *lab) again(ctx context.Context, changed bool) []*contender {
	return l.each(ctx, "snapshot", func(t *tool) *contender {
		return &contender{run: func() (usage, error) { return t.again(ctx, changed) }}
	})
}

// doing returns the contenders that do some work on files. check looks at what
// they print; it and prepare may be nil.
func (l *lab) doing(ctx context.Context, work string, files []string, prepare func() error,
	check func([]byte) error) []*contender {
	return l.each(ctx, work, func(t *tool) *contender {
		if t.slow {
			l.note("%s, %s: %s is left out, as its snapshots take over %s here", l.of.title,
				title(l.part), t.name, seconds(tooSlow))
		}
		return &contender{out: t.slow, prepare: prepare, run: func() (usage, error) {
			u, printed, err := t.do(ctx, work, files, "")
			if err == nil && check != nil {
				err = check(printed)
			}
			return u, err
		}}
	})
}

// engine returns the engine of the tree; nil: there is none.
func (l *lab) engine() *engine {
	for _, t := range l.tools {
		if t.engine != nil {
			return t.engine
		}
	}
	return nil
}

// next returns the names of n files to change.
func (l *lab) next(n int) []string {
	n = min(n, len(l.names))
	if l.used+n > len(l.names) {
		l.used = 0
	}
	l.used += n
	return l.names[l.used-n : l.used]
}

// change changes files, each time otherwise.
func (l *lab) change(names []string) error {
	l.round++
	return change(l.tree, names, fmt.Sprintf("round %d\n", l.round))
}

// output is where the contender called name puts a copy of the tree.
func (l *lab) output(name string) string { return filepath.Join(l.tmp, "out-"+name) }

func emptyDir(dir string) error {
	return errors.Join(discard(dir), os.MkdirAll(dir, 0o777))
}

// discard puts a directory aside, to be deleted when the tree is done. ext4
// without a journal does not use the inodes of deleted files again for a minute,
// five if that is not on the disk, and looks at each one whenever it makes a
// file: after 80,000 were deleted, making as many took 24 s instead of 4 s.
func discard(dir string) error {
	err := os.Rename(dir, fmt.Sprint(dir, discarded, time.Now().UnixNano()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const discarded = ".discarded-"

// inodeRest is how long inodes are not used again after a sync, and some more.
const inodeRest = 65 * time.Second

// deleteDiscarded deletes what was put aside.
func (l *lab) deleteDiscarded() {
	for _, pattern := range []string{"*", "stores/*"} {
		names, _ := filepath.Glob(filepath.Join(l.tmp, pattern+discarded+"*"))
		for _, name := range names {
			os.RemoveAll(name)
		}
	}
	l.deleted = true
}

// diskUsage returns the size of the blocks allocated below a directory.
func diskUsage(ctx context.Context, dir string) (int64, error) {
	_, out, err := execute(ctx, "", nil, "du", "-s", "--block-size=1", dir)
	if err != nil {
		return 0, err
	}
	blocks, _, _ := bytes.Cut(out, []byte("\t"))
	return strconv.ParseInt(string(blocks), 10, 64)
}
