package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
)

// bigMember is the length from which on an object is a group by itself: it must not end one
// that has room for others.
const bigMember = pack.MaxGroup / 2

// jobs yields the objects of each record that is written, in order.
func (c *compaction) jobs(done *progress.Progress) iter.Seq[[]compactItem] {
	return func(yield func([]compactItem) bool) {
		var open []compactItem
		size := 0
		for i := range c.items {
			it := &c.items[i]
			if c.packs[it.pack].later && !c.fits(it) {
				done.Count(1, int64(it.raw))
				continue
			}
			if it.alone || it.raw >= bigMember {
				if !yield(c.items[i : i+1]) {
					return
				}
				continue
			}
			if len(open) > 0 && (open[0].isTree != it.isTree || size+int(it.raw) > pack.MaxGroup ||
				len(open) == pack.MaxMembers) {
				if !yield(open) {
					return
				}
				open, size = nil, 0
			}
			open = append(open, *it)
			size += int(it.raw)
		}
		if len(open) > 0 {
			yield(open)
		}
	}
}

// fits reports whether there is room for what is brought forward, and takes that.
func (c *compaction) fits(it *compactItem) bool {
	if c.spare.Add(-int64(it.size)) >= 0 {
		return true
	}
	c.spare.Add(int64(it.size))
	return false
}

// A compactJob makes one record.
type compactJob struct {
	items   []compactItem
	h       pack.Header
	payload []byte
	members []pack.Member // nil: it is one object
	damage  map[int32]error
	err     error
	done    chan struct{}
}

// writeAll makes the records, several at once, and writes them in their order.
func (c *compaction) writeAll(ctx context.Context, out *packOut) error {
	workers := c.plan.workers()
	queue := make(chan *compactJob, workers) // those that are made, or were
	slots := make(chan struct{}, workers)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		defer close(queue)
		for items := range c.jobs(progress.Of(ctx)) {
			j := &compactJob{items: items, done: make(chan struct{})}
			slots <- struct{}{}
			if ctx.Err() != nil {
				return
			}
			go func() {
				defer close(j.done)
				j.err = c.make(j)
				<-slots
			}()
			queue <- j
		}
	}()
	var err error
	for j := range queue { // to its end, so that no goroutine stays
		<-j.done
		if err == nil {
			err = cmp.Or(c.stop(ctx), j.err)
		}
		if err == nil {
			err = c.take(ctx, out, j)
		}
		if err != nil {
			cancel(err)
		}
	}
	err = cmp.Or(err, context.Cause(ctx))
	cancel(nil)
	return err
}

// take writes a record that was made.
func (c *compaction) take(ctx context.Context, out *packOut, j *compactJob) error {
	for i, err := range j.damage {
		if err := c.spoil(int(i), err); err != nil {
			return err
		}
	}
	if j.payload == nil {
		return nil // all of it is damaged
	}
	if err := out.append(j.h, j.payload, j.members); err != nil {
		return err
	}
	if j.members == nil {
		c.written = append(c.written, [pack.PrefixSize]byte(j.h.ID[:]))
	}
	for i := range j.members {
		c.written = append(c.written, [pack.PrefixSize]byte(j.members[i].ID[:]))
	}
	raw, size := int64(0), int64(0)
	for i := range j.items {
		raw += int64(j.items[i].raw)
		size += int64(j.items[i].size)
	}
	for i := range j.items {
		if p, n := c.packs[j.items[i].pack], int64(j.items[i].size); p.later {
			p.brought += n
			p.anew += j.h.Size() * n / size
		}
	}
	c.spare.Add(size - j.h.Size())
	progress.Of(ctx).Count(int64(len(j.items)), raw)
	return nil
}

// make makes a record. What cannot be read for damage is left out.
func (c *compaction) make(j *compactJob) error {
	if j.items[0].alone {
		loc := c.at(&j.items[0])
		h, payload, err := loc.Pack.Read(loc, new([]byte))
		j.h, j.payload = h, payload
		return j.spare(&j.items[0], err)
	}
	size := 0
	for i := range j.items {
		size += int(j.items[i].raw)
	}
	g := group{raw: make([]byte, 0, size)}
	for i := range j.items {
		m, data, err := c.read(&j.items[i])
		if err := j.spare(&j.items[i], err); err != nil {
			return err
		}
		if err == nil {
			g.add(m, data)
		}
	}
	if len(g.members) == 0 {
		return nil
	}
	j.members = g.members
	j.h, j.payload = pack.EncodeGroup(g.members, g.raw, c.plan.encoder, nil)
	return pack.VerifyGroup(&j.h, j.payload, g.raw)
}

