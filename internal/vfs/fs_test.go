package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

func TestOS(t *testing.T) {
	testFS(t, func(t *testing.T) vfs.FS { return vfs.OS(t.TempDir()) })
}

func TestMem(t *testing.T) {
	testFS(t, func(*testing.T) vfs.FS { return vfstest.NewMem() })
}

// TestFaultFS checks that a fault that never fires is not noticed.
func TestFaultFS(t *testing.T) {
	testFS(t, func(*testing.T) vfs.FS { return vfstest.WithFault(vfstest.NewMem(), &vfstest.Fault{At: -1}) })
}

// testFS checks the contract of FS on the empty ones that empty makes.
func testFS(t *testing.T, empty func(t *testing.T) vfs.FS) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, vfs.FS)
	}{
		{"OpenFlags", testFSOpenFlags},
		{"ReadWrite", testFSReadWrite},
		{"Names", testFSNames},
		{"BadNames", testFSBadNames},
		{"Rename", testFSRename},
		{"RenameOpen", testFSRenameOpen},
		{"Exchange", testFSExchange},
		{"ReplaceFile", testReplaceFile},
		{"Removed", testFSRemoved},
		{"Stat", testFSStat},
		{"Lock", testFSLock},
		{"Closed", testFSClosed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, empty(t)) })
	}
}

// mustOpenFile opens a file for the time of the test.
func mustOpenFile(t *testing.T, fsys vfs.FS, name string, flag int) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// put writes a file without making it durable.
func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(content), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// get returns the content of a file.
func get(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return content(t, f)
}

