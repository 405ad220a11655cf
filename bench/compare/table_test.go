package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []time.Duration
		want   time.Duration
	}{
		{nil, 0},
		{[]time.Duration{7}, 7},
		{[]time.Duration{9, 1, 5}, 5},
		{[]time.Duration{8, 1, 2, 6}, 4},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
	}
}

func TestMedianKeepsOrder(t *testing.T) {
	values := []time.Duration{9, 1, 5}
	median(values)
	if want := []time.Duration{9, 1, 5}; !slices.Equal(values, want) {
		t.Errorf("after median: %v, want %v", values, want)
	}
}

func TestTable(t *testing.T) {
	walk := ran("walk", 100*time.Millisecond, 90*time.Millisecond, 110*time.Millisecond)
	quick := ran("snapctl", 104*time.Millisecond)
	slow := ran("snapctl", 1300*time.Millisecond)
	git := ran("git", 5*time.Second)

	var tab table
	tab.section("left out")
	tab.beside(&contender{name: "missing"}, walk, nil)
	tab.section("times")
	tab.beside(walk, nil, nil)
	tab.atMost(quick, walk, 105*time.Millisecond, "walk + 5 ms")
	tab.atMost(slow, walk, 105*time.Millisecond, "walk + 5 ms")
	tab.slower(git, slow, 5)
	tab.beside(git, &contender{name: "missing"}, nil)
	tab.size("store", 3<<20, "0.4 × git", &goal{"≤ 0.5 ×", true})

	want := `
| row       | median wall | min     | max    | user+sys | peak RSS | ratio to its reference | goal                   | ok? |
| --------- | ----------- | ------- | ------ | -------- | -------- | ---------------------- | ---------------------- | --- |
| **times** |             |         |        |          |          |                        |                        |     |
| walk      | 100 ms      | 90.0 ms | 110 ms | 1.00 ms  | 2.00 MiB |                        |                        |     |
| snapctl   | 104 ms      | 104 ms  | 104 ms | 1.00 ms  | 2.00 MiB | 1.04 × walk            | ≤ walk + 5 ms = 105 ms | yes |
| snapctl   | 1.30 s      | 1.30 s  | 1.30 s | 1.00 ms  | 2.00 MiB | 13.00 × walk           | ≤ walk + 5 ms = 105 ms | NO  |
| git       | 5.00 s      | 5.00 s  | 5.00 s | 1.00 ms  | 2.00 MiB | 3.85 × snapctl         | ≥ 5 ×                  | NO  |
| git       | 5.00 s      | 5.00 s  | 5.00 s | 1.00 ms  | 2.00 MiB |                        |                        |     |
| store     | 3.00 MiB    |         |        |          |          | 0.4 × git              | ≤ 0.5 ×                | yes |
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), tab.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// ran is a contender that took these times.
func ran(name string, walls ...time.Duration) *contender {
	c := &contender{name: name}
	for _, w := range walls {
		c.took = append(c.took, usage{wall: w, cpu: time.Millisecond, rss: 2 << 20})
	}
	return c
}

func TestSeconds(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{43 * time.Microsecond, "0.04 ms"},
		{9996 * time.Microsecond, "10.0 ms"},
		{150 * time.Millisecond, "150 ms"},
		{1234 * time.Millisecond, "1.23 s"},
		{3 * time.Minute, "180 s"},
	} {
		if got := seconds(test.d); got != test.want {
			t.Errorf("seconds(%v) = %q, want %q", test.d, got, test.want)
		}
	}
}
