package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A bench is one run of compare.
type bench struct {
	self     string // this program, which is also the floors
	tmp      string // everything that is made lies below it
	tree     string // the private copy
	runs     int
	manyRuns int
	rng      *rand.Rand
	log      io.Writer // progress

	git, snapctl *tool
	peers        []*tool

	part  string // of the table, being measured
	table table
	notes strings.Builder // lines below the table
}

// note adds a line below the table.
func (b *bench) note(format string, args ...any) {
	fmt.Fprintf(&b.notes, "\nnote: "+format+"\n", args...)
}

// all measures all parts of the table. A part that fails does not keep the
// others from being measured.
func (b *bench) all(ctx context.Context) error {
	var errs []error
	for _, part := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"floors", b.floors},
		{"first snapshot", b.first},
		{"store size", b.storeSize},
		{"nothing changed, new process", b.unchanged},
		{"10 files changed, new process", b.tenChanged},
		{"export into an empty directory", b.export},
		{"one change in a directory of 100,000 files", b.largeDirectory},
		{"many runs", b.many},
		{"an empty process", b.empty},
		{"growth per turn", b.growth},
	} {
		b.part = part.title
		b.table.section(part.title)
		fmt.Fprintln(b.log, part.title)
		if err := part.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.title, err))
		}
	}
	return errors.Join(errs...)
}

// race runs the contenders in turn: once each unmeasured, then for b.runs
// rounds, in each of which another one comes first. One that fails at once
// is left out of the rest, with a note.
func (b *bench) race(ctx context.Context, prepare func(round int) error, contenders ...*contender) error {
	for round := range b.runs + 1 {
		if prepare != nil {
			if err := prepare(round); err != nil {
				return err
			}
		}
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			if c.run == nil {
				continue
			}
			u, err := b.once(ctx, c)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && round == 0:
				b.note("%s: %s is left out: %v", b.part, c.name, err)
				c.run = nil
			case err != nil:
				return err
			case round > 0:
				c.took = append(c.took, u)
			}
		}
	}
	return nil
}

// once runs a contender when all that was written before is on the disk, so
// that it pays for its own syncs only.
func (b *bench) once(ctx context.Context, c *contender) (usage, error) {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return usage{}, err
		}
	}
	if _, _, err := execute(ctx, "", nil, "sync"); err != nil {
		return usage{}, err
	}
	u, err := c.run()
	if err == nil {
		fmt.Fprintf(b.log, "  %s %s\n", c.name, seconds(u.wall))
	}
	return u, err
}

// floor is the contender that runs a floor as a process of its own.
func (b *bench) floor(ctx context.Context, name, floor string, args ...string) *contender {
	return &contender{name: name, run: func() (usage, error) {
		u, _, err := execute(ctx, "", nil, append([]string{b.self, "-floor", floor}, args...)...)
		return u, err
	}}
}

func (b *bench) walk(ctx context.Context, dir string) *contender {
	return b.floor(ctx, "stat walk", "stat", dir)
}

func (b *bench) packWriter(ctx context.Context) *contender {
	pack := filepath.Join(b.tmp, "pack")
	c := b.floor(ctx, "bare pack writer", "pack", b.tree, pack)
	c.prepare = func() error { return os.RemoveAll(pack) }
	return c
}

// sync is the time of one append and its fdatasync, not of the process.
func (b *bench) sync(ctx context.Context) *contender {
	return &contender{name: "fdatasync", run: func() (usage, error) {
		u, out, err := execute(ctx, "", nil, b.self, "-floor", "fsync", filepath.Join(b.tmp, "synced"))
		if err != nil {
			return usage{}, err
		}
		ns, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
		u.wall = time.Duration(ns)
		return u, err
	}}
}

func (b *bench) create(ctx context.Context) *contender {
	c := b.floor(ctx, "create floor", "create", b.tree, b.output("create"))
	c.prepare = func() error { return emptyDir(b.output("create")) }
	return c
}

// output is where the contender called name puts a copy of the tree.
func (b *bench) output(name string) string { return filepath.Join(b.tmp, "out-"+name) }

