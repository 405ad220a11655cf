package patch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// TestReplaceMergesAsMerge holds: where what is found has changed since old, a replacement that merges
// makes what [Merge] makes of the three texts. The matcher does not call Merge, which takes edits that
// touch for a conflict: what a model remembers badly stands beside what it changes. Then each line that
// either has is there, and none that either has not.
func TestReplaceMergesAsMerge(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testseed.Of(t), 26))
	count := make(map[string]int)
	for range 2000 {
		old := make([]string, 6+rng.IntN(8))
		for i := range old {
			old[i] = fmt.Sprintf("\tstatement number %d of the block does %d things\n", i, rng.IntN(1000))
		}
		edited := func(who string, most int) (lines []string) {
			lines = slices.Clone(old)
			for n := range 1 + rng.IntN(most) {
				at, line := rng.IntN(len(lines)), fmt.Sprintf("\tline %d is new, and of %s\n", n, who)
				switch rng.IntN(3) {
				case 0:
					lines = slices.Insert(lines, at, line)
				case 1:
					lines[at] = line
				default:
					lines = slices.Delete(lines, at, at+1)
				}
			}
			return lines
		}
		text := func(lines []string) []byte { return []byte(strings.Join(lines, "")) }
		there, fresh := edited("the user", 2), edited("the model", 3)
		before, behind := []byte("package p\n\nfunc f() {\n"), []byte("}\n\nfunc g() {}\n")
		content := slices.Concat(before, text(there), behind)
		r := Replace(content, text(old), text(fresh), &Options{Merge: true})
		m := Merge(text(old), text(there), text(fresh), nil)
		want := slices.Concat(before, m.Text, behind)
		fail := func() {
			t.Errorf("old\n%s\ncontent\n%s\nnew\n%s\ngot\n%s", text(old), content, text(fresh), r.Content)
		}
		switch {
		case !r.Found(), r.Kind == IsExact, r.Start != len(before):
			count["not merged"]++
		case len(m.Conflicts) == 0:
			if count["merged"]++; !bytes.Equal(r.Content, want) {
				fail()
			}
		default:
			count["touching"]++
			for _, line := range slices.Concat(old, there, fresh) {
				is := !slices.Contains(old, line) || slices.Contains(there, line) && slices.Contains(fresh, line)
				if bytes.Contains(r.Content, []byte(line)) != is {
					fail()
					break
				}
			}
		}
	}
	if count["merged"] < 300 || count["touching"] < 100 {
		t.Errorf("few: %v", count)
	}
}
