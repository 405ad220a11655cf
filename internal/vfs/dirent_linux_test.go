package vfs

import (
	"fmt"
	"testing"
)

func TestEachDirent(t *testing.T) {
	// inode 1, offset 2, record length 24, type, name, padding
	record := func(typ byte, name string) string {
		return "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x18\x00" + string(typ) + name
	}
	for _, test := range []struct {
		name, buf, want string
		ok              bool
	}{
		{"empty", "", "", true},
		{"dots left out", record(4, ".\x00\x00\x00\x00") + record(4, "..\x00\x00\x00"), "", true},
		{"kinds", record(8, "a\x00\x00\x00\x00") + record(0, "bcde\x00") + record(1, "...\x00\x00"), "a1 bcde0 ...4 ",
			true},
		{"no NUL", record(8, "abcde"), "", false},
		{"cut", record(8, "a\x00\x00\x00\x00") + record(8, "b"), "a1 ", false},
		{"header alone", record(8, ""), "", false},
		{"zero length", string(make([]byte, 24)), "", false},
	} {
		got := ""
		ok := eachDirent([]byte(test.buf), func(name []byte, kind Kind) {
			got += fmt.Sprintf("%s%d ", name, kind)
		})
		if got != test.want || ok != test.ok {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}
