package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/explain"
)

// turn has a turn write files.
func (w *world) turn(files ...string) {
	w.Helper()
	w.must("turn_start", `,"ownLog":true`)
	for i := 0; i < len(files); i += 2 {
		w.write(files[i], files[i+1])
	}
	w.must("turn_end", `,"ownLog":true`)
}

// TestPlan: a preview shows what each file would be, merged with what the user has changed, and
// that is what is done, or nothing.
func TestPlan(t *testing.T) {
	const before, after = "1\n2\n3\n4\n5\n6\n7\n", "one\n2\n3\n4\n5\n6\n7\n"
	for _, verb := range []string{"revert", "restore"} {
		w := newWorld(t)
		w.write("a", before)
		w.turn("a", after, "new", "x\n")
		w.write("a", after+"the user's\n")
		about := `,"ownLog":true,"turns":["turn:0"]`
		if verb == "restore" {
			about = `,"ownLog":true,"target":"@~1"`
		}
		m := w.must(verb+"_preview", about+`,"diffs":true,"context":-1`)
		diffs := m["diffs"].([]any)
		if len(diffs) != 2 {
			t.Fatalf("%s: %v", verb, m)
		}
		a, gone := diffs[0].(map[string]any), diffs[1].(map[string]any)
		if text := a["unifiedDiff"].(string); a["path"] != "a" || a["added"] != 1.0 ||
			!strings.HasSuffix(text, "\n-one\n+1\n") {
			t.Errorf("%s: of a: %v", verb, a)
		}
		if gone["path"] != "new" || gone["action"] != "deleted" ||
			!strings.Contains(gone["unifiedDiff"].(string), "\n-x\n") {
			t.Errorf("%s: of new: %v", verb, gone)
		}
		plan := fmt.Sprintf(`%s,"plan":%q`, about, m["plan"])
		w.write("a", after+"the user's\nand more\n")
		answer, err := w.ask(verb, plan)
		if explain.Of(err) != explain.OtherPlan || answer["plan"] == m["plan"] || answer["entries"] == nil {
			t.Errorf("%s of another plan: %v, %v", verb, answer, err)
		}
		if b, _ := os.ReadFile(filepath.Join(w.dir, "a")); string(b) != after+"the user's\nand more\n" {
			t.Errorf("%s of another plan has written %q", verb, b)
		}
		w.must(verb, fmt.Sprintf(`%s,"plan":%q`, about, answer["plan"]))
		if b, _ := os.ReadFile(filepath.Join(w.dir, "a")); string(b) != before+"the user's\nand more\n" {
			t.Errorf("%s has left %q", verb, b)
		}

		m = w.must("undo", `,"ownLog":true,"preview":true,"diffs":true`)
		if len(m["diffs"].([]any)) != 2 || m["preview"] != true {
			t.Errorf("%s: preview of undo: %v", verb, m)
		}
		w.write("a", "all is another\n")
		_, err = w.ask("undo", fmt.Sprintf(`,"ownLog":true,"plan":%q`, m["plan"]))
		if explain.Of(err) != explain.OtherPlan {
			t.Errorf("undo of another plan: %v", err)
		}
	}
}

// TestNewestFirst: what is listed newest first is what is listed oldest first.
func TestNewestFirst(t *testing.T) {
	w := newWorld(t)
	for i := range 7 {
		w.turn(fmt.Sprint("f", i), "x", "a", fmt.Sprint(i))
	}
	list := func(fields string) (rows []any) {
		for cursor := ""; ; {
			m := w.must("get_snapshots", fmt.Sprintf(`,"ownLog":true,"limit":3,"cursor":%q%s`, cursor, fields))
			rows = append(rows, m["snapshots"].([]any)...)
			next, more := m["nextCursor"].(string)
			if cursor = next; !more {
				return rows
			}
		}
	}
	want, got := list(""), list(`,"newestFirst":true`)
	slices.Reverse(want)
	if len(got) < 8 || !reflect.DeepEqual(got, want) {
		t.Errorf("newest first: %v\nwant %v", got, want)
	}
	if one := list(`,"newestFirst":true,"paths":["f3"]`); len(one) != 1 || one[0].(map[string]any)["turnIndex"] != 3.0 {
		t.Errorf("what has changed f3: %v", one)
	}
	if all := list(`,"newestFirst":true,"paths":["a"]`); len(all) != 7 {
		t.Errorf("what has changed a: %v", all)
	}
}

// TestDetail: what is said of the files of a turn is less, and the same.
func TestDetail(t *testing.T) {
	w := newWorld(t)
	w.turn("a", "1\n2\n", "b", "3\n")
	files := func(detail string) (rows []map[string]any) {
		m := w.must("get_turn_diff", fmt.Sprintf(`,"ownLog":true,"limit":9000,"detail":%q`, detail))
		for _, row := range m["files"].([]any) {
			rows = append(rows, row.(map[string]any))
		}
		return rows
	}
	all, counts, names := files("diffs"), files("counts"), files("names")
	for i := range all {
		for _, row := range []map[string]any{all[i], counts[i]} {
			if row["added"] != []float64{2, 1}[i] {
				t.Errorf("lines: %v", row)
			}
		}
		if all[i]["unifiedDiff"] == "" || counts[i]["unifiedDiff"] != "" || names[i]["unifiedDiff"] != "" ||
			names[i]["added"] != 0.0 || names[i]["newSize"] != []float64{4, 2}[i] {
			t.Errorf("%v\n%v\n%v", all[i], counts[i], names[i])
		}
		for _, field := range []string{"path", "status", "newHash", "owner"} {
			if all[i][field] != names[i][field] || all[i][field] != counts[i][field] {
				t.Errorf("%s: %v, %v, %v", field, all[i][field], counts[i][field], names[i][field])
			}
		}
	}
	if _, err := w.ask("get_turn_diff", `,"detail":"all"`); explain.Of(err) != explain.BadRequest {
		t.Errorf("detail all: %v", err)
	}
}
