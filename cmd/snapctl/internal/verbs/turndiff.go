package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// TurnDiffOf asks for what a turn did.
type TurnDiffOf struct {
	Page
	Rev     string   `json:"rev,omitempty"`     // of the turn; default "@"
	Paths   []string `json:"paths,omitempty"`   // only these, and what is below them
	Context int      `json:"context,omitempty"` // unchanged lines around each change; negative for none; default 3
	Detail  Detail   `json:"detail,omitempty"`  // default "diffs"
	Renames bool     `json:"renames,omitempty"` // a file that was moved is one change, at the path to which it came
}

// A Detail says how much is said of each file.
type Detail string

const (
	Diffs  Detail = "diffs"
	Counts Detail = "counts" // of lines, without diffs: as many files as are asked for, up to 10,000
	Names  Detail = "names"  // not even these: no content is read
)

// UnmarshalText reads one of these.
func (d *Detail) UnmarshalText(text []byte) error {
	if *d = Detail(text); *d != "" && *d != Diffs && *d != Counts && *d != Names {
		return fmt.Errorf("detail %q: want diffs, counts or names", text)
	}
	return nil
}

// maxFiles is how many files an answer without diffs has at most.
const maxFiles = 10_000

// TurnDiff is a part of what a turn did, in order of path.
type TurnDiff struct {
	EntryID    string       `json:"entryId,omitempty"`
	TurnIndex  int          `json:"turnIndex"`       // -1: the revision is of no turn
	Kind       string       `json:"kind"`            // as in get_snapshots
	Title      string       `json:"title,omitempty"` // what the turn was to do
	Agent      string       `json:"agent,omitempty"`
	Model      string       `json:"model,omitempty"`
	Unknown    string       `json:"unknown,omitempty"` // why files are not all: what was there before is lost
	Files      []TurnChange `json:"files"`
	NextCursor string       `json:"nextCursor,omitempty"`
}

// TurnChange is what a turn did to a path, or a piece of it.
type TurnChange struct {
	Path        string        `json:"path"`
	PathBytes   []byte        `json:"pathBytes,omitempty"`   // if it is not UTF-8
	Status      string        `json:"status"`                // "renamed", too, with renames
	From        string        `json:"renamedFrom,omitempty"` // of a renamed one: the path at which the old side was
	FromBytes   []byte        `json:"renamedFromBytes,omitempty"`
	Similarity  int           `json:"similarity,omitempty"` // of its sides, in percent
	Owner       manager.Owner `json:"owner,omitempty"`      // whose; of what no turn did offline or other, too
	Piece       int           `json:"piece"`                // from 1
	Pieces      int           `json:"pieces"`               // more than 1: somebody else has changed it between them
	OldHash     *store.ID     `json:"oldHash"`              // null: absent
	NewHash     *store.ID     `json:"newHash"`              // null: absent
	OldSize     int64         `json:"oldSize,omitempty"`
	NewSize     int64         `json:"newSize,omitempty"`
	OldMode     string        `json:"oldMode,omitempty"` // as git has it
	NewMode     string        `json:"newMode,omitempty"`
	Added       int           `json:"added"` // lines
	Deleted     int           `json:"deleted"`
	Binary      bool          `json:"binary,omitempty"`
	UnifiedDiff string        `json:"unifiedDiff"`                // for git apply and patch -p1
	DiffBytes   []byte        `json:"unifiedDiffBytes,omitempty"` // if it is not UTF-8
	TooLong     bool          `json:"tooLong,omitempty"`          // the diff is longer than 2 MiB, and left out
}

// maxDiffs is how long the diffs of an answer may be, in bytes: in JSON a byte
// takes up to six, and an answer is one line.
const maxDiffs = wire.MaxLine / 8

func turnDiff(ctx context.Context, s *Session, p *TurnDiffOf) (*TurnDiff, error) {
	from, to, err := p.bounds(maxPageSize)
	if err != nil {
		return nil, err
	}
	if isShort := p.Detail == Counts || p.Detail == Names; isShort && p.Limit > maxPageSize {
		to = from + min(p.Limit, maxFiles)
	}
	paths, err := s.treePaths(p.Paths)
	if err != nil {
		return nil, err
	}
	d, err := s.TurnDiff(ctx, cmp.Or(p.Rev, "@"))
	if err != nil {
		return nil, err
	}
	answer := &TurnDiff{EntryID: d.EntryID, TurnIndex: d.TurnIndex, Kind: d.Kind, Unknown: d.Unknown,
		Title: d.Title, Agent: d.Agent, Model: d.Model, Files: []TurnChange{}}
	files, i, length := NewComparison(s.FileSnapshotManager), 0, 0
	changes, err := files.pair(ctx, d.Changes, p.Renames)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if !IsBelow(c.Path, paths) {
			continue
		}
		if i++; i <= from {
			continue
		}
		var text []byte
		var stat filediff.Stat
		if p.Detail != Names && i <= to {
			text, stat, err = files.text(ctx, &c, p)
		}
		if err != nil {
			return nil, err
		}
		length += len(text)
		if i > to || length > maxDiffs && i > from+1 {
			answer.NextCursor = strconv.Itoa(i - 1)
			break
		}
		answer.Files = append(answer.Files, newTurnChange(&c, text, stat))
	}
	return answer, nil
}

