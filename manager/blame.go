package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// BlameOptions ask whose the lines of a file are.
type BlameOptions struct {
	Path string `json:"path"`          // of a file
	Rev  string `json:"rev,omitempty"` // a revision; default "disk": the file as it is now

	// Start and End are the first line and the last that are asked for, from 1; default all.
	Start int `json:"start,omitempty"`
	End   int `json:"end,omitempty"`

	IgnoreSpace bool `json:"ignoreSpace,omitempty"` // lines that differ in white space only are the same
}

// A Blame says whose the lines of a file are. The ranges follow one another without a gap.
type Blame struct {
	Path      string       `json:"path"`
	PathBytes []byte       `json:"pathBytes,omitempty"` // if it is not UTF-8
	Rev       string       `json:"rev"`                 // that was asked for
	Lines     int          `json:"lines"`               // of the file
	Ranges    []BlameRange `json:"ranges"`

	Text []byte `json:"-"` // the file
	Head string `json:"-"` // the commit that was checked out then; "": none, or it is not known
}

// A BlameRange is lines that follow one another and have one owner: the first and the last
// of them, from 1.
type BlameRange struct {
	Start int        `json:"start"`
	End   int        `json:"end"`
	Owner BlameOwner `json:"owner"`

	// Why, in [HunkList].Left alone, is not_turn, who wrote them is no turn that can be told;
	// session, a turn of another session did; open, one that has not ended; made, one that has
	// made the file, or replaced it, of which all would go; elsewhere, one at another path.
	Why string `json:"why,omitempty"`
}

// A BlameOwner is whose lines are.
type BlameOwner struct {
	// Kind is turn; user, who wrote them while no turn was at work; contested, if several
	// turns were at work, or one that was cut off; before, if they were there at the first
	// look; pruned, if what brought them was pruned; restore, for markers of conflicts; or
	// unknown, if the store has lost or forgotten who, or what.
	Kind string `json:"kind"`

	Session string `json:"session,omitempty"` // of the turn
	Turn    int    `json:"turn"`              // its number; -1: there is none, or it is not known

	// Entry is a revision: of the turn, or of the look that found them. Of what was pruned it
	// is the oldest one that is kept. "": nothing has looked since.
	Entry string `json:"entry,omitempty"`

	// Certainty of a turn is claim, if it has named the file as written by it, or window, if
	// it was only the one that was at work then.
	Certainty string `json:"certainty,omitempty"`

	Title string    `json:"title,omitempty"` // of the turn: the first line of the prompt
	Model string    `json:"model,omitempty"`
	Agent string    `json:"agent,omitempty"`
	Time  time.Time `json:"time,omitzero"` // of the end of the turn, or of the look

	By []string `json:"by,omitempty"` // of what is contested, whose it may be: "session ID turn:5"
}

// Certainties of a [BlameOwner].
const (
	byClaim  = "claim"
	byWindow = "window"
)

// Blame returns whose the lines of a file are: of which turn, of whatever session of the
// directory, or the user's. It follows the file where it was renamed in one window. What a
// restore brings is whose it was; a file that it has merged has lines of both sides.
//
// The error matches [ErrUnknown] if there is no such file, or no such line, [ErrNotText] if it is
// too large, or no file, [store.ErrForgotten] if it was forgotten; others are those of
// [FileSnapshotManager.Resolve].
func (m *FileSnapshotManager) Blame(ctx context.Context, opts *BlameOptions) (*Blame, error) {
	opts = cmp.Or(opts, new(BlameOptions))
	return asking(ctx, m, "blame", func(ctx context.Context) (*Blame, error) {
		path, err := opts.check(m)
		if err != nil {
			return nil, err
		}
		return m.blame(ctx, path, opts)
	})
}

// check returns the path that is asked about.
func (o *BlameOptions) check(m *FileSnapshotManager) (path string, err error) {
	path, err = m.relative(o.Path)
	if err == nil && (o.Start < 0 || o.End < 0 || o.End > 0 && o.End < o.Start) {
		err = fmt.Errorf("lines %d to %d: %w: lines count from 1", o.Start, o.End, ErrUnknown)
	}
	return path, err
}

// within returns the first and the last line that are asked for of a file of so many.
func (o *BlameOptions) within(path string, lines int) (first, last int, err error) {
	if o.Start > lines {
		return 0, 0, fmt.Errorf("line %d of %q: %w: it has %d", o.Start, path, ErrUnknown, lines)
	}
	if last = lines; o.End > 0 {
		last = min(o.End, lines)
	}
	return max(o.Start, 1), last, nil
}

