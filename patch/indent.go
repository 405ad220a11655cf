package patch

import (
	"cmp"
	"slices"
	"strings"
)

// An indentRule turns an indentation as old has it into one as the file has it.
// line counts the new text's lines from 0.
type indentRule func(lead string, line int) (string, bool)

// A lead is the indentation of a line of old, and that of the file's line.
type lead struct{ old, file string }

// leads returns the indentations of old's lines beside those of the file's. at
// says which lines are which, from 1; without it they are one by one the same.
func (s *search) leads(file *lined, at []int) (list leads) {
	if at == nil && len(file.lines) != len(s.needle.lines) {
		return list
	}
	for i, l := range s.needle.lines {
		n := i
		if at != nil {
			n = at[i] - 1
		}
		if n >= 0 && !isBlank(l.content) && !isBlank(file.lines[n].content) {
			list.first = list.first || i == 0
			list.pairs = append(list.pairs, lead{leadOf(l.content), leadOf(file.lines[n].content)})
		}
	}
	return list
}

// A leads is the indentations of lines that old and the file have.
type leads struct {
	pairs []lead
	first bool // the first pair is of old's first line
}

// rule finds the one rule that leads from old's indentation to the file's, for a
// new text: an indentation that old has becomes the one that the file has there;
// to others nothing is done, blanks are added or taken away in front, or levels
// become those of another unit. Where the first line alone differs it alone
// changes. Rules that fit must agree. file is what was found.
func (s *search) rule(l leads, file, fresh *lined) (indentRule, bool) {
	if len(l.pairs) == 0 || l.isDone(fresh) {
		return nil, false
	}
	rules := s.rules(l, file, fresh)
	known, isKnown := oneByOne(l.pairs)
	if len(rules) == 0 && !isKnown {
		return nil, false
	}
	return func(lead string, line int) (string, bool) {
		if isKnown {
			if own, ok := known(lead, line); ok {
				return own, true
			}
		}
		if len(rules) == 0 {
			return "", false
		}
		own, ok := rules[0](lead, line)
		for _, rule := range rules[1:] {
			other, isOK := rule(lead, line)
			ok = ok && isOK && other == own
		}
		return own, ok
	}, true
}

