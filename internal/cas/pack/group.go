package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// A group is a record that holds many small objects, its members, which are compressed
// as one (§3.6). Its payload is the table of members, with a checksum of its own in the
// header, and behind it their bytes, one after the other, encoded by the codec.
const (
	// MaxGroup bounds the bytes of a group's members: to read one takes so much memory.
	MaxGroup = 1 << 20
	// MaxMembers keeps the table within the window of a scan, and the number of a
	// member within the ten bits that an index has for it.
	MaxMembers = 1<<10 - 1

	memberSize = 1 + 4 + 32 // kind, length, ID

	// readWhole is the length up to which a group is decoded as a whole.
	readWhole = 256 << 10
)

// A Member is an object in a group.
type Member struct {
	Kind uint8
	Raw  uint32 // its length
	ID   store.ID
}

var errTable = errors.New("members do not match their checksum")

// EncodeGroup makes the record of a group from its members and their bytes. The
// payload is appended to scratch.
func EncodeGroup(members []Member, raw []byte, by Encoder, scratch []byte) (Header, []byte) {
	payload := scratch[:0]
	for i := range members {
		m := &members[i]
		payload = append(payload, m.Kind)
		payload = layout.Le.AppendUint32(payload, m.Raw)
		payload = append(payload, m.ID[:]...)
	}
	table := len(payload)
	h := Header{Kind: RecGroup, Raw: uint32(len(raw))}
	layout.Le.PutUint32(h.ID[:], uint32(len(members)))
	layout.Le.PutUint32(h.ID[4:], layout.Checksum(payload))
	h.Codec = CodecZstd
	if payload = by.EncodeAll(raw, payload); len(payload)-table > len(raw)-len(raw)/20 {
		h.Codec, payload = CodecRaw, append(payload[:table], raw...)
	}
	h.Stored, h.Crc = uint32(len(payload)), layout.Checksum(payload)
	return h, payload
}

// members returns how many members a group has, and the checksum of their table.
func (h *Header) members() (n int, crc uint32) {
	return int(layout.Le.Uint32(h.ID[:])), layout.Le.Uint32(h.ID[4:])
}

// isGroup reports whether a header may be that of a group.
func (h *Header) isGroup() bool {
	n, _ := h.members()
	var rest [24]byte
	return n > 0 && n <= MaxMembers && h.Raw <= MaxGroup && [24]byte(h.ID[8:]) == rest &&
		h.Stored >= uint32(n*memberSize) && h.Stored-uint32(n*memberSize) <= h.Raw
}

// table returns the members of a group, whose table b begins with.
func (h *Header) table(b []byte) ([]Member, error) {
	n, crc := h.members()
	if len(b) < n*memberSize || layout.Checksum(b[:n*memberSize]) != crc {
		return nil, errTable
	}
	list := make([]Member, n)
	sum := uint64(0)
	for i := range list {
		m := b[i*memberSize:][:memberSize]
		list[i] = Member{Kind: m[0], Raw: layout.Le.Uint32(m[1:]), ID: store.ID(m[5:])}
		sum += uint64(list[i].Raw)
		if list[i].Kind == RecChunked || list[i].Kind == RecGroup || list[i].Kind == RecSeal {
			return nil, fmt.Errorf("member of kind %d in a group", list[i].Kind)
		}
	}
	if sum != uint64(h.Raw) {
		return nil, fmt.Errorf("members of %d bytes in a group of %d", sum, h.Raw)
	}
	return list, nil
}

// A Group is what a group holds, decoded, or the beginning of that.
type Group struct {
	Members []Member
	Size    int64 // of its record
	ends    []uint32
	raw     []byte // as far as it was decoded
}

// Has reports whether the member of a number, from 0 on, was decoded.
func (g *Group) Has(i int) bool { return int(g.ends[i]) <= len(g.raw) }

// Decoded returns how many bytes were decoded.
func (g *Group) Decoded() int { return len(g.raw) }

// Data returns the bytes of the member of a number, from 0 on. They are not to be
// changed.
func (g *Group) Data(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = g.ends[i-1]
	}
	return g.raw[start:g.ends[i]:g.ends[i]]
}

// Shares returns which part of the length of a group's record each member takes, by their
// lengths: all of them take the whole.
func Shares(members []Member, size int64) []int64 {
	var sum, before, taken int64
	for i := range members {
		sum += int64(members[i].Raw) + memberSize
	}
	list := make([]int64, len(members))
	for i := range members {
		before += int64(members[i].Raw) + memberSize
		list[i] = before*size/sum - taken
		taken += list[i]
	}
	return list
}

