package secrets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMII\n"

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          bool
	}{
		{".env", "TOKEN=1\n", true},
		{".ENV", "TOKEN=1\n", true},
		{".env", "", false},
		{".env", "# nothing yet\n", false},
		{".envrc", "export TOKEN=1\n", true},
		{".env.local", "TOKEN=1\n", true},
		{".env.production.local", "TOKEN=1\n", true},
		{".env.example", "TOKEN=1\n", false},
		{".env.local.sample", "TOKEN=1\n", false},
		{".env.template", "TOKEN=1\n", false},
		{".environment", "TOKEN=1\n", false},
		{"env", "TOKEN=1\n", false},
		{"id_rsa", pem, true},
		{"id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\n", true},
		{"id_rsa.pub", "ssh-rsa AAAA", false},
		{"id_rsa", "see the wiki", false},
		{"server.pem", "-----BEGIN CERTIFICATE-----\n" + pem, true},
		{"server.pem", "-----BEGIN CERTIFICATE-----\n", false},
		{"server.pem", strings.Repeat("-", headSize) + pem, false},
		{"server.key", pem, true},
		{"keys.key", "a = b", false},
		{"cert.p12", "\x30\x82", true},
		{".p12", "", true},
		{"vault.kdbx", "", true},
		{".npmrc", "registry=https://registry.npmjs.org/\n", false},
		{".npmrc", "//registry.npmjs.org/:_authToken=x\n", true},
		{".netrc", "machine a login b password c\n", true},
		{".netrc", "machine a\n", false},
		{".pypirc", "password = x\n", true},
		{"credentials", "[default]\naws_secret_access_key = x\n", true},
		{"credentials", "# how to get some\n", false},
		{"config.json", `{"auths":{"r":{"auth":"eA=="}}}`, true},
		{"config.json", `{"debug":true}`, false},
		{"main.go", "package main\nvar token = \"PRIVATE KEY\"\n", false},
		{"", "", false},
	} {
		if got := Holds(c.name, []byte(c.content)); got != c.want {
			t.Errorf("Holds(%q, %.40q) = %v, want %v", c.name, c.content, got, c.want)
		}
	}
	if !Holds("id_rsa", nil) || Holds("main.go", nil) {
		t.Error("where the content is not known the name has to decide")
	}
}

// TestHoldsLooksOnly: whoever captures many files pays nothing for those that have no
// such name.
func TestHoldsLooksOnly(t *testing.T) {
	content := []byte("package main\n")
	if n := testing.AllocsPerRun(100, func() { Holds("main.go", content) }); n != 0 {
		t.Errorf("Holds allocates %v times for a name in lower case, want 0", n)
	}
}

const wt = layout.Worktree("w")

func newStore(t *testing.T) (dir string, fsys vfs.FS) {
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, layout.Worktrees), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, vfs.OS(dir)
}

func tell(t *testing.T, fsys vfs.FS, session string, captured ...string) []string {
	t.Helper()
	paths, err := Tell(context.Background(), fsys, wt, session, func(path string) (bool, error) {
		return slices.Contains(captured, path), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestTellOnce(t *testing.T) {
	_, fsys := newStore(t)
	add := func(paths ...string) {
		t.Helper()
		if err := Add(context.Background(), fsys, wt, paths); err != nil {
			t.Fatal(err)
		}
	}
	check := func(session string, captured, want []string) {
		t.Helper()
		if got := tell(t, fsys, session, captured...); !slices.Equal(got, want) {
			t.Errorf("session %s is told of %q, want %q", session, got, want)
		}
	}
	odd := "not utf8 \xff"
	check("a", nil, nil)
	add("k.pem", ".env")
	add(".env")
	check("a", []string{".env", "k.pem"}, []string{".env", "k.pem"})
	check("a", []string{".env", "k.pem"}, nil)
	add(odd)
	check("a", []string{".env", "k.pem", odd}, []string{odd})
	check("b", []string{".env", odd}, []string{".env", odd}) // k.pem is not captured any more
	check("c", []string{".env", "k.pem", odd}, []string{".env", odd})
	add("k.pem")
	check("a", []string{".env", "k.pem", odd}, []string{"k.pem"})
}

// TestTellDamaged: a list that says nothing is an empty one, and an error of the store
// has nobody count as told.
func TestTellDamaged(t *testing.T) {
	dir, fsys := newStore(t)
	ctx := context.Background()
	if err := Add(ctx, fsys, wt, []string{".env"}); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	if _, err := Tell(ctx, fsys, wt, "a", func(string) (bool, error) { return false, lost }); !errors.Is(err, lost) {
		t.Errorf("Tell: %v, want %v", err, lost)
	}
	if got := tell(t, fsys, "a", ".env"); !slices.Equal(got, []string{".env"}) {
		t.Errorf("after an error the session is told of %q, want .env", got)
	}
	if err := os.WriteFile(filepath.Join(dir, wt.Secrets()), []byte(`{"files":[{"pa`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tell(t, fsys, "b", ".env"); got != nil {
		t.Errorf("a damaged list tells of %q", got)
	}
	if err := Add(ctx, fsys, wt, []string{"x.key"}); err != nil {
		t.Fatal(err)
	}
	if got := tell(t, fsys, "b", "x.key"); !slices.Equal(got, []string{"x.key"}) {
		t.Errorf("the list tells of %q, want x.key", got)
	}
}
