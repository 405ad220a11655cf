package textdiff

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/similar"
)

func TestSimilarity(t *testing.T) {
	long := strings.Repeat("x", 64) + strings.Repeat("y", 64)
	tests := []struct {
		name, a, b string
		want       int
	}{
		{"both empty", "", "", 100},
		{"one empty", "", "a\n", 0},
		{"equal", "a\nb\n", "a\nb\n", 100},
		{"nothing in common", "a\nb\n", "c\nd\n", 0},
		{"half of the lines", "a\nb\n", "a\nc\n", 50},
		{"rounded down", "a\nb\nc\n", "a\nb\nd\n", 66},
		{"of the longer text", "a\n", "a\nb\nc\nd\n", 25},
		{"another order", "a\nb\nc\n", "c\na\nb\n", 100},
		{"a line counts as often as it is on both sides", "a\na\na\nb\n", "a\nc\nd\ne\n", 25},
		{"bytes, not lines", "0123456789\na\n", "0123456789\nb\n", 84},
		{"final newline", "a\nb", "a\nb\n", 50},
		{"a long line in pieces", long, long[:64] + strings.Repeat("z", 64), 50},
		{"CRLF", "abc\r\ndef\r\n", "abc\ndef\n", 80},
		{"CRLF in binary", "abc\r\n\x00def\r\n", "abc\n\x00def\n", 0},
	}
	for _, tt := range tests {
		for _, swap := range []bool{false, true} {
			a, b := tt.a, tt.b
			if swap {
				a, b = b, a
			}
			if got := similar.Similarity([]byte(a), []byte(b)); got != tt.want {
				t.Errorf("%s: Similarity(%q, %q) = %d, want %d", tt.name, a, b, got, tt.want)
			}
		}
	}
}

// candidate returns a regular file whose ID is its content.
func candidate(name, content string) similar.Candidate {
	return similar.Candidate{
		Name: name, ID: "id of " + content, Mode: regular, Size: int64(len(content)),
		Load: func() ([]byte, error) { return []byte(content), nil },
	}
}

// pairsByName returns the pairs as "removed > added", in the order of added.
func pairsByName(removed, added []similar.Candidate, list []similar.Rename) []string {
	names := []string{}
	for _, r := range list {
		names = append(names, fmt.Sprintf("%s > %s %d", removed[r.Removed].Name, added[r.Added].Name, r.Similarity))
	}
	return names
}

