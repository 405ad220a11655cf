package cas

import (
	"errors"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// TestNeedToRead: a feature that is needed is in FORMAT once, whoever says so
// how often, and is durable; a program that does not know it refuses the store.
func TestNeedToRead(t *testing.T) {
	fsys := vfstest.NewMem()
	a, b := openMem(t, fsys), openMem(t, fsys)
	read := func(fsys vfs.FS) []string {
		t.Helper()
		f, err := readFormat(fsys)
		if err != nil {
			t.Fatal(err)
		}
		return f.Features.Read
	}
	if got := read(fsys); !slices.Equal(got, []string{FeatureGroups}) {
		t.Fatalf("a new store needs %q", got)
	}
	for _, s := range []*Store{a, b, a} {
		if err := s.NeedToRead(t.Context(), FeatureSparse); err != nil {
			t.Fatal(err)
		}
	}
	crashed := fsys.AfterCrash(nil)
	if got := read(crashed); !slices.Equal(got, []string{FeatureGroups, FeatureSparse}) {
		t.Errorf("after a power cut reading needs %q", got)
	}
	again, err := OpenFS(t.Context(), crashed, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()

	known := knownToRead
	defer func() { knownToRead = known }()
	knownToRead = nil // as in an older program
	if s, err := OpenFS(t.Context(), crashed, &Options{ReadOnly: true}); !errors.Is(err, store.ErrFormat) {
		t.Errorf("an older program opens the store: %v, %v", s, err)
	}
}

// TestNeedToReadFaults: what could not be written is not believed to be there.
func TestNeedToReadFaults(t *testing.T) {
	for at := int64(0); ; at++ {
		fsys := vfstest.NewMem()
		openMem(t, fsys)
		fault := &vfstest.Fault{At: at}
		s, err := OpenFS(t.Context(), vfstest.WithFault(fsys, fault), &Options{})
		if err != nil {
			continue // the fault came before
		}
		err = s.NeedToRead(t.Context(), FeatureSparse)
		if err == nil {
			err = s.NeedToRead(t.Context(), FeatureSparse)
			f, ferr := readFormat(fsys.AfterCrash(nil))
			if ferr != nil || !slices.Contains(f.Features.Read, FeatureSparse) {
				t.Errorf("fault at operation %d: no error, and FORMAT has %+v, %v", at, f, ferr)
			}
		}
		if !fault.Fired() {
			return
		}
		if err != nil {
			if err := s.NeedToRead(t.Context(), FeatureSparse); err != nil {
				t.Errorf("fault at operation %d: not tried again: %v", at, err)
			}
		}
		s.Close()
	}
}
