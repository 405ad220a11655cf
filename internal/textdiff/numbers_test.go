package textdiff

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mergeEdits returns the edits of a merge, before they are moved and after.
func mergeEdits(old, new []byte) (list, slid []Edit) {
	numbers, distinct := Number(SplitLines(old), SplitLines(new))
	list = CompareNumbers(numbers[0], numbers[1], distinct)
	return list, Slide(numbers[0], numbers[1], slices.Clone(list))
}

// checkMergeEdits checks that both rebuild the new text, by the same number of
// lines.
func checkMergeEdits(t *testing.T, old, new []byte) {
	t.Helper()
	list, slid := mergeEdits(old, new)
	var lines [2]int
	for i, l := range [][]Edit{list, slid} {
		if got := applyEdits(t, old, new, l); !bytes.Equal(got, new) {
			t.Fatalf("%q and %q: edits %v rebuild %q", old, new, l, got)
		}
		for _, e := range l {
			lines[i] += e.OldEnd - e.OldStart + e.NewEnd - e.NewStart
		}
	}
	if lines[0] != lines[1] {
		t.Fatalf("%q and %q: Slide makes %v of %v", old, new, slid, list)
	}
}

func TestMergeEditsRebuildNew(t *testing.T) {
	rnd := newRand(t)
	for range 5000 {
		old := randomText(rnd, 60, 1+rnd.IntN(50))
		new := mutate(rnd, old, 12)
		if rnd.IntN(8) == 0 {
			new = randomText(rnd, 60, 10)
		}
		checkMergeEdits(t, old, new)
	}
}

func TestNumber(t *testing.T) {
	lists, distinct := Number([]string{"a", "b", "a", "c"}, []string{"a", "x", "c", "x", "b"}, []string{"y", "a"})
	want := [][]int32{{0, 1, 0, 2}, {0, 3, 2, 3, 1}, {4, 0}}
	if diff := cmp.Diff(want, lists); diff != "" || distinct != 5 {
		t.Errorf("Number says there are %d (-want +got):\n%s", distinct, diff)
	}
}

// characters makes a line of each character.
func characters(s string) []byte {
	var b []byte
	for _, c := range s {
		b = append(b, string(c)+"\n"...)
	}
	return b
}

func TestSlide(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           []Edit
	}{
		{"none", "ab", "ab", nil},
		{"down", "x}}y", "x}}}y", []Edit{{3, 3, 3, 4}}},
		{"down over a block", "a{}b{}c", "a{}{}b{}c", []Edit{{3, 3, 3, 5}}},
		{"to the end", "aaa", "aaaa", []Edit{{3, 3, 3, 4}}},
		{"what goes, too", "x}}}y", "x}}y", []Edit{{3, 4, 3, 3}}},
		{"on after it has joined another", "aaaaaba", "aabaaa", []Edit{{2, 2, 2, 3}, {5, 7, 6, 6}}},
		{"up to what goes", "ab}}c", "aX}}}c", []Edit{{1, 2, 1, 3}}},
	}
	for _, tt := range tests {
		_, got := mergeEdits(characters(tt.old), characters(tt.new))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: of %q and %q (-want +got):\n%s", tt.name, tt.old, tt.new, diff)
		}
	}
	// Given where it is not, a run goes to the last place, or up to one opposite of which is another.
	moved := []struct {
		name       string
		old, new   []int32
		list, want []Edit
	}{
		{"to the last place", []int32{1, 2, 2, 2}, []int32{1, 2, 2, 2, 2}, []Edit{{1, 1, 1, 2}}, []Edit{{4, 4, 4, 5}}},
		{"opposite of another", []int32{1, 5, 2, 2, 3}, []int32{1, 2, 2, 2, 3},
			[]Edit{{1, 2, 1, 1}, {4, 4, 3, 4}}, []Edit{{1, 2, 1, 2}}},
		{"joined to one", []int32{1, 2, 2, 3}, []int32{1, 2, 2, 2, 2, 3},
			[]Edit{{1, 1, 1, 2}, {2, 2, 3, 4}}, []Edit{{3, 3, 3, 5}}},
	}
	for _, tt := range moved {
		if diff := cmp.Diff(tt.want, Slide(tt.old, tt.new, tt.list)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Braces and blank lines that a text and one that was written anew have in common
// cut neither to pieces.
func TestMergeEditsSkipFrequentLines(t *testing.T) {
	var old, new bytes.Buffer
	for i := range 600 {
		old.WriteString(string(characters("abcdefg"))[i%3:] + "old\n")
		new.WriteString("new\nNEW\nneu\nneo\n")
		if i%5 == 0 {
			old.WriteString("}\n")
			new.WriteString("}\n")
		}
	}
	if list, _ := mergeEdits(old.Bytes(), new.Bytes()); len(list) > 2 {
		t.Errorf("%d edits, want one or two: %v", len(list), list)
	}
	// A few changes are found however often their lines are there.
	text := bytes.Repeat([]byte("}\n"), 2000)
	if list, _ := mergeEdits(text, append([]byte("x\n"), text...)); !slices.Equal(list, []Edit{{0, 0, 0, 1}}) {
		t.Errorf("a line before 2000 equal ones: %v", list)
	}
}

// The edits of merges are those that git finds in nearly all cases, where most lines
// are there several times: 1,994 of 2,000.
func TestMergeEditsAreGits(t *testing.T) {
	needTool(t, "git")
	rnd := newRand(t)
	const cases = 300
	var pairs [][2][]byte
	for range cases {
		old := few(rnd, rnd.IntN(25), 1+rnd.IntN(6))
		new := change(rnd, append(old, "\n"), 1+rnd.IntN(6))
		pairs = append(pairs, [2][]byte{join(old), join(new)})
	}
	want, _ := gitEdits(t, pairs, "--no-indent-heuristic", "--diff-algorithm=myers")
	other := 0
	for i, p := range pairs {
		if _, got := mergeEdits(p[0], p[1]); !slices.Equal(got, want[i]) {
			other++
			t.Logf("%q and %q: %v, git has %v", p[0], p[1], got, want[i])
		}
	}
	if other > cases/100 {
		t.Errorf("%d of %d texts have other edits than git's", other, cases)
	}
}
