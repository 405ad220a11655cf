package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// JournalDamage returns what is damaged in a store's journal: what
// [store.Store.JournalDamage] finds, and records that the journal has lost
// without a trace, as its newest, and that other files of the store name. Who
// gets any must not take what no snapshot needs for garbage.
func JournalDamage(ctx context.Context, s *cas.Store) ([]*object.CorruptError, error) {
	lost, err := LostRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	damage, err := s.JournalDamage()
	for _, l := range lost {
		if l.Accepted.IsZero() {
			damage = append(damage, l.Damage)
		}
	}
	return damage, err
}

// JournalShows is JournalDamage of a journal of which it shows, without reading it all, that it is
// damaged: records that the worktree had are lost, or it has a gap.
func JournalShows(ctx context.Context, s *cas.Store, worktree string) ([]*object.CorruptError, error) {
	t := new(Turns) // read before the journal
	if b, err := vfs.ReadFile(s.FS(), layout.Worktree(worktree).Turns()); err == nil {
		if read, _, err := DecodeTurns(b); err == nil {
			t = read
		}
	}
	newest, err := s.Newest(ctx, worktree, cas.AnySession)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if t.Last != 0 && (err != nil || newest.Seq < t.Last) || len(t.Lost) > 0 || s.JournalIsSuspect() {
		return JournalDamage(ctx, s)
	}
	return nil, nil
}

// Shown says, for people, what [JournalShows] finds first; "": nothing.
func Shown(ctx context.Context, s *cas.Store, worktree string) (string, error) {
	damage, err := JournalShows(ctx, s, worktree)
	if err != nil || len(damage) == 0 {
		return "", err
	}
	return fmt.Sprintf("the history is damaged: %v", damage[0]), nil
}

// A LostRecord is a record that the journal has no more.
type LostRecord struct {
	Seq      uint64
	Damage   *object.CorruptError // at the file that names it
	Places   []string             // what names it, for [store.Loss]
	Accepted time.Time            // when all of that was accepted; zero: it was not
}

// LostRecords returns the records that files of worktrees name, and that are not
// in the journal, also if that was accepted: such a file is written when its record
// is durable. A damaged file is none that names anything.
func LostRecords(ctx context.Context, s *cas.Store) ([]LostRecord, error) {
	named, err := namedRecords(ctx, s.FS())
	if err != nil {
		return nil, err
	}
	accepted, err := s.Accepted()
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	var lost []LostRecord
	for _, n := range named {
		if there, err := n.isIn(ctx, s); err != nil {
			return nil, err
		} else if there {
			continue
		}
		i := slices.IndexFunc(lost, func(l LostRecord) bool { return l.Seq == n.seq })
		at, ok := accepted.Place(n.place())
		if i < 0 {
			i = len(lost)
			lost = append(lost, LostRecord{Seq: n.seq, Accepted: at,
				Damage: &object.CorruptError{Path: n.file,
					Err: fmt.Errorf("it names record %d, which the journal has lost", n.seq)}})
		}
		if !ok {
			lost[i].Accepted = time.Time{}
		}
		if place := n.place(); !slices.Contains(lost[i].Places, place) {
			lost[i].Places = append(lost[i].Places, place)
		}
	}
	return lost, nil
}

// place says what a file names, wherever it does.
func (n *namedRecord) place() string {
	place := fmt.Sprintf("worktrees/%s#%d", n.worktree, n.seq)
	if n.step != nil {
		place += " " + n.step.Tree.String()
	}
	return place
}

// A namedRecord is a record of the journal that another file names.
type namedRecord struct {
	file     string
	worktree string
	seq      uint64
	lost     bool  // it was missed before, and may have come back
	step     *Step // of a log; nil: the record was the worktree's newest then

	session string // of a log, the rest, too
	entry   *session.Entry
	log     *session.Tree
}

// namedRecords reads the files of all worktrees that name records, before the
// journal is looked at.
func namedRecords(ctx context.Context, fsys vfs.FS) ([]namedRecord, error) {
	worktrees, err := namesIn(fsys, layout.Worktrees)
	if err != nil {
		return nil, err
	}
	var named []namedRecord
	for _, wt := range worktrees {
		dir := layout.Worktree(wt).Dir() + "/"
		for _, name := range []string{"turns", "turns.new"} { // the latter is the one before
			b, err := vfs.ReadFile(fsys, dir+name)
			if err != nil {
				continue
			}
			t, _, err := DecodeTurns(b)
			if err != nil {
				continue
			}
			if t.Last != 0 {
				named = append(named, namedRecord{file: dir + name, worktree: wt, seq: t.Last})
			}
			for _, seq := range t.Lost {
				named = append(named, namedRecord{file: dir + name, worktree: wt, seq: seq, lost: true})
			}
		}
		logs, err := namesIn(fsys, dir+"sessions")
		if err != nil {
			return nil, err
		}
		for _, name := range logs {
			if !strings.HasSuffix(name, ".jsonl") {
				continue
			}
			name = dir + "sessions/" + name
			log, err := sessionlog.OpenFS(ctx, fsys, name)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil { // it follows from the journal
				continue
			}
			id := strings.TrimSuffix(path.Base(name), ".jsonl")
			named = append(named, stepsIn(log.Tree(), namedRecord{file: name, worktree: wt, session: id})...)
		}
	}
	return named, nil
}

// namesIn lists a directory, which may not be there, or be something else.
func namesIn(fsys vfs.FS, dir string) ([]string, error) {
	st, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Kind != vfs.Directory {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := fsys.ReadDir(dir)
	slices.Sort(names)
	return names, err
}

// isIn reports whether the journal has the record.
func (n *namedRecord) isIn(ctx context.Context, s *cas.Store) (bool, error) {
	var snap *store.Snapshot
	var err error
	if n.step == nil && !n.lost {
		snap, err = s.Newest(ctx, n.worktree, cas.AnySession)
	} else {
		snap, err = s.Snapshot(ctx, n.seq)
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || n.step == nil {
		return err == nil && snap.Seq >= n.seq && snap.Worktree == n.worktree, err
	}
	want := n.step.Tree
	if snap.Pruned {
		want = cas.Pruned(want)
	}
	return snap.Tree == want, nil
}
