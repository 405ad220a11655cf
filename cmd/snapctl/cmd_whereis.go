package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) whereisCommand() *cobra.Command {
	return &cobra.Command{Use: "whereis PATH", Short: "Say what changed a path last",
		Args: args(1, 1),
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			path, err := p.treePath(cmd, args[0])
			if err == nil {
				err = p.chooseSession(cmd.Context())
			}
			if err != nil {
				return err
			}
			t, err := p.m.WhereIs(cmd.Context(), path)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(t)
			}
			title := ""
			if t.Title != "" {
				title = "  " + titleText(t.Title)
			}
			fmt.Fprintf(a.out, "%s  %s  %s  %s  %s%s\n", turnName(cmp.Or(string(t.Owner), "restore"), t.TurnIndex),
				a.paint(asName, cmp.Or(t.EntryID, "-")), clock(t.Time), t.Session, cmp.Or(t.Owner, "-"), title)
			return nil
		})}
}
