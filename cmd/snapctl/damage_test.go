//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
)

var (
	damageRuns  = flag.Int("damage.runs", 0, "stores that TestDamageRandom damages (default 16, with -short 10)")
	damageFirst = flag.Int("damage.first", 0, "the first of them: to see one again")
)

// damageTurns is how many snapshots a sample takes.
const damageTurns = 8

// A damaged store is a copy of a sample, and what was done to it.
type damaged struct {
	t      *testing.T
	r      *rand.Rand
	sample *damageSample
	stores string // where the copy is
	done   []string

	lost, unknown bool // something was, at some time
	later         bool // there may be newer turns than those of the sample
	hidden        int  // so many damages show only to who reads
}

// A damageSample is a project and a store of some segments and packs.
type damageSample struct {
	project, stores string
	dir             string                       // of the store, below stores
	want            map[string]map[string]string // acknowledged snapshots by entry: what each path holds
	newest          []string                     // their entries, in this order
	turns           map[string]map[string]string // what turns hold, as turn:N, and as @~N
}

// command runs a command line as a process would.
func (s *damageSample) command(stores string, args ...string) (code int, out, stderr string) {
	var o, e bytes.Buffer
	done := make(chan int, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintf(&e, "panic: %v\n%s", r, debug.Stack())
				done <- -1
			}
		}()
		env := func(name string) string { return map[string]string{"HOME": s.stores, "PATH": "/nowhere"}[name] }
		args = append([]string{"--root", s.project, "--store", stores, "--session", "s"}, args...)
		done <- run(context.Background(), args, nil, &o, &e, env)
	}()
	select {
	case code = <-done:
		return code, o.String(), e.String()
	case <-time.After(5 * time.Minute): // a loaded machine is no reason
		return -2, "", "hangs: " + strings.Join(args, " ")
	}
}

func (s *damageSample) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := s.command(s.stores, args...)
	if code != 0 {
		t.Fatalf("%q: %d, %s%s", args, code, out, stderr)
	}
	return out
}

// spoil damages the record of an object, which has one of its own.
func (s *damageSample) spoil(t *testing.T, id store.ID) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(s.stores, "*", "packs", "*.pack"))
	for _, name := range packs {
		b, rerr := os.ReadFile(name)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if at := bytes.Index(b, id[:]); at >= 0 {
			if b[at] ^= 1; os.WriteFile(name, b, 0o600) != nil {
				t.Fatal(name)
			}
			return
		}
	}
	t.Fatal("no pack has the object", packs, err)
}

