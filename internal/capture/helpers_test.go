package capture

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// openStore opens a store on a file system, and checks and closes it after
// the test.
func openStore(t testing.TB, fsys vfs.FS) *cas.Store {
	t.Helper()
	s := reopenStore(t, fsys)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// reopenStore is openStore for a store that the test closes with closeStore.
func reopenStore(t testing.TB, fsys vfs.FS) *cas.Store {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), fsys, &cas.Options{})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	return s
}

func closeStore(t testing.TB, s *cas.Store) {
	t.Helper()
	checkStore(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("close store: %v", err)
	}
}

// checkStore requires that nothing in a store is damaged and that all its
// snapshots are complete.
func checkStore(t testing.TB, s *cas.Store) {
	t.Helper()
	ctx := context.Background()
	r, err := s.Check(ctx, true)
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	for _, d := range r.Damage {
		t.Errorf("check: %v", d)
	}
	checkSnapshots(t, s)
}

// checkSnapshots requires that all snapshots of a store are complete.
func checkSnapshots(t testing.TB, s *cas.Store) {
	t.Helper()
	ctx := context.Background()
	c := audit.NewChecker(s)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			t.Errorf("check: %v", err)
			return
		}
		problems, err := c.Snapshot(ctx, snap)
		if err != nil {
			t.Errorf("check of snapshot %d: %v", snap.Seq, err)
		}
		for _, p := range problems {
			t.Errorf("snapshot %d: %q: %v", snap.Seq, p.Path, p.Err)
		}
	}
}

// openWorkspace prepares a directory for capture.
func openWorkspace(t testing.TB, s *cas.Store, root string) *Workspace {
	t.Helper()
	p, err := FindProject(root)
	if err != nil {
		t.Fatalf("find project: %v", err)
	}
	ws, err := p.Open(&WorkspaceOptions{Store: s})
	if err != nil {
		t.Fatalf("open workspace: %v", err)
	}
	return ws
}

// snapshot captures a workspace, commits and saves the stat cache.
func snapshot(t testing.TB, s *cas.Store, ws *Workspace, opts *Options) *tree.Result {
	t.Helper()
	r, err := trySnapshot(t.Context(), s, ws, opts)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return r
}

func trySnapshot(ctx context.Context, s *cas.Store, ws *Workspace, opts *Options) (*tree.Result, error) {
	w, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r, err := ws.Capture(ctx, w, opts)
	if err != nil {
		return nil, err
	}
	var newest uint64
	if head, err := s.Newest(ctx, ws.Worktree, ""); err == nil {
		newest = head.Seq
	}
	snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Time: time.Now(),
		Worktree: ws.Worktree, Root: ws.Root, Parent: newest}
	if err := w.Commit(ctx, snap, newest); err != nil {
		return nil, err
	}
	return r, nil
}

// write creates a file with its directories.
func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// paths lists a tree, one line per entry: mode, size of a file, path.
func paths(t testing.TB, g trees.Getter, root store.ID) []string {
	t.Helper()
	var out []string
	for e, err := range trees.Walk(t.Context(), g, root) {
		if err != nil {
			t.Fatalf("walk: %v", err)
		}
		out = append(out, e.Path)
	}
	return out
}

// omissions lists a coverage: path and reason.
func omissions(t testing.TB, g trees.Getter, root store.ID) []string {
	t.Helper()
	var out []string
	for o, err := range trees.Coverage(t.Context(), g, root) {
		if err != nil {
			t.Fatalf("coverage: %v", err)
		}
		out = append(out, o.Path+" "+o.Reason.String())
	}
	return out
}

// sameTree compares two directories on disk: names, kinds, permission bits,
// bytes and targets of links. Everything under a name in skip is left out of
// the first.
func sameTree(t testing.TB, a, b string, skip ...string) {
	t.Helper()
	left, right := listing(t, a, skip), listing(t, b, nil)
	for name, x := range left {
		if y, ok := right[name]; !ok {
			t.Errorf("%q is missing", name)
		} else if x != y {
			t.Errorf("%q differs: %.200q, was %.200q", name, y, x)
		}
	}
	for name := range right {
		if _, ok := left[name]; !ok {
			t.Errorf("%q appeared", name)
		}
	}
}

func listing(t testing.TB, root string, skip []string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	var walk func(dir vfs.Dir, prefix string)
	walk = func(dir vfs.Dir, prefix string) {
		var names []string
		if err := dir.ReadNames(func(name []byte, _ vfs.Kind) { names = append(names, string(name)) }); err != nil {
			t.Fatal(err)
		}
	next:
		for _, name := range names {
			for _, s := range skip {
				if name == s {
					continue next
				}
			}
			var st vfs.Stat
			if err := dir.Lstat(name, &st); err != nil {
				t.Fatal(err)
			}
			desc := modeOf(&st).String() + " "
			switch st.Kind {
			case vfs.Directory:
				sub, err := dir.OpenDir(name)
				if err != nil {
					t.Fatal(err)
				}
				walk(sub, prefix+name+"/")
				sub.Close()
			case vfs.Symlink:
				target, err := dir.Readlink(name)
				if err != nil {
					t.Fatal(err)
				}
				desc += target
			case vfs.Regular:
				f, err := dir.Open(name, nil)
				if err != nil {
					t.Fatal(err)
				}
				var b bytes.Buffer
				if _, err := b.ReadFrom(f); err != nil {
					t.Fatal(err)
				}
				f.Close()
				desc += b.String()
			}
			out[prefix+name] = desc
		}
	}
	d, err := vfs.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	walk(d, "")
	return out
}
