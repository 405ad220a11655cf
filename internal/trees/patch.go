package trees

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// An Edit says what becomes of a path.
type Edit struct {
	Path string
	New  *tree.Entry // nil: it goes, with all in it. Of a directory only the mode counts: what is in it stays
	Bare bool        // of a directory: what is in it goes, but for what other edits put there
}

// Patch stores the tree that edits make of another one and returns its ID. A
// directory that an edit needs and that is not there gets the mode 0755. The
// cost follows the edits and the size of the directories in which they are.
// Nothing may be said twice of a path, nor of what is below a path that becomes
// a file. A zero root stands for an empty directory.
func Patch(ctx context.Context, g Getter, p Putter, root store.ID, edits []Edit) (store.ID, error) {
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b Edit) int { return ComparePaths(a.Path, b.Path) })
	for i := range edits {
		if i > 0 && edits[i-1].Path == edits[i].Path {
			return store.ID{}, fmt.Errorf("patch tree: %q: edited twice", edits[i].Path)
		}
	}
	known, _ := g.(*Pages)
	id, err := (&patcher{ctx, g, p, known}).dir(root, edits, 0)
	if err != nil {
		return store.ID{}, fmt.Errorf("patch tree: %w", err)
	}
	return id, nil
}

// ComparePaths orders paths name by name, so that a directory comes right
// before what is in it.
func ComparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/': // its name ends first
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Below reports whether a path is a directory or in it, and returns the rest of
// the path with its slash.
func Below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

type patcher struct {
	ctx   context.Context
	g     Getter
	p     Putter
	known *Pages
}

// dir stores what becomes of a directory, zero if it was none. The edits are
// of what is in it; skip is the length of its path with the slash.
func (x *patcher) dir(id store.ID, edits []Edit, skip int) (store.ID, error) {
	if skip > 0 && len(edits) > 0 {
		if err := CheckDir(edits[0].Path[:skip-1]); err != nil {
			return store.ID{}, err
		}
	}
	var old []tree.Entry
	if !id.IsZero() {
		for e, err := range Entries(x.ctx, x.g, id) {
			if err != nil {
				return store.ID{}, err
			}
			old = append(old, e)
		}
	}
	var list []tree.Entry // merged from both, which are sorted
	for len(edits) > 0 {
		name, _, _ := strings.Cut(edits[0].Path[skip:], "/")
		n := 0
		for n < len(edits) && (edits[n].Path[skip:] == name || strings.HasPrefix(edits[n].Path[skip:], name+"/")) {
			n++
		}
		for len(old) > 0 && old[0].Name < name {
			list, old = append(list, old[0]), old[1:]
		}
		var was *tree.Entry
		if len(old) > 0 && old[0].Name == name {
			was, old = &old[0], old[1:]
		}
		e, err := x.name(was, name, edits[:n], skip)
		if err != nil {
			return store.ID{}, err
		}
		if e != nil {
			list = append(list, *e)
		}
		edits = edits[n:]
	}
	return putEntries(x.p, append(list, old...), x.known)
}

// name returns what becomes of a name, nil if it goes. The edits are of it and
// of what is below.
func (x *patcher) name(old *tree.Entry, name string, edits []Edit, skip int) (*tree.Entry, error) {
	own := edits[0].Path[skip:] == name
	below := edits
	if own {
		below = edits[1:]
	}
	keeps := slices.ContainsFunc(below, func(e Edit) bool { return e.New != nil })
	switch {
	case own && edits[0].New == nil && !keeps:
		return nil, nil
	case own && (edits[0].New == nil || edits[0].Bare && edits[0].New.Mode.IsDir()):
		old = nil
	case own && !edits[0].New.Mode.IsDir():
		if keeps {
			return nil, fmt.Errorf("%q: a file with something below it", edits[0].Path)
		}
		e := *edits[0].New
		e.Name = name
		return &e, nil
	case !own && !keeps && (old == nil || !old.Mode.IsDir()):
		return old, nil // what goes is not there
	}
	e := tree.Entry{Name: name, Mode: tree.ModeDir | 0o755}
	if old != nil && old.Mode.IsDir() {
		e = *old
	}
	if own && edits[0].New != nil {
		e.Mode = edits[0].New.Mode
	}
	id, err := x.dir(e.ID, below, skip+len(name)+1)
	e.ID = id
	return &e, err
}
