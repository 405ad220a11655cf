package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// listName is the list, from the root of the module.
const listName = "internal/mutants/mutants.txt"

// A mutant is one change that breaks the code, and the tests that are to notice.
type mutant struct {
	name string // one word
	what string // what is broken
	line int    // of the list

	file     string // from the root, slash-separated
	old, new string // whole lines

	tests    []testRun // until one fails
	root     bool      // only root's tests can notice
	survives string    // why it does no harm that no test fails; "": one must
}

// A testRun is one run of a package's tests.
type testRun struct {
	pkg  string // as "./store"
	args string // of go test, as "-run Prune"
}

// readList reads the list. The error has all that is wrong with it.
func readList(root string) ([]*mutant, error) {
	b, err := os.ReadFile(filepath.Join(root, listName))
	if err != nil {
		return nil, err
	}
	list, err := parseList(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", listName, err)
	}
	return list, nil
}

func parseList(text string) ([]*mutant, error) {
	var list []*mutant
	var errs []error
	names := make(map[string]bool)
	var m *mutant
	var file string // of the mutants that follow
	var tests []testRun
	for i, line := range strings.Split(text, "\n") {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("line %d: "+format, append([]any{i + 1}, args...)...))
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case word == "file":
			file, tests, m = rest, nil, nil
		case word == "mutant":
			name, what, ok := strings.Cut(rest, ": ")
			if m = (&mutant{name: name, what: what, line: i + 1, file: file}); !ok || names[name] ||
				strings.Contains(name, " ") {
				wrong("want \"mutant NAME: WHAT\", with a name of its own")
			}
			names[name] = true
			if m.tests = tests; file == "" {
				wrong("no file yet")
			}
			list = append(list, m)
		case word == "test":
			pkg, args, _ := strings.Cut(rest, " ")
			if run := (testRun{pkg, args}); m == nil {
				tests = append(tests, run)
			} else {
				m.tests = append(m.tests[:len(m.tests):len(m.tests)], run)
			}
		case m == nil:
			wrong("%q belongs to no mutant", line)
		case line == "only":
			m.tests = nil
		case line == "root":
			m.root = true
		case word == "survives":
			m.survives = rest
		case line[0] == '-' || line[0] == '+' || line[0] == ' ':
			if line[0] != '+' {
				m.old += line[1:] + "\n"
			}
			if line[0] != '-' {
				m.new += line[1:] + "\n"
			}
		default:
			wrong("%q is nothing that is known", word)
		}
	}
	for _, m := range list {
		if m.old == m.new || len(m.tests) == 0 {
			errs = append(errs, fmt.Errorf("line %d: %s changes nothing, or has no test", m.line, m.name))
		}
	}
	return list, errors.Join(errs...)
}

// apply returns the file with the change made. The error says if the old lines
// are not there exactly once: then the list is older than the code.
func (m *mutant) apply(src string) (string, error) {
	var at []int // offsets
	for i := range src {
		if (i == 0 || src[i-1] == '\n') && strings.HasPrefix(src[i:], m.old) {
			at = append(at, i)
		}
	}
	if len(at) != 1 {
		return "", fmt.Errorf("%s:%d: %s: its old lines are in %s %d times, want once", listName,
			m.line, m.name, m.file, len(at))
	}
	return src[:at[0]] + m.new + src[at[0]+len(m.old):], nil
}

// pkg returns the package that a mutant changes, as "./store".
func (m *mutant) pkg() string { return "./" + path.Dir(m.file) }
