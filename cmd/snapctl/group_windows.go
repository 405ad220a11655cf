package main

import (
	"os/exec"
	"syscall"
)

// inOwnGroup keeps Ctrl-C from a command: it is ended by endGroup.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup ends a command.
func endGroup(cmd *exec.Cmd, _ bool) error { return cmd.Process.Kill() }

// exitCodeOf returns the exit code of a command.
func exitCodeOf(err *exec.ExitError) int { return err.ExitCode() }
