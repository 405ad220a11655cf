package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A failing store stops to give contents after some.
type failing struct {
	*cas.Store
	after int64
	given atomic.Int64
}

var errEnough = errors.New("no more of it")

func (f *failing) EachBlob(
	ctx context.Context, ids []store.ID, fn func(i int, copy func(w io.Writer) (int64, error)) error,
) error {
	return f.Store.EachBlob(ctx, ids, func(i int, copy func(w io.Writer) (int64, error)) error {
		return fn(i, func(w io.Writer) (int64, error) {
			if f.given.Add(1) > f.after {
				n, _ := w.Write([]byte("half"))
				return int64(n), errEnough
			}
			return copy(w)
		})
	})
}

// More files, and more directories, than are written together are all there; and where it fails,
// nothing is there that is not whole, and no directory stays open.
func TestExportMany(t *testing.T) {
	files := make(map[string]string)
	for i := range 2 * maxOpened {
		files[fmt.Sprintf("many/%d/a", i)] = fmt.Sprint("a", i)
		files[fmt.Sprintf("many/%d/d/b", i)] = fmt.Sprint("b", i)
	}
	for i := range 5 * firstWindow {
		files[fmt.Sprint("wide/", i)] = fmt.Sprint("wide", i%100)
	}
	files["many/300/empty/"] = ""
	s, root := storeOf(t, files)
	out := filepath.Join(t.TempDir(), "out")
	r, err := Export(t.Context(), s, root, out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Files != int64(len(files)-1) || r.Dirs != 4*maxOpened+3 {
		t.Errorf("%+v", r)
	}
	for name, want := range files {
		if strings.HasSuffix(name, "/") {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	open := openFiles(t)
	for _, after := range []int64{0, firstWindow - 1, 3 * firstWindow, int64(len(files) - 2)} {
		out := filepath.Join(t.TempDir(), "out")
		f := &failing{Store: s, after: after}
		if _, err := Export(t.Context(), f, root, out); !errors.Is(err, errEnough) {
			t.Errorf("after %d files: %v", after, err)
		}
		if n := openFiles(t); n > open {
			t.Errorf("after %d files: %d files are open, before %d", after, n, open)
		}
		for name, text := range written(t, out) {
			if want, ok := files[filepath.ToSlash(name)]; ok && !strings.HasSuffix(text, " "+want) {
				t.Errorf("after %d files: %s is %q", after, name, text)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	if _, err := Export(ctx, s, root, filepath.Join(t.TempDir(), "out")); !errors.Is(err, errEnough) {
		t.Errorf("canceled: %v", err)
	}
}

// openFiles returns how many files this process has open, 0 where the system does not say.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(names)
}

// endless is a store in which each content has no end.
type endless struct{ BlobGetter }

func (endless) CopyBlob(_ context.Context, w io.Writer, _ store.ID) (int64, error) {
	for range 1 << 20 {
		if n, err := w.Write(make([]byte, 7)); err != nil {
			return int64(n), err
		}
	}
	return 7 << 20, nil
}

// TestCopyFileStops: of a content that is longer than its entry says, no more is written.
func TestCopyFileStops(t *testing.T) {
	for _, size := range []int64{0, 1, 7, 20, 7<<20 - 1, 7 << 20, 7<<20 + 1} {
		var b bytes.Buffer
		n, err := CopyFile(t.Context(), endless{}, &b, &tree.Entry{Size: size})
		if whole := size == 7<<20; whole != (err == nil && n == size) || !whole && !errors.Is(err, store.ErrCorrupt) ||
			int64(b.Len()) > size {
			t.Errorf("of a file of %d bytes %d are written, %d, %v", size, b.Len(), n, err)
		}
	}
}
