package patch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// A driftLine is a line of a text that is indented by levels.
type driftLine struct {
	level int
	text  string
	end   string // blanks and the line end that the file has
}

// driftText writes lines in a unit of indentation.
func driftText(lines []driftLine, unit string, less int) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.Repeat(unit, l.level-less) + l.text + l.end)
	}
	return b.String()
}

// TestDrift edits random texts as a model does that has all blanks, quotes and
// line ends wrong, and here and there a word in a line that it leaves alone: with
// Reindent and Merge the file becomes what was meant, to the byte, or the edit is
// refused.
func TestDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 13))
	units := []string{"\t", "    ", "  "}
	count := make(map[string]int)
	n := *oracleCases
	if testing.Short() {
		n /= 4
	}
	for range n {
		unit := units[rng.IntN(3)]
		ends := [][]string{{"\n"}, {"\r\n"}, {"\n", "\r\n"}, {"\n", " \n", "\t\n"}}[rng.IntN(4)]
		fresh := 0
		line := func(level int) driftLine {
			fresh++
			text := []string{"x%d = call(\"name\", 'other')", "if value_%d is not None:", "return it's_%d",
				"self.items_%d - 1"}[rng.IntN(4)]
			return driftLine{level, fmt.Sprintf(text, fresh), ends[rng.IntN(len(ends))]}
		}
		var file []driftLine
		level := rng.IntN(3)
		for range 4 + rng.IntN(8) {
			level = max(0, level+rng.IntN(3)-1)
			file = append(file, line(level))
		}
		from := rng.IntN(len(file) - 1)
		to := from + 2 + rng.IntN(len(file)-from-1)
		window := file[from:to]
		// What is meant, and what the file would be.
		least := window[0].level
		for _, l := range window {
			least = min(least, l.level)
		}
		var old, new, want []driftLine
		changes := 0
		for i, l := range window {
			given := l
			if rng.IntN(12) == 0 { // a word that the model has wrong
				given.text = strings.Replace(l.text, "a", "o", 1)
			}
			old = append(old, given)
			switch k := rng.IntN(8); {
			case k == 0:
				changes++ // it goes
				want = append(want, driftLine{level: -1})
			case k == 1:
				changes++
				c := line(l.level)
				c.end = l.end
				new, want = append(new, c), append(want, c)
			case k == 2:
				changes++
				c := line(l.level + rng.IntN(2))
				new, want = append(new, given, c), append(want, l, c)
			case k == 3 && i == 0:
				changes++
				c := line(l.level)
				new, want = append(new, c, given), append(want, c, l)
			default:
				new, want = append(new, given), append(want, l)
			}
		}
		if changes == 0 || len(new) == 0 || unitOf(newLined([]byte(driftText(file, unit, 0))).lines) == "" {
			continue // nothing is asked, or nothing tells the file's unit
		}
		// How the model writes it.
		drift := units[rng.IntN(3)]
		less := []int{0, least}[rng.IntN(2)]
		fancy := strings.NewReplacer()
		if rng.IntN(3) == 0 {
			fancy = strings.NewReplacer(`"`, "\u201c", `'`, "\u2019", "-", "\u2013")
		}
		written := func(lines []driftLine) []byte {
			lines = append([]driftLine(nil), lines...)
			for i := range lines {
				lines[i].text, lines[i].end = fancy.Replace(lines[i].text), "\n"
			}
			return []byte(strings.TrimSuffix(driftText(lines, drift, less), "\n"))
		}
		if !hasFancy(written(old)) { // then nothing says that quotes are not meant
			fancy = strings.NewReplacer()
		}
		content := driftText(file, unit, 0)
		opts := &Options{Reindent: ReindentAuto, RefuseUnsureIndent: true, Merge: true, MinSimilarity: 0.92}
		r := Replace([]byte(content), written(old), written(new), opts)
		count[fmt.Sprint(r.Kind, " ", r.Stage, " ", r.Reason)]++
		if !r.Found() || r.Kind == IsExact { // which is put as it is given
			continue
		}
		// Ends of lines that are new are not the model's to say.
		bare := func(s string) string {
			lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
			for i, l := range lines {
				lines[i] = strings.TrimRight(l, " \t")
			}
			return strings.Join(lines, "\n")
		}
		var kept []driftLine
		for _, l := range want {
			if l.level >= 0 {
				kept = append(kept, l)
			}
		}
		after := driftText(file[:from], unit, 0) + driftText(kept, unit, 0) + driftText(file[to:], unit, 0)
		got := string(r.Content)
		if bare(got) != bare(after) {
			t.Fatalf("Replace(%q, %q, %q)\ngot  %q\nwant %q (%+v)", content, written(old), written(new), got, after,
				r.Match)
		}
		for _, l := range file { // what was not to be changed is so to the byte
			s := strings.Repeat(unit, l.level) + l.text + l.end
			if strings.Contains(after, s) && !strings.Contains(got, s) {
				t.Fatalf("Replace(%q, %q, %q)\ngot  %q\nlost %q", content, written(old), written(new), got, s)
			}
		}
	}
	found := 0
	for k, v := range count {
		if strings.HasPrefix(k, "fuzzy") {
			found += v
		}
	}
	if found < n/3 {
		t.Errorf("%d of %d found: %v", found, n, count)
	}
	t.Log(count)
}
