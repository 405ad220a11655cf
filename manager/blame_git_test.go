package manager

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

var (
	blameHistory = flag.String("blame.history", "", "repository whose files TestBlameAsGit blames, too")
	blameRuns    = flag.Int("blame.runs", 20, "files at random of TestBlameAsGit; 200 by make blame")
)

// TestBlameAsGit holds: of a history in which each version is a turn, blame says of a line
// what git blame says, in 999 of 1,000 lines.
func TestBlameAsGit(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	rng := rand.New(rand.NewPCG(testseed.Of(t), 28))
	var made [][][]byte
	for range *blameRuns {
		made = append(made, randomVersions(rng, 40))
	}
	blameAsGit(t, made)
	if *blameHistory == "" {
		return
	}
	t.Run("history", func(t *testing.T) {
		var files [][][]byte
		for _, versions := range testhistory.Versions(t, *blameHistory, 4000) {
			if len(versions) > 1 {
				files = append(files, versions)
			}
		}
		slices.SortStableFunc(files, func(a, b [][]byte) int { return len(b) - len(a) })
		blameAsGit(t, files[:min(len(files), 250)])
	})
}

// randomVersions returns versions of a text of few distinct lines.
func randomVersions(rng *rand.Rand, n int) (versions [][]byte) {
	var lines []string
	line := func() string {
		if rng.IntN(3) == 0 {
			return []string{"\n", "}\n", "\treturn\n"}[rng.IntN(3)]
		}
		return fmt.Sprintf("line %d\n", rng.IntN(1_000))
	}
	for range 30 {
		lines = append(lines, line())
	}
	for range n {
		versions = append(versions, []byte(strings.Join(lines, "")))
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(lines) + 1)
			gone := min(rng.IntN(4), len(lines)-at)
			var come []string
			for range rng.IntN(5) {
				come = append(come, line())
			}
			lines = slices.Replace(lines, at, at+gone, come...)
		}
	}
	return versions
}

// blameAsGit makes a turn, and a commit, of each version of all files, and compares the
// blames.
func blameAsGit(t *testing.T, files [][][]byte) {
	t.Helper()
	repo := t.TempDir()
	if _, err := testhistory.Git(repo, nil, "init", "-q"); err != nil {
		t.Skipf("no git: %v", err)
	}
	b := &bench{T: t, dir: t.TempDir()}
	m, err := openOn(t, b.dir, vfstest.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b.initialize(m)
	var in bytes.Buffer
	name := func(i int) string { return fmt.Sprintf("f%d", i) }
	for n := 0; ; n++ {
		more := false
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter a <a> %d +0000\ndata 0\n", n+1)
		b.turn(m, func() {
			for i, versions := range files {
				if n < len(versions) {
					more = true
					fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name(i), len(versions[n]), versions[n])
					b.write(name(i), string(versions[n]))
				}
			}
		})
		if !more {
			break
		}
	}
	if _, err := testhistory.Git(repo, &in, "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	lines, differ := 0, 0
	for i := range files {
		out, err := testhistory.Git(repo, nil, "blame", "--line-porcelain", "main", "--", name(i))
		if err != nil {
			t.Fatal(err)
		}
		want := turnsOfPorcelain(out)
		got := b.blameTurns(m, name(i))
		if len(got) != len(want) {
			t.Fatalf("%s has %d lines, of git %d", name(i), len(got), len(want))
		}
		for j := range want {
			if lines++; got[j] != want[j] {
				differ++
				if differ < 20 && testing.Verbose() {
					t.Logf("%s:%d: turn %d, of git %d", name(i), j+1, got[j], want[j])
				}
			}
		}
	}
	t.Logf("%d files, %d lines, %d of other turns than of git", len(files), lines, differ)
	if differ*1000 > lines {
		t.Errorf("%d of %d lines are of another turn than git says", differ, lines)
	}
}

// turnsOfPorcelain returns the turn of each line, of which the commit's time is one more.
func turnsOfPorcelain(out []byte) (turns []int) {
	for line := range strings.Lines(string(out)) {
		var n int
		if k, _ := fmt.Sscanf(line, "committer-time %d", &n); k == 1 {
			turns = append(turns, n-1)
		}
	}
	return turns
}

// blameTurns returns the turn of each line.
func (b *bench) blameTurns(m *FileSnapshotManager, path string) (turns []int) {
	b.Helper()
	a, err := m.Blame(b.Context(), &BlameOptions{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range a.Ranges {
		if r.Start != len(turns)+1 || r.Owner.Kind != "turn" {
			b.Fatalf("range %+v behind line %d", r, len(turns))
		}
		turns = append(turns, slices.Repeat([]int{r.Owner.Turn}, r.End-r.Start+1)...)
	}
	if text, err := os.ReadFile(b.dir + "/" + path); err != nil || !bytes.Equal(text, a.Text) {
		b.Fatalf("%s: %q, %v", path, a.Text, err)
	}
	return turns
}
