package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A plot is a file with a picture.
type plot struct{ file, title, svg string }

// allPlots returns the plots of which something was measured.
func allPlots(r *results) []plot {
	var all []plot
	for _, part := range []string{"changed10", "unchanged", "first"} {
		if lines := growing(r, part); len(lines) > 0 {
			name := upper(title(part)) + ": time by number of files"
			all = append(all, plot{"growth-" + part + ".svg", name, linePlot(name, lines)})
		}
	}
	for _, b := range []struct {
		file, title string
		parts       []string
		linear      bool
	}{
		{"linux-snapshots.svg", "Snapshots of Linux 6.1", []string{"first", "unchanged", "changed1",
			"changed10", "changed1000"}, false},
		{"linux-others.svg", "Other work on Linux 6.1", []string{"diff", "log", "cat", "restore", "export", "prune"},
			false},
		{"linux-size.svg", "Store of Linux 6.1", []string{"size"}, true},
		{"linux-growth.svg", "Growth of the store for a turn, Linux 6.1", []string{"growth"}, true},
	} {
		var groups [][]*row
		for _, p := range b.parts {
			if rows := r.part("linux", p); len(rows) > 0 {
				groups = append(groups, rows)
			}
		}
		if len(groups) > 0 {
			all = append(all, plot{b.file, b.title, barPlot(b.title, groups, b.linear)})
		}
	}
	return all
}

const fontSize = 12

// svg begins a picture that has no background of its own: its colours are for
// a light page, or for a dark one where the reader prefers that.
func svg(width, height int, title string) *strings.Builder {
	s := new(strings.Builder)
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(s, "<title>%s</title>\n<style>\n", escape(title))
	fmt.Fprintf(s, "text { font: %dpx sans-serif; fill: #24292f } .bold { font-weight: bold } .grid { stroke: #d0d7de }\n", fontSize)
	dark := "text { fill: #e6edf3 } .grid { stroke: #3d444d }"
	for i, c := range colours {
		fmt.Fprintf(s, ".s%d { stroke: %s; fill: %s }\n", i, c[0], c[0])
		dark += fmt.Sprintf(" .s%d { stroke: %s; fill: %s }", i, c[1], c[1])
	}
	fmt.Fprintf(s, "polyline { fill: none !important; stroke-width: 2 } .lead { stroke-width: 1; stroke-dasharray: 2 3 }\n")
	fmt.Fprintf(s, "@media (prefers-color-scheme: dark) { %s }\n</style>\n", dark)
	return s
}

// colours on a light and on a dark page, by the rank of a contender.
var colours = [][2]string{
	{"#cf222e", "#ff7b72"}, // snapctl
	{"#bc4c00", "#ffa657"},
	{"#9a6700", "#e3b341"},
	{"#0969da", "#79c0ff"}, // git
	{"#218bff", "#a5d6ff"},
	{"#1a7f37", "#56d364"},
	{"#8250df", "#d2a8ff"},
	{"#0e7c86", "#76e3ea"},
	{"#6e7781", "#8b949e"}, // floors
}

func text(s *strings.Builder, x, y float64, anchor, class, content string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y,
		anchor, class, escape(content))
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}

// barPlot draws a horizontal bar for each row, in groups that have their part
// as a title; in a scale of powers of ten unless it is linear.
func barPlot(name string, groups [][]*row, linear bool) string {
	const left, length, rowHeight, groupHeight, top = 300, 340, 18, 30, 40
	low, high, height := math.Inf(1), 0.0, top
	for _, rows := range groups {
		height += groupHeight + rowHeight*len(rows)
		for _, r := range rows {
			v := float64(max(1, median(r.values())))
			low, high = min(low, v), max(high, v)
		}
	}
	scale := func(v float64) float64 { return max(1, length*v/high) }
	how := ""
	if !linear {
		low = math.Pow(10, math.Floor(math.Log10(low)))
		scale = func(v float64) float64 { return 2 + (length-2)*math.Log(v/low)/math.Log(max(high/low, 2)) }
		how = ", median, in a scale of powers of ten"
	}
	s := svg(left+length+110, height+10, name)
	text(s, 10, 20, "start", "bold", name+how)
	y := float64(top)
	for _, rows := range groups {
		text(s, 10, y+16, "start", "bold", upper(title(rows[0].Part)))
		y += groupHeight - 6
		for _, r := range rows {
			m := median(r.values())
			w := scale(float64(max(1, m)))
			text(s, left-8, y+13, "end", "", r.Contender)
			fmt.Fprintf(s, `<rect x="%d" y="%.1f" width="%.1f" height="%d" class="s%d"/>`+"\n", left, y+2, w,
				rowHeight-5, rank(r.Contender))
			text(s, left+w+6, y+13, "start", "", r.text(m))
			y += rowHeight
		}
		y += 6
	}
	return s.String() + "</svg>\n"
}

