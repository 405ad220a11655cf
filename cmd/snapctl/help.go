package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

// Help is written as it is read: plain text, lines of up to 80 columns.
//
//go:embed help
var helpTexts embed.FS

// addHelp gives a command and those below it their texts: what comes before
// "Examples:", and what after. One that has no file is explained by that of the command
// above it.
func addHelp(c *cobra.Command, name string) {
	if text, err := helpTexts.ReadFile("help/" + name + ".txt"); err != nil {
		c.Long, c.Example = c.Parent().Long, c.Parent().Example
	} else {
		long, examples, _ := strings.Cut(string(text), "Examples:\n")
		c.Long, c.Example = strings.TrimRight(long, "\n"), strings.TrimSuffix(examples, "\n")
		if name == configCommandName {
			c.Long += "\n\nKeys, and what they are by default:\n" + strings.TrimSuffix(settingsText(), "\n")
		}
	}
	for _, sub := range c.Commands() {
		addHelp(sub, strings.TrimPrefix(name+"-"+sub.Name(), "snapctl-"))
	}
}

// helpCommand is cobra's, but for what it does not find.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Explain a command or a topic",

		GroupID:           careTitle,
		ValidArgsFunction: completeHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(cmd.Root(), "no help on %q", strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag()
			c.SetContext(cmd.Context())
			return c.Help()
		},
	}
}

// pageHelp has help go through the pager, too.
func (a *app) pageHelp(root *cobra.Command) {
	print := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		a.prepare(cmd) // --help comes before it; what is wrong is for a command to say
		if root.Long == "" {
			addHelp(root, root.Name())
		}
		a.paged(func(cmd *cobra.Command, args []string) error {
			print(cmd, args)
			return nil
		})(cmd, args)
	})
}

func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "revs", Short: "How snapshots are named"},
		{Use: "exit", Short: "What the exit codes mean"},
	}
}
