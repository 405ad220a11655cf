package textdiff

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/similar"
)

var treesFlag = flag.String("trees", "",
	"directories, separated by commas, to take 500 pairs of files from each; default 60 from Go's own sources")

// A realTree is a directory of files that people wrote.
type realTree struct {
	dir   string
	pairs int                 // to take from it
	files []string            // all, below dir
	byExt map[string][]string // the same, by extension
}

// realTrees lists the trees of the flag, or Go's own sources.
func realTrees(t *testing.T) []*realTree {
	t.Helper()
	dirs, pairs := strings.Split(*treesFlag, ","), 500
	if *treesFlag == "" {
		t.Log("NOT CHECKED against other trees than Go's own sources: none given with -trees")
		needTool(t, "go")
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		dirs, pairs = []string{filepath.Join(strings.TrimSpace(string(out)), "src")}, 60
	}
	var trees []*realTree
	for _, dir := range dirs {
		tree := &realTree{dir: dir, pairs: pairs, byExt: make(map[string][]string)}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			tree.files = append(tree.files, path)
			tree.byExt[filepath.Ext(path)] = append(tree.byExt[filepath.Ext(path)], path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	return trees
}

// pick returns one of paths that is text and not larger than 1 MB.
func (tree *realTree) pick(t *testing.T, rnd *rand.Rand, paths []string) File {
	t.Helper()
	for range 1000 {
		path := paths[rnd.IntN(len(paths))]
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1<<20 {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if similar.IsBinary(content) {
			continue
		}
		mode := uint32(regular)
		if info.Mode()&0o100 != 0 {
			mode = program
		}
		return File{Name: filepath.Base(path), Content: content, Mode: mode}
	}
	t.Fatalf("%s: no text found", tree.dir)
	return File{}
}

// pair returns a random file with what might become of it.
func (tree *realTree) pair(t *testing.T, rnd *rand.Rand) pair {
	t.Helper()
	old := tree.pick(t, rnd, tree.files)
	new := old
	edited := mutate(rnd, old.Content, 1+len(old.Content)/1000)
	kind := ""
	switch rnd.IntN(12) {
	case 0, 1:
		kind = "another file"
		new.Content = tree.pick(t, rnd, tree.byExt[filepath.Ext(old.Name)]).Content
	case 2, 3, 4:
		kind, new.Content = "edited", edited
	case 5:
		kind, new.Content = "edited, mode changed", edited
		new.Mode ^= regular ^ program
	case 6:
		kind, new = "deleted", File{}
	case 7:
		kind, old = "created", File{}
	case 8:
		kind, new.Content = "emptied", nil
	case 9:
		kind, new.Content = "other line ends", bytes.ReplaceAll(old.Content, []byte("\n"), []byte("\r\n"))
	case 10:
		kind, new = "made a link", File{Name: old.Name, Content: []byte("elsewhere/" + old.Name), Mode: link}
	case 11:
		kind, new.Name, new.Content = "renamed and edited", "new "+old.Name, edited
	}
	if rnd.IntN(4) == 0 && kind != "made a link" {
		old, new = new, old
		kind += ", the other way round"
	}
	return pair{fmt.Sprintf("%s: %s%s", kind, old.Name, new.Name), old, new}
}

// Whatever becomes of real files, both tools make it from the diffs in both
// forms, all of them at once.
func TestUnifiedAppliesToRealFiles(t *testing.T) {
	rnd := newRand(t)
	for _, tree := range realTrees(t) {
		var pairs []pair
		for range tree.pairs {
			pairs = append(pairs, tree.pair(t, rnd))
		}
		t.Logf("%d pairs of %s", len(pairs), tree.dir)
		withTools(t, func(t *testing.T, f form, tool []string) { checkTogether(t, pairs, f, tool, 0) })
	}
}

// git finds the same renames among real files with random edits, where it is
// sure of them.
func TestPairRenamesOfRealFiles(t *testing.T) {
	rnd := newRand(t)
	for _, tree := range realTrees(t) {
		var removed, added []similar.Candidate
		seen := make(map[string]bool) // of equal files git may take another
		for i := range tree.pairs {
			old := tree.pick(t, rnd, tree.files)
			if len(old.Content) == 0 || seen[string(old.Content)] {
				continue
			}
			seen[string(old.Content)] = true
			lines := SplitLines(old.Content)
			every := 3 + rnd.IntN(40)
			for n := range lines {
				if rnd.IntN(every) == 0 {
					lines[n] = fmt.Sprintf("changed %d\n", rnd.Uint64())
				}
			}
			removed = append(removed, candidate(fmt.Sprintf("%d/%s", i, old.Name), withNewline(old.Content)))
			added = append(added, candidate(fmt.Sprintf("%d/moved-%s", i, old.Name), withNewline(join(lines))))
		}
		checkAgainstGit(t, removed, added, 75)
	}
}
