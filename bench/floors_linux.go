package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"
)

// runFloor runs the floor called name in this process.
func runFloor(name string, args []string, stdout io.Writer) error {
	floor, ok := floors[name]
	if !ok {
		return fmt.Errorf("no floor %q", name)
	}
	if len(args) != floor.args {
		return fmt.Errorf("floor %s: want %d arguments, have %d", name, floor.args, len(args))
	}
	if err := floor.run(args, stdout); err != nil {
		return fmt.Errorf("floor %s: %w", name, err)
	}
	return nil
}

var floors = map[string]struct {
	args int
	run  func(args []string, stdout io.Writer) error
}{
	"stat":      {1, statFloor},
	"stat+sync": {2, statSyncFloor},
	"read":      {1, readFloor},
	"hash":      {1, hashFloor},
	"zstd":      {1, zstdFloor},
	"pack":      {2, packFloor},
	"fsync":     {1, fsyncFloor},
	"create":    {2, createFloor},
	"write":     {1, writeFloor},
	"nothing":   {0, func([]string, io.Writer) error { return nil }},

	// No floors, but work that would leave its memory in this process.
	"generate": {3, generateTree},
	"wide":     {2, wideTree},
}

// statFloor lists DIR and stats all files, and prints how many there are.
func statFloor(args []string, stdout io.Writer) error {
	var files, total atomic.Int64
	err := walk(args[0], runtime.GOMAXPROCS(0), func() visitor {
		var st unix.Stat_t
		return func(dir int, _ string, e dirent) error {
			if e.typ == unix.DT_DIR {
				return nil
			}
			if err := unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			files.Add(1)
			total.Add(st.Size)
			return nil
		}
	})
	if err == nil {
		fmt.Fprintf(stdout, "%d files, %d bytes\n", files.Load(), total.Load())
	}
	return err
}

// statSyncFloor is statFloor and then two appends to FILE, each synced: what
// a snapshot has to wait for.
func statSyncFloor(args []string, stdout io.Writer) error {
	if err := statFloor(args[:1], stdout); err != nil {
		return err
	}
	_, err := appendSynced(args[1], 2)
	return err
}

// readFloor reads all files of DIR.
func readFloor(args []string, _ io.Writer) error {
	return eachContent(args[0], func() func([]byte) error {
		return func([]byte) error { return nil }
	})
}

// hashFloor reads and hashes all files of DIR.
func hashFloor(args []string, _ io.Writer) error {
	return eachContent(args[0], func() func([]byte) error {
		return func(data []byte) error {
			blake3.Sum256(data)
			return nil
		}
	})
}

// zstdFloor reads, hashes and compresses all files of DIR.
func zstdFloor(args []string, _ io.Writer) error {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	return eachContent(args[0], func() func([]byte) error {
		var packed []byte
		return func(data []byte) error {
			blake3.Sum256(data)
			packed = encoder.EncodeAll(data, packed[:0])
			return nil
		}
	})
}

// packGroup is how many bytes of small files a bare pack writer compresses at once, as many as
// snapctl does.
const packGroup = 256 << 10

// packFloor reads and hashes all files of DIR, and compresses them, small ones
// together. It appends each to FILE in its smaller form, and syncs that once.
func packFloor(args []string, _ io.Writer) error {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	fd, err := unix.Open(args[1], unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var mu sync.Mutex // guards FILE and groups
	var groups []*[]byte
	put := func(data, packed []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if len(packed) < len(data) {
			return writeAll(fd, packed)
		}
		return writeAll(fd, data)
	}
	err = eachContent(args[0], func() func([]byte) error {
		var packed []byte
		group := new([]byte)
		mu.Lock()
		groups = append(groups, group)
		mu.Unlock()
		return func(data []byte) error {
			blake3.Sum256(data)
			if len(data) < packGroup {
				*group = append(*group, data...)
				if len(*group) < packGroup {
					return nil
				}
				data = *group
				*group = (*group)[:0]
			}
			packed = encoder.EncodeAll(data, packed[:0])
			return put(data, packed)
		}
	})
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := put(*group, encoder.EncodeAll(*group, nil)); err != nil {
			return err
		}
	}
	return unix.Fdatasync(fd)
}

// fsyncFloor appends to FILE, syncing each time, and prints the median time
// of one append in nanoseconds.
func fsyncFloor(args []string, stdout io.Writer) error {
	took, err := appendSynced(args[0], 50)
	if err == nil {
		fmt.Fprintf(stdout, "%d ns\n", median(took))
	}
	return err
}

