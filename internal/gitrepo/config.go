package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/ignore"
)

// A setting is one line of a configuration file.
type setting struct {
	section    string // in lower case
	subsection string
	nested     bool   // has a subsection, perhaps an empty one
	key        string // in lower case
	value      string
	set        bool // false for a key without "=", which means true
}

// parseConfig reads the syntax of git-config.
func parseConfig(text []byte) ([]setting, error) {
	p := configParser{rest: bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), line: 1}
	var settings []setting
	var at setting // the section we are in
	for len(p.rest) > 0 {
		c := p.next()
		switch {
		case isSpace(c):
		case c == '#' || c == ';':
			for p.next() != '\n' {
			}
		case c == '[':
			var ok bool
			if at, ok = p.header(); !ok {
				return nil, fmt.Errorf("line %d: bad section header", p.line)
			}
		case isAlpha(c):
			s, ok := p.setting(c)
			if !ok {
				return nil, fmt.Errorf("line %d: bad setting", p.line)
			}
			if len(settings) == maxSettings {
				return nil, fmt.Errorf("line %d: more than %d settings", p.line, maxSettings)
			}
			s.section, s.subsection, s.nested = at.section, at.subsection, at.nested
			settings = append(settings, s)
		default:
			return nil, fmt.Errorf("line %d: unexpected %q", p.line, c)
		}
	}
	return settings, nil
}

type configParser struct {
	rest []byte
	line int
	last byte
}

// next returns the next byte: a newline for CR LF and for the end.
func (p *configParser) next() byte {
	if p.last == '\n' {
		p.line++
	}
	p.last = '\n'
	if len(p.rest) > 0 {
		if bytes.HasPrefix(p.rest, []byte("\r\n")) {
			p.rest = p.rest[1:]
		}
		p.last, p.rest = p.rest[0], p.rest[1:]
	}
	return p.last
}

// header reads what follows "[".
func (p *configParser) header() (s setting, ok bool) {
	var name []byte
	for {
		switch c := p.next(); {
		case c == ']':
			// "[a.b]" is an old way to write [a "b"], in lower case.
			s.section, s.subsection, s.nested = strings.Cut(string(name), ".")
			return s, len(name) > 0
		case isSpace(c):
			for c != '"' {
				if c == '\n' || !isSpace(c) {
					return s, false
				}
				c = p.next()
			}
			s.section, s.nested = string(name), true
			s.subsection, ok = p.quoted()
			return s, ok && p.next() == ']'
		case isKey(c) || c == '.':
			name = append(name, lower(c))
		default:
			return s, false
		}
	}
}

// quoted reads a subsection up to the closing quote.
func (p *configParser) quoted() (string, bool) {
	var name []byte
	for {
		c := p.next()
		if c == '"' {
			return string(name), true
		}
		if c == '\\' {
			c = p.next()
		}
		if c == '\n' {
			return "", false
		}
		name = append(name, c)
	}
}

// setting reads a key, whose first byte is c, and its value.
func (p *configParser) setting(c byte) (s setting, ok bool) {
	var key []byte
	for ; isKey(c); c = p.next() {
		key = append(key, lower(c))
	}
	s.key = string(key)
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c == '\n' {
		return s, true
	}
	if c != '=' {
		return s, false
	}
	s.set = true
	s.value, ok = p.value()
	s.value, _, _ = strings.Cut(s.value, "\x00") // for git it ends there
	return s, ok
}

