package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is how wide help is.
const helpColumns = 80

// printUsage prints how a command is called, its examples, the commands below it, and its flags.
// Cobra's has lines of any length, writes [=true|false] behind each flag that takes no value, and
// explains the flags of snapctl with each command.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for _, group := range c.Groups() {
		writeCommands(&b, c, group.Title, group.ID)
	}
	writeCommands(&b, c, "Commands:", "")
	if c.HasAvailableLocalFlags() {
		b.WriteString("\nFlags:\n")
		rows, width := flagRows(c.LocalFlags()), 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row.name))
		}
		for _, row := range rows {
			writeWrapped(&b, fmt.Sprintf("  %-*s   ", width, row.name), row.text)
		}
	}
	if c.HasAvailableInheritedFlags() {
		var names []string
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		fmt.Fprintf(&b, "\nFlags of all commands, which '%s --help' explains:\n", c.Root().Name())
		writeWrapped(&b, "  ", strings.Join(names, ", "))
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// writeCommands writes those of a group of the commands below one.
func writeCommands(b *strings.Builder, c *cobra.Command, title, group string) {
	in := slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help"
	})
	if len(in) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, sub := range in {
		writeWrapped(b, fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name()), sub.Short)
	}
}

// A flagRow is a flag as help and the manual list it.
type flagRow struct {
	name string // "  -m, --label TEXT", with room for the letter of those that have none
	text string
}

func flagRows(flags *pflag.FlagSet) []flagRow {
	var rows []flagRow
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		isBool := f.Value.Type() == "bool"
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		switch {
		case isBool:
		case f.NoOptDefVal != "":
			name += "[=" + value + "]"
		default:
			name += " " + value
		}
		if !slices.Contains([]string{"", "[]", "0", "0s", "false"}, f.DefValue) {
			text += " (default " + f.DefValue + ")"
		}
		rows = append(rows, flagRow{name, text})
	})
	return rows
}

// writeWrapped writes a text behind what begins its first line, under itself.
func writeWrapped(b *strings.Builder, first, text string) {
	b.WriteString(first)
	indent := utf8.RuneCountInString(first)
	column := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > helpColumns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
