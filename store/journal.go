package store

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// segmentSize is where a journal segment ends and the next begins. Opening a
// store reads the newest segment whole: 1 MiB is some 4,000 snapshots and
// costs less than a millisecond.
//
// A variable, so that tests reach it sooner.
var segmentSize int64 = 1 << 20

// A journal is the append-only record of all snapshots, and the only commit
// point of the store: what no whole frame names does not exist.
//
// Appending is done under the lock on locks/journal. Reading takes no lock:
// an incomplete frame at the end is taken as absent.
//
// The methods are not safe for concurrent use; Store.jmu guards the journal.
type journal struct {
	fsys  vfs.FS
	store [16]byte

	seg    uint64   // number of the newest segment, from 1; 0: none yet
	listed uint64   // what it was when closedSegs was made
	gone   uint64   // number of the last segment that is known to have been there; more than seg: it is missing
	f      vfs.File // that segment
	end    int64    // where its last whole frame ends
	synced int64    // up to where this process knows it durable
	broken string   // why nothing may be appended to this segment; "" if it may
	closed bool

	seq  uint64 // number of the last record
	skip uint64 // the last one that was given out, as far as others know: none is given twice
	ledger
	packs  map[[16]byte]int64 // durable length of each unsealed pack
	heads  map[headKey]*Snapshot
	damage []*CorruptError

	base       uint64                    // number of the last record before the newest segment
	closedSegs []uint64                  // the segments before the newest, as of the last refresh, ascending
	recent     []*Snapshot               // of the newest segment, by Seq
	older      map[uint64]*closedSegment // what was needed of the others
	inMemory   []uint64                  // those of them whose content is kept, in the order of reading
}

func newJournal(fsys vfs.FS, store [16]byte) *journal {
	return &journal{fsys: fsys, store: store, packs: make(map[[16]byte]int64),
		heads: make(map[headKey]*Snapshot), older: make(map[uint64]*closedSegment)}
}

// A headKey names a line of snapshots: one conversation in one directory.
type headKey struct{ worktree, session string }

// AnySession asks [Store.Newest] for a worktree's newest snapshot, whosever it
// is. No session has this name.
const AnySession = "\x00"

func segmentName(seg uint64) string { return fmt.Sprintf("journal/%08d.log", seg) }

