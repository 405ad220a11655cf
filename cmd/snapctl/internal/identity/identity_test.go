package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestWrap(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a", "identity.age")
	public, err := Make(name)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if _, err := Make(name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Make over one that is there: %v", err)
	}
	id, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	key := string(text[strings.Index(string(text), secretPrefix):])
	byKey, err := Read(strings.TrimSpace(key))
	if err != nil {
		t.Fatal(err)
	}
	sshID, sshPublic := sshKey(t, filepath.Join(dir, "id_ed25519"))
	rs, err := ParseRecipients([]string{public, sshPublic})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := rs.Wrap([]byte("keys"))
	if err != nil {
		t.Fatal(err)
	}
	for what, id := range map[string]*Identity{"file": id, "key": byKey, "ssh": sshID} {
		if got, err := id.Unwrap(wrapped); string(got) != "keys" || err != nil {
			t.Errorf("%s: Unwrap = %q, %v", what, got, err)
		}
	}
	own, err := id.Own()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := own.Wrap([]byte("mine"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sshID.Unwrap(mine); !errors.Is(err, ErrNotFor) {
		t.Errorf("Unwrap of what is another's: %v", err)
	}
	for i, want := range []bool{false, true} {
		if got, err := sshID.Opens(rs[i]); got != want || err != nil {
			t.Errorf("an SSH key opens what is for %s: %v, %v", rs[i].Text, got, err)
		}
	}
	again, err := ParseRecipients([]string{strings.TrimSpace(sshPublic) + " alice"})
	if err != nil || !again[0].IsSame(rs[1]) || again[0].IsSame(rs[0]) {
		t.Errorf("a key with another comment is not the same, %v", err)
	}
	if _, err := sshID.Own(); err == nil {
		t.Error("an SSH key says who it is")
	}
	wrapped[len(wrapped)-1] ^= 1
	if _, err := id.Unwrap(wrapped); err == nil {
		t.Error("Unwrap of what was changed")
	}
}

func sshKey(t *testing.T, name string) (*Identity, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return id, string(ssh.MarshalAuthorizedKey(p))
}

func TestBad(t *testing.T) {
	_, public := sshKey(t, filepath.Join(t.TempDir(), "id"))
	for _, text := range []string{"age2x", public + public, ""} {
		if _, err := ParseRecipients([]string{text}); err == nil {
			t.Errorf("recipient %q", text)
		}
	}
	_, err := Read(secretPrefix + "1QQQQ")
	if err == nil || strings.Contains(err.Error(), "QQQQ") {
		t.Errorf("an error about a key: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, c := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/snapctl/identity.age"}, {"", "/h", "/h/.config/snapctl/identity.age"},
		{"relative", "/h", "/h/.config/snapctl/identity.age"},
	} {
		env := map[string]string{"XDG_CONFIG_HOME": c.xdg, "HOME": c.home}
		if got, err := Path(func(k string) string { return env[k] }); got != c.want || err != nil {
			t.Errorf("Path = %q, %v, want %q", got, err, c.want)
		}
	}
	if _, err := Path(func(string) string { return "" }); err == nil {
		t.Error("a path without a home")
	}
}
