package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

func TestDir(t *testing.T) {
	remotetest.Test(t, func(t *testing.T) remote.Backend { return openDir(t) })
}

func TestMem(t *testing.T) {
	remotetest.Test(t, func(*testing.T) remote.Backend { return remotetest.NewMem() })
}

func TestSureMem(t *testing.T) {
	remotetest.Test(t, func(*testing.T) remote.Backend { return remote.NewSure(remotetest.NewMem(), 0) })
}

func openDir(t *testing.T) *remote.Dir {
	d, err := remote.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDirLimit reads no object that is longer than one can be, since it would be in memory.
func TestDirLimit(t *testing.T) {
	d := openDir(t)
	if err := errors.Join(d.Create(t.Context(), "a/b", []byte("text")),
		os.Truncate(filepath.Join(d.Root(), "a", "b"), remote.MaxObject+1)); err != nil {
		t.Fatal(err)
	}
	if b, err := d.Get(t.Context(), "a/b", 0, -1); !errors.Is(err, remote.ErrRefused) {
		t.Errorf("all of it: %d bytes, %v", len(b), err)
	}
	if b, err := d.Get(t.Context(), "a/b", 2, 3); string(b) != "xt\x00" || err != nil {
		t.Errorf("a part: %q, %v", b, err)
	}
}

// TestProbeRefuses shows that a probe finds who is not good enough, whatever that one says.
func TestProbeRefuses(t *testing.T) {
	for _, l := range []struct {
		liar *remotetest.Liar
		what string
	}{
		{&remotetest.Liar{Overwrites: true}, "is not replaced"},
		{&remotetest.Liar{Claims: true}, "is not replaced"},
		{&remotetest.Liar{Claims: true}, "one is the first"},
		{&remotetest.Liar{StaleLists: true}, "a list has all"},
		{&remotetest.Liar{Hides: true}, "is there when it was put"},
	} {
		l.liar.Backend = remotetest.NewMem()
		found, err := remote.Probe(t.Context(), l.liar, "p")
		told := ""
		for _, f := range found {
			if f.Err != "" {
				told += f.What + "; "
			}
		}
		if !strings.Contains(told, l.what) && err == nil {
			t.Errorf("a probe says of %s only %q", l.what, told)
		}
	}
}

// TestSureOnce shows that each of many objects is put exactly once, by who is told so, whatever
// becomes of requests and answers; and that of two who want a key one knows that it is the other's.
func TestSureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := remotetest.NewMem()
		faulty := remotetest.NewFaulty(mem, 1)
		faulty.Drop, faulty.Lose, faulty.Twice, faulty.Ghost, faulty.Status = 150, 50, 100, 100, 50
		const keys, writers = 300, 3
		won := make([][writers]bool, keys)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				b := remote.NewSure(faulty, time.Hour)
				for k := range keys {
					err := b.Create(t.Context(), fmt.Sprintf("log/%08d", k), fmt.Appendf(nil, "%d by %d", k, w))
					if err != nil && !errors.Is(err, remote.ErrExists) {
						t.Errorf("key %d of writer %d: %v", k, w, err)
					}
					won[k][w] = err == nil
				}
			})
		}
		wg.Wait()
		faulty.Flush()
		objects := mem.Objects()
		for k := range keys {
			n := 0
			for w := range writers {
				if won[k][w] {
					n++
					got := string(objects[fmt.Sprintf("log/%08d", k)])
					if want := fmt.Sprintf("%d by %d", k, w); got != want {
						t.Errorf("key %d has %q, and writer %d was told that it is its own", k, got, w)
					}
				}
			}
			if n != 1 {
				t.Errorf("key %d: %d of %d were told that it is theirs", k, n, writers)
			}
		}
		if faulty.Faults < 100 {
			t.Errorf("only %d faults in %d requests", faulty.Faults, faulty.Requests)
		}
	})
}

