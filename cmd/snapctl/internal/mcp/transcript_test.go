package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/go-cmp/cmp"
)

// TestTranscript holds what a model reads, of each tool, by testdata/transcript.txt:
// "> tool arguments", or "= file content" for what is written in between, and below it
// the answer. Ids, hashes and times have names, in the order in which they come.
func TestTranscript(t *testing.T) {
	const name = "testdata/transcript.txt"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, s := connect(t)
	n := &names{known: make(map[string]string), real: make(map[string]string)}
	var now bytes.Buffer
	for line := range strings.Lines(string(old)) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line[1:]), " ")
		switch {
		case strings.HasPrefix(line, "= "):
			var content string
			if err := json.Unmarshal([]byte(rest), &content); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if err := os.WriteFile(filepath.Join(s.Root, what), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			now.WriteString("\n" + line)
		case strings.HasPrefix(line, "> "):
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: what,
				Arguments: json.RawMessage(n.unname(rest))})
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			fmt.Fprintf(&now, "\n%s%s\n", line, n.name(r.Content[0].(*sdk.TextContent).Text))
		case strings.HasPrefix(line, "#"):
			now.WriteString("\n" + line)
		}
	}
	now.Next(1) // the first line is no empty one
	if *update {
		if err := os.WriteFile(name, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(strings.Split(string(old), "\n"), strings.Split(now.String(), "\n")); d != "" {
		t.Errorf("what a model reads (-want +got): go test ./cmd/snapctl/internal/mcp -run Transcript -update\n%s", d)
	}
}

// names are what stands in a transcript for what is another each time: IDs, by their
// first characters, and as UNDO that of the newest edit.
type names struct{ known, real map[string]string }

var (
	isID   = regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{16}|[0-9a-f]{12}|[0-9a-f]{8})\b`)
	isTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`)
	isUndo = regexp.MustCompile(`undoId "([0-9a-f]+)" takes`)
)

func (n *names) name(text string) string {
	if m := isUndo.FindStringSubmatch(text); m != nil {
		n.real["UNDO"] = m[1]
	}
	return isID.ReplaceAllStringFunc(isTime.ReplaceAllString(text, "TIME"), func(id string) string {
		name := n.known[id[:8]]
		if name == "" {
			name = fmt.Sprintf("ID%d", len(n.known)+1)
			n.known[id[:8]], n.real[name] = name, id
		}
		return name
	})
}

func (n *names) unname(text string) string {
	return regexp.MustCompile(`UNDO|ID\d+`).ReplaceAllStringFunc(text, func(name string) string { return n.real[name] })
}