// A line is how one contender's time grows with the number of files.
type line struct {
	name   string
	files  []float64
	values []float64 // nanoseconds
}

// growing returns a line for each contender of a part on generated trees, if
// there are two of these at least.
func growing(r *results, part string) []line {
	var lines []line
	for _, name := range append(order[:len(order):len(order)], "stat walk", "bare pack writer") {
		l := line{name: name}
		for _, spec := range trees {
			if v := r.find(spec.name, part, name).values(); spec.files > 0 && spec.name != "wide" && v != nil {
				l.files = append(l.files, float64(r.tree(spec.name).Files))
				l.values = append(l.values, float64(max(1, median(v))))
			}
		}
		if len(l.files) > 1 {
			lines = append(lines, l)
		}
	}
	return lines
}

// linePlot draws lines in scales of powers of ten, with their names at the right
// end.
func linePlot(title string, lines []line) string {
	const left, right, top, bottom, width, apart = 60.0, 560.0, 50.0, 400.0, 800, 16.0
	var files, values []float64
	for _, l := range lines {
		files, values = append(files, l.files...), append(values, l.values...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	low, high := math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values)))
	x := func(v float64) float64 {
		return left + 10 + (right-left-20)*math.Log(v/files[0])/math.Log(files[len(files)-1]/files[0])
	}
	y := func(v float64) float64 { return bottom - (bottom-top)*(math.Log10(v)-low)/(high-low) }

	s := svg(width, int(bottom)+45, title)
	text(s, 10, 20, "start", "bold", title+", both in powers of ten")
	for p := low; p <= high; p++ {
		at := y(math.Pow(10, p))
		fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`+"\n", left, at, right, at)
		text(s, left-6, at+4, "end", "", strings.Replace(seconds(time.Duration(math.Pow(10, p))), ".00", "", 1))
	}
	for _, n := range files {
		text(s, x(n), bottom+18, "middle", "", thousands(int(n)))
	}
	text(s, (left+right)/2, bottom+36, "middle", "", "files")

	// Names go where the lines end, and are moved apart where two would meet.
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Compare(b.values[len(b.values)-1], a.values[len(a.values)-1])
	})
	names := make([]float64, len(lines))
	for i, l := range lines {
		names[i] = y(l.values[len(l.values)-1])
		if i > 0 {
			names[i] = max(names[i], names[i-1]+apart)
		}
	}
	if over := names[len(names)-1] - bottom; over > 0 {
		names[len(names)-1] -= over
	}
	for i := len(names) - 2; i >= 0; i-- {
		names[i] = min(names[i], names[i+1]-apart)
	}
	for i, l := range lines {
		class := fmt.Sprintf("s%d", rank(l.name))
		var points []string
		for j, v := range l.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(l.files[j]), y(v)))
			fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="3" class="%s"/>`+"\n", x(l.files[j]), y(v), class)
		}
		fmt.Fprintf(s, `<polyline points="%s" class="%s"/>`+"\n", strings.Join(points, " "), class)
		last := len(l.values) - 1
		fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="lead %s"/>`+"\n", x(l.files[last])+5,
			y(l.values[last]), right+4, names[i], class)
		label := l.name + ", " + seconds(time.Duration(l.values[last]))
		if l.files[last] < files[len(files)-1] {
			label += " at " + thousands(int(l.files[last]))
		}
		text(s, right+8, names[i]+4, "start", "", label)
	}
	return s.String() + "</svg>\n"
}
