package manager

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// A lineSet is lines of a file that turns have changed and that are in.
type lineSet map[int]bool

// A cutModel is a file of lines, each of which one turn or the user changes once, so that
// nothing is ever in conflict: what the file holds follows from which of them are in.
type cutModel struct {
	*bench
	m   *FileSnapshotManager
	rng *rand.Rand

	fresh   []int // lines that nobody has changed yet
	user    lineSet
	in      lineSet
	turnOf  map[int]int
	moments []lineSet // what was in at the end of each turn
	undo    []lineSet // lines that undo puts in, or takes out, next: the last
	redo    []lineSet
	steps   []string
}

func newCutModel(t *testing.T, seed uint64) *cutModel {
	const lines = 24
	rng := rand.New(rand.NewPCG(seed, 0))
	c := &cutModel{bench: newBench(t), rng: rng, fresh: rng.Perm(lines), user: make(lineSet), in: make(lineSet),
		turnOf: make(map[int]int)}
	c.m = c.open("s")
	c.write("p", c.text())
	c.initialize(c.m)
	return c
}

func (c *cutModel) text() string {
	lines := make([]string, len(c.fresh)+len(c.user)+len(c.turnOf))
	for i := range lines {
		switch lines[i] = fmt.Sprint("old", i); {
		case c.user[i]:
			lines[i] = fmt.Sprint("user", i)
		case c.in[i]:
			lines[i] = fmt.Sprint("new", i)
		}
	}
	return ruleText(lines...)
}

// line returns the turns of which something is in.
func (c *cutModel) line() []int {
	var list []int
	for l := range c.in {
		list = append(list, c.turnOf[l])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// of returns the lines of a turn that are in.
func (c *cutModel) of(turn int) []int {
	list := slices.Sorted(maps.Keys(c.in))
	return slices.DeleteFunc(list, func(l int) bool { return c.turnOf[l] != turn })
}

// flip puts lines in that are out, and takes those out that are in.
func (c *cutModel) flip(lines lineSet) {
	for l := range lines {
		if c.in[l] {
			delete(c.in, l)
		} else {
			c.in[l] = true
		}
	}
}

// restored notes that a restore has flipped lines.
func (c *cutModel) restored(r *RestoreResult, err error, lines lineSet) {
	c.Helper()
	c.did(r, err)
	if c.flip(lines); len(lines) > 0 {
		c.undo, c.redo = append(c.undo, lines), nil
	}
}

func (c *cutModel) did(r *RestoreResult, err error) {
	c.Helper()
	if err != nil || !r.IsComplete() {
		c.Fatalf("%+v, %v\n%s", r, err, strings.Join(c.steps, "\n"))
	}
}

func (c *cutModel) step(format string, args ...any) {
	c.steps = append(c.steps, fmt.Sprintf(format, args...))
}

// change has a turn, or the user, change lines that nobody has changed.
func (c *cutModel) change() {
	n := min(1+c.rng.IntN(3), len(c.fresh))
	lines := c.fresh[:n]
	if c.rng.IntN(4) == 0 {
		c.step("the user changes %v", lines)
		for _, l := range lines {
			c.user[l] = true
		}
		c.fresh = c.fresh[n:]
		c.write("p", c.text())
		return
	}
	turn := len(c.moments)
	c.step("turn %d changes %v", turn, lines)
	for _, l := range lines {
		c.in[l], c.turnOf[l] = true, turn
	}
	c.fresh = c.fresh[n:]
	c.bench.turn(c.m, func() { c.write("p", c.text()) })
	c.moments = append(c.moments, maps.Clone(c.in))
}

// revert takes a turn back that is in, or some hunks of it.
func (c *cutModel) revert(hunks bool) {
	line := c.line()
	if len(line) == 0 {
		return
	}
	turn := line[c.rng.IntN(len(line))]
	q := &RevertOptions{Turns: []string{fmt.Sprint(turn)}}
	chosen := make(lineSet)
	for i, l := range c.of(turn) {
		if !hunks || i == 0 || c.rng.IntN(2) == 0 {
			chosen[l] = true
		}
	}
	c.step("revert %v of turn %d, hunks: %t", slices.Sorted(maps.Keys(chosen)), turn, hunks)
	if hunks {
		for _, h := range c.hunks(c.m, &HunkRange{Turns: []string{q.Turns[0]}}).Hunks {
			for l := range chosen {
				if strings.Contains(h.Text, fmt.Sprintf("+new%d\n", l)) {
					q.Hunks = append(q.Hunks, h.ID)
				}
			}
		}
	}
	r, err := c.m.Revert(c.Context(), q)
	c.restored(r, err, chosen)
}

// restore goes to the start, the end of a turn, or takes the newest turn of the line.
func (c *cutModel) restore() {
	to := c.rng.IntN(len(c.moments)+2) - 2
	target, then := "start", make(lineSet)
	switch line := c.line(); {
	case to >= 0:
		target, then = fmt.Sprint("turn:", to), c.moments[to]
	case to == -1 && len(line) > 0:
		target, then = "@~1", maps.Clone(c.in)
		for _, l := range c.of(line[len(line)-1]) {
			delete(then, l)
		}
	}
	lines := make(lineSet)
	for l := range c.turnOf {
		if c.in[l] != then[l] {
			lines[l] = true
		}
	}
	c.step("restore %s", target)
	r, err := c.m.RestoreFiles(c.Context(), &RestoreOptions{Target: target, OnDirty: "merge"})
	c.restored(r, err, lines)
}

// takeBack undoes a restore, or does it again.
func (c *cutModel) takeBack(what string, from, to *[]lineSet, do func(context.Context,
	*UndoOptions) (*RestoreResult, error)) {
	n := len(*from)
	if n == 0 {
		return
	}
	lines := (*from)[n-1]
	c.step("%s", what)
	r, err := do(c.Context(), &UndoOptions{OnDirty: "merge"})
	c.did(r, err)
	c.flip(lines)
	*from, *to = (*from)[:n-1], append(*to, lines)
}

// check compares the file, and which turns are on the line.
func (c *cutModel) check() {
	c.Helper()
	var line []int
	for mo, err := range c.m.Timeline(c.Context()) {
		if err != nil {
			c.Fatal(err)
		}
		if mo.Kind == "step" && mo.TakenBack == nil {
			line = append(line, mo.TurnIndex)
		}
	}
	slices.Sort(line)
	got, want := c.files()["p"], c.text()
	if got != want || !slices.Equal(line, c.line()) {
		c.Fatalf("p is %q, want %q; turns %v are in, want %v\n%s", storyLetters(got),
			storyLetters(want), line, c.line(), strings.Join(c.steps, "\n"))
	}
}

// Random histories of hunks and turns that are taken back, put back and undone, on one
// file, are as a set of lines says.
func TestHunkHistories(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCutModel(t, seed)
			for range 20 {
				switch op := c.rng.IntN(11); {
				case op < 3 && len(c.fresh) > 0:
					c.change()
				case op < 5:
					c.revert(true)
				case op == 5:
					c.revert(false)
				case op == 6:
					c.restore()
				case op < 10:
					c.takeBack("undo", &c.undo, &c.redo, c.m.Undo)
				default:
					c.takeBack("redo", &c.redo, &c.undo, c.m.Redo)
				}
				c.check()
			}
		})
	}
}
