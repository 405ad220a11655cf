package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// JournalDamage returns what is damaged in a store's journal: what
// [store.Store.JournalDamage] finds, and records that the journal has lost
// without a trace, as its newest, and that other files of the store name. Who
// gets any must not take what no snapshot needs for garbage.
func JournalDamage(ctx context.Context, s *store.Store) ([]*store.CorruptError, error) {
	lost, err := LostRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	damage, err := s.JournalDamage()
	for _, l := range lost {
		damage = append(damage, l.Damage)
	}
	return damage, err
}

// A LostRecord is a record that the journal has no more.
type LostRecord struct {
	Seq    uint64
	Damage *store.CorruptError // at the file that names it
}

// LostRecords returns the records that files of worktrees name, and that are not
// in the journal: such a file is written when its record is durable. A damaged
// file is none that names anything.
func LostRecords(ctx context.Context, s *store.Store) ([]LostRecord, error) {
	named, err := namedRecords(ctx, s.FS())
	if err != nil {
		return nil, err
	}
	var lost []LostRecord
	seen := make(map[uint64]bool)
	for _, n := range named {
		if there, err := n.isIn(ctx, s); err != nil {
			return nil, err
		} else if there || seen[n.seq] {
			continue
		}
		seen[n.seq] = true
		lost = append(lost, LostRecord{n.seq, &store.CorruptError{Path: n.file, Err: fmt.Errorf("it names record %d, which the journal has lost", n.seq)}})
	}
	return lost, nil
}

// A namedRecord is a record of the journal that another file names.
type namedRecord struct {
	file     string
	worktree string
	seq      uint64
	lost     bool              // it was missed before, and may have come back
	step     *StepSnapshotData // of a log; nil: the record was the worktree's newest then
}

// namedRecords reads the files of all worktrees that name records, before the
// journal is looked at.
func namedRecords(ctx context.Context, fsys vfs.FS) ([]namedRecord, error) {
	worktrees, err := namesIn(fsys, "worktrees")
	if err != nil {
		return nil, err
	}
	var named []namedRecord
	for _, wt := range worktrees {
		dir := "worktrees/" + wt + "/"
		for _, name := range []string{"turns", "turns.new"} { // the latter is the one before
			var t turns
			if b, err := vfs.ReadFile(fsys, dir+name); err != nil || json.Unmarshal(b, &t) != nil || t.Version != turnsVersion {
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
			log, err := session.OpenFS(ctx, fsys, name)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil { // it follows from the journal
				continue
			}
			for e := range log.Tree().Entries() {
				if e.Type != "custom" || e.CustomType != session.StepSnapshot {
					continue
				}
				if d := parseStep(e); d != nil && d.SnapshotSeq != 0 {
					named = append(named, namedRecord{file: name, worktree: wt, seq: d.SnapshotSeq, step: d})
				}
			}
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
func (n *namedRecord) isIn(ctx context.Context, s *store.Store) (bool, error) {
	var snap *store.Snapshot
	var err error
	if n.step == nil && !n.lost {
		snap, err = s.Newest(ctx, n.worktree, store.AnySession)
	} else {
		snap, err = s.Snapshot(ctx, n.seq)
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || n.step == nil {
		return err == nil && snap.Seq >= n.seq && snap.Worktree == n.worktree, err
	}
	want := n.step.SnapshotTreeHash
	if snap.Pruned {
		want = want.Pruned()
	}
	return snap.Tree == want, nil
}
