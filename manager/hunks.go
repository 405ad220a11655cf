package manager

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A HunkRange asks for the hunks of what a turn did, or between two points.
type HunkRange struct {
	// Turn is a revision: what it did is asked for, window by window, and nothing that
	// anybody else did meanwhile. From and To are not given then.
	Turn string `json:"turn,omitempty"`

	From string `json:"from,omitempty"` // as in [Range]
	To   string `json:"to,omitempty"`

	// Parts lists behind each hunk that can be divided the parts of it, too.
	Parts bool `json:"parts,omitempty"`

	Paths   []string `json:"paths,omitempty"`   // files, directories and globs; default all
	Context int      `json:"context,omitempty"` // lines around each hunk that Text has; default none

	Limit  int    `json:"limit,omitempty"`  // hunks at most; default as many as have 2 MiB of Text
	Cursor string `json:"cursor,omitempty"` // NextCursor of the part before; default from the first
}

// A HunkList is the answer.
type HunkList struct {
	Hunks      []Hunk `json:"hunks"`                // in order of path, window and line
	NextCursor string `json:"nextCursor,omitempty"` // there is more: ask with this
}

// A Hunk is a piece of a change, which can be taken back by itself. Ranges are of lines,
// from 0, without the last; a mode has none.
type Hunk struct {
	// ID follows from the path, both states and the ranges, whatever the file is now.
	// The first characters of it, 4 at least, stand for it where they are of no other.
	ID string `json:"id"`

	Path      string `json:"path"`
	PathBytes []byte `json:"pathBytes,omitempty"` // if it is not UTF-8

	// Kind is lines, mode (of the file, apart from its content) or whole (a file that
	// was made, deleted or replaced, or that is no text).
	Kind string `json:"kind"`

	Window int `json:"window,omitempty"` // from 1, of a turn between whose windows others have changed the file

	Before [2]int  `json:"before"`
	After  [2]int  `json:"after"`
	Now    *[2]int `json:"now"` // in the file as it is; nil with a conflict

	// State is what comes of taking the hunk back alone: clean, conflict (the file stays
	// as it is there) or done (it was taken back already).
	State string `json:"state"`

	By string `json:"by,omitempty"` // of what a turn did: "turn:7", or "contested"

	Text      string `json:"text"` // as in a unified diff, without a header; "": what is no text
	TextBytes []byte `json:"textBytes,omitempty"`

	PartOf string `json:"partOf,omitempty"` // of a part: ID of the hunk
}

// Hunks lists the pieces of a change, each with what would come of taking it back now.
//
// Errors are those of [FileSnapshotManager.Resolve], and [ErrOutside].
func (m *FileSnapshotManager) Hunks(ctx context.Context, r *HunkRange) (list *HunkList, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer annotate(&err, "hunks")
	r = cmp.Or(r, new(HunkRange))
	after, n, err := r.cursor()
	if err != nil {
		return nil, err
	}
	files, err := m.hunkedFiles(ctx, r)
	if err != nil {
		return nil, err
	}
	keeps, err := m.matcher(r.Paths, func(rel string) (bool, error) {
		return slices.ContainsFunc(files, func(f hunkedFile) bool {
			return f.path == rel || strings.HasPrefix(f.path, rel+"/")
		}), nil
	})
	if err != nil {
		return nil, err
	}
	root, err := m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list = &HunkList{Hunks: []Hunk{}}
	room := maxHunkText
	for i, f := range files {
		if i < after || len(r.Paths) > 0 && !keeps(f.path) {
			continue
		}
		if err := m.readHunks(ctx, root, &f, r.Parts); err != nil {
			return nil, fmt.Errorf("%q: %w", f.path, err)
		}
		for j := range f.list {
			if i == after && j < n {
				continue
			}
			h := f.describe(j, r.Context)
			room -= len(h.Text)
			if len(list.Hunks) > 0 && (room < 0 || len(list.Hunks) == r.Limit) {
				list.NextCursor = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d %d", i, j))
				return list, nil
			}
			list.Hunks = append(list.Hunks, h)
		}
	}
	return list, nil
}

// maxHunkText is how much text an answer has, in bytes, unless a single hunk has more.
const maxHunkText = 2 << 20

