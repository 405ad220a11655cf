package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// order has the contenders as they are shown; floors come after them.
var order = []string{"snapctl", residentName, clientName, "git", shadowGit, "restic", "borg", "kopia"}

// rank returns where a contender is shown, with its caches right after it.
func rank(contender string) int {
	name, _, _ := strings.Cut(contender, ",")
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

func isPeer(contender string) bool { return rank(contender) >= 3 && rank(contender) < len(order) }

// part returns the rows of a part of a tree, in the order in which they are
// shown.
func (r *results) part(tree, part string) []*row {
	var rows []*row
	for _, row := range r.Rows {
		if row.Tree == tree && row.Part == part && len(row.values()) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(rank(a.Contender), rank(b.Contender)) })
	return rows
}

// tables returns all results as markdown.
func tables(r *results) string {
	var s strings.Builder
	for _, line := range [][2]string{
		{"date", r.Date}, {"machine", r.Machine + ", memory " + r.Memory}, {"system", r.System + ", " + r.Disk},
		{"commit", r.Commit}, {"command", "`" + r.Command + "`"},
		{"runs", fmt.Sprintf("%d, where none took long; the tables have the number", r.Runs)},
	} {
		fmt.Fprintf(&s, "- %s: %s\n", line[0], line[1])
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.Versions),
		func(a, b string) int { return cmp.Compare(rank(a), rank(b)) }) {
		if name != residentName && name != shadowGit { // they are others' programs
			fmt.Fprintf(&s, "- %s: %s\n", name, r.Versions[name])
		}
	}
	s.WriteString(goalTable(r))
	for _, spec := range trees {
		t := r.tree(spec.name)
		if t == nil {
			continue
		}
		fmt.Fprintf(&s, "\n### %s: %s\n\n", upper(spec.title), t)
		s.WriteString("| work | contender | median | min-max | runs | ratio | processor | memory |\n|---|---|---|---|---|---|---|---|\n")
		for _, p := range parts {
			work := p.title
			rows := r.part(spec.name, p.name)
			for _, row := range rows {
				fmt.Fprintf(&s, "| %s | %s | %s |\n", work, row.Contender, strings.Join(row.cells(rows[0]), " | "))
				work = ""
			}
		}
	}
	if len(r.Notes) > 0 {
		s.WriteString("\nNotes of this run:\n\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&s, "- %s\n", n)
	}
	return s.String()
}

