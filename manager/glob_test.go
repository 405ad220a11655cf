package manager

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

// matchPlainly is what a glob means, written so that it may take for ever.
func matchPlainly(pattern, names []string) bool {
	if len(pattern) == 0 {
		return true
	}
	if pattern[0] == "**" {
		return matchPlainly(pattern[1:], names) || len(names) > 0 && matchPlainly(pattern, names[1:])
	}
	if len(names) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], names[0])
	return err == nil && ok && matchPlainly(pattern[1:], names[1:])
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*.go", []string{"a.go", "a.go/below"}, []string{"d/a.go", "a.c"}},
		{"**/*.go", []string{"a.go", "d/a.go", "d/e/a.go"}, []string{"a.c", "d"}},
		{"d/**", []string{"d", "d/a", "d/e/f"}, []string{"e", "e/d"}},
		{"a/**/b/**/c", []string{"a/b/c", "a/b/b/c", "a/x/b/y/z/c", "a/b/c/d"}, []string{"a/c/b", "a/b"}},
		{"?/[äö]", []string{"é/ä"}, []string{"ab/ä", "é/u"}},
	} {
		g, err := newGlob(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.yes {
			if !g.match(p) {
				t.Errorf("%s does not match %s", c.pattern, p)
			}
		}
		for _, p := range c.no {
			if g.match(p) {
				t.Errorf("%s matches %s", c.pattern, p)
			}
		}
	}
	if _, err := newGlob("a/[b"); err == nil {
		t.Error("[ without ] is a glob")
	}
}

// TestGlobHostile has a pattern that would take for ever if each ** tried what it
// can stand for.
func TestGlobHostile(t *testing.T) {
	name := strings.Repeat("d/", 2000) + "f"
	for _, pattern := range []string{strings.Repeat("**/", 500) + "zzz", strings.Repeat("**/d/", 1000) + "zzz",
		strings.Repeat("**/", 1<<20) + "zzz"} {
		g, err := newGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if g.match(name) {
			t.Error("it matches")
		}
	}
}

func TestGlobRandom(t *testing.T) {
	testseed.Sequential(t)
	rng := testseed.Rand(t)
	pick := func(from []string, n int) string {
		var list []string
		for range 1 + rng.IntN(n) {
			list = append(list, from[rng.IntN(len(from))])
		}
		return strings.Join(list, "/")
	}
	yes := 0
	for range 200_000 {
		pattern := pick([]string{"**", "**", "a", "b", "*", "a*", "?"}, 6)
		name := pick([]string{"a", "b", "ab"}, 6)
		g, err := newGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		want := matchPlainly(strings.Split(pattern, "/"), strings.Split(name, "/"))
		if got := g.match(name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
		if want {
			yes++
		}
	}
	if yes < 20_000 {
		t.Errorf("only %d match", yes)
	}
}

// A glob for which there is no path is an error, as a path that there is not; one
// whose paths are as they were is not.
func TestGlobOfNothing(t *testing.T) {
	b := newBench(t)
	b.write("a.go", "1")
	b.write(".booignore", "/out\n")
	b.write("out/f", "1")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("b.c", "1") })
	for pattern, want := range map[string]error{"*.nope": ErrUnknown, "**/x/*": ErrUnknown, "*.go": nil, "**": nil,
		".": nil, "out": nil} {
		for _, exact := range []bool{false, true} {
			_, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@", Paths: []string{pattern}, Exact: exact})
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
}
