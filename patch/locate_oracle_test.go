package patch

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/testseed"
)

// The oracle is the specification, word for word and without an index: every
// place is tried, every distance is computed by the textbook's table.

type oracle struct {
	opts    Options
	content string
	old     string
}

func (o *oracle) locate() *Match {
	n := o.opts.Replacements
	if n == 0 {
		n = 1
	}
	if o.old == "" {
		return &Match{Kind: IsInvalid, Reason: reasonEmpty}
	}
	var starts []Span
	for i := 0; i+len(o.old) <= len(o.content); i++ {
		switch {
		case o.content[i:i+len(o.old)] != o.old:
		case o.isInside(i) || o.isInside(i+len(o.old)):
		default:
			starts = append(starts, Span{i, i + len(o.old)})
		}
	}
	if within := strings.HasPrefix(o.old, "\n") || strings.HasSuffix(o.old, "\r"); len(starts) == 0 ||
		within && strings.Contains(o.content, "\r\n") {
		starts = o.withoutLineEnds()
	}
	if len(starts) > 0 {
		return o.exactly(starts, n)
	}
	if n != 1 {
		return &Match{Kind: IsInvalid, Reason: reasonFuzzyOne}
	}
	file, needle := o.lines(o.content), o.lines(o.old)
	for len(needle) > 0 && strings.TrimSpace(needle[0].text) == "" {
		needle = needle[1:]
	}
	for len(needle) > 0 && strings.TrimSpace(needle[len(needle)-1].text) == "" {
		needle = needle[:len(needle)-1]
	}
	if len(needle) == 0 {
		return &Match{Kind: IsNotFound}
	}
	k := len(needle)
	forms := []struct {
		stage Stage
		of    func(string) string
	}{
		{Whitespace, func(s string) string { return strings.TrimRight(s, " \t\v\f\r\u0085\u00a0\u3000") }},
		{Whitespace, strings.TrimSpace},
		{Unicode, func(s string) string { return strings.TrimSpace(o.plain(s)) }},
	}
	for _, f := range forms {
		var places []Span
		for i := 0; i+k <= len(file); i++ {
			all := true
			for j, l := range needle {
				all = all && f.of(file[i+j].text) == f.of(l.text)
			}
			if all {
				places = append(places, Span{file[i].start, file[i+k-1].end})
			}
		}
		if len(places) > 0 {
			return o.one(IsFuzzy, f.stage, places, 1)
		}
	}
	if m := o.within(needle); m != nil {
		return m
	}
	if slices.ContainsFunc(needle, isOracleElision) {
		return &Match{Kind: IsNotFound}
	}
	if m := o.anchors(file, needle); m != nil {
		return o.proportionate(m, k)
	}
	if m := o.levenshtein(file, needle); m != nil {
		return o.proportionate(m, k)
	}
	return &Match{Kind: IsNotFound}
}

func isOracleElision(l oracleLine) bool {
	s := strings.TrimSpace(l.text)
	return len(s) >= 3 && strings.Trim(s, ".") == "" || strings.HasPrefix(s, "... ") && strings.HasSuffix(s, " ...")
}

// isInside: within a character, or between CR and LF.
func (o *oracle) isInside(i int) bool {
	if i > 0 && i < len(o.content) && o.content[i-1:i+1] == "\r\n" {
		return true
	}
	for at, r := range o.content {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(o.content[at:], "\ufffd") {
			size = 1
		}
		if at < i && i < at+size {
			return true
		}
	}
	return false
}

func (o *oracle) withoutLineEnds() (places []Span) {
	if !strings.Contains(o.content+o.old, "\r\n") {
		return nil
	}
	old := strings.ReplaceAll(o.old, "\r\n", "\n")
	for i := range len(o.content) {
		for j := i + 1; j <= len(o.content); j++ {
			if strings.ReplaceAll(o.content[i:j], "\r\n", "\n") == old && !o.isInside(i) && !o.isInside(j) {
				places = append(places, Span{i, j})
			}
		}
	}
	return places
}

func (o *oracle) exactly(places []Span, n int) *Match {
	if n == 1 {
		return o.one(IsExact, Exact, places, 1)
	}
	var apart []Span
	for _, p := range places {
		if len(apart) == 0 || p.Start >= apart[len(apart)-1].End {
			apart = append(apart, p)
		}
	}
	if n != replaceAll && len(apart) != n {
		return &Match{Kind: IsAmbiguous, Stage: Exact, Count: len(apart), Similarity: 1}
	}
	m := &Match{Kind: IsExact, Stage: Exact, Count: len(apart), Similarity: 1, Start: apart[0].Start, End: apart[0].End}
	if len(apart) > 1 {
		m.Spans = apart
	}
	return m
}