// rules returns the rules that fit, for indentations that old does not have.
func (s *search) rules(l leads, file, fresh *lined) (rules []indentRule) {
	shift, shifted := shift(l.pairs)
	// models drop what stands before the first line
	if rest := l.pairs[1:]; !shifted && l.first && len(rest) > 0 && allSame(rest) && l.pairs[0].old == "" {
		first := l.pairs[0]
		rules = append(rules, func(lead string, line int) (string, bool) {
			if line == 0 && lead == "" {
				return first.file, true
			}
			return lead, true
		})
	}
	// Where the unit is another one, as much as was added to a line is not what
	// would be added to a deeper one.
	given := cmp.Or(unitOf(s.needle.lines), unitOf(fresh.lines), commonOf(s.needle.lines, fresh.lines))
	own := cmp.Or(unitOf(file.lines), unitOf(s.file.lines))
	guessed := own == ""
	if guessed {
		own = commonOf(s.file.lines)
	}
	differ := given != "" && own != "" && given != own
	switch {
	case guessed && given != "": // old may have the file's levels
		for _, unit := range units {
			if more, ok := levelsApart(l.pairs, given, unit); ok && more == 0 && !allSame(l.pairs) {
				rules = append(rules, levelRule(given, unit, 0))
			}
		}
		if !differ && shifted {
			rules = append(rules, shift)
		}
	case differ:
		if more, ok := levelsApart(l.pairs, given, own); ok {
			rules = append(rules, levelRule(given, own, more))
		}
	case shifted:
		rules = append(rules, shift)
	}
	if len(rules) == 0 && !differ {
		if rule, ok := levels(l.pairs); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// unitOf returns by what lines are most often deeper than the one before; "":
// none is.
func unitOf(lines []line) string {
	count := make(map[string]int)
	best, last, any := "", "", false
	for _, l := range lines {
		if isBlank(l.content) {
			continue
		}
		lead := leadOf(l.content)
		if more, ok := strings.CutPrefix(lead, last); ok && more != "" && any {
			more = oneTab(more)
			if count[more]++; count[more] > count[best] || count[more] == count[best] && len(more) < len(best) {
				best = more
			}
		}
		last, any = lead, true
	}
	return best
}

// commonOf returns what all indentations of texts are multiples of; "": there is
// none, or nothing.
func commonOf(texts ...[]line) string {
	blanks, tabs := 0, 0
	for _, lines := range texts {
		for _, l := range lines {
			lead := leadOf(l.content)
			switch {
			case lead == "" || isBlank(l.content):
			case strings.Trim(lead, "\t") == "":
				tabs++
			case strings.Trim(lead, " ") == "":
				a, b := blanks, len(lead)
				for b != 0 {
					a, b = b, a%b
				}
				blanks = a
			default:
				return ""
			}
		}
	}
	switch {
	case tabs > 0 && blanks > 0:
		return ""
	case tabs > 0:
		return "\t"
	}
	return strings.Repeat(" ", blanks)
}

// oneTab returns one tab for several, which are as many levels.
func oneTab(lead string) string {
	if lead != "" && strings.Trim(lead, "\t") == "" {
		return "\t"
	}
	return lead
}

// isDone reports whether a new text seems to have the file's indentation already,
// while old has less.
func (l leads) isDone(whole *lined) bool {
	least := l.pairs[0]
	for _, p := range l.pairs {
		if len(p.file) < len(least.file) {
			least = p
		}
	}
	if len(least.old) >= len(least.file) {
		return false
	}
	equal := false
	for _, t := range whole.lines {
		if isBlank(t.content) {
			continue
		}
		lead := leadOf(t.content)
		if !strings.HasPrefix(lead, least.file) {
			return false
		}
		equal = equal || lead == least.file
	}
	return equal
}

// oneByOne is the rule by which an indentation of old is always the same one of
// the file. It knows no others.
func oneByOne(pairs []lead) (indentRule, bool) {
	known := make(map[string]string)
	for _, p := range pairs {
		if was, seen := known[p.old]; seen && was != p.file {
			return nil, false
		}
		known[p.old] = p.file
	}
	return func(lead string, _ int) (string, bool) {
		fresh, ok := known[lead]
		return fresh, ok
	}, true
}

// reindented returns a text in which what leads from old's indentation to the
// file's was done to lines that are new: those for which fresh returns their
// number in the new text, which is whole. file is what was found.
func (s *search) reindented(r *Result, from leads, file, t, whole *lined,
	fresh func(i int) (line int, ok bool)) *lined {
	unsure := func() *lined {
		if s.RefuseUnsureIndent && s.Reindent == ReindentAuto {
			r.refuse(reasonIndent)
			return nil
		}
		r.Warnings = append(r.Warnings, warnIndentUnsure)
		return t
	}
	var rule indentRule
	out := &lined{bytes: t.bytes, lines: slices.Clone(t.lines)}
	for i, l := range out.lines {
		n, isFresh := fresh(i)
		if !isFresh || isBlank(l.content) {
			continue
		}
		if s.Reindent != ReindentAuto {
			if !allSame(from.pairs) {
				return unsure()
			}
			return t
		}
		if rule == nil {
			var ok bool
			if rule, ok = s.rule(from, file, whole); !ok {
				return unsure()
			}
		}
		lead := leadOf(l.content)
		own, ok := rule(lead, n)
		if !ok {
			return unsure()
		}
		out.lines[i].content = append([]byte(own), l.content[len(lead):]...)
	}
	return out
}

func allSame(pairs []lead) bool {
	for _, p := range pairs {
		if p.old != p.file {
			return false
		}
	}
	return true
}

// shift is the rule by which the same blanks are added to all lines, or taken
// away from all.
func shift(pairs []lead) (indentRule, bool) {
	added, isAdded := strings.CutSuffix(pairs[0].file, pairs[0].old)
	taken, isTaken := strings.CutSuffix(pairs[0].old, pairs[0].file)
	for _, p := range pairs {
		isAdded = isAdded && p.file == added+p.old
		isTaken = isTaken && p.old == taken+p.file
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
func levels(pairs []lead) (indentRule, bool) {
	var best indentRule
	for _, from := range units {
		for _, to := range units {
			more, ok := levelsApart(pairs, from, to)
			if !ok || best != nil && more != 0 {
				continue
			}
			best = levelRule(from, to, more)
			if more == 0 {
				return best, true
			}
		}
	}
	return best, best != nil
}

// levelRule is the rule by which levels of one unit become levels of another, by
// some more.
func levelRule(from, to string, more int) indentRule {
	return func(lead string, _ int) (string, bool) {
		n, ok := level(lead, from)
		if n += more; !ok || n < 0 {
			return "", false
		}
		return strings.Repeat(to, n), true
	}
}

// levelsApart returns by how many levels the file is deeper.
func levelsApart(pairs []lead, from, to string) (more int, ok bool) {
	for i, p := range pairs {
		a, isFrom := level(p.old, from)
		b, isTo := level(p.file, to)
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
