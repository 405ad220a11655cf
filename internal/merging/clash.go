package merging

import (
	"bytes"
	"slices"

	"github.com/boocode/filestore/patch"
)

// Why something cannot be merged, as a [Conflict] has it.
const (
	WhyLines       = "lines"
	WhyMade        = "made-then-changed"
	WhyDeleted     = "deleted-then-made"
	WhyUserDeleted = "changed-then-deleted"
	WhyBinary      = "binary"
	WhyLarge       = "large"
	WhyKind        = "kind"
	WhyLost        = "lost"
	WhyMarkers     = "markers"
)

// A Clash is what cannot be merged of a path.
type Clash struct {
	Why     string
	Parts   []ClashPart
	IsWhole bool  // nothing of it is merged
	Lost    error // of WhyLost
	Signs   []int // of the markers that were put in
}

// A ClashPart is a step that cannot be done to a file.
type ClashPart struct {
	Step   *Step
	Places []patch.Span // lines of its base; nil: the whole file
}

// HasMarkers reports whether a text has markers of one of these numbers of signs.
func HasMarkers(text []byte, signs []int) bool {
	for line := range bytes.Lines(text) {
		if slices.ContainsFunc(signs, func(n int) bool { return IsMarker(line, n) }) {
			return true
		}
	}
	return false
}

// markersIn returns how many signs each marker has in a text that begins with one, and
// the lines that are markers.
func markersIn(text []byte) (signs int, lines []byte) {
	signs = len(text) - len(bytes.TrimLeft(text, "<"))
	for line := range bytes.Lines(text) {
		if IsMarker(line, signs) {
			lines = append(lines, line...)
		}
	}
	return signs, lines
}

// IsMarker reports whether a line is a marker of so many signs.
func IsMarker(line []byte, signs int) bool {
	if len(line) < signs || !bytes.ContainsRune([]byte("<|=>"), rune(line[0])) {
		return false
	}
	rest := bytes.TrimLeft(line, string(line[:1]))
	return len(line)-len(rest) == signs && (len(rest) == 0 || bytes.ContainsRune([]byte(" \r\n"), rune(rest[0])))
}
