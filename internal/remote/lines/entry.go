package lines

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/remote"
)

// The bytes of an entry (docs/reference/format-remote.md §5).
const (
	entryMagic      = "boorent\n"
	entryVersion    = 1
	entryHeaderSize = 80
)

var le = binary.LittleEndian

// A Line is the identity of a line.
type Line [16]byte

func (l Line) String() string { return hex.EncodeToString(l[:]) }

// A Position is an entry of a line, and what it has to be.
type Position struct {
	Line  Line
	Entry uint64
	Hash  [32]byte // of its bytes
}

// A Name says which record a number in the writer's store stands for, if that came from
// another line.
type Name struct {
	Seq  uint64 // in the writer's store
	Line Line
	At   uint64 // the number that the record has in that line
}

// A Record is one of the journal of the writer's store.
type Record struct {
	Seq  uint64 // in the writer's store; one that came before is said again
	Body []byte // as docs/reference/format.md §5.3 has it
}

// A PackRef names a pack, and says what there is to know before it is read.
type PackRef struct {
	Generation uint64
	Line       Line
	Hash       [32]byte
	Size       uint64 // of the object
	Index      uint64 // offset of its index
}

func (p *PackRef) dir() string { return fmt.Sprintf(PackPrefix+"%08d/%s/", p.Generation, p.Line) }

// Key returns the key of the pack.
func (p *PackRef) Key() string { return p.dir() + hex.EncodeToString(p.Hash[:]) }

// A Leaning is an entry of a line of another session, or directory. What its newest record needs is
// there, and who leans on it does not put it again.
type Leaning struct {
	Session string
	Position
}

// An Opening is what the first entry of a line says of it.
type Opening struct {
	Base     *Position // what it goes on from; nil: it is the first of its session
	Leans    *Leaning  // what it needs beside, not to put that again; nil: nothing
	Session  string
	Store    [16]byte // of the writer
	Worktree string   // what that store calls the directory
	Root     string   // path of the directory there, raw bytes
}

// An Entry is what a line gets longer by.
type Entry struct {
	Generation uint64   // of prunes: the newest that the writer knew of
	Opening    *Opening // of the first entry of a line, and only of it
	Records    []Record
	Names      []Name     // of numbers in Records, ascending
	Packs      []PackRef  // that were made for it
	Lost       [][32]byte // objects that the records need and the writer's store had not
	Objects    []byte     // records of objects: docs/reference/format.md §3.2, one behind the other
	Forgotten  [][32]byte // contents that the records need, and that were taken out on purpose
	Log        *LogPart   // what the session's log has got; nil: nothing

	// The hash that the entry had before a repair has put this one in its place, by which the next names it; zero:
	// it is as it was put.
	Was [32]byte

	Pin *Pin // what its writer has left there; nil: it is of a session

	Void bool // it does not count: see [Ledger.Counts]. It is not in the entry
}

// PinSession is what the lines of pins have as their session. None is called so.
const PinSession = " pins"

// A Pin says what a store has left in a remote, and has not itself: no prune takes it away. It stands for all that
// its line has said before.
type Pin struct {
	Time int64     // when it was said, Unix seconds
	On   []Leaning // entries: what their lines have up to them
}

// A LogPart is a piece of the log that a runtime keeps of a session: what it has from an offset on,
// instead of what an entry before has said of that.
type LogPart struct {
	Off  uint64
	Text []byte
}

// Tags of the fields of an entry's body.
const (
	tagGeneration = 1
	tagBase       = 2
	tagSession    = 3
	tagStore      = 4
	tagWorktree   = 5
	tagRoot       = 6
	tagLeans      = 7
	tagRecord     = 8
	tagName       = 9
	tagPack       = 10
	tagLost       = 11
	tagObjects    = 12
	tagForgotten  = 13
	tagWas        = 14
	tagPin        = 15
	tagPinned     = 16

	tagLog = 129 // who does not know it passes it over
)

