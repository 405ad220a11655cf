package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
)

// An Index is the set of paths that git tracks. Paths are relative to the
// root of the working tree and raw bytes, compared exactly: core.ignoreCase
// plays no part.
//
// The index of a sparse checkout may hold a directory in the place of all
// that is tracked below it. Every path there counts as tracked: we do not read
// trees, and capturing a file too many is the safe side.
//
// The zero value tracks nothing. An Index is immutable.
type Index struct {
	parts []names // two for a split index, else one
	dirs  bool    // some names are directories and end in a slash
}

// names are sorted names in one buffer.
type names struct {
	buf  []byte
	span []span
}

// A span is where a name is, and what of its entry matters.
type span struct {
	lo   int
	len  uint32
	skip bool // the skip-worktree bit
	kind Kind
}

func (s span) in(buf []byte) []byte { return buf[s.lo : s.lo+int(s.len)] }

func (n names) at(i int) []byte { return n.span[i].in(n.buf) }

// search returns the place of the first name that is not less than path.
func (n names) search(path string) int {
	i, _ := slices.BinarySearchFunc(n.span, path, func(s span, path string) int {
		name := s.in(n.buf)
		switch {
		case string(name) < path:
			return -1
		case string(name) > path:
			return 1
		}
		return 0
	})
	return i
}

// Tracked reports whether the index has path.
func (x *Index) Tracked(path string) bool {
	for _, n := range x.parts {
		if i := n.search(path); i < len(n.span) && string(n.at(i)) == path {
			return true
		}
	}
	return x.dirs && x.inDir(path)
}

// TrackedUnder reports whether the index has a path below the directory dir;
// "" is the root.
func (x *Index) TrackedUnder(dir string) bool {
	prefix := dir + "/"
	if dir == "" {
		prefix = ""
	}
	for _, n := range x.parts {
		if i := n.search(prefix); i < len(n.span) && bytes.HasPrefix(n.at(i), []byte(prefix)) {
			return true
		}
	}
	return x.dirs && x.inDir(dir)
}

// inDir reports whether path lies below a directory that stands in the index
// as a whole.
func (x *Index) inDir(path string) bool {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		for _, n := range x.parts {
			if j := n.search(path[:i+1]); j < len(n.span) && string(n.at(j)) == path[:i+1] {
				return true
			}
		}
	}
	return false
}

// Len returns how many names the index has. Unmerged paths count up to three
// times.
func (x *Index) Len() int {
	n := 0
	for _, p := range x.parts {
		n += len(p.span)
	}
	return n
}

// Index reads the index of the working tree. A missing one is empty.
func (r *Repo) Index() (*Index, error) {
	hashSize, err := r.hashSize()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.GitDir, "index")
	data, err := readFile(file, maxIndex)
	if len(data) == 0 {
		if ignoreMissing(err) != nil {
			return nil, err
		}
		return &Index{}, nil
	}
	x, err := parseIndex(data, hashSize, func(id []byte) ([]byte, error) {
		return readFile(filepath.Join(r.GitDir, "sharedindex."+hex.EncodeToString(id)), maxIndex)
	})
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", file, err)
	}
	return x, nil
}

// hashSize returns the length of the repository's object ids.
func (r *Repo) hashSize() (int, error) {
	c := configReader{}
	if err := c.file(filepath.Join(r.CommonDir, "config")); err != nil {
		return 0, err
	}
	switch s, _ := c.last("extensions", "objectformat"); s.value {
	case "", "sha1":
		return sha1.Size, nil
	case "sha256":
		return sha256.Size, nil
	default:
		return 0, fmt.Errorf("repository %q: unknown object format %.80q", r.CommonDir, s.value)
	}
}

// An IndexStamp tells two states of the index apart: size, mtime and the last
// bytes, which are git's checksum of it. A split index names its shared part
// by content, so the stamp covers that too. The zero value stands for a missing
// index.
type IndexStamp [48]byte

