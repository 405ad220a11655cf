package mcp

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// HunksArgs are the arguments of hunks.
type HunksArgs struct {
	Turn   string   `json:"turn,omitempty" jsonschema:"revision of the step whose own changes are wanted; default @, the newest step"`
	From   string   `json:"from,omitempty" jsonschema:"in place of turn: revision of the old side; default start"`
	To     string   `json:"to,omitempty" jsonschema:"in place of turn: revision of the new side; default as the session stands now"`
	Paths  []string `json:"paths,omitempty" jsonschema:"only these files, directories and globs, relative to the root"`
	Lines  *LinesOf `json:"lines,omitempty" jsonschema:"in place of all these: lines of a file as it is now, of which the pieces are wanted that wrote them"`
	Cursor string   `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// LinesOf are lines of a file.
type LinesOf struct {
	Path  string `json:"path" jsonschema:"the file, relative to the root"`
	Start int    `json:"start" jsonschema:"the first line, from 1"`
	End   int    `json:"end" jsonschema:"the last line"`
}

// A Hunk is a piece of a change.
type Hunk struct {
	FilePath
	ID     string  `json:"id"`
	Kind   string  `json:"kind" jsonschema:"lines; mode, of a file; whole: a file that was made, deleted or replaced, or is no text"`
	Window int     `json:"window,omitempty" jsonschema:"from 1, if the step has changed the file, somebody else has, and the step again"`
	Before [2]int  `json:"before" jsonschema:"lines [from, to) before the change, counted from 0"`
	After  [2]int  `json:"after" jsonschema:"lines after it"`
	Now    *[2]int `json:"now" jsonschema:"lines in the file as it is now; null with a conflict"`
	State  string  `json:"state" jsonschema:"what taking it back would do: clean, conflict (its lines were changed since and stay) or done (it is taken back already)"`
	By     string  `json:"by,omitempty" jsonschema:"whose change it is"`

	BlockedBy []string `json:"blockedBy,omitempty" jsonschema:"with a conflict: who has changed its lines since"`

	Text  string `json:"text" jsonschema:"as in a unified diff"`
	IsCut bool   `json:"isCut,omitempty" jsonschema:"text is only the beginning"`
}

// Hunks are a page of hunks.
type Hunks struct {
	Told
	Hunks      []Hunk `json:"hunks" jsonschema:"in order of path and line"`
	NextCursor string `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`

	isOfLines bool

	Left []manager.BlameRange `json:"left,omitempty" jsonschema:"of lines: those that no piece of a step wrote, and why; with the last page"`
}

func (x *tools) addHunks() {
	add(x, "hunks", "List pieces of a change", looks,
		"List the pieces of what one step did, or of what differs between two revisions, each with an id, its lines "+
			"and what would come of taking it back, which revert does with hunks; or those that wrote certain lines. "+
			"Revisions: "+revisions+". Long lists come in pages.",
		listHunks)
}

func listHunks(ctx context.Context, m *manager.FileSnapshotManager, p *HunksArgs) (*Hunks, error) {
	if p.Turn != "" && (p.From != "" || p.To != "") {
		return nil, badArgument("turn goes without from and to")
	}
	q := &manager.HunkRange{From: p.From, To: p.To, Paths: p.Paths}
	if p.Lines != nil {
		if p.Turn+p.From+p.To != "" || len(p.Paths) > 0 {
			return nil, badArgument("lines go without turn, from, to and paths")
		}
		q.Lines = &manager.BlameOptions{Path: p.Lines.Path, Start: p.Lines.Start, End: p.Lines.End}
	} else if p.From == "" && p.To == "" {
		q.Turns = []string{cmp.Or(p.Turn, "@")}
	}
	c, err := parseCursor(p.Cursor, digest(q))
	if err != nil {
		return nil, err
	}
	r, left, n := &Hunks{Hunks: []Hunk{}, isOfLines: p.Lines != nil}, room, 0
	for {
		list, err := m.Hunks(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range list.Hunks {
			if n++; n <= c.item {
				continue
			}
			h := newHunk(&list.Hunks[i])
			if len(r.Hunks) == maxPageSize || fit([]Hunk{h}, &left) == 0 {
				r.NextCursor = cursor{c.of, n - 1, 0}.String()
				return r, nil
			}
			r.Hunks = append(r.Hunks, h)
		}
		if q.Cursor = list.NextCursor; q.Cursor == "" {
			r.Left = list.Left
			return r, nil
		}
	}
}

func newHunk(h *manager.Hunk) Hunk {
	left := maxHunkChars
	text := cut("", strings.ToValidUTF8(h.Text, "\uFFFD"), &left)
	return Hunk{FilePath: newPath(h.Path), ID: h.ID, Kind: h.Kind, Window: h.Window, Before: h.Before, After: h.After,
		Now: h.Now, State: h.State, By: h.By, BlockedBy: h.BlockedBy, Text: text, IsCut: len(text) < len(h.Text)}
}

// maxHunkChars bounds what is shown of one hunk.
const maxHunkChars = 4_000

func (r *Hunks) text() string {
	var b strings.Builder
	switch {
	case len(r.Hunks) > 0:
		fmt.Fprintf(&b, "%s:", words.Count(len(r.Hunks), "hunk"))
	case r.isOfLines:
		b.WriteString("No step wrote these lines so that they can be taken back by themselves.")
	default:
		b.WriteString("No file differs there.")
	}
	for _, h := range r.Hunks {
		fmt.Fprintf(&b, "\n%s %s %s", h.ID, &h.FilePath, h.State)
		if h.Kind != "lines" {
			fmt.Fprintf(&b, " (%s)", h.Kind)
		}
		if len(h.BlockedBy) > 0 {
			fmt.Fprintf(&b, " with %s", strings.Join(h.BlockedBy, ", "))
		}
		if h.Window > 0 {
			fmt.Fprintf(&b, " (window %d)", h.Window)
		}
		if r.isOfLines {
			fmt.Fprintf(&b, " by %s", h.By)
		}
		fmt.Fprintf(&b, "\n%s", strings.TrimSuffix(h.Text, "\n"))
		if h.IsCut {
			b.WriteString("\n…")
		}
	}
	for i := range r.Left {
		g := &r.Left[i]
		fmt.Fprintf(&b, "\nleft: %d-%d %s (%s)", g.Start, g.End, whose(&g.Owner), g.Why)
	}
	return b.String() + more(r.NextCursor)
}
