package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type tagFlags struct {
	remove, list, force bool
}

func (a *app) tagCommand() *cobra.Command {
	var f tagFlags
	c := &cobra.Command{
		Use:   "tag [-f] NAME [REV] | -d NAME... | [-l [PATTERN]]",
		Short: "Name a turn, so that it stays and can be named",
		RunE: func(cmd *cobra.Command, args []string) error {
			lists := f.list || len(args) == 0 && !f.remove
			switch {
			case f.remove && (f.list || f.force):
				return usageError(cmd, "tag: -d goes alone")
			case f.remove && len(args) == 0:
				return usageError(cmd, "tag: -d: want a NAME")
			case lists && (f.force || len(args) > 1), !lists && !f.remove && len(args) > 2:
				return usageError(cmd, "tag: want NAME and one REV, -d NAME..., or -l PATTERN")
			case lists:
				return a.reading(a.listTags)(cmd, args)
			}
			if err := a.mustExist(); err != nil {
				return err
			}
			p, err := a.openToWrite(cmd.Context(), true, tree.Limits{})
			if err != nil {
				return err
			}
			defer p.close()
			if f.remove {
				return a.untag(cmd, p, args)
			}
			return a.tag(cmd, p, args, &f)
		},
	}
	c.Flags().BoolVarP(&f.remove, "delete", "d", false, "take names away; the turns stay as long as others")
	c.Flags().BoolVarP(&f.list, "list", "l", false, "list names, those that a PATTERN matches, such as 'v*'")
	c.Flags().BoolVarP(&f.force, "force", "f", false, "take the name from what has it, and give the turn this one")
	return c
}

func (a *app) listTags(cmd *cobra.Command, p *place, args []string) error {
	if len(args) > 0 {
		if _, err := path.Match(args[0], ""); err != nil {
			return usageError(cmd, "tag: %q: %v", args[0], err)
		}
	}
	list, err := inside.Of(p.m).Tags(cmd.Context())
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(x, y *store.Snapshot) int { return cmp.Compare(x.Label, y.Label) })
	for _, s := range list {
		if len(args) > 0 {
			if is, _ := path.Match(args[0], s.Label); !is {
				continue
			}
		}
		if err := a.printTag(cmd.Context(), p, s); err != nil {
			return err
		}
	}
	return nil
}

// A jsonTag is a name in JSON.
type jsonTag struct {
	Name    string    `json:"name"`
	EntryID *string   `json:"entryId"`
	Rev     *string   `json:"rev"`
	Turn    *int      `json:"turn"`
	Session string    `json:"session"`
	Time    time.Time `json:"time"`
	Pruned  bool      `json:"pruned,omitempty"`
	Title   string    `json:"title,omitempty"`
}

func (a *app) printTag(ctx context.Context, p *place, s *store.Snapshot) error {
	turn, kind := -1, s.Kind
	if r, err := history.Read(s); err == nil {
		turn, kind = r.Turn(), r.Event()
	}
	title := inside.Of(p.m).Title(ctx, s)
	if a.flags.json {
		return a.printJSON(&jsonTag{Name: s.Label, EntryID: words.OrNull(s.Entry),
			Rev: words.OrNull(history.NameOf(s.Entry, s)), Turn: turnOrNull(turn), Session: s.Session,
			Time: s.Time.UTC(), Pruned: s.Pruned, Title: title})
	}
	line := a.newLine()
	line.add(asName, words.Quote(s.Label))
	line.add("", turnName(kind, turn))
	line.add(asName, history.NameOf(s.Entry, s))
	line.add("", clock(s.Time))
	line.add("", s.Session)
	if s.Pruned {
		line.add(asRemoved, "pruned")
	}
	line.end(title)
	return nil
}

func (a *app) tag(cmd *cobra.Command, p *place, args []string, f *tagFlags) error {
	ctx, name, rev := cmd.Context(), args[0], "@"
	if len(args) > 1 {
		rev = args[1]
	}
	if _, err := p.resolve(ctx, rev); err != nil { // which turns to its session
		return err
	}
	tagged, before, err := inside.Of(p.m).Tag(ctx, name, rev, f.force)
	switch {
	case errors.Is(err, inside.ErrNamed):
		return refuse("-f gives the turn this name, and takes it from what has it", "%v", err)
	case errors.Is(err, inside.ErrBadName):
		return usageError(cmd, "%v", err)
	case err != nil:
		return err
	}
	switch {
	case before != nil && before.Seq == tagged.Seq:
		a.note("it was %s", words.Quote(before.Label))
	case before != nil:
		a.note("%s was that of %s", words.Quote(name), history.NameOf(before.Entry, before))
	}
	if a.flags.quiet && !a.flags.json {
		return nil
	}
	return a.printTag(ctx, p, tagged)
}

func (a *app) untag(cmd *cobra.Command, p *place, names []string) error {
	for _, name := range names {
		was, err := inside.Of(p.m).Untag(cmd.Context(), name)
		if errors.Is(err, manager.ErrUnknown) {
			return refuse("'snapctl tag' lists names", "%v", err)
		}
		if err != nil {
			return err
		}
		if rev := history.NameOf(was.Entry, was); a.flags.json {
			err = a.printJSON(struct {
				Deleted string `json:"deleted"`
				Rev     string `json:"rev"`
			}{name, rev})
		} else if !a.flags.quiet {
			fmt.Fprintf(a.out, "%s was %s\n", words.Quote(name), rev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
