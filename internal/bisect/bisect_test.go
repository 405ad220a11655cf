package bisect

import (
	"math/rand/v2"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// A list is what each of it is.
type list []Verdict

func randomList(rnd *rand.Rand, n int, skips float64) list {
	l := make(list, n)
	first := 1 + rnd.IntN(n-1)
	for i := range l {
		l[i] = Good
		if i >= first {
			l[i] = Bad
		}
		if i > 0 && i < n-1 && rnd.Float64() < skips {
			l[i] = Skipped
		}
	}
	return l
}

// search asks until nothing is left to ask, and returns how often it did.
func (l list) search(t *testing.T) (s *Search, asked int) {
	t.Helper()
	s = New(len(l))
	for {
		i, ok := s.Next()
		if !ok {
			return s, asked
		}
		asked++
		if s.Verdict(i) != Unasked {
			t.Fatalf("%v: %d is asked of twice", l, i)
		}
		if err := s.Say(i, l[i]); err != nil {
			t.Fatalf("%v: %v", l, err)
		}
	}
}

// TestSearch compares with a look at all.
func TestSearch(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 20000 {
		n := 2 + rnd.IntN(60)
		l := randomList(rnd, n, []float64{0, 0, 0.1, 0.5, 1}[rnd.IntN(5)])
		s, asked := l.search(t)
		to := 0
		for l[to] != Bad {
			to++
		}
		from := to
		for l[from-1] != Good {
			from--
		}
		if gotFrom, gotTo := s.Result(); gotFrom != from || gotTo != to {
			t.Fatalf("%v: %d to %d, want %d to %d", l, gotFrom, gotTo, from, to)
		}
		if most := asked; most > n-2 {
			t.Fatalf("%v: asked %d times", l, asked)
		}
		if s.Left() != 0 || s.Steps() != 0 {
			t.Fatalf("%v: %d are left, %d steps", l, s.Left(), s.Steps())
		}
	}
}

// TestHalves: without skips it asks no more often than halving does.
func TestHalves(t *testing.T) {
	testseed.Sequential(t)
	for n := 2; n < 600; n++ {
		for first := 1; first < n; first++ {
			l := make(list, n)
			for i := range l {
				if l[i] = Good; i >= first {
					l[i] = Bad
				}
			}
			steps := New(n).Steps()
			if _, asked := l.search(t); asked > steps {
				t.Fatalf("%d of %d: asked %d times, said %d", first, n, asked, steps)
			}
		}
	}
}

// TestLeavesSkipped: where many are skipped side by side it does not ask of all of them.
func TestLeavesSkipped(t *testing.T) {
	l := make(list, 1000)
	for i := range l {
		switch l[i] = Good; {
		case i > 400 && i < 600:
			l[i] = Skipped
		case i >= 800:
			l[i] = Bad
		}
	}
	if s, asked := l.search(t); asked > 15 {
		from, to := s.Result()
		t.Errorf("asked %d times for %d to %d", asked, from, to)
	}
}

func TestContradiction(t *testing.T) {
	s := New(10)
	if err := s.Say(4, Good); err != nil {
		t.Fatal(err)
	}
	if err := s.Say(6, Bad); err != nil {
		t.Fatal(err)
	}
	if s.Say(4, Bad) == nil || s.Say(3, Bad) == nil || s.Say(6, Good) == nil || s.Say(7, Good) == nil ||
		s.Say(10, Good) == nil {
		t.Error("a verdict that does not go with an earlier one is taken")
	}
	if from, to := s.Result(); from != 5 || to != 6 {
		t.Errorf("%d to %d, want 5 to 6", from, to)
	}
}
