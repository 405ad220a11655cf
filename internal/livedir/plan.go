package livedir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Want says what a path is to become, and what is expected to be there.
type Want struct {
	Path string
	New  *tree.Entry // nil: nothing
	Old  *tree.Entry // what was left there last, as far as is known; nil: nothing

	Doubt   string // why whatever is there counts as dirty; "": only what is not Old does
	Created bool   // what is there was made by what is taken back, so that it may be deleted
	Parent  bool   // a directory that is wanted only if something is to be put into it
	Held    string // why it stays, unless the policy is to overwrite; "": it may change
	Hidden  bool   // with Held: it stays even if it is as it is wanted, and is not dirty
	Clash   bool   // with Held: it stays even if it is as it is wanted, and is dirty
	Keep    string // why it stays as it is, whatever that is; "": it may change
	Lost    string // why the store has not New's content; a file of the disk may have it still; "": it has
	Merged  bool   // New is made of Old, which becomes it whatever the doubt
	Part    string // with Merged: why New is not all that was wanted; "": it is
	From    string // where what New is made of is, which goes only if New comes; "": it is made of Old
	Follows bool   // with Created: a directory that goes with what is in it, and stays unsaid if some of that does
	Out     string // why nothing is put there where nothing is, whatever the policy; "": it may be
}

// A Plan says what a restore does, path by path. It is plain data: Apply does
// what it says and nothing else.
type Plan struct {
	Items   []rollback.Item // in the order of paths, a directory before what is in it
	Made    []Made          // in the order of paths
	Moves   []rollback.Move
	Stays   string // says of a directory that Apply has made for its files that it could not go, and why
	Aborted bool   // it was stopped: something is dirty, and the policy is to do nothing then
}

// Nothing is what is done to a path that is as it is wanted. No result lists those.
const Nothing rollback.Action = "unchanged"

// A Made is a directory that is not there, and is made only because something is
// put into it: no item restores it.
type Made struct {
	Path string
	Mode tree.Mode // as mkdir would make it
}

// Options are the choices at [NewPlan]. The zero value is the default.
type Options struct {
	Policy rollback.Policy // default [Skip]

	// Loose are paths whose content is not known, since they were not captured.
	// They go along with a directory that was moved. Whatever else is not
	// wanted stays where it is, and so does the directory. It is read only if
	// there is such a directory.
	Loose iter.Seq2[string, error]

	// Moves are moves that are known, of a restore that is taken back or goes
	// on. Those that are done, or cannot be any more, are left out of the plan. Of two
	// paths that are wanted, it says that what comes to one is made of the other.
	Moves []rollback.Move
}

