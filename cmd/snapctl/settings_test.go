//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/cmd/snapctl/internal/configfile"
)

// TestSettingsTable holds the table of keys in docs/reference/cli.md to that of the program.
func TestSettingsTable(t *testing.T) {
	const name, begin, end = "../../docs/reference/cli.md", " -run SettingsTable -update -->\n", "<!-- end -->"
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(src), begin)
	is, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no place for the table", name)
	}
	var want strings.Builder
	want.WriteString("\n| key | default | variable | |\n|---|---|---|---|\n")
	for _, s := range settings {
		variable := ""
		for _, name := range []string{s.env, s.weak} {
			if name != "" {
				variable += ", `" + name + "`"
			}
		}
		doc := strings.ReplaceAll(s.doc, "|", "\\|")
		want.WriteString("| `" + s.key + "` | `" + configfile.Literal(s.def) + "` | " + strings.TrimPrefix(variable, ", ") +
			" | " + doc + " |\n")
	}
	want.WriteString("\n")
	if *update {
		text := before + begin + want.String() + end + after
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(want.String(), is); d != "" {
		t.Errorf("%s (-want +is): go test ./cmd/snapctl%s\n%s", name, strings.TrimSuffix(begin, " -->\n"), d)
	}
}

// What settings are by default is what they can be.
func TestSettingDefaults(t *testing.T) {
	for _, s := range settings {
		if value, ok := s.kind.read(s.def); !ok || value != s.def {
			t.Errorf("%s is %q by default: want %s", s.key, s.def, s.kind.want)
		}
		for _, v := range s.kind.values {
			if _, ok := s.kind.read(v); !ok {
				t.Errorf("%s cannot be %q", s.key, v)
			}
		}
	}
}

func TestParseColour(t *testing.T) {
	for text, want := range map[string]string{
		"red": "31", "bold red": "1;31", "bright-black underline": "90;4", "208": "38;5;208",
		"#ff8700": "38;2;255;135;0",
		"none":    "", "dim none": "2",
	} {
		if got, ok := parseColour(text); !ok || got != want {
			t.Errorf("parseColour(%q) = %q, %v; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "rot", "256", "-1", "#ff870", "#gggggg", "bright-bold", "31;1", "bright-"} {
		if got, ok := parseColour(text); ok {
			t.Errorf("parseColour(%q) = %q", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	for text, want := range map[string]string{
		"pagr": "pager", "colour": "color", "prompt": "prompts", "x": "", "theme.aded": "theme.added",
		"quite another": "",
	} {
		keys := []string{"color", "pager", "prompts", "theme.added"}
		if got := nearest(text, keys); got != want {
			t.Errorf("nearest(%q) = %q, want %q", text, got, want)
		}
	}
}
