package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/tree"
)

// addAll adds all tools.
func (x *tools) addAll() {
	add(x, "snapshot_create", "Take a snapshot", records,
		"Record the present state of all files as a step that restore can take back. "+
			"Says what changed since the snapshot before, and what was not captured. Nothing is recorded if nothing "+
			"changed and no label is given.", create)
	add(x, "snapshot_list", "List snapshots", looks,
		"List the session's history, oldest first: steps, restores, what others changed in between, and the start. "+
			"Its entry ids and tree hashes are revisions for the other tools.", list)
	x.addDiffs()
	x.addRestores()
	x.addEdits()
}

// CreateArgs are the arguments of snapshot_create.
type CreateArgs struct {
	Label   string `json:"label,omitempty" jsonschema:"short name for the snapshot; one with a label is recorded even if nothing changed"`
	Partial bool   `json:"partial,omitempty" jsonschema:"over a limit of size or time, take what fits instead of failing"`
}

// Created is what snapshot_create did.
type Created struct {
	Told
	Recorded    bool           `json:"recorded" jsonschema:"false: nothing has changed and no label was given"`
	EntryID     string         `json:"entryId,omitempty" jsonschema:"revision of the new snapshot"`
	TreeHash    string         `json:"treeHash" jsonschema:"hash of the state of all files; a revision, too"`
	TurnIndex   *int           `json:"turnIndex,omitempty" jsonschema:"of the new step: the revision turn:N"`
	Since       string         `json:"since" jsonschema:"entry id or tree hash of the snapshot before"`
	Files       int64          `json:"files" jsonschema:"captured"`
	Added       int            `json:"added"`
	Modified    int            `json:"modified"`
	Deleted     int            `json:"deleted"`
	Changes     []Change       `json:"changes" jsonschema:"what differs from the snapshot before"`
	Unlisted    int            `json:"unlisted,omitempty" jsonschema:"changes more than listed: snapshot_diff from since to treeHash has all"`
	Unknown     string         `json:"unknown,omitempty" jsonschema:"why the changes, or who made them, are not all known: what was there before is lost"`
	NotCaptured map[string]int `json:"notCaptured,omitempty" jsonschema:"how much was left out, by reason; an ignored directory counts once"`
	Missing     []Omission     `json:"missing,omitempty" jsonschema:"the first of those that were left out for another reason than a rule"`
	Partial     bool           `json:"partial,omitempty" jsonschema:"a limit was reached: not all was captured"`
	Secrets     []string       `json:"secrets,omitempty" jsonschema:"files that were captured and seem to hold secrets, by their names; tell the user, who can leave them out and forget them; told once"`

	label string
	start bool // the snapshot before is the start of the session
}

// A Change is a path that is not as it was.
type Change struct {
	FilePath
	Status string `json:"status" jsonschema:"added, modified or deleted; captured or uncaptured if only a rule or a limit changed"`
	By     string `json:"by,omitempty" jsonschema:"other: not made by this session while it was served, such as changes of the user before it began; contested: perhaps another session's; unknown: what was there before is lost"`
}

// An Omission was left out of a snapshot.
type Omission struct {
	FilePath
	Reason string `json:"reason"`
}

// maxMissing is how many omissions are named, by reason.
const maxMissing = 5

func create(ctx context.Context, m *manager.FileSnapshotManager, p *CreateArgs) (*Created, error) {
	if utf8.RuneCountInString(p.Label) > maxLabel {
		return nil, badArgument("label: want at most %d characters", maxLabel)
	}
	r, err := m.Snapshot(ctx, &manager.SnapshotOptions{Label: p.Label, Partial: p.Partial})
	if err != nil {
		return nil, err
	}
	c := &Created{Recorded: r.Data != nil, EntryID: r.EntryID, TreeHash: r.Tree.String(),
		Files: r.Capture.Files + r.Capture.Symlinks, Partial: r.Capture.Partial,
		Changes: []Change{}, Secrets: r.Secrets, label: p.Label}
	if r.Data != nil {
		c.TurnIndex = &r.Data.TurnIndex
	}
	left := room
	if err := c.addMissing(ctx, m, r.Capture, &left); err != nil || r.Since == nil {
		return c, err
	}
	c.start = r.Since.TurnIndex < 0
	if c.Since = r.Since.EntryID; c.Since == "" {
		c.Since = r.Since.State.Tree.String()
	}
	return c, c.addChanges(ctx, m, r, left)
}

