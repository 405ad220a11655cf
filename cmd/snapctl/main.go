// Command snapctl takes snapshots of a directory and shows what is in them.
//
// It is thin: a command parses its arguments, makes a few calls to the
// packages below and prints. Whatever those may not know is read here: flags,
// environment, home directory, terminal. What it promises to its users is in
// docs/reference/cli.md.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
)

func main() {
	collectLate()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) int {
	return newApp(args, stdin, stdout, stderr, getenv).run(ctx)
}

// withHome returns getenv for which HOME is set on Windows, too.
func withHome(getenv func(string) string) func(string) string {
	if runtime.GOOS != "windows" {
		return getenv
	}
	return func(name string) string {
		if value := getenv(name); name != "HOME" || value != "" {
			return value
		}
		return getenv("USERPROFILE")
	}
}

func newApp(args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) *app {
	return &app{args: args, out: bufio.NewWriterSize(stdout, 64<<10), stdin: stdin, stdout: stdout, stderr: stderr,
		getenv: withHome(getenv), nears: new(nears)}
}

// run executes the command line.
func (a *app) run(ctx context.Context) int {
	ctx = cas.WithFetcher(ctx, a.fetcher())
	root := a.rootFor(a.args)
	root.SetArgs(withLimit(root, a.args))
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	c, err := root.ExecuteContextC(ctx)
	if _, ok := errors.AsType[*failure](err); err != nil && !ok && !a.prepared {
		err = usageError(root, "%w", err) // cobra's own: no command has run
	}
	if !a.prepared {
		a.storeTyped, a.sessionTyped = a.flags.store != "", a.flags.session != ""
	}
	if flushErr := a.out.Flush(); flushErr != nil && (err == nil || failureOf(err).err == nil) {
		err = fmt.Errorf("write output: %w", flushErr)
	}
	if err = cmp.Or(a.interrupted, err); errors.Is(err, context.Canceled) {
		if _, ok := errors.AsType[*failure](err); !ok {
			err = interrupted(strings.TrimPrefix(c.CommandPath(), root.Name()+" "), err)
		}
	}
	if isHook(c, a.args) {
		if err != nil && a.getenv("SNAPCTL_DEBUG") != "" {
			a.report(err)
		}
		return exitDone
	}
	return a.report(err)
}

// An app is what all commands share.
type app struct {
	args           []string
	cwd            string          // that paths are relative to; default: this process's
	engine         *manager.Engine // that this process has, if it stays
	out            *bufio.Writer   // over stdout
	stdin          *os.File        // answers questions if it is a terminal
	stdout, stderr io.Writer
	columns, rows  int // of the terminal to which another process prints stdout; 0: not known
	getenv         func(string) string
	log            *slog.Logger
	warner         *warner // that log writes to, once a command runs
	colour         bool    // on stdout
	prepared       bool    // a command has begun to run
	interrupted    error   // why a question was not answered: the command's context has ended
	storeTyped     bool    // --store was given
	sessionTyped   bool    // --session was given, and not only BOO_SESSION
	badConfig      error   // what is wrong with the configuration

	settings map[string]settingValue // by key, once they were read
	nears    *nears
	cache    string      // near cache that clone --cache names
	cloned   *lines.Repo // what clone has opened; nil: nothing

	located   *places.Location // of the directory, once it was found
	locatedOf string           // its --root

	flags struct {
		store, root, session, sessionFile, color, progress string
		json, quiet, noPager                               bool
	}
}

// rootFor returns the command with that one below it that a command line names first; all of them,
// if it names none, or one that needs the others. To make them all takes longer than most hooks do.
func (a *app) rootFor(args []string) *cobra.Command {
	root := a.rootAlone()
	rest := args
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		name, _, hasValue := strings.Cut(rest[0], "=")
		if name = strings.TrimLeft(name, "-"); root.PersistentFlags().Lookup(name) == nil && name != "q" {
			return a.rootCommand()
		}
		if !hasValue && takesNext(root, rest[0]) {
			rest = rest[1:]
		}
		rest = rest[min(1, len(rest)):]
	}
	if len(rest) == 0 || rest[0] == manCommandName {
		return a.rootCommand()
	}
	for _, group := range a.commands() {
		for _, c := range group.commands {
			if c.name == rest[0] {
				root.AddCommand(c.make())
				root.CompletionOptions.DisableDefaultCmd = true
				return root
			}
		}
	}
	return a.rootCommand()
}

