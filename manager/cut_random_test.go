package manager

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

var cutRuns = flag.Int("cut.runs", 30, "histories of TestCutsAtRandom")

// A slotFile is what a file is to hold, as a simulation that shares no code with ours:
// lines at places that are apart, each of which is taken back by itself.
type slotFile struct {
	lines   []string
	changes []map[int][2]string // of each turn, by place: what it found, and left
	in      []map[int]bool      // of each turn: places at which it is in
	line    map[int]bool        // turns that are on the line
}

func (f *slotFile) clone() *slotFile {
	c := &slotFile{lines: slices.Clone(f.lines), changes: slices.Clone(f.changes), line: maps.Clone(f.line)}
	for _, in := range f.in {
		c.in = append(c.in, maps.Clone(in))
	}
	return c
}

func (f *slotFile) text() string {
	var b strings.Builder
	for i, line := range f.lines {
		fmt.Fprintf(&b, "%s\nfirst %d\nlast %d\n", line, i, i)
	}
	return b.String()
}

// takeBack takes a turn back at places at which it is in: where somebody has changed the
// line since, it stays. It reports whether that is so anywhere.
func (f *slotFile) takeBack(turn int, places []int) (conflict bool) {
	for _, i := range places {
		switch c := f.changes[turn][i]; {
		case !f.in[turn][i]:
		case f.lines[i] == c[1], f.lines[i] == c[0]:
			f.lines[i], f.in[turn][i] = c[0], false
		default:
			conflict = true
		}
	}
	return conflict
}

func (f *slotFile) isIn(turn int) bool {
	return slices.Contains(slices.Collect(maps.Values(f.in[turn])), true)
}

// back returns the turns that go with all newer ones that are in, newest first.
func (f *slotFile) back(oldest int) (list []int) {
	for n := len(f.in) - 1; n >= oldest; n-- {
		if f.isIn(n) || f.line[n] {
			list = append(list, n)
		}
	}
	return list
}

// What comes of turns, edits by hand, reverts of turns and of hunks, restores and undos in
// any order is what a simulation says, line by line.
func TestCutsAtRandom(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	rng := testseed.Rand(t)
	counts := make(map[string]int)
	for run := range *cutRuns {
		seed := rng.Uint64()
		t.Run(fmt.Sprint(run), func(t *testing.T) { cutsAtRandom(t, rand.New(rand.NewPCG(seed, 0)), counts) })
		if t.Failed() {
			break
		}
	}
	t.Logf("%v", counts)
}

