package pickaxe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Search looks for a pattern in contents.
type Search struct {
	pattern *Pattern
	read    func(ctx context.Context, id store.ID) ([]byte, error)

	mu      sync.Mutex // guards the rest
	known   map[store.ID]tally
	pending map[store.ID]chan struct{} // that are read right now; closed when done
	unread  map[store.ID]error         // that cannot be
}

// New returns a search. read returns a content, which nobody changes; it is called from
// several goroutines.
func New(p *Pattern, read func(ctx context.Context, id store.ID) ([]byte, error)) *Search {
	return &Search{pattern: p, read: read, known: make(map[store.ID]tally),
		pending: make(map[store.ID]chan struct{}), unread: make(map[store.ID]error)}
}

// MaxContent is above which size, in bytes, a content is not looked into.
const MaxContent = 256 << 20

var errTooLarge = errors.New("larger than 256 MiB")

// A Job is changes that belong together, such as those of a turn.
type Job[T any] struct {
	Of      T
	Changes []tree.Difference
}

// A Hit is a change by which the text came or went.
type Hit struct {
	Change        int    // its number in the job
	From          string // where the file was before, if it was moved; "": it was not
	Before, After int    // in how many places, or lines, the text was
	Line          int    // the first that it came into; or, if there is none, the first that it went from
	Text          string // that line, at most 200 bytes of it
}

// A Result is what was found in a job.
type Result[T any] struct {
	Of      T
	Changes []tree.Difference
	Hits    []Hit // in order of the changes
	Unread  []Unread
}

// An Unread is a change of which one side cannot be looked into.
type Unread struct {
	Change int
	Err    error
}

// ahead is how many jobs are read while another is waited for.
const ahead = 64

// perTask is how many changes one processor takes at a time.
const perTask = 16

