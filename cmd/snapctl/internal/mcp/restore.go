package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

func (x *tools) addRestores() {
	const what = "By default only the changes of this session's steps since then are taken back. With paths, " +
		"exactly these files are restored, whoever changed them. With exact, every file that differs is. " +
		"In a file that others have changed since, their lines stay; where both changed the same lines it is left " +
		"as it is, and listed. "
	add(x, "restore_preview", "Preview a restore", looks,
		"Say what restore would do with the same arguments, and change nothing. "+what, preview, restoreTexts)
	add(x, "restore", "Restore files", rewrites, "Bring files back to what they were at a revision: "+revisions+". "+
		what+
		"Files are saved before they are overwritten or deleted: undo brings them back. Call restore_preview first.",
		restore,
		restoreTexts)
	add(x, "revert_preview", "Preview a revert", looks,
		"Say what revert would do with the same arguments, and change nothing.", previewRevert, revertTexts)
	add(x, "revert", "Take back turns", rewrites, "Take back what one or more steps did, and keep what came after "+
		"them: later steps, and what the user changed. Lines that were changed again since stay, and are "+
		"listed with who changed them. undo takes it back. Call revert_preview first.", revert, revertTexts)
	add(x, "undo", "Undo a restore", rewrites,
		"Take back the newest restore that was not taken back yet: the files that it changed are as they were before "+
			"it. It does not take back edits: see restore and patch_undo.",
		undo, takeBackTexts)
	add(x, "redo", "Redo a restore", rewrites, "Take back the newest undo.", redo, takeBackTexts)
}

// restoreTexts, takeBackTexts and undoTexts say what arguments are that the manager
// takes: an argument that they do not name is none of the tool's.
var (
	restoreTexts = map[string]string{
		"target": "revision to go back to: start, @, @~1 to take back the newest step, turn:N, an entry id, a " +
			"tree hash",
		"paths": "only these files, directories and globs (** is any number of directories), relative to the " +
			"root, and these whoever changed them",
		"exact": "restore all that differs from the target, or with paths all that differs there, also what the user " +
			"changed; dirty files are overwritten then unless onDirty says otherwise",
		"onDirty": "what to do with files that were changed since the session left them: merge (default: what " +
			"others changed in a file stays, and the session's changes are taken back line by line; with paths and " +
			"exact files are restored whole, and merge is skip), skip, overwrite, or abort to do nothing at all",
		"onConflict": onConflictText,
		"acrossHead": "also if another git commit is checked out than at the target",
		"force":      "also while another session is at work in the directory",
		"cursor":     "nextCursor of the page before",
	}
	revertTexts = map[string]string{
		"hunks": "only these pieces of what they did: ids from the tool hunks, for one of the turns",
		"turns": "the turns: turn:N, a range turn:3..turn:5, or an entry id, as snapshot_list has them",
		"paths": "only what they changed in these files, directories and globs, relative to the root",
		"onDirty": "what to do with files that were changed since: merge (default: what others changed in a file " +
			"stays), skip, overwrite, or abort to do nothing at all",
		"onConflict": onConflictText,
		"force":      "also while another session is at work in the directory",
		"cursor":     "nextCursor of the page before",
	}
	takeBackTexts = map[string]string{
		"preview": "say what would be done, and change nothing",
		"onDirty": "what to do with files that were changed since: merge (default: what others changed in a file " +
			"stays), skip, overwrite, or abort to do nothing at all",
		"force":  "also while another session is at work in the directory",
		"cursor": "of a preview: nextCursor of the page before",
	}
	undoTexts = map[string]string{
		"undoId":  "from the answer of patch_apply",
		"reverse": "if a file was changed since, take back only what the edit changed, wherever that is now",
		"force":   "if a file was changed since, make it what it was before the edit all the same",
		"preview": "say what would be done, and change nothing",
	}
)

const onConflictText = "of a merge, what to do with lines that were changed since, too: keep (default: they stay as " +
	"they are), theirs (they become what they were to be), markers (both, between lines <<<<<<< and >>>>>>>), or " +
	"abort to do nothing at all"

// previewRevertArgs are the arguments of revert_preview.
type previewRevertArgs struct {
	manager.RevertOptions
	Cursor string `json:"cursor,omitempty"`
}

// previewArgs are the arguments of restore_preview.
type previewArgs struct {
	manager.RestoreOptions
	Cursor string `json:"cursor,omitempty"`
}

// takeBackArgs are the arguments of undo and redo.
type takeBackArgs struct {
	manager.UndoOptions
	Cursor string `json:"cursor,omitempty"`
}

