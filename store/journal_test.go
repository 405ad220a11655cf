package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// journalOf makes a disk with n commits of sessions that repeat, and returns
// where their frames begin in the one segment, the state first, the end last.
func journalOf(t *testing.T, n int) (disk *vfs.Mem, acks []acked, offs []int) {
	t.Helper()
	disk = vfs.NewMem()
	err := session(t.Context(), disk, func(s *Store) error {
		for i := range n {
			acks = append(acks, commit(t, s, fmt.Sprint("session ", i%2), fmt.Append(nil, "content ", i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return disk, acks, frameOffsets(t, disk, 1)
}

func frameOffsets(t *testing.T, disk *vfs.Mem, seg uint64) []int {
	t.Helper()
	j := newJournal(disk, [16]byte{})
	found, err := j.readSegment(seg)
	if err != nil || len(found.damage) > 0 {
		t.Fatal(found.damage, err)
	}
	var offs []int
	for _, f := range found.list {
		offs = append(offs, int(f.off))
	}
	return append(offs, int(found.end))
}

// The last frame, cut anywhere, is absent. The next commit takes its place,
// and what was there is in quarantine.
func TestTornTail(t *testing.T) {
	disk, acks, offs := journalOf(t, 3)
	last, end := offs[len(offs)-2], offs[len(offs)-1]
	whole, err := vfs.ReadFile(disk, segmentName(1))
	if err != nil {
		t.Fatal(err)
	}
	for cut := last; cut < end; cut++ {
		for name, tear := range map[string]func(b []byte) []byte{
			"cut":     func(b []byte) []byte { return b[:cut] },
			"zeros":   func(b []byte) []byte { return append(b[:cut], make([]byte, end-cut)...) },
			"garbage": func(b []byte) []byte { return append(b[:cut], random(300, 9)...) },
		} {
			torn := disk.AfterCrash(nil)
			edit(t, torn, segmentName(1), tear)
			tail, err := vfs.ReadFile(torn, segmentName(1))
			if err != nil {
				t.Fatal(err)
			}
			if tail = tail[last:]; bytes.Equal(tail, whole[last:]) {
				continue // zeros where zeros were
			}
			verify(t, torn, acks[:2], 0)
			kept := names(t, torn, "quarantine", "")
			if len(tail) == 0 && len(kept) == 0 {
				continue
			}
			if len(kept) != 1 {
				t.Fatalf("%s at %d: quarantine has %q, want one file", name, cut-last, kept)
			}
			if b, err := vfs.ReadFile(torn, kept[0]); err != nil || !bytes.Equal(b, tail) {
				t.Errorf("%s at %d: quarantine has %d bytes, want %d, %v", name, cut-last, len(b), len(tail), err)
			}
			if n := len(names(t, torn, "journal", ".log")); n != 1 {
				t.Errorf("%s at %d: %d segments, want 1", name, cut-last, n)
			}
		}
		if t.Failed() {
			t.Fatalf("torn at byte %d of the last frame", cut-last)
		}
	}
}

// An earlier frame is damage, wherever it is hit: reported at its place, and
// its snapshot is the only one lost. Writing goes on in a new segment.
func TestDamagedFrame(t *testing.T) {
	disk, acks, offs := journalOf(t, 3)
	for i, off := range offs[:len(offs)-2] { // the state, and all snapshots but the last
		for at := off; at < offs[i+1]; at++ {
			hurt := disk.AfterCrash(nil)
			edit(t, hurt, segmentName(1), flip(at))
			left := acks
			if i > 0 {
				left = slices.Concat(acks[:i-1], acks[i:])
			}
			s := openDamaged(t, hurt)
			found := damageOf(t, s)
			if len(found) != 1 || found[0].Path != segmentName(1) || found[0].Off != int64(off) {
				t.Errorf("Check found %v, want damage at offset %d", found, off)
			}
			verify(t, hurt, left, 1)
			if n := len(names(t, hurt, "journal", ".log")); n != 2 {
				t.Errorf("%d segments, want 2", n)
			}
			if t.Failed() {
				t.Fatalf("byte %d of frame %d is damaged", at-off, i)
			}
		}
	}
}

// The start of a segment restates what holds from before. If that is lost,
// the segments before still say it: no pack may be taken for shorter.
func TestDamagedStart(t *testing.T) {
	setLimits(t, never, never, 500)
	disk, acks := vfs.NewMem(), []acked(nil)
	dead, err := OpenFS(t.Context(), disk, &Options{}) // keeps a pack of its own
	if err != nil {
		t.Fatal(err)
	}
	acks = append(acks, commit(t, dead, "dead", large))
	if err := session(t.Context(), disk, func(s *Store) error {
		for i := range 4 {
			acks = append(acks, commit(t, s, "live", fmt.Append(nil, "content ", i)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	segs := names(t, disk, "journal", ".log")
	if len(segs) != 2 {
		t.Fatalf("%d segments, want 2", len(segs))
	}
	offs := frameOffsets(t, disk, 2)
	for name, hurt := range map[string]struct {
		fn   func([]byte) []byte
		lost int // snapshots at the end
	}{
		"header":             {flip(10), 0},
		"checksum of header": {flip(62), 0},
		"state":              {flip(offs[0] + 40), 0},
		"end at the state":   {func(b []byte) []byte { return b[:offs[0]+10] }, len(offs) - 2},
		"end at the header":  {func(b []byte) []byte { return b[:fileHeaderSize] }, len(offs) - 2},
		"half a header":      {func(b []byte) []byte { return b[:20] }, len(offs) - 2},
		"empty":              {func(b []byte) []byte { return nil }, len(offs) - 2},
		"zeros":              {func(b []byte) []byte { return make([]byte, len(b)) }, len(offs) - 2},
	} {
		t.Run(name, func(t *testing.T) {
			left := disk.AfterCrash(nil)
			edit(t, left, segs[1], hurt.fn)
			s := openDamaged(t, left)
			found := damageOf(t, s)
			if len(found) == 0 || found[0].Path != segs[1] {
				t.Errorf("Check found %v, want damage in %s", found, segs[1])
			}
			verify(t, left, acks[:len(acks)-hurt.lost], len(found))
		})
	}
}

// A record that is damaged takes its own snapshot only, also where it was the
// one that named the pack of another process.
func TestDamagedFrameOfTheOther(t *testing.T) {
	disk := vfs.NewMem()
	a, b := openDamaged(t, disk), openDamaged(t, disk)
	commit(t, a, "a", small, large)
	at := frameOffsets(t, disk, 1)[1]
	second := commit(t, b, "b", large) // found in the pack of a
	if n := len(names(t, disk, "packs", ".pack")); n != 1 {
		t.Fatalf("%d packs, want 1: the object was not found", n)
	}
	left := disk.AfterCrash(nil)
	edit(t, left, segmentName(1), flip(at+40))
	verify(t, left, []acked{second}, 1)
}

func TestMissingSegment(t *testing.T) {
	setLimits(t, never, never, 1)
	disk, acks, _ := journalOf(t, 3)
	if err := disk.Remove(segmentName(2)); err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	found := damageOf(t, s)
	if len(found) != 1 || found[0].Path != segmentName(2) {
		t.Errorf("Check found %v, want segment 2 missing", found)
	}
	checkAcked(t, s, []acked{acks[0], acks[2]})
}

// A sync that failed ends the segment: the next restates what the last
// promise does not cover, and each snapshot is listed once.
func TestFailedJournalSync(t *testing.T) {
	disk := vfs.NewMem()
	fault := &vfs.Fault{At: -1, Err: syscall.EIO}
	var failNext bool
	fault.Trace = func(op, name string) {
		if failNext && op == "Sync" && strings.HasPrefix(name, "journal/") {
			fault.At, failNext = fault.Count(), false
		}
	}
	s, err := OpenFS(t.Context(), vfs.WithFault(disk, fault), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	acks := []acked{commit(t, s, "a", small), commit(t, s, "b", large)}
	failNext = true
	if _, err := tryCommit(t.Context(), s, "c", []byte("c")); !errors.Is(err, syscall.EIO) {
		t.Errorf("commit whose journal sync fails: %v, want EIO", err)
	}
	acks = append(acks, commit(t, s, "d", []byte("d")))
	if n := len(names(t, disk, "journal", ".log")); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
	checkAcked(t, s, acks)
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	// What the old segment says after its last promise may be gone.
	crashed := disk.AfterCrash(nil)
	verify(t, crashed, acks, 0)
	offs := frameOffsets(t, disk, 1)
	edit(t, disk, segmentName(1), func(b []byte) []byte { return b[:offs[3]] }) // the record that was not synced
	verify(t, disk, acks, 0)
}

// A journal that this version does not know in whole is refused, but for
// fields that say that they may be skipped.
func TestUnknownRecords(t *testing.T) {
	tree := Hash(Blob, []byte("content 0"))
	body := slices.Clip(appendField(nil, tagTree, tree[:]))
	for name, test := range map[string]struct {
		kind uint8
		body []byte
		ok   bool
	}{
		"kind 5":                     {5, body, false},
		"kind 255":                   {255, nil, false},
		"field 17 of a snapshot":     {frameSnapshot, appendField(body, 17, nil), false},
		"field 66 of a snapshot":     {frameSnapshot, appendField(body, 66, []byte("x")), false},
		"field 127 of a snapshot":    {frameSnapshot, appendField(body, 127, nil), false},
		"field 128 of a snapshot":    {frameSnapshot, appendField(body, 128, []byte("x")), true},
		"field 255 of a snapshot":    {frameSnapshot, appendField(body, 255, nil), true},
		"field 66 of pack lengths":   {framePacks, appendField(nil, 66, nil), false},
		"field 128 of pack lengths":  {framePacks, appendField(nil, 128, nil), true},
		"field 70 of a state":        {frameState, appendField(nil, 70, nil), false},
		"field 200 of a state":       {frameState, appendField(nil, 200, []byte("x")), true},
		"epoch in a snapshot":        {frameSnapshot, appendField(body, tagEpoch, make([]byte, 8)), false},
		"tree field of pack lengths": {framePacks, body, false},
	} {
		disk, acks, offs := journalOf(t, 1)
		f := frame{kind: test.kind, seq: 2, durable: uint64(offs[len(offs)-1]), body: test.body}
		appendTo(t, disk, segmentName(1), f.append(nil))
		s, err := OpenFS(t.Context(), disk, &Options{})
		if test.ok {
			if err != nil {
				t.Errorf("%s: OpenFS: %v", name, err)
				continue
			}
			checkAcked(t, s, acks)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			verify(t, disk, acks, 0)
		} else if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: OpenFS: %v, want ErrFormat", name, err)
		}
	}
}

// A record too long to be read again must not be written.
func TestRecordTooLong(t *testing.T) {
	disk := vfs.NewMem()
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Commit(t.Context(), &Snapshot{Label: strings.Repeat("x", maxFrameBody)}, 0); err == nil {
		t.Error("Commit of a record that is too long succeeds")
	}
	label := strings.Repeat("x", maxFrameBody-100)
	if err := w.Commit(t.Context(), &Snapshot{Label: label}, 0); err != nil {
		t.Errorf("Commit of a record that just fits: %v", err)
	}
	again := openMem(t, disk.AfterCrash(nil))
	if head, err := again.Newest(t.Context(), "", ""); err != nil || head.Label != label {
		t.Errorf("Newest: %v", err)
	}
}

// With a segment per few commits, sessions are found in old segments, by the
// process that wrote them as by others.
func TestManySegments(t *testing.T) {
	setLimits(t, never, never, 700)
	disk := vfs.NewMem()
	writer, reader := openMem(t, disk), openMem(t, disk)
	var acks []acked
	for i := range 100 {
		acks = append(acks, commit(t, writer, fmt.Sprint("session ", i*i%37), fmt.Append(nil, "content ", i)))
		if i%10 == 0 {
			checkAcked(t, reader, acks)
		}
	}
	if n := len(names(t, disk, "journal", ".log")); n < 20 {
		t.Errorf("%d segments, want 20 or more", n)
	}
	newest := make(map[string]uint64)
	for _, a := range acks {
		newest[a.session] = a.seq
	}
	for _, s := range []*Store{writer, reader, openMem(t, disk), openMem(t, disk.AfterCrash(nil))} {
		checkAcked(t, s, acks)
		if n := len(snapshotsOf(t, s)); n != len(acks) {
			t.Errorf("%d snapshots, want %d", n, len(acks))
		}
		for session, seq := range newest {
			if head, err := s.Newest(t.Context(), "", session); err != nil || head.Seq != seq {
				t.Errorf("Newest(%q) = %+v, %v; want %d", session, head, err, seq)
			}
		}
		if _, err := s.Newest(t.Context(), "", "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Newest of no session: %v, want ErrNotFound", err)
		}
	}
}

// Readers see commits in order and whole while others write and rotate.
func TestConcurrentRefresh(t *testing.T) {
	setLimits(t, never, 2<<10, 900)
	disk := vfs.NewMem()
	stores := []*Store{openMem(t, disk), openMem(t, disk), openMem(t, disk)}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for i, s := range stores {
		for k := range 2 {
			writers.Go(func() {
				for n := range 25 {
					if _, err := tryCommit(t.Context(), s, fmt.Sprint(i, k), fmt.Append(nil, i, k, n), random(200, byte(n))); err != nil {
						t.Errorf("commit: %v", err)
						return
					}
				}
			})
			readers.Go(func() {
				var last uint64
				for {
					select {
					case <-stop:
						return
					default:
					}
					head, err := s.Newest(t.Context(), "", fmt.Sprint((i+1)%3, k))
					if errors.Is(err, ErrNotFound) && last == 0 {
						continue
					}
					if err != nil || head.Seq < last {
						t.Errorf("Newest = %+v, %v after %d", head, err, last)
						return
					}
					last = head.Seq
					if _, err := s.Get(t.Context(), Blob, head.Tree); err != nil {
						t.Errorf("Get of the tree of snapshot %d: %v", head.Seq, err)
						return
					}
					for _, err := range s.Snapshots(t.Context()) {
						if err != nil {
							t.Errorf("Snapshots: %v", err)
							return
						}
						break
					}
				}
			})
		}
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if n := len(snapshotsOf(t, stores[0])); n != 150 {
		t.Errorf("%d snapshots, want 150", n)
	}
}
