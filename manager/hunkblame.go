package manager

import (
	"context"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/tree"
)

// A hunkBlamer finds out who is in the way of the hunks of a list.
type hunkBlamer struct {
	m     *FileSnapshotManager
	files []hunkedFile // all, also those that are not listed

	clashes []*clash
	tell    []func(by []string)
}

// add notes a hunk that was listed last, if somebody is in its way.
func (b *hunkBlamer) add(list *HunkList, f *hunkedFile, i int) {
	h := &f.list[i]
	if f.of.By == nil || f.of.By.Logged != nil || list.Hunks[len(list.Hunks)-1].State != string(hunks.Conflict) {
		return
	}
	at := len(list.Hunks) - 1
	if f.hidden != nil {
		list.Hunks[at].BlockedBy = []string{fmt.Sprint("turn:", f.hidden.Turn())}
		return
	}
	var disk *tree.Entry
	if f.now.Mode != 0 {
		disk = &tree.Entry{Mode: f.now.Mode, ID: f.now.ID, Size: int64(len(f.now.Text))}
	}
	part := merging.ClashPart{Step: &merging.Step{Base: f.new, Theirs: f.old, Of: f.of.By}}
	if h.Kind == hunks.Lines && f.now.IsText() {
		part.Places = []patch.Span{h.After.Lines}
	}
	b.clashes = append(b.clashes, &clash{want: &livedir.Want{Path: f.path}, disk: disk,
		Clash: &merging.Clash{Parts: []merging.ClashPart{part}}})
	b.tell = append(b.tell, func(by []string) { list.Hunks[at].BlockedBy = by })
}

// all finds out about all hunks that were noted.
func (b *hunkBlamer) all(ctx context.Context) error {
	if len(b.clashes) == 0 {
		return nil
	}
	m := b.m
	x := &restore{m: m, o: &look{m: m, session: m.opts.Session}}
	l, err := m.line(ctx)
	if err == nil {
		x.tip, err = l.tip(ctx)
	}
	if err == nil {
		x.o.last, err = m.records.Newest(cas.AnySession)
	}
	if err == nil {
		x.o.turns, _, err = m.readTurns()
	}
	if err == nil {
		x.root, err = m.openRoot()
	}
	if err != nil || x.tip == nil || x.o.last == nil || x.o.last.Pruned {
		return err
	}
	defer x.root.Close()
	x.o.windows = x.o.who()
	a := &aim{merges: merges{clashes: make(map[string]*clash)}, back: make(map[string][]standing.StepChange)}
	for _, f := range b.files { // none of them is in the way of another
		if f.of.By != nil {
			a.back[f.path] = append(a.back[f.path], f.of)
		}
	}
	for _, c := range b.clashes { // the oldest change of each path, so that all since is known
		p := c.want.Path
		if have := a.clashes[p]; have == nil || c.Parts[0].Step.Began() < have.Parts[0].Step.Began() {
			a.clashes[p] = c
		}
	}
	blames := newBlamer(ctx, x, l, a)
	if err := blames.collect(); err != nil {
		return err
	}
	for i, c := range b.clashes {
		if err := blames.blame(c); err != nil {
			return err
		}
		b.tell[i](slices.Clone(c.by))
	}
	return nil
}
