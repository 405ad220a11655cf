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
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A HunkRange asks for the hunks of what a turn did, or between two points.
type HunkRange struct {
	// Turns are revisions, or ranges of turns, as in [RevertOptions]: what they did is asked
	// for, window by window, and nothing that anybody else did meanwhile. Of a turn that was
	// divided that is what all of its parts did, but where "look:N" names one. From and To
	// are not given then.
	Turns []string `json:"turns,omitempty"`

	// Restore is the target of a restore: what turns did that it would take back is asked
	// for. Neither Turns nor From and To are given then.
	Restore string `json:"restore,omitempty"`

	// Lines are of a file as it is now: hunks, or parts of them, by which turns of the session
	// wrote them are asked for, and those that deleted something between them. No Turns, Paths,
	// Restore, From and To are given then.
	Lines *BlameOptions `json:"lines,omitempty"`

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

	Left []BlameRange `json:"left,omitempty"` // of [HunkRange].Lines: those that no hunk is about; with the last part
}

// A Hunk is a piece of a change, which can be taken back by itself. Ranges are of lines,
// from 0, without the last; a mode has none.
type Hunk struct {
	// ID follows from the path, both states and the ranges, whatever the file is now. Where
	// several changes in one list are the same it goes on with what tells these apart.
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

	// State is what comes of the hunk if all are taken back: clean, conflict (the file stays
	// as it is there) or done (it was taken back already). Of a file that was largely written
	// anew one that is clean may be in conflict if it is taken back alone.
	State string `json:"state"`

	By        string   `json:"by,omitempty"`        // of what a turn did: "turn:7", or "contested"
	BlockedBy []string `json:"blockedBy,omitempty"` // of that, with a conflict: as in [Conflict]

	Text      string `json:"text"` // as in a unified diff, without a header; "": what is no text
	TextBytes []byte `json:"textBytes,omitempty"`

	PartOf string `json:"partOf,omitempty"` // of a part: ID of the hunk
}

// Hunks lists the pieces of a change, each with what would come of taking it back now.
//
// Errors are those of [FileSnapshotManager.Resolve], and [ErrOutside].
func (m *FileSnapshotManager) Hunks(ctx context.Context, r *HunkRange) (*HunkList, error) {
	what := "hunks"
	if r != nil && r.Lines != nil {
		what = "lines"
	}
	return asking(ctx, m, what, func(ctx context.Context) (*HunkList, error) { return m.hunks(ctx, r) })
}

func (m *FileSnapshotManager) hunks(ctx context.Context, r *HunkRange) (list *HunkList, err error) {
	r = cmp.Or(r, new(HunkRange))
	after, n, err := r.cursor()
	if err != nil {
		return nil, err
	}
	lines, files, keeps, err := m.toHunk(ctx, r)
	if err != nil {
		return nil, err
	}
	root, err := m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list = &HunkList{Hunks: []Hunk{}}
	blames := &hunkBlamer{m: m, files: files}
	defer func() { err = errors.Join(err, blames.all(ctx)) }()
	room := maxHunkText
	for i := range files {
		f := &files[i]
		if i < after && lines == nil || len(r.Paths) > 0 && !keeps(f.path) {
			continue
		}
		if err := m.readHunks(ctx, root, f); err != nil {
			return nil, fmt.Errorf("%q: %w", f.path, err)
		}
		isListed := func(j int) bool { return f.partOf[j] == "" || r.Parts }
		if lines != nil {
			isListed = lines.choose(f)
		}
		for j := range f.list {
			if i < after || i == after && j < n || !isListed(j) {
				continue
			}
			h := f.describe(j, r.Context)
			room -= len(h.Text)
			if len(list.Hunks) > 0 && (room < 0 || len(list.Hunks) == r.Limit) {
				list.NextCursor = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d %d", i, j))
				return list, nil
			}
			list.Hunks = append(list.Hunks, h)
			blames.add(list, f, j)
		}
	}
	if lines != nil {
		list.Left = lines.rest()
	}
	return list, nil
}

