package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestHabits holds that each command and flag that a hint names is there, and that none takes
// the place of a command of ours.
func TestHabits(t *testing.T) {
	quoted := regexp.MustCompile(`'snapctl ([^']*)'`)
	for name, hint := range habits {
		root := new(app).rootCommand()
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			t.Errorf("%s is a command", name)
		}
		found := quoted.FindAllStringSubmatch(hint, -1)
		if found == nil {
			t.Errorf("%s: no command in %q", name, hint)
		}
		for _, m := range found {
			words := strings.Fields(m[1])
			c, _, err := root.Find(words[:1])
			if err != nil || c == root {
				t.Errorf("%s: no command %q", name, words[0])
				continue
			}
			for _, word := range words[1:] {
				flags := c.Flags()
				flags.AddFlagSet(root.PersistentFlags())
				switch {
				case word == "--":
				case strings.HasPrefix(word, "--") && flags.Lookup(word[2:]) == nil,
					strings.HasPrefix(word, "-") && len(word) == 2 && flags.ShorthandLookup(word[1:]) == nil:
					t.Errorf("%s: %s has no %s", name, c.Name(), word)
				}
			}
		}
	}
}
