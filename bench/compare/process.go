package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// A usage is what a whole process took.
type usage struct {
	wall time.Duration
	cpu  time.Duration // user and system
	rss  int64         // peak, in bytes; 0 if unknown
}

// add returns the usage of two processes that ran one after the other.
func (u usage) add(v usage) usage {
	return usage{wall: u.wall + v.wall, cpu: u.cpu + v.cpu, rss: max(u.rss, v.rss)}
}

// execute runs a command in dir, with nothing but env in its environment
// unless that is nil, and returns what it took and printed. The error of a
// command that fails ends in what it wrote to standard error.
func execute(ctx context.Context, dir string, env []string, args ...string) (usage, []byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return usage{}, nil, fmt.Errorf("%s: %w: %q", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	state := cmd.ProcessState
	u := usage{wall: wall, cpu: state.UserTime() + state.SystemTime(), rss: maxRSS(state)}
	return u, stdout.Bytes(), nil
}
