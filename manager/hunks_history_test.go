package manager

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
)

var (
	hunkCases   = flag.Int("hunks.cases", 30, "files of TestHunksOfHistory; 2000 by make merge")
	hunkHistory = flag.String("hunks.history", "..", "directory in a git repository whose files' histories are taken")
)

// A hunkCase is a file before a turn, after it, and as it is now.
type hunkCase struct{ before, after, now []byte }

// hunkCasesOf takes versions of files that follow one another, with up to eight later ones
// as what somebody has made of it since.
func hunkCasesOf(t *testing.T, rng *rand.Rand, n int) (list []hunkCase) {
	var files [][][]byte
	for _, versions := range testhistory.Versions(t, *hunkHistory, 10*n) {
		if len(versions) >= 3 {
			files = append(files, versions)
		}
	}
	for len(list) < n {
		if len(files) == 0 { // no repository: made up
			var before []byte
			for i := range 30 + rng.IntN(40) {
				before = fmt.Appendf(before, "line %d\n", i)
			}
			after := madeOf(rng, before)
			list = append(list, hunkCase{before, after, madeOf(rng, after)})
			continue
		}
		versions := files[rng.IntN(len(files))]
		k := 1 + rng.IntN(len(versions)-2)
		c := hunkCase{versions[k-1], versions[k], versions[min(k+1+rng.IntN(8), len(versions)-1)]}
		if !bytes.Equal(c.before, c.after) {
			list = append(list, c)
		}
	}
	return list
}

// madeOf changes some lines of a text.
func madeOf(rng *rand.Rand, text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for range 1 + rng.IntN(4) {
		i := rng.IntN(len(lines))
		lines[i] = fmt.Appendf(nil, "%s changed %d\n", bytes.TrimSuffix(lines[i], []byte("\n")), rng.IntN(1000))
	}
	return bytes.Join(lines, nil)
}

// All hunks are the whole revert, none is what is there, and half and then the rest is all
// at once: of files as people have changed them, and without a conflict where there is none.
func TestHunksOfHistory(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	rng := testseed.Rand(t)
	cases := hunkCasesOf(t, rng, *hunkCases)
	b := newBench(t)
	name := func(i int) string { return fmt.Sprintf("d%d/f%d", i%20, i) }
	write := func(text func(c *hunkCase) []byte) {
		for i := range cases {
			b.write(name(i), string(text(&cases[i])))
		}
	}
	write(func(c *hunkCase) []byte { return c.before })
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { write(func(c *hunkCase) []byte { return c.after }) })
	write(func(c *hunkCase) []byte { return c.now })
	files := func() (list [][]byte) {
		t.Helper()
		for i := range cases {
			text, err := os.ReadFile(filepath.Join(b.dir, name(i)))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, text)
		}
		return list
	}
	revert := func(hunks []string) (inConflict map[string]bool) {
		t.Helper()
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: hunks})
		if err != nil {
			t.Fatal(err)
		}
		inConflict = make(map[string]bool)
		for _, c := range r.Conflicts {
			inConflict[c.Path] = true
		}
		return inConflict
	}
	undo := func(what string) {
		t.Helper()
		if _, err := m.Undo(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for i, text := range files() {
			if !bytes.Equal(text, cases[i].now) {
				t.Fatalf("%s, undone: %s is %.300q, want %.300q", what, name(i), text, cases[i].now)
			}
		}
	}
	var list []Hunk
	for r := (&HunkRange{Turns: []string{"turn:0"}}); ; {
		part := b.hunks(m, r)
		list = append(list, part.Hunks...)
		if r.Cursor = part.NextCursor; r.Cursor == "" {
			break
		}
	}
	list = toldApart(t, m, list)
	all := revert(nil)
	want := files()
	undo("the turn")

	states := make(map[string]int)
	var ids, half, rest []string
	some := make(map[string]bool)  // files of which some hunks are in half
	clean := make(map[string]bool) // files with hunks that are not in conflict
	for _, h := range list {
		states[h.State]++
		if ids = append(ids, h.ID); rng.IntN(2) == 0 {
			half, some[h.Path] = append(half, h.ID), true
		} else {
			rest = append(rest, h.ID)
		}
		clean[h.Path] = clean[h.Path] || h.State != "conflict"
		if h.State == "conflict" && !all[h.Path] {
			t.Errorf("%s has a hunk %s in conflict, and the revert has none: blocked by %q", h.Path, h.ID, h.BlockedBy)
		}
	}
	revert(ids)
	for i, text := range files() {
		if !bytes.Equal(text, want[i]) {
			t.Errorf("all hunks of %s make %.300q, the whole revert %.300q", name(i), text, want[i])
		}
	}
	undo("all hunks")

	one := revert(half)
	for i, text := range files() {
		if !some[name(i)] && !bytes.Equal(text, cases[i].now) {
			t.Errorf("none of the hunks of %s makes %.300q, want %.300q", name(i), text, cases[i].now)
		}
	}
	two := revert(rest)
	same := 0
	for i, text := range files() {
		switch p := name(i); {
		case all[p] || one[p] || two[p]:
		case !bytes.Equal(text, want[i]):
			t.Errorf("half of the hunks of %s and then the rest make %.300q, all at once %.300q", p, text, want[i])
		default:
			same++
		}
	}
	t.Logf("%d files, %d hunks: %v; %d files have a conflict, half and then the rest is all in %d of %d others",
		len(cases), len(list), states, len(all), same, len(cases)-len(all))
	if same == 0 {
		t.Error("no file is without a conflict")
	}
}

// toldApart gives hunks of which others have the ID, of other files, the names that a revert says they have.
func toldApart(t *testing.T, m *FileSnapshotManager, list []Hunk) []Hunk {
	t.Helper()
	times := make(map[string]int)
	for _, h := range list {
		times[h.ID]++
	}
	said := regexp.MustCompile(`([0-9a-f]+) of "([^"]*)"`)
	for i := range list {
		h := &list[i]
		if times[h.ID] == 1 {
			continue
		}
		_, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: []string{h.ID}})
		if !errors.Is(err, ErrAmbiguous) {
			t.Fatalf("hunk %s, of which there are %d: %v", h.ID, times[h.ID], err)
		}
		for _, name := range said.FindAllStringSubmatch(err.Error(), -1) {
			if name[2] == h.Path {
				t.Logf("hunk %s of %s is %s", h.ID, h.Path, name[1])
				h.ID = name[1]
			}
		}
	}
	return list
}
