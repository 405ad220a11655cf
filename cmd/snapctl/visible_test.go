package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"a\tb\nc\n", "a\tb\nc\n"},
		{"é 日本 😀", "é 日本 😀"},
		{"\x1b]52;c;cm0gLXJm\a", "^[]52;c;cm0gLXJm^G"},
		{"a\rb\r\nc\r", "a^Mb\r\nc^M"},
		{"\r\r\n", "^M\r\n"},
		{"\x00\x08\x0b\x7f", "^@^H^K^?"},
		{"\u009b31m\u0085", `\x9b31m\x85`},
		{"\x9b31m \xe9 \xc2", `\x9b31m \xe9 \xc2`},
		{"\xe6\x97", `\xe6\x97`},
		{"\u00a0\u00ff\ufffd", "\u00a0\u00ff\ufffd"},
	} {
		if got := string(visible([]byte(test.text))); got != test.want {
			t.Errorf("visible(%q) = %q, want %q", test.text, got, test.want)
		}
		for size := 1; size <= len(test.text); size++ { // in pieces
			var b bytes.Buffer
			w := &visibleWriter{w: &b}
			for rest := test.text; rest != ""; {
				n := min(size, len(rest))
				if _, err := w.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := w.end(); err != nil || b.String() != test.want {
				t.Errorf("%q in pieces of %d bytes: %q, %v, want %q", test.text, size, b.String(), err, test.want)
			}
		}
	}
}

// TestVisiblePatch: a CR before LF is shown where it is what differs.
func TestVisiblePatch(t *testing.T) {
	const head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n"
	for _, test := range []struct{ text, want string }{
		{" one\r\n-two\r\n+2\r\n", " one\r\n-two\r\n+2\r\n"},
		{" one\r\n-two\r\n+two\n", " one^M\n-two^M\n+two\n"},
		{"-two\r\n+2\r\n\\ No newline at end of file\n", "-two\r\n+2\r\n\\ No newline at end of file\n"},
	} {
		if got := string(visiblePatch([]byte(head + test.text))); got != head+test.want {
			t.Errorf("visiblePatch(%q) = %q, want %q", test.text, strings.TrimPrefix(got, head), test.want)
		}
	}
}

// TestMarshalControls: JSON says the same, without what a terminal obeys.
func TestMarshalControls(t *testing.T) {
	want := "\x1b \x7f \u0080 \u009b é \u00a0 \u2028 \\u009b"
	b, err := marshal(want)
	var got string
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || got != want {
		t.Errorf("marshal(%q) = %s, which is %q, %v", want, b, got, err)
	}
	for _, c := range string(b) {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			t.Errorf("marshal(%q) = %q, which has the control character %q", want, b, c)
		}
	}
}
