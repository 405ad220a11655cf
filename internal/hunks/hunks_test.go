package hunks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/tree"
)

func stateOf(text []byte) State {
	return State{ID: blake3.Sum256(text), Mode: tree.ModeFile | 0o644, Text: text}
}

func TestBetween(t *testing.T) {
	before, after := stateOf([]byte("a\nb\nc\nd\ne")), stateOf([]byte("a\nB\nc\nd\ne\nf\n"))
	got := Between("x.go", before, after)
	side := func(text string, line, lineEnd, at int) patch.Side {
		return patch.Side{Text: []byte(text), Lines: patch.Span{Start: line, End: lineEnd},
			Bytes: patch.Span{Start: at, End: at + len(text)}}
	}
	want := []Hunk{
		{ID: "f9256b48", Kind: Lines, Before: side("b\n", 1, 2, 2), After: side("B\n", 1, 2, 2)},
		{ID: "e56b8ab5", Kind: Lines, Before: side("e", 4, 5, 8), After: side("e\nf\n", 4, 6, 8)},
	}
	for i := range min(len(want), len(got)) {
		want[i].Hash = got[i].Hash
		if !strings.HasPrefix(got[i].Hash, got[i].ID) || len(got[i].Hash) != 64 {
			t.Errorf("ID %s is not the beginning of %s", got[i].ID, got[i].Hash)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Between (-want +got):\n%s", diff)
	}
	ids := func(path string, before, after State) (list []string) {
		for _, h := range Between(path, before, after) {
			list = append(list, h.ID)
		}
		return list
	}
	same := ids("x.go", before, after)
	for _, other := range [][]string{ids("y.go", before, after), ids("x.go", after, before)} {
		if slices.ContainsFunc(other, func(id string) bool { return slices.Contains(same, id) }) {
			t.Errorf("IDs %v of another path or direction are in %v", other, same)
		}
	}
	for _, tt := range []struct {
		name          string
		before, after State
		want          int
	}{
		{"the same", before, before, 0},
		{"made", State{}, after, 1},
		{"made, empty", State{}, stateOf(nil), 1},
		{"deleted", before, State{}, 1},
		{"binary", stateOf([]byte("a\nb\x00\nc\n")), stateOf([]byte("A\nb\x00\nC\n")), 1},
	} {
		if got := Between("x", tt.before, tt.after); len(got) != tt.want {
			t.Errorf("%s: %d hunks, want %d", tt.name, len(got), tt.want)
		}
	}
}

// Hunks whose IDs are the same in 8 digits get longer ones.
func TestIDsDiffer(t *testing.T) {
	list := make([]Hunk, 100_000)
	for i := range list {
		list[i].After.Lines = patch.Span{Start: 2 * i, End: 2*i + 1}
	}
	name(list, "x", new(State), new(State))
	seen := make(map[string]bool)
	for _, h := range list {
		seen[h.ID] = true
	}
	if len(seen) != len(list) || len(list[0].ID) == idDigits {
		t.Errorf("%d hunks, %d IDs of %d digits", len(list), len(seen), len(list[0].ID))
	}
}

// edited changes, deletes and adds lines at up to n places.
func edited(rng *rand.Rand, text []byte, n int) []byte {
	lines := textdiff.SplitLines(text)
	for range 1 + rng.IntN(n) {
		at := rng.IntN(len(lines) + 1)
		fresh := fmt.Sprintf("line %d\n", rng.IntN(60))
		switch {
		case at == len(lines) || rng.IntN(3) == 0:
			lines = slices.Insert(lines, at, fresh)
		case rng.IntN(2) == 0:
			lines = slices.Delete(lines, at, at+1)
		default:
			lines[at] = fresh
		}
	}
	return []byte(strings.Join(lines, ""))
}

// checkHunks checks what must hold of any hunks.
func checkHunks(t *testing.T, before, after []byte, list []Hunk) {
	t.Helper()
	if got := TakenBack(after, list, func(*Hunk) bool { return true }); !bytes.Equal(got, before) {
		t.Fatalf("without all hunks %q is %q, want %q", after, got, before)
	}
	if got := TakenBack(after, list, func(*Hunk) bool { return false }); !bytes.Equal(got, after) {
		t.Fatalf("with all hunks %q is %q", after, got)
	}
	for i, h := range list {
		if bytes.Equal(h.Before.Text, h.After.Text) || len(h.ID) < idDigits ||
			i > 0 && h.After.Lines.Start <= list[i-1].After.Lines.End {
			t.Fatalf("hunk %d of %q and %q: %+v", i, before, after, list)
		}
	}
}

// takenInTwo takes some hunks back from a file as it is now, and then the rest. Where
// there is no conflict, it must be as all at once, which it reports.
func takenInTwo(t *testing.T, before, after, now []byte, list []Hunk, some func(h *Hunk) bool) (clean bool) {
	t.Helper()
	text := now
	for _, chosen := range []func(h *Hunk) bool{some, func(h *Hunk) bool { return !some(h) }} {
		m := patch.Merge(after, text, TakenBack(after, list, chosen), nil)
		if text = m.Text; len(m.Conflicts) > 0 {
			return false
		}
	}
	m := patch.Merge(after, now, before, nil)
	if len(m.Conflicts) == 0 && !bytes.Equal(m.Text, text) {
		t.Fatalf("before %q, after %q, now %q: some hunks and then the rest make %q, all at once %q",
			before, after, now, text, m.Text)
	}
	return len(m.Conflicts) == 0
}

// checkPlaces checks that places are true: the hunks that are not in conflict go, and
// what is there instead of each is what was before.
func checkPlaces(t *testing.T, before, after, now []byte, list []Hunk) map[Outcome]int {
	t.Helper()
	count := make(map[Outcome]int)
	places := Places(stateOf(before), stateOf(after), stateOf(now), list)
	if len(places) != len(list) {
		t.Fatalf("%d places of %d hunks", len(places), len(list))
	}
	lines := textdiff.SplitLines(now)
	var want strings.Builder
	at := 0
	goes := make(map[string]bool)
	for i, p := range places {
		count[p.Outcome]++
		if p.Outcome != Conflict {
			goes[list[i].ID] = true
		}
		if p.Outcome == Clean {
			want.WriteString(strings.Join(lines[at:p.Start], "") + string(list[i].Before.Text))
			at = p.End
		}
	}
	want.WriteString(strings.Join(lines[at:], ""))
	m := patch.Merge(after, now, TakenBack(after, list, func(h *Hunk) bool { return goes[h.ID] }), nil)
	if len(m.Conflicts) > 0 || !bytes.Equal(toLF(m.Text), toLF([]byte(want.String()))) {
		t.Fatalf("before %q, after %q, now %q: places %v make %q with %d conflicts, want %q",
			before, after, now, places, m.Text, len(m.Conflicts), want.String())
	}
	if n := len(patch.Merge(after, now, before, nil).Conflicts); n > 0 != (count[Conflict] > 0) {
		t.Fatalf("before %q, after %q, now %q: places %v, the merge has %d conflicts", before, after, now, places, n)
	}
	return count
}

func TestPlaces(t *testing.T) {
	const before, after = "a\nb\nc\nd\ne\nf\n", "a\nB\nc\nd\nE\nf\n" // two hunks
	tests := []struct {
		name, now string
		want      []Place
	}{
		{"as it was", after, []Place{{Clean, 1, 2}, {Clean, 4, 5}}},
		{"lines before it", "x\ny\n" + after, []Place{{Clean, 3, 4}, {Clean, 6, 7}}},
		{"one is back", "a\nb\nc\nd\nE\nf\n", []Place{{Done, 1, 2}, {Clean, 4, 5}}},
		{"one changed since", "a\nB\nc\nd\nEE\nf\n", []Place{{Clean, 1, 2}, {Conflict, 4, 5}}},
		{"the line beside changed", "a\nB\nC\nd\nE\nf\n", []Place{{Conflict, 1, 3}, {Clean, 4, 5}}},
		{"all changed", "x\n", []Place{{Conflict, 0, 1}, {Conflict, 0, 1}}},
		{"all gone", "", []Place{{Conflict, 0, 0}, {Conflict, 0, 0}}},
		{"its line ends", "a\r\nB\r\nc\r\nd\r\nE\r\nf\r\n", []Place{{Clean, 1, 2}, {Clean, 4, 5}}},
		{"its line ends, and one of them", "a\r\nB\r\nc\r\nd\r\nx\r\nf\r\n", []Place{{Clean, 1, 2}, {Conflict, 4, 5}}},
	}
	list := Between("x", stateOf([]byte(before)), stateOf([]byte(after)))
	for _, tt := range tests {
		got := Places(stateOf([]byte(before)), stateOf([]byte(after)), stateOf([]byte(tt.now)), list)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.name, diff)
		}
	}
	lf, crlf := stateOf([]byte("a\nb\n")), stateOf([]byte("a\r\nb\r\n"))
	list = Between("x", lf, crlf)
	if got := Places(lf, crlf, stateOf([]byte("a\r\nx\r\n")), list); len(got) != 1 || got[0].Outcome != Clean {
		t.Errorf("a hunk of line ends alone, below an edit: %v, want that it is taken back", got)
	}
}

