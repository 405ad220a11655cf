package lines

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/remote"
)

// What a key is derived for (docs/reference/format-remote.md §4).
const (
	contextNames = "github.com/boocode/filestore 2026-11-25 remote names v1"
	contextPack  = "github.com/boocode/filestore 2026-11-25 remote pack v1"
	contextEntry = "github.com/boocode/filestore 2026-11-25 remote entry v1"
	contextSeal  = "github.com/boocode/filestore 2026-11-25 remote seal v1"
)

type key [32]byte

// derive returns the key of a purpose.
func (k key) derive(context string) (d key) {
	blake3.DeriveKey(context, k[:], d[:])
	return d
}

// hash returns the keyed hash of the parts, which the caller has made such that they cannot
// be divided in another way.
func (k key) hash(parts ...[]byte) (sum [32]byte) {
	h, err := blake3.NewKeyed(k[:])
	if err != nil {
		panic("lines: internal error: " + err.Error())
	}
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}

// aead returns what seals with a key, of which each nonce is used for one text.
func (k key) aead() cipher.AEAD {
	b, err := aes.NewCipher(k[:])
	if err == nil {
		var a cipher.AEAD
		if a, err = cipher.NewGCM(b); err == nil {
			return a
		}
	}
	panic("lines: internal error: " + err.Error())
}

// keyring has the key of each epoch; that of epoch n is at n-1.
type keyring []key

const keyringTitle = "boo-remote-keys 1\n"

// text returns the keys as they are wrapped, and for whom.
func (ks keyring) text(readers ...string) []byte {
	b := []byte(keyringTitle)
	for i, k := range ks {
		b = fmt.Appendf(b, "%d %x\n", i+1, k)
	}
	for _, r := range readers {
		b = fmt.Appendf(b, "%s %s\n", keyringFor, r)
	}
	return b
}

const keyringFor = "for"

func parseKeyring(b []byte) (ks keyring, readers []string, err error) {
	bad := errors.New("it is no key of a remote")
	rest, ok := strings.CutPrefix(string(b), keyringTitle)
	if !ok {
		return nil, nil, bad
	}
	for line := range strings.Lines(rest) {
		n, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n == keyringFor && isReader(text) {
			readers = append(readers, text)
			continue
		}
		raw, herr := hex.DecodeString(text)
		if n != strconv.Itoa(len(ks)+1) || herr != nil || len(raw) != len(key{}) {
			return nil, nil, bad
		}
		ks = append(ks, key(raw))
	}
	if len(ks) == 0 || !bytes.Equal(ks.text(readers...), b) {
		return nil, nil, bad
	}
	return ks, readers, nil
}

// isReader reports whether a text can stand for a reader in a keyring.
func isReader(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// A Circle is for whom the keys of a remote are encrypted.
type Circle struct {
	Readers []string // their public keys, each a line of text, which are noted beside the keys
	Wrap    func([]byte) ([]byte, error)
}

// wrap encrypts keys for all of the circle.
func (c *Circle) wrap(ks keyring) ([]byte, error) {
	for _, r := range c.Readers {
		if !isReader(r) {
			return nil, fmt.Errorf("reader %q: it is no line of text", r)
		}
	}
	return c.Wrap(ks.text(c.Readers...))
}

// errEpoch: something is sealed with a key that the keyring has not.
var errEpoch = errors.New("there is no key of its epoch")

// of returns the key of an epoch.
func (ks keyring) of(epoch uint32) (key, error) {
	if epoch == 0 || int(epoch) > len(ks) {
		return key{}, fmt.Errorf("epoch %d: %w", epoch, errEpoch)
	}
	return ks[epoch-1], nil
}

// format is the object FORMAT.
type format struct {
	Format   int      `json:"format"`
	ID       string   `json:"id"`
	Features features `json:"features"`
	Keys     []byte   `json:"keys,omitempty"`      // the keyring in an age file
	Plain    string   `json:"plainKeys,omitempty"` // the keyring, for all who can read
	Created  string   `json:"created"`
}

type features struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
	Prune []string `json:"prune"`
}

