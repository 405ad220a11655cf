package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// StepSnapshotData is the data of a step-snapshot entry in a session log: what
// a turn did to the files.
type StepSnapshotData struct {
	// at the start of the turn; null: the first snapshot of a session
	BaselineTreeHash *store.ID `json:"baselineTreeHash"`
	SnapshotTreeHash store.ID  `json:"snapshotTreeHash"` // at its end
	Diff             *Diff     `json:"diff"`             // what the turn changed; null: nothing
	TurnIndex        int       `json:"turnIndex"`        // turns before it on its path

	RuntimeTurnIndex *int   `json:"runtimeTurnIndex,omitempty"` // the runtime's own count
	SnapshotSeq      uint64 `json:"snapshotSeq,omitempty"`      // number of the record in the store
	// the log is given it late, so that it does not stand where it belongs
	Late bool `json:"late,omitempty"`
	// the entry that it belongs behind then; "": it comes before all
	AboveEntryID string `json:"aboveEntryId,omitempty"`
	Contested    *Diff  `json:"contested,omitempty"`   // what this turn or another session's may have changed
	Interrupted  bool   `json:"interrupted,omitempty"` // the turn never ended: its process did
	Partial      bool   `json:"partial,omitempty"`     // a limit was reached: see the coverage
}

// Entry returns the step-snapshot entry that has this data.
func (d *StepSnapshotData) Entry(id, parent string) session.Entry {
	return session.Entry{ID: id, ParentID: parent, Type: "custom", CustomType: sessionlog.StepSnapshot, Data: encode(d)}
}

// A Diff lists the paths that differ between two states, each list in order.
// A mode or kind that changed counts as modified.
type Diff struct {
	Added    []string `json:"added"`
	Modified []string `json:"modified"`
	Deleted  []string `json:"deleted"`

	// Not on the disk, but in what is captured of it: a rule, a limit or a
	// budget changed.
	Captured   []string `json:"captured,omitempty"`
	Uncaptured []string `json:"uncaptured,omitempty"`

	// Unknown says why the lists do not have all: the store has lost what was
	// there before. "": they do. Where there is a Diff of what is contested
	// beside this one, this says it for both.
	Unknown string `json:"unknown,omitempty"`

	// PathBytes has the bytes of paths that are not UTF-8, by list and by
	// index in it.
	PathBytes map[string]map[int][]byte `json:"pathBytes,omitempty"`
}

// newDiff returns an empty Diff.
func newDiff() *Diff {
	return &Diff{Added: []string{}, Modified: []string{}, Deleted: []string{}}
}

// Add adds a path.
func (d *Diff) Add(path string, status tree.Status) {
	var list *[]string
	switch status {
	case tree.Added:
		list = &d.Added
	case tree.Modified, tree.Retyped:
		list = &d.Modified
	case tree.Deleted:
		list = &d.Deleted
	case tree.Captured:
		list = &d.Captured
	case tree.Uncaptured:
		list = &d.Uncaptured
	default:
		panic(fmt.Sprintf("manager: internal error: status %q", byte(status)))
	}
	d.PathBytes = addPath(d.PathBytes, status.String(), list, path)
}

// addPath adds a path to the list that has a name, and to raw, which it returns, the
// bytes of one that is not UTF-8.
func addPath(raw map[string]map[int][]byte, name string, list *[]string, path string) map[string]map[int][]byte {
	if b := words.BytesUnlessText(path); b != nil {
		if raw == nil {
			raw = make(map[string]map[int][]byte)
		}
		if raw[name] == nil {
			raw[name] = make(map[int][]byte)
		}
		raw[name][len(*list)] = b
	}
	*list = append(*list, path)
	return raw
}

// Len returns the number of paths.
func (d *Diff) Len() int {
	return len(d.Added) + len(d.Modified) + len(d.Deleted) + len(d.Captured) + len(d.Uncaptured)
}

// counts returns how many paths were added, modified and deleted.
func (d *Diff) counts() [3]int { return [3]int{len(d.Added), len(d.Modified), len(d.Deleted)} }

