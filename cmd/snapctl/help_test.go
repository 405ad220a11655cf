package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
)

// TestHelp finds a text for each command, but for those that share their parent's, and a
// command for each text.
func TestHelp(t *testing.T) {
	files, err := helpTexts.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]bool)
	for _, f := range files {
		texts[f.Name()] = true
	}
	var look func(c *cobra.Command, prefix string)
	look = func(c *cobra.Command, prefix string) {
		name := prefix + c.Name()
		isCobras := name == "completion" || prefix == "completion-" // which says it itself
		if !texts[name+".txt"] && agents.Named(c.Name()) == nil && prefix != configCommandName+"-" && !isCobras {
			t.Errorf("%s has no text in help", name)
		}
		delete(texts, name+".txt")
		if name += "-"; !c.HasParent() {
			name = ""
		}
		for _, sub := range c.Commands() {
			look(sub, name)
		}
	}
	look(new(app).rootCommand(), "")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Errorf("help/%s is of no command", name)
	}
}

// TestHelpWidth: all that help prints fits a terminal of 80 columns.
func TestHelpWidth(t *testing.T) {
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Usage(); err != nil {
			t.Fatal(err)
		}
		text := c.Long + "\n" + b.String()
		if c.HasParent() && c.Parent().Name() == "completion" {
			text = b.String() // the rest is cobra's
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("help of %s has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(new(app).rootCommand())
}

// TestAlone: a command that is made alone is what it is among all others, and has their help; what
// needs the others has them.
func TestAlone(t *testing.T) {
	all := new(app).rootCommand()
	var look func(alone, c *cobra.Command)
	look = func(alone, c *cobra.Command) {
		if alone.CommandPath() != c.CommandPath() || alone.Use != c.Use || alone.Long != c.Long ||
			alone.Example != c.Example || alone.LocalFlags().FlagUsages() != c.LocalFlags().FlagUsages() ||
			len(alone.Commands()) != len(c.Commands()) {
			t.Errorf("%s alone is %s, or has other flags, commands or help", c.CommandPath(), alone.CommandPath())
			return
		}
		for i, sub := range c.Commands() {
			look(alone.Commands()[i], sub)
		}
	}
	for _, group := range new(app).commands() {
		for _, c := range group.commands {
			root := new(app).rootFor([]string{"-q", "--root", "log", "--json", "--session=s", c.name, "x"})
			if n := len(root.Commands()); n > 1 && c.name != manCommandName {
				t.Errorf("%s is made with %d commands", c.name, n)
			}
			addHelp(root, root.Name())
			got, _, err := root.Find([]string{c.name})
			want, _, _ := all.Find([]string{c.name})
			if err != nil || want == all {
				t.Fatalf("%s: %v", c.name, err)
			}
			look(got, want)
		}
	}
	for _, args := range [][]string{nil, {"log2"}, {"--bogus", "log"}, {"--root"}, {"--", "log"}, {"help"}, {"-v"},
		{"__complete", "log", ""}, {"completion", "bash"}, {"--root", "log"}, {"man"}} {
		if n := len(new(app).rootFor(args).Commands()); n < 30 {
			t.Errorf("%q: %d commands", args, n)
		}
	}
}
