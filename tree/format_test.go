package tree

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

var update = flag.Bool("update", false, "write testdata anew")

// A note names the next n bytes of a sample.
type note struct {
	n    int
	text string
}

// annotate prints bytes in hexadecimal, a note on each line.
func annotate(t *testing.T, b []byte, notes []note) string {
	t.Helper()
	var out strings.Builder
	for _, n := range notes {
		if n.n > len(b) {
			t.Fatalf("%s: %d bytes are left", n.text, len(b))
		}
		fmt.Fprintf(&out, "%-50s %s\n", hex.EncodeToString(b[:n.n]), n.text)
		b = b[n.n:]
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes without a note", len(b))
	}
	return out.String()
}

// sample returns the bytes of a sample of version 1, which are those that this
// version writes: b. With -update it writes them.
func sample(t *testing.T, name string, b []byte, notes []note) []byte {
	t.Helper()
	path := filepath.Join("../testdata/format/v1", name+".hex")
	text := annotate(t, b, notes)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(kept), text); d != "" {
		t.Errorf("%s is encoded otherwise (-want +got):\n%s", name, d)
	}
	var is []byte
	for line := range strings.Lines(string(kept)) {
		digits, _, _ := strings.Cut(line, " ")
		part, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		is = append(is, part...)
	}
	return is
}

func TestFormatPages(t *testing.T) {
	cut := cutName(0)
	id := func(c byte) store.ID { return store.ID{0: c, 31: c} }
	for _, s := range []struct {
		name  string
		kind  store.Kind
		level int
		items []item
		id    string
	}{
		{"page-empty", store.Tree, 0, nil, "14fab6a07a71"},
		{"page", store.Tree, 0, []item{{"bad\xffname", uint16(ModeFile | 0o644), 12, id(1)}, {"dir", uint16(ModeDir | 0o750), 0, id(2)},
			{"link", uint16(ModeSymlink | 0o777), 6, id(3)}}, "4ad953f57ba4"},
		{"page-above", store.Tree, 1, []item{{"a", 0, 40, id(4)}, {cut, 0, 33, id(5)}}, "f583f3dedfd9"},
		{"coverage", store.Coverage, 0, []item{{"big", coverageAttr(vfs.Regular, TooLarge), 1 << 33, store.ID{}}, {"dir", coverageAttr(vfs.Directory, 0), 0, id(6)},
			{"fifo", coverageAttr(vfs.Special, NotFile), 0, store.ID{}}, {"gone", coverageAttr(0, Unreadable), 0, store.ID{}},
			{"node_modules", coverageAttr(vfs.Directory, Ignored), 0, store.ID{}}}, "ae3d57c03d4d"},
		{"../v2/coverage-sparse", store.Coverage, 0, []item{{"all", coverageAttr(vfs.Directory, Sparse), 0, store.ID{}}, {"all-but-others", coverageAttr(vfs.Directory, Sparse), 0, id(6)},
			{"file", coverageAttr(vfs.Regular, Sparse), 0, store.ID{}}, {"link", coverageAttr(vfs.Symlink, Sparse), 0, store.ID{}},
			{"others", coverageAttr(0, Sparse), 0, store.ID{}}, {"part", coverageAttr(vfs.Directory, 0), 0, id(7)}}, "9be21b81383a"},
	} {
		notes := []note{{1, "version"}, {1, "level"}, {2, "0"}, {4, "number of items"}}
		for _, what := range []struct {
			n    int
			text string
		}{{2, "length of the name"}, {2, "attributes"}, {0, "name"}, {8, "size"}, {32, "ID"}} {
			for _, it := range s.items {
				n := what.n
				if n == 0 {
					n = len(it.name)
				}
				notes = append(notes, note{n, fmt.Sprintf("%s of %q", what.text, it.name)})
			}
		}
		valid := validEntry
		if s.kind == store.Coverage {
			valid = validOmission
		}
		b := sample(t, s.name, appendPage(nil, s.level, s.items), notes)
		level, items, err := parsePage(b, true, valid)
		if d := cmp.Diff(s.items, items, cmp.AllowUnexported(item{})); err != nil || level != s.level || len(items)+len(s.items) > 0 && d != "" {
			t.Errorf("%s: level %d, %v, items (-want +got):\n%s", s.name, level, err, d)
		}
		if got := store.Hash(s.kind, b).Short(); got != s.id {
			t.Errorf("%s: ID %s, want %s", s.name, got, s.id)
		}
	}
}