const (
	formatName    = "FORMAT"
	formatVersion = 1
)

var (
	// ErrNone: there is no remote there.
	ErrNone = errors.New("no remote is there")
	// ErrThere: there is a remote already.
	ErrThere = errors.New("a remote is there already")
	// ErrNoKey: the remote is encrypted, and not for any identity that was given.
	ErrNoKey = errors.New("no identity opens it")
	// ErrNewer: the remote is of a newer format.
	ErrNewer = errors.New("made by a newer version")
)

// Init makes a remote where there is none. Its keys are for a circle; nil has them lie there for
// all who can read it.
func Init(ctx context.Context, b remote.Backend, c *Circle) (*Repo, error) {
	var k key
	var id [16]byte
	rand.Read(k[:]) // never fails (crypto/rand)
	rand.Read(id[:])
	f := &format{Format: formatVersion, ID: hex.EncodeToString(id[:]), Created: time.Now().UTC().Format(time.RFC3339),
		Features: features{Read: []string{}, Write: []string{}, Prune: []string{}}}
	if c == nil {
		f.Plain = string(keyring{k}.text())
	} else {
		var err error
		if f.Keys, err = c.wrap(keyring{k}); err != nil {
			return nil, err
		}
	}
	doc, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	err = b.Create(ctx, formatName, append(doc, '\n'))
	if errors.Is(err, remote.ErrExists) {
		return nil, ErrThere
	}
	if err != nil {
		return nil, err
	}
	r := newRepo(b, f, keyring{k}, nil)
	r.isFresh = true // nobody has pruned it
	return r, nil
}

// Open opens a remote. unwrap decrypts its keys; it is not called if they lie there for all.
//
// The error matches [ErrNone], [ErrNewer], or what unwrap says.
func Open(ctx context.Context, b remote.Backend, unwrap func([]byte) ([]byte, error)) (*Repo, error) {
	doc, err := b.Get(ctx, formatName, 0, -1)
	if errors.Is(err, remote.ErrNoKey) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	f, err := parseFormat(doc)
	if err != nil {
		return nil, err
	}
	r := newRepo(b, f, nil, unwrap)
	r.hold(formatName, doc)
	return r, r.readKeys(ctx)
}

// IsSame reports whether what is at a place is the remote that once had a FORMAT, though its own may be damaged
// or gone. One that is sound, and has another identity and other keys, is another.
func IsSame(ctx context.Context, b remote.Backend, was []byte) (bool, error) {
	old, err := parseFormat(was)
	if err != nil {
		return false, nil
	}
	doc, err := b.Get(ctx, formatName, 0, -1)
	if errors.Is(err, remote.ErrNoKey) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	f, err := parseFormat(doc)
	if err != nil { // also one that says that it is of a newer version
		return true, nil
	}
	return f.ID == old.ID || bytes.Equal(f.Keys, old.Keys) && f.Plain == old.Plain, nil
}

// IsStill reports whether what is at its place is the remote that was opened, and not none or another.
func (r *Repo) IsStill(ctx context.Context) (bool, error) {
	doc, err := r.b.Get(ctx, formatName, 0, -1)
	if errors.Is(err, remote.ErrNoKey) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := parseFormat(doc)
	return err == nil && f.ID == r.ID(), nil
}

