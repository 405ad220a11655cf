package manager

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A session that looks at a directory while another one restores in a part of it sees no
// files in the making, and no directory that has them.
func TestLookBesideRestore(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	for i := range 40 {
		b.write(fmt.Sprintf("sub/d%d/f%d", i%3, i), "1")
	}
	whole := b.open("whole")
	b.initialize(whole)
	part, err := Open(t.Context(), filepath.Join(b.dir, "sub"), &Options{StoreRoot: b.stores, Session: "part"})
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	b.initialize(part)
	b.turn(part, func() {
		for i := range 40 {
			b.write(fmt.Sprintf("sub/d%d/f%d", i%3, i), "2")
		}
	})
	stop := make(chan struct{})
	var restores sync.WaitGroup
	restores.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := part.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"}); err != nil {
				t.Error(err)
				return
			}
			if _, err := part.Undo(t.Context(), nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 30 {
		r, err := whole.Snapshot(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range trees.Diff(t.Context(), whole.store, store.ID{}, r.Tree) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.Path, ".boo-") {
				t.Errorf("a snapshot has %s", c.Path)
			}
		}
		for om, err := range trees.Coverage(t.Context(), whole.store, r.Capture.Coverage) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(om.Path, ".boo-") {
				t.Errorf("a snapshot has left out %s, and says so", om.Path)
			}
		}
	}
	close(stop)
	restores.Wait()
}
