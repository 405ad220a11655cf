package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// SegmentSize is where a journal segment ends and the next begins. Opening a
// store reads the newest segment whole: 1 MiB is some 4,000 snapshots and
// costs less than a millisecond.
//
// A variable, so that tests reach it sooner.
var SegmentSize int64 = 1 << 20

// A Journal is the append-only record of all snapshots, and the only commit
// point of the store: what no whole frame names does not exist.
//
// Appending is done under the lock on locks/journal. Reading takes no lock:
// an incomplete frame at the end is taken as absent.
//
// The methods are not safe for concurrent use; Store.jmu guards the journal.
type Journal struct {
	Fsys  vfs.FS
	Store [16]byte
	There func() error // whether the store still is where Fsys looks for it; nil: it is

	Seg    uint64   // number of the newest segment, from 1; 0: none yet
	listed uint64   // what it was when closedSegs was made
	Gone   uint64   // number of the last segment that is known to have been there; more than seg: it is missing
	f      vfs.File // that segment
	at     vfs.Stat // of f, as of the last scan
	end    int64    // where its last whole frame ends
	synced int64    // up to where this process knows it durable
	unsure int64    // up to where all behind synced is its own
	Broken string   // why nothing may be appended to this segment; "" if it may
	closed bool

	Seq  uint64 // number of the last record
	Skip uint64 // the last one that was given out, as far as others know: none is given twice
	Ledger
	Packs  map[[16]byte]int64 // durable length of each unsealed pack
	heads  map[HeadKey]*store.Snapshot
	Damage []*object.CorruptError

	base       uint64                    // number of the last record before the newest segment
	ClosedSegs []uint64                  // the segments before the newest, as of the last refresh, ascending
	bare       []uint64                  // those of them that were seen without a summary
	recent     []*store.Snapshot         // of the newest segment, by Seq
	Older      map[uint64]*closedSegment // what was needed of the others
	inMemory   []uint64                  // those of them whose content is kept, in the order of reading

	again   map[uint64]uint64 // records that closed segments say again, and the last that does
	againTo uint64            // the last that was read for it
}

func New(fsys vfs.FS, of [16]byte) *Journal {
	return &Journal{Fsys: fsys, Store: of, Packs: make(map[[16]byte]int64),
		heads: make(map[HeadKey]*store.Snapshot), Older: make(map[uint64]*closedSegment)}
}

// A HeadKey names a line of snapshots: one conversation in one directory.
type HeadKey struct{ Worktree, Session string }

// AnySession asks [Store.Newest] for a worktree's newest snapshot, whosever it
// is. No session has this name.
const AnySession = "\x00"

// Segments returns the numbers of all segments, ascending, and the number of
// the last one that is known to have been there: what has a summary was followed
// by another.
func (j *Journal) Segments() (segs []uint64, last uint64, err error) {
	segs, _, last, err = j.names()
	return segs, last, err
}

// names is Segments, and returns of which segments there are summaries.
func (j *Journal) names() (segs []uint64, sums map[uint64]bool, last uint64, err error) {
	for range 2 {
		names, err := j.Fsys.ReadDir("journal")
		if err != nil {
			return nil, nil, 0, err
		}
		segs, sums, last = nil, make(map[uint64]bool), 0
		for _, name := range names {
			base, kind, _ := strings.Cut(name, ".")
			n, err := strconv.ParseUint(base, 10, 63)
			switch {
			case err != nil || n == 0:
			case kind == "log" && layout.SegmentName(n) == "journal/"+name:
				segs = append(segs, n)
				last = max(last, n)
			case kind == "sum" && layout.SummaryName(n) == "journal/"+name:
				sums[n] = true
				last = max(last, n+1)
			}
		}
		slices.Sort(segs)
		if len(segs) > 0 && last == segs[len(segs)-1] {
			break
		}
		// It may have got its name while the others were listed: then it is
		// in a list that begins now.
	}
	return segs, sums, last, nil
}

