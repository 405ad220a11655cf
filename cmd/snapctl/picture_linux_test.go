package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A pictured line is one that a terminal has shown, with its colours, as SGR has them.
type pictured struct {
	text    string
	isTyped bool // by the user
}

// Sizes of a picture, in its own units, and its pace in seconds.
const (
	charWidth, lineHeight = 8.4, 19.0
	margin, barHeight     = 16.0, 34.0
	commandGap            = 7.0 // above a command
	pictureColumns        = 92

	typing  = 0.045 // for a character
	waiting = 0.5   // from a command to what it prints
	reading = 0.35  // for a line
	pausing = 6.0   // at the end, before it begins anew
)

// picture returns a terminal in which lines come one after the other, again and again, as
// SVG. Who shows no animations, or wants none, sees all lines.
func picture(title string, lines []pictured) string {
	width := 2*margin + pictureColumns*charWidth
	y := barHeight - 5
	var keys, body strings.Builder
	now, length := 1.0, duration(lines)
	percent := func(t float64) string { return fmt.Sprintf("%.2f%%", 100*t/length) }
	for i, line := range lines {
		y += lineHeight
		if line.isTyped && i > 0 {
			y += commandGap
			now += reading * 2
		}
		fmt.Fprintf(&body, "<g class=\"l\" style=\"animation-name:l%d\">", i)
		writeLine(&body, line.text, y)
		body.WriteString("</g>\n")
		fmt.Fprintf(&keys, "@keyframes l%d{0%%,%s{opacity:0}%s,100%%{opacity:1}}\n", i, percent(now), percent(now+0.01))
		if !line.isTyped {
			now += reading
			continue
		}
		// What covers the line goes to the right as it is typed.
		n := utf8.RuneCountInString(sgr.ReplaceAllString(line.text, "")) - 2
		fmt.Fprintf(&body, "<rect class=\"c\" style=\"animation-name:c%d;animation-timing-function:steps(%d)\""+
			" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"/>\n",
			i, n, margin+2*charWidth, y-14, width, lineHeight)
		end := now + typing*float64(n)
		fmt.Fprintf(&keys, "@keyframes c%d{0%%,%s{transform:none;opacity:1}"+
			"%s{transform:translateX(%.1fpx);opacity:1}%s,100%%{opacity:0}}\n",
			i, percent(now), percent(end), float64(n)*charWidth, percent(end+0.01))
		now = end + waiting
	}
	return fmt.Sprintf(pictureFrame, width, y+margin, html.EscapeString(title), length, keys.String(), body.String())
}

// duration is how long a picture takes, in seconds.
func duration(lines []pictured) float64 {
	t := 1 + pausing
	for i, line := range lines {
		switch {
		case !line.isTyped:
			t += reading
		case i > 0:
			t += reading * 2
			fallthrough
		default:
			t += typing*float64(utf8.RuneCountInString(sgr.ReplaceAllString(line.text, ""))-2) + waiting
		}
	}
	return t
}

// sgr is what sets colours.
var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// writeLine writes the parts of a line, each where its columns are, whatever the font.
func writeLine(b *strings.Builder, line string, y float64) {
	column, class := 0, ""
	for line != "" {
		text, next := line, ""
		if at := sgr.FindStringSubmatchIndex(line); at != nil {
			text, next, line = line[:at[0]], line[at[2]:at[3]], line[at[1]:]
		} else {
			line = ""
		}
		if n := utf8.RuneCountInString(text); n > 0 {
			if strings.TrimSpace(text) != "" {
				fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" textLength=\"%.1f\" class=\"%s\">%s</text>",
					margin+float64(column)*charWidth, y, float64(n)*charWidth, class, html.EscapeString(text))
			}
			column += n
		}
		class = ""
		for code := range strings.SplitSeq(next, ";") {
			if code != "" && code != "0" {
				class += " s" + code
			}
		}
		class = strings.TrimSpace(class)
	}
}

// pictureFrame is around the lines: width, height, title, seconds, keyframes, lines.
const pictureFrame = `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %.0[1]f %.0[2]f" width="%.0[1]f" height="%.0[2]f" role="img">
<title>%[3]s</title>
<style>
.w,.c{fill:#f6f8fa}.w{stroke:#d0d7de}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#24292f;white-space:pre}
.s1{font-weight:bold}.s2,.s90{fill:#6e7781}.s4{text-decoration:underline}
.s31{fill:#cf222e}.s32{fill:#116329}.s33{fill:#7d4e00}.s34{fill:#0550ae}.s35{fill:#8250df}.s36{fill:#1b7c83}
@media (prefers-color-scheme:dark){
.w,.c{fill:#161b22}.w{stroke:#30363d}text{fill:#e6edf3}.s2,.s90{fill:#8b949e}
.s31{fill:#ff7b72}.s32{fill:#56d364}.s33{fill:#e3b341}.s34{fill:#79c0ff}.s35{fill:#d2a8ff}.s36{fill:#56d4dd}
}
.l,.c{animation-duration:%.1[4]fs;animation-iteration-count:infinite}
@media (prefers-reduced-motion:reduce){.l,.c{animation:none}}
.c{opacity:0}
%[5]s</style>
<rect class="w" x="0.5" y="0.5" width="99.9%%" height="99.9%%" rx="9"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
<svg x="0" y="0" width="99.4%%" height="100%%">
%[6]s</svg>
</svg>
`
