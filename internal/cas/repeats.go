package cas

import (
	"iter"
	"log/slog"
	"maps"
	"sync"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/store"
)

// others are the places that may have an object of which the record at loc is damaged: first those
// that are known, then all that the packs of these have of it, and those without an index. An index
// names one place in its pack, and of packs without one a single place is remembered.
func (s *Store) others(id store.ID, loc pack.Location) iter.Seq[pack.Location] {
	return func(yield func(pack.Location) bool) {
		tried := map[pack.Location]bool{loc: true}
		try := func(places []pack.Location) bool {
			for _, other := range places {
				if !tried[other] && !yield(other) {
					return false
				}
				tried[other] = true
			}
			return true
		}
		known := append(s.copies(id), loc)
		goOn := try(known)
		for i := 0; goOn && i < len(known); i++ {
			p := known[i].Pack
			goOn = try(s.repeats.in(packPart{p, false}, s.bodyEnd(p), s.log)[id])
		}
		open := s.unsealed()
		for i := 0; goOn && i < len(open); i++ {
			goOn = try(s.repeats.in(packPart{open[i], true}, s.bodyEnd(open[i]), s.log)[id])
		}
	}
}

// unsealed returns the packs that others have not sealed, as far as they were read.
func (s *Store) unsealed() (list []*pack.Pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.scanned {
		if p := s.packs[id]; p != nil {
			list = append(list, p)
		}
	}
	return list
}

// bodyEnd returns how far a pack has what a record of the journal vouches for, or a seal; 0 if that is
// not known. What lies behind goes with the next repair.
func (s *Store) bodyEnd(p *pack.Pack) int64 {
	s.mu.Lock()
	end, isOpen := s.scanned[p.ID]
	s.mu.Unlock()
	if isOpen {
		return end
	}
	end, sealed, err := p.SealedAt()
	if !sealed || err != nil {
		return 0
	}
	return end
}

// repeats are the objects that packs have in several records, of packs in which damage was met; or
// all that packs have.
type repeats struct {
	mu sync.Mutex // guards the rest
	of map[packPart]repeated
}

type packPart struct {
	pack *pack.Pack
	all  bool
}

type repeated struct {
	end    int64 // up to where the pack was looked at
	places map[store.ID][]pack.Location
}

// in returns those of a part of a pack up to an end. It reads the headers of the pack, if that is
// another end than when it was looked at last; what cannot be read has none.
func (r *repeats) in(part packPart, end int64, log *slog.Logger) map[store.ID][]pack.Location {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.of[part]; ok && known.end == end {
		return known.places
	}
	places := make(map[store.ID][]pack.Location)
	_, err := part.pack.Scan(layout.HeaderSize, end, func(e pack.Entry) {
		places[e.ID] = append(places[e.ID], e.Location)
	})
	if err != nil {
		log.Warn("pack not read", "path", part.pack.Name(), "err", err)
		return nil
	}
	if !part.all {
		maps.DeleteFunc(places, func(_ store.ID, list []pack.Location) bool { return len(list) < 2 })
	}
	if r.of == nil {
		r.of = make(map[packPart]repeated)
	}
	r.of[part] = repeated{end, places}
	return places
}
