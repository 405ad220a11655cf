// Package identity is whose key opens a remote: age's identities and recipients, and the file
// in which a user keeps one. It wraps and unwraps the keys of remotes, and nothing else.
package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"filippo.io/age"
	"filippo.io/age/agessh"
)

// Path returns where a user's identity is: $XDG_CONFIG_HOME/snapctl/identity.age, or below
// ~/.config. The error says that there is no home.
func Path(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "snapctl", "identity.age"), nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("no place for an identity: HOME is not set")
	}
	return filepath.Join(home, ".config", "snapctl", "identity.age"), nil
}

// An Identity is a key that opens what is encrypted for it.
type Identity struct {
	list []age.Identity
	own  Recipients // for whom something is encrypted that it is to open; of SSH keys none
}

// secretPrefix begins a key of age's.
const secretPrefix = "AGE-SECRET-KEY-"

// Read reads an identity: a file as age-keygen makes it, or a private key of SSH without a
// passphrase; or the key of age itself.
func Read(fileOrKey string) (*Identity, error) {
	text, name := []byte(fileOrKey), "the identity"
	if !strings.HasPrefix(fileOrKey, secretPrefix) {
		b, err := os.ReadFile(fileOrKey)
		if err != nil {
			return nil, err
		}
		text, name = b, fmt.Sprintf("identity %q", fileOrKey)
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")) {
		id, err := agessh.ParseIdentity(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &Identity{list: []age.Identity{id}}, nil
	}
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, hideKey(err))
	}
	i := &Identity{list: list}
	for _, id := range list {
		if x, ok := id.(*age.X25519Identity); ok {
			i.own = append(i.own, Recipient{x.Recipient(), x.Recipient().String()})
		}
	}
	return i, nil
}

// hideKey keeps a key out of an error: a parser quotes what it does not understand.
func hideKey(err error) error {
	if strings.Contains(err.Error(), secretPrefix) {
		return errors.New("it is no key of age's")
	}
	return err
}

// Make makes an identity in a file that is not there yet, which its owner alone may read. It
// returns the recipient. The error matches [fs.ErrExist] if the file is there.
func Make(name string) (recipient string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "# made by snapctl; whoever has it can read the remotes of its owner\n"+
		"# public key: %s\n%s\n", id.Recipient(), id)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return id.Recipient().String(), nil
}

// Exists reports whether there is a file.
func Exists(name string) (bool, error) {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// A Recipient is one for whom keys are encrypted.
type Recipient struct {
	age.Recipient
	Text string // public key, a line; of SSH with its comment
}

// IsSame reports whether another has the same public key, whatever its comment.
func (r Recipient) IsSame(other Recipient) bool {
	key := func(r Recipient) []string {
		fields := strings.Fields(r.Text)
		return fields[:min(2, len(fields))]
	}
	return slices.Equal(key(r), key(other))
}

// Recipients are those for whom keys are encrypted.
type Recipients []Recipient

// Texts returns the public keys.
func (rs Recipients) Texts() (texts []string) {
	for _, r := range rs {
		texts = append(texts, r.Text)
	}
	return texts
}

// Own returns who an identity is.
func (i *Identity) Own() (Recipients, error) {
	if len(i.own) == 0 {
		return nil, errors.New("it does not say who it is: name the public key with --recipient")
	}
	return i.own, nil
}

// ParseRecipients reads public keys: age1…, or a line of SSH (ssh-ed25519 …, ssh-rsa …).
func ParseRecipients(texts []string) (list Recipients, err error) {
	for _, text := range texts {
		var r age.Recipient
		text = strings.TrimSpace(text)
		if strings.ContainsFunc(text, unicode.IsControl) { // two keys, of which SSH would take the first
			err = errors.New("it is not one line")
		} else if strings.HasPrefix(text, "ssh-") {
			r, err = agessh.ParseRecipient(text)
		} else {
			r, err = age.ParseX25519Recipient(text)
		}
		if err != nil {
			return nil, fmt.Errorf("recipient %q: want age1…, or a public key of SSH", text)
		}
		list = append(list, Recipient{r, text})
	}
	return list, nil
}

// Wrap encrypts keys for all recipients, as an age file.
func (rs Recipients) Wrap(keys []byte) ([]byte, error) {
	var b bytes.Buffer
	var to []age.Recipient
	for _, r := range rs {
		to = append(to, r.Recipient)
	}
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(keys)
	err = errors.Join(err, w.Close()) // which writes the rest
	return b.Bytes(), err
}

// ErrNotFor: what is wrapped is for others.
var ErrNotFor = errors.New("it is not encrypted for this identity")

// Opens reports whether the identity opens what is encrypted for those.
func (i *Identity) Opens(rs ...Recipient) (bool, error) {
	wrapped, err := Recipients(rs).Wrap([]byte("x"))
	if err == nil {
		_, err = i.Unwrap(wrapped)
	}
	if errors.Is(err, ErrNotFor) {
		return false, nil
	}
	return err == nil, err
}

// Unwrap decrypts what Wrap has encrypted.
func (i *Identity) Unwrap(wrapped []byte) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(wrapped), i.list...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, ErrNotFor
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