func emptyDir(dir string) error {
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777))
}

func (b *bench) floors(ctx context.Context) error {
	contenders := []*contender{
		b.walk(ctx, b.tree),
		b.floor(ctx, "read all", "read", b.tree),
		b.floor(ctx, "read + BLAKE3", "hash", b.tree),
		b.floor(ctx, "read + BLAKE3 + zstd", "zstd", b.tree),
		b.packWriter(ctx),
		b.sync(ctx),
		b.create(ctx),
	}
	err := b.race(ctx, nil, contenders...)
	for _, c := range contenders {
		b.table.beside(c, nil, nil)
	}
	return errors.Join(err, os.RemoveAll(b.output("create")))
}

// contenders returns what newContender makes of each peer.
func (b *bench) contenders(newContender func(*tool) *contender) []*contender {
	var all []*contender
	for _, p := range b.peers {
		all = append(all, newContender(p))
	}
	return all
}

func (b *bench) first(ctx context.Context) error {
	pack, snap, git := b.packWriter(ctx), b.snapctl.first(ctx), b.git.first(ctx)
	peers := b.contenders(func(t *tool) *contender { return t.first(ctx) })
	err := b.race(ctx, nil, append(peers, pack, snap, git)...)
	b.table.beside(pack, nil, nil)
	b.table.atMost(snap, pack, pack.median()*3/2, "1.5 × pack writer")
	b.table.slower(git, snap, 5)
	for _, p := range peers {
		b.table.beside(p, snap, nil)
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(b.tmp, "pack")))
}

// storeSize follows first, of which the stores are left.
func (b *bench) storeSize(ctx context.Context) error {
	for _, part := range []struct{ name, snapctl, git string }{
		{"with stat cache, journal, index", "base", "repo"},
		{"packs, objects", "base/*/packs", "repo/objects"},
	} {
		git, err := diskUsage(ctx, filepath.Join(b.git.store, part.git))
		if err != nil {
			return err
		}
		b.table.size("git: "+part.name, git, "", nil)
		if b.snapctl.missing {
			continue
		}
		snap, err := diskUsage(ctx, filepath.Join(b.snapctl.store, part.snapctl))
		if err != nil {
			return err
		}
		ratio := float64(snap) / float64(git)
		b.table.size("snapctl: "+part.name, snap, fmt.Sprintf("%.3f × git", ratio), &goal{"≤ 0.50 ×", ratio <= 0.5})
	}
	return nil
}

// diskUsage returns the size of the blocks allocated below the one directory
// that pattern names.
func diskUsage(ctx context.Context, pattern string) (int64, error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return 0, err
	}
	if len(dirs) != 1 {
		return 0, fmt.Errorf("%q matches %d directories, want 1", pattern, len(dirs))
	}
	_, out, err := execute(ctx, "", nil, "du", "-s", "--block-size=1", dirs[0])
	if err != nil {
		return 0, err
	}
	blocks, _, _ := strings.Cut(string(out), "\t")
	return strconv.ParseInt(blocks, 10, 64)
}

func (b *bench) unchanged(ctx context.Context) error {
	walk, snap, git := b.walk(ctx, b.tree), b.snapctl.again(ctx, false), b.git.again(ctx, false)
	peers := b.contenders(func(t *tool) *contender { return t.again(ctx, false) })
	err := b.race(ctx, nil, append(peers, walk, snap, git)...)
	b.table.beside(walk, nil, nil)
	b.table.atMost(snap, walk, scale(walk.median(), 1.15)+5*time.Millisecond, "1.15 × walk + 5 ms")
	b.table.slower(git, snap, 1)
	for _, p := range peers {
		b.table.beside(p, snap, nil)
	}
	return err
}

