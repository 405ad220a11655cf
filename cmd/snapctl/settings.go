package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/configfile"
	"github.com/boocode/filestore/internal/words"
)

// A setting is a row of the table of what the user can configure. 'snapctl config', its
// help, docs/reference/cli.md and completion all come from the table.
type setting struct {
	key  string // in the file; "theme.added" is added in [theme]
	kind *settingKind
	def  string
	flag string // of commands that have one, without its dashes
	env  string // variable that goes before the file
	weak string // variable that comes after the file
	doc  string
}

// settings are all there are, in the order in which they are listed. A command takes a
// flag before a variable, and that before the file.
var settings = []setting{
	{key: "color", kind: whenKind, def: "auto", flag: "color", env: "NO_COLOR",
		doc: "colours, on a terminal or always; NO_COLOR, whatever it says, is never"},
	{key: "pager", kind: textKind, def: "less", env: "SNAPCTL_PAGER", weak: "PAGER",
		doc: "command that shows what log, show, diff and help print to a terminal; off is none"},
	{key: "hyperlinks", kind: whenKind, def: "auto",
		doc: "link names of files to the files; auto does where the terminal is known to show links"},
	{key: "store", kind: dirKind, def: "~/.boo/file-store", flag: "store", env: "BOO_STORE",
		doc: "directory that holds the stores"},
	{key: "engine", kind: switchKind, def: "true", env: "BOO_ENGINE",
		doc: "have an engine that serves the store do the work of commands and hooks"},
	{key: "prompts", kind: switchKind, def: "true", env: "BOO_PROMPTS",
		doc: "keep the first 4 KiB of each prompt, to say in log what a turn was for"},
	{key: "max-file-size", kind: quantityKind, def: "100MiB", flag: "max-file-size",
		doc: "leave out larger files; none is no limit"},
	{key: "max-file-sizes", kind: sizesKind, def: "",
		doc: `limits of single files instead, by name or path: "*.psd=500MB data/*.csv=none"`},
	{key: "max-bytes", kind: quantityKind, def: "4GiB", flag: "max-bytes",
		doc: "read at most so much that is new or changed for one snapshot"},
	{key: "max-files", kind: quantityKind, def: "2000000", flag: "max-files",
		doc: "take at most so many files and links into one snapshot"},
	{key: "theme." + asAdded, kind: colourKind, def: "green", doc: "what was added or restored, and what is well"},
	{key: "theme." + asRemoved, kind: colourKind, def: "red", doc: "what was deleted, failed or is damaged"},
	{key: "theme." + asChanged, kind: colourKind, def: "yellow", doc: "what was changed, skipped or is in doubt"},
	{key: "theme." + asName, kind: colourKind, def: "yellow", doc: "names of snapshots and sessions"},
	{key: "theme." + asNote, kind: colourKind, def: "cyan", doc: "what is said beside a result"},
	{key: "theme." + asHeading, kind: colourKind, def: "bold", doc: "headings"},
	{key: "theme." + asFaded, kind: colourKind, def: "dim", doc: "turns that were taken back, and what matters least"},
}

// A settingKind is what a setting can be.
type settingKind struct {
	want   string
	values []string // all there are; nil: there are others
	read   func(text string) (value string, ok bool)
}

var (
	whenKind = oneOf("auto", "always", "never")
	textKind = &settingKind{want: "a text that is not empty",
		read: func(text string) (string, bool) { return text, text != "" }}
	dirKind = &settingKind{want: "an absolute path, or one below ~/",
		read: func(text string) (string, bool) { return text, filepath.IsAbs(text) || strings.HasPrefix(text, "~/") }}
	switchKind = &settingKind{want: "true or false", values: []string{"true", "false"},
		read: func(text string) (string, bool) {
			switch text {
			case "on", "true":
				return "true", true
			case "off", "false":
				return "false", true
			}
			return "", false
		}}
	quantityKind = &settingKind{want: "a number above 0, with a unit such as MB or GiB, or none",
		read: func(text string) (string, bool) {
			_, err := parseQuantity(text)
			return text, err == nil
		}}
	sizesKind = &settingKind{want: `words such as "*.psd=500MB" or "data/*.csv=none"`,
		read: func(text string) (string, bool) {
			_, ok := parseSizes(text)
			return text, ok
		}}
	colourKind = &settingKind{want: `words such as "bold red", "bright-blue", "208" or "#ff8700", or none`,
		read: func(text string) (string, bool) {
			_, ok := parseColour(text)
			return text, ok
		}}
)

// oneOf is the kind of a setting that has one of some values.
func oneOf(values ...string) *settingKind {
	last := len(values) - 1
	return &settingKind{want: strings.Join(values[:last], ", ") + " or " + values[last], values: values,
		read: func(text string) (string, bool) { return text, slices.Contains(values, text) }}
}

// settingNamed returns the setting with a key, or nil.
func settingNamed(key string) *setting {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	return &settings[i]
}

// A settingValue is what a setting is, and who says so.
type settingValue struct {
	text string
	from string // byDefault, "--FLAG", "$VARIABLE" or FILE:LINE
}

const byDefault = "default"

func (v settingValue) isInFile() bool {
	return v.from != byDefault && !strings.HasPrefix(v.from, "--") && !strings.HasPrefix(v.from, "$")
}

