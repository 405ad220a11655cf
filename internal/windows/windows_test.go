package windows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// stretchesOf reads stretches: 1-2 is one from the state 1 to the state 2, 1!2 one that is contested.
func stretchesOf(text string) (list []history.Stretch) {
	state := func(b byte) store.State { return store.State{Tree: store.ID{b}} }
	for _, s := range strings.Fields(text) {
		list = append(list, history.Stretch{From: state(s[0]), To: state(s[2]), Contested: s[1] == '!'})
	}
	return list
}

func textOf(list []history.Stretch) string {
	var texts []string
	for _, s := range list {
		sign := "-"
		if s.Contested {
			sign = "!"
		}
		texts = append(texts, string(s.From.Tree[:1])+sign+string(s.To.Tree[:1]))
	}
	return strings.Join(texts, " ")
}

func TestJoin(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"", ""},
		{"1-2 2-3", "1-3"},
		{"1-2 2-3 3-4", "1-4"},
		{"1!2 2!3", "1!3"},
		{"1-2 4-5", "1-2 4-5"}, // somebody else was at work between
		{"1-2 2!3", "1-2 2!3"},
		{"1-2 2-1", ""},
		{"1-2 2!1", "1-2 2!1"}, // whether it is back by the turn is not known
		{"1-1 3-4", "3-4"},
		{"1-2 2!2 2-3", "1-2 2-3"},
	} {
		if got := textOf(Join(stretchesOf(tt.list))); got != tt.want {
			t.Errorf("Join(%s) = %s, want %s", tt.list, got, tt.want)
		}
	}
}

func TestOwnerIn(t *testing.T) {
	for _, tt := range []struct {
		contested bool
		path      string // claimed by the session: mine, both; by others: theirs, both
		want      Owner  // "": it is another session's
	}{
		{false, "x", Own},
		{false, "mine", Claimed},
		{false, "mine/below", Claimed},
		{false, "mineral", Own},
		{false, "theirs", Own}, // nobody else was at work then
		{false, "both", Claimed},
		{true, "x", Contested},
		{true, "mine", Claimed},
		{true, "theirs", ""},
		{true, "theirs/a/b", ""},
		{true, "both", Contested},
	} {
		claims := NewPathSet([][]byte{[]byte("mine"), []byte("both")})
		foreign := NewPathSet([][]byte{[]byte("theirs"), []byte("both")})
		owner, ok := OwnerIn(history.Stretch{Contested: tt.contested}, tt.path, claims, foreign)
		if owner != tt.want || ok != (tt.want != "") {
			t.Errorf("contested %v, %q: %q, %v, want %q", tt.contested, tt.path, owner, ok, tt.want)
		}
	}
}

// TestThen: a turn's change of a path is from where it found it first to where it left it last.
func TestThen(t *testing.T) {
	entry := func(b byte) *tree.Entry {
		if b == '.' || b == '?' {
			return nil
		}
		return &tree.Entry{Mode: tree.ModeFile | 0o644, ID: store.ID{b}}
	}
	// Of each change: what was there and what is, a dot for nothing, a question mark for what is not
	// captured; then a sign if it is contested (!) or claimed (+), or was changed by others, too (*).
	changeOf := func(text string) Change {
		c := Change{Path: "p", Old: entry(text[0]), New: entry(text[1]), Owner: Own, Mixed: strings.Contains(text, "*")}
		c.Status = trees.StatusOf(c.Old, c.New)
		switch {
		case text[0] == '?':
			c.Status = tree.Captured
		case text[1] == '?':
			c.Status = tree.Uncaptured
		}
		switch {
		case strings.Contains(text, "!"):
			c.Owner = Contested
		case strings.Contains(text, "+"):
			c.Owner = Claimed
		}
		return c
	}
	for _, tt := range []struct{ steps, want string }{
		{"ab", "ab"},
		{"ab bc", "ac"},
		{".a ab", ".b"},
		{".a a.", ""},
		{"ab ba", ""},
		{"a. .b", "ab"},
		{"ab cb", "ab*"},
		{"ab ca", "aa*"},   // the ends are the same, and what somebody did between is gone
		{"ab! bc+", "ac!"}, // once contested, always
		{"ab bc!", "ac!"},
		{"ab bc+", "ac+"},
		{"ab b?", "ab"}, // it was changed as well
		{"a?", "a?"},
		{"?a ab", "ab"},
		{"a? ?b", "?b"},
	} {
		var got *Change
		for _, text := range strings.Fields(tt.steps) {
			c := changeOf(text)
			got = got.then(&tree.Difference{Path: "p", Status: c.Status, Old: c.Old, New: c.New}, c.Owner)
		}
		if is := got.settle(); is != (tt.want != "") {
			t.Errorf("%s: there is something to say: %v", tt.steps, is)
		}
		if tt.want == "" {
			continue
		}
		want := changeOf(tt.want)
		if want.Mixed {
			want.Status = tree.Modified
		}
		if strings.HasPrefix(tt.want, "?") { // what it was is known all the same
			want.Old = got.Old
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.steps, diff)
		}
	}
}
