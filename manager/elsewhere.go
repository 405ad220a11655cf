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

// A tip is a point of a line on which a session goes on, and a manager that reads that line.
type tip struct {
	*Point
	reader *FileSnapshotManager
}

// elsewhere returns the point that a revision of a remote stands for, nil if it is none.
func (m *FileSnapshotManager) elsewhere(ctx context.Context, rev string) (*Point, error) {
	r, ok := parseRemoteRev(rev)
	if !ok {
		return nil, nil
	}
	t, err := m.tipAt(ctx, r, rev)
	return t.Point, err
}

// tipAt returns what a revision of a remote stands for, nothing if no remote is called so.
func (m *FileSnapshotManager) tipAt(ctx context.Context, r remoteRev, rev string) (tip, error) {
	readers, err := m.readersOf(ctx, r.remote, r.session)
	if err != nil || readers == nil {
		return tip{}, err
	}
	name := "@" + r.rest
	if digits := r.rest; digits != "" && strings.Trim(digits, "0123456789") == "" {
		name = "turn:" + digits
	}
	if _, isGeneration := generations(name); !isGeneration && !strings.HasPrefix(name, "turn:") {
		return tip{}, fmt.Errorf("revision %q: %w: behind @ comes the number of a turn, or ~N", rev, ErrUnknown)
	}
	var found []tip
	var unknown error
	for _, o := range readers {
		p, err := o.findName(ctx, name)
		if errors.Is(err, ErrUnknown) {
			unknown = cmp.Or(unknown, err)
			continue
		}
		if err != nil {
			return tip{}, err
		}
		if p.n > 0 {
			p = p.moment()
		}
		found = addTip(found, tip{p, o})
	}
	if len(found) > 1 && r.rest == "" {
		if found, err = m.furthest(ctx, found); err != nil {
			return tip{}, err
		}
	}
	switch {
	case len(found) == 0:
		return tip{}, fmt.Errorf("revision %q: %w", rev, cmp.Or(unknown, ErrUnknown))
	case len(found) > 1:
		var names []string
		for _, t := range found {
			names = append(names, t.State.Tree.Short()+" of "+words.Quote(t.Snapshot.Root))
		}
		return tip{}, fmt.Errorf("revision %q: %w: several machines go on with it: %s", rev, ErrAmbiguous,
			strings.Join(names, ", "))
	}
	return found[0], nil
}

// addTip adds a tip to a list. Of those at one snapshot it keeps that on whose line the newest turn
// is, which changed nothing.
func addTip(list []tip, t tip) []tip {
	for i, q := range list {
		if q.Snapshot == nil || t.Snapshot == nil || q.Snapshot.Seq != t.Snapshot.Seq {
			continue
		}
		if q.at != nil && t.at != nil && q.at.Seq < t.at.Seq {
			list[i] = t
		}
		return list
	}
	return append(list, t)
}

// readersOf returns, for each line of a session that others have put into a remote, a manager
// that reads it as if it were the session's own; where nobody else goes on with it that of the
// session here, if it came from the remote. Nil: no remote is called so.
func (m *FileSnapshotManager) readersOf(ctx context.Context, remote, session string) (
	list []*FileSnapshotManager, err error) {
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
			list = append(list, m.readingOf(s.Worktree, session))
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
	if len(list) == 0 && own {
		list = append(list, m.readingOf(m.project.Worktree, session))
	}
	if len(list) == 0 {
		err = fmt.Errorf("session %q of %s: %w: nothing of it was pulled", session, remote, ErrUnknown)
	}
	return list, err
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

// furthest leaves out the tips that others have gone on from.
func (m *FileSnapshotManager) furthest(ctx context.Context, list []tip) (tips []tip, err error) {
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

// reach returns a target as this session reaches it. What others have made of another session, or
// of one that began elsewhere, is bytes, and no turn leads there; nor does one lead to what another
// session of the directory has recorded, which stands for where this one was at that time.
func (x *restore) reach(ctx context.Context, l *line, target *Point) (*Point, error) {
	s := target.Snapshot
	if s == nil || target.on == nil && target.at == nil {
		return target, nil
	}
	if s.Worktree == x.m.project.Worktree {
		own, err := l.has(ctx, s)
		if own || err != nil {
			return target, err
		}
		if !x.opts.Exact && len(x.opts.Paths) == 0 {
			return l.asOf(ctx, s)
		}
	} else if target.at != nil && x.tip.Start() != 0 && target.at.Start() == x.tip.Start() {
		return target, nil
	}
	q := *target
	q.on, q.at = nil, nil
	return &q, nil
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
