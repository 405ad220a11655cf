package manager

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/pickaxe"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// found returns what a search finds, a line each: who, the file, and how often the text is in it.
func (b *bench) found(m *FileSnapshotManager, o *FindOptions) (list []string, gap string) {
	b.Helper()
	for f, err := range m.Find(b.Context(), o) {
		if errors.Is(err, ErrNotAll) {
			return list, strings.TrimPrefix(err.Error(), "find: not all could be searched: ")
		}
		if err != nil {
			b.Fatal(err)
		}
		who := fmt.Sprintf("%s %s", f.Kind, f.Owner)
		if f.Turn >= 0 {
			who = fmt.Sprintf("%s:%d %s", f.Session, f.Turn, f.Owner)
		}
		if f.Open {
			who += " goes on"
		}
		moved := ""
		if f.RenamedFrom != "" {
			moved = " from " + f.RenamedFrom
		}
		list = append(list, fmt.Sprintf("%s: %s%s %d-%d %d:%s", who, f.Path, moved, f.Before, f.After, f.Line, f.Text))
	}
	return list, ""
}

func (b *bench) wantFound(m *FileSnapshotManager, o *FindOptions, want ...string) {
	b.Helper()
	got, gap := b.found(m, o)
	if d := cmp.Diff(want, got); d != "" || gap != "" {
		b.Errorf("Find(%+v) (-want +got), gap %q:\n%s", *o, gap, d)
	}
}

// TestFind: the text is found where it came and went, with who did it.
func TestFind(t *testing.T) {
	b := newBench(t)
	b.write("old", "one\nneedle here\n")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("d/a", "x\nneedle needle\n") })
	b.write("mine", "my needle\n")
	b.turn(m, func() {
		b.remove("d/a")
		b.write("e/b", "x\nneedle needle\n")
		b.write("old", "one\n")
		b.write("bin", "needle\x00")
	})
	b.turn(m, func() { b.write("e/b", "x\nneedle needle\nan other needle\n") })
	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~2"}); err != nil {
		t.Fatal(err)
	}
	b.turn(m, func() { b.remove("mine") })

	gone := "s:3 turn: mine 1-0 1:my needle"
	rest := []string{
		"restore : d/a from e/b 3-2 3:an other needle", "restore : old 0-1 2:needle here",
		"s:2 turn: e/b 2-3 3:an other needle",
		"s:1 turn: old 1-0 2:needle here",
		"base offline: mine 0-1 1:my needle",
		"s:0 turn: d/a 0-2 2:needle needle",
		"start : old 0-1 2:needle here",
	}
	b.wantFound(m, &FindOptions{Text: "needle"}, append([]string{gone}, rest...)...)
	b.wantFound(m, &FindOptions{Text: "needle", Gone: true}, gone)
	b.wantFound(m, &FindOptions{Text: "NEEDLE"})
	other := []string{"restore : e/b 1-0 3:an other needle", "s:2 turn: e/b 0-1 3:an other needle"}
	b.wantFound(m, &FindOptions{Text: "OTHER", IgnoreCase: true}, other...)
	b.wantFound(m, &FindOptions{Text: "needle", Since: "turn:2"}, append([]string{gone}, rest[:2]...)...)
	b.wantFound(m, &FindOptions{Text: "needle", Since: "@{1 hour ago}", Paths: []string{"mine"}}, gone, rest[4])
	b.wantFound(m, &FindOptions{Text: "needle", Own: true, Paths: []string{"old"}}, rest[1], rest[3])
	b.wantFound(m, &FindOptions{Text: "^an .*e$", Regexp: true}, other...)
	b.wantFound(m, &FindOptions{Text: "needle", Binary: true, Paths: []string{"bin"}},
		"restore : bin 1-0 1:needle\x00", "s:1 turn: bin 0-1 1:needle\x00")
	b.wantFound(m, &FindOptions{Text: "one", AllVersions: true, Paths: []string{"old"}},
		"restore : old 1-1 1:one", "s:1 turn: old 1-1 1:one", "start : old 0-1 1:one")

	for _, o := range []*FindOptions{{Text: ""}, {Text: "a(", Regexp: true}, {Text: "a*", Regexp: true}} {
		for _, err := range m.Find(t.Context(), o) {
			if !errors.Is(err, path.ErrBadPattern) {
				t.Errorf("Find(%+v): %v, want one of the pattern", *o, err)
			}
		}
	}
}

