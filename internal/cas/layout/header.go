package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/boocode/filestore/store"
)

// The bytes of packs, indexes and journal segments, as docs/reference/format.md §3-§5
// has them. All numbers are little-endian; all checksums are CRC-32C.

var (
	Le         = binary.LittleEndian
	Be         = binary.BigEndian // where the order of numbers is to be that of bytes
	Castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func Checksum(b []byte) uint32 { return crc32.Checksum(b, Castagnoli) }

// fileVersion is the version in the header of each file.
const fileVersion = 1

// fileHeaderSize is the size of the header that every pack, index and
// journal segment starts with.
const HeaderSize = 64

// HeaderCreated is where the header of a pack has the time of its creation.
const HeaderCreated = 44

const (
	PackMagic    = "boopack\n"
	IndexMagic   = "booindx\n"
	JournalMagic = "boojrnl\n"

	ForgottenMagic = "booforg\n"
)

// A Header is the first 64 bytes of a file (§3.1).
type Header struct {
	Magic string   // 8 bytes: which kind of file
	Store [16]byte // the store that the file belongs to
	Name  [16]byte // pack: its id; index: its pack's; journal: the sequence number
	A     uint64   // pack and journal: creation time, Unix ns; index: end of the pack's body
	B     uint32   // index and forgotten: number of entries; otherwise 0
}

func (h Header) Append(b []byte) []byte {
	start := len(b)
	b = append(b, h.Magic...)
	b = Le.AppendUint32(b, fileVersion)
	b = append(b, h.Store[:]...)
	b = append(b, h.Name[:]...)
	b = Le.AppendUint64(b, h.A)
	b = Le.AppendUint32(b, h.B)
	b = append(b, 0, 0, 0, 0)
	return Le.AppendUint32(b, Checksum(b[start:]))
}

// ErrNoLocks: the file system under the store has no working locks.
var ErrNoLocks = errors.New("file locks do not work here")

// ErrClosed: the store or the writer is closed.
var ErrClosed = errors.New("closed")

// ErrGone: what is at the path of the store is not what was opened.
var ErrGone = errors.New("the store was removed or replaced while it was open")

var ErrHeader = errors.New("not a file of this store: bad header")

func ParseHeader(b []byte, magic string, of [16]byte) (Header, error) {
	h := Header{Magic: magic}
	if len(b) < HeaderSize || string(b[:8]) != magic || Le.Uint32(b[60:]) != Checksum(b[:60]) {
		return h, ErrHeader
	}
	if v := Le.Uint32(b[8:]); v != fileVersion {
		return h, fmt.Errorf("%w: version %d", store.ErrFormat, v)
	}
	h.Store = [16]byte(b[12:28])
	h.Name = [16]byte(b[28:44])
	h.A = Le.Uint64(b[44:])
	h.B = Le.Uint32(b[52:])
	if h.Store != of {
		return h, fmt.Errorf("belongs to store %x", h.Store)
	}
	if Le.Uint32(b[56:]) != 0 || h.B != 0 && magic != IndexMagic && magic != ForgottenMagic {
		return h, ErrHeader
	}
	return h, nil
}