// Restored is what a restore did, or would do.
type Restored struct {
	Told
	Preview     bool   `json:"preview" jsonschema:"true: nothing was done"`
	Complete    bool   `json:"complete" jsonschema:"all that was wanted was done, or would be"`
	Aborted     bool   `json:"aborted,omitempty" jsonschema:"a file is dirty and onDirty is abort: nothing was done"`
	HeadChanged bool   `json:"headChanged,omitempty" jsonschema:"another git commit is checked out than at the target: restore needs acrossHead"`
	Restored    int    `json:"restored" jsonschema:"files written"`
	Merged      int    `json:"merged,omitempty" jsonschema:"of those, files in which what others changed stays"`
	Deleted     int    `json:"deleted"`
	Skipped     int    `json:"skipped" jsonschema:"dirty files, left as they are"`
	Conflicts   int    `json:"conflicts,omitempty" jsonschema:"files of which a part, or all, could not be merged"`
	NotDone     int    `json:"notDone" jsonschema:"left as they are for another reason"`
	Items       []Item `json:"items" jsonschema:"what is done to each path; what is not done comes first, but in a preview the order is that of paths"`
	EntryID     string `json:"entryId,omitempty" jsonschema:"of the record of this restore"`
	TreeBefore  string `json:"treeBefore,omitempty" jsonschema:"tree hash of the state before: a revision"`
	TreeAfter   string `json:"treeAfter,omitempty" jsonschema:"tree hash of the state after"`
	PutBack     []int  `json:"turnsPutBack,omitempty" jsonschema:"turns that had been taken back and are put back"`
	Unlisted    int    `json:"unlisted,omitempty" jsonschema:"paths more than listed: snapshot_diff from treeBefore to treeAfter has what was changed, restore_preview what was not"`
	Advice      string `json:"advice,omitempty" jsonschema:"what can be done about files that were skipped"`
	NextCursor  string `json:"nextCursor,omitempty" jsonschema:"of a preview: there is more, call again with it as cursor"`

	back string // the tool that takes it back
}

// An Item is what is done to a path.
type Item struct {
	FilePath
	Action string `json:"action" jsonschema:"restored, deleted, made (a directory, only for what comes back into it), skipped (dirty), kept (may not be deleted), failed, moved, or notCaptured (its content is not known)"`
	To     string `json:"to,omitempty" jsonschema:"of what is moved"`
	Reason string `json:"reason,omitempty"`
	Dirty  bool   `json:"dirty,omitempty" jsonschema:"it is not as the session left it"`
	Merged bool   `json:"merged,omitempty" jsonschema:"of what is restored: what others changed in it stays"`

	Conflict  string   `json:"conflict,omitempty" jsonschema:"why it stays, or a part of it: lines, binary and so on"`
	BlockedBy []string `json:"blockedBy,omitempty" jsonschema:"of a conflict: who has changed it since, turns or the user"`
}

const (
	moved       = "moved"
	made        = "made"
	notCaptured = "notCaptured"
)

func (i *Item) isDone() bool {
	return i.Action == string(rollback.Restore) || i.Action == string(rollback.Delete) ||
		i.Action == moved || i.Action == made
}

func preview(ctx context.Context, m *manager.FileSnapshotManager, p *previewArgs) (*Restored, error) {
	p.Preview = true
	return restoreTo(ctx, m, &p.RestoreOptions, p.Cursor)
}

func restore(ctx context.Context, m *manager.FileSnapshotManager, p *manager.RestoreOptions) (*Restored, error) {
	return restoreTo(ctx, m, p, "")
}

func restoreTo(ctx context.Context, m *manager.FileSnapshotManager, opts *manager.RestoreOptions,
	cursor string) (*Restored, error) {
	if opts.Target == diskRev {
		return nil, badArgument("target disk: want the revision to go back to")
	}
	var err error
	if opts.Paths, err = treePaths(m, opts.Paths); err != nil {
		return nil, err
	}
	r, err := m.RestoreFiles(ctx, opts)
	if err != nil {
		return nil, err
	}
	if r.Differing > 0 && len(r.Items) == 0 {
		return nil, &hintError{badArgument("restore %q: nothing to take back: no step since changed a file; %s, "+
			"by changes of the user, restores, or changes that are not recorded yet",
			opts.Target, words.Count(r.Differing, "path")+differs(r.Differing)),
			"snapshot_diff shows them. If it shows your own changes since the newest snapshot, call snapshot_create " +
				"once, then this again (what was @ is @~1 by then). Name changes of the user in paths to take them " +
				"back, too, or pass exact: true for all, if the user wants that."}
	}
	answer, err := restoredBy(r, opts.OnConflict, cursor)
	if err == nil && opts.Target == "@" && answer.isNothing() {
		answer.Advice = adviceNewest
	}
	return answer, err
}

