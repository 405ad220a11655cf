package history

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/store"
)

func TestPathList(t *testing.T) {
	var many, equal, odd PathList
	for i := range 20_000 {
		many = append(many, fmt.Appendf(nil, "package%d/directory%d/file-%d.go", i%7, i%91, i))
	}
	for range 100 {
		equal = append(equal, []byte("a"))
	}
	for i := range 300 {
		odd = append(odd, []byte{byte(i), 0xff, '\n'}, []byte(strings.Repeat("\xfe/", i)+"x"))
	}
	for _, c := range []struct {
		name   string
		list   PathList
		packed bool
	}{{"one", PathList{[]byte("p\xff")}, false}, {"as many as plain", many[:maxPlainPaths], false},
		{"one more", many[:maxPlainPaths+1], true},
		{"many", many, true}, {"equal", equal, true}, {"odd", odd, true}} {
		b, err := json.Marshal(JointFacts{Left: c.list})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if packed := strings.Contains(string(b), `"left":"`); packed != c.packed {
			t.Errorf("%s: packed %t, want %t", c.name, packed, c.packed)
		}
		var got JointFacts
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(c.list, got.Left); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if c.name == "many" && len(b) > 10*len(many) {
			t.Errorf("%d paths are %d bytes", len(many), len(b))
		}
	}
}

// packedPaths are the paths a, ab and b as bytes of a packed list.
var packedPaths = []byte{0, 1, 'a', 1, 1, 'b', 0, 1, 'b'}

// stored returns bytes as a packed list has them, uncompressed.
func stored(b []byte) string {
	n := len(b)
	deflated := append([]byte{1, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)}, b...)
	return `"` + base64.StdEncoding.EncodeToString(deflated) + `"`
}

// What was packed once is read for ever, and nothing else.
func TestPathListBytes(t *testing.T) {
	var got PathList
	if err := json.Unmarshal([]byte(stored(packedPaths)), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(PathList{[]byte("a"), []byte("ab"), []byte("b")}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, b := range map[string]string{
		"not deflated":    `"AAAA"`,
		"cut off":         stored(packedPaths[:len(packedPaths)-1]),
		"too much shared": stored([]byte{0, 1, 'a', 2, 1, 'b'}),
		"half a number":   stored([]byte{0x80}),
		"one number":      stored([]byte{0}),
		"a long one":      stored([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}),
	} {
		if err := json.Unmarshal([]byte(b), &got); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}
