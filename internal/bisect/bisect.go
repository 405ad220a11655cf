// Package bisect finds the first bad one of a list of which the first is good and the last is
// bad, by asking of one after the other. It knows no moments and no commands.
package bisect

import (
	"fmt"
	"math/bits"
)

// A Verdict is what somebody has said of one of the list.
type Verdict uint8

const (
	Unasked Verdict = iota
	Good
	Bad
	Skipped // nobody can tell
)

func (v Verdict) String() string {
	return [...]string{"unasked", "good", "bad", "skipped"}[v]
}

// MarshalText returns the verdict in a word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText returned.
func (v *Verdict) UnmarshalText(text []byte) error {
	for *v = Unasked; *v <= Skipped; *v++ {
		if v.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("verdict %q", text)
}

// A Search is for the first bad one of a list. It takes what is before a good one for good,
// and what is behind a bad one for bad.
type Search struct {
	verdicts  []Verdict
	good, bad int // the last that is known to be good, the first that is known to be bad
}

// New returns the search in a list of n, of which the first counts as good, and the last as
// bad.
func New(n int) *Search {
	s := &Search{verdicts: make([]Verdict, n), bad: n - 1}
	s.verdicts[0], s.verdicts[n-1] = Good, Bad
	return s
}

// Say says of one what it is. A verdict that does not go with an earlier one is an error:
// good at or behind a bad one, or bad at or before a good one.
func (s *Search) Say(i int, v Verdict) error {
	switch {
	case i < 0 || i >= len(s.verdicts):
		return fmt.Errorf("%d of %d", i, len(s.verdicts))
	case v == Good && i >= s.bad:
		return fmt.Errorf("it cannot be good: it is not before one that is bad")
	case v == Bad && i <= s.good:
		return fmt.Errorf("it cannot be bad: it is not behind one that is good")
	case v == Good:
		s.good = max(s.good, i)
	case v == Bad:
		s.bad = min(s.bad, i)
	}
	s.verdicts[i] = v
	return nil
}

// Next returns the one to ask of next; false if there is none. It halves what is left. Around
// one that was skipped others will be skipped, too, as all between two turns of which one
// breaks the build and the other mends it: so with each skip it goes somewhere else.
func (s *Search) Next() (int, bool) {
	skips, asked := 0, 0
	for i := s.good + 1; i < s.bad; i++ {
		switch s.verdicts[i] {
		case Unasked:
			asked++
		case Skipped:
			skips++
		}
	}
	if asked == 0 {
		return 0, false
	}
	return s.nearest(s.good + int(float64(s.bad-s.good)*spread(skips+1))), true
}

// spread returns numbers between 0 and 1 that are as far as they can be from those before:
// 1/2, 1/4, 3/4, 1/8, 5/8, …
func spread(n int) float64 { return float64(bits.Reverse32(uint32(n))) / (1 << 32) }

// nearest returns the one nearest to a place of those that nobody was asked of.
func (s *Search) nearest(to int) int {
	for d := 0; ; d++ {
		for _, i := range [2]int{to - d, to + d} {
			if i > s.good && i < s.bad && s.verdicts[i] == Unasked {
				return i
			}
		}
	}
}

// Left returns how many nobody was asked of yet that may be the first bad one.
func (s *Search) Left() int {
	n := 0
	for i := s.good + 1; i < s.bad; i++ {
		if s.verdicts[i] == Unasked {
			n++
		}
	}
	return n
}

// Steps returns about how many are to be asked of yet.
func (s *Search) Steps() int { return bits.Len(uint(s.Left())) }

// Result returns the first and the last of those that may be the first bad one. If both are
// the same, that is it.
func (s *Search) Result() (from, to int) { return s.good + 1, s.bad }

// Verdict returns what was said of one.
func (s *Search) Verdict(i int) Verdict { return s.verdicts[i] }
