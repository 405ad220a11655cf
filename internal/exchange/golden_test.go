package exchange

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/store"
)

var update = flag.Bool("update", false, "write testdata anew where it is missing")

// A remoteOfBefore is what is known of a remote that is kept.
type remoteOfBefore struct {
	Files    map[string]string   // of the session that was pushed last
	Sessions map[string][]string // what the timeline says of each turn, newest first
}

// TestRemoteOfBefore: a remote that a program before this one has made is read for ever, and goes
// on: entries, packs, a line with a base and one that leans on another, folds, and what a prune has
// kept. It is made with -update where it is missing, and never changes.
func TestRemoteOfBefore(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "format", "remote", "v1")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && *update {
		makeRemoteOfBefore(t, dir)
	}
	b, err := os.ReadFile(dir + ".json")
	var want remoteOfBefore
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	mem := remotetest.NewMem()
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(key string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			if data, err = fs.ReadFile(files, key); err == nil {
				err = mem.Create(t.Context(), key, data)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	m.mustClone(mem, nil)
	checkRemote(t, m, mem)
	if d := cmp.Diff(&want, m.known(want.sessions()...)); d != "" {
		t.Errorf("a clone is something else (-want +got):\n%s", d)
	}

	m.turn("s1", "today", func() { m.write("today", "x\n") })
	m.mustPush(mem)
	if _, err := prune(t, mem, &PruneOptions{Sessions: []string{"s2"}}, nil); err != nil {
		t.Fatal(err)
	}
	other := newMachine(t)
	other.mustClone(mem, nil)
	sameHistory(t, m, other, "s1")
	checkRemote(t, other, mem)
}

func (r *remoteOfBefore) sessions() (names []string) {
	for name := range r.Sessions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// known returns what a machine has.
func (m *machine) known(sessions ...string) *remoteOfBefore {
	r := &remoteOfBefore{Files: m.files(), Sessions: make(map[string][]string)}
	for _, s := range sessions {
		for _, x := range m.timeline(s) {
			line, err := json.Marshal(x)
			if err != nil {
				m.t.Fatal(err)
			}
			r.Sessions[s] = append(r.Sessions[s], string(line))
		}
	}
	return r
}

func makeRemoteOfBefore(t *testing.T, dir string) {
	t.Helper()
	setSizes(t, 4<<10, 16<<10)
	a, b, mem := newMachine(t), newMachine(t), remotetest.NewMem()
	text := func(line string, n int) string { return strings.Repeat(line+" and what is around it\n", n) }
	a.write("kept", text("kept", 10))
	a.turn("s1", "first", func() { a.write("f", "one\n"); a.write("env", "password=1\n") })
	a.mustPush(mem)
	a.turn("s2", "leans on s1", func() { a.write("g", "two\n") })
	a.mustPush(mem)
	b.mustClone(mem, nil)
	b.turn("s1", "elsewhere", func() {
		for i := range 40 { // more than an entry holds
			b.write("many/f"+strings.Repeat("x", i), object.Hash(object.Blob, []byte{byte(i)}).String()+"\n"+
				noise(rand.New(rand.NewPCG(uint64(i), 1)), 400))
		}
	})
	b.mustPush(mem)
	a.turn("s1", "goes on, too", func() { a.write("f", "three\n") })
	a.mustPush(mem)
	secret := object.Hash(object.Blob, []byte("password=1\n"))
	if _, err := prune(t, mem, &PruneOptions{Forget: []store.ID{secret}}, nil); err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "behind a prune", func() { a.write("f", "four\n") })
	a.mustPush(mem)

	for key, data := range mem.Objects() {
		name := filepath.Join(dir, filepath.FromSlash(key))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, data, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	m := newMachine(t)
	m.mustClone(mem, nil)
	doc, err := json.MarshalIndent(m.known("s1", "s2"), "", "  ")
	if err == nil {
		err = os.WriteFile(dir+".json", append(doc, '\n'), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
