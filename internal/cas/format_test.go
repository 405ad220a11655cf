package cas

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// What version 1 wrote must decode for ever. The files under v1 are a small
// store, and one file of annotated bytes for each structure.
const v1 = "../../testdata/format/v1"

// A vector is one structure: what it says, and the bytes that say it.
type vector struct {
	name   string
	notes  []note
	value  any
	encode func() []byte // nil: there is more than one encoding
	decode func(b []byte) (any, error)
}

// A note names the next n bytes; the last may have n 0, for the rest.
type note struct {
	n    int
	text string
}

var (
	v1Store = [16]byte{0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f,
		0x60}
	v1Sealed   = [16]byte{0xa0, 15: 0xaf}
	v1Unsealed = [16]byte{0xb0, 15: 0xbf}
	v1Created  = uint64(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano())

	v1Raw    = []byte("raw content\n")
	v1Text   = bytes.Repeat([]byte("text that repeats\n"), 40)
	v1Chunks = [][]byte{[]byte("first chunk\n"), []byte("second chunk\n")}
	v1Whole  = bytes.Join(v1Chunks, nil)
	v1Tree   = []byte("a tree is not the business of the store")
	v1Left   = []byte("coverage neither")
	v1Loose  = []byte("in the unsealed pack\n")
)

func v1List() (list []byte) {
	for _, c := range v1Chunks {
		list = appendChunkRef(list, object.Hash(object.Blob, c), len(c))
	}
	return list
}

func v1Snapshots() []*store.Snapshot {
	return []*store.Snapshot{
		{Seq: 1, Tree: object.Hash(object.Tree, v1Tree)},
		{Seq: 2, Tree: object.Hash(object.Tree, v1Tree), Coverage: object.Hash(object.Coverage, v1Left),
			Time:     time.Unix(0, int64(v1Created)),
			Worktree: "worktree", Root: "/root/\xff", Head: "head", Session: "session", Parent: 1, Kind: "step",
			Entry: "entry", Above: "above", Log: "log.jsonl", Label: "label"},
	}
}

var (
	headerNotes = []note{{8, "magic"}, {4, "format version"}, {16, "store id"}}
	packNotes   = append(headerNotes[:3:3], note{16, "pack id"}, note{8, "created, Unix ns"}, note{4, "0"},
		note{4, "0"}, note{4, "CRC-32C of the 60 bytes above"})
	journalNotes = append(headerNotes[:3:3], note{16, "number of the segment"}, note{8, "created, Unix ns"},
		note{4, "0"}, note{4, "0"}, note{4, "CRC-32C of the 60 bytes above"})
	recordNotes = []note{{4, "magic"}, {1, "kind"}, {1, "codec"}, {2, "0"}, {4, "length of the object"},
		{4, "length of the payload"}, {32, "ID"}, {4, "CRC-32C of the payload"}, {4, "CRC-32C of the 52 bytes above"}}
	frameNotes = []note{{4, "magic"}, {1, "kind"}, {3, "0"}, {4, "length of the body"}, {8, "number of the record"},
		{8, "durable up to here"}, {4, "CRC-32C of the 28 bytes above and the body"}}
)

// field notes the tag, length and value of a field of n bytes.
func fieldNotes(name string, n int) []note {
	return []note{{1, "tag: " + name}, {1, "length"}, {n, name}}
}

func notes(lists ...[]note) (all []note) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// A whole is a record with its object.
type whole struct {
	kind, codec uint8
	id          store.ID
	object      []byte
}

func encodeRecord(h pack.Header, stored []byte) []byte {
	h.Stored, h.Crc = uint32(len(stored)), layout.Checksum(stored)
	return append(h.Append(nil), stored...)
}

func decodeRecord(b []byte) (any, error) {
	h, err := pack.ParseHeader(b)
	if err != nil {
		return nil, err
	}
	payload := b[pack.HeaderSize:]
	if int(h.Stored) != len(payload) || layout.Checksum(payload) != h.Crc {
		return nil, pack.ErrRecord
	}
	object, err := pack.Decompress(&h, payload, nil)
	return whole{h.Kind, h.Codec, h.ID, object}, err
}

