package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// checkLines refuses what does not go with --lines.
func (f *restoreFlags) checkLines(cmd *cobra.Command) error {
	switch {
	case f.lines == "":
		return usageError(cmd, "revert: --lines names none: want FILE:FIRST-LAST, as a.go:10-20, or FILE:LINE")
	case len(f.turns)+len(f.paths) > 0:
		return usageError(cmd, "revert: --lines finds the turns, and takes no TURN and no PATH")
	case f.asksHunks || len(f.hunks) > 0:
		return usageError(cmd, "revert: --lines finds the pieces, and does not go with -p or --hunks")
	}
	return nil
}

// cutLines reads FILE:FIRST-LAST, or FILE:LINE.
func cutLines(text string) (file string, first, last int, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i <= 0 {
		return "", 0, 0, false
	}
	from, to, isRange := strings.Cut(text[i+1:], "-")
	if !isRange {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, lerr := strconv.Atoi(to)
	return text[:i], first, last, err == nil && lerr == nil && first > 0 && last >= first
}

// lineRange returns the lines that are to be taken back.
func (p *place) lineRange(cmd *cobra.Command, text string) (*manager.BlameOptions, error) {
	file, first, last, ok := cutLines(text)
	if !ok {
		return nil, usageError(cmd, "revert: --lines %q: want FILE:FIRST-LAST, as a.go:10-20, or FILE:LINE", text)
	}
	path, err := p.treePath(cmd, file)
	return &manager.BlameOptions{Path: path, Start: first, End: last}, err
}

// chooseSessionOfLines settles on the session whose turns have written lines.
func (p *place) chooseSessionOfLines(ctx context.Context, r *manager.BlameOptions) error {
	if p.chosen {
		return nil
	}
	b, err := p.m.Blame(ctx, &manager.BlameOptions{Path: r.Path, Start: r.Start, End: r.End})
	if err != nil {
		return err
	}
	var sessions []string
	for i := range b.Ranges {
		if s := b.Ranges[i].Owner.Session; s != "" && !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
		}
	}
	switch len(sessions) {
	case 0:
		return p.chooseSessionToRestore(ctx, "", true)
	case 1:
		p.sayChoice(ctx, sessions[0])
		return p.use(sessions[0])
	}
	return refuse("say of which they are to be taken back: --session "+sessions[0],
		"revert: lines %d to %d of %s are of turns of several sessions: %s", r.Start, r.End, words.Quote(r.Path),
		strings.Join(sessions, ", "))
}

// findHunks has a revert take back what wrote its lines. It says of which lines that is not,
// and returns whether a turn has written one of these.
func (p *place) findHunks(ctx context.Context, r *manager.BlameOptions, f *restoreFlags) (isPart bool, err error) {
	a := p.app
	list, left, err := p.hunksOf(ctx, r)
	if err != nil {
		return false, err
	}
	shows := !a.flags.json && !a.flags.quiet && (f.dryRun || !f.yes)
	for i := range list {
		h := &list[i]
		if f.hunks = append(f.hunks, h.ID); !slices.Contains(f.turns, h.By) {
			f.turns = append(f.turns, h.By)
		}
		if h.State == "conflict" && len(h.BlockedBy) == 0 { // with others of the list alone
			h.State = ""
		}
		if shows {
			a.tell("%s, by %s", a.paint(asHeading, words.Quote(h.Path)), h.By)
			a.out.Flush()
			a.stderr.Write(a.hunkText(h, true))
		}
	}
	for i := range left {
		isPart = isPart || left[i].Why != "not_turn"
	}
	f.ofLines = &jsonLines{jsonPath: newJSONPath(r.Path), Start: r.Start, End: r.End, Along: along(list, r),
		Left: append([]manager.BlameRange{}, left...)}
	if spans := f.ofLines.Along; len(spans) > 0 {
		var texts []string
		for _, s := range spans {
			texts = append(texts, s.String())
		}
		a.note("go, too: %s: they are of the same pieces", strings.Join(texts, ", "))
	}
	a.noteLeft(r.Path, left)
	switch {
	case len(list) > 0:
		return isPart, nil
	case isPart:
		return false, refuse("", "revert: these lines do not go by themselves: nothing was changed")
	}
	return false, refuse("'snapctl blame' says whose each line is",
		"revert: no turn of session %s wrote these lines: nothing was changed", p.m.Session())
}

