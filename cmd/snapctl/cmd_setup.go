package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/words"
)

type setupFlags struct {
	user, project, remove, yes, dryRun, tell bool
}

func (a *app) setupCommand() *cobra.Command {
	var list bool
	c := &cobra.Command{Use: "setup", Short: "Have an agent record its turns", Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &failure{exitUsage, fmt.Errorf("setup: unknown agent %q", args[0]),
					"'snapctl setup --list' lists the agents; 'snapctl run' records any other program"}
			}
			if list {
				return a.listAgents()
			}
			return cmd.Help()
		}}
	c.Flags().BoolVarP(&list, "list", "l", false, "which agents there are, which are here, and where they are set up")
	for _, agent := range agents.All {
		c.AddCommand(a.setupAgentCommand(agent))
	}
	return c
}

func (a *app) setupAgentCommand(agent *agents.Agent) *cobra.Command {
	var f setupFlags
	short := "Write hooks into the settings of " + agent.Title
	if !agent.HasHooks() {
		short = "Write an extension for " + agent.Title
	}
	c := &cobra.Command{Use: agent.Name, Short: short, Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.user && f.project {
				return usageError(cmd, "setup %s: --user and --project", agent.Name)
			}
			return a.setup(cmd.Context(), agent, &f)
		}}
	c.Flags().BoolVar(&f.user, "user", false, "in "+userFile(&agent.Settings)+": for all projects")
	c.Flags().BoolVar(&f.project, "project", false, "in "+agent.Settings.Project+": for all who work on the project")
	if agent.HasHooks() {
		c.Flags().BoolVar(&f.tell, "tell", false, "tell the model what was taken back since its last turn")
	}
	c.Flags().BoolVar(&f.remove, "remove", false, "take it out again")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "show the change only")
	return c
}

// userFile says where a user's settings are.
func userFile(p *agents.Places) string {
	name := path.Join("~", p.Dir, p.User)
	switch {
	case p.Var != "":
		return name + ", or $" + p.Var
	case p.Base != "":
		return name + ", or in $" + p.Base
	}
	return name
}

// A setupAnswer is what setup prints as JSON.
type setupAnswer struct {
	jsonPath
	UnifiedDiff string `json:"unifiedDiff"` // "": nothing is to do
	Written     bool   `json:"written"`
}

// A setupChange is that of a file; nil: there is none.
type setupChange struct {
	name      string
	old, text []byte
	mode      fs.FileMode
}

// diff returns what is to be done as a patch, of a file below one of dirs with its path
// from there.
func (c *setupChange) diff(dirs []string) []byte {
	name := c.name
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
			name = rel
			break
		}
	}
	return textdiff.AppendUnified(nil, settingsFile(name, c.old, c.mode), settingsFile(name, c.text, c.mode), nil)
}

// setupDiff returns changes as one patch.
func (a *app) setupDiff(changes []setupChange) string {
	root, _ := a.absRoot()
	home, _ := a.home()
	var diff []byte
	for i := range changes {
		diff = append(diff, changes[i].diff([]string{root, home})...)
	}
	return string(diff)
}

func (a *app) setup(ctx context.Context, agent *agents.Agent, f *setupFlags) error {
	name, err := a.settingsOf(agent, f)
	if err != nil {
		return err
	}
	changes, err := a.setupChanges(agent, name, f)
	if err != nil {
		return err
	}
	answer := &setupAnswer{jsonPath: newJSONPath(name), UnifiedDiff: a.setupDiff(changes)}
	finish := func(err error) error {
		if a.flags.json {
			return errors.Join(a.printJSON(answer), err)
		}
		return err
	}
	if answer.UnifiedDiff == "" {
		a.note("nothing to do in %s", words.Quote(name))
		return finish(nil)
	}
	if !a.flags.json {
		a.showChanges(agent, changes, []byte(answer.UnifiedDiff))
	}
	for i := range changes {
		if c := &changes[i]; c.mode&0o200 == 0 && !f.dryRun {
			return finish(refuse("nothing was written", "%q is read-only", c.name))
		}
	}
	switch {
	case f.dryRun:
		return finish(nil)
	case f.yes:
	case !a.canAsk():
		return finish(refuse("--yes writes it", "nothing was written"))
	case !a.ask(ctx, "Write %s?", words.Quote(name)):
		return finish(refuse("", "nothing was written"))
	}
	for i := range changes {
		c := &changes[i]
		if err := writeSettings(c.name, c.old, c.text, c.mode); err != nil {
			return finish(err)
		}
		if dir := filepath.Dir(c.name); c.text == nil && filepath.Base(dir) == ownDir {
			os.Remove(dir) // if it was the last
		}
	}
	answer.Written = true
	if f.remove {
		a.note("%s records nothing from its next start on", agent.Title)
	} else {
		a.note("%s records its turns from its next start on; 'snapctl log' lists them", agent.Title)
		for _, line := range agent.Notes {
			a.note("%s", line)
		}
	}
	return finish(nil)
}