// addChanges says what differs from the snapshot before, and whose doing it was.
func (c *Created) addChanges(ctx context.Context, m *manager.FileSnapshotManager, r *manager.Result, left int) error {
	by, others := make(map[string]string), "other"
	if r.Data != nil {
		if d := r.Data.Diff; d != nil && d.Unknown != "" {
			c.Unknown, others = d.Unknown, "unknown"
		}
		for who, d := range map[string]*manager.Diff{"": r.Data.Diff, "contested": r.Data.Contested} {
			if d == nil {
				continue
			}
			for path := range d.Paths() {
				by[path] = who
			}
		}
	}
	now := r.Since.State
	now.Tree, now.Coverage = r.Tree, r.Capture.Coverage
	var all []Change
	for d, err := range trees.Compare(ctx, inside.Store(m), r.Since.State, now) {
		if trees.IsLoss(err) {
			c.Unknown = err.Error()
			break
		}
		if err != nil {
			return err
		}
		switch d.Status {
		case tree.Added:
			c.Added++
		case tree.Modified, tree.Retyped:
			c.Modified++
		case tree.Deleted:
			c.Deleted++
		default:
			if !c.Recorded { // the coverage on record is that of the snapshot before
				continue
			}
		}
		who, known := by[d.Path]
		if !known {
			who = others
		}
		all = append(all, Change{newPath(d.Path), d.Status.String(), who})
	}
	n := fitNames(all, &left)
	c.Changes, c.Unlisted = append(c.Changes, all[:n]...), len(all)-n
	return nil
}

// addMissing says what was left out.
func (c *Created) addMissing(ctx context.Context, m *manager.FileSnapshotManager, r *tree.Result, left *int) error {
	if r.Coverage.IsZero() {
		return nil
	}
	c.NotCaptured = make(map[string]int)
	for o, err := range trees.Coverage(ctx, inside.Store(m), r.Coverage) {
		if err != nil {
			return err
		}
		why := o.Reason.String()
		c.NotCaptured[why]++
		switch o.Reason {
		case trees.TooLarge, trees.Unreadable, trees.Unstable, trees.OverBudget:
			if c.NotCaptured[why] <= maxMissing {
				c.Missing = append(c.Missing, Omission{newPath(o.Path), why})
			}
		}
	}
	c.Missing = c.Missing[:fit(c.Missing, left)]
	return nil
}

func (c *Created) text() string {
	var b strings.Builder
	switch {
	case !c.Recorded:
		since := c.Since
		if c.start {
			since = "the start of the session"
		}
		what := "Nothing"
		if len(c.Changes) > 0 {
			what = "Nothing of this session's"
		}
		fmt.Fprintf(&b, "%s changed since %s: nothing was recorded (tree %s, %s).", what, since, c.TreeHash,
			words.Count(c.Files, "file"))
	case c.Since == "":
		fmt.Fprintf(&b, "Recorded %s, the first snapshot of the session (tree %s, %s).", c.EntryID, c.TreeHash,
			words.Count(c.Files, "file"))
	default:
		fmt.Fprintf(&b, "Recorded %s as turn:%d (tree %s, %s): %d added, %d modified, %d deleted.", c.EntryID,
			*c.TurnIndex, c.TreeHash, words.Count(c.Files, "file"), c.Added, c.Modified, c.Deleted)
	}
	for _, ch := range c.Changes {
		fmt.Fprintf(&b, "\n%s %s", ch.Status, &ch.FilePath)
		if ch.By != "" {
			fmt.Fprintf(&b, " (%s)", ch.By)
		}
	}
	if c.Unknown != "" {
		fmt.Fprintf(&b, "\nNot all that changed is known: %s.", c.Unknown)
	}
	if c.Unlisted > 0 {
		fmt.Fprintf(&b, "\nand %d more: snapshot_diff with from %q and to %q has all.", c.Unlisted, c.Since, c.TreeHash)
	}
	if len(c.NotCaptured) > 0 {
		var reasons []string
		for why, n := range c.NotCaptured {
			reasons = append(reasons, fmt.Sprintf("%d %s", n, why))
		}
		slices.Sort(reasons)
		fmt.Fprintf(&b, "\nNot captured: %s.", strings.Join(reasons, ", "))
	}
	for _, o := range c.Missing {
		fmt.Fprintf(&b, "\nnot captured %s: %s", &o.FilePath, o.Reason)
	}
	for _, path := range c.Secrets {
		fmt.Fprintf(&b, "\ncaptured, and seems to hold secrets: %s. Tell the user: a line /PATH in .booignore "+
			"leaves it out, and then 'snapctl forget PATH' removes what was stored.", words.Quote(path))
	}
	return b.String()
}

