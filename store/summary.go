package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/vfs"
)

// A summary says where in a journal segment each record is, so that finding
// one does not cost reading them all (docs/format.md §5.5). It is derived: one
// is written when its segment is closed, and made again where it is missing.
type summary struct {
	base    uint64      // number of the last record before the segment, of any kind
	last    uint64      // and up to its end
	recs    []recordRef // by seq
	entries []keyRef    // by the start of the session entry
	trees   []keyRef    // by the start of the tree's ID
	lines   []keyRef    // by the hash of worktree and session: the newest record of each
}

// A recordRef is a snapshot's record in a segment.
type recordRef struct {
	seq uint64
	off uint32 // of its frame
}

// A keyRef is a record by something else than its number. The key is a
// prefix or a hash: who looks one up compares the whole.
type keyRef struct {
	key uint64
	rec uint32 // index in recs
}

const (
	summaryMagic   = "boosumm\n"
	summaryLength  = 44 // in the header: the length of the segment
	summaryCounts  = 32 // base, last, and the numbers of recs, entries, trees, lines
	summaryRefSize = 12 // of each of these
)

func summaryName(seg uint64) string { return fmt.Sprintf("journal/%08d.sum", seg) }

// prefixKey returns the first 8 bytes of a text, so that keys sort as texts do.
func prefixKey[T string | []byte](text T) uint64 {
	var b [8]byte
	copy(b[:], text)
	return be.Uint64(b[:])
}

func (k headKey) sum() uint64 {
	h := blake3.Sum256([]byte(k.worktree + "\x00" + k.session))
	return be.Uint64(h[:])
}

// summarize makes the summary of a segment from its frames.
func summarize(list []placedFrame) (*summary, error) {
	snaps := make(map[uint64]*Snapshot) // by seq: of what is said twice the last counts
	offs := make(map[uint64]uint32)
	sum := new(summary)
	for _, f := range list {
		sum.last = max(sum.last, f.seq)
		if f.off == fileHeaderSize && f.kind == frameState {
			sum.base = f.seq
		}
		if f.kind != frameSnapshot {
			continue
		}
		s, err := parseSnapshot(f.frame)
		if err != nil {
			return nil, err
		}
		snaps[s.Seq], offs[s.Seq] = s, uint32(f.off)
	}
	newest := make(map[headKey]uint32)
	for i, seq := range slices.Sorted(maps.Keys(snaps)) {
		s, rec := snaps[seq], uint32(i)
		sum.recs = append(sum.recs, recordRef{seq, offs[seq]})
		if s.Entry != "" {
			sum.entries = append(sum.entries, keyRef{prefixKey(s.Entry), rec})
		}
		sum.trees = append(sum.trees, keyRef{prefixKey(s.Tree[:]), rec})
		newest[headKey{s.Worktree, s.Session}] = rec
		newest[headKey{s.Worktree, AnySession}] = rec
	}
	for key, rec := range newest {
		sum.lines = append(sum.lines, keyRef{key.sum(), rec})
	}
	for _, refs := range [][]keyRef{sum.entries, sum.trees, sum.lines} {
		slices.SortFunc(refs, func(a, b keyRef) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rec, b.rec))
		})
	}
	return sum, nil
}

