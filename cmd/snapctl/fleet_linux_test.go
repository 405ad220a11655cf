package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/remote/remotetest"
)

var (
	fleetSize  = flag.Int("fleet", 4, "sandboxes of TestFleet")
	fleetTurns = flag.Int("fleet-turns", 3, "turns of each")
)

// copyProgram gives this program, which is snapctl by that name, a file of its own: an engine that detaches runs the
// file that it is.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFleet has sandboxes work at once from one base, with a directory and with a bucket.
func TestFleet(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	copyProgram(t, filepath.Join(bin, "snapctl"))
	program := filepath.Join(bin, "fleet")
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "../../examples/fleet")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	fleet := func(t *testing.T, env []string, args ...string) string {
		c := exec.CommandContext(t.Context(), program,
			append([]string{"-n", fmt.Sprint(*fleetSize), "-turns", fmt.Sprint(*fleetTurns)}, args...)...)
		c.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)
		out, err := c.CombinedOutput()
		want := fmt.Sprintf("%d sandboxes, %d turns each: all are in ", *fleetSize, *fleetTurns)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v", out, err)
		}
		t.Logf("%s", out)
		return string(out)
	}
	t.Run("directory", func(t *testing.T) { fleet(t, nil, "-base=false") })
	t.Run("bucket", func(t *testing.T) {
		server := remotetest.Versity(t)
		said := fleet(t, server.Env(), "-remote", "s3://"+server.Bucket+"/fleet")
		if !strings.Contains(said, "sandboxes: ") || !strings.Contains(said, " PUT, ") {
			t.Error("it does not say how many requests there were")
		}
	})
}