// NewPlan compares what is wanted with the disk. It changes nothing. Afterwards no directory
// but the root is open: on some systems one that is cannot be deleted.
func NewPlan(ctx context.Context, root *Root, wants []Want, opts *Options) (*Plan, error) {
	pl := &planner{ctx: ctx, root: root, policy: opts.Policy, hash: trees.NewOverlay(nil)}
	plan, err := pl.plan(wants, opts)
	if err = errors.Join(err, root.fresh()); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

type planner struct {
	ctx    context.Context
	root   *Root
	policy rollback.Policy
	hash   Sink

	wants   []Want                   // in order of path
	items   []rollback.Item          // of each of them
	byPath  map[string]int           // the index of a path
	blocked map[int]*notDirError     // items above which something is no directory
	known   map[string]rollback.Move // moves that were given, by From
	moves   map[string]rollback.Move // all of them
	there   map[store.ID]bool        // contents on the disk, which are saved before they go
}

func (pl *planner) plan(wants []Want, opts *Options) (*Plan, error) {
	pl.wants = slices.SortedFunc(slices.Values(wants), func(a, b Want) int {
		return trees.ComparePaths(a.Path, b.Path)
	})
	pl.items = make([]rollback.Item, len(wants))
	pl.byPath = make(map[string]int, len(wants))
	pl.blocked = make(map[int]*notDirError)
	pl.root.distinguish(func(yield func(string) bool) {
		for i := range pl.wants {
			if !yield(pl.wants[i].Path) {
				return
			}
		}
	})
	if err := pl.lookAtAll(); err != nil {
		return nil, err
	}
	pl.moves = make(map[string]rollback.Move)
	for _, mv := range opts.Moves {
		if err := pl.addMove(mv); err != nil {
			return nil, err
		}
	}
	pl.known = pl.moves
	pl.there = make(map[store.ID]bool)
	for i := range pl.items {
		if now := pl.items[i].Now; hasContent(now) {
			pl.there[now.ID] = true
		}
	}
	if err := pl.decide(opts); err != nil {
		return nil, err
	}
	plan := &Plan{Items: pl.items}
	for _, from := range slices.Sorted(maps.Keys(pl.moves)) {
		plan.Moves = append(plan.Moves, pl.moves[from])
	}
	plan.keepInside()
	if pl.policy == rollback.Abort && slices.ContainsFunc(plan.Items, func(i rollback.Item) bool { return i.Dirty }) {
		plan.Stop("something else is dirty, and then nothing is to be done")
	}
	return plan, pl.addMade(plan)
}

// lookAtAll sees what is at each path that is wanted.
func (pl *planner) lookAtAll() error {
	done := progress.Of(pl.ctx)
	done.Begin(progress.Phase{Name: "comparing", Unit: "file", Items: int64(len(pl.wants))})
	for i := range pl.wants {
		w := &pl.wants[i]
		if _, twice := pl.byPath[w.Path]; twice {
			return fmt.Errorf("%q: wanted twice", w.Path)
		}
		pl.byPath[w.Path] = i
		if err := pl.look(i); err != nil {
			return err
		}
		done.Count(1, sizeOf(pl.items[i].Now))
	}
	return nil
}

// decide says what is to be done at each path. Where one side of a moved directory stays as it is, so
// does the other: it begins again then, without it.
func (pl *planner) decide(opts *Options) error {
	for pairs := pl.movedDirs(); ; {
		if err := pl.carry(pairs, opts.Loose); err != nil {
			return err
		}
		for i := range slices.Backward(pl.items) { // what is in a directory before it
			if err := pl.judge(i); err != nil {
				return err
			}
		}
		pl.block()
		pl.keepSources()
		pl.settleParents()
		stays := len(pairs)
		pairs = slices.DeleteFunc(pairs, func(p rollback.Move) bool {
			return pl.items[pl.byPath[p.From]].Do != rollback.Delete || pl.items[pl.byPath[p.To]].Do != rollback.Restore
		})
		if len(pairs) == stays {
			return nil
		}
	}
}

// addMade adds the directories that are made for what is put into them.
func (pl *planner) addMade(plan *Plan) error {
	seen := make(map[string]bool)
	mode := sync.OnceValue(func() tree.Mode { return tree.ModeDir | tree.Mode(0o777&^vfs.Umask()) })
	add := func(path string) error {
		for up, _ := trees.Split(path); up != "" && !seen[up]; up, _ = trees.Split(up) {
			seen[up] = true
			if i, ok := pl.byPath[up]; ok {
				it := &pl.items[i]
				if it.Now == nil && (it.Do != rollback.Restore || !it.New.Mode.IsDir()) {
					plan.Made = append(plan.Made, Made{up, mode()})
				}
				continue
			}
			st, err := pl.root.stat(up)
			if cause := context.Cause(pl.ctx); cause != nil {
				return cause
			}
			if err != nil || st != nil { // what is wrong is found when it is entered
				return nil
			}
			plan.Made = append(plan.Made, Made{up, mode()})
		}
		return nil
	}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Do == rollback.Restore && it.Now == nil {
			if err := add(it.Path); err != nil {
				return err
			}
		}
	}
	for _, mv := range plan.Moves {
		if err := add(mv.To); err != nil {
			return err
		}
	}
	slices.SortFunc(plan.Made, func(a, b Made) int { return trees.ComparePaths(a.Path, b.Path) })
	return nil
}

