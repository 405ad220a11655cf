package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// events are those that are asked for. The end of writing is one because writing
// through a mapping is none.
const events = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// A Watcher watches directories by inotify. An event can be read as soon as the
// call that caused it has returned (inotify(7) queues it before), so what Take
// returns is complete up to its call. It may be used from several goroutines.
type Watcher struct {
	set
	fd   int
	file *os.File // of fd
	raw  syscall.RawConn
	news chan struct{}

	path    string // of the root
	below   string // the root, as mountinfo writes it
	mounts  int    // descriptor of mountinfo: poll tells that it has changed
	mounted string // mounts below the root

	limit int  // directories that are watched at most; 0: no limit
	root  *dir // nil: not watched yet
	byID  map[int32]*dir
	stats Stats

	window     int                 // that Take will end
	arrivals   map[*dir]bool       // directories in which something came
	moving     map[uint32]*arrival // what left a name, by the number of the move
	unasked    []place             // what came, and nobody has asked how many names it has
	came       int                 // so many came in this window
	unfollowed bool                // more came
	passed     bool                // something was written whose name is gone

	buf  [64 << 10]byte
	done chan struct{}
}

// A dir is a directory that is watched, or is above one.
type dir struct {
	up   *dir // nil: it is the root
	name string
	dirs map[string]*dir
	came map[string]*arrival
	id   int32 // of the watch, -1: none

	// Which directory is watched, and how often events had been lost by then.
	dev, ino uint64
	lost     int64
}

// New returns a watcher for the tree at a real path, of which no directory is
// watched yet. It watches at most so many as limit says, if that is not 0. The
// error is the system's, e.g. because it allows no more watchers.
func New(root string, limit int) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &Watcher{
		path: root, limit: limit, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), news: make(chan struct{}, 1),
		byID: make(map[int32]*dir), done: make(chan struct{}),
	}
	w.below = strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n",
		`\012`).Replace(strings.TrimSuffix(root, "/")) + "/"
	if w.raw, err = w.file.SyscallConn(); err == nil {
		// Not by os.Open: the runtime's poller would take what poll is to tell.
		w.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		w.mounted, err = w.mountsBelow()
	}
	if err != nil {
		unix.Close(w.mounts)
		return nil, errors.Join(err, w.file.Close())
	}
	go w.read()
	return w, nil
}

// Close ends the watcher.
func (w *Watcher) Close() error {
	err := w.file.Close() // ends read
	<-w.done
	unix.Close(w.mounts) // opened for reading: nothing can get lost
	return err
}

// News is sent to when something has changed since Take, perhaps once for many
// changes.
func (w *Watcher) News() <-chan struct{} { return w.news }

// Add watches an open directory, from now on. path is where it is below the
// root, slash-separated; "" is the root.
func (w *Watcher) Add(path string, fd int) error {
	w.mu.Lock() // or an event could end the watch before it is known
	defer w.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("watch %q: %w", path, err)
	}
	d := w.at(path)
	if d.id >= 0 && d.dev == uint64(st.Dev) && d.ino == st.Ino && d.lost == w.stats.Lost {
		return nil // if it is another of the same number, the event of that is still to be read
	}
	id, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), events)
	if err == nil && w.limit > 0 && len(w.byID) >= w.limit && w.byID[int32(id)] == nil {
		unix.InotifyRmWatch(w.fd, uint32(id))
		err = fmt.Errorf("%d directories are watched already", w.limit)
	}
	if err != nil {
		w.stats.Refused++
		return fmt.Errorf("watch %q: %w", path, err)
	}
	d.dev, d.ino, d.lost = uint64(st.Dev), st.Ino, w.stats.Lost
	if d.id == int32(id) {
		return nil
	}
	if was := w.byID[int32(id)]; was != nil { // it was moved here
		was.id = -1
	}
	if d.id >= 0 { // another directory was here; what else is told of that is not read any more
		w.passed = true
		w.leave(d)
		delete(w.byID, d.id)
		unix.InotifyRmWatch(w.fd, uint32(d.id)) // it may have gone by itself
		if d.up == nil {
			w.doubt()
		}
	}
	d.id = int32(id)
	w.byID[d.id] = d
	return nil
}

// at returns the directory at a path.
func (w *Watcher) at(path string) *dir {
	if w.root == nil {
		w.root = &dir{id: -1}
	}
	d := w.root
	if path == "" {
		return d
	}
	for name := range strings.SplitSeq(path, "/") {
		next := d.dirs[name]
		if next == nil {
			if d.dirs == nil {
				d.dirs = make(map[string]*dir)
			}
			next = &dir{up: d, name: name, id: -1}
			d.dirs[name] = next
		}
		d = next
	}
	return d
}