func TestPairRenames(t *testing.T) {
	const abcd = "a\nb\nc\nd\n"
	linkTo := func(name, target string) similar.Candidate {
		c := candidate(name, target)
		c.Mode = link
		return c
	}
	noID := func(c similar.Candidate) similar.Candidate { c.ID = ""; return c }
	noLoad := func(c similar.Candidate) similar.Candidate { c.Load = nil; return c }
	asProgram := func(c similar.Candidate) similar.Candidate { c.Mode = program; return c }
	tests := []struct {
		name           string
		removed, added []similar.Candidate
		opts           *similar.RenameOptions
		want           []string
		cut            bool
	}{
		{name: "nothing", want: []string{}},
		{name: "equal", removed: []similar.Candidate{candidate("a", "1")},
			added: []similar.Candidate{candidate("b", "1")}, want: []string{"a > b 100"}},
		{name: "equal, mode changed", removed: []similar.Candidate{candidate("a", "1")},
			added: []similar.Candidate{asProgram(candidate("b", "1"))}, want: []string{"a > b 100"}},
		{name: "empty", removed: []similar.Candidate{candidate("a", "")},
			added: []similar.Candidate{candidate("b", "")}, want: []string{}},
		{name: "equal, same base name first",
			removed: []similar.Candidate{candidate("a/x", "1"), candidate("b/y", "1"), candidate("c/z", "1")},
			added:   []similar.Candidate{candidate("m", "1"), candidate("n/z", "1"), candidate("o/x", "1")},
			want:    []string{"b/y > m 100", "c/z > n/z 100", "a/x > o/x 100"}},
		{name: "equal, by name", removed: []similar.Candidate{candidate("b", "1"), candidate("a", "1")},
			added: []similar.Candidate{candidate("d", "1"), candidate("c", "1"), candidate("e", "1")},
			want:  []string{"b > d 100", "a > c 100"}},
		{name: "equal before similar", removed: []similar.Candidate{candidate("x", abcd),
			candidate("y", "a\nb\nc\ne\n")},
			added: []similar.Candidate{candidate("z", "a\nb\nc\ne\n")}, want: []string{"y > z 100"}},
		{name: "links", removed: []similar.Candidate{linkTo("a", "1"), linkTo("b", "abc")},
			added: []similar.Candidate{linkTo("c", "1"), linkTo("d", "abd")}, want: []string{"a > c 100"}},
		{name: "a link and a file of the same bytes", removed: []similar.Candidate{linkTo("a", "1")},
			added: []similar.Candidate{candidate("b", "1")}, want: []string{}},
		{name: "similar enough", removed: []similar.Candidate{candidate("a", abcd)},
			added: []similar.Candidate{candidate("b", "a\nb\nx\ny\n")}, want: []string{"a > b 50"}},
		{name: "not similar enough", removed: []similar.Candidate{candidate("a", abcd)},
			added: []similar.Candidate{candidate("b", "a\nw\nx\ny\n")}, want: []string{}},
		{name: "higher limit", removed: []similar.Candidate{candidate("a", abcd)},
			added: []similar.Candidate{candidate("b", "a\nb\nc\ny\n")},
			opts:  &similar.RenameOptions{Similarity: 76}, want: []string{}},
		{name: "only equal", removed: []similar.Candidate{candidate("a", "1"), noID(candidate("b", "2"))},
			added: []similar.Candidate{candidate("c", "1"), noID(candidate("d", "2"))},
			opts:  &similar.RenameOptions{Similarity: 101}, want: []string{"a > c 100"}},
		{name: "without IDs", removed: []similar.Candidate{noID(candidate("a", "1"))},
			added: []similar.Candidate{noID(candidate("b", "1"))}, want: []string{"a > b 100"}},
		{name: "without content", removed: []similar.Candidate{noLoad(candidate("a", "1")),
			noLoad(candidate("b", abcd))},
			added: []similar.Candidate{noLoad(candidate("c", "1")), noLoad(candidate("d", abcd+"e\n"))},
			want:  []string{"a > c 100"}},
		{name: "best first", removed: []similar.Candidate{candidate("a", abcd)},
			added: []similar.Candidate{candidate("b", "a\nb\nx\ny\n"), candidate("c", "a\nb\nc\ny\n")},
			want:  []string{"a > c 75"}},
		{name: "tie, by base name", removed: []similar.Candidate{candidate("x/a", abcd), candidate("y/a", abcd+"e\n")},
			added: []similar.Candidate{candidate("m/b", "a\nb\nc\nx\n"), candidate("n/a", "a\nb\nc\nx\n")},
			want:  []string{"y/a > m/b 60", "x/a > n/a 75"}},
		{name: "tie, by name", removed: []similar.Candidate{candidate("b", abcd), candidate("a", abcd)},
			added: []similar.Candidate{candidate("d", "a\nb\nc\nx\n"), candidate("c", "a\nb\nc\nx\n")},
			want:  []string{"b > d 75", "a > c 75"}},
		// The other file is more similar, but the base name says enough.
		{name: "base name left once", removed: []similar.Candidate{candidate("x/a", abcd)},
			added: []similar.Candidate{candidate("y/a", "a\nb\nc\nx\n"), candidate("y/b", abcd+"e\n")},
			want:  []string{"x/a > y/a 75"}},
		{name: "base name left once, not similar enough", removed: []similar.Candidate{candidate("x/a", abcd)},
			added: []similar.Candidate{candidate("y/a", "a\nb\nw\nx\n"), candidate("y/b", abcd+"e\n")},
			want:  []string{"x/a > y/b 80"}},
		{name: "over the limit", opts: &similar.RenameOptions{Limit: 1},
			removed: []similar.Candidate{candidate("x/a", abcd), candidate("x/b", "1"), candidate("x/c", "p\nq\n")},
			added: []similar.Candidate{candidate("y/a", "a\nb\nw\nx\n"), candidate("y/d", "1"),
				candidate("y/e", "p\nr\n")},
			want: []string{"x/a > y/a 50", "x/b > y/d 100"}, cut: true},
		{name: "just the limit", opts: &similar.RenameOptions{Limit: 2},
			removed: []similar.Candidate{candidate("x/a", abcd), candidate("x/c", "p\nq\n")},
			added:   []similar.Candidate{candidate("y/f", "a\nb\nw\nx\n"), candidate("y/e", "p\nr\n")},
			want:    []string{"x/a > y/f 50", "x/c > y/e 50"}},
		{name: "files of other sizes do not count for the limit", opts: &similar.RenameOptions{Limit: 1},
			removed: []similar.Candidate{candidate("a", abcd), candidate("b", strings.Repeat(abcd, 3))},
			added:   []similar.Candidate{candidate("c", abcd+"e\n"), candidate("d", strings.Repeat(abcd, 7))},
			want:    []string{"a > c 80"}},
		{name: "no limit at all", opts: &similar.RenameOptions{Limit: -1},
			removed: []similar.Candidate{candidate("a", abcd), candidate("b", "1")},
			added:   []similar.Candidate{candidate("c", abcd+"e\n"), candidate("d", "1")},
			want:    []string{"b > d 100"}, cut: true},
		{name: "same base name, over the limit", opts: &similar.RenameOptions{Limit: 1},
			removed: []similar.Candidate{candidate("x/a", abcd), candidate("y/a", abcd+"1\n")},
			added:   []similar.Candidate{candidate("m/a", abcd+"2\n"), candidate("n/a", abcd+"3\n")},
			want:    []string{}, cut: true},
		{name: "two base names, one of them over the limit", opts: &similar.RenameOptions{Limit: 2},
			removed: []similar.Candidate{candidate("1/a", abcd), candidate("2/a", abcd+"1\n"),
				candidate("3/b", abcd+"2\n"), candidate("4/b", abcd+"3\n")},
			added: []similar.Candidate{candidate("5/a", abcd+"4\n"), candidate("6/b", abcd+"5\n"),
				candidate("7/a", abcd+"6\n"), candidate("8/b", abcd+"7\n")},
			want: []string{"1/a > 5/a 80", "2/a > 7/a 80"}, cut: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, cut, err := similar.PairRenames(tt.removed, tt.added, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, pairsByName(tt.removed, tt.added, list)); diff != "" {
				t.Errorf("PairRenames (-want +got):\n%s", diff)
			}
			if cut != tt.cut {
				t.Errorf("PairRenames: cut = %v, want %v", cut, tt.cut)
			}
		})
	}
}

func TestPairRenamesErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	good, bad := candidate("x/good", "a\nb\n"), candidate("x/bad", "a\nb\n")
	bad.ID, bad.Load = "", func() ([]byte, error) { return nil, broken }
	moved := bad
	moved.Name = "y/bad" // which is compared by its base name
	for _, pair := range [][2]similar.Candidate{{good, bad}, {bad, good}, {bad, moved}} {
		_, _, err := similar.PairRenames(pair[:1], pair[1:], nil)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), `bad"`) {
			t.Errorf("PairRenames returned %v, want the error of Load and the name", err)
		}
	}
}

// movedFiles returns n files and what became of each: another name and a tenth
// of its lines.
func movedFiles(rnd *rand.Rand, n int) (removed, added []similar.Candidate) {
	for i := range n {
		lines := source(rnd, 60)
		removed = append(removed, candidate(fmt.Sprintf("old/%d.go", i), string(join(lines))))
		for range 6 {
			lines[rnd.IntN(len(lines))] = fmt.Sprintf("changed %d\n", rnd.Uint64())
		}
		added = append(added, candidate(fmt.Sprintf("new/moved%d.go", i), string(join(lines))))
	}
	return removed, added
}

// No order of the lists may matter, each file is paired at most once and loaded
// at most twice.
func TestPairRenamesRandom(t *testing.T) {
	rnd := newRand(t)
	for range 300 {
		loads := make(map[string]int)
		make := func(dir string) []similar.Candidate {
			var list []similar.Candidate
			for i := range rnd.IntN(12) {
				content := strings.Repeat("x\n", rnd.IntN(3)) + string(join(few(rnd, rnd.IntN(8), 6)))
				c := candidate(fmt.Sprintf("%s/%d/%d", dir, i, rnd.IntN(8)), content)
				load := c.Load
				c.Load = func() ([]byte, error) { loads[c.Name]++; return load() }
				list = append(list, c)
			}
			return list
		}
		removed, added := make("old"), make("new")
		opts := &similar.RenameOptions{Limit: rnd.IntN(12)}
		list, cut, err := similar.PairRenames(removed, added, opts)
		if err != nil {
			t.Fatal(err)
		}
		want := pairsByName(removed, added, list)
		seenOld, seenNew := map[int]bool{}, map[int]bool{}
		for _, r := range list {
			if seenOld[r.Removed] || seenNew[r.Added] {
				t.Fatalf("paired twice: %v", want)
			}
			seenOld[r.Removed], seenNew[r.Added] = true, true
			a, _ := removed[r.Removed].Load()
			b, _ := added[r.Added].Load()
			if s := similar.Similarity(a, b); s != r.Similarity || s < 50 || len(a) == 0 {
				t.Fatalf("pair of %q and %q says %d, Similarity says %d", a, b, r.Similarity, s)
			}
			loads[removed[r.Removed].Name]--
			loads[added[r.Added].Name]--
		}
		for name, n := range loads {
			if n > 2 {
				t.Fatalf("%s was loaded %d times", name, n)
			}
		}
		rnd.Shuffle(len(removed), func(i, j int) { removed[i], removed[j] = removed[j], removed[i] })
		rnd.Shuffle(len(added), func(i, j int) { added[i], added[j] = added[j], added[i] })
		list, cutAgain, err := similar.PairRenames(removed, added, opts)
		if err != nil {
			t.Fatal(err)
		}
		got := pairsByName(removed, added, list)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || cut != cutAgain {
			t.Fatalf("another order of the lists (-before +after), cut %v and %v:\n%s", cut, cutAgain, diff)
		}
	}
}

