package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/nearmiss"
)

// all returns the names in x, sorted, each once.
func all(x *Index) []string {
	var out []string
	for _, n := range x.parts {
		for i := range n.span {
			out = append(out, string(n.at(i)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkIndex compares the index in dir with what git lists.
func checkIndex(t *testing.T, what, dir string) {
	t.Helper()
	x, err := find(t, dir).Index()
	if err != nil {
		t.Errorf("%s: Index: %v", what, err)
		return
	}
	listing := git(t, dir, "ls-files", "-z", "--sparse")
	want := strings.FieldsFunc(listing, func(c rune) bool { return c == 0 })
	slices.Sort(want)
	want = slices.Compact(want) // of unmerged paths
	if diff := cmp.Diff(want, all(x), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: git (-), we (+)\n%s", what, diff)
	}
	for _, p := range strings.FieldsFunc(git(t, dir, "ls-files", "-z"), func(c rune) bool { return c == 0 }) {
		if !x.Tracked(p) {
			t.Errorf("%s: Tracked(%q) = false", what, p)
		}
		for i, c := range p {
			if c == '/' && !x.TrackedUnder(p[:i]) {
				t.Errorf("%s: TrackedUnder(%q) = false", what, p[:i])
			}
		}
		for _, no := range []string{p + "x", p + "/", p[:len(p)-1], ""} {
			if x.Tracked(no) && !slices.Contains(want, no) && !x.dirs {
				t.Errorf("%s: Tracked(%q) = true", what, no)
			}
		}
		if x.TrackedUnder(p) && !x.dirs {
			t.Errorf("%s: TrackedUnder(%q), a file, = true", what, p)
		}
	}
	if got := x.TrackedUnder(""); got != (len(want) > 0) {
		t.Errorf("%s: TrackedUnder of the root = %v", what, got)
	}
}

func TestIndex(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+"/v"+version, func(t *testing.T) {
				dir, _ := setup(t)
				git(t, dir, "init", "-q", "-b", "main", "--object-format="+format)
				checkIndex(t, "none", dir)
				commit(t, dir)
				long := strings.Repeat(strings.Repeat("l", 200)+"/", 25) // longer than the flags can say
				for i, oid := 0, git(t, dir, "rev-parse", "HEAD:a.txt"); i < 2; i++ {
					git(t, dir, "update-index", "--add", "--cacheinfo",
						"100644,"+strings.TrimSpace(oid)+","+long+fmt.Sprint(i))
				}
				if version == "3" { // which git writes when a flag needs it
					write(t, filepath.Join(dir, "intended"), "x")
					git(t, dir, "add", "-N", "intended")
				} else {
					git(t, dir, "update-index", "--index-version="+version)
				}
				data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
				if err != nil || fmt.Sprint(binary.BigEndian.Uint32(data[4:])) != version {
					t.Fatalf("git wrote another version: %x, %v", data[:8], err)
				}
				checkIndex(t, "plain", dir)
				git(t, dir, "rm", "-rq", "--cached", ".")
				checkIndex(t, "empty", dir)
			})
		}
	}
}

func TestIndexUnmergedAndSubmodule(t *testing.T) {
	dir, _ := setup(t)
	commit(t, dir)
	oid := strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+oid+",mod")
	git(t, dir, "commit", "-q", "-m", "mod")
	checkIndex(t, "submodule", dir)
	for _, branch := range []string{"other", "main"} {
		git(t, dir, "checkout", "-q", "-B", branch)
		git(t, dir, "reset", "-q", "--hard", oid)
		write(t, filepath.Join(dir, "a.txt"), branch)
		git(t, dir, "commit", "-q", "-m", branch, "a.txt")
	}
	git(t, dir, "read-tree", "-m", oid, "main", "other")
	if git(t, dir, "ls-files", "--unmerged") == "" {
		t.Fatal("nothing is unmerged")
	}
	checkIndex(t, "unmerged", dir)
}

func TestIndexSplit(t *testing.T) {
	for _, tt := range []struct{ format, version string }{{"sha1", "2"}, {"sha256", "2"}, {"sha1", "4"}} {
		dir, _ := setup(t)
		git(t, dir, "init", "-q", "-b", "main", "--object-format="+tt.format)
		git(t, dir, "config", "index.version", tt.version)
		for i := range 300 { // more than one word of the bitmap
			write(t, filepath.Join(dir, fmt.Sprintf("f%03d", i)), "x")
		}
		commit(t, dir)
		git(t, dir, "config", "splitIndex.maxPercentChange", "100") // never write a new shared one
		git(t, dir, "update-index", "--split-index")
		shared, _ := filepath.Glob(filepath.Join(dir, ".git", "sharedindex.*"))
		if len(shared) != 1 {
			t.Fatalf("no shared index: %q", shared)
		}
		checkIndex(t, "nothing changed", dir)
		before, err := find(t, dir).IndexStamp()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "added"), "x")
		write(t, filepath.Join(dir, "a.txt"), "changed")
		git(t, dir, "add", "added", "a.txt")
		checkIndex(t, "one replaced, one added", dir)
		if after, err := find(t, dir).IndexStamp(); err != nil || after == before {
			t.Errorf("IndexStamp is the same after a change (%v)", err)
		}
		drop := []string{"rm", "-q", "--cached"}
		for i := range 250 {
			if i%7 != 0 && i != 1 || i > 60 && i < 200 {
				drop = append(drop, fmt.Sprintf("f%03d", i))
			}
		}
		git(t, dir, drop...)
		checkIndex(t, "many dropped", dir)
		git(t, dir, "add", "f002", "f100")
		checkIndex(t, "dropped and added again", dir)
		if err := os.Remove(shared[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := find(t, dir).Index(); err == nil {
			t.Error("Index without its shared part: no error")
		}
	}
}

func TestIndexSparse(t *testing.T) {
	dir, _ := setup(t)
	commit(t, dir)
	git(t, dir, "sparse-checkout", "init", "--cone", "--sparse-index")
	git(t, dir, "sparse-checkout", "set", "dir2")
	checkIndex(t, "sparse", dir)
	x, err := find(t, dir).Index()
	if err != nil || !x.dirs {
		t.Fatalf("the index is not sparse (%v): %q", err, all(x))
	}
	for p, want := range map[string]bool{"dir/b.txt": true, "dir/sub/any": true, "dirx/b": false, "dir2/d": true,
		"dir2/x": false, "dir": false} {
		if got := x.Tracked(p); got != want {
			t.Errorf("Tracked(%q) = %v, want %v", p, got, want)
		}
	}
	for p, want := range map[string]bool{"dir": true, "dir/sub": true, "dir/sub/x": true, "di": false, "dir2": true,
		"dir2/x": false} {
		if got := x.TrackedUnder(p); got != want {
			t.Errorf("TrackedUnder(%q) = %v, want %v", p, got, want)
		}
	}
}

func TestIndexStamp(t *testing.T) {
	dir, _ := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	stamp := func() IndexStamp {
		t.Helper()
		s, err := r.IndexStamp()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none := stamp()
	if none != (IndexStamp{}) {
		t.Errorf("stamp of no index: %x", none)
	}
	write(t, filepath.Join(dir, "a"), "1")
	git(t, dir, "add", "a")
	one := stamp()
	if one == none || one != stamp() {
		t.Error("the stamp is not that of the content")
	}
	name := filepath.Join(r.GitDir, "index")
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "2") // the same size
	git(t, dir, "add", "a")
	if err := os.Chtimes(name, time.Time{}, st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if two := stamp(); two == one || !bytes.Equal(two[:16], one[:16]) {
		t.Error("a change that keeps size and mtime goes unseen")
	}
}

// An entry of an index that a test builds.
type entry struct {
	name string
	mode uint32
}

// These are put into an entry's mode, where they become flags.
const (
	skipWorktree    = 1 << 30
	intentToAdd     = 1 << 29
	assumeUnchanged = 1 << 28
	extendedFlags   = skipWorktree | intentToAdd
)

// buildIndex writes an index of version 2 or 4 as git would, without the
// checksum's value.
func buildIndex(version uint32, entries []entry, extensions []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	prev := ""
	for _, e := range entries {
		start := len(b)
		b = append(b, make([]byte, 60)...)
		binary.BigEndian.PutUint32(b[start+24:], e.mode&0xffff)
		flags := uint16(min(len(e.name), 0xfff)) | uint16(e.mode&assumeUnchanged>>28<<15)
		if e.mode&extendedFlags != 0 {
			b = binary.BigEndian.AppendUint16(b, flags|0x4000)
			flags = uint16(e.mode & extendedFlags >> 29 << 13)
		}
		b = binary.BigEndian.AppendUint16(b, flags)
		if version != 4 {
			b = append(b, e.name...)
			b = append(b, make([]byte, 8-(len(b)-start)%8)...)
			continue
		}
		common := 0
		for common < min(len(prev), len(e.name)) && prev[common] == e.name[common] {
			common++
		}
		strip := len(prev) - common
		if strip > 127 {
			panic("the test's varint has one byte")
		}
		b = append(b, byte(strip))
		b = append(b, e.name[common:]...)
		b = append(b, 0)
		prev = e.name
	}
	b = append(b, extensions...)
	return append(b, make([]byte, 20)...)
}

func extension(name string, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte(name), uint32(len(data))), data...)
}

