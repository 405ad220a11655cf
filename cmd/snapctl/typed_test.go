package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/words"
)

// scriptVariable is set where a script of TestScript runs a command.
const scriptVariable = "SNAPCTL_OF_SCRIPT"

// notTyped are the commands that mainOfScript leaves alone: what they do, or print, is about where
// stores are by default, is read while they run, or is another program's.
var notTyped = strings.Fields(
	"config setup hook serve rpc mcp run clone timeline completion __complete help man version")

// mainOfScript is main, of which a script fails where a command is printed that lacks the --store or
// the --root that was given: who types it in would do something else. Where a script gives no --store,
// one that changes nothing is put in, and taken out of what is printed.
func mainOfScript() {
	args := os.Args[1:]
	store := os.Getenv("BOO_STORE")
	if home := os.Getenv("HOME"); store == "" && filepath.IsAbs(home) {
		store = filepath.Join(home, ".boo", "file-store")
	}
	name, flags := globalFlags(args)
	_, noConfig := os.Stat(filepath.Join(os.Getenv("HOME"), ".config", "snapctl", "config.toml")) // it may say where
	isHelp := slices.Contains(args, "--help") || slices.Contains(args, "-h")
	if os.Getenv(scriptVariable) == "" || name == "" || slices.Contains(notTyped, name) || isHelp || store == "" ||
		noConfig == nil || isTerminal(os.Stdin) || isTerminal(os.Stdout) || isTerminal(os.Stderr) {
		main()
		return
	}
	ours := ""
	if !slices.Contains(flags, "--store") {
		args = append([]string{"--store", store}, args...)
		ours = " --store " + words.ShellQuote(store)
		flags = append(flags, "--store")
	}
	collectLate()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &typedWriter{w: os.Stdout, flags: flags, ours: ours}
	stderr := &typedWriter{w: os.Stderr, flags: flags, ours: ours}
	code := run(ctx, args, os.Stdin, out, stderr, os.Getenv)
	for _, command := range slices.Concat(out.end(), stderr.end()) {
		fmt.Fprintf(os.Stderr, "a command is printed without one of %q: %s\n", flags, command)
		code = 98
	}
	os.Exit(code)
}

// A typedWriter writes lines on without ours, and knows the commands in them that lack one of flags.
type typedWriter struct {
	w     io.Writer
	flags []string
	ours  string

	mu   sync.Mutex // guards the rest
	rest []byte     // of a line
	lack []string
}

func (t *typedWriter) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, b...)
	n := bytes.LastIndexByte(t.rest, '\n') + 1
	err := t.pass(string(t.rest[:n]))
	t.rest = t.rest[n:]
	return len(b), err
}

func (t *typedWriter) pass(text string) error {
	t.lack = append(t.lack, lacking(text, t.flags)...)
	_, err := io.WriteString(t.w, strings.ReplaceAll(text, t.ours, ""))
	return err
}

func (t *typedWriter) end() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(string(t.rest))
	return t.lack
}

// globalFlags returns the command that is called, and which of --store and --root come before it.
func globalFlags(args []string) (name string, flags []string) {
	for i := 0; i < len(args); i++ {
		flag, _, hasValue := strings.Cut(args[i], "=")
		switch {
		case flag == "--store" || flag == "--root":
			flags = append(flags, flag)
		case !strings.HasPrefix(flag, "-"):
			return flag, flags
		}
		if !hasValue && slices.Contains([]string{"--store", "--root", "--session", "--session-file", "--color"}, flag) {
			i++
		}
	}
	return "", nil
}

// aCommand is a command line, or its begin, as it is printed for the user.
var aCommand = words.Pattern(`\bsnapctl((?: --[a-z]+ (?:'[^']*'|[^' ]+))*) ([a-z]+)\b[^'\n]*`)

// lacking returns the commands in a text that lack one of the flags.
func lacking(text string, flags []string) (list []string) {
	for _, m := range aCommand().FindAllStringSubmatch(text, -1) {
		for _, flag := range flags {
			isHelp := strings.Contains(m[0], " --help")
			if new(app).hasCommand(m[2]) && !isHelp && !strings.Contains(m[1]+" ", " "+flag+" ") {
				list = append(list, m[0])
				break
			}
		}
	}
	return list
}

// TestLacking: the check of scripts sees what it is to see.
func TestLacking(t *testing.T) {
	both := []string{"--store", "--root"}
	for text, n := range map[string]int{
		"'snapctl log' lists them":                                  1,
		"'snapctl --store s log' lists them":                        1,
		"'snapctl --store s --root r log', 'snapctl undo'":          1,
		"'snapctl --store 'a b' --root r --session s log' lists":    0,
		"to do it: snapctl --root r --store s restore @ -- f":       0,
		"to do it: snapctl restore @ -- f":                          1,
		"snapctl: restore: nothing; see 'snapctl log --help'":       0,
		"a snapctl that is newer; 'snapctl --store DIR …' keeps it": 0,
	} {
		if got := lacking(text, both); len(got) != n {
			t.Errorf("%s: %q, want %d", text, got, n)
		}
	}
}