// Refresh reads what was appended since the last time, by anyone.
func (j *Journal) Refresh() error {
	if j.closed {
		return layout.ErrClosed
	}
	if j.There != nil {
		if err := j.There(); err != nil {
			return err
		}
	}
	same, err := j.upToDate()
	if err == nil && !same {
		err = j.list()
	}
	if err != nil || j.f == nil {
		return err
	}
	frames, err := j.Scan(j.f, layout.SegmentName(j.Seg), j.end)
	if err != nil {
		return err
	}
	if j.end == layout.HeaderSize && len(frames.Damage) > 0 {
		// What holds from before may be what is damaged.
		if err := j.readEarlier(j.ClosedSegs); err != nil {
			return err
		}
		j.base = j.Seq
	}
	for _, f := range frames.List {
		if f.Off == layout.HeaderSize {
			j.base = f.Seq
			if f.Kind == FrameState {
				clear(j.Packs) // it names all that count
			}
		}
		s, err := j.apply(f.Frame)
		if err != nil {
			return fmt.Errorf("%s: %w", layout.SegmentName(j.Seg), err)
		}
		j.noteRecent(s)
	}
	j.at, j.end = frames.at, frames.End
	j.Seq = max(j.Seq, frames.hurt) // whoever has recorded it was told its number
	if len(frames.Damage) > 0 {
		// The segment is closed and kept as it is; what it still says
		// is restated at the start of the next.
		j.Broken = "damaged"
		j.Damage = append(j.Damage, frames.Damage...)
	}
	return nil
}

// list takes in which segments there are, and opens the newest.
func (j *Journal) list() error {
	segs, sums, last, err := j.names()
	if err != nil {
		return err
	}
	j.Gone = max(j.Gone, last, j.Seg)
	j.ClosedSegs = segs[:max(len(segs)-1, 0)]
	j.bare = slices.DeleteFunc(slices.Clone(j.ClosedSegs), func(seg uint64) bool { return sums[seg] })
	if len(segs) > 0 && segs[len(segs)-1] != j.Seg {
		err = j.openSegment(segs[len(segs)-1])
	} else if len(segs) > 0 {
		err = j.reopen()
	}
	if err != nil {
		return err
	}
	j.listed = j.Seg
	if j.Gone > j.Seg && j.f != nil {
		j.Broken = "followed by one that is missing"
	}
	if j.f != nil && !slices.Contains(segs, j.Seg) { // what is written to it is in no file
		j.Broken = missing
	}
	return nil
}

// missing is why nothing may be appended to a segment that somebody has removed while it was open.
const missing = "missing"

// IsMissing reports whether the newest segment has no name any more: what it says is in no file that
// others find, until [Journal.Writable] has the next say it again.
func (j *Journal) IsMissing() bool { return j.Broken == missing }

