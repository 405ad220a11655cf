package watch

import (
	"strings"

	"golang.org/x/sys/unix"
)

// A file may have other names, and what is written through one of them is told
// in the directory of that name only. Whoever looks at a directory finds a name
// that is new there, and that the file has others. What he cannot find is a name
// that was made, written through, and is gone again, or another file's, when he
// looks: link(2) and the making of a file are the same event, IN_CREATE.
//
// So the watcher follows the files that came under a name since the last look. It
// asks how many names each has as soon as it has read of its coming: of nearly
// all, the answer is one, and whatever other name such a file gets later is told,
// too. If one of the rest is written, and its name goes, all that is watched is
// doubtful, since any file may be the one that was written.

// An arrival is a file that came under a name since the last look. Of a name
// without one, the file is that which the last look found there, whose other
// names are known.
type arrival struct {
	alone   bool // it had no other name after its coming was told
	written bool // or its attributes have changed
	gone    bool // it was not written; who has it open still may
	after   bool // the name was that of another, which who has it open may still write
	window  int  // in which it came, or got this name
}

// harmless reports whether it does not matter if the file is written and goes: nil
// is one that was there.
func (a *arrival) harmless() bool { return a == nil || a.alone && !a.after }

// A place is where a file came.
type place struct {
	d    *dir
	name string
	a    *arrival
	path string
}

// follow notes what an event says of a name that is no directory's. The caller
// holds mu.
func (w *Watcher) follow(d *dir, name string, mask, cookie uint32) {
	a := d.came[name]
	switch {
	case mask&unix.IN_CREATE != 0:
		w.arrive(d, name, new(arrival))
	case mask&unix.IN_MOVED_TO != 0:
		moved, ok := w.moving[cookie]
		if delete(w.moving, cookie); !ok { // from where nobody watches
			moved = new(arrival)
		}
		w.arrive(d, name, moved)
	case mask&unix.IN_MOVED_FROM != 0:
		if a != nil && a.gone {
			w.passed = true
		}
		if w.moving == nil {
			w.moving = make(map[uint32]*arrival)
		}
		w.moving[cookie] = a
		if a.harmless() {
			delete(d.came, name)
		} else { // two files may have changed places, which is told as two moves
			d.came[name] = &arrival{gone: true, window: w.window}
		}
	case mask&unix.IN_DELETE != 0:
		switch {
		case a.harmless():
			delete(d.came, name)
		case a.gone || a.written:
			w.passed = true
		default:
			a.gone = true
		}
	case !a.harmless(): // it is written
		a.written = true
		if a.gone || a.after {
			w.passed = true
		}
	}
}

// arrive notes that a file came under a name, which may have been another's; nil
// is one that the last look found. The caller holds mu.
func (w *Watcher) arrive(d *dir, name string, a *arrival) {
	if old := d.came[name]; !old.harmless() {
		if old.written && !old.gone {
			w.passed = true
		}
		if a == nil {
			a = &arrival{alone: true}
		}
		a.after = true
	}
	if w.came > maxNames {
		w.unfollowed = true
		a = nil
	}
	if a == nil {
		delete(d.came, name)
		return
	}
	if d.came == nil {
		d.came = make(map[string]*arrival)
		if w.arrivals == nil {
			w.arrivals = make(map[*dir]bool)
		}
		w.arrivals[d] = true
	}
	a.window = w.window
	d.came[name] = a
	w.came++
	if !a.alone {
		w.unasked = append(w.unasked, place{d: d, name: name, a: a})
	}
}

// leave ends following files in a directory that is not watched any more. The
// caller holds mu.
func (w *Watcher) leave(d *dir) {
	for _, a := range d.came {
		if !a.harmless() {
			w.passed = true
		}
	}
	d.came = nil
	delete(w.arrivals, d)
}

// ask finds out of what came whether it has one name only.
func (w *Watcher) ask() {
	for {
		w.mu.Lock()
		list := w.unasked
		w.unasked = nil
		for i, p := range list {
			list[i].path = w.path + "/" + strings.Join(append(p.d.path(), p.name), "/")
		}
		w.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for i, p := range list {
			var st unix.Stat_t
			err := unix.Fstatat(unix.AT_FDCWD, p.path, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err != nil || st.Nlink != 1 {
				list[i].a = nil
			}
		}
		// The answer is of the file that came if nothing has happened to the
		// name since, nor to a directory above.
		w.mu.Lock()
		if w.drain() {
			w.tell()
		}
		for _, p := range list {
			if p.a != nil && !p.a.gone && p.d.came[p.name] == p.a && w.byID[p.d.id] == p.d {
				p.a.alone = true
			}
		}
		w.mu.Unlock()
	}
}

// Looked notes that all that Take has returned so far was looked at: of each name,
// its file is known from now on.
func (w *Watcher) Looked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drain() { // what happened to a name meanwhile may not have been seen
		w.tell()
	}
	w.set.root.looked()
	for d := range w.arrivals {
		for name, a := range d.came {
			if a.window < w.window {
				delete(d.came, name)
			}
		}
		if len(d.came) == 0 {
			d.came = nil
			delete(w.arrivals, d)
		}
	}
}

// takeArrivals begins the next window. The caller holds mu.
func (w *Watcher) takeArrivals() {
	for cookie, a := range w.moving { // out of what is watched
		if !a.harmless() && a.written {
			w.passed = true
		}
		delete(w.moving, cookie)
	}
	if w.passed || w.unfollowed {
		w.whole()
	}
	// What is not followed may still go during the look: look once more.
	w.passed, w.unfollowed = w.unfollowed, false
	w.came = 0
	w.window++
}
