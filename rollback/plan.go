package rollback

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
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
	Keep    string // why it stays as it is, whatever that is; "": it may change
}

// A Policy says what becomes of dirty paths.
type Policy string

const (
	Skip      Policy = "skip"      // they stay as they are
	Overwrite Policy = "overwrite" // they are changed like the others
	Abort     Policy = "abort"     // nothing is changed at all
)

// An Action is what is done to a path.
type Action string

const (
	Nothing Action = "unchanged" // it is as it is wanted
	Restore Action = "restored"  // it gets what is wanted
	Delete  Action = "deleted"   // it goes
	Skipped Action = "skipped"   // it is dirty and stays
	Kept    Action = "kept"      // it would have to be deleted, and may not be
	Failed  Action = "failed"    // it cannot be done
)

// An Item is what a plan does to one path.
type Item struct {
	Path  string
	Do    Action
	Why   string      // of all but Nothing, Restore and Delete
	Dirty bool        // it is not what was expected
	Now   *tree.Entry // what is there; nil: nothing
	New   *tree.Entry // what is wanted; nil: nothing
	Note  string      // what could not be kept of a file that was replaced

	Parent bool // a directory that is there only for what is in it
}

// MarshalJSON gives the path, its bytes if they are not UTF-8, and what is
// done to it why.
func (i Item) MarshalJSON() ([]byte, error) {
	v := struct {
		Path      string `json:"path"`
		PathBytes []byte `json:"pathBytes,omitempty"`
		Action    Action `json:"action"`
		Reason    string `json:"reason,omitempty"`
		Note      string `json:"note,omitempty"`
	}{Path: i.Path, Action: i.Do, Reason: i.Why, Note: i.Note}
	if strings.ToValidUTF8(i.Path, "") != i.Path {
		v.PathBytes = []byte(i.Path)
	}
	return json.Marshal(v)
}

// A Move is a directory that is moved back whole, with what is not known of
// it. Its content is in the items, too, which say what differs then.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// A Plan says what a restore does, path by path. It is plain data: Apply does
// what it says and nothing else.
type Plan struct {
	Items   []Item // in the order of paths, a directory before what is in it
	Moves   []Move
	Aborted bool // something is dirty, and the policy is to do nothing then
}

