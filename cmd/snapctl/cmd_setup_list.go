package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/words"
)

// A listedAgent is what 'setup --list' prints of an agent as JSON.
type listedAgent struct {
	Agent   string     `json:"agent"`
	Title   string     `json:"title"`
	Program string     `json:"program,omitempty"` // that PATH finds; "": none
	SetUp   []jsonPath `json:"setUp"`             // files, or directories, in which it is
}

// listAgents says which agents there are, which are found here, and where hooks or
// extensions of ours are.
func (a *app) listAgents() error {
	unknown := false
	for _, agent := range agents.All {
		l := listedAgent{Agent: agent.Name, Title: agent.Title, SetUp: []jsonPath{}}
		if program, err := exec.LookPath(agent.Name); err == nil {
			l.Program = program
		}
		var places []string // each once: the default is one of the others with some
		for _, f := range []setupFlags{{}, {project: true}, {user: true}} {
			name, err := a.settingsOf(agent, &f)
			if err != nil {
				return err
			}
			if slices.Contains(places, name) {
				continue
			}
			places = append(places, name)
			is, gone, err := isSetUp(agent, name)
			if err != nil {
				unknown = true
				a.tell("warning: whether %s is set up is not known: %v", agent.Title, err)
			}
			for _, program := range gone {
				unknown = true
				a.tell("warning: %s records nothing by %s: its hooks run %s, which is not there; "+
					"'snapctl setup %s%s' writes them anew", agent.Title, words.Quote(name), words.Quote(program),
					agent.Name, f.place())
			}
			if is {
				l.SetUp = append(l.SetUp, newJSONPath(name))
			}
		}
		if a.flags.json {
			if err := a.printJSON(&l); err != nil {
				return err
			}
			continue
		}
		here, where := "not found", ""
		if l.Program != "" {
			here = "found"
		}
		for i, p := range l.SetUp {
			where += []string{"set up in ", ", "}[min(i, 1)] + words.Quote(p.Path)
		}
		line := fmt.Sprintf("%-10s %-12s %-10s %s", agent.Name, agent.Title, here, where)
		fmt.Fprintln(a.out, strings.TrimRight(line, " "))
	}
	if unknown {
		return &failure{code: exitPart}
	}
	return nil
}

// place returns the flag that says which settings are meant.
func (f *setupFlags) place() string {
	switch {
	case f.user:
		return " --user"
	case f.project:
		return " --project"
	}
	return ""
}

// isSetUp reports whether hooks of ours are in a file, or a file of ours below a
// directory, and which programs that hooks run are not there. The error names the file.
func isSetUp(agent *agents.Agent, place string) (is bool, gone []string, err error) {
	if agent.HasHooks() {
		text, _, err := readSettings(place)
		if err != nil || text == nil {
			return false, nil, err
		}
		without, err := agent.RemoveHooks(text)
		if err != nil {
			return false, nil, fmt.Errorf("%q: %w", place, err)
		}
		for _, program := range agent.Programs(text) {
			if _, err := exec.LookPath(program); err != nil {
				gone = append(gone, program)
			}
		}
		return without == nil || !bytes.Equal(without, text), gone, nil
	}
	for _, own := range agent.Own() {
		text, _, err := readSettings(filepath.Join(place, filepath.FromSlash(own.Path)))
		if err != nil || agents.IsOwn(text) {
			return err == nil, nil, err
		}
	}
	return false, nil, nil
}