// toHunk returns the files of which hunks are asked for, by lines or not, and which of them r.Paths has.
func (m *FileSnapshotManager) toHunk(ctx context.Context, r *HunkRange) (lines *hunkLines, files []hunkedFile,
	keeps func(path string) bool, err error) {
	if r.Lines != nil {
		lines, files, err = m.hunkedByLines(ctx, r)
	} else {
		files, err = m.hunkedFiles(ctx, r)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	keeps, err = m.matcher(r.Paths, func(rel string) (bool, error) {
		return slices.ContainsFunc(files, func(f hunkedFile) bool {
			return f.path == rel || strings.HasPrefix(f.path, rel+"/")
		}), nil
	})
	return lines, files, keeps, err
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
		return 0, 0, fmt.Errorf("limit %d, cursor %q: %w", r.Limit, r.Cursor, inside.ErrPage)
	}
	return file, hunk, nil
}

// A hunkedFile is a change of a file of which hunks are wanted.
type hunkedFile struct {
	path     string
	old, new *tree.Entry   // nil: absent
	window   int           // from 1; 0: there is one
	cuts     []history.Cut // what was taken back of it
	isGone   bool          // all of it was
	hidden   *record       // a turn that stays and has deleted since what it made; nil: none has
	by       string
	of       standing.StepChange // the change; zero: it is of two points
	isAgain  bool                // others that are asked for are between the same states
	list     []hunks.Hunk
	partOf   []string // of each in list
	places   []hunks.Place

	before, after, now hunks.State
	lines              []string // of after
}