// ownDir is the name of a directory that has files of ours only.
const ownDir = "filestore"

// showChanges prints what is to be done: a diff of settings; files that are ours alone
// are in the repository, and named.
func (a *app) showChanges(agent *agents.Agent, changes []setupChange, diff []byte) {
	if agent.HasHooks() {
		root, _ := a.absRoot()
		if rel, err := filepath.Rel(root, changes[0].name); err != nil || !filepath.IsLocal(rel) {
			a.note("what changes in %s:", words.Quote(changes[0].name))
		}
		if isTerminal(a.stdout) {
			diff = visiblePatch(diff)
		}
		a.out.Write(diff)
		return
	}
	for i := range changes {
		switch c := &changes[i]; {
		case c.text == nil:
			fmt.Fprintf(a.out, "D %s\n", words.Quote(c.name))
		case c.old == nil:
			fmt.Fprintf(a.out, "A %s\n", words.Quote(c.name))
		default:
			fmt.Fprintf(a.out, "M %s\n", words.Quote(c.name))
		}
	}
}

// setupChanges returns what is to be done in the file of an agent's settings, or below
// their directory, and says what is left as it is.
func (a *app) setupChanges(agent *agents.Agent, place string, f *setupFlags) ([]setupChange, error) {
	if agent.HasHooks() {
		c, err := a.hookChange(agent, place, f)
		if err != nil || bytes.Equal(c.old, c.text) && (c.old == nil) == (c.text == nil) {
			return nil, err
		}
		return []setupChange{c}, nil
	}
	var changes []setupChange
	users := make(map[string]bool) // directories of ours that have a file of the user's
	for _, own := range agent.Own() {
		c := setupChange{name: filepath.Join(place, filepath.FromSlash(own.Path))}
		var err error
		if c.old, c.mode, err = readSettings(c.name); err != nil {
			return nil, err
		}
		if !f.remove {
			c.text = own.Text
		}
		switch {
		case c.old == nil && c.text == nil, bytes.Equal(c.old, c.text) && c.old != nil:
			continue
		case c.old != nil && !agents.IsOwn(c.old):
			a.note("left as it is: %s is yours, or changed by you", words.Quote(c.name))
			users[filepath.Dir(c.name)] = true
			continue
		}
		changes = append(changes, c)
	}
	// The files of one directory are one program: the user's needs those that it has.
	return slices.DeleteFunc(changes, func(c setupChange) bool {
		dir := filepath.Dir(c.name)
		left := c.old != nil && users[dir] && filepath.Base(dir) == ownDir
		if left {
			a.note("left with it: %s", words.Quote(c.name))
		}
		return left
	}), nil
}

// hookChange returns what is to be done in a file of settings with hooks.
func (a *app) hookChange(agent *agents.Agent, name string, f *setupFlags) (c setupChange, err error) {
	c.name = name
	if c.old, c.mode, err = readSettings(name); err != nil {
		return c, err
	}
	edit := agent.RemoveHooks
	if !f.remove {
		command, err := hookCommandLine(agent, f.tell)
		if err != nil {
			return c, err
		}
		edit = func(b []byte) ([]byte, error) { return agent.AddHooks(b, command) }
	}
	if c.text, err = edit(c.old); err != nil {
		return c, refuse("nothing was changed", "%q: %w", name, err)
	}
	if c.text == nil && c.old != nil && isLinked(name) { // what the link leads to is somebody's
		c.text = []byte("{}\n")
	}
	for _, command := range agent.Mixed(c.text) {
		a.note("left as it is: the command %s in %s", strconv.Quote(command), words.Quote(name))
	}
	if !f.remove && agent.Disabled(c.text) {
		a.note("no hook runs: %s says so, by %s", words.Quote(name), agent.Off())
	}
	return c, nil
}

