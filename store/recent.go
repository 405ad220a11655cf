package store

import "sync"

// maxRecent bounds what is remembered of what was put, in bytes.
const maxRecent = 2 << 20

// recent remembers the newest trees that this process put. Who records a turn
// reads them at once, to tell what has changed. The zero value is empty.
type recent struct {
	mu    sync.Mutex // guards the rest
	data  map[ID][]byte
	order []ID // oldest first
	size  int
}

// add remembers an object, of which the caller keeps data.
func (r *recent) add(id ID, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		r.data = make(map[ID][]byte)
	}
	if _, ok := r.data[id]; ok {
		return
	}
	r.data[id] = append([]byte(nil), data...)
	r.order = append(r.order, id)
	for r.size += len(data); r.size > maxRecent; {
		r.size -= len(r.data[r.order[0]])
		delete(r.data, r.order[0])
		r.order = r.order[1:]
	}
}

// get returns a copy of an object.
func (r *recent) get(id ID) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, ok := r.data[id]
	if !ok {
		return nil, false
	}
	return append([]byte{}, data...), true
}

// forget drops all: it may not be in the store.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.data)
	r.order, r.size = nil, 0
}
