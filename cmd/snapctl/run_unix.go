//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A passer passes signals on to a program that runs in this process's group, and so in
// the foreground of the terminal if this process is.
type passer struct {
	in  chan os.Signal
	pid atomic.Int64 // 0: the program has not begun; or ended
}

const ended = -1

// passed are the signals that are passed on, and ofTerminal those that a terminal sends to
// the program, too. This process stops when the program has stopped, and not before: else
// it could take what the program was, before both go on, for what it is.
var (
	passed = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT}

	ofTerminal = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGTTIN,
		syscall.SIGTTOU}

	ending = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} // without a program
)

func catchSignals() *passer {
	p := &passer{in: make(chan os.Signal, 16)}
	for _, s := range slices.Concat(passed, ofTerminal) {
		if !signal.Ignored(s) { // else it is for the program, too, as nohup has it
			signal.Notify(p.in, s)
		}
	}
	go func() {
		for s := range p.in {
			s := s.(syscall.Signal)
			pid := int(p.pid.Load())
			switch {
			case pid == 0:
				if slices.Contains(ending, s) {
					os.Exit(128 + int(s))
				}
			case pid == ended, slices.Contains(ofTerminal, os.Signal(s)) && inForeground():
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
	defer p.pid.Store(ended) // its number may be another's
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case status.Stopped():
			syscall.Kill(os.Getpid(), syscall.SIGSTOP) // what has this go on is passed on
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
