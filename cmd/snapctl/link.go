package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// link returns a text that stands for a file of the project, and on terminals that have
// links is one to it.
func (a *app) link(path, text string) string {
	if a.located == nil || !a.onTerminal("hyperlinks", a.colour && a.hasLinks()) {
		return text
	}
	host, _ := os.Hostname() // "" is this one
	to := url.URL{Scheme: "file", Host: host, Path: filepath.ToSlash(filepath.Join(a.located.Project.Root, path))}
	if !strings.HasPrefix(to.Path, "/") { // Windows
		to.Path = "/" + to.Path
	}
	return "\x1b]8;;" + to.String() + "\x1b\\" + text + "\x1b]8;;\x1b\\"
}

// linkVariables are those of the environment by which terminals are known.
var linkVariables = []string{"TERM_PROGRAM", "VTE_VERSION", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM"}

// hasLinks reports whether the terminal is known to show links (OSC 8), and not to print
// them. Within a multiplexer that is not known.
func (a *app) hasLinks() bool {
	term := a.getenv("TERM")
	if strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux") {
		return false
	}
	switch a.getenv("TERM_PROGRAM") {
	case "iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "zed":
		return true
	}
	switch term {
	case "xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm", "contour":
		return true
	}
	vte, _ := strconv.Atoi(a.getenv("VTE_VERSION"))
	return vte >= 5000 || a.getenv("WT_SESSION") != "" || a.getenv("KONSOLE_VERSION") != "" ||
		a.getenv("DOMTERM") != ""
}
