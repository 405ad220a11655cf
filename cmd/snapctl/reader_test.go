//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/object"
)

// readers has programs in Python that were written from the documents of the formats alone, and one that runs them.
const readers = "../../testdata/reader/"

// A readerBench has a project, its store, and a reader of that.
type readerBench struct {
	t                   *testing.T
	home, stores, store string
	project             string
	questions           *json.Encoder // of many.py
	answers             *json.Decoder
}

func newReaderBench(t *testing.T, project, store string) *readerBench {
	t.Helper()
	if testing.Short() { // it is of another process for the most part
		t.Skip("it takes 10 s")
	}
	for _, tool := range []string{"python3", "b3sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}
	if _, err := exec.LookPath("zstd"); err != nil && exec.Command("python3", "-c", "import zstandard").Run() != nil {
		t.Skip("there is neither zstd nor zstandard for Python")
	}
	for _, name := range []string{"read.py", "remote.py", "gcm.py"} { // so that go test knows of it when they change
		if _, err := os.ReadFile(readers + name); err != nil {
			t.Fatal(err)
		}
	}
	stores := t.TempDir()
	b := &readerBench{t: t, home: t.TempDir(), stores: stores, store: filepath.Join(stores, store), project: project}
	b.startPython()
	return b
}

// startPython starts what runs the readers.
func (b *readerBench) startPython() {
	b.t.Helper()
	if _, err := os.ReadFile(readers + "many.py"); err != nil {
		b.t.Fatal(err)
	}
	c := exec.Command("python3", readers+"many.py")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			b.t.Errorf("many.py: %v", err)
		}
	})
	b.questions, b.answers = json.NewEncoder(in), json.NewDecoder(out)
}

// ask runs a reader.
func (b *readerBench) ask(program, keyring string, args ...string) (out string, ok bool) {
	b.t.Helper()
	if err := b.questions.Encode(append([]string{program, keyring}, args...)); err != nil {
		b.t.Fatal(err)
	}
	var answer struct {
		Code int
		Out  []byte
	}
	if err := b.answers.Decode(&answer); err != nil {
		b.t.Fatalf("%s %q: %v", program, args, err)
	}
	if out = string(answer.Out); strings.Contains(out, "Traceback") {
		b.t.Fatalf("%s %q: %s", program, args, out)
	}
	return out, answer.Code == 0
}

// snapctl runs a command in the project, which may be gone.
func (b *readerBench) snapctl(args ...string) (out string, ok bool) {
	b.t.Helper()
	c := exec.Command("snapctl", append([]string{"--root", b.project, "--store", b.stores, "-q"}, args...)...)
	c.Env = append(os.Environ(), "HOME="+b.home, "BOO_STORE=", "BOO_SESSION=", "GORACE=atexit_sleep_ms=0")
	got, err := c.CombinedOutput()
	return string(got), err == nil
}

func (b *readerBench) must(args ...string) string {
	b.t.Helper()
	out, ok := b.snapctl(args...)
	if !ok {
		b.t.Fatalf("snapctl %q: %s", args, out)
	}
	return out
}

// read runs the reader on a store.
func (b *readerBench) read(store string, args ...string) (out string, ok bool) {
	b.t.Helper()
	return b.ask("read.py", "", append([]string{store}, args...)...)
}

func (b *readerBench) write(name string, content []byte, mode fs.FileMode) {
	b.t.Helper()
	path := filepath.Join(b.project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		b.t.Fatal(err)
	}
}

// compare compares what the reader says of the store with what the command does: all
// snapshots, which are exported by both, and whether something is lost. It returns the
// number of records that the reader knows as pruned.
func (b *readerBench) compare(snapshots int) (pruned int) {
	t := b.t
	t.Helper()
	list, ok := b.read(b.store, "list")
	if !ok {
		t.Fatalf("list: %s", list)
	}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[len(fields)-1] == "pruned" {
			pruned++
			continue
		}
		tree := fields[5]
		if tree == "-" {
			continue
		}
		snapshots--
		theirs, ours := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "x")
		said, theyDo := b.read(b.store, "export", tree, theirs)
		answer, weDo := b.snapctl("export", tree, ours)
		if theyDo != weDo {
			t.Errorf("record %s: the reader says %q, the command %q", fields[0], said, answer)
		}
		got, want := readerListing(t, theirs), readerListing(t, ours)
		if !maps.Equal(got, want) || len(want) == 0 {
			t.Errorf("record %s: the reader exports\n%v\nthe command\n%v", fields[0], got, want)
		}
	}
	if snapshots != 0 {
		t.Errorf("%d snapshots more than are listed:\n%s", snapshots, list)
	}
	if out, ok := b.read(b.store, "verify"); !ok {
		t.Errorf("verify: %s", out)
	}
	return pruned
}

// readerListing gives for each path below dir its mode and its content.
func readerListing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case d.Type() == fs.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			content = []byte(to)
		case d.Type().IsRegular():
			content, err = os.ReadFile(path)
		}
		all[path[len(dir):]] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReader has an independent reader read a store with groups, chunks, directories of
