package e2e

import "testing"

// TestTell: with --tell the model reads what the user took back since its last turn.
func TestTell(t *testing.T) {
	needsNPM(t)
	for _, m := range makers {
		if m.child { // an extension has no such flag
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			s := &scene{actor: newActor(t, m)}
			s.snapctl("setup", m.name, "--yes", "--tell")
			s.begin("a.txt", "one\n")
			s.turn(fresh, "bash echo two > a.txt; echo new > b.txt ;; fin")
			s.snapctl("restore", "-y", "@~1")
			s.model.read("")
			s.say(goesOn, "write c.txt c ;; fin")
			const told = `Since your last turn the user took back turn 0: changed \"a.txt\" (1 hunk), deleted \"b.txt\".`
			if s.model.read(told) == 0 {
				t.Errorf("the model has not read %s", told)
			}
		})
	}
}