// keepInside keeps what is in a directory that was to become something else
// and stays, but for what is in one that does become something else.
func (p *Plan) keepInside() {
	stays, goes := "", ""
	for i := range p.Items {
		it := &p.Items[i]
		if _, in := trees.Below(it.Path, goes); goes != "" && in {
			continue
		}
		goes = ""
		replaced := it.Now != nil && it.Now.Mode.IsDir() && hasContent(it.New)
		_, in := trees.Below(it.Path, stays)
		switch in = in && stays != ""; {
		case replaced && it.Do == rollback.Restore:
			goes = it.Path
		case in && it.Do == rollback.Delete:
			it.Do, it.Why = rollback.Kept, fmt.Sprintf("%q stays a directory", stays)
		case !in && replaced:
			stays = it.Path
		}
	}
}

// Stop makes a plan do nothing.
func (p *Plan) Stop(why string) {
	p.Aborted, p.Moves = true, nil
	for i := range p.Items {
		if it := &p.Items[i]; it.Do == rollback.Restore || it.Do == rollback.Delete {
			it.Do, it.Why = rollback.Skipped, why
		}
	}
}

// look looks at what is at a path.
func (pl *planner) look(i int) error {
	w := &pl.wants[i]
	it := &pl.items[i]
	*it = rollback.Item{Path: w.Path, New: w.New, Parent: w.Parent}
	var err error
	it.Now, err = pl.root.entry(pl.ctx, w.Path, pl.hash)
	var notDir *notDirError
	switch {
	case context.Cause(pl.ctx) != nil:
		return err
	case errors.As(err, &notDir):
		pl.blocked[i] = notDir
	case err != nil && !errors.Is(err, fs.ErrNotExist): // of this path alone
		it.Do, it.Why, it.Dirty = rollback.Failed, err.Error(), true
	}
	return nil
}

// judge says what is to be done to a path. What is in it has been judged.
func (pl *planner) judge(i int) error {
	w, it := &pl.wants[i], &pl.items[i]
	if it.Do == rollback.Failed {
		return nil
	}
	it.Why, it.Dirty, it.Merged = "", false, false
	isDir := it.Now != nil && it.Now.Mode.IsDir()
	switch {
	case w.Held != "" && pl.policy != rollback.Overwrite && (w.Hidden || w.Clash || !same(it.Now, it.New)):
		it.Do, it.Why, it.Dirty = rollback.Skipped, w.Held, !w.Hidden
		return nil
	case same(it.Now, it.New):
		it.Do = Nothing
		return nil
	case w.Parent && isDir && !same(it.Now, w.Old):
		it.Do = Nothing
		return nil
	case w.Keep != "":
		it.Do, it.Why, it.Dirty = rollback.Kept, w.Keep, w.Doubt != "" || !same(it.Now, w.Old)
		return nil
	case w.Out != "" && it.Now == nil:
		it.Do, it.Why, it.Dirty = rollback.Skipped, w.Out, true
		return nil
	case w.Lost != "" && !pl.there[it.New.ID]:
		it.Do, it.Why = rollback.Failed, w.Lost
		return nil
	}
	why := w.Doubt
	isMerged := w.Merged && same(it.Now, w.Old)
	if why == "" && !same(it.Now, w.Old) {
		why = describe(w.Old, it.Now)
	}
	it.Dirty = why != ""
	holds := ""
	if isDir && (it.New == nil || hasContent(it.New)) {
		var err error
		if holds, err = pl.holds(it.Path); err != nil {
			return err
		}
	}
	switch {
	case holds != "" && it.New != nil: // whatever the policy
		it.Do, it.Why, it.Dirty = rollback.Skipped, holds, true
	case it.Dirty && pl.policy != rollback.Overwrite && !isMerged:
		it.Do, it.Why = rollback.Skipped, why
	case it.New != nil:
		if it.Do, it.Merged = rollback.Restore, isMerged; isMerged {
			it.Why = w.Part
		}
	case !w.Created:
		it.Do, it.Why = rollback.Kept, "it was there before"
	case holds != "" && w.Follows:
		it.Do, it.Dirty = Nothing, false
	case holds != "":
		it.Do, it.Why = rollback.Kept, holds
	default:
		it.Do, it.Merged = rollback.Delete, isMerged
	}
	return nil
}