// IndexStamp costs a stat and a read of 32 bytes: who has an Index with the
// same stamp need not read it again.
func (r *Repo) IndexStamp() (IndexStamp, error) {
	var stamp IndexStamp
	f, size, err := openFile(filepath.Join(r.GitDir, "index"))
	if f == nil || err != nil {
		return stamp, ignoreMissing(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return stamp, err
	}
	binary.BigEndian.PutUint64(stamp[0:], uint64(size))
	binary.BigEndian.PutUint64(stamp[8:], uint64(st.ModTime().UnixNano()))
	if size > 32 {
		if _, err := f.ReadAt(stamp[16:], size-32); err != nil {
			return IndexStamp{}, err
		}
	}
	return stamp, nil
}

var (
	errShort  = errors.New("ends too early")
	errLength = errors.New("its name is not as long as it says")
)

// parseIndex reads an index file: gitformat-index of git's documentation.
// shared returns the content of a sharedindex file. data is kept.
func parseIndex(data []byte, hashSize int, shared func(id []byte) ([]byte, error)) (*Index, error) {
	own, dirs, extensions, err := parseEntries(data, hashSize)
	if err != nil {
		return nil, err
	}
	x := &Index{dirs: dirs}
	link, err := findLink(extensions)
	if err != nil {
		return nil, err
	}
	if link != nil && len(link) < hashSize {
		return nil, fmt.Errorf("link extension: %w", errShort)
	}
	// Entries that only replace the content of a shared one have no name,
	// and are none where nothing is shared.
	named := 0
	for named < len(own.span) && own.span[named].len == 0 {
		named++
	}
	replacing := own.span[:named]
	own.span = own.span[named:]
	x.parts = []names{own}
	if link == nil || bytes.Count(link[:hashSize], []byte{0}) == hashSize {
		if named > 0 {
			return nil, errors.New("entry without a name")
		}
		return x, nil
	}
	id := link[:hashSize]
	baseData, err := shared(id)
	if err != nil {
		return nil, err
	}
	base, dirs, _, err := parseEntries(baseData, hashSize)
	if err != nil {
		return nil, fmt.Errorf("sharedindex %x: %w", id, err)
	}
	if err := patchShared(&base, replacing, link[hashSize:]); err != nil {
		return nil, fmt.Errorf("link extension: %w", err)
	}
	x.dirs = x.dirs || dirs
	x.parts = append(x.parts, base)
	return x, nil
}

// parseEntries reads the header and the entries, and returns what follows
// them without the checksum.
func parseEntries(data []byte, hashSize int) (n names, dirs bool, extensions []byte, err error) {
	const headerSize = 12
	statSize := 40 // times, device, inode, mode, owner, size
	if len(data) < headerSize+hashSize {
		return n, false, nil, errShort
	}
	version := binary.BigEndian.Uint32(data[4:])
	if string(data[:4]) != "DIRC" || version < 2 || version > 4 {
		return n, false, nil, errors.New("not an index of version 2, 3 or 4")
	}
	count := int64(binary.BigEndian.Uint32(data[8:]))
	end := len(data) - hashSize
	fixed := statSize + hashSize + 2 // the last are the flags
	if count*int64(fixed) > int64(end-headerSize) {
		return n, false, nil, fmt.Errorf("%d entries: %w", count, errShort)
	}
	n.buf = data
	if version == 4 {
		n.buf = make([]byte, 0, len(data))
	}
	n.span = make([]span, 0, count)
	var prev []byte
	off := headerSize
	for i := range count {
		if end-off < fixed {
			err = errShort
		}
		var s span
		next := 0
		if err == nil {
			s, next, err = n.entry(data[:end], off, fixed, version, prev)
		}
		if name := s.in(n.buf); err == nil && bytes.Compare(prev, name) > 0 {
			err = fmt.Errorf("%q comes after %q", name, prev)
		}
		if err != nil {
			return names{}, false, nil, fmt.Errorf("entry %d at offset %d: %w", i, off, err)
		}
		dirs = dirs || binary.BigEndian.Uint32(data[off+24:]) == 0o040000
		n.span = append(n.span, s)
		prev, off = s.in(n.buf), next
	}
	return n, dirs, data[off:end], nil
}

// entry reads the entry at off, behind one whose name is prev, and returns where the next begins. The
// first fixed bytes are there.
func (n *names) entry(data []byte, off, fixed int, version uint32, prev []byte) (s span, next int, err error) {
	entry := data[off:]
	flags := binary.BigEndian.Uint16(entry[fixed-2:])
	head := fixed
	s.kind = kindOf(binary.BigEndian.Uint32(entry[24:]))
	// The highest bit, "assume unchanged", is another promise: such a file
	// is in the directory.
	if flags&0x4000 != 0 { // extended
		if version < 3 {
			return s, 0, errors.New("extended flags in version 2")
		}
		if len(entry) < fixed+2 {
			return s, 0, errShort
		}
		s.skip = binary.BigEndian.Uint16(entry[fixed:])&0x4000 != 0
		head += 2
	}
	if version == 4 {
		next, err = n.append(&s, entry, head, prev, maxPrefix*len(data))
	} else {
		length := bytes.IndexByte(entry[min(head, len(entry)):], 0)
		next = (head + length + 8) &^ 7 // one to eight zero bytes pad the entry
		if length < 0 || next > len(entry) {
			return s, 0, errShort
		}
		s.lo, s.len = off+head, uint32(length)
	}
	if err == nil && min(int(s.len), 0xfff) != int(flags&0xfff) {
		err = errLength
	}
	return s, off + next, err
}

// append adds a name that says how much of prev it takes over, and returns the length of its entry.
// All names have room for so many bytes.
func (n *names) append(s *span, entry []byte, head int, prev []byte, room int) (int, error) {
	strip, size := uvarint(entry[min(head, len(entry)):])
	if size <= 0 || strip > uint64(len(prev)) {
		return 0, errors.New("bad name prefix")
	}
	head += size
	length := bytes.IndexByte(entry[head:], 0)
	if length < 0 {
		return 0, errShort
	}
	keep := len(prev) - int(strip)
	if len(n.buf)+keep+length > room || keep+length > math.MaxInt32 {
		return 0, errors.New("names are too long")
	}
	s.lo, s.len = len(n.buf), uint32(keep+length)
	n.buf = append(n.buf, prev[:keep]...)
	n.buf = append(n.buf, entry[head:head+length]...)
	return head + length + 1, nil
}

// uvarint reads a number as git packs offsets: seven bits a byte, the high
// ones first, plus one for each further byte. size is 0 if there is none.
func uvarint(b []byte) (v uint64, size int) {
	for i, c := range b {
		if i > 0 {
			v++
		}
		if v > 1<<32 {
			return 0, 0
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
	}
	return 0, 0
}

// findLink returns the extension that makes an index a split one, nil if it
// has none.
func findLink(extensions []byte) (link []byte, err error) {
	for len(extensions) > 0 {
		if len(extensions) < 8 {
			return nil, fmt.Errorf("extension: %w", errShort)
		}
		name := extensions[:4]
		size := int64(binary.BigEndian.Uint32(extensions[4:]))
		extensions = extensions[8:]
		if size > int64(len(extensions)) {
			return nil, fmt.Errorf("extension %q: %w", name, errShort)
		}
		switch {
		case string(name) == "link":
			link = extensions[:size:size]
		case string(name) == "sdir": // some entries are directories, which we see from their mode
		case name[0] < 'A' || name[0] > 'Z':
			// A capital says that it may be ignored.
			return nil, fmt.Errorf("extension %q is unknown", name)
		}
		extensions = extensions[size:]
	}
	return link, nil
}

// patchShared makes of the shared part of a split index what of it holds:
// link is two bitmaps of its entries, those that are dropped and those that
// others replace, one after the other. Those have no names of their own.
func patchShared(base *names, replacing []span, link []byte) error {
	if len(link) == 0 {
		if len(replacing) > 0 {
			return errUnplaced
		}
		return nil
	}
	dropped, size, err := ewah(link, len(base.span))
	if err != nil {
		return err
	}
	if len(replacing) > 0 {
		replaced, _, err := ewah(link[size:], len(base.span))
		if err != nil {
			return err
		}
		for i := range base.span {
			if replaced.has(i) && len(replacing) > 0 {
				s := replacing[0]
				base.span[i].skip, base.span[i].kind = s.skip, s.kind
				replacing = replacing[1:]
			}
		}
		if len(replacing) > 0 {
			return errUnplaced
		}
	}
	kept := base.span[:0]
	for i, s := range base.span {
		if !dropped.has(i) {
			kept = append(kept, s)
		}
	}
	base.span = kept
	return nil
}

var errUnplaced = errors.New("an entry replaces none")

// A bitmap has 64 bits a word, the lowest first.
type bitmap []uint64

func (b bitmap) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 != 0 }

// ewah decodes the first n bits of an EWAH bitmap and returns its length: words
// of 64 bits, of which a marker word says how often a word of all zeros or all
// ones repeats, and how many literal words follow.
func ewah(data []byte, n int) (bits bitmap, size int, err error) {
	const fixed = 12 // number of bits, number of words, and where the last marker is
	if len(data) < fixed {
		return nil, 0, errShort
	}
	words := int64(binary.BigEndian.Uint32(data[4:]))
	if words*8 > int64(len(data)-fixed) {
		return nil, 0, errShort
	}
	rest := data[8 : 8+words*8]
	next := func() uint64 {
		word := binary.BigEndian.Uint64(rest)
		rest = rest[8:]
		return word
	}
	most := (n + 63) / 64
	for len(rest) > 0 {
		marker := next()
		fill := -(marker & 1) // all zeros or all ones
		for range min(marker>>1&0xffffffff, uint64(most-len(bits))) {
			bits = append(bits, fill)
		}
		literals := marker >> 33
		if literals > uint64(len(rest)/8) {
			return nil, 0, errShort
		}
		for range literals {
			if word := next(); len(bits) < most {
				bits = append(bits, word)
			}
		}
	}
	return bits, int(fixed + words*8), nil
}