// DecodeGroup returns what the payload of a group holds. As of [Decompress], the bytes lie in into.
func DecodeGroup(h *Header, payload []byte, into *[]byte) (*Group, error) {
	return decodeGroup(h, payload, 0, into)
}

// decodeGroup returns what the payload of a group holds, if member is 0, or a part of it with
// that member, from 1 on. As of [Decompress], the bytes lie in into.
func decodeGroup(h *Header, payload []byte, member int, into *[]byte) (*Group, error) {
	list, err := h.table(payload)
	if err != nil {
		return nil, err
	}
	if member > len(list) {
		return nil, fmt.Errorf("no member %d in a group of %d", member, len(list))
	}
	g := &Group{Members: list, Size: h.Size(), ends: make([]uint32, len(list))}
	end := uint32(0)
	for i := range list {
		end += list[i].Raw
		g.ends[i] = end
	}
	inner := Header{Codec: h.Codec, Raw: h.Raw, Stored: h.Stored - uint32(len(list)*memberSize)}
	payload = payload[len(list)*memberSize:]
	if member > 0 && h.Codec == CodecZstd && h.Raw > readWhole && g.ends[member-1] < h.Raw/8*7 {
		g.raw, err = decompressStart(payload, int(g.ends[member-1]))
	} else {
		g.raw, err = Decompress(&inner, payload, into)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// ReadGroup reads the group that an object is in, decoded. What it holds lies in into, which may
// grow; nil is for once. An error for damage is a [*object.CorruptError].
func (p *Pack) ReadGroup(loc Location, into *[]byte) (*Group, error) {
	return p.readGroup(loc, 0, into)
}

// ReadGroupTo reads a group no further than to the member at a place, if that is worth it.
func (p *Pack) ReadGroupTo(loc Location) (*Group, error) { return p.readGroup(loc, loc.Member, nil) }

func (p *Pack) readGroup(loc Location, member int, into *[]byte) (*Group, error) {
	buf := TakeBuffer()
	h, payload, err := p.Read(loc, buf)
	if err != nil {
		return nil, err
	}
	var g *Group
	if h.Kind != RecGroup {
		err = ErrRecord
	} else {
		g, err = decodeGroup(&h, payload, member, into)
	}
	settle(&h, buf, into)
	if err == nil && loc.Member > len(g.Members) {
		err = fmt.Errorf("no member %d in a group of %d", loc.Member, len(g.Members))
	}
	if err != nil {
		return nil, p.corrupt(loc, err)
	}
	return g, nil
}

// Members returns what is in the group at a place, of which Read has returned the record.
func (p *Pack) Members(loc Location, h *Header, payload []byte) (list []Member, err error) {
	if err = ErrRecord; h.Kind == RecGroup {
		list, err = h.table(payload)
	}
	if err == nil && loc.Member > len(list) {
		err = fmt.Errorf("no member %d in a group of %d", loc.Member, len(list))
	}
	if err != nil {
		return nil, p.corrupt(loc, err)
	}
	return list, nil
}

// ReadMembers reads what is in the group at a place without its bytes, and how long its
// record is.
func (p *Pack) ReadMembers(loc Location) (list []Member, size int64, err error) {
	b := make([]byte, HeaderSize+MaxMembers*memberSize)
	n, err := p.F.ReadAt(b, loc.Off)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	h, err := ParseHeader(b[:n])
	if err == nil && (h.Kind != RecGroup || h.Stored != loc.Stored) {
		err = ErrRecord
	}
	if err == nil {
		list, err = h.table(b[HeaderSize:n])
	}
	if err != nil {
		return nil, 0, p.corrupt(loc, err)
	}
	return list, h.Size(), nil
}

func (p *Pack) corrupt(loc Location, err error) error {
	return &object.CorruptError{Path: p.Name(), Off: loc.Off, Err: err}
}

// VerifyGroup makes sure that a record that was just made decodes to what it was made
// of.
func VerifyGroup(h *Header, payload, raw []byte) error {
	buf := TakeBuffer()
	defer PutBuffer(buf)
	g, err := DecodeGroup(h, payload, buf)
	if err != nil || !bytes.Equal(g.raw, raw) {
		return fmt.Errorf("compressed group does not decode to itself: %w", errors.Join(err, store.ErrCorrupt))
	}
	return nil
}
