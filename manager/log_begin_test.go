package manager

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLogBegins: a session's log that its runtime is about to write is as one
// that is not there yet.
func TestLogBegins(t *testing.T) {
	header := `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}` + "\n"
	for _, begun := range []string{"", header[:20]} {
		b := newBench(t)
		name := filepath.Join(t.TempDir(), "s.jsonl")
		if err := os.WriteFile(name, []byte(begun), 0o600); err != nil {
			t.Fatal(err)
		}
		m := b.open("s", func(o *Options) { o.SessionFile = name })
		b.initialize(m)
		if err := os.WriteFile(name, []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start(m)
		b.write("a", "1")
		if r, _, err := m.EndTurn(t.Context()); err != nil || r.Data == nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
