package e2e

import (
	"strings"
	"testing"
)

// TestClaudeHung: beside a resident engine that was stopped a turn is recorded, and Claude
// Code shows the user what the hook says of it.
func TestClaudeHung(t *testing.T) {
	needsNPM(t)
	s := &scene{actor: newActor(t, makers[0])}
	s.begin()
	tty := s.open(s.tty)
	tty.enter(script + " bash echo one > a.txt ;; first")
	tty.sees("done: first")
	s.closes()
	if log := s.snapctl("log", "--json", "-n", "1"); !strings.Contains(log, `"model":"claude-`) {
		t.Errorf("the turn has not the model with which the session began: %s", log)
	}
	s.engines("STOP")
	tty.enter(script + " bash echo two > b.txt ;; second")
	tty.sees("snapctl: the engine does not answer")
	tty.sees("done: second")
	s.closes()
	s.check(s.session())
	s.engines("CONT")
}

// TestClaudeMCP: a tool of our MCP server works within the turn that hooks record: it is not
// refused, and what it takes back and what the turn writes then goes back as one (ADR 33).
func TestClaudeMCP(t *testing.T) {
	needsNPM(t)
	s := &scene{actor: newActor(t, makers[0])}
	if out, err := s.command("mcp", "add", "snapctl", "--", "snapctl", "mcp").CombinedOutput(); err != nil {
		t.Fatalf("mcp add: %v\n%s", err, out)
	}
	s.begin("own.txt", "0\n")
	s.looks()
	s.say(fresh, "write a.txt a ;; mcp snapshot_create ;; mcp restore target=start ;; write b.txt b ;; fin")
	begun := s.asked[0]
	if d := begun.changes(s.was); len(s.asked) != 5 || len(d) > 0 {
		t.Fatalf("the model was asked %d times, want 5, first when %q differed", len(s.asked), d)
	}
	s.want = append(s.want, moment{"turn", []string{"A a.txt"}, s.asked[2]},
		moment{"restore", []string{"D a.txt"}, s.asked[3]}, moment{"turn", []string{"A b.txt"}, s.asked[4]})
	s.has("own.txt", "0\n", "a.txt", "-", "b.txt", "b\n")
	s.check(s.session())
	s.snapctl("restore", "-y", "@~1")
	s.has("own.txt", "0\n", "a.txt", "-", "b.txt", "-")
	s.snapctl("undo")
	s.has("own.txt", "0\n", "a.txt", "-", "b.txt", "b\n")
	s.snapctl("undo")
	s.has("own.txt", "0\n", "a.txt", "a\n", "b.txt", "b\n")
}
