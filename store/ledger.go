package store

import (
	"encoding/binary"
	"slices"
	"sort"
)

// A ledger is what the first frame of each segment says of the store as a whole,
// and what a prune says anew.
type ledger struct {
	epoch     uint64     // changes when packs are about to be taken away
	completed uint64     // nobody is in an epoch before this one
	condemned [][16]byte // packs that a prune is about to take away: for writers they are not there
	removed   [][16]byte // packs that a prune has taken away, or was about to when it died
	pruned    seqSet     // snapshots that are not kept
}

// appendBody appends the body of the frame, packs included.
func (l *ledger) appendBody(b []byte, packs []packLen) []byte {
	b = appendPacks(b, packs)
	b = appendField(b, tagEpoch, le.AppendUint64(nil, l.epoch))
	if l.completed != 0 {
		b = appendField(b, tagCompleted, le.AppendUint64(nil, l.completed))
	}
	for _, id := range l.condemned {
		b = appendField(b, tagCondemned, id[:])
	}
	for _, id := range l.removed {
		b = appendField(b, tagRemoved, id[:])
	}
	if len(l.pruned) > 0 {
		b = appendField(b, tagPruned, l.pruned.append(nil))
	}
	return b
}

// parseField takes in a field of the frame, and reports false if it is none
// of the ledger's.
func (l *ledger) parseField(tag uint8, v []byte) (bool, error) {
	number := func(dst *uint64) error {
		if len(v) != 8 {
			return errBody
		}
		*dst = le.Uint64(v)
		return nil
	}
	pack := func(dst *[][16]byte) error {
		if len(v) != 16 {
			return errBody
		}
		*dst = append(*dst, [16]byte(v))
		return nil
	}
	var err error
	switch tag {
	case tagEpoch:
		err = number(&l.epoch)
	case tagCompleted:
		err = number(&l.completed)
	case tagCondemned:
		err = pack(&l.condemned)
	case tagRemoved:
		err = pack(&l.removed)
	case tagPruned:
		l.pruned, err = parseSeqSet(v)
	default:
		return false, nil
	}
	return true, err
}

// A seqSet is a set of numbers of snapshots: ascending ranges with something
// between them.
type seqSet []seqRange

// A seqRange has both ends in it.
type seqRange struct{ from, to uint64 }

func (s seqSet) has(seq uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to >= seq })
	return i < len(s) && s[i].from <= seq
}

// add appends a number that is greater than all in the set. next says that
// nothing between it and the last one matters: then they share a range.
func (s *seqSet) add(seq uint64, next bool) {
	if n := len(*s); n > 0 && (next || (*s)[n-1].to+1 == seq) {
		(*s)[n-1].to = seq
		return
	}
	*s = append(*s, seqRange{seq, seq})
}

// append appends for each range how many numbers are left out before it, and how
// many are in it beside the first.
func (s seqSet) append(b []byte) []byte {
	last := uint64(0)
	for _, r := range s {
		b = binary.AppendUvarint(b, r.from-last-1)
		b = binary.AppendUvarint(b, r.to-r.from)
		last = r.to
	}
	return b
}

// parseSeqSet reads what append writes, and nothing else.
func parseSeqSet(b []byte) (seqSet, error) {
	var s seqSet
	last := uint64(0)
	for rest := b; len(rest) > 0; {
		var pair [2]uint64
		for i := range pair {
			v, n := binary.Uvarint(rest)
			if n <= 0 || n > 1 && rest[n-1] == 0 {
				return nil, errBody
			}
			pair[i], rest = v, rest[n:]
		}
		const most = 1 << 62 // so that no sum overflows
		if pair[0] > most || pair[1] > most || last > most || len(s) > 0 && pair[0] == 0 {
			return nil, errBody
		}
		from := last + 1 + pair[0]
		last = from + pair[1]
		s = append(s, seqRange{from, last})
	}
	return slices.Clip(s), nil
}
