package capture

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testformat"
)

func TestFormatStatCache(t *testing.T) {
	b := sampleCache()
	var notes []string
	for at := 0; at < len(b); {
		notes = append(notes, []string{"8 magic", "4 version", "4 CRC-32C of the rest of the batch",
			"8 length of the batch", "8 its offset",
			"8 generation", "8 written at, Unix ns", "16 boot", "8 epoch", "16 stamp of git's index", "16 store id",
			"4 next number of a directory", "4 packs", "16 what git had taken out", "16 pack id", "8 length"}...)
		size := int(le.Uint64(b[at+16:]))
		blocks := b[at+batchHeaderSize+24 : at+size]
		for ; len(blocks) > 0; blocks = blocks[block(blocks).size():] {
			blk := block(blocks)
			notes = append(notes, []string{"4 length of the block", "4 number of the directory", "4 names", "4 pages",
				"4 flags",
				"4 permission bits", "8 inode", "8 device", "8 mtime", "8 ctime",
				"16 id of the rules", "32 tree", "32 coverage",
				"4 length of .gitignore", "4 length of .booignore", "4 length of the names", "4 0"}...)
			for i := range blk.count() {
				of := " of " + blk.name(i)
				notes = append(notes, []string{"8 size" + of, "8 mtime", "8 ctime", "8 inode", "32 ID",
					"2 permission bits", "1 kind",
					"1 reason", "4 flags", "4 offset of the name", "4 number of the directory"}...)
			}
			for range blk.leaves() {
				notes = append(notes, []string{"4 end of the page", "4 entries in it", "32 ID"}...)
			}
			for i := range blk.count() {
				notes = append(notes, fmt.Sprint(len(blk.name(i)), " name"))
			}
			git, boo := blk.files()
			for i, content := range [][]byte{git, boo} {
				if content != nil {
					notes = append(notes, fmt.Sprint(len(content), " content of "+patternFiles[i]))
				}
			}
		}
		at += size
	}
	kept := testformat.Sample(t, "statcache", b, notes)
	c := loadSample(t, kept)
	want := batchHeader{store: sampleStore, generation: 7, time: 3001, boot: [16]byte{1}, epoch: 2,
		stamp: [16]byte{2}, nextDir: 2,
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
