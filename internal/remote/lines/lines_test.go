package lines

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

// flip stands for the encryption of keys, which is not ours.
func flip(b []byte) ([]byte, error) {
	b = bytes.Clone(b)
	for i := range b {
		b[i] ^= 0x55
	}
	return b, nil
}

func initRepo(t *testing.T) (*Repo, *remotetest.Mem) {
	t.Helper()
	mem := remotetest.NewMem()
	r, err := Init(t.Context(), remote.NewSure(mem, 0), &Circle{Wrap: flip})
	if err != nil {
		t.Fatal(err)
	}
	return r, mem
}

var (
	lineA = Line{0xa0, 15: 1}
	lineB = Line{0xb0, 15: 2}
)

func opening(base *Position) *Entry {
	o := &Opening{Base: base, Session: "secret-session", Store: [16]byte{1, 2}, Worktree: "secret-tree",
		Root: "/home/secret-user/x", Leans: &Leaning{"secret-other", Position{lineB, 5, [32]byte{6}}}}
	return &Entry{Opening: o, Records: []Record{{7, []byte("secret-record")}, {9, []byte{}}},
		Names: []Name{{3, lineB, 4}, {5, lineB, 6}}, Lost: [][32]byte{{9}}, Objects: []byte("secret-object")}
}

func partsOf(list ...Part) *Parts {
	p := new(Parts)
	for i := range list {
		p.Add(&list[i])
	}
	return p
}

