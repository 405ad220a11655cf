package trees

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testformat"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func TestFormatPages(t *testing.T) {
	cut := cutName(0)
	id := func(c byte) store.ID { return store.ID{0: c, 31: c} }
	for _, s := range []struct {
		name  string
		kind  object.Kind
		level int
		items []Item
		id    string
	}{
		{"page-empty", object.Tree, 0, nil, "14fab6a07a71"},
		{"page", object.Tree, 0, []Item{
			{"bad\xffname", uint16(tree.ModeFile | 0o644), 12, id(1)},
			{"dir", uint16(tree.ModeDir | 0o750), 0, id(2)},
			{"link", uint16(tree.ModeSymlink | 0o777), 6, id(3)},
		}, "4ad953f57ba4"},
		{"page-above", object.Tree, 1, []Item{{"a", 0, 40, id(4)}, {cut, 0, 33, id(5)}}, "f583f3dedfd9"},
		{"coverage", object.Coverage, 0, []Item{
			{"big", CoverageAttr(vfs.Regular, TooLarge), 1 << 33, store.ID{}},
			{"dir", CoverageAttr(vfs.Directory, 0), 0, id(6)},
			{"fifo", CoverageAttr(vfs.Special, NotFile), 0, store.ID{}},
			{"gone", CoverageAttr(0, Unreadable), 0, store.ID{}},
			{"node_modules", CoverageAttr(vfs.Directory, Ignored), 0, store.ID{}},
		}, "ae3d57c03d4d"},
		{"../v2/coverage-sparse", object.Coverage, 0, []Item{
			{"all", CoverageAttr(vfs.Directory, Sparse), 0, store.ID{}},
			{"all-but-others", CoverageAttr(vfs.Directory, Sparse), 0, id(6)},
			{"file", CoverageAttr(vfs.Regular, Sparse), 0, store.ID{}},
			{"link", CoverageAttr(vfs.Symlink, Sparse), 0, store.ID{}},
			{"others", CoverageAttr(0, Sparse), 0, store.ID{}},
			{"part", CoverageAttr(vfs.Directory, 0), 0, id(7)},
		}, "9be21b81383a"},
	} {
		notes := []string{"1 version", "1 level", "2 0", "4 number of items"}
		for _, what := range []struct {
			n    int
			text string
		}{{2, "length of the name"}, {2, "attributes"}, {0, "name"}, {8, "size"}, {32, "ID"}} {
			for _, it := range s.items {
				n := what.n
				if n == 0 {
					n = len(it.Name)
				}
				notes = append(notes, fmt.Sprintf("%d %s of %q", n, what.text, it.Name))
			}
		}
		valid := validEntry
		if s.kind == object.Coverage {
			valid = validOmission
		}
		b := testformat.Sample(t, s.name, appendPage(nil, s.level, s.items), notes)
		level, items, err := ParsePage(b, true, valid)
		if d := cmp.Diff(s.items, items, cmp.AllowUnexported(Item{})); err != nil || level != s.level ||
			len(items)+len(s.items) > 0 && d != "" {
			t.Errorf("%s: level %d, %v, items (-want +got):\n%s", s.name, level, err, d)
		}
		if got := object.Hash(s.kind, b).Short(); got != s.id {
			t.Errorf("%s: ID %s, want %s", s.name, got, s.id)
		}
	}
}
