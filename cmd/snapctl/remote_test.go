package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

// A remoteUser runs snapctl under a home of its own.
type remoteUser struct {
	t    *testing.T
	home string
	env  []string
}

func (u *remoteUser) getenv() func(string) string {
	env := map[string]string{"HOME": u.home, "BOO_ENGINE": "off"}
	for _, e := range u.env {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	return func(k string) string { return env[k] }
}

// run runs a command in a directory, and returns its code and all that it says.
func (u *remoteUser) run(dir string, args ...string) (code int, said string) {
	u.t.Helper()
	var out bytes.Buffer
	code = run(u.t.Context(), append([]string{"--root", dir}, args...), nil, &out, &out, u.getenv())
	return code, out.String()
}

func (u *remoteUser) must(dir string, args ...string) string {
	u.t.Helper()
	code, said := u.run(dir, args...)
	if code != exitDone {
		u.t.Fatalf("snapctl %q: code %d: %s", args, code, said)
	}
	return said
}

// TestRemoteS3 has a session go from one user to another through a server that is not ours, and
// that is killed in the middle of pushes.
func TestRemoteS3(t *testing.T) {
	server := remotetest.Versity(t)
	url := "s3://" + server.Bucket + "/some/prefix"
	alice := &remoteUser{t, t.TempDir(), server.Env()}
	dir := filepath.Join(alice.home, "p")
	for i := range 200 {
		name := filepath.Join(dir, fmt.Sprintf("d%d", i%10), fmt.Sprintf("f%d", i))
		text := strings.Repeat(fmt.Sprintf("line %d of secret-content\n", i), 400)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err := errors.Join(err, os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	alice.must(dir, "snapshot", "--session", "s1")
	alice.must(dir, "remote", "init", url)
	alice.must(dir, "remote", "add", "team", url)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(700 * time.Millisecond):
			}
			server.Kill()
			time.Sleep(100 * time.Millisecond)
			server.Start(t)
		}
	}()
	for i := range 8 {
		text := strings.Repeat(fmt.Sprintf("turn %d\n", i), 10_000)
		if err := os.WriteFile(filepath.Join(dir, "turn"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		alice.must(dir, "snapshot", "--session", "s1", "-m", fmt.Sprint("turn ", i))
		alice.must(dir, "remote", "push")
		time.Sleep(150 * time.Millisecond)
	}
	close(stop)
	<-done
	if said := alice.must(dir, "remote", "check", "--data"); !strings.Contains(said, "8 entries, 9 records") {
		t.Errorf("check says %s", said)
	}
	bob := &remoteUser{t, t.TempDir(), append(server.Env(), "BOO_IDENTITY="+
		filepath.Join(alice.home, ".config", "snapctl", "identity.age"))}
	w := filepath.Join(bob.home, "elsewhere", "w")
	if err := os.Mkdir(filepath.Dir(w), 0o700); err != nil {
		t.Fatal(err)
	}
	bob.must(bob.home, "clone", url, w)
	if a, b := alice.must(dir, "log"), bob.must(w, "log"); a != b {
		t.Errorf("alice's log is\n%s, bob's\n%s", a, b)
	}
	bob.must(w, "restore", "-y", "start")
	if _, err := os.Stat(filepath.Join(w, "turn")); !os.IsNotExist(err) {
		t.Errorf("what turns have made is there after all: %v", err)
	}
	server.Kill()
	code, said := bob.run(w, "remote", "push", "--timeout", "2s")
	if code == exitDone || !strings.Contains(said, "remote origin") && !strings.Contains(said, url) {
		t.Errorf("push to a server that is dead: code %d: %s", code, said)
	}
	if said := bob.must(w, "remote", "status"); !strings.Contains(said, "not there yet") {
		t.Errorf("status says %s", said)
	}
	server.Start(t)
	bob.must(w, "remote", "push")
	secretScan(t, server.Dir)
}

// secretScan looks for what was recorded in the files of a server.
func secretScan(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.Walk(dir, func(name string, st os.FileInfo, err error) error {
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if files++; bytes.Contains(b, []byte("secret-content")) {
			t.Errorf("%s has what was recorded", name)
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

// openPusher returns what pushes from the store of a directory, as an engine does.
func openPusher(u *remoteUser, dir string) *pusher {
	u.t.Helper()
	a := newApp(nil, nil, io.Discard, io.Discard, u.getenv())
	a.log = slog.New(slog.DiscardHandler)
	loc, err := places.Locate(filepath.Join(u.home, ".boo", "file-store"), dir)
	if err != nil {
		u.t.Fatal(err)
	}
	s, err := cas.Open(u.t.Context(), loc.Dir, new(cas.Options))
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { s.Close() })
	return newPusher(a, s)
}

// TestPushBehind: what is recorded by requests that were under way when the engine was told to end is put, too.
func TestPushBehind(t *testing.T) {
	u := &remoteUser{t, t.TempDir(), nil}
	dir, bucket := filepath.Join(u.home, "p"), filepath.Join(u.home, "bucket")
	for _, d := range []string{dir, bucket} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.must(dir, "snapshot", "--session", "s1")
	u.must(dir, "remote", "init", bucket)
	u.must(dir, "remote", "add", "team", bucket)
	p := openPusher(u, dir)
	ctx, cancel := context.WithCancel(t.Context())
	_, end := p.app.pushBehind(ctx, p.s)
	cancel()
	time.Sleep(200 * time.Millisecond)
	u.must(dir, "snapshot", "--session", "s1", "-m", "under way")
	end()
	if said := u.must(dir, "remote", "status"); !strings.Contains(said, "all is there") {
		t.Errorf("when the engine has ended, not all is there: %s", said)
	}
}

// TestPusherOther: where another remote has come into the place of one that an engine has open, nothing is put.
func TestPusherOther(t *testing.T) {
	u := &remoteUser{t, t.TempDir(), nil}
	dir, bucket := filepath.Join(u.home, "p"), filepath.Join(u.home, "bucket")
	for _, d := range []string{dir, bucket} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.must(dir, "snapshot", "--session", "s1")
	u.must(dir, "remote", "init", bucket)
	u.must(dir, "remote", "add", "team", bucket)
	p := openPusher(u, dir)
	if !p.push(t.Context()) || p.open["team"] == nil {
		t.Fatal("it was not pushed, or did not stay open")
	}
	was := p.open["team"]
	for _, isOther := range []bool{true, false} { // another is there, and none
		if err := os.Rename(bucket, bucket+".was"); err != nil {
			t.Fatal(err)
		}
		if isOther {
			u.must(dir, "remote", "init", bucket)
		}
		p.open["team"] = was
		u.must(dir, "snapshot", "--session", "s1", "-m", "another")
		if p.push(t.Context()) {
			t.Error("it was pushed to another place")
		}
		if there, err := filepath.Glob(filepath.Join(bucket, "[ld]*")); len(there) > 0 || err != nil {
			t.Errorf("put there: %v, %v", there, err)
		}
		if said := u.must(dir, "remote", "status"); !strings.Contains(said, "failed") {
			t.Errorf("status says %s", said)
		}
		if err := errors.Join(os.RemoveAll(bucket), os.Rename(bucket+".was", bucket)); err != nil {
			t.Fatal(err)
		}
	}
	if !p.push(t.Context()) {
		t.Error("it is not pushed where the one is back")
	}
}

// running runs a pusher until end is called.
func running(t *testing.T, p *pusher) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// TestPusher has what is recorded be put into a remote by itself, also behind a time in which the
// remote was not there; and what was recorded last when the engine ends.
func TestPusher(t *testing.T) {
	u := &remoteUser{t, t.TempDir(), nil}
	dir, bucket := filepath.Join(u.home, "p"), filepath.Join(u.home, "bucket")
	for _, d := range []string{dir, bucket} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	step := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		u.must(dir, "snapshot", "--session", "s1")
	}
	status := func() string { return u.must(dir, "remote", "status") }
	until := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(status(), want); {
			if time.Now().After(deadline) {
				t.Fatalf("never %q: %s", want, status())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	step("one")
	u.must(dir, "remote", "init", bucket)
	u.must(dir, "remote", "add", "team", bucket)
	p := openPusher(u, dir)
	p.every, p.quiet, p.most, p.again = 10*time.Millisecond, 50*time.Millisecond, time.Second, 50*time.Millisecond
	end := running(t, p)
	until("all is there") // what there was before
	step("two")
	until("all is there")
	away := bucket + ".away"
	if err := os.Rename(bucket, away); err != nil {
		t.Fatal(err)
	}
	step("three")
	until("failed: ")
	if said := status(); !strings.Contains(said, "1 record of 1 session not there yet") {
		t.Errorf("status says %s", said)
	}
	if err := os.Rename(away, bucket); err != nil {
		t.Fatal(err)
	}
	until("all is there")
	for deadline := time.Now().Add(20 * time.Second); strings.Contains(status(), "failed"); {
		if time.Now().After(deadline) {
			t.Fatalf("status says %s", status())
		}
	}
	end()

	// Others come all the time: the oldest does not wait for ever.
	p.quiet, p.most = time.Hour, 300*time.Millisecond
	end = running(t, p)
	step("while others come")
	until("all is there")
	end()

	// A session ends.
	p.quiet, p.most = time.Hour, time.Hour
	end = running(t, p)
	step("the last of a session")
	time.Sleep(100 * time.Millisecond)
	if said := status(); !strings.Contains(said, "not there yet") {
		t.Errorf("it did not wait: %s", said)
	}
	p.hurry()
	until("all is there")
	end()

	// The engine ends.
	p.every = time.Hour
	end = running(t, p)
	step("four")
	time.Sleep(100 * time.Millisecond)
	if said := status(); !strings.Contains(said, "not there yet") {
		t.Errorf("it did not wait: %s", said)
	}
	end()
	if said := status(); !strings.Contains(said, "all is there") {
		t.Errorf("when the engine ends, not all is there: %s", said)
	}
	u.must(dir, "remote", "check", "--data")
}
