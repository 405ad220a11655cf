package base

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

const bigSize = 16 << 20

var sample = map[string]string{"a": "text of a", "d/b": "text of b", "d/e/empty": "", "d/same": "text of a",
	"d/big": string(bytes.Repeat([]byte("0123456789abcdef"), bigSize/16))}

// taken is a tree in a store.
type taken struct {
	*cas.Store
	root store.ID
}

func take(t *testing.T) *taken {
	t.Helper()
	dir := t.TempDir()
	for path, text := range sample {
		name := filepath.Join(dir, path)
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o640))
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := cas.Open(t.Context(), filepath.Join(t.TempDir(), "store"), &cas.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	project, err := capture.FindProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := project.Open(&capture.WorkspaceOptions{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := ws.Capture(t.Context(), w, nil)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return &taken{s, r.Tree}
}

func (x *taken) make(t *testing.T, dir string) *Base {
	t.Helper()
	if err := Make(t.Context(), x, x.root, dir); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// clone writes the tree into a directory, and returns what came from the base, and what each file was then.
func (x *taken) clone(t *testing.T, b *Base, dir string) map[string]vfs.Stat {
	t.Helper()
	f, err := trees.Fill(t.Context(), x, x.root, dir)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards placed
	placed := make(map[string]vfs.Stat)
	err = f.Place(func(d vfs.Dir, path string, e *tree.Entry) (bool, error) {
		st, ok, err := b.Place(d, path, e)
		mu.Lock()
		defer mu.Unlock()
		if ok {
			placed[path] = st
		}
		return ok, err
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[store.ID]bool)
	for _, id := range f.Missing() {
		missing[id] = true
	}
	for e, err := range trees.Walk(t.Context(), x, x.root) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := placed[e.Path]; !ok && !e.Mode.IsDir() && !missing[e.ID] {
			t.Errorf("%s did not come from the base, and is not missing", e.Path)
		}
	}
	if r, err := f.Finish(x); err != nil || r.Files != int64(len(sample)) {
		t.Errorf("%+v, %v", r, err)
	}
	for path, text := range sample {
		name := filepath.Join(dir, path)
		b, err := os.ReadFile(name)
		if err != nil || string(b) != text {
			t.Errorf("%s: %d bytes, want %d: %v", path, len(b), len(text), err)
		}
		st, err := vfs.OS(dir).Stat(path)
		if was, ok := placed[path]; ok && (err != nil || st != was) || st.Perm != 0o640 {
			t.Errorf("%s is %+v, was %+v: %v", path, st, was, err)
		}
	}
	return placed
}

// TestPlace has clones take from a base what is there as it was, and nothing else.
func TestPlace(t *testing.T) {
	x, dir := take(t), filepath.Join(t.TempDir(), "base")
	b := x.make(t, dir)
	if n := len(x.clone(t, b, t.TempDir())); n != len(sample) {
		t.Errorf("%d of %d files came from the base", n, len(sample))
	}
	at := func(path string) string { return filepath.Join(dir, filesName, path) }
	st, err := os.Stat(at("d/big"))
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(sample)
	for path, do := range map[string]func(name string) error{
		"a": func(name string) error { return os.WriteFile(name, []byte("TEXT of a"), 0o600) },
		"d/b": func(name string) error { // the same content, by another file
			b, err := os.ReadFile(name)
			return errors.Join(err, os.Remove(name), os.WriteFile(name, b, 0o640))
		},
		"d/e/empty": os.Remove,
		"d/same":    func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name)) },
		"d/big": func(name string) error { // as large as before, and with the same times but that of the change
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("X"), 5)
			return errors.Join(err, f.Close(), os.Chtimes(name, st.ModTime(), st.ModTime()))
		},
	} {
		if err := do(at(path)); err != nil {
			t.Fatal(err)
		}
		delete(left, path)
		if placed := x.clone(t, b, t.TempDir()); len(placed) != len(left) {
			t.Errorf("without %s: %d files came from the base, want %d", path, len(placed), len(left))
		}
	}
}

// TestMake has a base be made once, and nothing be left of what cannot be.
func TestMake(t *testing.T) {
	x, above := take(t), t.TempDir()
	dir := filepath.Join(above, "base")
	x.make(t, dir)
	if err := Make(t.Context(), x, x.root, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	if err := Make(t.Context(), x, store.ID{1}, filepath.Join(above, "none")); err == nil {
		t.Error("a base was made of no tree")
	}
	list, err := os.ReadDir(above)
	if err != nil || len(list) != 1 {
		t.Errorf("what is there: %v, %v", list, err)
	}
	if _, err := Open(filepath.Join(above, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what is not there: %v", err)
	}
	if _, err := Open(above); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what is no base: %v", err)
	}
}

// TestMakeAmongOthers has no base be made where others may rename what is being written, and lead the writer into other
// files of its user by that. In a directory as /tmp nobody may.
func TestMakeAmongOthers(t *testing.T) {
	if !vfs.HasOwners {
		t.Skip("SKIPPED: files have no owners here")
	}
	x, above := take(t), t.TempDir()
	for _, tt := range []struct {
		mode fs.FileMode
		want error
	}{{0o777, fs.ErrPermission}, {0o777 | fs.ModeSticky, nil}, {0o775, nil}, {0o755, nil}} {
		if err := os.Chmod(above, tt.mode); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(above, tt.mode.String())
		if err := Make(t.Context(), x, x.root, dir); !errors.Is(err, tt.want) {
			t.Errorf("in a directory of mode %v: %v", tt.mode, err)
		}
		if _, err := os.Lstat(dir); (err == nil) != (tt.want == nil) {
			t.Errorf("in a directory of mode %v: %v", tt.mode, err)
		}
	}
}

// TestOpen has what is not as Make has left it be no base.
func TestOpen(t *testing.T) {
	x, dir := take(t), filepath.Join(t.TempDir(), "base")
	x.make(t, dir)
	name := filepath.Join(dir, indexName)
	index, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range index {
		bad := bytes.Clone(index)
		bad[i] ^= 1
		if _, ok := parseIndex(bad); ok {
			t.Fatalf("byte %d of the index may be another", i)
		}
		if _, ok := parseIndex(index[:i]); ok {
			t.Fatalf("the first %d bytes are an index", i)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, filesName)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); vfs.HasOwners && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("all may write into %s: %v", path, err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
}
