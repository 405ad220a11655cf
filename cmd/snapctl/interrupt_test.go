//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupt interrupts a restore at random points, sometimes twice. If it says that
// nothing was changed nothing was; after two signals the next command brings it to its
// end, or there was nothing to bring there.
func TestInterrupt(t *testing.T) {
	r := newRunner(t)
	r.must("snapshot")
	first := r.state(r.project)
	for i := range 120 {
		name := filepath.Join(r.project, fmt.Sprintf("d%d/f%d", i%9, i))
		if err := os.WriteFile(name, []byte(strings.Repeat("second\n", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.must("snapshot")
	second := r.state(r.project)
	ends := make(map[string]int)
	for i := range *crashRounds {
		twice := i%3 == 2
		var stderr bytes.Buffer
		cmd := r.command("restore", "-y", "@~1", "--json")
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		interrupt := func() { cmd.Process.Signal(syscall.SIGINT) }
		timer := time.AfterFunc(time.Duration(5_000+rand.IntN(120_000))*time.Microsecond, func() {
			interrupt()
			if twice {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				interrupt()
			}
		})
		err := cmd.Wait()
		timer.Stop()
		exit, _ := errors.AsType[*exec.ExitError](err)
		got := r.state(r.project)
		switch {
		case err == nil:
			ends["done"]++
			if got != first {
				t.Errorf("round %d: it is done, and the files are\n%s", i, got)
			}
		case exit != nil && exit.ExitCode() == exitInterrupted:
			ends["interrupted"]++
			const want = "snapctl: restore: interrupted, nothing was changed\n"
			if got != second || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("round %d: it says %q, want %q at the end, and the files are\n%s", i, &stderr, want, got)
			}
		case exit != nil && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT:
			ends["ended"]++
			r.must("snapshot")
			if got := r.state(r.project); got != first && got != second {
				t.Errorf("round %d: the next command has left\n%s", i, got)
			}
		default:
			t.Fatalf("round %d: %v\n%s", i, err, &stderr)
		}
		if r.state(r.project) == first {
			r.must("undo")
		}
		if got := r.state(r.project); got != second {
			t.Fatalf("round %d: undo brings back\n%s", i, got)
		}
		for _, pattern := range []string{".boo-*", "*/.boo-*"} {
			if left, _ := filepath.Glob(filepath.Join(r.project, pattern)); len(left) > 0 {
				t.Errorf("round %d: %q are left", i, left)
			}
		}
	}
	r.must("check", "--read-data")
	t.Logf("%v", ends)
}