// setting returns what a setting is.
func (a *app) setting(key string) string {
	if v, ok := a.settings[key]; ok {
		return v.text
	}
	return settingNamed(key).def
}

func (a *app) isOn(key string) bool { return a.setting(key) == "true" }

// loadSettings reads the file and the environment, for a command whose flags are known.
// An error is about the file or a flag; settings that it does not concern are known then.
func (a *app) loadSettings(cmd *cobra.Command) error {
	inFile, err := a.readConfig()
	a.settings = make(map[string]settingValue, len(settings))
	for i := range settings {
		s := &settings[i]
		v, verr := a.settingOf(s, inFile, cmd)
		if verr != nil {
			err = cmp.Or(err, verr)
			v = settingValue{s.def, byDefault}
		}
		a.settings[s.key] = v
	}
	return err
}

// settingOf returns what a setting is by a command's flags, the environment, the file, and
// by default, the first that has it.
func (a *app) settingOf(s *setting, inFile map[string]settingValue, cmd *cobra.Command) (settingValue, error) {
	if f := cmd.Flags().Lookup(s.flag); f != nil && f.Changed && f.Value.String() != "" {
		text, ok := s.kind.read(f.Value.String())
		if !ok && s.kind != dirKind {
			return settingValue{}, &failure{code: exitUsage,
				err: fmt.Errorf("--%s %q: want %s", s.flag, f.Value, s.kind.want)}
		}
		return settingValue{text, "--" + s.flag}, nil
	}
	if v, ok := a.variableSetting(s, s.env); ok {
		return v, nil
	}
	if v, ok := inFile[s.key]; ok {
		return v, nil
	}
	if v, ok := a.variableSetting(s, s.weak); ok {
		return v, nil
	}
	return settingValue{s.def, byDefault}, nil
}

// variableSetting returns what a variable of the environment says. What makes no sense
// there says nothing: others have variables of these names, too.
func (a *app) variableSetting(s *setting, name string) (settingValue, bool) {
	if name == "" || a.getenv(name) == "" {
		return settingValue{}, false
	}
	text, ok := s.kind.read(a.getenv(name))
	switch {
	case name == "NO_COLOR":
		text, ok = "never", true
	case s.kind == dirKind:
		ok = true
	}
	return settingValue{text, "$" + name}, ok
}

// configPath returns where the user's configuration is, or would be.
func (a *app) configPath() (string, error) {
	name := "XDG_CONFIG_HOME"
	if runtime.GOOS == "windows" && a.getenv(name) == "" {
		name = "AppData"
	}
	below := ""
	if a.getenv(name) == "" {
		name, below = "HOME", ".config"
	}
	switch dir := a.getenv(name); {
	case dir == "":
		return "", &failure{exitUsage, errors.New("no place for the configuration: HOME is not set"),
			"XDG_CONFIG_HOME names a directory for it"}
	case !filepath.IsAbs(dir):
		return "", &failure{code: exitUsage,
			err: fmt.Errorf("no place for the configuration: %s is %q: want a path from the root", name, dir)}
	default:
		return filepath.Join(dir, below, "snapctl", "config.toml"), nil
	}
}

// readConfig returns what the user's file has, of each setting. There is none: nil.
func (a *app) readConfig() (map[string]settingValue, error) {
	name, err := a.configPath()
	if err != nil {
		return nil, nil // nor is there a file
	}
	text, err := readConfigFile(name)
	if err != nil {
		return nil, err
	}
	return parseConfig(name, text)
}

// parseConfig reads the text of a file. With an error come the settings that it does not
// concern: those above it, if it is about the form of the text.
func parseConfig(name string, text []byte) (map[string]settingValue, error) {
	shown := words.Quote(name)
	f, err := configfile.Parse(text)
	if at, ok := errors.AsType[*configfile.Error](err); ok {
		err = &failure{exitUsage, fmt.Errorf("%s:%d: %w", shown, at.Line, at.Err), hintConfig}
	}
	values := make(map[string]settingValue, len(f.Entries))
	for _, e := range f.Entries {
		from := fmt.Sprintf("%s:%d", shown, e.Line)
		s := settingNamed(e.Key())
		if s == nil {
			err = cmp.Or(err, error(&failure{exitUsage,
				fmt.Errorf("%s: unknown key %q", from, e.Key()), hintKey(e.Key())}))
			continue
		}
		value, ok := s.kind.read(e.Value)
		if !ok {
			err = cmp.Or(err, error(&failure{exitUsage,
				fmt.Errorf("%s: %s %q: want %s", from, e.Key(), e.Value, s.kind.want), hintConfig}))
			continue
		}
		values[s.key] = settingValue{value, from}
	}
	return values, err
}

const hintConfig = "'snapctl config edit' opens it, 'snapctl help config' lists what it may hold"

// hintKey says which key may be meant by one that is unknown.
func hintKey(key string) string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.key
	}
	if near := nearest(key, keys); near != "" {
		return fmt.Sprintf("did you mean %q? %s", near, hintConfig)
	}
	return hintConfig
}

// nearest returns the name that is most like a text, "" if none is much like it.
func nearest(text string, names []string) string {
	best, least := "", len(text)/3+1
	for _, name := range names {
		if d := editDistance(text, name); d <= least {
			best, least = name, d-1
		}
	}
	return best
}

// editDistance counts the letters to be put in, left out or exchanged for others to make
// one text of another.
func editDistance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
