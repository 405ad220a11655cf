package agents

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the hooks of the extension of Gemini CLI")

// TestExtension: the extension of Gemini CLI has the hooks that setup writes.
func TestExtension(t *testing.T) {
	const file = "../../../../integrations/gemini/hooks/hooks.json"
	want, err := gemini.AddHooks(nil, "snapctl hook gemini || true")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if d := cmp.Diff(string(want), string(got)); err != nil || d != "" {
		t.Errorf("%s: %v, differs (-want +got); -update writes it:\n%s", file, err, d)
	}
}

// TestOwn: files of ours are known as such until they are changed.
func TestOwn(t *testing.T) {
	n := 0
	for _, a := range All {
		for _, f := range a.Own() {
			n++
			if !IsOwn(f.Text) {
				t.Errorf("%s is not ours:\n%.300s", f.Path, f.Text)
			}
			for i := 0; i < len(f.Text); i += 1 + len(f.Text)/50 {
				changed := append(append([]byte{}, f.Text[:i]...), append([]byte("\n"), f.Text[i:]...)...)
				if IsOwn(changed) {
					t.Errorf("%s is ours with a line at %d", f.Path, i)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no agent has files of ours")
	}
}