// TestFindWhose: what several sessions may have done is contested, and a turn that has not
// ended is listed with what was seen of it.
func TestFindWhose(t *testing.T) {
	b := newBench(t)
	tools := func(o *Options) { o.ToolWindows = true }
	a, c := b.open("a", tools), b.open("c")
	b.initialize(a)
	b.initialize(c)
	tool := func(m *FileSnapshotManager, id string, fn func()) {
		t.Helper()
		_, err := m.OnToolStart(t.Context(), id)
		fn()
		if err == nil {
			_, err = m.OnToolEnd(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.start(a)
	tool(a, "1", func() { b.write("f", "needle\n") })
	b.write("g", "needle\n") // between the tools: the user
	tool(a, "2", func() { b.write("f", "needle\nneedle\n") })
	tool(a, "3", func() { b.write("f", "needle\n") })
	b.wantFound(a, &FindOptions{Text: "needle"}, "a:0 turn goes on: f 0-1 1:needle", "base offline: g 0-1 1:needle")
	b.start(c)
	tool(a, "4", func() { b.write("h", "needle\n") })
	b.end(a)
	b.end(c)
	b.wantFound(a, &FindOptions{Text: "needle"}, "c:0 contested: h 0-1 1:needle", "a:0 turn: f 0-1 1:needle",
		"a:0 contested: h 0-1 1:needle", "base offline: g 0-1 1:needle")
	d := b.open("d")
	b.write("late", "needle\n")
	b.initialize(d)
	b.wantFound(a, &FindOptions{Text: "needle", Paths: []string{"late"}}, "start offline: late 0-1 1:needle")
}

// TestFindGaps: what was pruned or forgotten is told of, and is not nothing.
func TestFindGaps(t *testing.T) {
	vfstest.NeedGone(t)
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	for i := range 4 {
		b.turn(m, func() { b.write("f", strings.Repeat("needle\n", i+1)) })
	}
	b.turn(m, func() { b.write("secret", "the needle\n") })
	st, ctx := inside.Store(m), t.Context()
	forget, err := retain.PlanForget(ctx, st, &retain.ForgetOptions{Paths: []string{"secret"}})
	if err == nil {
		_, err = forget.Do(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	turns := []string{"s:3 turn: f 3-4 4:needle", "s:2 turn: f 2-3 3:needle", "s:1 turn: f 1-2 2:needle",
		"s:0 turn: f 0-1 1:needle"}
	got, gap := b.found(m, &FindOptions{Text: "needle"})
	if d := cmp.Diff(turns, got); d != "" || !strings.HasPrefix(gap, "1 file not to be read: secret: blob ") {
		t.Errorf("a content forgotten (-want +got), gap %q:\n%s", gap, d)
	}
	b.wantFound(m, &FindOptions{Text: "needle", Paths: []string{"f"}}, turns...)

	p, err := retain.PlanPrune(ctx, st, &retain.Retention{KeepLast: 2, Alone: true})
	if err == nil {
		_, err = p.Do(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, gap = b.found(m, &FindOptions{Text: "needle", Paths: []string{"f"}})
	if d := cmp.Diff(turns[:1], got); d != "" || gap != "4 snapshots pruned" {
		t.Errorf("snapshots pruned (-want +got), gap %q:\n%s", gap, d)
	}
	b.wantFound(m, &FindOptions{Text: "needle", Paths: []string{"f"}, Since: "turn:2"}, turns[0])
}

// TestFindLikeGit: the turns are those of git log -S and -G on the same random histories.
func TestFindLikeGit(t *testing.T) {
	testseed.Sequential(t)
	if _, err := testhistory.Git(".", nil, "version"); err != nil {
		t.Skip("no git")
	}
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { findLikeGit(t, testseed.Rand(t)) })
	}
}

func findLikeGit(t *testing.T, rnd *rand.Rand) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	repo := t.TempDir()
	git := func(in *bytes.Buffer, args ...string) string {
		t.Helper()
		out, err := testhistory.Git(repo, in, args...)
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	git(nil, "init", "-q")
	var in bytes.Buffer
	files := map[string][]string{} // lines
	const turns = 60
	for i := range turns {
		b.turn(m, func() {
			for range rnd.IntN(4) {
				changeFiles(b, rnd, files)
			}
		})
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter u <u@example.com> %d +0000\n", i+1)
		fmt.Fprintf(&in, "data <<end\n%d\nend\ndeleteall\n", i)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			text := linesText(files[name])
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
		}
	}
	git(&in, "fast-import", "--quiet")
	for _, tt := range []struct {
		text string
		o    pickaxe.Options
		args []string
	}{
		{"needle", pickaxe.Options{}, []string{"-Sneedle"}},
		{" 0\nhay", pickaxe.Options{}, []string{"-S 0\nhay"}},
		{"hay", pickaxe.Options{}, []string{"-Shay"}},
		{"^needle [0-3]", pickaxe.Options{Regexp: true}, []string{"-S^needle [0-3]", "--pickaxe-regex"}},
		{"needle", pickaxe.Options{Mode: pickaxe.Lines}, []string{"-Gneedle"}},
		{"[13]$", pickaxe.Options{Regexp: true, Mode: pickaxe.Lines}, []string{"-G[13]$"}},
		{"HAY", pickaxe.Options{IgnoreCase: true, Mode: pickaxe.Lines}, []string{"-GHAY", "-i"}},
	} {
		f, err := m.newFinder(t.Context(), &FindOptions{Text: "x"})
		if err == nil {
			f.opts.AllVersions = tt.o.Mode == pickaxe.Lines // as many lines may be others
			f.pattern, err = pickaxe.Compile(tt.text, tt.o)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		err = f.run(t.Context(), func(found *Found) bool {
			if !slices.Contains(got, found.Turn) {
				got = append(got, found.Turn)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		for line := range strings.Lines(git(nil, append([]string{"log", "main", "--format=%s", "-M"}, tt.args...)...)) {
			var n int
			fmt.Sscan(line, &n)
			want = append(want, n)
		}
		if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
			t.Errorf("%q, git log %q (-git +find):\n%s", tt.text, tt.args, d)
		}
	}
}

// changeFiles changes a file: some lines, its name, or both.
func changeFiles(b *bench, rnd *rand.Rand, files map[string][]string) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 || rnd.IntN(6) == 0 {
		name := fmt.Sprintf("d%d/f%d", rnd.IntN(3), rnd.IntN(1000))
		for range rnd.IntN(30) {
			files[name] = append(files[name], strawOf(rnd))
		}
		b.write(name, linesText(files[name]))
		return
	}
	name := names[rnd.IntN(len(names))]
	lines := slices.Clone(files[name])
	for range rnd.IntN(4) { // none, if only its name changes
		at := rnd.IntN(len(lines) + 1)
		switch rnd.IntN(3) {
		case 0:
			lines = slices.Insert(lines, at, strawOf(rnd))
		case 1:
			lines = slices.Delete(lines, min(at, len(lines)), min(at+1, len(lines)))
		default:
			if len(lines) > 1 { // moved within
				line := lines[0]
				lines = slices.Insert(lines[1:], min(at, len(lines)-1), line)
			}
		}
	}
	switch rnd.IntN(5) {
	case 0:
		b.remove(name)
		delete(files, name)
		if rnd.IntN(3) == 0 {
			return
		}
		name = fmt.Sprintf("d%d/g%d", rnd.IntN(3), rnd.IntN(1000))
	}
	files[name] = lines
	b.write(name, linesText(lines))
}

func strawOf(rnd *rand.Rand) string {
	kind := []string{"needle", "hay", "straw", "grass"}[rnd.IntN(4)]
	return fmt.Sprintf("%s %d %d", kind, rnd.IntN(100000), rnd.IntN(5))
}

func linesText(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
