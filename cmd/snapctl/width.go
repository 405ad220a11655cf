package main

import (
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/boocode/filestore/internal/words"
)

// width returns how many columns of a terminal a text takes: letters of East Asia take
// two, accents that stand for themselves none.
func width(text string) int { return displaywidth.String(text) }

// fit returns as much of a text as goes into so many columns, with … at its end if that is
// not all.
func fit(text string, columns int) string {
	return displaywidth.TruncateString(text, columns, "…")
}

// fitPath is fit for a path, of which the end says most.
func fitPath(path string, columns int) string {
	if width(path) <= columns {
		return path
	}
	cut := len(path)
	room := columns - 1 // of …
	for i := len(path); i > 0; {
		i = strings.LastIndexByte(path[:i], '/')
		if i < 0 || width(path[i:]) > room {
			break
		}
		cut = i
	}
	if cut == len(path) { // its last name is too long
		return fit(path[strings.LastIndexByte(path, '/')+1:], columns)
	}
	return "…" + path[cut:]
}

// fitQuoted returns the first line of a title in quotes, in so many columns.
func fitQuoted(title string, columns int) string {
	line := words.FirstLine(title, len(title))
	for n := max(columns-2, 1); ; n-- {
		cut := line
		if width(line) > n {
			cut = fit(line, n)
		}
		if q := words.Quoted(cut); width(q) <= columns || n == 1 { // escapes take more than they stand for
			return q
		}
	}
}