// Run yields the result of each job, in their order, as soon as it and those before it are
// known. The jobs are made in another goroutine. Each pair is a result and nil, or a
// zero one and the error that ends the sequence: that of a job, or of reading a content for other
// reasons than that it is lost or was forgotten.
func Run[T any](ctx context.Context, s *Search, jobs iter.Seq2[Job[T], error]) iter.Seq2[*Result[T], error] {
	return func(yield func(*Result[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		slots := make(chan *slot[T], ahead)
		tasks := make(chan func())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for do := range tasks {
					do()
				}
			})
		}
		all.Go(func() {
			defer close(slots)
			defer close(tasks)
			for job, err := range jobs {
				if !offer(ctx, s, slots, tasks, &slot[T]{Job: job, err: err}) || err != nil {
					return
				}
			}
		})
		for sl := range slots {
			sl.tasks.Wait()
			r, err := resultOf(ctx, s, sl)
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := context.Cause(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// A slot is a job under way.
type slot[T any] struct {
	Job[T]
	tasks sync.WaitGroup
	mu    sync.Mutex // guards err
	err   error
}

func (sl *slot[T]) fail(err error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.err = errors.Join(sl.err, err)
}

// offer has the contents of a job looked into. It reports whether to go on.
func offer[T any](ctx context.Context, s *Search, slots chan<- *slot[T], tasks chan<- func(), sl *slot[T]) bool {
	pieces := slices.Collect(slices.Chunk(sl.Changes, perTask))
	sl.tasks.Add(len(pieces))
	select {
	case slots <- sl:
	case <-ctx.Done():
		return false
	}
	for i, piece := range pieces {
		select {
		case tasks <- func() {
			defer sl.tasks.Done()
			if err := s.lookInto(ctx, piece); err != nil {
				sl.fail(err)
			}
		}:
		case <-ctx.Done():
			sl.fail(context.Cause(ctx))
			sl.tasks.Add(i - len(pieces))
			return false
		}
	}
	return true
}

// lookInto counts in both sides of some changes.
func (s *Search) lookInto(ctx context.Context, changes []tree.Difference) error {
	for i := range changes {
		c := &changes[i]
		if isSame(c) {
			continue
		}
		for _, e := range []*tree.Entry{c.New, c.Old} {
			if isFile(e) {
				if err := s.count(ctx, e); err != nil {
					return fmt.Errorf("%q: %w", c.Path, err)
				}
			}
		}
	}
	return nil
}

// isSame reports whether a change leaves the content as it is.
func isSame(c *tree.Difference) bool {
	return isFile(c.Old) && isFile(c.New) && c.Old.ID == c.New.ID
}

// isFile reports whether an entry has a content: a file, or a link with its target.
func isFile(e *tree.Entry) bool { return e != nil && !e.Mode.IsDir() }

// count looks into a content, unless that was done.
func (s *Search) count(ctx context.Context, e *tree.Entry) error {
	s.mu.Lock()
	for {
		_, known := s.known[e.ID]
		_, unread := s.unread[e.ID]
		if known || unread {
			s.mu.Unlock()
			return nil
		}
		done := s.pending[e.ID]
		if done == nil {
			break
		}
		s.mu.Unlock()
		<-done
		s.mu.Lock()
		if s.pending[e.ID] == nil && !s.isDone(e.ID) { // it failed for who was first
			break
		}
	}
	done := make(chan struct{})
	s.pending[e.ID] = done
	s.mu.Unlock()
	t, err := s.tallyOf(ctx, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	delete(s.pending, e.ID)
	switch {
	case err == nil:
		s.known[e.ID] = t
	case isGone(err):
		s.unread[e.ID], err = err, nil
	}
	return err
}

// isDone reports whether it is known what is in a content, or that nobody can know. s.mu is
// held.
func (s *Search) isDone(id store.ID) bool {
	_, known := s.known[id]
	_, unread := s.unread[id]
	return known || unread
}

func (s *Search) tallyOf(ctx context.Context, e *tree.Entry) (tally, error) {
	content, err := s.content(ctx, e)
	if err != nil {
		return tally{}, err
	}
	return s.pattern.tally(ctx, content)
}

// content returns the content of an entry, nil if there is none.
func (s *Search) content(ctx context.Context, e *tree.Entry) ([]byte, error) {
	switch {
	case !isFile(e):
		return nil, nil
	case e.Size > MaxContent:
		return nil, errTooLarge
	}
	return s.read(ctx, e.ID)
}

// isGone reports whether an error says that a content is not to be had, and others may be.
func isGone(err error) bool {
	return errors.Is(err, errTooLarge) || errors.Is(err, store.ErrForgotten) || errors.Is(err, store.ErrPruned) ||
		errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt)
}

// tallyAt returns what is known of a side of a change, and why nothing is.
func (s *Search) tallyAt(e *tree.Entry) (t tally, err error) {
	if !isFile(e) {
		return t, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[e.ID], s.unread[e.ID]
}

// resultOf finds the hits of a job whose contents were looked into.
func resultOf[T any](ctx context.Context, s *Search, sl *slot[T]) (*Result[T], error) {
	if sl.err != nil {
		return nil, sl.err
	}
	r := &Result[T]{Of: sl.Of, Changes: sl.Changes}
	from, moved, err := s.renames(ctx, sl.Changes)
	if err != nil {
		return nil, err
	}
	for i := range sl.Changes {
		c := sl.Changes[i]
		if isSame(&c) || moved[i] {
			continue
		}
		h := &Hit{Change: i}
		if old, is := from[i]; is {
			c.Old, h.From = sl.Changes[old].Old, sl.Changes[old].Path
		}
		is, err := s.hit(ctx, &c, h)
		switch {
		case isGone(err):
			r.Unread = append(r.Unread, Unread{i, err})
		case err != nil:
			return nil, err
		case is:
			r.Hits = append(r.Hits, *h)
		}
	}
	return r, nil
}

// renames pairs files that were deleted with those that were added and are the same, moved: by
// the number of the one that was added, that of the other. moved has the latter. It does so only
// where it matters: the text is in one that came, and in one that went.
func (s *Search) renames(ctx context.Context, changes []tree.Difference) (
	from map[int]int, moved map[int]bool, err error) {
	went, came := false, false
	for i := range changes {
		old, _ := s.tallyAt(changes[i].Old)
		now, _ := s.tallyAt(changes[i].New)
		went = went || changes[i].Status == tree.Deleted && old.n > 0
		came = came || changes[i].Status == tree.Added && now.n > 0
	}
	if !went || !came {
		return nil, nil, nil
	}
	list, _, err := trees.Renames(changes, filediff.MaxText, func(_ *tree.Difference, e *tree.Entry) ([]byte, error) {
		content, err := s.content(ctx, e)
		if isGone(err) { // it is like nothing else
			return nil, nil
		}
		return content, err
	})
	from, moved = make(map[int]int), make(map[int]bool)
	for _, n := range list {
		from[n.To], moved[n.From] = n.From, true
	}
	return from, moved, err
}

// hit reports whether the text came or went by a change, and fills in where.
func (s *Search) hit(ctx context.Context, c *tree.Difference, h *Hit) (is bool, err error) {
	old, err := s.tallyAt(c.Old)
	if err != nil {
		return false, err
	}
	now, err := s.tallyAt(c.New)
	if err != nil || old.n == 0 && now.n == 0 || isSame(c) {
		return false, err
	}
	h.Before, h.After = old.n, now.n
	where := now.first
	switch {
	case old.n == 0:
	case now.n == 0:
		where = old.first
	case s.pattern.mode == Count && old.n == now.n:
		return false, nil
	default:
		is, line, err := s.compare(ctx, c, &old, &now)
		if err != nil || !is {
			return false, err
		}
		where = line
	}
	if where != nil {
		h.Line, h.Text = where.number, string(where.text)
	}
	return true, nil
}

// compare looks at both sides of a change that have the text.
func (s *Search) compare(ctx context.Context, c *tree.Difference, old, now *tally) (is bool, at *matched, err error) {
	before, err := s.content(ctx, c.Old)
	if err != nil {
		return false, nil, err
	}
	after, err := s.content(ctx, c.New)
	if err != nil {
		return false, nil, err
	}
	p := s.pattern
	if p.mode == Lines && old.n == now.n && old.sum == now.sum && !p.inEdits(before, after) { // they have not moved
		return false, nil, nil
	}
	if now.n < old.n {
		before, after = after, before
	}
	had := make(map[string]int)
	for line := range p.lines(ctx, before) {
		had[string(line.text)]++
	}
	at = p.firstLine(ctx, after, had)
	if at == nil {
		at = p.firstLine(ctx, after, nil)
	}
	return true, at, context.Cause(ctx)
}

// inEdits reports whether a line that matches is among those by which two texts differ.
func (p *Pattern) inEdits(before, after []byte) bool {
	a, b := textdiff.SplitLines(before), textdiff.SplitLines(after)
	for _, e := range textdiff.Edits(before, after) {
		for _, line := range slices.Concat(a[e.OldStart:e.OldEnd], b[e.NewStart:e.NewEnd]) {
			if p.isLine([]byte(strings.TrimSuffix(line, "\n"))) {
				return true
			}
		}
	}
	return false
}
