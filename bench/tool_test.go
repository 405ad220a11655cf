package main

import "testing"

func TestField(t *testing.T) {
	for _, c := range []struct{ out, want string }{
		{`{"a":{"b":"x"}}`, "x"},
		{"{\"done\":0.5}\n{\"done\":1}\n{\"a\":{\"b\":\"x\"}}\n", "x"},
		{`{"a":{"b":""}}`, ""},
		{`{"a":"b"}`, ""},
		{"", ""},
		{"no", ""},
	} {
		if got, err := field("a", "b")([]byte(c.out)); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("field of %q = %q, %v; want %q", c.out, got, err, c.want)
		}
	}
}