// treePaths returns paths as trees have them.
func (s *Session) treePaths(args []string) (paths []string, err error) {
	for _, arg := range args {
		path, err := inside.Of(s).TreePath(arg)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// text returns a change as people read it, if that is asked for, and counts its lines; nothing of
// a directory, and where only what is captured has changed.
func (c *Comparison) text(ctx context.Context, of *movedChange, p *TurnDiffOf) ([]byte, filediff.Stat, error) {
	d := &of.Difference
	if trees.ModeOf(d).IsDir() || d.Status == tree.Captured || d.Status == tree.Uncaptured {
		return nil, filediff.Stat{}, nil
	}
	old, new, err := c.Files(ctx, of.from, d)
	if err != nil {
		return nil, filediff.Stat{}, fmt.Errorf("diff of %q: %w", d.Path, err)
	}
	var unified []byte
	if p.Detail != Counts {
		unified = textdiff.AppendUnified(nil, old, new, &textdiff.UnifiedOptions{Context: p.Context})
	}
	return unified, filediff.Count(old, new), nil
}

// A movedChange is what a turn did to a path; from is where the old side was, if that was another one.
type movedChange struct {
	manager.TurnChange
	from       string
	similarity int // of the sides, in percent
}

// pair makes one change of a file that was deleted and one that was added and is the same, moved, if
// that is asked for. One that somebody else has changed within the turn is not looked at.
func (c *Comparison) pair(ctx context.Context, changes []manager.TurnChange, isAsked bool) ([]movedChange, error) {
	list, diffs := make([]movedChange, len(changes)), make([]tree.Difference, len(changes))
	for i, change := range changes {
		if list[i].TurnChange = change; change.Pieces == 1 {
			diffs[i] = change.Difference
		}
	}
	if !isAsked {
		return list, nil
	}
	renames, _, err := trees.Renames(diffs, filediff.MaxText, func(d *tree.Difference, e *tree.Entry) ([]byte, error) {
		b, err := c.Content(ctx, d, e)
		if trees.IsLoss(err) { // it is like nothing else
			return nil, nil
		}
		return b, err
	})
	if err != nil {
		return nil, err
	}
	gone := make(map[string]bool)
	for _, r := range renames {
		to := &list[r.To]
		to.Old, to.from, to.similarity = diffs[r.From].Old, diffs[r.From].Path, r.Similarity
		gone[to.from] = true
	}
	return slices.DeleteFunc(list, func(of movedChange) bool { return gone[of.Path] }), nil
}

func newTurnChange(c *movedChange, text []byte, stat filediff.Stat) TurnChange {
	t := TurnChange{Path: c.Path, PathBytes: words.BytesUnlessText(c.Path), Status: c.Status.String(), Owner: c.Owner,
		From: c.from, FromBytes: words.BytesUnlessText(c.from), Similarity: c.similarity,
		Piece: c.Piece, Pieces: c.Pieces, Added: stat.Added, Deleted: stat.Deleted, Binary: stat.Binary,
		UnifiedDiff: string(text)}
	if c.from != "" {
		t.Status = "renamed"
	}
	if c.Old != nil {
		t.OldSize = c.Old.Size
		t.OldHash, t.OldMode = &c.Old.ID, strconv.FormatUint(uint64(filediff.GitMode(c.Old.Mode)), 8)
	}
	if c.New != nil {
		t.NewSize = c.New.Size
		t.NewHash, t.NewMode = &c.New.ID, strconv.FormatUint(uint64(filediff.GitMode(c.New.Mode)), 8)
	}
	switch {
	case len(text) > maxDiffs:
		t.UnifiedDiff, t.TooLong = "", true
	case !utf8.Valid(text):
		t.DiffBytes = text
	}
	return t
}

// IsBelow reports whether a path is, or lies below, one of those listed; so it
// is if none are. "." and "" are all of the directory.
func IsBelow(path string, list []string) bool {
	for _, top := range list {
		if top == "." || top == "" || path == top || strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return len(list) == 0
}
