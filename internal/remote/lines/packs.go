package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/boocode/filestore/internal/remote"
)

// PackPrefix is what the keys of packs begin with, and no others.
const PackPrefix = "data/"

// The bytes of a pack (docs/reference/format-remote.md §6).
const (
	packMagic      = "boorpak\n"
	packVersion    = 1
	packHeaderSize = 16
	sealSize       = 16 // by so much is longer what is sealed
)

// A Part is a record of objects, as docs/reference/format.md §3.2 has it, and which they are.
type Part struct {
	Bytes []byte
	Kind  uint8 // of the record
	IDs   []ID  // one, or those of a group
}

// An ID names an object in an index.
type ID struct {
	Kind uint8
	ID   [32]byte
}

// Parts become a pack, in whose memory they are collected. The zero Parts has none.
type Parts struct {
	text  []byte // of the pack, with room for its head and, behind each part, for its seal
	index []byte // what the pack says of them, with room for their number
	sizes []int
	size  int // the sum
}

// NewParts returns Parts with memory for so many bytes of records, and for what is sealed with them.
func NewParts(size int) *Parts {
	return &Parts{text: make([]byte, 0, size+size/8)}
}

// Size is how many bytes there are of all parts.
func (p *Parts) Size() int { return p.size }

// Add adds a part, whose bytes it copies.
func (p *Parts) Add(part *Part) {
	p.begin()
	n := len(part.Bytes) + sealSize
	if cap(p.text)-len(p.text) < n { // in few steps: each is memory that was not used before
		p.text = slices.Grow(p.text, max(n, 3*len(p.text)))
	}
	p.text = append(p.text, part.Bytes...)
	p.text = p.text[:len(p.text)+sealSize]
	p.index = le.AppendUint32(p.index, uint32(len(part.Bytes)))
	p.index = append(p.index, part.Kind, 0)
	p.index = le.AppendUint16(p.index, uint16(len(part.IDs)))
	for _, id := range part.IDs {
		p.index = append(append(p.index, id.Kind), id.ID[:]...)
	}
	p.sizes, p.size = append(p.sizes, len(part.Bytes)), p.size+len(part.Bytes)
}

func (p *Parts) begin() {
	if len(p.text) == 0 {
		p.text, p.index = append(p.text, make([]byte, packHeaderSize)...), append(p.index, 0, 0, 0, 0)
	}
}

// list returns the index.
func (p *Parts) list() []byte {
	p.begin()
	le.PutUint32(p.index, uint32(len(p.sizes)))
	return p.index
}

// All yields the bytes of all parts, which are there until the parts are put.
func (p *Parts) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		off := packHeaderSize
		for _, n := range p.sizes {
			if !yield(p.text[off : off+n]) {
				return
			}
			off += n + sealSize
		}
	}
}

// reset takes all parts out.
func (p *Parts) reset() { *p = Parts{text: p.text[:0], index: p.index[:0], sizes: p.sizes[:0]} }

var errIndex = errors.New("its index is not as it has to be")

// parseIndex reads what index writes, and nothing else. The parts have their lengths only.
func parseIndex(b []byte) ([]indexed, error) {
	if len(b) < 4 {
		return nil, errIndex
	}
	n := le.Uint32(b)
	b = b[4:]
	var list []indexed
	for range n {
		if len(b) < 8 {
			return nil, errIndex
		}
		x := indexed{Length: le.Uint32(b), Kind: b[4]}
		ids := int(le.Uint16(b[6:]))
		if b[5] != 0 || ids == 0 || len(b) < 8+33*ids {
			return nil, errIndex
		}
		b = b[8:]
		for range ids {
			x.IDs = append(x.IDs, ID{b[0], [32]byte(b[1:33])})
			b = b[33:]
		}
		list = append(list, x)
	}
	if len(b) > 0 {
		return nil, errIndex
	}
	return list, nil
}

// indexed is what an index says of a part.
type indexed struct {
	Length uint32
	Kind   uint8
	IDs    []ID
}

func nonceAt(off int) []byte { return le.AppendUint64(make([]byte, 4, 12), uint64(off)) }

