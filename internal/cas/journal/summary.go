package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Summary says where in a journal segment each record is, so that finding
// one does not cost reading them all (docs/reference/format.md §5.5). It is derived: one
// is written when its segment is closed, and made again where it is missing.
type Summary struct {
	Base    uint64      // number of the last record before the segment, of any kind
	Last    uint64      // and up to its end
	Recs    []RecordRef // by seq
	Entries []KeyRef    // by the start of the session entry
	Trees   []KeyRef    // by the start of the tree's ID
	Lines   []KeyRef    // by the hash of worktree and session: the newest record of each
}

// A RecordRef is a snapshot's record in a segment.
type RecordRef struct {
	Seq uint64
	Off uint32 // of its frame
}

// A KeyRef is a record by something else than its number. The key is a
// prefix or a hash: who looks one up compares the whole.
type KeyRef struct {
	Key uint64
	Rec uint32 // index in recs
}

const (
	SummaryMagic   = "boosumm\n"
	SummaryLength  = 44 // in the header: the length of the segment
	summaryCounts  = 32 // base, last, and the numbers of recs, entries, trees, lines
	summaryRefSize = 12 // of each of these
)

// PrefixKey returns the first 8 bytes of a text, so that keys sort as texts do.
func PrefixKey[T string | []byte](text T) uint64 {
	var b [8]byte
	copy(b[:], text)
	return layout.Be.Uint64(b[:])
}

func (k HeadKey) Sum() uint64 {
	h := blake3.Sum256([]byte(k.Worktree + "\x00" + k.Session))
	return layout.Be.Uint64(h[:])
}

// Summarize makes the summary of a segment from its frames.
func Summarize(list []PlacedFrame) (*Summary, error) {
	snaps := make(map[uint64]*store.Snapshot) // by seq: of what is said twice the last counts
	offs := make(map[uint64]uint32)
	sum := new(Summary)
	for _, f := range list {
		sum.Last = max(sum.Last, f.Seq)
		if f.Off == layout.HeaderSize && f.Kind == FrameState {
			sum.Base = f.Seq
		}
		if f.Kind != FrameSnapshot {
			continue
		}
		s, err := ParseSnapshot(f.Frame)
		if err != nil {
			return nil, err
		}
		snaps[s.Seq], offs[s.Seq] = s, uint32(f.Off)
	}
	newest := make(map[HeadKey]uint32)
	for i, seq := range slices.Sorted(maps.Keys(snaps)) {
		s, rec := snaps[seq], uint32(i)
		sum.Recs = append(sum.Recs, RecordRef{seq, offs[seq]})
		if s.Entry != "" {
			sum.Entries = append(sum.Entries, KeyRef{PrefixKey(s.Entry), rec})
		}
		sum.Trees = append(sum.Trees, KeyRef{PrefixKey(s.Tree[:]), rec})
		newest[HeadKey{s.Worktree, s.Session}] = rec
		newest[HeadKey{s.Worktree, AnySession}] = rec
	}
	for key, rec := range newest {
		sum.Lines = append(sum.Lines, KeyRef{key.Sum(), rec})
	}
	for _, refs := range [][]KeyRef{sum.Entries, sum.Trees, sum.Lines} {
		slices.SortFunc(refs, func(a, b KeyRef) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Rec, b.Rec))
		})
	}
	return sum, nil
}

// Append writes the summary of a segment of some length.
func (sum *Summary) Append(b []byte, store [16]byte, seg uint64, length int64) []byte {
	start := len(b)
	b = layout.Header{Magic: SummaryMagic, Store: store, Name: layout.SegmentID(seg), A: uint64(length)}.Append(b)
	b = layout.Le.AppendUint64(layout.Le.AppendUint64(b, sum.Base), sum.Last)
	for _, n := range []int{len(sum.Recs), len(sum.Entries), len(sum.Trees), len(sum.Lines)} {
		b = layout.Le.AppendUint32(b, uint32(n))
	}
	for _, r := range sum.Recs {
		b = layout.Le.AppendUint32(layout.Le.AppendUint64(b, r.Seq), r.Off)
	}
	for _, refs := range [][]KeyRef{sum.Entries, sum.Trees, sum.Lines} {
		for _, r := range refs {
			b = layout.Le.AppendUint32(layout.Le.AppendUint64(b, r.Key), r.Rec)
		}
	}
	return layout.Le.AppendUint32(b, layout.Checksum(b[start:]))
}