func (b *bench) tenChanged(ctx context.Context) error {
	const files = 10
	names, err := b.pick(ctx, files*(b.runs+1))
	if err != nil {
		return err
	}
	change := func(round int) error {
		return change(b.tree, names[files*round:][:files], fmt.Sprintf("round %d\n", round))
	}
	walk, sync := b.walk(ctx, b.tree), b.sync(ctx)
	walkSync := b.floor(ctx, "stat walk + 2 fdatasyncs", "stat+sync", b.tree, filepath.Join(b.tmp, "synced"))
	snap, git := b.snapctl.again(ctx, true), b.git.again(ctx, true)
	peers := b.contenders(func(t *tool) *contender { return t.again(ctx, true) })
	err = b.race(ctx, change, append(peers, walk, sync, walkSync, snap, git)...)
	for _, c := range []*contender{walk, sync, walkSync} {
		b.table.beside(c, nil, nil)
	}
	limit := scale(walk.median(), 1.15) + 10*time.Millisecond + 2*sync.median()
	b.table.atMost(snap, walkSync, limit, "1.15 × walk + 10 ms + 2 fdatasyncs")
	b.table.slower(git, snap, 1)
	for _, p := range peers {
		b.table.beside(p, snap, nil)
	}
	return err
}

// pick chooses n files that git tracks.
func (b *bench) pick(ctx context.Context, n int) ([]string, error) {
	ls := exec.CommandContext(ctx, "git", "ls-files", "-s", "-z")
	ls.Dir, ls.Env = b.tree, b.git.environ()
	index, err := ls.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := ls.Start(); err != nil {
		return nil, err
	}
	names, err := pick(index, n, b.rng)
	return names, errors.Join(err, ls.Wait())
}

func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

func (b *bench) export(ctx context.Context) error {
	create := b.create(ctx)
	copyOut := func(t *tool, args ...string) *contender {
		return t.contender(
			func() error { return emptyDir(b.output(t.name)) },
			func() (usage, error) {
				u, _, err := t.execute(ctx, args...)
				return u, err
			})
	}
	git := copyOut(b.git, "checkout-index", "-a", "--prefix="+b.output("git")+"/")
	snap := copyOut(b.snapctl, "export", "@", b.output("snapctl"))
	err := b.race(ctx, nil, create, snap, git)
	b.table.beside(create, nil, nil)
	b.table.atMost(snap, create, scale(create.median(), 1.3), "1.3 × create floor")
	b.table.slower(git, snap, 1)
	if err == nil && len(snap.took) > 0 {
		err = b.noteDifference(ctx, git, snap)
	}
	for _, name := range []string{"create", "git", "snapctl"} {
		err = errors.Join(err, os.RemoveAll(b.output(name)))
	}
	return err
}

// noteDifference adds a note unless two outputs hold as many files and bytes.
func (b *bench) noteDifference(ctx context.Context, x, y *contender) error {
	var counts [2]string
	for i, c := range []*contender{x, y} {
		_, out, err := execute(ctx, "", nil, b.self, "-floor", "stat", b.output(c.name))
		if err != nil {
			return err
		}
		counts[i] = strings.TrimSpace(string(out))
	}
	if counts[0] != counts[1] {
		b.note("%s: %s made %s, %s made %s", b.part, x.name, counts[0], y.name, counts[1])
	}
	return nil
}

// empty is what no row can be below. Its peak RSS is that of compare itself,
// which Linux counts in for the processes that compare starts.
func (b *bench) empty(ctx context.Context) error {
	c := &contender{name: "true", run: func() (usage, error) {
		u, _, err := execute(ctx, "", nil, "true")
		return u, err
	}}
	err := b.race(ctx, nil, c)
	b.table.beside(c, nil, nil)
	return err
}

