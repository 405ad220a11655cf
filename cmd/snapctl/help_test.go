package main

import (
	"maps"
	"slices"
	"testing"

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
