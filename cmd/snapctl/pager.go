package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
)

// paged has what a command prints to a terminal go through the user's pager. It is started
// when there is something to print, so that an error alone needs none. Once the user has
// left it the command is over, and has done what was asked of it.
func (a *app) paged(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p := a.newPager()
		if p == nil {
			return run(cmd, args)
		}
		p.interrupted = cmd.Context()
		p.ctx, p.left = context.WithCancel(p.interrupted)
		defer p.left()
		cmd.SetContext(p.ctx)
		p.attach()
		err := run(cmd, args)
		if p.detach() && p.interrupted.Err() == nil {
			return nil
		}
		return err // after Ctrl-C also if the pager was left: not all was in it
	}
}

// A pager is a program that shows a text by the screen. It is a writer: what is written to
// it, it is given.
type pager struct {
	app            *app
	command        string
	stdout, stderr io.Writer // of the command, which are terminals

	interrupted context.Context // ends with Ctrl-C
	ctx         context.Context // of the command: ends with that, and when the pager has ended
	left        func()          // ends ctx

	cmd   *exec.Cmd // nil: it has not been started
	in    io.WriteCloser
	ended chan error  // has how the program has ended
	waits func() bool // stops what Ctrl-C would start

	kept   []byte // all that it was given, as long as that is little: see replay
	isAll  bool
	failed bool // it could not be started, or has shown nothing: what comes is for the terminal
	isLeft bool // it has ended, and nobody wants to see more
}

// maxKept is how many bytes of what a pager was given are kept, in case it shows nothing.
const maxKept = 64 << 10

// newPager returns a pager for what is printed, nil if there is to be none.
func (a *app) newPager() *pager {
	stdout, isFile := a.stdout.(*os.File)
	command := a.setting("pager")
	term := a.getenv("TERM")
	if !isFile || !isTerminal(stdout) || a.flags.json || a.flags.noPager || command == "off" || term == "" ||
		term == "dumb" {
		return nil
	}
	return &pager{app: a, command: command, stdout: a.stdout, stderr: a.stderr, isAll: true}
}

// attach has the command print to the pager. What it says beside that goes there as well,
// once the pager has the terminal.
func (p *pager) attach() {
	a := p.app
	a.stdout = p
	a.out.Reset(p)
	if isTerminal(p.stderr) {
		a.stderr = pagerNotes{p}
	}
}

// detach waits for the user to leave the pager, and has the command print to the terminal
// again. It reports whether the user has seen enough of what a pager shows.
func (p *pager) detach() (isLeft bool) {
	a := p.app
	a.out.Flush()
	isLeft = p.close()
	a.stdout = p.stdout
	a.out.Reset(p.stdout)
	a.stderr = p.stderr
	return isLeft
}

// IsTerminal says that what is printed is for a terminal.
func (p *pager) IsTerminal() bool { return true }

func (p *pager) Write(b []byte) (int, error) {
	if p.cmd == nil && !p.failed {
		p.start()
	}
	switch {
	case p.failed:
		return p.stdout.Write(b)
	case p.isLeft:
		return len(b), nil
	}
	if p.isAll = p.isAll && len(p.kept)+len(b) <= maxKept; p.isAll {
		p.kept = append(p.kept, b...)
	} else {
		p.kept = nil
	}
	if _, err := p.in.Write(b); err != nil { // it reads no more
		p.in.Close()
		return len(b), p.end()
	}
	return len(b), nil
}

// start starts the program. That it cannot be started is nobody's concern: the terminal
// shows what there is.
func (p *pager) start() {
	a := p.app
	if !isRunnable(p.command) {
		p.failed = true
		return
	}
	c := shellCommand(p.command)
	c.Stdout, c.Stderr = p.stdout, p.stderr
	c.Env = os.Environ()
	for _, v := range []string{"LESS=FRX", "LV=-c"} { // as git has it
		if name, _, _ := strings.Cut(v, "="); a.getenv(name) == "" {
			c.Env = append(c.Env, v)
		}
	}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		p.failed = true
		return
	}
	p.cmd, p.in, p.ended = c, in, make(chan error, 1)
	go func() {
		err := c.Wait()
		p.ended <- err
		if err == nil {
			p.left() // which a command notices that computes, and does not print
		}
	}()
	// Ctrl-C goes to both. It ends the command, and what the pager makes of it is its own
	// affair: the command waits for it, so that no shell takes the terminal meanwhile.
	p.waits = context.AfterFunc(p.interrupted, func() { signal.Ignore(os.Interrupt) })
}

// close waits until the program ends, and reports whether it was the user who ended it, or
// the command.
func (p *pager) close() (isLeft bool) {
	if p.cmd == nil {
		return false
	}
	defer func() {
		if !p.waits() {
			signal.Reset(os.Interrupt)
		}
	}()
	if !p.failed && !p.isLeft {
		cut := p.ctx.Err() != nil
		p.in.Close()
		p.end()
		p.isLeft = cut && !p.failed
	}
	return p.isLeft
}

// end is told that the program has all that it will take. If it has shown nothing that the
// terminal would not show once more, the terminal does.
func (p *pager) end() error {
	err := <-p.ended
	if err != nil && p.isAll && p.interrupted.Err() == nil {
		p.failed = true
		_, err = p.stdout.Write(p.kept)
		return err
	}
	p.isLeft = true
	p.left()
	return nil
}

// pagerNotes is where a command says what is no result, while there is a pager.
type pagerNotes struct{ p *pager }

func (n pagerNotes) IsTerminal() bool { return true }

func (n pagerNotes) Write(b []byte) (int, error) {
	if n.p.cmd == nil || n.p.failed || n.p.isLeft {
		return n.p.stderr.Write(b)
	}
	return n.p.Write(b)
}

// isRunnable reports whether a command can be run, as far as that is known without a shell.
func isRunnable(command string) bool {
	if strings.ContainsAny(command, `"'\$=;&|<>()`+"`") {
		return true
	}
	if _, err := exec.LookPath(command); err == nil { // of which the name has spaces, perhaps
		return true
	}
	fields := strings.Fields(command)
	if len(fields) == 0 {
		return false
	}
	_, err := exec.LookPath(fields[0])
	return err == nil
}