// describe says how what is on the disk differs from what was expected.
func describe(old, now *tree.Entry) string {
	switch {
	case now == nil:
		return "it was deleted since"
	case old == nil:
		return "it was made since"
	case now.Mode.Kind() != old.Mode.Kind():
		return "it was replaced since"
	case now.Mode != old.Mode && (now.ID == old.ID || now.Mode.IsDir()):
		return "its mode was changed since"
	}
	return "it was changed since"
}

// holdsWhy begins the reason of a directory that has to stay.
const holdsWhy = "it holds "

// holds returns what hinders a directory from being replaced: something below it
// stays. "" is nothing.
func (pl *planner) holds(path string) (why string, err error) {
	names, err := pl.root.list(path)
	if cause := context.Cause(pl.ctx); cause != nil {
		return "", cause
	}
	if err != nil {
		return err.Error(), nil
	}
	slices.Sort(names)
	for _, name := range names {
		p := path + "/" + name
		if _, goes := pl.moves[p]; goes {
			continue
		}
		i, wanted := pl.byPath[p]
		switch {
		case !wanted || pl.wants[i].New != nil:
			return fmt.Sprintf(holdsWhy+"%q, which stays", p), nil
		case pl.items[i].Do == rollback.Delete:
		case strings.HasPrefix(pl.items[i].Why, holdsWhy): // what it holds stays in this one, too
			return pl.items[i].Why, nil
		default:
			return fmt.Sprintf(holdsWhy+"%q: %s", p, pl.items[i].Why), nil
		}
	}
	return "", nil
}

// block leaves out what cannot be put where it belongs: something above it is
// no directory and stays, or is not to be one. Of two paths that cannot be both,
// the one above wins.
func (pl *planner) block() {
	for i := range pl.items { // what is above comes first
		it := &pl.items[i]
		if it.Do != rollback.Restore {
			continue
		}
		if by := pl.blocked[i]; by != nil {
			if j, ok := pl.byPath[by.path]; !ok || pl.items[j].Do != rollback.Restore &&
				pl.items[j].Do != rollback.Delete {
				it.Do, it.Why, it.Dirty = rollback.Skipped, by.Error(), true
				continue
			}
		}
		for up, _ := trees.Split(it.Path); up != ""; up, _ = trees.Split(up) {
			j, ok := pl.byPath[up]
			if !ok {
				continue
			}
			above := &pl.items[j]
			switch {
			case above.Do == rollback.Restore && above.New.Mode.Kind() == tree.ModeSymlink:
				it.Do, it.Why = rollback.Skipped, fmt.Sprintf("%q becomes a symbolic link", up)
			case above.Do == rollback.Restore && !above.New.Mode.IsDir():
				it.Do, it.Why = rollback.Skipped, fmt.Sprintf("%q becomes a file", up)
			case above.Do == rollback.Delete && !above.Now.Mode.IsDir():
				it.Do, it.Why = rollback.Skipped, fmt.Sprintf("%q is deleted", up)
			}
		}
	}
}

// keepSources keeps files of which another one is to be made, where that cannot be put in
// its place, and has none made of a file that stays.
func (pl *planner) keepSources() {
	for i := range pl.items {
		it, from := &pl.items[i], pl.wants[i].From
		if it.From = ""; from == "" {
			continue
		}
		switch source := &pl.items[pl.byPath[from]]; {
		case it.Do == rollback.Restore && source.Do == rollback.Delete:
			it.From = from
		case it.Do == rollback.Restore:
			it.Do, it.Dirty = rollback.Skipped, true
			if it.Why = fmt.Sprintf("it would be made of %q, which stays as it is", from); source.Now == nil {
				it.Why = fmt.Sprintf("it would be made of %q, which is gone", from)
			}
		case it.Do != Nothing && source.Do == rollback.Delete:
			keepSource(source, it)
		}
	}
}

