package cas

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

func promisesForTest() ([]PromisedPack, map[store.ID]PromisedPlace) {
	packs := []PromisedPack{{Generation: 1, Line: [16]byte{2}, Hash: [32]byte{3}, Size: 1000, Index: 900},
		{Generation: 2, Size: 1 << 41, Index: 1<<40 + 7}}
	return packs, map[store.ID]PromisedPlace{{9}: {Pack: 0, Off: 16, Len: 40}, {1}: {Pack: 1, Off: 1 << 40, Len: 7},
		{1, 1}: {Pack: 1, Off: 16, Len: 7}}
}

// TestPromises finds what was promised, and nothing else.
func TestPromises(t *testing.T) {
	packs, places := promisesForTest()
	p, err := parsePromises(encodePromises(packs, places))
	if err != nil || p.Len() != len(places) || p.Packs[0] != packs[0] || p.Packs[1] != packs[1] {
		t.Fatalf("%+v, %v", p, err)
	}
	got := make(map[store.ID]PromisedPlace)
	p.All(func(id store.ID, at PromisedPlace) { got[id] = at })
	if !maps.Equal(got, places) {
		t.Errorf("got %v, want %v", got, places)
	}
	for id, want := range places {
		if at, ok := p.Find(id); !ok || at != want {
			t.Errorf("%s: %v, %v", id.Short(), at, ok)
		}
	}
	for _, id := range []store.ID{{}, {1, 0, 1}, {255}} {
		if at, ok := p.Find(id); ok {
			t.Errorf("%s is promised: %v", id.Short(), at)
		}
	}
}

// TestPromisesPlaces refuses places that are not in their packs.
func TestPromisesPlaces(t *testing.T) {
	for _, at := range []PromisedPlace{{Off: 900, Len: 1}, {Off: 899, Len: 2}, {Off: 1000}, {Off: 1<<64 - 1, Len: 1},
		{Off: 16, Len: 1<<32 - 1}} {
		packs, places := promisesForTest()
		places[store.ID{9}] = at
		if _, err := parsePromises(encodePromises(packs, places)); err == nil {
			t.Errorf("%+v is taken", at)
		}
	}
	packs, places := promisesForTest()
	packs[1].Index = packs[1].Size + 1
	if _, err := parsePromises(encodePromises(packs, places)); err == nil {
		t.Error("an index behind its pack is taken")
	}
}

// FuzzPromises holds that what is read as promises is written as it was.
func FuzzPromises(f *testing.F) {
	b := encodePromises(promisesForTest())
	f.Add(b[:len(b)-promiseSum])
	f.Add(encodePromises(nil, nil)[:20])
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := blake3.Sum256(body)
		p, err := parsePromises(append(bytes.Clone(body), sum[:]...))
		if err != nil {
			return
		}
		places := make(map[store.ID]PromisedPlace)
		p.All(func(id store.ID, at PromisedPlace) { places[id] = at })
		if again := encodePromises(p.Packs, places); !bytes.Equal(again[:len(again)-promiseSum], body) {
			t.Errorf("read %x, wrote %x", body, again)
		}
	})
}

// TestPrefetchChunks: a list of chunks may be here, and they not: what lies near what was asked for
// comes along.
func TestPrefetchChunks(t *testing.T) {
	from, to := openMem(t, vfstest.NewMem()), openMem(t, vfstest.NewMem())
	big := random(6<<20, 3)
	commit(t, from, "s", big)
	id := object.Hash(object.Blob, big)
	o, err := from.Stored(object.Blob, id)
	if err != nil || len(o.Chunks) < 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	bring := func(ids []store.ID) {
		t.Helper()
		w, err := to.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		missing, err := from.Parcels(t.Context(), ids, func(p *Parcel) error {
			_, err := w.PutParcel(p.Record)
			return err
		})
		if len(missing) > 0 || err != nil {
			t.Fatal(missing, err)
		}
	}
	bring([]store.ID{id}) // the list alone
	if err := errors.Join(to.FS().Mkdir("remotes", 0o700), to.FS().Mkdir("remotes/team", 0o700)); err != nil {
		t.Fatal(err)
	}
	places := make(map[store.ID]PromisedPlace)
	for i, chunk := range o.Chunks {
		places[chunk] = PromisedPlace{Off: uint64(16 + i)}
	}
	packs := []PromisedPack{{Generation: 1, Size: 1000, Index: 900}}
	if err := to.AddPromises(t.Context(), "team", packs, places); err != nil {
		t.Fatal(err)
	}
	if err := to.Prefetch(t.Context(), []store.ID{id}); !IsPromised(err) {
		t.Errorf("nobody fetches: %v", err)
	}
	asked := 0
	ctx := WithFetcher(t.Context(), func(_ context.Context, _ *Store, remote string, ids []store.ID) error {
		if asked++; remote != "team" || len(ids) != len(places) {
			t.Errorf("asked %q for %d", remote, len(ids))
		}
		bring(ids)
		return nil
	})
	if err := to.Prefetch(ctx, []store.ID{id}); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if got, err := to.Get(t.Context(), object.Blob, id); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestWithoutFetcher reads what is promised for who waits for nobody, while another waits for the remote: it is told
// what is missing at once.
func TestWithoutFetcher(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	if err := errors.Join(s.FS().Mkdir("remotes", 0o700), s.FS().Mkdir("remotes/team", 0o700)); err != nil {
		t.Fatal(err)
	}
	id := object.Hash(object.Blob, []byte("there"))
	if err := s.AddPromises(t.Context(), "team", []PromisedPack{{Generation: 1, Size: 1000, Index: 900}},
		map[store.ID]PromisedPlace{id: {Off: 16}}); err != nil {
		t.Fatal(err)
	}
	asked, answer, done := make(chan bool), make(chan bool), make(chan error)
	ctx := WithFetcher(t.Context(), func(context.Context, *Store, string, []store.ID) error {
		close(asked)
		<-answer
		return errors.New("it went away")
	})
	go func() {
		_, err := s.Get(ctx, object.Blob, id)
		done <- err
	}()
	select {
	case <-asked:
	case err := <-done:
		t.Fatalf("nobody was asked: %v", err)
	}
	var missed []store.ID
	note := func(ids []store.ID) { missed = append(missed, ids...) }
	for _, f := range []func([]store.ID){note, nil} {
		if _, err := s.Get(WithoutFetcher(ctx, f), object.Blob, id); !IsPromised(err) {
			t.Errorf("read without waiting: %v", err)
		}
	}
	if !slices.Equal(missed, []store.ID{id}) {
		t.Errorf("missed %v, want %v", missed, id)
	}
	close(answer)
	if err := <-done; !IsPromised(err) {
		t.Errorf("read of who waits: %v", err)
	}
}
