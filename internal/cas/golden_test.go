package cas_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// What programs before this one have written is read for ever: stores with groups, sealed packs
// and others, chunks, and segments that others have followed; one of them pruned and compacted.
// They are made with -update where they are missing, and never change.
func TestStoresOfBefore(t *testing.T) {
	for _, name := range []string{"groups", "compact"} {
		dir := filepath.Join("../../testdata/format/v2/stores", name)
		if _, err := os.Stat(dir); err != nil && flag.Lookup("update").Value.String() == "true" {
			makeStoreOfBefore(t, dir, name == "compact")
		}
		var want map[uint64]map[string]string
		b, err := os.ReadFile(dir + ".json")
		if err == nil {
			err = json.Unmarshal(b, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		disk := vfstest.NewMem()
		files := os.DirFS(dir)
		if err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, err = fs.ReadFile(files, path)
				put(t, disk, path, b)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		disk = copyDisk(t, disk)
		for _, readOnly := range []bool{true, false} {
			s, err := cas.OpenFS(t.Context(), disk, &cas.Options{ReadOnly: readOnly})
			if err != nil {
				t.Fatal(err)
			}
			report, err := s.Check(t.Context(), true)
			if err != nil || len(report.Damage) > 0 {
				t.Errorf("%s: check: %+v, %v", name, report, err)
			}
			read := 0
			for snap, err := range s.Snapshots(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if snap.Pruned {
					continue
				}
				read++
				got, err := contents(t.Context(), s, snap.Tree, make(map[store.ID]string))
				if err != nil || len(got) == 0 || fmt.Sprint(got) != fmt.Sprint(want[snap.Seq]) {
					t.Errorf("%s: snapshot %d is %v, %v; want %v", name, snap.Seq, got, err, want[snap.Seq])
				}
			}
			if read != len(want) {
				t.Errorf("%s: %d snapshots, want %d", name, read, len(want))
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func makeStoreOfBefore(t *testing.T, dir string, compacted bool) {
	t.Helper()
	sm := newSample(t)
	if compacted {
		sm.prune(t)
		sm.compact(t)
	}
	for seq, gone := range sm.pruned {
		if gone {
			delete(sm.want, seq)
		}
	}
	for name, b := range filesOf(t, sm.disk) {
		if strings.HasPrefix(name, "worktrees/") { // only for captures
			continue
		}
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.MarshalIndent(sm.want, "", "  ")
	if err == nil {
		err = os.WriteFile(dir+".json", append(b, '\n'), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
