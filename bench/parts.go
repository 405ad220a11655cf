package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// A part is one kind of work.
type part struct {
	name, title string
	run         func(*lab, context.Context) error
}

// parts are in the order in which they are measured and shown.
var parts []part

// title returns what a part is called in tables.
func title(name string) string {
	for _, p := range parts {
		if p.name == name {
			return p.title
		}
	}
	return name
}

func init() {
	parts = []part{
		{"floors", "floors", (*lab).floors},
		{"start", "start of a process", (*lab).start},
		{"first-cold", "first snapshot, cold page cache", (*lab).firstCold},
		{"first", "first snapshot", (*lab).first},
		{"size", "store after the first snapshot", (*lab).size},
		{"unchanged", "nothing changed", (*lab).unchanged},
		{"unchanged-cold", "nothing changed, cold page cache", (*lab).unchangedCold},
		{"changed1", "1 file changed", changed(1)},
		{"changed10", "10 files changed", changed(10)},
		{"changed1000", "1,000 files changed", changed(1000)},
		{"turn", "end of a turn, 10 files changed", (*lab).turn},
		{"diff", "diff of two snapshots, 10 files apart", (*lab).diff},
		{"log", "log", (*lab).history},
		{"cat", "cat of a file", (*lab).cat},
		{"restore", "restore of 10 files", (*lab).restore},
		{"revert", "one of two snapshots taken back, 1,000 files", (*lab).revert},
		{"export", "restore of all into an empty directory", (*lab).export},
		{"growth1", "growth of the store for a turn, 1 file changed", growth(1)},
		{"growth", "growth of the store for a turn, 10 files changed", growth(10)},
		{"compact", "compaction, nothing goes", (*lab).compact},
		{"compacted", "store after compaction", (*lab).compacted},
		{"prune", "prune to the newest snapshot", (*lab).prune},
		{"pruned", "store after prune", (*lab).size},
		{"middle", "1 MB changed in the middle of 1 GB", (*lab).middle},
		{"middle-growth", "growth of the store for that", nil},
		{"positions", "worst growth for 1 MB changed, of 40 places", (*lab).positions},
		{"agents", "end of a turn, 20 agents in worktrees of one repository", (*lab).agents},
		{"checkout", "git checkout of another release", (*lab).checkout},
	}
}

func (l *lab) floors(ctx context.Context) error {
	defer discard(l.output("create"))
	return l.race(ctx, race{contenders: []*contender{
		l.walk(ctx),
		l.floor(ctx, "read all", "read", l.tree),
		l.floor(ctx, "read and hash", "hash", l.tree),
		l.floor(ctx, "read, hash and compress", "zstd", l.tree),
		l.packWriter(ctx),
		l.create(ctx),
		l.sync(ctx),
		// Linux counts the memory of this program in for those that it
		// starts, so nothing can be below this.
		l.floor(ctx, "an empty process", "nothing"),
	}})
}

func (l *lab) first(ctx context.Context) error {
	defer os.RemoveAll(filepath.Join(l.tmp, "pack"))
	return l.race(ctx, race{contenders: append(l.firsts(ctx), l.packWriter(ctx))})
}

func (l *lab) firstCold(ctx context.Context) error {
	if err := dropCaches(); err != nil {
		l.note("a cold page cache is not possible here: %v", err)
		return nil
	}
	defer os.RemoveAll(filepath.Join(l.tmp, "pack"))
	return l.race(ctx, race{contenders: append(l.firsts(ctx), l.packWriter(ctx)), once: true, cold: true})
}

// size tells what the stores take: with caches, journals and indexes, and the
// repository alone, where that is not the same.
func (l *lab) size(ctx context.Context) error {
	for _, c := range l.each(ctx, "snapshot", func(t *tool) *contender { return &contender{} }) {
		t := l.tool(c.name)
		if t.resident {
			continue
		}
		all, err := diskUsage(ctx, t.store)
		if err != nil {
			return err
		}
		repo, err := diskUsage(ctx, filepath.Join(t.store, "repo"))
		if err != nil {
			return err
		}
		l.addBytes(t.name, repo)
		if all > repo+repo/100+64<<10 {
			l.addBytes(t.name+", with its caches", all)
		}
	}
	return nil
}

