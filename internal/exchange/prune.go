package exchange

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// This file prunes a remote, beside any number of writers: docs/reference/format-remote.md §7. What goes is
// whole lines, and what nobody's entries name.

// PruneOptions say what is to go from a remote.
type PruneOptions struct {
	// Older has lines go whose newest record is older, unless one of their records has a name; 0: none.
	Older time.Duration
	// Sessions have all their lines go, whatever their age.
	Sessions []string
	// Forget are contents that go from all lines.
	Forget []store.ID
	// Left has go, too, what stores have left there and have not said again for so long; 0: none of it goes.
	Left time.Duration
	// Pins are lines that say so, and that go.
	Pins []lines.Line
	// Anew has all that stays written again, with the newest key.
	Anew bool

	at func(step string) error // for tests: called at each step
}

// A PrunePlan is what a prune of a remote will do, as it is now.
type PrunePlan struct {
	Lines   int   `json:"lines"`   // that go
	Kept    int   `json:"kept"`    // lines that stay
	Entries int   `json:"entries"` // that go
	Packs   int   `json:"packs"`   // that go
	Bytes   int64 `json:"bytes"`   // of entries and packs that go, as far as it is known
	Anew    int   `json:"anew"`    // lines that are written anew
	Left    int   `json:"left"`    // lines that would go, and stay for what stores have left in them

	repo   *lines.Repo
	opts   *PruneOptions
	ledger *lines.Ledger
	found  *survey
	going  map[lines.Line]bool
	forget []store.ID
}

// Empty reports whether there is nothing to do.
func (p *PrunePlan) Empty() bool { return p.Lines+p.Entries+p.Packs+p.Anew == 0 }

// A survey is what there is in a remote.
type survey struct {
	lines map[lines.Line]*lines.Kept // that count
	logs  []*lines.Log
	sizes map[string]int64 // of packs
}

// PlanPrune finds out what there is to prune. It changes nothing.
func PlanPrune(ctx context.Context, repo *lines.Repo, opts *PruneOptions) (*PrunePlan, error) {
	for {
		p, err := planPrune(ctx, repo, opts)
		if err == nil {
			return p, nil
		}
		if _, changed, rerr := repo.Refresh(ctx); rerr != nil || !changed { // else somebody else has pruned
			return nil, err
		}
	}
}

func planPrune(ctx context.Context, repo *lines.Repo, opts *PruneOptions) (*PrunePlan, error) {
	ledger, _, err := repo.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	p := &PrunePlan{repo: repo, opts: opts, ledger: ledger}
	if p.found, err = look(ctx, repo, ledger); err != nil {
		return nil, err
	}
	if p.found.sizes, err = repo.Packs(ctx); err != nil {
		return nil, err
	}
	p.going = p.choose()
	p.Lines, p.Kept = len(p.going), len(p.found.lines)-len(p.going)
	named := p.named(p.found.lines, p.going)
	for key, size := range p.found.sizes {
		if _, g, ok := parsePackKey(key); ok && !named[key] && g <= ledger.Newest {
			p.Packs++
			p.Bytes += size
		}
	}
	for _, g := range p.found.logs { // what a prune has left that was killed
		k := p.found.lines[g.Line]
		for _, n := range g.Entries {
			if k == nil || n < k.Folded() || p.going[g.Line] {
				p.Entries++
			}
		}
	}
	// What was forgotten before is not there.
	p.forget = slices.DeleteFunc(slices.Clone(opts.Forget), func(id store.ID) bool { return ledger.Forgotten[id] })
	if len(p.forget) > 0 || opts.Anew {
		p.Anew = p.Kept
	}
	return p, nil
}

// named returns the keys of packs that lines name, but for those that go.
func (p *PrunePlan) named(kept map[lines.Line]*lines.Kept, going map[lines.Line]bool) map[string]bool {
	named := make(map[string]bool)
	if m := p.ledger.Manifest(); m != nil {
		named[m.Key()] = true
	}
	for line, k := range kept {
		if going[line] {
			continue
		}
		for i := range k.Packs {
			named[k.Packs[i].Key()] = true
		}
		for i := range k.Folds {
			named[k.Folds[i].Pack.Key()] = true
		}
	}
	return named
}