// growth comes last, because what it holds in memory would show as the peak
// RSS of others.
func (b *bench) growth(ctx context.Context) error {
	const turns, files = 100, 3
	if b.snapctl.missing {
		return nil
	}
	names, err := b.pick(ctx, turns*files)
	if err != nil {
		return err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if _, err := b.snapctl.take(ctx); err != nil {
		return err
	}
	before, err := packBytes(b.snapctl)
	if err != nil {
		return err
	}
	var allowed int64
	for turn := range turns {
		changed := names[files*turn:][:1+b.rng.IntN(files)]
		if err := change(b.tree, changed, fmt.Sprintf("turn %d\n", turn)); err != nil {
			return err
		}
		n, err := allowance(b.tree, changed, encoder)
		if err != nil {
			return err
		}
		allowed += n
		if _, err := b.snapctl.again(ctx, true).run(); err != nil {
			return err
		}
	}
	after, err := packBytes(b.snapctl)
	if err != nil {
		return err
	}
	mean, limit := (after-before)/turns, allowed/turns
	b.table.size("files compressed + 2.5 KiB a directory", limit, "", nil)
	b.table.size("snapctl, mean of 100 turns of 1-3 files", mean,
		fmt.Sprintf("%.2f × allowed", float64(mean)/float64(limit)), &goal{"≤ " + size(limit), mean <= limit})
	return nil
}

// packBytes returns the length of all files in the packs of a snapctl store.
func packBytes(t *tool) (int64, error) {
	files, err := packs(t, "*")
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, name := range files {
		info, err := os.Lstat(name)
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}

// packs returns the files in a snapctl store's packs that match pattern.
func packs(t *tool, pattern string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(t.store, "base", "*", "packs", pattern))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no packs in %s", t.store)
	}
	return files, err
}

func (b *bench) largeDirectory(ctx context.Context) error {
	const files = 100_000
	if b.snapctl.missing {
		return nil
	}
	tree := filepath.Join(b.tmp, "large")
	dir := filepath.Join(tree, "dir")
	if err := makeFiles(dir, files); err != nil {
		return err
	}
	t := newSnapctl(b.snapctl.program[0], filepath.Join(b.tmp, "snapctl-large"), tree)
	if err := t.reset(ctx); err != nil {
		return err
	}
	if _, err := t.take(ctx); err != nil {
		return err
	}
	before, err := packBytes(t)
	if err != nil {
		return err
	}
	walk, snap := b.walk(ctx, tree), t.again(ctx, true)
	err = b.race(ctx, func(round int) error {
		return change(dir, []string{fileName(b.rng.IntN(files))}, fmt.Sprintf("round %d\n", round))
	}, walk, snap)
	if err != nil {
		return err
	}
	after, err := packBytes(t)
	if err != nil {
		return err
	}
	b.table.beside(walk, nil, nil)
	b.table.beside(snap, walk, nil)
	mean := (after - before) / int64(b.runs+1)
	b.table.size("snapctl: growth for one change", mean, "", &goal{"≤ 24 KiB", mean <= 24<<10})
	return errors.Join(os.RemoveAll(tree), os.RemoveAll(t.store))
}

// many takes b.manyRuns snapshots of a small tree with one change each.
func (b *bench) many(ctx context.Context) error {
	const files, edge = 20, 10
	if b.snapctl.missing || b.manyRuns == 0 {
		return nil
	}
	tree := filepath.Join(b.tmp, "many")
	if err := makeFiles(tree, files); err != nil {
		return err
	}
	t := newSnapctl(b.snapctl.program[0], filepath.Join(b.tmp, "snapctl-many"), tree)
	if err := t.reset(ctx); err != nil {
		return err
	}
	first := &contender{name: fmt.Sprintf("snapctl: first %d runs", edge)}
	last := &contender{}
	if _, err := t.take(ctx); err != nil {
		return err
	}
	again := t.again(ctx, true)
	for i := range b.manyRuns {
		if err := change(tree, []string{fileName(i % files)}, fmt.Sprintf("run %d\n", i)); err != nil {
			return err
		}
		u, err := again.run()
		if err != nil {
			return err
		}
		if i < edge {
			first.took = append(first.took, u)
		}
		if i >= b.manyRuns-edge {
			last.took = append(last.took, u)
		}
	}
	names, err := packs(t, "*.pack")
	if err != nil {
		return err
	}
	last.name = fmt.Sprintf("snapctl: last %d of %d runs, %d packs", edge, b.manyRuns, len(names))
	b.table.beside(first, nil, nil)
	b.table.beside(last, first, nil)
	return errors.Join(os.RemoveAll(tree), os.RemoveAll(t.store))
}
