package sessionlog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs/vfstest"
)

func TestProblems(t *testing.T) {
	line := func(id, parent string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%q}`, id, parent) + "\n"
	}
	fsys := vfstest.NewMem()
	writeMem(t, fsys, "s", headerV3+line("late", "p")+line("o", "gone")+line("o", "late"))
	f, err := OpenFS(t.Context(), fsys, "s")
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want ...string) {
		t.Helper()
		list, total := f.Problems()
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%d %s", p.Line, p.Reason))
		}
		if diff := cmp.Diff(want, got); diff != "" || total != len(want) {
			t.Errorf("%s: %d problems, -want +got\n%s", when, total, diff)
		}
	}
	check("at first", `2 entry "late": its parent "p" is missing`, `4 entry "o" is there twice; the later one counts`)
	appendMem(t, fsys, "s", line("p", "q"))
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after the parent came", `4 entry "o" is there twice; the later one counts`, `5 entry "p": its parent "q" is missing`)

	var log strings.Builder
	for i := range 300 {
		log.WriteString("no entry\n" + line(fmt.Sprint(i), "gone"))
	}
	appendMem(t, fsys, "s", log.String())
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, total := f.Problems(); len(list) != maxProblems || len(f.r.noted) != maxProblems || total != 602 {
		t.Errorf("Problems: %d of %d, want %d of 602", len(list), total, maxProblems)
	}
}
