package e2e

import (
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
	s.engines("STOP")
	tty.enter(script + " bash echo two > b.txt ;; second")
	tty.sees("snapctl: the engine does not answer")
	tty.sees("done: second")
	s.closes()
	s.check(s.session())
	s.engines("CONT")
}