// value reads a value to the end of its last line.
func (p *configParser) value() (string, bool) {
	var value, spaces []byte // spaces count when something follows
	quoted := false
	for {
		c := p.next()
		switch {
		case c == '\n':
			return string(value), !quoted
		case !quoted && (c == '#' || c == ';'):
			for p.next() != '\n' {
			}
			return string(value), true
		case !quoted && isSpace(c):
			if len(value) > 0 {
				spaces = append(spaces, c)
			}
			continue
		}
		value = append(value, spaces...)
		spaces = nil
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			switch c = p.next(); c {
			case '\n': // the value goes on in the next line
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", false
			}
			value = append(value, c)
		default:
			value = append(value, c)
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }
func isKey(c byte) bool   { return isAlpha(c) || '0' <= c && c <= '9' || c == '-' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// A configReader collects the settings of several files, in order. Without a
// repo it follows no includes.
type configReader struct {
	repo     *Repo
	env      Env
	settings []setting
	depth    int // of includes
	files    int
	size     int // of the files, in bytes
}

// file adds the settings of a file and of those it includes. A missing file
// has none.
func (c *configReader) file(name string) error {
	// Ten is git's limit. The other stops ten levels that each include
	// the next many times.
	if c.depth > 10 || c.files > 1000 {
		return fmt.Errorf("config %q: includes go too deep", name)
	}
	c.files++
	text, err := readFile(name, maxText)
	if err != nil {
		return ignoreMissing(err)
	}
	settings, err := parseConfig(text)
	if err != nil {
		return fmt.Errorf("config %q: %w", name, err)
	}
	if c.size += len(text); c.size > maxText || len(c.settings)+len(settings) > maxSettings {
		return fmt.Errorf("config %q: with its includes it has more than %d bytes, or %d settings", name,
			maxText, maxSettings)
	}
	for _, s := range settings {
		c.settings = append(c.settings, s)
		if c.repo == nil || !s.set || s.key != "path" {
			continue
		}
		switch s.section {
		case "include":
			if s.nested {
				continue
			}
		case "includeif":
			holds, err := c.holds(s.subsection, filepath.Dir(name))
			if err != nil {
				return err
			}
			if !holds {
				continue
			}
		default:
			continue
		}
		path, err := c.env.expand(s.value)
		if err != nil {
			return fmt.Errorf("config %q: %w", name, err)
		}
		c.depth++
		if err := c.file(join(filepath.Dir(name), path)); err != nil {
			return err
		}
		c.depth--
	}
	return nil
}

// holds evaluates the condition of an includeIf in a file that lies in dir.
func (c *configReader) holds(condition, dir string) (bool, error) {
	kind, pattern, _ := strings.Cut(condition, ":")
	switch kind {
	case "gitdir":
		return c.gitDirIs(pattern, dir, false)
	case "gitdir/i":
		return c.gitDirIs(pattern, dir, true)
	case "onbranch":
		head, err := c.repo.Head()
		if err != nil {
			return false, err
		}
		branch, ok := strings.CutPrefix(head.Ref, "refs/heads/")
		return ok && ignore.Wildmatch(below(pattern), branch, false), nil
	}
	return false, nil
}

func (c *configReader) gitDirIs(pattern, dir string, fold bool) (bool, error) {
	pattern, err := c.env.expand(pattern)
	if err != nil {
		return false, err
	}
	prefix := "" // not a pattern
	if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return false, err
		}
		prefix, pattern = filepath.ToSlash(dir)+"/", rest
		if pattern == "" {
			pattern = "**"
		}
	} else if !filepath.IsAbs(pattern) {
		pattern = "**/" + pattern
	}
	pattern = below(pattern)
	// Either the name that git found the directory by, or its real one.
	resolved, err := filepath.EvalSymlinks(c.repo.GitDir)
	if err != nil {
		return false, err
	}
	for _, path := range slices.Compact([]string{resolved, c.repo.GitDir}) {
		path = filepath.ToSlash(path)
		if len(path) < len(prefix) {
			continue
		}
		same := path[:len(prefix)] == prefix || fold && foldASCII(path[:len(prefix)]) == foldASCII(prefix)
		if same && ignore.Wildmatch(pattern, path[len(prefix):], fold) {
			return true, nil
		}
	}
	return false, nil
}

// below makes a pattern that ends in a slash match everything below.
func below(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return pattern
}

func foldASCII(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}

// last returns the setting of a key that is in force.
func (c *configReader) last(section, key string) (setting, bool) {
	for _, s := range slices.Backward(c.settings) {
		if s.section == section && !s.nested && s.key == key {
			return s, true
		}
	}
	return setting{}, false
}