func content(t *testing.T, f vfs.File) string {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names returns the names in a directory.
func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func testFSOpenFlags(t *testing.T, fsys vfs.FS) {
	if err := fsys.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	anyError := errors.New("any error")
	for _, test := range []struct {
		name string
		flag int
		want error  // nil: no error
		left string // content afterwards
	}{
		{"missing", os.O_RDONLY, fs.ErrNotExist, ""},
		{"missing", os.O_RDWR, fs.ErrNotExist, ""},
		{"missing/file", os.O_RDWR | os.O_CREATE, fs.ErrNotExist, ""},
		{"file/file", os.O_RDWR | os.O_CREATE, anyError, ""},
		{"file", os.O_RDONLY, nil, "hello"},
		{"file", os.O_RDWR, nil, "hello"},
		{"file", os.O_RDWR | os.O_CREATE, nil, "hello"},
		{"file", os.O_RDONLY | os.O_CREATE, nil, "hello"},
		{"file", os.O_RDWR | os.O_CREATE | os.O_EXCL, fs.ErrExist, ""},
		{"file", os.O_RDWR | os.O_TRUNC, nil, ""},
		{"file", os.O_RDWR | os.O_CREATE | os.O_TRUNC, nil, ""},
		{"file", os.O_RDONLY | os.O_TRUNC, fs.ErrInvalid, ""},
		{"file", os.O_WRONLY, fs.ErrInvalid, ""},
		{"file", os.O_RDWR | os.O_APPEND, fs.ErrInvalid, ""},
		{"new1", os.O_RDWR | os.O_CREATE, nil, ""},
		{"new2", os.O_RDWR | os.O_CREATE | os.O_EXCL, nil, ""},
		{"new3", os.O_RDONLY | os.O_CREATE, nil, ""},
		{"dir", os.O_RDONLY, vfs.ErrNotRegular, ""},
		{"dir", os.O_RDWR, anyError, ""},
		{"dir", os.O_RDWR | os.O_CREATE | os.O_EXCL, fs.ErrExist, ""},
		{".", os.O_RDONLY, anyError, ""},
	} {
		put(t, fsys, "file", "hello")
		f, err := fsys.OpenFile(test.name, test.flag, 0o600)
		switch {
		case test.want == anyError:
			if err == nil {
				t.Errorf("OpenFile(%q, %#x) succeeded", test.name, test.flag)
			}
		case !errors.Is(err, test.want):
			t.Errorf("OpenFile(%q, %#x): %v, want %v", test.name, test.flag, err, test.want)
		}
		if err != nil {
			if _, ok := errors.AsType[*fs.PathError](err); !ok {
				t.Errorf("OpenFile(%q, %#x): %T, want a PathError", test.name, test.flag, err)
			}
			continue
		}
		if got := content(t, f); got != test.left {
			t.Errorf("OpenFile(%q, %#x): content %q, want %q", test.name, test.flag, got, test.left)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testFSReadWrite(t *testing.T, fsys vfs.FS) {
	f := mustOpenFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	for _, test := range []struct {
		off  int64
		data string
		want string
	}{
		{0, "hello", "hello"},
		{5, " world", "hello world"},
		{0, "J", "Jello world"},
		{13, "!", "Jello world\x00\x00!"},
		{20, "", "Jello world\x00\x00!"},
	} {
		if n, err := f.WriteAt([]byte(test.data), test.off); n != len(test.data) || err != nil {
			t.Errorf("WriteAt(%q, %d) = %d, %v", test.data, test.off, n, err)
		}
		if got := content(t, f); got != test.want {
			t.Errorf("after WriteAt(%q, %d): %q, want %q", test.data, test.off, got, test.want)
		}
	}
	for _, test := range []struct {
		size int64
		want string
	}{
		{5, "Jello"},
		{8, "Jello\x00\x00\x00"}, // not what was cut
		{0, ""},
	} {
		if err := f.Truncate(test.size); err != nil {
			t.Error(err)
		}
		if got := content(t, f); got != test.want {
			t.Errorf("after Truncate(%d): %q, want %q", test.size, got, test.want)
		}
	}

	put(t, fsys, "file", "hello")
	for _, test := range []struct {
		off  int64
		n    int
		want string
		err  error
	}{
		{0, 5, "hello", nil},
		{1, 3, "ell", nil},
		{3, 5, "lo", io.EOF},
		{5, 1, "", io.EOF},
		{100, 1, "", io.EOF},
		{5, 0, "", nil},
		{0, 0, "", nil},
	} {
		p := make([]byte, test.n)
		n, err := f.ReadAt(p, test.off)
		if string(p[:n]) != test.want || err != test.err {
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v; want %q, %v", test.n, test.off, p[:n], err, test.want, test.err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
		t.Errorf("ReadAt(-1): %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Error("WriteAt(-1) succeeded")
	}
	if err := f.Truncate(-1); err == nil {
		t.Error("Truncate(-1) succeeded")
	}
	if err := f.Sync(); err != nil {
		t.Error(err)
	}

	r := mustOpenFile(t, fsys, "file", os.O_RDONLY)
	if n, err := r.WriteAt([]byte("x"), 0); n != 0 || err == nil {
		t.Errorf("WriteAt of a read-only file = %d, %v", n, err)
	}
	if err := r.Truncate(0); err == nil {
		t.Error("Truncate of a read-only file succeeded")
	}
	if got := content(t, r); got != "hello" {
		t.Errorf("content = %q, want %q", got, "hello")
	}
}

func testFSNames(t *testing.T, fsys vfs.FS) {
	if got := names(t, fsys, "."); len(got) != 0 {
		t.Errorf("ReadDir of an empty root = %q", got)
	}
	if err := errors.Join(fsys.Mkdir("b", 0o700), fsys.Mkdir("b/sub", 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c", "a", "b.x", "b/sub/deep"} {
		put(t, fsys, name, name)
	}
	if diff := cmp.Diff([]string{"a", "b", "b.x", "c"}, names(t, fsys, ".")); diff != "" {
		t.Errorf("ReadDir (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"deep"}, names(t, fsys, "b/sub")); diff != "" {
		t.Errorf("ReadDir (-want +got):\n%s", diff)
	}
	for _, dir := range []string{".", "b", "b/sub"} {
		if err := fsys.SyncDir(dir); err != nil {
			t.Error(err)
		}
	}

	for _, test := range []struct {
		call string
		err  error
		want error // nil: any error
	}{
		{"Mkdir of a directory", fsys.Mkdir("b", 0o700), fs.ErrExist},
		{"Mkdir of a file", fsys.Mkdir("a", 0o700), fs.ErrExist},
		{"Mkdir of the root", fsys.Mkdir(".", 0o700), fs.ErrExist},
		{"Mkdir in nothing", fsys.Mkdir("missing/sub", 0o700), fs.ErrNotExist},
		{"Mkdir in a file", fsys.Mkdir("a/sub", 0o700), nil},
		{"Remove of a full directory", fsys.Remove("b/sub"), nil},
		{"Remove of nothing", fsys.Remove("missing"), fs.ErrNotExist},
		{"SyncDir of nothing", fsys.SyncDir("missing"), fs.ErrNotExist},
		{"SyncDir of a file", fsys.SyncDir("a"), nil},
	} {
		if test.err == nil || test.want != nil && !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", test.call, test.err, test.want)
		}
	}
	if _, err := fsys.ReadDir("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of nothing: %v", err)
	}
	if _, err := fsys.ReadDir("a"); err == nil {
		t.Error("ReadDir of a file succeeded")
	}
	if _, err := fsys.Stat("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of nothing: %v", err)
	}

	for _, name := range []string{"b/sub/deep", "b/sub", "b", "c"} {
		if err := fsys.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b.x"}, names(t, fsys, ".")); diff != "" {
		t.Errorf("after Remove (-want +got):\n%s", diff)
	}
}

func testFSBadNames(t *testing.T, fsys vfs.FS) {
	put(t, fsys, "file", "hello")
	for _, name := range []string{"", "/", "/file", "../file", "./file", "file/", "a//b", "a/../file"} {
		calls := make(map[string]error)
		_, calls["OpenFile"] = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		calls["Mkdir"] = fsys.Mkdir(name, 0o700)
		calls["Rename from"] = fsys.Rename(name, "new")
		calls["Rename to"] = fsys.Rename("file", name)
		calls["Exchange"] = fsys.Exchange(name, "file")
		calls["Exchange with"] = fsys.Exchange("file", name)
		calls["Remove"] = fsys.Remove(name)
		_, calls["ReadDir"] = fsys.ReadDir(name)
		_, calls["Stat"] = fsys.Stat(name)
		calls["SyncDir"] = fsys.SyncDir(name)
		for call, err := range calls {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s %q: %v, want %v", call, name, err, fs.ErrInvalid)
			}
		}
	}
}

func testFSRename(t *testing.T, fsys vfs.FS) {
	if err := errors.Join(fsys.Mkdir("dir", 0o700), fsys.Mkdir("other", 0o700)); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, "a", "content of a")
	put(t, fsys, "b", "content of b")
	before, err := fsys.Stat("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{{"a", "a"}, {"a", "c"}, {"c", "dir/c"}, {"dir/c", "b"}} {
		if err := fsys.Rename(step[0], step[1]); err != nil {
			t.Errorf("Rename(%q): %v", step, err)
		}
	}
	if diff := cmp.Diff([]string{"b", "dir", "other"}, names(t, fsys, ".")); diff != "" {
		t.Errorf("after Rename (-want +got):\n%s", diff)
	}
	if got := get(t, fsys, "b"); got != "content of a" {
		t.Errorf("content = %q", got)
	}
	if after, err := fsys.Stat("b"); err != nil || after.Ino != before.Ino || after.Mtime != before.Mtime {
		t.Errorf("after Rename %+v, %v; before %+v", after, err, before)
	}

	for _, test := range []struct {
		from, to string
		want     error
	}{
		{"missing", "new", fs.ErrNotExist},
		{"b", "missing/new", fs.ErrNotExist},
		{"b", "dir", fs.ErrExist},
	} {
		err := fsys.Rename(test.from, test.to)
		isOther := runtime.GOOS == "windows" && errors.Is(err, fs.ErrPermission)
		if !errors.Is(err, test.want) && !isOther {
			t.Errorf("Rename(%q, %q): %v, want %v", test.from, test.to, err, test.want)
		}
		if _, ok := errors.AsType[*fs.PathError](err); !ok {
			t.Errorf("Rename(%q, %q): %T, want a PathError", test.from, test.to, err)
		}
	}
}

// testFSRenameOpen: a file that somebody has open moves, is replaced and goes like another.
func testFSRenameOpen(t *testing.T, fsys vfs.FS) {
	put(t, fsys, "old", "old")
	put(t, fsys, "new", "new")
	old, err := fsys.OpenFile("old", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	f, err := fsys.OpenFile("new", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := fsys.Rename("new", "moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("NEW"), 0); err != nil {
		t.Error(err)
	}
	if got := get(t, fsys, "moved"); got != "NEW" {
		t.Errorf("what was moved while it was open holds %q", got)
	}
	notUnderWine(t)
	if err := fsys.Rename("moved", "old"); err != nil {
		t.Fatal(err)
	}
	if got := get(t, fsys, "old"); got != "NEW" {
		t.Errorf("what replaced a file that is open holds %q", got)
	}
	b := make([]byte, 3)
	if _, err := old.ReadAt(b, 0); err != nil || string(b) != "old" {
		t.Errorf("what was replaced while it was open holds %q, %v", b, err)
	}
	if err := fsys.Remove("old"); err != nil {
		t.Errorf("remove a file that is open: %v", err)
	}
}

func testFSExchange(t *testing.T, fsys vfs.FS) {
	if err := fsys.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, "a", "content of a")
	put(t, fsys, "dir/b", "content of b")
	if err := fsys.Exchange("a", "dir/b"); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if a, b := get(t, fsys, "a"), get(t, fsys, "dir/b"); a != "content of b" || b != "content of a" {
		t.Errorf("a holds %q, b %q", a, b)
	}
	for _, pair := range [][2]string{{"a", "missing"}, {"missing", "a"}, {"a", "missing/b"}} {
		err := fsys.Exchange(pair[0], pair[1])
		if _, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Exchange(%q): %v", pair, err)
		}
	}
	if got := get(t, fsys, "a"); got != "content of b" {
		t.Errorf("a holds %q", got)
	}
}

// A noExchange is an FS that cannot exchange files.
type noExchange struct{ vfs.FS }

func (noExchange) Exchange(a, b string) error {
	return &fs.PathError{Op: "exchange", Path: a, Err: errors.ErrUnsupported}
}

func testReplaceFile(t *testing.T, fsys vfs.FS) {
	for i, want := range []string{"first", "exchanged", "renamed"} { // the first replaces nothing
		if i == 2 {
			fsys = noExchange{fsys}
		}
		put(t, fsys, "tmp", want)
		if err := vfs.ReplaceFile(fsys, "tmp", "file"); err != nil {
			t.Fatal(err)
		}
		if got := get(t, fsys, "file"); got != want {
			t.Errorf("file holds %q, want %q", got, want)
		}
	}
	if err := fsys.Remove("tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("tmp after a rename: %v", err)
	}
	if err := vfs.ReplaceFile(fsys, "missing", "file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReplaceFile of a missing file: %v", err)
	}
}

// notUnderWine skips what Wine cannot, and Windows can (.ci/wine).
func notUnderWine(t *testing.T) {
	if os.Getenv("UNDER_WINE") != "" {
		t.Skip("under Wine a file that somebody has open is not replaced, and goes when it is closed")
	}
}

func testFSRemoved(t *testing.T, fsys vfs.FS) {
	notUnderWine(t)
	f := mustOpenFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	if _, err := f.WriteAt([]byte("old"), 0); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove("file"); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, "file", "new")
	if _, err := f.WriteAt([]byte("er"), 3); err != nil {
		t.Error(err)
	}
	if got := content(t, f); got != "older" {
		t.Errorf("content of the removed file = %q", got)
	}
	if got := get(t, fsys, "file"); got != "new" {
		t.Errorf("content of the new file = %q", got)
	}
	was, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	is, err := fsys.Stat("file")
	if err != nil {
		t.Fatal(err)
	}
	if was.Ino == is.Ino {
		t.Errorf("both files have inode %d", is.Ino)
	}
}

func testFSStat(t *testing.T, fsys vfs.FS) {
	if err := fsys.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if st, err := fsys.Stat("dir"); err != nil || st.Kind != vfs.Directory ||
		st.Perm != 0o700 && st.Perm != vfs.KeptPerm(vfs.Directory, 0o700) {
		t.Errorf("Stat of a directory = %+v, %v", st, err)
	}
	if st, err := fsys.Stat("."); err != nil || st.Kind != vfs.Directory {
		t.Errorf("Stat of the root = %+v, %v", st, err)
	}
	f := mustOpenFile(t, fsys, "dir/file", os.O_RDWR|os.O_CREATE)
	if _, err := f.WriteAt(bytes.Repeat([]byte("x"), 1000), 0); err != nil {
		t.Fatal(err)
	}
	st, err := fsys.Stat("dir/file")
	if err != nil || st.Kind != vfs.Regular || st.Size != 1000 ||
		st.Perm != 0o600 && st.Perm != vfs.KeptPerm(vfs.Regular, 0o600) || st.Mtime == 0 || st.Ctime == 0 {
		t.Errorf("Stat of a file = %+v, %v", st, err)
	}
	got, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(st, got); diff != "" {
		t.Errorf("Stat by name and by File differ:\n%s", diff)
	}
}

// testFSLock checks two Files, a and b, on one name.
func testFSLock(t *testing.T, fsys vfs.FS) {
	const (
		shared    = "shared"
		exclusive = "exclusive"
		unlock    = "unlock"
		closing   = "close"
	)
	type step struct {
		file byte
		call string
		want bool
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"shared beside shared", []step{{'a', shared, true}, {'b', shared, true}}},
		{"exclusive beside shared", []step{{'a', shared, true}, {'b', exclusive, false}}},
		{"shared beside exclusive", []step{{'a', exclusive, true}, {'b', shared, false}}},
		{"exclusive beside exclusive", []step{{'a', exclusive, true}, {'b', exclusive, false}}},
		{"after unlock", []step{{'a', exclusive, true}, {'a', unlock, true}, {'b', exclusive, true}}},
		{"after close", []step{{'a', exclusive, true}, {'a', closing, true}, {'b', exclusive, true}}},
		{"unlock of nothing", []step{{'a', exclusive, true}, {'b', unlock, true}, {'b', shared, false}}},
		{"again", []step{{'a', exclusive, true}, {'a', exclusive, true}, {'a', unlock, true}, {'b', exclusive, true}}},
		{"up", []step{{'a', shared, true}, {'a', exclusive, true}, {'b', shared, false}}},
		{"down", []step{{'a', exclusive, true}, {'a', shared, true}, {'b', shared, true}, {'b', exclusive, false}}},
		{"up in vain", []step{{'a', shared, true}, {'b', shared, true}, {'a', exclusive, false},
			{'b', exclusive, true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := map[byte]vfs.File{
				'a': mustOpenFile(t, fsys, "lock", os.O_RDWR|os.O_CREATE),
				'b': mustOpenFile(t, fsys, "lock", os.O_RDONLY),
			}
			for i, s := range test.steps {
				f, got, err := files[s.file], true, error(nil)
				switch s.call {
				case shared:
					got, err = f.TryLock(vfs.Shared)
				case exclusive:
					got, err = f.TryLock(vfs.Exclusive)
				case unlock:
					err = f.Unlock()
				case closing:
					err = f.Close()
				}
				if got != s.want || err != nil {
					t.Errorf("step %d, %s of %c = %v, %v; want %v", i, s.call, s.file, got, err, s.want)
				}
			}
			// A lock keeps nobody from reading and writing.
			put(t, fsys, "lock", "x")
			if err := errors.Join(files['a'].Close(), files['b'].Close()); err != nil && !errors.Is(err, fs.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

func testFSClosed(t *testing.T, fsys vfs.FS) {
	f := mustOpenFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]error)
	_, calls["ReadAt"] = f.ReadAt(make([]byte, 1), 0)
	_, calls["WriteAt"] = f.WriteAt([]byte("x"), 0)
	_, calls["Stat"] = f.Stat()
	_, calls["TryLock"] = f.TryLock(vfs.Shared)
	calls["Sync"] = f.Sync()
	calls["Truncate"] = f.Truncate(0)
	calls["Unlock"] = f.Unlock()
	calls["Close"] = f.Close()
	for call, err := range calls {
		if !errors.Is(err, fs.ErrClosed) && (runtime.GOOS != "windows" || err == nil) { // package os has another there
			t.Errorf("%s of a closed File: %v, want %v", call, err, fs.ErrClosed)
		}
	}
}

// TestOSRoot checks that an OS makes its own root and stays in it.
func TestOSRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	fsys := vfs.OS(root)
	if _, err := fsys.Stat("."); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of a missing root: %v", err)
	}
	if err := fsys.Mkdir(".", 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, "file", "hello")
	if got, err := os.ReadFile(filepath.Join(root, "file")); string(got) != "hello" || err != nil {
		t.Errorf("content = %q, %v", got, err)
	}
}