// keepSource keeps a file of which another one was to be made.
func keepSource(source, it *rollback.Item) {
	source.Do, source.Dirty = rollback.Skipped, true
	source.Why = fmt.Sprintf("it cannot be moved to %q", it.Path)
}

// Carried returns the moves of a plan: of what goes along with directories, and of files
// that others are made of, at another path.
func (p *Plan) Carried() []rollback.Move {
	moves := slices.Clone(p.Moves)
	for _, it := range p.Items {
		if it.From != "" && it.Do == rollback.Restore {
			moves = append(moves, rollback.Move{From: it.From, To: it.Path})
		}
	}
	return moves
}

// settleParents leaves Parent directories alone under which nothing is restored. Those
// that are needed are made, even if somebody has deleted them meanwhile.
func (pl *planner) settleParents() {
	needed := make(map[string]bool)
	for i := range pl.items {
		if it := &pl.items[i]; it.Do == rollback.Restore && !it.Parent {
			for up, _ := trees.Split(it.Path); up != "" && !needed[up]; up, _ = trees.Split(up) {
				needed[up] = true
			}
		}
	}
	for i := range pl.items {
		switch it := &pl.items[i]; {
		case it.Parent && !needed[it.Path]:
			it.Do, it.Why, it.Dirty = Nothing, "", false
		case it.Do == rollback.Delete && needed[it.Path]:
			it.Do, it.Why = rollback.Kept, "another file of this restore is put into it"
		case it.Do == rollback.Skipped && it.Now == nil && it.New != nil && it.New.Mode.IsDir() && needed[it.Path]:
			it.Do, it.Why, it.Dirty = rollback.Restore, "", false
		}
	}
}

