package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// Variables, so that tests reach them sooner.
var (
	// SealSizeMax is where a pack is sealed in the middle of a capture.
	SealSizeMax int64 = 64 << 20
	// SealSizeIdle is the size above which a pack is sealed when a commit
	// is done with it. What stays unsealed is scanned by each process that
	// looks an object up: 8 MiB take about a millisecond.
	SealSizeIdle int64 = 8 << 20
)

// appendBuffer is how much is collected before it is written.
const appendBuffer = 1 << 20

// A Pack is one file of many objects, open for reading.
type Pack struct {
	ID [16]byte
	F  vfs.File
	at vfs.Stat // of F, when it was opened
}

// Open opens a pack and checks that its header belongs to the store.
func Open(fsys vfs.FS, of, id [16]byte, flag int) (*Pack, error) {
	name := layout.PackName(id)
	f, err := fsys.OpenFile(name, flag, 0)
	if err != nil {
		return nil, err
	}
	p := &Pack{ID: id, F: f}
	if p.at, err = f.Stat(); err == nil {
		_, err = p.CheckHeader(of)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// IsAt reports whether the pack's name is that of the file that is open, which is no shorter than it
// should be: it is not where somebody has put another file in its place. The error matches
// fs.ErrNotExist where there is none.
func (p *Pack) IsAt(fsys vfs.FS, end int64) (bool, error) {
	st, err := fsys.Stat(p.Name())
	return err == nil && st.Ino == p.at.Ino && st.Dev == p.at.Dev && st.Size >= end, err
}

// Reaches reports whether the pack is as long as it should be.
func (p *Pack) Reaches(end int64) (bool, error) {
	if p.at.Size >= end {
		return true, nil
	}
	st, err := p.F.Stat() // it may have grown since
	return st.Size >= end, err
}

// CheckHeader checks that the header of a pack is whole and its own. foreign
// says that it is another store's.
func (p *Pack) CheckHeader(of [16]byte) (foreign bool, err error) {
	var b [layout.HeaderSize]byte
	if _, err := p.F.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	h, err := layout.ParseHeader(b[:], layout.PackMagic, of)
	if err == nil && h.Name != p.ID {
		err = fmt.Errorf("header names pack %x", h.Name)
	}
	if err != nil {
		return h.Store != [16]byte{} && h.Store != of, &object.CorruptError{Path: p.Name(), Err: err}
	}
	return false, nil
}

func (p *Pack) Name() string { return layout.PackName(p.ID) }

// buffers keep memory for records, and for what is in them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// TakeBuffer returns a buffer that is somebody's until PutBuffer.
func TakeBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer gives a buffer back. A long one is not kept.
func PutBuffer(b *[]byte) {
	if cap(*b) <= 2*MaxChunk {
		buffers.Put(b)
	}
}

// settle says what becomes of the buffer of a record that was decoded into another: of a raw one it
// has what was decoded.
func settle(h *Header, buf, into *[]byte) {
	switch {
	case h.Codec != CodecRaw:
		PutBuffer(buf)
	case into != nil:
		*into = *buf
	}
}

// ReadObject reads the object at loc, decoded, of a record that is no group. It lies in into, which
// may grow; nil is for once. An error for damage is a [*object.CorruptError].
func (p *Pack) ReadObject(loc Location, into *[]byte) (Header, []byte, error) {
	buf := TakeBuffer()
	h, payload, err := p.Read(loc, buf)
	if err != nil {
		return h, nil, err
	}
	data, err := Decompress(&h, payload, into)
	settle(&h, buf, into)
	if err != nil {
		return h, nil, p.corrupt(loc, err)
	}
	return h, data, nil
}

// Read returns the header and the payload of the record at loc, both
// checked. It does not look into the payload, which lies in a buffer that may grow.
func (p *Pack) Read(loc Location, buf *[]byte) (Header, []byte, error) {
	if loc.Stored > MaxChunk { // a wrong length must not take memory without limit
		st, err := p.F.Stat()
		if err == nil && loc.Off+HeaderSize+int64(loc.Stored) > st.Size {
			err = &object.CorruptError{Path: p.Name(), Off: loc.Off, Err: io.ErrUnexpectedEOF}
		}
		if err != nil {
			return Header{}, nil, err
		}
	}
	n := HeaderSize + int(loc.Stored)
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	if _, err := p.F.ReadAt(b, loc.Off); err != nil {
		if err == io.EOF {
			err = &object.CorruptError{Path: p.Name(), Off: loc.Off, Err: io.ErrUnexpectedEOF}
		}
		return Header{}, nil, err
	}
	h, err := ParseHeader(b)
	if err == nil && h.Stored != loc.Stored {
		err = ErrRecord
	}
	payload := b[HeaderSize:]
	if err == nil && layout.Checksum(payload) != h.Crc {
		err = errors.New("payload does not match its checksum")
	}
	if err != nil {
		return Header{}, nil, &object.CorruptError{Path: p.Name(), Off: loc.Off, Err: err}
	}
	return h, payload, nil
}

// SealedAt reports whether the pack ends in a seal, and where its body ends.
func (p *Pack) SealedAt() (bodyEnd int64, sealed bool, err error) {
	st, err := p.F.Stat()
	if err != nil || st.Size < layout.HeaderSize+SealSize {
		return 0, false, err
	}
	var b [SealSize]byte
	if _, err := p.F.ReadAt(b[:], st.Size-SealSize); err != nil {
		return 0, false, err
	}
	bodyEnd, sealed = ParseSeal(b[:])
	if bodyEnd < layout.HeaderSize || bodyEnd > st.Size-SealSize {
		return 0, false, nil
	}
	return bodyEnd, sealed, nil
}

// Scan finds the records between two offsets. It reads headers
// only. Bytes that are no record are reported as damage, and the scan goes on
// at the next header that is whole.
func (p *Pack) Scan(from, end int64, fn func(Entry)) (damage []*object.CorruptError, err error) {
	st, err := p.F.Stat()
	if err != nil {
		return nil, err
	}
	if missing := end - st.Size; missing > 0 {
		damage = append(damage, &object.CorruptError{Path: p.Name(), Off: st.Size,
			Err: fmt.Errorf("%d bytes are missing at the end", missing)})
		end = st.Size
	}
	r := &windowReader{f: p.F, end: end}
	for off := from; off < end; {
		b, err := r.at(off, HeaderSize)
		if err != nil {
			return damage, err
		}
		h, bad := ParseHeader(b)
		if bad == nil && off+h.Size() <= end {
			if err := p.scanRecord(r, &h, off, fn); err != nil {
				damaged, ok := errors.AsType[*object.CorruptError](err)
				if !ok {
					return damage, err
				}
				damage = append(damage, damaged)
			}
			off += h.Size()
			continue
		}
		start := off
		for off++; off < end; off++ {
			b, err := r.at(off, HeaderSize)
			if err != nil {
				return damage, err
			}
			if h, err := ParseHeader(b); err == nil && off+h.Size() <= end {
				break
			}
		}
		why := fmt.Errorf("%d bytes are not a record", off-start)
		if bad == errTooLong {
			why = fmt.Errorf("%w: %w", why, bad)
		}
		damage = append(damage, &object.CorruptError{Path: p.Name(), Off: start, Err: why})
	}
	return damage, nil
}

// scanRecord calls fn for the object of a record, or for each of a group.
func (p *Pack) scanRecord(r *windowReader, h *Header, off int64, fn func(Entry)) error {
	loc := Location{Pack: p, Off: off, Stored: h.Stored}
	if h.Kind != RecGroup {
		fn(Entry{h.ID, loc})
		return nil
	}
	n, _ := h.members()
	b, err := r.at(off+HeaderSize, n*memberSize)
	if err != nil {
		return err
	}
	list, err := h.table(b)
	if err != nil {
		return p.corrupt(loc, err)
	}
	for i := range list {
		loc.Member = i + 1
		fn(Entry{list[i].ID, loc})
	}
	return nil
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

// A Writer appends to the one pack that this process holds the lock of.
//
// Store.wmu guards it while it is the active pack. Then it is its sealing's.
type Writer struct {
	*Pack
	Buf     []byte // appended and not yet written
	Written int64  // length of the file
	Entries []Entry

	File      string // its name: in tmp/ until its first commit
	Committed int64  // a record of the journal vouches for what is below
	Dropped   error  // a write has failed, and a commit was under way: see endOffer

	Smu    sync.Mutex // held while syncing; guards the rest
	synced int64      // durable up to here
	Failed error      // of the first sync that failed
}

// End is the offset that the next record gets.
func (w *Writer) End() int64 { return w.Written + int64(len(w.Buf)) }

// Append adds a record, and returns what is in it: an object, or the members of a group. It is
// readable after flush.
func (w *Writer) Append(h Header, payload []byte, members []Member) ([]Entry, error) {
	loc := Location{Pack: w.Pack, Off: w.End(), Stored: h.Stored}
	w.Buf = h.Append(w.Buf)
	w.Buf = append(w.Buf, payload...)
	before := len(w.Entries)
	if members == nil {
		w.Entries = append(w.Entries, Entry{h.ID, loc})
	}
	for i := range members {
		loc.Member = i + 1
		w.Entries = append(w.Entries, Entry{members[i].ID, loc})
	}
	if len(w.Buf) >= appendBuffer {
		return w.Entries[before:], w.Flush()
	}
	return w.Entries[before:], nil
}

// Flush writes what was collected.
func (w *Writer) Flush() error {
	if len(w.Buf) == 0 {
		return nil
	}
	if st, err := w.F.Stat(); err != nil {
		return err
	} else if st.Size < w.Written {
		return fmt.Errorf("%d bytes of %s were cut off while it was open", w.Written-st.Size, w.File)
	}
	if _, err := w.F.WriteAt(w.Buf, w.Written); err != nil {
		return err
	}
	w.Written += int64(len(w.Buf))
	w.Buf = w.Buf[:0]
	return nil
}

// Sync makes durable what was written up to an offset. One that failed fails
// ever after: the kernel may have marked the pages clean.
func (w *Writer) Sync(end int64) error {
	w.Smu.Lock()
	defer w.Smu.Unlock()
	if w.Failed != nil || w.synced >= end {
		return w.Failed
	}
	if w.Failed = w.F.Sync(); w.Failed == nil {
		w.synced = end
	}
	return w.Failed
}

// Seal ends the pack behind a body that is written: from now on it is
// immutable and has an index.
func (w *Writer) Seal(fsys vfs.FS, of [16]byte, bodyEnd int64) error {
	if err := w.Finish(bodyEnd); err != nil {
		return err
	}
	return w.WriteIndex(fsys, of, bodyEnd)
}

// Finish ends the pack behind a body that is written, durably. It has no index yet.
func (w *Writer) Finish(bodyEnd int64) error {
	// The body before the seal: a power cut may keep the later write and
	// lose the earlier, and who finds a seal counts on all of the body.
	if err := w.Sync(bodyEnd); err != nil {
		return err
	}
	w.Buf = AppendSeal(w.Buf, bodyEnd)
	if err := w.Flush(); err != nil {
		return err
	}
	// The seal before the index: a pack with an index is never added to.
	return w.Sync(w.Written)
}

// WriteIndex writes the index of a pack that has its seal.
func (w *Writer) WriteIndex(fsys vfs.FS, of [16]byte, bodyEnd int64) error {
	return layout.WriteFile(fsys, layout.IndexName(w.ID), EncodeIndex(of, w.ID, bodyEnd, w.Entries))
}

// IsNamed reports whether others can see the pack.
func (w *Writer) IsNamed() bool { return w.File == w.Name() }

// Settled reports whether all of the pack is on record.
func (w *Writer) Settled() bool { return w.IsNamed() && w.End() == w.Committed }

// Create starts a new pack, locked. It lies in tmp/ until a commit has need of
// it: like a segment of the journal it is whole and durable before it has
// its name. So what lies there, and nobody has locked, no record has ever named.
func Create(fsys vfs.FS, of [16]byte) (*Writer, error) {
	for {
		id := layout.RandomID()
		header := layout.Header{Magic: layout.PackMagic, Store: of, Name: id,
			A: uint64(time.Now().UnixNano())}.Append(nil)
		name := layout.NewPackName(id)
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		at, err := f.Stat()
		ours := false
		if err == nil {
			ours, err = f.TryLock(vfs.Exclusive)
		}
		if ours && err == nil {
			ours, err = layout.SameFile(fsys, name, f)
		}
		if ours && err == nil {
			p := &Pack{ID: id, F: f, at: at}
			return &Writer{Pack: p, File: name, Buf: header, Committed: layout.HeaderSize}, nil
		}
		f.Close()
		if err != nil {
			fsys.Remove(name)
			return nil, err
		}
		// Somebody took it for a dead one's before it was locked.
	}
}

// Adopt takes up an unsealed pack of a process that is gone. durable is
// asked for its durable length once the lock is held. It returns nil if the
// pack is in use, or cannot be added to; in the latter case it is sealed, so
// that nobody tries again.
func Adopt(fsys vfs.FS, of, id [16]byte, durable func() (int64, error)) (*Writer, error) {
	p, err := Open(fsys, of, id, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrCorrupt) {
		return nil, nil // gone meanwhile, or damaged: check reports it
	}
	if err != nil {
		return nil, err
	}
	w, err := tryAdopt(fsys, of, p, durable)
	if w == nil {
		p.F.Close()
	}
	return w, err
}

func tryAdopt(fsys vfs.FS, of [16]byte, p *Pack, durable func() (int64, error)) (*Writer, error) {
	if ok, err := p.F.TryLock(vfs.Exclusive); !ok || err != nil {
		return nil, err
	}
	if same, err := p.IsAt(fsys, 0); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if !same || err != nil {
		return nil, err
	}
	if _, sealed, err := p.SealedAt(); sealed || err != nil {
		return nil, err
	}
	end, err := durable()
	if err != nil {
		return nil, err
	}
	st, err := p.F.Stat()
	if err != nil || st.Size < end {
		return nil, err // shorter than it was: damage, for check to report
	}
	w := &Writer{Pack: p, File: p.Name(), Written: end, Committed: end, synced: end}
	damage, err := p.Scan(layout.HeaderSize, end, func(e Entry) { w.Entries = append(w.Entries, e) })
	if err != nil || len(damage) > 0 {
		return nil, err
	}
	if st.Size == end {
		if end > layout.HeaderSize {
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
	w.Written = st.Size
	return nil, w.Seal(fsys, of, end)
}
