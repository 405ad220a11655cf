package retain

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Usage says where the bytes of the whole store go. Alone of all sessions,
// Shared, Unnamed and what Files has beside objects add up to the lengths of all
// files.
type Usage struct {
	Sessions []SessionUsage // the one that has most alone first
	Shared   audit.Amount   // what several of them need
	Unnamed  audit.Amount   // what no snapshot needs; its Bytes are not known: 0
	Files    *cas.Usage
	Problems []trees.Problem // what is missing or damaged, and counts as nothing or as Unnamed
}

// A SessionUsage is what a session takes. The edits of a worktree are a session
// of their own, "edits".
type SessionUsage struct {
	Session   string
	Worktree  string // identity of its directory
	Root      string // path of that
	Snapshots int
	Last      time.Time    // when it recorded something last
	Needs     audit.Amount // what its snapshots need
	Alone     audit.Amount // what of that no other session needs
}

// weighing is what is counted of a store: contents, and what they take.
var weighing = progress.Phase{Name: "counting", Unit: "file"}

// BySession counts what each session of a store takes. Of what only its turns
// have seen, states before and between, it counts as well.
func BySession(ctx context.Context, st *cas.Store) (*Usage, error) {
	progress.Of(ctx).Begin(weighing)
	t := audit.NewTally(st)
	u := new(Usage)
	var groups [][]audit.Root
	at := make(map[[2]string]int) // by worktree and session, in both
	for s, err := range st.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Pruned {
			continue
		}
		key := [2]string{s.Worktree, s.Session}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
			u.Sessions = append(u.Sessions, SessionUsage{Session: s.Session, Worktree: s.Worktree,
				Root: s.Root, Last: s.Time})
		}
		u.Sessions[i].Snapshots++
		roots, err := t.Add(ctx, s)
		if err != nil {
			return nil, err
		}
		groups[i] = append(groups[i], roots...)
	}
	needs, alone, shared := t.Shares(groups)
	for i := range u.Sessions {
		u.Sessions[i].Needs, u.Sessions[i].Alone = needs[i], alone[i]
	}
	slices.SortStableFunc(u.Sessions, func(a, b SessionUsage) int {
		return cmp.Compare(b.Alone.Stored, a.Alone.Stored)
	})

	var err error
	if u.Files, err = st.Usage(ctx); err != nil {
		return nil, err
	}
	u.Shared, u.Problems = shared, t.Problems()
	named := t.All()
	u.Unnamed = audit.Amount{Objects: u.Files.Objects - named.Objects, Stored: u.Files.ObjectBytes - named.Stored}
	return u, nil
}

// A TurnUsage is what a turn, or something else that was recorded, has added to
// the store.
type TurnUsage struct {
	EntryID   string // "": not known
	TurnIndex int    // -1 of what is no turn
	Kind      string // as [history.Record.Event] has it, or "edit"
	Session   string
	Worktree  string
	Root      string
	Label     string
	Seq       uint64 // number of the record
	Time      time.Time
	Added     audit.Amount // what no record before it needed
}

// ByTurn lists what each turn of a store has added to it, newest first; of
// one session only, if it is named, in whatever directory. A turn has what was
// found while it ran. What is no turn is listed if it added something.
func ByTurn(ctx context.Context, st *cas.Store, session string) ([]TurnUsage, []trees.Problem, error) {
	progress.Of(ctx).Begin(weighing)
	t := audit.NewTally(st)
	var rows []TurnUsage
	var owners []string // for each row, the session in whose turn it was found, "" for none
	var groups [][]audit.Root
	for s, err := range st.Snapshots(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if s.Pruned {
			continue
		}
		row, owner := turnUsage(s)
		roots, err := t.Add(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		rows, owners, groups = append(rows, row), append(owners, owner), append(groups, roots)
	}
	slices.Reverse(rows)
	slices.Reverse(owners)
	slices.Reverse(groups)
	for i, added := range t.Firsts(groups) {
		rows[i].Added = added
	}
	var list []TurnUsage
	for _, row := range withFound(rows, owners) {
		if (session == "" || row.Session == session) && (row.TurnIndex >= 0 || row.Added.Objects > 0) {
			list = append(list, row)
		}
	}
	slices.Reverse(list)
	return list, t.Problems(), nil
}

// turnUsage returns the row of a record. owner is the session in whose turn it
// was found, "" if it is a turn itself or none of one session.
func turnUsage(s *store.Snapshot) (row TurnUsage, owner string) {
	row = TurnUsage{EntryID: s.Entry, TurnIndex: -1, Kind: s.Kind, Session: s.Session,
		Worktree: s.Worktree, Root: s.Root,
		Label: s.Label, Seq: s.Seq, Time: s.Time}
	if history.IsEdit(s) {
		row.Kind = history.KindEdit
		return row, ""
	}
	r, err := history.Read(s)
	if err != nil { // by another version: its bytes count all the same
		return row, ""
	}
	row.Kind = r.Event()
	if r.IsTurn() {
		row.TurnIndex = r.Facts.Turn
	}
	found := r.Kind == history.KindTool || r.Kind == history.KindBase || r.Kind == history.KindIntent
	if w := r.Facts.Windows; len(w) == 1 && found {
		return row, w[0]
	}
	return row, ""
}

// withFound gives what was found in turns, oldest first, to the turn's own row.
// What belongs to no turn that has ended stays.
func withFound(rows []TurnUsage, owners []string) []TurnUsage {
	type key struct{ worktree, session string }
	open := make(map[key][]int) // rows that wait for the end of the turn
	gone := make([]bool, len(rows))
	for i := range rows {
		row := &rows[i]
		if owners[i] != "" {
			k := key{row.Worktree, owners[i]}
			open[k] = append(open[k], i)
			continue
		}
		if row.TurnIndex < 0 {
			continue
		}
		k := key{row.Worktree, row.Session}
		for _, found := range open[k] {
			row.Added.Add(rows[found].Added)
			gone[found] = true
		}
		delete(open, k)
	}
	var list []TurnUsage
	for i, row := range rows {
		if !gone[i] {
			list = append(list, row)
		}
	}
	return list
}

// ByPath lists what each path has taken in all snapshots of a store, of
// all directories, the most first; see [audit.Tally.Paths].
func ByPath(ctx context.Context, st *cas.Store, depth int) ([]audit.PathAmount, []trees.Problem, error) {
	var roots []store.ID
	seen := make(map[store.ID]bool)
	for s, err := range st.Snapshots(ctx) {
		if err != nil {
			return nil, nil, err
		}
		for _, state := range object.States(s) {
			if !state.Tree.IsZero() && !seen[state.Tree] {
				seen[state.Tree] = true
				roots = append(roots, state.Tree)
			}
		}
	}
	progress.Of(ctx).Begin(weighing)
	t := audit.NewTally(st)
	list, err := t.Paths(ctx, roots, depth)
	return list, t.Problems(), err
}
