package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (x *tools) addFind() {
	add(x, "find", "Find when a text came or went", looks,
		"List the steps by which a text came into files or went from them, newest first, with the line: in another "+
			"number of places it is there after than it was before. It looks at steps of all sessions, restores and "+
			"the user's changes. With gone it finds what was deleted. A file that was moved has not changed.", find)
}

// FindArgs are the arguments of find.
type FindArgs struct {
	Text       string   `json:"text" jsonschema:"what to look for, as it is"`
	Regexp     bool     `json:"regexp,omitempty" jsonschema:"text is a regular expression (RE2); ^ and $ are ends of lines"`
	IgnoreCase bool     `json:"ignoreCase,omitempty" jsonschema:"a letter is the same as its capital"`
	Gone       bool     `json:"gone,omitempty" jsonschema:"only how it went from files in which it is not any more"`
	Since      string   `json:"since,omitempty" jsonschema:"revision: only what came after it"`
	Paths      []string `json:"paths,omitempty" jsonschema:"only these files and directories, relative to the root"`
	Limit      int      `json:"limit,omitempty" jsonschema:"changes at most; 0 for the default of 50, at most 200"`
	Cursor     string   `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// A FoundChange is one by which a text came or went.
type FoundChange struct {
	FilePath
	Rev     string `json:"rev" jsonschema:"revision of the step, the restore, or of what the user did"`
	Turn    int    `json:"turnIndex" jsonschema:"-1: no step"`
	Session string `json:"session"`
	Kind    string `json:"kind" jsonschema:"step, restore, undo, redo, base for what no step did, or start for what was there before"`
	Owner   string `json:"owner,omitempty" jsonschema:"of the change: turn, claimed, contested, offline for the user's, other for another session's"`
	Before  int    `json:"before" jsonschema:"places in which the text was"`
	After   int    `json:"after" jsonschema:"places in which it is then"`
	Line    int    `json:"line" jsonschema:"number of the line, after the change if the text came, before it if it went"`
	Text    string `json:"text" jsonschema:"the line"`
	Time    string `json:"time"`
	Title   string `json:"title,omitempty" jsonschema:"what the step was for"`
}

// FoundChanges are a page of them.
type FoundChanges struct {
	Told
	Found      []FoundChange `json:"found" jsonschema:"newest first"`
	NotAll     string        `json:"notAll,omitempty" jsonschema:"why there may be more: what could not be searched"`
	NextCursor string        `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`
}

func find(ctx context.Context, m *manager.FileSnapshotManager, p *FindArgs) (*FoundChanges, error) {
	asked := *p
	asked.Cursor, asked.Limit = "", 0
	c, err := parseCursor(p.Cursor, digest(asked))
	if err != nil {
		return nil, err
	}
	r, i, end := &FoundChanges{Found: []FoundChange{}}, 0, c.item+pageLimit(p.Limit)
	isAll := true
	for f, err := range m.Find(ctx, &manager.FindOptions{Text: p.Text, Regexp: p.Regexp, IgnoreCase: p.IgnoreCase,
		Gone: p.Gone, Since: p.Since, Paths: p.Paths}) {
		if errors.Is(err, manager.ErrNotAll) {
			r.NotAll = err.Error()
			break
		}
		if err != nil {
			return nil, err
		}
		if isAll = i < end; !isAll {
			break
		}
		if i++; i > c.item {
			r.Found = append(r.Found, FoundChange{newPath(f.Path), f.Rev, f.Turn, f.Session, f.Kind, string(f.Owner),
				f.Before, f.After, f.Line, f.Text, f.Time.Format(timeFormat), words.FirstLine(f.Title, maxLabel)})
		}
	}
	left := room
	n := fit(r.Found, &left)
	if n < len(r.Found) || !isAll {
		c.item += n
		r.NextCursor = c.String()
	}
	r.Found = r.Found[:n]
	return r, nil
}

func (r *FoundChanges) text() string {
	var b strings.Builder
	if len(r.Found) == 0 {
		b.WriteString("No change that is on record added or removed it. Files as they are now are not searched.")
	} else {
		fmt.Fprintf(&b, "%s:", words.Count(len(r.Found), "change"))
	}
	for _, f := range r.Found {
		who := f.Kind
		switch {
		case f.Turn >= 0:
			who = fmt.Sprintf("turn:%d", f.Turn)
		case f.Kind == "base":
			who = "the user"
		case f.Kind == "start":
			who = "before the first step"
		}
		fmt.Fprintf(&b, "\n%s %s, %s of session %s", f.Time, f.Rev, who, f.Session)
		if f.Owner == string(manager.Contested) {
			b.WriteString(", contested")
		}
		if f.Title != "" {
			fmt.Fprintf(&b, " %q", f.Title)
		}
		fmt.Fprintf(&b, "\n  %s:%d %d to %d: %q", &f.FilePath, f.Line, f.Before, f.After, f.Text)
	}
	if r.NotAll != "" {
		b.WriteString("\nThere may be more: " + r.NotAll + ".")
	}
	return b.String() + more(r.NextCursor)
}
