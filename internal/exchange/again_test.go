package exchange

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/store"
)

// noLog is a remote that takes no entries.
type noLog struct{ remote.Backend }

func (b noLog) Create(ctx context.Context, key string, data []byte) error {
	if strings.HasPrefix(key, "log/") {
		return errors.New("cut off")
	}
	return b.Backend.Create(ctx, key, data)
}

// TestNumberAgain: a prune frees numbers of a line, of entries that are in folds now. A copy of the machine that goes
// on where these were does not take one of them, where nobody would read its entry.
func TestNumberAgain(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.turn("s1", "first", func() { a.write("env", "password=1\n"); a.write("f", "one") })
	a.mustPush(mem)
	b := a.copyOf()
	a.turn("s1", "second", func() { a.write("f", "two") })
	a.mustPush(mem)
	a.turn("s1", "third", func() { a.write("f", "three") })
	a.mustPush(mem)
	secret := object.Hash(object.Blob, []byte("password=1\n"))
	if _, err := prune(t, mem, &PruneOptions{Forget: []store.ID{secret}}, nil); err != nil {
		t.Fatal(err)
	}
	b.turn("s1", "of the copy", func() { b.write("f", "four") })
	b.mustPush(mem)
	checkRemote(t, a, mem)
	repo, err := openRepo(t.Context(), mem)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fetch(t.Context(), repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Lines) != 2 {
		t.Errorf("there are %d lines, want that of the copy, too", len(f.Lines))
	}
}

// TestLineAgain: a line that was noted, and had no entry yet, is not begun behind a prune: a copy may have begun it,
// and its entries are being removed, perhaps now.
func TestLineAgain(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.turn("s1", "first", func() { a.write("f", "one") })
	if _, err := a.push(noLog{mem}); err == nil {
		t.Fatal("it was not cut off")
	}
	b := a.copyOf()
	a.mustPush(mem)
	var first string
	for key := range mem.Objects() {
		if strings.HasPrefix(key, "log/") {
			first = key
		}
	}
	if _, err := prune(t, mem, &PruneOptions{Sessions: []string{"s1"}}, nil); err != nil {
		t.Fatal(err)
	}
	if mem.Objects()[first] != nil {
		t.Fatalf("%s was not removed", first)
	}
	b.mustPush(mem)
	if mem.Objects()[first] != nil {
		t.Errorf("%s is there again: who removes it may not be done", first)
	}
	c := newMachine(t)
	c.mustClone(mem, nil)
	sameHistory(t, b, c, "s1")
}
