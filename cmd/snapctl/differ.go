package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A differ prints how two trees differ.
type differ struct {
	app      *app
	flags    *diffFlags
	root     string      // of the disk
	g        tree.Getter // of both sides' trees, and of what the store holds
	old, new rev
	left     *leftOut // of the disk; nil if it takes no part

	found  int        // changes printed
	silent int        // changes that a patch or a count does not show
	stats  []fileStat // for the chart
}

func (d *differ) run(ctx context.Context, only filter) error {
	if err := d.begin(); err != nil {
		return err
	}
	for c, err := range tree.Compare(ctx, d.g, d.old.state(), d.new.state()) {
		if err != nil {
			return err
		}
		if !only.keeps(c.Path) {
			continue
		}
		if err := d.print(ctx, &c); err != nil {
			return err
		}
		d.found++
	}
	d.end()
	if err := d.app.out.Flush(); err != nil { // before what goes to stderr
		return err
	}
	if d.silent > 0 {
		d.app.note("%s came or went by a rule or a limit, not on the disk: see --name-status", count(d.silent, "path"))
	}
	if d.left != nil {
		d.left.warn(d.app)
	}
	switch {
	case d.left != nil && d.left.isPart():
		return &failure{code: exitPart}
	case d.flags.exitCode && d.found > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

// print prints one change in the format that was asked for.
func (d *differ) print(ctx context.Context, c *tree.Difference) error {
	out, end := d.app.out, "\n"
	path := shown(c.Path, c.Mode())
	if d.flags.nul {
		end, path = "\x00", withSlash(c.Path, c.Mode())
	}
	switch {
	case d.app.flags.json:
		return d.printJSON(ctx, c)
	case d.flags.nameOnly:
		fmt.Fprintf(out, "%s%s", path, end)
	case d.flags.nameStatus && d.flags.nul:
		fmt.Fprintf(out, "%c\x00%s\x00", c.Status, path)
	case d.flags.nameStatus:
		fmt.Fprintf(out, "%s\t%s\n", d.app.paint(statusColours[c.Status], string(c.Status)), path)
	case c.Status == tree.Captured || c.Status == tree.Uncaptured:
		d.silent++
	case d.flags.patch:
		return d.printPatch(ctx, c)
	default:
		s, err := d.stat(ctx, c)
		if err != nil {
			return err
		}
		if d.flags.stat {
			s.name = path
			d.stats = append(d.stats, s)
			return nil
		}
		fmt.Fprintf(out, "%s\t%s%s", s.numbers(), path, end)
	}
	return nil
}

// maxText is the size from which on a file is taken for binary: its lines
// are not compared, and it is not read.
const maxText = 10 << 20

func isLarge(c *tree.Difference) bool {
	return c.Old != nil && c.Old.Size > maxText || c.New != nil && c.New.Size > maxText
}

// content returns the bytes of one side of a change, nil if it is absent or a
// directory.
func (d *differ) content(ctx context.Context, r *rev, path string, e *tree.Entry) ([]byte, error) {
	switch {
	case e == nil || e.Mode.IsDir():
		return nil, nil
	case r.disk:
		return readDisk(d.root, path, e)
	}
	return d.g.Get(ctx, store.Blob, e.ID)
}

// contents returns both sides of a change, each the bytes of a file.
func (d *differ) contents(ctx context.Context, c *tree.Difference) (old, new []byte, err error) {
	if old, err = d.content(ctx, &d.old, c.Path, c.Old); err != nil {
		return nil, nil, err
	}
	if c.Old != nil && c.New != nil && c.Old.ID == c.New.ID {
		return old, old, nil
	}
	new, err = d.content(ctx, &d.new, c.Path, c.New)
	return old, new, err
}

// unified returns the patch of one change, none for a directory, which
// patches do not know.
func (d *differ) unified(ctx context.Context, c *tree.Difference) ([]byte, error) {
	if c.Mode().IsDir() {
		return nil, nil
	}
	if isLarge(c) {
		return largePatch(c), nil
	}
	old, new, err := d.contents(ctx, c)
	if err != nil {
		return nil, err
	}
	lines := d.flags.context
	if lines == 0 {
		lines = -1 // 0 is the default there
	}
	return patch.AppendUnified(nil, patchFile(c.Path, c.Old, old), patchFile(c.Path, c.New, new),
		&patch.UnifiedOptions{Context: lines}), nil
}

func patchFile(path string, e *tree.Entry, content []byte) patch.File {
	if e == nil {
		return patch.File{}
	}
	return patch.File{Name: path, Content: content, Mode: gitMode(e.Mode)}
}

// gitMode returns a mode as git writes it: there, links have no permissions.
func gitMode(m tree.Mode) uint32 {
	if m.IsSymlink() {
		m = tree.ModeSymlink
	}
	return uint32(m)
}

// largePatch says that files differ which are too large to be compared.
func largePatch(c *tree.Difference) []byte {
	a, b := patch.Quote("a/"+c.Path), patch.Quote("b/"+c.Path)
	text := fmt.Appendf(nil, "diff --git %s %s\n", a, b)
	switch {
	case c.Old == nil:
		a, text = "/dev/null", fmt.Appendf(text, "new file mode %06o\n", gitMode(c.New.Mode))
	case c.New == nil:
		b, text = "/dev/null", fmt.Appendf(text, "deleted file mode %06o\n", gitMode(c.Old.Mode))
	case c.Old.Mode != c.New.Mode:
		text = fmt.Appendf(text, "old mode %06o\nnew mode %06o\n", gitMode(c.Old.Mode), gitMode(c.New.Mode))
	}
	if c.Old != nil && c.New != nil && c.Old.ID == c.New.ID {
		return text
	}
	return fmt.Appendf(text, "Binary files %s and %s differ\n", a, b)
}

func (d *differ) printPatch(ctx context.Context, c *tree.Difference) error {
	text, err := d.unified(ctx, c)
	if err != nil {
		return err
	}
	if !d.app.colour {
		_, err = d.app.out.Write(text)
		return err
	}
	inHunk := false
	for line := range bytes.Lines(text) {
		s := strings.TrimSuffix(string(line), "\n")
		colour := ""
		switch {
		case line[0] == '@':
			colour, inHunk = cyan, true
		case line[0] == 'd': // no line of a hunk begins like this
			colour, inHunk = bold, false
		case !inHunk:
			colour = bold
		case line[0] == '+':
			colour = green
		case line[0] == '-':
			colour = red
		}
		if colour != "" {
			s = d.app.paint(colour, s)
		}
		fmt.Fprintln(d.app.out, s)
	}
	return nil
}

// A fileStat counts the changed lines of a file.
type fileStat struct {
	name           string
	added, deleted int
	binary         bool
	oldSize        int64
	newSize        int64
}

func (d *differ) stat(ctx context.Context, c *tree.Difference) (s fileStat, err error) {
	if c.Old != nil {
		s.oldSize = c.Old.Size
	}
	if c.New != nil {
		s.newSize = c.New.Size
	}
	switch {
	case c.Old != nil && c.New != nil && c.Old.ID == c.New.ID: // mode only
	case isLarge(c):
		s.binary = true
	default:
		old, new, err := d.contents(ctx, c)
		if err != nil {
			return s, err
		}
		s.added, s.deleted, s.binary = patch.Stat(old, new)
	}
	return s, nil
}

// numbers writes the columns of --numstat.
func (s *fileStat) numbers() string {
	if s.binary {
		return "-\t-"
	}
	return fmt.Sprintf("%d\t%d", s.added, s.deleted)
}

// chartWidth is what a chart takes of a line, beside names and numbers.
const chartWidth = 40

// printChart prints --stat as git does.
func (d *differ) printChart() {
	nameWidth, most, added, deleted := 0, 0, 0, 0
	for _, s := range d.stats {
		nameWidth = max(nameWidth, utf8.RuneCountInString(s.name))
		most = max(most, s.added+s.deleted)
		added += s.added
		deleted += s.deleted
	}
	if len(d.stats) == 0 {
		return
	}
	numWidth := len(fmt.Sprint(most))
	scale := func(n int) int {
		if n == 0 || most <= chartWidth {
			return n
		}
		return max(1, n*chartWidth/most)
	}
	out := d.app.out
	for _, s := range d.stats {
		pad := strings.Repeat(" ", nameWidth-utf8.RuneCountInString(s.name))
		if s.binary {
			fmt.Fprintf(out, " %s%s | Bin %d -> %d bytes\n", s.name, pad, s.oldSize, s.newSize)
			continue
		}
		line := fmt.Sprintf(" %s%s | %*d", s.name, pad, numWidth, s.added+s.deleted)
		if n := scale(s.added); n > 0 {
			line += " " + d.app.paint(green, strings.Repeat("+", n))
		}
		if n := scale(s.deleted); n > 0 {
			if s.added == 0 {
				line += " "
			}
			line += d.app.paint(red, strings.Repeat("-", n))
		}
		fmt.Fprintln(out, line)
	}
	total := " " + count(len(d.stats), "file") + " changed"
	if added > 0 {
		total += ", " + count(added, "insertion") + "(+)"
	}
	if deleted > 0 {
		total += ", " + count(deleted, "deletion") + "(-)"
	}
	fmt.Fprintln(out, total)
}

// A jsonEnd is what one side of a diff is, in JSON.
type jsonEnd struct {
	TreeHash store.ID `json:"treeHash"`
	EntryID  *string  `json:"entryId"` // null: the disk, or a tree named by its hash
	Disk     bool     `json:"disk"`
}

func newJSONEnd(r *rev) jsonEnd {
	return jsonEnd{TreeHash: r.State.Tree, EntryID: orNull(r.EntryID), Disk: r.disk}
}

// A jsonChange is a change in JSON.
type jsonChange struct {
	jsonPath
	Status  string    `json:"status"`
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
}

func newJSONChange(c *tree.Difference) *jsonChange {
	j := &jsonChange{jsonPath: newJSONPath(c.Path), Status: c.Status.String()}
	if c.Old != nil {
		j.OldMode, j.OldSize, j.OldHash = new(c.Old.Mode.String()), &c.Old.Size, &c.Old.ID
	}
	if c.New != nil {
		j.NewMode, j.NewSize, j.NewHash = new(c.New.Mode.String()), &c.New.Size, &c.New.ID
	}
	return j
}

func (d *differ) printJSON(ctx context.Context, c *tree.Difference) error {
	j := newJSONChange(c)
	if d.flags.stat || d.flags.numstat {
		s, err := d.stat(ctx, c)
		if err != nil {
			return err
		}
		j.Added, j.Deleted, j.Binary = &s.added, &s.deleted, &s.binary
	}
	if d.flags.patch {
		text, err := d.unified(ctx, c)
		if err != nil {
			return err
		}
		j.UnifiedDiff = new(string(text))
		if !utf8.Valid(text) {
			j.UnifiedDiffBytes = text
		}
	}
	b, err := marshal(j)
	if d.found > 0 {
		d.app.out.WriteByte(',')
	}
	d.app.out.Write(b)
	return err
}

// begin and end print what stands around the changes. In JSON these are
// written one by one, so that any number of them fits in memory.
func (d *differ) begin() error {
	if !d.app.flags.json {
		return nil
	}
	old, err := marshal(newJSONEnd(&d.old))
	if err != nil {
		return err
	}
	new, err := marshal(newJSONEnd(&d.new))
	if err != nil {
		return err
	}
	fmt.Fprintf(d.app.out, "{\"from\":%s,\"to\":%s,\"files\":[", old, new)
	return nil
}

func (d *differ) end() {
	switch {
	case d.app.flags.json:
		fmt.Fprintln(d.app.out, "]}")
	case d.flags.stat:
		d.printChart()
	}
}