func TestFormatStatCache(t *testing.T) {
	b := sampleCache()
	var notes []note
	for at := 0; at < len(b); {
		notes = append(notes, []note{{8, "magic"}, {4, "version"}, {4, "CRC-32C of the rest of the batch"}, {8, "length of the batch"}, {8, "its offset"},
			{8, "generation"}, {8, "written at, Unix ns"}, {16, "boot"}, {8, "epoch"}, {16, "stamp of git's index"}, {16, "store id"},
			{4, "next number of a directory"}, {4, "packs"}, {16, "what git had taken out"}, {16, "pack id"}, {8, "length"}}...)
		size := int(le.Uint64(b[at+16:]))
		blocks := b[at+batchHeaderSize+24 : at+size]
		for ; len(blocks) > 0; blocks = blocks[block(blocks).size():] {
			blk := block(blocks)
			notes = append(notes, []note{{4, "length of the block"}, {4, "number of the directory"}, {4, "names"}, {4, "pages"}, {4, "flags"},
				{4, "permission bits"}, {8, "inode"}, {8, "device"}, {8, "mtime"}, {8, "ctime"}, {16, "id of the rules"}, {32, "tree"}, {32, "coverage"},
				{4, "length of .gitignore"}, {4, "length of .booignore"}, {4, "length of the names"}, {4, "0"}}...)
			for i := range blk.count() {
				of := " of " + blk.name(i)
				notes = append(notes, []note{{8, "size" + of}, {8, "mtime"}, {8, "ctime"}, {8, "inode"}, {32, "ID"}, {2, "permission bits"}, {1, "kind"},
					{1, "reason"}, {4, "flags"}, {4, "offset of the name"}, {4, "number of the directory"}}...)
			}
			for range blk.leaves() {
				notes = append(notes, []note{{4, "end of the page"}, {4, "entries in it"}, {32, "ID"}}...)
			}
			for i := range blk.count() {
				notes = append(notes, note{len(blk.name(i)), "name"})
			}
			git, boo := blk.files()
			for i, content := range [][]byte{git, boo} {
				if content != nil {
					notes = append(notes, note{len(content), "content of " + patternFiles[i]})
				}
			}
		}
		at += size
	}
	kept := sample(t, "statcache", b, notes)
	c := loadSample(t, kept)
	want := batchHeader{store: sampleStore, generation: 7, time: 3001, boot: [16]byte{1}, epoch: 2, stamp: [16]byte{2}, nextDir: 2,
		packs: map[[16]byte]int64{{3}: 4000}}
	if d := cmp.Diff(want, c.batch, cmp.AllowUnexported(want)); d != "" {
		t.Errorf("batch (-want +got):\n%s", d)
	}
	if c.size != int64(len(kept)) || len(c.blocks) != 2 || !bytes.Equal(c.block(1), sampleBlock(1, nil)) {
		t.Errorf("%d bytes of %d, %d directories", c.size, len(kept), len(c.blocks))
	}
	list, err := c.list(0, "", make(map[uint32]bool))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wantCache, list); d != "" {
		t.Errorf("stat cache (-want +got):\n%s", d)
	}
}

var wantCache = []string{
	`"": 0 100 8 1001 1002 00000000000000000000000000000021 310000000000 000000000000 "x\n" ""`,
	`"": page to 4 of 4: 310000000000`,
	`".gitignore": 0 0 410000000000 {2 2001 2002 200 8 420 1 false}`,
	`"a": 0 1 410000000000 {6 2001 2002 201 8 493 1 false}`,
	`"d": 0 0 410000000000 {0 2001 2002 202 8 493 2 false}`,
	`"d/": 0 101 8 1001 1002 00000000000000000000000000000021 310000000000 000000000000 "" ""`,
	`"d/": page to 0 of 0: 310000000000`,
	`"l": 0 0 410000000000 {1 2001 2002 203 8 511 3 false}`,
	`"x": 1 4 000000000000 {0 2001 2002 204 8 0 1 false}`,
}
