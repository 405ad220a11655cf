package lines

import (
	"bytes"
	"context"
	"testing"

	"github.com/boocode/filestore/internal/remote"
)

// A nearMap is a [Near] in which anybody can put anything.
type nearMap struct {
	packs map[string][]byte
	drops int
}

func (n *nearMap) Get(
	_ context.Context, key string, _ int64, get func() ([]byte, error),
) (b []byte, isNear bool, err error) {
	if b, ok := n.packs[key]; ok {
		return bytes.Clone(b), true, nil
	}
	b, err = get()
	return b, false, err
}

func (n *nearMap) Read(key string, off, length int64) []byte {
	if b := n.packs[key]; int64(len(b)) >= off+length {
		return bytes.Clone(b[off:][:length])
	}
	return nil
}

func (n *nearMap) Drop(string, error) { n.drops++ }

// forge returns what somebody with the keys can make of a pack: its name, and other contents under its own seal.
func forge(r *Repo, ref *PackRef, parts []Part) ([]byte, PackRef) {
	ks := r.ring()
	list := partsOf(parts...).list()
	b := append([]byte(nil), packMagic...)
	b = le.AppendUint32(le.AppendUint32(b, packVersion), uint32(len(ks)))
	aad := append([]byte(ref.Key()), b...)
	seal := key(ks[len(ks)-1].derive(contextSeal).hash(ref.Hash[:])).aead()
	for _, p := range parts {
		b = seal.Seal(b, nonceAt(len(b)), p.Bytes, aad)
	}
	forged := *ref
	forged.Index = uint64(len(b))
	b = seal.Seal(b, nonceAt(len(b)), list, aad)
	forged.Size = uint64(len(b))
	return b, forged
}

// TestNearForged has somebody who has the keys put a pack nearby that says what the real one does not: the remote's
// is read, as if there was none nearby.
func TestNearForged(t *testing.T) {
	r, mem := initRepo(t)
	_, ref := fill(t, r)
	// As long as the real ones, so that it is not seen by that.
	parts := []Part{{[]byte("SECRET-BLOB"), 1, []ID{{1, [32]byte{8}}}},
		{[]byte("secret-group-of-two"), 5, []ID{{1, [32]byte{2}}, {3, [32]byte{3}}}}}
	b, forged := forge(r, &ref, parts)
	if forged != ref {
		t.Fatalf("the forged pack is %+v, the real one %+v", forged, ref)
	}
	if got, err := r.OpenPart(t.Context(), &ref, packHeaderSize, b[packHeaderSize:][:11+sealSize]); err != nil ||
		string(got) != "SECRET-BLOB" {
		t.Fatalf("the seal is not right, so this tests nothing: %q, %v", got, err)
	}
	n := &nearMap{packs: map[string][]byte{ref.Key(): b}}
	r.UseNear(n)
	list, err := r.Index(t.Context(), &ref)
	if err != nil || list[0].IDs[0].ID != [32]byte{1} {
		t.Errorf("index %v, %v", list, err)
	}
	var got [][]byte
	err = r.ReadPack(t.Context(), &ref, func(b []byte) error {
		got = append(got, b)
		return nil
	})
	if err != nil || len(got) != 2 || string(got[0]) != "secret-blob" {
		t.Errorf("records %q, %v", got, err)
	}
	if n.drops != 2 {
		t.Errorf("%d drops, want 2", n.drops)
	}
	if err := readAll(t, remote.NewSure(mem, 0), &ref); err != nil {
		t.Error(err)
	}
}
