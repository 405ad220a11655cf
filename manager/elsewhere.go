package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// This file finds where others go on with sessions: what was pulled from a remote is of
// directories that are on no disk here, and are called REMOTE:PATH.

// A remoteRev is a revision REMOTE:SESSION, or REMOTE:SESSION@ with what comes behind @.
type remoteRev struct{ remote, session, rest string }

// parseRemoteRev reads a revision that may be of a remote.
func parseRemoteRev(rev string) (r remoteRev, ok bool) {
	if r.remote, r.session, ok = strings.Cut(rev, ":"); !ok || r.remote == "" {
		return r, false
	}
	r.session, r.rest, _ = strings.Cut(r.session, "@")
	return r, session.ValidID(r.session)
}

// elsewhere returns the point that a revision of a remote stands for, nil if it is none.
func (m *FileSnapshotManager) elsewhere(ctx context.Context, rev string) (*Point, error) {
	r, ok := parseRemoteRev(rev)
	if !ok {
		return nil, nil
	}
	tips, err := m.tipsOf(ctx, r.remote, r.session)
	if err != nil || tips == nil {
		return nil, err
	}
	name := "@" + r.rest
	if digits := r.rest; digits != "" && strings.Trim(digits, "0123456789") == "" {
		name = "turn:" + digits
	}
	if _, isGeneration := generations(name); !isGeneration && !strings.HasPrefix(name, "turn:") {
		return nil, fmt.Errorf("revision %q: %w: behind @ comes the number of a turn, or ~N", rev, ErrUnknown)
	}
	var found []*Point
	var unknown error
	for _, o := range tips {
		p, err := o.findName(ctx, name)
		if errors.Is(err, ErrUnknown) {
			unknown = cmp.Or(unknown, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.n > 0 {
			p = p.moment()
		}
		isSame := func(q *Point) bool {
			return q.Snapshot != nil && p.Snapshot != nil && q.Snapshot.Seq == p.Snapshot.Seq
		}
		if !slices.ContainsFunc(found, isSame) {
			found = append(found, p)
		}
	}
	if len(found) > 1 && r.rest == "" {
		if found, err = m.furthest(ctx, found); err != nil {
			return nil, err
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("revision %q: %w", rev, cmp.Or(unknown, ErrUnknown))
	case len(found) > 1:
		var names []string
		for _, p := range found {
			names = append(names, p.State.Tree.Short()+" of "+words.Quote(p.Snapshot.Root))
		}
		return nil, fmt.Errorf("revision %q: %w: several machines go on with it: %s", rev, ErrAmbiguous,
			strings.Join(names, ", "))
	}
	return found[0], nil
}

// tipsOf returns, for each line of a session that others have put into a remote, a manager
// that reads it as if it were the session's own; where nobody else goes on with it that of the
// session here, if it came from the remote. Nil: no remote is called so.
func (m *FileSnapshotManager) tipsOf(ctx context.Context, remote, session string) (
	tips []*FileSnapshotManager, err error) {
	own, isKnown := false, false
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		isHere := s.Worktree == m.project.Worktree
		isOf := len(s.Origin) > 0 && strings.HasPrefix(s.Root, remote+":")
		isKnown = isKnown || isOf
		switch {
		case s.Session != session || history.IsEdit(s):
		case isOf:
			tips = append(tips, m.readingOf(s.Worktree, session))
		case isHere:
			own = true
		}
	}
	if !isKnown {
		config, err := m.store.FS().OpenFile(path.Join("remotes", remote, "config"), os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := config.Close(); err != nil {
			return nil, err
		}
	}
	if len(tips) == 0 && own {
		tips = append(tips, m.readingOf(m.project.Worktree, session))
	}
	if len(tips) == 0 {
		err = fmt.Errorf("session %q of %s: %w: nothing of it was pulled", session, remote, ErrUnknown)
	}
	return tips, err
}

// readingOf returns a manager that reads a session as it went on in another directory, or as
// others went on with it. It is not opened, and not to be closed.
func (m *FileSnapshotManager) readingOf(worktree, name string) *FileSnapshotManager {
	o, project := m.opts, &capture.Project{Project: m.project.Project}
	o.Session, o.SessionFile, o.ReadOnly = name, "", true
	project.Worktree = worktree
	return &FileSnapshotManager{opts: o, engine: m.engine, tree: m.tree, project: project, store: m.store, log: m.log,
		openDir: m.openDir, busy: make(chan struct{}, 1), records: history.NewRecords(m.store, worktree, m.log),
		steps: make(map[*session.Entry]*history.Step)}
}

// furthest leaves out the points that others have gone on from.
func (m *FileSnapshotManager) furthest(ctx context.Context, list []*Point) (tips []*Point, err error) {
	l := m.byRecords()
	for i, p := range list {
		passed := false
		for j, q := range list {
			if i == j || p.on == nil || q.at == nil || passed {
				continue
			}
			if passed, err = l.IsOn(ctx, q.at, p.on); err != nil {
				return nil, err
			}
		}
		if !passed {
			tips = append(tips, p)
		}
	}
	return tips, nil
}

// checkPlace refuses a snapshot of another directory, if it is not what others have made of a
// session: that has no directory here.
func (m *FileSnapshotManager) checkPlace(s *store.Snapshot) error {
	if s == nil || s.Worktree == m.project.Worktree || len(s.Origin) > 0 {
		return nil
	}
	return fmt.Errorf("%w: it is of %q", ErrOtherSession, s.Root)
}

// reach returns a target as this session reaches it: what others have made of another session,
// or of one that began elsewhere, is bytes, and no turn leads there.
func (x *restore) reach(target *Point) *Point {
	s := target.Snapshot
	if s == nil || s.Worktree == x.m.project.Worktree ||
		target.at != nil && x.tip.Start() != 0 && target.at.Start() == x.tip.Start() {
		return target
	}
	q := *target
	q.on, q.at = nil, nil
	return &q
}

// newestOf returns the newest record of a session where a record of it was made.
func (m *FileSnapshotManager) newestOf(ctx context.Context, r *record) (*record, error) {
	s, err := m.store.Newest(ctx, r.Worktree, r.Session)
	if err != nil {
		return nil, err
	}
	return history.Read(s)
}

// othersOf returns the newest records of lines on which others go on with one of some sessions, of
// which something is not on the session's line here.
func (m *FileSnapshotManager) othersOf(ctx context.Context, sessions []string) (list []*store.Snapshot, err error) {
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Worktree == m.project.Worktree || len(s.Origin) == 0 || s.Pruned || !slices.Contains(sessions, s.Session) {
			continue
		}
		if goesOn, err := m.goesOn(ctx, s); err != nil {
			return nil, err
		} else if goesOn {
			list = append(list, s)
		}
	}
	return list, nil
}

// goesOn reports whether a line of others has something that is not on the line of its session here.
func (m *FileSnapshotManager) goesOn(ctx context.Context, s *store.Snapshot) (bool, error) {
	l := m.readingOf(m.project.Worktree, s.Session).byRecords()
	here, err := l.tip(ctx)
	if err != nil {
		return false, err
	}
	r, err := history.Read(s)
	if err != nil {
		return false, err
	}
	at, err := l.Records.StepAt(ctx, r.Position(), r.Session)
	if err != nil {
		return false, err
	}
	turn, err := l.LastTurn(ctx, at)
	if err != nil || here == nil || turn == nil {
		return true, err
	}
	is, err := l.IsOn(ctx, here, turn)
	return !is && here.Seq != at.Seq, err
}