// choose returns the lines that go: nobody who stays counts on one of them.
func (p *PrunePlan) choose() map[lines.Line]bool {
	going := make(map[lines.Line]bool)
	dirs := make(map[string]bool)
	for _, s := range p.opts.Sessions {
		dirs[p.repo.DirOf(s)] = true
	}
	isOlder := func(k *lines.Kept, age time.Duration) bool {
		return age > 0 && k.Newest != 0 && k.Newest < time.Now().Add(-age).Unix()
	}
	pins := p.repo.DirOf(lines.PinSession)
	for line, k := range p.found.lines {
		if k.Dir == pins {
			going[line] = len(k.On) == 0 || isOlder(k, p.opts.Left) || slices.Contains(p.opts.Pins, line)
		} else {
			going[line] = isOlder(k, p.opts.Older) && !k.Named || dirs[k.Dir]
		}
	}
	rest := closed(p.found.lines, going)
	for line, k := range p.found.lines { // but for pins, what more would go?
		going[line] = going[line] || k.Dir == pins
	}
	for line := range closed(p.found.lines, going) {
		if !rest[line] && p.found.lines[line].Dir != pins {
			p.Left++
		}
	}
	return rest
}

// closed returns those of some lines on which no other counts that stays.
func closed(all map[lines.Line]*lines.Kept, going map[lines.Line]bool) map[lines.Line]bool {
	stays := make(map[lines.Line]bool)
	var todo []lines.Line
	for line := range all {
		if !going[line] {
			todo = append(todo, line)
		}
	}
	for len(todo) > 0 {
		line := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if stays[line] {
			continue
		}
		stays[line] = true
		if k := all[line]; k != nil {
			for _, on := range k.On {
				todo = append(todo, on.Line)
			}
		}
	}
	rest := make(map[lines.Line]bool)
	for line := range all {
		if !stays[line] {
			rest[line] = true
		}
	}
	return rest
}