var errSummary = errors.New("bad summary")

// ParseSummary reads what append writes; length is that of the segment.
func ParseSummary(b []byte, store [16]byte, seg uint64, length int64) (*Summary, error) {
	h, err := layout.ParseHeader(b, SummaryMagic, store)
	if err != nil {
		return nil, err
	}
	body := len(b) - 4
	if body < layout.HeaderSize+summaryCounts || layout.Le.Uint32(b[body:]) != layout.Checksum(b[:body]) {
		return nil, errSummary
	}
	if h.Name != layout.SegmentID(seg) || h.A != uint64(length) {
		return nil, fmt.Errorf("%w: of another segment", errSummary)
	}
	var n [4]int
	total := 0
	for i := range n {
		n[i] = int(layout.Le.Uint32(b[layout.HeaderSize+16+4*i:]))
		total += n[i]
	}
	rest := b[layout.HeaderSize+summaryCounts : body]
	if len(rest) != total*summaryRefSize {
		return nil, errSummary
	}
	sum := &Summary{Base: layout.Le.Uint64(b[layout.HeaderSize:]), Last: layout.Le.Uint64(b[layout.HeaderSize+8:]),
		Recs: make([]RecordRef, n[0])}
	for i := range sum.Recs {
		sum.Recs[i] = RecordRef{layout.Le.Uint64(rest), layout.Le.Uint32(rest[8:])}
		rest = rest[summaryRefSize:]
	}
	for i, refs := range []*[]KeyRef{&sum.Entries, &sum.Trees, &sum.Lines} {
		*refs = make([]KeyRef, n[i+1])
		for j := range *refs {
			(*refs)[j] = KeyRef{layout.Le.Uint64(rest), layout.Le.Uint32(rest[8:])}
			if (*refs)[j].Rec >= uint32(n[0]) {
				return nil, errSummary
			}
			rest = rest[summaryRefSize:]
		}
	}
	return sum, nil
}

// ends returns for a closed segment what its summary's first bytes say: the segment's length, and the
// last record before it and up to its end. ok is false if there is none to be read.
func (j *Journal) ends(seg uint64) (length int64, base, last uint64, ok bool) {
	f, err := j.Fsys.OpenFile(layout.SummaryName(seg), os.O_RDONLY, 0)
	if err != nil {
		return 0, 0, 0, false
	}
	defer f.Close()
	var b [layout.HeaderSize + summaryCounts]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0, 0, 0, false
	}
	h, err := layout.ParseHeader(b[:], SummaryMagic, j.Store)
	if err != nil || h.Name != layout.SegmentID(seg) {
		return 0, 0, 0, false
	}
	counts := b[layout.HeaderSize:]
	return int64(h.A), layout.Le.Uint64(counts), layout.Le.Uint64(counts[8:]), true
}

// startOf returns the number of the last record before one of some segments, of which its first frame says base: 0 is
// that of the first segment, or else damage has taken the frame, and the segments before it tell.
func (j *Journal) startOf(segs []uint64, seg, base uint64) (uint64, error) {
	if base > 0 {
		return base, nil
	}
	for _, before := range segs {
		if before >= seg {
			break
		}
		c, err := j.olderSegment(before)
		if err != nil {
			return 0, err
		}
		base = max(base, c.Sum.Last)
	}
	return base, nil
}

