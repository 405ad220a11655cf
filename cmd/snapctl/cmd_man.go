package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/version"
	"github.com/boocode/filestore/internal/words"
)

// manCommandName is that of the command that needs all others.
const manCommandName = "man"

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   manCommandName + " [DIR]",
		Short: "Write the manual pages",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := a.out.Write(manPage(cmd.Root()))
				return err
			}
			return a.writePages(cmd.Root(), a.path(args[0]))
		},
	}
}

// writePages writes the page of each command and topic into a directory, which is made if it is
// not there.
func (a *app) writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	n := 0
	var write func(c *cobra.Command) error
	write = func(c *cobra.Command) error {
		if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), manPage(c), 0o644); err != nil {
			return err
		}
		n++
		for _, sub := range c.Commands() {
			if !hasPage(sub) {
				continue
			}
			if err := write(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(root); err != nil {
		return err
	}
	a.note("wrote %s to %s", words.Count(n, "page"), words.Quote(dir))
	return nil
}

// hasPage reports whether a command, or a topic, has a page of its own.
func hasPage(c *cobra.Command) bool { return !c.Hidden && c.Deprecated == "" && c.Name() != "help" }

// manName returns the name of a command's page: snapctl-stores-rm.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, made of what its help says. It has no date but that
// of the commit that it was built from, so that it is the same whenever it is made.
func manPage(c *cobra.Command) []byte {
	m := new(manual)
	m.line(`.TH %s 1 %s %s "snapctl manual"`, manQuote(strings.ToUpper(manName(c))), manQuote(commitDate()),
		manQuote("snapctl "+version.String()))
	m.line(".SH NAME\n%s \\- %s", roff(manName(c)), roff(c.Short))
	if c.Runnable() {
		m.synopsis(c)
	}
	m.line(".SH DESCRIPTION")
	m.text(c.Long)
	m.flags("OPTIONS", flagRows(c.LocalNonPersistentFlags()))
	if !c.HasParent() {
		m.flags("GLOBAL OPTIONS", flagRows(c.PersistentFlags()))
	}
	m.commands(c)
	if c.Runnable() {
		m.line(".SH EXIT STATUS\n0 if all was done; \\fBsnapctl\\-exit\\fR(1) says what other numbers mean.")
	}
	if c.Example != "" {
		m.line(".SH EXAMPLES")
		m.text(c.Example)
	}
	m.seeAlso(c)
	return []byte(m.b.String())
}

// commitDate returns the day of the commit that this program was built from; "": it is not known.
func commitDate() string {
	info, _ := debug.ReadBuildInfo()
	for i := 0; info != nil && i < len(info.Settings); i++ {
		if s := info.Settings[i]; s.Key == "vcs.time" {
			day, _, _ := strings.Cut(s.Value, "T")
			return day
		}
	}
	return ""
}

// A manual is a page that is being written, in the man macros of roff.
type manual struct{ b strings.Builder }

func (m *manual) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

var (
	roffEscapes = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)
	placeholder = words.Pattern(`[A-Z][A-Z]+`)
)

// roff returns a text of one line as roff prints it as it is.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

// manQuote returns an argument of a macro.
func manQuote(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }

// synopsis writes how a command is called: its name bold, what stands for something else in italics.
func (m *manual) synopsis(c *cobra.Command) {
	m.line(".SH SYNOPSIS\n.nf")
	for line := range strings.SplitSeq(c.UseLine(), "\n") {
		rest, _ := strings.CutPrefix(strings.TrimSpace(line), c.CommandPath())
		m.line(`\fB%s\fR%s`, roff(c.CommandPath()), placeholder().ReplaceAllString(roff(rest), `\fI$0\fR`))
	}
	m.line(".fi")
}

// text writes what help says: paragraphs, and between them what is indented, as it is.
func (m *manual) text(text string) {
	isShown, isOpen := false, false // lines as they are; in a paragraph
	paragraph := ""                 // what begins one: nothing, behind a heading
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		line = strings.ReplaceAll(line, "\t", "  ")
		isIndented := strings.HasPrefix(line, "  ")
		switch {
		case line == "" && !isShown:
			isOpen = false
			continue
		case isIndented && !isShown:
			m.line("%s.nf", paragraph)
			isShown = true
		case !isIndented && isShown && line != "":
			m.line(".fi")
			isShown, isOpen = false, false
		}
		if !isShown && !isOpen {
			m.b.WriteString(paragraph)
			isOpen = true
		}
		m.line("%s", roff(line))
		paragraph = ".PP\n"
	}
	if isShown {
		m.line(".fi")
	}
}

// flags writes a section on flags.
func (m *manual) flags(title string, rows []flagRow) {
	if len(rows) == 0 {
		return
	}
	m.line(".SH %s", title)
	for _, row := range rows {
		name := placeholder().ReplaceAllString(`\fB`+roff(strings.TrimSpace(row.name))+`\fR`, `\fI$0\fB`)
		m.line(".TP\n%s\n%s", name, roff(row.text))
	}
}

// commands writes the commands below one, in their groups.
func (m *manual) commands(c *cobra.Command) {
	list := func(title, group string) {
		for _, sub := range c.Commands() {
			if !hasPage(sub) || sub.GroupID != group || sub.IsAdditionalHelpTopicCommand() {
				continue
			}
			if title != "" {
				m.line(".SS %s", roff(title))
			}
			title = ""
			m.line(".TP\n\\fB%s\\fR(1)\n%s", roff(manName(sub)), roff(sub.Short))
		}
	}
	if !c.HasAvailableSubCommands() {
		return
	}
	m.line(".SH COMMANDS")
	for _, g := range c.Groups() {
		list(strings.TrimSuffix(g.Title, ":"), g.ID)
	}
	list("", "")
}

// seeAlso writes which pages are near: that of the command above, and those on topics.
func (m *manual) seeAlso(c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, manName(c.Parent()))
	}
	for _, topic := range c.Root().Commands() {
		if topic.IsAdditionalHelpTopicCommand() && topic != c {
			names = append(names, manName(topic))
		}
	}
	m.line(".SH SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		m.line(`\fB%s\fR(1)%s`, roff(name), end)
	}
}