// readKeys reads the newest keyring, which has the keys of all epochs.
func (r *Repo) readKeys(ctx context.Context) error {
	wrapped, at, last := r.format.Keys, formatName, uint64(0)
	for item, err := range r.b.List(ctx, "keys/", "") {
		if err != nil {
			return err
		}
		if at = item.Key; at != keysName(last+1) {
			return damaged(keysName(last+1), errors.New("it is missing, or another is there"))
		}
		last++
	}
	var err error
	if last > 0 {
		if wrapped, err = r.b.Get(ctx, at, 0, -1); err != nil {
			return err
		}
		r.hold(at, wrapped)
	}
	text := []byte(r.format.Plain)
	if r.format.Plain == "" {
		if text, err = r.unwrap(wrapped); err != nil {
			return err
		}
	}
	ks, readers, err := parseKeyring(text)
	if err != nil {
		return damaged(at, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(ks) >= len(r.keys) {
		r.keys, r.readers, r.keysAt, r.names = ks, readers, last, ks[0].derive(contextNames)
	}
	return nil
}

// Readers returns for whom the keys are now, and how many epochs they have. Of a remote that an earlier program
// has made it is not noted for whom: then there is none.
func (r *Repo) Readers(ctx context.Context) (readers []string, epochs int, err error) {
	err = r.readKeys(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.readers), len(r.keys), err
}

func keysName(n uint64) string { return fmt.Sprintf("keys/%08d", n) }

// Rotate has all who write from now on use a new key, which is for those whom to returns, when it is given those
// who can read now. Who is not among them can read what was there before, and nothing that comes. It returns the
// epoch of the key.
func (r *Repo) Rotate(ctx context.Context, by [16]byte, to func([]string) (*Circle, error)) (epoch int, err error) {
	var k key
	rand.Read(k[:]) // never fails (crypto/rand)
	ks, err := r.rekey(ctx, to, k)
	if err != nil {
		return 0, err
	}
	// Whoever writes hears of it: sealed with the key that all have.
	for {
		l, _, err := r.Refresh(ctx)
		if err == nil {
			_, err = r.putLedger(ctx, l, &ledgerObject{kind: kindKeys, by: by})
		}
		if errors.Is(err, ErrRival) {
			continue
		}
		return len(ks), errors.Join(err, r.readKeys(ctx))
	}
}

// Admit has those read the remote whom to returns, when it is given those who can read now: what is there, and
// what comes. Who writes need not hear of it.
func (r *Repo) Admit(ctx context.Context, to func([]string) (*Circle, error)) error {
	if _, err := r.rekey(ctx, to); err != nil {
		return err
	}
	return r.readKeys(ctx)
}

// rekey puts a keyring with those keys that there are, and more, for those whom to returns. If somebody else does
// so at the same time it begins again, so that nobody is left out whom they have let in.
func (r *Repo) rekey(ctx context.Context, to func([]string) (*Circle, error), more ...key) (keyring, error) {
	if r.IsPlain() {
		return nil, errors.New("the remote is not encrypted")
	}
	for {
		if err := r.readKeys(ctx); err != nil {
			return nil, err
		}
		r.mu.Lock()
		ks, readers, n := append(slices.Clone(r.keys), more...), slices.Clone(r.readers), r.keysAt+1
		r.mu.Unlock()
		c, err := to(readers)
		if err != nil {
			return nil, err
		}
		wrapped, err := c.wrap(ks)
		if err == nil {
			err = r.create(ctx, keysName(n), wrapped)
		}
		if !errors.Is(err, ErrRival) {
			return ks, err
		}
	}
}

func parseFormat(doc []byte) (*format, error) {
	var f format
	if err := json.Unmarshal(doc, &f); err != nil {
		return nil, damaged(formatName, err)
	}
	id, err := hex.DecodeString(f.ID)
	switch {
	case f.Format > formatVersion:
		return nil, fmt.Errorf("%w: format %d", ErrNewer, f.Format)
	case f.Format != formatVersion || err != nil || len(id) != 16 || (f.Plain == "") == (len(f.Keys) == 0):
		return nil, damaged(formatName, errors.New("it is not of a remote"))
	case len(f.Features.Read) > 0:
		return nil, fmt.Errorf("%w: feature %q", ErrNewer, f.Features.Read[0])
	}
	return &f, nil
}

// mayWrite returns an error if the remote has a feature that a writer must know.
func (f *format) mayWrite() error {
	if i := slices.IndexFunc(f.Features.Write, func(string) bool { return true }); i >= 0 {
		return fmt.Errorf("%w: feature %q", ErrNewer, f.Features.Write[i])
	}
	return nil
}

// A DamageError says which object of a remote is not what was put there.
type DamageError struct {
	Key string
	Err error
}

func damaged(key string, err error) error { return &DamageError{key, err} }

func (e *DamageError) Error() string { return "damaged: " + e.Key + ": " + e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *DamageError) Unwrap() error { return e.Err }