// movedDirs finds directories that were moved: the names and the content of at
// least half of the files of both agree.
func (pl *planner) movedDirs() []rollback.Move {
	type file struct {
		name    string
		kind    tree.Mode
		content store.ID
	}
	fileOf := func(path string, e *tree.Entry) file {
		_, name := trees.Split(path)
		return file{name, e.Mode.Kind(), e.ID}
	}
	gone := make(map[file][]string) // paths of files that are to come back
	files := make(map[string]int)   // how many are to come back into a directory
	made := make(map[string]int)    // how many were made in one
	for i := range pl.wants {
		if w := &pl.wants[i]; hasContent(w.New) && pl.items[i].Now == nil {
			f := fileOf(w.Path, w.New)
			gone[f] = append(gone[f], w.Path)
			countUp(files, w.Path)
		}
	}
	votes := make(map[rollback.Move]int)
	for i := range pl.wants {
		w := &pl.wants[i]
		if w.New != nil || !hasContent(w.Old) {
			continue
		}
		countUp(made, w.Path)
		olds := gone[fileOf(w.Path, w.Old)]
		if len(olds) > 16 { // it does not tell which of them it was
			continue
		}
		for _, old := range olds {
			if from, to, ok := pl.movedDir(w.Path, old); ok {
				votes[rollback.Move{From: from, To: to}]++
			}
		}
	}
	pairs := slices.SortedFunc(maps.Keys(votes), func(a, b rollback.Move) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return apart(slices.DeleteFunc(pairs, func(p rollback.Move) bool {
		_, in := trees.Below(p.To, p.From)
		return in || 2*votes[p] < files[p.To] || 2*votes[p] < made[p.From]
	}))
}

// apart returns the pairs of directories of which none is in another, or holds one: of
// two that do not go together the first.
func apart(pairs []rollback.Move) []rollback.Move {
	taken, above := make(map[string]bool), make(map[string]bool)
	isFree := func(dir string) bool {
		if above[dir] {
			return false
		}
		for ; dir != ""; dir, _ = trees.Split(dir) {
			if taken[dir] {
				return false
			}
		}
		return true
	}
	return slices.DeleteFunc(pairs, func(p rollback.Move) bool {
		if !isFree(p.From) || !isFree(p.To) {
			return true
		}
		for _, dir := range []string{p.From, p.To} {
			taken[dir] = true
			for up, _ := trees.Split(dir); up != ""; up, _ = trees.Split(up) {
				above[up] = true
			}
		}
		return false
	})
}

// countUp counts a file in all directories above it.
func countUp(counts map[string]int, path string) {
	for up, _ := trees.Split(path); up != ""; up, _ = trees.Split(up) {
		counts[up]++
	}
}

// movedDir returns the directories of a move that would have taken a file from
// old to path: the highest ones of which one was made and the other went.
func (pl *planner) movedDir(path, old string) (from, to string, ok bool) {
	from, to = path, old
	for {
		up, name := trees.Split(from)
		upOld, oldName := trees.Split(to)
		if name != oldName || !pl.isMade(up) || !pl.isGone(upOld) {
			return from, to, ok
		}
		from, to, ok = up, upOld, true
	}
}

// isMade reports whether a directory is to go with what made it.
func (pl *planner) isMade(path string) bool {
	i, ok := pl.byPath[path]
	if !ok {
		return false
	}
	w := &pl.wants[i]
	return w.New == nil && w.Created && w.Old != nil && w.Old.Mode.IsDir()
}

// isGone reports whether a directory is to come back.
func (pl *planner) isGone(path string) bool {
	i, ok := pl.byPath[path]
	return ok && pl.items[i].Now == nil && pl.wants[i].New != nil && pl.wants[i].New.Mode.IsDir()
}

// carry finds out what goes along with directories that were moved.
func (pl *planner) carry(pairs []rollback.Move, loose iter.Seq2[string, error]) error {
	pl.moves = maps.Clone(pl.known)
	if len(pairs) == 0 || loose == nil {
		return nil
	}
	to := make(map[string]string)
	for _, p := range pairs {
		to[p.From] = p.To
	}
	for path, err := range loose {
		if err != nil {
			return err
		}
		for dir, _ := trees.Split(path); dir != ""; dir, _ = trees.Split(dir) {
			if to[dir] == "" {
				continue
			}
			if err := pl.addMove(rollback.Move{From: path, To: to[dir] + path[len(dir):]}); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// mayMove reports whether a move is one that a plan makes: of what keeps its name, along with a directory that goes, to
// one that comes, and of nothing inside of a version control system. Records of restores name moves, and somebody
// may have made up a record.
func (pl *planner) mayMove(mv rollback.Move) bool {
	from, to := mv.From, mv.To
	for names := 0; ; names++ {
		var a, b string
		from, a = trees.Split(from)
		to, b = trees.Split(to)
		if a != b || !trees.ValidName(a) || names > 0 && trees.IsVCS(a, true) {
			return false
		}
		i, ok := pl.byPath[from]
		j, is := pl.byPath[to]
		if ok && is && isGoing(&pl.wants[i]) && isComing(&pl.wants[j]) {
			return true
		}
	}
}

// isGoing reports whether a directory is to go, and isComing whether one is to come.
func isGoing(w *Want) bool  { return w.New == nil || !w.New.Mode.IsDir() }
func isComing(w *Want) bool { return w.New != nil && w.New.Mode.IsDir() }

// addMove adds a move to the plan if it can be done: what is to be moved is
// there and its place is free, and nothing else is wanted of either.
func (pl *planner) addMove(mv rollback.Move) error {
	i, fromIsWanted := pl.byPath[mv.From]
	j, toIsWanted := pl.byPath[mv.To]
	if fromIsWanted && toIsWanted && pl.wants[i].New == nil && hasContent(pl.wants[j].New) {
		pl.wants[j].From = mv.From
	}
	if fromIsWanted || toIsWanted || !pl.mayMove(mv) {
		return nil
	}
	from, err := pl.root.stat(mv.From)
	if err != nil || from == nil || from.Ino == 0 || mv.Inode != 0 && mv.Inode != from.Ino {
		return err
	}
	if to, err := pl.root.stat(mv.To); err != nil || to != nil {
		return err
	}
	mv.Inode = from.Ino
	pl.moves[mv.From] = mv
	return nil
}
