package textdiff

import "strings"

// Respaced returns old with the lines of new wherever the two differ in nothing but white
// space. So what still differs is what more than white space tells apart, and new is equal
// to it if nothing does.
func Respaced(old, new []byte) []byte {
	return []byte(strings.Join(respaced(SplitLines(old), SplitLines(new)), ""))
}

func respaced(old, new []string) []string {
	lines, at := make([]string, 0, len(old)), 0
	for _, e := range Compare(withoutSpace(old), withoutSpace(new)) {
		lines = append(lines, new[at:e.NewStart]...)
		lines = append(lines, old[e.OldStart:e.OldEnd]...)
		at = e.NewEnd
	}
	return append(lines, new[at:]...)
}

// withoutSpace returns lines without what C calls space.
func withoutSpace(lines []string) []string {
	bare := make([]string, len(lines))
	for i, line := range lines {
		left := make([]byte, 0, len(line))
		for _, b := range []byte(line) {
			if b != ' ' && (b < '\t' || b > '\r') {
				left = append(left, b)
			}
		}
		bare[i] = string(left)
	}
	return bare
}
