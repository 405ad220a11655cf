package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/words"
)

type setupFlags struct {
	user, project, remove, yes, dryRun bool
}

func (a *app) setupCommand() *cobra.Command {
	c := &cobra.Command{Use: "setup", Short: "Have an agent record its turns", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	for _, agent := range agents.All {
		c.AddCommand(a.setupAgentCommand(agent))
	}
	return c
}

func (a *app) setupAgentCommand(agent *agents.Agent) *cobra.Command {
	var f setupFlags
	c := &cobra.Command{Use: agent.Name, Short: "Write hooks into the settings of " + agent.Title, Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.user && f.project {
				return usageError(cmd, "setup %s: --user and --project", agent.Name)
			}
			return a.setup(agent, &f)
		}}
	c.Flags().BoolVar(&f.user, "user", false, "in "+userFile(&agent.Settings)+": for all projects")
	c.Flags().BoolVar(&f.project, "project", false, "in "+agent.Settings.Project+": for all who work on the project")
	c.Flags().BoolVar(&f.remove, "remove", false, "take the hooks out again")
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
	case p.HomeVar != "":
		return name + ", or in $" + p.HomeVar
	}
	return name
}

// A setupAnswer is what setup prints as JSON.
type setupAnswer struct {
	jsonPath
	UnifiedDiff string `json:"unifiedDiff"` // "": nothing is to do
	Written     bool   `json:"written"`
}

func (a *app) setup(agent *agents.Agent, f *setupFlags) error {
	name, err := a.settingsOf(agent, f)
	if err != nil {
		return err
	}
	old, mode, err := readSettings(name)
	if err != nil {
		return err
	}
	edit := agent.RemoveHooks
	if !f.remove {
		command, err := hookCommandLine(agent)
		if err != nil {
			return err
		}
		edit = func(b []byte) ([]byte, error) { return agent.AddHooks(b, command) }
	}
	text, err := edit(old)
	if err != nil {
		return refuse("nothing was changed", "%q: %w", name, err)
	}
	if text == nil && old != nil && isLinked(name) { // what the link leads to is somebody's
		text = []byte("{}\n")
	}
	for _, c := range agent.Mixed(text) {
		a.note("left as it is: the command %s in %s", strconv.Quote(c), words.Quote(name))
	}
	if !f.remove && agent.Disabled(text) {
		a.note("no hook runs: %s says so, by %s", words.Quote(name), agent.Off())
	}
	diff := textdiff.AppendUnified(nil, settingsFile(name, old, mode), settingsFile(name, text, mode), nil)
	answer := &setupAnswer{jsonPath: newJSONPath(name), UnifiedDiff: string(diff)}
	finish := func(err error) error {
		if a.flags.json {
			return errors.Join(a.printJSON(answer), err)
		}
		return err
	}
	if len(diff) == 0 {
		a.note("nothing to do in %s", words.Quote(name))
		return finish(nil)
	}
	if !a.flags.json {
		if isTerminal(a.stdout) {
			diff = visiblePatch(diff)
		}
		a.out.Write(diff)
	}
	switch {
	case f.dryRun:
		return finish(nil)
	case mode&0o200 == 0:
		return finish(refuse("nothing was written", "%q is read-only", name))
	case f.yes:
	case !a.canAsk():
		return finish(refuse("--yes writes it", "nothing was written"))
	case !a.ask("Write %s?", words.Quote(name)):
		return finish(refuse("", "nothing was written"))
	}
	if err := writeSettings(name, old, text, mode); err != nil {
		return err
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

// settingsOf returns the file of an agent's settings that is to be changed: without flags
// that of the project which is the user's alone, or where there is none, the user's.
func (a *app) settingsOf(agent *agents.Agent, f *setupFlags) (string, error) {
	p := &agent.Settings
	if f.user || !f.project && p.Local == "" {
		dir, err := a.userDir(p)
		return filepath.Join(dir, p.User), err
	}
	root, err := a.root()
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return "", err
	}
	if f.project {
		return filepath.Join(root, filepath.FromSlash(p.Project)), nil
	}
	return filepath.Join(root, filepath.FromSlash(p.Local)), nil
}

// userDir returns the directory of a user's settings.
func (a *app) userDir(p *agents.Places) (string, error) {
	home, _ := a.home()
	from := "HOME"
	if v := a.getenv(p.HomeVar); p.HomeVar != "" && v != "" {
		home, from = v, p.HomeVar
	}
	dir := filepath.Join(home, filepath.FromSlash(p.Dir))
	if home == "" {
		dir = ""
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
		return refuse("look at it, and try again", "%q was changed meanwhile: nothing was written", name)
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
func hookCommandLine(agent *agents.Agent) (string, error) {
	rest := " hook " + agent.Name
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

var plainWord = regexp.MustCompile(`^[\w./:@%+-]+$`)

// shellWord quotes a path for a shell.
func shellWord(path string) string {
	if runtime.GOOS == "windows" { // where hooks are run by a shell of Unix, too
		return `"` + filepath.ToSlash(path) + `"`
	}
	if plainWord.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