// Between yields the records whose keys are in a range, the last one first.
func (sum *Summary) Between(refs []KeyRef, from, to uint64) iter.Seq[RecordRef] {
	return func(yield func(RecordRef) bool) {
		i, _ := slices.BinarySearchFunc(refs, from, func(r KeyRef, key uint64) int { return cmp.Compare(r.Key, key) })
		j := i
		for j < len(refs) && refs[j].Key <= to {
			j++
		}
		found := slices.Clone(refs[i:j])
		slices.SortFunc(found, func(a, b KeyRef) int { return cmp.Compare(b.Rec, a.Rec) })
		for _, r := range found {
			if !yield(sum.Recs[r.Rec]) {
				return
			}
		}
	}
}

// A closedSegment is one that others have followed, as far as it was needed.
type closedSegment struct {
	Sum     *Summary
	content []byte // nil: not read, or dropped since
	alone   int    // records that were read without the rest
}

// olderSegment returns what is known of a segment that others have followed.
func (j *Journal) olderSegment(seg uint64) (*closedSegment, error) {
	if c := j.Older[seg]; c != nil {
		return c, nil
	}
	st, err := j.Fsys.Stat(layout.SegmentName(seg))
	if err != nil {
		return nil, err
	}
	c := new(closedSegment)
	b, err := vfs.ReadFile(j.Fsys, layout.SummaryName(seg))
	if err == nil {
		c.Sum, err = ParseSummary(b, j.Store, seg, st.Size)
	}
	if errors.Is(err, store.ErrFormat) {
		return nil, fmt.Errorf("%s: %w", layout.SummaryName(seg), err)
	}
	if err != nil {
		if c.Sum, _, err = j.summarize(seg); err != nil {
			return nil, err
		}
	}
	j.Older[seg] = c
	return c, nil
}

// summarize makes the summary of a segment from what it says, and returns what is damaged
// in it.
func (j *Journal) summarize(seg uint64) (*Summary, []*object.CorruptError, error) {
	found, err := j.ReadSegment(seg)
	if err != nil {
		return nil, nil, err
	}
	sum, err := Summarize(found.List)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", layout.SegmentName(seg), err)
	}
	return sum, found.Damage, nil
}

// keepContents is how many closed segments stay in memory: who follows a line
// of snapshots to its start goes through one after the other.
const keepContents = 2

// snapshotAt reads one record of a closed segment.
func (j *Journal) snapshotAt(seg uint64, ref RecordRef) (*store.Snapshot, error) {
	c := j.Older[seg]
	if c.content == nil && c.alone < maxAlone {
		c.alone++
		f, ok, err := j.frameAt(seg, int64(ref.Off))
		if err != nil {
			return nil, err
		}
		if ok && f.Kind == FrameSnapshot && f.Seq == ref.Seq {
			return ParseSnapshot(f)
		}
	}
	if c.content == nil {
		b, err := vfs.ReadFile(j.Fsys, layout.SegmentName(seg))
		if err != nil {
			return nil, err
		}
		c.content = b
		if j.inMemory = append(j.inMemory, seg); len(j.inMemory) > keepContents {
			j.Older[j.inMemory[0]].content = nil
			j.inMemory = slices.Delete(j.inMemory, 0, 1)
		}
	}
	if int64(ref.Off) < int64(len(c.content)) {
		if f, ok := ParseFrame(c.content[ref.Off:]); ok && f.Kind == FrameSnapshot && f.Seq == ref.Seq {
			return ParseSnapshot(f)
		}
	}
	return nil, errStale
}

// Who asks for the newest record of a session wants one of a segment; who asks for a few more than
// maxAlone follows a line, and reads the segment once. aloneSize holds a record but for long ones.
const (
	maxAlone  = 4
	aloneSize = 4 << 10
)

// frameAt reads one frame of a segment; not ok: it is none, or is longer than aloneSize.
func (j *Journal) frameAt(seg uint64, off int64) (frame Frame, ok bool, err error) {
	f, err := j.Fsys.OpenFile(layout.SegmentName(seg), os.O_RDONLY, 0)
	if err != nil {
		return Frame{}, false, err
	}
	defer f.Close()
	b := make([]byte, aloneSize)
	n, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return Frame{}, false, err
	}
	frame, ok = ParseFrame(b[:n])
	return frame, ok, nil
}