// onDisk is the revision of what is on the disk.
const onDisk = "disk"

func (m *FileSnapshotManager) blame(ctx context.Context, path string, opts *BlameOptions) (*Blame, error) {
	rev := cmp.Or(opts.Rev, onDisk)
	b, err := m.blamed(ctx, path, rev, blame.Options{IgnoreSpace: opts.IgnoreSpace})
	if err != nil {
		return nil, err
	}
	answer := &Blame{Path: path, PathBytes: words.BytesUnlessText(path), Rev: rev, Lines: b.end.Lines.Count(),
		Text: b.end.Text, Head: b.head}
	first, last, err := opts.within(path, answer.Lines)
	if err != nil {
		return nil, err
	}
	answer.Ranges = make([]BlameRange, 0, min(len(b.end.Lines), last-first+1))
	line := 1
	for _, r := range b.end.Lines {
		start, end := max(line, first), min(line+r.Lines-1, last)
		if line += r.Lines; start <= end {
			answer.add(start, end, b.owner(ctx, r.Origin))
		}
	}
	return answer, nil
}

// add appends lines.
func (b *Blame) add(start, end int, owner *blame.Owner) {
	r := BlameRange{Start: start, End: end, Owner: publicOwner(owner)}
	if i := len(b.Ranges) - 1; i >= 0 && b.Ranges[i].Owner.isSame(&r.Owner) {
		b.Ranges[i].End = end
		return
	}
	b.Ranges = append(b.Ranges, r)
}

func (o *BlameOwner) isSame(p *BlameOwner) bool {
	return o.Kind == p.Kind && o.Session == p.Session && o.Turn == p.Turn && o.Entry == p.Entry &&
		o.Certainty == p.Certainty
}

func publicOwner(o *blame.Owner) BlameOwner {
	p := BlameOwner{Kind: o.Kind, Session: o.Session, Turn: o.Turn, Entry: o.Entry, Title: o.Title, Model: o.Model,
		Agent: o.Agent}
	if o.Time != 0 {
		p.Time = time.Unix(0, o.Time).UTC()
	}
	switch {
	case o.Kind != string(moments.Turn):
	case o.Claimed:
		p.Certainty = byClaim
	default:
		p.Certainty = byWindow
	}
	for _, by := range o.By {
		text := "session " + by.Session
		if by.Turn >= 0 {
			text += fmt.Sprint(" turn:", by.Turn)
		}
		p.By = append(p.By, text)
	}
	return p
}

