//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inOwnGroup has a command begin a process group of its own, so that it can be ended together
// with all that it has started.
func inOwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the group of a command to end; with force it is ended.
func endGroup(cmd *exec.Cmd, force bool) error {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	return syscall.Kill(-cmd.Process.Pid, sig)
}

// exitCodeOf returns the exit code of a command as shells have it: 128 and the number of a
// signal that has ended it.
func exitCodeOf(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}