func field(b []byte, tag uint8, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b = binary.AppendUvarint(append(b, tag), uint64(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func number(n uint64) []byte { return le.AppendUint64(nil, n) }

// body returns the fields of an entry.
func (e *Entry) body() []byte {
	b := field(nil, tagGeneration, number(e.Generation))
	if o := e.Opening; o != nil {
		if o.Base != nil {
			b = field(b, tagBase, o.Base.Line[:], number(o.Base.Entry), o.Base.Hash[:])
		}
		b = field(b, tagSession, []byte(o.Session))
		b = field(b, tagStore, o.Store[:])
		b = field(b, tagWorktree, []byte(o.Worktree))
		b = field(b, tagRoot, []byte(o.Root))
		if l := o.Leans; l != nil {
			b = field(b, tagLeans, l.bytes())
		}
	}
	for _, r := range e.Records {
		b = field(b, tagRecord, number(r.Seq), r.Body)
	}
	for _, n := range e.Names {
		b = field(b, tagName, number(n.Seq), n.Line[:], number(n.At))
	}
	for _, p := range e.Packs {
		b = field(b, tagPack, p.bytes())
	}
	for _, id := range e.Lost {
		b = field(b, tagLost, id[:])
	}
	if len(e.Objects) > 0 {
		b = field(b, tagObjects, e.Objects)
	}
	for _, id := range e.Forgotten {
		b = field(b, tagForgotten, id[:])
	}
	if e.Was != [32]byte{} {
		b = field(b, tagWas, e.Was[:])
	}
	if e.Pin != nil {
		b = field(b, tagPin, number(uint64(e.Pin.Time)))
		for i := range e.Pin.On {
			b = field(b, tagPinned, e.Pin.On[i].bytes())
		}
	}
	if e.Log != nil {
		b = field(b, tagLog, number(e.Log.Off), e.Log.Text)
	}
	return b
}

func (l *Leaning) bytes() []byte {
	b := append(append([]byte(nil), l.Line[:]...), number(l.Entry)...)
	return append(append(b, l.Hash[:]...), l.Session...)
}

func parseLeaning(v []byte) (*Leaning, error) {
	if len(v) < 56 {
		return nil, errBody
	}
	return &Leaning{string(v[56:]), Position{Line(v[:16]), le.Uint64(v[16:]), [32]byte(v[24:56])}}, nil
}

// packRefSize is how long the bytes of a PackRef are.
const packRefSize = 72

func (p *PackRef) bytes() []byte {
	b := append(number(p.Generation), p.Line[:]...)
	b = append(b, p.Hash[:]...)
	return append(append(b, number(p.Size)...), number(p.Index)...)
}

// parsePackRef refuses one that has no room for its head and its index, or is longer than an object can be.
func parsePackRef(v []byte) (*PackRef, bool) {
	p := &PackRef{Generation: le.Uint64(v), Line: Line(v[8:24]), Hash: [32]byte(v[24:56]),
		Size: le.Uint64(v[56:]), Index: le.Uint64(v[64:])}
	return p, p.Size <= remote.MaxObject && p.Index >= packHeaderSize && p.Index <= p.Size &&
		p.Size-p.Index >= sealSize
}

var errBody = errors.New("its body is not as it has to be")

// parseBody reads what body writes, and nothing else but fields of tags from 128 on.
func parseBody(b []byte) (*Entry, error) {
	e, o := new(Entry), new(Opening)
	seen, last := make(map[uint8]int), uint8(0)
	for len(b) > 0 {
		tag := b[0]
		n, w := binary.Uvarint(b[1:])
		if w <= 0 || n > uint64(len(b)-1-w) || w > 1 && b[w] == 0 || tag < last {
			return nil, errBody
		}
		v := b[1+w : 1+w+int(n)]
		b = b[1+w+int(n):]
		last = tag
		seen[tag]++
		if err := e.parseField(o, tag, v); err != nil {
			return nil, err
		}
	}
	once := seen[tagGeneration] == 1 && seen[tagObjects] <= 1 && seen[tagWas] <= 1 && seen[tagLog] <= 1 &&
		seen[tagPin] <= 1 &&
		(seen[tagWas] == 0) == (e.Was == [32]byte{})
	for tag := uint8(tagBase); tag <= tagLeans; tag++ {
		mayLack := tag == tagBase || tag == tagLeans
		once = once && seen[tag] <= 1 && (mayLack || seen[tag] == seen[tagSession])
	}
	if !once || max(seen[tagBase], seen[tagLeans]) > seen[tagSession] {
		return nil, errBody
	}
	if seen[tagSession] > 0 {
		e.Opening = o
	}
	return e, nil
}

func (e *Entry) parseField(o *Opening, tag uint8, v []byte) error {
	want := map[uint8]int{tagGeneration: 8, tagBase: 56, tagStore: 16, tagName: 32, tagPack: packRefSize, tagLost: 32,
		tagForgotten: 32, tagWas: 32, tagPin: 8}
	if n, ok := want[tag]; ok && len(v) != n {
		return errBody
	}
	switch tag {
	case tagGeneration:
		e.Generation = le.Uint64(v)
	case tagBase:
		o.Base = &Position{Line(v[:16]), le.Uint64(v[16:]), [32]byte(v[24:])}
	case tagSession:
		o.Session = string(v)
	case tagStore:
		o.Store = [16]byte(v)
	case tagWorktree:
		o.Worktree = string(v)
	case tagRoot:
		o.Root = string(v)
	case tagLeans:
		var err error
		o.Leans, err = parseLeaning(v)
		return err
	case tagRecord:
		if len(v) < 8 {
			return errBody
		}
		e.Records = append(e.Records, Record{le.Uint64(v), bytes.Clone(v[8:])})
	case tagName:
		n := Name{le.Uint64(v), Line(v[8:24]), le.Uint64(v[24:])}
		if k := len(e.Names); k > 0 && e.Names[k-1].Seq >= n.Seq {
			return errBody
		}
		e.Names = append(e.Names, n)
	case tagPack:
		p, ok := parsePackRef(v)
		if !ok {
			return errBody
		}
		e.Packs = append(e.Packs, *p)
	case tagLost:
		e.Lost = append(e.Lost, [32]byte(v))
	case tagObjects:
		if len(v) == 0 {
			return errBody
		}
		e.Objects = bytes.Clone(v)
	case tagForgotten:
		e.Forgotten = append(e.Forgotten, [32]byte(v))
	default:
		return e.parseMore(tag, v)
	}
	return nil
}

// parseMore reads the fields that are not of every entry.
func (e *Entry) parseMore(tag uint8, v []byte) error {
	switch tag {
	case tagWas:
		e.Was = [32]byte(v)
	case tagPin:
		e.Pin = &Pin{Time: int64(le.Uint64(v))}
	case tagPinned:
		on, err := parseLeaning(v)
		if err != nil || e.Pin == nil {
			return errBody
		}
		e.Pin.On = append(e.Pin.On, *on)
	case tagLog:
		if len(v) < 8 {
			return errBody
		}
		e.Log = &LogPart{le.Uint64(v), bytes.Clone(v[8:])}
	default:
		if tag < 128 {
			return fmt.Errorf("%w: field %d of an entry", ErrNewer, tag)
		}
	}
	return nil
}

// seal returns the bytes of an entry.
func (e *Entry) seal(ks keyring, name string, prev [32]byte) []byte {
	return seal(ks, entryMagic, name, prev, e.body())
}

// seal returns the bytes of an object that is behind another: an entry, or one of the ledger.
func seal(ks keyring, magic, name string, prev [32]byte, body []byte) []byte {
	epoch := uint32(len(ks))
	b := append([]byte(nil), magic...)
	b = le.AppendUint32(b, entryVersion)
	b = le.AppendUint32(b, epoch)
	b = append(b, prev[:]...)
	k := ks[epoch-1]
	// All that is sealed or vouched for is in the hash, so no key seals two texts.
	h := k.derive(contextEntry).hash([]byte(name), []byte{0}, b, body)
	b = append(b, h[:]...)
	seal := key(k.derive(contextSeal).hash(h[:])).aead()
	return seal.Seal(b, make([]byte, seal.NonceSize()), body, append([]byte(name), b...))
}

// openEntry reads an entry, and returns the hash of the one before it.
func openEntry(ks keyring, name string, b []byte) (e *Entry, prev [32]byte, err error) {
	body, prev, err := open(ks, entryMagic, name, b)
	if err != nil {
		return nil, prev, err
	}
	e, err = parseBody(body)
	return e, prev, err
}

// open reads what seal has made.
func open(ks keyring, magic, name string, b []byte) (body []byte, prev [32]byte, err error) {
	if len(b) < entryHeaderSize || string(b[:8]) != magic {
		return nil, prev, errors.New("it begins as another object does")
	}
	if v := le.Uint32(b[8:]); v != entryVersion {
		ours := bytes.Clone(b)
		le.PutUint32(ours[8:], entryVersion)
		if _, _, err := open(ks, magic, name, ours); err == nil { // a byte has changed, and no newer version is at work
			return nil, prev, errors.New("its version is not what was put there")
		}
		return nil, prev, fmt.Errorf("%w: of version %d", ErrNewer, v)
	}
	k, err := ks.of(le.Uint32(b[12:]))
	if err != nil {
		return nil, prev, err
	}
	header, h := b[:entryHeaderSize:entryHeaderSize], b[48:entryHeaderSize]
	seal := key(k.derive(contextSeal).hash(h)).aead()
	body, err = seal.Open(nil, make([]byte, seal.NonceSize()), b[entryHeaderSize:], append([]byte(name), header...))
	if err != nil {
		return nil, prev, errors.New("it is not what was put there")
	}
	if k.derive(contextEntry).hash([]byte(name), []byte{0}, b[:48], body) != [32]byte(h) {
		return nil, prev, errors.New("it is sealed with another key than its own")
	}
	return body, [32]byte(b[16:48]), nil
}

// hashOf returns the hash by which the next entry names one.
func hashOf(b []byte) [32]byte { return blake3.Sum256(b) }
