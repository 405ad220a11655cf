//go:build linux

package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folding are file systems that find a name whatever the case of its letters: each returns
// a directory of one.
var folding = map[string]func(t *testing.T) string{
	"ext4": func(t *testing.T) string {
		needs(t, true, "mkfs.ext4", "chattr")
		image := blank(t)
		sh(t, "mkfs.ext4", "-q", "-O", "casefold", image)
		dir := newMount(t, "-o", "loop", image).path("p")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		sh(t, "chattr", "+F", dir)
		return dir
	},
	"exfat": func(t *testing.T) string {
		needs(t, true, "mkfs.exfat", "mount.exfat-fuse", "losetup")
		image, dir := blank(t), filepath.Join(scratch(t), "mnt")
		sh(t, "mkfs.exfat", image)
		device := strings.TrimSpace(sh(t, "losetup", "-f", "--show", image))
		t.Cleanup(func() { sh(t, "losetup", "-d", device) })
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount.exfat-fuse", device, dir).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: mount: %v: %s", err, out)
		}
		t.Cleanup(func() { sh(t, "umount", dir) })
		return filepath.Join(dir, "p")
	},
}

// blank returns a file for a file system.
func blank(t *testing.T) string {
	t.Helper()
	name := filepath.Join(scratch(t), "fold.img")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(imageSize); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestFold: on such a file system a name that got another spelling is recorded once, under
// that, and gets the old one back by a restore; without an engine and with one.
func TestFold(t *testing.T) {
	const nfc, nfd = "caf\u00e9", "cafe\u0301"
	for kind, make := range folding {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, t.TempDir(), make(t))
			for _, name := range []string{"readme.md", "src/a", "src/sub/b", nfc} {
				w.write(name, name)
			}
			if _, err := os.Lstat(filepath.Join(w.project, "README.md")); err != nil {
				t.Fatalf("this is no such file system: %v", err)
			}
			for _, command := range [][]string{nil, {"serve", "--detach"}} {
				if command != nil {
					w.must(command...)
				}
				respelt := [][2]string{{"readme.md", "README.md"}, {"src/a", "src/A"}, {nfc, nfd}}
				if kind != "exfat" { // which has a directory under its other spelling when it is gone
					respelt = append(respelt, [2]string{"src", "Src"})
				}
				for _, to := range respelt {
					w.respell(to[0], to[1])
				}
			}
			w.must("serve", "--stop")
			w.must("check")
		})
	}
}

// respell gives a name another spelling, as a turn would, and takes that back and again.
func (w *world) respell(from, to string) {
	w.t.Helper()
	if err := w.snapshot(); err != nil {
		w.t.Fatal(err)
	}
	before := w.state("")
	if err := os.Rename(filepath.Join(w.project, from), filepath.Join(w.project, to)); err != nil {
		w.t.Fatal(err)
	}
	after := w.state("")
	if before == after || slices.Contains(w.names(filepath.Dir(to)), filepath.Base(from)) {
		w.t.Fatalf("%s is not called %s now: %q", from, to, w.names(filepath.Dir(to)))
	}
	if err := w.snapshot(); err != nil {
		w.t.Fatal(err)
	}
	w.read(w.acks)
	for _, step := range []struct {
		args []string
		want string
	}{{[]string{"restore", "-y", "@~1"}, before}, {[]string{"undo", "-y"}, after}, {[]string{"redo", "-y"}, before}} {
		w.must(append([]string{"--session", "commands"}, step.args...)...)
		if got := w.state(""); got != step.want {
			w.t.Errorf("%s as %s: after %v:\n%s", from, to, step.args, differ(step.want, got))
		}
	}
}

func (w *world) names(dir string) (names []string) {
	w.t.Helper()
	list, err := os.ReadDir(filepath.Join(w.project, dir))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}
