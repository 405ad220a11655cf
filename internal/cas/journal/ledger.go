package journal

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/boocode/filestore/internal/cas/layout"
)

// A Ledger is what the first frame of each segment says of the store as a whole,
// and what a prune says anew.
type Ledger struct {
	Epoch     uint64     // changes when packs are about to be taken away
	Completed uint64     // nobody is in an epoch before this one
	Condemned [][16]byte // packs that a prune is about to take away: for writers they are not there
	Removed   [][16]byte // packs that a prune has taken away, or was about to when it died
	Pruned    SeqSet     // snapshots that are not kept
}

// AppendBody appends the body of the frame, packs included.
func (l *Ledger) AppendBody(b []byte, packs []PackLen) []byte {
	b = AppendPacks(b, packs)
	b = AppendField(b, TagEpoch, layout.Le.AppendUint64(nil, l.Epoch))
	if l.Completed != 0 {
		b = AppendField(b, tagCompleted, layout.Le.AppendUint64(nil, l.Completed))
	}
	for _, id := range l.Condemned {
		b = AppendField(b, tagCondemned, id[:])
	}
	for _, id := range l.Removed {
		b = AppendField(b, tagRemoved, id[:])
	}
	if len(l.Pruned) > 0 {
		b = AppendField(b, tagPruned, l.Pruned.Append(nil))
	}
	return b
}

// parseField takes in a field of the frame, and reports false if it is none
// of the ledger's.
func (l *Ledger) parseField(tag uint8, v []byte) (bool, error) {
	var err error
	var pack [16]byte
	switch tag {
	case TagEpoch:
		err = parseNumber(&l.Epoch, v)
	case tagCompleted:
		err = parseNumber(&l.Completed, v)
	case tagCondemned:
		err = parseBytes(pack[:], v)
		l.Condemned = append(l.Condemned, pack)
	case tagRemoved:
		err = parseBytes(pack[:], v)
		l.Removed = append(l.Removed, pack)
	case tagPruned:
		l.Pruned, err = ParseSeqSet(v)
	default:
		return false, nil
	}
	return true, err
}

// A SeqSet is a set of numbers of snapshots: ascending ranges with something
// between them.
type SeqSet []SeqRange

// A SeqRange has both ends in it.
type SeqRange struct{ From, To uint64 }

func (s SeqSet) Has(seq uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].To >= seq })
	return i < len(s) && s[i].From <= seq
}

// Add appends a number that is greater than all in the set. next says that
// nothing between it and the last one matters: then they share a range.
func (s *SeqSet) Add(seq uint64, next bool) {
	if n := len(*s); n > 0 && (next || (*s)[n-1].To+1 == seq) {
		(*s)[n-1].To = seq
		return
	}
	*s = append(*s, SeqRange{seq, seq})
}

// Append appends for each range how many numbers are left out before it, and how
// many are in it beside the first.
func (s SeqSet) Append(b []byte) []byte {
	last := uint64(0)
	for _, r := range s {
		b = binary.AppendUvarint(b, r.From-last-1)
		b = binary.AppendUvarint(b, r.To-r.From)
		last = r.To
	}
	return b
}

// ParseSeqSet reads what append writes, and nothing else.
func ParseSeqSet(b []byte) (SeqSet, error) {
	var s SeqSet
	last := uint64(0)
	for rest := b; len(rest) > 0; {
		var pair [2]uint64
		for i := range pair {
			v, n := binary.Uvarint(rest)
			if n <= 0 || n > 1 && rest[n-1] == 0 {
				return nil, ErrBody
			}
			pair[i], rest = v, rest[n:]
		}
		const most = 1 << 62 // so that no sum overflows
		if pair[0] > most || pair[1] > most || last > most || len(s) > 0 && pair[0] == 0 {
			return nil, ErrBody
		}
		from := last + 1 + pair[0]
		last = from + pair[1]
		s = append(s, SeqRange{from, last})
	}
	return slices.Clip(s), nil
}