// bool returns the value of a boolean setting, false if there is none.
func (c *configReader) bool(section, key string) (bool, error) {
	s, ok := c.last(section, key)
	if !ok {
		return false, nil
	}
	if !s.set {
		return true, nil
	}
	switch foldASCII(s.value) {
	case "true", "yes", "on":
		return true, nil
	case "", "false", "no", "off":
		return false, nil
	}
	digits := strings.TrimRight(foldASCII(s.value), "kmg") // a unit does not make a number zero
	n, err := strconv.ParseInt(digits, 0, 64)
	if err != nil || len(s.value) > len(digits)+1 {
		return false, fmt.Errorf("config %s.%s: %.80q is no boolean", section, key, s.value)
	}
	return n != 0, nil
}

// An Env is what git takes from its surroundings. The zero value has only the
// repository's own files.
type Env struct {
	Home          string // $HOME
	XDGConfigHome string // $XDG_CONFIG_HOME; default .config in Home
	SystemConfig  string // usually /etc/gitconfig; none if empty
	GlobalConfig  string // $GIT_CONFIG_GLOBAL: read instead of the files in Home and XDGConfigHome
	// UserHome returns the home directory that "~user/" stands for. If nil,
	// such a path is an error.
	UserHome func(user string) (string, error)
}

// xdg returns a file of git's in the user's configuration directory, "" if
// there is no such directory.
func (e Env) xdg(name string) string {
	switch {
	case e.XDGConfigHome != "":
		return filepath.Join(e.XDGConfigHome, "git", name)
	case e.Home != "":
		return filepath.Join(e.Home, ".config", "git", name)
	}
	return ""
}

// expand replaces a leading "~" or "~user".
func (e Env) expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	user, rest, _ := strings.Cut(rest, "/")
	home := e.Home
	if user != "" {
		if e.UserHome == nil {
			return "", fmt.Errorf("expand %q: homes of other users are not known", path)
		}
		var err error
		if home, err = e.UserHome(user); err != nil {
			return "", fmt.Errorf("expand %q: %w", path, err)
		}
	}
	if home == "" {
		return "", fmt.Errorf("expand %q: no home directory", path)
	}
	return strings.TrimSuffix(home, "/") + "/" + rest, nil // not cleaned: a final slash has a meaning in patterns
}

// config reads all configuration files that apply, lowest precedence first.
func (r *Repo) config(env Env) (*configReader, error) {
	c := &configReader{repo: r, env: env}
	files := []string{env.SystemConfig, env.GlobalConfig}
	if env.GlobalConfig == "" {
		files = append(files, env.xdg("config"))
		if env.Home != "" {
			files = append(files, filepath.Join(env.Home, ".gitconfig"))
		}
	}
	files = append(files, filepath.Join(r.CommonDir, "config"))
	perTree, err := r.own("extensions", "worktreeconfig")
	if err != nil {
		return nil, err
	}
	if perTree {
		files = append(files, filepath.Join(r.GitDir, "config.worktree"))
	}
	for _, name := range files {
		if name == "" {
			continue
		}
		if err := c.file(name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// own returns a boolean setting that only the repository's own file can make.
func (r *Repo) own(section, key string) (bool, error) {
	c := configReader{}
	if err := c.file(filepath.Join(r.CommonDir, "config")); err != nil {
		return false, err
	}
	return c.bool(section, key)
}

// IgnoreOptions reads what applies to all directories of the repository: its
// configuration, info/exclude and the file that core.excludesFile names.
func (r *Repo) IgnoreOptions(env Env) (ignore.Options, error) {
	var o ignore.Options
	c, err := r.config(env)
	if err != nil {
		return o, err
	}
	if o.IgnoreCase, err = c.bool("core", "ignorecase"); err != nil {
		return o, err
	}
	excludes := env.xdg("ignore")
	if s, ok := c.last("core", "excludesfile"); ok {
		if !s.set {
			return o, errors.New("config core.excludesFile: no value")
		}
		excludes = ""
		if s.value != "" {
			if excludes, err = env.expand(s.value); err != nil {
				return o, fmt.Errorf("config core.excludesFile: %w", err)
			}
			excludes = join(r.Root, excludes)
		}
	}
	if excludes != "" {
		if o.Excludes, err = readFile(excludes, maxText); ignoreMissing(err) != nil {
			return o, err
		}
	}
	if o.Info, err = readFile(filepath.Join(r.CommonDir, "info", "exclude"), maxText); ignoreMissing(err) != nil {
		return o, err
	}
	return o, nil
}