// NewPlan compares what is wanted with the disk. It changes nothing.
func NewPlan(ctx context.Context, root *Root, wants []Want, policy Policy) (*Plan, error) {
	pl := &planner{ctx: ctx, root: root, policy: policy, hash: tree.NewOverlay(nil), byPath: make(map[string]*Item)}
	plan, err := pl.plan(wants)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

type planner struct {
	ctx    context.Context
	root   *Root
	policy Policy
	hash   Sink
	wants  map[string]*Want
	byPath map[string]*Item
	moves  []Move
}

func (pl *planner) plan(wants []Want) (*Plan, error) {
	wants = slices.Clone(wants)
	pl.wants = make(map[string]*Want, len(wants))
	for i := range wants {
		w := &wants[i]
		if pl.wants[w.Path] != nil {
			return nil, fmt.Errorf("%q: wanted twice", w.Path)
		}
		pl.wants[w.Path] = w
	}
	for _, path := range pl.sorted() {
		var err error
		if pl.byPath[path], err = pl.item(pl.wants[path]); err != nil {
			return nil, err
		}
	}
	if !pl.root.NoMoves {
		if err := pl.findMoves(); err != nil {
			return nil, err
		}
	}
	plan := &Plan{Moves: pl.moves}
	for _, path := range pl.sorted() {
		it := pl.byPath[path]
		if err := pl.judge(it); err != nil {
			return nil, err
		}
		plan.Items = append(plan.Items, *it)
	}
	pl.dropParents(plan)
	plan.keepInside()
	if pl.policy == Abort && slices.ContainsFunc(plan.Items, func(i Item) bool { return i.Dirty }) {
		plan.stop("something else is dirty, and then nothing is to be done")
	}
	return plan, nil
}

// keepInside keeps what is in a directory that was to become something else
// and stays.
func (p *Plan) keepInside() {
	var stays []string
	for i := range p.Items {
		it := &p.Items[i]
		if it.Do != Restore && it.Now != nil && it.Now.Mode.IsDir() && hasContent(it.New) {
			stays = append(stays, it.Path)
		}
		for _, dir := range stays {
			if _, in := below(it.Path, dir); in && it.Do == Delete {
				it.Do, it.Why = Kept, fmt.Sprintf("%q stays a directory", dir)
			}
		}
	}
}

// stop makes a plan do nothing.
func (p *Plan) stop(why string) {
	p.Aborted, p.Moves = true, nil
	for i := range p.Items {
		if it := &p.Items[i]; it.Do == Restore || it.Do == Delete {
			it.Do, it.Why = Skipped, why
		}
	}
}

// comparePaths orders paths name by name, so that a directory comes right
// before what is in it.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// item looks at what is at a path.
func (pl *planner) item(w *Want) (*Item, error) {
	it := &Item{Path: w.Path, New: w.New, Parent: w.Parent}
	var err error
	it.Now, err = pl.root.Entry(pl.ctx, w.Path, pl.hash)
	if context.Cause(pl.ctx) != nil {
		return nil, err
	}
	if err != nil { // of this path alone
		it.Do, it.Why, it.Dirty = Failed, err.Error(), true
	}
	return it, nil
}

// judge says what is to be done to a path, by itself.
func (pl *planner) judge(it *Item) error {
	w := pl.wants[it.Path]
	now, old := it.Now, w.Old
	for _, mv := range pl.moves { // what will be there once it is moved
		if rest, ok := below(it.Path, mv.To); ok {
			now, old = nil, nil
			if from := pl.byPath[mv.From+rest]; from != nil {
				now, old = from.Now, pl.wants[mv.From+rest].Old
			}
		} else if _, ok := below(it.Path, mv.From); ok {
			it.Do = Delete // by the move
			return nil
		}
	}
	switch {
	case it.Do == Failed:
	case same(now, it.New):
		it.Do = Nothing
		if !same(it.Now, it.New) {
			it.Do = Restore // by a move
		}
	case w.Parent && now != nil && now.Mode.IsDir():
		it.Do = Nothing
	case w.Keep != "":
		it.Do, it.Why = Kept, w.Keep
	default:
		return pl.change(it, w, now, old)
	}
	return nil
}

// change says what is to be done to a path that is not as it is wanted.
func (pl *planner) change(it *Item, w *Want, now, old *tree.Entry) error {
	why := w.Doubt
	if why == "" && !same(now, old) {
		why = describe(old, now)
	}
	it.Dirty = why != ""
	if now != nil && now.Mode.IsDir() && hasContent(it.New) {
		holds, err := pl.unknownBelow(it.Path)
		if err != nil {
			return err
		}
		if holds != "" { // whatever the policy
			it.Do, it.Why, it.Dirty = Skipped, holds, true
			return nil
		}
	}
	switch {
	case it.Dirty && pl.policy != Overwrite:
		it.Do, it.Why = Skipped, why
	case it.New != nil:
		it.Do = Restore
	case !w.Created:
		it.Do, it.Why = Kept, "it is not one that was made since"
	case now != nil && now.Mode.IsDir() && it.Now != nil:
		holds, err := pl.unknownBelow(it.Path)
		if err != nil {
			return err
		}
		if it.Do = Delete; holds != "" {
			it.Do, it.Why = Kept, holds
		}
	default:
		it.Do = Delete
	}
	return nil
}

// describe says how what is on the disk differs from what was expected.
func describe(old, now *tree.Entry) string {
	switch {
	case now == nil:
		return "it was deleted meanwhile"
	case old == nil:
		return "it was made meanwhile"
	case now.Mode.Kind() != old.Mode.Kind():
		return "it was replaced meanwhile"
	case now.Mode != old.Mode && (now.ID == old.ID || now.Mode.IsDir()):
		return "its mode was changed meanwhile"
	}
	return "it was changed meanwhile"
}

// unknownBelow returns what hinders a directory from being replaced: something
// in it stays. "" is nothing.
func (pl *planner) unknownBelow(path string) (why string, err error) {
	names, err := pl.root.list(path)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		p := path + "/" + name
		if slices.ContainsFunc(pl.moves, func(mv Move) bool { return mv.From == p }) {
			continue // it will be elsewhere
		}
		w := pl.wants[p]
		if w == nil || w.New != nil {
			return fmt.Sprintf("it holds %q, which is to stay", p), nil
		}
		it := *pl.byPath[p]
		if err := pl.judge(&it); err != nil {
			return "", err
		}
		if it.Do != Delete {
			return fmt.Sprintf("it holds %q: %s", p, it.Why), nil
		}
		if it.Now != nil && it.Now.Mode.IsDir() {
			if why, err := pl.unknownBelow(p); why != "" || err != nil {
				return why, err
			}
		}
	}
	return "", nil
}

