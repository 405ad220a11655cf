package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// takenOut lists what git has taken out, and what not, all of it by name: the
// tag S of ls-files is the skip-worktree bit.
func takenOut(t *testing.T, dir string) (out, in []string) {
	t.Helper()
	for line := range strings.SplitSeq(git(t, dir, "ls-files", "-z", "-t"), "\x00") {
		if name, ok := strings.CutPrefix(line, "S "); ok {
			out = append(out, name)
		} else if len(line) > 2 {
			in = append(in, line[2:])
		}
	}
	return out, in
}

// plainNames is what Names is to return for a directory, from all names.
func plainNames(dir string, out, in []string) map[string]string {
	if dir != "" {
		dir += "/"
	}
	files, outs, ins := make(map[string]bool), make(map[string]int), make(map[string]int)
	for _, p := range slices.Concat(out, in) {
		rest, ok := strings.CutPrefix(p, dir)
		if !ok {
			continue
		}
		name, _, isDir := strings.Cut(rest, "/")
		files[name] = !isDir
		if slices.Contains(out, p) {
			outs[name]++
		} else {
			ins[name]++
		}
	}
	list := make(map[string]string)
	for name, isFile := range files {
		switch {
		case outs[name] == 0:
		case isFile:
			list[name] = "file"
		case ins[name] == 0:
			list[name] = "dir"
		default:
			list[name] = "part"
		}
	}
	return list
}

