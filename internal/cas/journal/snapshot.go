package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// Present returns a copy for the caller, without trees if it was pruned.
func Present(s *store.Snapshot, pruned SeqSet) *store.Snapshot {
	c := *s
	if c.Pruned = IsPruned(s.Tree); c.Pruned { // in the store from which it came
		return &c
	}
	if !pruned.Has(s.Seq) {
		return &c
	}
	c.Pruned = true
	c.Tree, c.Coverage = Pruned(s.Tree), Pruned(s.Coverage)
	c.Base, c.Note = prunedState(s.Base), Pruned(s.Note)
	c.Also = slices.Clone(s.Also)
	for i := range c.Also {
		c.Also[i] = prunedState(c.Also[i])
	}
	return &c
}

// UsesPruned returns an error if the snapshot builds on one that was pruned.
func UsesPruned(s *store.Snapshot) error {
	for _, state := range object.States(s) {
		if IsPruned(state.Tree) || IsPruned(state.Coverage) {
			return fmt.Errorf("builds on a snapshot that is not kept: %w", store.ErrPruned)
		}
	}
	return nil
}

// prunedMark begins the IDs that stand for those of pruned snapshots' trees: no
// hash does, but one in 2^64.
var prunedMark = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Pruned returns what stands for an ID in a snapshot that was pruned.
func Pruned(id store.ID) store.ID {
	if !id.IsZero() {
		copy(id[:], prunedMark[:])
	}
	return id
}

func IsPruned(id store.ID) bool { return [8]byte(id[:8]) == prunedMark }

func prunedState(s store.State) store.State {
	return store.State{Tree: Pruned(s.Tree), Coverage: Pruned(s.Coverage)}
}

// A PackLen says up to where a pack is durable.
type PackLen struct {
	Pack [16]byte
	End  int64
}

// Field tags in a frame's body (docs/reference/format.md §5.3). Tags below 128 must be
// understood by every reader, the others may be skipped.
const (
	TagTree     = 1
	tagCoverage = 2
	tagTime     = 3
	tagWorktree = 4
	tagRoot     = 5
	TagHead     = 6
	tagSession  = 7
	tagParent   = 8
	tagKind     = 9
	tagEntry    = 10
	tagAbove    = 11
	tagLog      = 12
	tagLabel    = 13
	tagBase     = 14
	tagAlso     = 15 // repeated
	TagData     = 16
	TagPack     = 64 // repeated
	TagEpoch    = 65
	// Of states and ledgers, since format 2.
	tagCompleted = 66
	tagCondemned = 67 // repeated
	tagRemoved   = 68 // repeated
	tagPruned    = 69
	tagNote      = 128
	tagOrigin    = 129
)

// Frame kinds (§5.2).
const (
	FrameState    = 1 // first in a segment: lengths of unsealed packs, epoch
	FrameSnapshot = 2
	FramePacks    = 3 // lengths only: a capture that ended without a snapshot
	FrameLedger   = 4 // what a prune changes of a state
)

