package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// A passer keeps this process from ending by Ctrl-C, which the program gets, too.
type passer struct{ in chan os.Signal }

func catchSignals() *passer {
	p := &passer{make(chan os.Signal, 1)}
	signal.Notify(p.in, os.Interrupt)
	return p
}

func (p *passer) stop() { signal.Stop(p.in) }

// wait waits for the program to end and returns its exit code.
func (p *passer) wait(cmd *exec.Cmd) (int, error) {
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
