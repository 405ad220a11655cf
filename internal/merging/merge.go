package merging

import (
	"bytes"
	"context"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// MaxText is the size of a text, in bytes, above which it is not merged, MaxLines how
// many lines the three texts of a merge may have. Each takes some 50 bytes meanwhile: three
// texts of 10 MiB that are nothing but line ends took 1.5 GB and 6 s.
const (
	MaxText  = 10 << 20
	MaxLines = 4 << 20
)

// A Source has what files hold, and what is known of them.
type Source interface {
	// Text returns the content of a file that is, or was, at a path at which disk is now.
	Text(ctx context.Context, path string, disk, e *tree.Entry) ([]byte, error)

	// State returns what a file was, as the store has it.
	State(ctx context.Context, path string, e *tree.Entry) (hunks.State, error)

	// IsMarked reports whether a text of a path has markers of conflicts.
	IsMarked(ctx context.Context, path string, text []byte) (bool, error)

	// Rest returns what a window of a change did but for cuts of it.
	Rest(ctx context.Context, p *Part, cuts []history.Cut) ([]history.Cut, error)
}

// A Merger merges paths. Use it from one goroutine at a time.
type Merger struct {
	Source     Source
	OnConflict rollback.OnConflict

	made map[store.ID][]byte // contents that may be nowhere else: see Without
}

// A Path is a path while it is merged.
type Path struct {
	mr   *Merger
	ctx  context.Context
	name string
	disk *tree.Entry // what is there; nil: nothing

	Now      *tree.Entry // what has become of it
	IsWhole  bool        // that is what a step leads to, and not made of what others changed
	IsMerged bool        // its content is text, made from the others of texts to the first of them
	Text     []byte
	Texts    [][]byte
	Found    []byte // the text of the disk

	done     []stepDone // what came of each step
	isUntold bool       // of which no record can say what is in then, if not all is done
	isVague  bool       // of which it is not known what came of it
	Clash    *Clash     // what could not be done of it; nil: all was
	Given    [][]byte   // lines of conflicts that were given up and that the text is without
	GaveUp   bool       // some were, or the file as a whole
	lost     error      // why a content cannot be read
}

// Merge does steps to what is at a path. What cannot be done of it, in part or as a whole,
// is the clash of the result. Nothing is given up for theirs, or marked, where nothing is in
// conflict in the end: a later step may lead away from what was.
func (mr *Merger) Merge(ctx context.Context, p string, disk *tree.Entry, steps []Step) (*Path, error) {
	isOther := mr.OnConflict == rollback.ConflictTheirs || mr.OnConflict == rollback.ConflictMarkers
	if isOther && len(steps) > 1 {
		keep := *mr
		keep.OnConflict = rollback.ConflictKeep
		if mg, err := keep.merge(ctx, p, disk, steps); err != nil || mg.Clash == nil {
			return mg, err
		}
	}
	return mr.merge(ctx, p, disk, steps)
}

// merge is Merge, with whatever is asked for of a conflict on the way.
func (mr *Merger) merge(ctx context.Context, p string, disk *tree.Entry, steps []Step) (*Path, error) {
	mg := &Path{mr: mr, ctx: ctx, name: p, disk: disk, Now: disk}
	for i := range steps {
		why, err := mg.step(&steps[i])
		if err != nil {
			return nil, err
		}
		if why != "" { // all or nothing
			mg.Now, mg.Clash = disk, &Clash{Why: why, Parts: []ClashPart{{&steps[i], nil}}, Lost: mg.lost}
			break
		}
	}
	if mg.Clash != nil && mg.isUntold && mr.OnConflict != rollback.ConflictMarkers {
		mg.Now = disk
	}
	return mg, nil
}

// step does one step. why is what a [Conflict] has if it cannot be done to the file as a
// whole, "": it was, but for the lines that the merging notes.
func (mg *Path) step(st *Step) (why string, err error) {
	parts := 0
	if mg.Clash != nil {
		parts = len(mg.Clash.Parts)
	}
	was := *mg
	why, err = mg.stepOf(st)
	isTheirs := mg.mr.OnConflict == rollback.ConflictTheirs
	if isTheirs && err == nil && len(st.Out) > 0 && (why != "" || len(mg.Given) > len(was.Given)) {
		*mg = was
		if st, err = mg.withoutOut(st); err != nil {
			return "", err
		}
		why, err = mg.stepOf(st)
	}
	if mg.Clash == nil || len(mg.Clash.Parts) == parts {
		mg.isUntold = mg.isUntold || st.Part == nil
		mg.done = append(mg.done, st.done())
	}
	if why != "" && why != WhyLost && why != WhyMarkers && isTheirs {
		mg.become(st.Theirs)
		return "", err
	}
	return why, err
}

// withoutOut returns a step that leads to theirs without what its change was made on and is out. What
// others had made of that by then comes, unless there are lines among it that are out.
func (mg *Path) withoutOut(st *Step) (*Step, error) {
	keep := *mg.mr
	keep.OnConflict = rollback.ConflictKeep
	theirs, err := keep.merge(mg.ctx, mg.name, st.Theirs, st.Out)
	if err != nil {
		return nil, err
	}
	if theirs.Clash != nil {
		some, err := theirs.hasLineOf(st.Out)
		if err == nil && some {
			theirs, err = mg.mr.Merge(mg.ctx, mg.name, st.Theirs, st.Out)
		}
		if err != nil {
			return nil, err
		}
	}
	anew := *st
	anew.Theirs, anew.Out = theirs.Now, nil
	if theirs.Now != nil && theirs.IsMerged {
		mg.mr.keep(theirs.Now.ID, theirs.Text)
	}
	return &anew, nil
}

// hasLineOf reports whether the file has a line that a step takes back, or cannot be compared.
func (mg *Path) hasLineOf(steps []Step) (bool, error) {
	now, err := mg.linesOf(mg.Now)
	for i := 0; err == nil && i < len(steps); i++ {
		var base, theirs map[string]bool
		if base, err = mg.linesOf(steps[i].Base); err != nil {
			break
		}
		if theirs, err = mg.linesOf(steps[i].Theirs); err != nil {
			break
		}
		for line := range base {
			if now[line] && !theirs[line] {
				return true, nil
			}
		}
	}
	if cause := context.Cause(mg.ctx); err != nil && cause != nil {
		return false, cause
	}
	return err != nil, nil
}

// linesOf returns the lines of a file, none if nothing is there.
func (mg *Path) linesOf(e *tree.Entry) (map[string]bool, error) {
	if e == nil {
		return nil, nil
	}
	text := mg.Text
	if !mg.IsMerged || e != mg.Now {
		var err error
		if text, err = mg.read(e); err != nil {
			return nil, err
		}
	}
	lines := make(map[string]bool)
	for line := range bytes.Lines(text) {
		if l := Bare(line); l != "" {
			lines[l] = true
		}
	}
	return lines, nil
}

// become has the file become another one as a whole, whatever it was merged to.
func (mg *Path) become(e *tree.Entry) {
	mg.take(e)
	mg.IsWhole, mg.GaveUp = true, true
}

func (mg *Path) stepOf(st *Step) (why string, err error) {
	ours, base, theirs := mg.Now, st.Base, st.Theirs
	switch {
	case trees.Same(ours, base) && (!trees.IsFile(ours) || !mg.isMade(theirs)):
		mg.take(theirs)
		mg.noClash()
		return "", nil
	case trees.Same(ours, theirs):
		mg.noClash()
		return "", nil
	case trees.Same(base, theirs):
		return "", nil
	case ours == nil:
		return WhyUserDeleted, nil
	case theirs == nil:
		return WhyMade, nil
	case base == nil:
		return WhyDeleted, nil
	case !trees.IsFile(ours) || !trees.IsFile(base) || !trees.IsFile(theirs):
		return WhyKind, nil
	}
	e := *ours
	if ours.Mode == base.Mode {
		e.Mode = theirs.Mode
	}
	switch {
	case base.ID == theirs.ID, ours.ID == theirs.ID:
	case ours.ID == base.ID && !mg.isMade(theirs):
		e.ID, e.Size, mg.IsMerged = theirs.ID, theirs.Size, false
	default:
		if why, err = mg.mergeText(st); why != "" || err != nil {
			return why, err
		}
		e.ID, e.Size = object.Hash(object.Blob, mg.Text), int64(len(mg.Text))
	}
	mg.Now = &e
	return "", nil
}

// take has the file be another one, which need not be in the store yet.
func (mg *Path) take(e *tree.Entry) {
	mg.Now, mg.IsMerged, mg.Given = e, false, nil
	if mg.isMade(e) {
		mg.Text, mg.IsMerged = mg.mr.made[e.ID], true
		mg.Texts, mg.Found = [][]byte{nil, mg.Text}, nil
	}
}

// noClash notes that nothing is there any more of what was in conflict.
func (mg *Path) noClash() {
	if mg.Clash != nil {
		for i, d := range mg.done {
			mg.done[i] = d.st.done()
		}
	}
	mg.Clash = nil
}

// mergeText merges the texts of a step into text.
func (mg *Path) mergeText(st *Step) (why string, err error) {
	var texts [3][]byte
	lines := 0
	for i, e := range []*tree.Entry{mg.Now, st.Base, st.Theirs} {
		if e.Size > MaxText {
			return WhyLarge, nil
		}
		if i == 0 && mg.IsMerged {
			texts[i] = mg.Text
		} else if texts[i], err = mg.read(e); err != nil {
			if cause := context.Cause(mg.ctx); cause != nil {
				return "", cause
			}
			mg.lost = err
			return WhyLost, nil
		}
		if bytes.IndexByte(texts[i][:min(len(texts[i]), 8000)], 0) >= 0 {
			return WhyBinary, nil
		}
		if lines += bytes.Count(texts[i], []byte("\n")); lines > MaxLines {
			return WhyLarge, nil
		}
	}
	ours, base, theirs := texts[0], texts[1], texts[2]
	if !mg.IsMerged {
		if is, err := mg.mr.Source.IsMarked(mg.ctx, mg.name, ours); is || err != nil {
			return WhyMarkers, err
		}
	}
	if !mg.IsMerged {
		mg.Texts, mg.Found, mg.Given = [][]byte{ours}, ours, nil
		if mg.disk == nil { // a turn deleted it, which is taken back
			mg.Found = nil
		} else if mg.Now.ID != mg.disk.ID {
			if mg.Found, err = mg.read(mg.disk); err != nil {
				return "", err
			}
		}
	}
	mg.Texts, mg.IsMerged = append(mg.Texts, base, theirs), true
	return mg.mergeLines(st, base, ours, theirs)
}

// mergeLines merges three texts into text.
func (mg *Path) mergeLines(st *Step, base, ours, theirs []byte) (why string, err error) {
	how := mg.mr.OnConflict
	m := patch.Merge(base, ours, theirs, &patch.MergeOptions{Theirs: how == rollback.ConflictTheirs})
	if mg.Text = m.Text; len(m.Conflicts) == 0 {
		return "", nil
	}
	if how == rollback.ConflictTheirs {
		for _, c := range m.Conflicts {
			mg.Given = append(mg.Given, c.Ours.Text)
		}
		mg.GaveUp = true
		return "", nil
	}
	if how != rollback.ConflictMarkers && !hasCommon(m.Text, ours, theirs) {
		return WhyLines, nil
	}
	if err := mg.noteInPart(st, base, ours, theirs, m.Text); err != nil {
		return "", err
	}
	if mg.Clash == nil {
		mg.Clash = &Clash{Why: WhyLines}
	}
	part := ClashPart{Step: st}
	for _, c := range m.Conflicts {
		part.Places = append(part.Places, c.Base.Lines)
	}
	mg.Clash.Parts = append(mg.Clash.Parts, part)
	if how == rollback.ConflictMarkers {
		base, theirs := "after "+st.Whose(), "before "+st.Whose()
		if st.Comes {
			base, theirs = theirs, base
		}
		mg.Text = m.Markers("now", base, theirs)
		signs, lines := markersIn(mg.Text[m.Conflicts[0].Result.Bytes.Start:])
		mg.Clash.Signs, mg.Texts = append(mg.Clash.Signs, signs), append(mg.Texts, lines)
	}
	return "", nil
}

// noteInPart notes what came of a step that was done in part.
func (mg *Path) noteInPart(st *Step, base, ours, theirs, text []byte) error {
	if st.Part == nil {
		mg.isUntold = true
		return nil
	}
	isMode := mg.Now.Mode == st.Base.Mode || mg.Now.Mode == st.Theirs.Mode
	d, ok, err := st.inPart(mg.ctx, mg.mr.Source, isMode, base, ours, theirs, text)
	switch {
	case ok && err == nil:
		mg.done = append(mg.done, d)
	case mg.mr.OnConflict == rollback.ConflictMarkers && (st.Comes || st.Part.isPutBack()):
		// Whoever resolves the conflict may take it: who takes it for in will look for it.
		mg.done = append(mg.done, stepDone{st: st, some: true})
	case st.Comes || st.Part.isPutBack(): // it would be there, and not be in
		mg.isUntold = true
	default: // it is tried again, and is there no more
		mg.isVague = true
	}
	return err
}

// hasCommon reports whether a text that was merged in part has each line that both sides
// have. Else a change has moved lines of somebody's, which would go from where they are by
// now and, being in conflict there, not come where they were.
func hasCommon(text, ours, theirs []byte) bool {
	has := make(map[string]bool)
	for line := range bytes.Lines(text) {
		has[Bare(line)] = true
	}
	wanted := make(map[string]bool)
	for line := range bytes.Lines(theirs) {
		wanted[Bare(line)] = true
	}
	for line := range bytes.Lines(ours) {
		if l := Bare(line); wanted[l] && !has[l] {
			return false
		}
	}
	return true
}

// keep notes a content that may be nowhere else.
func (mr *Merger) keep(id store.ID, text []byte) {
	if mr.made == nil {
		mr.made = make(map[store.ID][]byte)
	}
	mr.made[id] = text
}

// isMade reports whether the content of a file may be nowhere: it is what a turn would have
// left without some lines.
func (mg *Path) isMade(e *tree.Entry) bool {
	if e == nil {
		return false
	}
	_, ok := mg.mr.made[e.ID]
	return ok
}

// read reads the content of a file.
func (mg *Path) read(e *tree.Entry) ([]byte, error) { return mg.mr.Read(mg.ctx, mg.name, mg.disk, e) }

// Read returns the content of a file that is, or was, at a path at which disk is now.
func (mr *Merger) Read(ctx context.Context, path string, disk, e *tree.Entry) ([]byte, error) {
	if text, ok := mr.made[e.ID]; ok {
		return text, nil
	}
	return mr.Source.Text(ctx, path, disk, e)
}

// Bare returns a line without its end.
func Bare(line []byte) string { return string(bytes.TrimRight(line, "\r\n")) }