// hunkedFiles returns the changes of which hunks are asked for, in order of path.
func (m *FileSnapshotManager) hunkedFiles(ctx context.Context, r *HunkRange) (files []hunkedFile, err error) {
	switch {
	case len(r.Turns) > 0 && r.Restore+r.From+r.To != "", r.Restore != "" && r.From+r.To != "":
		return nil, errors.New("want turns, a restore, or two points: one of these")
	case len(r.Turns) > 0:
		if files, err = m.hunkedByTurns(ctx, r.Turns); err != nil {
			return nil, err
		}
	case r.Restore != "":
		if files, err = m.hunkedByRestore(ctx, r.Restore); err != nil {
			return nil, err
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
	tellApart(files)
	return files, nil
}

// hunkID returns the ID of a hunk of a turn's window, also among others that made the same
// change.
func hunkID(id string, turn uint64, window int) string {
	if id = fmt.Sprintf("%s-%d", id, turn); window > 0 {
		id += fmt.Sprint(".", window)
	}
	return id
}

// tellApart notes which changes of turns were made several times, as where a turn has
// done again what was taken back of another one.
func tellApart(files []hunkedFile) {
	type change struct {
		path     string
		old, new tree.Entry
	}
	of := func(f *hunkedFile) change {
		return change{f.path, *cmp.Or(f.old, new(tree.Entry)), *cmp.Or(f.new, new(tree.Entry))}
	}
	times := make(map[change]int)
	for i := range files {
		times[of(&files[i])]++
	}
	for i := range files {
		f := &files[i]
		f.isAgain = f.of.By != nil && times[of(f)] > 1
	}
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
	if trees.Same(f.old, f.new) {
		return files
	}
	return append(files, f)
}

// hunkedByTurns returns the changes of turns that revisions name, or ranges of turns, the
// newest first; and what was found where one names no turn.
func (m *FileSnapshotManager) hunkedByTurns(ctx context.Context, revs []string) (files []hunkedFile, err error) {
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	var numbers []int
	var named []*record
	for _, rev := range revs {
		of, by, more, err := l.hunkedBy(ctx, rev)
		if err != nil {
			return nil, fmt.Errorf("revision %q: %w", rev, err)
		}
		numbers, named, files = append(numbers, of...), append(named, by...), append(files, more...)
	}
	if len(numbers) == 0 {
		return files, nil
	}
	slices.Sort(numbers)
	turns, err := l.turnsOf(ctx, slices.Compact(numbers), named)
	if err != nil {
		return nil, err
	}
	of, err := l.hunkedOf(ctx, turns)
	return append(files, of...), err
}

// hunkedBy returns the numbers of the turns that a revision names, or a range of them, by
// which records they are known, and the changes of a record that it names instead.
func (l *line) hunkedBy(ctx context.Context, rev string) (
	turns []int, named []*record, files []hunkedFile, err error,
) {
	m := l.m
	digits := strings.TrimPrefix(rev, "turn:")
	if _, err := parseNumber(digits); err == nil && (digits != rev || len(digits) < minPrefix) ||
		strings.Contains(rev, "..") {
		turns, named, err = l.turnNumbers(ctx, []string{rev})
		return turns, named, nil, err
	}
	p, err := m.resolve(ctx, rev)
	if err != nil {
		return nil, nil, nil, err
	}
	r := p.on
	switch {
	case r == nil && p.Snapshot == nil:
		return nil, nil, nil, fmt.Errorf("%w: a tree, and not a turn of the session", ErrUnknown)
	case r == nil:
		if r, err = m.records.Record(ctx, p.Snapshot.Seq); err != nil {
			return nil, nil, nil, err
		}
	}
	past, err := l.past(ctx)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case r.Pruned:
		return nil, nil, nil, fmt.Errorf("the snapshot %w", store.ErrPruned)
	case p.turn(rev) != p.TurnIndex, r.Kind == history.KindStart: // of a turn: it changed nothing
		return nil, nil, nil, nil
	case r.Kind != history.KindStep:
		files, err = m.hunkedBetween(ctx, r.Base, r.State(), "")
	case r.Seq == 0 || r.Seq > past[r.Session] || strings.HasPrefix(rev, history.LookPrefix):
		files, err = l.hunkedOf(ctx, []*record{r})
	default:
		turns, named = []int{r.Turn()}, []*record{r}
	}
	return turns, named, files, err
}

// hunkedOf returns the changes of turns, newest first.
func (l *line) hunkedOf(ctx context.Context, turns []*record) (files []hunkedFile, err error) {
	tip, err := l.tip(ctx)
	if err != nil {
		return nil, err
	}
	s := l.Paths(l.m.tree.pages)
	var in map[string][]standing.StepChange
	if tip != nil && len(turns) > 0 && turns[0].Seq != 0 {
		if in, _, err = s.BackOf(ctx, tip, turns); err != nil { // which finds cuts, too
			return nil, err
		}
	}
	for _, r := range turns {
		changes, err := s.Of(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, path := range slices.Sorted(maps.Keys(changes)) {
			list, err := l.m.hunked(ctx, s, tip, standing.StepChange{By: r, Change: changes[path]})
			if err != nil {
				return nil, err
			}
			isIn := func(sc standing.StepChange) bool { return history.IsSame(sc.By, r) || r.EndsAt(sc.By) }
			var hidden *record
			if slices.ContainsFunc(in[path], isIn) {
				if hidden, err = hiddenUnder(ctx, s, tip, turns, in[path]); err != nil {
					return nil, err
				}
			}
			for i := range list {
				list[i].isGone = r.Session == l.m.opts.Session && in != nil && !slices.ContainsFunc(in[path], isIn)
				list[i].hidden = hidden
			}
			files = append(files, list...)
		}
	}
	return files, nil
}

// hiddenUnder returns the turn that has deleted what turns did at a path, of which in are the
// changes since, newest first, and that stays when they go; nil: none has.
func hiddenUnder(ctx context.Context, s *standing.Paths, tip *record, turns []*record, in []standing.StepChange) (
	*record, error) {
	isOne := func(r *record) bool { return slices.ContainsFunc(turns, r.IsSameTurn) }
	var back, stay []standing.StepChange
	var goes history.Apart
	for _, sc := range in {
		if isOne(sc.By) || sc.CutsOnly(in, isOne) {
			back, goes.Without = append(back, sc), append(goes.Without, sc.By.Seq)
		} else {
			stay = append(stay, sc)
		}
	}
	isDeletion := func(sc standing.StepChange) bool { return sc.Change.New == nil }
	if len(back) == 0 || !slices.ContainsFunc(stay, isDeletion) {
		return nil, nil
	}
	p := in[0].Change.Path
	if told, err := s.IsTold(ctx, tip, p, &goes); told || err != nil {
		return nil, err
	}
	by, err := s.DeletedOver(ctx, p, stay, back)
	if by == nil || err != nil {
		return nil, err
	}
	return by.By, nil
}

// hunkedByRestore returns the changes that a restore to a target would take back, those
// of a path newest first.
func (m *FileSnapshotManager) hunkedByRestore(ctx context.Context, target string) (files []hunkedFile, err error) {
	p, err := m.resolve(ctx, target)
	if err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	tip, err := l.tip(ctx)
	if err != nil {
		return nil, err
	}
	if tip == nil {
		return nil, m.noSession(ctx)
	}
	s := l.Paths(m.tree.pages)
	back, _, _, err := takenBackBy(ctx, s, tip, p)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(back)) {
		for _, sc := range back[path] {
			list, err := m.hunked(ctx, s, tip, sc)
			if err != nil {
				return nil, err
			}
			files = append(files, list...)
		}
	}
	return files, nil
}

// takenBackBy returns what a restore to a point would take back of what is in, by path,
// newest first, what it would put back, and which turns it would take off the line.
func takenBackBy(ctx context.Context, s *standing.Paths, tip *record, p *Point) (
	back, forth map[string][]standing.StepChange, turns []*record, err error) {
	turns = p.gone
	switch {
	case p.at == nil && p.gone == nil:
		return nil, nil, nil, fmt.Errorf("%w: no turn of this session left it", ErrUnknown)
	case p.gone == nil:
		if turns, _, err = s.Line.Between(ctx, tip, p.at, "", nil); err != nil {
			return nil, nil, nil, err
		}
	}
	if p.n > 0 && len(turns) > 0 {
		back, _, err = s.BackOf(ctx, tip, turns)
	} else if p.at != nil {
		back, forth, err = s.Between(ctx, tip, p.at)
	}
	return back, forth, turns, err
}

// hunked returns a change window by window, nothing of one that is not of a file.
func (m *FileSnapshotManager) hunked(ctx context.Context, s *standing.Paths, tip *record, sc standing.StepChange) (
	files []hunkedFile, err error) {
	c := sc.Change
	if c.Status == tree.Captured || c.Status == tree.Uncaptured || sc.By.IsJoint() {
		return nil, nil
	}
	var cuts []history.Cut
	if s.Cut[c.Path] {
		if cuts, err = s.Line.CutsIn(ctx, tip, c.Path, sc.By.Seq); err != nil {
			return nil, err
		}
	}
	by := fmt.Sprint("turn:", sc.By.Turn())
	if c.Owner == windows.Contested {
		by = string(Contested)
	}
	list, err := m.windowsOf(ctx, sc.By, c)
	if err != nil {
		return nil, err
	}
	for i, w := range list {
		f := hunkedFile{path: c.Path, old: w.Base, new: w.Theirs, by: by, of: sc}
		if len(list) > 1 {
			f.window = i + 1
		}
		f.cuts = merging.CutsOfWindow(cuts, sc.By.Seq, f.window)
		files = appendHunked(files, f)
	}
	return files, nil
}

// divideHunks finds the hunks of a change, and behind each that can be divided its parts.
func (m *FileSnapshotManager) divideHunks(ctx context.Context, f *hunkedFile) (err error) {
	if f.before, err = m.hunkState(ctx, f.path, f.old); err != nil {
		return err
	}
	if f.after, err = m.hunkState(ctx, f.path, f.new); err != nil {
		return err
	}
	for _, h := range hunks.Between(f.path, f.before, f.after) {
		parts := hunks.Parts(f.path, f.before, f.after, &h)
		f.list, f.partOf = append(append(f.list, h), parts...), append(f.partOf, "")
		for range parts {
			f.partOf = append(f.partOf, h.ID)
		}
	}
	return nil
}

// readHunks finds the hunks of a change, parts of them too, and what would come of each.
func (m *FileSnapshotManager) readHunks(ctx context.Context, root *livedir.Root, f *hunkedFile) (err error) {
	if err = m.divideHunks(ctx, f); err != nil {
		return err
	}
	if f.now, err = diskState(ctx, root, f.path); err != nil {
		return err
	}
	f.lines, f.places = textdiff.SplitLines(f.after.Text), make([]hunks.Place, len(f.list))
	isDivided := func(i int) bool { return f.partOf[i] == "" && i+1 < len(f.list) && f.partOf[i+1] != "" }
	isPart := func(i int) bool { return f.partOf[i] != "" }
	// One list of hunks, and one with parts in their place.
	for _, leftOut := range []func(int) bool{isPart, isDivided} {
		var list []hunks.Hunk
		var at []int
		for i := range f.list {
			if !leftOut(i) {
				list, at = append(list, f.list[i]), append(at, i)
			}
		}
		for i, p := range hunks.Places(f.before, f.after, f.now, list) {
			f.places[at[i]] = p
		}
		if len(list) == len(f.list) {
			break
		}
	}
	whole, left := -1, 0 // the hunk whose parts these are, and how many of them are not done
	for i := range f.list {
		switch {
		case f.isGone || isTaken(&f.list[i], f.cuts):
			f.places[i].Outcome = hunks.Done
		case f.hidden != nil: // under the deletion
			f.places[i].Outcome = hunks.Conflict
		}
		switch isDone := f.places[i].Outcome == hunks.Done; {
		case !isPart(i):
			whole, left = i, 0
		case !isDone:
			left++
		}
		if isPart(i) && left == 0 && (i+1 == len(f.list) || !isPart(i+1)) {
			f.places[whole].Outcome = hunks.Done
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
	if s = (hunks.State{ID: e.ID, Mode: e.Mode, Opaque: e.Size > merging.MaxText}); !s.Opaque {
		s.Text = to.text
	}
	return s, nil
}

// describe returns the hunk of a number as it is listed, with lines around it.
func (f *hunkedFile) describe(i, context int) Hunk {
	h, p := &f.list[i], &f.places[i]
	d := Hunk{ID: h.ID, Path: f.path, PathBytes: words.BytesUnlessText(f.path), Kind: string(h.Kind), Window: f.window,
		State: string(p.Outcome), By: f.by, PartOf: f.partOf[i]}
	if f.isAgain {
		d.ID = hunkID(d.ID, f.of.By.Seq, f.window)
		if d.PartOf != "" {
			d.PartOf = hunkID(d.PartOf, f.of.By.Seq, f.window)
		}
	}
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
	context = min(context, len(f.lines))
	var text []byte
	text = textdiff.AppendLines(text, ' ', f.lines[max(0, d.After[0]-context):d.After[0]])
	text = textdiff.AppendLines(text, '-', textdiff.SplitLines(h.Before.Text))
	text = textdiff.AppendLines(text, '+', textdiff.SplitLines(h.After.Text))
	text = textdiff.AppendLines(text, ' ', f.lines[d.After[1]:min(len(f.lines), d.After[1]+context)])
	d.Text, d.TextBytes = string(text), words.BytesUnlessText(string(text))
	return d
}
