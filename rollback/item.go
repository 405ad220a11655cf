// Package rollback has the words of a restore: what becomes of files that somebody
// has changed since ([Policy]), and what a restore did or would do to each path
// ([Item], [Move]). Package manager plans restores and carries them out.
package rollback

import (
	"encoding/json"
	"fmt"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/tree"
)

// A Policy says what becomes of dirty paths.
type Policy string

const (
	Skip      Policy = "skip"      // they stay as they are
	Overwrite Policy = "overwrite" // they are changed like the others
	Abort     Policy = "abort"     // nothing is changed at all
	Merge     Policy = "merge"     // what others changed in files stays, and is merged with what is wanted
)

// MarshalText returns the policy as it is written, and an error unless it is one of those
// above, or empty.
func (p Policy) MarshalText() ([]byte, error) {
	switch p {
	case "", Skip, Overwrite, Abort, Merge:
		return []byte(p), nil
	}
	return nil, fmt.Errorf("policy %q: want skip, overwrite, abort or merge", string(p))
}

// UnmarshalText reads what MarshalText writes, and nothing else.
func (p *Policy) UnmarshalText(text []byte) error {
	*p = Policy(text)
	_, err := p.MarshalText()
	return err
}

// An OnConflict says what becomes of what cannot be merged, with [Merge]: lines that were
// to change and that somebody has changed meanwhile, and files as a whole.
type OnConflict string

const (
	ConflictKeep    OnConflict = "keep"    // it stays; the rest of the file is merged
	ConflictTheirs  OnConflict = "theirs"  // it becomes what it was to be
	ConflictMarkers OnConflict = "markers" // lines are there both ways, between lines that mark them; files stay
	ConflictAbort   OnConflict = "abort"   // nothing is changed at all
)

// MarshalText returns the word as it is written, and an error unless it is one of those
// above, or empty.
func (c OnConflict) MarshalText() ([]byte, error) {
	switch c {
	case "", ConflictKeep, ConflictTheirs, ConflictMarkers, ConflictAbort:
		return []byte(c), nil
	}
	return nil, fmt.Errorf("on conflict %q: want keep, theirs, markers or abort", string(c))
}

// UnmarshalText reads what MarshalText writes, and nothing else.
func (c *OnConflict) UnmarshalText(text []byte) error {
	*c = OnConflict(text)
	_, err := c.MarshalText()
	return err
}

// An Action is what is done to a path.
type Action string

const (
	Restore Action = "restored" // it gets what is wanted
	Delete  Action = "deleted"  // it goes
	Skipped Action = "skipped"  // it is dirty and stays, or it cannot be where it belongs
	Kept    Action = "kept"     // it would have to be deleted, and may not be
	Failed  Action = "failed"   // it cannot be done
)

// An Item is what a plan does to one path.
type Item struct {
	Path  string
	Do    Action
	Why   string      // of all but Delete; of what is restored: why a part of the file stays
	Dirty bool        // it is not what was expected
	Now   *tree.Entry // what is there; nil: nothing
	New   *tree.Entry // what is wanted; nil: nothing
	Note  string      // what could not be kept of a file, or goes with one that is named

	// Of what is restored or deleted: New is what is there without, or with, the changes
	// that go and come, so that what others have changed in a file stays.
	Merged bool

	// Of what is restored: the path at which what it is made of is. That goes once it is
	// there. "": it is made of what is at Path.
	From string

	Parent bool // a directory that is there only for what is in it

	// Of a dirty path that is skipped: what the session left there, and the turn that
	// did, -1 if it was there when the session began.
	Left   *tree.Entry `json:"-"` // nil: nothing
	LeftBy *int        `json:"-"` // nil: neither is known
}

// IsPart reports whether a file is restored in part: what cannot be merged stays.
func (i *Item) IsPart() bool { return i.Do == Restore && i.Why != "" }

// An itemJSON is an Item in JSON: the path, its bytes if they are not UTF-8, and
// what is done to it why.
type itemJSON struct {
	Path      string `json:"path"`
	Dir       bool   `json:"dir,omitempty"` // what is there, or is wanted, is a directory
	PathBytes []byte `json:"pathBytes,omitempty"`
	Action    Action `json:"action"`
	Reason    string `json:"reason,omitempty"`
	Dirty     bool   `json:"dirty,omitempty"`
	Merged    bool   `json:"merged,omitempty"`
	InPart    bool   `json:"inPart,omitempty"` // it is restored, but for what Reason says
	From      string `json:"from,omitempty"`
	FromBytes []byte `json:"fromBytes,omitempty"`
	Note      string `json:"note,omitempty"`
}

// MarshalJSON leaves out what is there and what is wanted.
func (i Item) MarshalJSON() ([]byte, error) {
	return json.Marshal(itemJSON{Path: i.Path, Dir: isDir(i.Now) || isDir(i.New), Action: i.Do, Reason: i.Why,
		PathBytes: words.BytesUnlessText(i.Path), Dirty: i.Dirty, Merged: i.Merged && i.Do == Restore,
		InPart: i.IsPart(), From: i.From, FromBytes: words.BytesUnlessText(i.From), Note: i.Note})
}

func isDir(e *tree.Entry) bool { return e != nil && e.Mode.IsDir() }

// UnmarshalJSON is the reverse of MarshalJSON.
func (i *Item) UnmarshalJSON(b []byte) error {
	var v itemJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*i = Item{Path: words.TextOrBytes(v.Path, v.PathBytes), Do: v.Action, Why: v.Reason, Dirty: v.Dirty,
		Merged: v.Merged, From: words.TextOrBytes(v.From, v.FromBytes), Note: v.Note}
	return nil
}

// A Move is something whose content is not known, since it was not captured,
// and that goes along with the directory in which it is: that was moved, and is
// restored file by file.
type Move struct {
	From  string
	To    string
	Inode uint64 // of what is at From; 0: whatever is there
	Why   string // why it was not moved; "": it was
}

// A moveJSON is a Move in JSON: the paths, and their bytes if they are not UTF-8.
type moveJSON struct {
	From      string `json:"from"`
	FromBytes []byte `json:"fromBytes,omitempty"`
	To        string `json:"to"`
	ToBytes   []byte `json:"toBytes,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// MarshalJSON leaves out the inode.
func (m Move) MarshalJSON() ([]byte, error) {
	return json.Marshal(moveJSON{m.From, words.BytesUnlessText(m.From), m.To, words.BytesUnlessText(m.To), m.Why})
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (m *Move) UnmarshalJSON(b []byte) error {
	var v moveJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*m = Move{From: words.TextOrBytes(v.From, v.FromBytes), To: words.TextOrBytes(v.To, v.ToBytes), Why: v.Reason}
	return nil
}
