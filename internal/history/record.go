package history

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

// A Record is a snapshot in the store with what it remembers beside. For a step, or a
// start, that only a session's log knows one is made up, with the number 0.
type Record struct {
	*store.Snapshot
	Facts Facts

	Logged []byte  // data of the entry of a step that only a log knows; nil of all others
	Behind *Record // only what the turn did behind this look; nil: all of it

	ways map[string]*Apart // of a joint, by path: see Way
	cuts map[string][]Cut  // of a joint, by path: see CutAt
}

// Read returns the record that a snapshot is.
func Read(s *store.Snapshot) (*Record, error) {
	r := &Record{Snapshot: s}
	if len(s.Data) == 0 { // by a version that knew no turns: a line of steps may begin here
		c := *s
		c.Kind = KindStart
		return &Record{Snapshot: &c, Facts: Facts{Version: recordVersion, LogFacts: LogFacts{Told: true}}}, nil
	}
	if err := json.Unmarshal(s.Data, &r.Facts); err != nil {
		return nil, fmt.Errorf("snapshot %d: data: %w", s.Seq, err)
	}
	if r.Facts.Version < 1 || r.Facts.Version > recordVersion {
		return nil, fmt.Errorf("snapshot %d: %w: version %d of its data", s.Seq, store.ErrFormat, r.Facts.Version)
	}
	switch s.Kind {
	case KindStart, KindBase, KindTool, KindStep, KindEmpty, KindPin, KindRestore:
	case KindIntent:
		if len(s.Also) != 1 {
			return nil, fmt.Errorf("snapshot %d: data: %w: an intent without what it leads to", s.Seq, store.ErrCorrupt)
		}
	default:
		return nil, fmt.Errorf("snapshot %d: %w: kind %q", s.Seq, store.ErrFormat, s.Kind)
	}
	for n := range r.Facts.numbers() {
		if *n >= s.Seq {
			return nil, fmt.Errorf("snapshot %d: data: %w: it names one after it", s.Seq, store.ErrCorrupt)
		}
	}
	for _, c := range r.Facts.Cuts {
		if !c.isInOrder() {
			return nil, fmt.Errorf("snapshot %d: data: %w: a cut of lines that do not follow one another",
				s.Seq, store.ErrCorrupt)
		}
	}
	states := len(s.Also) + 2
	for _, p := range r.Facts.Parts {
		if p.From < 0 || p.To < 0 || p.From >= states || p.To >= states {
			return nil, fmt.Errorf("snapshot %d: data: %w: part of a state that it has not", s.Seq, store.ErrCorrupt)
		}
	}
	return r, nil
}

// numbers yields all that name other records: 0 where none is named.
func (d *Facts) numbers() iter.Seq[*uint64] {
	return func(yield func(*uint64) bool) {
		one := []*uint64{&d.After, &d.Prev, &d.Jump, &d.Start, &d.Begin, &d.First, &d.Untold, &d.Restored, &d.Pos,
			&d.Fork, &d.Within, &d.Since, &d.Known, &d.Step, &d.LeftFrom, &d.TookFrom, &d.From, &d.Undoes, &d.Marks,
			&d.Undo, &d.Redo, &d.Below}
		lists := [][]uint64{d.With, d.Without, d.UndoPast, d.RedoPast, d.Pins}
		for i := range d.Apart {
			one = append(one, &d.Apart[i].From)
			lists = append(lists, d.Apart[i].With, d.Apart[i].Without)
		}
		for i := range d.Cuts {
			one = append(one, &d.Cuts[i].Turn)
		}
		for _, list := range lists {
			for i := range list {
				one = append(one, &list[i])
			}
		}
		for _, n := range one {
			if !yield(n) {
				return
			}
		}
	}
}

// Numbers returns the numbers of the records that a snapshot's data names.
func Numbers(s *store.Snapshot) ([]uint64, error) {
	r, err := Read(s)
	if err != nil {
		return nil, err
	}
	var list []uint64
	for n := range r.Facts.numbers() {
		if *n != 0 {
			list = append(list, *n)
		}
	}
	return list, nil
}

// Renumber gives a snapshot of another store data that names records by the numbers that they
// have in this one, as number says; 0 is one that is not here. That a look was within a turn
// holds also where the record is not here at which the turn began: near returns the one before
// that which is, or any if none is.
func Renumber(s *store.Snapshot, number, near func(uint64) uint64) error {
	if len(s.Data) == 0 {
		return nil
	}
	r := &Record{Snapshot: s}
	if err := json.Unmarshal(s.Data, &r.Facts); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if v := r.Facts.Version; v < 1 || v > recordVersion {
		return fmt.Errorf("%w: version %d of its data", store.ErrFormat, v)
	}
	d := &r.Facts
	for n := range d.numbers() {
		was := *n
		if was == 0 {
			continue
		}
		if *n = number(was); *n == 0 && (n == &d.Within || n == &d.Since) {
			*n = max(near(was), 1)
		}
	}
	b, err := json.Marshal(&r.Facts)
	s.Data = b
	return err
}

// Moves returns the moves of a restore.
func (r *Record) Moves() (moves []rollback.Move) {
	for _, mv := range r.Facts.Moves {
		moves = append(moves, rollback.Move{From: string(mv.From), To: string(mv.To), Inode: mv.Inode})
	}
	return moves
}

// Write puts the data into the snapshot, in the oldest version that has it.
func (r *Record) Write() {
	r.Facts.Version = 1
	switch d := &r.Facts; {
	case len(d.Cuts) > 0:
		d.Version = cutVersion
	case r.Kind == KindEmpty || d.Fork != 0 || d.IsJoint():
		d.Version = jointVersion
	}
	b, err := json.Marshal(&r.Facts)
	if err != nil {
		panic("history: internal error: " + err.Error())
	}
	r.Data = b
}

