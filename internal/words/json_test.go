package words

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckText(t *testing.T) {
	for value, want := range map[string]string{
		`"a"`: "", `"\ufffd"`: "", "\"\uFFFD\"": "", `"\ud83d\ude00"`: "", `"\\ud800"`: "", `"\\\\ud800\""`: "",
		`7`: "", `null`: "", `{"a":["\uD83D\uDE00"]}`: "", `"\ud7ff\ue000"`: "", `"\u0041\u0000"`: "",
		`"\ud800"`: "x", `"\uD83D"`: "x", `"\ude00"`: "x", `"\ud83da"`: "x", `"\ud83d\n"`: "x", `"\ude00\ud83d"`: "x",
		`"\ud83d\ud83d\ude00"`: "x", `"\\\ud800"`: "x", "\"a\xff\"": "x", "\"\xed\xa0\x80\"": "x",
		`["a","\ud800"]`: "x[1]", `{"a":{"b":[1,"\udfff"]}}`: "x.a.b[1]", `{"a\ud800":"b"}`: "x",
		` {"a":"` + "\xff" + `"}`: "x.a",
	} {
		err := CheckText("x", []byte(value))
		got := ""
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), ":")
		}
		if got != want {
			t.Errorf("%s: %v, want it to be about %q", value, err, want)
		}
	}
}

// FuzzCheckText: package json reads a text without U+FFFD as one that has it, if and only if it is
// refused.
func FuzzCheckText(f *testing.F) {
	for _, text := range []string{`\ud83d\ude00`, `\\ud800`, `\ud800\n`, `\udc00\ud800`, "\xff", `\\\uDBFF\udfff`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := []byte(`"` + text + `"`)
		var got string
		err := CheckText("x", value) // also where it is no JSON
		if json.Unmarshal(value, &got) != nil || strings.Contains(strings.ToLower(text), "ufffd") ||
			strings.Contains(text, "\uFFFD") {
			return
		}
		if isBad := strings.Contains(got, "\uFFFD"); isBad != (err != nil) {
			t.Errorf("%s is read as %q: %v", value, got, err)
		}
	})
}
