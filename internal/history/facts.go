// Package history is what the records of a store say, and the files beside them: what a
// [Record] remembers of a turn or a restore, which turns are open, and what was lost of all
// that and can be made anew. It knows no directory and no session: package manager asks
// what a record means for one.
//
// docs/reference/format.md §5.6 has the records, §9 the file of open turns.
package history

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Kinds of record in the journal (docs/reference/format.md §5.6). Each says in what state
// the directory was; which windows were open since the record before tells
// whose doing it is.
const (
	KindStart = "start" // the session begins
	KindBase  = "base"  // found at the start of a turn, or between its tools
	KindTool  = "tool"  // found at the end of a tool
	KindStep  = "step"  // a turn has ended and had changed something
	KindEmpty = "empty" // a turn has ended and had changed nothing
	KindPin   = "pin"   // steps of another session, which the session's log names, are kept for it

	KindIntent  = "intent"  // a restore is about to begin
	KindRestore = "restore" // a restore has ended
)

// Kinds of record of edits. They are in a line of their own, of all sessions of
// a worktree: they say of a few files what they were, and nothing of the others.
const (
	KindEditIntent = "edit-intent" // an edit is about to be written: with a crash it is taken back
	KindEdit       = "edit"
)

// EditSession is the session of that line; others have no such name.
const EditSession = "edits"

// EditSuffix makes the line of a worktree's edits of its name.
const EditSuffix = "/edits"

// IsEdit reports whether a snapshot is of an edit, and so of a few files only.
func IsEdit(s *store.Snapshot) bool { return s.Kind == KindEdit || s.Kind == KindEditIntent }

// The versions of Facts. jointVersion has records that say of single paths where they
// stand (see joint), looks within a turn that are a position, turns that changed nothing,
// and forks; cutVersion has joints with cuts.
const (
	jointVersion = 2
	cutVersion   = 3

	recordVersion = cutVersion // the newest
)

// Facts are what a record remembers beside what the store knows of it: some that all
// kinds have, and some of single kinds. The latter are embedded, so that the JSON has
// all of them side by side.
type Facts struct {
	Version int      `json:"v"`
	After   uint64   `json:"after,omitempty"`   // the worktree's record before this one, of any session; 0: the first
	Windows []string `json:"windows,omitempty"` // sessions with a window open since then

	LineFacts
	TurnFacts
	LogFacts

	Restored uint64 `json:"restored,omitempty"` // the session's newest record of kind restore before this one
	Pos      uint64 `json:"pos,omitempty"`      // where the files stand, if not at Prev: the conversation moved alone

	RestoreFacts
}

// LineFacts are where a record is on the line of steps. Jump goes further back than
// Prev, so that any step of a long line is found in few hops.
type LineFacts struct {
	Prev  uint64 `json:"prev,omitempty"`  // the step before this record, or the start
	Jump  uint64 `json:"jump,omitempty"`  // of a step: one further back
	Depth int    `json:"depth,omitempty"` // of a step: steps from the start; the start has 0
	Start uint64 `json:"start,omitempty"` // of the line; after a fork, of the session that it was forked from
	Begin uint64 `json:"begin,omitempty"` // start of the session itself

	// Of an empty turn or a joint: the newest turn before it that changed
	// something, or the start if that comes first; 0: the program did not say.
	Step uint64 `json:"step,omitempty"`

	First uint64 `json:"first,omitempty"` // the session's first record with a note, if that is before this one

	Next int    `json:"next,omitempty"` // number of the session's next turn: one more than the largest so far
	Fork uint64 `json:"fork,omitempty"` // of a start: where on the line of another session it begins

	// Of a look within a turn: the worktree's record at which the turn began. Turn
	// is its number, Prev what it builds on.
	Within uint64 `json:"within,omitempty"`
	// Of a turn that was announced: what its looks have, or would have, as Within; 0: it was not, or the
	// program did not say.
	Since uint64 `json:"since,omitempty"`
}

// TurnFacts are those of a step, or of an empty turn.
type TurnFacts struct {
	Turn        int      `json:"turn,omitempty"`
	RuntimeTurn *int     `json:"runtimeTurn,omitempty"`
	Parts       []Part   `json:"parts,omitempty"`
	Claims      [][]byte `json:"claims,omitempty"`  // paths that the session claimed
	Foreign     [][]byte `json:"foreign,omitempty"` // paths that others claimed meanwhile
	Interrupted bool     `json:"interrupted,omitempty"`
	Known       uint64   `json:"known,omitempty"`  // of one that was cut off: as in OpenTurn
	GoesOn      bool     `json:"goesOn,omitempty"` // it is the first part of a turn that was divided
	Partial     bool     `json:"partial,omitempty"`
	Counts      [3]int   `json:"counts"`            // paths added, modified, deleted
	Unknown     string   `json:"unknown,omitempty"` // why they are not known
	Agent       string   `json:"agent,omitempty"`   // program that ran the turn
	Model       string   `json:"model,omitempty"`   // and the model that it asked
}