func (o *oracle) one(kind Kind, stage Stage, places []Span, similarity float64) *Match {
	if len(places) > 1 {
		return &Match{Kind: IsAmbiguous, Stage: stage, Count: len(places), Similarity: similarity}
	}
	return &Match{Kind: kind, Stage: stage, Count: 1, Similarity: similarity, Start: places[0].Start,
		End: places[0].End}
}

type oracleLine struct {
	start, end int
	text       string
}

func (o *oracle) lines(s string) (list []oracleLine) {
	at := 0
	if strings.HasPrefix(s, "\ufeff") {
		at = len("\ufeff")
	}
	for at < len(s) {
		end := strings.Index(s[at:], "\n")
		if end < 0 {
			return append(list, oracleLine{at, len(s), s[at:]})
		}
		text := strings.TrimSuffix(s[at:at+end], "\r")
		list = append(list, oracleLine{at, at + len(text), text})
		at += end + 1
	}
	return list
}

func (o *oracle) plain(s string) string {
	return strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`, "\u2013", "-", "\u2014", "-", "\u00a0", " ").Replace(s)
}

func (o *oracle) within(needle []oracleLine) *Match {
	old := o.old[needle[0].start:needle[len(needle)-1].end]
	old = o.plain(strings.ReplaceAll(old, "\r\n", "\n"))
	if utf8.RuneCountInString(strings.Join(strings.Fields(old), "")) < 8 {
		return nil
	}
	var places []Span
	for i := range len(o.content) {
		if i < 3 && strings.HasPrefix(o.content, "\ufeff") {
			continue
		}
		for j := i + 1; j <= len(o.content); j++ {
			if !o.isInside(i) && !o.isInside(j) && o.plain(strings.ReplaceAll(o.content[i:j], "\r\n", "\n")) == old {
				places = append(places, Span{i, j})
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	return o.one(IsFuzzy, Unicode, places, 1)
}

func (o *oracle) anchors(file, needle []oracleLine) *Match {
	k := len(needle)
	first, last := strings.TrimSpace(needle[0].text), strings.TrimSpace(needle[k-1].text)
	if k < 3 || first == last {
		return nil
	}
	var places []Span
	best := 0.0
	try := func(size int) {
		for i := 0; i+size <= len(file); i++ {
			if strings.TrimSpace(file[i].text) != first || strings.TrimSpace(file[i+size-1].text) != last {
				continue
			}
			sum := 0.0
			for j := 1; j < k-1 && j < size-1; j++ {
				a, b := runes(strings.TrimSpace(needle[j].text)), runes(strings.TrimSpace(file[i+j].text))
				if n := max(len(a), len(b)); n == 0 {
					sum++
				} else {
					sum += 1 - float64(distance(a, b))/float64(n)
				}
			}
			score := sum / float64(max(1, k-2, size-2))
			place := Span{file[i].start, file[i+size-1].end}
			switch {
			case !(score > 0.6+1e-9):
			case score > best+1e-9:
				places, best = []Span{place}, score
			case score > best-1e-9:
				places, best = append(places, place), max(best, score)
			}
		}
	}
	if try(k); len(places) == 0 {
		for size := 2; size <= k+max(1, k/4); size++ {
			if size != k && size >= k-max(1, k/4) {
				try(size)
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	return o.one(IsFuzzy, BlockAnchor, places, best)
}

func (o *oracle) levenshtein(file, needle []oracleLine) *Match {
	k := len(needle)
	join := func(list []oracleLine) []rune {
		var texts []string
		for _, l := range list {
			texts = append(texts, l.text)
		}
		return runes(strings.Join(texts, "\n"))
	}
	old := join(needle)
	var places []Span
	num, den := 0, 1
	for i := 0; i+k <= len(file); i++ {
		window := join(file[i : i+k])
		longest := max(len(old), len(window))
		d := distance(old, window)
		if (longest-d)*100 < 66*longest {
			continue
		}
		place := Span{file[i].start, file[i+k-1].end}
		switch a, b := (longest-d)*den, num*longest; {
		case a > b:
			places, num, den = []Span{place}, longest-d, longest
		case a == b:
			places = append(places, place)
		}
	}
	if len(places) == 0 {
		return nil
	}
	return o.one(IsFuzzy, Levenshtein, places, float64(num)/float64(den))
}

func (o *oracle) proportionate(m *Match, k int) *Match {
	if m.Kind != IsFuzzy {
		return m
	}
	found := o.content[m.Start:m.End]
	lines := 1 + strings.Count(found, "\n")
	n := len(runes(o.old))
	if lines >= max(k+3, 2*k) || len(runes(found)) > max(n+500, 4*n) {
		return &Match{Kind: IsNotFound}
	}
	return m
}

func runes(s string) (list []rune) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			r = -rune(s[i])
		}
		list = append(list, r)
		i += n
	}
	return list
}

// distance is the textbook's.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			cost := 1
			if x == y {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// randomCase is a small file and something that is, or was, in it.
func randomCase(rng *rand.Rand) (content, old string) {
	pieces := []string{"a", "b", "foo", "}", "{", "x = 1", "", "  ", "\t", "\u201chi\u201d", "\"hi\"", "it\u2019s",
		"it's", "\u00a0", "\xff", "\xc3", "é", "日本", "...", "return value", "\r"}
	ends := [][]string{{"\n"}, {"\r\n"}, {"\n", "\r\n", "\r"}}[rng.IntN(3)]
	var list []string
	for range 1 + rng.IntN(12) {
		var l string
		for range rng.IntN(4) {
			l += pieces[rng.IntN(len(pieces))]
		}
		list = append(list, l+ends[rng.IntN(len(ends))])
	}
	if rng.IntN(10) == 0 { // all is there twice, so what is nearly right is ambiguous
		list = append(list, list...)
	}
	content = strings.Join(list, "")
	if rng.IntN(3) == 0 {
		content = strings.TrimSuffix(content, "\n")
	}
	from := rng.IntN(len(list))
	to := from + 1 + rng.IntN(len(list)-from)
	old = strings.Join(list[from:to], "")
	for range rng.IntN(4) {
		switch at := rng.IntN(len(old) + 1); rng.IntN(6) {
		case 0:
			old = old[:at] + pieces[rng.IntN(len(pieces))] + old[at:]
		case 1:
			old = old[:at]
		case 2:
			old = strings.ReplaceAll(old, "\r\n", "\n")
		case 3:
			old = "  " + strings.ReplaceAll(old, "\n", "\n  ")
		case 4:
			old = strings.NewReplacer("\u201c", `"`, "\u201d", `"`, "'", "\u2019").Replace(old)
		case 5:
			old = old[at:]
		}
	}
	if rng.IntN(8) == 0 {
		content = "\ufeff" + content
	}
	return content, old
}

var oracleCases = flag.Int("cases", 2500, "cases that TestLocateOracle tries; 100,000 by make crash")

// TestLocateOracle compares what Locate says of small random cases with the
// oracle.
func TestLocateOracle(t *testing.T) {
	n := *oracleCases
	rng := rand.New(rand.NewPCG(testseed.Of(t), 3))
	stages := make(map[string]int)
	for range n {
		content, old := randomCase(rng)
		opts := Options{Replacements: []int{0, 0, 0, 1, 2, replaceAll}[rng.IntN(6)]}
		want := (&oracle{opts, content, old}).locate()
		got := Locate([]byte(content), []byte(old), &opts)
		stages[fmt.Sprint(got.Kind, " ", got.Stage)]++
		if got.Kind != want.Kind || got.Found() &&
			(got.Stage != want.Stage || got.Start != want.Start || got.End != want.End ||
				!slices.Equal(got.Spans, want.Spans) || got.Similarity != want.Similarity) ||
			got.Kind == IsAmbiguous && (got.Stage != want.Stage || got.Count != want.Count) {
			t.Fatalf("Locate(%q, %q, %d):\ngot  %+v\nwant %+v", content, old, opts.Replacements, got, want)
		}
		if got.Found() && bytes.Count([]byte(content[:got.Start]), lf)+1 != got.StartLine {
			t.Fatalf("Locate(%q, %q): line %d", content, old, got.StartLine)
		}
	}
	t.Log(stages)
	for _, stage := range []string{"exact exact", "fuzzy whitespace", "fuzzy unicode", "fuzzy block_anchor",
		"fuzzy levenshtein", "ambiguous levenshtein", "not_found "} {
		if stages[stage] == 0 || stages[stage] < n/10_000 { // the rarest is 37 in 10,000
			t.Errorf("%d cases of %q: %v", stages[stage], stage, stages)
		}
	}
}