// A jsonLines is what JSON shows of a revert of lines beside what it did.
type jsonLines struct {
	jsonPath
	Start int                  `json:"start"` // that were asked for
	End   int                  `json:"end"`
	Along []lineSpan           `json:"along"` // others that go with them
	Left  []manager.BlameRange `json:"left"`  // those of them that stay
}

// A lineSpan is lines of a file, from 1, both ends among them.
type lineSpan struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

func (s lineSpan) String() string {
	if s.End > s.Start {
		return fmt.Sprintf("%d-%d", s.Start, s.End)
	}
	return strconv.Itoa(s.Start)
}

// along returns the lines that go with those that are asked for: they are of the same pieces.
func along(list []manager.Hunk, asked *manager.BlameOptions) []lineSpan {
	goes := make(map[int]bool)
	for i := range list {
		if h := &list[i]; h.Now != nil && h.Kind == "lines" {
			for n := h.Now[0] + 1; n <= h.Now[1]; n++ {
				goes[n] = n < asked.Start || n > asked.End
			}
		}
	}
	spans := []lineSpan{}
	for _, n := range slices.Sorted(maps.Keys(goes)) {
		switch last := len(spans) - 1; {
		case !goes[n]:
		case last >= 0 && spans[last].End == n-1:
			spans[last].End = n
		default:
			spans = append(spans, lineSpan{n, n})
		}
	}
	return spans
}

// printResult prints what a restore did, or would do, as JSON.
func (a *app) printResult(r *manager.RestoreResult, f *restoreFlags) error {
	for i := range r.Conflicts {
		if flags, ok := strings.CutPrefix(r.Conflicts[i].Hint, "snapctl"); ok {
			r.Conflicts[i].Hint = a.snapctl() + flags
		}
	}
	return a.printJSON(struct {
		*manager.RestoreResult
		Lines *jsonLines `json:"lines,omitempty"`
	}{r, f.ofLines})
}

// hunksOf returns the hunks that wrote lines, and the lines of which there are none.
func (p *place) hunksOf(ctx context.Context, lines *manager.BlameOptions) (all []manager.Hunk,
	left []manager.BlameRange, err error) {
	r := &manager.HunkRange{Lines: lines, Context: 3}
	for {
		list, err := p.m.Hunks(ctx, r)
		if errors.Is(err, manager.ErrNotText) {
			err = fmt.Errorf("%w: it has no lines", err)
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, list.Hunks...)
		if r.Cursor = list.NextCursor; r.Cursor == "" {
			return all, list.Left, nil
		}
	}
}

// noteLeft says which lines are left, and whose they are.
func (a *app) noteLeft(path string, left []manager.BlameRange) {
	var whose []string
	lines := make(map[string][]string)
	for i := range left {
		l := &left[i]
		text, of := lineSpan{l.Start, l.End}.String(), a.whoseLeft(path, l)
		if len(lines[of]) == 0 {
			whose = append(whose, of)
		}
		lines[of] = append(lines[of], text)
	}
	for _, of := range whose {
		a.note("left alone: %s: %s", strings.Join(lines[of], ", "), of)
	}
}

// whoseLeft says whose lines are that are left, and how they go all the same.
func (a *app) whoseLeft(path string, l *manager.BlameRange) string {
	o := &l.Owner
	turn := fmt.Sprint("turn ", o.Turn)
	switch l.Why {
	case "session":
		return fmt.Sprintf("of %s of session %s, which has no part in this one", turn, o.Session)
	case "open":
		return "of a turn that has not ended"
	case "made":
		return fmt.Sprintf("of %s, which made the file: '%s' takes back all of it", turn,
			a.commandLine("revert", turnNames([]int{o.Turn}), "", []string{path}))
	case "elsewhere":
		return fmt.Sprintf("of %s, which wrote them at another path, or has no piece here that can be taken back", turn)
	}
	switch o.Kind {
	case "user":
		return "you wrote them"
	case "before":
		return "they were there before all turns"
	case "contested":
		return "several turns may have written them: " + strings.Join(o.By, ", ")
	}
	return fmt.Sprintf("it is not known who wrote them (%s)", o.Kind)
}
