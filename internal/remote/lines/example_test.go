package lines

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocument holds the worked example of docs/reference/format-remote.md §5 against the code.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "format-remote.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "`06 02 2f70`:\n")
	text, _, _ = strings.Cut(text, "\n## 6")
	var shown string
	for line := range strings.Lines(text) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			shown += strings.Join(strings.Fields(line[:min(len(line), 52)]), "")
		}
	}
	var k key
	for i := range k {
		k[i] = byte(i + 1)
	}
	e := &Entry{Opening: &Opening{Session: "s", Worktree: "w", Root: "/p"}}
	name := "log/00112233445566778899aabbccddeeff/" + lineOf(0xa0).String() + "/00000000"
	got := e.seal(keyring{k}, name, [32]byte{})
	if hex.EncodeToString(got) != shown {
		t.Errorf("the document shows\n%s, the code writes\n%s", shown, hex.Dump(got))
	}
}

func lineOf(first byte) Line { return Line{first, 15: 1} }
