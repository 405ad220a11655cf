package textdiff

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
)

var (
	gitPairs   = flag.Int("git.pairs", 200, "pairs of texts of TestAsGit")
	gitHistory = flag.String("git.history", "../..", "repository of the pairs")
)

// TestAsGit holds: the edits are those of git diff, in all but a few of a hundred pairs of
// versions that follow one another.
func TestAsGit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testseed.Of(t), 28))
	var pairs [][2][]byte
	for _, versions := range testhistory.Versions(t, *gitHistory) {
		for i := 1; i < len(versions); i++ {
			pairs = append(pairs, [2][]byte{versions[i-1], versions[i]})
		}
	}
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	pairs = pairs[:min(len(pairs), *gitPairs)]
	differ := 0
	for _, p := range pairs {
		want, ok := gitEdits(t, p[0], p[1])
		if !ok {
			t.Skip("no git")
		}
		if diff := cmp.Diff(want, AsGit(p[0], p[1])); diff != "" {
			differ++
			t.Logf("%.60q… (-git +ours):\n%s", p[0], diff)
		}
	}
	if differ*25 > len(pairs) { // of 6,000 pairs less than one in a hundred; these few differ from commit to commit
		t.Errorf("%d of %d differ", differ, len(pairs))
	}
}

// gitEdits returns the edits that git diff prints.
func gitEdits(t *testing.T, old, new []byte) (list []Edit, ok bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"old": old, "new": new} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := testhistory.Git(dir, nil, "diff", "--no-index", "-U0", "old", "new") // exits with 1
	for line := range strings.Lines(string(out)) {
		var a, b [2]int
		head, _, isHead := strings.Cut(strings.TrimPrefix(line, "@@ -"), " @@")
		if !strings.HasPrefix(line, "@@ -") || !isHead {
			continue
		}
		left, right, _ := strings.Cut(head, " +")
		for i, s := range []string{left, right} {
			at, n := 0, 1
			if k, _ := fmt.Sscanf(s, "%d,%d", &at, &n); k == 0 {
				t.Fatalf("git says %q", line)
			}
			if n == 0 {
				at++
			}
			if i == 0 {
				a = [2]int{at - 1, at - 1 + n}
			} else {
				b = [2]int{at - 1, at - 1 + n}
			}
		}
		list = append(list, Edit{a[0], a[1], b[0], b[1]})
	}
	return list, len(out) > 0 || bytes.Equal(old, new)
}
