package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (a *app) blameCommand() *cobra.Command {
	var o manager.BlameOptions
	var format string
	var lines []string
	var porcelain bool
	c := &cobra.Command{
		Use:   "blame [REV] FILE",
		Short: "Say which turn wrote each line of a file",
		Args:  args(1, 2),
		RunE: a.paged(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			if porcelain && (a.flags.json || format != "") || a.flags.json && format != "" {
				return usageError(cmd, "blame: --json, --porcelain and --format: want one of them")
			}
			if format != "" && blameFormats[format] == nil {
				return usageError(cmd, "blame: --format %q: want %s", format, agentTrace+" or "+gitAI)
			}
			var ok bool
			if len(lines) > 1 {
				return usageError(cmd, "blame: -L is there %d times: want it once", len(lines))
			}
			all := strings.Join(lines, "")
			if o.Start, o.End, ok = parseLines(all); !ok {
				return usageError(cmd, "blame: -L %q: want FIRST,LAST, as 10,20, or FIRST,+COUNT", all)
			}
			b, err := p.blame(cmd, args, o)
			switch {
			case err != nil:
				return err
			case a.flags.json:
				return a.printJSON(b)
			case format != "":
				return blameFormats[format](cmd.Context(), p, b)
			case porcelain:
				a.printPorcelain(b)
				return nil
			}
			return a.printBlame(cmd.Context(), p, b)
		})),
	}
	f := c.Flags()
	f.StringArrayVarP(&lines, "lines", "L", nil, "only these lines: `FIRST,LAST`, from 1")
	f.BoolVarP(&o.IgnoreSpace, "ignore-all-space", "w", false, "take lines that differ in white space only as the same")
	f.BoolVarP(&porcelain, "porcelain", "p", false, "print what programs read that read git blame --porcelain")
	f.StringVar(&format, "format", "", "print what another tool takes: `agent-trace|git-ai`")
	return c
}

// blame asks whose the lines of a file are.
func (p *place) blame(cmd *cobra.Command, args []string, o manager.BlameOptions) (b *manager.Blame, err error) {
	if len(args) > 1 {
		o.Rev = args[0]
		if o.Rev != "disk" {
			if _, err := p.resolve(cmd.Context(), o.Rev); err != nil {
				return nil, err
			}
		}
	}
	name := args[len(args)-1]
	if o.Path, err = p.treePath(cmd, name); err != nil {
		return nil, err
	}
	if o.Path == "" {
		return nil, usageError(cmd, "blame: %q: want a file, not a directory", name)
	}
	return p.m.Blame(cmd.Context(), &o)
}

// parseLines reads what git's -L takes, but for expressions.
func parseLines(text string) (start, end int, ok bool) {
	if text == "" {
		return 0, 0, true
	}
	first, last, hasLast := strings.Cut(text, ",")
	start, err := strconv.Atoi(first)
	if err != nil || start < 1 || !hasLast || last == "" {
		return start, 0, err == nil && start > 0
	}
	count, isCount := strings.CutPrefix(last, "+")
	if end, err = strconv.Atoi(count); isCount {
		end += start - 1
	}
	return start, end, err == nil && end >= start
}

// maxBlameTitle is how much of a prompt stands beside each line.
const maxBlameTitle = 24

// printBlame prints each line of a file with whose it is.
func (a *app) printBlame(ctx context.Context, p *place, b *manager.Blame) error {
	several, err := p.hasSeveralSessions(ctx)
	if err != nil {
		return err
	}
	rows, widths := make([][]string, len(b.Ranges)), make([]int, 4)
	for i := range b.Ranges {
		rows[i] = blameRow(&b.Ranges[i].Owner, several)
		for j, cell := range rows[i] {
			widths[j] = max(widths[j], width(cell))
		}
	}
	digits := len(strconv.Itoa(b.Lines))
	rest, isSeen := b.Text, isTerminal(a.stdout)
	if isSeen {
		columns, _ := a.terminalSize()
		fitBlame(b, rows, widths, columns*6/10-digits)
	}
	for n := 1; len(b.Ranges) > 0 && n < b.Ranges[0].Start; n++ {
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
	}
	var head, line []byte // files have tens of thousands of lines
	for i, r := range b.Ranges {
		head = head[:0]
		for j, cell := range rows[i] {
			if widths[j] == 0 {
				continue
			}
			pad := widths[j] - width(cell) + 2
			if j == 1 {
				cell = a.paint(asName, cell)
			}
			head = append(append(head, cell...), strings.Repeat(" ", pad)...)
		}
		for n := r.Start; n <= r.End; n++ {
			var text []byte
			text, rest, _ = bytes.Cut(rest, []byte("\n"))
			if isSeen {
				text = visible(text)
			}
			number := strconv.Itoa(n)
			line = append(append(line[:0], head...), "          "[:max(0, digits-len(number))]...)
			line = append(append(append(append(line, number...), "| "...), text...), '\n')
			a.out.Write(line)
		}
	}
	return nil
}

