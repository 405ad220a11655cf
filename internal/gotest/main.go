// Command gotest runs go test and says at the end what was skipped and why, which go test itself
// does not tell: a machine without git would have its "ok" for half of the tests.
//
//	go run ./internal/gotest [-allow FILE] -- ARGUMENTS of go test
//
// It prints what go test prints without -v. With -allow each skip must have a reason that the file
// allows, else it ends with code 1: a line of the file is a regular expression, which the reason
// must match from its beginning, a tab, and why a machine that has all the tests need skips it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	code, err := run(os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

func run(out io.Writer) (code int, err error) {
	allow := flag.String("allow", "", "`FILE` with the reasons for which a test may be skipped (default any)")
	flag.Parse()
	var allowed []*regexp.Regexp
	if *allow != "" {
		if allowed, err = readAllowed(*allow); err != nil {
			return 0, err
		}
	}
	args := flag.Args()
	command := []string{"test"}
	if len(args) > 1 && args[0] == "-C" { // which has to come first
		command, args = append(command, args[:2]...), args[2:]
	}
	cmd := exec.Command("go", append(append(command, "-json"), args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	r := &report{out: out, said: make(map[test][]string)}
	if err := r.read(events); err != nil {
		return 0, errors.Join(err, cmd.Wait())
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = exit.ExitCode(), nil
	}
	if unexpected := r.end(allowed, *allow != ""); unexpected && code == 0 {
		code = 1
	}
	return code, err
}

// readAllowed reads the reasons that are allowed.
func readAllowed(file string) ([]*regexp.Regexp, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []*regexp.Regexp
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, why, _ := strings.Cut(line, "\t")
		if strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s: %q: want a regular expression, a tab, and why", file, line)
		}
		re, err := regexp.Compile("^(?:" + pattern + ")")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, re)
	}
	return list, nil
}

// A test is one, or with an empty name a package.
type test struct{ pkg, name string }

// An event is one of go test -json.
type event struct {
	Action, Package, Test, Output string
}

type report struct {
	out            io.Writer
	said           map[test][]string // lines of tests that have not ended
	passed, failed int
	skips          []skip
}

// A skip is a test that did not run.
type skip struct {
	test   test
	reason string
}

// read reads events, and prints what is of use at once: failures, and how packages ended.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			io.WriteString(r.out, line) // of go itself
			continue
		}
		r.add(&e)
	}
}

func (r *report) add(e *event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(r.out, e.Output)
	case "output":
		if e.Test != "" {
			r.said[t] = append(r.said[t], e.Output)
		} else if e.Output != "PASS\n" {
			io.WriteString(r.out, e.Output)
		}
	case "skip":
		if e.Test != "" {
			r.skips = append(r.skips, skip{t, reason(r.said[t])})
		}
		delete(r.said, t)
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		delete(r.said, t)
	case "fail":
		if e.Test != "" {
			r.failed++
			r.print(t)
			return
		}
		for unfinished := range r.said { // the process has ended within
			if unfinished.pkg == e.Package {
				r.print(unfinished)
			}
		}
	}
}

// print prints what a test has said.
func (r *report) print(t test) {
	for _, line := range r.said[t] {
		if !strings.HasPrefix(line, "=== ") {
			io.WriteString(r.out, line)
		}
	}
	delete(r.said, t)
}

var (
	position   = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)
	scriptSkip = regexp.MustCompile(`^(\[[^]]*\] )?skip\b`)
)

// reason finds why a test was skipped in what it has said: the last thing with a position, or
// the line of a script.
func reason(said []string) string {
	at := -1
	for i, line := range said {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok && scriptSkip.MatchString(command) {
			return command
		}
		if position.MatchString(line) {
			at = i
		}
	}
	if at < 0 {
		return "no reason"
	}
	text := said[at][len(position.FindString(said[at])):]
	for _, line := range said[at+1:] {
		if !strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
			text += line
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// end prints what was skipped, and how many tests there were. It reports whether a skip is
// not allowed.
func (r *report) end(allowed []*regexp.Regexp, strict bool) (unexpected bool) {
	by := make(map[string][]test)
	var reasons []string
	for _, s := range r.skips {
		if by[s.reason] == nil {
			reasons = append(reasons, s.reason)
		}
		by[s.reason] = append(by[s.reason], s.test)
	}
	slices.Sort(reasons)
	if len(reasons) > 0 {
		fmt.Fprintln(r.out, "\nNot tested, and why:")
	}
	for _, why := range reasons {
		mark := ""
		if strict && !slices.ContainsFunc(allowed, func(re *regexp.Regexp) bool { return re.MatchString(why) }) {
			mark, unexpected = "NOT ALLOWED HERE: ", true
		}
		fmt.Fprintf(r.out, "%5d  %s%s\n       %s\n", len(by[why]), mark, why, names(by[why]))
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips))
	return unexpected
}

// names names a few of many tests.
func names(tests []test) string {
	const most = 3
	var list []string
	for _, t := range tests[:min(len(tests), most)] {
		list = append(list, t.pkg[strings.LastIndex(t.pkg, "/")+1:]+"."+t.name)
	}
	text := strings.Join(list, ", ")
	if more := len(tests) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