// upToDate reports whether the segments are those that were listed last. A turn
// asks some eight times; two stats cost a quarter of a listing.
func (j *Journal) upToDate() (bool, error) {
	if j.f == nil || j.listed != j.Seg || j.Gone > j.Seg {
		return false, nil
	}
	st, err := j.Fsys.Stat(layout.SegmentName(j.Seg))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !j.isOpen(&st) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if _, err := j.Fsys.Stat(layout.SegmentName(j.Seg + 1)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// isOpen reports whether a file may be the newest segment as it was read: it is the one that is open,
// and has not been cut.
func (j *Journal) isOpen(st *vfs.Stat) bool {
	return st.Ino == j.at.Ino && st.Dev == j.at.Dev && st.Size >= j.end
}

// reopen turns to the file that has the name of the newest segment now. If that does not begin with all
// that was read, somebody has put it in the other's place, or has cut it: it is read anew, and what is
// written comes into the next segment, so that it shows what is lost. Nothing is written to a file
// without a name.
func (j *Journal) reopen() error {
	name := layout.SegmentName(j.Seg)
	st, err := j.Fsys.Stat(name)
	if err != nil || j.isOpen(&st) {
		return err
	}
	f, err := j.openFile(name)
	if err != nil {
		return err
	}
	same, err := sameBytes(j.f, f, j.end)
	if err != nil {
		f.Close()
		return err
	}
	if same { // a copy; or a file system whose files have another number each time
		j.f.Close()
		j.f, j.synced, j.unsure = f, 0, 0
		return nil
	}
	f.Close()
	if err := j.openSegment(j.Seg); err != nil {
		return err
	}
	j.Broken = "replaced"
	j.Damage = append(j.Damage, &object.CorruptError{Path: name, Off: layout.HeaderSize,
		Err: errors.New("it was cut, or replaced by another, while it was open")})
	clear(j.Older) // they may have been replaced along with it
	j.inMemory, j.again, j.againTo = nil, nil, 0
	return nil
}

// sameBytes reports whether two files begin with the same n bytes.
func sameBytes(a, b vfs.File, n int64) (bool, error) {
	x, y := make([]byte, n), make([]byte, n)
	if _, err := a.ReadAt(x, 0); err != nil && err != io.EOF {
		return false, err
	}
	got, err := b.ReadAt(y, 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	return int64(got) == n && bytes.Equal(x, y), nil
}

// openFile opens a segment to be written to, if that may be.
func (j *Journal) openFile(name string) (vfs.File, error) {
	f, err := j.Fsys.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		f, err = j.Fsys.OpenFile(name, os.O_RDONLY, 0)
	}
	return f, err
}

// readEarlier takes in all that segments say that others have followed.
func (j *Journal) readEarlier(segs []uint64) error {
	for _, seg := range segs {
		found, err := j.ReadSegment(seg)
		if err != nil {
			return err
		}
		for _, f := range found.List {
			if _, err := j.apply(f.Frame); err != nil {
				return fmt.Errorf("%s: %w", layout.SegmentName(seg), err)
			}
		}
	}
	return nil
}

// openSegment turns to another segment. Its first frame restates what holds
// from before, so earlier ones need not be read.
func (j *Journal) openSegment(seg uint64) error {
	name := layout.SegmentName(seg)
	f, err := j.openFile(name)
	if err != nil {
		return err
	}
	var b [layout.HeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		f.Close()
		return err
	}
	j.Broken = ""
	if _, err := layout.ParseHeader(b[:], layout.JournalMagic, j.Store); err != nil {
		if errors.Is(err, store.ErrFormat) {
			f.Close()
			return fmt.Errorf("%s: %w", name, err)
		}
		j.Broken = "damaged"
		j.Damage = append(j.Damage, &object.CorruptError{Path: name, Err: err})
	}
	if j.f != nil {
		j.f.Close()
	}
	j.f, j.Seg, j.end, j.synced, j.unsure = f, seg, layout.HeaderSize, 0, 0
	// The segment left behind may have grown unseen.
	clear(j.heads)
	j.recent, j.base = nil, 0
	return nil
}

// A PlacedFrame is a frame and its offset in the segment.
type PlacedFrame struct {
	Frame
	Off int64
}

// Frames is what a scan of a segment finds.
type Frames struct {
	List   []PlacedFrame
	End    int64 // end of the last whole frame
	Damage []*object.CorruptError
	at     vfs.Stat // of the file
	hurt   uint64   // number of a damaged frame that had the end to itself; 0: none
}

// Scan reads the frames of a segment from an offset on. Bytes that are no
// frame are damage if a later frame promises that they had been durable, and
// the torn end of an interrupted append if none does; but a frame that is there
// in whole and has one byte changed was not interrupted. The first frame was
// durable before the segment had its name: it is never torn.
func (j *Journal) Scan(f vfs.File, name string, from int64) (Frames, error) {
	st, err := f.Stat()
	if err != nil {
		return Frames{}, err
	}
	out := Frames{End: from, at: st}
	if st.Size <= layout.HeaderSize {
		out.Damage = []*object.CorruptError{{Path: name, Off: st.Size, Err: io.ErrUnexpectedEOF}}
		return out, nil
	}
	if st.Size <= from {
		return out, nil
	}
	if from == layout.HeaderSize {
		var b [layout.HeaderSize]byte
		if _, err := f.ReadAt(b[:], 0); err != nil {
			return Frames{}, err
		}
		if seg, ok := OtherSegment(b[:], j.Store, name); ok {
			out.Damage = []*object.CorruptError{{Path: name, Err: fmt.Errorf("it is segment %d", seg)}}
			out.End = st.Size
			return out, nil
		}
	}
	b := make([]byte, st.Size-from)
	n, err := f.ReadAt(b, from)
	if err != nil && err != io.EOF {
		return Frames{}, err
	}
	b = b[:n]

	for pos := 0; pos < len(b); {
		f, ok := ParseFrame(b[pos:])
		if ok {
			out.List = append(out.List, PlacedFrame{f, from + int64(pos)})
			pos += int(f.Size())
			out.End = from + int64(pos)
			continue
		}
		next, promise := nextFrame(b, pos+1)
		off := from + int64(pos)
		if promise <= uint64(off) && off > layout.HeaderSize {
			seq, ok := flippedFrame(b[pos:])
			if !ok {
				break // torn end
			}
			out.hurt = max(out.hurt, seq)
		}
		out.Damage = append(out.Damage, &object.CorruptError{
			Path: name, Off: off,
			Err: fmt.Errorf("%d bytes are not a journal record", next-pos),
		})
		pos = next
		out.End = from + int64(pos)
	}
	return out, nil
}

// OtherSegment reports whether a header, which is whole, is that of another segment of a store than of
// the one of a name, and of which.
func OtherSegment(header []byte, of [16]byte, name string) (seg uint64, ok bool) {
	h, err := layout.ParseHeader(header, layout.JournalMagic, of)
	if err != nil {
		return 0, false
	}
	seg = layout.Le.Uint64(h.Name[:])
	return seg, layout.SegmentName(seg) != name
}

// nextFrame finds the first whole frame in b from pos on, and the highest
// promise that it or a later one makes.
func nextFrame(b []byte, pos int) (next int, promise uint64) {
	next = len(b)
	for pos+FrameHeaderSize <= len(b) {
		f, ok := ParseFrame(b[pos:])
		if !ok {
			pos++
			continue
		}
		next = min(next, pos)
		promise = max(promise, f.Durable)
		pos += int(f.Size())
	}
	return next, promise
}

// apply takes a frame into the state, and returns its snapshot if it is one.
func (j *Journal) apply(f Frame) (*store.Snapshot, error) {
	j.Seq = max(j.Seq, f.Seq)
	packs, l, err := ParsePacks(f)
	if err != nil {
		return nil, err
	}
	for _, p := range packs {
		j.Packs[p.Pack] = max(j.Packs[p.Pack], p.End)
	}
	switch f.Kind {
	case FrameState, FrameLedger:
		j.Ledger = l
		for _, id := range l.Removed { // it was sealed
			delete(j.Packs, id)
		}
	case FrameSnapshot:
		s, err := ParseSnapshot(f)
		if err != nil {
			return nil, err
		}
		j.noteHead(s)
		return s, nil
	case FramePacks:
	default:
		return nil, fmt.Errorf("%w: journal record of kind %d", store.ErrFormat, f.Kind)
	}
	return nil, nil
}

// noteRecent takes up a snapshot of the newest segment, if there is one.
// They come in order, but for what is said again.
func (j *Journal) noteRecent(s *store.Snapshot) {
	if s == nil {
		return
	}
	i, ok := j.findRecent(s.Seq)
	if ok {
		j.recent[i] = s
	} else {
		j.recent = slices.Insert(j.recent, i, s)
	}
}

// findRecent returns where in the newest segment's snapshots one is, or belongs.
func (j *Journal) findRecent(seq uint64) (i int, ok bool) {
	return slices.BinarySearchFunc(j.recent, seq, func(s *store.Snapshot, seq uint64) int {
		return cmp.Compare(s.Seq, seq)
	})
}

func (j *Journal) noteHead(s *store.Snapshot) {
	for _, key := range []HeadKey{{s.Worktree, s.Session}, {s.Worktree, AnySession}} {
		// A record that is only written again does not become the newest. Unless the
		// newest is known to be another, Head is to look it up.
		old, known := j.heads[key]
		if s.Seq > j.base && (old == nil || old.Seq <= s.Seq) {
			j.heads[key] = s
		} else if known && (old == nil || old.Seq <= s.Seq) {
			delete(j.heads, key)
		}
	}
}

// Head returns the newest snapshot of a line, nil if there is none.
func (j *Journal) Head(key HeadKey) (*store.Snapshot, error) {
	if s, ok := j.heads[key]; ok {
		return s, nil
	}
	// Not in the newest segment: ask the older ones, and remember the answer.
	fits := func(s *store.Snapshot) bool {
		return s.Worktree == key.Worktree && (s.Session == key.Session || key.Session == AnySession)
	}
	lines := func(sum *Summary) ([]KeyRef, uint64, uint64) { return sum.Lines, key.Sum(), key.Sum() }
	for s, err := range j.Find(fits, lines) {
		if err != nil {
			return nil, err
		}
		j.heads[key] = s
		return s, nil
	}
	j.heads[key] = nil
	return nil, nil
}

// Snapshots yields the snapshots in all segments below the given number,
// newest first. Of a record that is said again the last one counts.
func (j *Journal) Snapshots(below uint64) func(yield func(*store.Snapshot, error) bool) {
	return func(yield func(*store.Snapshot, error) bool) {
		var later said
		segs, _, err := j.Segments()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, seg := range slices.Backward(segs) {
			if seg >= below {
				continue
			}
			list, base, err := j.segmentSnapshots(seg)
			if err == nil {
				base, err = j.startOf(segs, seg, base)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, s := range later.merge(list, base) {
				if !yield(s, nil) {
					return
				}
			}
		}
		for _, s := range later.merge(nil, 0) { // whose own segments are missing
			if !yield(s, nil) {
				return
			}
		}
	}
}

// said collects, from the newest segment to the oldest, what is said again in
// a later segment than at first.
type said struct {
	again map[uint64]*store.Snapshot // to be yielded where they were said first
	all   map[uint64]bool            // all numbers that were said again
}

// merge takes the snapshots of a segment, which begins after the record base,
// and returns those to yield in its place, newest first.
func (l *said) merge(list []*store.Snapshot, base uint64) []*store.Snapshot {
	var now []*store.Snapshot
	for _, s := range list {
		switch {
		case l.all[s.Seq]:
		case s.Seq <= base:
			l.note(s.Seq, s)
		default:
			now = append(now, s)
		}
	}
	for seq, s := range l.again {
		if seq > base {
			now = append(now, s)
			delete(l.again, seq)
		}
	}
	slices.SortFunc(now, func(a, b *store.Snapshot) int { return cmp.Compare(b.Seq, a.Seq) })
	return now
}

// note takes up that a record was said again, as s; nil if that is not looked
// for.
func (l *said) note(seq uint64, s *store.Snapshot) {
	if l.all == nil {
		l.again, l.all = make(map[uint64]*store.Snapshot), make(map[uint64]bool)
	}
	l.all[seq] = true
	if s != nil {
		l.again[seq] = s
	}
}

func (j *Journal) ReadSegment(seg uint64) (Frames, error) {
	f, err := j.Fsys.OpenFile(layout.SegmentName(seg), os.O_RDONLY, 0)
	if err != nil {
		return Frames{}, err
	}
	defer f.Close()
	return j.Scan(f, layout.SegmentName(seg), layout.HeaderSize)
}

// segmentSnapshots reads the snapshots of one segment, in no order, and the
// number of the last record before it. Of a record that is said twice in it
// the last one counts.
func (j *Journal) segmentSnapshots(seg uint64) (list []*store.Snapshot, base uint64, err error) {
	found, err := j.ReadSegment(seg)
	if err != nil {
		return nil, 0, err
	}
	at := make(map[uint64]int)
	for _, f := range found.List {
		if f.Off == layout.HeaderSize && f.Kind == FrameState {
			base = f.Seq
		}
		if f.Kind != FrameSnapshot {
			continue
		}
		s, err := ParseSnapshot(f.Frame)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", layout.SegmentName(seg), err)
		}
		if i, ok := at[s.Seq]; ok {
			list[i] = s
			continue
		}
		at[s.Seq] = len(list)
		list = append(list, s)
	}
	return list, base, nil
}

// A Record is what a frame to be appended says.
type Record struct {
	Kind  uint8
	Body  []byte
	Again uint64 // number of the record that is written again; 0: a new one
}

// Append writes records and makes them durable, all or none. They get the
// numbers from j.given()+1 on. The caller holds the lock on locks/journal, has
// refreshed under it and called writable.
func (j *Journal) Append(records []Record) error { return j.Write(records, true) }

// Write is Append for records that may be lost in a power cut, too: the next append makes
// them durable with its own. Others read them at once.
func (j *Journal) Write(records []Record, durable bool) error {
	seq := j.Given()
	var b []byte
	var list []Frame
	for _, r := range records {
		f := Frame{Kind: r.Kind, Seq: r.Again, Durable: uint64(j.synced), Body: r.Body}
		if f.Seq == 0 {
			seq++
			f.Seq = seq
		}
		list = append(list, f)
		b = f.Append(b)
	}
	if _, err := j.f.WriteAt(b, j.end); err != nil {
		return err // the torn end is cut by the next append
	}
	if durable {
		if err := j.sync(); err != nil {
			return err
		}
	}
	j.end += int64(len(b))
	if j.unsure = j.end; durable {
		j.synced = j.end
	}
	for _, f := range list {
		s, err := j.apply(f)
		if err != nil {
			return err
		}
		j.noteRecent(s)
	}
	return nil
}

// Given returns the last number that a record was given.
func (j *Journal) Given() uint64 { return max(j.Seq, j.Skip) }

// sync makes the segment durable. A sync that failed is not tried again: the
// kernel may have marked the pages clean. The segment ends there.
func (j *Journal) sync() error {
	err := j.f.Sync()
	if err != nil {
		j.Broken = "not synced"
	}
	return err
}

// Writable brings the newest segment into a state where a frame may follow
// its last, which is durable then; if need be by starting a new segment. Summaries
// that are missing are made: who closed a segment may have been killed before.
func (j *Journal) Writable() error {
	j.saveMissing()
	if j.Seg == 0 || j.Broken != "" {
		return j.Rotate()
	}
	st, err := j.f.Stat()
	if err != nil {
		return err
	}
	if st.Size > j.end {
		if err := j.cutTail(st.Size); err != nil {
			return err
		}
	}
	// Every frame promises that all before it was durable when it was
	// written. What others appended is only known to be so after a sync. Where all
	// behind the promise is our own, the sync of the next frame is its, too.
	if j.synced < j.end && j.unsure < j.end {
		if err := j.sync(); err != nil {
			return err
		}
		// Whoever made the segment may be gone since before it had synced
		// the name.
		if err := j.Fsys.SyncDir("journal"); err != nil {
			return err
		}
		j.synced = j.end
	}
	if j.end >= SegmentSize {
		return j.Rotate()
	}
	return nil
}

// cutTail removes the torn end of an append that did not finish. The bytes
// go to quarantine first.
func (j *Journal) cutTail(size int64) error {
	tail := make([]byte, size-j.end)
	if _, err := j.f.ReadAt(tail, j.end); err != nil && err != io.EOF {
		return err
	}
	name := fmt.Sprintf("quarantine/journal-%08d-%d-%s", j.Seg, j.end, layout.RandomName())
	if err := layout.WriteFile(j.Fsys, name, tail); err != nil {
		return err
	}
	if err := j.f.Truncate(j.end); err != nil {
		return err
	}
	return j.sync()
}

// Rotate starts a new segment. It is complete and durable before it gets
// its name, so a segment with a name has a header and a state.
func (j *Journal) Rotate() error { return j.RotateTo(j.Ledger, j.UnsealedPacks()) }

// RotateTo is rotate with what is to hold from there on.
func (j *Journal) RotateTo(l Ledger, packs []PackLen) error {
	state := Frame{Kind: FrameState, Seq: j.Seq, Durable: layout.HeaderSize, Body: l.AppendBody(nil, packs)}
	if len(state.Body) > MaxFrameBody {
		return fmt.Errorf("state of %d bytes: the limit is %d", len(state.Body), MaxFrameBody)
	}
	seg, err := j.next()
	if err != nil {
		return err
	}
	b := layout.Header{Magic: layout.JournalMagic, Store: j.Store, Name: layout.SegmentID(seg),
		A: uint64(time.Now().UnixNano())}.Append(nil)
	b = state.Append(b)
	if j.Broken == "" && j.Seg > 0 && j.synced < j.end { // nobody syncs the old segment later
		if err := j.sync(); err != nil {
			return err
		}
	}
	var old Frames
	oldEnd := j.end
	if j.Seg > 0 {
		if old, err = j.Scan(j.f, layout.SegmentName(j.Seg), layout.HeaderSize); err != nil {
			return err
		}
	}
	if j.Broken != "" {
		// What the old segment says after its last promise may not be
		// on the disk: say it again.
		var promise uint64
		for _, f := range old.List {
			promise = max(promise, f.Durable)
		}
		if j.IsMissing() {
			promise = 0 // of all
		}
		for _, f := range old.List {
			if f.Kind != FrameState && uint64(f.Off) >= promise && f.Off < j.end {
				f.Durable = layout.HeaderSize
				b = f.Append(b)
			}
		}
	}
	if err := layout.WriteFile(j.Fsys, layout.SegmentName(seg), b); err != nil {
		return err
	}
	if j.Seg > 0 {
		j.saveSummary(j.Seg, old.List, oldEnd)
	}
	if err := j.openSegment(seg); err != nil {
		return err
	}
	if err := j.Refresh(); err != nil {
		return err
	}
	j.synced = j.end
	return nil
}

// next returns the number of the segment to begin. One that is missing keeps its
// own, so that it can be seen that it is.
func (j *Journal) next() (uint64, error) {
	last, err := j.LastKnown()
	return last + 1, err
}

// LastKnown returns the number of the last segment that is known to have been there.
func (j *Journal) LastKnown() (uint64, error) {
	if last := max(j.Seg, j.Gone); last > 0 {
		return last, nil
	}
	packs, err := layout.HasPacks(j.Fsys)
	if packs {
		return 1, err // before the first pack there was a segment
	}
	return 0, err
}

// IsSuspect reports whether it shows without reading the journal that it has lost records: a segment
// that others have followed, or the end of one. What is damaged otherwise Damage has. It costs
// a few system calls for each segment.
func (j *Journal) IsSuspect() bool {
	known, err := j.LastKnown()
	if err != nil || j.IsMissing() || j.Seg != known || known > 0 && uint64(len(j.ClosedSegs)) != known-1 {
		return true
	}
	prev, isKnown := uint64(0), true // the last record before a segment
	for _, seg := range j.ClosedSegs {
		length, base, last, ok := j.ends(seg)
		if ok {
			st, err := j.Fsys.Stat(layout.SegmentName(seg))
			if err != nil || length != st.Size || isKnown && base != prev {
				return true
			}
		}
		prev, isKnown = last, ok
	}
	return isKnown && j.base != prev
}

// UnsealedPacks returns the durable lengths of the packs that need it.
func (j *Journal) UnsealedPacks() (packs []PackLen) {
	for id, end := range j.Packs {
		if _, err := j.Fsys.Stat(layout.IndexName(id)); err == nil {
			continue // sealed: its index vouches for all of it
		}
		packs = append(packs, PackLen{id, end})
	}
	SortPacks(packs)
	return packs
}

func (j *Journal) Close() error {
	wasOpen := !j.closed && j.f != nil
	j.closed = true
	if wasOpen {
		return j.f.Close()
	}
	return nil
}

// An End is where the journal ended once.
type End struct {
	seg uint64
	off int64
	seq uint64
}

// End returns where the journal ends, as of the last refresh.
func (j *Journal) End() End { return End{j.Seg, j.end, j.Seq} }

// AgainSince yields what was said again since of records that were there, in the order of
// the journal.
func (j *Journal) AgainSince(e End) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		if j.End() == e {
			return
		}
		for _, seg := range append(slices.Clone(j.ClosedSegs), j.Seg) {
			if seg < e.seg {
				continue
			}
			found, err := j.ReadSegment(seg)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, f := range found.List {
				if f.Kind != FrameSnapshot || f.Seq > e.seq || seg == e.seg && f.Off < e.off {
					continue
				}
				snap, err := ParseSnapshot(f.Frame)
				if !yield(snap, err) || err != nil {
					return
				}
			}
		}
	}
}
