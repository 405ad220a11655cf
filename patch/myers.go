package patch

import (
	"math/bits"
	"unicode/utf8"
)

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
	ascii  [utf8.RuneSelf]uint16
	other  map[rune]uint16
	eq     []uint64 // for each character of the alphabet, where it is: blocks words
}

// newPattern returns the pattern of a text; nil if the budget does not suffice
// for its table, of which each different character needs a row.
func newPattern(b []byte, left *int64) *pattern {
	p := &pattern{other: make(map[rune]uint16)}
	n := 0
	var chars []uint16
	eachChar(b, func(r rune) {
		id := p.id(r)
		if id == 0 {
			n++
			if id = uint16(n); r < utf8.RuneSelf {
				p.ascii[r] = id
			} else {
				p.other[r] = id
			}
		}
		chars = append(chars, id)
	})
	p.length = len(chars)
	p.blocks = max(1, (p.length+63)/64)
	if *left -= int64(n+1) * int64(p.blocks); *left < 0 || int64(n+1)*int64(p.blocks) > maxTable {
		return nil
	}
	p.eq = make([]uint64, (n+1)*p.blocks)
	for i, id := range chars {
		p.eq[int(id)*p.blocks+i/64] |= 1 << (i % 64)
	}
	return p
}

// maxTable is how many words a pattern's table may have: 32 MiB.
const maxTable = 4 << 20 // which has room for 16,384 different characters

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
func (p *pattern) id(r rune) uint16 {
	if r < utf8.RuneSelf {
		return p.ascii[r]
	}
	return p.other[r]
}

// encode appends a text as numbers of characters.
func (p *pattern) encode(dst []uint16, b []byte) []uint16 {
	n := asciiLen(b)
	for _, c := range b[:n] {
		dst = append(dst, p.ascii[c&(utf8.RuneSelf-1)])
	}
	eachChar(b[n:], func(r rune) { dst = append(dst, p.id(r)) })
	return dst
}

// A block is 64 rows of a column: where they are one more than the row above
// them, and where one less.
type block struct{ pv, mv uint64 }

// advance advances a column by a character, whose places in the pattern are eq.
// The row above it grows by up less down, of which one is 0. It returns where
// the rows of the last block grow, and where they shrink.
func advance(column []block, eq []uint64, up, down uint64) (ph, mh uint64) {
	eq = eq[:len(column)]
	for i := range column {
		b := &column[i]
		xv := eq[i] | b.mv
		e := eq[i] | down
		xh := (((e & b.pv) + b.pv) ^ b.pv) | e
		ph, mh = b.mv|^(xh|b.pv), b.pv&xh
		p, m := ph<<1|up, mh<<1|down
		b.pv, b.mv = m|^(xv|p), p&xv
		up, down = ph>>63, mh>>63
	}
	return ph, mh
}

// delta returns by how much a row grows, of what advance returns.
func delta(ph, mh uint64, row int) int { return int(ph>>row&1) - int(mh>>row&1) }

// rise returns how much more the last of some rows of a block is than the row
// above the block.
func (b *block) rise(rows int) int {
	mask := ^uint64(0) >> (64 - rows)
	return bits.OnesCount64(b.pv&mask) - bits.OnesCount64(b.mv&mask)
}

// rows returns how many rows a block has.
func (p *pattern) rows(b int) int { return min(64, p.length-64*b) }

// column returns the first n blocks before the first character.
func (p *pattern) column(n int) []block {
	c := make([]block, n, p.blocks)
	for i := range c {
		c[i].pv = ^uint64(0)
	}
	return c
}

// distance returns the Levenshtein distance of a text, or more than most if it
// is more. It reports whether the budget sufficed.
func (p *pattern) distance(text []uint16, most int, left *int64) (d int, ok bool) {
	if p.length == 0 {
		return len(text), true
	}
	if *left -= int64(len(text)*p.blocks) + 1; *left < 0 {
		return 0, false
	}
	column := p.column(p.blocks)
	lowest := p.rows(p.blocks-1) - 1
	d = p.length
	for i, c := range text {
		ph, mh := advance(column, p.eq[int(c)*p.blocks:], 1, 0)
		d += delta(ph, mh, lowest)
		if rest := len(text) - i - 1; d-rest > most {
			return most + 1, true
		}
	}
	return d, true
}

// ends calls fn for each end of a piece of text that is within most of the
// pattern, with the distance of the best such piece. It reports whether the
// budget sufficed.
//
// Only those blocks of a column are advanced in which some row is within most.
func (p *pattern) ends(text []uint16, most int, left *int64, fn func(at, d int)) (ok bool) {
	if p.length == 0 {
		return true
	}
	column := p.column(max(1, min(p.blocks, (most+64)/64)))
	last := len(column) - 1
	rows := p.rows(last)
	score := 64*last + rows // of the lowest row of the column
	for i, c := range text {
		if *left -= int64(last) + 2; *left < 0 {
			return false
		}
		eq := p.eq[int(c)*p.blocks:][:p.blocks]
		ph, mh := advance(column, eq, 0, 0)
		grown := delta(ph, mh, rows-1)
		score += grown
		if last+1 < p.blocks && score-grown <= most && (eq[last+1]&1 != 0 || grown < 0) {
			last++
			rows = p.rows(last)
			column = append(column, block{pv: ^uint64(0)})
			score += rows - grown
			up, down := uint64(0), uint64(0)
			if grown > 0 {
				up = 1
			} else if grown < 0 {
				down = 1
			}
			ph, mh := advance(column[last:], eq[last:], up, down)
			score += delta(ph, mh, rows-1)
		} else {
			for last > 0 && score >= most+rows {
				score -= column[last].rise(rows)
				last--
				rows = 64
				column = column[:last+1]
			}
		}
		if last == p.blocks-1 && score <= most {
			fn(i+1, score)
		}
	}
	return true
}