// spare makes a note of damage; other errors it returns.
func (j *compactJob) spare(it *compactItem, err error) error {
	if _, ok := errors.AsType[*object.CorruptError](err); !ok {
		return err
	}
	if j.damage == nil {
		j.damage = make(map[int32]error)
	}
	j.damage[it.pack] = err
	return nil
}

func (c *compaction) at(it *compactItem) pack.Location {
	return pack.Location{Pack: c.packs[it.pack].pack, Off: it.off, Stored: it.stored, Member: int(it.member)}
}

// read returns an object, verified. Its bytes are not to be changed.
func (c *compaction) read(it *compactItem) (pack.Member, []byte, error) {
	loc := c.at(it)
	var h pack.Header
	var data []byte
	var err error
	if it.member > 0 {
		var g *pack.Group
		g, err = c.cache.get(loc)
		h, data, err = memberOf(g, err, loc, int(it.member)-1)
	} else {
		h, data, err = new(recordReader).object(loc)
	}
	if err == nil && (h.Raw != it.raw || object.Hash(object.Kind(h.Kind), data) != h.ID) {
		err = corrupt(loc, "content does not hash to %s", h.ID.Short())
	}
	return pack.Member{Kind: h.Kind, Raw: h.Raw, ID: h.ID}, data, err
}

// A packOut is packs that are written at once, and of which nobody knows before they are whole.
type packOut struct {
	s     *Store
	list  []*pack.Writer
	named bool
}

func (o *packOut) append(h pack.Header, payload []byte, members []pack.Member) error {
	n := len(o.list)
	if n == 0 || o.list[n-1].End() >= pack.SealSizeMax {
		if n > 0 {
			if err := o.finish(o.list[n-1]); err != nil {
				return err
			}
		}
		w, err := pack.Create(o.s.fsys, o.s.id)
		if err != nil {
			return err
		}
		o.list = append(o.list, w)
	}
	_, err := o.list[len(o.list)-1].Append(h, payload, members)
	return err
}

// finish ends a pack.
func (o *packOut) finish(w *pack.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	return w.Finish(w.Written)
}

// abort removes the packs that have no name yet, and closes all.
func (o *packOut) abort() {
	for _, w := range o.list {
		if !o.named || !w.IsNamed() {
			if err := errors.Join(w.F.Truncate(0), o.s.fsys.Remove(w.File)); err != nil {
				o.s.log.Warn("pack not removed that nothing needs", "path", w.File, "err", err)
			}
		}
		w.F.Close()
	}
}

// publish makes the packs durable and known to all, and returns their length.
func (o *packOut) publish() (size int64, err error) {
	if len(o.list) == 0 {
		return 0, nil
	}
	if err := o.finish(o.list[len(o.list)-1]); err != nil {
		return 0, err
	}
	if err := o.s.there(); err != nil {
		return 0, err
	}
	// Whole, sealed and durable before they have their names: an index can be made again.
	o.named = true
	if err := o.s.namePacks(o.list); err != nil {
		return 0, err
	}
	for _, w := range o.list {
		if err := w.WriteIndex(o.s.fsys, o.s.id, w.Written-pack.SealSize); err != nil {
			return 0, err
		}
		st, err := o.s.fsys.Stat(layout.IndexName(w.ID))
		if err != nil {
			return 0, err
		}
		size += w.Written + st.Size
	}
	if err := o.s.load(); err != nil {
		return 0, err
	}
	// What goes is counted on to be there.
	o.s.mu.RLock()
	defer o.s.mu.RUnlock()
	found := 0
	for _, x := range o.s.indexes {
		for _, w := range o.list {
			if x.Pack.ID == w.ID && x.Count() <= len(w.Entries) {
				found++
			}
		}
	}
	if found != len(o.list) {
		return 0, fmt.Errorf("%d of %d new packs are not found again", len(o.list)-found, len(o.list))
	}
	return size, nil
}
