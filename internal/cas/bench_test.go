package cas

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

var benchObjects = flag.Int("bench.objects", 1000, "how many objects the benchmarks put, get, and have in each pack")

// benchText returns n bytes that compress like source code: to 41 % of their
// length in pieces of 4 KiB, to 20 % in one of 1 MiB.
func benchText(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	words := make([][]byte, 400)
	for i := range words {
		words[i] = fmt.Appendf(nil, "%x ", r.Uint64()>>(r.IntN(12)*4))
	}
	b := make([]byte, 0, n+20)
	for len(b) < n {
		b = append(b, words[min(r.IntN(len(words)), r.IntN(len(words)))]...)
	}
	return b[:n]
}

// benchBlobs returns objects of 4 KiB.
func benchBlobs(n int) [][]byte {
	text := benchText(1<<20, 1)
	blobs := make([][]byte, n)
	for i := range blobs {
		blobs[i] = bytes.Clone(text[i*7919%(1<<20-4<<10):][:4<<10])
	}
	return blobs
}

// renew makes objects others than they were.
func renew(blobs [][]byte, round int) {
	for i, b := range blobs {
		binary.LittleEndian.PutUint64(b, uint64(round)<<32|uint64(i))
	}
}

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// benchFile is a file beside a store, for the floors.
func benchFile(b *testing.B) *appendFile {
	b.Helper()
	f, err := vfs.OS(b.TempDir()).OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &appendFile{f, 0}
}

// An appendFile is a file that is only written and synced.
type appendFile struct {
	vfs.File
	end int64
}

func (f *appendFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.end)
	f.end += int64(n)
	return n, err
}

// each runs a sub-benchmark that does the same again and again.
func each(b *testing.B, name string, size int, fn func(round int) error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(size))
		for round := 0; b.Loop(); round++ {
			if err := fn(round); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// timed is each with the median: a sync waits for whatever else the machine
// writes.
func timed(b *testing.B, name string, fn func() error) {
	b.Run(name, func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			start := time.Now()
			if err := fn(); err != nil {
				b.Fatal(err)
			}
			all = append(all, time.Since(start))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	})
}

// rounds counts those of all sub-benchmarks, for contents that no store has
// seen.
var rounds int

// BenchmarkPut puts many objects and commits them. The floor hashes,
// compresses and writes the same, and syncs once.
func BenchmarkPut(b *testing.B) {
	s, f := benchStore(b), benchFile(b)
	blobs := benchBlobs(*benchObjects)
	size := len(blobs) * len(blobs[0])
	each(b, fmt.Sprintf("objects=%d", len(blobs)), size, func(int) error {
		rounds++
		renew(blobs, rounds)
		_, err := tryCommit(b.Context(), s, "s", blobs...)
		return err
	})
	each(b, "floor=hash+zstd+write+sync", size, func(int) error {
		rounds++
		renew(blobs, rounds)
		var packed, out []byte
		for _, data := range blobs {
			id := object.Hash(object.Blob, data)
			_, stored := pack.Compress(uint8(object.Blob), data, &packed)
			out = append(append(out, id[:]...), stored...)
		}
		_, err := f.Write(out)
		return errors.Join(err, f.Sync())
	})
}

