package object

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/store"
)

// official returns n bytes of the input of BLAKE3's official test vectors.
func official(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

// The file was made by the b3sum command over inputs of these lengths.
func TestBlake3Vectors(t *testing.T) {
	f, err := os.Open("testdata/blake3.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var size int
		var want string
		if _, err := fmt.Sscan(lines.Text(), &size, &want); err != nil {
			t.Fatal(err)
		}
		if got := Hash(Blob, official(size)); got.String() != want {
			t.Errorf("Hash(Blob) of %d bytes = %s, want %s", size, got, want)
		}
	}
	if n != 35 {
		t.Errorf("%d vectors, want 35", n)
	}
}

// A pooled hasher must give what a new one does, in each mode: a Reset that
// fell back to the plain mode would let a file pose as a tree.
func TestHashAfterReset(t *testing.T) {
	for _, n := range []int{0, 1, 64, 1024, 1025, 100_000} {
		b := official(n)
		fresh := map[Kind]*blake3.Hasher{
			Blob:     blake3.New(),
			Tree:     blake3.NewDeriveKey(treeContext),
			Coverage: blake3.NewDeriveKey(coverageContext),
		}
		seen := make(map[store.ID]Kind)
		for kind, h := range fresh {
			h.Write(b)
			want := store.ID(h.Sum(nil))
			for range 3 {
				if got := Hash(kind, b); got != want {
					t.Errorf("Hash(%s) of %d bytes = %s, want %s", kind, n, got, want)
				}
			}
			if other, ok := seen[want]; ok {
				t.Errorf("a %s of %d bytes has the ID of a %s", kind, n, other)
			}
			seen[want] = kind
		}
	}
}
