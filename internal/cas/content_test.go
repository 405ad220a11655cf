package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestCheckContent: in parts, all packs are read once, also if it is interrupted, and
// what is damaged is found in the part that has it.
func TestCheckContent(t *testing.T) {
	withoutGroups(t)
	mem := vfstest.NewMem()
	s := openDamaged(t, mem)
	for i := range 4 {
		commit(t, s, "s", bytes.Repeat(fmt.Appendf(nil, "%d,", i), 1000))
		s.Seal()
	}
	ids, err := s.packIDs()
	if err != nil || len(ids) != 4 {
		t.Fatalf("packs: %x, %v", ids, err)
	}
	all, total, next, err := s.CheckContent(t.Context(), "", 0, nil)
	if len(all) > 0 || total == 0 || next != "" || err != nil {
		t.Fatalf("CheckContent = %v, %d, %q, %v", all, total, next, err)
	}
	f, err := mem.OpenFile(layout.PackName(ids[2]), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const inContent = layout.HeaderSize + 70 // behind the header of its only record
	var b [1]byte
	f.ReadAt(b[:], inContent)
	b[0] ^= 0xff
	f.WriteAt(b[:], inContent)
	f.Close()
	var read int64
	next = ""
	for part := 0; ; part++ {
		var damage []*object.CorruptError
		var n int64
		before := next
		damage, n, next, err = s.CheckContent(t.Context(), before, 1, nil)
		if err != nil || (len(damage) > 0) != (part == 2) {
			t.Errorf("part %d from %q: damage %v, %v; want it in part 2", part, before, damage, err)
		}
		read += n
		if next == "" {
			if part != 3 || read != total {
				t.Errorf("%d parts have %d bytes, want 4 and %d", part+1, read, total)
			}
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, next, err = s.CheckContent(ctx, "", 0, func(string, int) { cancel() })
	if want := fmt.Sprintf("%x", ids[1]); next != want || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: goes on at %q, %v, want %q", next, err, want)
	}
}
