package manager

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/rollback"
)

var mergeRuns = flag.Int("merge.runs", 40, "sessions of TestMergeContents")

// A writers is the user and a turn, who edit the same texts. Most lines say who wrote them;
// of the others there are few different ones.
type writers struct {
	rng   *rand.Rand
	lines int // that were written
	dull  int // different lines that do not say whose they are
	moves bool
}

func (w *writers) line(who string) string {
	w.lines++
	if w.rng.IntN(4) == 0 {
		return fmt.Sprintf("dull %d\n", w.rng.IntN(w.dull))
	}
	return fmt.Sprintf("%s %d\n", who, w.lines)
}

// edited returns a text after some edits of somebody's. Only a turn moves lines: those
// that the user has moved are the user's.
func (w *writers) edited(text []byte, who string) []byte {
	lines := slices.Collect(strings.Lines(string(text)))
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n"
	}
	fresh := func() string {
		l := w.line(who)
		if len(lines) > 0 && w.rng.IntN(3) == 0 && strings.HasSuffix(lines[w.rng.IntN(len(lines))], "\r\n") {
			l = strings.TrimSuffix(l, "\n") + "\r\n"
		}
		return l
	}
	for range 1 + w.rng.IntN(3) {
		at := w.rng.IntN(len(lines) + 1)
		some := min(len(lines), at+1+w.rng.IntN(4))
		switch k := w.rng.IntN(8); {
		case k < 3 || at == len(lines):
			lines = slices.Insert(lines, at, fresh())
		case k == 3:
			lines = slices.Delete(lines, at, some)
		case k == 4 && who == "turn":
			moved := slices.Clone(lines[at:some])
			lines = slices.Delete(lines, at, some)
			lines = slices.Insert(lines, w.rng.IntN(len(lines)+1), moved...)
		default:
			lines[at] = fresh()
		}
	}
	out := []byte(strings.Join(lines, ""))
	lf := bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n"))
	switch w.rng.IntN(24) {
	case 0:
		return bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))
	case 1:
		return lf
	case 2:
		return bytes.TrimRight(out, "\r\n")
	}
	return out
}

// linesOf counts the lines of files that somebody has written, line ends apart.
func linesOf(list files, who string) map[string]int {
	count := make(map[string]int)
	for _, text := range list {
		for l := range strings.Lines(text) {
			if s := strings.TrimRight(l, "\r\n"); strings.HasPrefix(s, who+" ") {
				count[s]++
			}
		}
	}
	return count
}

// The user and turns edit, and in every second session move, the same files at random, with
// CRLF, without a final line end, between windows of a turn. A restore that merges leaves each line of the user's, and
// none of the turns' where it goes to the start and merges; an undo gives back each byte.
func TestMergeContents(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	first := testseed.Of(t)
	merged, conflicts := 0, 0
	for i := range uint64(*mergeRuns) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) {
			w := &writers{rng: rand.New(rand.NewPCG(first+i, 7)), dull: 1 + int(i%7), moves: i%2 == 1}
			some, others := w.session(t)
			merged, conflicts = merged+some, conflicts+others
		})
	}
	if merged < *mergeRuns || conflicts < *mergeRuns {
		t.Errorf("only %d merged files and %d conflicts in %d sessions", merged, conflicts, *mergeRuns)
	}
}

func (w *writers) session(t *testing.T) (merged, conflicts int) {
	names := []string{"plain", anyName("a\nb"), anyName("\xff\xfe.txt"), "dir/ü", "-n", "con flict"}
	b := newBench(t)
	edit := func(who string) {
		list := b.files()
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if w.rng.IntN(2) == 0 {
				b.write(name, string(w.edited([]byte(list[name]), who)))
			}
			if w.moves && w.rng.IntN(8) == 0 {
				to := []string{"moved", "dir/moved", "other/plain", anyName("a\nb"), "plain"}[w.rng.IntN(5)]
				if _, taken := list[to]; taken {
					continue
				}
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(b.dir, to)), 0o755),
					os.Rename(filepath.Join(b.dir, name), filepath.Join(b.dir, to))); err != nil {
					t.Fatal(err)
				}
				delete(list, name)
				list[to] = ""
			}
		}
	}
	for _, name := range names {
		var text []byte
		for range w.rng.IntN(25) {
			text = append(text, w.line("base")...)
		}
		b.write(name, string(w.edited(text, "base")))
	}
	byTools := w.rng.IntN(3) == 0
	m := b.open("s", func(o *Options) { o.ToolWindows = byTools })
	b.initialize(m)
	o := b.open("other")
	b.initialize(o)
	turn := func() {
		if !byTools {
			edit("turn")
			return
		}
		for tool := range 1 + w.rng.IntN(3) {
			edit("user")
			if _, err := m.OnToolStart(t.Context(), fmt.Sprint(tool)); err != nil {
				t.Fatal(err)
			}
			edit("turn")
			if _, err := m.OnToolEnd(t.Context(), fmt.Sprint(tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 + w.rng.IntN(5) {
		switch w.rng.IntN(6) {
		case 0, 1:
			edit("user")
		case 2:
			b.turn(o, func() { edit("other") })
		default:
			b.turn(m, turn)
		}
	}
	for range 3 {
		edit("user")
		if w.rng.IntN(2) == 0 {
			b.initialize(m) // a look
		}
		before := b.files()
		target := []string{"start", "@~1", "@~2", "turn:0", "revert"}[w.rng.IntN(5)]
		var r *RestoreResult
		var err error
		if target == "revert" {
			turns := []string{fmt.Sprint(w.rng.IntN(3)), fmt.Sprint(w.rng.IntN(3))}
			r, err = m.Revert(t.Context(), &RevertOptions{Turns: turns[w.rng.IntN(2):]})
		} else {
			r, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: target, OnDirty: rollback.Merge})
		}
		if err != nil && !strings.Contains(err.Error(), "internal error") { // there is no such turn
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		merged, conflicts = merged+len(r.Merged), conflicts+len(r.Conflicts)
		after := b.files()
		for name, text := range before {
			if slices.Contains(r.Skipped, name) && after[name] != text {
				t.Errorf("restore %s: %q was skipped, and is not as before", target, name)
			}
		}
		for _, who := range []string{"user", "other"} {
			has := linesOf(after, who)
			for l, n := range linesOf(before, who) {
				// a turn may have moved it, and one of two files is in conflict
				if has[l] < n && (!w.moves || r.IsComplete()) {
					t.Errorf("restore %s: the line %q is lost:\n%s\n%+v", target, l, cmp.Diff(before, after), r.Items)
				}
			}
		}
		if lines := linesOf(after, "turn"); target == "start" && r.IsComplete() && len(lines) > 0 {
			t.Errorf("restore %s: turns' lines %v are there:\n%s\n%+v", target, lines, cmp.Diff(before, after), r.Items)
		}
		if len(r.Restored)+len(r.Deleted) == 0 {
			continue
		}
		if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
			t.Fatal(err)
		}
		if got := b.files(); !maps.Equal(got, before) {
			t.Errorf("undo of restore %s (-want +got):\n%s", target, cmp.Diff(before, got))
		}
	}
	return merged, conflicts
}