var errNoShared = errors.New("no shared index")

func noShared([]byte) ([]byte, error) { return nil, errNoShared }

func TestIndexDamage(t *testing.T) {
	good := []entry{{"a", 0o100644}, {"a/b", 0o100644}, {"c", 0o100755}}
	patch := func(data []byte, off int, with ...byte) []byte {
		data = bytes.Clone(data)
		copy(data[off:], with)
		return data
	}
	v2, v4 := buildIndex(2, good, nil), buildIndex(4, good, nil)
	for _, data := range [][]byte{v2, v4, buildIndex(2, good, extension("TREE", []byte("x")))} {
		if x, err := parseIndex(data, 20, noShared); err != nil || x.Len() != 3 {
			t.Fatalf("the undamaged index: %v, %v", x, err)
		}
	}
	tests := []struct {
		what string
		data []byte
	}{
		{"nothing", nil},
		{"magic", patch(v2, 0, 'X')},
		{"version 1", patch(v2, 7, 1)},
		{"version 5", patch(v2, 7, 5)},
		{"too many entries", patch(v2, 8, 0xff, 0xff, 0xff, 0xff)},
		{"one entry more", patch(v2, 11, 4)},
		{"extended flags in v2", patch(v2, 12+60, 0x40)},
		{"name longer than the file", patch(v2, len(v2)-20-4, 0x0f, 0xfe)},
		{"order", buildIndex(2, []entry{{"b", 0}, {"a", 0}}, nil)},
		{"order, v4", buildIndex(4, []entry{{"b", 0}, {"a", 0}}, nil)},
		{"v4 strips more than there is", patch(v4, 12+62, 1)},
		{"v4 endless number", patch(v4, 12+62, bytes.Repeat([]byte{0xff}, 70)...)},
		{"v4 without the final zero", patch(v4, len(v4)-21, 'x')},
		{"no name", buildIndex(2, []entry{{"", 0}}, nil)},
		{"unknown extension", buildIndex(2, good, extension("abcd", nil))},
		{"extension too long", buildIndex(2, good, []byte("TREE\xff\xff\xff\xff"))},
		{"half an extension", buildIndex(2, good, []byte("TREE"))},
		{"short link", buildIndex(2, good, extension("link", []byte("x")))},
		{"link to nothing", buildIndex(2, good, extension("link", bytes.Repeat([]byte{1}, 20)))},
	}
	for _, tt := range tests {
		if x, err := parseIndex(tt.data, 20, noShared); err == nil {
			t.Errorf("%s: %q and no error", tt.what, all(x))
		}
	}
	for n := range v2 {
		if _, err := parseIndex(v2[:n], 20, noShared); err == nil && n < len(v2) {
			t.Errorf("%d of %d bytes and no error", n, len(v2))
		}
	}
}