// BenchmarkPutLarge puts a file of 16 MiB and commits it. The floors are its
// parts alone.
func BenchmarkPutLarge(b *testing.B) {
	s, f := benchStore(b), benchFile(b)
	data := benchText(16<<20, 2)
	fresh := func() { // in every chunk
		rounds++
		for at := 0; at < len(data); at += pack.MinChunk / 2 {
			binary.LittleEndian.PutUint64(data[at:], uint64(rounds))
		}
	}
	chunks := func(fn func(chunk []byte) error) error {
		for rest := data; len(rest) > 0; {
			n := pack.CutPoint(rest)
			if err := fn(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}
	each(b, "all", len(data), func(int) error {
		fresh()
		_, err := tryCommit(b.Context(), s, "s", data)
		return err
	})
	each(b, "floor=chunker", len(data), func(int) error {
		return chunks(func([]byte) error { return nil })
	})
	each(b, "floor=blake3", len(data), func(int) error {
		blake3.Sum256(data)
		return nil
	})
	var packed []byte
	each(b, "floor=zstd", len(data), func(int) error {
		return chunks(func(chunk []byte) error {
			pack.Compress(uint8(object.Blob), chunk, &packed)
			return nil
		})
	})
	each(b, "floor=chunker+blake3+zstd+write+sync", len(data), func(int) error {
		whole := blake3.New()
		err := chunks(func(chunk []byte) error {
			whole.Write(chunk)
			_, stored := pack.Compress(uint8(object.Blob), chunk, &packed)
			_, err := f.Write(stored)
			return err
		})
		return errors.Join(err, f.Sync())
	})
}

// BenchmarkGet gets one of many objects of a sealed pack. The floor reads the
// record and decompresses it.
func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	blobs := benchBlobs(*benchObjects)
	renew(blobs, 0)
	var ids []store.ID
	var locs []pack.Location
	seal(b, s, func(put func(h pack.Header, payload []byte) pack.Location) {
		for _, data := range blobs {
			var packed []byte
			id := object.Hash(object.Blob, data)
			codec, stored := pack.Compress(uint8(object.Blob), data, &packed)
			ids = append(ids, id)
			locs = append(locs, put(pack.Header{Kind: uint8(object.Blob), Codec: codec, Raw: uint32(len(data)), ID: id},
				stored))
		}
	})
	order := rand.New(rand.NewPCG(3, 0)).Perm(len(ids))
	each(b, "4KiB", len(blobs[0]), func(round int) error {
		_, err := s.Get(b.Context(), object.Blob, ids[order[round%len(order)]])
		return err
	})
	f, err := s.fsys.OpenFile(locs[0].Pack.Name(), os.O_RDONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	payload, out := make([]byte, 8<<10), make([]byte, 0, 8<<10)
	each(b, "floor=pread+unzstd", len(blobs[0]), func(round int) error {
		loc := locs[order[round%len(order)]]
		if _, err := f.ReadAt(payload[:loc.Stored], loc.Off+pack.HeaderSize); err != nil {
			return err
		}
		_, err := pack.Decoder().DecodeAll(payload[:loc.Stored], out)
		return err
	})
}

// seal adds a sealed pack, with its index.
func seal(b *testing.B, s *Store, fill func(put func(h pack.Header, payload []byte) pack.Location)) {
	b.Helper()
	w, err := pack.Create(s.fsys, s.id)
	if err != nil {
		b.Fatal(err)
	}
	fill(func(h pack.Header, payload []byte) pack.Location {
		h.Stored, h.Crc = uint32(len(payload)), layout.Checksum(payload)
		list, aerr := w.Append(h, payload, nil)
		err = errors.Join(err, aerr)
		return list[0].Location
	})
	if err := errors.Join(err, w.Flush(), w.Seal(s.fsys, s.id, w.Written), w.F.Close()); err != nil {
		b.Fatal(err)
	}
}

// sealMany adds packs of objects of 16 bytes, and returns their IDs in no order.
func sealMany(b *testing.B, s *Store, packs int) []store.ID {
	b.Helper()
	r := rand.New(rand.NewPCG(uint64(packs), 0))
	var ids []store.ID
	for range packs {
		seal(b, s, func(put func(h pack.Header, payload []byte) pack.Location) {
			for range *benchObjects {
				data := layout.Le.AppendUint64(layout.Le.AppendUint64(nil, r.Uint64()), r.Uint64())
				id := object.Hash(object.Blob, data)
				put(pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecRaw, Raw: uint32(len(data)), ID: id}, data)
				ids = append(ids, id)
			}
		})
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// BenchmarkHas asks a store with some packs for objects that are there and
// that are not, and for its packs. The floors are a map of all objects, and the
// listing of a directory.
func BenchmarkHas(b *testing.B) {
	for _, packs := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("packs=%d", packs), func(b *testing.B) {
			s := benchStore(b)
			ids := sealMany(b, s, packs)
			all := make(map[store.ID]pack.Location, len(ids))
			for _, id := range ids {
				all[id] = pack.Location{}
				if ok, err := s.Has(id); !ok || err != nil { // indexes in memory, as they are soon
					b.Fatal(ok, err)
				}
			}
			has := func(name string, there bool, has func(store.ID) (bool, error)) {
				each(b, name, 0, func(round int) error {
					id := ids[round%len(ids)]
					if !there {
						id[1]++
					}
					ok, err := has(id)
					if err == nil && ok != there {
						err = fmt.Errorf("Has(%s) = %v", id.Short(), ok)
					}
					return err
				})
			}
			has("there", true, s.Has)
			has("absent", false, s.Has)
			has("floor=map", false, func(id store.ID) (bool, error) {
				_, ok := all[id]
				return ok, nil
			})
			each(b, "lengths", 0, func(int) error {
				_, err := s.PackLengths(nil)
				return err
			})
			each(b, "lengths/floor=getdents", 0, func(int) error {
				_, err := s.fsys.ReadDir("packs")
				return err
			})
		})
	}
}

// BenchmarkOpen opens a store, looks for an object that is not there and asks
// for a session's newest snapshot: what each new process does first. The floor
// opens the same files and reads what must be known of each.
func BenchmarkOpen(b *testing.B) {
	const snapshots = 3000 // nearly a segment
	for _, packs := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("packs=%d", packs), func(b *testing.B) {
			dir := b.TempDir()
			s, err := Open(b.Context(), dir, nil)
			if err != nil {
				b.Fatal(err)
			}
			sealMany(b, s, packs)
			var records []journal.Record
			for i := range snapshots {
				snap := &store.Snapshot{Tree: object.Hash(object.Blob, fmt.Append(nil, i)),
					Time: time.Unix(int64(i), 0), Worktree: "0123456789abcdef", Root: "/home/user/project",
					Session: fmt.Sprint("session ", i%50), Entry: fmt.Sprintf("e%07d", i), Kind: "step",
					Log: "/home/user/.agent/session.jsonl"}
				records = append(records, journal.Record{Kind: journal.FrameSnapshot,
					Body: journal.AppendSnapshot(nil, snap, nil)})
			}
			err = layout.WithLock(b.Context(), s.fsys, layout.JournalLock, func() error {
				return errors.Join(s.j.Writable(), s.j.Append(records))
			})
			if err := errors.Join(err, s.Close()); err != nil {
				b.Fatal(err)
			}
			each(b, fmt.Sprintf("snapshots=%d", snapshots), 0, func(int) error {
				s, err := Open(b.Context(), dir, nil)
				if err != nil {
					return err
				}
				_, err = s.Has(store.ID{1})
				_, nerr := s.Newest(b.Context(), "0123456789abcdef", "session 7")
				return errors.Join(err, nerr, s.Close())
			})
			each(b, "floor=open+pread", 0, func(int) error { return readHeads(vfs.OS(dir)) })
		})
	}
}

