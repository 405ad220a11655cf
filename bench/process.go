package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// A usage is what one run took: one process, or several one after the other.
type usage struct {
	Wall time.Duration `json:"wall"`          // nanoseconds
	CPU  time.Duration `json:"cpu,omitempty"` // user and system; 0 if unknown
	RSS  int64         `json:"rss,omitempty"` // peak, in bytes; 0 if unknown
}

// add returns the usage of two processes that ran one after the other.
func (u usage) add(v usage) usage {
	return usage{Wall: u.Wall + v.Wall, CPU: u.CPU + v.CPU, RSS: max(u.RSS, v.RSS)}
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
		text := bytes.TrimSpace(stderr.Bytes())
		return usage{}, nil, fmt.Errorf("%s: %w: %q", strings.Join(args[:min(len(args), 8)], " "), err,
			text[:min(len(text), 500)])
	}
	state := cmd.ProcessState
	u := usage{Wall: wall, CPU: state.UserTime() + state.SystemTime(), RSS: maxRSS(state)}
	return u, stdout.Bytes(), nil
}
