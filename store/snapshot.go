package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Snapshot is an immutable record that a tree existed: which, when, where
// and in whose conversation. The store keeps it and finds it again; what its
// strings mean is the business of the packages above.
type Snapshot struct {
	Seq      uint64    `json:"seq"`      // number of the record in the store, from 1; set by Commit
	Tree     ID        `json:"tree"`     // root tree
	Coverage ID        `json:"coverage"` // root of what was present but not captured; zero: nothing
	Time     time.Time `json:"time"`     // to the nanosecond, for people: order is by Seq

	Worktree string `json:"worktree"` // identity of the captured directory
	Root     string `json:"root"`     // its path, raw bytes, for people
	Head     string `json:"head"`     // commit that the user's repository was at, if any

	Session string `json:"session"` // conversation; "" outside of one
	Parent  uint64 `json:"parent"`  // Seq of the session's snapshot before this one; 0: none
	Kind    string `json:"kind"`    // what the record is to its session, e.g. "step"
	Entry   string `json:"entry"`   // session entry that stands for it
	Above   string `json:"above"`   // parent of that entry
	Log     string `json:"log"`     // file of the session's entries
	Label   string `json:"label"`   // name given by the user

	Base State   `json:"base"` // what the directory was before; zero: not known
	Also []State `json:"also"` // more that is to be kept as long as this snapshot
	Data []byte  `json:"-"`    // what the package above remembers with it

	// Pruned says that the snapshot was not kept: what it says still holds, but
	// its trees are gone. Their IDs are not those that they had, though equal
	// where those were; who asks for one gets an error that matches [ErrPruned].
	Pruned bool `json:"pruned,omitempty"`
}

// present returns a copy for the caller, without trees if it was pruned.
func (s *Snapshot) present(pruned seqSet) *Snapshot {
	c := *s
	if !pruned.has(s.Seq) {
		return &c
	}
	c.Pruned = true
	c.Tree, c.Coverage = s.Tree.Pruned(), s.Coverage.Pruned()
	c.Base = s.Base.pruned()
	c.Also = slices.Clone(s.Also)
	for i := range c.Also {
		c.Also[i] = c.Also[i].pruned()
	}
	return &c
}

// usesPruned returns an error if the snapshot builds on one that was pruned.
func (s *Snapshot) usesPruned() error {
	for _, state := range s.States() {
		if state.Tree.isPruned() || state.Coverage.isPruned() {
			return fmt.Errorf("builds on a snapshot that is not kept: %w", ErrPruned)
		}
	}
	return nil
}

func (s State) pruned() State { return State{s.Tree.Pruned(), s.Coverage.Pruned()} }

// States returns all states that the snapshot keeps, newest first; none if it
// was pruned.
func (s *Snapshot) States() []State {
	if s.Pruned {
		return nil
	}
	list := []State{s.State()}
	for _, also := range slices.Backward(s.Also) {
		list = append(list, also)
	}
	if !s.Base.IsZero() {
		list = append(list, s.Base)
	}
	return list
}

// A State is a root tree and what was left out of it. The zero State is none:
// an empty directory has a tree.
type State struct {
	Tree     ID `json:"tree"`
	Coverage ID `json:"coverage"` // zero: nothing was left out
}

// IsZero reports whether s is no state.
func (s State) IsZero() bool { return s == State{} }

// State returns the snapshot's tree and coverage.
func (s *Snapshot) State() State { return State{s.Tree, s.Coverage} }

// A packLen says up to where a pack is durable.
type packLen struct {
	pack [16]byte
	end  int64
}

// Field tags in a frame's body (docs/format.md §5.3). Tags below 128 must be
// understood by every reader, the others may be skipped.
const (
	tagTree     = 1
	tagCoverage = 2
	tagTime     = 3
	tagWorktree = 4
	tagRoot     = 5
	tagHead     = 6
	tagSession  = 7
	tagParent   = 8
	tagKind     = 9
	tagEntry    = 10
	tagAbove    = 11
	tagLog      = 12
	tagLabel    = 13
	tagBase     = 14
	tagAlso     = 15 // repeated
	tagData     = 16
	tagPack     = 64 // repeated
	tagEpoch    = 65
	// Of states and ledgers, since format 2.
	tagCompleted = 66
	tagCondemned = 67 // repeated
	tagRemoved   = 68 // repeated
	tagPruned    = 69
)

// Frame kinds (§5.2).
const (
	frameState    = 1 // first in a segment: lengths of unsealed packs, epoch
	frameSnapshot = 2
	framePacks    = 3 // lengths only: a capture that ended without a snapshot
	frameLedger   = 4 // what a prune changes of a state
)

