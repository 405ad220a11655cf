package capture

import (
	"errors"
	"maps"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
)

// saveCache writes down what a capture saw, so that the next one is quick. It is
// called when all that the capture put is durable; captureErr is how the capture ended.
func (c *capture) saveCache(captureErr error) error {
	var budget *BudgetError
	if captureErr != nil && !errors.As(captureErr, &budget) {
		// It stopped anywhere: some directories were finished, and those
		// above them were not.
		return nil
	}
	if c.ws.resident {
		c.ws.lock <- struct{}{}
		defer func() { <-c.ws.lock }()
		if c.overtaken() {
			return nil
		}
	}
	s := c.ws.store
	h := c.cache.batch
	was := &c.cache.batch
	var err error
	w := c.sink.(*cas.Writer)
	h.epoch = w.Epoch() // in which the ids were looked up
	if h.packs, err = w.PackLengths(was.packs); err != nil {
		return err
	}
	if !c.lookup && !was.stillThere(h.packs) {
		return nil // the ids were taken on trust, which goes with the packs
	}
	h.boot = bootID()
	h.nextDir = c.newDir.Load()
	h.stamp, h.out = c.stamp, c.outID
	if captureErr != nil || c.unfinished.Load() || c.outMoved.Load() {
		h.out = unknownOut
	}
	if c.unasked.Load() {
		h.stamp = [16]byte{}
	}
	if captureErr != nil || c.unfinished.Load() {
		h.stamp = [16]byte{} // not every ignored name was asked for
		if c.lookup || c.reliable != alwaysReliable {
			return nil // nor every id, or every entry from before the boot
		}
	}
	h.store = s.RawID()
	if c.ws.resident {
		c.remember(h)
		return nil
	}
	maps.DeleteFunc(c.changed, func(number uint32, b block) bool { // what is in the cache already
		return string(b) == string(c.cache.block(number))
	})
	if len(c.changed) == 0 && h.stamp == was.stamp && h.out == was.out && h.epoch == was.epoch &&
		h.boot == was.boot && was.stillThere(h.packs) {
		return nil
	}
	if err := c.cache.save(h, c.changed); !errors.Is(err, errCacheMoved) {
		return err
	}
	return nil
}

// loadCache returns the stat cache, which is empty without a store.
func (ws *Workspace) loadCache() *statCache {
	if ws.cache != nil {
		return ws.cache
	}
	if ws.store == nil {
		return &statCache{}
	}
	c := loadStatCache(ws.store.FS(), ws.store.RawID(), ws.Worktree)
	if ws.resident {
		ws.cache = c
	}
	return c
}

const alwaysReliable = 1<<63 - 1

// unreliable returns the time from which on entries are not trusted because
// the machine may have lost power since they were seen: a new boot can bring
// back old metadata with lost content.
func (c *statCache) unreliable(boot [16]byte) int64 {
	const window = 60 * time.Second
	if c.batch.boot == boot && boot != [16]byte{} || c.size == 0 {
		return alwaysReliable
	}
	return c.batch.time - int64(window)
}

// idsUsable reports whether the ids in the cache are known to be in the store:
// nothing was pruned since, nothing was found damaged, no pack was taken away or put
// back from a copy, and the journal vouches for all that it vouched for then. If the
// sink is a [cas.Writer] of the store, it has just found that out.
func (c *statCache) idsUsable(s *cas.Store, sink Sink) (bool, error) {
	var epoch uint64
	var err error
	lengths := s.PackLengths
	if w, ok := sink.(*cas.Writer); ok {
		epoch, lengths = w.Epoch(), w.PackLengths
	} else {
		epoch, err = s.Epoch()
	}
	if err != nil || epoch != c.batch.epoch {
		return false, err
	}
	now, err := lengths(c.batch.packs)
	return err == nil && c.batch.stillThere(now) && !s.Distrusts(now), err
}

// stillThere reports whether no pack is missing or shorter than it was.
func (h *batchHeader) stillThere(now map[[16]byte]int64) bool {
	for id, length := range h.packs {
		if is, ok := now[id]; !ok || is < length {
			return false
		}
	}
	return true
}

// bootID identifies the running boot of the machine; zero where the system
// does not tell.
func bootID() (id [16]byte) {
	if boot := vfs.BootID(); boot != "" {
		sum := object.Hash(object.Blob, []byte(boot))
		copy(id[:], sum[:])
	}
	return id
}
