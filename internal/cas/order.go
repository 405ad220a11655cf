package cas

import (
	"hash/maphash"

	"github.com/boocode/filestore/internal/cas/pack"
)

// An order says in which order a compaction stores objects: those of one path side by side, the
// newest first, and paths as the newest snapshot has them.
type order struct {
	seed  maphash.Seed
	paths map[uint64]uint32 // the number of each path, by its hash: that two share one costs space
	at    uint32            // the path that objects are at now
	ranks map[[pack.PrefixSize]byte]uint64
}

func newOrder() *order {
	return &order{maphash.MakeSeed(), make(map[uint64]uint32), 0, make(map[[pack.PrefixSize]byte]uint64)}
}

// At says at which path, a name in a directory, the objects are that are added next. Marks that
// come from the newest snapshots say it first.
func (l *Live) At(dir, name string) {
	o := l.order
	if o == nil {
		return
	}
	var h maphash.Hash
	h.SetSeed(o.seed)
	h.WriteString(dir)
	h.WriteByte('/')
	h.WriteString(name)
	key := h.Sum64()
	n, ok := o.paths[key]
	if !ok {
		n = uint32(len(o.paths))
		o.paths[key] = n
	}
	o.at = n
}

// add takes up an object.
func (o *order) add(prefix [pack.PrefixSize]byte) {
	if o != nil {
		o.ranks[prefix] = uint64(o.at)<<32 | uint64(uint32(len(o.ranks)))
	}
}
