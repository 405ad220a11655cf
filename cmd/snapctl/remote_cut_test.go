//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// cutWhen runs a command, and interrupts it as soon as there is a file below a directory.
func (u *remoteUser) cutWhen(below, dir string, args ...string) (code int, said string) {
	u.t.Helper()
	ctx, cancel := context.WithCancel(u.t.Context())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	look := func() {
		filepath.WalkDir(below, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				cancel()
				return fs.SkipAll
			}
			return nil
		})
	}
	look()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				look()
			}
		}
	}()
	var out bytes.Buffer
	code = run(ctx, append([]string{"--root", dir}, args...), nil, &out, &out, u.getenv())
	return code, out.String()
}

// TestRemoteCut interrupts pushes and clones. Each says what is there, and what it says to run does the rest.
func TestRemoteCut(t *testing.T) {
	alice := &remoteUser{t, t.TempDir(), nil}
	dir, there := filepath.Join(alice.home, "p"), filepath.Join(alice.home, "there")
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 80 {
		name := filepath.Join(dir, fmt.Sprintf("d%d", i%8), fmt.Sprint(i))
		text := make([]byte, 1<<20)
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alice.must(dir, "snapshot", "--session", "s1", "--max-bytes", "none")
	alice.must(dir, "remote", "init", there, "--plain")
	alice.must(dir, "remote", "add", "team", there)
	code, said := alice.cutWhen(filepath.Join(there, "data"), dir, "remote", "push")
	want := "snapctl: remote push: interrupted, 0 records came to team, 1 did not\n" +
		"hint: 'snapctl --root " + dir + " remote push team' puts the rest there\n"
	if code != exitInterrupted || !strings.HasSuffix(said, want) {
		t.Fatalf("a push that is interrupted: code %d, %s, want %s", code, said, want)
	}
	alice.must(dir, "remote", "push", "team")

	for what, want := range map[string]string{
		"pull":   "what came is whole\nhint: 'snapctl AT remote pull' brings the rest\n",
		"check":  "the remote is as it was\nhint: 'snapctl AT remote check' can be run again\n",
		"prune":  "the remote is whole\nhint: 'snapctl AT remote prune', with the same flags, continues\n",
		"repair": "neither is worse than it was\nhint: 'snapctl AT remote repair' continues\n",
		"evict":  "nothing is gone that is not there\nhint: 'snapctl AT remote evict' can be run again\n",
	} {
		want = strings.ReplaceAll(want, "AT", "--root "+dir)
		code, said := alice.cutWhen(dir, dir, "remote", what)
		if code != exitInterrupted || said != "snapctl: remote "+what+": interrupted, "+want {
			t.Errorf("remote %s that is interrupted: code %d, %s, want %s", what, code, said, want)
		}
	}

	bob := &remoteUser{t, t.TempDir(), nil}
	w := filepath.Join(bob.home, "w")
	code, said = bob.cutWhen(w, bob.home, "clone", there, w)
	want = "snapctl: clone: interrupted, no file was written\nhint: run the same command again\n"
	if code != exitInterrupted || !strings.HasSuffix(said, want) {
		t.Fatalf("a clone that is interrupted: code %d, %s, want %s", code, said, want)
	}
	if left, err := os.ReadDir(w); len(left) > 0 || err != nil {
		t.Errorf("%d names are left: %v", len(left), err)
	}
	for range 2 { // also where all records are there, and no files
		if err := os.RemoveAll(w); err != nil {
			t.Fatal(err)
		}
		bob.must(bob.home, "clone", there, w)
		sameFiles(t, dir, w)
	}

	lazy := filepath.Join(bob.home, "lazy") // whose files come when all records are there
	code, said = bob.cutWhen(lazy, bob.home, "clone", there, lazy, "--lazy")
	hint := regexp.MustCompile(`\nsnapctl: clone: interrupted, .*/lazy has its history, and not all of its files\n` +
		`hint: 'snapctl (--root .*/lazy restore -y @ --exact)' writes the rest\n$`).FindStringSubmatch("\n" + said)
	if code != exitInterrupted || hint == nil {
		t.Fatalf("a lazy clone that is interrupted: code %d, %s", code, said)
	}
	bob.must(bob.home, strings.Fields(hint[1])...)
	sameFiles(t, dir, lazy)
	if said := bob.must(lazy, "status"); !strings.Contains(said, "nothing changed") {
		t.Errorf("status says %s", said)
	}
}

// TestCloneDamaged has contents of a remote be damaged. A lazy clone brings the history, says so, and what it says to
// run writes the files when they are mended.
func TestCloneDamaged(t *testing.T) {
	alice := &remoteUser{t, t.TempDir(), nil}
	dir, there := filepath.Join(alice.home, "p"), filepath.Join(alice.home, "there")
	rng := rand.New(rand.NewPCG(1, 2))
	if err := os.MkdirAll(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 3<<20)
	for i := range 4 {
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		if err := os.WriteFile(filepath.Join(dir, "d", fmt.Sprint(i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alice.must(dir, "snapshot", "--session", "s1", "--max-bytes", "none")
	alice.must(dir, "remote", "init", there, "--plain")
	alice.must(dir, "remote", "add", "team", there)
	alice.must(dir, "remote", "push")
	meddle := func() {
		err := filepath.WalkDir(filepath.Join(there, "data"), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil || len(b) < 1<<20 {
				return err
			}
			b[len(b)/2] ^= 1
			return os.WriteFile(name, b, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	bob := &remoteUser{t, t.TempDir(), nil}
	lazy := filepath.Join(bob.home, "lazy")
	meddle()
	code, said := bob.run(bob.home, "clone", there, lazy, "--lazy")
	hint := regexp.MustCompile(`^snapctl: clone: .*/lazy has its history, and not all of its files: blob \w+: is at ` +
		`the remote "origin", and could not be fetched: damaged: .*\nhint: when that is mended, ` +
		`'snapctl (--root .*/lazy restore -y @ --exact)' writes the rest\n$`).FindStringSubmatch(said)
	if code != exitEnvironment || hint == nil {
		t.Fatalf("a clone of what is damaged: code %d, %s", code, said)
	}
	meddle()
	bob.must(bob.home, strings.Fields(hint[1])...)
	sameFiles(t, dir, lazy)
}

// sameFiles holds that two directories have the same files.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	if digest(t, a) != digest(t, b) {
		t.Errorf("%s and %s differ", a, b)
	}
}
