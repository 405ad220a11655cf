package manager

import (
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/patch"
)

// Which lines of a hunk were taken back is told by lines, also where the hunks of the
// record were divided in another way.
func TestRestOfHunk(t *testing.T) {
	type spans = []history.Span
	for _, c := range []struct {
		name       string
		hunk       history.Span
		gone, want spans
	}{
		{"nothing", history.Span{2, 5, 2, 4}, nil, spans{{2, 5, 2, 4}}},
		{"all", history.Span{2, 5, 2, 4}, spans{{2, 5, 2, 4}}, nil},
		{"all, in two pieces", history.Span{2, 5, 2, 4}, spans{{2, 3, 2, 3}, {3, 5, 3, 4}}, nil},
		{"all, with more around it", history.Span{2, 5, 2, 4}, spans{{0, 9, 0, 8}}, nil},
		{"the first line", history.Span{2, 5, 2, 4}, spans{{2, 3, 2, 3}}, spans{{3, 5, 3, 4}}},
		{"the last line", history.Span{2, 5, 2, 4}, spans{{4, 5, 3, 4}}, spans{{2, 4, 2, 3}}},
		{"a line in the middle", history.Span{2, 5, 2, 5}, spans{{3, 4, 3, 4}}, spans{{2, 3, 2, 3}, {4, 5, 4, 5}}},
		{"half, of a longer one", history.Span{4, 8, 4, 8}, spans{{2, 6, 2, 6}}, spans{{6, 8, 6, 8}}},
		{"others before and behind", history.Span{4, 6, 4, 6}, spans{{3, 4, 3, 4}, {6, 7, 6, 7}}, spans{{4, 6, 4, 6}}},
		{"lines that were added", history.Span{4, 6, 4, 4}, spans{{4, 5, 4, 4}}, spans{{5, 6, 4, 4}}},
		{"lines that were deleted", history.Span{4, 4, 4, 7}, spans{{4, 4, 4, 6}}, spans{{4, 4, 6, 7}}},
		{"what was added, not what was deleted", history.Span{4, 6, 4, 6}, spans{{4, 6, 4, 4}}, spans{{6, 6, 4, 6}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hunks.Hunk{Kind: hunks.Lines,
				After:  patch.Side{Lines: patch.Span{Start: c.hunk[0], End: c.hunk[1]}},
				Before: patch.Side{Lines: patch.Span{Start: c.hunk[2], End: c.hunk[3]}}}
			cuts := []history.Cut{{Spans: c.gone}}
			if got := restOf(h, cuts); !slices.Equal(got, c.want) || isTaken(h, cuts) != (c.want == nil) {
				t.Errorf("%v without %v: got %v, taken: %t, want %v", c.hunk, c.gone, got, isTaken(h, cuts), c.want)
			}
		})
	}
}
