package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMan has each page be read by what shows manual pages, which finds nothing to say about it.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if code := run(t.Context(), []string{"man", dir}, nil, os.Stdout, new(bytes.Buffer), os.Getenv); code != exitDone {
		t.Fatalf("man: exit code %d", code)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{".TH ", ".SH NAME\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
			if !bytes.Contains(text, []byte(section)) {
				t.Errorf("%s has no %s", filepath.Base(page), section)
			}
		}
	}
	checks := map[string][]string{
		"groff":  {"-man", "-Tutf8", "-ww", "-z"},
		"mandoc": {"-man", "-Tlint", "-Wwarning"},
	}
	for name, args := range checks {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("SKIPPED: no %s here", name)
			}
			out, err := exec.Command(name, append(args, pages...)...).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				// A test is built from no commit that would have a date.
				if !strings.Contains(line, "missing date") {
					t.Errorf("%s", line)
				}
			}
			if name == "groff" && err != nil {
				t.Error(err)
			}
		})
	}
}
