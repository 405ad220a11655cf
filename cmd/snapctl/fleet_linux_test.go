package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFleet has a few sandboxes work from one base, as examples/fleet has many.
func TestFleet(t *testing.T) {
	t.Parallel()
	c := exec.Command("sh", "../../examples/fleet/run.sh", "3", "2")
	c.Env = []string{"PATH=" + guideBin(t) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "3 sandboxes, 2 turns each: all are in ") {
		t.Errorf("%s: %v", out, err)
	}
	t.Logf("%s", out)
}
