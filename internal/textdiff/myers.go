package textdiff

import "math"

// matchByMyers pairs what is left on a path of few edits through g: of the fewest
// where the effort suffices. It is for changes in a long text of few distinct
// lines, where nothing is unique and difflib is slow.
//
// Paths through the grid of a and b go right (delete an element of a), down
// (insert one of b) or, for free, along a diagonal of equal elements. The best
// paths from both corners are extended by one edit at a time until two of them
// meet, and the halves before and behind that point are done in turn, so that the
// memory is linear: E. W. Myers, "An O(ND) Difference Algorithm and Its
// Variations", 1986, section 4b.
//
// Where no paths meet within the cutoff, the texts are split at what is unique in
// both, or else where the path stands that got furthest. The latter alone, which is
// what git does, leaves a block that has moved in pieces.
func (m *matcher) matchByMyers(g gap) { m.divide(g, math.MaxInt) }

// divide is matchByMyers for a part of a gap. tried is how large the last part was
// that was to be split at what is unique: half of it is worth another try.
func (m *matcher) divide(g gap, tried int) {
	for {
		g = trim(m, m.a, m.b, g)
		if g.a0 == g.a1 || g.b0 == g.b1 {
			return
		}
		x, y, found := m.middle(g)
		if found == spent {
			return
		}
		if size := g.a1 - g.a0 + g.b1 - g.b0; found == cutOff && size <= tried/2 {
			tried = size
			if parts := m.splitAtUnique(g); len(parts) > 1 {
				for _, part := range parts {
					m.divide(part, tried)
				}
				return
			}
		}
		m.divide(gap{g.a0, g.a0 + x, g.b0, g.b0 + y}, tried)
		g.a0, g.b0 = g.a0+x, g.b0+y
	}
}

// What a search for a middle has found.
const (
	met    = iota // paths met
	cutOff        // none did within the cutoff
	spent         // there is no effort left
)

// leastCutoff is how many edits are looked for at least, however little effort
// there is for the length of a text.
const leastCutoff = 64

// setCutoff spreads the effort over a gap. A search that ends at the cutoff takes
// about twice its square in steps, and the path that got furthest has come as many
// elements far at least: so all of them take twice the cutoff for each element.
func (m *matcher) setCutoff(g gap) {
	m.cutoff = max(leastCutoff, m.left.myers/(2*(g.a1-g.a0+g.b1-g.b0)+1))
}

// unset is where a path stands on a diagonal that none has reached.
const unset = math.MinInt32 / 2

// middle returns a point of g, of neither corner, that a path of few edits goes
// through, and how it was found. Both sides of g have elements, and neither
// their first nor their last ones are equal.
//
// Of several points it is the one that git finds, which goes over the diagonals
// in this order, too. At the cutoff it is where the path stands that got furthest,
// which follows what the texts have in common, since that takes no edits.
func (m *matcher) middle(g gap) (x, y, found int) {
	a, b := m.a[g.a0:g.a1], m.b[g.b0:g.b1]
	delta := len(a) - len(b)
	most := min(m.cutoff, (len(a)+len(b)+1)/2)
	mid := most + 2
	if width := 2*mid + 1; len(m.forth) < width {
		m.forth, m.back = make([]int32, width), make([]int32, width)
	}
	// A diagonal is its distance in a less that in b. The best path to diagonal k is
	// at forth[mid+k] in a, that from the last corner at back[mid+k-delta].
	forth, back := m.forth, m.back
	forth[mid-1], forth[mid], forth[mid+1] = unset, 0, unset
	back[mid-1], back[mid], back[mid+1] = -unset, int32(len(a)), -unset
	for d := 1; d <= most && m.left.myers > 0; d++ {
		m.left.myers -= 2 * d
		forth[mid-d-1], forth[mid+d+1] = unset, unset
		for k := highest(d, len(a)); k >= -min(d, len(b)); k -= 2 {
			x := int(forth[mid+k+1]) // down
			if x-k > len(b) {
				x = unset
			}
			if right := int(forth[mid+k-1]) + 1; right > x && right <= len(a) {
				x = right
			}
			start := x
			for x >= 0 && x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			m.left.myers -= x - start
			forth[mid+k] = int32(x)
			if at := k - delta; delta&1 != 0 && -d < at && at < d && x >= int(back[mid+at]) {
				return x, x - k, met
			}
		}
		back[mid-d-1], back[mid+d+1] = -unset, -unset
		for at := highest(d, len(b)); at >= -min(d, len(a)); at -= 2 {
			k := at + delta
			x := int(back[mid+at-1]) // up
			if x < k {
				x = -unset
			}
			if left := int(back[mid+at+1]) - 1; left < x && left >= 0 {
				x = left
			}
			start := x
			for x <= len(a) && x > 0 && x > k && a[x-1] == b[x-k-1] {
				x--
			}
			m.left.myers -= start - x
			back[mid+at] = int32(x)
			if delta&1 == 0 && -d <= k && k <= d && x <= int(forth[mid+k]) {
				return x, x - k, met
			}
		}
		if d == most {
			x, y = furthest(forth, back, mid, d, len(a), len(b))
			return x, y, cutOff
		}
	}
	return 0, 0, spent
}

// highest returns the highest diagonal of d, d-2, … that is not above most.
func highest(d, most int) int {
	if d <= most {
		return d
	}
	return most - (d-most)&1
}

// furthest returns where the path stands that got furthest, from either corner,
// after d edits.
func furthest(forth, back []int32, mid, d, lenA, lenB int) (x, y int) {
	best := 0
	for k := highest(d, lenA); k >= -min(d, lenB); k -= 2 {
		if at := int(forth[mid+k]); at >= 0 && 2*at-k > best {
			best, x, y = 2*at-k, at, at-k
		}
	}
	for k := highest(d, lenB); k >= -min(d, lenA); k -= 2 {
		at := int(back[mid+k])
		if j := at - k - lenA + lenB; at <= lenA && lenA+lenB-at-j > best {
			best, x, y = lenA+lenB-at-j, at, j
		}
	}
	return x, y
}