// dropParents leaves directories alone that were wanted for what they would
// hold, where nothing is to be put into them.
func (pl *planner) dropParents(plan *Plan) {
	needed := make(map[string]bool)
	for _, it := range plan.Items {
		if it.Do == Restore && !it.Parent {
			for up, _ := split(it.Path); up != ""; up, _ = split(up) {
				needed[up] = true
			}
		}
	}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Parent && !needed[it.Path] {
			it.Do, it.Why, it.Dirty = Nothing, "", false
		}
	}
}

// below reports whether a path is a directory or in it, and returns the rest of
// the path with its slash.
func below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// findMoves finds directories that were moved, with what is not known of them,
// and can be moved back.
func (pl *planner) findMoves() error {
	gone := make(map[string][]string) // paths of files that are to come back, by content
	files := make(map[string]int)     // how many are to come back into a directory
	made := make(map[string]int)      // how many were made in one
	for _, path := range pl.sorted() {
		w := pl.wants[path]
		if !hasContent(w.New) || pl.byPath[path].Now != nil {
			continue
		}
		key := key(w.New)
		gone[key] = append(gone[key], path)
		for up, _ := split(path); up != ""; up, _ = split(up) {
			files[up]++
		}
	}
	votes := make(map[Move]int)
	for _, path := range pl.sorted() {
		w := pl.wants[path]
		if w.New != nil || !hasContent(w.Old) {
			continue
		}
		for up, _ := split(path); up != ""; up, _ = split(up) {
			made[up]++
		}
		_, name := split(path)
		same := gone[key(w.Old)]
		if len(same) > 16 { // it does not tell which of them it was
			continue
		}
		for _, old := range same {
			if _, oldName := split(old); oldName != name {
				continue
			}
			if from, to, ok := pl.movedDir(path, old); ok {
				votes[Move{from, to}]++
			}
		}
	}
	pairs := make([]Move, 0, len(votes))
	for p, n := range votes {
		if 2*n >= files[p.To] && 2*n >= made[p.From] {
			pairs = append(pairs, p)
		}
	}
	slices.SortFunc(pairs, func(a, b Move) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	var settled []Move // what is in them is not to be moved to somewhere else
	for _, p := range pairs {
		if slices.ContainsFunc(settled, func(m Move) bool { return overlap(m, p) }) {
			continue
		}
		settled = append(settled, p)
		why, err := pl.unmovable(p)
		if err != nil {
			return err
		}
		if why == "" {
			pl.move(p)
			continue
		}
		repository, err := pl.repositoryBelow(p.From)
		if err != nil {
			return err
		}
		if repository == "" {
			continue // file by file, then
		}
		for path, it := range pl.byPath {
			_, a := below(path, p.From)
			_, b := below(path, p.To)
			if a || b {
				it.Do, it.Why = Failed, fmt.Sprintf("%q cannot be moved back to %q, for %s; and it holds the repository %q", p.From, p.To, why, repository)
			}
		}
	}
	return nil
}

// move decides that a directory is moved back. What was made in it goes then
// from where it will be.
func (pl *planner) move(mv Move) {
	pl.moves = append(pl.moves, mv)
	for _, path := range pl.sorted() {
		rest, in := below(path, mv.From)
		if to := mv.To + rest; in && pl.wants[to] == nil {
			pl.wants[to] = &Want{Path: to, Created: true}
			pl.byPath[to] = &Item{Path: to}
		}
	}
}

// sorted returns the paths that are wanted to be something.
func (pl *planner) sorted() []string {
	paths := make([]string, 0, len(pl.wants))
	for p := range pl.wants {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, comparePaths)
	return paths
}

func key(e *tree.Entry) string { return fmt.Sprint(e.Mode.Kind(), e.ID) }

func overlap(a, b Move) bool {
	for _, p := range []string{a.From, a.To} {
		for _, q := range []string{b.From, b.To} {
			_, in := below(p, q)
			_, holds := below(q, p)
			if in || holds {
				return true
			}
		}
	}
	return false
}

// movedDir returns the directories of a move that would have taken a file from
// old to path: the highest ones of which one was made and the other went.
func (pl *planner) movedDir(path, old string) (from, to string, ok bool) {
	from, to = path, old
	for {
		up, name := split(from)
		upOld, oldName := split(to)
		if name != oldName || !pl.isMade(up) || !pl.isGone(upOld) {
			return from, to, ok
		}
		from, to, ok = up, upOld, true
	}
}

// isMade reports whether a directory is to go with what made it.
func (pl *planner) isMade(path string) bool {
	w := pl.wants[path]
	return w != nil && w.New == nil && w.Created && w.Old != nil && w.Old.Mode.IsDir()
}

// isGone reports whether a directory is to come back.
func (pl *planner) isGone(path string) bool {
	w := pl.wants[path]
	return w != nil && w.New != nil && w.New.Mode.IsDir() && pl.byPath[path].Now == nil
}

// unmovable returns why a directory cannot be moved back whole: its place is
// taken, or something in it is not as it was left. "" is nothing.
func (pl *planner) unmovable(mv Move) (why string, err error) {
	if _, in := below(mv.To, mv.From); in {
		return "it is in its own way", nil
	}
	up, _ := split(mv.To)
	_, err = pl.root.enter(up)
	var notDir *notDirError
	switch {
	case errors.As(err, &notDir):
		return err.Error(), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	above, _ := split(mv.From)
	var devices [3]uint64
	for i, dir := range []string{mv.From, above, up} {
		if devices[i], err = pl.device(dir); err != nil {
			return "", err
		}
	}
	if devices[0] != devices[1] || devices[0] != devices[2] {
		return "another file system", nil
	}
	for path, w := range pl.wants {
		if _, in := below(path, mv.From); !in {
			continue
		}
		switch it := pl.byPath[path]; {
		case it.Do == Failed:
			return it.Why, nil
		case w.Doubt != "":
			return w.Doubt, nil
		case w.Keep != "":
			return w.Keep, nil
		case w.New != nil:
			return fmt.Sprintf("%q is to stay there", path), nil
		case !w.Created && it.Now != nil:
			return fmt.Sprintf("%q was not made by what is taken back", path), nil
		case !same(it.Now, w.Old):
			return fmt.Sprintf("%q: %s", path, describe(w.Old, it.Now)), nil
		}
	}
	return "", nil
}

// device returns on which device a directory is, or the nearest one above it
// that is there.
func (pl *planner) device(path string) (uint64, error) {
	for {
		dir, err := pl.root.enter(path)
		if err == nil {
			var st vfs.Stat
			err = dir.Stat(&st)
			return st.Dev, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		path, _ = split(path)
	}
}

// repositoryBelow returns a git repository in a directory, "" if there is none.
func (pl *planner) repositoryBelow(dir string) (string, error) {
	names, err := pl.root.list(dir)
	var notDir *notDirError
	if errors.As(err, &notDir) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if slices.Contains(names, ".git") {
		return dir, nil
	}
	for _, name := range names {
		d, err := pl.root.enter(dir)
		if err != nil {
			return "", err
		}
		var st vfs.Stat
		if err := d.Lstat(name, &st); err != nil {
			return "", err
		}
		if st.Kind != vfs.Directory {
			continue
		}
		if found, err := pl.repositoryBelow(dir + "/" + name); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}
