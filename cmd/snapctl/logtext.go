package main

import (
	"context"
	"iter"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/pickaxe"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// compile reads what -S or -G looks for.
func (f *logFlags) compile() (*pickaxe.Pattern, error) {
	if f.lines != "" {
		return pickaxe.Compile(f.lines, pickaxe.Options{Regexp: true, Mode: pickaxe.Lines})
	}
	return pickaxe.Compile(f.text, pickaxe.Options{})
}

// picked yields the lines by whose changes the text came or went. What cannot be searched is
// in gap in the end.
func (p *place) picked(ctx context.Context, lines iter.Seq2[*logLine, error], f *logFlags,
	gap *pickaxe.Gap) iter.Seq2[*logLine, error] {
	jobs := func(yield func(pickaxe.Job[*logLine], error) bool) {
		for l, err := range lines {
			job := pickaxe.Job[*logLine]{Of: l}
			switch {
			case err != nil:
			case !l.isKnown():
				gap.Pruned++
				continue
			default:
				job.Changes, err = l.differences(ctx, gap)
			}
			if !yield(job, err) || err != nil {
				return
			}
		}
	}
	read := func(ctx context.Context, id store.ID) ([]byte, error) { return p.store.Get(ctx, object.Blob, id) }
	return func(yield func(*logLine, error) bool) {
		unread := new(pickaxe.Gap) // jobs are made beside
		defer func() { gap.Join(unread) }()
		for r, err := range pickaxe.Run(ctx, pickaxe.New(f.pattern, read), jobs) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, u := range r.Unread {
				if path := r.Changes[u.Change].Path; r.Of.only.keeps(path) {
					unread.AddUnread(path, u.Err)
				}
			}
			if isPicked(r, f.lines != "") && !yield(r.Of, nil) {
				return
			}
		}
	}
}

// differences returns what a line has changed, of what is listed.
func (l *logLine) differences(ctx context.Context, gap *pickaxe.Gap) ([]tree.Difference, error) {
	turn := l.turn
	if turn == nil {
		var err error
		if turn, err = l.TurnDiff(ctx); err != nil {
			return nil, err
		}
	}
	if turn.Unknown != "" {
		gap.Lost++
	}
	var list []tree.Difference
	for i := range turn.Changes {
		list = append(list, turn.Changes[i].Difference)
	}
	return pickaxe.Narrow(list, func(d *tree.Difference) *tree.Difference { return d }, l.only.keeps), nil
}

// isPicked reports whether the text came or went, all pieces of a file together; of lines,
// whether any did.
func isPicked(r *pickaxe.Result[*logLine], lines bool) bool {
	more := make(map[string]int)
	for _, h := range r.Hits {
		path := r.Changes[h.Change].Path
		if !r.Of.only.keeps(path) && (h.From == "" || !r.Of.only.keeps(h.From)) {
			continue
		}
		if lines {
			return true
		}
		more[path] += h.After - h.Before
	}
	for _, n := range more {
		if n != 0 {
			return true
		}
	}
	return false
}