// append writes the summary of a segment of some length.
func (sum *summary) append(b []byte, store [16]byte, seg uint64, length int64) []byte {
	start := len(b)
	b = fileHeader{magic: summaryMagic, store: store, name: segmentID(seg), a: uint64(length)}.append(b)
	b = le.AppendUint64(le.AppendUint64(b, sum.base), sum.last)
	for _, n := range []int{len(sum.recs), len(sum.entries), len(sum.trees), len(sum.lines)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, r := range sum.recs {
		b = le.AppendUint32(le.AppendUint64(b, r.seq), r.off)
	}
	for _, refs := range [][]keyRef{sum.entries, sum.trees, sum.lines} {
		for _, r := range refs {
			b = le.AppendUint32(le.AppendUint64(b, r.key), r.rec)
		}
	}
	return le.AppendUint32(b, checksum(b[start:]))
}

var errSummary = errors.New("bad summary")

// parseSummary reads what append writes; length is that of the segment.
func parseSummary(b []byte, store [16]byte, seg uint64, length int64) (*summary, error) {
	h, err := parseFileHeader(b, summaryMagic, store)
	if err != nil {
		return nil, err
	}
	body := len(b) - 4
	if body < fileHeaderSize+summaryCounts || le.Uint32(b[body:]) != checksum(b[:body]) {
		return nil, errSummary
	}
	if h.name != segmentID(seg) || h.a != uint64(length) {
		return nil, fmt.Errorf("%w: of another segment", errSummary)
	}
	var n [4]int
	total := 0
	for i := range n {
		n[i] = int(le.Uint32(b[fileHeaderSize+16+4*i:]))
		total += n[i]
	}
	rest := b[fileHeaderSize+summaryCounts : body]
	if len(rest) != total*summaryRefSize {
		return nil, errSummary
	}
	sum := &summary{base: le.Uint64(b[fileHeaderSize:]), last: le.Uint64(b[fileHeaderSize+8:]), recs: make([]recordRef, n[0])}
	for i := range sum.recs {
		sum.recs[i] = recordRef{le.Uint64(rest), le.Uint32(rest[8:])}
		rest = rest[summaryRefSize:]
	}
	for i, refs := range []*[]keyRef{&sum.entries, &sum.trees, &sum.lines} {
		*refs = make([]keyRef, n[i+1])
		for j := range *refs {
			(*refs)[j] = keyRef{le.Uint64(rest), le.Uint32(rest[8:])}
			if (*refs)[j].rec >= uint32(n[0]) {
				return nil, errSummary
			}
			rest = rest[summaryRefSize:]
		}
	}
	return sum, nil
}

// between yields the records whose keys are in a range, the last one first.
func (sum *summary) between(refs []keyRef, from, to uint64) iter.Seq[recordRef] {
	return func(yield func(recordRef) bool) {
		i, _ := slices.BinarySearchFunc(refs, from, func(r keyRef, key uint64) int { return cmp.Compare(r.key, key) })
		j := i
		for j < len(refs) && refs[j].key <= to {
			j++
		}
		found := slices.Clone(refs[i:j])
		slices.SortFunc(found, func(a, b keyRef) int { return cmp.Compare(b.rec, a.rec) })
		for _, r := range found {
			if !yield(sum.recs[r.rec]) {
				return
			}
		}
	}
}

// A closedSegment is one that others have followed, as far as it was needed.
type closedSegment struct {
	sum     *summary
	content []byte // nil: not read, or dropped since
}

// olderSegment returns what is known of a segment that others have followed.
func (j *journal) olderSegment(seg uint64) (*closedSegment, error) {
	if c := j.older[seg]; c != nil {
		return c, nil
	}
	st, err := j.fsys.Stat(segmentName(seg))
	if err != nil {
		return nil, err
	}
	c := new(closedSegment)
	b, err := vfs.ReadFile(j.fsys, summaryName(seg))
	if err == nil {
		c.sum, err = parseSummary(b, j.store, seg, st.Size)
	}
	if errors.Is(err, ErrFormat) {
		return nil, fmt.Errorf("%s: %w", summaryName(seg), err)
	}
	if err != nil {
		found, err := j.readSegment(seg)
		if err != nil {
			return nil, err
		}
		if c.sum, err = summarize(found.list); err != nil {
			return nil, fmt.Errorf("%s: %w", segmentName(seg), err)
		}
	}
	j.older[seg] = c
	return c, nil
}

// keepContents is how many closed segments stay in memory: who follows a line
// of snapshots to its start goes through one after the other.
const keepContents = 2

// snapshotAt reads one record of a closed segment.
func (j *journal) snapshotAt(seg uint64, ref recordRef) (*Snapshot, error) {
	c := j.older[seg]
	if c.content == nil {
		b, err := vfs.ReadFile(j.fsys, segmentName(seg))
		if err != nil {
			return nil, err
		}
		c.content = b
		if j.inMemory = append(j.inMemory, seg); len(j.inMemory) > keepContents {
			j.older[j.inMemory[0]].content = nil
			j.inMemory = slices.Delete(j.inMemory, 0, 1)
		}
	}
	if int64(ref.off) < int64(len(c.content)) {
		if f, ok := parseFrame(c.content[ref.off:]); ok && f.kind == frameSnapshot && f.seq == ref.seq {
			return parseSnapshot(f)
		}
	}
	return nil, errStale
}

// errStale: a summary names a record that is not there. The segment was
// damaged since, or the summary is not its own.
var errStale = errors.New("summary is out of date")

// distrust makes the summary of a segment anew. What is damaged is not in it:
// a summary may not change what is found.
func (j *journal) distrust(seg uint64) error {
	found, err := j.readSegment(seg)
	if err != nil {
		return err
	}
	j.damage = append(j.damage, found.damage...)
	sum, err := summarize(found.list)
	if err != nil {
		return fmt.Errorf("%s: %w", segmentName(seg), err)
	}
	j.older[seg].sum = sum
	return nil
}

// saveSummary writes the summary of a segment that is complete. It is there
// only to save time: what comes of it is nobody's error, and it is not synced.
func (j *journal) saveSummary(seg uint64, list []placedFrame, length int64) {
	sum, err := summarize(list)
	if err != nil {
		return
	}
	tmp := "tmp/" + randomName() + ".sum"
	f, err := j.fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.WriteAt(sum.append(nil, j.store, seg, length), 0)
	if err = errors.Join(err, f.Close()); err == nil {
		err = j.fsys.Rename(tmp, summaryName(seg))
	}
	if err != nil {
		j.fsys.Remove(tmp)
	}
}

// bySeq returns the snapshot of a number, nil if there is none.
func (j *journal) bySeq(seq uint64) (*Snapshot, error) {
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
func (j *journal) lookUp(seq uint64) (found *Snapshot, in uint64, err error) {
	if i, ok := slices.BinarySearchFunc(j.recent, seq, func(s *Snapshot, seq uint64) int { return cmp.Compare(s.Seq, seq) }); ok {
		return j.recent[i], 0, nil
	}
	// Records are numbered in the order of segments. One that was said again
	// after damage is in a later segment, too.
	i, _ := slices.BinarySearchFunc(j.closedSegs, seq, func(seg, seq uint64) int {
		c, cerr := j.olderSegment(seg)
		if cerr != nil {
			err = cerr
			return 0
		}
		return cmp.Compare(c.sum.last, seq)
	})
	if err != nil {
		return nil, 0, err
	}
	// What is said again counts: the segments behind may have it.
	for n, seg := range j.closedSegs[i:] {
		if found != nil && n > sayAgain {
			break
		}
		c, err := j.olderSegment(seg)
		if err != nil {
			return nil, 0, err
		}
		k, ok := slices.BinarySearchFunc(c.sum.recs, seq, func(r recordRef, seq uint64) int { return cmp.Compare(r.seq, seq) })
		if ok {
			if found, err = j.snapshotAt(seg, c.sum.recs[k]); err != nil {
				return nil, seg, err
			}
		}
	}
	return found, 0, nil
}

// sayAgain is in how many segments after its own a record is looked for that
// was said again. It is there to bound the time: it is said again at once.
const sayAgain = 4

// find yields the snapshots that fit, newest first. refs chooses the table of
// a summary and the range of keys in it that may fit.
func (j *journal) find(fits func(*Snapshot) bool, refs func(*summary) ([]keyRef, uint64, uint64)) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		var later said
		// segment yields what fits of a segment, and takes up what it says
		// again, whether it fits or not.
		segment := func(list []*Snapshot, base uint64) bool {
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
		for _, seg := range slices.Backward(j.closedSegs) {
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
			if !segment(list, c.sum.base) {
				return
			}
			for _, r := range c.sum.recs {
				if r.seq > c.sum.base {
					break
				}
				if !later.all[r.seq] {
					later.note(r.seq, nil)
				}
			}
		}
		segment(nil, 0) // what is said again, and whose own segments are missing
	}
}

// candidates reads the records of a closed segment that may fit, but for those
// that a later one says again.
func (j *journal) candidates(seg uint64, c *closedSegment, later *said, refs func(*summary) ([]keyRef, uint64, uint64)) ([]*Snapshot, error) {
	var list []*Snapshot
	for ref := range c.sum.between(refs(c.sum)) {
		if later.all[ref.seq] {
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

// Amend says a snapshot again, with another session entry, the one above it,
// log, label or data: of what a journal says twice the last counts. Anything
// else that is not as it was is an error, and so is a snapshot that is not
// there or was pruned ([ErrPruned]). When it returns nil, that is durable.
//
// Say it again soon: once four more segments are full, the first version is
// what is found by its number.
func (s *Store) Amend(ctx context.Context, snap *Snapshot) error {
	if s.readOnly {
		return fmt.Errorf("amend snapshot %d: store is open read-only", snap.Seq)
	}
	err := withLock(ctx, s.fsys, journalLock, func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.refresh(); err != nil {
			return err
		}
		old, err := s.j.bySeq(snap.Seq)
		if err != nil {
			return err
		}
		if old == nil {
			return ErrNotFound
		}
		if s.j.pruned.has(snap.Seq) {
			return ErrPruned
		}
		if !sameFacts(old, snap) {
			return errors.New("says something else than what happened")
		}
		// As of any record, the objects must not hang on one that may be lost.
		body := snap.appendBody(nil, s.j.unsealedPacks())
		if len(body) > maxFrameBody {
			return fmt.Errorf("record of %d bytes: the limit is %d", len(body), maxFrameBody)
		}
		if err := s.j.writable(); err != nil {
			return err
		}
		return s.j.append([]record{{frameSnapshot, body, snap.Seq}})
	})
	if err != nil {
		return fmt.Errorf("amend snapshot %d: %w", snap.Seq, err)
	}
	return nil
}

// sameFacts reports whether two versions of a snapshot say that the same
// happened.
func sameFacts(a, b *Snapshot) bool {
	return a.Tree == b.Tree && a.Coverage == b.Coverage && a.Time.Equal(b.Time) && a.Worktree == b.Worktree && a.Root == b.Root &&
		a.Head == b.Head && a.Session == b.Session && a.Parent == b.Parent && a.Kind == b.Kind && a.Base == b.Base && slices.Equal(a.Also, b.Also)
}

// Snapshot returns the snapshot of a number. The error matches [ErrNotFound]
// if there is none, or it is damaged. What another process has said again since
// Newest or a search was called last may go unseen.
func (s *Store) Snapshot(ctx context.Context, seq uint64) (*Snapshot, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if seq > s.j.seq {
		if err := s.j.refresh(); err != nil {
			return nil, err
		}
	}
	found, err := s.j.bySeq(seq)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", seq, err)
	}
	if found == nil {
		return nil, fmt.Errorf("snapshot %d: %w", seq, ErrNotFound)
	}
	return found.present(s.j.pruned), nil
}

// HasEntry is whether there is a snapshot of a session entry, as of when the writer
// began, or later.
func (w *Writer) HasEntry(entry string) (bool, error) {
	key := prefixKey(entry)
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	for _, err := range w.s.j.find(func(snap *Snapshot) bool { return snap.Entry == entry },
		func(sum *summary) ([]keyRef, uint64, uint64) { return sum.entries, key, key }) {
		return err == nil, err
	}
	return false, nil
}

// ByEntry returns the snapshots whose session entry begins with a text,
// newest first. Each pair is a snapshot and nil, or nil and the error that
// ends the sequence.
func (s *Store) ByEntry(ctx context.Context, prefix string) iter.Seq2[*Snapshot, error] {
	low := prefixKey(prefix)
	high := prefixKey(prefix + strings.Repeat("\xff", 8))
	return s.collect(ctx, func(snap *Snapshot) bool { return snap.Entry != "" && strings.HasPrefix(snap.Entry, prefix) },
		func(sum *summary) ([]keyRef, uint64, uint64) { return sum.entries, low, high })
}

// ByTree returns the snapshots whose tree's ID begins with some hex digits,
// of lower case, newest first. Each pair is a snapshot and nil, or nil and the
// error that ends the sequence.
func (s *Store) ByTree(ctx context.Context, prefix string) iter.Seq2[*Snapshot, error] {
	return s.collect(ctx, func(snap *Snapshot) bool { return strings.HasPrefix(snap.Tree.String(), prefix) },
		func(sum *summary) ([]keyRef, uint64, uint64) {
			low, err1 := ParseID((prefix + strings.Repeat("0", 64))[:64])
			high, err2 := ParseID((prefix + strings.Repeat("f", 64))[:64])
			if err1 != nil || err2 != nil || len(prefix) > 64 {
				return nil, 0, 0
			}
			return sum.trees, prefixKey(low[:]), prefixKey(high[:])
		})
}

// collect locks the journal while it collects, not while the caller looks.
func (s *Store) collect(ctx context.Context, fits func(*Snapshot) bool, refs func(*summary) ([]keyRef, uint64, uint64)) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		s.jmu.Lock()
		var found []*Snapshot
		err := s.j.refresh()
		if err == nil {
			for snap, ferr := range s.j.find(fits, refs) {
				if err = errors.Join(ferr, context.Cause(ctx)); err != nil {
					break
				}
				found = append(found, snap.present(s.j.pruned))
			}
		}
		s.jmu.Unlock()
		for _, snap := range found {
			if !yield(snap, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// Sessions returns the newest snapshot of each session of each worktree,
// newest first. Each pair is a snapshot and nil, or nil and the error that
// ends the sequence.
func (s *Store) Sessions(ctx context.Context) iter.Seq2[*Snapshot, error] {
	seen := make(map[headKey]bool)
	first := func(snap *Snapshot) bool {
		key := headKey{snap.Worktree, snap.Session}
		defer func() { seen[key] = true }()
		return !seen[key]
	}
	return s.collect(ctx, first, func(sum *summary) ([]keyRef, uint64, uint64) { return sum.lines, 0, ^uint64(0) })
}
