//go:build unix

package manager

import (
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

var (
	revertFiles  = flag.Int("revert.files", 40, "files of TestRevertCost; 5000 by make revert")
	revertRounds = flag.Int("revert.rounds", 1, "rounds of TestRevertCost")
)

// TestRevertCost measures in turns what it takes to take back a turn by a restore and by its
// name, of which nothing is merged, and where each file is: processor time, the least of all
// rounds. What becomes of the files is checked.
func TestRevertCost(t *testing.T) {
	testseed.Sequential(t)
	cases := []struct {
		name, since, last string
		revert            bool
		b                 *revertBench
		least             time.Duration
	}{
		{name: "restore", last: "old"}, {name: "revert", last: "old", revert: true},
		{name: "revert behind a turn", since: "turn", last: "turn 1", revert: true},
		{name: "revert behind the user", since: "user", last: "user", revert: true},
	}
	for i := range cases {
		c := &cases[i]
		c.b = newRevertBench(t, *revertFiles, c.since)
	}
	for range *revertRounds {
		for i := range cases {
			c := &cases[i]
			before := cpuTime(syscall.RUSAGE_SELF)
			c.b.back(c.revert)
			if took := cpuTime(syscall.RUSAGE_SELF) - before; c.least == 0 || took < c.least {
				c.least = took
			}
			want := files{}
			for i := range *revertFiles {
				want[benchPath(".", i)] = benchText("old", c.last, i)
			}
			(&bench{T: t, dir: c.b.dir}).expectFiles(want)
			c.b.undo()
		}
	}
	for _, c := range cases {
		t.Logf("%-22s %6.0f ms, %.2f times the restore", c.name, c.least.Seconds()*1000,
			float64(c.least)/float64(max(cases[0].least, 1)))
	}
}
