package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
)

func (x *tools) addEdits() {
	add(x, "patch_apply", "Edit files", rewrites,
		"Edit text files: all pieces of a patch, or none. Give path, old and new, or a patch. An old text must be "+
			"there exactly, and once; fuzzy: true also takes what is similar. "+
			"An empty old makes a new file. The files are saved first: patch_undo takes the edit back.",
		patchApply)
	add(x, "patch_undo", "Undo an edit", rewrites,
		"Take back one edit of patch_apply, or of patch_undo, by its undoId.", patchUndo, undoTexts)
}

// PatchArgs are the arguments of patch_apply.
type PatchArgs struct {
	Path         string            `json:"path,omitempty" jsonschema:"the file, relative to the root; with old and new, or with a patch that names none"`
	Old          string            `json:"old,omitempty" jsonschema:"text that is to be replaced; empty to make a new file"`
	New          string            `json:"new,omitempty" jsonschema:"text that replaces it"`
	Format       string            `json:"format,omitempty" jsonschema:"of patch, if its look does not tell: search-replace (blocks of <<<<<<< SEARCH, ======= and >>>>>>> REPLACE), v4a (*** Begin Patch), udiff (unified diff), or edits (JSON list)"`
	Patch        string            `json:"patch,omitempty" jsonschema:"the patch, in place of old and new"`
	Fuzzy        bool              `json:"fuzzy,omitempty" jsonschema:"also replace what is only similar to old (0.92 or more), such as other blanks or quotes: the new text gets the file's indentation and is merged with what is there"`
	Reindent     string            `json:"reindent,omitempty" jsonschema:"with fuzzy, default auto: give the new text the file's indentation; off: leave it as it is given"`
	Merge        *bool             `json:"merge,omitempty" jsonschema:"with fuzzy, default true: lines that old and new have in common stay as the file has them, and what new changes must be as in old; false: replace all that was found"`
	Replacements *int              `json:"replacements,omitempty" jsonschema:"how often old must be there, exactly; default 1, 0 to replace all"`
	LineHint     int               `json:"lineHint,omitempty" jsonschema:"of places as good, take the one nearest to this line"`
	Sequential   bool              `json:"sequential,omitempty" jsonschema:"look for each piece in what the one before it left"`
	Expected     map[string]string `json:"expected,omitempty" jsonschema:"BLAKE3 or SHA-256 hashes that files must have, by path; else the edit is refused as stale"`
	Preview      bool              `json:"preview,omitempty" jsonschema:"say what would be done, and change nothing"`
}

// Edited is what an edit did.
type Edited struct {
	Told
	Preview  bool         `json:"preview" jsonschema:"true: nothing was done"`
	UndoID   string       `json:"undoId,omitempty" jsonschema:"for patch_undo"`
	Files    []EditedFile `json:"files"`
	Unlisted int          `json:"unlisted,omitempty" jsonschema:"files more than listed: all of the patch was put; snapshot_diff has all"`
}