func (l *lab) tool(name string) *tool {
	for _, t := range l.tools {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (l *lab) unchanged(ctx context.Context) error {
	return l.race(ctx, race{contenders: append(l.again(ctx, false), l.walk(ctx))})
}

func (l *lab) unchangedCold(ctx context.Context) error {
	if err := dropCaches(); err != nil {
		l.note("a cold page cache is not possible here: %v", err)
		return nil
	}
	return l.race(ctx, race{contenders: append(l.again(ctx, false), l.walk(ctx)), cold: true})
}

// changed is the part in which n files change between two snapshots. They are
// the same in all rounds: they change once more right before an engine is asked,
// which would otherwise have had the time to store them.
func changed(n int) func(*lab, context.Context) error {
	return func(l *lab, ctx context.Context) error {
		names := l.next(n)
		change := func() error { return l.change(names) }
		all := l.again(ctx, true)
		for _, c := range all {
			if l.tool(c.name).resident {
				c.change = change
			}
		}
		return l.race(ctx, race{
			before: change,
			contenders: append(all, l.walk(ctx),
				l.floor(ctx, "stat walk and 2 fdatasyncs", "stat+sync", l.tree, filepath.Join(l.tmp, "synced"))),
		})
	}
}

// turn is what a runtime waits for that keeps a connection to the engine: right
// after the last change, and when a model has thought in between. Nobody else
// runs, and so it can run often.
func (l *lab) turn(ctx context.Context) error {
	l.each(ctx, "diff", func(*tool) *contender { return &contender{} })
	e := l.engine()
	if e == nil {
		return nil
	}
	runs := l.runs
	defer func() { l.runs = runs }()
	l.runs = 10 * runs
	end := func(name string, after time.Duration) *contender {
		return &contender{
			name: name,
			prepare: func() error {
				_, err := e.session.OnTurnStart(ctx, nil)
				return err
			},
			change: func() error {
				if err := l.change(l.next(10)); err != nil {
					return err
				}
				select {
				case <-time.After(after):
				case <-ctx.Done():
				}
				return ctx.Err()
			},
			run: func() (usage, error) {
				var r *client.TurnEnded
				u, err := e.timed(func() (err error) {
					r, err = e.session.OnTurnEnd(ctx, nil)
					return err
				})
				if err == nil && r.Data == nil {
					err = errors.New("files changed, and it recorded nothing")
				}
				if err == nil {
					err = e.told(ctx, r)
				}
				return u, err
			},
		}
	}
	return l.race(ctx, race{contenders: []*contender{end(clientName, 0), end(laterName, time.Second), l.sync(ctx)}})
}

// step takes two snapshots with all tools, with 10 files changed between them,
// and returns their names.
func (l *lab) step(ctx context.Context) ([]string, error) {
	takers := l.again(ctx, true)
	names := l.next(10)
	var e *engine
	for round := range 2 {
		if e = l.engine(); e != nil {
			if _, err := e.session.OnTurnStart(ctx, nil); err != nil {
				return nil, err
			}
		}
		if err := l.change(names); err != nil {
			return nil, err
		}
		if e != nil {
			r, err := e.session.OnTurnEnd(ctx, nil)
			if err == nil {
				err = e.told(ctx, r)
			}
			if err != nil {
				return nil, err
			}
		}
		for _, c := range takers {
			if c.out || l.tool(c.name).slow {
				continue
			}
			if _, err := c.run(); err != nil {
				l.note("%s: %s is left out, since in %s snapshot %d failed: %v", l.of.title, c.name,
					title(l.part), round+1, err)
				c.out, l.tool(c.name).missing = true, true
			}
		}
	}
	return names, nil
}

func (l *lab) diff(ctx context.Context) error {
	names, err := l.step(ctx)
	if err != nil {
		return err
	}
	all := l.doing(ctx, "diff", nil, nil, func(printed []byte) error {
		for _, name := range names {
			if !bytes.Contains(printed, []byte(name)) {
				return fmt.Errorf("it does not tell of %s", name)
			}
		}
		return nil
	})
	if e := l.engine(); e != nil {
		all = append(all, &contender{name: clientName, run: func() (usage, error) {
			return e.timed(func() error {
				var m manager.ModifiedFiles
				err := e.session.Call(ctx, "get_modified_files", &manager.Range{From: "@~1"}, &m)
				if err == nil && len(m.Files) != 10 {
					err = fmt.Errorf("it tells of %d changed files, want 10", len(m.Files))
				}
				return err
			})
		}})
	}
	return l.race(ctx, race{contenders: all})
}

func (l *lab) history(ctx context.Context) error {
	return l.race(ctx, race{contenders: l.doing(ctx, "log", nil, nil, nil)})
}

func (l *lab) cat(ctx context.Context) error {
	return l.race(ctx, race{contenders: l.doing(ctx, "cat", l.next(1), nil, nil)})
}

// restore has each contender bring back files that were changed since its
// newest snapshot. What it restored is compared.
func (l *lab) restore(ctx context.Context) error {
	names, err := l.step(ctx)
	if err != nil {
		return err
	}
	want, err := sum(l.tree, names)
	if err != nil {
		return err
	}
	prepare := func() error { return l.change(names) }
	all := l.doing(ctx, "restore", names, prepare, nil)
	if e := l.engine(); e != nil {
		all = append(all, &contender{name: clientName, prepare: prepare, run: func() (usage, error) {
			var r struct {
				SnapshotSeq uint64 `json:"snapshotSeq"`
			}
			u, err := e.timed(func() error {
				opts := &manager.RestoreOptions{Target: "@", Paths: names, OnDirty: rollback.Overwrite}
				return e.session.Call(ctx, "restore", opts, &r)
			})
			if err == nil {
				err = toldOf(ctx, e.session, r.SnapshotSeq)
			}
			return u, err
		}})
	}
	for _, c := range all {
		run := c.run
		c.run = func() (usage, error) {
			u, err := run()
			if err == nil {
				var got [32]byte
				if got, err = sum(l.tree, names); err == nil && got != want {
					err = errors.New("the files are not what they were")
				}
			}
			return u, err
		}
	}
	byHand := l.floor(ctx, "10 files written, synced and renamed", "write", filepath.Join(l.tmp, "written"))
	byHand.prepare = func() error { return emptyDir(filepath.Join(l.tmp, "written")) }
	return l.race(ctx, race{contenders: append(all, byHand)})
}

// export compares how many files and bytes each contender has written with the
// tree.
func (l *lab) export(ctx context.Context) error {
	_, want, err := execute(ctx, "", nil, l.self, "-floor", "stat", l.tree)
	if err != nil {
		return err
	}
	takers := l.again(ctx, false)
	for _, c := range takers {
		if _, err := l.tool(c.name).take(ctx); err != nil { // the tree may have changed since its last
			return err
		}
	}
	all := l.each(ctx, "export", func(t *tool) *contender {
		out := l.output(strings.Fields(t.name)[0])
		return &contender{
			prepare: func() error { return emptyDir(out) },
			run: func() (usage, error) {
				u, _, err := t.do(ctx, "export", nil, out)
				if err != nil {
					return u, err
				}
				_, got, err := execute(ctx, "", nil, l.self, "-floor", "stat", out)
				if err == nil && string(got) != string(want) {
					err = fmt.Errorf("it made %s, the tree has %s", strings.TrimSpace(string(got)),
						strings.TrimSpace(string(want)))
				}
				return u, errors.Join(err, discard(out))
			},
		}
	})
	defer discard(l.output("create"))
	return l.race(ctx, race{contenders: append(all, l.create(ctx))})
}

// growth is the part in which all tools take turns of n files. It tells by how
// much the stores have grown for each. The floor is what the changed files take
// compressed, and 2.5 KiB for each directory above them.
func growth(n int) func(*lab, context.Context) error {
	return func(l *lab, ctx context.Context) error {
		const turns = 20
		// An engine stores the same, but writes its stat cache now and then:
		// once in all turns would count as growth of each.
		takers := slices.DeleteFunc(l.again(ctx, true), func(c *contender) bool { return l.tool(c.name).resident })
		before := make([]int64, len(takers))
		for i, c := range takers {
			if _, err := l.tool(c.name).take(ctx); err != nil {
				return err
			}
			var err error
			if before[i], err = l.repository(ctx, c.name); err != nil {
				return err
			}
		}
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		var allowed int64
		for range turns {
			names := l.next(n)
			if err := l.change(names); err != nil {
				return err
			}
			more, err := allowance(l.tree, names, encoder)
			if err != nil {
				return err
			}
			allowed += more
			for _, c := range takers {
				if _, err := c.run(); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
		l.addBytes(turnFloor, allowed/turns)
		for i, c := range takers {
			after, err := l.repository(ctx, c.name)
			if err != nil {
				return err
			}
			l.addBytes(c.name, (after-before[i])/turns)
		}
		return nil
	}
}

const turnFloor = "files compressed, 2.5 KiB a directory"

func (l *lab) repository(ctx context.Context, tool string) (int64, error) {
	return diskUsage(ctx, filepath.Join(l.tool(tool).store, "repo"))
}

// prune comes last: what it drops is not made again.
func (l *lab) prune(ctx context.Context) error {
	all := l.doing(ctx, "prune", nil, nil, nil)
	var had []string
	for _, c := range all {
		had = append(had, fmt.Sprintf("%s %d", c.name, l.tool(c.name).n))
	}
	l.note("%s: snapshots before prune: %s", l.of.title, strings.Join(had, ", "))
	return l.race(ctx, race{contenders: all, once: true})
}

// middle changes 1 MB in the middle of the one large file, and tells of the
// time and, as a part of its own, of how much the stores grow.
func (l *lab) middle(ctx context.Context) error {
	grown := map[string][]int64{}
	all := l.again(ctx, true)
	for _, c := range all {
		run, before := c.run, int64(0)
		c.prepare = func() (err error) {
			before, err = l.repository(ctx, c.name)
			return err
		}
		c.run = func() (usage, error) {
			u, err := run()
			if err != nil {
				return u, err
			}
			after, err := l.repository(ctx, c.name)
			grown[c.name] = append(grown[c.name], after-before)
			return u, err
		}
	}
	err := l.race(ctx, race{
		before:     func() error { return l.overwrite(bigSize / 2) },
		contenders: append(all, l.floor(ctx, "read and hash", "hash", l.tree)),
	})
	l.part = "middle-growth"
	for _, c := range all {
		for _, n := range grown[c.name] {
			l.addBytes(c.name, n)
		}
	}
	return err
}

// positions has snapctl take a snapshot after 1 MB was changed at each of 40
// places, and tells of the most that its store has grown.
func (l *lab) positions(ctx context.Context) error {
	const places = 40
	for _, c := range l.again(ctx, true) {
		if c.name != "snapctl" {
			continue
		}
		worst := int64(0)
		if _, err := l.tool(c.name).take(ctx); err != nil {
			return err
		}
		for i := range places {
			before, err := l.repository(ctx, c.name)
			if err != nil {
				return err
			}
			at := int64(i)*(bigSize-changeSize)/(places-1) + l.rng.Int64N(4096)
			if err := l.overwrite(min(at, bigSize-changeSize)); err != nil {
				return err
			}
			if _, err := c.run(); err != nil {
				return err
			}
			after, err := l.repository(ctx, c.name)
			if err != nil {
				return err
			}
			worst = max(worst, after-before)
		}
		l.addBytes(c.name, worst)
	}
	return nil
}

// checkout has git change the tree to the other of two releases and back. The
// repository is beside the tree, as for all that is copied here.
func (l *lab) checkout(ctx context.Context) error {
	at := 1 // the newer one is there
	return l.race(ctx, race{
		before: func() error {
			at = 1 - at
			_, _, err := l.releases(ctx, "checkout", "-q", "--force", "release"+strconv.Itoa(at))
			return err
		},
		contenders: append(l.again(ctx, true), l.walk(ctx)),
	})
}
