package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bytes"
	"compress/gzip"
)

// fetched has what is built with in place. The test is skipped where it cannot be had.
func fetched(t *testing.T, web string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(web, "node_modules", "preact")); err == nil {
		return
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--silent")
	cmd.Dir = web
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: npm ci: %v: %s", err, out)
	}
}

// TestBuilt: the assets are what the sources make.
func TestBuilt(t *testing.T) {
	web, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	fetched(t, web)
	if err := run(true, ""); err != nil {
		t.Error(err)
	}
}

// TestSize: the page is small, all of it.
func TestSize(t *testing.T) {
	const most = 60 << 10
	files, err := filepath.Glob("../../cmd/snapctl/internal/timeline/assets/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("assets: %v, %v", files, err)
	}
	var sum bytes.Buffer
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		z, _ := gzip.NewWriterLevel(&sum, gzip.BestCompression)
		z.Write(b)
		z.Close()
	}
	t.Logf("%d bytes, compressed", sum.Len())
	if sum.Len() > most {
		t.Errorf("the page has %d bytes, compressed, at most %d", sum.Len(), most)
	}
}