// writeFloor replaces one file of 4 KiB in each of 10 directories below DIR, as
// editors do: under another name, synced and renamed, and the directory synced.
// It prints how many nanoseconds that took.
func writeFloor(args []string, stdout io.Writer) error {
	var dirs []string
	for i := range 10 {
		dirs = append(dirs, filepath.Join(args[0], strconv.Itoa(i)))
		if err := os.Mkdir(dirs[i], 0o777); err != nil {
			return err
		}
	}
	unix.Sync()
	start := time.Now()
	block := make([]byte, 4<<10)
	for _, dir := range dirs {
		if err := replaceSynced(dir, block); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d ns\n", time.Since(start))
	return nil
}

func replaceSynced(dir string, data []byte) error {
	f, err := os.Create(filepath.Join(dir, "tmp"))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close(), os.Rename(f.Name(), filepath.Join(dir, "file"))); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// appendSynced appends 4 KiB to a file n times and returns how long each
// append and its sync took.
func appendSynced(name string, n int) ([]time.Duration, error) {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	took := make([]time.Duration, n)
	block := make([]byte, 4<<10)
	for i := range took {
		start := time.Now()
		if err := writeAll(fd, block); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(fd); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return took, nil
}

// createFloor makes all directories, files and links of DIR again in the
// empty directory TO, without a temporary name and without a sync. It reads
// each file where it is: the content has to come from somewhere.
func createFloor(args []string, _ io.Writer) error {
	from, to := args[0], args[1]
	return walk(from, 2, func() visitor {
		var buf []byte
		return func(dir int, path string, e dirent) error {
			target := to + path[len(from):] + "/" + e.name
			switch e.typ {
			case unix.DT_DIR:
				return unix.Mkdir(target, 0o777)
			case unix.DT_LNK:
				text, err := os.Readlink(path + "/" + e.name)
				if err != nil {
					return err
				}
				return unix.Symlink(text, target)
			case unix.DT_REG:
				data, err := readFile(dir, e.name, &buf)
				if err != nil {
					return err
				}
				return createFile(target, data)
			}
			return nil
		}
	})
}

func createFile(name string, data []byte) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(writeAll(fd, data), unix.Close(fd))
}

// eachContent reads all regular files below root. Each of its workers calls
// newUse once, and the function that gives with one content after another,
// which is valid until the function returns.
func eachContent(root string, newUse func() func([]byte) error) error {
	return walk(root, runtime.GOMAXPROCS(0), func() visitor {
		var buf []byte
		use := newUse()
		return func(dir int, _ string, e dirent) error {
			if e.typ != unix.DT_REG {
				return nil
			}
			data, err := readFile(dir, e.name, &buf)
			if err != nil {
				return err
			}
			return use(data)
		}
	})
}

// readFile returns the content of a file, in *buf, which it makes larger
// where it has to.
func readFile(dir int, name string, buf *[]byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if int64(len(*buf)) < st.Size {
		*buf = make([]byte, st.Size)
	}
	data := (*buf)[:st.Size]
	for done := 0; done < len(data); {
		n, err := unix.Read(fd, data[done:])
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		done += n
	}
	return data, nil
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// A dirent is one name in a directory.
type dirent struct {
	name string
	typ  byte // unix.DT_REG and the like
}

// A visitor is called for each entry of the directory path, which is open as
// dir. A directory is visited before its entries are.
type visitor func(dir int, path string, e dirent) error

// A task is a directory to list or, with entries, a part of one to visit.
type task struct {
	path    string
	entries []dirent
}

// batch is how many entries of a directory one worker visits before others
// may help: a directory of 100,000 files is work for all.
const batch = 1024

// walk visits everything below root with a number of workers, each with a
// visitor of its own.
func walk(root string, workers int, newVisitor func() visitor) error {
	q := newQueue(task{path: root})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			visit := newVisitor()
			for {
				t, ok := q.pop()
				if !ok {
					return
				}
				q.done(t.run(q, visit))
			}
		})
	}
	wg.Wait()
	return q.err
}

func (t task) run(q *queue, visit visitor) error {
	fd, err := unix.Open(t.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", t.path, err)
	}
	defer unix.Close(fd)
	entries := t.entries
	if entries == nil {
		if entries, err = list(fd); err != nil {
			return fmt.Errorf("list %q: %w", t.path, err)
		}
		for len(entries) > batch {
			q.push(task{t.path, entries[len(entries)-batch:]})
			entries = entries[:len(entries)-batch]
		}
	}
	for _, e := range entries {
		if err := visit(fd, t.path, e); err != nil {
			return fmt.Errorf("visit %q: %w", filepath.Join(t.path, e.name), err)
		}
		if e.typ == unix.DT_DIR {
			q.push(task{path: t.path + "/" + e.name})
		}
	}
	return nil
}

// list returns the entries of the directory that is open as fd.
func list(fd int) ([]dirent, error) {
	entries := []dirent{}
	var buf [32 << 10]byte
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return entries, nil
		}
		// struct linux_dirent64: inode (8 bytes), offset (8), length of
		// the record (2), type (1), name and at least one NUL.
		for rest := buf[:n]; len(rest) > 0; {
			record := rest[:binary.NativeEndian.Uint16(rest[16:])]
			rest = rest[len(record):]
			name, _, _ := bytes.Cut(record[19:], []byte{0})
			e := dirent{string(name), record[18]}
			if e.typ == unix.DT_UNKNOWN {
				return nil, errors.New("the file system does not tell " + strconv.Quote(e.name) + "'s type")
			}
			if e.name != "." && e.name != ".." {
				entries = append(entries, e)
			}
		}
	}
}

// A queue hands out tasks until all are done or one has failed.
type queue struct {
	mu    sync.Mutex // guards the rest
	wake  *sync.Cond // a task came, or the last one is done
	tasks []task
	open  int // tasks that wait or are in hand
	err   error
}

func newQueue(first task) *queue {
	q := &queue{tasks: []task{first}, open: 1}
	q.wake = sync.NewCond(&q.mu)
	return q
}

func (q *queue) push(t task) {
	q.mu.Lock()
	q.tasks = append(q.tasks, t)
	q.open++
	q.mu.Unlock()
	q.wake.Signal()
}

// pop returns the newest task. It waits for one as long as there may be one.
func (q *queue) pop() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && q.open > 0 && q.err == nil {
		q.wake.Wait()
	}
	if len(q.tasks) == 0 || q.err != nil {
		return task{}, false
	}
	last := len(q.tasks) - 1
	t := q.tasks[last]
	q.tasks = q.tasks[:last]
	return t, true
}

// done ends a task that pop returned.
func (q *queue) done(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if q.err == nil {
		q.err = err
	}
	if q.open == 0 || q.err != nil {
		q.wake.Broadcast()
	}
}