// readHeads reads the newest segment of the journal, and the headers of all
// packs and indexes.
func readHeads(fsys vfs.FS) error {
	journal, err := fsys.ReadDir("journal")
	if err != nil {
		return err
	}
	if _, err := vfs.ReadFile(fsys, "journal/"+journal[len(journal)-1]); err != nil {
		return err
	}
	packs, err := fsys.ReadDir("packs")
	if err != nil {
		return err
	}
	var b [layout.HeaderSize + pack.BucketsSize]byte
	for _, name := range packs {
		f, err := fsys.OpenFile("packs/"+name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		n := len(b)
		if name[len(name)-5:] == ".pack" {
			n = layout.HeaderSize
		}
		_, err = f.ReadAt(b[:n], 0)
		if err := errors.Join(err, f.Close()); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// BenchmarkCommit puts 30 objects and commits them: what a turn does that
// changed 10 files. The floor is two writes of as much, each synced.
func BenchmarkCommit(b *testing.B) {
	s := benchStore(b)
	blobs := benchBlobs(30)
	timed(b, "objects=30", func() error {
		rounds++
		renew(blobs, rounds)
		_, err := tryCommit(context.Background(), s, "s", blobs...)
		return err
	})
	var packed, all []byte
	for _, data := range blobs {
		_, stored := pack.Compress(uint8(object.Blob), data, &packed)
		all = append(all, stored...)
	}
	objects, journal := benchFile(b), benchFile(b)
	timed(b, "floor=two fdatasyncs", func() error {
		_, err := objects.Write(all)
		if err = errors.Join(err, objects.Sync()); err == nil {
			_, err = journal.Write(all[:300])
		}
		return errors.Join(err, journal.Sync())
	})
}

// BenchmarkGetFromGroup reads one object of 8 KiB out of a group that nobody has read before:
// of a fresh pack, and of a compacted one. The floor is the group decoded as a whole.
func BenchmarkGetFromGroup(b *testing.B) {
	for _, size := range []int{groupSize, pack.MaxGroup} {
		b.Run(fmt.Sprintf("group=%dk", size>>10), func(b *testing.B) {
			s, err := Open(b.Context(), b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			w, err := s.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			var g group
			var ids []store.ID
			text := benchText(8*pack.MaxGroup, 1)
			for i := 0; i+8<<10 <= size; i += 8 << 10 {
				blob := text[i*5:][:8<<10]
				ids = append(ids, object.Hash(object.Blob, blob))
				g.add(pack.Member{Kind: uint8(object.Blob), Raw: uint32(len(blob)), ID: ids[len(ids)-1]}, blob)
			}
			h, payload := pack.EncodeGroup(g.members, g.raw, pack.NewBestEncoder(1), nil)
			if err := errors.Join(s.append(w.generation, h, payload, g.members), w.Close()); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				s.groups.forget(func(*pack.Pack) bool { return true })
				if _, err := s.Get(b.Context(), object.Blob, ids[i%len(ids)]); err != nil {
					b.Fatal(err)
				}
				i += 7
			}
		})
	}
}