// TestIndexV4NamesAreBounded has entries that each repeat a long name: the
// file is small, the names would not be.
func TestIndexV4NamesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	entries := []entry{{long, 0}}
	for range 2000 {
		entries = append(entries, entry{long, 0})
	}
	if _, err := parseIndex(buildIndex(4, entries, nil), 20, noShared); err == nil {
		t.Error("128 MB of names in 256 KB and no error")
	}
}

func TestEWAH(t *testing.T) {
	word := func(ws ...uint64) []byte {
		b := make([]byte, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(len(ws)))
		for _, w := range ws {
			b = binary.BigEndian.AppendUint64(b, w)
		}
		return append(b, 0, 0, 0, 0)
	}
	ones := func(n uint64) uint64 { return 1 | n<<1 }
	tests := []struct {
		what string
		ewah []byte
		set  func(i int) bool
	}{
		{"none", word(), func(int) bool { return false }},
		{"zeros", word(3 << 1), func(int) bool { return false }},
		{"all ones", word(ones(1 << 31)), func(int) bool { return true }},
		{"64 ones", word(ones(1)), func(i int) bool { return i < 64 }},
		{"literal", word(1<<33, 0b101), func(i int) bool { return i == 0 || i == 2 }},
		{"zeros, literal, ones", word(1<<1|1<<33, 1<<63, ones(1)),
			func(i int) bool { return i == 127 || i >= 128 && i < 192 }},
	}
	const n = 200
	for _, tt := range tests {
		bits, size, err := ewah(append(tt.ewah, "next"...), n)
		if err != nil || size != len(tt.ewah) {
			t.Errorf("%s: ewah = %d bytes, %v; want %d", tt.what, size, err, len(tt.ewah))
		}
		for i := range n {
			if bits.has(i) != tt.set(i) {
				t.Errorf("%s: bit %d is %v", tt.what, i, bits.has(i))
			}
		}
	}
	for _, bad := range [][]byte{nil, make([]byte, 11), {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		word(5 << 33)} {
		if _, _, err := ewah(bad, n); err == nil {
			t.Errorf("ewah(%x): no error", bad)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	good := []entry{{"a", 0o100644}, {"a/b", 0o100644}, {"d/", 0o040000}}
	bits := func(b byte) []byte { // of the first three entries
		return []byte{0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b, 0, 0, 0, 0}
	}
	link := slices.Concat(bytes.Repeat([]byte{7}, 20), bits(5), bits(2)) // two are dropped, one is replaced
	for _, version := range []uint32{2, 3, 4} {
		split := buildIndex(version, append([]entry{{"", 0}}, good...), extension("link", link))
		for _, b := range nearmiss.Of(buildIndex(version, good[:2], extension("TREE", []byte("x")))) {
			f.Add(b, []byte(nil))
		}
		for _, b := range nearmiss.Of(extension("link", link)) {
			f.Add(buildIndex(version, append([]entry{{"", 0}}, good...), b), buildIndex(version, good, nil))
		}
		f.Add(split, buildIndex(version, good, nil))
		f.Add(split, split)
		f.Add(split, buildIndex(version, []entry{good[1], good[0]}, nil))
		f.Add(split, buildIndex(version, []entry{good[0], good[0]}, nil))
		if version > 2 {
			out := []entry{{"a", 0o100644 | skipWorktree}, {"a/b", 0o100644}, {"d/", 0o040000 | skipWorktree},
				{"e/f", skipWorktree | intentToAdd}}
			for _, b := range nearmiss.Of(buildIndex(version, out, extension("sdir", nil))) {
				f.Add(b, []byte(nil))
			}
			f.Add(buildIndex(version, append([]entry{{"", skipWorktree}}, good...), extension("link", link)),
				buildIndex(version, out[:3], nil))
		}
	}
	f.Fuzz(func(t *testing.T, data, shared []byte) {
		x, err := parseIndex(data, 20, func([]byte) ([]byte, error) { return shared, nil })
		if err != nil {
			return
		}
		if n := len(all(x)); n > (len(data)+len(shared))/62 {
			t.Errorf("%d names in %d and %d bytes", n, len(data), len(shared))
		}
		for _, name := range all(x) {
			if !x.Tracked(name) {
				t.Errorf("Tracked(%q) = false, but the index has it", name)
			}
			if i := strings.LastIndexByte(name, '/'); i >= 0 && !x.TrackedUnder(name[:i]) {
				t.Errorf("TrackedUnder(%q) = false, but the index has %q", name[:i], name)
			}
		}
		checkPaths(t, x)
	})
}

// checkPaths: what is taken out is what entries say that have the bit, and what
// Names finds from the root down is all of it.
func checkPaths(t *testing.T, x *Index) {
	t.Helper()
	s := x.Sparse()
	if !slices.IsSorted(s.paths) || len(slices.Compact(slices.Clone(s.paths))) != len(s.paths) {
		t.Errorf("the paths are not sorted: %q", s.paths)
	}
	for _, n := range x.parts {
		for i, e := range n.span {
			if e.skip && !s.Has(string(n.at(i))) {
				t.Errorf("Has(%q) = false, and it has the bit: %q", n.at(i), s.paths)
			}
		}
	}
	found := 0
	var walk func(dir string, deep int)
	walk = func(dir string, deep int) {
		for _, n := range s.Names(dir) {
			path := strings.TrimPrefix(dir+"/"+n.Name, "/")
			switch {
			case n.Whole && !s.Has(path):
				t.Errorf("Names(%q) has %q, which is in: %q", dir, n.Name, s.paths)
			case n.Whole:
				found++
			case deep < 100:
				walk(path, deep+1)
			}
		}
	}
	walk("", 0)
	if found > len(s.paths) {
		t.Errorf("Names finds %d of %q", found, s.paths)
	}
}

// TestIndexNearMisses: what is nearly an index is for us what it is for git, if
// both take it.
func TestIndexNearMisses(t *testing.T) {
	dir, _ := setup(t)
	git(t, dir, "init", "-q", "-b", "main")
	name := filepath.Join(dir, ".git", "index")
	entries := []entry{{"a", 0o100644}, {"a/b", 0o100644}, {"c", 0o100755}}
	taken := 0
	for _, version := range []uint32{2, 4} {
		good := buildIndex(version, entries, extension("TREE", nil))
		for i, b := range nearmiss.Of(good[:len(good)-20]) {
			if i%29 != 0 && !*every { // all agree, and take 40 s
				continue
			}
			sum := sha1.Sum(b)
			b = append(b, sum[:]...)
			x, err := parseIndex(b, 20, noShared)
			if err != nil { // git reads on behind the end of some
				continue
			}
			if werr := os.WriteFile(name, b, 0o600); werr != nil {
				t.Fatal(werr)
			}
			listing, gitErr := exec.Command("git", "-C", dir, "ls-files", "-z", "--sparse").Output()
			if gitErr != nil {
				continue
			}
			want := strings.FieldsFunc(string(listing), func(c rune) bool { return c == 0 })
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), all(x), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("git (-), we (+) of\n%x\n%s", b, diff)
			}
			taken++
		}
	}
	t.Logf("git takes %d", taken)
}

// kernelSized are 80,000 names as in the Linux kernel's source: 20 to a
// directory.
func kernelSized() []entry {
	var entries []entry
	for i := range 80_000 {
		entries = append(entries, entry{fmt.Sprintf("drivers/net/ethernet/vendor%04d/source_file_%05d.c", i/20, i),
			0o100644})
	}
	return entries
}

func BenchmarkIndex(b *testing.B) {
	for _, version := range []uint32{2, 4} {
		b.Run(fmt.Sprintf("v%d/entries=80k", version), func(b *testing.B) {
			dir := b.TempDir()
			r := &Repo{Root: dir, GitDir: dir, CommonDir: dir}
			data := buildIndex(version, kernelSized(), nil)
			if err := os.WriteFile(filepath.Join(dir, "index"), data, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if x, err := r.Index(); err != nil || x.Len() != 80_000 {
					b.Fatal(x, err)
				}
			}
		})
	}
}

func BenchmarkTracked(b *testing.B) {
	entries := kernelSized()
	x, err := parseIndex(buildIndex(2, entries, nil), 20, noShared)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		x.Tracked(entries[i%len(entries)].name)
		i += 7919
	}
}

func BenchmarkIndexStamp(b *testing.B) {
	dir := b.TempDir()
	r := &Repo{Root: dir, GitDir: dir, CommonDir: dir}
	if err := os.WriteFile(filepath.Join(dir, "index"), buildIndex(2, kernelSized(), nil), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.IndexStamp(); err != nil {
			b.Fatal(err)
		}
	}
}
