package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A withDrivers runs tests in whose dir buildDrivers may make snapctl-checkpoints as users have it: with
// the drivers in the tests themselves the race detector would have the whole of SQLite to compile.
type withDrivers struct {
	*testing.M
	dir string
}

var buildDrivers func() (string, error)

func (w *withDrivers) Run() int {
	buildDrivers = sync.OnceValues(func() (dir string, err error) {
		if w.dir, err = os.MkdirTemp("", "drivers"); err != nil {
			return "", err
		}
		c := exec.Command("go", "build", "-ldflags=-s -w", "-o", w.dir, "../"+driversName)
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return w.dir, nil
	})
	defer func() { os.RemoveAll(w.dir) }()
	return w.M.Run()
}
