package textdiff

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"github.com/boocode/filestore/internal/similar"
	"github.com/pmezard/go-difflib/difflib"
)

// An Edit replaces the lines [OldStart, OldEnd) of the old text by the lines
// [NewStart, NewEnd) of the new one. Lines count from 0; either range may be
// empty, not both.
type Edit struct {
	OldStart, OldEnd int
	NewStart, NewEnd int
}

// Edits returns the edits that turn old into new, in order, with at least one
// common line between any two; none if the texts are equal. They are few but
// not always the fewest possible: in long and very repetitive texts that differ
// a lot, some are larger than they need be, which keeps the time near linear.
func Edits(old, new []byte) []Edit {
	return Compare(SplitLines(old), SplitLines(new))
}

// Compare is Edits for texts that are split into lines, or into what is to be
// compared of each line.
func Compare(old, new []string) []Edit { return edits(old, new, textEffort()) }

// Stat returns how many lines [Edits] deletes from old and adds from new. If
// either text is binary it has no lines to count and both numbers are 0.
func Stat(old, new []byte) (added, deleted int, binary bool) {
	if similar.IsBinary(old) || similar.IsBinary(new) {
		return 0, 0, true
	}
	for _, e := range Edits(old, new) {
		added += e.NewEnd - e.NewStart
		deleted += e.OldEnd - e.OldStart
	}
	return added, deleted, false
}

// SplitLines cuts a text into its lines, each with its end. It is our own because difflib.SplitLines adds a "\n" to the last
// line whether it has one or not: "a" and "a\n" become equal, and "a\n" gains an
// empty second line. Patches made that way do not apply at the end of a file.
func SplitLines(b []byte) []string {
	lines := make([]string, 0, bytes.Count(b, []byte("\n"))+1)
	return slices.AppendSeq(lines, strings.Lines(string(b)))
}

func edits(a, b []string, left *effort) []Edit {
	m := newMatcher(len(a), left)
	// The common ends are paired here, before numbering, because most edits
	// touch a few lines of a long file and hashing the rest would cost more
	// than everything else.
	whole := trim(m, a, b, gap{0, len(a), 0, len(b)})
	m.match(whole, m.intern(a, b, whole))
	return editsOf(m.partner, len(b))
}

// editsOf returns what lies between pairs: partner has the index in b, which has
// lenB elements, of each one's partner.
func editsOf(partner []int, lenB int) []Edit {
	var list []Edit
	for i, j := 0, 0; i < len(partner) || j < lenB; {
		if i < len(partner) && partner[i] == j {
			i, j = i+1, j+1
			continue
		}
		e := Edit{OldStart: i, NewStart: j}
		for i < len(partner) && partner[i] < 0 {
			i++
		}
		j = lenB
		if i < len(partner) {
			j = partner[i]
		}
		e.OldEnd, e.NewEnd = i, j
		list = append(list, e)
	}
	return list
}

// match pairs equal elements of the sides of whole without crossing. Their
// numbers are below distinct.
//
// difflib alone is quadratic and worse: 1 % edits in 100,000 lines of Go took
// more than 20 s with its junk rule off, and with the rule on 110 distinct lines
// at random took 13.8 s (libraries measured in November 2026). So it sees only
// what cheaper steps leave over:
//
//  1. the common start and end are paired, by the caller;
//  2. elements that occur once on each side are paired, as many as do not cross
//     (patience diff), and what lies between is trimmed in turn;
//  3. each remaining gap goes to difflib. If that might take too long, step 2
//     is repeated within the gap, where other elements are unique;
//  4. what is left then goes to Myers' algorithm.
//
// Steps 3 and 4 take what they spend from left.
func (m *matcher) match(whole gap, distinct int) {
	m.prepare(distinct, whole)
	gaps := m.splitAtUnique(whole)
	for round := 0; len(gaps) > 0; round++ {
		var again []gap
		for _, g := range gaps {
			g = trim(m, m.a, m.b, g)
			if m.matchByDifflib(g) {
				continue
			}
			if round < splitRounds {
				if parts := m.splitAtUnique(g); len(parts) > 1 {
					again = append(again, parts...)
					continue
				}
			}
			m.matchByMyers(g)
		}
		gaps = again
	}
}

const (
	// difflibGap bounds the steps that difflib may take in one gap.
	difflibGap = 2e6

	// splitRounds bounds how often a gap is split again: a text can be made in
	// which each round pairs a single element.
	splitRounds = 8
)

// An effort is what a match, or several, may still spend. Without it, a text of
// many hard gaps would cost the limit of one gap many times over.
type effort struct {
	difflib float64 // steps, as matchByDifflib estimates them
	myers   int     // steps of matchByMyers
	words   int     // that lines may be cut into
}

// textEffort is for one pair of texts. A step of difflib took at most 35 ns and
// one of Myers' 10 ns, so that both are worth 0.5 s (AMD EPYC, November 2026,
// BenchmarkEdits, the inputs of many gaps).
func textEffort() *effort { return &effort{difflib: 5e6, myers: 3e7} }

type matcher struct {
	partner []int   // for each element of a, the index of its partner in b, or -1
	a, b    []int32 // number of each element; equal elements have equal numbers
	inA     []int32 // for each number, its count in the a side of a gap; zero between uses
	inB     []int32 // the same for the b side
	lastInB []int32 // for each number, where it was last seen in b
	left    *effort

	cutoff      int     // edits that a search of Myers' looks for at most
	forth, back []int32 // its paths
}