// checkSparse compares what we read with what git says.
func checkSparse(t *testing.T, what, dir string) *Sparse {
	t.Helper()
	r := find(t, dir)
	x, err := r.Index()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	s := x.Sparse()
	out, in := takenOut(t, dir)
	if may, err := r.MaySkip(); err != nil || !may && len(out) > 0 {
		t.Errorf("%s: MaySkip = %v, %v, and %d paths are taken out", what, may, err, len(out))
	}
	if s.ID() == [16]byte{} != (len(out) == 0) {
		t.Errorf("%s: ID = %x, and %d paths are taken out", what, s.ID(), len(out))
	}
	dirs := map[string]bool{"": true}
	for want, paths := range map[bool][]string{true: out, false: in} {
		for _, p := range paths {
			if s.Has(p) != want {
				t.Errorf("%s: Has(%q) = %v", what, p, !want)
			}
			for i, c := range p {
				if c == '/' {
					dirs[p[:i]] = true
				}
			}
		}
	}
	for d := range dirs {
		want := plainNames(d, out, in)
		if d != "" && s.Has(d) { // a whole one: its names are not told
			want = nil
		}
		got := make(map[string]string)
		for _, n := range s.Names(d) {
			switch {
			case n.Kind != Dir:
				got[n.Name] = "file"
			case n.Whole:
				got[n.Name] = "dir"
			default:
				got[n.Name] = "part"
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: Names(%q): git (-), we (+)\n%s", what, d, diff)
		}
	}
	return s
}

// TestSparse: what is taken out is what git says, in cone mode and by patterns,
// with each version of the index, split, or sparse itself.
func TestSparse(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "4"} { // git makes 3 of 2
			t.Run(format+"/v"+version, func(t *testing.T) {
				dir, _ := setup(t)
				git(t, dir, "init", "-q", "-b", "main", "--object-format="+format)
				git(t, dir, "config", "index.version", version)
				for _, name := range []string{
					"top", "a/f", "a/b/f", "a/b/g", "a/b.c", "a/b-c/f", "a/c/f", "b/f", "b.txt", "c/d/e/f", "c/d/e.f",
					"c/d/g", "c0/f", "zu\xff/f",
				} {
					write(t, filepath.Join(dir, name), "x")
				}
				for _, link := range []string{"a/link", "b/link", "c/d/link"} {
					if err := os.Symlink("f", filepath.Join(dir, link)); err != nil {
						t.Fatal(err)
					}
				}
				commit(t, dir)
				checkSparse(t, "nothing taken out", dir)
				git(t, dir, "update-index", "--assume-unchanged", "a/f", "b/f")
				checkSparse(t, "assume-unchanged is another bit", dir)
				git(t, dir, "update-index", "--no-assume-unchanged", "a/f", "b/f")

				git(t, dir, "sparse-checkout", "set", "--cone", "a/b")
				cone := checkSparse(t, "cone", dir)
				if !cone.Has("a/c") || cone.Has("a") || cone.Has("a/b") || !cone.Has("a/c/new") || cone.Has("a/new") {
					t.Errorf("taken out are %q", cone.paths)
				}
				git(t, dir, "sparse-checkout", "reapply", "--sparse-index")
				if s := checkSparse(t, "cone, sparse index", dir); s.ID() != cone.ID() ||
					!slices.Equal(s.paths, cone.paths) {
					t.Errorf("with a sparse index %q are taken out, without %q", s.paths, cone.paths)
				}
				git(t, dir, "sparse-checkout", "reapply", "--no-sparse-index")
				checkSparse(t, "full again", dir)

				git(t, dir, "sparse-checkout", "set", "--no-cone", "/a/", "!/a/b/g", "!/a/link", "/c/d/e*")
				byPattern := checkSparse(t, "patterns", dir)
				if byPattern.ID() == cone.ID() {
					t.Error("two sets have one ID")
				}
				if list := byPattern.Names("a"); !slices.Contains(list, SparseName{"link", Symlink, true}) {
					t.Errorf("Names(a) = %v, want the link", list)
				}
				git(t, dir, "config", "splitIndex.maxPercentChange", "100")
				git(t, dir, "update-index", "--split-index")
				if s := checkSparse(t, "split", dir); s.ID() != byPattern.ID() {
					t.Error("a split index says otherwise")
				}
				// The shared part has the bit, and what replaces it has not.
				git(t, dir, "update-index", "--no-skip-worktree", "b/f", "c/d/g")
				git(t, dir, "update-index", "--skip-worktree", "a/f")
				git(t, dir, "rm", "-q", "--cached", "--sparse", "top")
				checkSparse(t, "split and changed", dir)
				git(t, dir, "update-index", "--no-split-index")
				checkSparse(t, "one file again", dir)
				git(t, dir, "sparse-checkout", "disable")
				if s := checkSparse(t, "disabled", dir); s.paths != nil {
					t.Errorf("taken out are %q", s.paths)
				}
			})
		}
	}
}

// TestSparseSplitFromTheStart: where nothing is taken out in the file itself,
// the shared one is read.
func TestSparseSplitFromTheStart(t *testing.T) {
	dir, _ := setup(t)
	commit(t, dir)
	git(t, dir, "config", "splitIndex.maxPercentChange", "100")
	git(t, dir, "update-index", "--skip-worktree", "a.txt")
	git(t, dir, "update-index", "--split-index")
	data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil || data[7] != 2 {
		t.Skipf("NOT TESTED: git writes version %d of it, %v", data[7], err)
	}
	if s := checkSparse(t, "split", dir); !s.Has("a.txt") {
		t.Error("a.txt is not taken out")
	}
}

// TestSparseWorktree: each linked worktree has its own.
func TestSparseWorktree(t *testing.T) {
	dir, _ := setup(t)
	commit(t, dir)
	linked := filepath.Join(filepath.Dir(dir), "linked")
	git(t, dir, "worktree", "add", "-q", "-b", "other", linked)
	git(t, linked, "sparse-checkout", "set", "dir2")
	if s := checkSparse(t, "linked", linked); !s.Has("dir") || s.Has("dir2") {
		t.Errorf("taken out of the linked worktree are %q", s.paths)
	}
	if s := checkSparse(t, "main", dir); s.paths != nil {
		t.Errorf("taken out of the main one are %q", s.paths)
	}
}

