package capture

import (
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
)

// Counts are what there is in a directory, or in all of a tree.
type counts struct{ files, dirs, links, bytes, omitted int64 }

func (n *counts) add(m counts) { n.addTimes(m, 1) }

func (n *counts) sub(m counts) { n.addTimes(m, -1) }

func (n *counts) addTimes(m counts, times int64) {
	n.files += times * m.files
	n.dirs += times * m.dirs
	n.links += times * m.links
	n.bytes += times * m.bytes
	n.omitted += times * m.omitted
}

// A dirSum is what must be known of a directory that is skipped.
type dirSum struct {
	known    bool
	own, all counts // of itself, and with all below
	marks    marks  // of itself
	allMarks marks  // with all below
}

// Marks say why a directory may not be skipped.
type marks uint8

const (
	// doubt: a change might not be told. The directory is not watched, or lies
	// on another file system; a file has other names, through which it may be
	// written; or something could not be captured, for a reason that may pass.
	doubt marks = 1 << iota
	// matched: a rule matches a name. Whether git tracks it must be asked again
	// when git's index has changed.
	matched
)

// sum returns what is known of a directory.
func (c *statCache) sum(dir uint32) dirSum {
	if int(dir) >= len(c.sums) {
		return dirSum{}
	}
	return c.sums[dir]
}

// sumUp adds up what there is in the directory and below.
func (j *dirJob) sumUp() {
	s := &j.sum // which verify has begun
	s.known = true
	if j.unwatched || j.shifting || j.linked.Load() || !j.c.local || j.st.Dev != j.c.rootDev {
		s.marks |= doubt
	}
	switch was := j.c.cache.sum(j.number); {
	case j.slots != nil || j.old == nil:
		s.own, s.marks = counts{}, s.marks&doubt
		for i := range j.slots {
			s.addSlot(&j.slots[i])
		}
	case j.touched:
		s.own = was.own
		s.marks |= was.marks
		for i, e := range j.edits {
			if e.kind == vfs.Regular {
				s.own.bytes += e.st.Size - j.old.entry(i).fileSize()
			}
		}
	}
	s.own.dirs = 1
	s.all, s.allMarks = j.below, s.marks|j.belowMarks
	s.all.add(s.own)
	for _, k := range j.kids {
		if !k.gone && k.reason == 0 {
			s.all.add(k.sum.all)
			s.allMarks |= k.sum.allMarks
		}
	}
	if j.c.ws.watcher != nil {
		j.c.mu.Lock()
		j.c.sums[j.number] = *s
		j.c.mu.Unlock()
	}
}

// addSlot adds a name that is not a captured directory.
func (s *dirSum) addSlot(t *slot) {
	if t.gone {
		return
	}
	if t.matched {
		s.marks |= matched
	}
	s.own.omitted += outCount(t.kind, t.reason, t.out, t.st.Size)
	switch {
	case t.reason == trees.Sparse:
	case t.reason == trees.Unstable, t.reason == trees.Unreadable, t.reason == trees.TooLarge,
		t.reason == trees.OverBudget:
		s.own.omitted++
		s.marks |= doubt
	case t.reason != 0:
		s.own.omitted++
	case t.kind == vfs.Regular:
		s.own.files++
		s.own.bytes += t.st.Size
	case t.kind == vfs.Symlink:
		s.own.links++
	}
}
