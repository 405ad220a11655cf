//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A passer passes signals on to a program that runs in this process's group, and so in
// the foreground of the terminal if this process is.
type passer struct {
	in  chan os.Signal
	pid atomic.Int64 // 0: it has not begun
}

// passed are the signals that are passed on. Those of the keyboard come to the program
// by themselves where this process has a terminal.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

func catchSignals() *passer {
	p := &passer{in: make(chan os.Signal, 16)}
	for _, s := range passed {
		if !signal.Ignored(s) { // else it is for the program, too, as nohup has it
			signal.Notify(p.in, s)
		}
	}
	go func() {
		for s := range p.in {
			s := s.(syscall.Signal)
			pid := int(p.pid.Load())
			switch {
			case pid == 0 && s != syscall.SIGCONT && s != syscall.SIGWINCH:
				os.Exit(128 + int(s))
			case pid == 0:
			case (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH) && inForeground():
			default:
				syscall.Kill(pid, s)
			}
		}
	}()
	return p
}

func (p *passer) stop() {
	signal.Stop(p.in)
	close(p.in)
}

// wait waits for the program to end and returns its exit code, 128 and the signal's number
// if one has ended it. While it is stopped this process is, so that a shell notices.
func (p *passer) wait(cmd *exec.Cmd) (int, error) {
	pid := cmd.Process.Pid
	p.pid.Store(int64(pid))
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case status.Stopped():
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			syscall.Kill(pid, syscall.SIGCONT)
		case status.Exited():
			return status.ExitStatus(), nil
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		}
	}
}

// inForeground reports whether this process has a terminal and is in the foreground of it:
// keys that send signals send them to the program, too.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
