package remotetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program returns the file of a program, which is built in a directory by the first test that wants it, and kept
// where nobody but this user can write: it is run. The error says why it cannot be built.
func program(t testing.TB, name, dir, pkg string, env ...string) (string, error) {
	t.Helper()
	kept, err := programs()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(kept, name)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	tmp := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "install", pkg)
	build.Dir = dir
	build.Env = append(append(os.Environ(), "GOWORK=off", "GOBIN="+tmp), env...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	pkg, _, _ = strings.Cut(pkg, "@")
	return binary, copyProgram(filepath.Join(tmp, path.Base(pkg)), binary)
}

// programs returns a directory that only this user can write.
func programs() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "filestore-tests")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	st, err := os.Lstat(dir)
	if err == nil && runtime.GOOS != "windows" && st.Mode()&(os.ModeType|0o022) != os.ModeDir {
		err = fmt.Errorf("%q: it is no directory, or others can write there", dir)
	}
	return dir, err
}

// copyProgram gives a program its name at once: other tests may want it, too.
func copyProgram(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Chmod(0o700), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}