// What is no text is taken back as a whole, and a mode apart from the content.
func TestWholePlaces(t *testing.T) {
	text, other := stateOf([]byte("a\n")), stateOf([]byte("b\n"))
	run, link, large := text, text, text
	run.Mode, link.Mode, large.Opaque = tree.ModeFile|0o755, tree.ModeSymlink, true
	for _, tt := range []struct {
		name               string
		before, after, now State
		want               []Outcome
	}{
		{"made", State{}, text, text, []Outcome{Clean}},
		{"made, and gone", State{}, text, State{}, []Outcome{Done}},
		{"made, then changed", State{}, text, other, []Outcome{Conflict}},
		{"deleted, then made", text, State{}, other, []Outcome{Conflict}},
		{"became a link", text, link, link, []Outcome{Clean}},
		{"too large", large, other, other, []Outcome{Clean}},
		{"its mode", text, run, run, []Outcome{Clean}},
		{"its mode, and lines since", text, run, stateOf([]byte("c\n")), []Outcome{Done}},
		{"its mode and a line", other, run, text, []Outcome{Done, Clean}},
		{"its mode and a line, and gone", other, run, State{}, []Outcome{Conflict, Conflict}},
	} {
		var got []Outcome
		for _, p := range Places(tt.before, tt.after, tt.now, Between("x", tt.before, tt.after)) {
			got = append(got, p.Outcome)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	a, b := Between("x", text, run)[0].ID, Between("x", run, text)[0].ID
	if a == b {
		t.Errorf("a hunk of a mode and the way back are both %s", a)
	}
}

// A hunk is divided at lines that both of its sides have.
func TestParts(t *testing.T) {
	before, after := stateOf([]byte("a\nx\n}\ny\nb\n")), stateOf([]byte("a\nX\n}\nY\nb\n"))
	h := Hunk{Kind: Lines, Before: whole(before.Text), After: whole(after.Text)}
	parts := Parts("x", before, after, &h)
	if len(parts) != 2 {
		t.Fatalf("%d parts, want 2", len(parts))
	}
	checkHunks(t, before.Text, after.Text, parts)
	one := TakenBack(after.Text, parts, func(h *Hunk) bool { return h.ID == parts[0].ID })
	if string(one) != "a\nx\n}\nY\nb\n" {
		t.Errorf("without the first part %q", one)
	}
	places := Places(before, after, stateOf(one), parts)
	if places[0].Outcome != Done || places[1].Outcome != Clean {
		t.Errorf("the first part is taken back: %v", places)
	}
	if list := Parts("x", before, after, &parts[0]); list != nil {
		t.Errorf("parts of a part: %v", list)
	}
}

// byBits chooses some hunks.
func byBits(bits uint64) func(h *Hunk) bool {
	return func(h *Hunk) bool { return bits>>(h.After.Lines.Start%64)&1 == 1 }
}

func TestTakenBack(t *testing.T) {
	rng := testseed.Rand(t)
	clean, outcomes := 0, make(map[Outcome]int)
	const n = 2000
	for range n {
		var before []byte
		for range 20 + rng.IntN(40) {
			before = fmt.Appendf(before, "line %d\n", rng.IntN(60))
		}
		after := edited(rng, before, 8)
		list := Between("x", stateOf(before), stateOf(after))
		checkHunks(t, before, after, list)
		now := edited(rng, after, 4)
		if rng.IntN(4) == 0 { // and an editor, or a formatter, converted it
			now = bytes.ReplaceAll(now, []byte("\n"), []byte("\r\n"))
		}
		for outcome, n := range checkPlaces(t, before, after, now, list) {
			outcomes[outcome] += n
		}
		if takenInTwo(t, before, after, now, list, byBits(rng.Uint64())) {
			clean++
		}
	}
	if clean < n/10 {
		t.Errorf("%d of %d cases are without a conflict", clean, n)
	}
	t.Logf("%d of %d cases are without a conflict; hunks: %v", clean, n, outcomes)
}

func FuzzTakenBack(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nB\nc\nd"), uint64(1))
	f.Add([]byte("a\r\nb\n\x00"), []byte(""), uint64(2))
	f.Add([]byte("}\n}\na\n}\nb\n"), []byte("}\n}\n}\nb\nb\n"), uint64(1))
	f.Fuzz(func(t *testing.T, before, after []byte, chosen uint64) {
		list := Between("x", stateOf(before), stateOf(after))
		checkHunks(t, before, after, list)
		theirs := TakenBack(after, list, byBits(chosen))
		if m := patch.Merge(after, after, theirs, nil); !bytes.Equal(m.Text, theirs) {
			t.Errorf("from what nobody changed since: %q, want %q", m.Text, theirs)
		}
	})
}

// BenchmarkBetween is what a screen of a file of 5,000 lines with 973 hunks waits for.
func BenchmarkBetween(b *testing.B) {
	var before, after []byte
	for i := range 5000 {
		before = fmt.Appendf(before, "line %d of the text\n", i)
		if i%5 == 0 && i/5 < 973 {
			after = fmt.Appendf(after, "changed %d\n", i)
		} else {
			after = fmt.Appendf(after, "line %d of the text\n", i)
		}
	}
	x, y := stateOf(before), stateOf(after)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Between("x", x, y)); n != 973 {
			b.Fatalf("%d hunks", n)
		}
	}
}
