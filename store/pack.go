package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// Variables, so that tests reach them sooner.
var (
	// sealSizeMax is where a pack is sealed in the middle of a capture.
	sealSizeMax int64 = 64 << 20
	// sealSizeIdle is the size above which a pack is sealed when a commit
	// is done with it. What stays unsealed is scanned by each process that
	// looks an object up: 8 MiB take about a millisecond.
	sealSizeIdle int64 = 8 << 20
)

// appendBuffer is how much is collected before it is written.
const appendBuffer = 1 << 20

// A pack is one file of many objects, open for reading.
type pack struct {
	id [16]byte
	f  vfs.File
}

// openPack opens a pack and checks that its header belongs to the store.
func openPack(fsys vfs.FS, store, id [16]byte, flag int) (*pack, error) {
	name := packName(id)
	f, err := fsys.OpenFile(name, flag, 0)
	if err != nil {
		return nil, err
	}
	p := &pack{id: id, f: f}
	if _, err := p.checkHeader(store); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// checkHeader checks that the header of a pack is whole and its own. foreign
// says that it is another store's.
func (p *pack) checkHeader(store [16]byte) (foreign bool, err error) {
	var b [fileHeaderSize]byte
	if _, err := p.f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	h, err := parseFileHeader(b[:], packMagic, store)
	if err == nil && h.name != p.id {
		err = fmt.Errorf("header names pack %x", h.name)
	}
	if err != nil {
		return h.store != [16]byte{} && h.store != store, &CorruptError{Path: p.name(), Err: err}
	}
	return false, nil
}

func (p *pack) name() string { return packName(p.id) }

// read returns the header and the payload of the record at loc, both
// checked. It does not look into the payload.
func (p *pack) read(loc location) (recordHeader, []byte, error) {
	if loc.stored > maxChunk { // a wrong length must not take memory without limit
		st, err := p.f.Stat()
		if err == nil && loc.off+recordHeaderSize+int64(loc.stored) > st.Size {
			err = &CorruptError{Path: p.name(), Off: loc.off, Err: io.ErrUnexpectedEOF}
		}
		if err != nil {
			return recordHeader{}, nil, err
		}
	}
	b := make([]byte, recordHeaderSize+int(loc.stored))
	if _, err := p.f.ReadAt(b, loc.off); err != nil {
		if err == io.EOF {
			err = &CorruptError{Path: p.name(), Off: loc.off, Err: io.ErrUnexpectedEOF}
		}
		return recordHeader{}, nil, err
	}
	h, err := parseRecordHeader(b)
	if err == nil && h.stored != loc.stored {
		err = errRecord
	}
	payload := b[recordHeaderSize:]
	if err == nil && checksum(payload) != h.crc {
		err = errors.New("payload does not match its checksum")
	}
	if err != nil {
		return recordHeader{}, nil, &CorruptError{Path: p.name(), Off: loc.off, Err: err}
	}
	return h, payload, nil
}

// sealedAt reports whether the pack ends in a seal, and where its body ends.
func (p *pack) sealedAt() (bodyEnd int64, sealed bool, err error) {
	st, err := p.f.Stat()
	if err != nil || st.Size < fileHeaderSize+sealSize {
		return 0, false, err
	}
	var b [sealSize]byte
	if _, err := p.f.ReadAt(b[:], st.Size-sealSize); err != nil {
		return 0, false, err
	}
	bodyEnd, sealed = parseSeal(b[:])
	if bodyEnd < fileHeaderSize || bodyEnd > st.Size-sealSize {
		return 0, false, nil
	}
	return bodyEnd, sealed, nil
}

// scan finds the records between two offsets. It reads headers
// only. Bytes that are no record are reported as damage, and the scan goes on
// at the next header that is whole.
func (p *pack) scan(from, end int64, fn func(indexEntry)) (damage []*CorruptError, err error) {
	st, err := p.f.Stat()
	if err != nil {
		return nil, err
	}
	if missing := end - st.Size; missing > 0 {
		damage = append(damage, &CorruptError{Path: p.name(), Off: st.Size,
			Err: fmt.Errorf("%d bytes are missing at the end", missing)})
		end = st.Size
	}
	r := &windowReader{f: p.f, end: end}
	for off := from; off < end; {
		b, err := r.at(off, recordHeaderSize)
		if err != nil {
			return damage, err
		}
		h, err := parseRecordHeader(b)
		if err == nil && off+h.size() <= end {
			fn(indexEntry{h.id, location{p, off, h.stored}})
			off += h.size()
			continue
		}
		bad := off
		for off++; off < end; off++ {
			b, err := r.at(off, recordHeaderSize)
			if err != nil {
				return damage, err
			}
			if h, err := parseRecordHeader(b); err == nil && off+h.size() <= end {
				break
			}
		}
		damage = append(damage, &CorruptError{Path: p.name(), Off: bad,
			Err: fmt.Errorf("%d bytes are not a record", off-bad)})
	}
	return damage, nil
}

// A windowReader reads a file in larger pieces than it is asked for.
type windowReader struct {
	f   vfs.File
	end int64
	off int64
	buf []byte
}

const scanWindow = 64 << 10

// at returns up to n bytes at off, fewer at the end.
func (r *windowReader) at(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), r.end-off))
	if off < r.off || off+int64(n) > r.off+int64(len(r.buf)) {
		if cap(r.buf) < scanWindow {
			r.buf = make([]byte, scanWindow)
		}
		got, err := r.f.ReadAt(r.buf[:min(scanWindow, r.end-off)], off)
		if err != nil && err != io.EOF {
			return nil, err
		}
		r.buf, r.off = r.buf[:got], off
		n = min(n, got)
	}
	return r.buf[off-r.off:][:n], nil
}