// sealPack returns the bytes of a pack, and its name. They are there until a part is added again, and the parts are
// none.
func sealPack(ks keyring, generation uint64, line Line, parts *Parts) ([]byte, PackRef) {
	list, b := parts.list(), parts.text[:0]
	defer parts.reset()
	epoch := uint32(len(ks))
	ref := PackRef{Generation: generation, Line: line}
	k := ks[epoch-1]
	b = append(b, packMagic...)
	b = le.AppendUint32(b, packVersion)
	b = le.AppendUint32(b, epoch)
	texts := slices.AppendSeq([][]byte{[]byte(ref.dir()), {0}, b, list}, parts.All())
	ref.Hash = k.derive(contextPack).hash(texts...)
	aad := append([]byte(ref.Key()), b...)
	seal := key(k.derive(contextSeal).hash(ref.Hash[:])).aead()
	for text := range parts.All() { // each where it is
		b = seal.Seal(b, nonceAt(len(b)), text, aad)
	}
	ref.Index = uint64(len(b))
	b = seal.Seal(b, nonceAt(len(b)), list, aad)
	ref.Size = uint64(len(b))
	parts.text = b // it may have grown
	return b, ref
}

// openPack calls fn with each record of a pack, whose bytes it must not keep.
func openPack(ks keyring, ref *PackRef, b []byte, fn func(record []byte) error) error {
	if len(b) < packHeaderSize+sealSize || string(b[:8]) != packMagic {
		return errors.New("it is no pack")
	}
	k, err := ks.of(le.Uint32(b[12:]))
	if err != nil {
		return err
	}
	if uint64(len(b)) != ref.Size || ref.Index < packHeaderSize || ref.Index > ref.Size-sealSize {
		return fmt.Errorf("it has %d bytes, not %d", len(b), ref.Size)
	}
	changed := errors.New("it is not what was put there")
	aad := append([]byte(ref.Key()), b[:packHeaderSize]...)
	seal := key(k.derive(contextSeal).hash(ref.Hash[:])).aead()
	text, err := seal.Open(nil, nonceAt(int(ref.Index)), b[ref.Index:], aad)
	if v := le.Uint32(b[8:]); v != packVersion {
		le.PutUint32(aad[len(ref.Key())+8:], packVersion)
		if _, err := seal.Open(nil, nonceAt(int(ref.Index)), b[ref.Index:], aad); err == nil {
			return changed // and no newer version is at work
		}
		return fmt.Errorf("%w: a pack of version %d", ErrNewer, v)
	}
	if err != nil {
		return changed
	}
	list, err := parseIndex(text)
	if err != nil {
		return err
	}
	h := k.derive(contextPack)
	texts := [][]byte{[]byte(ref.dir()), {0}, b[:packHeaderSize], text}
	off, end := packHeaderSize, int(ref.Index)
	for _, x := range list {
		n := int(x.Length) + sealSize
		if n > end-off {
			return errIndex
		}
		// In place: what is left open is as long as the text.
		record, err := seal.Open(b[off:off], nonceAt(off), b[off:off+n], aad)
		if err != nil {
			return changed
		}
		texts = append(texts, record)
		off += n
	}
	if off != end || h.hash(texts...) != ref.Hash {
		return errors.New("it is sealed with another key than its own")
	}
	for _, record := range texts[4:] {
		if err := fn(record); err != nil {
			return err
		}
	}
	return nil
}

// PutPack puts records of objects, before the entry that relies on them. It puts nothing if they are there
// already: who was cut off does not send them again. The parts are none then, also after an error, and their memory
// is for others.
func (r *Repo) PutPack(ctx context.Context, generation uint64, line Line, parts *Parts) (PackRef, error) {
	b, ref := sealPack(r.ring(), generation, line, parts)
	n, err := r.b.Stat(ctx, ref.Key())
	if err == nil && uint64(n) == ref.Size {
		var got []byte
		if got, err = r.b.Get(ctx, ref.Key(), 0, -1); err == nil && bytes.Equal(got, b) {
			return ref, nil
		}
	}
	if err != nil && !errors.Is(err, remote.ErrNoKey) {
		return ref, err
	}
	return ref, r.create(ctx, ref.Key(), b)
}

// ReadPack calls fn with each record of a pack, whose bytes it must not keep. All of it was
// verified before.
func (r *Repo) ReadPack(ctx context.Context, ref *PackRef, fn func(record []byte) error) error {
	return r.withPack(ctx, ref, func(b []byte) error { return r.readPack(ctx, ref, b, fn) })
}

func (r *Repo) readPack(ctx context.Context, ref *PackRef, b []byte, fn func(record []byte) error) error {
	var failed error
	err := r.withKeys(ctx, func(ks keyring) error {
		return openPack(ks, ref, b, func(record []byte) error {
			failed = fn(record)
			return failed
		})
	})
	if err != nil && failed == nil {
		return damaged(ref.Key(), err)
	}
	return err
}

// An IndexPart is what the index of a pack says of one part.
type IndexPart struct {
	Off  uint64 // of the sealed part
	Len  uint32 // of that
	Kind uint8  // of the record
	IDs  []ID
}

