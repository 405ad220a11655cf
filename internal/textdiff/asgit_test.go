package textdiff

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
)

var (
	gitPairs   = flag.Int("git.pairs", 500, "pairs of texts of TestAsGit")
	gitHistory = flag.String("git.history", "../..", "repository of the pairs")
)

// TestAsGit holds: the edits are those of git diff, in all but a few of a thousand pairs of
// versions that follow one another.
func TestAsGit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testseed.Of(t), 28))
	var pairs [][2][]byte
	for _, versions := range testhistory.Versions(t, *gitHistory, 2**gitPairs) {
		for i := 1; i < len(versions); i++ {
			pairs = append(pairs, [2][]byte{versions[i-1], versions[i]})
		}
	}
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	pairs = pairs[:min(len(pairs), *gitPairs)]
	differ := 0
	all, ok := gitEdits(t, pairs)
	if !ok {
		t.Skip("no git")
	}
	for i, p := range pairs {
		if diff := cmp.Diff(all[i], AsGit(p[0], p[1])); diff != "" {
			differ++
			t.Logf("%.60q… (-git +ours):\n%s", p[0], diff)
		}
	}
	if differ*250 > len(pairs) { // 4 of 6,000 pairs, and 52 when only lines that differ were counted
		t.Errorf("%d of %d differ", differ, len(pairs))
	}
}

// gitEdits returns the edits that git diff prints of each pair.
func gitEdits(t *testing.T, pairs [][2][]byte, args ...string) (all [][]Edit, ok bool) {
	t.Helper()
	dir := t.TempDir()
	same := true
	for side, name := range []string{"old", "new"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, p := range pairs {
			if err := os.WriteFile(filepath.Join(dir, name, strconv.Itoa(i)), p[side], 0o600); err != nil {
				t.Fatal(err)
			}
			same = same && bytes.Equal(p[0], p[1])
		}
	}
	args = slices.Concat([]string{"diff", "--no-index", "-U0", "--no-renames"}, args, []string{"old", "new"})
	out, _ := testhistory.Git(dir, nil, args...) // exits with 1
	all = make([][]Edit, len(pairs))
	at := -1 // the pair that the lines are of
	for line := range strings.Lines(string(out)) {
		if name, is := strings.CutPrefix(line, "diff --git a/old/"); is {
			name, _, _ = strings.Cut(name, " ")
			var err error
			if at, err = strconv.Atoi(name); err != nil {
				t.Fatalf("git says %q", line)
			}
		}
		head, _, isHead := strings.Cut(strings.TrimPrefix(line, "@@ -"), " @@")
		if strings.HasPrefix(line, "@@ -") && isHead {
			all[at] = append(all[at], editOf(t, head))
		}
	}
	return all, len(out) > 0 || same
}

// editOf reads the head of a hunk without context.
func editOf(t *testing.T, head string) Edit {
	t.Helper()
	left, right, _ := strings.Cut(head, " +")
	var ends [2][2]int
	for i, s := range []string{left, right} {
		at, n := 0, 1
		if k, _ := fmt.Sscanf(s, "%d,%d", &at, &n); k == 0 {
			t.Fatalf("git says %q", head)
		}
		if n == 0 {
			at++
		}
		ends[i] = [2]int{at - 1, at - 1 + n}
	}
	return Edit{ends[0][0], ends[0][1], ends[1][0], ends[1][1]}
}