// segments returns the numbers of all segments, ascending, and the number of
// the last one that is known to have been there: what has a summary was followed
// by another.
func (j *journal) segments() (segs []uint64, last uint64, err error) {
	for range 2 {
		names, err := j.fsys.ReadDir("journal")
		if err != nil {
			return nil, 0, err
		}
		segs, last = nil, 0
		for _, name := range names {
			base, kind, _ := strings.Cut(name, ".")
			n, err := strconv.ParseUint(base, 10, 63)
			switch {
			case err != nil || n == 0:
			case kind == "log" && segmentName(n) == "journal/"+name:
				segs = append(segs, n)
				last = max(last, n)
			case kind == "sum" && summaryName(n) == "journal/"+name:
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
	return segs, last, nil
}

// refresh reads what was appended since the last time, by anyone.
func (j *journal) refresh() error {
	if j.closed {
		return ErrClosed
	}
	same, err := j.upToDate()
	if err != nil {
		return err
	}
	if !same {
		segs, last, err := j.segments()
		if err != nil {
			return err
		}
		j.gone = max(j.gone, last, j.seg)
		j.closedSegs = segs[:max(len(segs)-1, 0)]
		if len(segs) > 0 && segs[len(segs)-1] != j.seg {
			if err := j.openSegment(segs[len(segs)-1]); err != nil {
				return err
			}
		}
		j.listed = j.seg
		if j.gone > j.seg && j.f != nil {
			j.broken = "followed by one that is missing"
		}
	}
	if j.f == nil {
		return nil
	}
	frames, err := j.scan(j.f, segmentName(j.seg), j.end)
	if err != nil {
		return err
	}
	if j.end == fileHeaderSize && len(frames.damage) > 0 {
		// What holds from before may be what is damaged.
		if err := j.readEarlier(j.closedSegs); err != nil {
			return err
		}
	}
	for _, f := range frames.list {
		if f.off == fileHeaderSize {
			j.base = f.seq
			if f.kind == frameState {
				clear(j.packs) // it names all that count
			}
		}
		s, err := j.apply(f.frame)
		if err != nil {
			return fmt.Errorf("%s: %w", segmentName(j.seg), err)
		}
		j.noteRecent(s)
	}
	j.end = frames.end
	j.seq = max(j.seq, frames.hurt) // whoever has recorded it was told its number
	if len(frames.damage) > 0 {
		// The segment is closed and kept as it is; what it still says
		// is restated at the start of the next.
		j.broken = "damaged"
		j.damage = append(j.damage, frames.damage...)
	}
	return nil
}

// upToDate reports whether the segments are those that were listed last. A turn
// asks some eight times; two stats cost a quarter of a listing.
func (j *journal) upToDate() (bool, error) {
	if j.f == nil || j.listed != j.seg || j.gone > j.seg {
		return false, nil
	}
	if _, err := j.fsys.Stat(segmentName(j.seg)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if _, err := j.fsys.Stat(segmentName(j.seg + 1)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// readEarlier takes in all that segments say that others have followed.
func (j *journal) readEarlier(segs []uint64) error {
	for _, seg := range segs {
		found, err := j.readSegment(seg)
		if err != nil {
			return err
		}
		for _, f := range found.list {
			if _, err := j.apply(f.frame); err != nil {
				return fmt.Errorf("%s: %w", segmentName(seg), err)
			}
		}
	}
	return nil
}

// openSegment turns to another segment. Its first frame restates what holds
// from before, so earlier ones need not be read.
func (j *journal) openSegment(seg uint64) error {
	name := segmentName(seg)
	f, err := j.fsys.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		f, err = j.fsys.OpenFile(name, os.O_RDONLY, 0)
	}
	if err != nil {
		return err
	}
	var b [fileHeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		f.Close()
		return err
	}
	j.broken = ""
	if _, err := parseFileHeader(b[:], journalMagic, j.store); err != nil {
		if errors.Is(err, ErrFormat) {
			f.Close()
			return fmt.Errorf("%s: %w", name, err)
		}
		j.broken = "damaged"
		j.damage = append(j.damage, &CorruptError{Path: name, Err: err})
	}
	if j.f != nil {
		j.f.Close()
	}
	j.f, j.seg, j.end, j.synced = f, seg, fileHeaderSize, 0
	// The segment left behind may have grown unseen.
	clear(j.heads)
	j.recent, j.base = nil, 0
	return nil
}

// A placedFrame is a frame and its offset in the segment.
type placedFrame struct {
	frame
	off int64
}

// frames is what a scan of a segment finds.
type frames struct {
	list   []placedFrame
	end    int64 // end of the last whole frame
	damage []*CorruptError
	hurt   uint64 // number of a damaged frame that had the end to itself; 0: none
}

// scan reads the frames of a segment from an offset on. Bytes that are no
// frame are damage if a later frame promises that they had been durable, and
// the torn end of an interrupted append if none does; but a frame that is there
// in whole and has one byte changed was not interrupted. The first frame was
// durable before the segment had its name: it is never torn.
func (j *journal) scan(f vfs.File, name string, from int64) (frames, error) {
	st, err := f.Stat()
	if err != nil {
		return frames{}, err
	}
	out := frames{end: from}
	if st.Size <= fileHeaderSize {
		out.damage = []*CorruptError{{Path: name, Off: st.Size, Err: io.ErrUnexpectedEOF}}
		return out, nil
	}
	if st.Size <= from {
		return out, nil
	}
	b := make([]byte, st.Size-from)
	n, err := f.ReadAt(b, from)
	if err != nil && err != io.EOF {
		return frames{}, err
	}
	b = b[:n]

	for pos := 0; pos < len(b); {
		f, ok := parseFrame(b[pos:])
		if ok {
			out.list = append(out.list, placedFrame{f, from + int64(pos)})
			pos += int(f.size())
			out.end = from + int64(pos)
			continue
		}
		next, promise := nextFrame(b, pos+1)
		off := from + int64(pos)
		if promise <= uint64(off) && off > fileHeaderSize {
			seq, ok := flippedFrame(b[pos:])
			if !ok {
				break // torn end
			}
			out.hurt = max(out.hurt, seq)
		}
		out.damage = append(out.damage, &CorruptError{
			Path: name, Off: off,
			Err: fmt.Errorf("%d bytes are not a journal record", next-pos),
		})
		pos = next
		out.end = from + int64(pos)
	}
	return out, nil
}

// nextFrame finds the first whole frame in b from pos on, and the highest
// promise that it or a later one makes.
func nextFrame(b []byte, pos int) (next int, promise uint64) {
	next = len(b)
	for pos+frameHeaderSize <= len(b) {
		f, ok := parseFrame(b[pos:])
		if !ok {
			pos++
			continue
		}
		next = min(next, pos)
		promise = max(promise, f.durable)
		pos += int(f.size())
	}
	return next, promise
}

// apply takes a frame into the state, and returns its snapshot if it is one.
func (j *journal) apply(f frame) (*Snapshot, error) {
	j.seq = max(j.seq, f.seq)
	packs, l, err := parsePacks(f)
	if err != nil {
		return nil, err
	}
	for _, p := range packs {
		j.packs[p.pack] = max(j.packs[p.pack], p.end)
	}
	switch f.kind {
	case frameState, frameLedger:
		j.ledger = l
		for _, id := range l.removed { // it was sealed
			delete(j.packs, id)
		}
	case frameSnapshot:
		s, err := parseSnapshot(f)
		if err != nil {
			return nil, err
		}
		j.noteHead(s)
		return s, nil
	case framePacks:
	default:
		return nil, fmt.Errorf("%w: journal record of kind %d", ErrFormat, f.kind)
	}
	return nil, nil
}

// noteRecent takes up a snapshot of the newest segment, if there is one.
// They come in order, but for what is said again.
func (j *journal) noteRecent(s *Snapshot) {
	if s == nil {
		return
	}
	i, ok := slices.BinarySearchFunc(j.recent, s.Seq, func(s *Snapshot, seq uint64) int { return cmp.Compare(s.Seq, seq) })
	if ok {
		j.recent[i] = s
	} else {
		j.recent = slices.Insert(j.recent, i, s)
	}
}

func (j *journal) noteHead(s *Snapshot) {
	for _, key := range []headKey{{s.Worktree, s.Session}, {s.Worktree, AnySession}} {
		// What is only said again is the newest if it was: find knows.
		old, known := j.heads[key]
		if s.Seq > j.base && (old == nil || old.Seq <= s.Seq) {
			j.heads[key] = s
		} else if known && (old == nil || old.Seq <= s.Seq) {
			delete(j.heads, key)
		}
	}
}

// head returns the newest snapshot of a line, nil if there is none.
func (j *journal) head(key headKey) (*Snapshot, error) {
	if s, ok := j.heads[key]; ok {
		return s, nil
	}
	// Not in the newest segment: ask the older ones, and remember the answer.
	fits := func(s *Snapshot) bool {
		return s.Worktree == key.worktree && (s.Session == key.session || key.session == AnySession)
	}
	for s, err := range j.find(fits, func(sum *summary) ([]keyRef, uint64, uint64) { return sum.lines, key.sum(), key.sum() }) {
		if err != nil {
			return nil, err
		}
		j.heads[key] = s
		return s, nil
	}
	j.heads[key] = nil
	return nil, nil
}

// snapshots yields the snapshots in all segments below the given number,
// newest first. Of a record that is said again the last one counts.
func (j *journal) snapshots(below uint64) func(yield func(*Snapshot, error) bool) {
	return func(yield func(*Snapshot, error) bool) {
		var later said
		segs, _, err := j.segments()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, seg := range slices.Backward(segs) {
			if seg >= below {
				continue
			}
			list, base, err := j.segmentSnapshots(seg)
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
	again map[uint64]*Snapshot // to be yielded where they were said first
	all   map[uint64]bool      // all numbers that were said again
}

// merge takes the snapshots of a segment, which begins after the record base,
// and returns those to yield in its place, newest first.
func (l *said) merge(list []*Snapshot, base uint64) []*Snapshot {
	var now []*Snapshot
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
	slices.SortFunc(now, func(a, b *Snapshot) int { return cmp.Compare(b.Seq, a.Seq) })
	return now
}

// note takes up that a record was said again, as s; nil if that is not looked
// for.
func (l *said) note(seq uint64, s *Snapshot) {
	if l.all == nil {
		l.again, l.all = make(map[uint64]*Snapshot), make(map[uint64]bool)
	}
	l.all[seq] = true
	if s != nil {
		l.again[seq] = s
	}
}

func (j *journal) readSegment(seg uint64) (frames, error) {
	f, err := j.fsys.OpenFile(segmentName(seg), os.O_RDONLY, 0)
	if err != nil {
		return frames{}, err
	}
	defer f.Close()
	return j.scan(f, segmentName(seg), fileHeaderSize)
}

// segmentSnapshots reads the snapshots of one segment, in no order, and the
// number of the last record before it. Of a record that is said twice in it
// the last one counts.
func (j *journal) segmentSnapshots(seg uint64) (list []*Snapshot, base uint64, err error) {
	found, err := j.readSegment(seg)
	if err != nil {
		return nil, 0, err
	}
	at := make(map[uint64]int)
	for _, f := range found.list {
		if f.off == fileHeaderSize && f.kind == frameState {
			base = f.seq
		}
		if f.kind != frameSnapshot {
			continue
		}
		s, err := parseSnapshot(f.frame)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", segmentName(seg), err)
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

// A record is what a frame to be appended says.
type record struct {
	kind uint8
	body []byte
	seq  uint64 // of the record that is said again; 0: a new one
}

// append writes records and makes them durable, all or none. They get the
// numbers from j.given()+1 on. The caller holds the lock on locks/journal, has
// refreshed under it and called writable.
func (j *journal) append(records []record) error {
	seq := j.given()
	var b []byte
	var list []frame
	for _, r := range records {
		f := frame{kind: r.kind, seq: r.seq, durable: uint64(j.synced), body: r.body}
		if f.seq == 0 {
			seq++
			f.seq = seq
		}
		list = append(list, f)
		b = f.append(b)
	}
	if _, err := j.f.WriteAt(b, j.end); err != nil {
		return err // the torn end is cut by the next append
	}
	if err := j.sync(); err != nil {
		return err
	}
	j.end += int64(len(b))
	j.synced = j.end
	for _, f := range list {
		s, err := j.apply(f)
		if err != nil {
			return err
		}
		j.noteRecent(s)
	}
	return nil
}

// given returns the last number that a record was given.
func (j *journal) given() uint64 { return max(j.seq, j.skip) }

// sync makes the segment durable. A sync that failed is not tried again: the
// kernel may have marked the pages clean. The segment ends there.
func (j *journal) sync() error {
	err := j.f.Sync()
	if err != nil {
		j.broken = "not synced"
	}
	return err
}

// writable brings the newest segment into a state where a frame may follow
// its last, which is durable then; if need be by starting a new segment.
func (j *journal) writable() error {
	if j.seg == 0 || j.broken != "" {
		return j.rotate()
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
	// written. What others appended is only known to be so after a sync.
	if j.synced < j.end {
		if err := j.sync(); err != nil {
			return err
		}
		// Whoever made the segment may be gone since before it had synced
		// the name.
		if err := j.fsys.SyncDir("journal"); err != nil {
			return err
		}
		j.synced = j.end
	}
	if j.end >= segmentSize {
		return j.rotate()
	}
	return nil
}

// cutTail removes the torn end of an append that did not finish. The bytes
// go to quarantine first.
func (j *journal) cutTail(size int64) error {
	tail := make([]byte, size-j.end)
	if _, err := j.f.ReadAt(tail, j.end); err != nil && err != io.EOF {
		return err
	}
	name := fmt.Sprintf("quarantine/journal-%08d-%d-%s", j.seg, j.end, randomName())
	if err := writeFile(j.fsys, name, tail); err != nil {
		return err
	}
	if err := j.f.Truncate(j.end); err != nil {
		return err
	}
	return j.sync()
}

// rotate starts a new segment. It is complete and durable before it gets
// its name, so a segment with a name has a header and a state.
func (j *journal) rotate() error { return j.rotateTo(j.ledger, j.unsealedPacks()) }

// rotateTo is rotate with what is to hold from there on.
func (j *journal) rotateTo(l ledger, packs []packLen) error {
	state := frame{kind: frameState, seq: j.seq, durable: fileHeaderSize, body: l.appendBody(nil, packs)}
	if len(state.body) > maxFrameBody {
		return fmt.Errorf("state of %d bytes: the limit is %d", len(state.body), maxFrameBody)
	}
	seg, err := j.next()
	if err != nil {
		return err
	}
	b := fileHeader{magic: journalMagic, store: j.store, name: segmentID(seg),
		a: uint64(time.Now().UnixNano())}.append(nil)
	b = state.append(b)
	var old frames
	oldEnd := j.end
	if j.seg > 0 {
		if old, err = j.scan(j.f, segmentName(j.seg), fileHeaderSize); err != nil {
			return err
		}
	}
	if j.broken != "" {
		// What the old segment says after its last promise may not be
		// on the disk: say it again.
		var promise uint64
		for _, f := range old.list {
			promise = max(promise, f.durable)
		}
		for _, f := range old.list {
			if f.kind != frameState && uint64(f.off) >= promise && f.off < j.end {
				f.durable = fileHeaderSize
				b = f.append(b)
			}
		}
	}
	if err := writeFile(j.fsys, segmentName(seg), b); err != nil {
		return err
	}
	if j.seg > 0 {
		j.saveSummary(j.seg, old.list, oldEnd)
	}
	if err := j.openSegment(seg); err != nil {
		return err
	}
	if err := j.refresh(); err != nil {
		return err
	}
	j.synced = j.end
	return nil
}

// next returns the number of the segment to begin. One that is missing keeps its
// own, so that it can be seen that it is.
func (j *journal) next() (uint64, error) {
	last := max(j.seg, j.gone)
	if last == 0 {
		packs, err := hasPacks(j.fsys)
		if err != nil {
			return 0, err
		}
		if packs {
			last = 1 // before the first pack there was a segment
		}
	}
	return last + 1, nil
}

// hasPacks reports whether there is any pack.
func hasPacks(fsys vfs.FS) (bool, error) {
	names, err := fsys.ReadDir("packs")
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := parsePackID(name, ".pack")
		return ok
	}), err
}

func segmentID(seg uint64) (id [16]byte) {
	le.PutUint64(id[:], seg)
	return id
}

// unsealedPacks returns the durable lengths of the packs that need it.
func (j *journal) unsealedPacks() (packs []packLen) {
	for id, end := range j.packs {
		if _, err := j.fsys.Stat(indexName(id)); err == nil {
			continue // sealed: its index vouches for all of it
		}
		packs = append(packs, packLen{id, end})
	}
	sortPacks(packs)
	return packs
}

func (j *journal) close() error {
	if j.closed || j.f == nil {
		j.closed = true
		return nil
	}
	j.closed = true
	return j.f.Close()
}

// writeFile creates a file durably: it is whole and synced under another
// name before it gets its own, and the name is synced before writeFile
// returns. An existing file is replaced.
func writeFile(fsys vfs.FS, name string, content []byte) error {
	tmp := "tmp/" + randomName()
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		// Sync before rename: the new name may reach the disk before the
		// bytes that it names.
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		fsys.Remove(tmp)
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

func randomName() string {
	id := randomID()
	return hex.EncodeToString(id[:8])
}

func randomID() (id [16]byte) {
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}
