package store

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestIDText(t *testing.T) {
	const want = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" // of no bytes
	id, err := ParseID(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := id.MarshalText()
	if err != nil || string(text) != want || id.String() != want || id.Short() != want[:12] {
		t.Errorf("MarshalText, String, Short = %s, %s, %s, %v; want %s", text, id, id.Short(), err, want)
	}
	for _, s := range []string{want, strings.ToUpper(want)} {
		var got ID
		if err := got.UnmarshalText([]byte(s)); err != nil || got != id {
			t.Errorf("UnmarshalText(%s) = %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", want[1:], want + "0", "g" + want[1:], hex.EncodeToString([]byte(want))} {
		if id, err := ParseID(s); err == nil || !id.IsZero() {
			t.Errorf("ParseID(%q) = %s, %v; want an error", s, id, err)
		}
	}
}
