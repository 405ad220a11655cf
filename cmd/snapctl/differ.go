package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A differ prints how two states differ, or what a turn did.
type differ struct {
	*verbs.Comparison
	app   *app
	flags *diffFlags
	left  *leftOut // of the disk; nil if it takes no part

	found  int        // changes printed
	silent int        // changes that a patch or a count does not show
	spaced int        // files that differ in white space only, if that does not count
	stats  []fileStat // for the chart
}

func (p *place) newDiffer(f *diffFlags) *differ {
	return &differ{Comparison: verbs.NewComparison(p.m), app: p.app, flags: cmp.Or(f, new(diffFlags))}
}

// A change is a difference as it is printed.
type change struct {
	manager.TurnChange
	from       string   // where the file was; "": it was not moved
	similarity int      // to what it was there, in percent
	pieces     []change // of what a turn did there, where there are several and they are shown as one
}

// parts returns the pieces of a change, or itself.
func (c *change) parts() []change {
	if c.pieces == nil {
		return []change{*c}
	}
	return c.pieces
}

// run prints all that a filter keeps, and returns the failure that the exit code stands for.
func (d *differ) run(ctx context.Context, only filter) error {
	err := d.printAll(ctx, only)
	if errors.Is(err, manager.ErrStale) {
		return &failure{exitEnvironment, err, "run it again"}
	}
	if err != nil {
		return err
	}
	if d.silent > 0 {
		d.app.note("%s came or went by a rule, a limit or git's sparse checkout: see --name-status",
			words.Count(d.silent, "path"))
	}
	if d.spaced > 0 {
		d.app.note("%s changed in white space only: see it without -w", words.Count(d.spaced, "file"))
	}
	if d.left != nil {
		d.left.warn(d.app)
	}
	if d.Turn != nil {
		d.noteOthers()
	}
	switch {
	case d.left != nil && d.left.isPart():
		return &failure{code: exitPart}
	case d.Turn != nil && d.Turn.Unknown != "":
		return &failure{exitDamage, fmt.Errorf("the changes of the turn are not known: %s", d.Turn.Unknown), hintCheck}
	case d.flags.exitCode && d.found > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

func (d *differ) printAll(ctx context.Context, only filter) error {
	if err := d.begin(); err != nil {
		return err
	}
	for c, err := range d.changes(ctx, only) {
		if err == nil {
			err = d.print(ctx, &c)
		}
		if err != nil {
			return err
		}
		d.found++
	}
	d.end()
	return nil
}

// changes yields what is to be printed.
func (d *differ) changes(ctx context.Context, only filter) iter.Seq2[change, error] {
	all := d.allChanges(ctx, only)
	if !d.flags.ignoreSpace {
		return all
	}
	return func(yield func(change, error) bool) {
		for c, err := range all {
			isSpace := false
			if err == nil {
				isSpace, err = d.isSpace(ctx, &c)
			}
			if isSpace {
				d.spaced++
			} else if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// isSpace reports whether a change is of nothing but white space.
func (d *differ) isSpace(ctx context.Context, c *change) (bool, error) {
	for _, p := range c.parts() {
		if p.Old == nil || p.New == nil || p.Old.Mode != p.New.Mode || p.Old.Mode.IsDir() || p.from != "" ||
			p.Status != tree.Modified {
			return false, nil
		}
		old, new, err := d.Files(ctx, "", &p.Difference)
		if err != nil {
			return false, err
		}
		if filediff.Count(old, new).Binary || !bytes.Equal(textdiff.Respaced(old.Content, new.Content), new.Content) {
			return false, nil
		}
	}
	return true, nil
}

// allChanges yields all that a filter keeps.
func (d *differ) allChanges(ctx context.Context, only filter) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		var list []change // all, where changes may become one
		for c, err := range d.Changes(ctx) {
			switch {
			case err != nil:
				yield(change{}, err)
				return
			case !only.keeps(c.Path):
			case d.flags.renames || d.Turn != nil:
				list = d.add(list, change{TurnChange: c})
			case !yield(change{TurnChange: c}, nil):
				return
			}
		}
		var err error
		if d.flags.renames {
			list, err = d.pair(ctx, list)
		}
		for _, c := range list {
			if err != nil || !yield(c, nil) {
				break
			}
		}
		if err != nil {
			yield(change{}, err)
		}
	}
}

// add adds a change to a list. Where no piece of what a turn did is shown for itself
// those of a path are one change.
func (d *differ) add(list []change, c change) []change {
	n := len(list)
	if d.flags.patch || d.app.flags.json || c.Piece < 2 || n == 0 || list[n-1].Path != c.Path {
		return append(list, c)
	}
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
	return list
}

// pair makes one change of a file that was deleted and one that was added if
// they are the same file, moved.
func (d *differ) pair(ctx context.Context, changes []change) ([]change, error) {
	list := make([]tree.Difference, len(changes))
	for i, c := range changes {
		list[i] = c.Difference
	}
	renames, cut, err := trees.Renames(list, filediff.MaxText, func(c *tree.Difference, e *tree.Entry) ([]byte, error) {
		return d.Content(ctx, c, e)
	})
	if err != nil {
		return nil, err
	}
	if cut {
		d.app.note("too many files were added and deleted to compare all: some that were moved are not shown as such")
	}
	gone := make(map[int]bool)
	for _, r := range renames {
		to, from := &changes[r.To], &list[r.From]
		to.Old, to.from, to.similarity = from.Old, from.Path, r.Similarity
		to.Status = renamed
		gone[r.From] = true
	}
	var kept []change
	for i, c := range changes {
		if !gone[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// renamed is the status of a file that was moved, which only diff -M knows.
const renamed tree.Status = 'R'

// print prints one change in the format that was asked for.
func (d *differ) print(ctx context.Context, c *change) error {
	out := d.app.out
	path, end := listed(c.Path, trees.ModeOf(&c.Difference), d.flags.nul)
	status := string(byte(c.Status))
	if c.from != "" {
		status = fmt.Sprintf("R%03d", c.similarity)
	}
	switch {
	case d.app.flags.json:
		return d.printJSON(ctx, c)
	case d.flags.nameOnly:
		fmt.Fprintf(out, "%s%s", path, end)
	case d.flags.nameStatus && d.flags.nul:
		if c.from != "" {
			path = c.from + "\x00" + path
		}
		fmt.Fprintf(out, "%s\x00%s\x00", status, path)
	case d.flags.nameStatus:
		if c.from != "" {
			path = words.Quote(c.from) + "\t" + path
		}
		fmt.Fprintf(out, "%s\t%s\n", d.app.paint(statusColours[c.Status], status), path)
	case c.Status == tree.Captured || c.Status == tree.Uncaptured:
		d.silent++
	case d.flags.patch:
		return d.printPatch(ctx, c)
	default:
		s, err := d.stat(ctx, c)
		if err != nil {
			return err
		}
		switch {
		case c.from != "" && d.flags.nul: // as git has it
			path = "\x00" + c.from + "\x00" + path
		case c.from != "":
			path = words.Quote(c.from) + " => " + path
		}
		if d.flags.stat {
			if s.name = path; c.New != nil {
				s.path = c.Path
			}
			d.stats = append(d.stats, s)
			return nil
		}
		fmt.Fprintf(out, "%s\t%s%s", s.numbers(), path, end)
	}
	return nil
}

// unified returns the patch of one change, none for a directory, which
// patches do not know.
func (d *differ) unified(ctx context.Context, c *change) ([]byte, error) {
	if trees.ModeOf(&c.Difference).IsDir() {
		return nil, nil
	}
	old, new, err := d.Files(ctx, c.from, &c.Difference)
	if err != nil {
		return nil, err
	}
	lines := d.flags.context
	if lines == 0 {
		lines = -1 // 0 is the default there
	}
	opts := &textdiff.UnifiedOptions{Context: lines, IgnoreSpace: d.flags.ignoreSpace}
	return textdiff.AppendUnified(nil, old, new, opts), nil
}

func (d *differ) printPatch(ctx context.Context, c *change) error {
	text, err := d.unified(ctx, c)
	if err != nil {
		return err
	}
	if !d.flags.raw && isTerminal(d.app.stdout) {
		text = visiblePatch(text)
	}
	if d.app.colour {
		text = d.app.paintPatch(text)
	}
	_, err = d.app.out.Write(text)
	return err
}

// A fileStat counts the changed lines of a file.
type fileStat struct {
	filediff.Stat
	name             string
	path             string // "": it is not there
	oldSize, newSize int64
}

// stat counts the lines of a change, or of its pieces.
func (d *differ) stat(ctx context.Context, c *change) (s fileStat, err error) {
	if c.Old != nil {
		s.oldSize = c.Old.Size
	}
	if c.New != nil {
		s.newSize = c.New.Size
	}
	for _, p := range c.parts() {
		if p.Old != nil && p.New != nil && p.Old.ID == p.New.ID { // mode only
			continue
		}
		old, new, err := d.Files(ctx, p.from, &p.Difference)
		if err != nil {
			return s, err
		}
		if d.flags.ignoreSpace && !old.Opaque && !new.Opaque {
			old.Content = textdiff.Respaced(old.Content, new.Content)
		}
		n := filediff.Count(old, new)
		s.Added, s.Deleted, s.Binary = s.Added+n.Added, s.Deleted+n.Deleted, s.Binary || n.Binary
	}
	return s, nil
}

// numbers writes the columns of --numstat.
func (s *fileStat) numbers() string {
	if s.Binary {
		return "-\t-"
	}
	return fmt.Sprintf("%d\t%d", s.Added, s.Deleted)
}

// chartWidth is what a chart takes of a line at most, beside names and numbers.
const chartWidth = 40

// printChart prints --stat as git does, a line of it no wider than the terminal.
func (d *differ) printChart() {
	nameWidth, most, added, deleted := 0, 0, 0, 0
	for _, s := range d.stats {
		nameWidth = max(nameWidth, width(s.name))
		most = max(most, s.Added+s.Deleted)
		added += s.Added
		deleted += s.Deleted
	}
	if len(d.stats) == 0 {
		return
	}
	numWidth, chart := len(fmt.Sprint(most)), chartWidth
	if isTerminal(d.app.stdout) {
		columns, _ := d.app.terminalSize()
		const around, leastName, leastChart = len("  |  "), 12, 10
		room := columns - around - numWidth
		chart = min(chart, max(room-nameWidth, leastChart))
		nameWidth = min(nameWidth, max(room-chart, leastName))
	}
	scale := func(n int) int {
		if n == 0 || most <= chart {
			return n
		}
		return max(1, n*chart/most)
	}
	out := d.app.out
	for _, s := range d.stats {
		name := fitPath(s.name, nameWidth)
		space := strings.Repeat(" ", nameWidth-width(name))
		if s.path != "" {
			name = d.app.link(s.path, name)
		}
		fmt.Fprintf(out, " %s%s | ", name, space)
		if s.Binary {
			fmt.Fprintf(out, "Bin %d -> %d bytes\n", s.oldSize, s.newSize)
			continue
		}
		bar := d.app.paint(asAdded, strings.Repeat("+", scale(s.Added))) +
			d.app.paint(asRemoved, strings.Repeat("-", scale(s.Deleted)))
		if bar != "" {
			bar = " " + bar
		}
		fmt.Fprintf(out, "%*d%s\n", numWidth, s.Added+s.Deleted, bar)
	}
	total := " " + words.Count(len(d.stats), "file") + " changed"
	if added > 0 {
		total += ", " + words.Count(added, "insertion") + "(+)"
	}
	if deleted > 0 {
		total += ", " + words.Count(deleted, "deletion") + "(-)"
	}
	fmt.Fprintln(out, total)
}

// A jsonEnd is what one side of a diff is, in JSON.
type jsonEnd struct {
	TreeHash store.ID `json:"treeHash"`
	EntryID  *string  `json:"entryId"` // null: the disk, or a tree named by its hash
	Disk     bool     `json:"disk"`
}

func newJSONEnd(s *verbs.Side) jsonEnd {
	return jsonEnd{TreeHash: s.State.Tree, EntryID: words.OrNull(s.EntryID), Disk: s.OnDisk}
}

// A jsonChange is a change in JSON.
type jsonChange struct {
	jsonPath
	Status  string    `json:"status"`
	From    *jsonFrom `json:"renamedFrom,omitempty"` // with -M, of a file that was moved
	OldMode *string   `json:"oldMode"`
	NewMode *string   `json:"newMode"`
	OldSize *int64    `json:"oldSize"`
	NewSize *int64    `json:"newSize"`
	OldHash *store.ID `json:"oldHash"`
	NewHash *store.ID `json:"newHash"`

	// With --stat and --numstat.
	Added   *int  `json:"added,omitempty"`
	Deleted *int  `json:"deleted,omitempty"`
	Binary  *bool `json:"binary,omitempty"`

	// With --patch. The bytes come where the patch is not UTF-8.
	UnifiedDiff      *string `json:"unifiedDiff,omitempty"`
	UnifiedDiffBytes []byte  `json:"unifiedDiffBytes,omitempty"`

	// Of what a turn did.
	Owner  manager.Owner `json:"owner,omitempty"`
	Piece  int           `json:"piece,omitempty"` // from 1; absent: there is one
	Pieces int           `json:"pieces,omitempty"`
}

// A jsonFrom is where a file was.
type jsonFrom struct {
	jsonPath
	Similarity int `json:"similarity"` // in percent
}

func newJSONChange(c *change) *jsonChange {
	j := &jsonChange{jsonPath: newJSONPath(c.Path), Status: c.Status.String(), Owner: c.Owner}
	if c.from != "" {
		j.Status, j.From = "renamed", &jsonFrom{newJSONPath(c.from), c.similarity}
	}
	if c.Pieces > 1 {
		j.Piece, j.Pieces = c.Piece, c.Pieces
	}
	if c.Old != nil {
		j.OldMode, j.OldSize, j.OldHash = new(c.Old.Mode.String()), &c.Old.Size, &c.Old.ID
	}
	if c.New != nil {
		j.NewMode, j.NewSize, j.NewHash = new(c.New.Mode.String()), &c.New.Size, &c.New.ID
	}
	return j
}

func (d *differ) printJSON(ctx context.Context, c *change) error {
	j, err := d.jsonOf(ctx, c)
	if err != nil {
		return err
	}
	b, err := marshal(j)
	if d.found > 0 {
		d.app.out.WriteByte(',')
	}
	d.app.out.Write(b)
	return err
}

// jsonOf returns a change in JSON, with what the flags ask for.
func (d *differ) jsonOf(ctx context.Context, c *change) (*jsonChange, error) {
	j := newJSONChange(c)
	if d.flags.stat || d.flags.numstat {
		s, err := d.stat(ctx, c)
		if err != nil {
			return nil, err
		}
		j.Added, j.Deleted, j.Binary = &s.Added, &s.Deleted, &s.Binary
	}
	if d.flags.patch {
		text, err := d.unified(ctx, c)
		if err != nil {
			return nil, err
		}
		j.UnifiedDiff = new(string(text))
		if !utf8.Valid(text) {
			j.UnifiedDiffBytes = text
		}
	}
	return j, nil
}

// begin and end print what stands around the changes. In JSON these are
// written one by one, so that any number of them fits in memory.
func (d *differ) begin() error {
	if !d.app.flags.json {
		return nil
	}
	var of any
	if d.Turn != nil {
		of = newJSONTurn(d.Turn)
	} else {
		of = struct {
			From jsonEnd `json:"from"`
			To   jsonEnd `json:"to"`
		}{newJSONEnd(&d.Old), newJSONEnd(&d.New)}
	}
	b, err := marshal(of)
	fmt.Fprintf(d.app.out, "%s,\"files\":[", bytes.TrimSuffix(b, []byte("}")))
	return err
}

func (d *differ) end() {
	switch {
	case d.app.flags.json:
		fmt.Fprintln(d.app.out, "]}")
	case d.flags.stat:
		d.printChart()
	}
}
