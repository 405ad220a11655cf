package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/words"
)

// maxSecrets is how many files a warning names.
const maxSecrets = 5

// secretsText says that files were captured which seem to hold secrets, and how they are
// left out, and forgotten. Their paths are relative to the project's directory, in which
// the commands are to be run.
func secretsText(paths []string) string {
	listed := paths[:min(len(paths), maxSecrets)]
	var rules, names []string
	for _, p := range listed {
		rules = append(rules, words.ShellQuote(ignoreRule(p)))
		names = append(names, words.ShellQuote(p))
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
		"  leave out from now on:    printf '%%s\\n' %s >> .booignore\n"+
		"  then, remove from store:  snapctl forget %s", quoteAll(listed), more, verb, it,
		strings.Join(rules, " "), strings.Join(names, " "))
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
func (a *app) warnOfSecrets(paths []string) {
	if len(paths) > 0 {
		a.tell("warning: %s", secretsText(paths))
	}
}