// ListArgs are the arguments of snapshot_list.
type ListArgs struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"entries at most; 0 for the default of 50, at most 200"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// A Snapshot is a line of the history.
type Snapshot struct {
	EntryID     string `json:"entryId,omitempty" jsonschema:"a revision"`
	Rev         string `json:"rev,omitempty" jsonschema:"a revision, where there is no entry id: look:N"`
	TurnIndex   *int   `json:"turnIndex,omitempty" jsonschema:"of a step: the revision turn:N"`
	Kind        string `json:"kind" jsonschema:"step, empty for a turn that changed nothing, start, fork, restore, undo, redo, or base for what no step changed: the user, another session"`
	TreeHash    string `json:"treeHash" jsonschema:"a revision"`
	Time        string `json:"time,omitempty" jsonschema:"RFC 3339"`
	Label       string `json:"label,omitempty"`
	Title       string `json:"title,omitempty" jsonschema:"first line of what the turn was to do"`
	Added       int    `json:"added"`
	Modified    int    `json:"modified"`
	Deleted     int    `json:"deleted"`
	Unknown     string `json:"unknown,omitempty" jsonschema:"why these three are not all: what was there before is lost"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Partial     bool   `json:"partial,omitempty"`
	TakenBack   string `json:"takenBack,omitempty" jsonschema:"when a restore took the turn back"`
	InPart      bool   `json:"inPart,omitempty" jsonschema:"a part of what the turn did is in, and a part is taken back: hunks says which"`
}

// Snapshots are a page of the history.
type Snapshots struct {
	Told
	Snapshots  []Snapshot `json:"snapshots"`
	Total      int        `json:"total" jsonschema:"entries on all pages"`
	NextCursor string     `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`
	NotAll     string     `json:"notAll,omitempty" jsonschema:"why there may have been more: what is damaged"`
}

func list(ctx context.Context, m *manager.FileSnapshotManager, p *ListArgs) (*Snapshots, error) {
	var all []Snapshot
	for mo, err := range m.Timeline(ctx) {
		if err != nil {
			return nil, err
		}
		line := Snapshot{EntryID: mo.EntryID, Kind: mo.Kind, TreeHash: mo.Tree.String(), Added: mo.Added,
			Modified: mo.Modified, Deleted: mo.Deleted,
			Title: words.FirstLine(mo.Title, maxLabel), Unknown: mo.Unknown, Interrupted: mo.Interrupted,
			Partial: mo.Partial, InPart: len(mo.But)+len(mo.Without) > 0}
		if mo.EntryID == "" {
			line.Rev = history.NameOf("", mo.Snapshot)
		}
		if mo.TurnIndex >= 0 {
			line.TurnIndex = &mo.TurnIndex
		}
		if s := mo.Snapshot; s != nil {
			line.Time, line.Label = s.Time.Format(timeFormat), words.FirstLine(s.Label, maxLabel)
		}
		if s := mo.TakenBack; s != nil {
			line.TakenBack = s.Time.Format(timeFormat)
		}
		all = append(all, line)
	}
	slices.Reverse(all)
	before := func(item int) string { // what comes after may grow, and turns may be taken back
		part := slices.Clone(all[:min(item, len(all))])
		for i := range part {
			part[i].TakenBack, part[i].InPart = "", false
		}
		return digest("list", part)
	}
	c, err := parseCursorOf(p.Cursor, before)
	if err != nil {
		return nil, err
	}
	r := &Snapshots{Snapshots: []Snapshot{}, Total: len(all)}
	if r.NotAll, err = history.Shown(ctx, inside.Store(m), m.Project().Worktree); err != nil {
		return nil, err
	}
	rest := all[min(c.item, len(all)):min(c.item+pageLimit(p.Limit), len(all))]
	left := room
	r.Snapshots = append(r.Snapshots, rest[:fit(rest, &left)]...)
	if c.item += len(r.Snapshots); c.item < len(all) {
		r.NextCursor = cursor{of: before(c.item), item: c.item}.String()
	}
	return r, nil
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// pageLimit returns how many items a page may have.
func pageLimit(n int) int {
	if n <= 0 {
		n = pageSize
	}
	return min(n, maxPageSize)
}

func (r *Snapshots) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s, oldest first:", len(r.Snapshots), words.Count(r.Total, "entry"))
	for _, s := range r.Snapshots {
		name := s.EntryID + s.Rev
		if s.TurnIndex != nil {
			name = fmt.Sprintf("turn:%d %s", *s.TurnIndex, name)
		}
		if name != "" {
			name += " "
		}
		fmt.Fprintf(&b, "\n%s %stree %s %s: %d added, %d modified, %d deleted", s.Kind, name, s.TreeHash[:12], s.Time,
			s.Added, s.Modified, s.Deleted)
		if s.Label != "" {
			fmt.Fprintf(&b, " %q", s.Label)
		}
		if s.Title != "" {
			fmt.Fprintf(&b, " for %q", s.Title)
		}
		if s.TakenBack != "" {
			fmt.Fprintf(&b, " (taken back %s)", s.TakenBack)
		}
		for what, is := range map[string]bool{" (interrupted)": s.Interrupted, " (partial)": s.Partial,
			" (in part)": s.InPart, " (not all changes are known)": s.Unknown != ""} {
			if is {
				b.WriteString(what)
			}
		}
	}
	if r.NotAll != "" {
		b.WriteString("\nThere may have been more: " + r.NotAll + ".")
	}
	return b.String() + more(r.NextCursor)
}

// more says how a list goes on.
func more(cursor string) string {
	if cursor == "" {
		return ""
	}
	return fmt.Sprintf("\nThere is more: call again with cursor %q and the same arguments.", cursor)
}