// look finds the lines that count, and what they name and count on. What the last prune has kept is known
// from it; only entries behind that are read.
func look(ctx context.Context, repo *lines.Repo, ledger *lines.Ledger) (*survey, error) {
	logs, err := repo.Logs(ctx, "log/")
	if err != nil {
		return nil, err
	}
	s := &survey{lines: make(map[lines.Line]*lines.Kept), logs: logs}
	found := make([]*lines.Kept, len(logs))
	progress.Of(ctx).Begin(progress.Phase{Name: "looking", Unit: "line", Items: int64(len(logs))})
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i, g := range logs {
		if len(g.Others) > 0 {
			return nil, &lines.DamageError{Key: g.Others[0], Err: errors.New("nothing of ours has put it there")}
		}
		group.Go(func() (err error) {
			found[i], err = lookAt(gctx, repo, ledger, g)
			progress.Of(gctx).Count(1, 0)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, k := range found {
		if k != nil {
			s.lines[k.Line] = k
		}
	}
	return s, s.complete(ctx, repo, ledger)
}

// complete looks for what lines count on and was not listed: the list may be older than them.
func (s *survey) complete(ctx context.Context, repo *lines.Repo, ledger *lines.Ledger) error {
	var todo []lines.On
	for _, k := range s.lines {
		todo = append(todo, k.On...)
	}
	for len(todo) > 0 {
		on := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if k := s.lines[on.Line]; k != nil && k.Last >= on.Entry {
			continue
		}
		k, err := lookAt(ctx, repo, ledger, &lines.Log{Dir: on.Dir, Line: on.Line,
			Entries: []uint64{on.Entry}})
		if err == nil && k == nil {
			err = &lines.DamageError{Key: key(on.Dir, on.Line, on.Entry),
				Err: errors.New("it is missing: another line counts on it")}
		}
		if err != nil {
			return err
		}
		s.lines[k.Line] = k
		todo = append(todo, k.On...)
	}
	return nil
}

// lookAt looks at a line, as far as it is listed. It returns nil if the line does not count.
func lookAt(ctx context.Context, repo *lines.Repo, ledger *lines.Ledger, g *lines.Log) (*lines.Kept, error) {
	k := &lines.Kept{Dir: g.Dir, Line: g.Line}
	next := uint64(0)
	if was := ledger.Kept[g.Line]; was != nil && was.Dir == g.Dir {
		*k = *was
		k.On, k.Packs, k.Void = slices.Clone(was.On), slices.Clone(was.Packs), slices.Clone(was.Void)
		next = was.Last + 1
	}
	if len(g.Entries) == 0 {
		return k, nil
	}
	for n := next; n <= g.Entries[len(g.Entries)-1]; n++ {
		e, at, _, err := repo.Entry(ctx, g.Dir, lines.Position{Line: g.Line, Entry: n})
		if errors.Is(err, remote.ErrNoKey) && next == 0 && ledger.Prune > 0 {
			return nil, junk(ctx, repo, g, n) // what a prune has left
		}
		if errors.Is(err, remote.ErrNoKey) {
			err = &lines.DamageError{Key: g.Key(n), Err: errors.New("it is missing")}
		}
		if err != nil {
			return nil, err
		}
		if n == 0 && e.Void {
			return nil, nil
		}
		if err := note(k, repo, e, at); err != nil {
			return nil, &lines.DamageError{Key: g.Key(n), Err: err}
		}
	}
	return k, nil
}

// junk returns an error if what is left of a line that lacks an entry counts.
func junk(ctx context.Context, repo *lines.Repo, g *lines.Log, missing uint64) error {
	for _, n := range g.Entries {
		e, _, _, err := repo.Entry(ctx, g.Dir, lines.Position{Line: g.Line, Entry: n})
		switch {
		case errors.Is(err, remote.ErrNoKey):
			continue
		case err != nil:
			return err
		case !e.Void:
			return &lines.DamageError{Key: g.Key(missing), Err: errors.New("it is missing")}
		}
	}
	return nil
}

// note adds an entry to what is known of a line.
func note(k *lines.Kept, repo *lines.Repo, e *lines.Entry, at lines.Position) error {
	k.Last, k.Hash = at.Entry, at.Hash
	if e.Void {
		k.Void = append(k.Void, at.Entry)
		return nil
	}
	k.Packs = append(k.Packs, e.Packs...)
	if e.Pin != nil { // it stands for those before
		k.On, k.Newest = nil, e.Pin.Time
		for i := range e.Pin.On {
			on := &e.Pin.On[i]
			k.On = append(k.On, lines.On{Dir: repo.DirOf(on.Session), Line: on.Line, Entry: on.Entry})
		}
	}
	if o := e.Opening; o != nil && o.Base != nil {
		k.On = append(k.On, lines.On{Dir: k.Dir, Line: o.Base.Line, Entry: o.Base.Entry})
	}
	if o := e.Opening; o != nil && o.Leans != nil {
		k.On = append(k.On, lines.On{Dir: repo.DirOf(o.Leans.Session), Line: o.Leans.Line, Entry: o.Leans.Entry})
	}
	for _, r := range e.Records {
		snap, err := cas.DecodeSnapshot(r.Seq, r.Body)
		if err != nil {
			return err
		}
		k.Newest = max(k.Newest, snap.Time.Unix())
		k.Named = k.Named || snap.Label != ""
	}
	return nil
}

// A PruneResult is what a prune of a remote has done.
type PruneResult struct {
	Lines   int   `json:"lines"`   // that went
	Kept    int   `json:"kept"`    // that stay
	Entries int   `json:"entries"` // that went
	Packs   int   `json:"packs"`
	Bytes   int64 `json:"bytes"` // of packs that went
	Anew    int   `json:"anew"`  // lines that were written anew
}

// maxPrunes is how often a prune begins again because somebody else prunes, too.
const maxPrunes = 5

// Do does what the plan says, but for lines that have become longer, or on which another counts by now. It
// may be called again after any error. Nobody has to wait for it, and it waits for nobody.
func (p *PrunePlan) Do(ctx context.Context) (*PruneResult, error) {
	for n := 0; ; n++ {
		r, err := p.do(ctx)
		if !errors.Is(err, lines.ErrRival) || n == maxPrunes {
			return r, err
		}
		again, err := PlanPrune(ctx, p.repo, p.opts)
		if err != nil {
			return nil, err
		}
		*p = *again
	}
}

func (p *PrunePlan) at(step string) error {
	if p.opts.at == nil {
		return nil
	}
	return p.opts.at(step)
}

func (p *PrunePlan) do(ctx context.Context) (*PruneResult, error) {
	var by [16]byte
	rand.Read(by[:]) // never fails (crypto/rand)
	var going []lines.Line
	for line := range p.going {
		going = append(going, line)
	}
	slices.SortFunc(going, func(a, b lines.Line) int { return slices.Compare(a[:], b[:]) })
	var forget [][32]byte
	for _, id := range p.forget {
		forget = append(forget, id)
	}
	if err := p.at("planned"); err != nil {
		return nil, err
	}
	announced, err := p.repo.Announce(ctx, p.ledger, going, forget, by)
	if err != nil {
		return nil, err
	}
	if err := p.at("announced"); err != nil {
		return nil, err
	}
	// Behind the announcement: who is not seen now sees that.
	found, err := look(ctx, p.repo, p.ledger)
	if err != nil {
		return nil, err
	}
	stay := p.stay(found)
	x := &rewriting{ctx: ctx, plan: p, generation: announced.Open.Number}
	if err := x.all(stay); err != nil {
		return nil, err
	}
	forgotten := make(map[[32]byte]bool)
	for id := range p.ledger.Forgotten {
		forgotten[id] = true
	}
	for _, id := range forget {
		forgotten[id] = true
	}
	if err := p.at("copied"); err != nil {
		return nil, err
	}
	if err := p.repo.Done(ctx, announced, stay, forgotten); err != nil {
		return nil, err
	}
	if err := p.at("done"); err != nil {
		return nil, err
	}
	r := &PruneResult{Lines: len(found.lines) - len(stay), Kept: len(stay), Anew: x.lines}
	return r, p.remove(ctx, found, stay, announced.Open.Number, r)
}

// stay returns the lines that stay, of those that are there now: what was to go, and has become longer, or has
// somebody counting on it, does.
func (p *PrunePlan) stay(found *survey) map[lines.Line]*lines.Kept {
	going := make(map[lines.Line]bool)
	for line, k := range found.lines {
		was := p.found.lines[line]
		going[line] = p.going[line] && was != nil && was.Last == k.Last
	}
	stay := make(map[lines.Line]*lines.Kept)
	rest := closed(found.lines, going)
	for line, k := range found.lines {
		if !rest[line] {
			stay[line] = k
		}
	}
	return stay
}

// remove removes what does not count: of what was there before the announcement, and nothing else. Who comes
// after a prune that was killed here finds the same.
func (p *PrunePlan) remove(
	ctx context.Context, found *survey, stay map[lines.Line]*lines.Kept, announced uint64, r *PruneResult,
) error {
	var first, keys []string
	for _, g := range found.logs {
		k := stay[g.Line]
		if k != nil && k.Dir != g.Dir {
			k = nil
		}
		for _, n := range g.Entries {
			switch {
			case k != nil && n >= k.Folded():
			case n == 0: // first of its line: what is left behind it is known not to count
				first = append(first, g.Key(n))
			default:
				keys = append(keys, g.Key(n))
			}
		}
	}
	r.Entries = len(first) + len(keys)
	p.ledger = p.repo.Ledger()
	named := p.named(stay, nil)
	sizes, err := p.repo.Packs(ctx)
	if err != nil {
		return err
	}
	for key, size := range sizes {
		if _, g, ok := parsePackKey(key); ok && !named[key] && g < announced {
			keys = append(keys, key)
			r.Packs++
			r.Bytes += size
		}
	}
	slices.Sort(keys)
	progress.Of(ctx).Begin(progress.Phase{Name: "removing", Unit: "object", Items: int64(len(first) + len(keys))})
	for _, list := range [][]string{first, keys} {
		for batch := range slices.Chunk(list, 256) {
			if err := p.at("removing"); err != nil {
				return err
			}
			if err := p.repo.Delete(ctx, batch); err != nil {
				return err
			}
			progress.Of(ctx).Count(int64(len(batch)), 0)
		}
	}
	return nil
}

// parsePackKey returns the line and the generation in the key of a pack.
func parsePackKey(key string) (line string, generation uint64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[0] != "data" || len(parts[1]) != 8 {
		return "", 0, false
	}
	generation, err := strconv.ParseUint(parts[1], 10, 64)
	return parts[2], generation, err == nil
}