// rootCommand returns the command with all that are below it.
func (a *app) rootCommand() *cobra.Command {
	root := a.rootAlone()
	for _, group := range a.commands() {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, c := range group.commands {
			made := c.make()
			made.GroupID = group.title
			root.AddCommand(made)
		}
	}
	root.SetCompletionCommandGroupID(careTitle)
	root.AddCommand(helpTopics()...)
	addHelp(root, root.Name())
	root.SetHelpCommand(helpCommand())
	a.addCompletion(root)
	return root
}

// rootAlone returns the command without those below it, which take its flags.
func (a *app) rootAlone() *cobra.Command {
	var isVersion bool
	root := &cobra.Command{
		Use:           "snapctl",
		Short:         "Snapshots of a directory, whatever is in it",
		Args:          a.noCommand,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isVersion {
				return a.version()
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
	}
	root.Flags().BoolVarP(&isVersion, "version", "v", false, "print the version, as 'snapctl version' does")
	f := root.PersistentFlags()
	f.StringVar(&a.flags.store, "store", "", "keep stores in `DIR` (default $BOO_STORE or ~/.boo/file-store)")
	f.StringVar(&a.flags.root, "root", "", "work on `DIR` (default: the git repository around here, or this directory)")
	f.StringVar(&a.flags.session, "session", "",
		"conversation `ID` that snapshots belong to (default $BOO_SESSION or the newest)")
	f.StringVar(&a.flags.sessionFile, "session-file", "", "read the conversation from pi's log `FILE`")
	f.StringVar(&a.flags.color, "color", "auto", "colour the output: `WHEN` is auto, always or never")
	f.BoolVar(&a.flags.json, "json", false, "print JSON")
	f.StringVar(&a.flags.progress, "progress", progressAuto,
		"show how far long work is: `HOW` is auto (a line on a terminal), json or none")
	f.Lookup("progress").NoOptDefVal = progressJSON
	f.BoolVar(&a.flags.noPager, "no-pager", false, "print to the terminal, and not through a pager")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "print results and errors only")
	root.SetFlagErrorFunc(a.badFlag)
	root.SetUsageFunc(printUsage)
	a.pageHelp(root)
	return root
}

// A commandGroup is commands under one heading of the help.
type commandGroup struct {
	title    string
	commands []namedCommand
}

// A namedCommand is a command that is made when it is needed.
type namedCommand struct {
	name string
	make func() *cobra.Command
}

const careTitle = "Care"

func (a *app) commands() []commandGroup {
	return []commandGroup{
		{"Take", []namedCommand{{"setup", a.setupCommand}, {"snapshot", a.snapshotCommand}, {"run", a.runCommand},
			{"tag", a.tagCommand}}},
		{"Go back", []namedCommand{{"restore", a.restoreCommand}, {"revert", a.revertCommand}, {"undo", a.undoCommand},
			{"redo", a.redoCommand}, {"navigate", a.navigateCommand}, {"pick", a.pickCommand}}},
		{"Edit", []namedCommand{{"patch", a.patchCommand}}},
		{"Look", []namedCommand{{"status", a.statusCommand}, {"diff", a.diffCommand}, {logCommandName, a.logCommand},
			{"show", a.showCommand}, {"find", a.findCommand}, {"blame", a.blameCommand}, {"bisect", a.bisectCommand},
			{"sessions", a.sessionsCommand}, {"whereis", a.whereisCommand}, {"ls", a.lsCommand}, {"cat", a.catCommand},
			{"export", a.exportCommand}, {"coverage", a.coverageCommand}, {"timeline", a.timelineCommand}}},
		{"Share", []namedCommand{{"remote", a.remoteCommand}, {"clone", a.cloneCommand}}},
		{"Serve", []namedCommand{{"serve", a.serveCommand}, {"rpc", a.rpcCommand}, {"mcp", a.mcpCommand},
			{hookCommandName, a.hookCommand}}},
		{careTitle, []namedCommand{{"check", a.checkCommand}, {"repair", a.repairCommand},
			{"prune", a.pruneCommand}, {"compact", a.compactCommand}, {"forget", a.forgetCommand},
			{"adopt", a.adoptCommand}, {"stores", a.storesCommand}, {"stats", a.statsCommand}, {"du", a.duCommand},
			{configCommandName, a.configCommand}, {manCommandName, a.manCommand}, {"version", a.versionCommand}}},
	}
}

