package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/configfile"
	"github.com/boocode/filestore/internal/words"
)

const configCommandName = "config"

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: configCommandName, Short: "Show and change the configuration",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	key := func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeSettings(args), cobra.ShellCompDirectiveNoFileComp
	}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List each key, its value and where that is from",
			Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return a.listConfig() }},
		&cobra.Command{Use: "get KEY", Short: "Print the value of a key",
			Args: args(1, 1), ValidArgsFunction: key,
			RunE: func(_ *cobra.Command, args []string) error { return a.getConfig(args[0]) }},
		&cobra.Command{Use: "set KEY VALUE", Short: "Write the value of a key into the file",
			Args: args(2, 2), ValidArgsFunction: key,
			RunE: func(_ *cobra.Command, args []string) error { return a.setConfig(args[0], args[1]) }},
		&cobra.Command{Use: "edit", Short: "Open the file in $VISUAL or $EDITOR",
			Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return a.editConfig() }},
		&cobra.Command{Use: "path", Short: "Print where the file is, or would be",
			Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return a.printConfigPath() }})
	return c
}

// completeSettings completes a key, and then its value.
func completeSettings(args []string) (list []cobra.Completion) {
	switch len(args) {
	case 0:
		for _, s := range settings {
			list = append(list, cobra.CompletionWithDesc(s.key, s.doc))
		}
	case 1:
		if s := settingNamed(args[0]); s != nil {
			list = s.kind.values
		}
	}
	return list
}

// A jsonSetting is a setting in JSON.
type jsonSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func (a *app) listConfig() error {
	if a.badConfig != nil {
		return a.badConfig
	}
	list := []jsonSetting{}
	keyWidth, valueWidth := 0, 0
	for _, s := range settings {
		v := a.settings[s.key]
		list = append(list, jsonSetting{s.key, v.text, v.from})
		keyWidth, valueWidth = max(keyWidth, len(s.key)), max(valueWidth, len(v.text))
	}
	if a.flags.json {
		return a.printJSON(struct {
			Settings []jsonSetting `json:"settings"`
		}{list})
	}
	for _, s := range list {
		from := s.From
		if from == byDefault {
			from = a.paint(asFaded, from)
		}
		fmt.Fprintf(a.out, "%s  %-*s  %s\n", a.paint(asName, fmt.Sprintf("%-*s", keyWidth, s.Key)),
			min(valueWidth, 40), words.Quote(s.Value), from)
	}
	return nil
}

// knownSetting returns the setting that a key names.
func knownSetting(key string) (*setting, error) {
	if s := settingNamed(key); s != nil {
		return s, nil
	}
	return nil, &failure{exitUsage, fmt.Errorf("config: unknown key %q", key), hintKey(key)}
}

func (a *app) getConfig(key string) error {
	s, err := knownSetting(key)
	if err == nil {
		err = a.badConfig
	}
	if err != nil {
		return err
	}
	v := a.settings[s.key]
	if a.flags.json {
		return a.printJSON(jsonSetting{s.key, v.text, v.from})
	}
	fmt.Fprintln(a.out, v.text)
	return nil
}

func (a *app) setConfig(key, text string) error {
	s, err := knownSetting(key)
	if err != nil {
		return err
	}
	value, ok := s.kind.read(text)
	want := s.kind.want
	if ok && !utf8.ValidString(value) { // which the file cannot hold
		ok, want = false, "UTF-8"
	}
	if !ok {
		return &failure{code: exitUsage, err: fmt.Errorf("config: %s %q: want %s", key, text, want)}
	}
	name, was, err := a.configText()
	if err != nil {
		return err
	}
	file, err := configfile.Parse(was)
	if err != nil {
		_, err = parseConfig(name, was)
		return err
	}
	table, last, isIn := strings.Cut(key, ".")
	if !isIn {
		table, last = "", key
	}
	is, err := file.Set(table, last, value)
	if err != nil {
		return refuse(hintConfig, "%s: %w", words.Quote(name), err)
	}
	if err := writeConfig(name, is); err != nil {
		return err
	}
	if v := a.settings[s.key]; v.from != byDefault && !v.isInFile() && v.from != "$"+s.weak {
		a.note("%s says otherwise, and goes before the file: %s", v.from, words.Quote(v.text))
	}
	return nil
}

