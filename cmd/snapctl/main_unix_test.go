//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// otherPrograms are those that tests run beside snapctl.
var otherPrograms = map[string]func(){"soaker": soakerMain, "agent": agentMain}

// agentMain is a turn of an agent in a session of Claude Code: it was asked for something, and a
// tool has run a command: agent SESSION PROMPT COMMAND. It is its own hooks: one process is not six.
func agentMain() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(exitRefused)
		}
	}
	cwd, err := os.Getwd()
	check(err)
	hook := func(name string, event map[string]string) {
		event["session_id"], event["cwd"], event["hook_event_name"] = os.Args[1], cwd, name
		line, err := json.Marshal(event)
		check(err)
		in, out, err := os.Pipe()
		check(err)
		_, err = out.Write(line) // there is room for it
		check(errors.Join(err, out.Close()))
		run(context.Background(), []string{"hook", "claude"}, in, os.Stdout, os.Stderr, os.Getenv)
		check(in.Close())
	}
	hook("SessionStart", map[string]string{})
	hook("UserPromptSubmit", map[string]string{"prompt": os.Args[2]})
	hook("PreToolUse", map[string]string{"tool_name": "Bash", "tool_use_id": "t"})
	tool := exec.Command("sh", "-c", os.Args[3])
	tool.Stdout, tool.Stderr = os.Stdout, os.Stderr
	check(tool.Run())
	hook("PostToolUse", map[string]string{"tool_name": "Bash", "tool_use_id": "t"})
	hook("Stop", map[string]string{})
}

func cmdFifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}
