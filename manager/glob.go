package manager

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A glob matches paths, name by name: each as [path.Match] does, so by characters;
// ** stands for any number of names, also for none. What is below a match matches,
// too. The time for a path grows with its names and its length, however many ** a
// pattern has: somebody else may have made it up.
type glob struct {
	names []string // of the pattern; between two ** there is another
	least int      // names that a path has at least
}

func isGlob(p string) bool { return strings.ContainsAny(p, "*?[\\") }

func newGlob(pattern string) (*glob, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("path %q: %w", pattern, err)
	}
	g := &glob{names: strings.Split(pattern, "/")}
	g.names = slices.CompactFunc(g.names, func(a, b string) bool { return a == "**" && b == "**" })
	for _, name := range g.names {
		if name != "**" {
			g.least++
		}
	}
	return g, nil
}

// match reports whether a path, or a directory that it is in, matches.
func (g *glob) match(name string) bool {
	names := strings.Split(name, "/")
	if g.least > len(names) {
		return false
	}
	// What the newest ** stands for grows by a name where the rest does not match;
	// an older one need not: the first place at which what is between them matches
	// leaves the most for the rest.
	at, n, stars, from := 0, 0, -1, 0
	for at < len(g.names) {
		if g.names[at] == "**" {
			stars, from, at = at, n, at+1
			continue
		}
		if n < len(names) {
			if ok, err := path.Match(g.names[at], names[n]); ok && err == nil {
				at, n = at+1, n+1
				continue
			}
		}
		if stars < 0 || from == len(names) {
			return false
		}
		from++
		at, n = stars+1, from
	}
	return true
}
