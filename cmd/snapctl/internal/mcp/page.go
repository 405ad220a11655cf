package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/words"
)

const (
	// maxChars bounds each form of a result, the text and the JSON: clients cut
	// what is longer, and models lose what they had in mind.
	maxChars = 25_000
	// room is what lists and texts may take of it; the rest is for what stands
	// around them.
	room = 21_000
	// maxLabel is how many characters the label of a snapshot may have.
	maxLabel = 200

	// maxNames is how many paths an answer names that did not ask for a list. The rest
	// are counted.
	maxNames = 50

	pageSize    = 50
	maxPageSize = 200
)

// A cursor says where a result goes on: from which item, and where in its text.
// It goes with what the result was made of, and is refused with anything else.
type cursor struct {
	of     string
	item   int
	offset int
}

func (c cursor) String() string { return fmt.Sprintf("%s.%d.%d", c.of, c.item, c.offset) }

// digest returns what identifies the parts of a result.
func digest(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil {
		panic("mcp: internal error: " + err.Error())
	}
	return object.Hash(object.Blob, b).Short()
}

// parseCursor reads the cursor of a call whose result is made of the same parts
// as before, or else says so.
func parseCursor(text, of string) (cursor, error) {
	return parseCursorOf(text, func(int) string { return of })
}

// parseCursorOf reads the cursor of a list that grows: it goes with what comes
// before the item.
func parseCursorOf(text string, of func(item int) string) (cursor, error) {
	if text == "" {
		return cursor{of: of(0)}, nil
	}
	var c cursor
	was, numbers, _ := strings.Cut(text, ".")
	if n, err := fmt.Sscanf(numbers, "%d.%d", &c.item, &c.offset); err != nil || n != 2 || c.item < 0 || c.offset < 0 ||
		(cursor{was, c.item, c.offset}).String() != text {
		return c, badArgument("cursor %q: want the nextCursor of an answer of this tool", text)
	}
	if c.of = of(c.item); was != c.of {
		return c, explain.Errorf(explain.Changed,
			"cursor: what it goes on with is no longer the same: the files or the history have changed since the "+
				"page before, or the other arguments have")
	}
	return c, nil
}

func badArgument(format string, args ...any) error {
	return explain.Errorf(explain.BadRequest, format, args...)
}

// size returns how many characters a value takes as JSON.
func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic("mcp: internal error: " + err.Error())
	}
	return len(b)
}

// fit returns how many items of a list fit into what is left of a result, and
// takes that off; at least one if there is one and nothing was taken yet.
func fit[T any](list []T, left *int) int {
	for i := range list {
		n := size(list[i]) + 1
		if n > *left && (i > 0 || *left < room) {
			return i
		}
		*left -= n
	}
	return len(list)
}

// fitNames is fit for paths that were not asked for.
func fitNames[T any](list []T, left *int) int { return fit(list[:min(len(list), maxNames)], left) }

// cut returns as much of a text as fits, behind what a page has before it, into
// what is left of a result as JSON, up to the end of a line if there is one, and
// takes that off. Some of the first always fits, so that a page leads on.
func cut(before, text string, left *int) string {
	most := *left
	if before == "" {
		most = max(most, 200)
	}
	have := cutAt(before, text, most)
	if len(have) < len(text) {
		if i := strings.LastIndexByte(have, '\n'); i >= 0 {
			have = have[:i+1]
		}
	}
	*left -= textSize(before+have) - textSize(before)
	return have
}

// textSize returns what a text takes as JSON, with its bytes if it is not UTF-8.
func textSize(text string) int {
	n := size(text)
	if !utf8.ValidString(text) {
		n += base64.StdEncoding.EncodedLen(len(text))
	}
	return n
}

// cutAt returns a start of a text that fits behind another, and splits no
// character.
func cutAt(before, text string, left int) string {
	end := max(0, min(len(text), left))
	left += textSize(before)
	for end > 0 && textSize(before+text[:end]) > left {
		end = end * 9 / 10
	}
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) && utf8.ValidString(text) {
		end--
	}
	return text[:end]
}

// base64UnlessText returns the bytes, in base64, of a text that is not UTF-8, ""
// for one that is.
func base64UnlessText(s string) string {
	return base64.StdEncoding.EncodeToString(words.BytesUnlessText(s))
}

// A FilePath is one in the directory.
type FilePath struct {
	Path      string `json:"path" jsonschema:"relative to the root"`
	PathBytes string `json:"pathBytes,omitempty" jsonschema:"its bytes in base64, if it is not UTF-8"`
}

func newPath(p string) FilePath { return FilePath{p, base64UnlessText(p)} }

// String returns the path, quoted if a model could misread it.
func (p *FilePath) String() string { return quote(p.Path) }

func quote(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` || strings.Contains(path, " ") {
		return q
	}
	return path
}