// hangs is a Backend that does not answer a Delete.
type hangs struct{ remote.Backend }

func (hangs) Delete(ctx context.Context, key string) error {
	<-ctx.Done()
	return fmt.Errorf("delete %s: %w", key, ctx.Err())
}

// TestSureEnds shows that what is refused is not asked again, and that patience has an end.
func TestSureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := remotetest.NewFaulty(remotetest.NewMem(), 1)
		faulty.Lose = 1000
		b := remote.NewSure(faulty, time.Minute)
		start := time.Now()
		err := b.Create(t.Context(), "a", nil)
		if !errors.Is(err, remotetest.ErrLost) || !remote.IsUnsure(err) || !strings.Contains(err.Error(), "not known") {
			t.Errorf("Create without any answer: %v", err)
		}
		if d := time.Since(start); d < 59*time.Second || d > 2*time.Minute {
			t.Errorf("it gave up after %v", d)
		}
		if n, last := b.Retries(); n == 0 || last == nil {
			t.Errorf("Retries() = %d, %v", n, last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = b.Create(ctx, "a", nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, remotetest.ErrLost) {
			t.Errorf("Create within a second: %v", err)
		}
		if err := b.Create(ctx, "a", nil); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.HasSuffix(err.Error(), " (before: connection reset by peer)") {
			t.Errorf("Create when the time has come already: %v", err)
		}
		hung := remote.NewSure(hangs{faulty}, time.Minute)
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := hung.Delete(late, "a"); err.Error() != "context deadline exceeded (before: no answer)" {
			t.Errorf("Delete without any answer: %v", err)
		}
		faulty.Lose, faulty.Stop = 0, 1
		before := faulty.Requests
		if err := b.Create(t.Context(), "a", nil); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("Create that is refused: %v", err)
		}
		if n := faulty.Requests - before; n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
}

// TestDirLeavesNothing shows that a directory has objects and nothing else.
func TestDirLeavesNothing(t *testing.T) {
	d := openDir(t)
	for i := range 3 {
		if err := d.Create(t.Context(), "a/b", []byte("x")); (err == nil) != (i == 0) {
			t.Fatal(err)
		}
	}
	if err := d.Overwrite(t.Context(), "a/b", []byte("y")); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(filepath.Join(d.Root(), ".tmp"))
	if err != nil || len(list) > 0 {
		t.Errorf("left in .tmp: %v, %v", list, err)
	}
	old := filepath.Join(d.Root(), ".tmp", "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("a file that somebody may be writing was removed: %v", err)
	}
	day := time.Now().Add(-25 * time.Hour)
	if err := errors.Join(os.Chtimes(old, day, day), d.Sweep()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what a dead writer left is still there after a day")
	}
	if _, err := remote.OpenDir(filepath.Join(d.Root(), "none")); !errors.Is(err, remote.ErrRefused) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestDirModes: who may write into the directory may use what is put into it, and nobody else.
func TestDirModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: it has no such modes")
	}
	for root, want := range map[fs.FileMode]struct{ dir, file fs.FileMode }{
		0o700:                 {0o700, 0o600},
		0o755:                 {0o700, 0o600},
		0o770:                 {0o770, 0o660},
		0o770 | fs.ModeSetgid: {0o770 | fs.ModeSetgid, 0o660},
		0o777 | fs.ModeSticky: {0o777, 0o666},
		0o707:                 {0o707, 0o606},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, root); err != nil {
			t.Fatal(err)
		}
		d, err := remote.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Create(t.Context(), "a/b/c", []byte("x")); err != nil {
			t.Fatal(err)
		}
		modes := map[string]fs.FileMode{".tmp": want.dir, "a": want.dir, "a/b": want.dir, "a/b/c": want.file}
		for name, want := range modes {
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := st.Mode() &^ fs.ModeDir; got != want {
				t.Errorf("in a directory of mode %v %s has %v, want %v", root, name, got, want)
			}
		}
	}
}
