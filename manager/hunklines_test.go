package manager

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/history"
)

// ofLines returns the hunks that wrote lines of a file, and the lines that none wrote.
func (b *bench) ofLines(m *FileSnapshotManager, path string, start, end int) string {
	b.Helper()
	list := b.hunks(m, &HunkRange{Lines: &BlameOptions{Path: path, Start: start, End: end}})
	var words []string
	for _, h := range list.Hunks {
		words = append(words, fmt.Sprintf("%s %s %q", h.By, h.State, h.Text))
	}
	for _, l := range list.Left {
		words = append(words, fmt.Sprintf("%d-%d %s", l.Start, l.End, l.Why))
	}
	return strings.Join(words, ", ")
}

// Hunks are chosen by the lines that they wrote; of all other lines it is said whose they are.
func TestHunksOfLines(t *testing.T) {
	b := newBench(t)
	b.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.initialize(two)
	b.turn(one, func() { b.write("a", "1\n2a\n3\n4\n5\n6\n7\n8\n9a\n") })
	b.turn(two, func() { b.write("a", "1\n2a\n3\n4b\n5\n6\n7\n8\n9a\n") })
	b.write("a", "0\n1\n2a\n3\n4b\n5u\n6\n7\n8\n9a\n")
	b.turn(one, func() { b.write("a", "0\n1\n2a\n3\n4b\n5u\n7\n8c\n9a\n") })
	want := func(m *FileSnapshotManager, path string, start, end int, want string) {
		t.Helper()
		if got := b.ofLines(m, path, start, end); got != want {
			t.Errorf("lines %d to %d of %s are of %s; want %s", start, end, path, got, want)
		}
	}
	want(one, "a", 1, 2, "1-1 not_turn, 2-2 not_turn")
	want(one, "a", 3, 3, `turn:0 clean "-2\n+2a\n"`)
	want(one, "a", 3, 5, `turn:0 clean "-2\n+2a\n", 4-4 not_turn, 5-5 session`)
	want(two, "a", 3, 5, `turn:0 conflict "-4\n+4b\n", 3-3 session, 4-4 not_turn`)
	want(one, "a", 6, 7, "6-6 not_turn, 7-7 not_turn") // between them turn 1 deleted, which wrote none
	want(one, "a", 6, 9, `turn:1 clean "-6\n", turn:1 clean "-8\n+8c\n", turn:0 conflict "-9\n+9a\n", `+
		"6-6 not_turn, 7-7 not_turn")
	b.turn(one, func() { b.write("m", "1\n2\n") })
	want(one, "m", 1, 1, "1-1 made")
	want(one, "m", 1, 2, `turn:2 clean "+1\n+2\n"`)
	b.start(one)
	b.write("m", "1\n2\n3\n")
	want(one, "m", 2, 3, "2-2 made, 3-3 open")
	b.end(one)
	b.turn(one, func() {
		b.remove("a")
		b.write("b", "0\n1\n2a\n3\n4b\n5u\n7\n8c\n9a\n")
	})
	want(one, "b", 3, 3, "3-3 elsewhere")

	for _, bad := range []BlameOptions{{Path: "m", Start: -1, End: 1}, {Path: "m", Start: 2, End: 1},
		{Path: "m", Start: 4, End: 4}, {Path: "none", Start: 1, End: 1}} {
		if _, err := one.Hunks(t.Context(), &HunkRange{Lines: &bad}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, bad := range []HunkRange{{Turns: []string{"0"}}, {Paths: []string{"m"}}, {From: "start"}} {
		bad.Lines = &BlameOptions{Path: "m", Start: 1, End: 1}
		if _, err := one.Hunks(t.Context(), &bad); err == nil {
			t.Errorf("%+v is answered", bad)
		}
	}
}

// What a restore has brought is of who wrote it, and goes with that; parts go rather than
// what they are parts of; pages have all, and what is left comes with the last.
func TestHunksOfLinesThatCameBack(t *testing.T) {
	b := newBench(t)
	b.write("a", "1\n2\n3\n")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1\nx\ny\n2\nz\n3\n") })
	b.turn(m, func() { b.write("a", "1\n2\n3\n") })
	_, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"1"}})
	b.must(err)
	if got, want := b.ofLines(m, "a", 1, 3), `turn:0 clean "+x\n+y\n", 1-1 not_turn`; got != want {
		t.Errorf("of %s, want %s", got, want)
	}
	r := &HunkRange{Lines: &BlameOptions{Path: "a", Start: 1, End: 6}, Limit: 1}
	var ids []string
	for {
		list := b.hunks(m, r)
		for _, h := range list.Hunks {
			ids = append(ids, h.ID)
		}
		if r.Cursor = list.NextCursor; r.Cursor == "" {
			if len(list.Left) != 3 {
				t.Errorf("left %+v", list.Left)
			}
			break
		}
		if list.Left != nil {
			t.Errorf("left %+v, and there is more", list.Left)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("hunks %q", ids)
	}
	res, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"turn:0"}, Hunks: ids})
	if err != nil || len(res.Restored) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if text := b.files()["a"]; text != "1\n2\n3\n" {
		t.Errorf("%q", text)
	}
	if r, err := m.records.Newest("s"); err != nil || r.Kind != history.KindRestore {
		t.Errorf("%+v, %v", r, err)
	}
}
