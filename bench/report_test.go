package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("median has changed %v to %v", before, test.values)
		}
	}
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

// ran adds a row of runs that took these milliseconds.
func (r *results) ran(tree, part, contender string, ms ...int) {
	row := r.row(tree, part, contender)
	for _, n := range ms {
		row.Runs = append(row.Runs, usage{Wall: time.Duration(n) * time.Millisecond, CPU: time.Millisecond,
			RSS: 2 << 20})
	}
}

func TestTables(t *testing.T) {
	r := &results{
		Date: "D", Machine: "M", Memory: "1 MiB", System: "S", Disk: "ext4", Commit: "C", Command: "X", Runs: 3,
		Versions: map[string]string{"kopia": "2", "git": "1", shadowGit: "1"},
		Trees:    []*measuredTree{{"linux", 78636, 3 << 20}},
		Notes:    []string{"N"},
	}
	r.ran("linux", "unchanged", "stat walk", 100, 90, 110)
	r.ran("linux", "unchanged", "git", 40)
	r.ran("linux", "unchanged", "kopia", 1300)
	r.ran("linux", "unchanged", "snapctl", 104)
	r.ran("linux", "unchanged", "borg") // it failed
	r.row("linux", "size", "snapctl").Bytes = []int64{3 << 20}
	r.row("linux", "size", "git").Bytes = []int64{5 << 20}
	r.ran("linux", "turn", clientName, 9)
	want := `
- date: D
- machine: M, memory 1 MiB
- system: S, ext4
- commit: C
- command: ` + "`X`" + `
- runs: 3, where none took long; the tables have the number
- git: 1
- kopia: 2

### Goals

| tree | work | contender | measured | goal | met |
|---|---|---|---|---|---|
| linux | nothing changed | snapctl | 104 ms | ≤ 1.15 × stat walk + 5.00 ms = 120 ms | yes |
| linux | nothing changed | snapctl | 104 ms | ≤ 1 × git = 40.0 ms | **no** |
| linux | nothing changed | snapctl | 2.00 MiB | ≤ memory = 38.1 MiB | yes |
| linux | store after the first snapshot | snapctl | 3.00 MiB | ≤ 0.44 × git = 2.20 MiB | **no** |

### Linux 6.1: 78,636 files, 3.00 MiB

| work | contender | median | min-max | runs | ratio | processor | memory |
|---|---|---|---|---|---|---|---|
| store after the first snapshot | snapctl | 3.00 MiB |  | 1 |  |  |  |
|  | git | 5.00 MiB |  | 1 | 1.67 × |  |  |
| nothing changed | snapctl | 104 ms |  | 1 |  | 1.00 ms | 2.00 MiB |
|  | git | 40.0 ms |  | 1 | 0.38 × **ahead of snapctl** | 1.00 ms | 2.00 MiB |
|  | kopia | 1.30 s |  | 1 | 12.5 × | 1.00 ms | 2.00 MiB |
|  | stat walk | 100 ms | 90.0 ms - 110 ms | 3 | 0.96 × | 1.00 ms | 2.00 MiB |
| end of a turn, 10 files changed | snapctl client | 9.00 ms |  | 1 |  | 1.00 ms | 2.00 MiB |

Notes of this run:

- N
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), tables(r)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestResultsRoundTrip(t *testing.T) {
	want := full()
	name := filepath.Join(t.TempDir(), "results.json")
	if err := want.write(name); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-written +read):\n%s", diff)
	}
}

// full returns results with a row for each contender in each part of each tree,
// with times that are close together, so that labels have to be moved.
func full() *results {
	r := &results{Versions: map[string]string{"git": "1"}, Notes: []string{"N"}, Seed: 1}
	names := append(slices.Clone(order), "stat walk", "bare pack writer", "stat walk and 2 fdatasyncs", turnFloor)
	for i, spec := range trees {
		r.Trees = append(r.Trees, &measuredTree{spec.name, 100 * (i + 1) * (i + 1), 1 << 20})
		for _, p := range strings.Fields(spec.parts) {
			for j, name := range names {
				switch {
				case spec.name == "800k" && name == shadowGit:
				case p == "size" || p == "growth":
					r.row(spec.name, p, name).Bytes = []int64{int64(1000 * (j + 1))}
				default:
					r.ran(spec.name, p, name, 1000*(i+1)+j)
				}
			}
		}
	}
	return r
}

func TestPlots(t *testing.T) {
	plots := allPlots(full())
	if len(plots) != 7 {
		t.Errorf("%d plots, want 7", len(plots))
	}
	for _, p := range plots {
		labels, err := textOf(p.svg)
		if err != nil {
			t.Errorf("%s: %v", p.file, err)
		}
		if len(labels) < 10 {
			t.Errorf("%s has %d labels", p.file, len(labels))
		}
		for i, a := range labels {
			for _, b := range labels[:i] {
				if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
					t.Errorf("%s: %q and %q overlap", p.file, b.text, a.text)
				}
			}
		}
	}
}

// A label is a text in a plot and where it is, if its characters are 7 wide.
type label struct {
	text                     string
	left, right, top, bottom float64
}

// textOf returns all labels of a picture. It fails if that is not well-formed,
// or one of them is not in it.
func textOf(svg string) ([]label, error) {
	const charWidth = 7
	var labels []label
	var errs []error
	var width, height float64
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return labels, errors.Join(errs...)
		}
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attr := func(name string) (value string) {
			for _, a := range start.Attr {
				if a.Name.Local == name {
					value = a.Value
				}
			}
			return value
		}
		number := func(name string) float64 {
			x, err := strconv.ParseFloat(attr(name), 64)
			errs = append(errs, err)
			return x
		}
		switch start.Name.Local {
		case "svg":
			width, height = number("width"), number("height")
		case "text":
			l := label{left: number("x"), bottom: number("y")}
			if err := d.DecodeElement(&l.text, &start); err != nil {
				return nil, err
			}
			length := float64(len([]rune(l.text)) * charWidth)
			switch attr("text-anchor") {
			case "end":
				l.left -= length
			case "middle":
				l.left -= length / 2
			}
			l.right, l.top = l.left+length, l.bottom-fontSize
			if l.left < 0 || l.top < 0 || l.right > width || l.bottom > height {
				errs = append(errs, fmt.Errorf("%q is not all in the picture", l.text))
			}
			labels = append(labels, l)
		}
	}
}

func TestWriteDocs(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "benchmarks.md")
	for _, old := range []string{"", "old tables\n"} {
		if err := os.WriteFile(name, []byte("before\n"+beginGenerated+old+endGenerated+"after\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := writeDocs(full(), dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"before\n", "| nothing changed | snapctl |", "](benchmarks/growth-first.svg)",
			"after\n"} {
			if strings.Count(string(got), want) == 0 {
				t.Errorf("after %q: benchmarks.md has no %q", old, want)
			}
		}
		if strings.Contains(string(got), "old tables") {
			t.Error("the old tables are still there")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "benchmarks", "growth-first.svg")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte("no marks\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writeDocs(full(), dir); err == nil {
		t.Error("writeDocs into a file without marks succeeded")
	}
}