// settingsOf returns the file of an agent's settings that is to be changed: without flags
// that of the project which is the user's alone, or where there is none, the user's.
func (a *app) settingsOf(agent *agents.Agent, f *setupFlags) (string, error) {
	p := &agent.Settings
	if f.user || !f.project && p.Local == "" {
		dir, err := a.userDir(p)
		return filepath.Join(dir, p.User), err
	}
	root, err := a.absRoot()
	if err != nil {
		return "", err
	}
	if f.project {
		return filepath.Join(root, filepath.FromSlash(p.Project)), nil
	}
	return filepath.Join(root, filepath.FromSlash(p.Local)), nil
}

// absRoot returns the root of the project, as a path from that of the disk.
func (a *app) absRoot() (string, error) {
	root, err := a.root()
	if err == nil {
		root, err = filepath.Abs(root)
	}
	return root, err
}

// userDir returns the directory of a user's settings.
func (a *app) userDir(p *agents.Places) (string, error) {
	home, _ := a.home()
	dir, from := filepath.Join(home, filepath.FromSlash(p.Dir)), "HOME"
	if home == "" {
		dir = ""
	}
	if v := a.getenv(p.Base); p.Base != "" && v != "" {
		dir, from = filepath.Join(v, p.Below), p.Base
	}
	if v := a.getenv(p.Var); p.Var != "" && v != "" {
		dir, from = v, p.Var
	}
	switch {
	case dir == "":
		return "", &failure{code: exitUsage, err: errors.New("no place for settings: HOME is not set")}
	case !filepath.IsAbs(dir):
		return "", &failure{code: exitUsage, err: fmt.Errorf("no place for settings: %s is not absolute: %q", from,
			a.getenv(from))}
	}
	return dir, nil
}

// readSettings reads a file of settings; nil and its mode to be if it does not
// exist.
func readSettings(name string) ([]byte, fs.FileMode, error) {
	st, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(name); lerr == nil { // a link that leads nowhere
			return nil, 0, err
		}
		return nil, 0o644, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, refuse("", "%q: not a file", name)
	}
	b, err := os.ReadFile(name)
	if b == nil {
		b = []byte{}
	}
	return b, st.Mode().Perm(), err
}

// isLinked reports whether the file, or the directory that it is in, is a symbolic
// link.
func isLinked(name string) bool {
	for _, p := range []string{name, filepath.Dir(name)} {
		if st, err := os.Lstat(p); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// settingsFile returns a side of the diff.
func settingsFile(name string, text []byte, mode fs.FileMode) textdiff.File {
	f := textdiff.File{Name: strings.TrimPrefix(filepath.ToSlash(name), "/"), Content: text}
	if text != nil {
		f.Mode = 0o100000 | uint32(mode)
	}
	return f
}

// writeSettings puts text in the place of a file, nil removes it. It refuses if
// the file is not as it was. Where the name is a link, the file that it leads to
// is replaced.
func writeSettings(name string, old, text []byte, mode fs.FileMode) error {
	now, _, err := readSettings(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, old) || (now == nil) != (old == nil) {
		return refuse("look at it, and try again", "another program changed %q just now: nothing was written", name)
	}
	if now != nil {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	if text == nil {
		return os.Remove(name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".snapctl-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // which is gone if it was renamed
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// hookCommandLine returns what a shell is to run for a hook: this program, by its
// name if that is enough. A hook that ends with 2 forbids the tool, and so ends Go's
// runtime where there is no memory, say. On Windows the shell may be one that does
// not know "||" or "true", and would never run the hook.
func hookCommandLine(agent *agents.Agent, tell bool) (string, error) {
	rest := " hook " + agent.Name
	if tell {
		rest += agents.TellFlag
	}
	if runtime.GOOS != "windows" {
		rest += " || true"
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath("snapctl"); err == nil && isSameFile(found, self) {
		return "snapctl" + rest, nil
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") { // of go run, which throws it away
		return "", refuse("go install ./cmd/snapctl",
			"this program is not installed: %q may be gone when a hook is to run", self)
	}
	command := shellWord(self) + rest
	if !agent.IsOurs(command) {
		return "", refuse("", "this program is %q: it must be called snapctl to be found again", self)
	}
	return command, nil
}

func isSameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

var plainWord = words.Pattern(`^[\w./:@%+-]+$`)

// shellWord quotes a path for a shell.
func shellWord(path string) string {
	if runtime.GOOS == "windows" { // where hooks are run by a shell of Unix, too
		return `"` + filepath.ToSlash(path) + `"`
	}
	if plainWord().MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
