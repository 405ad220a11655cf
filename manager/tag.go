package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

func (m door) Tags(ctx context.Context) (list []*store.Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, err := range m.moments(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Label != "" && s.Kind != history.KindRestore { // a checkpoint's row has named that
			list = append(list, s)
		}
	}
	return list, nil
}

func (m door) Tag(ctx context.Context, name, rev string, force bool) (tagged, before *store.Snapshot, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	s, err := m.taggable(ctx, rev)
	if err == nil {
		before, err = m.nameTaken(ctx, name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tag %q: %w", name, err)
	}
	switch {
	case before != nil && before.Seq == s.Seq:
		return before, nil, nil
	case before != nil && !force:
		err = fmt.Errorf("%w: it names %s", errNamed, history.NameOf(before.Entry, before))
	case s.Label != "" && !force:
		err = fmt.Errorf("%w: %s is %s", errNamed, history.NameOf(s.Entry, s), words.Quote(s.Label))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tag %q: %w", name, err)
	}
	if tagged, err = m.store.Relabel(ctx, s.Seq, name); err != nil {
		return nil, nil, err
	}
	m.rememberLabel(tagged)
	if before == nil {
		before = s
		if s.Label == "" {
			before = nil
		}
		return tagged, before, nil
	}
	was, err := m.store.Relabel(ctx, before.Seq, "") // cut off before, both have it, and neither is lost
	if err != nil {
		return nil, nil, err
	}
	m.rememberLabel(was)
	return tagged, before, nil
}

// taggable returns the record that a revision names, and that a label can be given to.
func (m *FileSnapshotManager) taggable(ctx context.Context, rev string) (*store.Snapshot, error) {
	p, err := m.resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	s := p.Snapshot
	if p.end != nil {
		s = p.end.Snapshot
	}
	switch {
	case s == nil || s.Seq == 0:
		return nil, fmt.Errorf("revision %q: %w: only its tree is in this store, not the snapshot", rev, ErrUnknown)
	case s.Kind == history.KindRestore || s.Kind == history.KindIntent || history.IsEdit(s):
		return nil, fmt.Errorf("revision %q: %w: a restore has no label: name a turn", rev, ErrUnknown)
	case p.turn(rev) != p.TurnIndex && (p.end == nil || !p.end.IsTurn()):
		return nil, fmt.Errorf("revision %q: %w: the turn changed nothing, and has no snapshot of its own", rev,
			ErrUnknown)
	}
	labels, err := m.store.LastLabels()
	return relabelled(s, labels), err // as it was said last
}

// maxTag is how many bytes a name may have: lists show it.
const maxTag = 200

// nameTaken returns what has a name as a label; nil: nothing has. The error says that the name
// stands for something else, or would some day.
func (m *FileSnapshotManager) nameTaken(ctx context.Context, name string) (*store.Snapshot, error) {
	bare := strings.NewReplacer(`"`, "", `\`, "").Replace(name)
	switch {
	case name == "" || strings.TrimSpace(name) != name || words.Quote(bare) != bare:
		return nil, fmt.Errorf("%w: want a text without characters that cannot be seen, and no space around it",
			errBadName)
	case len(name) > maxTag:
		return nil, fmt.Errorf("%w: it has more than %d bytes", errBadName, maxTag)
	case strings.HasPrefix(name, "@"), strings.HasPrefix(name, "-"), strings.HasPrefix(name, "turn:"),
		strings.HasPrefix(name, history.LookPrefix), name == "start", name == "disk", strings.Contains(name, "~"),
		strings.Contains(name, ".."), strings.Trim(name, "0123456789") == "": // a revert takes 12 for turn:12
		return nil, fmt.Errorf("%w: it means something else as a revision", errBadName)
	}
	var found *store.Snapshot
	for s, err := range m.store.Snapshots(ctx) { // of all sessions: without one a name is looked for in all
		if err != nil {
			return nil, err
		}
		if s.Label != name || s.Worktree != m.project.Worktree || s.Kind == history.KindRestore {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: several have it: %s, %s", ErrAmbiguous, history.NameOf(found.Entry, found),
				history.NameOf(s.Entry, s))
		}
		found = s
	}
	if found != nil {
		return found, nil
	}
	p, err := m.find(ctx, name)
	switch {
	case err == nil && p != nil, errors.Is(err, ErrAmbiguous):
		return nil, fmt.Errorf("%w: it begins the name of an entry, or of a tree", errBadName)
	case err == nil || errors.Is(err, ErrUnknown) || errors.Is(err, ErrOtherSession):
		return nil, nil
	}
	return nil, err
}

func (m door) Untag(ctx context.Context, name string) (*store.Snapshot, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var was *store.Snapshot
	for s, err := range m.moments(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Label == name && s.Kind != history.KindRestore {
			again, err := m.store.Relabel(ctx, s.Seq, "")
			if err != nil {
				return nil, err
			}
			m.rememberLabel(again)
			was = s
		}
	}
	if was == nil {
		return nil, fmt.Errorf("tag %q: %w", name, ErrUnknown)
	}
	return was, nil
}

// rememberLabel takes note of what a record has become.
func (m *FileSnapshotManager) rememberLabel(s *store.Snapshot) {
	if r, err := history.Read(s); err == nil {
		m.records.Remember(r)
	}
}

// relabelled returns a snapshot with the label that it was given last.
func relabelled(s *store.Snapshot, labels map[uint64]string) *store.Snapshot {
	if label, ok := labels[s.Seq]; ok && label != s.Label {
		s = new(*s)
		s.Label = label
	}
	return s
}

var (
	errNamed   = inside.ErrNamed
	errBadName = inside.ErrBadName
)
