//go:build unix

package manager

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/blame"
)

var (
	blameTurns   = flag.Int("blame.turns", 0, "turns of TestBlameCost; 0: it is skipped")
	blameCommand = flag.String("blame.command", "", "snapctl, of which TestBlameCost measures the process, too")
)

// TestBlameCost measures the blame of a file of 10,000 lines, of which every second turn changes
// some, and git blame of the same history, in turns: processor time.
func TestBlameCost(t *testing.T) {
	if *blameTurns == 0 {
		t.Skip("it takes minutes: -blame.turns 10000")
	}
	b := newBench(t)
	m := b.open("s")
	repo := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	h := &blameHistoryOf{bench: b, m: m, rnd: rand.New(rand.NewPCG(4, 2))}
	h.make(repo)
	t.Logf("%d turns, %d versions of %d lines at the end, %d MB of contents", *blameTurns, h.versions, len(h.lines),
		h.size>>20)
	for range 3 {
		b.must(blame.Remove(t.Context(), m.store.FS()))
		fresh := b.open("s") // nothing is in memory
		cold, got := cpuOf(func() []int { return b.blameTurns(fresh, "big") })
		git, want := gitBlameCost(t, repo, "big")
		differ := 0
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				differ++
			}
		}
		t.Logf("cold %v  git blame %v  ratio %.2f, %d of %d lines of other turns", cold, git,
			float64(cold)/float64(git), differ, len(want))
		if differ*1000 > len(want) || len(got) != len(want) {
			t.Errorf("%d lines of %d are of other turns than git says", differ, len(want))
		}
	}
	h.warm()
	h.process()
}

// A blameHistoryOf is a history with one large file.
type blameHistoryOf struct {
	*bench
	m        *FileSnapshotManager
	rnd      *rand.Rand
	lines    []string
	versions int
	size     int64
}

func (h *blameHistoryOf) line() string {
	return fmt.Sprintf("line %d of %d\n", h.rnd.IntN(1e6), h.rnd.IntN(1e4))
}

// edit changes a few lines. The file stays about as long as it is.
func (h *blameHistoryOf) edit() {
	for range 1 + h.rnd.IntN(3) {
		at := h.rnd.IntN(len(h.lines) - 3)
		var come []string
		for range h.rnd.IntN(4) {
			come = append(come, h.line())
		}
		h.lines = slices.Replace(h.lines, at, at+h.rnd.IntN(4), come...)
	}
	h.versions++
}

func (h *blameHistoryOf) make(repo string) {
	for range 10_000 {
		h.lines = append(h.lines, h.line())
	}
	h.initialize(h.m)
	stream, wait := fastImport(h.bench, repo)
	for turn := range *blameTurns {
		name, text := fmt.Sprintf("d%d/f", turn%40), fmt.Sprintln("turn", turn)
		if turn%2 == 0 {
			h.edit()
			name, text = "big", strings.Join(h.lines, "")
		}
		h.size += int64(len(text))
		fmt.Fprintf(stream, "commit refs/heads/main\ncommitter u <u@e> %d +0000\ndata 0\n", turn+1)
		fmt.Fprintf(stream, "M 644 inline %s\ndata %d\n%s\n", name, len(text), text)
		h.turn(h.m, func() { h.write(name, text) })
	}
	h.must(wait())
}

// warm measures answers from what is kept, and those that have one more version to learn of.
func (h *blameHistoryOf) warm() {
	var again, more []time.Duration
	ask := func() time.Duration {
		cost, err := cpuOf(func() error {
			_, err := h.m.Blame(h.Context(), &BlameOptions{Path: "big"})
			return err
		})
		h.must(err)
		return cost
	}
	ask()
	for range 50 {
		again = append(again, ask())
		h.turn(h.m, func() {
			h.edit()
			h.write("big", strings.Join(h.lines, ""))
		})
		more = append(more, ask())
	}
	k := blame.Read(h.m.store.FS(), h.m.place(), "big")
	if k == nil {
		h.Fatal("nothing is kept")
	}
	lines, _ := k.Versions[len(k.Versions)-1].Lines(len(k.Owners))
	h.Logf("in an engine, processor, medians of 50: again %v, with one more version %v", median(again), median(more))
	h.Logf("%d versions of %d runs and %d owners are kept", len(k.Versions), len(lines), len(k.Owners))
}

// process measures the command, and one that does nothing.
func (h *blameHistoryOf) process() {
	if *blameCommand == "" {
		return
	}
	of := func(args ...string) time.Duration {
		var all []time.Duration
		for range 21 {
			c := exec.Command(*blameCommand, args...)
			c.Dir = h.dir
			if out, err := c.Output(); err != nil {
				h.Fatalf("%v %s", err, out)
			}
			all = append(all, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
		return median(all)
	}
	where := []string{"--store", h.stores, "--session", "s"}
	h.Logf("as a process, medians of 21, processor: version %v, log -n 1 %v, blame %v, blame -L 1,20 %v", of("version"),
		of(append(where, "log", "-n", "1")...), of(append(where, "blame", "big")...),
		of(append(where, "blame", "-L", "1,20", "big")...))
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// cpuOf returns what this process spends on something.
func cpuOf[T any](do func() T) (time.Duration, T) {
	before := cpuTime(syscall.RUSAGE_SELF)
	v := do()
	return cpuTime(syscall.RUSAGE_SELF) - before, v
}

func gitBlameCost(t *testing.T, repo, path string) (cost time.Duration, turns []int) {
	c := exec.Command("git", "blame", "--line-porcelain", "main", "--", path)
	c.Dir = repo
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), turnsOfPorcelain(out)
}
