package similar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// What is compared with git, and with real files, is tested by package patch,
// which has the texts for it.

// What the pieces or the steps do not allow is left out and said.
func TestPairRenamesBudgets(t *testing.T) {
	rnd := testseed.Rand(t)
	removed, added := movedFiles(rnd, 20)
	for _, tt := range []struct {
		name          string
		pieces, steps int
		most          int // pairs
	}{
		{"all", renamePieces, renameSteps, 20},
		{"few pieces", 200, renameSteps, 10},
		{"few steps", renamePieces, 200, 10},
	} {
		p := &pairer{removed: newSide(removed), added: newSide(added), least: 50, limit: 1000, pieces: tt.pieces,
			steps: tt.steps}
		if err := p.pairSimilar(); err != nil {
			t.Fatal(err)
		}
		if all := tt.most == 20; p.cut == all || (len(p.list) == 20) != all || len(p.list) > tt.most {
			t.Errorf("%s: %d pairs, cut = %v, want at most %d", tt.name, len(p.list), p.cut, tt.most)
		}
	}
}

// movedFiles returns n files and what became of each: another name and a tenth
// of its lines.
func movedFiles(rnd *rand.Rand, n int) (removed, added []Candidate) {
	file := func(name string, lines []string) Candidate {
		content := strings.Join(lines, "")
		return Candidate{Name: name, ID: content, Mode: 0o100644, Size: int64(len(content)),
			Load: func() ([]byte, error) { return []byte(content), nil }}
	}
	for i := range n {
		lines := make([]string, 60)
		for j := range lines {
			lines[j] = fmt.Sprintf("line %d\n", rnd.Uint64())
		}
		removed = append(removed, file(fmt.Sprintf("old/%d.go", i), lines))
		for range 6 {
			lines[rnd.IntN(len(lines))] = fmt.Sprintf("changed %d\n", rnd.Uint64())
		}
		added = append(added, file(fmt.Sprintf("new/moved%d.go", i), lines))
	}
	return removed, added
}
