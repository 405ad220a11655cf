package patch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mark puts brackets around spans.
func mark(s string, spans []Span) string {
	var b strings.Builder
	at := 0
	for _, span := range spans {
		b.WriteString(s[at:span.Start] + "[" + s[span.Start:span.End] + "]")
		at = span.End
	}
	return b.String() + s[at:]
}

func TestWords(t *testing.T) {
	tests := []struct{ old, new, wantOld, wantNew string }{
		{"", "", "", ""},
		{"same", "same", "same", "same"},
		{"", "new", "", "[new]"},
		{"return err", "return nil, err", "return err", "return [nil, ]err"},
		{"if a == b {", "if a != b {", "if a [=]= b {", "if a [!]= b {"},
		{"x  := 1", "x := 1", "x[  ]:= 1", "x[ ]:= 1"},
		{"größe := 1", "grösse := 1", "[größe] := 1", "[grösse] := 1"},
		{"a\xffb", "a\xfeb", "a[\xff]b", "a[\xfe]b"},
		{"f(a, b)", "f(b, a)", "f([a], [b])", "f([b], [a])"},
	}
	for _, tt := range tests {
		o, n := Words(tt.old, tt.new)
		got := []string{mark(tt.old, o), mark(tt.new, n)}
		if diff := cmp.Diff([]string{tt.wantOld, tt.wantNew}, got); diff != "" {
			t.Errorf("Words(%q, %q) (-want +got):\n%s", tt.old, tt.new, diff)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("a b c", "a  b\xffc")
	f.Add("é\u0301 _x1", "é _x1")
	f.Fuzz(func(t *testing.T, old, new string) {
		if got := strings.Join(splitWords(old), ""); got != old {
			t.Fatalf("splitWords(%q) joins to %q", old, got)
		}
		rest := func(s string, spans []Span) string {
			at, kept := 0, ""
			for _, span := range spans {
				if span.Start < at || span.Start >= span.End {
					t.Fatalf("Words(%q, %q): bad span %v", old, new, span)
				}
				kept += s[at:span.Start]
				at = span.End
			}
			return kept + s[at:]
		}
		o, n := Words(old, new)
		if a, b := rest(old, o), rest(new, n); a != b {
			t.Errorf("Words(%q, %q) leaves %q and %q as equal", old, new, a, b)
		}
	})
}
