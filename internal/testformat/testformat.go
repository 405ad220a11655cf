// Package testformat keeps samples of formats, which must be written and read the
// same for ever: as hexadecimal, with a note on each line.
package testformat

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// Sample returns the bytes of a sample of version 1, which are those that this
// version writes: b. With -update it writes them. Each note is a number and a text,
// which names so many bytes of the sample.
func Sample(t *testing.T, name string, b []byte, notes []string) []byte {
	t.Helper()
	var text strings.Builder
	for _, note := range notes {
		number, what, _ := strings.Cut(note, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n > len(b) {
			t.Fatalf("%q: %v, %d bytes are left", note, err, len(b))
		}
		fmt.Fprintf(&text, "%-50s %s\n", hex.EncodeToString(b[:n]), what)
		b = b[n:]
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes without a note", len(b))
	}
	path := filepath.Join("../../testdata/format/v1", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != text.String() {
		t.Errorf("%s is encoded otherwise: got\n%s\nwant\n%s", name, &text, kept)
	}
	var is []byte
	for line := range strings.Lines(string(kept)) {
		digits, _, _ := strings.Cut(line, " ")
		part, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		is = append(is, part...)
	}
	return is
}