func rawObject(kind uint8, id store.ID, object []byte) (any, func() []byte) {
	return whole{kind, pack.CodecRaw, id, object}, func() []byte {
		return encodeRecord(pack.Header{Kind: kind, Raw: uint32(len(object)), ID: id}, object)
	}
}

func decodeFrame(b []byte) (any, error) {
	f, ok := journal.ParseFrame(b)
	if !ok || f.Size() != int64(len(b)) {
		return nil, journal.ErrBody
	}
	packs, l, err := journal.ParsePacks(f)
	if err != nil {
		return nil, err
	}
	d := decodedFrame{Kind: f.Kind, Seq: f.Seq, Durable: f.Durable, Packs: fmt.Sprint(packs), Epoch: l.Epoch}
	if l.Epoch = 0; !reflect.DeepEqual(l, journal.Ledger{}) {
		d.Ledger = fmt.Sprint(l)
	}
	if f.Kind == journal.FrameSnapshot {
		d.Snapshot, err = journal.ParseSnapshot(f)
	}
	return d, err
}

type decodedFrame struct {
	Ledger       string // beside the epoch
	Kind         uint8
	Seq, Durable uint64
	Packs        string
	Epoch        uint64
	Snapshot     *store.Snapshot
}

func vectors() []vector {
	header := func(h layout.Header) (any, func() []byte, func([]byte) (any, error)) {
		return fmt.Sprint(h), func() []byte { return h.Append(nil) }, func(b []byte) (any, error) {
			got, err := layout.ParseHeader(b, h.Magic, v1Store)
			return fmt.Sprint(got), err
		}
	}
	var all []vector
	add := func(name string, notes []note, value any, encode func() []byte, decode func([]byte) (any, error)) {
		all = append(all, vector{name, notes, value, encode, decode})
	}

	value, encode, decode := header(layout.Header{Magic: layout.PackMagic, Store: v1Store, Name: v1Sealed,
		A: v1Created})
	add("pack-header", packNotes, value, encode, decode)
	value, encode, decode = header(layout.Header{Magic: layout.JournalMagic, Store: v1Store, Name: layout.SegmentID(1),
		A: v1Created})
	add("journal-header", journalNotes, value, encode, decode)

	value, encode = rawObject(uint8(object.Blob), object.Hash(object.Blob, v1Raw), v1Raw)
	add("record-raw", append(recordNotes, note{0, "payload: the object"}), value, encode, decodeRecord)
	add("record-zstd", append(recordNotes, note{0, "payload: a zstd frame"}),
		whole{uint8(object.Blob), pack.CodecZstd, object.Hash(object.Blob, v1Text), v1Text}, nil, decodeRecord)
	value, encode = rawObject(pack.RecChunked, object.Hash(object.Blob, v1Whole), v1List())
	add("record-chunks", append(recordNotes[:len(recordNotes):len(recordNotes)],
		note{32, "ID of the first chunk"}, note{4, "its length"}, note{32, "ID of the second chunk"},
		note{4, "its length"}),
		value, encode, decodeRecord)
	add("seal", append(recordNotes[:len(recordNotes):len(recordNotes)], note{8, "end of the pack's body"}), int64(1000),
		func() []byte { return pack.AppendSeal(nil, 1000) },
		func(b []byte) (any, error) {
			end, ok := pack.ParseSeal(b)
			if !ok {
				return nil, pack.ErrRecord
			}
			return end, nil
		})

	indexNotes := append(headerNotes[:3:3], note{16, "pack id"}, note{8, "end of the pack's body"},
		note{4, "number of entries"}, note{4, "0"}, note{4, "CRC-32C of the 60 bytes above"})
	for i := range pack.BucketCount {
		indexNotes = append(indexNotes, note{4, fmt.Sprintf("bucket %02x: number of entries up to its end", i)},
			note{4, "CRC-32C of its entries"})
	}
	indexNotes = append(indexNotes, note{4, "CRC-32C of the 2048 bytes above"})
	entries := []pack.Entry{{ID: store.ID{1: 2, 30: 9}, Location: pack.Location{Pack: nil, Off: 64, Stored: 12}},
		{ID: store.ID{0xff, 7}, Location: pack.Location{Pack: nil, Off: 132, Stored: 0}}}
	for i := range entries {
		indexNotes = append(indexNotes, note{pack.PrefixSize, fmt.Sprintf("first 24 bytes of the ID of object %d", i)},
			note{4, "offset of its record"}, note{4, "length of its payload"})
	}
	add("index", indexNotes, "end 188: 0002 at 64+12, ff07 at 132+0",
		func() []byte { return pack.EncodeIndex(v1Store, v1Sealed, 188, entries) },
		func(b []byte) (any, error) {
			disk := vfstest.NewMem()
			for _, dir := range []string{"packs", "tmp"} {
				if err := disk.Mkdir(dir, 0o700); err != nil {
					return nil, err
				}
			}
			if err := layout.WriteFile(disk, layout.IndexName(v1Sealed), b); err != nil {
				return nil, err
			}
			x, err := pack.OpenIndex(disk, v1Store, &pack.Pack{ID: v1Sealed})
			if err != nil {
				return nil, err
			}
			var found []string
			err = x.All(func(prefix [pack.PrefixSize]byte, loc pack.Location) {
				found = append(found, fmt.Sprintf("%x at %d+%d", prefix[:2], loc.Off, loc.Stored))
			})
			return fmt.Sprintf("end %d: %s", x.BodyEnd, strings.Join(found, ", ")), err
		})

	lens := []journal.PackLen{{Pack: v1Sealed, End: 1000}, {Pack: v1Unsealed, End: 141}}
	packField := notes(fieldNotes("pack", 16)[:2], []note{{16, "pack id"}, {8, "durable length"}})
	addFrame := func(name string, notes []note, f journal.Frame, want decodedFrame) {
		want.Kind, want.Seq, want.Durable = f.Kind, f.Seq, f.Durable
		add(name, notes, want, func() []byte { return f.Append(nil) }, decodeFrame)
	}
	addFrame("frame-state", notes(frameNotes, packField, packField, fieldNotes("epoch", 8)),
		journal.Frame{Kind: journal.FrameState, Seq: 7, Durable: 64,
			Body: journal.AppendField(journal.AppendPacks(nil, lens), journal.TagEpoch,
				layout.Le.AppendUint64(nil, 3))},
		decodedFrame{Packs: fmt.Sprint(lens), Epoch: 3})
	// Since version 2.
	said := journal.Ledger{Epoch: 4, Completed: 3, Condemned: [][16]byte{v1Sealed}, Removed: [][16]byte{v1Unsealed},
		Pruned: journal.SeqSet{{From: 1, To: 3}, {From: 5, To: 300}}}
	ledgerNotes := notes(packField, fieldNotes("epoch", 8), fieldNotes("completed", 8),
		fieldNotes("condemned pack", 16),
		fieldNotes("removed pack", 16), fieldNotes("pruned: left out, more than one; twice", 5))
	rest := said
	rest.Epoch = 0
	addFrame("../v2/frame-ledger", notes(frameNotes, ledgerNotes),
		journal.Frame{Kind: journal.FrameLedger, Seq: 12, Durable: 900, Body: said.AppendBody(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:]), Epoch: 4, Ledger: fmt.Sprint(rest)})
	addFrame("../v2/frame-state", notes(frameNotes, ledgerNotes),
		journal.Frame{Kind: journal.FrameState, Seq: 12, Durable: 64, Body: said.AppendBody(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:]), Epoch: 4, Ledger: fmt.Sprint(rest)})
	noted := &store.Snapshot{Seq: 3, Tree: object.Hash(object.Tree, v1Tree), Kind: "step",
		Note: object.Hash(object.Blob, v1Text)}
	addFrame("../v2/frame-snapshot-note", notes(frameNotes, fieldNotes("tree", 32), fieldNotes("kind", 4), packField,
		fieldNotes("note", 32)),
		journal.Frame{Kind: journal.FrameSnapshot, Seq: 3, Durable: 300,
			Body: journal.AppendSnapshot(nil, noted, lens[:1])},
		decodedFrame{Packs: fmt.Sprint(lens[:1]), Snapshot: noted})
	gone := []store.ID{object.Hash(object.Blob, v1Raw), object.Hash(object.Blob, v1Text)}
	slices.SortFunc(gone, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	add("../v2/forgotten", notes(headerNotes, []note{{16, "0"}, {8, "0"}, {4, "number of IDs"}, {4, "0"},
		{4, "CRC-32C of the 60 bytes above"},
		{32, "ID"}, {32, "ID"}, {4, "CRC-32C of all above"}}), gone, func() []byte {
		return appendForgotten(nil, v1Store, gone)
	},
		func(b []byte) (any, error) { return parseForgotten(b, v1Store) })

	addFrame("frame-packs", notes(frameNotes, packField),
		journal.Frame{Kind: journal.FramePacks, Seq: 9, Durable: 500, Body: journal.AppendPacks(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:])})
	snaps := v1Snapshots()
	addFrame("frame-snapshot-small", notes(frameNotes, fieldNotes("tree", 32)),
		journal.Frame{Kind: journal.FrameSnapshot, Seq: 1, Durable: 105,
			Body: journal.AppendSnapshot(nil, snaps[0], nil)}, decodedFrame{Packs: "[]", Snapshot: snaps[0]})
	addFrame("frame-snapshot", notes(frameNotes, fieldNotes("tree", 32), fieldNotes("coverage", 32),
		fieldNotes("time, Unix ns", 8),
		fieldNotes("worktree", 8), fieldNotes("root", 7), fieldNotes("head", 4), fieldNotes("session", 7),
		fieldNotes("parent", 8),
		fieldNotes("kind", 4), fieldNotes("entry", 5), fieldNotes("above", 5), fieldNotes("log", 9),
		fieldNotes("label", 5), packField),
		journal.Frame{Kind: journal.FrameSnapshot, Seq: 2, Durable: 300,
			Body: journal.AppendSnapshot(nil, snaps[1], lens[:1])},
		decodedFrame{Packs: fmt.Sprint(lens[:1]), Snapshot: snaps[1]})
	states := &store.Snapshot{Seq: 3, Tree: object.Hash(object.Tree, v1Tree),
		Base: store.State{Tree: object.Hash(object.Tree, v1Tree)},
		Also: []store.State{{Tree: object.Hash(object.Tree, v1Tree), Coverage: object.Hash(object.Coverage, v1Left)}, {Tree: object.Hash(object.Tree, v1Tree)}}, Data: []byte(`{"v":1}`)}
	stateNotes := func(name string) []note {
		return []note{{1, "tag: " + name}, {1, "length"}, {32, "tree"}, {32, "coverage"}}
	}
	addFrame("frame-snapshot-states", notes(frameNotes, fieldNotes("tree", 32), stateNotes("base"), stateNotes("also"),
		stateNotes("also"),
		fieldNotes("data", 7)), journal.Frame{Kind: journal.FrameSnapshot, Seq: 3, Durable: 300,
		Body: journal.AppendSnapshot(nil, states, nil)}, decodedFrame{Packs: "[]", Snapshot: states})

	sum := &journal.Summary{Base: 2, Last: 10, Recs: []journal.RecordRef{{Seq: 3, Off: 64}, {Seq: 9, Off: 200}},
		Entries: []journal.KeyRef{{Key: journal.PrefixKey("entry"), Rec: 1}},
		Trees:   []journal.KeyRef{{Key: 1, Rec: 0}, {Key: 2, Rec: 1}},
		Lines:   []journal.KeyRef{{Key: journal.HeadKey{Worktree: "worktree", Session: "session"}.Sum(), Rec: 1}}}
	record := []note{{8, "number of the record"}, {4, "offset of its frame"}}
	key := func(name string) []note { return []note{{8, name}, {4, "which record"}} }
	add("summary", notes(headerNotes, []note{{16, "number of the segment"}, {8, "its length"}, {4, "0"}, {4, "0"},
		{4, "CRC-32C of the 60 bytes above"}, {8, "number of the last record before"}, {8, "number of the last record"},
		{4, "records"}, {4, "entries"}, {4, "trees"}, {4, "sessions"}},
		record, record, key("entry"), key("start of the tree's ID"), key("start of the tree's ID"),
		key("hash of worktree and session"),
		[]note{{4, "CRC-32C of all above"}}),
		*sum, func() []byte { return sum.Append(nil, v1Store, 4, 1000) },
		func(b []byte) (any, error) {
			sum, err := journal.ParseSummary(b, v1Store, 4, 1000)
			if err != nil {
				return nil, err
			}
			return *sum, nil
		})
	return all
}

