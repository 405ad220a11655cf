package textdiff

import "testing"

func TestRespaced(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"a b\nc\n", "  a  b\nc\n", "  a  b\nc\n"},
		{"a\nb\nc\n", "\ta\nB\n c\n", "\ta\nb\n c\n"},
		{"if x\ny\n", "if x\n{\n\ty\n}\n", "if x\n\ty\n"},
		{"a", "a\n", "a\n"},
		{"a\r\nb\r\n", "a\nb\n", "a\nb\n"},
		{"a\n", "", "a\n"},
		{"", "a\n", ""},
		{"a\xff b\n", "a\xffb\n", "a\xffb\n"}, // bytes stay what they are
		{"a\xff\n", "a\xfe\n", "a\xff\n"},
		{"a\u00a0b\n", "ab\n", "a\u00a0b\n"},
	} {
		if got := string(Respaced([]byte(c.old), []byte(c.new))); got != c.want {
			t.Errorf("Respaced(%q, %q) = %q, want %q", c.old, c.new, got, c.want)
		}
	}
}

func TestUnifiedIgnoresSpace(t *testing.T) {
	old := File{Name: "f", Content: []byte("a\nb\nc\n"), Mode: 0o100644}
	new := File{Name: "f", Content: []byte("  a\nB\nc \n"), Mode: 0o100644}
	got := string(AppendUnified(nil, old, new, &UnifiedOptions{IgnoreSpace: true, NoPrefix: true}))
	want := "--- f\n+++ f\n@@ -1,3 +1,3 @@\n   a\n-b\n+B\n c \n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