// Take returns what may have changed since it was called last.
func (w *Watcher) Take() *Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	w.takeArrivals()
	poll := []unix.PollFd{{Fd: int32(w.mounts), Events: unix.POLLPRI}}
	if n, err := unix.Poll(poll, 0); n > 0 || err != nil && err != unix.EINTR {
		now, err := w.mountsBelow()
		if err != nil || now != w.mounted {
			w.doubt()
		}
		w.mounted = now
	}
	if w.mounted != "" { // what is mounted can be changed at another place, too
		w.whole()
	}
	c := w.set.root
	w.set.root, w.names = nil, 0
	return c
}

// mountsBelow returns the lines of the mounts below the root.
func (w *Watcher) mountsBelow() (string, error) {
	var b []byte
	var err error
	for buf := make([]byte, 32<<10); ; {
		var n int
		if n, err = unix.Pread(w.mounts, buf, int64(len(b))); n <= 0 || err != nil {
			break
		}
		b = append(b, buf[:n]...)
	}
	var list strings.Builder
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 4 && strings.HasPrefix(f[4]+"/", w.below) {
			list.WriteString(l)
		}
	}
	return list.String(), err
}

// Return gives back what Take returned, as if nobody had taken it.
func (w *Watcher) Return(c *Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(nil, c)
}

// Doubt notes that everything may have changed.
func (w *Watcher) Doubt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubt()
}

func (w *Watcher) doubt() {
	w.stats.Lost++
	w.whole()
}

// Stats returns what was counted so far.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Directories = len(w.byID)
	return s
}

// read reads events as they come, so that the queue of the system does not
// overflow.
func (w *Watcher) read() {
	defer close(w.done)
	w.raw.Read(func(uintptr) (done bool) { // an error says that the file was closed
		w.mu.Lock()
		if w.drain() {
			w.tell()
		}
		w.mu.Unlock()
		w.ask()
		return false
	})
}

// tell sends News.
func (w *Watcher) tell() {
	select {
	case w.news <- struct{}{}:
	default: // one is enough
	}
}

// drain reads all events that are there. It reports whether there were any.
func (w *Watcher) drain() (some bool) {
	for {
		n, err := unix.Read(w.fd, w.buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return some
		case err != nil || n <= 0:
			w.doubt()
			return true
		}
		some = true
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if end > len(b) {
				w.doubt()
				break
			}
			name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			w.event(id, mask, binary.NativeEndian.Uint32(b[8:]), name)
			b = b[end:]
		}
	}
}

// event notes what an event says.
func (w *Watcher) event(id int32, mask, cookie uint32, name string) {
	w.stats.Events++
	d := w.byID[id]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.doubt()
	case d == nil: // its watch has been removed
	case mask&unix.IN_IGNORED != 0:
		delete(w.byID, id)
		d.id = -1
		w.leave(d)
		w.mark(d.path(), true)
	case mask&unix.IN_UNMOUNT != 0:
		w.doubt()
	case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
		if d.up == nil {
			w.doubt()
			return
		}
		w.mark(d.path(), true)
		w.forget(d.up, d.name)
	case name == "":
		w.mark(d.path(), false)
	default:
		isDir := mask&unix.IN_ISDIR != 0
		names := uint32(unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE)
		w.mark(append(d.path(), name), isDir && mask&names != 0)
		w.note(append(d.path(), name), mask&names != 0, mask&(unix.IN_MODIFY|unix.IN_ATTRIB) != 0, false)
		switch {
		case !isDir:
			w.follow(d, name, mask, cookie)
		case mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0:
			w.forget(d, name)
		}
	}
}

// path returns where a directory is.
func (d *dir) path() (names []string) {
	for ; d.up != nil; d = d.up {
		names = append(names, d.name)
	}
	slices.Reverse(names)
	return names
}

// forget removes the watches of a directory that is not at its place any more,
// and of all below it. Wherever it is now, whoever looks there watches it anew.
func (w *Watcher) forget(up *dir, name string) {
	if d := up.dirs[name]; d != nil {
		delete(up.dirs, name)
		w.unwatch(d)
	}
}

// unwatch ends the watches of a directory and of all below it.
func (w *Watcher) unwatch(d *dir) {
	w.leave(d)
	if d.id >= 0 {
		unix.InotifyRmWatch(w.fd, uint32(d.id)) // it may have gone by itself
		delete(w.byID, d.id)
	}
	for _, below := range d.dirs {
		w.unwatch(below)
	}
}
