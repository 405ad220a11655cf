package history

import (
	"fmt"
	"path/filepath"

	"github.com/boocode/filestore/store"
)

// IsSameTurn reports whether two records belong to one turn of a session: a
// runtime may announce a prompt as several.
func (r *Record) IsSameTurn(o *Record) bool {
	return r.Turn() >= 0 && r.Turn() == o.Turn() && r.Session == o.Session && r.cameBy() == o.cameBy()
}

// cameBy returns the line of a remote by which a record came, "" if it was made here: two
// machines that go on with a session number their turns alike.
func (r *Record) cameBy() string { return string(r.Origin[:min(len(r.Origin), 16)]) }

// IsElsewhere reports whether a record is of another machine's, which was pulled from a remote:
// its directory is called REMOTE:PATH.
func (r *Record) IsElsewhere() bool { return len(r.Origin) > 0 && !filepath.IsAbs(r.Root) }

// EndsAt reports whether a record is the turn within which a look was, or a later
// look within the same.
func (r *Record) EndsAt(look *Record) bool {
	if look.Facts.Within == 0 || r.Behind != nil || r.Seq <= look.Seq || !r.IsSameTurn(look) {
		return false
	}
	if r.Kind == KindStep {
		return r.Facts.Since == 0 || r.Facts.Since == look.Facts.Within
	}
	return r.Facts.Within == look.Facts.Within
}

// Way returns how a path goes on from a joint, if the joint tells of it, else nil:
// other paths go on from Prev.
func (r *Record) Way(p string) *Apart {
	if r.ways == nil {
		d := &r.Facts
		r.ways = make(map[string]*Apart, len(d.Left)+len(d.Took))
		tell := func(list PathList, a *Apart) {
			for _, q := range list {
				r.ways[string(q)] = a
			}
		}
		tell(d.Took, &Apart{From: d.TookFrom})
		tell(d.Left, &Apart{From: d.LeftFrom})
		for i := range d.Apart { // also of paths that were left in part
			tell(d.Apart[i].Paths, &d.Apart[i])
		}
	}
	return r.ways[p]
}

// StandsApart returns what a joint says of a path where what is in is in at no other
// position, else nil.
func (r *Record) StandsApart(p string) *Apart {
	if a := r.Way(p); a != nil && len(a.With)+len(a.Without) > 0 {
		return a
	}
	return nil
}

// CutAt returns what a joint says was taken back of changes at a path, nil if nothing.
func (r *Record) CutAt(p string) []Cut {
	if r.cuts == nil {
		r.cuts = make(map[string][]Cut)
		for _, c := range r.Facts.Cuts {
			r.cuts[string(c.Path)] = append(r.cuts[string(c.Path)], c)
		}
	}
	return r.cuts[p]
}

// TellsOf reports whether a joint says anything of a path.
func (r *Record) TellsOf(p string) bool { return r.Way(p) != nil || r.CutAt(p) != nil }

// IsSame reports whether two records are one.
func IsSame(a, b *Record) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case a.Seq == 0:
		return b.Seq == 0 && a.Entry == b.Entry
	}
	return a.Seq == b.Seq
}

// PartAfter returns what a turn did behind a look within it.
func (r *Record) PartAfter(look *Record) *Record {
	rest := *r
	rest.Snapshot = new(store.Snapshot)
	*rest.Snapshot = *r.Snapshot
	rest.Behind, rest.Base = look, look.State()
	return &rest
}

// Deed says what made a change: a turn, or the restore that took back a part of one.
func (r *Record) Deed() string {
	if r.IsJoint() {
		return "a restore of a part of it"
	}
	return fmt.Sprintf("turn %d", r.Turn())
}

// IsUntold reports whether a record is a step that no log has been given, and
// can be.
func (r *Record) IsUntold() bool { return r.Kind == KindStep && !r.Facts.Told && !r.Pruned }

// IsOffline reports whether a record is of changes that no turn made.
func (r *Record) IsOffline() bool {
	return (r.Kind == KindBase || r.Kind == KindIntent) && len(r.Facts.Windows) == 0 &&
		(r.Facts.Counts != [3]int{} || r.Facts.Unknown != "")
}

// IsOfNobody reports whether a record is of changes of which nobody knows who made them: what
// was recorded then is lost.
func (r *Record) IsOfNobody() bool {
	windows := r.Facts.Windows
	return (r.Kind == KindBase || r.Kind == KindIntent) && len(windows) == 1 && windows[0] == Nobody &&
		(r.Facts.Counts != [3]int{} || r.Facts.Unknown != "")
}

// Lists returns the lists of undo and redo after a restore, empty ones after none.
func (r *Record) Lists() (undo, redo BackList) {
	if r == nil {
		return undo, redo
	}
	return r.Undo(), r.Redo()
}

// WithSession returns what a record that is not committed yet will be in a
// session.
func (r *Record) WithSession(session string) *Record {
	named := *r
	named.Snapshot = &store.Snapshot{Session: session, Kind: r.Kind}
	return &named
}

// WithEntry returns the record with the entry that a log has for it.
func (r *Record) WithEntry(id string) *Record {
	if r.Entry == id {
		return r
	}
	named := *r
	named.Snapshot = new(store.Snapshot)
	*named.Snapshot = *r.Snapshot
	named.Entry = id
	return &named
}

// MadeUpStart returns the start of a line whose first step only a log has.
func MadeUpStart(first *Record) *Record {
	return &Record{Snapshot: &store.Snapshot{Kind: KindStart, Tree: first.Base.Tree, Coverage: first.Base.Coverage}}
}