// errStale: a summary names a record that is not there. The segment was
// damaged since, or the summary is not its own.
var errStale = errors.New("summary is out of date")

// distrust makes the summary of a segment anew. What is damaged is not in it:
// a summary may not change what is found.
func (j *Journal) distrust(seg uint64) error {
	sum, damage, err := j.summarize(seg)
	if err != nil {
		return err
	}
	j.Damage = append(j.Damage, damage...)
	j.Older[seg].Sum, j.again = sum, nil
	return nil
}

// saveSummary writes the summary of a segment that is complete. It is there
// only to save time: what comes of it is nobody's error, and it is not synced.
func (j *Journal) saveSummary(seg uint64, list []PlacedFrame, length int64) {
	sum, err := Summarize(list)
	if err != nil {
		return
	}
	tmp := "tmp/" + layout.RandomName() + ".sum"
	f, err := j.Fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.WriteAt(sum.Append(nil, j.Store, seg, length), 0)
	if err = errors.Join(err, f.Close()); err == nil {
		err = j.Fsys.Rename(tmp, layout.SummaryName(seg))
	}
	if err != nil {
		j.Fsys.Remove(tmp)
	}
}

// saveMissing makes the summaries that were seen to be missing, as saveSummary does. The lock on
// locks/journal is held, so nobody is about to. It tries once, and leaves a segment that is damaged
// to a repair.
func (j *Journal) saveMissing() {
	for _, seg := range j.bare {
		if _, err := j.Fsys.Stat(layout.SummaryName(seg)); !errors.Is(err, fs.ErrNotExist) {
			continue // by now it is there
		}
		st, err := j.Fsys.Stat(layout.SegmentName(seg))
		if err != nil {
			continue
		}
		if found, err := j.ReadSegment(seg); err == nil && len(found.Damage) == 0 {
			j.saveSummary(seg, found.List, st.Size)
		}
	}
	j.bare = nil
}

// BySeq returns the snapshot of a number, nil if there is none.
func (j *Journal) BySeq(seq uint64) (*store.Snapshot, error) {
	for {
		s, seg, err := j.lookUp(seq)
		if !errors.Is(err, errStale) {
			return s, err
		}
		if err := j.distrust(seg); err != nil {
			return nil, err
		}
	}
}

// lookUp is bySeq, trusting summaries. With errStale it returns the segment
// whose summary is wrong.
func (j *Journal) lookUp(seq uint64) (found *store.Snapshot, in uint64, err error) {
	if i, ok := j.findRecent(seq); ok {
		return j.recent[i], 0, nil
	}
	// Records are numbered in the order of segments, but one that damage took all records of
	// has no place in it. One that was said again after damage is in a later segment, too.
	i, _ := slices.BinarySearchFunc(j.ClosedSegs, seq, func(seg, seq uint64) int {
		c, cerr := j.olderSegment(seg)
		if cerr != nil {
			err = cerr
			return 0
		}
		return cmp.Compare(c.Sum.Last, seq)
	})
	if err != nil {
		return nil, 0, err
	}
	if found, in, err = j.lookUpFrom(i, seq); found == nil && err == nil && i > 0 {
		return j.lookUpFrom(0, seq)
	}
	return found, in, err
}

// lookUpFrom is lookUp in the closed segments from one on.
func (j *Journal) lookUpFrom(i int, seq uint64) (found *store.Snapshot, in uint64, err error) {
	// What is said again counts: the segments behind may have it.
	first := 0 // the segment that has it
	for n, seg := range j.ClosedSegs[i:] {
		if found != nil && n > first+sayAgain {
			break
		}
		c, err := j.olderSegment(seg)
		if err != nil {
			return nil, 0, err
		}
		k, ok := slices.BinarySearchFunc(c.Sum.Recs, seq, func(r RecordRef, seq uint64) int {
			return cmp.Compare(r.Seq, seq)
		})
		if !ok {
			continue
		}
		if found == nil {
			first = n
		}
		if found, err = j.snapshotAt(seg, c.Sum.Recs[k]); err != nil {
			return nil, seg, err
		}
	}
	return found, 0, nil
}

