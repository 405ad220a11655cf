package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// killersName is where the tests are that noticed each mutant, from the root of the module. A line
// is the mutant's name, the package, and the arguments.
const killersName = "internal/mutants/killers.txt"

// readKillers returns by name of a mutant the run of the test that noticed it last time.
func readKillers(root string) (map[string]testRun, error) {
	killers := make(map[string]testRun)
	b, err := os.ReadFile(filepath.Join(root, killersName))
	if errors.Is(err, fs.ErrNotExist) {
		return killers, nil
	}
	for line := range strings.Lines(string(b)) {
		name, run, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		pkg, args, ok := strings.Cut(run, " ")
		if !ok {
			return nil, fmt.Errorf("%s: %q: want NAME PKG ARGS", killersName, line)
		}
		killers[name] = testRun{pkg, args}
	}
	return killers, err
}

func writeKillers(root string, killers map[string]testRun) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(killers)) {
		fmt.Fprintf(&text, "%s %s %s\n", name, killers[name].pkg, killers[name].args)
	}
	return os.WriteFile(filepath.Join(root, killersName), []byte(text.String()), 0o644)
}

// runOf returns the run of one test, which may be nested: of those of t, with t's own flags.
func runOf(t testRun, name string) testRun {
	var args []string
	for list := strings.Fields(t.args); len(list) > 0; {
		if list[0] == "-run" || list[0] == "-skip" {
			list = list[min(2, len(list)):]
			continue
		}
		args, list = append(args, list[0]), list[1:]
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return testRun{t.pkg, strings.Join(append(args, "-run", strings.Join(parts, "/")), " ")}
}
