package store

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

	"github.com/boocode/filestore/internal/vfs"
)

// What version 1 wrote must decode for ever. The files under v1 are a small
// store, and one file of annotated bytes for each structure.
const v1 = "../testdata/format/v1"

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
	v1Store    = [16]byte{0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f, 0x60}
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
		list = appendChunkRef(list, Hash(Blob, c), len(c))
	}
	return list
}

func v1Snapshots() []*Snapshot {
	return []*Snapshot{
		{Seq: 1, Tree: Hash(Tree, v1Tree)},
		{Seq: 2, Tree: Hash(Tree, v1Tree), Coverage: Hash(Coverage, v1Left), Time: time.Unix(0, int64(v1Created)),
			Worktree: "worktree", Root: "/root/\xff", Head: "head", Session: "session", Parent: 1, Kind: "step",
			Entry: "entry", Above: "above", Log: "log.jsonl", Label: "label"},
	}
}

var (
	headerNotes = []note{{8, "magic"}, {4, "format version"}, {16, "store id"}}
	packNotes   = append(headerNotes[:3:3], note{16, "pack id"}, note{8, "created, Unix ns"}, note{4, "0"}, note{4, "0"},
		note{4, "CRC-32C of the 60 bytes above"})
	journalNotes = append(headerNotes[:3:3], note{16, "number of the segment"}, note{8, "created, Unix ns"}, note{4, "0"}, note{4, "0"},
		note{4, "CRC-32C of the 60 bytes above"})
	recordNotes = []note{{4, "magic"}, {1, "kind"}, {1, "codec"}, {2, "0"}, {4, "length of the object"}, {4, "length of the payload"},
		{32, "ID"}, {4, "CRC-32C of the payload"}, {4, "CRC-32C of the 52 bytes above"}}
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
	id          ID
	object      []byte
}

func encodeRecord(h recordHeader, stored []byte) []byte {
	h.stored, h.crc = uint32(len(stored)), checksum(stored)
	return append(h.append(nil), stored...)
}

func decodeRecord(b []byte) (any, error) {
	h, err := parseRecordHeader(b)
	if err != nil {
		return nil, err
	}
	payload := b[recordHeaderSize:]
	if int(h.stored) != len(payload) || checksum(payload) != h.crc {
		return nil, errRecord
	}
	object, err := decompress(&h, payload)
	return whole{h.kind, h.codec, h.id, object}, err
}

func rawObject(kind uint8, id ID, object []byte) (any, func() []byte) {
	return whole{kind, codecRaw, id, object}, func() []byte {
		return encodeRecord(recordHeader{kind: kind, raw: uint32(len(object)), id: id}, object)
	}
}

func decodeFrame(b []byte) (any, error) {
	f, ok := parseFrame(b)
	if !ok || f.size() != int64(len(b)) {
		return nil, errBody
	}
	packs, l, err := parsePacks(f)
	if err != nil {
		return nil, err
	}
	d := decodedFrame{Kind: f.kind, Seq: f.seq, Durable: f.durable, Packs: fmt.Sprint(packs), Epoch: l.epoch}
	if l.epoch = 0; !reflect.DeepEqual(l, ledger{}) {
		d.Ledger = fmt.Sprint(l)
	}
	if f.kind == frameSnapshot {
		d.Snapshot, err = parseSnapshot(f)
	}
	return d, err
}

type decodedFrame struct {
	Ledger       string // beside the epoch
	Kind         uint8
	Seq, Durable uint64
	Packs        string
	Epoch        uint64
	Snapshot     *Snapshot
}