// blamed finds out about a file at a revision, with what is kept of it, or anew.
func (m *FileSnapshotManager) blamed(ctx context.Context, path, rev string, opts blame.Options) (*blaming, error) {
	b := &blaming{m: m, path: path, rev: rev, opts: opts, others: make(map[string]*blaming)}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	var kept *blame.File
	if !opts.IgnoreSpace && !b.isPast {
		kept = b.read(ctx, path)
	}
	err := b.run(ctx, kept)
	if errors.Is(err, errRebuild) {
		kept = nil
		err = b.run(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	if !opts.IgnoreSpace && !b.isPast {
		b.keep(ctx, kept)
	}
	return b, nil
}

// open finds the moment that is asked about, and what the file is then.
func (b *blaming) open(ctx context.Context) (err error) {
	m := b.m
	if b.newest, err = m.records.Newest(cas.AnySession); err != nil {
		return err
	}
	if b.newest == nil || b.newest.Pruned {
		return m.orLost(ctx, fmt.Errorf("%q: %w: nobody has looked at it", b.path, ErrNoSession))
	}
	turns, _, err := m.readTurns()
	if err != nil {
		return err
	}
	b.turns, b.to, b.head = turns.Open, b.newest.Seq, b.newest.Head
	if b.epoch, err = m.store.Epoch(); err != nil {
		return err
	}
	if b.rev == onDisk {
		return b.openDisk(ctx)
	}
	p, err := m.resolve(ctx, b.rev)
	switch {
	case err != nil:
		return err
	case p.Snapshot == nil:
		return fmt.Errorf("revision %q: %w: a tree, and not a moment of this directory", b.rev, ErrUnknown)
	case p.Snapshot.Pruned:
		return fmt.Errorf("revision %q: the snapshot %w", b.rev, store.ErrPruned)
	case p.Snapshot.Worktree != m.project.Worktree:
		return fmt.Errorf("revision %q: %w: of another directory, %q", b.rev, ErrOtherSession, p.Snapshot.Root)
	}
	b.to, b.head = p.Snapshot.Seq, p.Snapshot.Head
	b.isPast = b.to != b.newest.Seq
	e, err := trees.EntryAt(ctx, m.tree.pages, p.State.Tree, b.path)
	if err != nil {
		return err
	}
	b.now, err = e, b.isBlamable(e)
	return err
}

// isBlamable returns as an error that something has no lines that are told apart.
func (b *blaming) isBlamable(e *tree.Entry) error {
	switch {
	case e == nil:
		return fmt.Errorf("path %q in %s: %w", b.path, b.rev, ErrUnknown)
	case !trees.IsFile(e):
		return fmt.Errorf("path %q in %s: %w, but %s", b.path, b.rev, ErrNotText, kindWord(e.Mode))
	case e.Size > filediff.MaxText:
		return fmt.Errorf("path %q in %s: %w: it has more than %d MiB", b.path, b.rev, ErrNotText, filediff.MaxText>>20)
	}
	return nil
}

// openDisk is open for what is on the disk.
func (b *blaming) openDisk(ctx context.Context) error {
	root, err := b.m.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	to := &textSink{Sink: trees.NewOverlay(nil)}
	e, err := root.Entry(ctx, b.path, to)
	if err == nil {
		err = b.isBlamable(e)
	}
	if err != nil {
		return err
	}
	if b.now, err = trees.EntryAt(ctx, b.m.tree.pages, b.newest.Tree, b.path); err != nil {
		return err
	}
	b.onDisk = &fileVersion{entry: e, text: to.text}
	if b.now == nil || b.now.ID != e.ID || !trees.IsFile(b.now) {
		v := fileVersion{mo: moments.Now(b.newest, b.turns), path: b.path, entry: e, isDisk: true,
			text: to.text}
		if !trees.IsFile(b.now) {
			b.now, v.isNew = nil, true
			if v.unseen, err = trees.IsOmitted(ctx, b.m.tree.pages, b.newest.Coverage, b.path); err != nil {
				return err
			}
		}
		b.disk = &v
	}
	return nil
}

// maxTitleShown is how much of a title an owner has.
const maxTitleShown = 200

// owner returns whose an origin is.
func (b *blaming) owner(ctx context.Context, i int) *blame.Owner {
	o := &b.origins[i]
	switch {
	case o.owner == nil:
		o.owner = b.ownerOf(ctx, o)
	case o.owner.Of != 0 && strings.HasPrefix(o.owner.Entry, history.LookPrefix): // it may have an entry by now
		if r, err := b.m.records.Record(ctx, o.owner.Of); err == nil {
			o.owner.Entry = history.NameOf(r.Entry, r.Snapshot)
		}
	}
	return o.owner
}

func (b *blaming) ownerOf(ctx context.Context, o *origin) *blame.Owner {
	mo := o.mo
	whose := mo.At(o.path)
	owner := &blame.Owner{Kind: string(whose.Kind), Turn: -1, Seq: mo.Seq(), Time: mo.Time().UnixNano(),
		Entry: history.NameOf(mo.Record.Entry, mo.Record.Snapshot)}
	switch {
	case o.isUnknown:
		owner.Kind = string(moments.Unknown)
	case whose.Kind == moments.Turn:
		who := whose.Who[0]
		owner.Session, owner.Turn, owner.Claimed = who.Session, who.Turn, whose.Claimed
		owner.Agent, owner.Model, owner.Entry = who.Agent, who.Model, who.EntryOr(mo.Record)
		if r := who.Record; r != nil {
			owner.Of, owner.Time = r.Seq, r.Time.UnixNano()
			owner.Title = words.FirstLine(b.m.title(ctx, r), maxTitleShown)
		} else if who.Open != nil {
			owner.Title = words.FirstLine(who.Open.Title, maxTitleShown)
		}
	default:
		for _, who := range whose.Who {
			owner.By = append(owner.By, blame.By{Session: who.Session, Turn: who.Turn})
		}
	}
	if mo.State.IsZero() { // nobody has looked yet
		owner.Entry, owner.Time = "", 0
	}
	return owner
}
