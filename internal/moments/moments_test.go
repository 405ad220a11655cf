package moments

import (
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
)

// who is a turn of a session that has claimed paths, and knows of what others have.
func who(session, claims, foreign string) *Who {
	set := func(paths string) windows.PathSet {
		s := make(windows.PathSet)
		for _, p := range strings.Fields(paths) {
			s[p] = true
		}
		return s
	}
	return &Who{Session: session, claims: set(claims), foreign: set(foreign)}
}

func sessions(list []*Who) string {
	var names []string
	for _, w := range list {
		names = append(names, w.Session)
	}
	return strings.Join(names, " ")
}

// TestAt: whose change of a path a moment is.
func TestAt(t *testing.T) {
	a, b := who("a", "mine both", "yours both"), who("b", "yours both", "mine both")
	c, d := who("c", "", "mine yours both"), who("d", "mine", "") // d and a have not heard of each other
	for _, tt := range []struct {
		kind    Kind
		who     []*Who
		path    string
		want    Kind
		of      string // sessions
		claimed bool
	}{
		{Turn, []*Who{a}, "x", Turn, "a", false},
		{Turn, []*Who{a}, "mine/below", Turn, "a", true},
		{Turn, []*Who{a}, "yours", Turn, "a", false}, // nobody else was at work
		{Contested, []*Who{a, b}, "x", Contested, "a b", false},
		{Contested, []*Who{a, b}, "mine", Turn, "a", true},
		{Contested, []*Who{a, b}, "yours", Turn, "b", true},
		{Contested, []*Who{a, b}, "both", Contested, "a b", false},
		{Contested, []*Who{a, b, c}, "both", Contested, "a b", false},
		{Contested, []*Who{a, d}, "mine", Contested, "a d", false},
		{Contested, []*Who{c}, "mine", Contested, "c", false}, // whoever claimed it was not at work
		{User, nil, "mine", User, "", false},
		{Restore, nil, "x", Restore, "", false},
		{Unknown, nil, "x", Unknown, "", false},
	} {
		got := (&Moment{Kind: tt.kind, Who: tt.who}).At(tt.path)
		if got.Kind != tt.want || sessions(got.Who) != tt.of || got.Claimed != tt.claimed {
			t.Errorf("%s of %s at %s: %s of %q, claimed %v; want %s of %q, %v", tt.kind, sessions(tt.who), tt.path,
				got.Kind, sessions(got.Who), got.Claimed, tt.want, tt.of, tt.claimed)
		}
	}
}

// TestNow: whose what is changed by now is, by the turns that are open; -a is one between two tools.
func TestNow(t *testing.T) {
	newest := &history.Record{Snapshot: &store.Snapshot{Seq: 7, Tree: store.ID{1}}}
	for open, want := range map[string]Kind{
		"":                      User,
		"a":                     Turn,
		"a b":                   Contested,
		history.Nobody:          Unknown,
		history.Nobody + " a":   Contested,
		history.Nobody + " a b": Contested,
		"-a":                    User,
		"-a b":                  Turn,
	} {
		var turns []*history.OpenTurn
		for _, session := range strings.Fields(open) {
			name, isBetween := strings.CutPrefix(session, "-")
			turns = append(turns, &history.OpenTurn{Session: name, ToolWindows: isBetween})
		}
		m := Now(newest, turns)
		names := slices.DeleteFunc(strings.Fields(open), func(s string) bool {
			return s == history.Nobody || strings.HasPrefix(s, "-")
		})
		if m.Kind != want || sessions(m.Who) != strings.Join(names, " ") || m.From != newest.State() {
			t.Errorf("open %q: %s of %q from %v, want %s", open, m.Kind, sessions(m.Who), m.From, want)
		}
	}
}
