package manager

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

// Kinds of record in the journal (docs/format.md §5.6). Each says in what state
// the directory was; which windows were open since the record before tells
// whose doing it is.
const (
	kindStart = "start" // the session begins
	kindBase  = "base"  // found at the start of a turn, or between its tools
	kindTool  = "tool"  // found at the end of a tool
	kindStep  = "step"  // a turn has ended and had changed something
	kindEmpty = "empty" // a turn has ended and had changed nothing
	kindPin   = "pin"   // steps of another session, which the session's log names, are kept for it

	kindIntent  = "intent"  // a restore is about to begin
	kindRestore = "restore" // a restore has ended
)

// recordVersion is the newest version of recordData. Version 2 has records that
// say of single paths where they stand (see joint), looks within a turn that
// are a position, turns that changed nothing, and forks.
const recordVersion = 2

// A recordData is what a record remembers beside what the store knows of it.
type recordData struct {
	Version int      `json:"v"`
	After   uint64   `json:"after,omitempty"`   // the worktree's record before this one, of any session; 0: the first
	Windows []string `json:"windows,omitempty"` // sessions with a window open since then

	// The line of steps that lead here. Jump goes further back than Prev,
	// so that any step of a long line is found in few hops: see link.
	Prev  uint64 `json:"prev,omitempty"`  // the step before this record, or the start
	Jump  uint64 `json:"jump,omitempty"`  // of a step: one further back
	Depth int    `json:"depth,omitempty"` // of a step: steps from the start; the start has 0
	Start uint64 `json:"start,omitempty"` // of the line; after a fork, of the session that it was forked from
	Begin uint64 `json:"begin,omitempty"` // start of the session itself

	// Of an empty turn or a joint: the newest turn before it that changed
	// something, or the start if that comes first; 0: the program did not say.
	Step uint64 `json:"step,omitempty"`

	Next int    `json:"next,omitempty"` // number of the session's next turn: one more than the largest that it has given
	Fork uint64 `json:"fork,omitempty"` // of a start: where on the line of another session it begins

	// Of a look within a turn: the worktree's record at which the turn began. Turn
	// is its number, Prev what it builds on.
	Within uint64 `json:"within,omitempty"`

	// Of a step, or an empty turn.
	Turn        int      `json:"turn,omitempty"`
	RuntimeTurn *int     `json:"runtimeTurn,omitempty"`
	Parts       []part   `json:"parts,omitempty"`
	Claims      [][]byte `json:"claims,omitempty"`  // paths that the session claimed
	Foreign     [][]byte `json:"foreign,omitempty"` // paths that others claimed meanwhile
	Interrupted bool     `json:"interrupted,omitempty"`
	Partial     bool     `json:"partial,omitempty"`
	Counts      [3]int   `json:"counts"`            // paths added, modified, deleted
	Unknown     string   `json:"unknown,omitempty"` // why they are not known: see Diff

	Told bool `json:"told,omitempty"` // a log has been given the entry's data

	Own    bool     `json:"own,omitempty"`    // the entry is one of our own log
	Untold uint64   `json:"untold,omitempty"` // newest step before this record that no log had been given then
	Pins   []uint64 `json:"pins,omitempty"`   // the session's records of kind pin before this one

	Restored uint64 `json:"restored,omitempty"` // the session's newest record of kind restore before this one
	Pos      uint64 `json:"pos,omitempty"`      // where the files stand, if that is not at Prev: the conversation has moved alone

	// Of a restore and its intent. Prev is where it leads, which is where the
	// session's files stand from then on.
	ID     string `json:"id,omitempty"`     // in the names of files that lie beside others meanwhile
	Moves  []move `json:"moves,omitempty"`  // what goes along with directories that were moved
	From   uint64 `json:"from,omitempty"`   // where the files stood before
	Undoes uint64 `json:"undoes,omitempty"` // the restore that it takes back

	// The paths that do not stand at Prev after a restore: those that it left
	// alone stand at LeftFrom, those in Took at TookFrom. Only the paths: those
	// below a path of the list stand at Prev.
	Left     pathList `json:"left,omitempty"`
	LeftFrom uint64   `json:"leftFrom,omitempty"`
	Took     pathList `json:"took,omitempty"`
	TookFrom uint64   `json:"tookFrom,omitempty"`
	Apart    []apart  `json:"apart,omitempty"`

	// The turns by which the line after a restore differs from that of Prev,
	// newest first.
	With    []uint64 `json:"with,omitempty"`
	Without []uint64 `json:"without,omitempty"`

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

// A part is a stretch of a turn. From and To count the states of its record:
// 0 is Base, then those in Also, the last is the record's own.
type part struct {
	From      int  `json:"from"`
	To        int  `json:"to"`
	Contested bool `json:"contested,omitempty"`
}

// An apart says of paths of a joint that what is in there is in at no other
// position: what is in at From, with some turns, and without others.
type apart struct {
	Paths   pathList `json:"paths"`
	From    uint64   `json:"from"`
	With    []uint64 `json:"with,omitempty"`
	Without []uint64 `json:"without,omitempty"`
	Known   bool     `json:"known,omitempty"` // what the joint's state has there is expected, else nothing is
}

// A move is a [rollback.Move] in a record.
type move struct {
	From  []byte `json:"from"`
	To    []byte `json:"to"`
	Inode uint64 `json:"inode"`
}

// movesOf returns the moves of a plan that were done, or are to be done.
func movesOf(plan *rollback.Plan) (moves []move) {
	for _, mv := range plan.Moves {
		if mv.Why == "" {
			moves = append(moves, move{[]byte(mv.From), []byte(mv.To), mv.Inode})
		}
	}
	return moves
}

// moves returns the moves of a restore.
func (r *record) moves() (moves []rollback.Move) {
	for _, mv := range r.data.Moves {
		moves = append(moves, rollback.Move{From: string(mv.From), To: string(mv.To), Inode: mv.Inode})
	}
	return moves
}

// movesBack returns what takes back the moves of a restore.
func (r *record) movesBack() (moves []rollback.Move) {
	for _, mv := range slices.Backward(r.data.Moves) {
		moves = append(moves, rollback.Move{From: string(mv.To), To: string(mv.From), Inode: mv.Inode})
	}
	return moves
}

// A record is a snapshot in the store with its data. For a step, or a start,
// that only a log knows one is made up, with the number 0.
type record struct {
	*store.Snapshot
	data   recordData
	logged *StepSnapshotData // of a step that only a log knows
	behind *record           // only what the turn did behind this look; nil: all of it
	ways   map[string]*apart // of a joint, by path: see way
}

func readRecord(s *store.Snapshot) (*record, error) {
	r := &record{Snapshot: s}
	if len(s.Data) == 0 { // by a version that knew no turns: a line of steps may begin here
		c := *s
		c.Kind = kindStart
		return &record{Snapshot: &c, data: recordData{Version: recordVersion, Told: true}}, nil
	}
	if err := json.Unmarshal(s.Data, &r.data); err != nil {
		return nil, fmt.Errorf("snapshot %d: data: %w", s.Seq, err)
	}
	if r.data.Version < 1 || r.data.Version > recordVersion {
		return nil, fmt.Errorf("snapshot %d: %w: version %d of its data", s.Seq, store.ErrFormat, r.data.Version)
	}
	switch s.Kind {
	case kindStart, kindBase, kindTool, kindStep, kindEmpty, kindPin, kindRestore:
	case kindIntent:
		if len(s.Also) != 1 {
			return nil, fmt.Errorf("snapshot %d: data: %w: an intent without what it leads to", s.Seq, store.ErrCorrupt)
		}
	default:
		return nil, fmt.Errorf("snapshot %d: %w: kind %q", s.Seq, store.ErrFormat, s.Kind)
	}
	d := &r.data
	named := slices.Concat(d.With, d.Without, d.UndoPast, d.RedoPast, []uint64{d.After, d.Prev, d.Jump, d.Start, d.Begin, d.Untold, d.Restored, d.Pos, d.Fork,
		d.Within, d.Step, d.LeftFrom, d.TookFrom, d.From, d.Undoes, d.Undo, d.Redo, d.Below})
	for _, a := range d.Apart {
		named = append(append(append(named, a.From), a.With...), a.Without...)
	}
	if slices.Max(named) >= s.Seq {
		return nil, fmt.Errorf("snapshot %d: data: %w: it names one after it", s.Seq, store.ErrCorrupt)
	}
	states := len(s.Also) + 2
	for _, p := range r.data.Parts {
		if p.From < 0 || p.To < 0 || p.From >= states || p.To >= states {
			return nil, fmt.Errorf("snapshot %d: data: %w: part of a state that it has not", s.Seq, store.ErrCorrupt)
		}
	}
	return r, nil
}

// write puts the data into the snapshot, in the oldest version that has it.
func (r *record) write() {
	r.data.Version = 1
	if d := &r.data; r.Kind == kindEmpty || d.Fork != 0 || d.isJoint() {
		r.data.Version = recordVersion
	}
	b, err := json.Marshal(&r.data)
	if err != nil {
		panic("manager: internal error: " + err.Error())
	}
	r.Data = b
}

// state returns one of the record's states, as parts count them.
func (r *record) state(i int) store.State {
	switch {
	case i == 0:
		return r.Base
	case i <= len(r.Also):
		return r.Also[i-1]
	}
	return r.State()
}

// isStep reports whether a record is a turn or the start of a session.
func (r *record) isStep() bool {
	return r.Kind == kindStep || r.Kind == kindEmpty || r.Kind == kindStart
}

// isTurn reports whether a record is a turn that has ended.
func (r *record) isTurn() bool { return r.Kind == kindStep || r.Kind == kindEmpty }

// isJoint reports whether a record is a restore after which not all paths, or
// not all turns, stand where Prev does, so that it is a position of its own.
func (r *record) isJoint() bool {
	d := &r.data
	return r.Kind == kindRestore && d.isJoint()
}

// isJoint reports whether a restore with this data is a joint.
func (d *recordData) isJoint() bool {
	return len(d.Left)+len(d.Took)+len(d.Apart)+len(d.With)+len(d.Without) > 0
}

// stay makes a restore one that is no joint.
func (d *recordData) stay() {
	d.Left, d.LeftFrom, d.Took, d.TookFrom, d.Apart, d.With, d.Without = nil, 0, nil, 0, nil, nil, nil
}

// ownPaths yields the paths of a joint that do not stand where Prev does.
func (d *recordData) ownPaths() iter.Seq[string] {
	return func(yield func(string) bool) {
		lists := []pathList{d.Left, d.Took}
		for _, a := range d.Apart {
			lists = append(lists, a.Paths)
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

// turnsLine reports whether a record is a joint whose line is not that of Prev.
func (r *record) turnsLine() bool { return r.isJoint() && len(r.data.With)+len(r.data.Without) > 0 }

// setParts puts the stretches of a turn into a record that has its Base and
// will be of the state end.
func (r *record) setParts(list []stretch, end store.State) {
	index := func(s store.State) int {
		switch s {
		case r.Base:
			return 0
		case end:
			return len(r.Also) + 1
		}
		return slices.Index(r.Also, s) + 1
	}
	for _, s := range list {
		for _, s := range []store.State{s.from, s.to} {
			if s != r.Base && s != end && index(s) == 0 {
				r.Also = append(r.Also, s)
			}
		}
	}
	r.data.Parts = nil
	for _, s := range list {
		r.data.Parts = append(r.data.Parts, part{index(s.from), index(s.to), s.contested})
	}
}

// stretches returns what setParts was given.
func (r *record) stretches() []stretch {
	var list []stretch
	for _, p := range r.data.Parts {
		list = append(list, stretch{r.state(p.From), r.state(p.To), p.Contested})
	}
	return list
}

// turn returns the number of the turn that a record is, or within which it
// looked; -1 of all others.
func (r *record) turn() int {
	if r.isTurn() || r.data.Within != 0 {
		return r.data.Turn
	}
	return -1
}

// next returns the number of the turn after a record, as far as the record
// knows: records of version 1 do not know of turns that were taken back.
func (r *record) next() int { return max(r.data.Next, r.turn()+1) }

// position returns the number of the record at which the session's files stand
// after a record: a turn, a look within one, the start, or a joint.
func (r *record) position() uint64 {
	switch {
	case r.isJoint():
		return r.Seq
	case r.data.Pos != 0:
		return r.data.Pos
	}
	return r.step()
}

// withSession returns what a record that is not committed yet will be in a
// session.
func (r *record) withSession(session string) *record {
	named := *r
	named.Snapshot = &store.Snapshot{Session: session, Kind: r.Kind}
	return &named
}

// withEntry returns the record with the entry that a log has for it.
func (r *record) withEntry(id string) *record {
	if r.Entry == id {
		return r
	}
	named := *r
	named.Snapshot = new(store.Snapshot)
	*named.Snapshot = *r.Snapshot
	named.Entry = id
	return &named
}

// isAfterGap reports whether it is not known who was at work between a record
// and the one before it, which has the number seq.
func (r *record) isAfterGap(seq uint64) bool {
	return r.data.After != seq || slices.Contains(r.data.Windows, nobody)
}

// A backList is what undo, or redo, takes back: first the restores that were passed
// over, then the one that is next, and what is below that in its own list.
type backList struct {
	past []uint64
	next uint64 // 0: none
}

// first returns what is taken back next; 0: nothing.
func (l backList) first() uint64 {
	if len(l.past) > 0 {
		return l.past[0]
	}
	return l.next
}

// behind returns the list with other restores before it.
func (l backList) behind(past []uint64) backList {
	return backList{slices.Concat(past, l.past), l.next}
}

// undo returns the list of undo after a record of a restore.
func (r *record) undo() backList {
	if r.data.Tops == topsUndo {
		return backList{next: r.Seq}
	}
	return backList{r.data.UndoPast, r.data.Undo}
}

// redo is undo for redo.
func (r *record) redo() backList {
	if r.data.Tops == topsRedo {
		return backList{next: r.Seq}
	}
	return backList{r.data.RedoPast, r.data.Redo}
}

// below returns what comes after a restore in the list in which it is.
func (r *record) below() backList {
	if r.data.Tops == topsRedo {
		return backList{r.data.RedoPast, r.data.Below}
	}
	return backList{r.data.UndoPast, r.data.Below}
}

// setBack notes the lists of undo and redo after a restore, without itself.
func (d *recordData) setBack(undo, redo backList) {
	d.Undo, d.UndoPast, d.Redo, d.RedoPast = undo.next, undo.past, redo.next, redo.past
}

const (
	topsUndo = "undo"
	topsRedo = "redo"
	topsNone = "none"
)

// step returns the number of the step that a record stands on: its own if it
// is one.
func (r *record) step() uint64 {
	if r.isStep() {
		return r.Seq
	}
	return r.data.Prev
}

// begin returns the number of the start of the record's session.
func (r *record) begin() uint64 {
	if r.Kind == kindStart {
		return r.Seq
	}
	return r.data.Begin
}

// start returns the number of the start of the line that a record is on.
func (r *record) start() uint64 {
	if r.Kind == kindStart && r.data.Start == 0 {
		return r.Seq
	}
	return r.data.Start
}
