package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// block returns the code of a language that a page shows.
func block(t *testing.T, page, language string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(b), "```"+language+"\n")
	code, _, ended := strings.Cut(code, "```\n")
	if !ok || !ended {
		t.Fatalf("%s shows no %s", page, language)
	}
	return code
}

// TestEmbed runs the programs of the page for runtimes.
func TestEmbed(t *testing.T) {
	const page = "../docs/integrations/embed.md"
	const command = "echo two > a.txt; rm b.txt; echo c > c.txt"
	const want = `modified a.txt
--- a.txt
+++ a.txt
@@ -1 +1 @@
-one
+two
deleted b.txt
`
	project := func(t *testing.T) string {
		dir := t.TempDir()
		for name, content := range map[string]string{"a.txt": "one\n", "b.txt": "b\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	check := func(t *testing.T, dir, out, end string) {
		if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, end) {
			t.Errorf("it prints\n%s", out)
		}
		for name, content := range map[string]string{"a.txt": "one\n", "b.txt": "b\n", "c.txt": ""} {
			if b, _ := os.ReadFile(filepath.Join(dir, name)); string(b) != content {
				t.Errorf("%s holds %q", name, b)
			}
		}
	}
	t.Run("go", func(t *testing.T) {
		main, err := os.MkdirTemp(".", "_embed")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(main) })
		if err := os.WriteFile(filepath.Join(main, "main.go"), []byte(block(t, page, "go")), 0o644); err != nil {
			t.Fatal(err)
		}
		dir := project(t)
		out, err := exec.Command("go", "run", "./"+main, t.TempDir(), dir, command).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		check(t, dir, string(out), "restored [a.txt b.txt] deleted [c.txt] left alone []\n")
	})
	t.Run("python", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("SKIPPED: python3 is not installed")
		}
		bin, err := build("snapctl")
		if err != nil {
			t.Fatal(err)
		}
		dir := project(t)
		cmd := exec.Command("python3", "-c", block(t, page, "python"), bin, dir, command)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "BOO_STORE=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		check(t, dir, string(out), "restored ['a.txt', 'b.txt'] deleted ['c.txt'] left alone []\n")
	})
}
