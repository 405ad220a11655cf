package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/words"
)

// canAsk reports whether there is somebody who can answer.
func (a *app) canAsk() bool {
	return !a.flags.json && !a.flags.quiet && isTerminal(a.stderr) && a.stdin != nil && isTerminal(a.stdin)
}

// ask asks a question, whose answer is no unless it is yes.
func (a *app) ask(ctx context.Context, format string, args ...any) bool {
	answer, ok := a.answer(ctx, format+" [y/N] ", args...)
	answer = strings.ToLower(answer)
	return ok && (answer == "y" || answer == "yes")
}

// choose asks for one of n things that were listed, by its number from 1. Not
// ok: none was chosen.
func (a *app) choose(ctx context.Context, n int, format string, args ...any) (i int, ok bool) {
	answer, ok := a.answer(ctx, format+" [1-"+strconv.Itoa(n)+"] ", args...)
	i, err := strconv.Atoi(answer)
	return i - 1, ok && err == nil && i >= 1 && i <= n
}

// answer asks for a line. Not ok: there is none. Where ctx has ended, as by Ctrl-C, the
// command was interrupted, whatever error it makes of it.
func (a *app) answer(ctx context.Context, format string, args ...any) (line string, ok bool) {
	a.out.Flush()
	fmt.Fprintf(a.stderr, format, args...)
	type answered struct {
		line string
		ok   bool
	}
	got := make(chan answered, 1)
	go func() { // nothing ends it but a line; the process is about to
		line, ok := a.readLine()
		got <- answered{line, ok}
	}()
	select {
	case it := <-got:
		return it.line, it.ok
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		a.interrupted = ctx.Err()
		return "", false
	}
}

// readLine reads what somebody types.
func (a *app) readLine() (line string, ok bool) {
	var b [1]byte // one by one: what comes after the line answers the next question
	for {
		if n, err := a.stdin.Read(b[:]); n == 0 || err != nil {
			return "", false
		}
		if b[0] == '\n' {
			return strings.TrimSpace(line), true
		}
		line += string(b[:])
	}
}

// confirm asks before what cannot be undone. Where nobody can answer, -y has to
// be typed.
func (a *app) confirm(cmd *cobra.Command, name, what, question string) error {
	if !a.canAsk() {
		return &failure{exitUsage, fmt.Errorf("%s: %s, which cannot be undone: -y is needed", name, what),
			fmt.Sprintf("-n lists it; to do it: %s", a.commandAfter(cmd.Name(), "-y"))}
	}
	if !a.ask(cmd.Context(), "It cannot be undone. %s", question) {
		return refuse("", "%s: nothing was changed", name)
	}
	return nil
}

// snapctl returns the begin of a command line, for a shell, about the store and the directory that
// were named.
func (a *app) snapctl() string {
	line := "snapctl" + a.storeFlag()
	if a.flags.root != "" {
		line += " --root " + words.ShellQuote(a.flags.root)
	}
	return line
}

func (a *app) storeFlag() string {
	if !a.storeTyped {
		return ""
	}
	return " --store " + words.ShellQuote(a.flags.store)
}

// inSession are the commands that do something else without the --session that was given.
var inSession = strings.Fields("snapshot run tag restore revert undo redo navigate pick patch status diff log show " +
	"blame bisect ls cat export coverage")

// quotedCommand is a command in a text for people, up to its second quote.
var quotedCommand = words.Pattern(`'snapctl [^']*`)

// typed returns a text for people whose commands, as 'snapctl log', have the --store, --root and
// --session that were given to this one: typed in, they are about the same.
func (a *app) typed(text string) string {
	if !a.storeTyped && a.flags.root == "" && !a.sessionTyped {
		return text
	}
	return quotedCommand().ReplaceAllStringFunc(text, func(command string) string {
		rest := strings.TrimPrefix(command, "'snapctl ")
		name, _, _ := strings.Cut(rest, " ")
		switch {
		case name == "--root": // of which it speaks
			return "'snapctl" + a.storeFlag() + " " + rest
		case strings.HasSuffix(rest, "--help") || !a.hasCommand(name):
			return command
		}
		line := "'" + a.snapctl()
		if a.sessionTyped && slices.Contains(inSession, name) && !strings.Contains(rest, "--session") {
			line += " --session " + a.flags.session
		}
		return line + " " + rest
	})
}

// hasCommand reports whether there is a command of this name.
func (a *app) hasCommand(name string) bool {
	return slices.ContainsFunc(a.commands(), func(g commandGroup) bool {
		return slices.ContainsFunc(g.commands, func(c namedCommand) bool { return c.name == name })
	})
}

// commandAfter returns the command line, for a shell, with a flag put in after the
// name of the command.
func (a *app) commandAfter(name, flag string) string {
	line, done := "snapctl", false
	for _, arg := range a.args {
		if line += " " + words.ShellQuote(arg); arg == name && !done {
			line, done = line+" "+flag, true
		}
	}
	return line
}