// TestParts puts three packs out of the memory of the first, the second longer and the third shorter than it.
func TestParts(t *testing.T) {
	r, _ := initRepo(t)
	parts := NewParts(100)
	for i, n := range []int{3, 400, 1} {
		var want []string
		for j := range n {
			text := strings.Repeat(fmt.Sprint(i, j), 1+j%7)
			parts.Add(&Part{[]byte(text), 1, []ID{{1, [32]byte{byte(i), byte(j), byte(j >> 8)}}}})
			want = append(want, text)
		}
		if got := strings.Join(want, ""); parts.Size() != len(got) {
			t.Errorf("pack %d: %d bytes, want %d", i, parts.Size(), len(got))
		}
		ref, err := r.PutPack(t.Context(), 0, lineA, parts)
		if err != nil {
			t.Fatal(err)
		}
		if left := slices.Collect(parts.All()); len(left) > 0 || parts.Size() != 0 {
			t.Errorf("pack %d: %q are left, %d bytes", i, left, parts.Size())
		}
		list, err := r.Index(t.Context(), &ref)
		if err != nil || len(list) != n || list[n-1].IDs[0].ID != [32]byte{byte(i), byte(n - 1), byte((n - 1) >> 8)} {
			t.Errorf("pack %d: index %v, %v", i, list, err)
		}
		var got []string
		err = r.ReadPack(t.Context(), &ref, func(b []byte) error {
			got = append(got, string(b))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("pack %d: records %q, %v, want %q", i, got, err, want)
		}
	}
}

// fill makes a small remote: two lines, of which the second goes on from the first, and packs.
func fill(t *testing.T, r *Repo) (tip Position, ref PackRef) {
	t.Helper()
	ctx := t.Context()
	first, err := r.Append(ctx, "secret-session", lineA, 0, [32]byte{}, opening(nil))
	if err != nil {
		t.Fatal(err)
	}
	ref, err = r.PutPack(ctx, 0, lineA, partsOf(Part{[]byte("secret-blob"), 1, []ID{{1, [32]byte{1}}}},
		Part{[]byte("secret-group-of-two"), 5, []ID{{1, [32]byte{2}}, {3, [32]byte{3}}}}))
	if err != nil {
		t.Fatal(err)
	}
	second := &Entry{Records: []Record{{11, []byte("secret-turn")}}, Packs: []PackRef{ref}}
	tip, err = r.Append(ctx, "secret-session", lineA, 1, first.Hash, second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.Append(ctx, "secret-session", lineB, 0, [32]byte{}, opening(&first)); err != nil {
		t.Fatal(err)
	}
	return tip, ref
}

// readAll reads all that fill has put.
func readAll(t *testing.T, b remote.Backend, ref *PackRef) error {
	ctx := t.Context()
	r, err := Open(ctx, b, flip)
	if err != nil {
		return err
	}
	tips, err := r.Tips(ctx, "", true)
	if err != nil {
		return err
	}
	dir := r.DirOf("secret-session")
	if want := []Tip{{dir, lineA, 1}, {dir, lineB, 0}}; !slices.Equal(tips, want) {
		return fmt.Errorf("tips %v, want %v", tips, want)
	}
	var entries []*Entry
	for _, tip := range tips {
		var last Position
		for n := uint64(0); n <= tip.Last; n++ {
			e, at, prev, err := r.Entry(ctx, tip.Dir, Position{Line: tip.Line, Entry: n})
			if err != nil {
				return err
			}
			if prev != last.Hash {
				return errors.New("the chain is broken")
			}
			last, entries = at, append(entries, e)
		}
	}
	if d := cmp.Diff(opening(nil), entries[0]); d != "" {
		return errors.New("the first entry is another: " + d)
	}
	if base := entries[2].Opening.Base; base.Line != lineA || base.Entry != 0 {
		return fmt.Errorf("base %v", base)
	}
	var got []string
	err = r.ReadPack(ctx, ref, func(b []byte) error {
		got = append(got, string(b))
		return nil
	})
	if want := []string{"secret-blob", "secret-group-of-two"}; err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("records %q", got)
	}
	return err
}

func TestReadBack(t *testing.T) {
	r, mem := initRepo(t)
	_, ref := fill(t, r)
	if err := readAll(t, mem, &ref); err != nil {
		t.Fatal(err)
	}
	// Done again, nothing changes: nothing in them is random.
	before := mem.Objects()
	fill(t, r)
	if d := cmp.Diff(before, mem.Objects()); d != "" {
		t.Errorf("the same entries and packs are others the second time: %s", d)
	}
	if _, err := Init(t.Context(), mem, &Circle{Wrap: flip}); !errors.Is(err, ErrThere) {
		t.Errorf("Init where a remote is: %v", err)
	}
	if _, err := Open(t.Context(), remotetest.NewMem(), flip); !errors.Is(err, ErrNone) {
		t.Errorf("Open of nothing: %v", err)
	}
}

// TestTamper flips each bit of each byte of each object, and cuts each at each length.
func TestTamper(t *testing.T) {
	r, mem := initRepo(t)
	_, ref := fill(t, r)
	objects := mem.Objects()
	tried := 0
	try := func(key string, b []byte) {
		tried++
		other := remotetest.NewMem()
		for k, v := range objects {
			if k == key {
				v = b
			}
			other.Create(t.Context(), k, v)
		}
		err := readAll(t, other, &ref)
		if err == nil {
			t.Errorf("%s: nobody notices that it is\n%q, not\n%q", key, b, objects[key])
			return
		}
		d, ok := errors.AsType[*DamageError](err)
		if key != formatName && (!ok || d.Key != key || errors.Is(err, ErrNewer)) {
			t.Errorf("%s was changed: %v", key, err)
		}
	}
	for key, b := range objects {
		for i := range b {
			c := bytes.Clone(b)
			c[i] ^= 1 << (i % 8)
			if key == formatName && !matters(b, i) {
				continue
			}
			try(key, c)
			if i%7 == 0 && key != formatName {
				try(key, b[:i])
			}
		}
		if key != formatName {
			try(key, append(bytes.Clone(b), 0))
		}
	}
	t.Logf("%d changes", tried)
}

// matters reports whether a byte of FORMAT is in its keys: of its identity and its date nothing
// depends on, nor on the spaces between.
func matters(doc []byte, i int) bool {
	at := bytes.Index(doc, []byte(`"keys": "`)) + len(`"keys": "`)
	end := at + bytes.IndexByte(doc[at:], '"')
	return i >= at && i < end-1
}

// TestMoved shows that no entry can be taken for another, nor be left out.
func TestMoved(t *testing.T) {
	r, mem := initRepo(t)
	_, ref := fill(t, r)
	objects := mem.Objects()
	var keys []string
	for k := range objects {
		if k != formatName {
			keys = append(keys, k)
		}
	}
	for _, from := range keys {
		for _, to := range append(slices.Clone(keys), "") {
			if from == to {
				continue
			}
			other := remotetest.NewMem()
			for k, v := range objects {
				switch {
				case k == to:
					other.Create(t.Context(), k, objects[from])
				case k != from || to != "":
					other.Create(t.Context(), k, v)
				}
			}
			if err := readAll(t, other, &ref); err == nil {
				t.Errorf("nobody notices that %s is at %q", from, to)
			}
		}
	}
}

// TestSecrets looks for what was put, in keys and objects.
func TestSecrets(t *testing.T) {
	r, mem := initRepo(t)
	fill(t, r)
	for k, v := range mem.Objects() {
		for _, text := range []string{k, string(v)} {
			if strings.Contains(text, "secret") {
				t.Errorf("%s says %q", k, text)
			}
		}
	}
	plain := remotetest.NewMem()
	p, err := Init(t.Context(), plain, nil)
	if err != nil || !p.IsPlain() || r.IsPlain() {
		t.Fatal(err)
	}
	_, ref := fill(t, p)
	if err := readAll(t, plain, &ref); err != nil {
		t.Errorf("a plain one is read without a key: %v", err)
	}
}

func TestRival(t *testing.T) {
	r, mem := initRepo(t)
	tip, _ := fill(t, r)
	_, err := r.Append(t.Context(), "secret-session", lineA, 1, [32]byte{1}, &Entry{})
	if !errors.Is(err, ErrRival) {
		t.Errorf("Append where another entry is: %v", err)
	}
	if _, _, _, err := r.Entry(t.Context(), r.DirOf("secret-session"), Position{lineA, 1, [32]byte{1}}); err == nil {
		t.Error("an entry with another hash was read")
	}
	other, err := Open(t.Context(), mem, flip)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Announce(t.Context(), other.Ledger(), nil, nil, [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append(t.Context(), "secret-session", lineA, 2, tip.Hash, &Entry{}); !errors.Is(err, ErrOvertaken) {
		t.Errorf("Append beside a prune: %v", err)
	}
}

// openFor opens what a circle of TestReaders has wrapped, as one of its readers.
func openFor(reader string) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		names, text, _ := bytes.Cut(b, []byte("|"))
		if !slices.Contains(strings.Split(string(names), ","), reader) {
			return nil, ErrNoKey
		}
		return text, nil
	}
}

func circle(readers ...string) *Circle {
	return &Circle{readers, func(b []byte) ([]byte, error) {
		return append([]byte(strings.Join(readers, ",")+"|"), b...), nil
	}}
}

// TestReaders lets readers in, two at the same time, and has one leave, who reads what was there before, and
// nothing that comes.
func TestReaders(t *testing.T) {
	mem := remotetest.NewMem()
	if _, err := Init(t.Context(), mem, circle("a")); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), mem, openFor("a"))
	if err != nil {
		t.Fatal(err)
	}
	tip, err := a.Append(t.Context(), "s", lineA, 0, [32]byte{}, &Entry{Opening: &Opening{Session: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), mem, openFor("b")); !errors.Is(err, ErrNoKey) {
		t.Errorf("Open by one who may not: %v", err)
	}
	isFirst := true
	err = a.Admit(t.Context(), func(now []string) (*Circle, error) {
		if isFirst { // somebody else is let in meanwhile
			isFirst = false
			other, err := Open(t.Context(), mem, openFor("a"))
			if err == nil {
				err = other.Admit(t.Context(), func(now []string) (*Circle, error) {
					return circle(append(now, "c")...), nil
				})
			}
			if err != nil {
				return nil, err
			}
		}
		return circle(append(now, "b")...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), mem, openFor("b"))
	if err != nil {
		t.Fatal(err)
	}
	now, epochs, err := b.Readers(t.Context())
	if d := cmp.Diff([]string{"a", "c", "b"}, now); d != "" || epochs != 1 || err != nil {
		t.Errorf("the readers are others, of %d epochs, %v (-want +got):\n%s", epochs, err, d)
	}
	_, err = a.Rotate(t.Context(), [16]byte{1}, func(now []string) (*Circle, error) {
		return circle(slices.DeleteFunc(now, func(r string) bool { return r == "b" })...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Append(t.Context(), "s", lineA, 1, tip.Hash, &Entry{Generation: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), mem, openFor("b")); !errors.Is(err, ErrNoKey) {
		t.Errorf("Open by one who has left: %v", err)
	}
	for n, wantErr := range []error{nil, ErrNoKey} {
		_, _, _, err := b.Entry(t.Context(), b.DirOf("s"), Position{Line: lineA, Entry: uint64(n)})
		if !errors.Is(err, wantErr) {
			t.Errorf("who has left reads entry %d: %v, want %v", n, err, wantErr)
		}
	}
	if _, err := Open(t.Context(), mem, openFor("c")); err != nil {
		t.Errorf("Open by one who stays: %v", err)
	}
	bad := circle("a\n1 00")
	if err := a.Admit(t.Context(), func([]string) (*Circle, error) { return bad, nil }); err == nil {
		t.Error("a reader of two lines")
	}
}

func TestNewer(t *testing.T) {
	mem := remotetest.NewMem()
	if _, err := Init(t.Context(), mem, nil); err != nil {
		t.Fatal(err)
	}
	doc := string(mem.Objects()[formatName])
	for _, c := range [][2]string{{`"format": 1`, `"format": 2`}, {`"read": []`, `"read": ["x"]`}} {
		mem.Overwrite(t.Context(), formatName, []byte(strings.Replace(doc, c[0], c[1], 1)))
		if _, err := Open(t.Context(), mem, nil); !errors.Is(err, ErrNewer) {
			t.Errorf("Open with %s: %v", c[1], err)
		}
	}
	mem.Overwrite(t.Context(), formatName, []byte(strings.Replace(doc, `"write": []`, `"write": ["x"]`, 1)))
	r, err := Open(t.Context(), mem, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append(t.Context(), "s", lineA, 0, [32]byte{}, opening(nil)); !errors.Is(err, ErrNewer) {
		t.Errorf("Append to one that wants more of writers: %v", err)
	}
}

// TestForgedPackRef refuses an entry whose pack has no room for its index, or none that can be.
func TestForgedPackRef(t *testing.T) {
	for _, c := range []struct {
		size, index uint64
		ok          bool
	}{
		{32, 16, true}, {32, 15, false}, {32, 17, false}, {31, 16, false}, {0, 0, false}, {300, 1 << 63, false},
		{300, 3 << 62, false},
		{300, 1<<64 - 10, false}, {remote.MaxObject, 16, true}, {remote.MaxObject + 1, 16, false},
		{1<<64 - 1, 1<<64 - 17, false},
	} {
		e := &Entry{Packs: []PackRef{{1, lineB, [32]byte{2}, c.size, c.index}}}
		if got, err := parseBody(e.body()); (err == nil) != c.ok {
			t.Errorf("size %d, index %d: %+v, %v", c.size, c.index, got, err)
		}
		line := slices.Concat(lineB[:], make([]byte, 65))
		l := &Ledger{Kept: make(map[Line]*Kept)}
		if err := l.parse(field(field(nil, keptLine, line), keptPack, e.Packs[0].bytes())); (err == nil) != c.ok {
			t.Errorf("size %d, index %d, in a manifest: %v", c.size, c.index, err)
		}
		l = &Ledger{Kept: make(map[Line]*Kept)}
		fold := field(field(nil, keptLine, line), keptFold, make([]byte, 16), e.Packs[0].bytes())
		if err := l.parse(fold); (err == nil) != c.ok {
			t.Errorf("size %d, index %d, of a fold: %v", c.size, c.index, err)
		}
		done := field(field(nil, ledgerKind, []byte{kindDone}), ledgerPack, e.Packs[0].bytes())
		if _, err := parseLedgerObject(field(done, ledgerBy, make([]byte, 16))); (err == nil) != c.ok {
			t.Errorf("size %d, index %d, of an end: %v", c.size, c.index, err)
		}
	}
}

// TestForgedFold refuses folds that do not follow each other, go on behind the end of their line, or have more entries
// than fit in their packs.
func TestForgedFold(t *testing.T) {
	type span struct{ from, to, size uint64 }
	for _, c := range []struct {
		last  uint64
		folds []span
		ok    bool
	}{
		{9, []span{{0, 3, 400}, {4, 9, 600}}, true},
		{9, []span{{0, 3, 400}, {5, 9, 600}}, false},
		{9, []span{{0, 3, 400}, {3, 9, 900}}, false},
		{9, []span{{1, 9, 900}}, false},
		{9, []span{{0, 10, 2000}}, false},
		{9, []span{{0, 3, 400}, {4, 2, 400}}, false},
		{99_999_999, []span{{0, 99_999_999, 1000}}, false},
		{1<<64 - 1, []span{{0, 1<<64 - 1, remote.MaxObject}}, false},
	} {
		b := field(nil, keptLine, lineB[:], make([]byte, 16), number(c.last), make([]byte, 41))
		for _, f := range c.folds {
			ref := PackRef{Size: f.size, Index: packHeaderSize}
			b = field(b, keptFold, number(f.from), number(f.to), ref.bytes())
		}
		l := &Ledger{Kept: make(map[Line]*Kept)}
		if err := l.parse(b); (err == nil) != c.ok {
			t.Errorf("line up to %d, folds %v: %v", c.last, c.folds, err)
		}
	}
}

// FuzzBody shows that a body has one form, and that no bytes make a reader panic.
func FuzzBody(f *testing.F) {
	base := Position{lineA, 3, [32]byte{4}}
	full := opening(&base)
	full.Packs = []PackRef{{1, lineB, [32]byte{2}, 300, 200}}
	for _, e := range []*Entry{{}, full, {Generation: 1 << 60, Records: []Record{{1, []byte("x")}}}} {
		b := e.body()
		f.Add(b)
		for i := range b { // near misses
			c := bytes.Clone(b)
			c[i]++
			f.Add(c)
			f.Add(b[:i])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseBody(b)
		if err != nil {
			return
		}
		again := e.body()
		if !bytes.Equal(again, withoutExtra(b)) {
			t.Errorf("two forms of one entry:\n%x\n%x", b, again)
		}
	})
}

// withoutExtra takes fields of tags from 128 on from the end of a body.
func withoutExtra(b []byte) []byte {
	for off := 0; off < len(b); {
		if b[off] >= 128 {
			return b[:off]
		}
		n, w := uvarint(b[off+1:])
		off += 1 + w + n
	}
	return b
}

func uvarint(b []byte) (n, w int) {
	for shift := 0; ; shift += 7 {
		n |= int(b[w]&0x7f) << shift
		w++
		if b[w-1] < 0x80 {
			return n, w
		}
	}
}

func FuzzIndex(f *testing.F) {
	good := partsOf(Part{[]byte("x"), 1, []ID{{1, [32]byte{1}}}},
		Part{nil, 5, []ID{{1, [32]byte{2}}, {3, [32]byte{3}}}}).list()
	f.Add(good)
	f.Add(good[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseIndex(b)
		if err != nil {
			return
		}
		var parts []Part
		for _, x := range list {
			if x.Length > 1<<20 {
				return
			}
			parts = append(parts, Part{make([]byte, x.Length), x.Kind, x.IDs})
		}
		if again := partsOf(parts...).list(); !bytes.Equal(again, b) {
			t.Errorf("two forms of one index:\n%x\n%x", b, again)
		}
	})
}

func FuzzKeyring(f *testing.F) {
	f.Add(keyring{{1}, {2}}.text())
	f.Add(keyring{{1}}.text("age1x", "ssh-ed25519 AAAA alice"))
	f.Add([]byte(keyringTitle))
	f.Fuzz(func(t *testing.T, b []byte) {
		ks, readers, err := parseKeyring(b)
		if err == nil && !bytes.Equal(ks.text(readers...), b) {
			t.Errorf("two forms of one keyring: %q", b)
		}
	})
}

// FuzzOpen shows that no bytes make one who has the key panic.
func FuzzOpen(f *testing.F) {
	ks := keyring{{1}}
	good := opening(nil).seal(ks, "log/x/y/00000000", [32]byte{})
	sealed, ref := sealPack(ks, 0, lineA, partsOf(Part{[]byte("x"), 1, []ID{{1, [32]byte{1}}}}))
	f.Add(good, bytes.Clone(sealed)) // which is opened in place
	f.Add(good[:90], bytes.Clone(sealed[:40]))
	f.Fuzz(func(t *testing.T, entry, pack []byte) {
		if _, _, err := openEntry(ks, "log/x/y/00000000", entry); err == nil && !bytes.Equal(entry, good) {
			t.Errorf("another entry was opened: %x", entry)
		}
		was := bytes.Clone(pack)
		err := openPack(ks, &ref, pack, func([]byte) error { return nil })
		if err == nil && !bytes.Equal(was, sealed) {
			t.Errorf("another pack was opened: %x", was)
		}
	})
}

// TestNoKeyTwice shows that what is sealed differs in its key if in anything: else one nonce
// would seal two texts.
func TestNoKeyTwice(t *testing.T) {
	ks := keyring{{1}}
	seen := make(map[string]string)
	note := func(hash, what string) {
		if was, ok := seen[hash]; ok {
			t.Errorf("%s has the key of %s", what, was)
		}
		seen[hash] = what
	}
	one := []ID{{1, [32]byte{1}}}
	for what, p := range map[string][]Part{
		"a record":      {{[]byte("ab"), 1, one}},
		"two records":   {{[]byte("a"), 1, one}, {[]byte("b"), 1, one}},
		"another kind":  {{[]byte("ab"), 2, one}},
		"another id":    {{[]byte("ab"), 1, []ID{{1, [32]byte{2}}}}},
		"none":          nil,
		"another bytes": {{[]byte("ac"), 1, one}},
	} {
		for g := range uint64(2) {
			for _, l := range []Line{lineA, lineB} {
				_, ref := sealPack(ks, g, l, partsOf(p...))
				note(string(ref.Hash[:]), fmt.Sprint(what, g, l))
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		for prev := range byte(2) {
			for what, e := range map[string]*Entry{"empty": {}, "new": {Generation: 1}, "full": opening(nil)} {
				b := e.seal(ks, name, [32]byte{prev})
				note(string(b[48:80]), fmt.Sprint(what, name, prev))
			}
		}
	}
	if n := len(slices.Collect(maps.Keys(seen))); n != 24+12 {
		t.Errorf("%d keys", n)
	}
}
