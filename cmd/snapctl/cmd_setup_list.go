package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
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
	for _, agent := range agents.All {
		l := listedAgent{Agent: agent.Name, Title: agent.Title, SetUp: []jsonPath{}}
		if program, err := exec.LookPath(agent.Name); err == nil {
			l.Program = program
		}
		for _, f := range []setupFlags{{}, {project: true}, {user: true}} {
			name, err := a.settingsOf(agent, &f)
			if err != nil {
				return err
			}
			if p := newJSONPath(name); isSetUp(agent, name) && (len(l.SetUp) == 0 || l.SetUp[0].Path != p.Path) {
				l.SetUp = append(l.SetUp, p)
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
	return nil
}

// isSetUp reports whether hooks of ours are in a file, or a file of ours below a
// directory.
func isSetUp(agent *agents.Agent, place string) bool {
	if agent.HasHooks() {
		text, _, err := readSettings(place)
		if err != nil || text == nil {
			return false
		}
		without, err := agent.RemoveHooks(text)
		return err == nil && (without == nil || !bytes.Equal(without, text))
	}
	for _, own := range agent.Own() {
		text, _, err := readSettings(filepath.Join(place, filepath.FromSlash(own.Path)))
		if err == nil && agents.IsOwn(text) {
			return true
		}
	}
	return false
}
