package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// FileDiff is the answer.
type FileDiff struct {
	File *manager.FileDiffInfo `json:"file"` // null: at neither point
}

// Page asks for a part of a list.
type Page struct {
	Limit  int    `json:"limit,omitempty"` // default 50, at most 200; of moments 2000
	Cursor string `json:"cursor,omitempty"`
}

// SnapshotsOf asks for a session's history.
type SnapshotsOf struct {
	Page
	NewestFirst bool     `json:"newestFirst,omitempty"` // and no more of it is read than is asked for
	Paths       []string `json:"paths,omitempty"`       // only what has changed something at these, or below them
	Branches    bool     `json:"branches,omitempty"`    // all branches of the conversation, and what builds on what
}

// A Snapshot is a line of a session's history.
type Snapshot struct {
	EntryID      string   `json:"entryId,omitempty"`
	Rev          string   `json:"rev,omitempty"` // the entry, or look:N of what has none: a revision
	TurnIndex    int      `json:"turnIndex"`     // -1: of no turn
	Kind         string   `json:"kind"`          // step, empty (of a turn), start, fork, restore, undo, redo or base
	TreeHash     store.ID `json:"treeHash"`
	CoverageHash store.ID `json:"coverageHash,omitzero"` // of what was left out; none: nothing
	SnapshotSeq  uint64   `json:"snapshotSeq,omitempty"`
	Pruned       bool     `json:"pruned,omitempty"`
	Time         string   `json:"time,omitempty"` // RFC 3339
	Label        string   `json:"label,omitempty"`
	Title        string   `json:"title,omitempty"` // of a turn: what it was to do, as turn_start said
	Agent        string   `json:"agent,omitempty"`
	Model        string   `json:"model,omitempty"`
	Added        int      `json:"added"`
	Modified     int      `json:"modified"`
	Deleted      int      `json:"deleted"`
	Unknown      string   `json:"unknown,omitempty"` // why these three are not all: what was there before is lost
	Interrupted  bool     `json:"interrupted,omitempty"`
	GoesOn       bool     `json:"goesOn,omitempty"` // it is a part of a turn that was divided
	Partial      bool     `json:"partial,omitempty"`
	TakenBack    uint64   `json:"takenBackSeq,omitempty"` // the turn: snapshotSeq of the restore that did
	But          []string `json:"but,omitempty"`          // paths at which it did not
	Without      []string `json:"without,omitempty"`      // of a turn that is in: paths at which it is not, or in part
	InPart       []string `json:"inPart,omitempty"`       // those of both lists at which a part of it is in, and a part is not
	Elsewhere    bool     `json:"elsewhere,omitempty"`    // on another branch of the conversation
	NotIn        bool     `json:"notIn,omitempty"`        // and what it did is not in: only with branches it is listed
	Prev         uint64   `json:"prevSeq,omitempty"`      // with branches: of the turn, or start, that it builds on
	ForkedFrom   string   `json:"forkedFrom,omitempty"`   // the session whose turn it is, or that a fork began from
	TookBack     []int    `json:"tookBack,omitempty"`     // turns that a restore took back
	Reverts      []int    `json:"reverts,omitempty"`      // turns that it was asked to take back by name
	PutBack      []int    `json:"putBack,omitempty"`      // and those that it put back
	PartOf       []int    `json:"partOf,omitempty"`       // those of both of which it was only a part
	Aborted      bool     `json:"aborted,omitempty"`      // the restore was stopped, and changed back what it had changed
}

// Snapshots are a part of a session's history, oldest first.
type Snapshots struct {
	Snapshots  []Snapshot `json:"snapshots"`
	NextCursor string     `json:"nextCursor,omitempty"`
	NotAll     string     `json:"notAll,omitempty"` // why there may have been more: what is damaged
}

// Find asks for changes by which a text came or went.
type Find struct {
	Page
	manager.FindOptions
}

// Found are a part of them, newest first.
type Found struct {
	Found      []*manager.Found `json:"found"`
	NextCursor string           `json:"nextCursor,omitempty"`
	NotAll     string           `json:"notAll,omitempty"` // why there may be more: what could not be searched
}

// CoverageOf asks for what was left out of a snapshot.
type CoverageOf struct {
	Page
	Rev          string         `json:"rev,omitempty"`         // default "@"
	CoverageHash store.ID       `json:"coverageHash,omitzero"` // instead of Rev: as a look has it
	Reasons      []trees.Reason `json:"reasons,omitempty"`     // default: all
}

