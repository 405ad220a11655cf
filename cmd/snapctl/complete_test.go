package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCompletion wants something for the value of each flag: what completes it, or a reason here
// why there is nothing to offer. A flag with a few values names in its help those that are offered.
func TestCompletion(t *testing.T) {
	const number, duration, size, text, file = "a number", "a time", "a size", "any text",
		"a file: the shell knows them"
	open := map[string]string{
		"session-file": file, "old-file": file, "new-file": file, "path": file, "token-file": file, "schema": file,
		"db": file, "old": text, "new": text, "title": text, "expected-hash": text, "http": text, "hook": text,
		"identity": file, "cache": file, "base": file,
		"recipient": text, "name": text, "only": "a path of what is not here yet",
		"at":   "a revision of what is not here yet",
		"grep": text, "setup": text, "link": file, "regexp": text, "pickaxe": text, "pickaxe-lines": text,
		"lines": "FILE:10-20, or as git has -L",
		"since": "a time in words", "until": "a time in words",
		"unified": number, "limit": number, "depth": number, "expect": number, "fuzz": number, "line": number,
		"port":           number,
		"min-similarity": number, "keep-last": number, "sample": number, "max-files": number,
		"keep-within": duration, "keep-deleted": duration, "wait": duration, "left": duration,
		"quiet": duration, "idle": duration,
		"timeout": duration, "max-size": size, "max-file-size": size, "max-bytes": size,
	}
	seen := make(map[string]bool)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				fn, has := c.GetFlagCompletionFunc(f.Name)
				why := open[f.Name]
				seen[f.Name] = true
				switch {
				case f.Value.Type() == "bool":
				case !has && why == "":
					t.Errorf("%s --%s: nothing completes its value: see flagCompletion", c.CommandPath(), f.Name)
				case has && why != "":
					t.Errorf("%s --%s is completed, and is said to take %s", c.CommandPath(), f.Name, why)
				case has && !isOfStore(f.Name):
					checkValues(t, c, f, fn)
				}
			})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	a := newTestApp()
	root := a.rootCommand()
	walk(root)
	for name := range open {
		if !seen[name] {
			t.Errorf("no command has --%s", name)
		}
	}
	for path := range a.argumentCompletion() {
		if c, rest, err := root.Find(strings.Fields(path)); err != nil || len(rest) > 0 || c == root {
			t.Errorf("argumentCompletion: no command %q", path)
		}
	}
}

// isOfStore reports whether what a flag takes is in a store, or on the disk.
func isOfStore(flag string) bool {
	return slices.Contains([]string{"store", "root", "session", "author", "turn", "good", "bad", "label", "message",
		"remote", "hunks"}, flag)
}

func newTestApp() *app {
	return &app{getenv: func(string) string { return "" }, stderr: os.Stderr, stdout: os.Stdout}
}

// checkValues compares the values that are offered with what help says, and has the flag take each.
func checkValues(t *testing.T, c *cobra.Command, f *pflag.Flag, fn cobra.CompletionFunc) {
	list, _ := fn(c, nil, "")
	if len(list) < 2 {
		t.Errorf("%s --%s: offered are %q", c.CommandPath(), f.Name, list)
	}
	for _, value := range list {
		value, _, _ = strings.Cut(value, "\t")
		if f.Name != "tools" && !strings.Contains(f.Usage, value) {
			t.Errorf("%s --%s: %q is offered, and not in its help: %s", c.CommandPath(), f.Name, value, f.Usage)
		}
		if err := f.Value.Set(value); err != nil {
			t.Errorf("%s --%s %s: %v", c.CommandPath(), f.Name, value, err)
		}
	}
}

// bashCompletion has functions that the script for bash calls.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// TestCompletionInShells types into real shells what the generated scripts complete.
func TestCompletionInShells(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, home := t.TempDir(), t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "snapctl")); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		c.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "BOO_ENGINE=off", "TERM=dumb"}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	snapctl := filepath.Join(bin, "snapctl")
	for _, label := range []string{"first", "it's a second", `a "third"`} {
		if err := os.WriteFile(filepath.Join(dir, "with space"), []byte(label), 0o644); err != nil {
			t.Fatal(err)
		}
		run(snapctl, "snapshot", "--label", label)
	}
	scripts := map[string]string{
		"bash": `set -e
. ` + bashCompletion + `
. <(snapctl completion bash)
compopt() { :; }
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
  COMP_TYPE=63; COLUMNS=100; COMPREPLY=()
  __start_snapctl || true; printf '%s\n' "${COMPREPLY[@]}"; }
try snapctl restore ''
try snapctl restore --on-dirty ''
try snapctl restore turn:1 w
`,
		"zsh": `autoload -Uz compinit; compinit -u -d $HOME/.zcompdump
source <(snapctl completion zsh)
compdef() { :; }
_describe() { local -a list; list=("${(@P)3}"); [ -n "${list[*]}" ] || list=("${(@P)2}")
  print -rl -- "${list[@]}"; return 0; }
try() { words=("$@"); CURRENT=$#; _snapctl; }
try snapctl restore ''
try snapctl restore --on-dirty ''
try snapctl restore turn:1 w
`,
		"fish": `snapctl completion fish | source
complete -C "snapctl restore "
complete -C "snapctl restore --on-dirty "
complete -C "snapctl restore turn:1 w"
`,
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("SKIPPED: no %s here", shell)
			}
			if _, err := os.Stat(bashCompletion); err != nil && shell == "bash" {
				t.Skip("SKIPPED: no package bash-completion here, which the script needs")
			}
			out := run(shell, "-c", scripts[shell])
			for _, want := range []string{"turn:1", "turn:0", "it's a second", "overwrite", "with"} {
				if !strings.Contains(strings.ReplaceAll(out, `\`, ""), want) {
					t.Errorf("%s offers %q, want %q", shell, out, want)
				}
			}
		})
	}
}
