//go:build linux

package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/cmd/snapctl/internal/identity"
)

// readRemote runs the reader of remotes on one.
func (b *readerBench) readRemote(remote, keyring string, args ...string) (out string, ok bool) {
	b.t.Helper()
	return b.ask("remote.py", keyring, append([]string{remote}, args...)...)
}

// TestReaderRemoteOld has the reader read the remote that an old program made: packs, folds, what a
// prune has kept, a base and a line that leans on another. It finds a bit that was flipped anywhere
// but in FORMAT, which has no hash.
func TestReaderRemoteOld(t *testing.T) {
	b := newReaderBench(t, "", "")
	remote := filepath.Join(t.TempDir(), "remote")
	if err := os.CopyFS(remote, os.DirFS("../../testdata/format/remote/v1")); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../testdata/format/remote/v1.json")
	var want struct {
		Files    map[string]string
		Sessions map[string][]string
	}
	if err == nil {
		err = json.Unmarshal(doc, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, ok := b.readRemote(remote, "", "list")
	if !ok {
		t.Fatalf("list: %s", list)
	}
	var newest string // tree of the session that was pushed last
	for _, session := range slices.Sorted(maps.Keys(want.Sessions)) {
		for i, text := range want.Sessions[session] {
			var turn struct{ Kind, Tree string }
			if err := json.Unmarshal([]byte(text), &turn); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(list, "\t"+turn.Tree+"\n") {
				t.Errorf("%s: a %s of tree %s is not listed:\n%s", session, turn.Kind, turn.Tree, list)
			}
			if session == "s1" && i == 0 {
				newest = turn.Tree
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "x")
	out, _ := b.readRemote(remote, "", "export", newest, dir)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "/env: ") || !strings.HasSuffix(out, ": forgotten\n") {
		t.Errorf("export: %s", out)
	}
	for name, content := range want.Files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != content || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, got, err, content)
		}
	}
	if out, ok := b.readRemote(remote, "", "verify"); !ok {
		t.Errorf("verify: %s", out)
	}
	files := remoteObjects(t, remote)
	b.flip(files, 4, func() (string, bool) { return b.readRemote(remote, "", "verify") })
	for _, name := range files {
		if !strings.HasSuffix(name, "/00000002") || strings.Contains(name, "ledger") { // of the newest nobody can tell
			b.without(remote, name)
		}
	}
}

// without has the reader miss an object.
func (b *readerBench) without(remote, name string) {
	b.t.Helper()
	whole, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if out, ok := b.readRemote(remote, "", "verify"); ok {
		b.t.Errorf("%s is missing, and verify says %s", name, out)
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// remoteObjects lists the files of a remote but FORMAT and keys, of which the reader knows no hash.
func remoteObjects(t *testing.T, remote string) (files []string) {
	t.Helper()
	for _, kind := range []string{"log", "data", "ledger"} {
		err := filepath.WalkDir(filepath.Join(remote, kind), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestReaderRemote has the reader read an encrypted remote of two directories that have gone on with
// one session, with all kinds of files, a log, a content that was forgotten, a new key and a prune.
func TestReaderRemote(t *testing.T) {
	b := newReaderBench(t, t.TempDir(), "")
	remote, elsewhere := filepath.Join(t.TempDir(), "remote"), filepath.Join(t.TempDir(), "elsewhere")
	b.write("large.txt", []byte(strings.Repeat("a text that repeats\n", 100_000)), 0o600)
	b.write("bad\xffname", []byte{0, 0xff}, 0o755)
	b.write("secret", []byte("it is 4711"), 0o600)
	for i := range 100 {
		b.write("many/"+strings.Repeat("f", i+1), []byte(strings.Repeat("x", i)), 0o644)
	}
	if err := os.Symlink("../\xfe", filepath.Join(b.project, "many/link")); err != nil {
		t.Fatal(err)
	}
	b.must("snapshot", "--session", "s1")
	b.must("remote", "init", remote)
	b.must("remote", "add", "team", remote)
	b.must("remote", "push")
	b.must("clone", remote, elsewhere)
	here := b.project
	for i, dir := range []string{here, elsewhere, here} {
		b.project = dir
		b.write("large.txt", []byte(strings.Repeat("a text\n", 200_000+i)), 0o600)
		b.must("snapshot", "--session", "s1")
		b.must("remote", "push")
	}
	b.compareRemote(remote, 4)
	b.must("forget", "-y", "secret")
	b.must("remote", "rotate")
	b.write("a.txt", []byte("with the new key"), 0o644)
	b.must("snapshot", "--session", "s2")
	b.must("remote", "push")
	b.compareRemote(remote, 5)
	b.must("remote", "prune", "--drop-session", "--session", "s2", "-y")
	b.compareRemote(remote, 4)
}

// compareRemote compares what the reader says of a remote with what a new clone has: so many
// snapshots, which are exported by both, and whether something is lost.
func (b *readerBench) compareRemote(remote string, snapshots int) {
	t := b.t
	t.Helper()
	keyring := b.keyring(remote)
	list, ok := b.readRemote(remote, keyring, "list")
	if !ok {
		t.Fatalf("list: %s", list)
	}
	all := &readerBench{t: t, home: b.home, stores: t.TempDir(), project: filepath.Join(t.TempDir(), "clone")}
	if out, ok := all.snapctl("clone", remote, all.project); !ok && !strings.HasSuffix(out, ": it was forgotten\n") {
		t.Fatalf("clone: %s", out)
	}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] == "line" {
			continue
		}
		snapshots--
		theirs, ours := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "x")
		said, theyDo := b.readRemote(remote, keyring, "export", fields[5], theirs)
		answer, weDo := all.snapctl("export", fields[5], ours)
		if theyDo != weDo {
			t.Errorf("record %s: the reader says %q, the command %q", fields[0], said, answer)
		}
		got, want := readerListing(t, theirs), readerListing(t, ours)
		if !maps.Equal(got, want) || len(want) == 0 {
			t.Errorf("record %s: the reader exports\n%v\nthe command\n%v", fields[0], got, want)
		}
	}
	if snapshots != 0 {
		t.Errorf("%d snapshots more than are listed:\n%s", snapshots, list)
	}
	if out, ok := b.readRemote(remote, keyring, "verify"); !ok {
		t.Errorf("verify: %s", out)
	}
}

// keyring decrypts the keys of a remote into a file: age has a reader of its own.
func (b *readerBench) keyring(remote string) (file string) {
	t := b.t
	t.Helper()
	var format struct{ Keys []byte }
	doc, err := os.ReadFile(filepath.Join(remote, "FORMAT"))
	if err == nil {
		err = json.Unmarshal(doc, &format)
	}
	if err != nil {
		t.Fatal(err)
	}
	newer, err := filepath.Glob(filepath.Join(remote, "keys", "*")) // in order
	if err != nil {
		t.Fatal(err)
	}
	if len(newer) > 0 {
		if format.Keys, err = os.ReadFile(newer[len(newer)-1]); err != nil {
			t.Fatal(err)
		}
	}
	id, err := identity.Read(filepath.Join(b.home, ".config/snapctl/identity.age"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := id.Unwrap(format.Keys)
	file = filepath.Join(t.TempDir(), "keyring")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
