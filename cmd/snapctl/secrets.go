package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/words"
)

// ignoreName is the file in a project's directory that says what is left out.
const ignoreName = ".booignore"

// maxSecrets is how many files a warning names.
const maxSecrets = 5

// secretsText says that files were captured which seem to hold secrets, and how they are
// left out, and forgotten. Their paths are relative to the project's directory. The commands are
// for a shell: ignored is the path of that directory's .booignore there, snapctl how the command to
// forget begins, and typed returns paths as that takes them.
func secretsText(paths []string, ignored, snapctl string, typed func([]string) []string) string {
	listed := paths[:min(len(paths), maxSecrets)]
	var rules, names []string
	for i, name := range typed(listed) {
		rules = append(rules, words.ShellQuote(ignoreRule(listed[i])))
		names = append(names, words.ShellQuote(name))
	}
	if slices.ContainsFunc(names, func(name string) bool { return name[0] == '-' }) {
		names = append([]string{"--"}, names...)
	}
	more, verb, it := "", "seem", "them"
	if n := len(paths) - len(listed); n > 0 {
		more = fmt.Sprintf(" and %s", words.Count(n, "other"))
	}
	if len(paths) == 1 {
		verb, it = "seems", "it"
	}
	return fmt.Sprintf("%s%s %s to hold secrets, and snapshots keep %s\n"+
		"  leave out from now on:    printf '%%s\\n' %s >> %s\n"+
		"  then, remove from store:  %s forget %s", quoteAll(listed), more, verb, it,
		strings.Join(rules, " "), words.ShellQuote(ignored), snapctl, strings.Join(names, " "))
}

// ignoreRule returns the line of a .booignore, in the project's directory, that leaves out one
// file.
func ignoreRule(path string) string {
	var b strings.Builder
	b.WriteByte('/')
	for i := range len(path) {
		switch c := path[i]; c {
		case '\\', '*', '?', '[':
			b.Write([]byte{'\\', c})
		case '\n', '\r': // which end a line
			b.WriteByte('?')
		default:
			b.WriteByte(c)
		}
	}
	rule := b.String()
	if strings.HasSuffix(rule, " ") {
		rule = rule[:len(rule)-1] + `\ `
	}
	return rule
}

// warnOfSecrets tells the user of files that were captured and seem to hold secrets.
func (p *place) warnOfSecrets(paths []string) {
	if len(paths) == 0 {
		return
	}
	ignored := filepath.Join(p.project.Root, ignoreName)
	if cwd, err := p.app.getwd(); err == nil {
		if cwd, err = filepath.EvalSymlinks(cwd); err == nil && isBelow(ignored, cwd) {
			ignored, _ = filepath.Rel(cwd, ignored) // it never fails below
		}
	}
	p.app.tell("warning: %s", secretsText(paths, ignored, p.app.snapctl(), p.typedPaths))
}
