package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

const revisions = "start, @ (newest step), @~N (N steps before it), turn:N, an entry id or look:N as snapshot_list " +
	"has it, a time as @{2 hours ago}, a label, or a tree hash; 4 characters of an id or a hash are enough"

func (x *tools) addDiffs() {
	add(x, "snapshot_diff", "Compare snapshots", looks,
		"Compare two revisions, or a revision with the files as they are now (disk): a unified diff that git apply "+
			"takes, with lines added and deleted in each file. "+
			"With turn: what that one step did, and nothing that the user or another session did before or "+
			"meanwhile. Revisions: "+revisions+", disk. Long diffs come in pages.", snapshotDiff)
	add(x, "files_modified", "List modified files", looks,
		"List the files that this session's steps changed between two revisions, with what each comes to in all "+
			"(netStatus). "+
			"Changes that were not recorded yet are not among them: see snapshot_diff.", filesModified)
	add(x, "file_diff", "Compare one file", looks,
		"Show one file at two revisions: the unified diff, or all of the old or the new content. For the file as it "+
			"is now, use snapshot_diff with paths.", fileDiff)
	x.addHunks()
	addVerb(x, "whereis", "Find who changed a file", looks,
		"Say which step changed a file last, when, and whose change it was: offline is the user's.",
		map[string]string{"path": "the file, relative to the root"})
	x.addBlame()
	x.addFind()
}

