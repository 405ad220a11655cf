package cas

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// This file puts small objects into groups. Who is found in a group that is open is there
// for every writer of the process: a commit writes all groups first.

// maxMember is the length from which on an object has a record of its own.
//
// A variable, so that tests can do without groups.
var maxMember = 128 << 10

// lanes is how many groups of blobs are open at most. With one for all goroutines the files of several
// directories lie between each other, and Linux takes 1 % more from two, 2 % from sixteen.
const lanes = 16

// A grouping is what a Store has of groups that are not written yet. Store.wmu guards
// it, but for on and in.
type grouping struct {
	on    atomic.Bool           // the store may have groups; a compaction begins that beside writers
	open  [lanes + 1]*openGroup // of blobs, and of trees and coverage
	bytes int64                 // that those take at most which are open, or being written

	in      sync.Map // of store.ID: the *openGroup, open or being written, that an object is in
	writing []*openGroup
}

// An openGroup is a group that objects are added to, or that is being compressed.
type openGroup struct {
	group
	buf    *[]byte // that raw lies in, until it grows out of it; of [pack.TakeBuffer]
	owners []*Writer
	done   chan struct{} // closed when it was written, or could not be
}

func newOpenGroup() *openGroup {
	o := &openGroup{buf: pack.TakeBuffer(), done: make(chan struct{})}
	o.raw = (*o.buf)[:0]
	return o
}

// isGroupable reports whether an object goes into a group.
func (w *Writer) isGroupable(kind uint8, n int) bool {
	return w.s.grouping.on.Load() && !w.single.Load() && kind != pack.RecChunked && n < maxMember
}

// Single has the writer store objects by themselves: for who stores what nobody has asked for,
// a little now and then.
func (w *Writer) Single() { w.single.Store(true) }

// putInGroup adds an object to the open group of its kind and lane: the first, until that was full
// once, since few objects are to be in one group. The objects of a group that is full then are written
// by the caller.
func (w *Writer) putInGroup(kind uint8, id store.ID, data []byte, lane int) error {
	s := w.s
	s.wmu.Lock()
	of := 0
	switch {
	case kind != uint8(object.Blob):
		of = lanes
	case w.isLarge:
		of = lane % lanes
	}
	if w.generation != s.generation {
		defer s.wmu.Unlock()
		return s.failed
	}
	g := &s.grouping
	var full *openGroup
	if o := g.open[of]; o != nil && !o.fits(len(data)) {
		full = s.takeGroup(of)
		w.isLarge = w.isLarge || of < lanes
	}
	if g.open[of] == nil {
		g.open[of] = newOpenGroup()
	}
	o := g.open[of]
	o.add(pack.Member{Kind: kind, Raw: uint32(len(data)), ID: id}, data)
	o.owners = append(o.owners, w)
	g.bytes += memberBytes(len(data))
	g.in.Store(id, o)
	s.wmu.Unlock()
	if full != nil {
		s.writeGroup(w.generation, full) // who fails ends the generation
	}
	return nil
}

// memberBytes is what an object takes at most, also an empty one.
func memberBytes(n int) int64 { return int64(pack.HeaderSize + n) }

// size is what a group takes at most.
func (o *openGroup) size() int64 { return memberBytes(0)*int64(len(o.members)) + int64(len(o.raw)) }

// leave forgets that objects are in a group: they are on the disk, or lost with it.
func (g *grouping) leave(o *openGroup) {
	for i := range o.members {
		g.in.CompareAndDelete(o.members[i].ID, o)
	}
}

// takeGroup takes an open group out, which the caller is about to write. Store.wmu is held.
func (s *Store) takeGroup(of int) *openGroup {
	o := s.grouping.open[of]
	s.grouping.open[of] = nil
	s.grouping.writing = append(s.grouping.writing, o)
	return o
}

// writeGroup writes a group that was taken out. If it cannot be written, all writers of the
// process end: any of them may count on it.
func (s *Store) writeGroup(generation int, o *openGroup) {
	defer close(o.done)
	buf := scratches.Get().(*scratch)
	defer scratches.Put(buf)
	size, err := o.write(buf, func(h pack.Header, payload []byte, members []pack.Member) error {
		return s.append(generation, h, payload, members)
	})
	if err != nil {
		s.wmu.Lock()
		if generation == s.generation {
			s.fail(fmt.Errorf("write group of %d objects: %w", len(o.members), err))
		}
		s.wmu.Unlock()
	}
	s.grouping.leave(o) // by now they are in objects
	for i, share := range pack.Shares(o.members, size) {
		o.owners[i].countStored(share)
	}
	s.wmu.Lock()
	s.grouping.bytes -= o.size()
	*o.buf = o.raw // nobody reads it by now, and it is as long as the next group is going to be
	pack.PutBuffer(o.buf)
	i := slices.Index(s.grouping.writing, o)
	s.grouping.writing = slices.Delete(s.grouping.writing, i, i+1)
	s.wmu.Unlock()
}

func (w *Writer) countStored(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Stored += n
}

// flushGroups writes the groups that are open, and waits for those that others are writing.
func (s *Store) flushGroups() {
	s.wmu.Lock()
	generation := s.generation
	var list []*openGroup
	for of := range s.grouping.open {
		if s.grouping.open[of] != nil {
			list = append(list, s.takeGroup(of))
		}
	}
	writing := slices.Clone(s.grouping.writing)
	s.wmu.Unlock()
	for _, o := range list {
		s.writeGroup(generation, o)
	}
	for _, o := range writing {
		<-o.done
	}
}

// isGrouped reports whether an object is in a group that is not written yet.
func (s *Store) isGrouped(id store.ID) bool {
	_, ok := s.grouping.in.Load(id)
	return ok
}

// dropGroups forgets what is in groups, of a generation that has failed: what is being written
// will not be there. Store.wmu is held.
func (s *Store) dropGroups() {
	g := &s.grouping
	for of, o := range g.open {
		if o != nil {
			g.leave(o)
			g.bytes -= o.size()
			g.open[of] = nil
		}
	}
	for _, o := range g.writing {
		g.leave(o)
	}
}
