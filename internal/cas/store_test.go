package cas

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

var (
	crashRounds = flag.Int("crash.rounds", 10, "rounds of each test that kills, crashes or repeats at random")
	update      = flag.Bool("update", false, "write testdata anew")
	every       = flag.Bool("every", false, "fail each operation in turn, not each few")
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	flag.Parse()
	pack.IsBest = false // few tests are about how small it gets
	os.Exit(m.Run())
}

// openMem opens a store and checks it when the test is done.
func openMem(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s := openDamaged(t, fsys)
	t.Cleanup(func() { checkClean(t, s) })
	return s
}

// withoutGroups has each object stored in a record of its own, for tests that look for them
// there.
func withoutGroups(t *testing.T) {
	old := maxMember
	maxMember = 0
	t.Cleanup(func() { maxMember = old })
}

// openDamaged opens a store that the test has damaged, or will.
func openDamaged(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s, err := OpenFS(t.Context(), fsys, &Options{})
	if err != nil {
		t.Fatalf("OpenFS: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// checkClean requires that a store has no damage.
func checkClean(t *testing.T, s *Store) {
	t.Helper()
	for _, d := range damageOf(t, s) {
		t.Errorf("Check found damage: %v", d)
	}
}

// checkDamage requires that a store has as much damage as is known.
func checkDamage(t *testing.T, s *Store, known int) {
	t.Helper()
	if found := damageOf(t, s); len(found) != known {
		t.Errorf("Check found %d places damaged, want %d: %v", len(found), known, found)
	}
}

// stride returns how many operations a test of faults goes on at a time: one if
// all are asked for, else normal, or short in short mode.
func stride(normal, short int64) int64 {
	switch {
	case *every:
		return 1
	case testing.Short():
		return short
	}
	return normal
}

func damageOf(t *testing.T, s *Store) []*object.CorruptError {
	t.Helper()
	r, err := s.Check(context.Background(), true)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return r.Damage
}

// setLimits makes packs and segments end sooner in this test. Call it before
// a store is opened: what a store does in the background reads them.
func setLimits(t *testing.T, sealMax, sealIdle, segment int64) {
	a, b, c := pack.SealSizeMax, pack.SealSizeIdle, journal.SegmentSize
	pack.SealSizeMax, pack.SealSizeIdle, journal.SegmentSize = sealMax, sealIdle, segment
	t.Cleanup(func() { pack.SealSizeMax, pack.SealSizeIdle, journal.SegmentSize = a, b, c })
}

const never = 1 << 40 // a limit that is not reached

// random returns n bytes that do not compress.
func random(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// An acked is a commit that was reported done.
type acked struct {
	session string
	seq     uint64
	ids     []store.ID // blobs that came with it; the first is its tree
}

// commit puts blobs and commits a snapshot whose tree is the first.
func commit(t *testing.T, s *Store, session string, blobs ...[]byte) acked {
	t.Helper()
	a, err := tryCommit(t.Context(), s, session, blobs...)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return a
}

// tryCommit is commit with an error. Even with one, a Seq says that the
// commit itself was reported done.
func tryCommit(ctx context.Context, s *Store, session string, blobs ...[]byte) (a acked, err error) {
	w, err := s.Begin(ctx)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var ids []store.ID
	for _, b := range blobs {
		id, err := put(w, b)
		if err != nil {
			return a, err
		}
		ids = append(ids, id)
	}
	snap := &store.Snapshot{Time: time.Unix(1, 0), Session: session, Tree: ids[0]}
	head, err := s.Newest(ctx, "", session)
	switch {
	case err == nil:
		snap.Parent = head.Seq
	case !errors.Is(err, store.ErrNotFound):
		return a, err
	}
	if err := w.Commit(ctx, snap, snap.Parent); err != nil {
		return a, err
	}
	return acked{session, snap.Seq, ids}, nil
}

func put(w *Writer, b []byte) (store.ID, error) {
	if len(b) < pack.MinChunked {
		return w.Put(object.Blob, b)
	}
	id, _, err := w.PutReader(bytes.NewReader(b))
	return id, err
}

// snapshotsOf returns all snapshots by Seq, and requires that they come
// newest first.
func snapshotsOf(t *testing.T, s *Store) map[uint64]*store.Snapshot {
	t.Helper()
	all := make(map[uint64]*store.Snapshot)
	last := uint64(1 << 63)
	for snap, err := range s.Snapshots(context.Background()) {
		if err != nil {
			t.Fatalf("Snapshots: %v", err)
		}
		if snap.Seq >= last {
			t.Errorf("Snapshots gives %d after %d", snap.Seq, last)
		}
		last = snap.Seq
		all[snap.Seq] = snap
	}
	return all
}

// checkAcked requires that all that was reported done is there.
func checkAcked(t *testing.T, s *Store, acks []acked) {
	t.Helper()
	all := snapshotsOf(t, s)
	for _, a := range acks {
		snap := all[a.seq]
		if snap == nil || snap.Session != a.session || snap.Tree != a.ids[0] {
			t.Errorf("snapshot %d of session %q is %+v, want tree %s", a.seq, a.session, snap, a.ids[0].Short())
			continue
		}
		if head, err := s.Newest(t.Context(), "", a.session); err != nil || head.Seq < a.seq {
			t.Errorf("Newest(%q) = %+v, %v; want %d or later", a.session, head, err, a.seq)
		}
		for _, id := range a.ids {
			checkBlob(t, s, id)
		}
	}
}

func checkBlob(t *testing.T, s *Store, id store.ID) {
	t.Helper()
	var b bytes.Buffer
	if n, err := s.CopyBlob(context.Background(), &b, id); err != nil || int(n) != b.Len() ||
		object.Hash(object.Blob, b.Bytes()) != id {
		t.Errorf("CopyBlob(%s): %d bytes that hash to %s, %v", id.Short(), n,
			object.Hash(object.Blob, b.Bytes()).Short(), err)
	}
}

// verify requires that a store as a process or a power cut left it is whole:
// what was reported done is there, and what is there besides is complete. One
// can go on with it. known is how much damage there was before.
func verify(t *testing.T, fsys vfs.FS, acks []acked, known int) {
	t.Helper()
	s, err := OpenFS(t.Context(), fsys, &Options{})
	if err != nil {
		t.Fatalf("OpenFS of what is left: %v", err)
	}
	checkDamage(t, s, known)
	checkAcked(t, s, acks)
	for _, snap := range snapshotsOf(t, s) {
		checkBlob(t, s, snap.Tree)
	}
	listed, found := seqsOf(t, s.Snapshots(t.Context())), seqsOf(t, s.ByTree(t.Context(), ""))
	if !slices.Equal(found, listed) {
		t.Errorf("a search for all finds snapshots %v, listed are %v", found, listed)
	}
	acks = slices.Clone(acks)
	// In the session as in a new one, over an object that may be half there.
	for _, session := range []string{"", "after"} {
		acks = append(acks, commit(t, s, session, []byte("after "+session), small, large))
	}
	if logs := names(t, fsys, "journal", ".log"); known == 0 {
		if sums := names(t, fsys, "journal", ".sum"); len(sums) != len(logs)-1 {
			t.Errorf("of %d segments %d have a summary, want all but the newest", len(logs), len(sums))
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}

	s, err = OpenFS(t.Context(), fsys, &Options{})
	if err != nil {
		t.Fatalf("OpenFS of what was repaired: %v", err)
	}
	checkDamage(t, s, known)
	checkAcked(t, s, acks)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Blobs that many tests store: one below and one above the limits that they
// set for packs.
var (
	small = []byte("small")
	large = random(6<<10, 1)
)

// names returns the files in a directory of a store that end in suffix.
func names(t *testing.T, fsys vfs.FS, dir, suffix string) []string {
	t.Helper()
	all, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			found = append(found, dir+"/"+name)
		}
	}
	return found
}

// only returns the one file in a directory that ends in suffix.
func only(t *testing.T, fsys vfs.FS, dir, suffix string) string {
	t.Helper()
	found := names(t, fsys, dir, suffix)
	if len(found) != 1 {
		t.Fatalf("%s has %q, want one %s", dir, found, suffix)
	}
	return found[0]
}

// edit replaces the content of a file by what fn makes of it.
func edit(t *testing.T, fsys vfs.FS, name string, fn func([]byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	b = fn(bytes.Clone(b))
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// flip returns an edit that inverts a byte.
func flip(off int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[off] ^= 0xff
		return b
	}
}

func TestRoundTrip(t *testing.T) {
	fsys := vfstest.NewMem()
	s := openMem(t, fsys)
	text := bytes.Repeat([]byte("text "), 1000)
	big := random(5<<20, 1)
	contents := [][]byte{nil, []byte("a"), text, big[:pack.MinChunked-1], big[:pack.MinChunked], big[:pack.MaxChunk+1],
		big}
	a := commit(t, s, "", contents...)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	treeID, err := w.Put(object.Tree, text)
	if err != nil {
		t.Fatal(err)
	}
	coverageID, err := w.Put(object.Coverage, text)
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Snapshot{Tree: treeID, Coverage: coverageID, Time: time.Unix(2, 3), Worktree: "w", Root: "/r\xff",
		Head: "h", Parent: a.seq, Kind: "step", Entry: "e", Above: "a", Log: "l", Label: "label"}
	if err := w.Commit(t.Context(), want, 0); err != nil {
		t.Fatal(err)
	}

	for name, fsys := range map[string]vfs.FS{"same": fsys, "crashed": fsys.AfterCrash(nil)} {
		s := openMem(t, fsys)
		for _, c := range contents {
			got, err := s.Get(t.Context(), object.Blob, object.Hash(object.Blob, c))
			if err != nil || !bytes.Equal(got, c) {
				t.Errorf("%s: Get of %d bytes: %d bytes, %v", name, len(c), len(got), err)
			}
		}
		for kind, id := range map[object.Kind]store.ID{object.Tree: treeID, object.Coverage: coverageID,
			object.Blob: object.Hash(object.Blob, text)} {
			for _, as := range []object.Kind{object.Blob, object.Tree, object.Coverage} {
				got, err := s.Get(t.Context(), as, id)
				if as == kind && (err != nil || !bytes.Equal(got, text)) {
					t.Errorf("%s: Get of a %s: %d bytes, %v", name, kind, len(got), err)
				}
				if as != kind && !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: Get of a %s as a %s: %v, want ErrCorrupt", name, kind, as, err)
				}
			}
		}
		if _, err := s.Get(t.Context(), object.Blob, store.ID{1}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Get of no object: %v, want ErrNotFound", name, err)
		}
		if _, err := s.CopyBlob(t.Context(), io.Discard, treeID); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: CopyBlob of a tree: %v, want ErrCorrupt", name, err)
		}
		got, err := s.Newest(t.Context(), "w", "")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Newest = %+v, %v; want %+v", name, got, err, want)
		}
		if _, err := s.Newest(t.Context(), "other", ""); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Newest of another worktree: %v, want ErrNotFound", name, err)
		}
		checkAcked(t, s, []acked{a})
	}
}

// The ID and the chunks of a blob do not depend on how it is read.
func TestPutReaderOfOddReaders(t *testing.T) {
	testseed.Sequential(t)
	s := openMem(t, vfstest.NewMem())
	big := random(3<<20, 2)
	commit(t, s, "", big)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, _, err := w.PutReader(bytes.NewReader(big[:pack.MaxChunk])); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, odd := range map[string]func(io.Reader) io.Reader{
		"half":        iotest.HalfReader,
		"data+EOF":    iotest.DataErrReader,
		"one by one":  func(r io.Reader) io.Reader { return iotest.OneByteReader(r) },
		"random":      func(in io.Reader) io.Reader { return &randomReader{in, r} },
		"random+EOF":  func(in io.Reader) io.Reader { return iotest.DataErrReader(&randomReader{in, r}) },
		"empty reads": func(in io.Reader) io.Reader { return &emptyReader{r: in} },
	} {
		for _, n := range []int{0, 1, pack.MinChunk, pack.MinChunked - 1, pack.MinChunked, pack.MaxChunk + 1,
			len(big)} {
			if n > pack.MinChunked && name == "one by one" {
				continue // a system call's worth of work for each byte
			}
			id, size, err := w.PutReader(odd(bytes.NewReader(big[:n])))
			if err != nil || size != int64(n) || id != object.Hash(object.Blob, big[:n]) {
				t.Errorf("%s: PutReader of %d bytes = %s, %d, %v", name, n, id.Short(), size, err)
			}
			if got, err := s.Get(t.Context(), object.Blob, id); err != nil || !bytes.Equal(got, big[:n]) {
				t.Errorf("%s: Get of %d bytes: %d bytes, %v", name, n, len(got), err)
			}
		}
		before := w.Stats()
		if _, _, err := w.PutReader(odd(bytes.NewReader(big[:pack.MaxChunk]))); err != nil || w.Stats() != before {
			t.Errorf("%s: PutReader of what is there added %+v to %+v, %v", name, w.Stats(), before, err)
		}
	}
	broken := iotest.TimeoutReader(iotest.HalfReader(bytes.NewReader(big)))
	if id, _, err := w.PutReader(broken); !errors.Is(err, iotest.ErrTimeout) || !id.IsZero() {
		t.Errorf("PutReader of a broken reader = %s, %v; want %v", id.Short(), err, iotest.ErrTimeout)
	}
	if err := w.Commit(t.Context(), &store.Snapshot{Session: "odd"}, 0); err != nil {
		t.Errorf("Commit after a broken reader: %v", err)
	}
}

type randomReader struct {
	in io.Reader
	r  *rand.Rand
}

func (r *randomReader) Read(p []byte) (int, error) {
	return r.in.Read(p[:min(len(p), 1+r.r.IntN(300<<10))])
}

// An emptyReader gives nothing at every other read.
type emptyReader struct {
	r    io.Reader
	flip bool
}

func (r *emptyReader) Read(p []byte) (int, error) {
	if r.flip = !r.flip; r.flip {
		return 0, nil
	}
	return r.r.Read(p)
}

func TestCommitMoved(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	a := commit(t, s, "s", []byte("1"))
	for _, newest := range []uint64{0, a.seq + 1} {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context(), &store.Snapshot{Session: "s"}, newest); !errors.Is(err, ErrMoved) {
			t.Errorf("Commit on %d of a session at %d: %v, want ErrMoved", newest, a.seq, err)
		}
		if err := w.Commit(t.Context(), &store.Snapshot{Session: fmt.Sprint(newest)}, 7); !errors.Is(err, ErrMoved) {
			t.Errorf("Commit on 7 of a session with none: %v, want ErrMoved", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := len(snapshotsOf(t, s)); n != 1 {
		t.Errorf("%d snapshots, want 1", n)
	}
}

func TestClosed(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	closed, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Errorf("Writer.Close: %v", err)
		}
	}
	if err := closed.Commit(t.Context(), &store.Snapshot{}, 0); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("Commit of a closed writer: %v, want ErrClosed", err)
	}

	s, err = OpenFS(t.Context(), vfstest.NewMem(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := commit(t, s, "", small)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := w.Put(object.Blob, []byte("new")); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("Put after Close: %v, want ErrClosed", err)
	}
	if err := w.Commit(t.Context(), &store.Snapshot{}, a.seq); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("Commit after Close: %v, want ErrClosed", err)
	}
	if _, err := s.Begin(t.Context()); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("Begin after Close: %v, want ErrClosed", err)
	}
	if _, err := s.Newest(t.Context(), "", ""); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("Newest after Close: %v, want ErrClosed", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close after Close: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	fsys := vfstest.NewMem()
	if _, err := OpenFS(t.Context(), fsys, &Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenFS of nothing: %v, want ErrNotExist", err)
	}
	s := openMem(t, fsys)
	a := commit(t, s, "", small, large)
	before := fsys.AfterCrash(nil)

	var wrote []string
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		switch op {
		case "WriteAt", "Truncate", "Rename", "Remove", "Mkdir", "Sync", "SyncDir":
			wrote = append(wrote, op+" "+name)
		}
	}}
	r, err := OpenFS(t.Context(), vfstest.WithFault(before, fault), &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	checkClean(t, r)
	checkAcked(t, r, []acked{a})
	if _, err := r.Begin(t.Context()); err == nil {
		t.Error("Begin of a store that is read-only succeeds")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if len(wrote) > 0 {
		t.Errorf("a store that is read-only did %q", wrote)
	}
}

func TestOpenOther(t *testing.T) {
	for name, text := range map[string]string{
		"newer version": `{"format":3,"hash":"blake3","id":"00000000000000000000000000000000"}`,
		"other hash":    `{"format":1,"hash":"sha256","id":"00000000000000000000000000000000"}`,
		"read feature":  `{"format":1,"hash":"blake3","id":"00000000000000000000000000000000","features":{"read":["x"]}}`,
		"write feature": `{"format":1,"hash":"blake3","id":"00000000000000000000000000000000","features":{"write":["x"]}}`,
	} {
		fsys := vfstest.NewMem()
		s := openMem(t, fsys)
		commit(t, s, "", small)
		other := fsys.AfterCrash(nil)
		edit(t, other, layout.FormatName, func([]byte) []byte { return []byte(text) })
		if _, err := OpenFS(t.Context(), other, &Options{}); !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
	for _, text := range []string{"", "{", `{"format":1,"hash":"blake3","id":"00"}`} {
		fsys := vfstest.NewMem()
		openMem(t, fsys)
		other := fsys.AfterCrash(nil)
		edit(t, other, layout.FormatName, func([]byte) []byte { return []byte(text) })
		_, err := OpenFS(t.Context(), other, &Options{})
		if c, ok := errors.AsType[*object.CorruptError](err); !ok || c.Path != layout.FormatName {
			t.Errorf("FORMAT %q: %v, want damage", text, err)
		}
	}

	foreign := vfstest.NewMem()
	if _, err := foreign.OpenFile("notes.txt", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFS(t.Context(), foreign, &Options{}); !errors.Is(err, store.ErrFormat) {
		t.Errorf("OpenFS of a directory with notes: %v, want ErrFormat", err)
	}
	if all, _ := foreign.ReadDir("."); len(all) != 1 {
		t.Errorf("OpenFS left %q in a directory that is no store", all)
	}
}

// A store that lost its FORMAT must not get another identity: that would
// disown all its packs.
func TestOpenWithoutFormat(t *testing.T) {
	fsys := vfstest.NewMem()
	s := openMem(t, fsys)
	a := commit(t, s, "", small)
	lost := fsys.AfterCrash(nil)
	text, err := vfs.ReadFile(lost, layout.FormatName)
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Remove(layout.FormatName); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := OpenFS(t.Context(), lost, &Options{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("OpenFS without FORMAT: %v, want ErrCorrupt", err)
		}
	}
	if err := layout.WriteFile(lost, layout.FormatName, text); err != nil {
		t.Fatal(err)
	}
	verify(t, lost, []acked{a}, 0)
}

// A lateFormat is a disk on which another process makes the store right after FORMAT was
// looked for and not found.
type lateFormat struct {
	vfs.FS
	other func()
}

func (l *lateFormat) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if name == layout.FormatName && errors.Is(err, fs.ErrNotExist) && l.other != nil {
		other := l.other
		l.other = nil
		other()
	}
	return f, err
}

// A store that another process makes at the same time is not damaged, and no other thing.
func TestOpenBesideCreate(t *testing.T) {
	for _, places := range []bool{false, true} {
		disk := vfstest.NewMem()
		late := &lateFormat{FS: disk}
		late.other = func() {
			s := openMem(t, disk)
			if places {
				if err := layout.WriteFile(disk, "places", []byte("{}")); err != nil {
					t.Fatal(err)
				}
				return
			}
			commit(t, s, "", small)
		}
		s, err := OpenFS(t.Context(), late, &Options{})
		if err != nil {
			t.Errorf("places %v: %v", places, err)
			continue
		}
		s.Close()
	}
}