// configText returns the name of the user's file, and what it holds; nothing, if it is not
// there. Of a symbolic link it is the file to which that leads.
func (a *app) configText() (name string, text []byte, err error) {
	if name, err = a.configPath(); err != nil {
		return "", nil, err
	}
	name = linkedFile(name)
	text, err = readConfigFile(name)
	return name, text, err
}

// linkedFile returns the file to which a symbolic link leads, which need not be there yet; of any
// other name, and of links that lead in a circle, a name of the same thing.
func linkedFile(name string) string {
	const most = 40 // as Linux has it
	for range most {
		dir := filepath.Dir(name)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		name = filepath.Join(dir, filepath.Base(name))
		to, err := os.Readlink(name)
		switch {
		case err != nil:
			return name
		case filepath.IsAbs(to):
			name = to
		default:
			name = filepath.Join(dir, to)
		}
	}
	return name
}

// readConfigFile returns what a file of the configuration holds; nil, if there is none. What is
// no file, as a pipe or a device, is neither waited for nor replaced.
func readConfigFile(name string) (text []byte, err error) {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !st.Mode().IsRegular():
		err = fmt.Errorf("%q is no file", name)
	case err == nil:
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, &failure{exitEnvironment, fmt.Errorf("configuration: %w", err),
			"HOME, or XDG_CONFIG_HOME, says where it is: it may be that of another user"}
	}
	return text, nil
}

// writeConfig puts a text in the place of a file, as a whole.
func writeConfig(name string, text []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	mode := fs.FileMode(0o644)
	if st, err := os.Stat(name); err == nil {
		mode = st.Mode().Perm()
	}
	f, err := os.CreateTemp(dir, ".config-*.toml")
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// editConfig has the user edit the file. One that is not there begins with all keys, in
// comments.
func (a *app) editConfig() error {
	name, text, err := a.configText()
	if err != nil {
		return err
	}
	if text == nil {
		if err := writeConfig(name, []byte(configTemplate())); err != nil {
			return err
		}
	}
	editor := a.getenv("VISUAL")
	if editor == "" {
		editor = a.getenv("EDITOR")
	}
	switch {
	case editor != "":
	case runtime.GOOS == "windows":
		editor = "notepad"
	default:
		editor = "vi"
	}
	a.out.Flush()
	c := shellCommand(editor, name)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, a.stdout, a.stderr.(*statusWriter).w // an editor wants the terminal
	if err := c.Run(); err != nil {
		return &failure{exitEnvironment, fmt.Errorf("editor %q: %w", editor, err), "VISUAL or EDITOR names another"}
	}
	if text, err = readConfigFile(name); err != nil {
		return err
	}
	_, err = parseConfig(name, text)
	return err
}

// configTemplate is what a new file holds.
func configTemplate() string {
	var b strings.Builder
	b.WriteString("# What snapctl does, where no flag and no variable says otherwise: see 'snapctl help config'.\n")
	table := ""
	for _, s := range settings {
		name := s.key
		if before, last, isIn := strings.Cut(s.key, "."); isIn {
			if name = last; before != table {
				fmt.Fprintf(&b, "\n[%s]\n", before)
				table = before
			}
		}
		fmt.Fprintf(&b, "\n# %s\n# %s = %s\n", s.doc, name, configfile.Literal(s.def))
	}
	return b.String()
}

func (a *app) printConfigPath() error {
	name, err := a.configPath()
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(newJSONPath(name))
	}
	fmt.Fprintln(a.out, words.Quote(name))
	return nil
}

// settingsText lists the keys for people: for help, and for docs/reference/cli.md.
func settingsText() string {
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "  %s = %s\n", s.key, configfile.Literal(s.def))
		if s.doc != "" {
			writeWrapped(&b, "      ", s.doc)
		}
	}
	return b.String()
}

// shellCommand returns a command that the user has written for a shell, with arguments
// behind it.
func shellCommand(command string, args ...string) *exec.Cmd {
	if _, err := exec.LookPath(command); err == nil || runtime.GOOS == "windows" {
		fields := append(strings.Fields(command), args...)
		if err == nil {
			fields = append([]string{command}, args...)
		}
		return exec.Command(fields[0], fields[1:]...)
	}
	return exec.Command("sh", append([]string{"-c", command + ` "$@"`, command}, args...)...)
}