func vectors() []vector {
	header := func(h fileHeader) (any, func() []byte, func([]byte) (any, error)) {
		return fmt.Sprint(h), func() []byte { return h.append(nil) }, func(b []byte) (any, error) {
			got, err := parseFileHeader(b, h.magic, v1Store)
			return fmt.Sprint(got), err
		}
	}
	var all []vector
	add := func(name string, notes []note, value any, encode func() []byte, decode func([]byte) (any, error)) {
		all = append(all, vector{name, notes, value, encode, decode})
	}

	value, encode, decode := header(fileHeader{magic: packMagic, store: v1Store, name: v1Sealed, a: v1Created})
	add("pack-header", packNotes, value, encode, decode)
	value, encode, decode = header(fileHeader{magic: journalMagic, store: v1Store, name: segmentID(1), a: v1Created})
	add("journal-header", journalNotes, value, encode, decode)

	value, encode = rawObject(uint8(Blob), Hash(Blob, v1Raw), v1Raw)
	add("record-raw", append(recordNotes, note{0, "payload: the object"}), value, encode, decodeRecord)
	add("record-zstd", append(recordNotes, note{0, "payload: a zstd frame"}),
		whole{uint8(Blob), codecZstd, Hash(Blob, v1Text), v1Text}, nil, decodeRecord)
	value, encode = rawObject(recChunked, Hash(Blob, v1Whole), v1List())
	add("record-chunks", append(recordNotes[:len(recordNotes):len(recordNotes)],
		note{32, "ID of the first chunk"}, note{4, "its length"}, note{32, "ID of the second chunk"}, note{4, "its length"}),
		value, encode, decodeRecord)
	add("seal", append(recordNotes[:len(recordNotes):len(recordNotes)], note{8, "end of the pack's body"}), int64(1000),
		func() []byte { return appendSeal(nil, 1000) },
		func(b []byte) (any, error) {
			end, ok := parseSeal(b)
			if !ok {
				return nil, errRecord
			}
			return end, nil
		})

	indexNotes := append(headerNotes[:3:3], note{16, "pack id"}, note{8, "end of the pack's body"}, note{4, "number of entries"},
		note{4, "0"}, note{4, "CRC-32C of the 60 bytes above"})
	for i := range bucketCount {
		indexNotes = append(indexNotes, note{4, fmt.Sprintf("bucket %02x: number of entries up to its end", i)}, note{4, "CRC-32C of its entries"})
	}
	indexNotes = append(indexNotes, note{4, "CRC-32C of the 2048 bytes above"})
	entries := []indexEntry{{ID{1: 2, 30: 9}, location{nil, 64, 12}}, {ID{0xff, 7}, location{nil, 132, 0}}}
	for i := range entries {
		indexNotes = append(indexNotes, note{prefixSize, fmt.Sprintf("first 24 bytes of the ID of object %d", i)},
			note{4, "offset of its record"}, note{4, "length of its payload"})
	}
	add("index", indexNotes, "end 188: 0002 at 64+12, ff07 at 132+0",
		func() []byte { return encodeIndex(v1Store, v1Sealed, 188, entries) },
		func(b []byte) (any, error) {
			disk := vfs.NewMem()
			for _, dir := range []string{"packs", "tmp"} {
				if err := disk.Mkdir(dir, 0o700); err != nil {
					return nil, err
				}
			}
			if err := writeFile(disk, indexName(v1Sealed), b); err != nil {
				return nil, err
			}
			x, err := openIndex(disk, v1Store, &pack{id: v1Sealed})
			if err != nil {
				return nil, err
			}
			var found []string
			err = x.all(func(prefix [prefixSize]byte, loc location) {
				found = append(found, fmt.Sprintf("%x at %d+%d", prefix[:2], loc.off, loc.stored))
			})
			return fmt.Sprintf("end %d: %s", x.bodyEnd, strings.Join(found, ", ")), err
		})

	lens := []packLen{{v1Sealed, 1000}, {v1Unsealed, 141}}
	packField := notes(fieldNotes("pack", 16)[:2], []note{{16, "pack id"}, {8, "durable length"}})
	addFrame := func(name string, notes []note, f frame, want decodedFrame) {
		want.Kind, want.Seq, want.Durable = f.kind, f.seq, f.durable
		add(name, notes, want, func() []byte { return f.append(nil) }, decodeFrame)
	}
	addFrame("frame-state", notes(frameNotes, packField, packField, fieldNotes("epoch", 8)),
		frame{frameState, 7, 64, appendField(appendPacks(nil, lens), tagEpoch, le.AppendUint64(nil, 3))},
		decodedFrame{Packs: fmt.Sprint(lens), Epoch: 3})
	// Since version 2.
	said := ledger{epoch: 4, completed: 3, condemned: [][16]byte{v1Sealed}, removed: [][16]byte{v1Unsealed}, pruned: seqSet{{1, 3}, {5, 300}}}
	ledgerNotes := notes(packField, fieldNotes("epoch", 8), fieldNotes("completed", 8), fieldNotes("condemned pack", 16),
		fieldNotes("removed pack", 16), fieldNotes("pruned: left out, more than one; twice", 5))
	rest := said
	rest.epoch = 0
	addFrame("../v2/frame-ledger", notes(frameNotes, ledgerNotes), frame{frameLedger, 12, 900, said.appendBody(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:]), Epoch: 4, Ledger: fmt.Sprint(rest)})
	addFrame("../v2/frame-state", notes(frameNotes, ledgerNotes), frame{frameState, 12, 64, said.appendBody(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:]), Epoch: 4, Ledger: fmt.Sprint(rest)})
	gone := []ID{Hash(Blob, v1Raw), Hash(Blob, v1Text)}
	slices.SortFunc(gone, func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	add("../v2/forgotten", notes(headerNotes, []note{{16, "0"}, {8, "0"}, {4, "number of IDs"}, {4, "0"}, {4, "CRC-32C of the 60 bytes above"},
		{32, "ID"}, {32, "ID"}, {4, "CRC-32C of all above"}}), gone, func() []byte { return appendForgotten(nil, v1Store, gone) },
		func(b []byte) (any, error) { return parseForgotten(b, v1Store) })

	addFrame("frame-packs", notes(frameNotes, packField), frame{framePacks, 9, 500, appendPacks(nil, lens[1:])},
		decodedFrame{Packs: fmt.Sprint(lens[1:])})
	snaps := v1Snapshots()
	addFrame("frame-snapshot-small", notes(frameNotes, fieldNotes("tree", 32)),
		frame{frameSnapshot, 1, 105, snaps[0].appendBody(nil, nil)}, decodedFrame{Packs: "[]", Snapshot: snaps[0]})
	addFrame("frame-snapshot", notes(frameNotes, fieldNotes("tree", 32), fieldNotes("coverage", 32), fieldNotes("time, Unix ns", 8),
		fieldNotes("worktree", 8), fieldNotes("root", 7), fieldNotes("head", 4), fieldNotes("session", 7), fieldNotes("parent", 8),
		fieldNotes("kind", 4), fieldNotes("entry", 5), fieldNotes("above", 5), fieldNotes("log", 9), fieldNotes("label", 5), packField),
		frame{frameSnapshot, 2, 300, snaps[1].appendBody(nil, lens[:1])}, decodedFrame{Packs: fmt.Sprint(lens[:1]), Snapshot: snaps[1]})
	states := &Snapshot{Seq: 3, Tree: Hash(Tree, v1Tree), Base: State{Tree: Hash(Tree, v1Tree)},
		Also: []State{{Hash(Tree, v1Tree), Hash(Coverage, v1Left)}, {Tree: Hash(Tree, v1Tree)}}, Data: []byte(`{"v":1}`)}
	stateNotes := func(name string) []note {
		return []note{{1, "tag: " + name}, {1, "length"}, {32, "tree"}, {32, "coverage"}}
	}
	addFrame("frame-snapshot-states", notes(frameNotes, fieldNotes("tree", 32), stateNotes("base"), stateNotes("also"), stateNotes("also"),
		fieldNotes("data", 7)), frame{frameSnapshot, 3, 300, states.appendBody(nil, nil)}, decodedFrame{Packs: "[]", Snapshot: states})

	sum := &summary{base: 2, last: 10, recs: []recordRef{{3, 64}, {9, 200}}, entries: []keyRef{{prefixKey("entry"), 1}},
		trees: []keyRef{{1, 0}, {2, 1}}, lines: []keyRef{{headKey{"worktree", "session"}.sum(), 1}}}
	record := []note{{8, "number of the record"}, {4, "offset of its frame"}}
	key := func(name string) []note { return []note{{8, name}, {4, "which record"}} }
	add("summary", notes(headerNotes, []note{{16, "number of the segment"}, {8, "its length"}, {4, "0"}, {4, "0"},
		{4, "CRC-32C of the 60 bytes above"}, {8, "number of the last record before"}, {8, "number of the last record"}, {4, "records"}, {4, "entries"}, {4, "trees"}, {4, "sessions"}},
		record, record, key("entry"), key("start of the tree's ID"), key("start of the tree's ID"), key("hash of worktree and session"),
		[]note{{4, "CRC-32C of all above"}}),
		*sum, func() []byte { return sum.append(nil, v1Store, 4, 1000) },
		func(b []byte) (any, error) {
			sum, err := parseSummary(b, v1Store, 4, 1000)
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
			b := encodeRecord(recordHeader{kind: uint8(Blob), codec: codecZstd, raw: uint32(len(v1Text)), id: Hash(Blob, v1Text)},
				encoder().EncodeAll(v1Text, nil))
			if v.encode != nil {
				b = v.encode()
			}
			writeTestdata(t, v.name+".hex", []byte(annotate(b, v.notes)))
		}
		b := readVector(t, v.name)
		got, err := v.decode(b)
		if err != nil {
			t.Errorf("%s: decode: %v", v.name, err)
		} else if d := cmp.Diff(v.value, got, cmp.AllowUnexported(whole{}, summary{}, recordRef{}, keyRef{})); d != "" {
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
		return fileHeader{magic: magic, store: v1Store, name: name, a: v1Created}.append(nil)
	}
	sealed := header(packMagic, v1Sealed)
	var entries []indexEntry
	add := func(id ID, record []byte) {
		entries = append(entries, indexEntry{id, location{off: int64(len(sealed)), stored: uint32(len(record) - recordHeaderSize)}})
		sealed = append(sealed, record...)
	}
	addRaw := func(kind uint8, id ID, b []byte) {
		_, encode := rawObject(kind, id, b)
		add(id, encode())
	}
	addRaw(uint8(Blob), Hash(Blob, v1Raw), v1Raw)
	add(Hash(Blob, v1Text), readVector(t, "record-zstd"))
	for _, c := range v1Chunks {
		addRaw(uint8(Blob), Hash(Blob, c), c)
	}
	addRaw(recChunked, Hash(Blob, v1Whole), v1List())
	addRaw(uint8(Tree), Hash(Tree, v1Tree), v1Tree)
	addRaw(uint8(Coverage), Hash(Coverage, v1Left), v1Left)
	bodyEnd := int64(len(sealed))
	sealed = append(sealed, "what was never acknowledged"...)
	sealed = appendSeal(sealed, bodyEnd)

	unsealed := append(header(packMagic, v1Unsealed), rawRecord(uint8(Blob), v1Loose)...)
	durable := []packLen{{v1Unsealed, int64(len(unsealed))}}
	unsealed = append(unsealed, rawRecord(uint8(Blob), []byte("not durable"))[:60]...)

	journal := header(journalMagic, segmentID(1))
	snaps := v1Snapshots()
	for i, f := range []frame{
		{kind: frameState, seq: 0, body: appendField(nil, tagEpoch, make([]byte, 8))},
		{kind: frameSnapshot, seq: 1, body: snaps[0].appendBody(nil, nil)},
		{kind: frameSnapshot, seq: 2, body: snaps[1].appendBody(nil, durable)},
		{kind: framePacks, seq: 3, body: appendField(appendPacks(nil, durable), 200, []byte("a field of the future"))},
	} {
		if f.durable = uint64(len(journal)); i == 0 {
			f.durable = fileHeaderSize
		}
		journal = f.append(journal)
	}
	journal = append(journal, "torn"...)

	return map[string][]byte{
		formatName:           v1Format(t),
		packName(v1Sealed):   sealed,
		indexName(v1Sealed):  encodeIndex(v1Store, v1Sealed, bodyEnd, entries),
		packName(v1Unsealed): unsealed,
		segmentName(1):       journal,
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
	disk := vfs.NewMem()
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
		if err := writeFile(disk, name, kept); err != nil {
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
			kind Kind
			b    []byte
		}{{Blob, v1Raw}, {Blob, v1Text}, {Blob, v1Whole}, {Blob, v1Chunks[1]}, {Blob, v1Loose}, {Tree, v1Tree}, {Coverage, v1Left}} {
			if got, err := s.Get(t.Context(), want.kind, Hash(want.kind, want.b)); err != nil || !bytes.Equal(got, want.b) {
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
