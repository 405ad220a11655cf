package cas

import (
	"iter"
	"log/slog"
	"sync"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/store"
)

// others are the places that may have an object of which the record at loc is damaged: first those
// that are known, then all that the packs of these have of it. An index names one place in its pack.
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
			goOn = try(s.repeats.in(p, s.bodyEnd(p), s.log)[id])
		}
	}
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

// repeats are the objects that packs have in several records, of packs in which damage was met.
type repeats struct {
	mu sync.Mutex // guards the rest
	of map[*pack.Pack]repeated
}

type repeated struct {
	end    int64 // up to where the pack was looked at
	places map[store.ID][]pack.Location
}

// in returns those of a pack up to an end. It reads the headers of the pack, if that is another
// end than when it was looked at last; what cannot be read has none.
func (r *repeats) in(p *pack.Pack, end int64, log *slog.Logger) map[store.ID][]pack.Location {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.of[p]; ok && known.end == end {
		return known.places
	}
	first, places := make(map[store.ID]pack.Location), make(map[store.ID][]pack.Location)
	_, err := p.Scan(layout.HeaderSize, end, func(e pack.Entry) {
		if at, again := first[e.ID]; !again {
			first[e.ID] = e.Location
		} else if places[e.ID] == nil {
			places[e.ID] = []pack.Location{at, e.Location}
		} else {
			places[e.ID] = append(places[e.ID], e.Location)
		}
	})
	if err != nil {
		log.Warn("pack not read", "path", p.Name(), "err", err)
		return nil
	}
	if r.of == nil {
		r.of = make(map[*pack.Pack]repeated)
	}
	r.of[p] = repeated{end, places}
	return places
}
