package patch

import "strings"

// An indentRule turns an indentation as old has it into one as the file has it.
// line counts the new text's lines from 0.
type indentRule func(lead string, line int) (string, bool)

// indentRule finds the one rule that leads from old's indentation to the
// file's: nothing, blanks that are added or taken away in front, the first line
// alone, or levels of another unit.
func (s *search) indentRule(file *lined) (indentRule, bool) {
	if len(file.lines) != len(s.needle.lines) {
		return nil, false
	}
	var pairs [][2]string // old's, the file's
	for i, l := range s.needle.lines {
		if !isBlank(l.content) && !isBlank(file.lines[i].content) {
			pairs = append(pairs, [2]string{leadOf(l.content), leadOf(file.lines[i].content)})
		}
	}
	if len(pairs) == 0 {
		return nil, false
	}
	if rule, ok := shift(pairs); ok {
		return rule, true
	}
	if rest := pairs[1:]; len(rest) > 0 && allSame(rest) { // models drop what stands before the first line
		first := pairs[0]
		return func(lead string, line int) (string, bool) {
			if line == 0 && lead == first[0] {
				return first[1], true
			}
			return lead, true
		}, true
	}
	return levels(pairs)
}

func allSame(pairs [][2]string) bool {
	for _, p := range pairs {
		if p[0] != p[1] {
			return false
		}
	}
	return true
}

// shift is the rule by which the same blanks are added to all lines, or taken
// away from all.
func shift(pairs [][2]string) (indentRule, bool) {
	added, isAdded := strings.CutSuffix(pairs[0][1], pairs[0][0])
	taken, isTaken := strings.CutSuffix(pairs[0][0], pairs[0][1])
	for _, p := range pairs {
		isAdded = isAdded && p[1] == added+p[0]
		isTaken = isTaken && p[0] == taken+p[1]
	}
	switch {
	case isAdded:
		return func(lead string, _ int) (string, bool) { return added + lead, true }, true
	case isTaken:
		return func(lead string, _ int) (string, bool) { return strings.CutPrefix(lead, taken) }, true
	}
	return nil, false
}

// units are what a level of indentation may be. The same depth is preferred to
// another one, then the first of them.
var units = []string{"\t", "    ", "  ", "        ", "   ", " "}

// levels is the rule by which old and the file indent by whole levels, each in
// its own unit, and by a constant number of levels more or less.
func levels(pairs [][2]string) (indentRule, bool) {
	var best indentRule
	for _, from := range units {
		for _, to := range units {
			more, ok := levelsApart(pairs, from, to)
			if !ok || best != nil && more != 0 {
				continue
			}
			best = func(lead string, _ int) (string, bool) {
				n, ok := level(lead, from)
				if n += more; !ok || n < 0 {
					return "", false
				}
				return strings.Repeat(to, n), true
			}
			if more == 0 {
				return best, true
			}
		}
	}
	return best, best != nil
}

// levelsApart returns by how many levels the file is deeper.
func levelsApart(pairs [][2]string, from, to string) (more int, ok bool) {
	for i, p := range pairs {
		a, isFrom := level(p[0], from)
		b, isTo := level(p[1], to)
		if !isFrom || !isTo || i > 0 && b-a != more {
			return 0, false
		}
		more = b - a
	}
	return more, true
}

// level returns how often an indentation repeats a unit.
func level(lead, unit string) (n int, ok bool) {
	n = len(lead) / len(unit)
	return n, lead == strings.Repeat(unit, n)
}
