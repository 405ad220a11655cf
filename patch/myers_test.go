package patch

import (
	"math/rand/v2"
	"testing"
)

// TestMyers compares distances, and the best ends of pieces, with the textbook's
// table, for patterns of one block and of several.
func TestMyers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(n, letters int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(rng.IntN(letters))
		}
		return b
	}
	for range 2000 {
		letters := 1 + rng.IntN(4)
		a := random(rng.IntN(200), letters)
		b := random(rng.IntN(300), letters)
		if rng.IntN(2) == 0 { // similar
			b = append([]byte(nil), a...)
			for range rng.IntN(8) {
				if at := rng.IntN(len(b) + 1); at < len(b) {
					b = append(b[:at], b[at+1:]...)
				}
				at := rng.IntN(len(b) + 1)
				b = append(b[:at], append(random(rng.IntN(3), letters), b[at:]...)...)
			}
		}
		budget := int64(1e9)
		p := newPattern(a, &budget)
		text := p.encode(nil, b)
		want := distance(runes(string(a)), runes(string(b)))
		most := rng.IntN(max(len(a), len(b)) + 2)
		got, ok := p.distance(text, most, &budget)
		if !ok || want <= most && got != want || want > most && got <= most {
			t.Fatalf("distance(%q, %q, %d) = %d, %v, want %d", a, b, most, got, ok, want)
		}
		if len(a) == 0 {
			continue
		}
		// Sellers: a piece may begin anywhere.
		row := make([]int, len(a)+1)
		for i := range row {
			row[i] = i
		}
		ends := make(map[int]int)
		if !p.ends(text, most, &budget, func(at, d int) { ends[at] = d }) {
			t.Fatal("no budget")
		}
		for j, c := range b {
			diagonal := row[0]
			for i, r := range a {
				cost := 1
				if r == c {
					cost = 0
				}
				diagonal, row[i+1] = row[i+1], min(row[i+1]+1, row[i]+1, diagonal+cost)
			}
			d, found := ends[j+1]
			if best := row[len(a)]; (best <= most) != found || found && d != best {
				t.Fatalf("ends(%q, %q, %d) at %d = %d, %v, want %d", a, b, most, j+1, d, found, best)
			}
		}
	}
}