// git finds the same renames, with scores that are close, where each file is
// either well above or well below the least similarity.
func TestPairRenamesAgreesWithGit(t *testing.T) {
	rnd := newRand(t)
	for range 12 {
		var removed, added []similar.Candidate
		for i := range 40 {
			content := renamedContent(rnd)
			base := fmt.Sprintf("f%d.go", rnd.IntN(30)) // some are there more than once
			removed = append(removed, candidate(fmt.Sprintf("%d/%s", i, base), withNewline(content)))
			if rnd.IntN(2) == 0 {
				base = fmt.Sprintf("g%d.go", rnd.IntN(30))
			}
			added = append(added, candidate(fmt.Sprintf("%d/%s", 1000*rnd.IntN(1000)+100+i, base),
				withNewline(editedContent(rnd, content))))
		}
		checkAgainstGit(t, removed, added, 55)
	}
}

// checkAgainstGit holds PairRenames to find what git finds with a score of at
// least sure, and nothing that git is sure of to be something else.
func checkAgainstGit(t *testing.T, removed, added []similar.Candidate, sure int) {
	t.Helper()
	needTool(t, "git")
	dir := t.TempDir()
	for side, list := range map[string][]similar.Candidate{"old": removed, "new": added} {
		for _, c := range list {
			content, err := c.Load()
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, File{Name: side + "/" + c.Name, Content: content, Mode: regular})
		}
	}
	list, cut, err := similar.PairRenames(removed, added, nil)
	if err != nil || cut {
		t.Fatalf("PairRenames: cut = %v, %v", cut, err)
	}
	got := make(map[string]gitRename)
	for _, r := range list {
		got[removed[r.Removed].Name] = gitRename{added[r.Added].Name, r.Similarity}
	}
	want := gitRenames(t, dir)
	surely := 0
	for name, w := range want {
		g, ok := got[name]
		if w.score >= sure {
			surely++
			if g.to != w.to {
				t.Errorf("%s: renamed to %q, %d %%, git says %q, %d %%", name, g.to, g.score, w.to, w.score)
			}
		}
		if ok && g.to == w.to && max(g.score-w.score, w.score-g.score) > 10 {
			t.Errorf("%s: similarity %d, git says %d", name, g.score, w.score)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok && g.score >= sure {
			t.Errorf("%s: renamed to %q, %d %%, git says it was removed", name, g.to, g.score)
		}
	}
	if surely < len(want)/2 {
		t.Errorf("git is sure of %d renames out of %d only", surely, len(want))
	}
	t.Logf("%d renames, git has %d, %d of them sure", len(got), len(want), surely)
}

// withNewline returns b with a newline at its end: git before 2.43.2 does not
// count a last line without one.
func withNewline(b []byte) string { return string(bytes.TrimSuffix(b, []byte("\n"))) + "\n" }

type gitRename struct {
	to    string
	score int
}