// DiffArgs are the arguments of snapshot_diff.
type DiffArgs struct {
	From     string   `json:"from,omitempty" jsonschema:"revision of the old side; default @, the newest step"`
	To       string   `json:"to,omitempty" jsonschema:"revision of the new side; default disk, the files as they are now"`
	Turn     string   `json:"turn,omitempty" jsonschema:"in place of from and to: revision of a step whose own changes are wanted, or look:N for those of the user"`
	Paths    []string `json:"paths,omitempty" jsonschema:"only these files and directories, relative to the root"`
	StatOnly bool     `json:"statOnly,omitempty" jsonschema:"only which files differ and by how many lines, without the diff"`
	Cursor   string   `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// A Diff is a page of a comparison.
type Diff struct {
	Told
	From         string     `json:"from,omitempty" jsonschema:"tree hash of the old side; not with turn"`
	To           string     `json:"to,omitempty" jsonschema:"tree hash of the new side; not with turn"`
	Turn         string     `json:"turn,omitempty" jsonschema:"whose changes these are"`
	Unknown      string     `json:"unknown,omitempty" jsonschema:"with turn: why its changes are not all known"`
	FilesChanged int        `json:"filesChanged" jsonschema:"on all pages"`
	Files        []FileStat `json:"files" jsonschema:"those whose diff begins on this page"`
	UnifiedDiff  string     `json:"unifiedDiff" jsonschema:"of this page; pages put together are the whole"`
	DiffBytes    string     `json:"unifiedDiffBytes,omitempty" jsonschema:"the same in base64, if it is not UTF-8"`
	NextCursor   string     `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`

	statOnly bool
}

// A FileStat says how much of a file changed.
type FileStat struct {
	FilePath
	Status  string `json:"status" jsonschema:"added, modified or deleted; captured or uncaptured if only a rule or a limit changed"`
	Added   int    `json:"added" jsonschema:"lines"`
	Deleted int    `json:"deleted" jsonschema:"lines"`
	Binary  bool   `json:"binary,omitempty" jsonschema:"not text: its content is not shown"`
	By      string `json:"by,omitempty" jsonschema:"with turn: turn or claimed for the session's own, contested, offline for the user's, other for another session's"`
	Piece   int    `json:"piece,omitempty" jsonschema:"with turn: there are several, as somebody else has changed the file in between"`
}

// diskRev is what stands for the disk.
const diskRev = "disk"

func snapshotDiff(ctx context.Context, m *manager.FileSnapshotManager, p *DiffArgs) (*Diff, error) {
	if p.Turn != "" && (p.From != "" || p.To != "") {
		return nil, badArgument("turn goes without from and to")
	}
	from, to := cmp.Or(p.From, "@"), cmp.Or(p.To, diskRev)
	if from == diskRev && to == diskRev {
		return nil, badArgument("from and to are both disk: there is nothing to compare it with")
	}
	paths, err := treePaths(m, p.Paths)
	if err != nil {
		return nil, err
	}
	d := differ{verbs.NewComparison(m)}
	r := &Diff{Files: []FileStat{}, statOnly: p.StatOnly}
	var of string // what pages are of
	if p.Turn != "" {
		if d.Turn, err = m.TurnDiff(ctx, p.Turn); err != nil {
			return nil, err
		}
		if s := d.Turn.Snapshot; s != nil {
			d.Old.Point, d.New.Point = &manager.Point{State: s.Base}, &manager.Point{State: s.State()}
		}
		r.Turn, r.Unknown = cmp.Or(history.NameOf(d.Turn.EntryID, d.Turn.Snapshot), p.Turn), d.Turn.Unknown
		of = digest("turn", d.Turn, paths, p.StatOnly)
	} else {
		if err = d.resolve(ctx, m, from, &d.Old); err == nil {
			err = d.resolve(ctx, m, to, &d.New)
		}
		if err != nil {
			return nil, err
		}
		r.From, r.To = d.Old.State.Tree.String(), d.New.State.Tree.String()
		of = digest(d.Old.State, d.New.State, paths, p.StatOnly)
	}
	c, err := parseCursor(p.Cursor, of)
	if err != nil {
		return nil, err
	}
	return r, d.page(ctx, r, c, paths)
}

// A differ makes a page of a comparison.
type differ struct{ *verbs.Comparison }

// resolve finds the state that a revision stands for.
func (d differ) resolve(ctx context.Context, m *manager.FileSnapshotManager, rev string, s *verbs.Side) (err error) {
	if s.OnDisk = rev == diskRev; !s.OnDisk {
		s.Point, err = m.Resolve(ctx, rev)
		return err
	}
	// nothing is kept of it
	disk, g, err := inside.Of(m).Disk(ctx, &capture.Options{Limits: tree.Limits{NewBytes: -1, Files: -1}})
	if err != nil {
		return err
	}
	d.Trees = g
	s.Point = &manager.Point{State: store.State{Tree: disk.Tree, Coverage: disk.Coverage}}
	return nil
}

// page fills in what the page has that begins at c.
func (d differ) page(ctx context.Context, r *Diff, c cursor, paths []string) error {
	same := slices.Clone(paths) // those that have no difference
	left, full := room, false
	var text strings.Builder
	for change, err := range d.Changes(ctx) {
		if err != nil {
			return err
		}
		if !verbs.IsBelow(change.Path, paths) {
			continue
		}
		same = slices.DeleteFunc(same, func(p string) bool { return verbs.IsBelow(change.Path, []string{p}) })
		i := r.FilesChanged
		r.FilesChanged++
		if full || i < c.item {
			continue
		}
		from := 0
		if i == c.item {
			from = c.offset
		}
		next, err := d.add(ctx, r, &text, &change, from, &left)
		if err != nil {
			return err
		}
		if next >= 0 {
			full = true
			r.NextCursor = cursor{c.of, i, next}.String()
		}
	}
	for _, p := range same {
		if err := d.hasPath(ctx, p); err != nil {
			return err
		}
	}
	r.UnifiedDiff = text.String()
	r.DiffBytes = base64UnlessText(r.UnifiedDiff)
	return nil
}

// hasPath returns an error for a path that neither side has.
func (d differ) hasPath(ctx context.Context, p string) error {
	for _, s := range []verbs.Side{d.Old, d.New} {
		if s.Point == nil || s.State.IsZero() { // of a start there is no old side, and of a log's step none is at hand
			return nil
		}
		if _, err := trees.Lookup(ctx, d.Trees, s.State.Tree, p); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("path %q: %w: neither side has it, or it is not captured", p, manager.ErrUnknown)
}

// add adds a file's numbers and as much of its diff, from an offset, as fits. It
// returns the offset at which the next page goes on, -1 if all is there.
func (d differ) add(ctx context.Context, r *Diff, text *strings.Builder, change *manager.TurnChange, from int,
	left *int) (next int, err error) {
	old, new, err := d.Files(ctx, "", &change.Difference)
	if err != nil {
		return 0, err
	}
	var unified string
	onDisk := change.Status != tree.Captured && change.Status != tree.Uncaptured
	if !r.statOnly && onDisk && !trees.ModeOf(&change.Difference).IsDir() {
		unified = string(textdiff.AppendUnified(nil, old, new, nil))
	}
	if from > len(unified) {
		return 0, badArgument("cursor: no such place in the diff of %q", change.Path)
	}
	var stat FileStat
	spare := *left
	if from == 0 {
		stat = FileStat{FilePath: newPath(change.Path), Status: change.Status.String(), By: string(change.Owner)}
		if change.Pieces > 1 {
			stat.Piece = change.Piece
		}
		n := filediff.Count(old, new)
		stat.Added, stat.Deleted, stat.Binary = n.Added, n.Deleted, n.Binary
		if len(r.Files) == maxNames || fit([]FileStat{stat}, &spare) == 0 {
			return 0, nil
		}
	}
	unified = unified[from:]
	have := cut(text.String(), unified, &spare)
	if have == "" && unified != "" { // all of the file is for the next page
		return from, nil
	}
	*left = spare
	if from == 0 {
		r.Files = append(r.Files, stat)
	}
	if text.WriteString(have); len(have) < len(unified) {
		return from + len(have), nil
	}
	return -1, nil
}

func (r *Diff) text() string {
	var b strings.Builder
	if r.Turn != "" {
		fmt.Fprintf(&b, "%s changed by %s alone.", words.Count(r.FilesChanged, "path"), quote(r.Turn))
	} else {
		fmt.Fprintf(&b, "%s from tree %s to tree %s.", words.Count(r.FilesChanged, "path")+differs(r.FilesChanged),
			r.From[:12], r.To[:12])
	}
	if r.Unknown != "" {
		fmt.Fprintf(&b, "\nNot all that it changed is known: %s.", r.Unknown)
	}
	for _, f := range r.Files {
		fmt.Fprintf(&b, "\n%s %s", f.Status, &f.FilePath)
		switch {
		case f.Binary:
			b.WriteString(" (binary)")
		case f.Added+f.Deleted > 0:
			fmt.Fprintf(&b, " +%d -%d", f.Added, f.Deleted)
		}
		if f.By == string(manager.Contested) {
			b.WriteString(" (contested: perhaps another session's)")
		}
		if f.Piece > 0 {
			fmt.Fprintf(&b, " (piece %d: somebody else changed it in between)", f.Piece)
		}
	}
	if r.UnifiedDiff != "" {
		fmt.Fprintf(&b, "\n\n%s", strings.ToValidUTF8(r.UnifiedDiff, "\uFFFD"))
	}
	if r.DiffBytes != "" {
		b.WriteString("\nNot all of it is UTF-8: other bytes are shown as \uFFFD.")
	}
	return b.String() + more(r.NextCursor)
}

func differs(n int) string {
	if n == 1 {
		return " differs"
	}
	return " differ"
}

// treePaths returns arguments as trees have paths, "." for the root.
func treePaths(m *manager.FileSnapshotManager, args []string) ([]string, error) {
	var list []string
	for _, arg := range args {
		if arg == "" {
			return nil, badArgument("a path is empty: \".\" is all of the directory")
		}
		p, err := inside.Of(m).TreePath(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// ModifiedArgs are the arguments of files_modified.
type ModifiedArgs struct {
	From   string `json:"from,omitempty" jsonschema:"revision to begin at; default start"`
	To     string `json:"to,omitempty" jsonschema:"revision to end at; default where the session's files stand now"`
	All    bool   `json:"all,omitempty" jsonschema:"also files that come to nothing: changed and changed back"`
	Others bool   `json:"others,omitempty" jsonschema:"also what the user or another session changed"`
	Limit  int    `json:"limit,omitempty" jsonschema:"files at most; 0 for the default of 50, at most 200"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// A ModifiedFile is one that steps changed.
type ModifiedFile struct {
	FilePath
	Status        string `json:"status" jsonschema:"of its first change: added, modified or deleted"`
	NetStatus     string `json:"netStatus" jsonschema:"of all changes together; none: it is as it was"`
	Owner         string `json:"owner" jsonschema:"whose change: turn or claimed for this session's, contested, offline for the user's, other for another session's"`
	TurnIndex     int    `json:"turnIndex"`
	EntryID       string `json:"entryId"`
	LastTurnIndex int    `json:"lastTurnIndex"`
	LastEntryID   string `json:"lastEntryId"`
}

// Modified is a page of files.
type Modified struct {
	Told
	Files      []ModifiedFile `json:"files" jsonschema:"in order of path"`
	NextCursor string         `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`
}

func filesModified(ctx context.Context, m *manager.FileSnapshotManager, p *ModifiedArgs) (*Modified, error) {
	files, err := m.ModifiedFiles(ctx, &manager.Range{From: p.From, To: p.To, All: p.All, Foreign: p.Others})
	if err != nil {
		return nil, err
	}
	c, err := parseCursor(p.Cursor, digest(p.From, p.To, files))
	if err != nil {
		return nil, err
	}
	r := &Modified{Files: []ModifiedFile{}}
	all := files.Files
	for _, f := range all[min(c.item, len(all)):min(c.item+pageLimit(p.Limit), len(all))] {
		r.Files = append(r.Files, ModifiedFile{newPath(f.Path), f.Status, f.NetStatus, string(f.Owner), f.TurnIndex,
			f.EntryID, f.LastTurnIndex, f.LastEntryID})
	}
	left := room
	r.Files = r.Files[:fit(r.Files, &left)]
	if c.item += len(r.Files); c.item < len(all) {
		r.NextCursor = c.String()
	}
	return r, nil
}

func (r *Modified) text() string {
	var b strings.Builder
	if len(r.Files) == 0 {
		return "No step changed a file there. snapshot_diff has the changes that are not recorded yet."
	}
	fmt.Fprintf(&b, "%s:", words.Count(len(r.Files), "file"))
	for _, f := range r.Files {
		fmt.Fprintf(&b, "\n%s %s", f.NetStatus, &f.FilePath)
		if f.TurnIndex >= 0 {
			fmt.Fprintf(&b, " (turn:%d", f.TurnIndex)
			if f.LastTurnIndex != f.TurnIndex {
				fmt.Fprintf(&b, " to turn:%d", f.LastTurnIndex)
			}
			b.WriteString(")")
		}
		if f.Owner != string(manager.OwnTurn) {
			fmt.Fprintf(&b, " %s", f.Owner)
		}
	}
	return b.String() + more(r.NextCursor)
}

// FileDiffArgs are the arguments of file_diff.
type FileDiffArgs struct {
	Path   string `json:"path" jsonschema:"the file, relative to the root"`
	From   string `json:"from,omitempty" jsonschema:"revision of the old side; default start"`
	To     string `json:"to,omitempty" jsonschema:"revision of the new side; default as the session stands now"`
	Show   string `json:"show,omitempty" jsonschema:"what content has: diff (default), or all of the old or the new file"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

// A FileDiff is a file at two revisions.
type FileDiff struct {
	Told
	FilePath
	OldHash      string `json:"oldHash,omitempty" jsonschema:"BLAKE3 of the content; none: the file was not there"`
	NewHash      string `json:"newHash,omitempty"`
	OldMode      string `json:"oldMode,omitempty" jsonschema:"as git has it"`
	NewMode      string `json:"newMode,omitempty"`
	Binary       bool   `json:"binary,omitempty" jsonschema:"not text: its content is not shown"`
	Content      string `json:"content" jsonschema:"the diff, or the content asked for; of this page"`
	ContentBytes string `json:"contentBytes,omitempty" jsonschema:"the same in base64, if it is not UTF-8"`
	NextCursor   string `json:"nextCursor,omitempty" jsonschema:"there is more: call again with it as cursor"`
}

func fileDiff(ctx context.Context, m *manager.FileSnapshotManager, p *FileDiffArgs) (*FileDiff, error) {
	if p.From == diskRev || p.To == diskRev {
		return nil, &hintError{badArgument("disk is not a revision here"),
			fmt.Sprintf("Call snapshot_diff with paths [%q].", p.Path)}
	}
	info, err := m.FileDiff(ctx, &manager.FileRange{Path: p.Path, From: p.From, To: p.To, Bytes: true})
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, fmt.Errorf("file %q: %w at either revision, or a directory", p.Path, manager.ErrUnknown)
	}
	r := &FileDiff{FilePath: newPath(info.Path), Binary: info.Binary}
	for text, value := range map[*string]*store.ID{&r.OldHash: info.OldHash, &r.NewHash: info.NewHash} {
		if value != nil {
			*text = value.String()
		}
	}
	for text, value := range map[*string]*string{&r.OldMode: info.OldMode, &r.NewMode: info.NewMode} {
		if value != nil {
			*text = *value
		}
	}
	text := info.UnifiedDiff
	switch {
	case p.Show == "" || p.Show == "diff":
	case info.Binary:
		text = ""
	case p.Show == "old":
		text = contentOf(info.OldContent, info.OldBytes)
	default:
		text = contentOf(info.NewContent, info.NewBytes)
	}
	c, err := parseCursor(p.Cursor, digest(r, p.Show))
	if err != nil {
		return nil, err
	}
	if c.offset > len(text) {
		return nil, badArgument("cursor: no such place in %q", p.Path)
	}
	left := room
	r.Content = cut("", text[c.offset:], &left)
	r.ContentBytes = base64UnlessText(r.Content)
	if c.offset += len(r.Content); c.offset < len(text) {
		r.NextCursor = c.String()
	}
	return r, nil
}

func contentOf(text *string, raw []byte) string {
	if text != nil {
		return *text
	}
	return string(raw)
}

func (r *FileDiff) text() string {
	var b strings.Builder
	b.WriteString(r.FilePath.String())
	switch {
	case r.OldHash == "":
		b.WriteString(": added")
	case r.NewHash == "":
		b.WriteString(": deleted")
	case r.OldHash == r.NewHash && r.OldMode == r.NewMode:
		b.WriteString(": the same at both revisions")
	default:
		b.WriteString(": modified")
	}
	if r.Binary {
		b.WriteString(" (binary: its content is not shown)")
	}
	if r.Content != "" {
		fmt.Fprintf(&b, "\n\n%s", strings.ToValidUTF8(r.Content, "\uFFFD"))
	}
	if r.ContentBytes != "" {
		b.WriteString("\nNot all of it is UTF-8: other bytes are shown as \uFFFD.")
	}
	return b.String() + more(r.NextCursor)
}