// diffsOf returns a turn's own changes and the contested ones as lists.
func diffsOf(changes []windows.Change) (own, contested *Diff) {
	own, contested = newDiff(), newDiff()
	for _, c := range changes {
		if c.Owner == windows.Contested {
			contested.Add(c.Path, c.Status)
		} else {
			own.Add(c.Path, c.Status)
		}
	}
	return own, contested
}

// orNil returns nil for a Diff of two states that are the same.
func (d *Diff) orNil() *Diff {
	if d.Len() == 0 && d.Unknown == "" {
		return nil
	}
	return d
}

// An Owner says whose a change is.
type Owner string

const (
	OwnTurn   Owner = "turn"      // made while a turn of the session was the only one to run
	Claimed   Owner = "claimed"   // named by the session as written
	Contested Owner = "contested" // made while turns of several sessions ran, or after one was cut off
	Offline   Owner = "offline"   // made while no turn ran: the user's
	Other     Owner = "other"     // another session's
	Branch    Owner = "branch"    // made by a turn of the session that is not on the way between the points
)

// A ModifiedFileInfo is a path that turns have changed. Status, TurnIndex and
// EntryID are those of the first change in the range that was asked for. Owner
// is Contested if it is so for one of its turns, else Claimed if one of them
// has claimed it.
type ModifiedFileInfo struct {
	Path      string `json:"path"` // slash-separated, relative to the session's directory
	Status    string `json:"status"`
	TurnIndex int    `json:"turnIndex"`
	EntryID   string `json:"entryId"`

	NetStatus     string `json:"netStatus"` // what the two ends of the range say: "none" if they are the same
	LastTurnIndex int    `json:"lastTurnIndex"`
	LastEntryID   string `json:"lastEntryId"`
	Owner         Owner  `json:"owner"`
	Mixed         bool   `json:"mixed,omitempty"` // somebody else has changed it, too; known if Foreign was asked for
	RenamedFrom   string `json:"renamedFrom,omitempty"`
	PathBytes     []byte `json:"pathBytes,omitempty"` // the path, if it is not UTF-8
}

// A FileDiffInfo is a file at two points, and the difference.
type FileDiffInfo struct {
	Path        string    `json:"path"`
	OldContent  *string   `json:"oldContent"` // null: absent, or not text in UTF-8
	NewContent  *string   `json:"newContent"`
	OldHash     *store.ID `json:"oldHash"` // null: absent
	NewHash     *store.ID `json:"newHash"`
	UnifiedDiff string    `json:"unifiedDiff"` // for patch -p0 and git apply -p0; "" if nothing differs

	OldMode          *string `json:"oldMode"` // six octal digits, as git has them; null: absent
	NewMode          *string `json:"newMode"`
	Binary           bool    `json:"binary,omitempty"` // not text: UnifiedDiff says only that
	OldBytes         []byte  `json:"oldBytes,omitempty"`
	NewBytes         []byte  `json:"newBytes,omitempty"`
	PathBytes        []byte  `json:"pathBytes,omitempty"`        // the path, if it is not UTF-8
	UnifiedDiffBytes []byte  `json:"unifiedDiffBytes,omitempty"` // the diff, if it is not UTF-8
}

// encode returns the JSON of a value that always has one, with <, > and & as
// they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("manager: internal error: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Paths yields all paths of the lists, raw and sorted, with their status.
func (d *Diff) Paths() iter.Seq2[string, tree.Status] {
	return func(yield func(string, tree.Status) bool) {
		type item struct {
			path   string
			status tree.Status
		}
		var all []item
		for _, list := range []struct {
			paths  []string
			status tree.Status
		}{{d.Added, tree.Added}, {d.Modified, tree.Modified}, {d.Deleted, tree.Deleted},
			{d.Captured, tree.Captured}, {d.Uncaptured, tree.Uncaptured}} {
			for i, p := range list.paths {
				if raw, ok := d.PathBytes[list.status.String()][i]; ok {
					p = string(raw)
				}
				all = append(all, item{p, list.status})
			}
		}
		slices.SortStableFunc(all, func(a, b item) int { return strings.Compare(a.path, b.path) })
		for _, i := range all {
			if !yield(i.path, i.status) {
				return
			}
		}
	}
}
