package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestVersionOf(t *testing.T) {
	for _, c := range []struct {
		said    string
		changed bool
		want    string // "": an error
	}{
		{"v1.2.3-0-gabc1234567", false, "1.2.3"},
		{"v1.2.3-0-gabc1234567", true, "1.2.4-dev.0.gabc1234567.changed"},
		{"v1.2.3-5-gabc1234567", false, "1.2.4-dev.5.gabc1234567"},
		{"v2.0.0-rc.1-0-gabc1234567", false, "2.0.0-rc.1"},
		{"v2.0.0-rc.1-7-gabc1234567", false, "2.0.0-rc.1.dev.7.gabc1234567"},
		{"v0.0.0-558-g4412aa9d1a", false, "0.0.0-dev.558.g4412aa9d1a"},
		{"4412aa9", false, ""},
	} {
		got, err := versionOf(c.said, c.changed)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("versionOf(%q, %v) = %q, %v, want %q", c.said, c.changed, got, err, c.want)
		}
	}
}

var someTime = time.Unix(1_700_000_000, 0).UTC()

// TestArchivesHaveNothingOfTheMachine: times, owners and order are as they are given.
func TestArchivesHaveNothingOfTheMachine(t *testing.T) {
	files := []file{{"a/x", []byte("one"), 0o755}, {"a/y", nil, 0o644}}
	for name, pack := range map[string]func([]file, time.Time) ([]byte, error){"tar": tarred, "zip": zipped} {
		one, err := pack(files, someTime)
		if err != nil {
			t.Fatal(err)
		}
		two, err := pack(files, someTime)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: two archives of the same files differ (%v)", name, err)
		}
		if later, err := pack(files, someTime.Add(time.Hour)); err != nil || bytes.Equal(one, later) {
			t.Errorf("%s: the time of the files is not in it (%v)", name, err)
		}
	}
}

// TestBill: each program contains modules that are listed, each once.
func TestBill(t *testing.T) {
	self, err := os.Executable() // a program of Go like any other
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: "1.2.3", time: someTime}
	text, err := r.bill(&targets[0], []file{{"snapctl", b, 0o755}, {"snapctl-checkpoints", b, 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	var got bill
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]int)
	for _, p := range got.Packages {
		listed[p.ID]++
	}
	if listed["SPDXRef-go-stdlib"] != 1 || listed["SPDXRef-program-0"] != 1 || listed["SPDXRef-program-1"] != 1 {
		t.Errorf("packages %v, want the standard library and two programs", listed)
	}
	for _, l := range got.Relationships {
		if listed[l.To] != 1 {
			t.Errorf("%s %s %s, which is listed %d times", l.From, l.Type, l.To, listed[l.To])
		}
	}
}

// fakeRelease makes a release of this machine's target, whose snapctl is a script.
func fakeRelease(t *testing.T, version string) string {
	r := &release{version: version, time: someTime, dir: t.TempDir()}
	script := []byte("#!/bin/sh\necho snapctl v" + version + "\n")
	err := r.archive(&target{os: runtime.GOOS, arch: runtime.GOARCH}, []file{{"snapctl", script, 0o755},
		{"snapctl-checkpoints", script, 0o755}, {"man/snapctl.1", []byte("page"), 0o644},
		{"completions/snapctl.bash", []byte("bash"), 0o644}, {"completions/_snapctl", []byte("zsh"), 0o644},
		{"completions/snapctl.fish", []byte("fish"), 0o644}})
	if err == nil {
		err = r.writeSums()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.dir
}

func TestInstall(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: it is for a POSIX shell")
	}
	release := fakeRelease(t, "1.2.3")
	damaged := fakeRelease(t, "1.2.3")
	archives, _ := filepath.Glob(filepath.Join(damaged, "*.tar.gz"))
	b, err := os.ReadFile(archives[0])
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(archives[0], b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, c := range []struct {
		args      string
		want      string // is printed
		installed string // below home; "": it fails
	}{
		{"--from " + release, "installed snapctl v1.2.3\nIt is in " + home +
			"/.local/bin, which is not in PATH. For this shell, and at the end of ~/.profile:\n  export PATH='" +
			home + "/.local/bin':$PATH", ".local/bin"},
		{"--from file://" + release + "/ --dir " + home + "/b/bin", "installed snapctl v1.2.3", "b/bin"},
		{"--from " + release + " --dir " + home + "/a/bin --version v1.2.3", "installed snapctl v1.2.3", "a/bin"},
		{"--from " + release + " --dir " + home + "/none --version 1.2", "no archive of 1.2 for", ""},
		{"--from " + damaged + " --dir " + home + "/none", "nothing was installed", ""},
		{"--from " + home + " --dir " + home + "/none", "there is no " + home + "/SHA256SUMS", ""},
		{"--dir", "--dir: a value is missing", ""},
		{"--prefix " + home, "unknown argument: --prefix", ""},
	} {
		cmd := exec.Command("sh", append([]string{"install.sh"}, strings.Fields(c.args)...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err != nil) != (c.installed == "") {
			t.Errorf("install.sh %s: %v, %s, want %q", c.args, err, out, c.want)
		}
		if c.installed == "" {
			if _, err := os.Stat(filepath.Join(home, "none")); err == nil {
				t.Errorf("install.sh %s has installed something", c.args)
			}
			continue
		}
		for _, name := range []string{"snapctl", "snapctl-checkpoints", "../share/man/man1/snapctl.1",
			"../share/bash-completion/completions/snapctl", "../share/zsh/site-functions/_snapctl"} {
			if _, err := os.Stat(filepath.Join(home, c.installed, name)); err != nil {
				t.Errorf("install.sh %s: %v", c.args, err)
			}
		}
	}
}

// Nothing is removed but an older release.
func TestMakeEmpty(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string) {
		t.Helper()
		if err := makeEmpty(dir); err == nil {
			t.Errorf("removed is %s", why)
		}
	}
	write("mine", "")
	refused("a file in a directory that is no release")
	write(sumsName, "0123  ours.tar.gz\n")
	write("ours.tar.gz", "")
	refused("a file beside a release")
	if err := os.Remove(filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	if err := makeEmpty(dir); err != nil {
		t.Errorf("a release is not replaced: %v", err)
	}
	if list, err := os.ReadDir(dir); len(list) > 0 || err != nil {
		t.Errorf("left are %v, %v", list, err)
	}
	if err := makeEmpty(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}