// An Omission was left out.
type Omission struct {
	Path      string       `json:"path"`
	PathBytes []byte       `json:"pathBytes,omitempty"` // if it is not UTF-8
	Kind      string       `json:"kind"`                // file, dir, symlink or special
	Size      int64        `json:"size,omitempty"`
	Reason    trees.Reason `json:"reason"`
}

// Omissions are in order of path.
type Omissions struct {
	Omissions  []Omission `json:"omissions"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

const (
	pageSize    = 50
	maxPageSize = 200
	maxMoments  = 2000 // each page is walked to from an end of the history: few large ones cost less
)

// bounds returns what part of a list is asked for, of at most so many rows.
func (p *Page) bounds(most int) (from, to int, err error) {
	if p.Cursor != "" {
		from, err = strconv.Atoi(p.Cursor)
	}
	if err != nil || from < 0 || p.Limit < 0 {
		return 0, 0, fmt.Errorf("limit %d, cursor %q: %w", p.Limit, p.Cursor, inside.ErrPage)
	}
	return from, from + min(cmp.Or(p.Limit, pageSize), most), nil
}

func modifiedFiles(ctx context.Context, s *Session, a *manager.Range) (*manager.ModifiedFiles, error) {
	return s.ModifiedFiles(ctx, a)
}

func hunks(ctx context.Context, s *Session, a *manager.HunkRange) (*manager.HunkList, error) {
	return s.Hunks(ctx, a)
}

// wantPath refuses a request that names no path.
func wantPath(path string) error {
	if path == "" {
		return explain.Errorf(explain.BadRequest, "want path, a file")
	}
	return nil
}

func whereIs(ctx context.Context, s *Session, a *File) (*manager.Touch, error) {
	if err := wantPath(a.Path); err != nil {
		return nil, err
	}
	return s.WhereIs(ctx, a.Path)
}

func blame(ctx context.Context, s *Session, a *manager.BlameOptions) (*manager.Blame, error) {
	if err := wantPath(a.Path); err != nil {
		return nil, err
	}
	if a.Start < 0 || a.End < 0 || a.End > 0 && a.End < a.Start {
		return nil, explain.Errorf(explain.BadRequest, "start %d, end %d: want lines from 1, in order", a.Start,
			a.End)
	}
	return s.Blame(ctx, a)
}

func find(ctx context.Context, s *Session, a *Find) (*Found, error) {
	from, to, err := a.bounds(maxPageSize)
	if err != nil {
		return nil, err
	}
	answer := &Found{Found: []*manager.Found{}}
	i := 0
	for f, err := range s.Find(ctx, &a.FindOptions) {
		switch {
		case errors.Is(err, manager.ErrNotAll):
			answer.NotAll = err.Error()
			return answer, nil
		case err != nil:
			return nil, err
		case i == to:
			answer.NextCursor = strconv.Itoa(to)
			return answer, nil
		case i >= from:
			answer.Found = append(answer.Found, f)
		}
		i++
	}
	return answer, nil
}

func fileDiff(ctx context.Context, s *Session, a *manager.FileRange) (*FileDiff, error) {
	if err := wantPath(a.Path); err != nil {
		return nil, err
	}
	info, err := s.FileDiff(ctx, a)
	return &FileDiff{info}, err
}

func snapshots(ctx context.Context, s *Session, p *SnapshotsOf) (*Snapshots, error) {
	from, to, err := p.bounds(maxMoments)
	if err != nil {
		return nil, err
	}
	paths, err := s.treePaths(p.Paths)
	if err != nil {
		return nil, err
	}
	answer := &Snapshots{Snapshots: []Snapshot{}}
	answer.NotAll, err = history.Shown(ctx, inside.Store(s.FileSnapshotManager), s.Project().Worktree)
	if err != nil {
		return nil, err
	}
	if p.NewestFirst {
		if p.Branches {
			ctx = inside.WithAllBranches(ctx)
		}
		return answer, s.newestMoments(ctx, answer, paths, from, to)
	}
	if len(paths) > 0 || p.Branches {
		return nil, explain.Errorf(explain.BadRequest, "paths, branches: only with newestFirst")
	}
	all, err := s.moments(ctx, from == 0)
	if err != nil {
		return nil, err
	}
	for _, mo := range all[min(from, len(all)):min(to, len(all))] {
		answer.Snapshots = append(answer.Snapshots, newSnapshot(mo))
	}
	if to < len(all) {
		answer.NextCursor = strconv.Itoa(to)
	} else {
		s.listed.Store(nil)
	}
	return answer, nil
}

// newestMoments adds a part of what happened in the session, the newest first, to an answer.
func (s *Session) newestMoments(ctx context.Context, answer *Snapshots, paths []string, from, to int) error {
	i := 0
	for mo, err := range s.Timeline(ctx) {
		isIn := true
		if err == nil && len(paths) > 0 {
			isIn, err = changedAny(ctx, mo, paths)
		}
		switch {
		case err != nil:
			return err
		case !isIn:
			continue
		case i == to:
			answer.NextCursor = strconv.Itoa(to)
			return nil
		case i >= from:
			answer.Snapshots = append(answer.Snapshots, newSnapshot(mo))
		}
		i++
	}
	return nil
}

// changedAny reports whether a moment has changed something at paths, or below them; not of one of
// which that is not known.
func changedAny(ctx context.Context, mo *manager.Moment, paths []string) (bool, error) {
	if mo.Snapshot == nil || mo.Snapshot.Pruned {
		return false, nil
	}
	own, contested, err := mo.Changes(ctx)
	if err != nil {
		return false, err
	}
	for _, d := range []*manager.Diff{own, contested} {
		for path := range d.Paths() {
			if IsBelow(path, paths) {
				return true, nil
			}
		}
	}
	return false, nil
}

func newSnapshot(mo *manager.Moment) Snapshot {
	line := Snapshot{EntryID: mo.EntryID, Rev: history.NameOf(mo.EntryID, mo.Snapshot), TurnIndex: mo.TurnIndex,
		Kind: mo.Kind, TreeHash: mo.Tree, Added: mo.Added, Modified: mo.Modified, Deleted: mo.Deleted,
		Unknown: mo.Unknown, Interrupted: mo.Interrupted, GoesOn: mo.GoesOn, Partial: mo.Partial,
		But: mo.But, Without: mo.Without, InPart: mo.InPart,
		Title: mo.Title, Agent: mo.Agent, Model: mo.Model, Elsewhere: mo.Elsewhere, NotIn: mo.NotIn, Prev: mo.Prev,
		ForkedFrom: mo.ForkedFrom, TookBack: mo.TookBack, PutBack: mo.PutBack, PartOf: mo.PartOf,
		Aborted: mo.Aborted, Reverts: mo.Reverts}
	if s := mo.TakenBack; s != nil {
		line.TakenBack = s.Seq
	}
	if snap := mo.Snapshot; snap != nil {
		line.SnapshotSeq, line.Label, line.Pruned, line.CoverageHash = snap.Seq, snap.Label, snap.Pruned, snap.Coverage
		line.Time = snap.Time.Format("2006-01-02T15:04:05.000Z07:00")
	}
	return line
}

// moments returns what happened in the session, oldest first. All pages after the
// first are of the list that the first was of: the timeline can only be read as a
// whole, newest first.
func (s *Session) moments(ctx context.Context, anew bool) ([]*manager.Moment, error) {
	if list := s.listed.Load(); list != nil && !anew {
		return *list, nil
	}
	var all []*manager.Moment
	for mo, err := range s.Timeline(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, mo)
	}
	slices.Reverse(all)
	s.listed.Store(&all)
	return all, nil
}

func coverage(ctx context.Context, s *Session, p *CoverageOf) (*Omissions, error) {
	from, to, err := p.bounds(maxPageSize)
	if err != nil {
		return nil, err
	}
	of := p.CoverageHash
	if of.IsZero() {
		point, err := s.Resolve(ctx, cmp.Or(p.Rev, "@"))
		if err != nil {
			return nil, err
		}
		of = point.State.Coverage
	}
	answer := &Omissions{Omissions: []Omission{}}
	i := 0
	for o, err := range trees.Coverage(ctx, inside.Store(s.FileSnapshotManager), of) {
		switch {
		case err != nil:
			return nil, err
		case p.Reasons != nil && !slices.Contains(p.Reasons, o.Reason):
			continue
		case i == to:
			answer.NextCursor = strconv.Itoa(to)
			return answer, nil
		case i >= from:
			answer.Omissions = append(answer.Omissions, Omission{Path: o.Path,
				PathBytes: words.BytesUnlessText(o.Path), Kind: KindOf(o.Kind), Size: o.Size, Reason: o.Reason})
		}
		i++
	}
	return answer, nil
}

// KindOf names the kind of an entry, or of something that was left out.
func KindOf(m tree.Mode) string {
	switch m.Kind() {
	case tree.ModeFile:
		return "file"
	case tree.ModeDir:
		return "dir"
	case tree.ModeSymlink:
		return "symlink"
	}
	return "special"
}
