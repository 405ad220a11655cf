package words

import "testing"

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Comma(0): "0", Comma(999): "999", Comma(int64(1234567)): "1,234,567", Comma(-1000): "-1,000",
		Comma(-999):      "-999",
		Count(1, "file"): "1 file", Count(0, "file"): "0 files", Count(2000, "entry"): "2,000 entries",
		Count(1, "entry"): "1 entry",
		Size(999):         "999 B", Size(1000): "1.0 KB", Size(9949): "9.9 KB", Size(9951): "10 KB",
		Size(41_400):        "41 KB",
		Size(1_300_000_000): "1.3 GB",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	const text = "a\x1b[2Jb\u202ec\u2028d\te\nf\xffg\u200d"
	if got, want := Plain(text), "a [2Jb c d e\nf\ufffdg\u200d"; got != want {
		t.Errorf("Plain(%q) = %q, want %q", text, got, want)
	}
}

func TestJSON(t *testing.T) {
	for _, s := range []string{"", "a", "é", "\xff", "a\xc3"} {
		b := BytesUnlessText(s)
		if got := TextOrBytes("shown", b); b != nil && got != s {
			t.Errorf("TextOrBytes of the bytes of %q = %q", s, got)
		}
		if isText := s != "\xff" && s != "a\xc3"; isText != (b == nil) {
			t.Errorf("BytesUnlessText(%q) = %q", s, b)
		}
	}
	if OrNull("") != nil || *OrNull("a") != "a" {
		t.Error("OrNull")
	}
}