// sayAgain is in how many segments after its own a record is looked for that
// was said again. It is there to bound the time: it is said again at once.
const sayAgain = 4

// LastBySeq is BySeq, and finds what was said again however much later: a label may come years
// after its record. It reads the summaries of all segments behind that of the record.
func (j *Journal) LastBySeq(seq uint64) (*store.Snapshot, error) {
	found, err := j.BySeq(seq)
	if _, isRecent := j.findRecent(seq); err != nil || found == nil || isRecent {
		return found, err
	}
	if err := j.readAgain(); err != nil {
		return nil, err
	}
	if seg := j.again[seq]; seg != 0 {
		again, err := j.inSegment(seg, seq)
		return cmp.Or(again, found), err
	}
	return found, nil
}

// LastLabels returns the labels, "" among them, of records that segments say again, and so maybe
// later than BySeq looks, and of those of the newest segment.
func (j *Journal) LastLabels() (map[uint64]string, error) {
	labels := make(map[uint64]string)
	if err := j.readAgain(); err != nil {
		return nil, err
	}
	again := j.again
	inOrder := func(a, b uint64) int { return cmp.Or(cmp.Compare(again[a], again[b]), cmp.Compare(a, b)) }
	for _, seq := range slices.SortedFunc(maps.Keys(again), inOrder) { // each segment is read once
		snap, err := j.inSegment(again[seq], seq)
		if err != nil {
			return nil, err
		}
		if snap != nil {
			labels[seq] = snap.Label
		}
	}
	for _, snap := range j.recent {
		labels[snap.Seq] = snap.Label
	}
	return labels, nil
}

// inSegment returns a record as a closed segment has it, nil if it has not.
func (j *Journal) inSegment(seg, seq uint64) (*store.Snapshot, error) {
	for range 2 {
		c, err := j.olderSegment(seg)
		if err != nil {
			return nil, err
		}
		k, ok := slices.BinarySearchFunc(c.Sum.Recs, seq, func(r RecordRef, seq uint64) int {
			return cmp.Compare(r.Seq, seq)
		})
		if !ok {
			return nil, nil
		}
		found, err := j.snapshotAt(seg, c.Sum.Recs[k])
		if !errors.Is(err, errStale) {
			return found, err
		}
		if err := j.distrust(seg); err != nil {
			return nil, err
		}
	}
	return nil, errStale
}

// readAgain takes in which records closed segments say again. What was read stays known.
func (j *Journal) readAgain() error {
	if j.again == nil {
		j.again, j.againTo = make(map[uint64]uint64), 0
	}
	for _, seg := range j.ClosedSegs {
		if seg <= j.againTo {
			continue
		}
		c, err := j.olderSegment(seg)
		if err != nil {
			j.again = nil
			return err
		}
		base, err := j.startOf(j.ClosedSegs, seg, c.Sum.Base)
		if err != nil {
			j.again = nil
			return err
		}
		for _, r := range c.Sum.Recs {
			if r.Seq > base {
				break
			}
			j.again[r.Seq] = seg
		}
		j.againTo = seg
	}
	return nil
}

// A Chooser chooses the table of a summary, and the range of keys in it, that may have
// what is looked for.
type Chooser func(*Summary) (table []KeyRef, from, to uint64)

