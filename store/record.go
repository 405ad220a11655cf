package store

import "time"

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

	// Note is a blob that is kept as long as this snapshot: what the package above was
	// told of it, and may be asked to forget; zero: nothing.
	Note ID `json:"note,omitzero"`

	// Origin names the record in a remote, if it came from there: what package lines says of
	// it. It is unique in a store. Empty: the record was made here.
	Origin []byte `json:"-"`

	// Pruned says that the snapshot was not kept: what it says still holds, but
	// its trees are gone. Their IDs are not those that they had, though equal
	// where those were; who asks for one gets an error that matches [ErrPruned].
	Pruned bool `json:"pruned,omitempty"`
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
