package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// noteOthers names the paths of a turn's diff at which others have worked, too.
func (d *differ) noteOthers() {
	var contested, mixed []string
	for _, c := range d.Turn.Changes {
		if c.Owner == manager.Contested {
			contested = append(contested, c.Path)
		}
		if c.Pieces > 1 && c.Piece == 1 {
			mixed = append(mixed, c.Path)
		}
	}
	if len(contested) > 0 {
		d.app.note("contested, it may have been another session, or the user: %s", someOf(contested))
	}
	if len(mixed) > 0 {
		d.app.note("left out, as you or another session made them during the turn: changes of %s", someOf(mixed))
	}
}

// someOf lists paths, or the first of them.
func someOf(paths []string) string {
	const most = 10
	paths = slices.Compact(paths) // pieces of one follow one another
	text := quoteAll(paths[:min(len(paths), most)])
	if len(paths) > most {
		text += " and others"
	}
	return text
}

// A jsonTurn is whose diff it is, in JSON.
type jsonTurn struct {
	Rev       *string  `json:"rev"` // that names it; null: nothing does
	EntryID   *string  `json:"entryId"`
	TurnIndex *int     `json:"turnIndex"` // null: it is no turn
	Kind      string   `json:"kind"`
	TreeHash  store.ID `json:"treeHash,omitzero"`
	Unknown   string   `json:"unknown,omitempty"` // why files are not all
}

func newJSONTurn(t *manager.TurnDiff) *jsonTurn {
	j := &jsonTurn{Rev: words.OrNull(history.NameOf(t.EntryID, t.Snapshot)), EntryID: words.OrNull(t.EntryID),
		TurnIndex: turnOrNull(t.TurnIndex), Kind: t.Kind, Unknown: t.Unknown}
	if t.Snapshot != nil {
		j.TreeHash = t.Snapshot.Tree
	}
	return j
}

// addTo adds the flags with which commands that are about turns show what these
// did.
func (f *diffFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.patch, "patch", "p", false, "print what it did, as a patch that git apply takes")
	flags.BoolVar(&f.stat, "stat", false, "print how many lines it changed in each file, as a chart")
	flags.BoolVarP(&f.renames, "find-renames", "M", false, "with these, show a file that was moved as one change")
	flags.IntVarP(&f.context, "unified", "U", 3, "print `N` lines around each change of a patch")
	f.addText(flags)
}

// checkShown refuses those of them that make no sense.
func (f *diffFlags) checkShown(cmd *cobra.Command) error {
	switch {
	case f.patch && f.stat:
		return usageError(cmd, "%s: --patch and --stat", cmd.Name())
	case f.context < 0:
		return usageError(cmd, "%s: -U %d: want 0 or more", cmd.Name(), f.context)
	}
	return nil
}

// shows reports whether there is something to print of each turn.
func (f *diffFlags) shows() bool { return f.patch || f.stat }

// turnDiffer returns a differ of what a turn did.
func (p *place) turnDiffer(t *manager.TurnDiff, f *diffFlags) *differ {
	d := p.newDiffer(f)
	d.Turn = t
	return d
}

// list returns the changes in JSON.
func (d *differ) list(ctx context.Context, only filter) ([]*jsonChange, error) {
	list := []*jsonChange{}
	for c, err := range d.changes(ctx, only) {
		if err != nil {
			return nil, err
		}
		j, err := d.jsonOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, nil
}

// turnDiff returns what the turn did that a REV names, or what was found where it
// names no turn.
func (p *place) turnDiff(ctx context.Context, text string) (*manager.TurnDiff, error) {
	if _, err := p.resolve(ctx, text); err != nil { // which settles on a session
		return nil, err
	}
	t, err := p.m.TurnDiff(ctx, text)
	if err == nil && t.Kind == "start" {
		err = refuse("'snapctl ls -r "+text+"' lists its files", "revision %q: the start of a session is no turn",
			text)
	}
	return t, err
}
