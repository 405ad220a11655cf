package livedir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// A bench is a directory and a store.
type bench struct {
	*testing.T
	dir   string
	store *cas.Store
	w     *cas.Writer
}

func newBench(t *testing.T) *bench {
	s, err := cas.OpenFS(t.Context(), vfstest.NewMem(), &cas.Options{Root: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, t.TempDir(), s, w}
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A world is a directory as a map: content by path, with a prefix that says
// what it is: "file 644 ", "dir 755" or "link ".
type world map[string]string

// here returns what this system has of a world: the modes that it keeps, and no links where
// none can be made.
func (w world) here() world {
	kept := make(world)
	for p, what := range w {
		kind, rest, _ := strings.Cut(what, " ")
		if kind == "link" {
			if vfstest.HasLinks() {
				kept[p] = what
			}
			continue
		}
		mode, content, isFile := strings.Cut(rest, " ")
		var perm uint16
		fmt.Sscanf(mode, "%o", &perm)
		if isFile {
			kept[p] = fmt.Sprintf("file %o %s", vfs.KeptPerm(vfs.Regular, perm), content)
		} else {
			kept[p] = fmt.Sprintf("dir %o", vfs.KeptPerm(vfs.Directory, perm))
		}
	}
	return kept
}

// readWorld reads a directory.
func readWorld(t testing.TB, dir string) world {
	t.Helper()
	w := make(world)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(p, dir+string(filepath.Separator)))
		switch {
		case fi.IsDir():
			w[rel] = fmt.Sprintf("dir %o", vfs.KeptPerm(vfs.Directory, uint16(fi.Mode().Perm())))
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			w[rel] = "link " + target
		default:
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			w[rel] = fmt.Sprintf("file %o %s", vfs.KeptPerm(vfs.Regular, uint16(fi.Mode().Perm())), content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// write makes a directory hold what a world says, and nothing else.
func (w world) write(t testing.TB, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(dir, n.Name())); err != nil {
			t.Fatal(err)
		}
	}
	w.add(t, dir)
}

// add puts what a world says into a directory.
func (w world) add(t testing.TB, dir string) {
	t.Helper()
	w = w.here()
	var paths []string
	for p := range w {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		full := filepath.Join(dir, p)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		kind, rest, _ := strings.Cut(w[p], " ")
		if kind == "link" {
			err = errors.Join(err, os.Symlink(rest, full))
		} else {
			mode, content, _ := strings.Cut(rest, " ")
			var perm fs.FileMode
			fmt.Sscanf(mode, "%o", &perm)
			if kind == "dir" {
				err = errors.Join(err, os.MkdirAll(full, perm), os.Chmod(full, perm))
			} else {
				err = errors.Join(err, os.WriteFile(full, []byte(content), perm), os.Chmod(full, perm))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// entry returns the entry of what a world has at a path, nil for nothing, and
// puts the content into the store.
func (b *bench) entry(w world, path string) *tree.Entry {
	b.Helper()
	what, ok := w[path]
	if !ok {
		return nil
	}
	_, name := trees.Split(path)
	kind, rest, _ := strings.Cut(what, " ")
	if kind == "link" {
		id, err := b.w.Put(object.Blob, []byte(rest))
		if err != nil {
			b.Fatal(err)
		}
		return &tree.Entry{Name: name, Mode: tree.ModeSymlink | 0o777, Size: int64(len(rest)), ID: id}
	}
	mode, content, _ := strings.Cut(rest, " ")
	var perm tree.Mode
	fmt.Sscanf(mode, "%o", &perm)
	if kind == "dir" {
		return &tree.Entry{Name: name, Mode: tree.ModeDir | perm, ID: trees.Empty}
	}
	id, n, err := b.w.PutReader(bytes.NewReader([]byte(content)))
	if err != nil {
		b.Fatal(err)
	}
	return &tree.Entry{Name: name, Mode: tree.ModeFile | perm, Size: n, ID: id}
}

// wants returns what leads from one world to another.
func (b *bench) wants(from, to world) []Want {
	var wants []Want
	paths := make(map[string]bool)
	for p := range from {
		paths[p] = true
	}
	for p := range to {
		paths[p] = true
	}
	for p := range paths {
		if from[p] != to[p] {
			wants = append(wants, Want{Path: p, Old: b.entry(from, p), New: b.entry(to, p), Created: true})
		}
	}
	return wants
}

// root opens the directory.
func (b *bench) root() *Root {
	b.Helper()
	r, err := OpenRoot(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// plan plans, and makes what was put durable, so that it can be read.
func (b *bench) plan(wants []Want, policy rollback.Policy, loose ...string) *Plan {
	b.Helper()
	p, err := NewPlan(b.Context(), b.root(), wants,
		&Options{Policy: policy, Loose: func(yield func(string, error) bool) {
			for _, path := range loose {
				if !yield(path, nil) {
					return
				}
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// apply saves and applies a plan.
func (b *bench) apply(p *Plan) {
	b.Helper()
	r := b.root()
	if err := p.Save(b.Context(), r, b.w); err != nil {
		b.Fatal(err)
	}
	if err := p.Apply(b.Context(), r, b.store, "testtest"); err != nil {
		b.Fatal(err)
	}
}

// outcome tells what was done to each path, with the reason.
func outcome(p *Plan) map[string]string {
	got := make(map[string]string)
	for _, it := range p.Items {
		got[it.Path] = string(it.Do)
		if it.Why != "" {
			got[it.Path] += ": " + it.Why
		}
	}
	return got
}

func (b *bench) expect(want world) {
	b.Helper()
	if d := cmp.Diff(want.here(), readWorld(b, b.dir)); d != "" {
		b.Errorf("the directory (-want +got):\n%s", d)
	}
}