func appendField(b []byte, tag uint8, v []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func sortPacks(packs []packLen) {
	slices.SortFunc(packs, func(a, b packLen) int { return bytes.Compare(a.pack[:], b.pack[:]) })
}

func appendPacks(b []byte, packs []packLen) []byte {
	for _, p := range packs {
		b = appendField(b, tagPack, le.AppendUint64(p.pack[:len(p.pack):len(p.pack)], uint64(p.end)))
	}
	return b
}

// appendBody appends the body of the snapshot's frame. Fields that are zero
// or empty are left out.
func (s *Snapshot) appendBody(b []byte, packs []packLen) []byte {
	b = appendField(b, tagTree, s.Tree[:])
	if !s.Coverage.IsZero() {
		b = appendField(b, tagCoverage, s.Coverage[:])
	}
	if !s.Time.IsZero() {
		b = appendField(b, tagTime, le.AppendUint64(nil, uint64(s.Time.UnixNano())))
	}
	str := func(tag uint8, v string) {
		if v != "" {
			b = appendField(b, tag, []byte(v))
		}
	}
	str(tagWorktree, s.Worktree)
	str(tagRoot, s.Root)
	str(tagHead, s.Head)
	str(tagSession, s.Session)
	if s.Parent != 0 {
		b = appendField(b, tagParent, le.AppendUint64(nil, s.Parent))
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
	str(tagData, string(s.Data))
	return appendPacks(b, packs)
}

func appendState(b []byte, tag uint8, s State) []byte {
	return appendField(b, tag, append(s.Tree[:len(s.Tree):len(s.Tree)], s.Coverage[:]...))
}

var errBody = errors.New("bad journal record")

// fields calls fn for each field of a frame's body.
func fields(b []byte, fn func(tag uint8, v []byte) error) error {
	for len(b) > 0 {
		tag := b[0]
		n, w := binary.Uvarint(b[1:])
		if w <= 0 || n > uint64(len(b)-1-w) {
			return errBody
		}
		v := b[1+w : 1+w+int(n)]
		b = b[1+w+int(n):]
		if err := fn(tag, v); err != nil {
			return err
		}
	}
	return nil
}

func unknownField(tag uint8) error {
	if tag >= 128 {
		return nil
	}
	return fmt.Errorf("%w: journal field %d", ErrFormat, tag)
}

// parsePacks returns the pack lengths in a frame of any kind, and what a state or
// a ledger says beside.
func parsePacks(f frame) (packs []packLen, l ledger, err error) {
	err = fields(f.body, func(tag uint8, v []byte) error {
		if tag == tagPack {
			if len(v) != 24 {
				return errBody
			}
			packs = append(packs, packLen{[16]byte(v), int64(le.Uint64(v[16:]))})
			return nil
		}
		if f.kind == frameSnapshot {
			return nil
		}
		if f.kind == frameState || f.kind == frameLedger {
			if ok, err := l.parseField(tag, v); ok || err != nil {
				return err
			}
		}
		return unknownField(tag)
	})
	return packs, l, err
}

// parseSnapshot decodes a snapshot frame.
func parseSnapshot(f frame) (*Snapshot, error) {
	s := &Snapshot{Seq: f.seq}
	err := fields(f.body, func(tag uint8, v []byte) error {
		id := func(dst *ID) error {
			if len(v) != len(dst) {
				return errBody
			}
			*dst = ID(v)
			return nil
		}
		num := func(dst *uint64) error {
			if len(v) != 8 {
				return errBody
			}
			*dst = le.Uint64(v)
			return nil
		}
		state := func(dst *State) error {
			if len(v) != 2*len(dst.Tree) {
				return errBody
			}
			dst.Tree, dst.Coverage = ID(v[:len(dst.Tree)]), ID(v[len(dst.Tree):])
			return nil
		}
		switch tag {
		case tagTree:
			return id(&s.Tree)
		case tagCoverage:
			return id(&s.Coverage)
		case tagTime:
			var ns uint64
			err := num(&ns)
			s.Time = time.Unix(0, int64(ns))
			return err
		case tagWorktree:
			s.Worktree = string(v)
		case tagRoot:
			s.Root = string(v)
		case tagHead:
			s.Head = string(v)
		case tagSession:
			s.Session = string(v)
		case tagParent:
			return num(&s.Parent)
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
			return state(&s.Base)
		case tagAlso:
			var also State
			err := state(&also)
			s.Also = append(s.Also, also)
			return err
		case tagData:
			s.Data = bytes.Clone(v)
		case tagPack:
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