// A gap is a stretch of both sides, a[a0:a1] and b[b0:b1], not paired yet.
type gap struct{ a0, a1, b0, b1 int }

// trim pairs equal elements at both ends of g and returns the rest.
func trim[T comparable](m *matcher, a, b []T, g gap) gap {
	for g.a0 < g.a1 && g.b0 < g.b1 && a[g.a0] == b[g.b0] {
		m.partner[g.a0] = g.b0
		g.a0, g.b0 = g.a0+1, g.b0+1
	}
	for g.a0 < g.a1 && g.b0 < g.b1 && a[g.a1-1] == b[g.b1-1] {
		g.a1, g.b1 = g.a1-1, g.b1-1
		m.partner[g.a1] = g.b1
	}
	return g
}

func newMatcher(lenA int, left *effort) *matcher {
	m := &matcher{partner: make([]int, lenA), left: left}
	for i := range m.partner {
		m.partner[i] = -1
	}
	return m
}

func (m *matcher) prepare(distinct int, whole gap) {
	m.inA, m.inB = make([]int32, distinct), make([]int32, distinct)
	m.lastInB = make([]int32, distinct)
	m.setCutoff(whole)
}

// intern numbers the elements in g, so that comparing two costs the same
// however long they are. It returns how many there are.
func (m *matcher) intern(a, b []string, g gap) (distinct int) {
	lists, distinct := Number(a[g.a0:g.a1], b[g.b0:g.b1])
	m.a, m.b = make([]int32, len(a)), make([]int32, len(b))
	copy(m.a[g.a0:], lists[0])
	copy(m.b[g.b0:], lists[1])
	return distinct
}

// count fills inA and inB for g; uncount zeroes them again.
func (m *matcher) count(g gap) {
	for _, id := range m.a[g.a0:g.a1] {
		m.inA[id]++
	}
	for _, id := range m.b[g.b0:g.b1] {
		m.inB[id]++
	}
}

func (m *matcher) uncount(g gap) {
	for _, id := range m.a[g.a0:g.a1] {
		m.inA[id] = 0
	}
	for _, id := range m.b[g.b0:g.b1] {
		m.inB[id] = 0
	}
}

// splitAtUnique pairs the elements that occur once on each side of g, leaving
// out those that would cross, and returns the gaps between them.
func (m *matcher) splitAtUnique(g gap) []gap {
	m.count(g)
	defer m.uncount(g)

	for j := g.b0; j < g.b1; j++ {
		m.lastInB[m.b[j]] = int32(j)
	}
	var as, bs []int // the unique elements in the order of a: a[as[n]] equals b[bs[n]]
	for i := g.a0; i < g.a1; i++ {
		if id := m.a[i]; m.inA[id] == 1 && m.inB[id] == 1 {
			as, bs = append(as, i), append(bs, int(m.lastInB[id]))
		}
	}

	var gaps []gap
	for _, n := range longestIncreasing(bs) {
		m.partner[as[n]] = bs[n]
		gaps = append(gaps, gap{g.a0, as[n], g.b0, bs[n]})
		g.a0, g.b0 = as[n]+1, bs[n]+1
	}
	return append(gaps, g)
}

// longestIncreasing returns the indexes of a longest increasing subsequence of
// list, whose elements are distinct.
func longestIncreasing(list []int) []int {
	var last []int                     // last[n]: where the subsequence of n+1 elements with the least end ends
	previous := make([]int, len(list)) // the index before each one in its subsequence
	for i, v := range list {
		n := sort.Search(len(last), func(n int) bool { return list[last[n]] > v })
		if n == len(last) {
			last = append(last, i)
		}
		last[n] = i
		if n > 0 {
			previous[i] = last[n-1]
		}
	}
	for n := len(last) - 2; n >= 0; n-- {
		last[n] = previous[last[n+1]]
	}
	return last
}

// matchByDifflib pairs what difflib finds in g. It returns false, and does
// nothing, if that could take too many steps.
//
// For each block that difflib finds, it looks anew at the rows on one side and,
// per row, at all equal elements on the other; it finds no more blocks than
// there are elements to pair. The product is the worst case, and the second
// factor bounds the depth of its recursion too. The pairs alone say too little:
// 10,000 lines that occur twice each, with every second one changed, are 10,000
// pairs but 5,000 blocks of one line, found one by one in 3.2 s.
func (m *matcher) matchByDifflib(g gap) bool {
	m.count(g)
	rows, pairs, common := float64(g.a1-g.a0), 0.0, 0.0
	for _, id := range m.a[g.a0:g.a1] {
		pairs += float64(m.inB[id])
	}
	for _, id := range m.b[g.b0:g.b1] {
		if m.inA[id] > 0 {
			m.inA[id]--
			common++
		}
	}
	m.uncount(g)

	cost := (rows + pairs) * common
	if cost == 0 {
		return true
	}
	if cost > min(m.left.difflib, difflibGap) {
		return false
	}
	m.left.difflib -= cost

	tokens := func(ids []int32) []string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = string(binary.BigEndian.AppendUint32(nil, uint32(id)))
		}
		return list
	}
	// The junk rule stays off: it would skip what is frequent, such as "}".
	d := difflib.NewMatcherWithJunk(tokens(m.a[g.a0:g.a1]), tokens(m.b[g.b0:g.b1]), false, nil)
	for _, block := range d.GetMatchingBlocks() {
		for n := range block.Size {
			m.partner[g.a0+block.A+n] = g.b0 + block.B + n
		}
	}
	return true
}
