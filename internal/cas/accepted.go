package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// The file accepted has what was lost for good, as somebody has accepted
// (docs/reference/format.md §5.8).
const (
	acceptedVersion = 1
)

// A Loss is what a store has lost. Once it is accepted it is no damage any more;
// what is lost beside it is. It is plain data.
type Loss struct {
	Time    time.Time   `json:"time"`              // when it was accepted
	Records [][2]uint64 `json:"records,omitempty"` // of the journal, by number: ranges, both ends in them
	// where it shows in files: of the journal, or as packages above call them
	Places  []string   `json:"places,omitempty"`
	Objects []store.ID `json:"objects,omitempty"` // that snapshots need

	top uint64 // the highest number that the journal had given out
}

// Empty reports whether nothing is lost.
func (l *Loss) Empty() bool { return len(l.Records)+len(l.Places)+len(l.Objects) == 0 }

// AddRecord adds a record that the journal does not know to have had. Those between
// it and the newest that it has are lost with it.
func (l *Loss) AddRecord(seq uint64) {
	last := l.top
	for _, r := range l.Records {
		last = max(last, r[1])
	}
	if seq > last {
		l.Records = append(l.Records, [2]uint64{last + 1, seq})
	}
}

// Has reports whether damage to the journal is part of the loss.
func (l *Loss) Has(d *object.CorruptError) bool { return slices.Contains(l.Places, placeOf(d)) }

// placeOf names the place of damage.
func placeOf(d *object.CorruptError) string { return fmt.Sprintf("%s@%d", d.Path, d.Off) }

// An AcceptedError is damage that was accepted.
type AcceptedError struct {
	*object.CorruptError
	At time.Time
}

// acceptedFile is the file accepted.
type acceptedFile struct {
	Version int    `json:"v"`
	Losses  []Loss `json:"losses"`
}

// Accepted is what somebody has accepted to be lost. A nil one has nothing.
type Accepted struct {
	records []seqTime
	places  map[string]time.Time
	objects map[store.ID]time.Time
}

type seqTime struct {
	from, to uint64
	at       time.Time
}

// record returns the range in which the loss of a record was accepted; nil: it was
// not, and next is the first one behind it of which it was.
func (a *Accepted) record(seq uint64) (in *seqTime, next uint64) {
	next = math.MaxUint64
	if a == nil {
		return nil, next
	}
	for i := range a.records {
		switch r := &a.records[i]; {
		case r.from <= seq && seq <= r.to:
			return r, 0
		case r.from > seq:
			next = min(next, r.from)
		}
	}
	return nil, next
}

// Place returns when the loss that shows at a place was accepted.
func (a *Accepted) Place(name string) (at time.Time, ok bool) {
	if a != nil {
		at, ok = a.places[name]
	}
	return at, ok
}

// acceptedCache is what was read of the file last.
type acceptedCache struct {
	mu sync.Mutex // guards the rest
	at vfs.Stat   // of the file that was read
	a  *Accepted
}