// cursor returns the file and the hunk of it from which an answer goes on.
func (r *HunkRange) cursor() (file, hunk int, err error) {
	b, err := base64.StdEncoding.DecodeString(r.Cursor)
	if err == nil && r.Cursor != "" {
		_, err = fmt.Sscanf(string(b), "%d %d", &file, &hunk)
	}
	if err != nil || r.Limit < 0 {
		return 0, 0, fmt.Errorf("limit %d, cursor %q: not an answer's", r.Limit, r.Cursor)
	}
	return file, hunk, nil
}

// A hunkedFile is a change of a file of which hunks are wanted.
type hunkedFile struct {
	path     string
	old, new *tree.Entry // nil: absent
	window   int         // from 1; 0: there is one
	by       string
	list     []hunks.Hunk
	partOf   []string // of each in list
	places   []hunks.Place

	before, after, now hunks.State
	lines              []string // of after
}

// hunkedFiles returns the changes of which hunks are asked for, in order of path.
func (m *FileSnapshotManager) hunkedFiles(ctx context.Context, r *HunkRange) (files []hunkedFile, err error) {
	switch {
	case r.Turn != "" && (r.From != "" || r.To != ""):
		return nil, errors.New("a turn, and two points: want one or the other")
	case r.Turn != "":
		p, err := m.resolve(ctx, r.Turn)
		if err != nil {
			return nil, err
		}
		if files, err = m.hunkedByTurn(ctx, p, r.Turn); err != nil {
			return nil, fmt.Errorf("revision %q: %w", r.Turn, err)
		}
	default:
		from, to, err := m.ends(ctx, r.From, r.To)
		if err != nil {
			return nil, err
		}
		if files, err = m.hunkedBetween(ctx, from.State, to.State, ""); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(files, func(a, b hunkedFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// hunkedBetween returns what files differ between two states.
func (m *FileSnapshotManager) hunkedBetween(ctx context.Context, from, to store.State, by string) (
	files []hunkedFile, err error) {
	for d, err := range trees.Compare(ctx, m.tree.pages, from, to) {
		if err != nil {
			return nil, err
		}
		if d.Status != tree.Captured && d.Status != tree.Uncaptured {
			files = appendHunked(files, hunkedFile{path: d.Path, old: d.Old, new: d.New, by: by})
		}
	}
	return files, nil
}

// appendHunked appends a change, if it is of a file.
func appendHunked(files []hunkedFile, f hunkedFile) []hunkedFile {
	for _, side := range []**tree.Entry{&f.old, &f.new} {
		if *side != nil && (*side).Mode.IsDir() {
			*side = nil
		}
	}
	if same(f.old, f.new) {
		return files
	}
	return append(files, f)
}

// hunkedByTurn returns the changes of the record that a revision names.
func (m *FileSnapshotManager) hunkedByTurn(ctx context.Context, p *Point, rev string) (files []hunkedFile, err error) {
	r := p.on
	switch {
	case r == nil && p.Snapshot == nil:
		return nil, fmt.Errorf("%w: a tree, and not a turn of the session", ErrUnknown)
	case r == nil:
		if r, err = m.record(ctx, p.Snapshot.Seq); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Pruned:
		return nil, fmt.Errorf("the snapshot %w", store.ErrPruned)
	case p.turn(rev) != p.TurnIndex, r.Kind == history.KindStart: // of a turn: it changed nothing
		return nil, nil
	case r.Kind != history.KindStep:
		return m.hunkedBetween(ctx, r.Base, r.State(), "")
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := l.standings(m.tree.pages).of(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		c := changes[path]
		if c.status == tree.Captured || c.status == tree.Uncaptured {
			continue
		}
		by := fmt.Sprint("turn:", r.Turn())
		if c.owner == Contested {
			by = string(Contested)
		}
		list, err := m.windowsOf(ctx, r, c)
		if err != nil {
			return nil, err
		}
		for i, w := range list {
			f := hunkedFile{path: path, old: w.base, new: w.theirs, by: by}
			if len(list) > 1 {
				f.window = i + 1
			}
			files = appendHunked(files, f)
		}
	}
	return files, nil
}

// readHunks finds the hunks of a file, parts of them too if these are wanted, and what
// would come of each.
func (m *FileSnapshotManager) readHunks(ctx context.Context, root *livedir.Root, f *hunkedFile,
	parts bool) (err error) {
	if f.before, err = m.hunkState(ctx, f.path, f.old); err != nil {
		return err
	}
	if f.after, err = m.hunkState(ctx, f.path, f.new); err != nil {
		return err
	}
	if f.now, err = diskState(ctx, root, f.path); err != nil {
		return err
	}
	f.lines = textdiff.SplitLines(f.after.Text)
	whole := hunks.Between(f.path, f.before, f.after)
	places := hunks.Places(f.before, f.after, f.now, whole)
	var fine []hunks.Hunk // all, with parts in place of what can be divided
	for i := range whole {
		f.list, f.places, f.partOf = append(f.list, whole[i]), append(f.places, places[i]), append(f.partOf, "")
		var list []hunks.Hunk
		if parts {
			list = hunks.Parts(f.path, f.before, f.after, &whole[i])
		}
		for range list {
			f.places, f.partOf = append(f.places, hunks.Place{}), append(f.partOf, whole[i].ID)
		}
		if f.list = append(f.list, list...); list == nil {
			list = whole[i : i+1]
		}
		fine = append(fine, list...)
	}
	if len(fine) == len(whole) {
		return nil
	}
	places = hunks.Places(f.before, f.after, f.now, fine)
	for i := range f.list {
		switch isWhole := i+1 == len(f.list) || f.partOf[i+1] == ""; {
		case f.partOf[i] != "":
			f.places[i], places = places[0], places[1:]
		case isWhole:
			places = places[1:]
		}
	}
	return nil
}

// hunkState returns what a file was, as the store has it.
func (m *FileSnapshotManager) hunkState(ctx context.Context, path string, e *tree.Entry) (s hunks.State, err error) {
	if e == nil {
		return s, nil
	}
	f, err := filediff.File(ctx, filediff.InStore(m.store), path, e)
	if s = (hunks.State{ID: e.ID, Mode: e.Mode, Opaque: f.Opaque}); !f.Opaque {
		s.Text = f.Content
	}
	return s, err
}

// diskState returns what is at a path of the directory. Of what cannot be read it is
// only known that it is there.
func diskState(ctx context.Context, root *livedir.Root, path string) (s hunks.State, err error) {
	to := &textSink{Sink: trees.NewOverlay(nil)}
	e, err := root.Entry(ctx, path, to)
	switch {
	case context.Cause(ctx) != nil:
		return s, context.Cause(ctx)
	case err != nil:
		return hunks.State{Opaque: true}, nil
	case e == nil || e.Mode.IsDir():
		return s, nil
	}
	return hunks.State{ID: e.ID, Mode: e.Mode, Text: to.text, Opaque: e.Size > maxMerged}, nil
}

// describe returns the hunk of a number as it is listed, with lines around it.
func (f *hunkedFile) describe(i, context int) Hunk {
	h, p := &f.list[i], &f.places[i]
	d := Hunk{ID: h.ID, Path: f.path, PathBytes: words.BytesUnlessText(f.path), Kind: string(h.Kind), Window: f.window,
		State: string(p.Outcome), By: f.by, PartOf: f.partOf[i]}
	if p.Outcome != hunks.Conflict {
		d.Now = &[2]int{p.Start, p.End}
	}
	isText := (f.old == nil || f.before.IsText()) && (f.new == nil || f.after.IsText())
	switch {
	case h.Kind == hunks.Mode:
		old, new := filediff.GitMode(f.old.Mode), filediff.GitMode(f.new.Mode)
		d.Text = fmt.Sprintf("old mode %06o\nnew mode %06o\n", old, new)
		return d
	case !isText:
		return d
	}
	d.Before = [2]int{h.Before.Lines.Start, h.Before.Lines.End}
	d.After = [2]int{h.After.Lines.Start, h.After.Lines.End}
	var text []byte
	text = textdiff.AppendLines(text, ' ', f.lines[max(0, d.After[0]-context):d.After[0]])
	text = textdiff.AppendLines(text, '-', textdiff.SplitLines(h.Before.Text))
	text = textdiff.AppendLines(text, '+', textdiff.SplitLines(h.After.Text))
	text = textdiff.AppendLines(text, ' ', f.lines[d.After[1]:min(len(f.lines), d.After[1]+context)])
	d.Text, d.TextBytes = string(text), words.BytesUnlessText(string(text))
	return d
}