// blameRow returns who, by which revision, when, and what for.
func blameRow(o *manager.BlameOwner, several bool) []string {
	who := o.Kind
	switch {
	case o.Kind == "turn" && o.Turn >= 0:
		who = "turn " + strconv.Itoa(o.Turn)
		if o.Certainty == "window" {
			who += "~"
		}
		if several {
			who += " of " + o.Session
		}
		if o.Agent != "" {
			who += " " + o.Agent
		}
	case o.Kind == "user":
		who = "you"
	case o.Kind == "contested":
		who += " " + strings.ReplaceAll(strings.Join(o.By, ", "), "session ", "")
	}
	when := ""
	if !o.Time.IsZero() {
		when = o.Time.Local().Format("2006-01-02 15:04")
	}
	return []string{who, o.Entry, when, firstLine(o.Title, maxBlameTitle)}
}

// fitBlame leaves the file the room that it needs on a terminal: what stands before each line gets so
// many columns. Who it was and what for are there in any case, cut if they have to be.
func fitBlame(b *manager.Blame, rows [][]string, widths []int, room int) {
	const gap = 2
	widths[0] = min(widths[0], max(room/2, 12))
	used := widths[0] + gap
	if widths[3] > 0 {
		widths[3] = min(widths[3], max(room-used-gap, 12))
		used += widths[3] + gap
	}
	for i, row := range rows {
		row[0] = fit(row[0], widths[0])
		if width(row[3]) > widths[3] {
			row[3] = fitQuoted(b.Ranges[i].Owner.Title, widths[3])
		}
	}
	for _, j := range []int{1, 2} {
		if used+widths[j]+gap > room {
			widths[j] = 0
		}
		used += widths[j] + gap
	}
}

// printPorcelain prints ranges as git blame --porcelain does: what is known of an owner
// stands at its first line only.
func (a *app) printPorcelain(b *manager.Blame) {
	told := make(map[string]bool)
	lines := bytes.SplitAfter(b.Text, []byte("\n"))
	for _, r := range b.Ranges {
		o := &r.Owner
		name := o.Entry
		if name == "" {
			name = "-"
		}
		for n := r.Start; n <= r.End; n++ {
			fmt.Fprintf(a.out, "%s %d %d", name, n, n)
			if n == r.Start {
				fmt.Fprintf(a.out, " %d", r.End-r.Start+1)
			}
			fmt.Fprintln(a.out)
			if key := fmt.Sprintln(name, o.Kind, o.Certainty); n == r.Start && !told[key] {
				told[key] = true
				a.printOwner(o, b.Path)
			}
			fmt.Fprintf(a.out, "\t%s\n", bytes.TrimSuffix(lines[n-1], []byte("\n")))
		}
	}
}

func (a *app) printOwner(o *manager.BlameOwner, path string) {
	for _, field := range [][2]string{{"kind", o.Kind}, {"session", o.Session}, {"turn", turnDigits(o.Turn)},
		{"certainty", o.Certainty}, {"agent", o.Agent}, {"model", o.Model}, {"by", strings.Join(o.By, ", ")}} {
		if field[1] != "" {
			fmt.Fprintf(a.out, "%s %s\n", field[0], words.FirstLine(field[1], maxTitleShown))
		}
	}
	if !o.Time.IsZero() {
		fmt.Fprintf(a.out, "author-time %d\n", o.Time.Unix())
	}
	fmt.Fprintf(a.out, "summary %s\nfilename %s\n", o.Title, words.ShellQuote(path))
}

func turnDigits(turn int) string {
	if turn < 0 {
		return ""
	}
	return strconv.Itoa(turn)
}
