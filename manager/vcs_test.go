package manager

import (
	"errors"
	"testing"
)

// A file that has the name of a version control system's directory is a file like
// others: it is captured, restored by name and edited.
func TestFileNamedVCS(t *testing.T) {
	b := newBench(t)
	b.write(".hg", "one")
	b.write(".jj/inside", "x")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write(".hg", "two") })
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{".hg"}})
	want := files{".hg": "one", ".jj/inside": "x"}
	b.expectFiles(want)
	b.edit(m, &EditRequest{Path: ".hg", Old: []byte("one"), New: []byte("three")})
	want[".hg"] = "three"
	b.expectFiles(want)
	for _, p := range []string{".jj", ".jj/inside", "d/.hg/x", "d/.git"} {
		if _, err := m.RestoreFiles(t.Context(),
			&RestoreOptions{Target: "start", Paths: []string{p}}); !errors.Is(err, ErrOutside) {
			t.Errorf("%s: %v", p, err)
		}
	}
	b.expectFiles(want)
}