// annotate prints bytes in hexadecimal, a note on each line.
func annotate(b []byte, notes []note) string {
	var out strings.Builder
	for _, n := range notes {
		k := n.n
		if k == 0 {
			k = len(b)
		}
		fmt.Fprintf(&out, "%-50s %s\n", hex.EncodeToString(b[:k]), n.text)
		b = b[k:]
	}
	if len(b) > 0 {
		panic(fmt.Sprintf("%d bytes without a note", len(b)))
	}
	return out.String()
}

func readVector(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v1, name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, " ")
		part, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b = append(b, part...)
	}
	return b
}

func TestFormatVectors(t *testing.T) {
	for _, v := range vectors() {
		if *update {
			b := encodeRecord(pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: uint32(len(v1Text)),
				ID: object.Hash(object.Blob, v1Text)}, pack.EncoderOf(uint8(object.Blob)).EncodeAll(v1Text, nil))
			if v.encode != nil {
				b = v.encode()
			}
			writeTestdata(t, v.name+".hex", []byte(annotate(b, v.notes)))
		}
		b := readVector(t, v.name)
		got, err := v.decode(b)
		if err != nil {
			t.Errorf("%s: decode: %v", v.name, err)
		} else if d := cmp.Diff(v.value, got, cmp.AllowUnexported(whole{}, journal.Summary{}, journal.RecordRef{},
			journal.KeyRef{})); d != "" {
			t.Errorf("%s: decode (-want +got):\n%s", v.name, d)
		}
		if v.encode == nil {
			continue
		}
		if d := cmp.Diff(annotate(b, v.notes), annotate(v.encode(), v.notes)); d != "" {
			t.Errorf("%s: encode (-want +got):\n%s", v.name, d)
		}
	}
}

