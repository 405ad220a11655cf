package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	tried = flag.String("release", "", "install what is in `DIR`, which make release has made")
	again = flag.String("again", "", "and compare it with what another run has put into `DIR`")
)

// TestRelease installs a release as users do, each way from nothing to the first take-back.
func TestRelease(t *testing.T) {
	if *tried == "" {
		t.Skip("SKIPPED: needs a release; run with -release DIR, as make release-test does")
	}
	dir, err := filepath.Abs(*tried)
	if err != nil {
		t.Fatal(err)
	}
	for name, install := range map[string]func(t *testing.T, dir string){"again": tryAgain, "sums": trySums,
		"script": tryScript, "npm": tryNPM, "deb": tryDeb, "rpm": tryRPM, "apk": tryAPK, "bare": tryBare,
		"arm64": tryARM, "windows": tryWindows, "formula": tryFormula} {
		t.Run(name, func(t *testing.T) { install(t, dir) })
	}
}

// one returns the file of the release with such a name.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q, %v, want one", pattern, names, err)
	}
	return names[0]
}

// need skips the test if a program is missing.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("SKIPPED: %s is not installed", program)
	}
}

// must runs a program that has to succeed, and returns what it prints.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// takeBack takes back a change in a new project, by a program that runs with a root directory
// and a command before it.
func takeBack(t *testing.T, root string, before ...string) {
	t.Helper()
	project, home := "/tmp/project", "/tmp/home"
	inside := filepath.Join(root, project)
	for _, dir := range []string{inside, filepath.Join(root, home)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if root != "" && before[0] != "chroot" {
		project, home = inside, filepath.Join(root, home)
	}
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(inside, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	snapctl := func(args ...string) string {
		t.Helper()
		all := append(append(append([]string{}, before[1:]...), "--root", project), args...)
		cmd := exec.Command(before[0], all...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "BOO_STORE=" + project + ".stores",
			"WINEDEBUG=-all", "WINEPREFIX=" + filepath.Join(home, "wine")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("snapctl %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	t.Log(snapctl("version"))
	write("one")
	snapctl("snapshot")
	write("two")
	snapctl("snapshot")
	t.Log(snapctl("restore", "@~1"))
	if b, err := os.ReadFile(filepath.Join(inside, "file")); string(b) != "one" {
		t.Errorf("after the restore the file is %q, %v", b, err)
	}
}

// tryAgain: two runs have made the same bytes.
func tryAgain(t *testing.T, dir string) {
	if *again == "" {
		t.Skip("SKIPPED: needs another run; run with -again DIR")
	}
	n := 0
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		a, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if b, err := os.ReadFile(filepath.Join(*again, rel)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: two runs differ (%v)", rel, err)
		}
		n++
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d files, %v", n, err)
	}
	t.Logf("%d files are the same", n)
}

func trySums(t *testing.T, dir string) {
	must(t, "sh", "-c", "cd "+dir+" && sha256sum --quiet -c SHA256SUMS")
}

func tryScript(t *testing.T, dir string) {
	root := t.TempDir()
	must(t, "sh", filepath.Join(dir, "install.sh"), "--from", dir, "--dir", filepath.Join(root, "bin"))
	takeBack(t, root, filepath.Join(root, "bin/snapctl"))
}

func tryNPM(t *testing.T, dir string) {
	need(t, "npm")
	for _, scripts := range []string{"--foreground-scripts", "--ignore-scripts"} { // the program, the launcher
		root := t.TempDir()
		must(t, "npm", "install", "-g", "--offline", "--prefix", root, scripts, one(t, dir, "npm-snapctl-[0-9]*.tgz"),
			one(t, dir, "npm-snapctl-linux-x64-*.tgz"))
		takeBack(t, root, filepath.Join(root, "bin/snapctl"))
		if code := exec.Command(filepath.Join(root, "bin/snapctl"),
			"nonsense").Run().(*exec.ExitError).ExitCode(); code != 2 {
			t.Errorf("%s: a wrong command ends with %d, want 2", scripts, code)
		}
		if must(t, "sh", "-c", "head -c 4 "+root+
			"/bin/snapctl | tr -d '\\177'") == "ELF" != (scripts == "--foreground-scripts") {
			t.Errorf("%s: the program is in the place of its launcher, or is not", scripts)
		}
	}
}

// tryDeb installs it in a system without Go, or unpacks it where none can be made.
func tryDeb(t *testing.T, dir string) {
	need(t, "debootstrap")
	root := t.TempDir()
	must(t, "debootstrap", "--variant=minbase", "stable", root)
	must(t, "cp", one(t, dir, "*_amd64.deb"), filepath.Join(root, "snapctl.deb"))
	must(t, "chroot", root, "dpkg", "-i", "/snapctl.deb")
	takeBack(t, root, "chroot", root, "/usr/bin/snapctl")
	must(t, "chroot", root, "dpkg", "-r", "snapctl")
	if left := must(t, "find", root, "-path", "*/usr/*", "-name", "*snapctl*"); left != "" {
		t.Errorf("dpkg -r leaves %s", left)
	}
}

func tryRPM(t *testing.T, dir string) {
	need(t, "rpm")
	root := t.TempDir()
	must(t, "rpm", "--root", root, "--nodeps", "-i", one(t, dir, "*_x86_64.rpm"))
	t.Log(must(t, "rpm", "--root", root, "-q", "snapctl"))
	takeBack(t, root, "chroot", root, "/usr/bin/snapctl")
}

// tryAPK unpacks it as apk does: Debian has no apk.
func tryAPK(t *testing.T, dir string) {
	root := t.TempDir()
	must(t, "sh", "-c", "gzip -dc "+one(t, dir, "*_x86_64.apk")+" | tar -xi -C "+root)
	takeBack(t, root, "chroot", root, "/usr/bin/snapctl")
}

// tryBare runs the program where there is nothing else, as in the image of the Dockerfile.
func tryBare(t *testing.T, dir string) {
	root := t.TempDir()
	must(t, "sh", "-c", "mkdir -p "+root+"/usr/bin && cp "+dir+"/bin/linux_amd64/* "+root+"/usr/bin")
	takeBack(t, root, "chroot", root, "/usr/bin/snapctl")
}

func tryARM(t *testing.T, dir string) {
	qemu := "qemu-aarch64"
	if _, err := exec.LookPath(qemu); err != nil {
		qemu += "-static" // Debian has one or the other
		need(t, qemu)
	}
	takeBack(t, t.TempDir(), qemu, filepath.Join(dir, "bin/linux_arm64/snapctl"))
}

func tryWindows(t *testing.T, dir string) {
	need(t, "wine")
	program := filepath.Join(dir, "bin/windows_amd64/snapctl.exe")
	cmd := exec.Command("wine", program, "version")
	cmd.Env = append(os.Environ(), "WINEDEBUG=-all", "WINEPREFIX="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil && bytes.Contains(out, []byte("bcryptprimitives.dll")) {
		t.Skip("SKIPPED: no program of Go runs in this Wine, which has no bcryptprimitives.dll; see .ci/wine")
	}
	takeBack(t, t.TempDir(), "wine", program)
}

func tryFormula(t *testing.T, dir string) {
	need(t, "ruby")
	must(t, "ruby", "-c", filepath.Join(dir, "snapctl.rb"))
}