// Accepted returns what somebody has accepted to be lost. If the file is damaged the
// error is a [*object.CorruptError], and nothing counts as accepted.
func (s *Store) Accepted() (*Accepted, error) {
	c := &s.accepted
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := s.fsys.Stat(layout.AcceptedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.a != nil && c.at == st {
		return c.a, nil
	}
	f, err := readAccepted(s.fsys)
	if err != nil {
		return nil, err
	}
	a := &Accepted{places: make(map[string]time.Time), objects: make(map[store.ID]time.Time)}
	for _, l := range f.Losses {
		for _, r := range l.Records {
			a.records = append(a.records, seqTime{r[0], r[1], l.Time})
		}
		for _, p := range l.Places {
			a.places[p] = l.Time
		}
		for _, id := range l.Objects {
			a.objects[id] = l.Time
		}
	}
	c.at, c.a = st, a
	return a, nil
}

// AcceptedObject returns when the loss of an object was accepted. That of none is if
// the file is damaged.
func (s *Store) AcceptedObject(id store.ID) (at time.Time, ok bool) {
	a, err := s.Accepted()
	if err != nil {
		s.log.Warn("damaged: which losses were accepted is not known", "path", layout.AcceptedName, "err", err)
	}
	if a != nil {
		at, ok = a.objects[id]
	}
	return at, ok
}

func readAccepted(fsys vfs.FS) (*acceptedFile, error) {
	f := &acceptedFile{Version: acceptedVersion}
	b, err := vfs.ReadFile(fsys, layout.AcceptedName)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if b, err = CutSum(b); err == nil {
		err = json.Unmarshal(b, f)
	}
	if err != nil {
		return nil, &object.CorruptError{Path: layout.AcceptedName, Err: err}
	}
	if f.Version != acceptedVersion {
		return nil, fmt.Errorf("%s: %w: version %d", layout.AcceptedName, store.ErrFormat, f.Version)
	}
	return f, nil
}

// JournalLoss returns what the journal has lost, as it is: after a repair, for good.
func (s *Store) JournalLoss() (*Loss, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	c, err := s.checkJournal(new(Report), nil)
	if err != nil {
		return nil, err
	}
	return c.loss(), nil
}

// Accept makes durable that a loss is accepted: that of the journal, with what
// packages above know beside. What is lost later has other numbers or places. The
// error matches [ErrPlanStale] if a record has one of the numbers by now.
func (s *Store) Accept(ctx context.Context, loss *Loss) error {
	if s.readOnly {
		return errors.New("accept loss: store is open read-only")
	}
	if err := s.accept(ctx, loss); err != nil {
		return fmt.Errorf("accept loss: %w", err)
	}
	return nil
}

func (s *Store) accept(ctx context.Context, loss *Loss) error {
	return s.withJournal(ctx, func() error {
		f, err := readAccepted(s.fsys)
		if err != nil {
			return err
		}
		top := uint64(0)
		for _, r := range loss.Records {
			top = max(top, r[1])
		}
		if top > loss.top {
			if s.j.Seq > loss.top {
				return ErrPlanStale
			}
			// Nobody else knows of these numbers, and might give them to others: a
			// record behind them ends that.
			s.j.Skip = max(s.j.Skip, top)
			if err := s.appendOne(journal.Record{Kind: journal.FramePacks}, true); err != nil {
				return err
			}
		}
		f.Losses = append(f.Losses, *loss)
		b, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return layout.WriteFile(s.fsys, layout.AcceptedName, AppendSum(b))
	})
}

// checkAccepted returns what is damaged in the file, nil if nothing is.
func (s *Store) checkAccepted() (*object.CorruptError, error) {
	_, err := readAccepted(s.fsys)
	if damage, ok := errors.AsType[*object.CorruptError](err); ok {
		return damage, nil
	}
	return nil, err
}

// AppendSum ends the JSON of a file with a line that has the hash of all before it.
func AppendSum(b []byte) []byte {
	b = append(b, '\n')
	return fmt.Appendf(b, "%s\n", object.Hash(object.Blob, b))
}

// CutSum returns what AppendSum was given, if it is whole.
func CutSum(b []byte) ([]byte, error) {
	text, _ := bytes.CutSuffix(b, []byte("\n"))
	end := bytes.LastIndexByte(text, '\n') + 1
	if string(text[end:]) != object.Hash(object.Blob, b[:end]).String() {
		return nil, errors.New("its hash is wrong")
	}
	return b[:end], nil
}

// others returns the records of a set whose loss was not accepted, and when that of the last
// other one was.
func (a *Accepted) others(s journal.SeqSet) (more journal.SeqSet, at time.Time) {
	for _, r := range s {
		for r.From <= r.To {
			known, next := a.record(r.From)
			if known != nil {
				at, r.From = known.at, known.to+1
				continue
			}
			to := min(r.To, next-1)
			more = append(more, journal.SeqRange{From: r.From, To: to})
			r.From = to + 1
		}
	}
	return more, at
}
