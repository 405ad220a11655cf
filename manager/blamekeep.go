package manager

import (
	"context"

	"github.com/boocode/filestore/internal/blame"
	"github.com/boocode/filestore/internal/cas"
)

// maxKeptRuns bounds what is kept of a file, in runs of about four bytes each.
const maxKeptRuns = 256 << 10

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
	f := b.file(ctx, kept)
	if f == nil || kept != nil && f.Seq == kept.Seq {
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

// file returns what is to be kept, nil if that is nothing.
func (b *blaming) file(ctx context.Context, kept *blame.File) *blame.File {
	upTo := b.settled(ctx)
	if upTo == nil {
		return nil
	}
	f := &blame.File{Store: b.m.store.ID(), Epoch: b.epoch, Path: b.path, Seq: upTo.Seq, Tree: upTo.Tree}
	if len(b.versions) > 0 && b.versions[0].mo == nil { // the newest of those that are kept
		f.Versions = append(f.Versions, kept.Versions...)
	}
	runs := 0
	for i := range b.versions {
		v := &b.versions[i]
		lines, ok := b.lines[i]
		if v.isDisk || v.mo == nil || v.entry == nil || v.mo.Seq() > upTo.Seq {
			continue
		}
		if ok {
			f.Versions = append(f.Versions, blame.Kept{Seq: v.mo.Seq(), Path: v.path, Blob: v.entry.ID, Lines: lines})
		} else {
			f.Versions = nil // only those behind it follow one another
		}
	}
	if n := len(f.Versions) - keptVersions; n > 0 {
		f.Versions = f.Versions[n:]
	}
	for i := len(f.Versions) - 1; i >= 0; i-- {
		if runs += len(f.Versions[i].Lines); runs > maxKeptRuns {
			f.Versions = f.Versions[i+1:]
			break
		}
	}
	if len(f.Versions) == 0 {
		return nil
	}
	b.number(ctx, f)
	return f
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

// number gives the origins of what is kept numbers in the order of their first line.
func (b *blaming) number(ctx context.Context, f *blame.File) {
	numbers := make(map[int]int)
	for i := range f.Versions {
		lines := make(blame.Lines, len(f.Versions[i].Lines))
		for j, r := range f.Versions[i].Lines {
			n, ok := numbers[r.Origin]
			if !ok {
				n = len(f.Owners)
				numbers[r.Origin] = n
				f.Owners = append(f.Owners, *b.owner(ctx, r.Origin))
			}
			lines[j] = blame.Run{Lines: r.Lines, Origin: n}
		}
		f.Versions[i].Lines = lines
	}
}