// Index reads the index of a pack alone, which says what is in it. It is sealed with the key of
// the pack, so nobody else has written it.
func (r *Repo) Index(ctx context.Context, ref *PackRef) (parts []IndexPart, err error) {
	if r.nearby() == nil {
		b, err := r.b.Get(ctx, ref.Key(), int64(ref.Index), int64(ref.Size-ref.Index))
		if err != nil {
			return nil, err
		}
		return r.parseIndex(ctx, ref, b)
	}
	// Whoever has the key could have sealed another index: only with all of the pack it is the one that was put there.
	err = r.withPack(ctx, ref, func(b []byte) (err error) {
		if uint64(len(b)) < ref.Index {
			return damaged(ref.Key(), fmt.Errorf("it has %d bytes, not %d", len(b), ref.Size))
		}
		if parts, err = r.parseIndex(ctx, ref, b[ref.Index:]); err != nil {
			return err
		}
		return r.readPack(ctx, ref, b, func([]byte) error { return nil })
	})
	return parts, err
}

// parseIndex reads an index as it is sealed.
func (r *Repo) parseIndex(ctx context.Context, ref *PackRef, b []byte) ([]IndexPart, error) {
	var list []indexed
	text, err := r.openPart(ctx, ref, ref.Index, b)
	if err == nil {
		list, err = parseIndex(text)
	}
	var parts []IndexPart
	off := uint64(packHeaderSize)
	for _, x := range list {
		parts = append(parts, IndexPart{off, x.Length + sealSize, x.Kind, x.IDs})
		off += uint64(x.Length) + sealSize
	}
	if err == nil && off != ref.Index {
		err = errIndex
	}
	if err != nil {
		return nil, damaged(ref.Key(), err)
	}
	return parts, nil
}

// ReadRange reads a part of a pack as it is there. OpenPart opens what is in it. look is asked of what comes from
// nearby: what is not as it was sealed is read from the remote; where needsAll, all of the pack is verified.
func (r *Repo) ReadRange(
	ctx context.Context, ref *PackRef, off, n uint64, look func([]byte) (needsAll bool, err error),
) ([]byte, error) {
	if near := r.nearby(); near != nil {
		if b := near.Read(ref.Key(), int64(off), int64(n)); b != nil {
			needsAll, err := look(b)
			switch {
			case err != nil:
				near.Drop(ref.Key(), err)
			case needsAll:
				return r.verifiedRange(ctx, ref, off, n)
			default:
				return b, nil
			}
		}
	}
	b, err := r.b.Get(ctx, ref.Key(), int64(off), int64(n))
	if err == nil && uint64(len(b)) != n {
		err = damaged(ref.Key(), fmt.Errorf("it has %d bytes from %d on, not %d", len(b), off, n))
	}
	return b, err
}

// verifiedRange is ReadRange of a pack that is the one that was put there, as all of it says.
func (r *Repo) verifiedRange(ctx context.Context, ref *PackRef, off, n uint64) (part []byte, err error) {
	err = r.withPack(ctx, ref, func(b []byte) error {
		if uint64(len(b)) < off+n {
			return damaged(ref.Key(), fmt.Errorf("it has %d bytes, not %d", len(b), ref.Size))
		}
		part = bytes.Clone(b[off:][:n])
		return r.readPack(ctx, ref, b, func([]byte) error { return nil }) // in place
	})
	return part, err
}

// OpenPart returns the record that is sealed at an offset of a pack, and which is what was put
// there.
func (r *Repo) OpenPart(ctx context.Context, ref *PackRef, off uint64, sealed []byte) ([]byte, error) {
	text, err := r.openPart(ctx, ref, off, sealed)
	if err != nil {
		return nil, damaged(ref.Key(), fmt.Errorf("at %d: %w", off, err))
	}
	return text, nil
}

// openPart tries the keys, the newest first: which one it is says the head of the pack, and that
// is not read for its sake.
func (r *Repo) openPart(ctx context.Context, ref *PackRef, off uint64, sealed []byte) (text []byte, err error) {
	err = r.withKeys(ctx, func(ks keyring) error {
		for epoch := len(ks); epoch > 0; epoch-- {
			head := append([]byte(nil), packMagic...)
			head = le.AppendUint32(le.AppendUint32(head, packVersion), uint32(epoch))
			seal := key(ks[epoch-1].derive(contextSeal).hash(ref.Hash[:])).aead()
			if text, err = seal.Open(nil, nonceAt(int(off)), sealed, append([]byte(ref.Key()), head...)); err == nil {
				return nil
			}
		}
		return errEpoch // one that is newer may open it
	})
	if errors.Is(err, errEpoch) {
		err = errors.New("it is not what was put there")
	}
	return text, err
}
