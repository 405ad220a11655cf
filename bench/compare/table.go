package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A contender is a command that is run again and again, and so a row.
type contender struct {
	name    string
	prepare func() error // before each run, not timed; may be nil
	run     func() (usage, error)
	took    []usage // of the measured rounds
}

// median returns the median wall time.
func (c *contender) median() time.Duration {
	return median(c.each(func(u usage) time.Duration { return u.wall }))
}

func (c *contender) each(value func(usage) time.Duration) []time.Duration {
	all := make([]time.Duration, len(c.took))
	for i, u := range c.took {
		all[i] = value(u)
	}
	return all
}

// median returns the middle of values, or the mean of the two in the middle.
// It is 0 for none.
func median(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// A table is the markdown table that compare prints, column by column as in
// its heading.
type table struct {
	rows  [][9]string
	title string // of the section that has no row yet
}

var heading = [9]string{"row", "median wall", "min", "max", "user+sys", "peak RSS", "ratio to its reference", "goal", "ok?"}

// section starts a part of the table, which does not show unless a row follows.
func (t *table) section(title string) { t.title = title }

func (t *table) add(row [9]string) {
	if t.title != "" {
		t.rows = append(t.rows, [9]string{"**" + t.title + "**"})
		t.title = ""
	}
	t.rows = append(t.rows, row)
}

// A goal is what a row is held to.
type goal struct {
	text string
	met  bool
}

// beside adds the row of c, beside its reference. References may be nil, and
// so may goals; what never ran makes no row.
func (t *table) beside(c, ref *contender, g *goal) {
	if len(c.took) == 0 {
		return
	}
	walls := c.each(func(u usage) time.Duration { return u.wall })
	row := [9]string{
		c.name,
		seconds(c.median()), seconds(slices.Min(walls)), seconds(slices.Max(walls)),
		seconds(median(c.each(func(u usage) time.Duration { return u.cpu }))),
	}
	if peak := slices.MaxFunc(c.took, func(a, b usage) int { return cmp.Compare(a.rss, b.rss) }).rss; peak > 0 {
		row[5] = size(peak)
	}
	if ref != nil && len(ref.took) > 0 {
		row[6] = fmt.Sprintf("%.2f × %s", float64(c.median())/float64(ref.median()), ref.name)
		row[7], row[8] = g.cells()
	}
	t.add(row)
}

// atMost adds the row of c with a limit for its median; rule says where the
// limit comes from.
func (t *table) atMost(c, ref *contender, limit time.Duration, rule string) {
	t.beside(c, ref, &goal{fmt.Sprintf("≤ %s = %s", rule, seconds(limit)), c.median() <= limit})
}

// slower adds the row of c, which ref has to beat by a factor.
func (t *table) slower(c, ref *contender, factor float64) {
	t.beside(c, ref, &goal{fmt.Sprintf("≥ %.4g ×", factor), float64(c.median()) >= factor*float64(ref.median())})
}

// size adds a row of bytes instead of times.
func (t *table) size(name string, bytes int64, ratio string, g *goal) {
	row := [9]string{name, size(bytes), 6: ratio}
	row[7], row[8] = g.cells()
	t.add(row)
}

func (g *goal) cells() (text, ok string) {
	switch {
	case g == nil:
		return "", ""
	case g.met:
		return g.text, "yes"
	}
	return g.text, "NO"
}

// String returns the table with its columns aligned.
func (t *table) String() string {
	var width [9]int
	for _, row := range append([][9]string{heading}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var s strings.Builder
	line := func(row [9]string) {
		for i, cell := range row {
			s.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		s.WriteString("|\n")
	}
	line(heading)
	var rule [9]string
	for i, w := range width {
		rule[i] = strings.Repeat("-", w)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	return s.String()
}

// seconds prints d with three digits that count: 4.12 ms, 17.0 s.
func seconds(d time.Duration) string {
	if d < time.Second {
		return digits(float64(d)/1e6) + " ms"
	}
	return digits(d.Seconds()) + " s"
}

// size prints a number of bytes: 0.13 KiB, 257 MiB.
func size(n int64) string {
	if n < 1<<20 {
		return digits(float64(n)/(1<<10)) + " KiB"
	}
	return digits(float64(n)/(1<<20)) + " MiB"
}

func digits(x float64) string {
	switch {
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