// A packWriter appends to the one pack that this process holds the lock of.
//
// Store.wmu guards it while it is the active pack. Then it is its sealing's.
type packWriter struct {
	*pack
	buf     []byte // appended and not yet written
	written int64  // length of the file
	entries []indexEntry

	file      string // its name: in tmp/ until its first commit
	committed int64  // a record of the journal vouches for what is below
	dropped   error  // a write has failed, and a commit was under way: see endOffer

	smu    sync.Mutex // held while syncing; guards the rest
	synced int64      // durable up to here
	failed error      // of the first sync that failed
}

// end is the offset that the next record gets.
func (w *packWriter) end() int64 { return w.written + int64(len(w.buf)) }

// append adds a record. It is readable after flush.
func (w *packWriter) append(h recordHeader, payload []byte) (location, error) {
	loc := location{w.pack, w.end(), h.stored}
	w.buf = h.append(w.buf)
	w.buf = append(w.buf, payload...)
	w.entries = append(w.entries, indexEntry{h.id, loc})
	if len(w.buf) >= appendBuffer {
		return loc, w.flush()
	}
	return loc, nil
}

// flush writes what was collected.
func (w *packWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if _, err := w.f.WriteAt(w.buf, w.written); err != nil {
		return err
	}
	w.written += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// sync makes durable what was written up to an offset. One that failed fails
// ever after: the kernel may have marked the pages clean.
func (w *packWriter) sync(end int64) error {
	w.smu.Lock()
	defer w.smu.Unlock()
	if w.failed != nil || w.synced >= end {
		return w.failed
	}
	if w.failed = w.f.Sync(); w.failed == nil {
		w.synced = end
	}
	return w.failed
}

// seal ends the pack behind a body that is written: from now on it is
// immutable and has an index.
func (w *packWriter) seal(fsys vfs.FS, store [16]byte, bodyEnd int64) error {
	// The body before the seal: a power cut may keep the later write and
	// lose the earlier, and who finds a seal counts on all of the body.
	if err := w.sync(bodyEnd); err != nil {
		return err
	}
	w.buf = appendSeal(w.buf, bodyEnd)
	if err := w.flush(); err != nil {
		return err
	}
	// The seal before the index: a pack with an index is never added to.
	if err := w.sync(w.written); err != nil {
		return err
	}
	return writeFile(fsys, indexName(w.id), encodeIndex(store, w.id, bodyEnd, w.entries))
}

// isNamed reports whether others can see the pack.
func (w *packWriter) isNamed() bool { return w.file == w.name() }

// settled reports whether all of the pack is on record.
func (w *packWriter) settled() bool { return w.isNamed() && w.end() == w.committed }

// namesLate says that a pack may get its name while it is open. Windows cannot.
const namesLate = runtime.GOOS != "windows"

// createPack starts a new pack, locked. It lies in tmp/ until a commit has need of
// it: like a segment of the journal it is whole and durable before it has
// its name. So what lies there, and nobody has locked, no record has ever named.
func createPack(fsys vfs.FS, store [16]byte) (*packWriter, error) {
	for {
		id := randomID()
		header := fileHeader{magic: packMagic, store: store, name: id, a: uint64(time.Now().UnixNano())}.append(nil)
		if !namesLate {
			if err := writeFile(fsys, packName(id), header); err != nil {
				return nil, err
			}
			w, err := adoptPack(fsys, store, id, func() (int64, error) { return fileHeaderSize, nil })
			if w != nil || err != nil {
				return w, err
			}
			continue // another process took it up already: good for that one
		}
		name := newPackName(id)
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		ours, err := f.TryLock(vfs.Exclusive)
		if ours && err == nil {
			ours, err = sameFile(fsys, name, f)
		}
		if ours && err == nil {
			return &packWriter{pack: &pack{id: id, f: f}, file: name, buf: header, committed: fileHeaderSize}, nil
		}
		f.Close()
		if err != nil {
			fsys.Remove(name)
			return nil, err
		}
		// Somebody took it for a dead one's before it was locked.
	}
}

// newPackName is the name of a pack that no commit has had need of yet.
func newPackName(id [16]byte) string { return "tmp/" + hex.EncodeToString(id[:]) + ".pack" }

// removeDead removes the packs of processes that died before their first commit:
// nothing was ever promised of them.
func (s *Store) removeDead() error {
	names, err := s.fsys.ReadDir("tmp")
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := parsePackID(name, ".pack")
		if !ok {
			continue
		}
		f, err := s.fsys.OpenFile(newPackName(id), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has got its name
		}
		if err != nil {
			return err
		}
		dead, err := f.TryLock(vfs.Exclusive)
		if dead && err == nil {
			dead, err = sameFile(s.fsys, newPackName(id), f)
		}
		if dead && err == nil {
			err = s.fsys.Remove(newPackName(id))
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// adoptPack takes up an unsealed pack of a process that is gone. durable is
// asked for its durable length once the lock is held. It returns nil if the
// pack is in use, or cannot be added to; in the latter case it is sealed, so
// that nobody tries again.
func adoptPack(fsys vfs.FS, store, id [16]byte, durable func() (int64, error)) (*packWriter, error) {
	p, err := openPack(fsys, store, id, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
		return nil, nil // gone meanwhile, or damaged: check reports it
	}
	if err != nil {
		return nil, err
	}
	w, err := tryAdopt(fsys, store, p, durable)
	if w == nil {
		p.f.Close()
	}
	return w, err
}

func tryAdopt(fsys vfs.FS, store [16]byte, p *pack, durable func() (int64, error)) (*packWriter, error) {
	if ok, err := p.f.TryLock(vfs.Exclusive); !ok || err != nil {
		return nil, err
	}
	if same, err := sameFile(fsys, p.name(), p.f); !same || err != nil {
		return nil, err
	}
	if _, sealed, err := p.sealedAt(); sealed || err != nil {
		return nil, err
	}
	end, err := durable()
	if err != nil {
		return nil, err
	}
	st, err := p.f.Stat()
	if err != nil || st.Size < end {
		return nil, err // shorter than it was: damage, for check to report
	}
	w := &packWriter{pack: p, file: p.name(), written: end, committed: end, synced: end}
	damage, err := p.scan(fileHeaderSize, end, func(e indexEntry) { w.entries = append(w.entries, e) })
	if err != nil || len(damage) > 0 {
		return nil, err
	}
	if st.Size == end {
		if end > fileHeaderSize {
			return w, nil // the name was durable before the journal named the pack
		}
		// Its creator may be gone since before it had synced the name.
		if err := fsys.SyncDir("packs"); err != nil {
			return nil, err
		}
		return w, nil
	}
	// Behind the durable end lies what a process wrote that was killed
	// before it could commit, or whose sync failed: the pages may look
	// clean without being on the disk, so nothing may ever count on them.
	// The seal says that the body ends before.
	w.written = st.Size
	return nil, w.seal(fsys, store, end)
}

// sameFile reports whether a name still is the open file.
func sameFile(fsys vfs.FS, name string, f vfs.File) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return a.Ino == b.Ino && a.Dev == b.Dev, err
}

func parsePackID(name, suffix string) (id [16]byte, ok bool) {
	if len(name) != 32+len(suffix) || name[32:] != suffix {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(name[:32]))
	return id, n == 16 && err == nil
}
