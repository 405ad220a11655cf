package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (x *tools) addBlame() {
	add(x, "blame", "Find who wrote each line", looks,
		"Say which step, and so which prompt, wrote each line of a file, of whatever session, or that the user did; "+
			"as git blame does for commits. It follows files that were moved, and looks through restores.", blameFile)
}

// BlameArgs are the arguments of blame.
type BlameArgs struct {
	Path  string `json:"path" jsonschema:"the file, relative to the root"`
	Rev   string `json:"rev,omitempty" jsonschema:"revision; default disk, the file as it is now"`
	Start int    `json:"start,omitempty" jsonschema:"the first line that is wanted, from 1"`
	End   int    `json:"end,omitempty" jsonschema:"the last line that is wanted"`
}

// A Blamed says who wrote the lines of a file.
type Blamed struct {
	Told
	Path   string               `json:"path"`
	Rev    string               `json:"rev"`
	Lines  int                  `json:"lines" jsonschema:"of the file"`
	Ranges []manager.BlameRange `json:"ranges" jsonschema:"in order, without a gap; start and end are lines from 1, both included"`
	Next   int                  `json:"nextStart,omitempty" jsonschema:"there is more: call again with it as start"`
}

// mostRanges is how many ranges one answer has.
const mostRanges = 200

func blameFile(ctx context.Context, m *manager.FileSnapshotManager, p *BlameArgs) (*Blamed, error) {
	b, err := m.Blame(ctx, &manager.BlameOptions{Path: p.Path, Rev: p.Rev, Start: p.Start, End: p.End})
	if err != nil {
		return nil, err
	}
	r := &Blamed{Path: b.Path, Rev: b.Rev, Lines: b.Lines, Ranges: b.Ranges}
	if len(r.Ranges) > mostRanges {
		r.Next = r.Ranges[mostRanges].Start
		r.Ranges = r.Ranges[:mostRanges]
	}
	for i := range r.Ranges {
		r.Ranges[i].Owner.Title = words.FirstLine(r.Ranges[i].Owner.Title, maxLabel)
	}
	return r, nil
}

func (r *Blamed) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %s:", quote(r.Path), words.Count(r.Lines, "line"))
	for _, g := range r.Ranges {
		fmt.Fprintf(&b, "\n%d-%d %s", g.Start, g.End, whose(&g.Owner))
	}
	if r.Next > 0 {
		fmt.Fprintf(&b, "\nThere is more: call again with start %d.", r.Next)
	}
	return b.String()
}

// whose says who wrote lines.
func whose(o *manager.BlameOwner) string {
	who := o.Kind
	switch {
	case o.Kind == "turn":
		who = fmt.Sprintf("%s, turn:%d of session %s", o.Entry, o.Turn, o.Session)
		if o.Certainty == "window" {
			who += " (it was the only one at work)"
		}
	case o.Kind == "user":
		who = "the user"
	case len(o.By) > 0:
		who += ": " + strings.Join(o.By, ", ")
	}
	if o.Title != "" {
		who += fmt.Sprintf(" %q", o.Title)
	}
	return who
}
