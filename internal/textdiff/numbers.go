package textdiff

import "math/bits"

// Number numbers lines from 0, equal ones alike, those of the first text before
// those that only others have. It returns the lines of each text by their
// numbers, and how many numbers there are.
func Number(texts ...[]string) (lists [][]int32, distinct int) {
	lists, numbers := number(texts...)
	return lists, len(numbers)
}

// number is Number, and returns the number of each line.
func number(texts ...[]string) (lists [][]int32, numbers map[string]int32) {
	numbers = make(map[string]int32, len(texts[0]))
	base := texts[0]
	var first []int32 // for each number, where base has it first
	for n, text := range texts {
		list := make([]int32, len(text))
		next := 0 // of base: most lines of a text follow each other as there, and need not be hashed
		for i, line := range text {
			if n > 0 && next < len(base) && base[next] == line {
				list[i] = lists[0][next]
				next++
				continue
			}
			id, ok := numbers[line]
			if !ok {
				id = int32(len(numbers))
				numbers[line] = id
			}
			list[i] = id
			switch {
			case n == 0 && !ok:
				first = append(first, int32(i))
			case n > 0 && int(id) < len(first):
				next = int(first[id]) + 1
			}
		}
		lists = append(lists, list)
	}
	return lists, numbers
}

// CompareNumbers returns the edits between two texts for a merge, where the point
// is not how they read but that both sides of the merge, and git, have the same
// idea of what is whose: those of Myers' algorithm, which are the fewest. The lines
// have numbers below distinct (see [Number]).
//
// Lines that the other text has not are left out first, and so are lines that it
// has often and that stand among such: blank lines and braces in what was written
// anew would cut it to pieces. git does both.
func CompareNumbers(old, new []int32, distinct int) []Edit {
	return compareNumbers(old, new, distinct, above{})
}

// above is what both texts have above those that are compared.
type above struct {
	lines  int
	counts []int32 // how often each number is there; nil: never
}

// compareNumbers is CompareNumbers of texts that both have more lines above. Like git it counts
// what both begin and end with, too.
func compareNumbers(old, new []int32, distinct int, more above) []Edit {
	m := newMatcher(len(old), mergeEffort())
	whole := trim(m, old, new, gap{0, len(old), 0, len(new)})
	m.a, m.b = old, new
	m.prepare(distinct, whole)
	m.count(gap{0, len(old), 0, len(new)})
	for id, n := range more.counts {
		m.inA[id], m.inB[id] = m.inA[id]+n, m.inB[id]+n
	}
	fromA := worthy(old, m.inB, whole.a0, whole.a1, more.lines)
	fromB := worthy(new, m.inA, whole.b0, whole.b1, more.lines)
	rest := newMatcher(len(fromA), m.left)
	rest.a, rest.b = picked(old, fromA), picked(new, fromB)
	whole = gap{0, len(fromA), 0, len(fromB)}
	rest.prepare(distinct, whole)
	rest.matchByMyers(whole)
	for i, j := range rest.partner {
		if j >= 0 {
			m.partner[fromA[i]] = int(fromB[j])
		}
	}
	return editsOf(m.partner, len(new))
}

// mergeEffort is for one of the two sides of a merge. It is worth 0.5 s.
func mergeEffort() *effort { return &effort{myers: 1e8} }

const (
	worthyAround = 100  // lines before and behind one
	mostOften    = 1024 // times that a line is in the other text
)

// worthy returns where in a text, from one line to another, the lines are that may
// have partners in the other, which has each number as often as counts says. The text has more
// lines above.
//
// One that it has often may not if around it, up to one that it has and not often,
// there are more than three times as many that it has not as that it has often.
func worthy(lines, counts []int32, from, to, above int) []int32 {
	often := int32(min(1<<((bits.Len(uint(len(lines)+above))+1)/2), mostOften)) // about the square root
	frequent := func(i int) bool { return counts[lines[i]] > 0 && counts[lines[i]] >= often }
	list := make([]int32, 0, to-from)
	// Of the lines up to each: how many are not in the other text, and the next one
	// that is, and not often.
	alone, next := make([]int32, to-from+1), make([]int32, to-from+1)
	for i := from; i < to; i++ {
		alone[i-from+1] = alone[i-from]
		if counts[lines[i]] == 0 {
			alone[i-from+1]++
		}
	}
	next[to-from] = int32(to)
	for i := to - 1; i >= from; i-- {
		if next[i-from] = next[i-from+1]; counts[lines[i]] > 0 && !frequent(i) {
			next[i-from] = int32(i)
		}
	}
	last := from - 1 // one that is in the other text, and not often
	for i := from; i < to; i++ {
		switch {
		case counts[lines[i]] == 0:
			continue
		case frequent(i):
			start, end := max(last+1, i-worthyAround), min(int(next[i-from]), i+1+worthyAround)
			before, behind := alone[i-from]-alone[start-from], alone[end-from]-alone[i-from]
			if before > 0 && behind > 0 && 4*int(before+behind) > 3*(end-start+1) {
				continue
			}
		default:
			last = i
		}
		list = append(list, int32(i))
	}
	return list
}

// picked returns some lines of a text.
func picked(lines, at []int32) []int32 {
	list := make([]int32, len(at))
	for i, n := range at {
		list[i] = lines[n]
	}
	return list
}
