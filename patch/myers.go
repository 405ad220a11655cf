package patch

import "unicode/utf8"

// A pattern is a text that others are compared with, character by character, in
// bit-parallel form: G. Myers, "A fast bit-vector algorithm for approximate
// string matching based on dynamic programming", J. ACM 46 (1999), with the
// blocks and the cutoff as H. Hyyrö has them, "A bit-vector algorithm for
// computing Levenshtein and Damerau edit distances" (2003). A byte that is not
// UTF-8 is a character of its own.
//
// The unit of a budget is a block of 64 characters of the pattern advanced by
// one character of the text.
type pattern struct {
	length int
	blocks int
	ascii  [utf8.RuneSelf]int32
	other  map[rune]int32
	eq     []uint64 // for each character of the alphabet, where it is: blocks words
}

func newPattern(b []byte) *pattern {
	p := &pattern{other: make(map[rune]int32)}
	n := int32(0)
	var chars []int32
	eachChar(b, func(r rune) {
		id := p.id(r)
		if id == 0 {
			n++
			if id = n; r < utf8.RuneSelf {
				p.ascii[r] = id
			} else {
				p.other[r] = id
			}
		}
		chars = append(chars, id)
	})
	p.length = len(chars)
	p.blocks = max(1, (p.length+63)/64)
	p.eq = make([]uint64, (int(n)+1)*p.blocks)
	for i, id := range chars {
		p.eq[int(id)*p.blocks+i/64] |= 1 << (i % 64)
	}
	return p
}

// eachChar calls fn for each character.
func eachChar(b []byte, fn func(rune)) {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			fn(rune(b[i]))
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			r = utf8.MaxRune + 1 + rune(b[i])
		}
		fn(r)
		i += n
	}
}

func runeLen(b []byte) (n int) {
	eachChar(b, func(rune) { n++ })
	return n
}

// id returns the number of a character, 0 if the pattern has none such.
func (p *pattern) id(r rune) int32 {
	if r < utf8.RuneSelf {
		return p.ascii[r]
	}
	return p.other[r]
}

// encode appends a text as numbers of characters.
func (p *pattern) encode(dst []int32, b []byte) []int32 {
	eachChar(b, func(r rune) { dst = append(dst, p.id(r)) })
	return dst
}

// A block is 64 rows of a column: where they are one more than the row above
// them, and where one less.
type block struct{ pv, mv uint64 }

// step advances a block by a character. hin is by how much the row above it
// grows.
func (b *block) step(eq uint64, hin int) (ph, mh uint64) {
	xv := eq | b.mv
	if hin < 0 {
		eq |= 1
	}
	xh := (((eq & b.pv) + b.pv) ^ b.pv) | eq
	ph, mh = b.mv|^(xh|b.pv), b.pv&xh
	up, down := ph<<1, mh<<1
	if hin < 0 {
		down |= 1
	} else if hin > 0 {
		up |= 1
	}
	b.pv, b.mv = down|^(xv|up), up&xv
	return ph, mh
}

// delta returns by how much a row grows, of what step returns.
func delta(ph, mh uint64, row int) int { return int(ph>>row&1) - int(mh>>row&1) }

// rows returns how many rows a block has.
func (p *pattern) rows(b int) int { return min(64, p.length-64*b) }

// distance returns the Levenshtein distance of a text, or more than most if it
// is more. It reports whether the budget sufficed.
func (p *pattern) distance(text []int32, most int, left *int64) (d int, ok bool) {
	if p.length == 0 {
		return len(text), true
	}
	if *left -= int64(len(text)*p.blocks) + 1; *left < 0 {
		return 0, false
	}
	column := make([]block, p.blocks)
	for i := range column {
		column[i].pv = ^uint64(0)
	}
	d = p.length
	bottom := p.blocks - 1
	for i, c := range text {
		eq := p.eq[int(c)*p.blocks:][:p.blocks]
		hin := 1
		for b := range bottom {
			ph, mh := column[b].step(eq[b], hin)
			hin = delta(ph, mh, 63)
		}
		ph, mh := column[bottom].step(eq[bottom], hin)
		d += delta(ph, mh, p.rows(bottom)-1)
		if rest := len(text) - i - 1; d-rest > most {
			return most + 1, true
		}
	}
	return d, true
}

// ends calls fn for each end of a piece of text that is within most of the
// pattern, with the distance of the best such piece. It reports whether the
// budget sufficed.
func (p *pattern) ends(text []int32, most int, left *int64, fn func(at, d int)) (ok bool) {
	if p.length == 0 {
		return true
	}
	column := make([]block, p.blocks)
	scores := make([]int, p.blocks) // of the lowest row of each block
	last := min(p.blocks, (most+1+63)/64) - 1
	last = max(last, 0)
	for b := range last + 1 {
		column[b].pv = ^uint64(0)
		scores[b] = 64*b + p.rows(b)
	}
	for i, c := range text {
		if *left -= int64(last) + 2; *left < 0 {
			return false
		}
		eq := p.eq[int(c)*p.blocks:][:p.blocks]
		hin := 0
		for b := range last + 1 {
			ph, mh := column[b].step(eq[b], hin)
			hin = delta(ph, mh, p.rows(b)-1)
			scores[b] += hin
		}
		if last+1 < p.blocks && scores[last]-hin <= most && (eq[last+1]&1 != 0 || hin < 0) {
			last++
			column[last] = block{pv: ^uint64(0)}
			ph, mh := column[last].step(eq[last], hin)
			scores[last] = scores[last-1] - hin + p.rows(last) + delta(ph, mh, p.rows(last)-1)
		} else {
			for last > 0 && scores[last] >= most+p.rows(last) {
				last--
			}
		}
		if last == p.blocks-1 && scores[last] <= most {
			fn(i+1, scores[last])
		}
	}
	return true
}