// args requires a number of arguments.
func args(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usageError(cmd, "%s: too few arguments", cmd.Name())
		case len(args) > max:
			return usageError(cmd, "%s: too many arguments: %q", cmd.Name(), args[max])
		}
		return nil
	}
}

// noCommand is reached with arguments only if the first is no command.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := &failure{exitUsage, fmt.Errorf("unknown command %q", args[0]), "see 'snapctl --help'"}
	cmd.SuggestionsMinimumDistance = 2
	if here := habits[args[0]]; here != "" {
		err.hint = here
	} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err.hint = fmt.Sprintf("did you mean '%s'?", strings.Join(near, "' or '"))
	}
	return err
}

// badFlag is reached with words that stand before the flag only if the first is no command:
// the flag may be one of what it is elsewhere.
func (a *app) badFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); !cmd.HasParent() && len(words) > 0 {
		return a.noCommand(cmd, words)
	}
	return usageError(cmd, "%v", err)
}

// noPrompts reports whether the user wants no prompts to be kept, or may want that.
func (a *app) noPrompts() bool { return !a.isOn("prompts") || a.badConfig != nil }

// prepare reads the configuration once the flags are known.
func (a *app) prepare(cmd *cobra.Command) error {
	a.prepared = true
	a.stderr = &statusWriter{w: a.stderr}
	a.badConfig = a.loadSettings(cmd)
	a.storeTyped = a.flags.store != ""
	if v := a.settings["store"]; v.from != byDefault {
		a.flags.store = v.text
		if below, ok := strings.CutPrefix(v.text, "~/"); ok && v.isInFile() {
			a.flags.store = filepath.Join(a.getenv("HOME"), below)
		}
	}
	if a.sessionTyped = a.flags.session != ""; !a.sessionTyped {
		a.flags.session = a.getenv("BOO_SESSION")
	}
	a.colour = a.onTerminal("color", a.getenv("TERM") != "dumb")
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	stays := slices.Contains([]string{"serve", "rpc", "mcp"}, cmd.Name())
	a.warner = &warner{app: a, stays: stays, lists: cmd.Name() == "check", said: make(map[string]bool)}
	a.log = slog.New(a.warner)
	if a.getenv("SNAPCTL_DEBUG") != "" {
		a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if s := a.flags.session; s != "" && !session.ValidID(s) {
		return &failure{code: exitUsage,
			err: fmt.Errorf("session %q: want 1 to 128 letters, digits, dots, dashes and underscores", s)}
	}
	if how := a.flags.progress; how != progressAuto && how != progressJSON && how != progressNone {
		return &failure{code: exitUsage, err: fmt.Errorf("--progress %q: want auto, json or none", how)}
	}
	switch name := cmd.Name(); {
	case a.badConfig == nil || slices.Contains([]string{configCommandName, "version", "help", "completion"}, name):
	case name == hookCommandName: // which says it elsewhere
	case stays: // what an agent does is to be recorded
		a.log.Warn("the configuration", "err", a.badConfig)
	default:
		return a.badConfig
	}
	return nil
}

// onTerminal returns whether a setting of whenKind is on; of auto it is where stdout is a
// terminal that can do it.
func (a *app) onTerminal(key string, can bool) bool {
	when := a.setting(key)
	return when == "always" || when == "auto" && can && isTerminal(a.stdout)
}