// TestSparseSubmodule: one that is taken out is a directory.
func TestSparseSubmodule(t *testing.T) {
	dir, _ := setup(t)
	commit(t, dir)
	git(t, dir, "update-index", "--add", "--cacheinfo",
		"160000,"+strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))+",m")
	write(t, filepath.Join(dir, "m.c"), "x")
	git(t, dir, "add", "m.c")
	git(t, dir, "update-index", "--skip-worktree", "m", "m.c")
	x, err := find(t, dir).Index()
	if err != nil {
		t.Fatal(err)
	}
	want := []SparseName{{"m", Dir, true}, {"m.c", File, true}}
	if s := x.Sparse(); !slices.Equal(s.Names(""), want) || !s.Has("m/x") || !s.Has("m.c") || s.Has("m.") {
		t.Errorf("Names = %v, want %v", s.Names(""), want)
	}
}

// TestSparseFlags reads indexes that git would not write, or only with others'
// help.
func TestSparseFlags(t *testing.T) {
	tests := []struct {
		what    string
		entries []entry
		want    []string
	}{
		{"all", []entry{{"a", skipWorktree}, {"b/c", skipWorktree}}, []string{"a", "b/"}},
		{"intent to add", []entry{{"a", intentToAdd}, {"b", intentToAdd | skipWorktree}}, []string{"b"}},
		{"assume unchanged", []entry{{"a", assumeUnchanged}, {"b", assumeUnchanged | skipWorktree}}, []string{"b"}},
		{"three stages", []entry{{"d/a", skipWorktree}, {"d/a", skipWorktree}, {"d/a", 0}, {"e/b", skipWorktree},
			{"e/b", skipWorktree}}, []string{"d/a", "e/"}},
		{"one in below", []entry{{"d/a", skipWorktree}, {"d/e/f/g", skipWorktree}, {"d/e/h", 0},
			{"d/i/j", skipWorktree}}, []string{"d/a", "d/e/f/", "d/i/"}},
		{"a directory as a whole", []entry{{"d.x", skipWorktree}, {"d/", skipWorktree | 0o040000}, {"d0/", 0o040000}},
			[]string{"d.x", "d/"}},
		{"inside of others", []entry{{"d/e/", skipWorktree | 0o040000}, {"d/f", skipWorktree}}, []string{"d/"}},
		{"a file and a directory", []entry{{"a", skipWorktree}, {"a/b", skipWorktree}}, []string{"a", "a/"}},
		{"strange names", []entry{{"../x", skipWorktree}, {"/y", skipWorktree}, {"a//b", skipWorktree}, {"a/c", 0}},
			[]string{"../", "/", "a//"}},
	}
	for _, tt := range tests {
		for _, version := range []uint32{3, 4} {
			x, err := parseIndex(buildIndex(version, tt.entries, nil), 20, noShared)
			if err != nil {
				t.Errorf("%s: %v", tt.what, err)
				continue
			}
			s := x.Sparse()
			if !slices.Equal(s.paths, tt.want) {
				t.Errorf("%s, version %d: taken out are %q, want %q", tt.what, version, s.paths, tt.want)
			}
		}
	}
}

// BenchmarkSparse finds the few directories in which half a million paths are.
func BenchmarkSparse(b *testing.B) {
	for _, sparse := range []bool{false, true} {
		var entries []entry
		for i := range 500_000 {
			e := entry{fmt.Sprintf("project%03d/net/ethernet/vendor%05d/source_file_%06d.c", i/5000, i/20, i), 0o100644}
			if sparse && i >= 5000 {
				e.mode |= skipWorktree
			}
			entries = append(entries, e)
		}
		x, err := parseIndex(buildIndex(3, entries, nil), 20, noShared)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("entries=500k/sparse=%v", sparse), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := len(x.Sparse().paths); n != 0 && n != 99 {
					b.Fatal(n)
				}
			}
		})
	}
}