func previewRevert(ctx context.Context, m *manager.FileSnapshotManager, p *previewRevertArgs) (*Restored, error) {
	p.Preview = true
	return revertTurns(ctx, m, &p.RevertOptions, p.Cursor)
}

func revert(ctx context.Context, m *manager.FileSnapshotManager, p *manager.RevertOptions) (*Restored, error) {
	return revertTurns(ctx, m, p, "")
}

func revertTurns(ctx context.Context, m *manager.FileSnapshotManager, opts *manager.RevertOptions,
	cursor string) (*Restored, error) {
	var err error
	if opts.Paths, err = treePaths(m, opts.Paths); err != nil {
		return nil, err
	}
	r, err := m.Revert(ctx, opts)
	if err != nil {
		return nil, err
	}
	return restoredBy(r, opts.OnConflict, cursor)
}

func undo(ctx context.Context, m *manager.FileSnapshotManager, p *takeBackArgs) (*Restored, error) {
	return p.takeBack(ctx, m.Undo, "redo")
}

func redo(ctx context.Context, m *manager.FileSnapshotManager, p *takeBackArgs) (*Restored, error) {
	return p.takeBack(ctx, m.Redo, "undo")
}

// takeBack takes back a restore, and is taken back by another tool.
func (p *takeBackArgs) takeBack(ctx context.Context, fn func(context.Context,
	*manager.UndoOptions) (*manager.RestoreResult, error), back string) (*Restored, error) {
	if p.Cursor != "" && !p.Preview {
		return nil, badArgument("cursor goes with preview: true")
	}
	r, err := fn(ctx, &p.UndoOptions)
	if err != nil {
		return nil, err
	}
	return restored(r, back, p.Cursor)
}

const adviceSkipped = "Skipped files were edited since, by the user or another session. " +
	`onDirty: "overwrite" restores them; what they hold now is kept for undo.`

const adviceConflicts = "Files or lines in conflict stay as they are. revert with the turns that are in the way " +
	`as well takes it back, or with onConflict: "theirs" overwrites what they did there: ask the user.`

const adviceMarkers = "Both sides are in the files in conflict, between lines that begin with <<<<<<< and >>>>>>>: " +
	"ask the user which to keep, and edit them. Until then nothing else is merged into them."

// restoredBy is restored for a restore that undo takes back, and that was to settle
// conflicts so.
func restoredBy(r *manager.RestoreResult, on rollback.OnConflict, cursor string) (*Restored, error) {
	a, err := restored(r, "undo", cursor)
	if err == nil && a.Conflicts > 0 && on == rollback.ConflictMarkers && !r.Preview {
		a.Advice = adviceMarkers
	}
	return a, err
}

// restored says what a restore did, on one page.
func restored(r *manager.RestoreResult, back, cursorText string) (*Restored, error) {
	a := &Restored{Preview: r.Preview, Complete: r.IsComplete(), Aborted: r.Aborted,
		HeadChanged: r.HeadChanged, EntryID: r.EntryID,
		Restored: len(r.Restored), Merged: len(r.Merged), Deleted: len(r.Deleted), Skipped: len(r.Skipped),
		Conflicts: len(r.Conflicts), Items: []Item{}, back: back}
	a.Complete = a.Complete && a.Conflicts == 0
	if r.Undoes == nil { // else that is what it is for
		a.PutBack = r.TurnsPutBack
	}
	if r.Snapshot != nil {
		a.TreeBefore, a.TreeAfter = r.PreRollbackTreeHash.String(), r.Snapshot.Tree.String()
	}
	switch {
	case r.Undoes == nil && slices.ContainsFunc(r.Conflicts, func(c manager.Conflict) bool {
		return c.Why != "contested" && c.Why != "unknown"
	}):
		a.Advice = adviceConflicts
	case a.Skipped > 0:
		a.Advice = adviceSkipped
	}
	all := items(r)
	for i := range all {
		if !all[i].isDone() && all[i].Action != string(rollback.Skipped) {
			a.NotDone++
		}
	}
	if !r.Preview {
		slices.SortStableFunc(all, func(x, y Item) int {
			switch {
			case x.isDone() == y.isDone():
				return 0
			case y.isDone():
				return -1
			}
			return 1
		})
	}
	c, err := parseCursor(cursorText, digest(all))
	if err != nil {
		return nil, err
	}
	left := room
	rest := all[min(c.item, len(all)):]
	a.Items = append(a.Items, rest[:fitNames(rest, &left)]...)
	if n := len(rest) - len(a.Items); n > 0 && r.Preview {
		c.item += len(a.Items)
		a.NextCursor = c.String()
	} else {
		a.Unlisted = n
	}
	return a, nil
}

