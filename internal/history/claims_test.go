package history

import (
	"fmt"
	"slices"
	"testing"
)

func pathList(paths ...string) (list [][]byte) {
	for _, p := range paths {
		list = append(list, []byte(p))
	}
	return list
}

// TestClaims: lists of paths have each once, in the order in which they came, and a path that
// is claimed again may be written by what runs now.
func TestClaims(t *testing.T) {
	turn := &OpenTurn{ToolWindows: true}
	expect := func(what string, got [][]byte, want ...string) {
		t.Helper()
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", pathList(want...)) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	turn.Claim(pathList("b", "a", "b"))
	turn.Claim(pathList("a"))
	turn.Claim(pathList("c"))
	expect("claims", turn.Claims, "b", "a", "c")
	turn.EndTools()
	expect("claims now", turn.ClaimsNow())
	turn.Claim(pathList("a", "d"))
	expect("claims", turn.Claims, "b", "a", "c", "d")
	expect("claims that were", turn.Past, "b", "c")
	expect("claims now", turn.ClaimsNow(), "a", "d")
}

// TestManyClaims: what many claims at once cost is as much as they are, not its square, with
// which these take minutes.
func TestManyClaims(t *testing.T) {
	var paths []string
	for i := range 100_000 {
		paths = append(paths, fmt.Sprint("generated/", i))
	}
	turn := &OpenTurn{ToolWindows: true}
	turn.Claim(pathList(paths...))
	turn.EndTools()
	turn.Claim(pathList(paths[1:]...))
	if now := turn.ClaimsNow(); len(now) != len(paths)-1 || !slices.Equal(now[0], []byte(paths[1])) {
		t.Errorf("%d claims now", len(now))
	}
}
