package words

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	tests := []struct{ name, want string }{
		{"plain/name.go", "plain/name.go"},
		{"with space", "with space"},
		{"a\tb\nc", `"a\tb\nc"`},
		{"\a\b\v\f\r", `"\a\b\v\f\r"`},
		{`"\`, `"\"\\"`},
		{"\x00\x01\x1f\x7f\x80\xff", `"\000\001\037\177\200\377"`},
		{"café", "café"},
		{"cafe\u0301", "cafe\u0301"}, // the accent is a character of its own
		{"文档/说明.md", "文档/说明.md"},
		{"全角\u3000空白", "全角\u3000空白"},
		{"می\u200cخواهم", "می\u200cخواهم"},
		{"👩\u200d💻 \U0001F3F3\ufe0f", "👩\u200d💻 \U0001F3F3\ufe0f"},
		{"a\u200db", `"a\342\200\215b"`}, // looks like ab
		{"\u200c", `"\342\200\214"`},
		{"Ä\tÖ", `"Ä\tÖ"`},
		{"Ä\xffÖ", `"Ä\377Ö"`},
		{"\xc3", `"\303"`},
		{"\xed\xa0\x80", `"\355\240\200"`}, // half a pair of UTF-16
		{"\ufffd", "\ufffd"},               // which is UTF-8
		{"gpj.\u202eexe", `"gpj.\342\200\256exe"`},
		{"\u2066a\u2069", `"\342\201\246a\342\201\251"`},
		{"\u200f", `"\342\200\217"`},
		{"\ufeffa", `"\357\273\277a"`},
		{"a\u00adb", `"a\302\255b"`},
		{"\u0085\u009b", `"\302\205\302\233"`},
		{"\u2028\u2029", `"\342\200\250\342\200\251"`},
		{"\U000e0041", `"\363\240\201\201"`},
		{"~!@#$%^&*()'", "~!@#$%^&*()'"},
	}
	for _, tt := range tests {
		if got := Quote(tt.name); got != tt.want {
			t.Errorf("Quote(%q) = %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: it is for a POSIX shell")
	}
	for _, arg := range []string{"", "a b", "it's", "~", "a~b", "a*", "$HOME", "-n", "a\nb", "ä", "a\xffb", "`id`",
		"x;y", "#a", "\x1b]0;it's\a\\ \"1\"", "\u202e1", "\r\n", "\u200d"} {
		quoted := ShellQuote(arg)
		out, err := exec.Command("bash", "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != arg {
			t.Errorf("%q: a shell takes %s for %q, %v", arg, quoted, out, err)
		}
		if strings.ContainsFunc(quoted, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q is not to be read", arg, quoted)
		}
	}
}