func cutsAtRandom(t *testing.T, rng *rand.Rand, counts map[string]int) {
	const places = 6
	b := newBench(t)
	m := b.open("s")
	f := &slotFile{line: make(map[int]bool)}
	for i := range places {
		f.lines = append(f.lines, fmt.Sprint("start ", i))
	}
	b.write("p", f.text())
	b.initialize(m)
	type done struct{ before, after *slotFile }
	var undos []done
	var story []string
	for step := range 14 {
		say := func(format string, args ...any) {
			counts[strings.Fields(format)[0]]++
			story = append(story, fmt.Sprintf(format, args...))
		}
		place, turns := rng.IntN(places), len(f.in)
		turn := 0
		if turns > 0 {
			turn = rng.IntN(turns)
		}
		before := f.clone()
		var err error
		var r *RestoreResult
		isRestore, conflict := true, false
		switch n := rng.IntN(14); {
		case n < 4 || turns == 0:
			isRestore = false
			c, in := make(map[int][2]string), make(map[int]bool)
			for range 1 + rng.IntN(3) {
				i := rng.IntN(places)
				if _, twice := c[i]; !twice {
					c[i], in[i] = [2]string{f.lines[i], fmt.Sprintf("turn %d at %d", turns, i)}, true
					f.lines[i] = c[i][1]
				}
			}
			f.changes, f.in, f.line[turns] = append(f.changes, c), append(f.in, in), true
			say("turn %d %v", turns, slices.Sorted(maps.Keys(c)))
			b.turn(m, func() { b.write("p", f.text()) })
		case n < 6:
			isRestore = false
			f.lines[place] = fmt.Sprintf("user %d at %d", step, place)
			say("user %d", place)
			b.write("p", f.text())
		case n < 8:
			if !f.isIn(turn) {
				continue
			}
			say("revert %d", turn)
			conflict = f.takeBack(turn, slices.Collect(maps.Keys(f.in[turn])))
			delete(f.line, turn)
			r, err = m.Revert(t.Context(), &RevertOptions{Turns: []string{fmt.Sprint("turn:", turn)}})
		case n < 11:
			var ids []string
			var at []int
			for _, h := range b.hunks(m, &HunkRange{Turns: []string{fmt.Sprint("turn:", turn)}}).Hunks {
				i := h.After[0] / 3
				want := "conflict"
				if c := f.changes[turn][i]; !f.in[turn][i] || f.lines[i] == c[0] {
					want = "done"
				} else if f.lines[i] == c[1] {
					want = "clean"
				}
				if h.State != want {
					t.Fatalf("%v: the hunk of turn %d at %d is %s, want %s", story, turn, i, h.State, want)
				}
				if f.in[turn][i] && rng.IntN(2) == 0 {
					ids, at = append(ids, h.ID), append(at, i)
				}
			}
			if len(ids) == 0 {
				continue
			}
			say("hunks of %d at %v", turn, at)
			isAll := true
			for i, in := range f.in[turn] {
				isAll = isAll && (!in || slices.Contains(at, i))
			}
			if conflict = f.takeBack(turn, at); isAll || !f.isIn(turn) {
				delete(f.line, turn)
			}
			r, err = m.Revert(t.Context(), &RevertOptions{Turns: []string{fmt.Sprint("turn:", turn)}, Hunks: ids})
		case n < 13:
			oldest := 0
			target := "start"
			if rng.IntN(2) == 0 && len(f.line) > 0 {
				target, oldest = "@~1", slices.Max(slices.Collect(maps.Keys(f.line)))
			}
			say("restore %s", target)
			for _, n := range f.back(oldest) {
				conflict = f.takeBack(n, slices.Collect(maps.Keys(f.in[n]))) || conflict
				delete(f.line, n)
			}
			r, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: target, OnDirty: "merge"})
		default:
			if len(undos) == 0 {
				continue
			}
			u := undos[len(undos)-1]
			for i := range f.lines {
				if was, is := u.before.lines[i], u.after.lines[i]; was != is {
					conflict = conflict || f.lines[i] != is
					f.lines[i] = was
				}
			}
			if conflict { // where the path stands then is of all its lines
				f = before
				continue
			}
			undos = undos[:len(undos)-1]
			isRestore = false
			for n := range u.before.in {
				f.in[n] = maps.Clone(u.before.in[n])
				if delete(f.line, n); u.before.line[n] {
					f.line[n] = true
				}
			}
			say("undo")
			if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: "merge"}); err != nil {
				t.Fatalf("%v: %v", story, err)
			}
		}
		switch changed := !slices.Equal(before.lines, f.lines); {
		case !isRestore:
		case err != nil && !(errors.Is(err, ErrChangedNothing) || errors.Is(err, ErrNothing)):
			t.Fatalf("%v: %v", story, err)
		case changed:
			undos = append(undos, done{before, f.clone()})
			if conflict != (len(r.Conflicts) > 0) {
				t.Fatalf("%s: conflicts %+v, want some: %v", strings.Join(story, "; "), r.Conflicts, conflict)
			}
		default: // it is no restore, and alters nothing
			f = before
		}
		text, rerr := os.ReadFile(filepath.Join(b.dir, "p"))
		if rerr != nil || string(text) != f.text() {
			t.Fatalf("%s:\n%s\nwant\n%s\nthe result is %+v", strings.Join(story, "; "),
				slotsOf(string(text)), slotsOf(f.text()), r)
		}
	}
}

// slotsOf shows the lines at the places of a text.
func slotsOf(text string) string {
	lines := strings.Split(text, "\n")
	var list []string
	for i := 0; i+2 < len(lines); i += 3 {
		list = append(list, lines[i])
	}
	return strings.Join(list, ", ")
}