func (t *measuredTree) String() string {
	return fmt.Sprintf("%s files, %s", thousands(t.Files), size(t.Bytes))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// cells returns what a row says after its name: median, range, number of runs,
// ratio to the first row of its part, processor time and memory.
func (r *row) cells(first *row) []string {
	values := r.values()
	m, of := median(values), median(first.values())
	cells := []string{r.text(m), "", fmt.Sprint(len(values)), "", "", ""}
	if len(values) > 1 {
		cells[1] = r.text(slices.Min(values)) + " - " + r.text(slices.Max(values))
	}
	if r != first && of > 0 {
		cells[3] = digits(float64(m)/float64(of)) + " ×"
		if m < of && isPeer(r.Contender) && !isPeer(first.Contender) {
			cells[3] += " **ahead of snapctl**"
		}
	}
	var cpu []time.Duration
	for _, u := range r.Runs {
		cpu = append(cpu, u.CPU)
	}
	if c := median(cpu); c > 0 {
		cells[4] = seconds(c)
	}
	if p := r.peak(); p > 0 {
		cells[5] = size(p)
	}
	return cells
}

// A goal is a limit for the median of one row, or for its peak of memory.
type goal struct {
	tree, part, contender string
	factor                float64
	of                    string // factor times the median of this one in the same part
	plus                  int64  // nanoseconds or bytes
	syncs                 int64  // and this many fdatasyncs
	memory                bool   // plus is the limit of the peak
}

var goals = []goal{
	{tree: "linux", part: "first", contender: "snapctl", factor: 1.3, of: "bare pack writer"},
	{tree: "linux", part: "first", contender: "snapctl", factor: 0.2, of: "git"},
	{tree: "linux", part: "first", contender: "snapctl", plus: 200e6, memory: true},
	{tree: "linux", part: "unchanged", contender: "snapctl", factor: 1.15, of: "stat walk", plus: 5e6},
	{tree: "linux", part: "unchanged", contender: "snapctl", factor: 1, of: "git"},
	{tree: "linux", part: "unchanged", contender: "snapctl", plus: 40e6, memory: true},
	{tree: "linux", part: "changed10", contender: "snapctl", factor: 1.15, of: "stat walk", plus: 10e6, syncs: 2},
	{tree: "linux", part: "changed10", contender: "snapctl", factor: 1, of: "git"},
	{tree: "linux", part: "changed10", contender: residentName, plus: 60e6, memory: true},
	{tree: "linux", part: "turn", contender: clientName, plus: 2.5e6, syncs: 2},
	{tree: "linux", part: "turn", contender: laterName, plus: 2.5e6, syncs: 2},
	{tree: "800k", part: "turn", contender: clientName, plus: 2.5e6, syncs: 2},
	{tree: "800k", part: "turn", contender: laterName, plus: 2.5e6, syncs: 2},
	{tree: "wide", part: "turn", contender: clientName, plus: 2.5e6, syncs: 2},
	{tree: "wide", part: "turn", contender: laterName, plus: 2.5e6, syncs: 2},
	{tree: "linux", part: "restore", contender: clientName, factor: 3, of: "10 files written, synced and renamed"},
	{tree: "linux", part: "export", contender: "snapctl", factor: 1.5, of: "bare file creation"},
	{tree: "linux", part: "export", contender: "snapctl", factor: 1, of: "git"},
	{tree: "linux", part: "size", contender: "snapctl", factor: 0.44, of: "git"},
	{tree: "linux", part: "size", contender: "snapctl", factor: 1, of: "restic"},
	{tree: "linux", part: "compact", contender: "snapctl", factor: 0.5, of: "git shadow"},
	{tree: "linux", part: "compacted", contender: "snapctl", factor: 0.8, of: "git shadow"},
	{tree: "linux", part: "growth", contender: "snapctl", factor: 1, of: turnFloor},
	{tree: "wide", part: "growth1", contender: "snapctl", plus: 24 << 10},
	{tree: "big", part: "positions", contender: "snapctl", plus: 4e6},
}

// goalTable returns the goals of which the rows were measured, and whether they
// were met.
func goalTable(r *results) string {
	var s strings.Builder
	for _, g := range goals {
		row := r.find(g.tree, g.part, g.contender)
		limit, text, ok := g.limit(r)
		if row == nil || !ok {
			continue
		}
		got, show := median(row.values()), row.text
		if g.memory {
			got, show = row.peak(), size
		}
		if text != "" {
			text += " = "
		}
		met := "yes"
		if got > limit {
			met = "**no**"
		}
		if s.Len() == 0 {
			s.WriteString("\n### Goals\n\n| tree | work | contender | measured | goal | met |\n|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | ≤ %s%s | %s |\n", g.tree, title(g.part), g.contender,
			show(got), text, show(limit), met)
	}
	return s.String()
}

// limit returns the limit and where it comes from, if all of that was measured.
func (g *goal) limit(r *results) (limit int64, text string, ok bool) {
	row := r.find(g.tree, g.part, g.contender)
	if row == nil {
		return 0, "", false
	}
	var terms []string
	if g.of != "" {
		of := r.find(g.tree, g.part, g.of).values()
		if of == nil {
			return 0, "", false
		}
		limit = int64(g.factor * float64(median(of)))
		terms = append(terms, fmt.Sprintf("%g × %s", g.factor, g.of))
	}
	if g.memory {
		return g.plus, "memory", true
	}
	if g.plus > 0 {
		limit += g.plus
		terms = append(terms, row.text(g.plus))
	}
	if g.syncs > 0 {
		sync := r.find(g.tree, "turn", "fdatasync").values()
		if sync == nil {
			return 0, "", false
		}
		limit += g.syncs * median(sync)
		terms = append(terms, fmt.Sprintf("%d × fdatasync", g.syncs))
	}
	if len(terms) == 1 && g.of == "" {
		return limit, "", true
	}
	return limit, strings.Join(terms, " + "), true
}

const (
	beginGenerated = "<!-- generated by go run ./bench -report, from here -->\n"
	endGenerated   = "<!-- to here -->\n"
)

// writeDocs writes the plots, and the tables into benchmarks.md in dir.
func writeDocs(r *results, dir string) error {
	name := filepath.Join(dir, "benchmarks.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginGenerated)
	_, after, ok2 := strings.Cut(rest, endGenerated)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", name, beginGenerated, endGenerated)
	}
	plots := filepath.Join(dir, "benchmarks")
	if err := os.MkdirAll(plots, 0o777); err != nil {
		return err
	}
	generated := &strings.Builder{}
	for _, p := range allPlots(r) {
		if err := os.WriteFile(filepath.Join(plots, p.file), []byte(p.svg), 0o666); err != nil {
			return err
		}
		fmt.Fprintf(generated, "![%s](benchmarks/%s)\n\n", p.title, p.file)
	}
	text = []byte(before + beginGenerated + "\n" + generated.String() + tables(r) + "\n" + endGenerated + after)
	return os.WriteFile(name, text, 0o666)
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
	switch {
	case n < 0:
		return "-" + size(-n)
	case n < 1<<20:
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
