package main

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/pflag"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// differences yields what there is to be printed, before it is chosen from.
func (d *differ) differences(ctx context.Context) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		if d.turn != nil {
			for _, c := range d.turnChanges() {
				if !yield(c, nil) {
					return
				}
			}
			return
		}
		for c, err := range trees.Compare(ctx, d.g, d.old.state(), d.new.state()) {
			if !yield(change{Difference: c}, err) || err != nil {
				return
			}
		}
	}
}

// turnChanges returns what a turn did, piece by piece. Where no piece is shown
// for itself those of a path are one change.
func (d *differ) turnChanges() []change {
	apart := d.flags.patch || d.app.flags.json
	var list []change
	for i := range d.turn.Changes {
		of := &d.turn.Changes[i]
		c := change{Difference: of.Difference, of: of}
		if n := len(list); !apart && n > 0 && list[n-1].Path == c.Path && of.Piece > 1 {
			first := &list[n-1]
			if len(first.pieces) == 0 {
				first.pieces = []change{*first}
			}
			first.pieces = append(first.pieces, c)
			first.New = c.New
			switch {
			case first.Old == nil && first.New != nil:
				first.Status = tree.Added
			case first.Old != nil && first.New == nil:
				first.Status = tree.Deleted
			default:
				first.Status = tree.Modified
			}
			continue
		}
		list = append(list, c)
	}
	return list
}

// afterTurn says what those must know who read a turn's diff, and returns the
// failure that the exit code stands for.
func (d *differ) afterTurn() error {
	var contested, mixed []string
	for _, c := range d.turn.Changes {
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
		d.app.note("somebody else has changed it during the turn, which is left out: %s", someOf(mixed))
	}
	switch {
	case d.turn.Unknown != "":
		return &failure{exitDamage, lossText(d.turn.Unknown), hintCheck}
	case d.flags.exitCode && d.found > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

// lossText is why what a turn did is not known.
type lossText string

func (e lossText) Error() string { return "what it did is not known: " + string(e) }

// someOf lists paths, or the first of them.
func someOf(paths []string) string {
	const most = 10
	var b strings.Builder
	last := ""
	n := 0
	for _, p := range paths {
		if p == last {
			continue
		}
		if last = p; n == most {
			return b.String() + " and others"
		}
		if n++; n > 1 {
			b.WriteString(", ")
		}
		b.WriteString(words.Quote(p))
	}
	return b.String()
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
	j := &jsonTurn{Rev: words.OrNull(manager.NameOf(t.EntryID, t.Snapshot)), EntryID: words.OrNull(t.EntryID),
		Kind: t.Kind, Unknown: t.Unknown}
	if t.TurnIndex >= 0 {
		j.TurnIndex = &t.TurnIndex
	}
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
	f.addRaw(flags)
}

// shows reports whether there is something to print of each turn.
func (f *diffFlags) shows() bool { return f.patch || f.stat }

// turnDiffer returns what prints a turn's diff, or, with JSON, returns it.
func (p *place) turnDiffer(t *manager.TurnDiff, f *diffFlags) *differ {
	return &differ{app: p.app, flags: f, m: p.m, g: p.store, turn: t}
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
		err = refuse("'snapctl ls -r "+text+"' lists what was there", "revision %q: the start of a session is no turn",
			text)
	}
	return t, err
}
