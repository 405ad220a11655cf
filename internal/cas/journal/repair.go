package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

// EndEpoch starts a segment with the next epoch, which counts on no pack that
// is not there. The journal is locked.
func (j *Journal) EndEpoch() error {
	if err := j.Refresh(); err != nil {
		return err
	}
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

// Durable returns the length of each pack that the journal names.
func (j *Journal) Durable() map[[16]byte]int64 {
	durable := make(map[[16]byte]int64, len(j.Packs))
	for id, end := range j.Packs {
		durable[id] = end
	}
	return durable
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
	found, err := j.ReadSegment(seg)
	if err != nil {
		return nil, 0, err
	}
	sum, err := Summarize(found.List)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", layout.SegmentName(seg), err)
	}
	return sum, st.Size, nil
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