// several pages, a restore, a prune, a compaction and a content that was forgotten.
func TestReader(t *testing.T) {
	b := newReaderBench(t, t.TempDir(), "")
	random := rand.NewChaCha8([32]byte{1})
	big := make([]byte, 3<<20)
	random.Read(big)
	b.write("big", big, 0o644)
	b.write("large.txt", []byte(strings.Repeat("a text that repeats\n", 100_000)), 0o600)
	b.write("empty", nil, 0o644)
	b.write("bad\xffname", []byte{0, 0xff}, 0o755)
	b.write("secret", []byte("it is 4711"), 0o600)
	for i := range 400 {
		b.write(fmt.Sprintf("many/f%d", i), fmt.Appendf(nil, "file %d\n", i), 0o644)
	}
	if err := os.Mkdir(filepath.Join(b.project, "nothing"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../\xfe", filepath.Join(b.project, "many/link")); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		b.write("a.txt", fmt.Appendf(nil, "turn %d\n", i), 0o644)
		copy(big[i<<19:], "changed")
		b.write("big", big, 0o644)
		b.must("snapshot")
	}
	b.must("restore", "-y", "@~1")
	found, err := filepath.Glob(filepath.Join(b.stores, "*/FORMAT"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b.store = filepath.Dir(found[0])
	b.compare(8)
	b.must("prune", "--keep-last", "2")
	if pruned := b.compare(4); pruned != 4 {
		t.Errorf("the reader knows %d records as pruned, want 4", pruned)
	}
	secret := object.Hash(object.Blob, []byte("it is 4711"))
	if out, ok := b.read(b.store, "cat", secret.String()); !ok || out != "it is 4711" {
		t.Errorf("cat: %q, %v", out, ok)
	}
	b.must("compact")
	if pruned := b.compare(4); pruned != 4 {
		t.Errorf("after the compaction the reader knows %d records as pruned, want 4", pruned)
	}
	b.must("forget", "-y", "secret")
	if pruned := b.compare(4); pruned != 4 {
		t.Errorf("the reader knows %d records as pruned, want 4", pruned)
	}
	if out, ok := b.read(b.store, "cat", secret.String()); ok || !strings.Contains(out, ": forgotten") {
		t.Errorf("cat of what was forgotten: %q, %v", out, ok)
	}
}

// TestReaderOld has it read stores that old programs made; testdata/reader/README.md says how.
func TestReaderOld(t *testing.T) {
	for _, c := range []struct {
		version           string
		snapshots, pruned int
	}{{"v1", 3, 0}, {"v2", 4, 6}} {
		t.Run(c.version, func(t *testing.T) {
			b := newReaderBench(t, "/home/user/project", "da4d070e79124cdf598fceaa24169c0c")
			if err := os.CopyFS(b.store, os.DirFS("../../testdata/reader/stores/"+c.version)); err != nil {
				t.Fatal(err)
			}
			if pruned := b.compare(c.snapshots); pruned != c.pruned {
				t.Errorf("the reader knows %d records as pruned, want %d", pruned, c.pruned)
			}
		})
	}
}

// TestReaderSegments has it read stores of several segments, with groups, before and after a prune
// and a compaction, and find a bit that was flipped in an index or a summary.
func TestReaderSegments(t *testing.T) {
	b := newReaderBench(t, t.TempDir(), "")
	for _, name := range []string{"groups", "compact"} {
		b.store = filepath.Join(b.stores, name)
		if err := os.CopyFS(b.store, os.DirFS("../../testdata/format/v2/stores/"+name)); err != nil {
			t.Fatal(err)
		}
		if out, ok := b.read(b.store, "verify"); !ok {
			t.Fatalf("%s: verify: %s", name, out)
		}
		sums, err := filepath.Glob(filepath.Join(b.store, "journal/*.sum"))
		if err != nil {
			t.Fatal(err)
		}
		indexes, err := filepath.Glob(filepath.Join(b.store, "packs/*.idx"))
		if err != nil || len(sums) < 3 || len(indexes) != 1 {
			t.Fatal(sums, indexes, err)
		}
		b.flips(b.store, append(indexes, sums[0]), 6)
	}
}

// TestReaderFlips has it find a bit that was flipped, anywhere in the packs and the journal of
// a store that has nothing but what its snapshots need.
func TestReaderFlips(t *testing.T) {
	b := newReaderBench(t, t.TempDir(), "")
	for i := range 20 {
		b.write(fmt.Sprintf("d/f%d", i), fmt.Appendf(nil, "%s %d\n", strings.Repeat("content ", 30), i), 0o644)
	}
	b.must("snapshot")
	b.write("d/f1", []byte("another"), 0o644)
	b.must("snapshot")
	files, err := filepath.Glob(filepath.Join(b.stores, "*/*/0*.log"))
	if err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(b.stores, "*/packs/*.pack"))
	if err != nil || len(files) != 1 || len(packs) != 1 {
		t.Fatal(files, packs, err)
	}
	store := filepath.Dir(filepath.Dir(packs[0]))
	if out, ok := b.read(store, "verify"); !ok {
		t.Fatalf("verify before: %s", out)
	}
	b.flips(store, slices.Concat(files, packs), 25)
}

// flips has the reader find each of some flipped bits of files of a store.
func (b *readerBench) flips(store string, files []string, n int) {
	b.t.Helper()
	b.flip(files, n, func() (string, bool) { return b.read(store, "verify") })
}

// flip has verify find each of some flipped bits of files.
func (b *readerBench) flip(files []string, n int, verify func() (string, bool)) {
	t := b.t
	t.Helper()
	for _, name := range files {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += 1 + len(whole)/n {
			bad := slices.Clone(whole)
			bad[at] ^= 1 << (at % 8)
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, ok := verify(); ok {
				t.Errorf("%s: a bit of byte %d was flipped, and verify says %s", filepath.Base(name), at, out)
			}
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