// items lists what is done to each path.
func items(r *manager.RestoreResult) []Item {
	var all []Item
	for _, mv := range r.Moves {
		it := Item{FilePath: newPath(mv.From), To: mv.To, Action: moved}
		if mv.Why != "" {
			it.Action, it.Reason = string(rollback.Failed), mv.Why
		}
		all = append(all, it)
	}
	for _, p := range r.Made {
		all = append(all, Item{FilePath: newPath(p), Action: made})
	}
	conflicts := make(map[string]*manager.Conflict)
	for i := range r.Conflicts {
		conflicts[r.Conflicts[i].Path] = &r.Conflicts[i]
	}
	for _, i := range r.Items {
		why := cmp.Or(i.Why, i.Note)
		if why == "" && i.From != "" {
			why = "it was at " + quote(i.From)
		}
		it := Item{FilePath: newPath(i.Path), Action: string(i.Do), Reason: why,
			Dirty: i.Dirty, Merged: i.Merged && i.Do == rollback.Restore}
		if c := conflicts[i.Path]; c != nil {
			it.Conflict, it.BlockedBy = c.Why, c.BlockedBy
		}
		all = append(all, it)
	}
	for _, p := range r.NotCaptured {
		all = append(all, Item{FilePath: newPath(p), Action: notCaptured,
			Reason: "it stays as it is: " + verbs.WhyNotCaptured})
	}
	return all
}

// would are the words of a preview.
var would = map[string]string{"restored": "would restore", "deleted": "would delete", "skipped": "would skip",
	"kept": "would keep", "failed": "would fail", moved: "would move", made: "would make", notCaptured: "would leave"}

// adviceNewest is for a restore to the newest step, where nothing has changed since.
const adviceNewest = "@ is the newest step, and within your turn that is what you have done so far. To go back to a " +
	"snapshot that you have made name its entryId; @~1 takes the newest step back."

// isNothing reports whether nothing was, or is, to do.
func (r *Restored) isNothing() bool {
	return r.TreeAfter == "" && len(r.Items) == 0 && !r.Aborted && r.Unlisted == 0
}

func (r *Restored) text() string {
	var b strings.Builder
	switch {
	case r.Aborted && r.Conflicts > 0:
		b.WriteString("Nothing was changed, as onConflict is abort: some files are in conflict. ")
	case r.Aborted:
		b.WriteString("Nothing was changed, as onDirty is abort: some files were edited since. ")
	case r.Preview:
		b.WriteString("Preview, nothing was changed. ")
	case r.isNothing():
		return strings.TrimSpace("Nothing to do: the files are like that already. " + r.Advice)
	}
	fmt.Fprintf(&b, "%d restored, %d deleted, %d skipped, %d not done.", r.Restored, r.Deleted, r.Skipped, r.NotDone)
	if r.HeadChanged && r.Preview {
		b.WriteString(" Another git commit is checked out than at the target: restore needs acrossHead: true.")
	}
	for _, i := range r.Items {
		word := i.Action
		if r.Preview {
			word = would[i.Action]
		}
		fmt.Fprintf(&b, "\n%s %s", word, &i.FilePath)
		switch {
		case i.Merged && i.Conflict != "":
			b.WriteString(" (merged in part)")
		case i.Merged:
			b.WriteString(" (merged: changes by others stay)")
		}
		if i.To != "" {
			fmt.Fprintf(&b, " to %s", quote(i.To))
		}
		if i.Reason != "" {
			fmt.Fprintf(&b, ": %s", i.Reason)
		}
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, "\nand %d more.", r.Unlisted)
	}
	if len(r.PutBack) > 0 {
		fmt.Fprintf(&b, "\nTurns that had been taken back and are put back%s: %s.",
			map[bool]string{true: " then"}[r.Preview], strings.Trim(fmt.Sprint(r.PutBack), "[]"))
	}
	if r.Advice != "" {
		fmt.Fprintf(&b, "\n%s", r.Advice)
	}
	if r.TreeAfter != "" {
		fmt.Fprintf(&b, "\n%s takes it back. All changes: snapshot_diff from %s to %s.",
			r.back, r.TreeBefore, r.TreeAfter)
	}
	return b.String() + more(r.NextCursor)
}