// gitRenames returns what git takes for renames from dir/old to dir/new.
func gitRenames(t *testing.T, dir string) map[string]gitRename {
	t.Helper()
	cmd := exec.Command("git", "diff", "--no-index", "-M50%", "-z", "--name-status", "old", "new")
	cmd.Dir, cmd.Env = dir, toolEnv()
	out, _ := cmd.Output() // exit code 1 says that they differ
	renames := make(map[string]gitRename)
	for fields := strings.Split(string(out), "\x00"); len(fields) > 2; {
		if fields[0][0] != 'R' {
			fields = fields[2:]
			continue
		}
		var score int
		if _, err := fmt.Sscanf(fields[0], "R%d", &score); err != nil {
			t.Fatal(err)
		}
		renames[strings.TrimPrefix(fields[1], "old/")] = gitRename{strings.TrimPrefix(fields[2], "new/"), score}
		fields = fields[3:]
	}
	if len(renames) == 0 {
		t.Fatalf("git found no renames: %q", out)
	}
	return renames
}

// renamedContent returns a text of its own: lines, one long line or bytes.
func renamedContent(rnd *rand.Rand) []byte {
	var b []byte
	n := 200 + rnd.IntN(4000)
	for len(b) < n {
		switch {
		case n%10 == 0: // one long line
			b = fmt.Appendf(b, "%d,", rnd.Uint64())
		case n%10 == 1: // binary
			b = append(b, byte(rnd.IntN(4)), byte(rnd.IntN(256)), byte(rnd.IntN(256)), byte(rnd.IntN(256)))
		case rnd.IntN(6) == 0:
			b = append(b, "}\n\n"...) // what all have in common
		default:
			b = fmt.Appendf(b, "\tx := %d\n", rnd.Uint64())
		}
	}
	return b
}

// editedContent returns b as it is, with a little of it or with most of it
// replaced, or with other line ends.
func editedContent(rnd *rand.Rand, b []byte) []byte {
	keep := []int{100, 100, 85, 70, 70, 15, 0}[rnd.IntN(7)]
	other := renamedContent(rnd)
	for len(other) < len(b) {
		other = append(other, renamedContent(rnd)...)
	}
	cut := len(b) * keep / 100
	cut += max(bytes.IndexByte(b[cut:], '\n'), -1) + 1
	b = slices.Concat(b[:cut], other[:len(b)-cut])
	if keep == 85 && !similar.IsBinary(b) {
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	return b
}

func FuzzSimilarity(f *testing.F) {
	f.Add([]byte("a\r\nb\n"), []byte("a\nb"))
	f.Add(bytes.Repeat([]byte("x"), 63), append(bytes.Repeat([]byte("x"), 63), "\r\n"...))
	f.Add([]byte("\x00\r\n"), []byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s, back := similar.Similarity(a, b), similar.Similarity(b, a)
		if s != back || s < 0 || s > 100 || bytes.Equal(a, b) && s != 100 {
			t.Errorf("Similarity is %d, and %d the other way round", s, back)
		}
	})
}

func BenchmarkSimilarity(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	lines := source(rnd, 100_000)
	for name, pair := range map[string][2][]byte{
		"lines=300":       {join(lines[:300]), join(change(rnd, lines[:300], 30))},
		"lines=100k":      {join(lines), join(change(rnd, lines, 1000))},
		"one-line-of-5MB": {bytes.Repeat([]byte("abc(),"), 900_000), bytes.Repeat([]byte("abc();"), 900_000)},
		"empty-lines=5M":  {bytes.Repeat([]byte("\n"), 5_000_000), bytes.Repeat([]byte("\n"), 4_000_000)},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(pair[0]) + len(pair[1])))
			b.ReportAllocs()
			for b.Loop() {
				similar.Similarity(pair[0], pair[1])
			}
		})
	}
}

func BenchmarkPairRenames(b *testing.B) {
	bench := func(name string, removed, added []similar.Candidate) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list, cut, err := similar.PairRenames(removed, added, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(list)), "pairs")
				b.ReportMetric(map[bool]float64{true: 1}[cut], "cut")
			}
		})
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{100, 1000} {
		removed, added := movedFiles(rnd, n)
		bench(fmt.Sprintf("moved-and-edited=%d", n), removed, added)
	}
	// All lines in all files, in another order each: every piece meets every file.
	var removed, added []similar.Candidate
	lines := distinct("line", 2000)
	for i := range 1000 {
		rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		removed = append(removed, candidate(fmt.Sprintf("old/%d", i), string(join(lines[:1900]))))
		added = append(added, candidate(fmt.Sprintf("new/x%d", i), string(join(lines[50:]))))
	}
	bench("all-alike=1000", removed, added)
}