// Find yields the snapshots that fit, newest first, of those that refs chooses.
func (j *Journal) Find(fits func(*store.Snapshot) bool, refs Chooser) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		var later said
		// segment yields what fits of a segment, and takes up what it says
		// again, whether it fits or not.
		segment := func(list []*store.Snapshot, base uint64) bool {
			for _, s := range later.merge(list, base) {
				if fits(s) && !yield(s, nil) {
					return false
				}
			}
			return true
		}
		if !segment(j.recent, j.base) {
			return
		}
		for _, seg := range slices.Backward(j.ClosedSegs) {
			c, err := j.olderSegment(seg)
			if err != nil {
				yield(nil, err)
				return
			}
			list, err := j.candidates(seg, c, &later, refs)
			if errors.Is(err, errStale) {
				if err = j.distrust(seg); err == nil {
					list, err = j.candidates(seg, c, &later, refs)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			base, err := j.startOf(j.ClosedSegs, seg, c.Sum.Base)
			if err != nil {
				yield(nil, err)
				return
			}
			if !segment(list, base) {
				return
			}
			for _, r := range c.Sum.Recs {
				if r.Seq > base {
					break
				}
				if !later.all[r.Seq] {
					later.note(r.Seq, nil)
				}
			}
		}
		segment(nil, 0) // what is said again, and whose own segments are missing
	}
}

// candidates reads the records of a closed segment that may fit, but for those
// that a later one says again.
func (j *Journal) candidates(seg uint64, c *closedSegment, later *said, refs Chooser) ([]*store.Snapshot, error) {
	var list []*store.Snapshot
	for ref := range c.Sum.Between(refs(c.Sum)) {
		if later.all[ref.Seq] {
			continue
		}
		s, err := j.snapshotAt(seg, ref)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// SameFacts reports whether two versions of a snapshot say that the same
// happened.
func SameFacts(a, b *store.Snapshot) bool {
	return a.Tree == b.Tree && a.Coverage == b.Coverage && a.Base == b.Base && slices.Equal(a.Also, b.Also) &&
		a.Time.Equal(b.Time) && a.Worktree == b.Worktree && a.Root == b.Root && a.Head == b.Head &&
		a.Session == b.Session && a.Parent == b.Parent && a.Kind == b.Kind && bytes.Equal(a.Origin, b.Origin)
}

// EndEpoch starts a segment with the next epoch, which counts on no pack that
// is not there. The caller has locked and refreshed the journal.
func (j *Journal) EndEpoch() error {
	if err := j.Writable(); err != nil { // so that nothing is said again that counts on one
		return err
	}
	var packs []PackLen
	for _, p := range j.UnsealedPacks() {
		_, err := j.Fsys.Stat(layout.PackName(p.Pack))
		if err == nil {
			packs = append(packs, p)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l := j.Ledger
	l.Epoch++
	l.Completed = l.Epoch
	return j.RotateTo(l, packs)
}

// WrongSummaries returns the segments whose summaries are missing or are not
// what they say.
func (j *Journal) WrongSummaries() ([]uint64, error) {
	var wrong []uint64
	for _, seg := range j.ClosedSegs {
		sum, length, err := j.summaryOf(seg)
		if err != nil {
			return nil, err
		}
		is, err := vfs.ReadFile(j.Fsys, layout.SummaryName(seg))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if !bytes.Equal(is, sum.Append(nil, j.Store, seg, length)) {
			wrong = append(wrong, seg)
		}
	}
	return wrong, nil
}

// summaryOf returns what the summary of a closed segment should be, and the
// segment's length.
func (j *Journal) summaryOf(seg uint64) (*Summary, int64, error) {
	st, err := j.Fsys.Stat(layout.SegmentName(seg))
	if err != nil {
		return nil, 0, err
	}
	sum, _, err := j.summarize(seg)
	return sum, st.Size, err
}

// RemakeSummary makes the summary of a closed segment again.
func (j *Journal) RemakeSummary(seg uint64) error {
	sum, length, err := j.summaryOf(seg)
	if err != nil {
		return err
	}
	if c := j.Older[seg]; c != nil {
		c.Sum = sum
	}
	return layout.WriteFile(j.Fsys, layout.SummaryName(seg), sum.Append(nil, j.Store, seg, length))
}