func AppendField(b []byte, tag uint8, v []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func SortPacks(packs []PackLen) {
	slices.SortFunc(packs, func(a, b PackLen) int { return bytes.Compare(a.Pack[:], b.Pack[:]) })
}

func AppendPacks(b []byte, packs []PackLen) []byte {
	for _, p := range packs {
		b = AppendField(b, TagPack, layout.Le.AppendUint64(p.Pack[:len(p.Pack):len(p.Pack)], uint64(p.End)))
	}
	return b
}

// AppendSnapshot appends the body of a snapshot's frame. Fields that are zero
// or empty are left out.
func AppendSnapshot(b []byte, s *store.Snapshot, packs []PackLen) []byte {
	b = AppendField(b, TagTree, s.Tree[:])
	if !s.Coverage.IsZero() {
		b = AppendField(b, tagCoverage, s.Coverage[:])
	}
	if !s.Time.IsZero() {
		b = AppendField(b, tagTime, layout.Le.AppendUint64(nil, uint64(s.Time.UnixNano())))
	}
	str := func(tag uint8, v string) {
		if v != "" {
			b = AppendField(b, tag, []byte(v))
		}
	}
	str(tagWorktree, s.Worktree)
	str(tagRoot, s.Root)
	str(TagHead, s.Head)
	str(tagSession, s.Session)
	if s.Parent != 0 {
		b = AppendField(b, tagParent, layout.Le.AppendUint64(nil, s.Parent))
	}
	str(tagKind, s.Kind)
	str(tagEntry, s.Entry)
	str(tagAbove, s.Above)
	str(tagLog, s.Log)
	str(tagLabel, s.Label)
	if !s.Base.IsZero() {
		b = appendState(b, tagBase, s.Base)
	}
	for _, also := range s.Also {
		b = appendState(b, tagAlso, also)
	}
	str(TagData, string(s.Data))
	b = AppendPacks(b, packs)
	if !s.Note.IsZero() {
		b = AppendField(b, tagNote, s.Note[:])
	}
	str(tagOrigin, string(s.Origin))
	return b
}

func appendState(b []byte, tag uint8, s store.State) []byte {
	return AppendField(b, tag, append(s.Tree[:len(s.Tree):len(s.Tree)], s.Coverage[:]...))
}

var ErrBody = errors.New("bad journal record")

// fields calls fn for each field of a frame's body.
func fields(b []byte, fn func(tag uint8, v []byte) error) error {
	for len(b) > 0 {
		tag := b[0]
		n, w := binary.Uvarint(b[1:])
		if w <= 0 || n > uint64(len(b)-1-w) {
			return ErrBody
		}
		v := b[1+w : 1+w+int(n)]
		b = b[1+w+int(n):]
		if err := fn(tag, v); err != nil {
			return err
		}
	}
	return nil
}

// parseBytes takes the value of a field that is as long as dst.
func parseBytes(dst, v []byte) error {
	if len(v) != len(dst) {
		return ErrBody
	}
	copy(dst, v)
	return nil
}

func parseNumber(dst *uint64, v []byte) error {
	if len(v) != 8 {
		return ErrBody
	}
	*dst = layout.Le.Uint64(v)
	return nil
}

func parseState(dst *store.State, v []byte) error {
	n := len(dst.Tree)
	if len(v) != 2*n {
		return ErrBody
	}
	dst.Tree, dst.Coverage = store.ID(v[:n]), store.ID(v[n:])
	return nil
}

func unknownField(tag uint8) error {
	if tag >= 128 {
		return nil
	}
	return fmt.Errorf("%w: journal field %d", store.ErrFormat, tag)
}

// ParsePacks returns the pack lengths in a frame of any kind, and what a state or
// a ledger says beside.
func ParsePacks(f Frame) (packs []PackLen, l Ledger, err error) {
	err = fields(f.Body, func(tag uint8, v []byte) error {
		if tag == TagPack {
			if len(v) != 24 {
				return ErrBody
			}
			packs = append(packs, PackLen{[16]byte(v), int64(layout.Le.Uint64(v[16:]))})
			return nil
		}
		if f.Kind == FrameSnapshot {
			return nil
		}
		if f.Kind == FrameState || f.Kind == FrameLedger {
			if ok, err := l.parseField(tag, v); ok || err != nil {
				return err
			}
		}
		return unknownField(tag)
	})
	return packs, l, err
}

// ParseSnapshot decodes a snapshot frame.
func ParseSnapshot(f Frame) (*store.Snapshot, error) {
	s := &store.Snapshot{Seq: f.Seq}
	err := fields(f.Body, func(tag uint8, v []byte) error {
		switch tag {
		case TagTree:
			return parseBytes(s.Tree[:], v)
		case tagCoverage:
			return parseBytes(s.Coverage[:], v)
		case tagTime:
			var ns uint64
			err := parseNumber(&ns, v)
			s.Time = time.Unix(0, int64(ns))
			return err
		case tagWorktree:
			s.Worktree = string(v)
		case tagRoot:
			s.Root = string(v)
		case TagHead:
			s.Head = string(v)
		case tagSession:
			s.Session = string(v)
		case tagParent:
			return parseNumber(&s.Parent, v)
		case tagKind:
			s.Kind = string(v)
		case tagEntry:
			s.Entry = string(v)
		case tagAbove:
			s.Above = string(v)
		case tagLog:
			s.Log = string(v)
		case tagLabel:
			s.Label = string(v)
		case tagBase:
			return parseState(&s.Base, v)
		case tagAlso:
			var also store.State
			err := parseState(&also, v)
			s.Also = append(s.Also, also)
			return err
		case TagData:
			s.Data = bytes.Clone(v)
		case TagPack:
		case tagNote:
			return parseBytes(s.Note[:], v)
		case tagOrigin:
			s.Origin = bytes.Clone(v)
		default:
			return unknownField(tag)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
