package cas

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// A change of 1 MiB in random data makes chunks of at most 4 MB new, at each of 40
// places.
func TestChangedChunks(t *testing.T) {
	testseed.Sequential(t)
	const changed, limit = 1 << 20, 4_000_000
	data := random(64<<20, 1)
	var starts []int
	for at := 0; at < len(data); at += pack.CutPoint(data[at:]) {
		starts = append(starts, at)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range 40 {
		at := rng.IntN(len(data) - 8<<20)
		part := data[at:][:changed]
		old := slices.Clone(part)
		copy(part, random(changed, byte(2+i)))
		first, _ := slices.BinarySearch(starts, at+1)
		begin := starts[first-1]
		end := begin
		for same := false; !same || end < at+changed; _, same = slices.BinarySearch(starts, end) {
			end += pack.CutPoint(data[end:])
		}
		if end-begin > limit {
			t.Errorf("a change at %d makes %d bytes new, want at most %d", at, end-begin, limit)
		}
		copy(part, old)
	}
}

// What goes wrong when chunks are being stored is told as it was.
func TestPutReaderFails(t *testing.T) {
	testseed.Sequential(t)
	disk := vfstest.NewMem()
	big := random(12<<20, 1)
	for i := range 12 { // of different use to the compressor, so that they are not stored in their order
		clear(big[i<<20:][:i%4<<18])
	}
	broken := errors.New("broken")
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.PutReader(io.MultiReader(bytes.NewReader(big),
		iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}

	for at := int64(0); ; at += stride(3, 7) {
		full := &vfstest.Fault{At: at, Sticky: true, Err: syscall.ENOSPC}
		s, err := OpenFS(t.Context(), vfstest.WithFault(disk.AfterCrash(nil), full), &Options{})
		if err != nil {
			continue
		}
		w, err := s.Begin(t.Context())
		if err != nil {
			s.Close()
			continue
		}
		_, _, err = w.PutReader(bytes.NewReader(big))
		failed := err != nil
		if failed && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d: a full disk: %v", at, err)
		}
		w.Close()
		s.Close()
		if !failed {
			break
		}
	}
}

// A file that grows faster than it is read ends where it ended first.
func TestPutReaderGrowing(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, n := range []int{0, 10, pack.MinChunked + pack.MinChunked/2} {
		big := random(n, 3)
		id, size, err := w.PutReader(&growing{r: bytes.NewReader(big)})
		if err != nil || size != int64(n) || id != object.Hash(object.Blob, big) {
			t.Errorf("%d bytes: %d, %v", n, size, err)
		}
	}
}

// growing is a file that has more whenever its end was met.
type growing struct {
	r   *bytes.Reader
	end bool
}

func (g *growing) Read(b []byte) (int, error) {
	if g.end {
		return copy(b, "more"), nil
	}
	n, err := g.r.Read(b)
	g.end = err == io.EOF
	return n, err
}