// LogFacts are what the session's log has been given, and what it needs.
type LogFacts struct {
	Told   bool     `json:"told,omitempty"`   // a log has been given the entry's data
	Own    bool     `json:"own,omitempty"`    // the entry is one of our own log
	Untold uint64   `json:"untold,omitempty"` // newest step before this record that no log had been given then
	Pins   []uint64 `json:"pins,omitempty"`   // the session's records of kind pin before this one
}

// RestoreFacts are those of a restore and its intent. Prev is where it leads, which is
// where the session's files stand from then on.
type RestoreFacts struct {
	ID     string `json:"id,omitempty"`     // in the names of files that lie beside others meanwhile
	Moves  []Move `json:"moves,omitempty"`  // of what is in directories, and of files: docs/reference/format.md
	From   uint64 `json:"from,omitempty"`   // where the files stood before
	Undoes uint64 `json:"undoes,omitempty"` // the restore that it takes back

	Reverts []int `json:"reverts,omitempty"` // numbers of the turns that it takes back by name

	Marked []Marked `json:"marked,omitempty"` // files in which it has left markers of conflicts
	// The session's newest restore before this one that has Marked, or the session's start
	// if none has; 0: the program did not say, or no restore was before it.
	Marks uint64 `json:"marks,omitempty"`

	JointFacts

	// Of a navigation: the leaf of the log before it and after it.
	OldLeaf *string `json:"oldLeaf,omitempty"`
	NewLeaf *string `json:"newLeaf,omitempty"`

	// The lists of undo and redo, as they are after it: the restore that comes
	// next in each, and what comes next after this one in the list that it
	// is in. A number of its own is not known yet when it is written: 0 there
	// and Tops says so.
	Undo  uint64 `json:"undo,omitempty"`
	Redo  uint64 `json:"redo,omitempty"`
	Below uint64 `json:"below,omitempty"`

	// Restores that an undo, or a redo, has passed over come before Undo, or Redo,
	// and Below: the next one first.
	UndoPast []uint64 `json:"undoPast,omitempty"`
	RedoPast []uint64 `json:"redoPast,omitempty"`

	Tops string `json:"tops,omitempty"` // "undo" or "redo": this restore comes next in that list; or "none"
}

// JointFacts are what does not stand at Prev after a restore.
type JointFacts struct {
	// The paths that the restore left alone stand at LeftFrom, those in Took at
	// TookFrom. Only the paths: those below a path of the list stand at Prev.
	Left     PathList `json:"left,omitempty"`
	LeftFrom uint64   `json:"leftFrom,omitempty"`
	Took     PathList `json:"took,omitempty"`
	TookFrom uint64   `json:"tookFrom,omitempty"`
	Apart    []Apart  `json:"apart,omitempty"`

	// What was taken back of changes that stay in, at paths wherever these stand.
	Cuts []Cut `json:"cuts,omitempty"`

	// The turns by which the line after the restore differs from that of Prev,
	// newest first.
	With    []uint64 `json:"with,omitempty"`
	Without []uint64 `json:"without,omitempty"`
}

// Marked are files with markers of conflicts, of so many signs each.
type Marked struct {
	Paths PathList `json:"paths"`
	Signs int      `json:"signs"`
}

// A Part is a stretch of a turn. From and To count the states of its record:
// 0 is Base, then those in Also, the last is the record's own.
type Part struct {
	From      int  `json:"from"`
	To        int  `json:"to"`
	Contested bool `json:"contested,omitempty"`
}

// An Apart says of paths of a joint that what is in there is in at no other
// position: what is in at From, with some turns, and without others.
type Apart struct {
	Paths   PathList `json:"paths"`
	From    uint64   `json:"from"`
	With    []uint64 `json:"with,omitempty"`
	Without []uint64 `json:"without,omitempty"`
	Known   bool     `json:"known,omitempty"` // what the joint's state has there is expected, else nothing is
}

// A Cut says which part of what a turn did to a path was taken back.
type Cut struct {
	Path   []byte `json:"path"`
	Turn   uint64 `json:"turn"`             // its record
	Window int    `json:"window,omitempty"` // of the turn, from 1; 0: nobody else has changed the path between windows

	Spans []Span `json:"spans,omitempty"` // in order
	Mode  bool   `json:"mode,omitempty"`  // the mode was
	Whole bool   `json:"whole,omitempty"` // all that the window did was
}

// A Span is lines of what a turn left, from the first to before the second number, and
// those of what it found, from the third to before the fourth, that took their place.
type Span [4]int

// isInOrder reports whether the spans of a cut follow one another.
func (c *Cut) isInOrder() bool {
	left, found := 0, 0
	for _, s := range c.Spans {
		if s[0] < left || s[1] < s[0] || s[2] < found || s[3] < s[2] {
			return false
		}
		left, found = s[1], s[3]
	}
	return true
}

