//go:build unix

package manager

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var findTurns = flag.Int("find-turns", 0, "turns of TestFindCost; 0: it is skipped")

// TestFindCost measures a search in a history of many turns, and git log -S in the same history,
// in turns: processor time, and how long the first line takes.
func TestFindCost(t *testing.T) {
	if *findTurns == 0 {
		t.Skip("it takes minutes: -find-turns 10000")
	}
	b := newBench(t)
	m := b.open("s")
	repo := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	bytesOf := costHistory(b, m, repo)
	t.Logf("%d turns, %d MB of contents", *findTurns, bytesOf>>20)
	for range 3 {
		for _, text := range []string{"needle", "word7777 ", "nowhere"} {
			find, first, got := findCost(b, text)
			git, want := gitCost(t, repo, text)
			t.Logf("%-12q %4d turns  find %v, the first after %v  git log -S %v  ratio %.2f", text, len(got), find,
				first, git, float64(find)/float64(git))
			if !slices.Equal(got, want) {
				t.Errorf("%q: turns %v, git %v", text, got, want)
			}
		}
	}
}

// costHistory makes turns that each change two of 60 files of 50 KB, and the same commits. It
// returns how many bytes all contents have.
func costHistory(b *bench, m *FileSnapshotManager, repo string) (size int64) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b.initialize(m)
	stream, wait := fastImport(b, repo)
	var files [60][]string
	line := func() string {
		return fmt.Sprintf("line %d of word%d and word%d\n", rnd.IntN(1e6), rnd.IntN(1e5), rnd.IntN(1e5))
	}
	for i := range files {
		for range 1400 {
			files[i] = append(files[i], line())
		}
	}
	for turn := range *findTurns {
		changed := []int{rnd.IntN(60), rnd.IntN(60)}
		if turn == 0 {
			changed = nil
			for i := range files {
				changed = append(changed, i)
			}
		}
		fmt.Fprintf(stream, "commit refs/heads/main\ncommitter u <u@e> %d +0000\ndata <<E\n%d\nE\n", 1e9+turn, turn)
		b.turn(m, func() {
			for _, i := range changed {
				for range 1 + rnd.IntN(5) {
					files[i][rnd.IntN(len(files[i]))] = line()
				}
				if turn%100 == 99 {
					files[i][rnd.IntN(len(files[i]))] = "needle\n"
				}
				name, text := fmt.Sprintf("d%d/f%d", i%7, i), strings.Join(files[i], "")
				b.write(name, text)
				size += int64(len(text))
				fmt.Fprintf(stream, "M 644 inline %s\ndata %d\n%s\n", name, len(text), text)
			}
		})
	}
	b.must(wait())
	return size
}

// fastImport begins to import commits into a repository. The function ends it.
func fastImport(b *bench, repo string) (io.Writer, func() error) {
	git := exec.Command("git", "fast-import", "--quiet")
	git.Dir = repo
	stream, err := git.StdinPipe()
	if err == nil {
		err = git.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	return stream, func() error { return errors.Join(stream.Close(), git.Wait()) }
}

// findCost returns what a search costs, when it finds the first, and the turns.
func findCost(b *bench, text string) (cost, first time.Duration, turns []int) {
	m := b.open("s") // nothing is in memory
	start, before := time.Now(), cpuTime(syscall.RUSAGE_SELF)
	for f, err := range m.Find(b.Context(), &FindOptions{Text: text}) {
		if err != nil {
			b.Fatal(err)
		}
		if first == 0 {
			first = time.Since(start)
		}
		if !slices.Contains(turns, f.Turn) {
			turns = append(turns, f.Turn)
		}
	}
	return cpuTime(syscall.RUSAGE_SELF) - before, first, turns
}

func gitCost(t *testing.T, repo, text string) (cost time.Duration, turns []int) {
	c := exec.Command("git", "log", "--format=%s", "-S"+text, "main")
	c.Dir = filepath.Clean(repo)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var n int
		fmt.Sscan(line, &n)
		turns = append(turns, n)
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), turns
}

func cpuTime(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