func writeTestdata(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join(v1, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// v1Files encodes the small store. The zstd record is the one that is there.
func v1Files(t *testing.T) map[string][]byte {
	t.Helper()
	header := func(magic string, name [16]byte) []byte {
		return layout.Header{Magic: magic, Store: v1Store, Name: name, A: v1Created}.Append(nil)
	}
	sealed := header(layout.PackMagic, v1Sealed)
	var entries []pack.Entry
	add := func(id store.ID, record []byte) {
		entries = append(entries, pack.Entry{ID: id,
			Location: pack.Location{Off: int64(len(sealed)), Stored: uint32(len(record) - pack.HeaderSize)}})
		sealed = append(sealed, record...)
	}
	addRaw := func(kind uint8, id store.ID, b []byte) {
		_, encode := rawObject(kind, id, b)
		add(id, encode())
	}
	addRaw(uint8(object.Blob), object.Hash(object.Blob, v1Raw), v1Raw)
	add(object.Hash(object.Blob, v1Text), readVector(t, "record-zstd"))
	for _, c := range v1Chunks {
		addRaw(uint8(object.Blob), object.Hash(object.Blob, c), c)
	}
	addRaw(pack.RecChunked, object.Hash(object.Blob, v1Whole), v1List())
	addRaw(uint8(object.Tree), object.Hash(object.Tree, v1Tree), v1Tree)
	addRaw(uint8(object.Coverage), object.Hash(object.Coverage, v1Left), v1Left)
	bodyEnd := int64(len(sealed))
	sealed = append(sealed, "what was never acknowledged"...)
	sealed = pack.AppendSeal(sealed, bodyEnd)

	unsealed := append(header(layout.PackMagic, v1Unsealed), rawRecord(uint8(object.Blob), v1Loose)...)
	durable := []journal.PackLen{{Pack: v1Unsealed, End: int64(len(unsealed))}}
	unsealed = append(unsealed, rawRecord(uint8(object.Blob), []byte("not durable"))[:60]...)

	segment := header(layout.JournalMagic, layout.SegmentID(1))
	snaps := v1Snapshots()
	for i, f := range []journal.Frame{
		{Kind: journal.FrameState, Seq: 0, Body: journal.AppendField(nil, journal.TagEpoch, make([]byte, 8))},
		{Kind: journal.FrameSnapshot, Seq: 1, Body: journal.AppendSnapshot(nil, snaps[0], nil)},
		{Kind: journal.FrameSnapshot, Seq: 2, Body: journal.AppendSnapshot(nil, snaps[1], durable)},
		{Kind: journal.FramePacks, Seq: 3, Body: journal.AppendField(journal.AppendPacks(nil, durable), 200,
			[]byte("a field of the future"))},
	} {
		if f.Durable = uint64(len(segment)); i == 0 {
			f.Durable = layout.HeaderSize
		}
		segment = f.Append(segment)
	}
	segment = append(segment, "torn"...)

	return map[string][]byte{
		layout.FormatName:           v1Format(t),
		layout.PackName(v1Sealed):   sealed,
		layout.IndexName(v1Sealed):  pack.EncodeIndex(v1Store, v1Sealed, bodyEnd, entries),
		layout.PackName(v1Unsealed): unsealed,
		layout.SegmentName(1):       segment,
	}
}

func v1Format(t *testing.T) []byte {
	t.Helper()
	text, err := json.MarshalIndent(format{Format: 1, ID: hex.EncodeToString(v1Store[:]), Hash: "blake3",
		Features: features{[]string{}, []string{}, []string{"a feature of the future"}}, Root: []byte("/root/\xff"),
		Created: time.Unix(0, int64(v1Created)).UTC()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestFormatStore(t *testing.T) {
	files := v1Files(t)
	disk := vfstest.NewMem()
	for _, dir := range storeDirs {
		if err := disk.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range files {
		if *update {
			writeTestdata(t, "store/"+name, b)
		}
		kept, err := os.ReadFile(filepath.Join(v1, "store", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, kept) {
			t.Errorf("%s is encoded otherwise:\n%x, was\n%x", name, b, kept)
		}
		if err := layout.WriteFile(disk, name, kept); err != nil {
			t.Fatal(err)
		}
	}
	for _, opts := range []*Options{{ReadOnly: true}, {}} {
		s, err := OpenFS(t.Context(), disk, opts)
		if err != nil {
			t.Fatal(err)
		}
		if s.ID() != hex.EncodeToString(v1Store[:]) {
			t.Errorf("ID = %s", s.ID())
		}
		checkClean(t, s)
		for _, want := range []struct {
			kind object.Kind
			b    []byte
		}{{object.Blob, v1Raw}, {object.Blob, v1Text}, {object.Blob, v1Whole}, {object.Blob, v1Chunks[1]},
			{object.Blob, v1Loose}, {object.Tree, v1Tree}, {object.Coverage, v1Left}} {
			if got, err := s.Get(t.Context(), want.kind, object.Hash(want.kind, want.b)); err != nil ||
				!bytes.Equal(got, want.b) {
				t.Errorf("Get of %s %q = %q, %v", want.kind, want.b, got, err)
			}
		}
		snaps := snapshotsOf(t, s)
		for _, want := range v1Snapshots() {
			if d := cmp.Diff(want, snaps[want.Seq]); d != "" {
				t.Errorf("snapshot %d (-want +got):\n%s", want.Seq, d)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := openMem(t, disk)
	checkAcked(t, s, []acked{commit(t, s, "new", []byte("not durable"), v1Loose)})
	if n := len(names(t, disk, "quarantine", "")); n != 1 {
		t.Errorf("%d files in quarantine, want the torn end", n)
	}
}
