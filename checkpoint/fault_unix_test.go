//go:build unix

package checkpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDirectoryThatRefuses has files that cannot be deleted.
func TestDirectoryThatRefuses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run a process that may do less")
	}
	s := newSeesaw(t, newSQLite(t))
	const nobody = 65534
	for _, root := range []string{s.dir, s.stores,
		filepath.Dir(strings.TrimPrefix(strings.Split(s.name.dsn, "?")[0], "file:"))} {
		for path := root; strings.HasPrefix(path, filepath.Clean(os.TempDir())+"/"); path = filepath.Dir(path) {
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("chown", "-R", fmt.Sprint(nobody), root).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.Chown(filepath.Join(s.dir, "new"), 0, 0); err != nil {
		t.Fatal(err)
	}
	cmd, out := s.spawn(false, "", 0)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	exe := filepath.Join(s.dir, "..", "test")
	if b, err := os.ReadFile(os.Args[0]); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = exe, "/"
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), "new/") {
		t.Fatalf("%v\n%s\nwant an error that names the file", err, out)
	}
	s.expect("after the error", s.old, s.all())
	s.settled("after the error", false, errInjected, false)
}
