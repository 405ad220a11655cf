package textdiff

import (
	"bytes"
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
// a lot, a whole stretch becomes one edit, which keeps the time near linear.
func Edits(old, new []byte) []Edit {
	return Compare(splitLines(old), splitLines(new))
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

// splitLines is our own because difflib.SplitLines adds a "\n" to the last
// line whether it has one or not: "a" and "a\n" become equal, and "a\n" gains an
// empty second line. Patches made that way do not apply at the end of a file.
func splitLines(b []byte) []string {
	lines := make([]string, 0, bytes.Count(b, []byte("\n"))+1)
	return slices.AppendSeq(lines, strings.Lines(string(b)))
}

func edits(a, b []string, left *effort) []Edit {
	partner := match(a, b, left)
	var list []Edit
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if i < len(a) && partner[i] == j {
			i, j = i+1, j+1
			continue
		}
		e := Edit{OldStart: i, NewStart: j}
		for i < len(a) && partner[i] < 0 {
			i++
		}
		j = len(b)
		if i < len(a) {
			j = partner[i]
		}
		e.OldEnd, e.NewEnd = i, j
		list = append(list, e)
	}
	return list
}

// match pairs equal elements of a and b without crossing: it returns for each
// element of a the index of its partner in b, or -1.
//
// difflib alone is quadratic and worse: 1 % edits in 100,000 lines of Go took
// more than 20 s with its junk rule off, and with the rule on 110 distinct lines
// at random took 13.8 s (libraries measured in November 2026). So it sees only
// what cheaper steps leave over:
//
//  1. the common start and end are paired;
//  2. elements that occur once on each side are paired, as many as do not cross
//     (patience diff), and what lies between is trimmed in turn;
//  3. each remaining gap goes to difflib. If that might take too long, step 2
//     is repeated within the gap, where other elements are unique;
//  4. what is left then goes to Myers' algorithm, which pairs all or nothing.
//
// Steps 3 and 4 take what they spend from left.
func match(a, b []string, left *effort) []int {
	partner := make([]int, len(a))
	for i := range partner {
		partner[i] = -1
	}
	m := &matcher{partner: partner, left: left}
	// The common ends are paired here, before interning, because most edits
	// touch a few lines of a long file and hashing the rest would cost more
	// than everything else.
	whole := trim(m, a, b, gap{0, len(a), 0, len(b)})
	m.intern(a, b, whole)
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
	return partner
}

const (
	// difflibGap bounds the steps that difflib may take in one gap.
	difflibGap = 2e6

	// splitRounds bounds how often a gap is split again: a text can be made in
	// which each round pairs a single element.
	splitRounds = 8

	// myersEdits bounds the edits that Myers' algorithm looks for in one gap. It
	// takes memory for their square: 8 MB here.
	myersEdits = 2000
)

// An effort is what a match, or several, may still spend. Without it, a text of
// many hard gaps would cost the limit of one gap many times over.
type effort struct {
	difflib float64 // steps, as matchByDifflib estimates them
	myers   int     // steps of matchByMyers
	words   int     // that lines may be cut into
}

// textEffort is for one pair of texts. A step of difflib took at most 35 ns and
// one of Myers' 5 ns, so that both are worth 0.3 s (AMD EPYC, November 2026,
// BenchmarkEdits, the inputs of many gaps).
func textEffort() *effort { return &effort{difflib: 5e6, myers: 2e7} }

type matcher struct {
	partner []int
	a, b    []int    // number of each element; equal elements have equal numbers
	tokens  []string // for each number a short string, for difflib
	inA     []int    // for each number, its count in the a side of a gap; zero between uses
	inB     []int    // the same for the b side
	lastInB []int    // for each number, where it was last seen in b
	left    *effort
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

// intern numbers the elements in g, so that comparing two costs the same
// however long they are.
func (m *matcher) intern(a, b []string, g gap) {
	numbers := make(map[string]int)
	number := func(list []string, from, to int) []int {
		ids := make([]int, len(list))
		for i := from; i < to; i++ {
			id, ok := numbers[list[i]]
			if !ok {
				id = len(numbers)
				numbers[list[i]] = id
			}
			ids[i] = id
		}
		return ids
	}
	m.a = number(a, g.a0, g.a1)
	m.b = number(b, g.b0, g.b1)
	m.inA = make([]int, len(numbers))
	m.inB = make([]int, len(numbers))
	m.lastInB = make([]int, len(numbers))

	// All tokens share one allocation: each is four bytes of table.
	table := make([]byte, 0, 4*len(numbers))
	for id := range len(numbers) {
		table = append(table, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	}
	shared := string(table)
	m.tokens = make([]string, len(numbers))
	for id := range m.tokens {
		m.tokens[id] = shared[4*id : 4*id+4]
	}
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
		m.lastInB[m.b[j]] = j
	}
	var as, bs []int // the unique elements in the order of a: a[as[n]] equals b[bs[n]]
	for i := g.a0; i < g.a1; i++ {
		if id := m.a[i]; m.inA[id] == 1 && m.inB[id] == 1 {
			as, bs = append(as, i), append(bs, m.lastInB[id])
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

	tokens := func(ids []int) []string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = m.tokens[id]
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

// matchByMyers pairs what the fewest edits between the sides of g leave, if
// they are at most myersEdits and found with the effort left. It is for a few
// changes in a long text of few distinct lines, where nothing is unique and
// difflib is slow.
//
// Paths through the grid of a and b go right (delete an element of a), down
// (insert one of b) or, for free, along a diagonal of equal elements. rows[d][n]
// is how far along a the best path with d edits gets on diagonal 2n-d, which is
// its distance in a less its distance in b. See E. W. Myers, "An O(ND)
// Difference Algorithm and Its Variations", 1986.
func (m *matcher) matchByMyers(g gap) {
	a, b := m.a[g.a0:g.a1], m.b[g.b0:g.b1]
	var rows [][]int32
	for d := 0; d <= myersEdits && m.left.myers > 0; d++ {
		m.left.myers -= d + 1
		row := make([]int32, d+1)
		rows = append(rows, row)
		for n := range row {
			x := 0
			if d > 0 {
				x, _ = step(rows[d-1], n)
			}
			y := x - (2*n - d)
			start := x
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			row[n] = int32(x)
			m.left.myers -= x - start
			if x == len(a) && y == len(b) {
				m.walkBack(g, rows)
				return
			}
		}
	}
}

// step returns where the best path on diagonal n of the row after previous
// starts, and whether it came down rather than right.
func step(previous []int32, n int) (x int, down bool) {
	if n == len(previous) || n > 0 && previous[n-1] >= previous[n] {
		return int(previous[n-1]) + 1, false
	}
	return int(previous[n]), true
}

// walkBack follows the path that ends at the far corner of g and pairs the
// elements on its diagonals.
func (m *matcher) walkBack(g gap, rows [][]int32) {
	x, y := g.a1-g.a0, g.b1-g.b0
	for d := len(rows) - 1; ; d-- {
		start, down := 0, false
		if d > 0 {
			start, down = step(rows[d-1], (x-y+d)/2)
		}
		for x > start {
			x, y = x-1, y-1
			m.partner[g.a0+x] = g.b0 + y
		}
		switch {
		case d == 0:
			return
		case down:
			y--
		default:
			x--
		}
	}
}