// An EditedFile is a file before and after an edit.
type EditedFile struct {
	FilePath
	To           string   `json:"to,omitempty" jsonschema:"where it was moved"`
	Op           string   `json:"op" jsonschema:"create, update or delete"`
	BeforeHash   string   `json:"beforeHash,omitempty" jsonschema:"BLAKE3; none: there was no file"`
	AfterHash    string   `json:"afterHash,omitempty"`
	Stage        string   `json:"stage,omitempty" jsonschema:"how loosely the old text was found: exact, whitespace, unicode, block_anchor or levenshtein"`
	Similarity   float64  `json:"similarity,omitempty"`
	Replacements int      `json:"replacements,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
	Diff         string   `json:"diff,omitempty"`
	how          string   // it was found, if not exactly
	DiffLeft     int      `json:"diffLeft,omitempty" jsonschema:"characters of the diff that are not shown: snapshot_diff with paths has all"`
}

func patchApply(ctx context.Context, m *manager.FileSnapshotManager, p *PatchArgs) (*Edited, error) {
	a := &verbs.ApplyPatch{Format: patch.Format(p.Format), Patch: p.Patch, Path: p.Path, Old: p.Old,
		New: p.New, Fuzzy: p.Fuzzy,
		Sequential: p.Sequential, Expected: p.Expected, Preview: p.Preview, Options: verbs.MatchOptions{
			ExpectedReplacements: p.Replacements, LineHint: p.LineHint, Reindent: patch.Reindent(p.Reindent),
			Merge: p.Merge}}
	switch {
	case p.Format != "" && p.Patch == "":
		return nil, badArgument("format, and no patch")
	case p.Patch != "" && p.Old+p.New != "":
		return nil, badArgument("want either a patch, or path, old and new")
	}
	req, err := a.Request()
	if err != nil {
		return nil, err
	}
	if !p.Fuzzy && (p.Reindent != "" || p.Merge != nil) && (req.Patch == nil || req.Patch.Format != patch.V4A) {
		return nil, badArgument("reindent and merge say nothing without fuzzy: true")
	}
	r, err := m.ApplyEdits(ctx, req)
	return edited(r, err)
}

func patchUndo(ctx context.Context, m *manager.FileSnapshotManager, p *verbs.UndoPatch) (*Edited, error) {
	r, err := m.UndoEdit(ctx, p.UndoID, &p.UndoEditOptions)
	return edited(r, err)
}

func edited(r *manager.EditResult, err error) (*Edited, error) {
	if err != nil {
		return nil, err
	}
	a := &Edited{Preview: r.Preview, UndoID: r.UndoID}
	for i := range r.Files {
		f := &r.Files[i]
		e := EditedFile{FilePath: newPath(f.Path), To: f.To, Op: string(f.Op), BeforeHash: f.BeforeHash,
			AfterHash: f.AfterHash, Stage: string(f.Stage),
			Similarity: f.Similarity, Replacements: f.Replacements, Warnings: f.Warnings}
		if f.Mode == patch.IsFuzzy {
			e.how = (&patch.Match{Kind: f.Mode, Stage: f.Stage, Similarity: f.Similarity}).Explain()
		}
		a.Files = append(a.Files, e)
	}
	left := room
	n := fitNames(a.Files, &left)
	a.Files, a.Unlisted = append([]EditedFile{}, a.Files[:n]...), len(a.Files)-n
	var shown string // of all files: only the first is sure of some
	for i := range a.Files {
		f := &a.Files[i]
		diff := strings.ToValidUTF8(r.Files[i].Diff, "\uFFFD")
		f.Diff = cut(shown, diff, &left)
		shown += f.Diff
		f.DiffLeft = len(diff) - len(f.Diff)
	}
	return a, nil
}

func (r *Edited) text() string {
	var b strings.Builder
	if r.Preview {
		b.WriteString("Preview, nothing was changed. ")
	}
	n := len(r.Files) + r.Unlisted
	switch {
	case n == 0:
		b.WriteString("No file is changed: all is as it is wanted.")
	case r.UndoID != "":
		fmt.Fprintf(&b, "%s edited; patch_undo with undoId %q takes it back.", words.Count(n, "file"), r.UndoID)
	default:
		fmt.Fprintf(&b, "%s.", words.Count(n, "file"))
	}
	for i := range r.Files {
		f := &r.Files[i]
		fmt.Fprintf(&b, "\n%s %s", f.Op, &f.FilePath)
		if f.To != "" {
			fmt.Fprintf(&b, " to %s", quote(f.To))
		}
		if f.how != "" {
			fmt.Fprintf(&b, " (%s)", f.how)
		}
		for _, w := range f.Warnings {
			fmt.Fprintf(&b, " (warning: %s)", w)
		}
		if f.Diff != "" {
			fmt.Fprintf(&b, "\n%s", f.Diff)
		}
		if f.DiffLeft > 0 {
			fmt.Fprintf(&b, "\n(%d more characters of the diff: see snapshot_diff with this path)", f.DiffLeft)
		}
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, "\nand %s more: see snapshot_diff.", words.Count(r.Unlisted, "file"))
	}
	return b.String()
}