// newDamageSample takes snapshots of a directory. A repair ends a segment, a prune
// has records that are not kept, a compaction large groups.
func newDamageSample(t *testing.T, pruned, compacted bool) *damageSample {
	s := &damageSample{project: t.TempDir(), stores: t.TempDir(), want: make(map[string]map[string]string),
		turns: make(map[string]map[string]string)}
	s.project = filepath.Join(s.project, "p")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(s.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	large := strings.Repeat("in a record of its own\n", 8000)
	write("large", large)
	for i := range damageTurns {
		write("always", "this file is never changed")
		write(fmt.Sprintf("d/f%d", i), fmt.Sprint(r.Uint64(), r.Uint64(), r.Uint64()))
		write("changed", strings.Repeat(fmt.Sprintln("version", i), 20+i))
		if i > 2 {
			if err := os.Remove(filepath.Join(s.project, fmt.Sprintf("d/f%d", i-3))); err != nil {
				t.Fatal(err)
			}
		}
		s.must(t, "snapshot", "-q")
		s.must(t, "sessions", "--export")
		if i%2 == 1 && (!compacted || i < 7) { // a pack is damaged, and replaced: the next segment begins
			s.spoil(t, object.Hash(object.Blob, []byte(large)))
			s.must(t, "repair")
		}
		if i == 4 && pruned {
			s.must(t, "prune", "--keep-last", "2")
		}
		if i == 6 && compacted {
			if out := s.must(t, "compact"); !strings.HasPrefix(out, "wrote ") {
				t.Fatal(out)
			}
		}
	}
	dirs, err := filepath.Glob(filepath.Join(s.stores, "*", "FORMAT"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	s.dir = filepath.Base(filepath.Dir(dirs[0]))
	// Its copies may not have them to come back from: that would be too easy.
	if err := os.RemoveAll(filepath.Join(s.stores, s.dir, "quarantine")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.stores, s.dir, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(s.must(t, "log", "--json")) {
		var e struct {
			Entry string `json:"entryId"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Entry == "" {
			continue
		}
		out := filepath.Join(t.TempDir(), "out")
		if code, _, _ := s.command(s.stores, "export", e.Entry, out); code == 0 {
			s.want[e.Entry] = contentsOf(t, out)
			s.newest = append(s.newest, e.Entry)
		} else if !pruned {
			t.Fatalf("export of %s: %d", e.Entry, code)
		}
	}
	for i := range damageTurns {
		for _, rev := range []string{fmt.Sprint("turn:", i), fmt.Sprint("@~", i)} {
			out := filepath.Join(t.TempDir(), "out")
			if code, _, _ := s.command(s.stores, "export", rev, out); code == 0 {
				s.turns[rev] = contentsOf(t, out)
			}
		}
	}
	segments, err := filepath.Glob(filepath.Join(s.stores, s.dir, "journal", "*.log"))
	if err != nil || len(segments) < 4 || len(s.want) < 5 || len(s.turns) < 8 {
		t.Fatalf("%d segments, %d snapshots, %d names, %v: too few", len(segments), len(s.want), len(s.turns), err)
	}
	return s
}

// contentsOf reads all files below a directory.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// hurt damages a file at random.
func (d *damaged) hurt() {
	dir := filepath.Join(d.stores, d.sample.dir)
	var files []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Base(filepath.Dir(path)) != "locks" &&
			!strings.HasSuffix(path, "lock") {
			files = append(files, path)
		}
		return nil
	})
	// The journal is small, and what the rest hangs on.
	if d.r.IntN(2) == 0 {
		if list := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
			return !strings.Contains(name, "/journal/") && filepath.Base(name) != "FORMAT"
		}); len(list) > 0 {
			files = list
		}
	}
	name := files[d.r.IntN(len(files))]
	b, err := os.ReadFile(name)
	if err != nil {
		d.t.Fatal(err)
	}
	was := bytes.Clone(b)
	at := func() int { return d.r.IntN(len(b) + 1) }
	what := ""
	switch n := d.r.IntN(14); {
	case n < 4 && len(b) > 0:
		i := d.r.IntN(len(b))
		b[i] ^= 1 << d.r.IntN(8)
		what = fmt.Sprint("bit flipped at ", i)
	case n == 4 && len(b) > 0:
		i := d.r.IntN(len(b))
		b[i] ^= byte(1 + d.r.IntN(255))
		what = fmt.Sprint("byte changed at ", i)
	case n < 7:
		i := at()
		b = b[:i]
		what = fmt.Sprint("cut at ", i)
	case n == 7:
		i, j := at(), at()
		i, j = min(i, j), max(i, j)
		clear(b[i:j])
		what = fmt.Sprintf("zeros from %d to %d", i, j)
	case n == 8:
		i, j := at(), at()
		i, j = min(i, j), max(i, j)
		b = slices.Concat(b[:i], b[j:])
		what = fmt.Sprintf("without %d to %d", i, j)
	case n == 9:
		i, j := at(), at()
		i, j = min(i, j), max(i, j)
		b = slices.Concat(b[:j], b[i:])
		what = fmt.Sprintf("twice %d to %d", i, j)
	case n == 10:
		b = append(b, []byte(fmt.Sprint("garbage", d.r.Uint64()))...)
		what = "garbage at the end"
	case n == 11:
		other := files[d.r.IntN(len(files))]
		if b, err = os.ReadFile(other); err != nil {
			d.t.Fatal(err)
		}
		what = "a copy of " + strings.TrimPrefix(other, dir)
	default:
		what = d.special(name)
	}
	if !strings.HasPrefix(what, "is ") {
		if bytes.Equal(b, was) {
			what = "as it was"
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	d.done = append(d.done, strings.TrimPrefix(name, dir)+" "+what)
	_, err = os.Stat(strings.TrimSuffix(name, ".pack") + ".idx")
	isOpenPack := strings.HasSuffix(name, ".pack") && errors.Is(err, fs.ErrNotExist)
	if !isOpenPack || !strings.HasPrefix(what, "cut ") && !strings.HasPrefix(what, "is ") {
		d.hidden++
	}
}

// special removes a file, or puts something else there.
func (d *damaged) special(name string) string {
	err := os.Remove(name)
	what := "is deleted"
	if err == nil {
		switch d.r.IntN(6) {
		case 0:
			err, what = os.Mkdir(name, 0o700), "is a directory"
		case 1:
			err, what = os.Symlink("nowhere", name), "is a link"
		case 2:
			err, what = syscall.Mkfifo(name, 0o600), "is a pipe"
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return what
}

// run runs a command on the copy.
func (d *damaged) run(args ...string) (code int, out, stderr string) {
	code, out, stderr = d.sample.command(d.stores, args...)
	if code < 0 {
		d.t.Errorf("%v: %q: %s", d.done, args, stderr)
	}
	return code, out, stderr
}

// exports exports all snapshots, and returns those that do not come back in whole,
// which of them are not known at all, and of which it may not be known.
func (d *damaged) exports(when string) (lost, unknown, unsure map[string]bool) {
	lost, unknown, unsure = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, entry := range slices.Sorted(maps.Keys(d.sample.want)) {
		_, code, stderr := d.export(when, entry, d.sample.want[entry])
		lost[entry] = code != 0
		unknown[entry] = code == exitRefused
		unsure[entry] = code == exitRefused || code == exitEnvironment // what lies behind cannot be read
		if code == exitRefused && strings.Contains(stderr, "pruned") {
			d.t.Errorf("%v: %s: export of %s: %s", d.done, when, entry, stderr)
		}
	}
	for _, set := range []map[string]bool{lost, unknown, unsure} {
		maps.DeleteFunc(set, func(_ string, is bool) bool { return !is })
	}
	return lost, unknown, unsure
}

// export exports what a name stands for, and requires that it comes back as one of some contents: it returns which
// these are.
func (d *damaged) export(when, rev string, wants ...map[string]string) (fit []int, code int, stderr string) {
	out := filepath.Join(d.stores, "out")
	code, _, stderr = d.run("export", rev, out)
	got := contentsOfOr(d.t, out)
	for i, want := range wants {
		wrong := maps.Clone(got)
		maps.DeleteFunc(wrong, func(name, text string) bool { return want[name] == text })
		switch {
		case len(wrong) == 0 && (code != 0 || len(got) == len(want)):
			fit = append(fit, i)
		case i == len(wants)-1 && len(fit) == 0:
			d.t.Errorf("%v: %s: export of %s: code %d, %d of %d files, wrong are %q", d.done, when, rev, code,
				len(got), len(want), slices.Sorted(maps.Keys(wrong)))
		}
	}
	if err := os.RemoveAll(out); err != nil {
		d.t.Fatal(err)
	}
	return fit, code, stderr
}

// names requires that no turn is taken for another whose record is lost; but @~N passes over the newest that are.
func (d *damaged) names(when string, unsure map[string]bool) {
	lost := 0
	for lost < len(d.sample.newest) && unsure[d.sample.newest[lost]] {
		lost++
	}
	over := make(map[int]int) // by how many were passed over, how many names fit
	n := 0
	for i := range damageTurns {
		if want := d.sample.turns[fmt.Sprint("turn:", i)]; want != nil {
			d.export(when, fmt.Sprint("turn:", i), want)
			if d.sample.turns[fmt.Sprint("turn:", i+2)] != nil { // a newer turn passes over what was lost before it
				d.export(when, fmt.Sprintf("turn:%d~2", i+2), want)
			}
		}
		var wants []map[string]string
		for k := 0; k <= lost && d.sample.turns[fmt.Sprint("@~", i+k)] != nil; k++ {
			wants = append(wants, d.sample.turns[fmt.Sprint("@~", i+k)])
		}
		if d.later || len(wants) <= lost {
			continue
		}
		fit, _, _ := d.export(when, fmt.Sprint("@~", i), wants...)
		for _, k := range fit {
			over[k]++
		}
		n++
	}
	if n > 0 && !slices.Contains(slices.Collect(maps.Values(over)), n) {
		d.t.Errorf("%v: %s: %d of the newest are lost, and @~N counts now one, now another: %v of %d", d.done, when,
			lost, over, n)
	}
}

// told requires that check tells of it if something is lost.
func (d *damaged) told(when string) (lost map[string]bool, code int) {
	code, out, stderr := d.run("check", "--read-data")
	if strings.Contains(stderr, "check' lists") {
		d.t.Errorf("%v: %s: check has a hint to run check: %s", d.done, when, stderr)
	}
	lost, unknown, unsure := d.exports(when)
	d.names(when, unsure)
	if len(lost) > 0 && code == 0 {
		d.t.Errorf("%v: %s: %d of %d snapshots are lost, %d unknown, and check says %s", d.done, when, len(lost),
			len(d.sample.want), len(unknown), out)
	}
	d.lost, d.unknown = d.lost || len(lost) > 0, d.unknown || len(unknown) > 0
	if len(unknown) > 0 {
		for _, name := range []string{"prune", "compact"} {
			if code, out, _ := d.run(name); code == 0 {
				d.t.Errorf("%v: %s: %d snapshots are unknown, and %s goes on: %s", d.done, when, len(unknown),
					name, out)
			}
		}
	}
	return lost, code
}

// snapshot takes a snapshot behind a check, which found all damage there is unless it failed, or where all of it
// shows without reading: if the snapshot says that it did, all of the directory is in the store.
func (d *damaged) snapshot(what string, check int) {
	d.later = true
	code, said, _ := d.run("snapshot")
	if code != 0 || check != 0 && check != exitDamage {
		return
	}
	out := filepath.Join(d.stores, "out")
	if code, _, stderr := d.run("export", "@", out); code != 0 {
		d.t.Errorf("%v: %s (%s) cannot be exported: %s", d.done, what, said, stderr)
	} else if got, want := contentsOfOr(d.t, out), contentsOf(d.t, d.sample.project); !maps.Equal(got, want) {
		maps.DeleteFunc(want, func(name, text string) bool { return got[name] == text })
		d.t.Errorf("%v: %s (%s) has %d files, %q are not as they are", d.done, what, said, len(got),
			slices.Sorted(maps.Keys(want)))
	}
	if err := os.RemoveAll(out); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damaged) try() {
	if d.hidden == 0 && d.r.IntN(2) == 0 {
		d.snapshot("a snapshot before anybody has read", 0)
	}
	lost, check := d.told("damaged")
	for range max(0, d.r.IntN(6)-2) { // turns come before the repair, and damage between them
		d.snapshot("a snapshot before the repair", check)
		lost, check = d.told("after a snapshot")
		if d.r.IntN(2) == 0 {
			d.hurt()
			lost, check = d.told("damaged between snapshots")
		}
	}
	if d.r.IntN(3) == 0 {
		d.run([]string{"prune", "compact"}[d.r.IntN(2)])
	}
	code, _, _ := d.run("repair")
	left, check := d.told("repaired")
	if code == 0 && check != 0 {
		d.t.Errorf("%v: repair says 0, check then %d", d.done, check)
	}
	for entry := range left {
		if !lost[entry] {
			d.t.Errorf("%v: repair has lost %s", d.done, entry)
		}
	}
	d.snapshot("the next snapshot", check)
	d.told("at the end")
	d.accept()
}

// accept accepts what is lost: then there is no damage, all else is there, and is
// pruned; and what is lost after that is told as ever.
func (d *damaged) accept() {
	before, _, _ := d.exports("before it is accepted")
	if code, _, _ := d.run("repair", "--accept-loss", "-y"); code != 0 {
		return // something else is wrong
	}
	for _, args := range [][]string{{"check", "--read-data"}, {"repair"}, {"prune"}, {"check", "--read-data"}} {
		if code, out, stderr := d.run(args...); code != 0 {
			d.t.Errorf("%v: the loss is accepted, and then %q: %d %s%s", d.done, args, code, out, stderr)
		}
	}
	lost, _, _ := d.exports("accepted")
	for entry := range lost {
		if !before[entry] { // fewer may be lost: this repair may bring back a record that the last has not
			d.t.Errorf("%v: lost before it was accepted: %v, after a prune: %v", d.done, before, lost)
		}
	}
	d.hurt()
	more, _, _ := d.exports("hurt again")
	if code, out, _ := d.run("check", "--read-data"); code == 0 && !maps.Equal(lost, more) {
		d.t.Errorf("%v: lost and accepted: %v, lost: %v, and check says %s", d.done, lost, more, out)
	}
}

func contentsOfOr(t *testing.T, dir string) map[string]string {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	return contentsOf(t, dir)
}

// Stores of some segments and packs are damaged at random, one in four in two
// places. Whoever loses a snapshot is told by check, before anything is pruned;
// what is read is right; nothing hangs or panics.
func TestDamageRandom(t *testing.T) {
	t.Parallel()
	first := testseed.Of(t)
	samples := []*damageSample{newDamageSample(t, false, false), newDamageSample(t, true, false),
		newDamageSample(t, true, true)}
	var wg sync.WaitGroup
	work := make(chan int)
	var mu sync.Mutex
	counts := make(map[string]int)
	for range 2 {
		wg.Go(func() {
			for i := range work {
				r := rand.New(rand.NewPCG(first, uint64(i)))
				s := samples[r.IntN(len(samples))]
				stores, err := os.MkdirTemp(s.stores, "try")
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.CopyFS(filepath.Join(stores, s.dir),
					os.DirFS(filepath.Join(s.stores, s.dir))); err != nil {
					t.Error(err)
					return
				}
				d := &damaged{t: t, r: r, sample: s, stores: stores}
				switch r.IntN(4) {
				case 0:
					d.hurt()
					d.hurt()
				case 1:
					d.hurt()
				default:
					// As where a runtime keeps the log: what only ours still knows
					// is not there then.
					if err := os.RemoveAll(filepath.Join(stores, s.dir, "worktrees", s.dir, "sessions")); err != nil {
						t.Error(err)
						return
					}
					d.hurt()
				}
				failed := t.Failed()
				d.try()
				if testing.Verbose() {
					t.Logf("run %d: %v: lost %v, unknown %v", i, d.done, d.lost, d.unknown)
				}
				if t.Failed() && !failed {
					t.Logf("the first that failed is run %d", i)
				}
				mu.Lock()
				counts[fmt.Sprintf("damages %d, lost %v, unknown %v", len(d.done), d.lost, d.unknown)]++
				mu.Unlock()
				if err := os.RemoveAll(stores); err != nil {
					t.Error(err)
				}
			}
		})
	}
	runs := cmp.Or(*damageRuns, 16)
	if *damageRuns == 0 && testing.Short() {
		runs = 10
	}
	for i := range runs {
		work <- *damageFirst + i
	}
	close(work)
	wg.Wait()
	t.Logf("%v", counts)
}