// A Move is a [rollback.Move] in a record.
type Move struct {
	From  []byte `json:"from"`
	To    []byte `json:"to"`
	Inode uint64 `json:"inode"`
}

// IsJoint reports whether a restore with these facts is a joint.
func (d *JointFacts) IsJoint() bool {
	return len(d.Left)+len(d.Took)+len(d.Apart)+len(d.Cuts)+len(d.With)+len(d.Without) > 0
}

// Stay makes a restore one that is no joint.
func (d *JointFacts) Stay() { *d = JointFacts{} }

// OwnPaths yields the paths of a joint at which not the same is in as at Prev.
func (d *JointFacts) OwnPaths() iter.Seq[string] {
	return func(yield func(string) bool) {
		lists := []PathList{d.Left, d.Took}
		for _, a := range d.Apart {
			lists = append(lists, a.Paths)
		}
		for _, c := range d.Cuts {
			lists = append(lists, PathList{c.Path})
		}
		for _, list := range lists {
			for _, p := range list {
				if !yield(string(p)) {
					return
				}
			}
		}
	}
}

// Leave notes that paths which a restore was about stand where they stood: somebody
// has changed them while it was cut off.
func (d *Facts) Leave(left map[string]bool) {
	d.Cuts = slices.DeleteFunc(d.Cuts, func(c Cut) bool { return left[string(c.Path)] })
	d.Took = slices.DeleteFunc(d.Took, func(p []byte) bool { return left[string(p)] })
	for i := range d.Apart {
		d.Apart[i].Paths = slices.DeleteFunc(d.Apart[i].Paths, func(p []byte) bool { return left[string(p)] })
	}
	for i := range d.Marked {
		d.Marked[i].Paths = slices.DeleteFunc(d.Marked[i].Paths, func(p []byte) bool { return left[string(p)] })
	}
	d.Apart = slices.DeleteFunc(d.Apart, func(a Apart) bool { return len(a.Paths) == 0 })
	if d.TookFrom != 0 || len(left) == 0 || d.Prev == d.From && len(d.With)+len(d.Without) == 0 {
		return
	}
	for _, p := range d.Left {
		left[string(p)] = true
	}
	d.Left, d.LeftFrom = PathBytes(left, nil), d.From
}

// A Step is what a log says of a turn, in short: the data of a step-snapshot entry.
type Step struct {
	Seq         uint64 // number of its record; 0: none is known
	Turn        int    // index
	RuntimeTurn *int
	Base        store.ID // at its start; zero: not known
	Tree        store.ID // that it left
	Counts      [3]int   // paths added, modified, deleted
	Unknown     string   // why they are not known
	Late        bool     // the log was given it late
	Above       string   // the entry that it belongs behind then; "": it comes before all
	Contested   bool     // of what it changed, something may be another session's doing
	Interrupted bool
	Partial     bool
}

// maxTurn is above any turn that a session can have had.
const maxTurn = 1 << 31

// ParseStep returns what an entry says of a turn, nil if it is no step-snapshot, or
// another program's: a log may have been written by several.
func ParseStep(e *session.Entry) *Step {
	if e.Type != "custom" || e.CustomType != sessionlog.StepSnapshot {
		return nil
	}
	var d struct {
		BaselineTreeHash, SnapshotTreeHash store.ID
		Diff                               *struct {
			Added, Modified, Deleted []string
			Unknown                  string
		}
		TurnIndex            int
		RuntimeTurnIndex     *int
		SnapshotSeq          uint64
		Late                 bool
		AboveEntryID         string
		Contested            *struct{}
		Interrupted, Partial bool
	}
	if json.Unmarshal(e.Data, &d) != nil || d.SnapshotTreeHash.IsZero() || d.TurnIndex < 0 || d.TurnIndex > maxTurn {
		return nil
	}
	s := &Step{Seq: d.SnapshotSeq, Turn: d.TurnIndex, RuntimeTurn: d.RuntimeTurnIndex,
		Base: d.BaselineTreeHash, Tree: d.SnapshotTreeHash, Late: d.Late, Above: d.AboveEntryID,
		Contested: d.Contested != nil, Interrupted: d.Interrupted, Partial: d.Partial}
	if d.Diff != nil {
		s.Counts, s.Unknown = [3]int{len(d.Diff.Added), len(d.Diff.Modified), len(d.Diff.Deleted)}, d.Diff.Unknown
	}
	return s
}

// IsOf reports whether an entry is that of a record, which has the same number:
// one that was made in another store may have it, too.
func (s *Step) IsOf(r *Record) bool {
	tree, base := s.Tree, s.Base
	if r.Pruned {
		tree, base = cas.Pruned(tree), cas.Pruned(base)
	}
	switch {
	case !r.IsStep() || r.Tree != tree:
		return false
	case r.Kind == KindStart:
		return base.IsZero() && s.Turn == 0
	}
	return r.Base.Tree == base && r.Facts.Turn == s.Turn
}
