package manager

import (
	"context"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/cas"
)

// maxKept bounds what is kept of a file, in bytes of runs, of which each has about four.
const maxKept = 1 << 20

// read returns what is kept of a path, nil if that does not do.
func (b *blaming) read(ctx context.Context, path string) *blame.File {
	m := b.m
	f := blame.Read(m.store.FS(), m.place(), path)
	if f == nil || f.Store != m.store.ID() || f.Epoch != b.epoch || len(f.Versions) == 0 || f.Seq > b.newest.Seq {
		return nil
	}
	r, err := m.records.Record(ctx, f.Seq)
	if err != nil || r.Pruned || r.Tree != f.Tree || r.Worktree != m.project.Worktree {
		return nil
	}
	return f
}

// keep keeps the lines of the newest versions, but for those of turns that are open: whose
// they are is not known for good.
func (b *blaming) keep(ctx context.Context, kept *blame.File) {
	m := b.m
	if m.opts.ReadOnly && cas.CheckOwner(m.StoreDir()) != nil { // another user's store is only looked at
		return
	}
	upTo := b.settled(ctx)
	if upTo == nil || kept != nil && upTo.Seq == kept.Seq {
		return
	}
	f := b.file(ctx, kept, upTo)
	if f == nil {
		return
	}
	err := f.Write(ctx, m.store.FS(), m.place(), func() (bool, error) {
		epoch, err := m.store.Epoch()
		return epoch == b.epoch, err
	})
	if err != nil {
		m.log.Debug("whose the lines are is not kept", "path", b.path, "err", err)
	}
}

// file returns what is to be kept of all that happened up to a record, nil if that is nothing.
func (b *blaming) file(ctx context.Context, kept *blame.File, upTo *record) *blame.File {
	f := &blame.File{Store: b.m.store.ID(), Epoch: b.epoch, Path: b.path, Seq: upTo.Seq, Tree: upTo.Tree}
	n := &blameNumbers{blaming: b, f: f, numbers: make(map[int]int)}
	if kept != nil {
		n.kept = len(kept.Owners)
		f.Owners = make([]blame.Owner, 0, len(b.origins))
		for i := range n.kept {
			f.Owners = append(f.Owners, *b.owner(ctx, i))
		}
	}
	if len(b.versions) > 0 && b.versions[0].mo == nil { // the newest of those that are kept
		f.Versions = append(f.Versions, kept.Versions...)
	}
	for i := range b.versions {
		v := &b.versions[i]
		lines, ok := b.lines[i]
		if v.isDisk || v.mo == nil || v.entry == nil || v.mo.Seq() > upTo.Seq {
			continue
		}
		if ok {
			f.Versions = append(f.Versions, blame.Keep(v.mo.Seq(), v.path, v.entry.ID, n.ofAll(ctx, lines)))
		} else {
			f.Versions = nil // only those behind it follow one another
		}
	}
	if n := len(f.Versions) - keptVersions; n > 0 {
		f.Versions = f.Versions[n:]
	}
	size := 0
	for i := len(f.Versions) - 1; i >= 0; i-- {
		if size += f.Versions[i].Size(); size > maxKept {
			f.Versions = f.Versions[i+1:]
			break
		}
	}
	if len(f.Versions) == 0 {
		return nil
	}
	f.Compact()
	return f
}

// blameNumbers gives the origins of what is to be kept their numbers.
type blameNumbers struct {
	*blaming
	f       *blame.File
	kept    int         // origins below it have the numbers that they had
	numbers map[int]int // of the others
}

func (n *blameNumbers) of(ctx context.Context, origin int) int {
	if origin < n.kept {
		return origin
	}
	i, ok := n.numbers[origin]
	if !ok {
		i = len(n.f.Owners)
		n.numbers[origin] = i
		n.f.Owners = append(n.f.Owners, *n.owner(ctx, origin))
	}
	return i
}

func (n *blameNumbers) ofAll(ctx context.Context, lines blame.Lines) blame.Lines {
	all := make(blame.Lines, len(lines))
	for i, r := range lines {
		all[i] = blame.Run{Lines: r.Lines, Origin: n.of(ctx, r.Origin)}
	}
	return all
}

// settled returns the newest record behind which nothing is known that may change with the
// end of a turn, nil if there is none.
func (b *blaming) settled(ctx context.Context) *record {
	upTo := b.newest.Seq
	for _, o := range b.turns {
		upTo = min(upTo, o.After)
	}
	if upTo == b.newest.Seq {
		return b.newest
	}
	r, err := b.m.records.Record(ctx, upTo)
	if err != nil || r.Pruned {
		return nil
	}
	return r
}