// StateAt returns one of the record's states, as parts count them.
func (r *Record) StateAt(i int) store.State {
	switch {
	case i == 0:
		return r.Base
	case i <= len(r.Also):
		return r.Also[i-1]
	}
	return r.State()
}

// IsStep reports whether a record is a turn or the start of a session.
func (r *Record) IsStep() bool {
	return r.Kind == KindStep || r.Kind == KindEmpty || r.Kind == KindStart
}

// IsTurn reports whether a record is a turn that has ended.
func (r *Record) IsTurn() bool { return r.Kind == KindStep || r.Kind == KindEmpty }

// IsJoint reports whether a record is a restore after which not all paths, or
// not all turns, stand where Prev does, so that it is a position of its own.
func (r *Record) IsJoint() bool {
	d := &r.Facts
	return r.Kind == KindRestore && d.IsJoint()
}

// TurnsLine reports whether a record is a joint whose line is not that of Prev.
func (r *Record) TurnsLine() bool { return r.IsJoint() && len(r.Facts.With)+len(r.Facts.Without) > 0 }

// A Stretch is what happened to the directory between two states, both of
// which were seen.
type Stretch struct {
	From, To  store.State
	Contested bool
}

// SetParts puts the stretches of a turn into a record that has its Base and
// will be of the state end.
func (r *Record) SetParts(list []Stretch, end store.State) {
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
		for _, s := range []store.State{s.From, s.To} {
			if s != r.Base && s != end && index(s) == 0 {
				r.Also = append(r.Also, s)
			}
		}
	}
	r.Facts.Parts = nil
	for _, s := range list {
		r.Facts.Parts = append(r.Facts.Parts, Part{index(s.From), index(s.To), s.Contested})
	}
}

// Stretches returns what SetParts was given.
func (r *Record) Stretches() []Stretch {
	var list []Stretch
	for _, p := range r.Facts.Parts {
		list = append(list, Stretch{r.StateAt(p.From), r.StateAt(p.To), p.Contested})
	}
	return list
}

// Turn returns the number of the turn that a record is, or within which it
// looked; -1 of all others.
func (r *Record) Turn() int {
	if r.IsTurn() || r.Facts.Within != 0 {
		return r.Facts.Turn
	}
	return -1
}

// Next returns the number of the turn after a record, as far as the record
// knows: records of version 1 do not know of turns that were taken back.
func (r *Record) Next() int { return max(r.Facts.Next, r.Turn()+1) }

// Position returns the number of the record at which the session's files stand
// after a record: a turn, a look within one, the start, or a joint.
func (r *Record) Position() uint64 {
	switch {
	case r.IsJoint():
		return r.Seq
	case r.Facts.Pos != 0:
		return r.Facts.Pos
	}
	return r.Step()
}

// Event returns what a record is to who reads the session's timeline: its kind,
// "undo" or "redo".
func (r *Record) Event() string {
	switch {
	case r.Kind == KindIntent: // what it found
		return KindBase
	case r.Kind != KindRestore || r.Facts.Undoes == 0:
		return r.Kind
	case r.Facts.Tops == TopsRedo:
		return "undo"
	}
	return "redo"
}

// IsAfterGap reports whether it is not known who was at work between a record
// and the one before it, which has the number seq.
func (r *Record) IsAfterGap(seq uint64) bool {
	return r.Facts.After != seq || slices.Contains(r.Facts.Windows, Nobody)
}

// A BackList is what undo, or redo, takes back: first the restores that were passed
// over, then the one that is next, and what is below that in its own list.
type BackList struct {
	Past []uint64
	Next uint64 // 0: none
}

// First returns what is taken back next; 0: nothing.
func (l BackList) First() uint64 {
	if len(l.Past) > 0 {
		return l.Past[0]
	}
	return l.Next
}

// Behind returns the list with other restores before it.
func (l BackList) Behind(past []uint64) BackList {
	return BackList{slices.Concat(past, l.Past), l.Next}
}

// Undo returns the list of undo after a record of a restore.
func (r *Record) Undo() BackList {
	if r.Facts.Tops == TopsUndo {
		return BackList{Next: r.Seq}
	}
	return BackList{r.Facts.UndoPast, r.Facts.Undo}
}

// Redo is Undo for redo.
func (r *Record) Redo() BackList {
	if r.Facts.Tops == TopsRedo {
		return BackList{Next: r.Seq}
	}
	return BackList{r.Facts.RedoPast, r.Facts.Redo}
}

// Below returns what comes after a restore in the list in which it is.
func (r *Record) Below() BackList {
	if r.Facts.Tops == TopsRedo {
		return BackList{r.Facts.RedoPast, r.Facts.Below}
	}
	return BackList{r.Facts.UndoPast, r.Facts.Below}
}

// SetBack notes the lists of undo and redo after a restore, without itself.
func (d *Facts) SetBack(undo, redo BackList) {
	d.Undo, d.UndoPast, d.Redo, d.RedoPast = undo.Next, undo.Past, redo.Next, redo.Past
}

const (
	TopsUndo = "undo"
	TopsRedo = "redo"
	TopsNone = "none"
)

// Step returns the number of the step that a record stands on: its own if it
// is one.
func (r *Record) Step() uint64 {
	if r.IsStep() {
		return r.Seq
	}
	return r.Facts.Prev
}

// Begin returns the number of the start of the record's session.
func (r *Record) Begin() uint64 {
	if r.Kind == KindStart {
		return r.Seq
	}
	return r.Facts.Begin
}

// Start returns the number of the start of the line that a record is on.
func (r *Record) Start() uint64 {
	if r.Kind == KindStart && r.Facts.Start == 0 {
		return r.Seq
	}
	return r.Facts.Start
}
